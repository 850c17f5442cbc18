package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/executor/internal/request"
	"github.com/tickring/tickring/wire"
)

// client sends requests to the servers, in their configured order.
type client struct {
	http    *http.Client
	token   string
	app     string
	timeout time.Duration
	servers []*server
}

type server struct {
	base string
	// object reports that callbacks are sent as {"callbackList":[…]} (dialect D) and not as an array. A callback that is
	// rejected in one format is retried in the other.
	object atomic.Bool
}

// speaksD makes callbacks start with the format of dialect D: a server called at its path.
func (c *client) speaksD() {
	for _, s := range c.servers {
		s.object.Store(true)
	}
}

// errRefused reports that a server read the request and rejected it.
var errRefused = errors.New("the server rejected the request")

// post sends one request to one server; nil only for code 200.
func (c *client) post(ctx context.Context, base, path string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	headers := map[string]string{"Content-Type": wire.ContentType, wire.HeaderToken: c.token, wire.HeaderApp: c.app}
	if path == wire.PathRegistry { // shows how far the clocks differ
		headers["Date"] = time.Now().UTC().Format(http.TimeFormat)
	}
	status, b, err := request.Send(ctx, c.http, http.MethodPost, strings.TrimRight(base, "/")+path, headers, body, 64<<10)
	if err != nil {
		return err
	}
	reply, err := wire.DecodeReply(b)
	switch {
	case err != nil && status != http.StatusOK:
		return fmt.Errorf("HTTP %d", status)
	case err != nil:
		return fmt.Errorf("the answer does not follow the protocol: %w", err)
	case !reply.OK():
		return fmt.Errorf("%w: code %d: %s", errRefused, reply.Code, oneLine(reply.Msg, 500))
	case status < 200 || status > 299:
		return fmt.Errorf("HTTP %d", status)
	}
	return nil
}

