package send

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

// Header names of a call to a plain HTTP endpoint, in addition to the headers of wire.About. Times are in RFC 3339 format, in
// UTC.
const (
	HeaderRun      = "Tickring-Run"      // run ID; it stays the same if the run is sent again
	HeaderJob      = "Tickring-Job"      // full name of the job, app/name
	HeaderCallback = "Tickring-Callback" // URL to which the endpoint POSTs the result if it responds with 202
	HeaderTime     = "Tickring-Time"     // time of the signature
	// HeaderSignature is the header with the result of Signature. HeaderSignature is missing if the app has no token.
	HeaderSignature = "Tickring-Signature"
	// HeaderRetry is a header of responses. The value RetryNever means that a failed run is not retried.
	HeaderRetry = "Tickring-Retry"
	RetryNever  = "never"
)

// messageTail is how much of a body becomes the run's message.
const messageTail = 4 << 10

// idleConn is how long a connection stays open for its next call: shorter than in any common server (2 s and more). If the server
// closes a connection during a call, the call has no answer, because it is never repeated (see request).
const idleConn = 1500 * time.Millisecond

// caller is the scheme call.
type caller struct {
	o      Options
	client *http.Client
	tokens *tokens
}

func newCaller(o Options) *caller {
	return &caller{o: o, tokens: newTokens(o.Policy, o.Timeout), client: &http.Client{
		Transport: &http.Transport{
			// connections are bounded by the gates of dispatch, apart for each app
			DialContext: o.Policy.Dialer(o.Timeout).DialContext, TLSHandshakeTimeout: o.Timeout, MaxIdleConnsPerHost: 32,
			IdleConnTimeout: idleConn, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *caller) close() { c.client.CloseIdleConnections() }

// reach connects, and asks nothing.
func (c *caller) reach(ctx context.Context, base string) error {
	to, err := safedial.ParseBase(base)
	if err != nil {
		return err
	}
	conn, err := c.o.Policy.Dialer(c.o.Timeout).DialContext(ctx, "tcp", to.Host)
	if err != nil {
		return err
	}
	return conn.Close()
}

// send makes the call and awaits it: its answer is the result, but for 202.
func (c *caller) send(ctx context.Context, base string, sh dispatch.SendRequest, key []byte) dispatch.Answer {
	started := time.Now()
	timeout := sh.Job.Def.Timeout
	if timeout <= 0 {
		timeout = c.o.CallTimeout
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	call := sh.Job.Def.Call.Over(sh.App.Call)
	if call == nil {
		call = &core.Call{}
	}
	req, err := c.request(ctx, base, sh, call, key)
	if err != nil {
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: err.Error()}
	}
	var resp *http.Response
	var wrote atomic.Bool
	var barred error
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		// It may have been dialed for another app, or another policy of this one.
		if to, ok := i.Conn.RemoteAddr().(*net.TCPAddr); ok {
			if barred = c.o.Policy.CheckContext(ctx, to.AddrPort().Addr()); barred != nil {
				i.Conn.Close() // before a byte is written; one that is dialed instead is judged at its dial
				return
			}
		}
		wrote.Store(true) // from here on bytes may be out
	}}))
	of := tokenFor{sh.App.Name, call.Auth.OAuth}
	bearer := call.Auth.Bearer
	if of.OAuth != (core.OAuth{}) {
		bearer, err = c.tokens.get(ctx, of)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	if err == nil {
		resp, err = c.client.Do(req)
	}
	if err != nil && !wrote.Load() && barred != nil {
		err = barred
	}
	a := dispatch.Answer{}
	switch {
	case err == nil:
		a = result(resp, call, sent(req.Header, call), c.o.Now())
		if a.Code == http.StatusUnauthorized && of.OAuth != (core.OAuth{}) {
			c.tokens.refused(ctx, of, bearer)
		}
	case !wrote.Load() && parent.Err() != nil:
		a = dispatch.Answer{Kind: dispatch.AnswerBusy, Message: "no connection before the deadline"}
	case !wrote.Load() && safedial.OwnWant(err):
		a = dispatch.Answer{Kind: dispatch.AnswerBusy, Ours: true, Message: plain(err)}
	case !wrote.Load():
		a = dispatch.Answer{Kind: dispatch.AnswerRefused, Message: plain(err)}
	case parent.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		a = dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.TimedOut, Reason: core.ReasonTimeout, TimedOut: true,
			Message: "no answer within " + core.FormatDuration(timeout)}
	default:
		a = dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, Message: wirehttp.Unproven(0, nil, inner(err), time.Since(started)).Error()}
	}
	a.Took = time.Since(started)
	if a.Kind == dispatch.AnswerEnded {
		a.Took = 0 // the duration of the work is no property of the address
	}
	return a
}

