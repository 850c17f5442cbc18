package send

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

// TestScript: a script goes to an executor as its dialect has it, byte for byte, whatever its kind;
// the time of its version is its glueUpdatetime.
func TestScript(t *testing.T) {
	check.Long(t)
	types := map[core.ScriptKind]string{core.ScriptShell: "GLUE_SHELL", core.ScriptPython: "GLUE_PYTHON", core.ScriptNodeJS: "GLUE_NODEJS",
		core.ScriptPHP: "GLUE_PHP", core.ScriptPowerShell: "GLUE_POWERSHELL", core.ScriptGroovy: "GLUE_GROOVY"}
	source := "#!/bin/sh\r\necho \"ü\u2028\" <&\\\t\x01\r\n" + strings.Repeat("\x01", core.MaxScript-100)
	for dialect, path := range map[wire.Dialect]string{wire.DialectA: "/run", wire.DialectB: "/run", wire.DialectC: "/run",
		wire.DialectD: "/trigger"} {
		for _, kind := range core.ScriptKinds {
			var got wire.Run
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
				if err == nil {
					got, err = wire.DecodeRun(body)
				}
				if err != nil || r.URL.Path != path {
					t.Errorf("%s %s: %v", dialect, r.URL.Path, err)
				}
				io.WriteString(w, `{"code":200}`)
			}))
			sh := shipment(srv.URL, "")
			sh.Dialect, sh.Source, sh.Params = dialect.String(), source, "a b"
			sh.Job.Def.Script = core.ScriptOf(kind, "", source)
			sh.Job.Def.Script.Version, sh.Job.Def.Script.Rev = 3, 1_790_000_000_123
			a := newSender(t, Options{}).Send(context.Background(), sh)
			if a.Kind != dispatch.AnswerAccepted || got.GlueType != types[kind] || got.GlueSource != source ||
				got.GlueUpdated != 1_790_000_000_123 ||
				got.Handler != "" || got.Params != "a b" || got.BroadcastTotal != 1 {
				t.Errorf("%s %s: %v %s, %s with %d bytes of %d", dialect, kind, a.Kind, a.Message, got.GlueType, len(got.GlueSource), got.GlueUpdated)
			}
			srv.Close()
		}
	}
	sh := shipment("http://127.0.0.1:1", "warm")
	if r := order(sh); r.GlueType != "BEAN" || r.GlueSource != "" || r.Handler != "warm" {
		t.Errorf("%+v", r)
	}
}

// TestScriptElsewhere: endpoints, functions and queues get no scripts.
func TestScriptElsewhere(t *testing.T) {
	called := false
	srv := serve(t, func(http.ResponseWriter, *http.Request) { called = true })
	s, texts := newSender(t, Options{}), golden.New(t)
	for _, address := range []string{"call:" + srv.URL, "lambda:f", "queue:q"} {
		sh := shipment(address, "")
		sh.Job.Def.Script = core.ScriptOf(core.ScriptShell, "", "x")
		if a := s.Send(context.Background(), sh); a.Kind != dispatch.AnswerRefused || called {
			t.Errorf("%s: %v %q, called %v", address, a.Kind, a.Message, called)
		} else {
			texts.Equal(t, strings.Replace(address, srv.URL, "URL", 1), a.Message, srv.URL, "URL")
		}
	}
}
