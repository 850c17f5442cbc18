package api

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// FuzzBody: any input is accepted as JSON that fits, or rejected with a message without internals of the decoder.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"jobs":[{"app":"a","name":"b","retry":{"max":1,"on":["failed"]},"schedule":{"any":[{"every":"5s","at":"2026-11-20T02:30:00Z"}]},"labels":{"k":"v"}}],"set":"s","dryRun":true}`,
		`{"jobs":[{"retry":{"max":1e400}}]}`, `{"jobs":{}}`, `{"apps":[null,{"token":5}]}`, `{"JOBS":[]}`, `[`, `{"a"`, `nul`, "\xff",
		`{"jobs":[{"ifRev":9223372036854775808}]}`, `{} {}`, ``,
		`{"jobs":[{"schedule":{"at":"2026-11-20T25:00:00Z"}}]}`, `{"jobs":[{"labels":{"a":1}}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var v client.ApplyRequest
		err := decode(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/apply", strings.NewReader(body)), 1<<20, &v)
		if err == nil {
			if !json.Valid([]byte(body)) {
				t.Fatalf("%q is taken", body)
			}
			return
		}
		e, ok := errors.AsType[*core.Error](err)
		if !ok || e.Reason.String() == "" || strings.Contains(e.Reason.String(), "json") || strings.Contains(e.Reason.String(), "Go ") {
			t.Fatalf("%q: %v", body, err)
		}
		// If the JSON is valid, the error names the field that does not fit.
		if json.Valid([]byte(body)) && e.Reason.String() == "the body does not have the expected format" {
			t.Fatalf("%q: no place was found", body)
		}
	})
}
