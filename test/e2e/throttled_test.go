package e2e_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// throttledFor is how long nothing of tables and queues is to be had.
const throttledFor = time.Minute

// throttled: while a job fires each second, tables and queues reject all requests for a minute, of all functions at once. No run is
// lost.
func (s *stack) throttled(t *testing.T) {
	to, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL"))
	check.OK(t, err)
	var shut atomic.Bool
	var refused, passed atomic.Int64
	forward := httputil.NewSingleHostReverseProxy(to)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !shut.Load() {
			passed.Add(1)
			forward.ServeHTTP(w, r)
			return
		}
		refused.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amzn-Query-Error", "ThrottlingException;Sender") // as SQS names it
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"__type":"com.amazon.coral.availability#ThrottlingException","message":"Rate exceeded"}`)
	}))
	defer between.Close()

	app := s.app(t, "throttled", "")
	before := s.environment(t, map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": between.URL, "AWS_ENDPOINT_URL_SQS": between.URL})
	defer func() { // remove the proxy in any case
		for fn, env := range before {
			s.configure(t, fn, env)
		}
	}()
	c, from := s.fires(t, app, "--misfire", "all") // runs late by more than a minute are wanted, too
	store.Sleep(t.Context(), around)
	if passed.Load() == 0 {
		t.Fatal("the functions do not ask through the proxy: nothing would be proven")
	}
	shut.Store(true)
	store.Sleep(t.Context(), throttledFor)
	shut.Store(false)
	if n := refused.Load(); n < 10 {
		t.Errorf("only %d requests were refused", n)
	}
	store.Sleep(t.Context(), around)
	c.hold(t, s, app, from, time.Now().Truncate(time.Second))
	t.Logf("%d requests were refused", refused.Load())
}

// environment adds variables to all functions, and returns their previous variables.
func (s *stack) environment(t *testing.T, more map[string]string) (before map[string]map[string]string) {
	t.Helper()
	before = map[string]map[string]string{}
	for fn := range s.code() {
		out, err := lambda.NewFromConfig(s.sdk).GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &fn})
		if err != nil || out.Environment == nil {
			t.Fatalf("the environment of %s: %v", fn, err)
		}
		before[fn] = out.Environment.Variables
		env := maps.Clone(out.Environment.Variables)
		for name := range env {
			if strings.HasPrefix(name, "AWS_ENDPOINT_URL_") {
				t.Fatalf("%s has %s already", fn, name)
			}
		}
		maps.Copy(env, more)
		s.configure(t, fn, env)
	}
	return before
}

func (s *stack) configure(t *testing.T, fn string, env map[string]string) {
	t.Helper()
	if _, err := lambda.NewFromConfig(s.sdk).UpdateFunctionConfiguration(t.Context(), &lambda.UpdateFunctionConfigurationInput{
		FunctionName: &fn, Environment: &types.Environment{Variables: env},
	}); err != nil {
		t.Errorf("the environment of %s: %v", fn, err)
		return
	}
	s.active(t, fn)
}
