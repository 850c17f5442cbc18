package console_test

import (
	"net/http"
	"net/url"
	"testing"
)

// TestScripts: scripts are read, edited, compared and restored. The slower of two editors loses no input.
func TestScripts(t *testing.T) {
	s := goldenConsole(t)
	s.shows("#first,.cli", "/console/scripts")
	s.ask("PUT", "/v1/jobs/shop/plain", `{"handler":"sweep"}`)
	s.ask("PUT", "/v1/jobs/shop/sweep", `{"title":"<i>T</i>","script":{"kind":"shell","source":"echo </textarea><b>one</b>\n","note":"first"}}`)
	s.never(s.shows("#live", "/console/scripts", "shop/sweep"), "shop/plain")
	const at = "/console/jobs/shop/sweep/script"
	s.shows("#live", at, "echo </textarea><b>one</b>")
	s.never(s.get(at).Body.String(), "<b>one", "<i>T")
	form := s.form(at)
	s.done(at, with(form, "source", "echo two\r\nexit 0\r\n", "note", "second", "kind", "shell"), "echo two", "second")
	s.compare("two versions", ".rows,.cli")
	s.done(at, form)
	s.shows(".warn", at+"?version=1", "<b>one</b>")
	body := s.says(at, `href="/console/jobs/shop/sweep?panel=run" data-panel`)
	s.never(cutOut(body, `<tr id="version-2" aria-current="true">`, "</tr>"), "<form")
	s.never(cutOut(body, `<tr id="version-1"`, "</tr>"), "aria-current")
	s.never(s.get(at+"?version=1").Body.String(), "panel=run") // it would run the current version
	s.shows("td", at+"?diff=2", "d-add", "d-del", "+echo two")
	s.wrong(at, with(s.form(at), "rev", "1", "source", "echo mine"), http.StatusConflict, "echo mine", "-echo two")
	s.compare("the conflict", "p,.buttons")
	s.wrong(at, with(s.form(at), "source", ""), http.StatusBadRequest, "source")
	s.done(at, url.Values{"rev": {s.form(at).Get("rev")}, "version": {"1"}}, "<b>one</b>")
	s.compare("three versions", ".rows")
	s.loses(at+"?version=x", http.StatusBadRequest)
	s.loses(at+"?version=99", http.StatusNotFound)
	s.shows(".head,.warn", "/console/jobs/shop/plain/script?kind=python", "import sys")
	s.done("/console/jobs/shop/plain/script", s.form("/console/jobs/shop/plain/script?kind=python"))
	s.compare("the first version", ".head")
	s.loses("/console/jobs/shop/none/script", http.StatusNotFound)
}
