package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestScripts: scripts are read, edited, compared and restored. The slower of two editors loses no input.
func TestScripts(t *testing.T) {
	s := newConsole(t)
	s.says("/console/scripts", "No jobs run a script.", "tickring script put")
	s.ask("PUT", "/v1/jobs/shop/plain", `{"handler":"sweep"}`)
	s.ask("PUT", "/v1/jobs/shop/sweep", `{"title":"<i>T</i>","script":{"kind":"shell","source":"echo </textarea><b>one</b>\n","note":"first"}}`)
	s.never(s.says("/console/scripts", "shop/sweep", "shell", "1 of 2 jobs", "first"), "shop/plain")
	const at = "/console/jobs/shop/sweep/script"
	s.says(at, "Script of shop/sweep", "echo </textarea><b>one</b>", "Save as a new version", "tickring script edit")
	s.never(s.get(at).Body.String(), "<b>one", "<i>T")
	form := s.form(at)
	s.done(at, with(form, "source", "echo two\r\nexit 0\r\n", "note", "second", "kind", "shell"), "has a new script version", "echo two",
		"second",
		"tickring script restore shop/sweep 1")
	s.done(at, form, "already has this script")
	s.says(at+"?version=1", "This is version 1", "<b>one</b>")
	body := s.says(at, `href="/console/jobs/shop/sweep?panel=run" data-panel`)
	row := cutOut(body, `<tr id="version-2" aria-current="true">`, "</tr>")
	if !strings.Contains(row, "the current version") || strings.Contains(row, "Restore") {
		t.Errorf("the current version is not marked: %s", body)
	}
	s.never(cutOut(body, `<tr id="version-1"`, "</tr>"), "the current version", "aria-current")
	s.never(s.get(at+"?version=1").Body.String(), "panel=run") // it would run the current version
	s.says(at+"?diff=2", "d-add", "d-del", "from version 1 to 2", "+echo two")
	s.wrong(at, with(s.form(at), "rev", "1", "source", "echo mine"), http.StatusConflict, "echo mine", "-echo two", "Overwrite with mine")
	s.wrong(at, with(s.form(at), "source", ""), http.StatusBadRequest, "source")
	s.done(at, url.Values{"rev": {s.form(at).Get("rev")}, "version": {"1"}}, "<b>one</b>", "same as version 1")
	s.loses(at+"?version=x", http.StatusBadRequest, "version numbers start at 1")
	s.loses(at+"?version=99", http.StatusNotFound)
	s.says("/console/jobs/shop/plain/script?kind=python", "no script yet", "import sys", "replaces the current work of the job: sweep")
	s.done("/console/jobs/shop/plain/script", s.form("/console/jobs/shop/plain/script?kind=python"), "has a new script version",
		"python, version 1")
	s.loses("/console/jobs/shop/none/script", http.StatusNotFound)
}
