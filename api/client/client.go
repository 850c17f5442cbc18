// Package client has a Go client for the API of a tickring server. New returns a client with one method for each
// operation of the OpenAPI document, generated from it. The comments name fields as the document does: `ifRev` is IfRev.
//
//	c, err := client.New("http://127.0.0.1:7700", token, client.Config{})
//	job, err := c.GetJob(ctx, "reports", "nightly")
//
// If the server returned an error, the error of the method is an *Error. Otherwise it wraps ErrNoAnswer if no answer
// arrived, or ErrUnproven if the client did not send the token.
//
// This package is public and imports nothing else from this repository.
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

// Config has the settings of New. The zero value is valid.
type Config struct {
	// HTTP is the HTTP client that sends the requests; http.DefaultClient if nil. Redirects are not followed,
	// because a token is for only one server.
	HTTP *http.Client
	// Timeout is the maximum duration of a call, including the time to read the answer; 5 minutes if 0.
	Timeout time.Duration
	// MaxAnswer is the maximum number of bytes that the client reads from an answer. Each call also has a limit
	// of its own, and the lower limit applies. 0 means only the limit of the call.
	MaxAnswer int64
	// Language is the language of errors and schedule descriptions, "en" or "zh". If empty, the language is
	// English.
	Language string
}

// Client sends requests to one server. Its methods are safe for concurrent use.
//
// Over https, the certificate identifies the server. Over http, the server must first prove that it has the token and
// that it is the requested server. Only then does the client send the token. The proof protects against another server
// that listens at the address or forwards requests. It does not protect against an attacker on the network path, who
// can read all traffic. The method Prove asks for proofs and sends no token. The other methods ask for proofs by themselves.
type Client struct {
	endpoint, host, token string
	o                     Config
	secure                bool // the endpoint uses https
	proven                atomic.Pointer[time.Time]
}

// New returns a client of the server at endpoint, such as http://127.0.0.1:7700. New does not connect to the server.
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

// Waits reports whether a queued run waits for this limit: the run is in the limit's queue, or its start time is in
// the future. If false, the run can only wait for an executor.
func (p *Permit) Waits(now time.Time) bool {
	return p != nil && (p.Place > 0 || p.Begins.After(now))
}

// Error is an error that the server returned for a whole call or for one item of a call.
type Error struct {
	Status  int    `json:"-"`               // HTTP status of the answer; 0 for an error of one item
	Code    string `json:"code"`            // error code, such as not-found
	Field   string `json:"field,omitempty"` // path of the invalid field, such as schedule.cron; may be empty
	Value   string `json:"value,omitempty"` // rejected value, truncated; may be empty
	Message string `json:"message"`         // description of the problem, with the allowed values
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

// ErrNoAnswer is wrapped by the error of a request that got no answer from the server.
var ErrNoAnswer = errors.New("no answer")

// ErrUnproven is wrapped by the error of a call whose token was not sent, because the server did not prove that it has
// the token.
var ErrUnproven = errors.New("the server did not prove that it knows the token, so the token was not sent")

const (
	pathProof = "/v1/proof"
	// proofHolds is how long a proof stays valid for the listener at that address.
	proofHolds = 10 * time.Second
	// proofWait limits the time of a proof: it costs a server nothing, and an impostor may answer a byte a second.
	proofWait = 10 * time.Second
)

// Proof returns the proof that the server at host has the token. host includes the port. The client chooses the nonce.
func Proof(token, host, nonce string) string {
	m := hmac.New(sha256.New, []byte(token))
	io.WriteString(m, "tickring proof\n"+host+"\n"+nonce) // the token is the key of other hashes too: none of them starts like this
	return hex.EncodeToString(m.Sum(nil))
}

// keyOf returns the key for the proof of a token. The server stores only a hash of a user's token, which is then the key.
// of names the user and the token to the server, but does not help to guess the token.
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

// HostOf returns the host and port of a URL, in the form used in proofs.
func HostOf(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// HostAt returns the host and port of a TCP address, in the form used in proofs. For other addresses it returns an
// empty string.
func HostAt(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return ""
	}
	at := t.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()).String()
}

// prove makes the server prove that it knows the token and is the requested server. It must own the address at the other
// end of the connection, or be configured with the host of the endpoint. localhost proves nothing, because every machine
// resolves it to itself.
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

// Limits of answers, in bytes: of one item, or of a page, which ends before 4 MB of stored data; of an answer that is
// always complete; of an error or an answer that may not come from a server; of each text of such an answer.
const (
	maxAnswer  = 16 << 20
	maxWhole   = 64 << 20
	maxProblem = 64 << 10
	maxText    = 4 << 10
)

// most returns the maximum length of an answer, by the path of the request.
func most(path string) int64 {
	switch path {
	case pathProof:
		return maxProblem
	case "/v1/apply", "/v1/apps", "/v1/apps/{app}/executors", "/v1/changes", "/v1/facts", "/v1/runs/{run}/log":
		return maxWhole
	}
	return maxAnswer
}

// thing is the minimum average length of an item in an answer of maximum length: decoding turns {} into a job of hundreds
// of bytes.
const thing = 160

// things counts the objects in JSON, and null values in their place.
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

// do sends a JSON request and decodes the JSON answer. A nil query or body is not sent; names are the path's parameters,
// in order.
func do[T any](ctx context.Context, c *Client, method, path string, query, body any, names ...string) (T, error) {
	var v T
	answer, err := c.ask(ctx, method, path, query, body, names...)
	if err == nil {
		err = c.foreign(json.Unmarshal(answer, &v))
	}
	return v, err
}

// ask sends a request and returns the answer if it succeeded.
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
		return nil, fmt.Errorf("%s: the response exceeds %d bytes or %d values: check --endpoint",
			c.host, most, room)
	case resp.StatusCode == http.StatusOK:
		return answer, c.foreign(err)
	}
	if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && to != "" {
		return nil, fmt.Errorf("%s redirects to %.200q: tokens are not sent to another server: set --endpoint to that URL if it is correct",
			c.host, to)
	}
	var reply ErrorReply
	if err != nil || json.Unmarshal(answer, &reply) != nil || reply.Error.Code == "" {
		return nil, fmt.Errorf("%s: %.200s without a tickring error: another program or a proxy answered: check --endpoint", c.host, resp.Status)
	}
	reply.Error.Status = resp.StatusCode
	for _, text := range []*string{&reply.Error.Code, &reply.Error.Field, &reply.Error.Value, &reply.Error.Message} {
		if len(*text) > maxText {
			*text = strings.ToValidUTF8((*text)[:maxText], "") + "…"
		}
	}
	return nil, &reply.Error
}

// foreign returns the error for an answer that could not be decoded.
func (c *Client) foreign(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: the response is not tickring JSON: check --endpoint (%w)", c.host, err)
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
		// Repeating it does not change the result. A server that lacks connections may close this one between two requests; with
		// this header, which is not sent, the request is then repeated.
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

// in replaces the parameters in braces by names. It rejects names that a server or proxy removes from a path, because the
// rest names something else.
func in(path string, names []string) (string, error) {
	for _, name := range names {
		before, rest, _ := strings.Cut(path, "{")
		field, after, _ := strings.Cut(rest, "}")
		if name == "" || name == "." || name == ".." {
			return "", &Error{Code: "invalid", Field: field, Value: name, Message: "a name is required"}
		}
		path = before + url.PathEscape(name) + after
	}
	return path, nil
}

// valuesOf returns the query for the fields of its JSON. Fields that JSON omits are omitted, and each list element is a
// value.
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
