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

	"github.com/tickring/tickring/internal/items"
)

// Clients has the settings for how the functions call AWS. A zero field means its default.
type Clients struct {
	// Kept is the maximum number of idle connections that stay open for each host. The default is higher than
	// the number that a store uses at once, so a burst opens no new connections.
	Kept int // default: 128
	// KeptFor is the maximum time for which an idle connection stays open, including the time while Lambda
	// freezes the function.
	KeptFor time.Duration // default: 60 s
	// Connect is the maximum time to open a connection.
	Connect time.Duration // default: 3 s
	// Attempt is the timeout of the first attempt of a store request. Each further attempt has twice the
	// timeout, up to AttemptMax. Answers usually take about 10 ms, so the store repeats a request whose answer
	// is late. All attempts together end within an invocation.
	Attempt, AttemptMax time.Duration // default: 1 s for Attempt, 4 s for AttemptMax
	Attempts            int           // Maximum number of attempts, including the first; default: 4
	// BackoffMax is the maximum wait before an attempt. The wait starts below one second and grows with each
	// attempt. After an attempt without an answer, the next attempt starts at once.
	BackoffMax time.Duration // default: 2 s
}

func (c *Clients) defaults() {
	c.Kept, c.KeptFor = cmp.Or(c.Kept, 128), cmp.Or(c.KeptFor, time.Minute)
	c.Connect = cmp.Or(c.Connect, 3*time.Second)
	c.Attempt, c.AttemptMax = cmp.Or(c.Attempt, time.Second), cmp.Or(c.AttemptMax, 4*time.Second)
	c.Attempts, c.BackoffMax = cmp.Or(c.Attempts, 4), cmp.Or(c.BackoffMax, 2*time.Second)
}

// Of returns two AWS configurations. The first is for the store, and retries requests until one gets an answer. The
// second is for all other clients and shares the connections. These callers limit the time themselves, and a slow
// invocation is not repeated.
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
	store.APIOptions = append(store.APIOptions, items.Sure)
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
