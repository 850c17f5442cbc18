package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core/glance"
)

// How open pages notice changes.
const (
	maxListeners = 500
	lookEvery    = 200 * time.Millisecond
	tellEvery    = 800 * time.Millisecond // minimum time between messages
	listenFor    = 10 * time.Minute       // then the browser reconnects
	checkEvery   = 5 * time.Second        // whether the session has ended
	pollEvery    = 4 * time.Second        // minimum time between polls, if pages poll
	pollMost     = time.Minute
	pollSwift    = 300 * time.Millisecond // pages that took no longer are polled every pollEvery
	pollTimes    = 50                     // wait per further build time
	pollUnit     = time.Second / 2        // wait per read unit of an answer, so that an open page costs at most $1 a month
	pollCall     = 20                     // other costs of an answer, in read units: calls of a function and of queues
	busyFor      = 2 * time.Minute        // runs can start and end without another journal for this long after the newest one
	madeAnew     = 2 * time.Minute        // age at which the next poll rebuilds a page, even if no run was sent
)

// Live returns how an open page notices changes: "push", or the poll interval in milliseconds.
func (a *ask) Live() string {
	if a.c.o.Writes != nil {
		return "push"
	}
	return fmt.Sprint(pollEvery.Milliseconds())
}

// again returns how long an open page that polls waits until its next request. took is how long the page took to build; units is
// how many read units it took, 0 if the store does not count them. An open page costs at most a tenth of a processor, a slow
// page a fiftieth or one answer a minute, and at most two read units a second.
func again(took time.Duration, units float64) time.Duration {
	wait := min(max(pollTimes*(took-pollSwift), pollEvery), pollMost)
	if units > 0 {
		wait = max(wait, time.Duration((units+pollCall)*float64(pollUnit)))
	}
	return wait
}

// sent returns the second in which the build of the page began and the newest journal. It is empty if the journal
// cannot be read.
func (a *ask) sent() string {
	newest, err := a.c.o.Newest(a.Ctx())
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d@%s", a.Now.Unix(), newest)
}

// unsure makes an open page that polls rebuild at its next request, because the page does not show everything.
func (a *ask) unsure() {
	if a.c.o.Newest != nil {
		a.since = ""
	}
}

// peek answers an open page that asks whether to rebuild, with two small reads and before any other read. The answer is 204 if no
// run was sent since the page was built, and none so recently that it may still be running. A page older than madeAnew is
// rebuilt in any case, because some changes have no journal.
func (c *Console) peek(w http.ResponseWriter, r *http.Request) {
	ctx, _ := glance.Begin(r.Context())
	if secret, _ := c.sessionOf(r); c.o.Access.Ended(ctx, secret) {
		c.begin(w, r) // answers that the session has ended
		return
	}
	began, seen, _ := strings.Cut(r.Header.Get("X-Since"), "@")
	at, err := strconv.ParseInt(began, 10, 64)
	age := c.o.Now().Sub(time.Unix(at, 0))
	if err != nil || age < 0 || age >= madeAnew {
		return
	}
	newest, err := c.o.Newest(ctx)
	if err != nil || newest.String() != seen || c.o.Now().Sub(time.Unix(60*newest.Minute, 0)) < busyFor {
		return
	}
	w.Header().Set("X-Ask-Again", fmt.Sprint(max(min(age/4, madeAnew-age), pollEvery).Milliseconds()))
	w.WriteHeader(http.StatusNoContent)
}

// Still reports whether an open page never refreshes by itself. Two kinds of pages do not refresh: answers to a form, and
// pages with a form that has input.
func (a *ask) Still() bool { return a.still || a.Posted() }

// Posted reports whether the page is the answer to a form. Its input is not saved, and it cannot be requested again.
func (a *ask) Posted() bool { return a.r.Method != http.MethodGet }

// live sends an event to an open page after a write, at most every tellEvery. The page then refreshes itself.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	if c.o.Newest != nil && r.Method == http.MethodHead {
		c.peek(w, r)
		return
	}
	a, ok := c.begin(w, r)
	switch {
	case !ok:
		return
	case r.Method == http.MethodHead: // checks that the server answers and the session is valid
		return
	case c.o.Writes == nil:
		http.Error(w, "ask again instead", http.StatusNotFound)
		return
	case !c.listen.Acquire(r.Context(), a.who.Name, 0):
		http.Error(w, "too many pages listen: ask again instead", http.StatusServiceUnavailable)
		return
	}
	defer c.listen.Release(a.who.Name)
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	fmt.Fprint(w, "retry: 1000\n\n")
	if rc.Flush() != nil {
		return
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	end := time.NewTimer(listenFor)
	defer end.Stop()
	secret, _ := c.sessionOf(r)
	seen, told, quiet := c.o.Writes(), time.Time{}, time.Now()
	checked := quiet
	if since := r.URL.Query().Get("since"); since != "" && since != fmt.Sprint(seen) { // written after the page was built, or last listened
		told = quiet
		fmt.Fprint(w, "event: changed\ndata: \n\n")
		if rc.Flush() != nil {
			return
		}
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-c.o.Done:
			return
		case <-end.C:
			return
		case now := <-look.C:
			if now.Sub(checked) > checkEvery {
				if checked = now; c.o.Access.Ended(r.Context(), secret) {
					return
				}
			}
			n := c.o.Writes()
			switch {
			case n != seen && now.Sub(told) >= tellEvery:
				seen, told, quiet = n, now, now
				fmt.Fprint(w, "event: changed\ndata: \n\n")
			case now.Sub(quiet) > 15*time.Second: // so that both ends notice a broken connection
				quiet = now
				fmt.Fprint(w, ": here\n\n")
			default:
				continue
			}
			_ = rc.SetWriteDeadline(now.Add(10 * time.Second))
			if rc.Flush() != nil {
				return
			}
		}
	}
}
