package console

import (
	"fmt"
	"net/http"
	"time"
)

// How pages that are open hear of what changed.
const (
	maxListeners = 500
	lookEvery    = 200 * time.Millisecond
	tellEvery    = 800 * time.Millisecond // at most so often
	listenFor    = 10 * time.Minute       // then the browser comes again
	checkEvery   = 5 * time.Second        // whether the session has ended
	pollEvery    = 4 * time.Second        // at most so often, where nobody tells them, or there is no place to listen
	pollMost     = time.Minute
	pollSwift    = 300 * time.Millisecond // an answer that took no longer is asked for as often as may be
	pollTimes    = 50                     // what it took beyond that
)

// Live says how an open page hears of changes: "push", or after how many milliseconds it asks.
func (a *ask) Live() string {
	if a.c.o.Writes != nil {
		return "push"
	}
	return fmt.Sprint(pollEvery.Milliseconds())
}

// again is after how long an open page that nobody tells asks again, whose answer took a while to
// make: one that is left open costs a tenth of a processor at most, a slow one a fiftieth, or an answer
// a minute.
func again(took time.Duration) time.Duration {
	return min(max(pollTimes*(took-pollSwift), pollEvery), pollMost)
}

// Still reports whether an open page is not asked for again: the answer to a form, whose
// address answers another page, and a form that is filled in.
func (a *ask) Still() bool { return a.still || a.Posted() }

// Posted reports whether the page is the answer to a form: what was typed there is not saved.
func (a *ask) Posted() bool { return a.r.Method != http.MethodGet }

// live tells a page that something was written, at most every tellEvery; what that means
// for it the page finds out by asking for itself.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	a, ok := c.begin(w, r)
	switch {
	case !ok:
		return
	case r.Method == http.MethodHead: // whether the server answers, and knows who asks
		return
	case c.o.Writes == nil:
		http.Error(w, "ask again instead", http.StatusNotFound)
		return
	case !c.listen.Enter(r.Context(), a.who.Name, 0):
		http.Error(w, "too many pages listen: ask again instead", http.StatusServiceUnavailable)
		return
	}
	defer c.listen.Leave(a.who.Name)
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
	if since := r.URL.Query().Get("since"); since != "" && since != fmt.Sprint(seen) { // since the page was made, or listened last
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
			case now.Sub(quiet) > 15*time.Second: // so that both ends notice when the other is gone
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
