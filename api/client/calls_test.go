package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/peak"
)

// document holds the parts of openapi.yaml that the tests read.
type document struct {
	Paths      map[string]map[string]any
	Components struct {
		Parameters map[string]parameter
		Schemas    map[string]struct{ Properties map[string]any }
	}
}

type parameter struct {
	Ref    string `yaml:"$ref"`
	Name   string
	In     string
	Schema struct{ Type, Format string }
}

type operation struct {
	ID         string `yaml:"operationId"`
	Parameters []parameter
	Body       struct{ Content content } `yaml:"requestBody"`
	Responses  map[string]struct{ Content content }

	method, path string
}

type content map[string]struct {
	Schema struct {
		Ref string `yaml:"$ref"`
	}
}

// of is the name of the type of JSON; empty if there is none.
func (c content) of() string {
	return strings.TrimPrefix(c["application/json"].Schema.Ref, "#/components/schemas/")
}

func read(t *testing.T) (doc document, list []operation) {
	t.Helper()
	b, err := os.ReadFile("../openapi.yaml")
	if err == nil {
		err = yaml.Unmarshal(b, &doc)
	}
	check.OK(t, err)
	as := func(from, to any) {
		b, err := yaml.Marshal(from)
		if err == nil {
			err = yaml.Unmarshal(b, to)
		}
		check.OK(t, err)
	}
	for path, item := range doc.Paths {
		var common []parameter
		as(item["parameters"], &common)
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			op := operation{method: strings.ToUpper(method), path: path}
			as(raw, &op)
			op.Parameters = append(op.Parameters, common...)
			for i, p := range op.Parameters {
				if p.Ref != "" {
					op.Parameters[i] = doc.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				}
			}
			list = append(list, op)
		}
	}
	return doc, list
}

var (
	moment  = time.Date(2026, 11, 20, 2, 30, 0, 5000, time.FixedZone("", 3600))
	samples = map[string][]string{ // by type or format
		"string":    {"a&b=c d"},
		"integer":   {"1234567890"},
		"boolean":   {"true"},
		"array":     {"x,y", "z"},
		"date-time": {"2026-11-20T02:30:00.000005+01:00"},
	}
)

// fill sets each field of a query to its sample.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for _, field := range v.Fields() {
		switch x := field.Addr().Interface().(type) {
		case *time.Time:
			*x = moment
		case *[]string:
			*x = samples["array"]
		case *string:
			*x = samples["string"][0]
		case *bool:
			*x = true
		case *int:
			*x = 1234567890
		case *int32:
			*x = 1234567890
		case **int64:
			*x = new(int64(1234567890))
		default:
			t.Fatalf("no sample of %T", x)
		}
	}
}

