package boot

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

// Clients are how the functions talk to AWS. The zero value of a field is its default.
type Clients struct {
	// Kept is how many connections to one host stay open while they are idle: more
	// than a store has requests under way, or each burst pays for new ones.
	Kept int // 128
	// KeptFor bounds how long they do. It counts while a function is frozen, too.
	KeptFor time.Duration // 60 s
	// Connect bounds how long a connection is waited for.
	Connect time.Duration // 3 s
	// Attempt is how long a store waits for the answer to an attempt of a request; each
	// further one has twice as long, up to AttemptMax. An answer takes some ten
	// milliseconds: one that has not come is waited for in vain, and another asked for.
	// In all it ends inside of an invocation.
	Attempt, AttemptMax time.Duration // 1 s, 4 s
	Attempts            int           // 4
	// BackoffMax bounds the wait before an attempt, which grows from under a second.
	// After one that had no answer there is none: it was a wait.
	BackoffMax time.Duration // 2 s
}

func (c *Clients) defaults() {
	c.Kept, c.KeptFor = cmp.Or(c.Kept, 128), cmp.Or(c.KeptFor, time.Minute)
	c.Connect = cmp.Or(c.Connect, 3*time.Second)
	c.Attempt, c.AttemptMax = cmp.Or(c.Attempt, time.Second), cmp.Or(c.AttemptMax, 4*time.Second)
	c.Attempts, c.BackoffMax = cmp.Or(c.Attempts, 4), cmp.Or(c.BackoffMax, 2*time.Second)
}

// Of makes two configurations of one: for the store, whose requests are tried again
// until one has its answer; and for all others, which share its connections and are
// bounded by who makes them: an invocation that is slow is not made twice.
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

// unchained takes out what tells AWS which invocation a request comes of. Lambda
// follows it from message to message, and stops a function of which it finds 16
// invocations in one chain: in a job whose next run begins at the end of the last, and
// in its retries, that would be the executor's function, which we may not allow it.
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

// timed gives each attempt of a request its time.
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
		// A function that was frozen finds its connections dead, all of them, and no
		// sign of it: the next attempt is to have a new one.
		t.client.CloseIdleConnections()
	}
	return res, err
}

// attempt is the number of an attempt, from 1, as the SDK tells it to AWS. Without
// one a request has the longest time.
func attempt(r *http.Request) int {
	n := 0
	if _, err := fmt.Sscanf(r.Header.Get("Amz-Sdk-Request"), "attempt=%d", &n); err != nil || n < 1 {
		return 17
	}
	return n
}

// noAnswer reports that the time of an attempt was over.
func noAnswer(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
