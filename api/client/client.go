// Package client talks to a tickring server. New makes a client; it has a method
// for each operation of the OpenAPI document:
//
//	c, err := client.New("http://127.0.0.1:7700", token, client.Config{})
//	job, err := c.GetJob(ctx, "reports", "nightly")
//
// The error of a call is an *Error when the server answered one, and wraps
// ErrNoAnswer when there was no answer, and ErrUnproven when the token was not sent.
//
// This package is public. It needs nothing else of this repository.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Config of New. The zero value is usable.
type Config struct {
	// HTTP does the requests; http.DefaultClient if nil. Its redirects are not followed:
	// a token is for one server.
	HTTP *http.Client
	// Timeout bounds a call, up to the end of its answer; 5 minutes if 0.
	Timeout time.Duration
	// MaxAnswer is how many bytes are read of an answer; as long as the call's may be if 0
	// or more than that.
	MaxAnswer int64
	// Language is that of errors and of schedules in words, "en" or "zh"; English if empty.
	Language string
}

// Client asks one server. Its methods may be called at the same time.
//
// Over https its certificate says who that is. Over http whoever listens there has to
// prove that he knows the token, and that he is what was asked, before it is sent. That
// is against a stranger who has taken the place of a server, or listens beside it and
// hands questions on; who stands on the way between the two reads all that is sent.
type Client struct {
	endpoint, host, token string
	o                     Config
	secure                bool // the endpoint is one of https
	proven                atomic.Pointer[time.Time]
}

// New makes a client of the server at endpoint, such as http://127.0.0.1:7700.
// It connects to nothing yet.
func New(endpoint, token string, o Config) (*Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("endpoint %q: a URL such as http://127.0.0.1:7700 is expected", endpoint)
	}
	hc := *cmp.Or(o.HTTP, http.DefaultClient)
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTP = &hc
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	o.MaxAnswer = cmp.Or(o.MaxAnswer, maxWhole)
	return &Client{endpoint: strings.TrimSuffix(endpoint, "/"), host: HostOf(u), token: token, o: o,
		secure: u.Scheme == "https"}, nil
}

// Waits reports whether the queued run whose limit it is waits for that: it stands in its queue, or
// has its second to come. Else it waits for an executor, if for anything; so does one that no limit counts.
func (p *Permit) Waits(now time.Time) bool {
	return p != nil && (p.Place > 0 || p.Begins.After(now))
}

// Error is what the server refused, or could not do: as the error of a call, and
// of one thing among those of a call.
type Error struct {
	Status  int    `json:"-"`               // of HTTP; 0 of one thing among others
	Code    string `json:"code"`            // a core.Code
	Field   string `json:"field,omitempty"` // where: a path such as schedule.cron; may be empty
	Value   string `json:"value,omitempty"` // what was given, truncated; may be empty
	Message string `json:"message"`         // what is wrong and what is allowed
}

func (e *Error) Error() string {
	switch {
	case e.Field != "" && e.Value != "":
		return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Message)
	case e.Field != "":
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// ErrNoAnswer is the error of a request that reached no server.
var ErrNoAnswer = errors.New("no answer")

// ErrUnproven is the error of a call whose token was not sent, for whoever listens
// there does not prove that he knows it.
var ErrUnproven = errors.New("it does not prove to be the server of the token, which was not sent")

const (
	pathProof = "/v1/proof"
	// proofHolds is for how long a server that has proved itself is taken to be the one
	// that listens there.
	proofHolds = 10 * time.Second
	// proofWait is how long it may take: it costs a server nothing, and who is none may
	// answer a byte a second.
	proofWait = 10 * time.Second
)

// Proof is what proves that somebody knows a token and is the server at host, which has
// a port: whoever asks chose the nonce.
func Proof(token, host, nonce string) string {
	m := hmac.New(sha256.New, []byte(token))
	io.WriteString(m, "tickring proof\n"+host+"\n"+nonce) // the token is the key of other hashes too: none begins so
	return hex.EncodeToString(m.Sum(nil))
}

// keyOf is what the proof of a token is keyed with. Of a person's the server has but a hash,
// which is then the key, and is told whose it is; of says that, and nothing by which the token
// could be guessed.
func keyOf(token string) (of, key string) {
	rest, is := strings.CutPrefix(token, "tkr_")
	i := strings.LastIndexByte(rest, '_')
	if !is || i < 0 {
		return "", token
	}
	sum := sha256.Sum256([]byte(token))
	key = hex.EncodeToString(sum[:])
	id := sha256.Sum256([]byte(key))
	return rest[:i] + ":" + hex.EncodeToString(id[:])[:16], key
}

// HostOf is the host of a URL, with its port, as it is proven.
func HostOf(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// HostAt is the address of an end of a connection, as it is proven; empty where it is
// none of TCP.
func HostAt(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return ""
	}
	at := t.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()).String()
}

// prove has the server prove that it knows the token, and that it is the one that was
// asked: the address at the other end of the connection is its own, or the host of the
// endpoint is the one that it was told to be reached by. What localhost means is decided
// by each connection, so it is nobody's name.
func (c *Client) prove(ctx context.Context) error {
	if last := c.proven.Load(); c.secure || last != nil && time.Since(*last) < proofHolds {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	at, nonce, now := "", rand.Text(), time.Now()
	of, key := keyOf(c.token)
	got, err := c.Prove(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(g httptrace.GotConnInfo) {
		at = HostAt(g.Conn.RemoteAddr())
	}}), ProveParams{Nonce: nonce, Of: of})
	refused, ok := errors.AsType[*Error](err)
	switch {
	case ok && refused.Status == http.StatusServiceUnavailable, errors.Is(err, ErrNoAnswer):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w (%w)", c.host, ErrUnproven, err)
	case at != "" && slices.Contains(got.Proofs, Proof(key, at, nonce)):
	case strings.HasPrefix(c.host, "localhost:") || !slices.Contains(got.Proofs, Proof(key, c.host, nonce)):
		return fmt.Errorf("%s: %w", c.host, ErrUnproven)
	}
	c.proven.Store(&now)
	return nil
}