// TestEveryOperationHasItsMethod: each operation of the document is a method of its name, with the types named there and
// the same verb, path, query and body. There are no other methods.
func TestEveryOperationHasItsMethod(t *testing.T) {
	type request struct {
		Method, Path string
		Query        url.Values
		Body         string
	}
	var got request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = request{r.Method, r.URL.EscapedPath(), r.URL.Query(), string(body)}
		if (r.URL.Path == pathProof) == (r.Header.Get("Authorization") == "Bearer sesame") {
			t.Errorf("%s %s: of nobody: %v", r.Method, r.URL, r.Header)
		}
		if (len(body) > 0) != (r.Header.Get("Content-Type") == "application/json") {
			t.Errorf("%s %s: %d bytes of %q", r.Method, r.URL, len(body), r.Header.Get("Content-Type"))
		}
		io.WriteString(w, "{}")
	}))
	defer server.Close()
	c, err := New(server.URL+"/", "sesame", Config{HTTP: server.Client()})
	check.OK(t, err)
	calls := map[string]reflect.Value{}
	for m, v := range reflect.ValueOf(c).Methods() {
		calls[m.Name] = v
	}
	_, operations := read(t)
	if len(operations) < 40 {
		t.Fatalf("%d operations: was the document read?", len(operations))
	}
	for _, op := range operations {
		name := strings.ToUpper(op.ID[:1]) + op.ID[1:]
		call, ok := calls[name]
		if !ok {
			t.Errorf("%s has no method %s", op.ID, name)
			continue
		}
		delete(calls, name)
		kind := call.Type()
		want, values, body := request{Method: op.method, Path: op.path, Query: url.Values{}}, []reflect.Value{}, ""
		for i := range kind.NumIn() {
			in := reflect.New(kind.In(i)).Elem()
			switch {
			case i == 0:
				in.Set(reflect.ValueOf(t.Context()))
			case in.Kind() == reflect.String:
				in.SetString(fmt.Sprintf("%d/ä @{b}", i))
				before, rest, _ := strings.Cut(want.Path, "{")
				_, after, _ := strings.Cut(rest, "}")
				want.Path = before + url.PathEscape(in.String()) + after
			case in.Type().Name() == name+"Params":
				fill(t, in)
			default:
				body = in.Type().Name()
				b, err := json.Marshal(in.Interface())
				check.OK(t, err)
				want.Body = string(b)
			}
			values = append(values, in)
		}
		for _, p := range op.Parameters {
			if p.In != "query" {
				continue
			}
			if want.Query[p.Name] = samples[p.Schema.Type]; p.Schema.Format == "date-time" {
				want.Query[p.Name] = samples[p.Schema.Format]
			}
		}
		out := call.Call(values)
		if err := out[1].Interface(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		check.Equal(t, cmp.Diff(want, got), "", "%s differs from the document (-want +got)", name)
		check.Equal(t, body, op.Body.Content.of(), "%s takes", name)
		if want, got := op.Responses["200"].Content.of(), kind.Out(0).Name(); got != want {
			t.Errorf("%s gives %q, want %q", name, got, want)
		}
	}
	for name := range calls {
		t.Errorf("%s is no operation of the document", name)
	}
}

// TestErrorIsTheDocuments: an error in the format of the document is returned completely, with the HTTP status.
func TestErrorIsTheDocuments(t *testing.T) {
	doc, _ := read(t)
	reply := map[string]string{}
	for name := range doc.Components.Schemas["Error"].Properties {
		reply[name] = "the " + name
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusConflict)
		json.NewEncoder(w).Encode(map[string]any{"error": reply})
	}))
	defer server.Close()
	c, err := New(server.URL, "sesame", Config{HTTP: server.Client()})
	check.OK(t, err)
	_, err = c.Fence(t.Context())
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != http.StatusConflict || err.Error() != `the field: "the value": the message` {
		t.Fatalf("%v", err)
	}
	b, err := json.Marshal(e)
	check.OK(t, err)
	var got map[string]string
	if err := json.Unmarshal(b, &got); err != nil || !maps.Equal(got, reply) {
		t.Errorf("%s, %v; the document has %v", b, err, reply)
	}
}

// TestNameThatIsNone: names such as ".." change the target of a path. Pausing the app ".." would pause everything.
func TestNameThatIsNone(t *testing.T) {
	c := trip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("asked for %s", r.URL)
		return nil, io.EOF
	}).client(t, Config{})
	for _, name := range []string{"", ".", ".."} {
		_, err := c.PauseApp(t.Context(), name, PauseRequest{})
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != "invalid" || e.Field != "app" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// trip answers requests instead of a network.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// client returns a client of the answers.
func (f trip) client(t *testing.T, o Config) *Client {
	t.Helper()
	o.HTTP = &http.Client{Transport: f}
	c, err := New("https://example.com", "sesame", o)
	check.OK(t, err)
	return c
}

// answering answers each request with the body that make returns.
func answering(make func() io.Reader) trip {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(make()), Request: r}, nil
	}
}

