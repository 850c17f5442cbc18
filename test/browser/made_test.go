package browser

import "testing"

// TestJobIsMade: a job is created by its form, which shows errors at their fields and explains the schedule before saving. The job
// is edited, and deleted.
func TestJobIsMade(t *testing.T) {
	_, p := entered(t)
	p.open("/console/jobs")
	p.click(`css:a[href="/console/jobs/new"]`)
	p.at("/console/jobs/new")
	p.fill("css:[name=app]", "shop")
	p.fill("css:[name=name]", "sums")
	p.fill("css:[name=handler]", "fine")
	p.fill("css:[name='expr.0']", "61 2 * * 1-5")
	// The mark is below the wrong character.
	p.wait("/^61 2 \\* \\* 1-5\\s*\\n\\^/.test(document.querySelector('#check .caret')?.textContent || '')")
	p.fill("css:[name='expr.0']", "30 2 * * 1-5")
	p.fill("css:[name=timezone]", "Europe/Berlin")
	p.sees("at 02:30, Monday to Friday")
	p.wait("document.querySelector('#check th').innerText.includes('Berlin')")
	p.wait("document.querySelectorAll('#check tbody tr').length === 10")
	p.click("css:form#first .buttons button.first")
	p.at("/console/jobs/shop/sums")
	p.sees("at 02:30, Monday to Friday")

	p.click(`css:a[href$="view=edit"]`)
	p.at("/console/jobs/shop/sums?view=edit") // its script receives the input from here on
	p.fill("css:[name='expr.0']", "45 3 * * *")
	p.sees("at 03:45")
	p.click("css:form#first .buttons button.first")
	p.wait("location.pathname + location.search === '/console/jobs/shop/sums' && document.readyState === 'complete'")
	p.sees("at 03:45")
	p.click("css:#more-acts summary")
	p.click(`css:a[href*="panel=delete"]`)
	p.fill("css:dialog input[name=name]", "shop/sums")
	p.click("css:dialog button.danger")
	p.confirmed()
	p.open("/console/jobs?app=shop")
	p.sees("shop/prices")
	p.wait("!document.querySelector('main').innerText.includes('shop/sums')")
}
