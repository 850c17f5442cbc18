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
	p.click(jobsLink)
	p.at("/console/jobs")
	p.fill("css:input[name=text]", "sto")
	p.press(kb.Enter)
	p.at("/console/jobs?")
	p.sees("shop/stock")
	p.wait("!document.querySelector('main').innerText.includes('shop/prices')")

	p.click("shop/stock")
	p.at("/console/jobs/shop/stock")
	p.click(pauseLink)
	p.wait("document.querySelector('dialog [name=reason]') && !tickringTest.element('css:dialog [data-close]')")
	p.fill("css:[name=reason]", "no script runs")
	p.click(submit)
	p.sees("no script runs")
	p.click(runLink)
	p.click(submit)
	p.at("/console/runs/")
	p.sees("shop/stock")

	p.open("/console/jobs?app=shop")
	p.click(`css:input[name=pick][value="shop/prices"]`)
	p.click(`css:input[name=pick][value="shop/sums"]`)
	p.click("css:button[name=panel][value=pause]")
	p.wait("document.querySelectorAll('dialog input[name=pick]').length === 2")
	p.sees("shop/prices, shop/sums")
	p.fill("css:[name=reason]", "two at once")
	p.click(submit)
	p.click("css:p#first a") // exists when all are done
	p.at("/console/jobs?app=shop")
	p.wait("document.body.innerText.split('two at once').length === 3")
}
