package send

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// calling returns a sender and a function that calls an endpoint with the given options.
func calling(t *testing.T, answer http.HandlerFunc) (*Sender, func(job, app *core.Call, path string) dispatch.Answer) {
	srv := serve(t, answer)
	s := newSender(t, Options{Timeout: 2 * time.Second})
	return s, func(job, app *core.Call, path string) dispatch.Answer {
		sh := shipment("call:"+srv.URL, path)
		sh.Job.Def.Call, sh.App.Call = job, app
		return s.Send(t.Context(), sh)
	}
}

func TestCallSendsItsHeaders(t *testing.T) {
	var got http.Header
	var body string
	_, call := calling(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		fmt.Fprint(w, r.Header.Get("X-Key"), " and ", r.Header.Get("Authorization"))
	})
	app := &core.Call{Headers: map[string]string{"X-Team": "all", "X-App": "pay"}, Auth: core.Auth{Basic: core.Basic{User: "u",
		Password: "password"}}}
	job := &core.Call{Headers: map[string]string{"x-team": "mine", "X-Key": "key-hunter2", "content-type": "text/csv", "user-agent": "me"},
		Hidden: []string{"X-Key"}}
	a := call(job, app, "POST /x")
	want := map[string]string{"X-Team": "mine", "X-App": "pay", "X-Key": "key-hunter2", "Content-Type": "text/csv", "User-Agent": "me",
		"Authorization": "Basic dTpwYXNzd29yZA==", HeaderJob: "web/warm", HeaderRun: shipment("call:http://x", "").Run.ID.String()}
	for name, value := range want {
		if len(got.Values(name)) != 1 || got.Get(name) != value {
			t.Errorf("%s is %q, want %s", name, got.Values(name), value)
		}
	}
	if body != `{"depth":2}` || a.State != core.Succeeded || a.Message != "*** and Basic ***" {
		t.Errorf("%q, %+v", body, a)
	}
	if call(&core.Call{Auth: core.Auth{Bearer: "token"}}, app, "GET /x"); got.Get("Authorization") != "Bearer token" {
		t.Error(got)
	}
	if call(nil, nil, "POST /x"); got.Get("Authorization") != "" || got.Get("User-Agent") != "tickring" {
		t.Error(got)
	}
}

func TestCallExpects(t *testing.T) {
	texts := golden.New(t)
	_, call := calling(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
		io.WriteString(w, "said")
	})
	for _, c := range []struct {
		status int
		expect []int
		kind   dispatch.AnswerKind
		state  core.State
	}{
		{200, []int{200, 202}, dispatch.AnswerEnded, core.Succeeded},
		{202, []int{200, 202}, dispatch.AnswerEnded, core.Succeeded},
		{202, []int{200}, dispatch.AnswerAccepted, ""},
		{201, []int{200, 202}, dispatch.AnswerEnded, core.Failed},
		{404, []int{200, 404}, dispatch.AnswerEnded, core.Succeeded},
		{302, []int{302}, dispatch.AnswerEnded, core.Succeeded},
		{500, []int{200}, dispatch.AnswerEnded, core.Failed},
		{429, []int{200}, dispatch.AnswerBusy, ""},
		{429, []int{429}, dispatch.AnswerEnded, core.Succeeded},
		{201, nil, dispatch.AnswerEnded, core.Succeeded},
	} {
		a := call(&core.Call{Expect: c.expect}, nil, fmt.Sprintf("POST /%d", c.status))
		if a.Kind != c.kind || a.State != c.state || a.Code != c.status {
			t.Errorf("%d with %v: %+v", c.status, c.expect, a)
		}
		if a.Message != "said" {
			texts.Equal(t, fmt.Sprint(c.status, " with ", c.expect), a.Message)
		}
	}
}