// plain is the innermost text of an error of the HTTP client, without the URL.
func plain(err error) string { return inner(err).Error() }

func inner(err error) error {
	if u, is := errors.AsType[*url.Error](err); is {
		return u.Err
	}
	return err
}

// request creates a request that net/http sends once. When a reused connection breaks, net/http's Transport repeats requests that
// it considers repeatable, although an executor may have begun them. These are GET requests without a body, and requests with a
// rewindable body and a header "Idempotency-Key" in exactly this spelling. So a GET gets an empty body that cannot be rewound:
// net/http checks that it is empty, and then sends neither a length nor a chunk. The header gets another valid spelling that
// Transport does not recognize.
func (c *caller) request(ctx context.Context, base string, sh dispatch.SendRequest, call *core.Call, key []byte) (*http.Request, error) {
	method, path, err := core.ParseCallHandler(sh.Job.Def.Handler)
	if err != nil {
		return nil, err
	}
	body := sh.Params
	var content io.Reader = strings.NewReader(body)
	if method == http.MethodGet {
		body, content = "", struct{ io.Reader }{strings.NewReader("")}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(base, "/")+path, content)
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("User-Agent", "tickring")
	if body != "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		if json.Valid([]byte(body)) {
			h.Set("Content-Type", "application/json")
		}
	}
	for name, value := range call.Headers { // the headers set below cannot be among them
		h.Set(name, value)
	}
	if b := call.Auth.Basic; b != (core.Basic{}) {
		req.SetBasicAuth(b.User, b.Password)
	}
	run := sh.Run.ID.String()
	h.Set(HeaderRun, run)
	h["idempotency-key"] = []string{run}
	h.Set(HeaderJob, sh.Job.Name())
	about(sh).Headers(h.Set)
	if c.o.ReportURL != "" && len(key) > 0 {
		h.Set(HeaderCallback, c.o.ReportURL+"/v1/report/"+run+"?key="+ReportSignature(key, sh.Run.ID))
	}
	if sh.App.Token != "" {
		h.Set(HeaderTime, c.o.Now().UTC().Format(time.RFC3339))
		h.Set(HeaderSignature, Signature(sh.App.Token, method, req.URL.Host, req.URL.RequestURI(), h, body))
	}
	return req, nil
}

// Signature returns the value of HeaderSignature for a call: "v2=" and the HMAC-SHA256 in hexadecimal digits, with the app's
// token as the key. Signature covers the time, method, host in lower case, path with query, run, job, attempt, scheduled time,
// callback and body. A line feed follows each part except the body. examples/endpoint has code in four languages that verifies
// a signature.
func Signature(token, method, host, path string, h http.Header, body string) string {
	m := hmac.New(sha256.New, []byte(token))
	for _, s := range []string{h.Get(HeaderTime), method, strings.ToLower(host), path, h.Get(HeaderRun), h.Get(HeaderJob),
		h.Get(wire.HeaderAttempt), h.Get(wire.HeaderScheduledAt), h.Get(HeaderCallback)} {
		io.WriteString(m, s)
		io.WriteString(m, "\n")
	}
	io.WriteString(m, body)
	return "v2=" + hex.EncodeToString(m.Sum(nil))
}

