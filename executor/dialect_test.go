package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// TestDialects: the executor works with an admin of each version. Requests and fields are written from the description of the
// protocol and not from package wire.
func TestDialects(t *testing.T) {
	const at = "1586629003729"
	for _, c := range []struct {
		name, path, time string // of a run
		callback, result string // parts of the callback that the admin reads
		log              string // member of the reply that has the lines of a log
	}{
		{"A", "/run", "logDateTim", `[{`, `"executeResult":{"code":200,"msg":"said p"}`, "content"},
		{"B", "/run", "logDateTim", `[{`, `"handleCode":200,"handleMsg":"said p"`, "content"},
		{"C", "/run", "logDateTim", `[{`, `"handleCode":200,"handleMsg":"said p"`, "data"},
		{"D", "/trigger", "logDateTime", `{"callbackList":[{`, `"handleCode":200,"handleMsg":"said p"`, "data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mux := muxOf("says", func(_ context.Context, r *Run) error {
				r.Printf("hello %s", r.Params)
				r.SetResult(Success, "said "+r.Params)
				return nil
			})
			f := newFake()
			var result string
			f.answer = func(_, path string, body []byte) string {
				switch {
				case path != "/api/callback":
				case !bytes.HasPrefix(body, []byte(c.callback)):
					if c.path == "/trigger" {
						t.Errorf("a caller of /trigger is of dialect D, and gets %s", body)
					}
					return `{"code":500,"msg":"Expected another type"}`
				default:
					result = string(body)
				}
				return taken
			}
			// the runs are from 2020, and the first sweep may run between them
			e := start(t, mux, f, func(o *Options) { o.LogRetention = -1 })
			ask := func(path, body string) (m map[string]any) {
				r := httptest.NewRequest(http.MethodPost, "http://here"+path, strings.NewReader(body))
				if c.name == "D" {
					r.Header.Set("XXL-JOB-APPNAME", "demo")
				}
				w := httptest.NewRecorder()
				e.ServeHTTP(w, r)
				check.OK(t, json.Unmarshal(w.Body.Bytes(), &m))
				return m
			}
			for _, p := range []struct{ path, body string }{
				{"/beat", ""}, {"/idleBeat", `{"jobId":1}`}, {"/kill", `{"jobId":1}`},
				{c.path, `{"jobId":1,"executorHandler":"says","executorParams":"p","executorBlockStrategy":"SERIAL_EXECUTION",` +
					`"executorTimeout":0,"logId":7,"logDateTime":` + at + `,"glueType":"BEAN","glueSource":"",` +
					`"glueUpdatetime":1586629003727,"broadcastIndex":0,"broadcastTotal":1}`},
			} {
				if m := ask(p.path, p.body); m["code"] != 200.0 {
					t.Fatalf("%s: %v", p.path, m)
				}
			}
			f.want(t, 7, wire.CodeSuccess, "said p")
			check.Contains(t, result, `"logId":7,"`+c.time+`":`+at+`,`, "result")
			check.Contains(t, result, c.result, "result")
			m := ask("/log", `{"logId":7,"`+c.time+`":`+at+`,"fromLineNum":1}`)
			log, _ := m[c.log].(map[string]any)
			if content, _ := log["logContent"].(string); m["code"] != 200.0 || log["fromLineNum"] != 1.0 || log["toLineNum"] != 3.0 ||
				!strings.Contains(content, "hello p\n") {
				t.Errorf("log: %v", m)
			}
			m = ask(c.path, `{"jobId":1,"executorHandler":"nobody","logId":8,"glueType":"BEAN"}`)
			if m["code"] != 500.0 || m["msg"] != "job handler [nobody] not found." {
				t.Errorf("unknown handler: %v", m)
			}
		})
	}
}
