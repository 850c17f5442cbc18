package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// scriptBody returns JSON with any source in it.
func scriptBody(t *testing.T, form map[string]any) string {
	t.Helper()
	b, err := json.Marshal(form)
	check.OK(t, err)
	return string(b)
}

func TestScripts(t *testing.T) {
	texts := golden.New(t)
	f := newFixture(t)
	f.shop()
	one, two := "#!/bin/sh\r\necho <1> ü\r\n", "#!/bin/sh\r\necho <2> ü\r\n"
	job := func(script map[string]any) string { return scriptBody(t, map[string]any{"script": script}) }
	f.must("PUT", "/v1/jobs/shop/clean", job(map[string]any{"kind": "shell", "source": one, "note": "first"}))
	read := func(path string, into any) {
		t.Helper()
		check.OK(t, json.Unmarshal([]byte(f.must("GET", path, "")), into))
	}
	var j client.Job
	read("/v1/jobs/shop/clean", &j)
	if s := j.Script; s.Version != 1 || s.Hash != core.HashScript(one) || s.Size != len(one) || s.Note != "first" || s.Source != "" ||
		s.At.UnixMilli() != j.Rev ||
		j.Handler != "" {
		t.Errorf("%+v", s)
	}
	f.must("PUT", "/v1/jobs/shop/clean/script", scriptBody(t, map[string]any{"source": two, "note": "second"}))
	var s client.Script
	read("/v1/jobs/shop/clean/scripts/0", &s)
	if s.Source != two || s.Version != 2 || s.Kind != "shell" {
		t.Errorf("%+v", s)
	}
	read("/v1/jobs/shop/clean/scripts/1", &s)
	if s.Source != one || s.Version != 1 {
		t.Errorf("%+v", s)
	}
	var d client.ScriptDiff
	read("/v1/jobs/shop/clean/scripts/0/diff", &d)
	if d.From != 1 || d.To != 2 || d.Text != "--- shop/clean version 1\n+++ shop/clean version 2\n@@ -1,2 +1,2 @@\n "+
		"#!/bin/sh\r\n-echo <1> ü\r\n+echo <2> ü\r\n" {
		t.Errorf("%+v", d)
	}
	f.must("PUT", "/v1/jobs/shop/clean/script", `{"version":1}`)
	read("/v1/jobs/shop/clean/scripts/3/diff?from=1", &d)
	if d.From != 1 || d.To != 3 || d.Text != "" {
		t.Errorf("%+v", d)
	}
	var list client.ScriptList
	read("/v1/jobs/shop/clean/scripts", &list)
	if len(list.Versions) != 3 || list.Versions[0].Version != 3 || list.Versions[0].Hash != core.HashScript(one) ||
		list.Versions[2].Note != "first" ||
		list.Versions[1].Source != "" {
		t.Errorf("%+v", list)
	}

	// The parameters of a run include the version of its script.
	read("/v1/jobs/shop/clean", &j)
	f.must("PUT", "/v1/jobs/shop/clean", job(map[string]any{"kind": "shell", "hash": core.HashScript(two)}))
	for _, c := range []struct {
		path, body string
		status     int
		field      string
	}{
		{"clean", job(map[string]any{"kind": "perl", "source": "x"}), 400, "script.kind"},
		{"clean", job(map[string]any{"kind": "shell"}), 400, "script.source"},
		{"clean", job(map[string]any{"kind": "shell", "source": "a\x00b"}), 400, "script.source"},
		{"clean", job(map[string]any{"kind": "shell", "source": strings.Repeat("x", core.MaxScript+1)}), 413, "script.source"},
		{"clean", job(map[string]any{"kind": "shell", "source": strings.Repeat("\x01", core.MaxScript+1)}), 413, "script.source"},
		// As JSON, the source before this line is six times as long.
		{"clean", job(map[string]any{"kind": "shell", "source": "x", "hash": core.HashScript("y")}), 400, "script.hash"},
		{"clean", job(map[string]any{"kind": "shell", "hash": core.HashScript("y")}), 400, "script.hash"},
		{"clean", `{"handler":"h","script":{"kind":"shell","source":"x"}}`, 400, "handler"},
		{"clean", `{}`, 400, "handler"},
		{"clean/script", `{}`, 400, "source"},
		{"clean/script", `{"version":1,"source":"x"}`, 400, "version"},
		{"clean/script", `{"version":-1}`, 400, "version"},
		{"clean/script", `{"version":9}`, 404, "version"},
		{"clean/script", `{"source":"x","ifRev":1}`, 409, ""},
		{"report/script", `{"source":"x"}`, 409, ""},
		{"none/script", `{"source":"x"}`, 404, ""},
	} {
		status, text := f.ask("PUT", "/v1/jobs/shop/"+c.path, c.body)
		e := errorOf(t, text)
		if status != c.status || e.Field != c.field {
			t.Errorf("%s %.80s: %d %s, want %d at %q", c.path, c.body, status, text, c.status, c.field)
		}
		texts.Equal(t, fmt.Sprintf("%s %.110s", c.path, c.body), varying.ReplaceAllString(e.Message, "$1 #"))
	}
	most := strings.Repeat("\x01", core.MaxScript) // each byte is written as six
	f.must("PUT", "/v1/jobs/shop/clean/script", scriptBody(t, map[string]any{"source": most}))
	read("/v1/jobs/shop/clean/scripts/0", &s)
	if s.Source != most {
		t.Errorf("%d bytes", len(s.Source))
	}
	for version, want := range map[string]int{"99": 404, "x": 400, "-1": 400, "99999999999": 400} {
		for _, what := range []string{"", "/diff"} {
			if status, _ := f.ask("GET", "/v1/jobs/shop/clean/scripts/"+version+what, ""); status != want {
				t.Errorf("%s%s: %d", version, what, status)
			}
		}
	}
	if status, _ := f.ask("GET", "/v1/jobs/shop/clean/scripts/1/diff", ""); status != 404 {
		t.Error(status)
	}
}
