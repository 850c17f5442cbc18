package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// admin is an admin of one dialect, written from the description of the protocol and not from package wire. It reads the
// fields of that version's classes, rejects the same input, and calls the executor as that version does.
type admin struct {
	dialect   string
	results   chan adminResult
	addresses chan string
}

type adminResult struct {
	LogID int64
	Time  int64
	Code  int
	Msg   string
}

func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(format string, args ...any) {
		b, _ := json.Marshal(map[string]any{"code": 500, "msg": fmt.Sprintf(format, args...)})
		_, _ = w.Write(b)
	}
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodPost {
		fail("invalid request, HttpMethod not support.")
		return
	}
	if r.Header.Get("XXL-JOB-ACCESS-TOKEN") != "secret" {
		fail("The access token is wrong.")
		return
	}
	if a.dialect == "D" && r.Header.Get("XXL-JOB-APPNAME") != "demo" {
		fail("The appname is wrong.")
		return
	}
	switch r.URL.Path {
	case "/xxl-job-admin/api/registry", "/xxl-job-admin/api/registryRemove":
		var reg struct{ RegistryGroup, RegistryKey, RegistryValue string }
		if err := json.Unmarshal(body, &reg); err != nil || reg.RegistryGroup != "EXECUTOR" || reg.RegistryKey != "demo" ||
			reg.RegistryValue == "" {
			fail("Illegal Argument.")
			return
		}
		if strings.HasSuffix(r.URL.Path, "registry") {
			select {
			case a.addresses <- reg.RegistryValue:
			default:
			}
		}
	case "/xxl-job-admin/api/callback":
		type item struct {
			LogID         int64 `json:"logId"`
			LogDateTim    int64 `json:"logDateTim"`
			LogDateTime   int64 `json:"logDateTime"`
			ExecuteResult *struct {
				Code int
				Msg  string
			} `json:"executeResult"`
			HandleCode int    `json:"handleCode"`
			HandleMsg  string `json:"handleMsg"`
		}
		var items []item
		if a.dialect == "D" {
			var o struct{ CallbackList []item }
			if err := json.Unmarshal(body, &o); err != nil {
				fail("Expected BEGIN_OBJECT but was BEGIN_ARRAY")
				return
			}
			items = o.CallbackList
		} else if err := json.Unmarshal(body, &items); err != nil {
			fail("Expected BEGIN_ARRAY but was BEGIN_OBJECT")
			return
		}
		for _, it := range items {
			res := adminResult{LogID: it.LogID, Time: it.LogDateTim, Code: it.HandleCode, Msg: it.HandleMsg}
			switch a.dialect {
			case "A":
				if it.ExecuteResult == nil {
					fail("NullPointerException")
					return
				}
				res.Code, res.Msg = it.ExecuteResult.Code, it.ExecuteResult.Msg
			case "D":
				res.Time = it.LogDateTime
			}
			a.results <- res
		}
	default:
		fail("invalid request, uri-mapping(%s) not found.", r.URL.Path)
		return
	}
	if a.dialect == "A" {
		_, _ = io.WriteString(w, `{"code":200,"msg":null,"content":null}`)
		return
	}
	_, _ = io.WriteString(w, `{"code":200,"msg":"Success"}`)
}

// The executor works with an admin of each version.
func TestDialects(t *testing.T) {
	for _, dialect := range []string{"A", "B", "C", "D"} {
		t.Run(dialect, func(t *testing.T) {
			a := &admin{dialect: dialect, results: make(chan adminResult, 10), addresses: make(chan string, 1)}
			server := httptest.NewServer(a)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			mux := muxOf("says", func(_ context.Context, r *Run) error {
				r.Printf("hello %s", r.Params)
				r.SetResult(Success, "said "+r.Params)
				return nil
			})
			e, err := New(mux, Options{App: "demo", Servers: []string{server.URL + "/xxl-job-admin/"}, Token: "secret", Listen: "127.0.0.1:0",
				// the runs are from 2020, and the first sweep may run between them
				Dir: t.TempDir(), NoSync: true, LogRetention: -1, Log: quiet})
			check.OK(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.ListenAndServe(ctx) }()
			defer func() {
				cancel()
				check.NoError(t, <-ended)
			}()
			address := <-a.addresses

			ask := func(path, body string) map[string]any {
				req, err := http.NewRequest(http.MethodPost, address+path, strings.NewReader(body))
				check.OK(t, err)
				req.Header.Set("XXL-JOB-ACCESS-TOKEN", "secret")
				if dialect == "D" {
					req.Header.Set("XXL-JOB-APPNAME", "demo")
				}
				res, err := client.Do(req)
				check.OK(t, err)
				defer res.Body.Close()
				var m map[string]any
				if err := json.NewDecoder(res.Body).Decode(&m); err != nil || res.StatusCode != 200 {
					t.Fatalf("HTTP %d: %v", res.StatusCode, err)
				}
				return m
			}
			path, timeKey, payload := "/run", "logDateTim", "content"
			switch dialect {
			case "C":
				payload = "data"
			case "D":
				path, timeKey, payload = "/trigger", "logDateTime", "data"
			}
			for _, p := range []struct{ path, body string }{
				{"/beat", ""}, {"/idleBeat", `{"jobId":1}`}, {"/kill", `{"jobId":1}`},
				{path, `{"jobId":1,"executorHandler":"says","executorParams":"p","executorBlockStrategy":"SERIAL_EXECUTION","executorTimeout":0,"logId":7,"logDateTime":1586629003729,"glueType":"BEAN","glueSource":"","glueUpdatetime":1586629003727,"broadcastIndex":0,"broadcastTotal":1}`},
			} {
				if m := ask(p.path, p.body); m["code"] != 200.0 {
					t.Fatalf("%s: %v", p.path, m)
				}
			}
			check.Equal(t, <-a.results, (adminResult{LogID: 7, Time: 1586629003729, Code: 200, Msg: "said p"}), "result")
			m := ask("/log", `{"logId":7,"`+timeKey+`":1586629003729,"fromLineNum":1}`)
			log, _ := m[payload].(map[string]any)
			if content, _ := log["logContent"].(string); m["code"] != 200.0 || log["fromLineNum"] != 1.0 || log["toLineNum"] != 3.0 ||
				!strings.Contains(content, "hello p\n") {
				t.Errorf("log: %v", m)
			}
			m = ask(path, `{"jobId":1,"executorHandler":"nobody","logId":8,"glueType":"BEAN"}`)
			if m["code"] != 500.0 || m["msg"] != "job handler [nobody] not found." {
				t.Errorf("unknown handler: %v", m)
			}
		})
	}
}
