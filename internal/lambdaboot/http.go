package lambdaboot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/wirehttp"
	"github.com/tickring/tickring/words"
)

// maxEventBody limits the body of a request; Lambda itself accepts 6 MB.
const maxEventBody = 6 << 20

// HTTP returns a Lambda handler that serves requests from an HTTP API or a function URL. Both use the event format
// payload 2.0. The handler returns an error for an event in another format. An invalid request of a client only gets
// an HTTP error answer, so that clients cannot cause alarms.
func HTTP(h http.Handler, log *slog.Logger) func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	return func(ctx context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		r, status, err := request(ctx, &e)
		if err != nil && status == 0 {
			log.Error("unreadable event", "err", err)
			return events.APIGatewayV2HTTPResponse{}, err
		}
		w := &response{header: http.Header{}}
		if err != nil {
			http.Error(w, err.Error(), status)
			return w.event(), nil
		}
		serve(h, w, r, log)
		if !w.fits() {
			log.Warn("answer exceeds the size limit of Lambda", "method", r.Method, "path", r.URL.Path)
			w = tooLarge(r)
		}
		return w.event(), nil
	}
}

// serve answers 500 if a handler panics. Otherwise Lambda would end the process, and with it the requests that it would
// get.
func serve(h http.Handler, w *response, r *http.Request, log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			*w = response{header: http.Header{}}
			http.Error(w, "internal error", http.StatusInternalServerError)
		}
	}()
	h.ServeHTTP(w, wirehttp.CleanPath(r))
	if r.Method == http.MethodHead {
		w.body.Reset()
	}
}

// request builds the request of an event. An error with a status is the caller's fault; one without means that the event
// is invalid.
func request(ctx context.Context, e *events.APIGatewayV2HTTPRequest) (r *http.Request, status int, err error) {
	if e.Version != "2.0" || e.RequestContext.HTTP.Method == "" || !strings.HasPrefix(e.RawPath, "/") {
		return nil, 0, errors.New("the event is not an HTTP request of payload format 2.0")
	}
	path := e.RawPath
	if stage := "/" + e.RequestContext.Stage; stage != "/" && stage != "/$default" {
		if rest, ok := strings.CutPrefix(path, stage); ok && (rest == "" || rest[0] == '/') {
			path = cmp.Or(rest, "/")
		}
	}
	body := []byte(e.Body)
	if e.IsBase64Encoded {
		if body, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
			return nil, 0, fmt.Errorf("the body is not base64: %w", err)
		}
	}
	if len(body) > maxEventBody {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("body of %d bytes: at most %d are allowed", len(body), maxEventBody)
	}
	u := url.URL{Scheme: "https", Host: e.RequestContext.DomainName, RawQuery: e.RawQueryString}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the path %q cannot be read: %w", path, err)
	}
	u.Path, u.RawPath = decoded, path
	r, err = http.NewRequestWithContext(ctx, e.RequestContext.HTTP.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the request cannot be read: %w", err)
	}
	for k, v := range e.Headers {
		r.Header.Set(k, v)
	}
	if len(e.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	// As in a request over a connection, the host is not among the headers.
	r.Host = cmp.Or(r.Header.Get("Host"), r.Host)
	r.Header.Del("Host")
	r.RemoteAddr = net.JoinHostPort(e.RequestContext.HTTP.SourceIP, "0")
	r.RequestURI = u.RequestURI()
	return r, 0, nil
}

// maxAnswer limits the body of an answer encoded as JSON; Lambda accepts 6 MB including the rest of the answer.
const maxAnswer = 5_900_000

var errLarge = core.Errorf(core.CodeTooLarge, "the answer exceeds the 6 MB limit of Lambda functions: request less data")

func tooLarge(r *http.Request) *response {
	w := &response{header: http.Header{}}
	said := words.Error(words.Asked(r.Header.Get("Accept-Language")), errLarge)
	if strings.HasPrefix(r.URL.Path, "/console/") {
		http.Error(w, said, http.StatusRequestEntityTooLarge)
		return w
	}
	w.header.Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusRequestEntityTooLarge)
	fmt.Fprintf(w, `{"error":{"code":%q,"message":%q}}`, errLarge.Code, said)
	return w
}

// response collects the answer of a handler, up to the size limit.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
	large  bool // there was more
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.large = w.large || w.body.Len()+len(b) > maxAnswer; w.large {
		return 0, errLarge
	}
	return w.body.Write(b)
}

// asText reports whether the body can be sent unchanged, not in base64.
func (w *response) asText() bool {
	return utf8.Valid(w.body.Bytes()) && inJSON(w.body.Bytes()) <= maxAnswer
}

func (w *response) fits() bool {
	return !w.large && (base64.StdEncoding.EncodedLen(w.body.Len()) <= maxAnswer || w.asText())
}

// inJSON returns the length of a text with JSON escapes.
func inJSON(b []byte) int {
	n := len(b) + 3*(bytes.Count(b, []byte("\u2028"))+bytes.Count(b, []byte("\u2029")))
	for _, c := range b {
		switch {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < 0x20:
			n += 5
		}
	}
	return n
}

func (w *response) event() events.APIGatewayV2HTTPResponse {
	w.WriteHeader(http.StatusOK)
	out := events.APIGatewayV2HTTPResponse{StatusCode: w.status, Headers: map[string]string{}, Cookies: w.header.Values("Set-Cookie")}
	if w.body.Len() > 0 && w.header.Get("Content-Type") == "" {
		w.header.Set("Content-Type", http.DetectContentType(w.body.Bytes()))
	}
	for k, v := range w.header {
		if k != "Set-Cookie" {
			out.Headers[k] = strings.Join(v, ", ")
		}
	}
	if b := w.body.Bytes(); w.asText() {
		out.Body = string(b)
	} else {
		out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(b), true
	}
	return out
}