// each calls ask for the servers in order, until one has dealt with the request.
func (c *client) each(ctx context.Context, ask func(*server) error) error {
	var errs []error
	for _, s := range c.servers {
		err := ask(s)
		if err == nil || errors.Is(err, errAPI) {
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", s.base, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// toOne tries the servers in order until one accepts the request.
func (c *client) toOne(ctx context.Context, path string, body []byte) error {
	return c.each(ctx, func(s *server) error { return c.post(ctx, s.base, path, body) })
}

// callback brings results to one server, in the shape that it reads.
func (c *client) callback(ctx context.Context, items []wire.CallbackItem) error {
	return c.each(ctx, func(s *server) error {
		object := s.object.Load()
		err := c.post(ctx, s.base, wire.PathCallback, callbackBody(object, items))
		if errors.Is(err, errRefused) && c.post(ctx, s.base, wire.PathCallback, callbackBody(!object, items)) == nil {
			s.object.Store(!object)
			return nil
		}
		return err
	})
}

func callbackBody(object bool, items []wire.CallbackItem) []byte {
	d := wire.DialectGo // every admin before D reads it
	if object {
		d = wire.DialectD
	}
	return wire.AppendCallback(nil, d, items)
}

// backoff is the wait after the nth failure in a row, up to most.
func backoff(n int, most time.Duration) time.Duration {
	return min(time.Second<<min(n-1, 10), most)
}

// heartbeat registers the address at once and then every interval, whatever the servers answer, until ctx ends.
func (e *Executor) heartbeat(ctx context.Context) {
	body := wire.AppendRegistration(nil, e.registration())
	for failures := 0; ; {
		err := e.client.toOne(ctx, wire.PathRegistry, body)
		wait := e.o.Heartbeat
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && failures > 0:
			e.log.Info("executor registered again", "app", e.o.App, "address", e.o.Address)
			failures = 0
		case err != nil:
			if failures++; failures == 1 {
				e.log.Warn("registration not accepted by any server: retrying", "app", e.o.App, "address", e.o.Address, "error", err)
			}
			wait = backoff(failures, e.o.Heartbeat)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (e *Executor) registration() wire.Registration {
	return wire.Registration{Group: wire.GroupExecutor, App: e.o.App, Address: e.o.Address}
}

// reporter holds the results that no server took yet.
type reporter struct {
	mu      sync.Mutex
	waiting []pending
	refused []pending // each was rejected alone, and is sent alone again when due
	row     int       // consecutive first rejections of single results since a result was taken
	kick    chan struct{}
}

type pending struct {
	item    wire.CallbackItem
	durable *flush // from the journal; nil if it is stored already
	sub     *Submitted
	tries   int // how often it was rejected alone
	due     time.Time
}

func (r *reporter) add(p pending) {
	r.mu.Lock()
	r.waiting = append(r.waiting, p)
	r.mu.Unlock()
	nudge(r.kick)
}

// nudge wakes the receiver of a channel with room for one value.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Bounds of one callback.
const (
	callbackItems = 500
	callbackBytes = 1 << 20
)

// take removes the results of the next request: the first waiting ones, or else a rejected one that is due.
func (r *reporter) take(most int) []pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, size := 0, 0
	for n < len(r.waiting) && n < most {
		// An item has about 200 bytes beside its message, which it contains twice.
		size += 200 + 2*len(r.waiting[n].item.Msg) + len(r.waiting[n].item.Data)
		if n > 0 && size > callbackBytes {
			break
		}
		n++
	}
	out := r.waiting[:n:n]
	if r.waiting = r.waiting[n:]; len(r.waiting) == 0 {
		r.waiting = nil
	}
	if n > 0 {
		return out
	}
	now := time.Now()
	if i := slices.IndexFunc(r.refused, func(p pending) bool { return !p.due.After(now) }); i >= 0 {
		out = []pending{r.refused[i]}
		r.refused = slices.Delete(r.refused, i, i+1)
	}
	return out
}

// back returns results that were not taken to the front. A result that was rejected alone waits for its next attempt alone
// and does not delay others.
func (r *reporter) back(ps []pending, refused bool, retry time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !refused || len(ps) > 1 {
		r.waiting = append(ps, r.waiting...)
		return
	}
	p := ps[0]
	if p.tries++; p.tries == 1 {
		r.row++
	}
	p.due = time.Now().Add(backoff(p.tries, retry))
	r.refused = append(r.refused, p)
}

// wait returns how long until there is a result to send.
func (r *reporter) wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := time.Hour
	if len(r.waiting) > 0 {
		d = 0
	}
	for i := range r.refused {
		d = min(d, time.Until(r.refused[i].due))
	}
	return d
}

// refusals is how many single results in a row may be rejected before the executor pauses: a server that rejects more
// rejects every result.
const refusals = 10

// report sends results until ctx ends.
func (e *Executor) report(ctx context.Context) {
	most, failures := callbackItems, 0
	for wait := time.Duration(0); ; {
		kick := e.reporter.kick
		if failures > 0 {
			kick = nil // the pause is not cut short
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-kick:
		}
		var err error
		most, err = e.sendBatch(ctx, most)
		switch {
		case ctx.Err() != nil:
			return // interrupted by the stop, which sends the rest
		case err != nil && (!errors.Is(err, errRefused) || e.reporter.row >= refusals):
			if failures++; failures == 1 {
				e.log.Warn("results of runs not accepted by any server: stored and resent", "error", err)
			}
		case failures > 0 && e.reporter.row < refusals:
			failures = 0
			e.log.Info("results of runs accepted again")
		}
		if wait = e.reporter.wait(); failures > 0 {
			wait = backoff(failures, e.o.CallbackRetry)
		}
	}
}

// sendBatch sends one batch and returns how many results the next may have: a rejected batch is halved until the rejected
// result is alone.
func (e *Executor) sendBatch(ctx context.Context, most int) (int, error) {
	ps := e.reporter.take(most)
	if len(ps) == 0 {
		return most, nil
	}
	items := make([]wire.CallbackItem, len(ps))
	ids := make([]int64, len(ps))
	for i, p := range ps {
		// A result is on disk before it is reported, so that no restart reports another one. If the disk fails, it is reported
		// anyway.
		if p.durable != nil {
			<-p.durable.done
		}
		items[i], ids[i] = p.item, p.item.LogID
	}
	err := e.client.callback(ctx, items)
	if err != nil {
		refused := errors.Is(err, errRefused)
		if refused && len(ps) == 1 && ps[0].tries == 0 {
			e.log.Warn("result of a run rejected: stored and resent", "run", ids[0], "error", err)
		}
		e.reporter.back(ps, refused, e.o.CallbackRetry)
		if refused {
			most = max(len(ps)/2, 1)
		}
		return most, err
	}
	e.reporter.row = 0
	e.journal.taken(ids...)
	for _, p := range ps {
		if p.sub != nil {
			close(p.sub.reported)
		}
	}
	return min(most*2, callbackItems), nil
}
