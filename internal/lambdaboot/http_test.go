package lambdaboot

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// document is an event of testdata, changed by edits.
func document(t *testing.T, name string, edits ...func(e map[string]any)) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	check.OK(t, err)
	var e map[string]any
	check.OK(t, json.Unmarshal(b, &e))
	for _, edit := range edits {
		edit(e)
	}
	if b, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	return b
}

func set(value any, path ...string) func(map[string]any) {
	return func(e map[string]any) {
		for _, p := range path[:len(path)-1] {
			e = e[p].(map[string]any)
		}
		e[path[len(path)-1]] = value
	}
}

// ask decodes a document as Lambda does and calls the handler.
func ask(t *testing.T, doc []byte, h http.HandlerFunc) (events.APIGatewayV2HTTPResponse, error) {
	t.Helper()
	var res events.APIGatewayV2HTTPResponse
	out, err := awslambda.NewHandler(HTTP(h, slog.New(slog.DiscardHandler))).Invoke(t.Context(), doc)
	if err == nil {
		if err := json.Unmarshal(out, &res); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return res, err
}

// seen calls the handler with a document and returns the request that the handler saw.
func seen(t *testing.T, doc []byte) (r *http.Request, body string) {
	t.Helper()
	res, err := ask(t, doc, func(_ http.ResponseWriter, got *http.Request) {
		b, err := io.ReadAll(got.Body)
		check.NoError(t, err)
		r, body = got, string(b)
	})
	if err != nil || r == nil {
		t.Fatalf("the handler was not asked: %+v, %v", res, err)
	}
	return r, body
}

// TestRequests compares the requests that a handler gets with the golden file.
func TestRequests(t *testing.T) {
	texts := golden.New(t)
	for name, doc := range map[string][]byte{
		"HTTP API":     document(t, "httpapi.json"),
		"function URL": document(t, "url.json"),
		"IPv6":         document(t, "url.json", set("2001:db8::7", "requestContext", "http", "sourceIp")),
		"binary body": document(t, "httpapi.json", set(base64.StdEncoding.EncodeToString([]byte("\x00\xff\xfe")), "body"),
			set(true, "isBase64Encoded")),
	} {
		r, body := seen(t, doc)
		var header strings.Builder
		check.OK(t, r.Header.Write(&header))
		texts.Equal(t, name, fmt.Sprintf("%s %s\nescaped %s, path %s\nhost %s, from %s\n%s%d bytes: %q", r.Method, r.RequestURI,
			r.URL.EscapedPath(), r.URL.Path, r.Host, r.RemoteAddr, strings.ReplaceAll(header.String(), "\r", ""), r.ContentLength, body))
	}
	if _, body := seen(t, document(t, "httpapi.json", set(strings.Repeat("x", maxEventBody), "body"))); len(body) != maxEventBody {
		t.Errorf("%d bytes, want %d", len(body), maxEventBody)
	}
}

func TestStage(t *testing.T) {
	for _, c := range []struct{ stage, path, want string }{
		{"prod", "/prod/v1/jobs", "/v1/jobs"},
		{"prod", "/prod", "/"},
		{"prod", "/prod/", "/"},
		{"prod", "/v1/jobs", "/v1/jobs"},           // a domain of its own: no stage in the path
		{"prod", "/production/x", "/production/x"}, // another name with the same beginning
		{"v1", "/v1/v1/jobs", "/v1/jobs"},
		{"$default", "/v1/jobs", "/v1/jobs"},
		{"", "/v1/jobs", "/v1/jobs"},
	} {
		r, _ := seen(t, document(t, "url.json", set(c.stage, "requestContext", "stage"), set(c.path, "rawPath")))
		check.Equal(t, r.URL.Path, c.want, "stage %q, path %q", c.stage, c.path)
	}
}

// TestBadEvents: events in another format are errors. Mistakes of a caller are answered to the caller, without a call of
// the handler.
func TestBadEvents(t *testing.T) {
	texts := golden.New(t)
	for name, c := range map[string]struct {
		doc    []byte
		status int // 0: an error
	}{
		"not JSON":               {doc: []byte(`{"version":`)},
		"empty":                  {doc: []byte(`{}`)},
		"payload 1.0":            {doc: document(t, "url.json", set("1.0", "version"))},
		"no version":             {doc: document(t, "url.json", set("", "version"))},
		"no method":              {doc: document(t, "url.json", set("", "requestContext", "http", "method"))},
		"no path":                {doc: document(t, "url.json", set("", "rawPath"))},
		"path without a slash":   {doc: document(t, "url.json", set("x", "rawPath"))},
		"body that is no base64": {doc: document(t, "httpapi.json", set("%%%", "body"), set(true, "isBase64Encoded"))},
		"bad escape":             {doc: document(t, "url.json", set("/v1/%zz", "rawPath")), status: 400},
		"half an escape":         {doc: document(t, "url.json", set("/v1/%", "rawPath")), status: 400},
		"bad method":             {doc: document(t, "url.json", set("G E T", "requestContext", "http", "method")), status: 400},
		"huge body":              {doc: document(t, "httpapi.json", set(strings.Repeat("x", maxEventBody+1), "body")), status: 413},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := ask(t, c.doc, func(http.ResponseWriter, *http.Request) { t.Error("the handler was asked") })
			if c.status == 0 {
				texts.Equal(t, name, fmt.Sprint(err))
			}
			if c.status != 0 && (err != nil || res.StatusCode != c.status) {
				t.Errorf("status %d, %v; want %d", res.StatusCode, err, c.status)
			}
		})
	}
}

