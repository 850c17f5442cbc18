package browser

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"
)

// TestWithoutScripts: without scripts users can log in, filter the list, pause a job by its panel, run it, and change several
// selected jobs. Controls that need scripts are hidden.
func TestWithoutScripts(t *testing.T) {
	w := bare(t)
	w.OK(t, `
version: 1
apps: [{name: shop, executors: ["http://127.0.0.1:9"]}]
jobs:
  - {app: shop, name: prices, handler: h, schedule: {every: 1h}}
  - {app: shop, name: stock, handler: h, schedule: {every: 1h}}
  - {app: shop, name: sums, handler: h}
`, "apply", "-f", "-")
	p := newPage(t, w.URL, manner{})
	p.still = true
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.logIn()
	p.click("Jobs")
	p.at("/console/jobs")
	p.fill("css:input[name=text]", "sto")
	p.press(kb.Enter)
	p.at("/console/jobs?")
	p.sees("shop/stock")
	p.wait("!document.querySelector('main').innerText.includes('shop/prices')")

	p.click("shop/stock")
	p.at("/console/jobs/shop/stock")
	p.click("Pause…")
	p.sees("Users who see the paused job read this reason.")
	p.wait("!tickringTest.element('Cancel')")
	p.fill("Reason", "no script runs")
	p.click("css:dialog button.first")
	p.sees("paused by", "no script runs")
	p.click("Run now…")
	p.click("css:dialog button.first")
	p.at("/console/runs/")
	p.sees("shop/stock")

	p.open("/console/jobs?app=shop")
	p.click(`css:input[name=pick][value="shop/prices"]`)
	p.click(`css:input[name=pick][value="shop/sums"]`)
	p.click("Pause…")
	p.sees("the 2 selected", "shop/prices, shop/sums")
	p.fill("Reason", "two at once")
	p.click("css:dialog button.first")
	p.sees("2 of 2 done")
	p.click("Back to the jobs")
	p.at("/console/jobs?app=shop")
	p.wait("document.body.innerText.split('two at once').length === 3")
}