// Bounds of what is read, in bytes: of an answer of one thing, or of a page, which ends
// before 4 MB of what is stored; of what comes whole, however much there is; of an answer
// that may be a stranger's, or says what went wrong; of each text of that.
const (
	maxAnswer  = 16 << 20
	maxWhole   = 64 << 20
	maxProblem = 64 << 10
	maxText    = 4 << 10
)

// most is how long an answer may be, by the path of the question.
func most(path string) int64 {
	switch path {
	case pathProof:
		return maxProblem
	case "/v1/apply", "/v1/apps", "/v1/apps/{app}/executors", "/v1/changes", "/v1/facts", "/v1/runs/{run}/log":
		return maxWhole
	}
	return maxAnswer
}

// thing is how long each thing of an answer is at least, on the whole, where the answer is as
// long as it may be: {} becomes a job of hundreds of bytes.
const thing = 160

// things is how many objects, and what stands for one, JSON has.
func things(b []byte) (n int64) {
	text := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case !text && (c == '{' || c == 'n'): // null
			n++
		}
	}
	return n
}

// do makes a request of JSON and reads its answer of JSON. nil is no query, and no
// body; names are those of the path, in its order.
func do[T any](ctx context.Context, c *Client, method, path string, query, body any, names ...string) (T, error) {
	var v T
	answer, err := c.ask(ctx, method, path, query, body, names...)
	if err == nil {
		err = c.foreign(json.Unmarshal(answer, &v))
	}
	return v, err
}

// ask makes a request, and reads what is answered when it was done.
func (c *Client) ask(ctx context.Context, method, path string, query, body any, names ...string) ([]byte, error) {
	most := min(c.o.MaxAnswer, most(path))
	path, err := in(path, names)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	if path != pathProof {
		if err := c.prove(ctx); err != nil {
			return nil, err
		}
	}
	resp, err := c.send(ctx, method, path, query, body)
	if err != nil {
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err
		}
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		most = min(most, maxProblem)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch long, room := int64(len(answer)) > most, 1000+most/thing; {
	case resp.StatusCode == http.StatusOK && (long || things(answer) > room):
		return nil, fmt.Errorf("%s answered more than the %d bytes, or %d things, that such an answer may have: is it a tickring server?",
			c.host, most, room)
	case resp.StatusCode == http.StatusOK:
		return answer, c.foreign(err)
	}
	if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && to != "" {
		return nil, fmt.Errorf("%s sends whoever asks on to %.200q, and a token is for one server: if that one is meant, name it", c.host, to)
	}
	var reply ErrorReply
	if err != nil || json.Unmarshal(answer, &reply) != nil || reply.Error.Code == "" {
		return nil, fmt.Errorf("%s answered %.200s: is it a tickring server?", c.host, resp.Status)
	}
	reply.Error.Status = resp.StatusCode
	for _, text := range []*string{&reply.Error.Code, &reply.Error.Field, &reply.Error.Value, &reply.Error.Message} {
		if len(*text) > maxText {
			*text = strings.ToValidUTF8((*text)[:maxText], "") + "…"
		}
	}
	return nil, &reply.Error
}

// foreign is the error of an answer that could not be read.
func (c *Client) foreign(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s answered something else than JSON of this interface: is it a tickring server? (%w)", c.host, err)
}

func (c *Client) send(ctx context.Context, method, path string, query, body any) (*http.Response, error) {
	values, err := valuesOf(query)
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, content)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = values.Encode()
	if method == http.MethodPut || path == "/v1/apply" {
		// Done twice it is done once. A server that wants for connections may close this one
		// between two requests, and with such a header, which is not sent, it is asked again.
		r.Header["X-Idempotency-Key"] = nil
	}
	if path != pathProof {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.o.Language != "" {
		r.Header.Set("Accept-Language", c.o.Language)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.o.HTTP.Do(r)
}

// in puts names in the place of those in braces. Those are refused that a server, or
// what is before it, takes out of a path: the rest names something else.
func in(path string, names []string) (string, error) {
	for _, name := range names {
		before, rest, _ := strings.Cut(path, "{")
		field, after, _ := strings.Cut(rest, "}")
		if name == "" || name == "." || name == ".." {
			return "", &Error{Code: "invalid", Field: field, Value: name, Message: "a name is needed here"}
		}
		path = before + url.PathEscape(name) + after
	}
	return path, nil
}

// valuesOf is a query: the fields of its JSON. Those that are left out there are so
// here, and each of a list is a value.
func valuesOf(query any) (url.Values, error) {
	b, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var fields map[string]any
	if err := dec.Decode(&fields); err != nil {
		return nil, err
	}
	values := url.Values{}
	for name, field := range fields {
		list, ok := field.([]any)
		if !ok {
			list = []any{field}
		}
		for _, one := range list {
			values.Add(name, fmt.Sprint(one))
		}
	}
	return values, nil
}
