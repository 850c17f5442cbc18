package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestErrands counts the clicks of four errands, each from the page at which one is when it
// comes up.
func TestErrands(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.logIn()
	var clicks [4]int

	// The last failed run of a job whose name is known, its message and its log.
	p.open("/console/")
	p.clicked()
	p.click(jobsLink)
	p.at("/console/jobs")
	p.click("css:tr:has(a[href='/console/jobs/pay/ledger-sync']) td a[href^='/console/runs/']")
	p.sees("pay/ledger-sync", "failed", "upstream connect error", "Log")
	clicks[0] = p.clicked()

	p.open("/console/jobs?app=shop")
	p.clicked()
	p.click("css:tbody tr:nth-child(1) input[data-pick]")
	p.click("css:tbody tr:nth-child(5) input[data-pick]", kb.ModifierShift)
	p.click(pauseLink)
	p.fill("css:dialog [name=reason]", "five at once")
	p.click(submit)
	p.wait("document.querySelector('p#first a')") // exists when all are done
	clicks[1] = p.clicked()
	p.open("/console/jobs?app=shop")
	p.wait("document.body.innerText.split('five at once').length === 6")

	p.open("/console/")
	p.clicked()
	p.click(`css:nav a[href="/console/upcoming"]`)
	p.sees("shop/burst-a", "reports/nightly", "18:30")
	clicks[2] = p.clicked()

	p.open("/console/jobs/shop/prices")
	p.clicked()
	p.click("css:main a[href='/console/jobs/shop/prices/audit-log']")
	p.at("/console/jobs/shop/prices/audit-log")
	p.sees("admin-token")
	clicks[3] = p.clicked()

	record(8, "clicks: last failure with its log / pause five / what fires tonight / who changed it", "12 / 15 / impossible / impossible",
		"3 / 4 / 1 / 1", "%d / %d / %d / %d", clicks[0], clicks[1], clicks[2], clicks[3])
	for i, most := range [4]int{3, 4, 1, 1} {
		if clicks[i] > most {
			t.Errorf("errand %d took %d clicks, not %d", i+1, clicks[i], most)
		}
	}
}
