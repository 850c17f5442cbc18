package boot

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// maxEventBody bounds the body of a request; Lambda itself takes 6 MB.
const maxEventBody = 6 << 20

// HTTP serves requests that reach a function through an HTTP API or a function
// URL, which share one form (payload 2.0). An event of another form is an error
// that says so.
func HTTP(h http.Handler, log *slog.Logger) func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	return func(ctx context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		r, err := request(ctx, &e)
		if err != nil {
			log.Error("unreadable event", "err", err)
			return events.APIGatewayV2HTTPResponse{}, err
		}
		w := &response{header: http.Header{}}
		h.ServeHTTP(w, r)
		return w.event(), nil
	}
}

func request(ctx context.Context, e *events.APIGatewayV2HTTPRequest) (*http.Request, error) {
	if e.Version != "2.0" || e.RequestContext.HTTP.Method == "" || !strings.HasPrefix(e.RawPath, "/") {
		return nil, errors.New("the event is no HTTP request of payload format 2.0")
	}
	path := e.RawPath
	if stage := e.RequestContext.Stage; stage != "" && stage != "$default" {
		path = "/" + strings.TrimPrefix(strings.TrimPrefix(path, "/"+stage), "/")
	}
	body := []byte(e.Body)
	if e.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
			return nil, fmt.Errorf("the body is not base64: %w", err)
		}
	}
	if len(body) > maxEventBody {
		return nil, fmt.Errorf("a body of %d bytes; at most %d are allowed", len(body), maxEventBody)
	}
	u := url.URL{Scheme: "https", Host: e.RequestContext.DomainName, RawQuery: e.RawQueryString}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return nil, fmt.Errorf("the path %q cannot be read: %w", path, err)
	}
	u.Path, u.RawPath = decoded, path
	r, err := http.NewRequestWithContext(ctx, e.RequestContext.HTTP.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	for k, v := range e.Headers {
		r.Header.Set(k, v)
	}
	if len(e.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	r.RemoteAddr = e.RequestContext.HTTP.SourceIP + ":0"
	r.RequestURI = u.RequestURI()
	return r, nil
}

// response collects what a handler answers.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
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
	if b := w.body.Bytes(); utf8.Valid(b) {
		out.Body = string(b)
	} else {
		out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(b), true
	}
	return out
}
