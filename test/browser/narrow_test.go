package browser

import "testing"

// TestPhone: on a screen of 390 px many jobs are picked and acted on, and anything is found, by taps alone.
func TestPhone(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{narrow: true})
	p.logIn()
	p.open("/console/jobs")
	for _, job := range []string{"shop/prices", "shop/stock"} {
		p.click(`css:input[data-pick][value="` + job + `"]`)
	}
	p.wait("document.querySelector('[data-count]').textContent === '2'")
	for _, bad := range p.layout(p.width) {
		t.Error(bad)
	}
	p.click(pauseLink)
	p.wait("document.querySelectorAll('dialog input[name=pick]').length === 2")
	p.open("/console/jobs")
	p.click("css:nav [data-find]")
	p.fill("css:dialog.palette input", "ledger-sync")
	p.click("pay/ledger-sync")
	p.at("/console/jobs/pay/ledger-sync")
}

// TestFrame: the server's clock advances by itself, and a field for a job suggests existing jobs.
func TestFrame(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{lang: "zh"})
	p.logIn()
	p.open("/console/runs")
	was := eval[string](p, "document.querySelector('[data-clock]').textContent")
	p.wait("document.querySelector('[data-clock]').textContent !== '" + was + "'")
	p.fill("css:input[name=job]", "ledger")
	p.wait("!!document.querySelector('#jobs-named option[value=\"pay/ledger-sync\"]')")
	p.open("/console/") // scheduled times are in the page's language, even after the script updates them
	p.wait("[...document.querySelectorAll('[data-at]')].some((e) => /后$/.test(e.textContent))")
}