// TestDeadline: a call ends at the timeout, whether there is no answer or an endless one.
func TestDeadline(t *testing.T) {
	silent := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	endless := func(r *http.Request) (*http.Response, error) {
		in, out := io.Pipe()
		context.AfterFunc(r.Context(), func() { out.CloseWithError(r.Context().Err()) })
		return &http.Response{StatusCode: http.StatusOK, Body: in, Request: r}, nil
	}
	for _, c := range []struct {
		name    string
		do      trip
		timeout time.Duration
		want    time.Duration
	}{
		{"silent", silent, 0, 5 * time.Minute},
		{"silent, less", silent, time.Second, time.Second},
		{"endless", endless, time.Second, time.Second},
		{"endless proof", endless, 0, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Config{HTTP: &http.Client{Transport: c.do}, Timeout: c.timeout}
				endpoint := "https://example.com"
				if c.name == "endless proof" {
					endpoint = "http://example.com"
				}
				cl, err := New(endpoint, "sesame", o)
				check.OK(t, err)
				began := time.Now()
				_, err = cl.GetStatus(t.Context())
				if took := time.Since(began); took != c.want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("after %s: %v", took, err)
				}
				check.Equal(t, errors.Is(err, ErrNoAnswer), strings.HasPrefix(c.name, "silent"), "%v", err)
			})
		})
	}
}

// TestNothingIsAskedForByDefault: an unset query field is not sent, so that the server's default applies.
func TestNothingIsAskedForByDefault(t *testing.T) {
	cl := trip(func(r *http.Request) (*http.Response, error) {
		check.Equal(t, r.URL.RawQuery, "", "asked for")
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	}).client(t, Config{})
	if _, err := cl.ListJobs(t.Context(), ListJobsParams{}); err != nil {
		t.Error(err)
	}
}

// TestAnswerIsBounded: an answer above the limit is not read to its end.
func TestAnswerIsBounded(t *testing.T) {
	do := answering(func() io.Reader { return strings.NewReader(`{"version":"1"}`) })
	for most, ok := range map[int64]bool{14: false, 15: true} {
		if _, err := do.client(t, Config{MaxAnswer: most}).GetStatus(t.Context()); (err == nil) != ok {
			t.Errorf("15 bytes, of which %d are read: %v", most, err)
		}
	}
}

// endless is an answer without end that counts the bytes read.
type endless struct{ read int64 }

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, strings.Repeat(" ", len(b)))
	e.read += int64(n)
	return n, nil
}

// TestAnswerOfNothings: an answer of limited length does not take a thousand times as much memory.
func TestAnswerOfNothings(t *testing.T) {
	for _, one := range []string{"{}", "null"} {
		body := `{"version":"\"{\\","jobs":[` + one + strings.Repeat(","+one, 1_000_000) + "]}"
		c := answering(func() io.Reader { return strings.NewReader(body) }).client(t, Config{})
		var err error
		if took := peak.Allocated(func() { _, err = c.ListJobs(t.Context(), ListJobsParams{}) }); err == nil || took > 64<<20 {
			t.Errorf("%s: %v, and %d MiB", one, err, took>>20)
		}
	}
	check.Equal(t, things([]byte(`{"a":"{n\"{","b":[{},null,{"c":"\\"}]}`)), 4, "things")
}

// TestEndlessAnswers: the client reads of an endless answer only the maximum size of the call's answers.
func TestEndlessAnswers(t *testing.T) {
	texts := golden.New(t)
	var body endless
	do := answering(func() io.Reader { body = endless{}; return &body })
	jobs := func(c *Client) error { _, err := c.ListJobs(t.Context(), ListJobsParams{}); return err }
	job := func(c *Client) error { _, err := c.GetJob(t.Context(), "a", "b"); return err }
	apps := func(c *Client) error { _, err := c.ListApps(t.Context()); return err }
	log := func(c *Client) error { _, err := c.GetLog(t.Context(), "1", GetLogParams{}); return err }
	for name, c := range map[string]struct {
		call func(c *Client) error
		o    Config
		most int64
	}{"a job": {job, Config{}, maxAnswer}, "jobs": {jobs, Config{}, maxAnswer}, "apps": {apps, Config{}, maxWhole},
		"a log": {log, Config{}, maxWhole}, "with a bound": {apps, Config{MaxAnswer: 1000}, 1000}} {
		texts.Equal(t, name, fmt.Sprint(c.call(do.client(t, c.o))))
		check.Equal(t, body.read, c.most+1, "%s N bytes are read", name)
	}
}
