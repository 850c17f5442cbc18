package browser

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tickring/tickring/internal/testkit/check"
)

// stays answers "leave this page?" by no, and sends each time that it is asked.
func (p *page) stays() <-chan struct{} {
	p.tb.Helper()
	asked := make(chan struct{}, 10)
	listen(p, chromedp.Events(p.ctx, cdpage.JavascriptDialogOpening), func(cdpage.EventJavascriptDialogOpening) {
		if _, err := chromedp.Call(p.ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{}); err != nil {
			p.tb.Error(err)
		}
		asked <- struct{}{}
	})
	return asked
}

// TestLeavingAsks: users who change the language or clock, or log out, with a half-filled form are asked first. If they stay, page,
// text and choice are unchanged. Sending the form asks nothing.
func TestLeavingAsks(t *testing.T) {
	_, p := entered(t)
	asked := p.stays()
	isAsked := func(after string) {
		t.Helper()
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatalf("no question was shown after %s, and the page is %s: %s", after, p.url(), p.text())
		}
	}
	p.open("/console/jobs/shop/prices?view=edit")
	p.fill("css:[name=title]", "Half a t")
	p.press("i")
	for _, leave := range []func(){
		func() { p.choose("css:[name=lang]", "zh") },
		func() { p.choose("css:[name=zone]", "utc") },
		func() { p.click(logOut) },
		func() { p.click(logOut) }, // staying, it may be meant again
	} {
		leave()
		isAsked("a choice")
		p.wait("document.querySelector('[name=title]').value === 'Half a ti'")
		p.wait("document.querySelector('[name=lang]').value === 'en' && document.querySelector('[name=zone]').value === 'job'")
	}
	// A rejected form counts as typed and unsaved too.
	p.may("status of 400")
	p.fill("css:[name='expr.0']", "seldom")
	p.wait("document.querySelector('#check .error')") // it appears later, and moves the button
	p.click("css:form#first .buttons button.first")
	p.at("/console/jobs/shop/prices/edit")
	p.click(logOut)
	isAsked("an error")
	p.fill("css:[name='expr.0']", "2h")
	p.wait("!document.querySelector('#check .error')")
	p.click("css:form#first .buttons button.first")
	p.wait("location.pathname + location.search === '/console/jobs/shop/prices' && document.readyState === 'complete'")
	p.sees("Half a ti")
	if len(asked) > 0 {
		t.Error("saving shows the question whether to leave")
	}
}

// TestClosedPanelIsForgotten: text typed in a closed panel no longer holds the page: the page shows changes, and can be left
// without a question.
func TestClosedPanelIsForgotten(t *testing.T) {
	w, p := entered(t)
	asked := p.stays()
	for says, open := range map[string]func(){
		"opened by a click": func() { p.open("/console/executors/shop"); p.click("css:a[data-key=e]") },
		"opened by a link":  func() { p.open("/console/executors/shop?panel=edit") },
	} {
		open()
		p.fill("css:dialog [name=title]", "The sho")
		call(p, input.InsertText, input.InsertTextParams{Text: "e"})
		p.press(kb.Escape)
		p.wait("!document.querySelector('dialog:modal')")
		w.OK(t, "", "pause", "shop", "--reason", says)
		p.sees(says)
		p.click(jobsLink)
		p.at("/console/jobs")
		if len(asked) > 0 {
			t.Fatal("leaving the page of a closed panel shows the question")
		}
	}
}

// typedDuringACheck: text that is typed while the form waits for the answer to the text before is checked too.
func typedDuringACheck(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.open("/console/jobs/shop/prices?view=edit")
	eval[bool](p, `(() => { const real = fetch; let first = true; window.fetch = async (...a) => { const answer = await real(...a);
		if (first) { first = false; await new Promise((done) => { window.answer = done }) } return answer }; return true })()`)
	p.fill("css:[name='expr.0']", "2h")
	p.wait("window.answer")
	p.fill("css:[name='expr.0']", "seldom")
	eval[bool](p, "window.answer() || true")
	p.wait("document.querySelector('#check .error')")
}

// templateOfItsLanguage: an unedited script is the template of the selected language; an edited script stays.
func templateOfItsLanguage(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.open("/console/jobs/new?app=shop")
	p.click("css:[name=what][value=script]")
	p.wait("document.querySelector('[name=\"script.source\"]').value.startsWith('#!/bin/bash')")
	p.choose("css:[name=\"script.kind\"]", "python")
	p.wait("document.querySelector('[name=\"script.source\"]').value.startsWith('import sys')")
	p.fill("css:[name=\"script.source\"]", "print(1)")
	p.choose("css:[name=\"script.kind\"]", "php")
	p.wait("document.querySelector('[name=\"script.source\"]').value === 'print(1)'")
}

// commonScheduleIsTaken: a selected common schedule is put in the last row, can be changed there, and is described in words.
func commonScheduleIsTaken(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.open("/console/jobs/new?app=shop")
	p.choose("css:[name=common]", "cron 0 0 18 L * ?")
	p.wait("document.querySelector('[name=\"kind.0\"]').value === 'cron' && document.activeElement.value === '0 0 18 L * ?'")
	p.wait("document.querySelector('#check').innerText.includes('at 18:00')")
	p.wait("document.querySelector('[name=common]').value === ''")
}

// scriptIsRunFromItsPage: the panel that runs a job opens over the page of its script, and half-typed text there stays.
func scriptIsRunFromItsPage(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.open("/console/jobs/reports/script/script")
	p.fill("css:#source", "echo half")
	p.click(runLink)
	p.wait("!!document.querySelector('dialog:modal textarea[name=params]')")
	p.press(kb.Escape)
	p.wait("!document.querySelector('dialog') && document.querySelector('#source').value === 'echo half'")
	check.Equal(t, eval[string](p, "location.pathname"), "/console/jobs/reports/script/script", "the page")
}
