package lambdaboot

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/middleware"

	"github.com/tickring/tickring/engine/awsengine"
)

// Clients configures how the functions call AWS. A zero field means its default.
type Clients struct {
	// Kept is how many connections to one host stay open while idle: more than a store uses at once, so that a burst opens no
	// new ones.
	Kept int // 128
	// KeptFor limits how long idle connections stay open, including the time while a function is frozen.
	KeptFor time.Duration // 60 s
	// Connect is the maximum time to wait for a connection.
	Connect time.Duration // 3 s
	// Attempt is how long a store waits for the answer to an attempt of a request; each further attempt has twice as long, up
	// to AttemptMax. Answers take about ten milliseconds: a late one will not come, and the request is repeated. All attempts
	// together end within an invocation.
	Attempt, AttemptMax time.Duration // 1 s, 4 s
	Attempts            int           // 4
	// BackoffMax limits the wait before an attempt, which grows from under a second. After an attempt without an answer there
	// is no wait.
	BackoffMax time.Duration // 2 s
}

func (c *Clients) defaults() {
	c.Kept, c.KeptFor = cmp.Or(c.Kept, 128), cmp.Or(c.KeptFor, time.Minute)
	c.Connect = cmp.Or(c.Connect, 3*time.Second)
	c.Attempt, c.AttemptMax = cmp.Or(c.Attempt, time.Second), cmp.Or(c.AttemptMax, 4*time.Second)
	c.Attempts, c.BackoffMax = cmp.Or(c.Attempts, 4), cmp.Or(c.BackoffMax, 2*time.Second)
}

// Of returns two configurations. The store retries requests until one has its answer. All others share its connections,
// but their callers limit the time: a slow invocation is not repeated.
func (c Clients) Of(sdk aws.Config) (store, others aws.Config) {
	c.defaults()
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = 0, c.Kept, c.KeptFor
	}).WithDialerOptions(func(d *net.Dialer) { d.Timeout = c.Connect }).GetTransport()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	sdk.APIOptions = append(slices.Clone(sdk.APIOptions), unchained)
	store, others = sdk.Copy(), sdk.Copy()
	others.HTTPClient = client
	store.HTTPClient = &timed{c, client}
	store.Retryer = c.retryer
	store.APIOptions = append(store.APIOptions, awsengine.Sure)
	return store, others
}

// unchained removes the header that links a request to its invocation. Lambda follows it from message to message and stops
// a function with 16 invocations in one chain. In a job whose next run starts at the end of the last, and in its retries,
// that would stop the executor's function.
func unchained(stack *middleware.Stack) error {
	chain := (*awsmiddleware.RecursionDetection)(nil).ID()
	if _, there := stack.Build.Get(chain); !there {
		return nil
	}
	_, err := stack.Build.Remove(chain)
	return err
}

func (c *Clients) retryer() aws.Retryer {
	grows := retry.NewExponentialJitterBackoff(c.BackoffMax)
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = c.Attempts
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
			if noAnswer(err) {
				return rand.N(c.Attempt/20 + 1), nil
			}
			return grows.BackoffDelay(attempt, err)
		})
	})
}

// timed limits the time of each attempt of a request.
type timed struct {
	c      Clients
	client *http.Client
}

func (t *timed) Do(r *http.Request) (*http.Response, error) {
	n := attempt(r)
	one := *t.client
	one.Timeout = min(t.c.Attempt<<min(n-1, 16), t.c.AttemptMax)
	res, err := one.Do(r) //nolint:gosec // requests of the AWS SDK
	if n == 1 && noAnswer(err) && r.Context().Err() == nil {
		// A function that was frozen finds all its connections dead without any sign: the next attempt must use a new one.
		t.client.CloseIdleConnections()
	}
	return res, err
}

// attempt returns the number of an attempt, from 1, from the SDK's header. Without the header a request has the longest
// time.
func attempt(r *http.Request) int {
	n := 0
	if _, err := fmt.Sscanf(r.Header.Get("Amz-Sdk-Request"), "attempt=%d", &n); err != nil || n < 1 {
		return 17
	}
	return n
}

// noAnswer reports whether an attempt timed out.
func noAnswer(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