// TestCallSaysWhen: a failed call can set the time of its retry, or forbid retries; a successful one cannot.
func TestCallSaysWhen(t *testing.T) {
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		status int
		header string
		value  string
		expect []int
		kind   dispatch.AnswerKind
		want   time.Duration
	}{
		{429, "Retry-After", "30", nil, dispatch.AnswerEnded, 30 * time.Second},
		{503, "Retry-After", "30", nil, dispatch.AnswerEnded, 30 * time.Second},
		{503, "Retry-After", date, nil, dispatch.AnswerEnded, time.Hour},
		{503, "Retry-After", "999999999", nil, dispatch.AnswerEnded, 999999999 * time.Second}, // finish rejects it
		{503, "Retry-After", "soon", nil, dispatch.AnswerEnded, 0},
		{503, "Retry-After", "-5", nil, dispatch.AnswerEnded, 0},
		{503, "Retry-After", "99999999999999999999", nil, dispatch.AnswerEnded, 0},
		{503, "Retry-After", "30", []int{503}, dispatch.AnswerEnded, 0},
		{500, "Retry-After", "30", nil, dispatch.AnswerEnded, 0},
		{429, "Retry-After", "0", nil, dispatch.AnswerBusy, 0},
		{429, "X-Other", "30", nil, dispatch.AnswerBusy, 0},
		{422, HeaderRetry, RetryNever, nil, dispatch.AnswerEnded, core.NoRetry},
		{429, HeaderRetry, "Never", nil, dispatch.AnswerEnded, core.NoRetry},
		{422, HeaderRetry, "please", nil, dispatch.AnswerEnded, 0},
		{200, HeaderRetry, RetryNever, nil, dispatch.AnswerEnded, 0},
	} {
		_, call := calling(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(c.header, c.value)
			w.WriteHeader(c.status)
		})
		a := call(&core.Call{Expect: c.expect}, nil, "POST /")
		if off := (a.RetryAfter - c.want).Abs(); a.Kind != c.kind || off > 2*time.Second || off > 0 && c.value != date {
			t.Errorf("%+v: %+v", c, a)
		}
	}
}

// TestCallReadsNoMoreThanItMay: of a 10 MB answer at most maxAnswer bytes are read, and its status counts.
func TestCallReadsNoMoreThanItMay(t *testing.T) {
	var wrote atomic.Int64
	_, call := calling(t, func(w http.ResponseWriter, r *http.Request) {
		size := 10 << 20
		if r.URL.Path == "/exact" {
			size = 64 << 10
		}
		for block := []byte(strings.Repeat("0123456789abcde\n", 64)); size > 0; size -= len(block) {
			n, err := w.Write(block)
			if wrote.Add(int64(n)); err != nil {
				return
			}
		}
	})
	a := call(&core.Call{MaxAnswer: 64 << 10}, nil, "POST /long")
	tail, _, _ := strings.Cut(a.Message, "\n(")
	golden.New(t).Equal(t, "long answer", strings.TrimPrefix(a.Message, tail+"\n"))
	if a.State != core.Succeeded || len(tail) > messageTail {
		t.Errorf("%s %d", a.State, len(tail))
	}
	if n := wrote.Load(); n >= 10<<20 {
		t.Errorf("%d bytes were taken", n)
	}
	if a := call(&core.Call{MaxAnswer: 64 << 10}, nil, "POST /exact"); strings.Contains(a.Message, "maxAnswer") ||
		len(a.Message) != messageTail {
		t.Errorf("%q", a.Message)
	}
	if a := call(nil, nil, "POST /long"); a.State != core.Succeeded || strings.Contains(a.Message, "maxAnswer") {
		t.Errorf("%q", a.Message)
	}
}