// ReportSignature returns the key parameter of the URL to which the result of a run is reported.
func ReportSignature(key []byte, run core.RunID) string {
	m := hmac.New(sha256.New, key)
	io.WriteString(m, "report\n"+run.String())
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// minSecret is how many bytes a secret has that is looked for: a shorter one is in any text.
const minSecret = 8

// secrets are the values in a call that no message or log shows.
type secrets []string

func sent(h http.Header, call *core.Call) (out secrets) {
	_, credentials, _ := strings.Cut(h.Get("Authorization"), " ")
	for _, s := range append([]string{credentials, call.Auth.Basic.Password}, hiddenHeaders(call)...) {
		if len(s) < minSecret {
			continue
		}
		escaped, _ := json.Marshal(s)
		inJSON := string(escaped[1 : len(escaped)-1])
		out = append(out, s, inJSON, strings.ReplaceAll(inJSON, "/", `\/`), url.QueryEscape(s))
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	return slices.Compact(out)
}

func hiddenHeaders(call *core.Call) (out []string) {
	for _, name := range call.Hidden {
		out = append(out, call.Headers[name])
	}
	return out
}

// masked returns the last most bytes of text without the secrets in it: some endpoints echo the request.
func (s secrets) masked(text string, most int) string {
	from := max(len(text)-most, 0)
	for _, secret := range s { // a secret cut by the limit is removed completely
		for at := 0; ; {
			i := strings.Index(text[at:], secret)
			if i < 0 || at+i >= from {
				break
			}
			at += i + len(secret)
			from = max(from, at)
		}
	}
	text = text[from:]
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, core.AsStored)
	}
	for _, secret := range s { // the answer may have been cut within one
		for n := min(len(secret), len(text)); n >= minSecret; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				return text[:len(text)-n] + core.AsStored
			}
		}
	}
	return text
}

// retryAfter is the word of an answer that is a failure on its retry, as a
// finish.Result has it: Retry-After (seconds, or a date) of 429 and 503, and HeaderRetry.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	if strings.EqualFold(resp.Header.Get(HeaderRetry), RetryNever) {
		return core.NoRetry
	}
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	said := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseInt(said, 10, 32); err == nil {
		return time.Duration(max(n, 0)) * time.Second
	}
	if at, err := http.ParseTime(said); err == nil {
		return max(at.Sub(now).Round(time.Second), 0)
	}
	return 0
}

func result(resp *http.Response, call *core.Call, hide secrets, now time.Time) dispatch.Answer {
	defer resp.Body.Close()
	after := retryAfter(resp, now)
	a := dispatch.Answer{Kind: dispatch.AnswerEnded, Code: resp.StatusCode}
	most := cmp.Or(call.MaxAnswer, core.MaxAnswer)
	tail, cut, err := readTail(resp.Body, most, hide)
	a.Message = tail
	switch s := resp.StatusCode; {
	case slices.Contains(call.Expect, s):
		a.State = core.Succeeded
	case s == http.StatusAccepted:
		a.Kind = dispatch.AnswerAccepted
	case s == http.StatusTooManyRequests && after == 0:
		a.Kind = dispatch.AnswerBusy
	case len(call.Expect) == 0 && s >= 200 && s < 300:
		a.State = core.Succeeded
	default:
		a.State, a.Reason, a.RetryAfter = core.Failed, core.ReasonHandler, after
		if a.Message == "" {
			a.Message = hide.masked(resp.Status, messageTail)
		}
		if s < 300 {
			a.Message = fmt.Sprintf("%s is not an expected status\n%s", hide.masked(resp.Status, messageTail), tail)
		}
	}
	switch {
	case cut:
		a.Message += fmt.Sprintf("\n(the answer is longer than maxAnswer: only its first %d bytes were read)", most)
	case err != nil && a.State == core.Succeeded:
		a.Message += "\n(the answer was cut: " + err.Error() + ")"
	}
	return a
}

// readTail reads a body up to most bytes and returns the last 4 KB of them, without broken characters and secrets. cut reports
// whether the body is longer.
func readTail(body io.Reader, most int64, hide secrets) (tail string, cut bool, err error) {
	keep := messageTail
	if len(hide) > 0 {
		keep += len(hide[0]) // so that one that lies across the cut is seen whole
	}
	r := &io.LimitedReader{R: body, N: most}
	buf := make([]byte, 0, keep+messageTail)
	chunk := make([]byte, messageTail)
	for {
		n, err := r.Read(chunk)
		buf = append(buf, chunk[:n]...)
		if len(buf) > keep {
			buf = append(buf[:0], buf[len(buf)-keep:]...)
		}
		if err == nil {
			continue
		}
		if err == io.EOF {
			err = nil
		}
		if err == nil && r.N == 0 {
			n, _ := body.Read(chunk[:1])
			cut = n > 0
		}
		tail = hide.masked(string(buf), messageTail)
		for i := 0; i < utf8.UTFMax && tail != "" && !utf8.RuneStart(tail[0]); i++ {
			tail = tail[1:]
		}
		return strings.ToValidUTF8(tail, "\uFFFD"), cut, err
	}
}