// TestResponses compares what Lambda gets of each kind of answer with the golden file.
func TestResponses(t *testing.T) {
	texts := golden.New(t)
	for name, h := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"text":    func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") },
		"status and headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Add("Vary", "Accept")
			w.Header().Add("Vary", "Cookie")
			w.WriteHeader(103) // informational, not the status
			w.WriteHeader(404)
			w.WriteHeader(200) // the first status counts
			io.WriteString(w, `{}`)
		},
		"cookies": func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
			w.WriteHeader(204)
		},
		"binary": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("\x89PNG\r\n\x1a\n\x00\xff")) },
		"HEAD":   func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") },
		"panic": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Half", "done")
			io.WriteString(w, "half")
			panic("boom")
		},
	} {
		method := "GET"
		if name == "HEAD" {
			method = name
		}
		res, err := ask(t, document(t, "url.json", set(method, "requestContext", "http", "method")), h)
		check.OK(t, err)
		got, err := json.Marshal(res)
		check.OK(t, err)
		texts.Equal(t, name, string(got))
	}
}

// TestPanicIsLogged: a panic is logged with its location.
func TestPanicIsLogged(t *testing.T) {
	var b bytes.Buffer
	h := awslambda.NewHandler(HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }),
		slog.New(slog.NewJSONHandler(&b, nil))))
	check.Call(t)(h.Invoke(t.Context(), document(t, "url.json")))
	if !strings.Contains(b.String(), `"panic":"boom"`) || !strings.Contains(b.String(), "http_test.go") {
		t.Errorf("log: %s", b.String())
	}
}

// TestAnswersFit: an answer above Lambda's limit becomes an error message, not a failure. An answer that fits in one of
// the two formats uses that format.
func TestAnswersFit(t *testing.T) {
	texts := golden.New(t)
	for name, c := range map[string]struct {
		path, piece string
		pieces      int
		language    string
		status      int
		base64      bool
	}{
		"text":                       {piece: "line of a log\n", pieces: 350_000, status: 200},
		"text of what JSON escapes":  {piece: "\x01\"\u2028\n", pieces: 600_000, status: 200, base64: true},
		"binary":                     {piece: "\xff\xfe\xfd\xfc", pieces: 1_100_000, status: 200, base64: true},
		"binary that is too long":    {piece: "\xff\xfe\xfd\xfc", pieces: 1_200_000, status: 413},
		"text that is too long":      {piece: "line of a log\n", pieces: 500_000, status: 413},
		"one of the API":             {path: "/v1/runs", piece: "x", pieces: 6_000_000, status: 413},
		"one of the API, in Chinese": {path: "/v1/runs", piece: "x", pieces: 6_000_000, language: "zh", status: 413},
		"one that goes on and on":    {piece: strings.Repeat("x", 1<<20), pieces: 1000, status: 413},
	} {
		t.Run(name, func(t *testing.T) {
			written := 0
			h := HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				for range c.pieces {
					n, err := io.WriteString(w, c.piece)
					if written += n; err != nil {
						return
					}
				}
			}), slog.New(slog.DiscardHandler))
			out, err := awslambda.NewHandler(h).Invoke(t.Context(), document(t, "url.json", set(cmp.Or(c.path, "/console/"), "rawPath"),
				set(c.language, "headers", "accept-language")))
			var res events.APIGatewayV2HTTPResponse
			if err == nil {
				err = json.Unmarshal(out, &res)
			}
			if err != nil || len(out) > 6_000_000 || written > 6_000_000 {
				t.Fatalf("%d bytes, %d written, %v", len(out), written, err)
			}
			if res.StatusCode != c.status || res.IsBase64Encoded != c.base64 {
				t.Errorf("%d, base64 %t: %.200s", res.StatusCode, res.IsBase64Encoded, res.Body)
			}
			if c.status != http.StatusOK {
				texts.Equal(t, name, res.Body)
			}
			if got := res.Headers["Content-Type"]; c.path != "" && got != "application/json" {
				t.Errorf("as %s", got)
			}
		})
	}
}
