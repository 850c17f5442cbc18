package awsclient

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
)

func client(t *testing.T, region string, env map[string]string) *Client {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, env[name])
	}
	c, err := New(t.Context(), Options{Region: region, Getenv: func(name string) string { return env[name] }})
	check.OK(t, err)
	return c
}

func TestEndpoints(t *testing.T) {
	for _, c := range []struct {
		region, service string
		env             map[string]string
		want            string
	}{
		{"eu-central-1", "ssm", nil, "https://ssm.eu-central-1.amazonaws.com"},
		{"cn-north-1", "sqs", nil, "https://sqs.cn-north-1.amazonaws.com.cn"},
		{"eu-central-1", "monitoring", map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1/"}, "http://127.0.0.1:1"},
		{"eu-central-1", "monitoring", map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1",
			"AWS_ENDPOINT_URL_CLOUDWATCH": "http://127.0.0.1:2"}, "http://127.0.0.1:2"},
		{"eu-central-1", "dynamodb", map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:3"}, "http://127.0.0.1:3"},
	} {
		check.Equal(t, client(t, c.region, c.env).endpoint(c.service), c.want, "%s in %s", c.service, c.region)
	}
	for _, region := range []string{"evil.example/", "a:b", "x@y"} {
		t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
		if _, err := New(t.Context(), Options{Region: region}); err == nil || !strings.Contains(err.Error(), "not an AWS Region") {
			t.Errorf("%q: %v", region, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status           int
		header, body     string
		code             string
		missing, refused bool
	}{
		{400, "", `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"no table"}`, "ResourceNotFoundException",
			true, false},
		{400, "", `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no queue"}`, "QueueDoesNotExist", true, false},
		{404, "ResourceNotFoundException:http://internal.amazon.com/", `{"Message":"no function"}`, "ResourceNotFoundException", true, false},
		{400, "", `<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id x does not exist</Message></Error></ErrorResponse>`,
			"ValidationError", true, false},
		{403, "", `<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`, "AccessDenied", false, true},
		{400, "", `{"__type":"AccessDeniedException","Message":"no"}`, "AccessDeniedException", false, true},
		{400, "", `a proxy`, "", false, false},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.header != "" {
				w.Header().Set("X-Amzn-Errortype", c.header)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		err := client(t, "eu-central-1", map[string]string{"AWS_ENDPOINT_URL": s.URL}).Get(t.Context(), "lambda", "/x", &struct{}{})
		s.Close()
		e, ok := err.(*Error)
		if !ok || e.Code != c.code || e.Status != c.status || NotFound(err) != c.missing || Denied(err) != c.refused ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.body, err)
		}
	}
}

// An emulator that lacks a feature is distinguished from a complete one, and from one that does not answer.
func TestLacks(t *testing.T) {
	const refused = `{"__type":"InvalidClientTokenId","message":"no"}`
	for name, c := range map[string]struct {
		apis, tables          int // status of the answers
		httpAPIs, permissions bool
		fails                 bool
	}{
		"all":     {apis: 200, tables: 403},
		"neither": {apis: 501, tables: 200, httpAPIs: true, permissions: true},
		"refused": {apis: 403, tables: 403, fails: true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := c.apis
			if r.Method == http.MethodPost {
				status = c.tables
				if strings.Contains(r.Header.Get("Authorization"), "AKIDTEST") {
					t.Errorf("%s: tables are listed with known credentials", name)
				}
			}
			w.WriteHeader(status)
			fmt.Fprint(w, refused)
		}))
		httpAPIs, permissions, err := client(t, "us-east-1", map[string]string{"AWS_ENDPOINT_URL": s.URL}).Lacks(t.Context())
		s.Close()
		if httpAPIs != c.httpAPIs || permissions != c.permissions || (err != nil) != c.fails {
			t.Errorf("%s: HTTP APIs %t, permissions %t, %v", name, httpAPIs, permissions, err)
		}
	}
}

// A temporary failure is retried, a rejection is not, and a body is sent whole each time.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(n int32, w http.ResponseWriter)
		asked  int32
		ok     bool
	}{
		{"a fault", func(n int32, w http.ResponseWriter) {
			if n < 3 {
				w.WriteHeader(500)
			}
			fmt.Fprint(w, `<A></A>`)
		}, 3, true},
		{"a throttle", func(n int32, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(400)
				fmt.Fprint(w, `{"__type":"ThrottlingException"}`)
				return
			}
			fmt.Fprint(w, `<A></A>`)
		}, 2, true},
		{"faults for ever", func(n int32, w http.ResponseWriter) { w.WriteHeader(503) }, 3, false},
		{"a refusal", func(n int32, w http.ResponseWriter) { w.WriteHeader(400) }, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int32
			cl := client(t, "eu-central-1", map[string]string{"AWS_ENDPOINT_URL": "http://aws.test"})
			cl.o.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) *http.Response {
				w := httptest.NewRecorder()
				if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "Do" ||
					r.Header.Get("X-Amz-Date") == "" || r.Header.Get("Accept") != "" {
					t.Errorf("asked %v, %v", r.Form, err)
				}
				c.answer(n.Add(1), w)
				return w.Result()
			})}
			synctest.Test(t, func(t *testing.T) { // for the time between
				var out struct{}
				began := time.Now()
				err := cl.Query(context.Background(), "monitoring", "2010", "Do", url.Values{}, &out)
				if n.Load() != c.asked || (err == nil) != c.ok {
					t.Errorf("asked %d times: %v", n.Load(), err)
				}
				check.Equal(t, time.Since(began), time.Duration(c.asked*(c.asked-1)/2)*300*time.Millisecond, "it took")
			})
		})
	}
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
