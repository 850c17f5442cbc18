package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

// A fakeAPI is the part of tickring's API that declared jobs need: it knows who owns a job.
type fakeAPI struct {
	mu            sync.Mutex
	down, strange bool
	rev           int64
	jobs          map[string]map[string]any // by app/name
	theirs        map[string]bool           // changed by others, or deleted by them
}

func (a *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, v any) (*http.Response, error) {
		b, err := json.Marshal(v)
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(b)))}, err
	}
	fail := func(status int, code, msg string) (*http.Response, error) {
		return answer(status, map[string]any{"error": map[string]string{"code": code, "message": msg}})
	}
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		return answer(200, map[string]int{"code": 200})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.down:
		return nil, fmt.Errorf("connection refused")
	case a.strange || r.Header.Get("Authorization") != "Bearer secret":
		return fail(401, "unauthorized", "who are you")
	case r.Method != http.MethodPut:
		return fail(405, "invalid", r.Method)
	}
	job := strings.TrimPrefix(r.URL.Path, "/v1/jobs/")
	var spec map[string]any
	if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
		return nil, err
	}
	if spec["declared"] != true {
		return fail(400, "invalid", "a person, it seems")
	}
	if a.theirs[job] {
		return fail(409, "conflict", "anna has changed it")
	}
	if s, ok := spec["schedule"].(map[string]any); ok && s["cron"] == "nonsense" {
		return fail(400, "invalid", "that is no cron expression")
	}
	verb := "created"
	if was := a.jobs[job]; was != nil {
		verb = "updated"
		before, _ := json.Marshal(was)
		after, _ := json.Marshal(spec)
		if string(before) == string(after) {
			return answer(200, map[string]any{"change": "unchanged"})
		}
	}
	a.rev++
	a.jobs[job] = spec
	return answer(200, map[string]any{"change": verb})
}

// declared starts an executor that declares jobs, and ends it once they are.
func declared(t *testing.T, a *fakeAPI, jobs ...Job) string {
	t.Helper()
	var out lockedBuffer
	mux := okMux()
	for _, j := range jobs {
		mux.Declare(j)
	}
	e := start(t, mux, newFake(), func(o *Options) {
		o.Servers = []string{"http://one/xxl-job-admin"}
		o.Token, o.Client, o.Log = "secret", &http.Client{Transport: a}, out.log()
	})
	pass(10 * time.Second)
	synctest.Wait()
	check.NoError(t, e.Stop(t.Context()))
	return out.String()
}

func TestDeclaredJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAPI{jobs: map[string]map[string]any{}}
		nightly := Job{Name: "nightly", Handler: "ok", Schedule: Cron("0 30 2 * * ?", "Europe/Berlin"), Params: "p", Timeout: time.Minute,
			Retries: 2, RetryDelay: time.Second}
		other := Job{Name: "ok", Schedule: Every(time.Hour)}
		declared(t, a, nightly, other)
		b, _ := json.Marshal(a.jobs["demo/nightly"])
		if string(b) != `{"app":"demo","declared":true,"handler":"ok","name":"nightly","params":"p","retry":{"delay":"1s","max":2},"schedule":{"cron":"0 30 2 * * ?","timezone":"Europe/Berlin"},"set":"code-of-demo","timeout":"1m0s"}` {
			t.Errorf("made: %s", b)
		}
		check.Equal(t, fmt.Sprint(a.jobs["demo/ok"]["schedule"]), "map[every:1h0m0s]", "the schedule of the other job")
		// The same again changes nothing; another declaration does.
		declared(t, a, nightly, other)
		check.Equal(t, a.rev, 2, "revision")
		nightly.Params = "q"
		declared(t, a, nightly, other)
		if a.jobs["demo/nightly"]["params"] != "q" || a.rev != 3 {
			t.Errorf("it is not changed: %v", a.jobs["demo/nightly"])
		}
		// A job that others changed does not delay other jobs, and is logged.
		a.theirs = map[string]bool{"demo/nightly": true}
		nightly.Params, other.Params = "r", "s"
		log := declared(t, a, nightly, other)
		if a.jobs["demo/nightly"]["params"] != "q" || a.jobs["demo/ok"]["params"] != "s" ||
			strings.Count(log, "to return the job to code, run tickring return-to-code") != 1 ||
			strings.Count(log, "HTTP 409: anna has changed it") != 1 {
			t.Errorf("%v, log %s", a.jobs, log)
		}
	})
}

func TestDeclaredJobsInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A job that the server rejects does not delay other jobs, and is logged once.
		a := &fakeAPI{jobs: map[string]map[string]any{}}
		log := declared(t, a, Job{Name: "bad", Handler: "ok", Schedule: Cron("nonsense", "")}, Job{Name: "ok"})
		if a.jobs["demo/ok"] == nil || strings.Count(log, "that is no cron expression") != 1 {
			t.Errorf("%v, log %s", a.jobs, log)
		}
		// The server comes up later, or the app is created later with its token.
		for _, a := range []*fakeAPI{{down: true}, {strange: true}} {
			a.jobs = map[string]map[string]any{}
			mux := okMux()
			mux.Declare(Job{Name: "ok"})
			start(t, mux, newFake(), func(o *Options) { o.Token, o.Client = "secret", &http.Client{Transport: a} })
			pass(time.Hour)
			a.mu.Lock()
			a.down, a.strange = false, false
			a.mu.Unlock()
			pass(time.Minute)
			synctest.Wait()
			if a.jobs["demo/ok"] == nil {
				t.Error("it is not made")
			}
		}
	})
}

func TestDeclareRefuses(t *testing.T) {
	mux := okMux()
	for _, j := range []Job{{Handler: "ok"}, {Name: "ok"}, {Name: "ok"}, {Name: "x", Handler: "nobody"}} {
		mux.Declare(j)
	}
	_, err := New(mux, Options{App: "a", Address: "http://here"})
	golden.New(t).Equal(t, "all", fmt.Sprint(err))
}

// TestAbout: values without a field in xxl-job's protocol are sent in headers, or in a member of their own, and are also
// in the journal.
func TestAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		var mu sync.Mutex
		var got []string
		mux := muxOf("h", func(ctx context.Context, r *Run) error {
			mu.Lock()
			got = append(got, fmt.Sprintf("%d %v %s%s %s %v", r.Attempt, r.ScheduledAt, r.Cause, r.Traceparent, r.Params, r.Again))
			mu.Unlock()
			return w.handle(ctx, r)
		}, RerunAfterCrash())
		_, e := started(t, mux, nil)
		const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		const none, third = "0 0001-01-01 00:00:00 +0000 UTC ", "3 2026-01-02 02:04:05 +0000 UTC retry" + parent
		headers := []string{wire.HeaderAttempt, "3", wire.HeaderScheduledAt, "2026-01-02T02:04:05Z", wire.HeaderCause, "retry",
			"traceparent", parent}
		const member = `,"tickring":{"attempt":3,"scheduledAt":"2026-01-02T03:04:05+01:00","cause":"retry","later":{},"traceparent":"` + parent + `"}`
		for i, c := range []struct {
			member  string
			headers []string
			want    string
		}{
			{"", nil, none},
			{member, nil, third},
			{"", headers, third},
			{`,"tickring":{"attempt":9}`, headers, third},
			{"", []string{wire.HeaderAttempt, "x", wire.HeaderScheduledAt, "y", wire.HeaderCause, "z z"}, none},
			{`,"tickring":"garbage"`, nil, none},
			{`,"tickring":{"attempt":"x"}`, nil, none},
		} {
			run := order(int32(i+1), int64(i+1), "h")
			run.Params = `{"tickring":{"attempt":9}}`
			b := wire.AppendRun(nil, &run)
			b = append(append(b[:len(b)-1], c.member...), '}')
			if r := post(e, wire.PathRun, b, c.headers...); !r.OK() {
				t.Fatal(r.Msg)
			}
			<-w.began
			check.Equal(t, got[i], c.want+" "+run.Params+" false", "%s %v", c.member, c.headers)
		}
		got = nil
		afterCrash(t, mux, e)
		for range 7 {
			<-w.began
		}
		if all := strings.Join(got, "\n"); strings.Count(all, third+` {"tickring":{"attempt":9}} true`) != 3 {
			t.Errorf("after a crash:\n%s", all)
		}
	})
}