func TestCallGetsItsToken(t *testing.T) {
	var asked, called atomic.Int32
	var expires, refuse atomic.Int32
	expires.Store(3600)
	login := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		user, password, _ := r.BasicAuth()
		if r.ParseForm(); user != "id" || password != "hunter2" || r.Form.Get("grant_type") != "client_credentials" ||
			r.Form.Get("scope") != "a b" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"not hunter2"}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"bearer","expires_in":%d}`, n, expires.Load())
	})
	var got atomic.Value
	_, call := calling(t, func(w http.ResponseWriter, r *http.Request) {
		called.Add(1)
		got.Store(r.Header.Get("Authorization"))
		if refuse.Load() > 0 {
			refuse.Add(-1)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	oauth := func(secret string) *core.Call {
		return &core.Call{Auth: core.Auth{OAuth: core.OAuth{TokenURL: login.URL, ClientID: "id", ClientSecret: secret, Scope: "a b"}}}
	}
	for range 3 {
		if a := call(oauth("hunter2"), nil, "POST /x"); a.State != core.Succeeded || got.Load() != "Bearer token-1" || asked.Load() != 1 {
			t.Fatalf("%+v with %v, asked %d times", a, got.Load(), asked.Load())
		}
	}
	refuse.Store(1)
	if a := call(oauth("hunter2"), nil, "POST /x"); a.State != core.Failed {
		t.Errorf("%+v", a)
	}
	if call(oauth("hunter2"), nil, "POST /x"); got.Load() != "Bearer token-2" {
		t.Errorf("after a refusal %v", got.Load())
	}
	before := called.Load()
	a := call(oauth("hunter2-but-wrong"), nil, "POST /x")
	if a.Kind != dispatch.AnswerRefused || strings.Contains(a.Message, "hunter2") || called.Load() != before {
		t.Errorf("%+v", a)
	}
	golden.New(t).Equal(t, "no token", a.Message, login.URL, "LOGIN")
	n := asked.Load()
	if call(oauth("hunter2-but-wrong"), nil, "POST /x"); asked.Load() != n {
		t.Error("a failure was asked for again at once")
	}
}

// TestTokens: a token is used until shortly before its end. Requests for it are made one at a time, and a slow token server is
// waited for as long as a send may take.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		hang := false
		ts := newTokens(local, 3*time.Second)
		ts.client = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			n := asked.Add(1)
			if hang {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			time.Sleep(100 * time.Millisecond)
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"access_token":"t%d","expires_in":600}`, n)))}, nil
		})}
		of := tokenFor{"web", core.OAuth{TokenURL: "https://login", ClientID: "id", ClientSecret: "s"}}
		answers := make(chan string, 10)
		for range 10 {
			go func() {
				text, err := ts.get(t.Context(), of)
				answers <- fmt.Sprint(text, err)
			}()
		}
		for range 10 {
			check.Equal(t, <-answers, "t1<nil>")
		}
		time.Sleep(569 * time.Second)
		if text, _ := ts.get(t.Context(), of); text != "t1" {
			t.Error("got again too early:", text)
		}
		time.Sleep(2 * time.Second)
		if text, _ := ts.get(t.Context(), of); text != "t2" {
			t.Error("used to its end:", text)
		}
		hang = true
		time.Sleep(600 * time.Second)
		n, began := asked.Load(), time.Now()
		for range 10 {
			go func() {
				_, err := ts.get(t.Context(), of)
				answers <- fmt.Sprint(err)
			}()
		}
		for range 10 {
			check.Contains(t, <-answers, "get a token at https://login")
		}
		if took := time.Since(began); took > 3*time.Second || asked.Load() > n+2 {
			t.Errorf("%v, %d requests", took, asked.Load()-n)
		}
		for i := range maxTokens + 10 {
			ts.find(tokenFor{fmt.Sprint(i), of.OAuth})
		}
		if len(ts.of) > maxTokens {
			t.Error(len(ts.of), "tokens are kept")
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEchoedSecretsAreHidden: secrets are hidden if an endpoint echoes them plainly, in JSON or in a query, even if the kept part
// of the answer begins or ends within one.
func TestEchoedSecretsAreHidden(t *testing.T) {
	const key = `p/+"q<hunter2-hunter2-hunter2`
	escaped, _ := json.Marshal(key)
	call := &core.Call{Headers: map[string]string{"X-Key": key}, Hidden: []string{"X-Key"}}
	for name, c := range map[string]struct {
		answer, want string
		most         int64
	}{
		"as it is":              {"a " + key + " b", "a *** b", 0},
		"in JSON":               {`{"key":` + string(escaped) + `}`, `{"key":"***"}`, 0},
		"in JSON of another":    {`{"key":"p\/+\"q\u003chunter2-hunter2-hunter2"}`, `{"key":"***"}`, 0},
		"in a query":            {"?key=" + url.QueryEscape(key), "?key=***", 0},
		"the tail begins in it": {key + strings.Repeat("x", messageTail-5), strings.Repeat("x", messageTail-5), 0},
		"two, the tail begins in the first": {key + strings.Repeat("x", 1000) + key + strings.Repeat("x", messageTail-1000-len(key)-4),
			strings.Repeat("x", 1000) + "***" + strings.Repeat("x", messageTail-1000-len(key)-4), 0},
		"the answer ends in it": {"a " + key[:20], "a ***", 0},
		"maxAnswer ends in it":  {strings.Repeat("x", 1004) + key, strings.Repeat("x", 1004) + "***", 1024},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, c.answer) })
			sh := shipment("call:"+srv.URL, "/echo")
			with := *call
			with.MaxAnswer = c.most
			sh.Job.Def.Call = &with
			whole := newSender(t, Options{}).Send(t.Context(), sh).Message
			if strings.Contains(whole, key[:20]) {
				t.Errorf("the message has a part of the secret: %q", whole)
			}
			message, _, cut := strings.Cut(whole, "\n(")
			if message != c.want || cut != (c.most > 0) {
				t.Errorf("message %.80q (%d bytes), want %.80q (%d)", message, len(message), c.want, len(c.want))
			}
		})
	}
}
