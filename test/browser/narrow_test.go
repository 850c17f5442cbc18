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
	p.sees("2 picked")
	for _, bad := range p.layout(p.width) {
		t.Error(bad)
	}
	p.click("Pause…")
	p.sees("the 2 that are picked")
	p.open("/console/jobs")
	p.click("Find")
	p.fill("css:dialog.palette input", "ledger-sync")
	p.click("pay/ledger-sync")
	p.at("/console/jobs/pay/ledger-sync")
}
