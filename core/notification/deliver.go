package notification

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
)

// lane limits the messages to one channel, so that a hanging channel delays no other.
type lane struct {
	places  chan struct{}
	mu      sync.Mutex
	waiting int
	rest    time.Time // nothing is sent before then, because the channel did not answer
	why     string
	// These are the times when its trouble was last stored, and when a success last checked for a stored one.
	told, looked time.Time
}

func (n *Notices) lane(channel string) *lane {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.lanes[channel]
	if l == nil {
		l = &lane{places: make(chan struct{}, n.o.Places)}
		n.lanes[channel] = l
	}
	return l
}

// errBusy means that no place of a channel was free.
var errBusy = errors.New("many wait for this channel")

// errLater is the reason why a notification is not sent now; no attempt was made.
type errLater struct{ why string }

func (e errLater) Error() string { return e.why }

// enter waits for a place and returns the function that frees it. It uses the monotonic clock.
func (n *Notices) enter(ctx context.Context, l *lane) (leave func(), err error) {
	l.mu.Lock()
	if l.waiting >= n.o.Line {
		l.mu.Unlock()
		return nil, errBusy
	}
	l.waiting++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.waiting--
		l.mu.Unlock()
	}()
	t := time.NewTimer(n.o.PlaceWait)
	defer t.Stop()
	select {
	case l.places <- struct{}{}:
	case <-t.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.rest) {
		<-l.places
		return nil, errLater{l.why}
	}
	return func() { <-l.places }, nil
}

// sent is the result of sending one notification.
type sent struct {
	of      Pending
	err     error
	forGood bool
	tried   bool
	after   time.Duration
}

// deliver sends the taken notifications to the channels concurrently and records the results.
func (n *Notices) deliver(ctx context.Context, w *work, s State, k *known, who *core.Notify, mine []Pending) error {
	runs := map[core.RunID]*core.Run{} // if a run cannot be read, the message has fewer details
	var ids []core.RunID
	for i := range mine {
		if id := mine[i].Last.Run; id != 0 {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		slices.Sort(ids)
		found, err := n.s.Runs.Get(ctx, slices.Compact(ids))
		for i := range mine {
			run := &mine[i].Last.Run
			switch got, is := found[*run]; {
			case is && got.Err == nil:
				runs[*run] = got.Is
			case !is && err == nil: // it does not exist
				*run = 0
			}
		}
	}
	results := make([]sent, len(mine))
	var all sync.WaitGroup
	for i := range mine {
		all.Go(func() {
			ch, is := k.channels[mine[i].Channel]
			results[i] = n.send(ctx, &s, &mine[i], ch, is, runs[mine[i].Last.Run])
		})
	}
	all.Wait()
	for i := range results {
		n.fares(ctx, &results[i])
	}
	_, err := n.update(ctx, w, s, func(st *State) time.Time {
		now := n.o.Now()
		for i := range results {
			n.note(st, &results[i], who, now)
		}
		return n.next(k, st)
	})
	return err
}

// note records a result in the item. If a notification is given up, the other channels are notified of that.
func (n *Notices) note(st *State, r *sent, who *core.Notify, now time.Time) {
	if r.err == nil {
		st.Sent(&r.of, now)
		return
	}
	if !st.Failed(&r.of, r.err.Error(), r.forGood, r.tried, errors.Is(r.err, errBusy), r.after, now) {
		return
	}
	n.o.Log.Error("notification dropped", "channel", r.of.Channel, "event", r.of.Event, "subject", st.Name, "run", r.of.Last.Run, "err", r.err)
	if r.of.Event == core.EventMute {
		return
	}
	others := slices.DeleteFunc(slices.Clone(who.To), func(c string) bool { return c == r.of.Channel })
	if len(others) > 0 {
		t := st.Fold(&ring.Note{Event: core.EventMute, At: r.of.Last.At, When: now, Why: muteWhy(r.of.Channel, r.err)})
		if !now.Before(t.Quiet) {
			st.tell(t, others, who.Quiet, now)
		}
	}
}

// muteWhy formats why a notification is given up; mute splits it into the channel, whose name has no colon, and
// its error.
func muteWhy(channel string, err error) string { return channel + ": " + err.Error() }

func mute(why string) (channel, err string) {
	channel, err, _ = strings.Cut(why, ": ")
	return channel, err
}

// send sends one notification once, if its channel has a free place.
func (n *Notices) send(ctx context.Context, s *State, p *Pending, ch core.Channel, is bool, run *core.Run) (r sent) {
	r.of = *p
	if !is {
		r.err, r.forGood, r.tried = fmt.Errorf("there is no channel %s any more", p.Channel), true, true
		return r
	}
	l := n.lane(p.Channel)
	leave, err := n.enter(ctx, l)
	if err != nil {
		r.err = err
		return r
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, n.o.SendFor)
	defer cancel()
	r.tried = true
	if r.err = n.to.Send(ctx, ch, n.message(ctx, s, p, run)); r.err == nil {
		return r
	}
	var u *core.Undelivered
	if errors.As(r.err, &u) {
		r.forGood, r.after = u.Permanent, u.After
	}
	if !r.forGood {
		l.mu.Lock()
		l.rest, l.why = time.Now().Add(max(n.o.Rest, min(r.after, time.Hour))), r.err.Error()
		l.mu.Unlock()
	}
	n.o.Log.Warn("channel rejected a notification", "channel", p.Channel, "event", p.Event, "subject", s.Name, "forGood", r.forGood, "err",
		r.err)
	return r
}

// tailLines is the number of log lines in a message.
const tailLines = 20

// message makes the message of a notification.
func (n *Notices) message(ctx context.Context, s *State, p *Pending, run *core.Run) core.Message {
	id := fmt.Sprintf("%s-%s-%d", strings.ReplaceAll(s.Name, "/", "-"), p.Event, core.Millis(p.Made))
	m := core.Message{ID: id, Event: string(p.Event), Run: p.Last.Run, Instant: p.Last.At, Reason: p.Last.Reason, Text: p.Last.Why,
		At: p.Last.When, Count: int(min(p.Count, 1<<31-1)), Since: p.First.When, Deployment: n.o.Deployment}
	if s.Of != nil {
		m.App, m.Job, m.Title, m.Zone = s.Of.App, s.Of.Name, s.Of.Title, s.Of.Zone
	}
	if run != nil {
		m.App = run.App
		m.Due, m.State, m.Code, m.Times = run.Slot, run.State, run.Code, run.Attempt
		if run.Reason != "" {
			m.Reason = run.Reason
		}
		if m.Text == "" {
			m.Text = run.Message
		}
		switch p.Event {
		case core.EventLate:
			m.Took = run.Lateness()
		case core.EventSlow:
			m.Took = p.Last.When.Sub(run.SentAt)
		}
		if n.o.Logs != nil {
			m.Lines, _ = n.o.Logs.Tail(ctx, run, tailLines)
		}
	}
	switch p.Event {
	case core.EventOverdue:
		m.Took, m.Due = p.Last.When.Sub(p.Last.At.Time()), core.Ceil(p.Last.When)
	case core.EventMute:
		m.Muted, m.Text = mute(p.Last.Why)
	case core.EventRecovered, core.EventSkipped, core.EventDeadLetter, core.EventPaused:
		m.Times = int(max(p.Last.Times, 1))
	}
	if n.o.Link != "" && m.Run != 0 {
		m.Link = strings.ReplaceAll(n.o.Link, RunInLink, m.Run.String())
	}
	return m
}

// fares stores the health of a channel, which users see. It is written on a change, otherwise at most once a
// minute.
func (n *Notices) fares(ctx context.Context, r *sent) {
	l, now := n.lane(r.of.Channel), time.Now()
	givenUp := r.forGood || r.err != nil && n.o.Now().Sub(r.of.Made) >= budget.NoticeFor
	if went := n.o.Went; went != nil {
		switch {
		case r.err == nil:
			went(Took)
		case givenUp:
			went(GivenUp)
		case r.tried: // without a place there was no attempt
			went(Retried)
		}
	}
	l.mu.Lock()
	due := r.err == nil && (!l.told.IsZero() || now.Sub(l.looked) >= time.Minute) ||
		r.err != nil && (givenUp || r.tried && now.Sub(l.told) >= time.Minute)
	if due && r.err != nil {
		l.told = now
	} else if due {
		l.told, l.looked = time.Time{}, now
	}
	l.mu.Unlock()
	if !due {
		return
	}
	if err := n.trouble(ctx, r, givenUp); err != nil {
		n.o.Log.Warn("how a channel fares is not stored", "channel", r.of.Channel, "err", err)
	}
}

func (n *Notices) trouble(ctx context.Context, r *sent, givenUp bool) error {
	name := ChannelName(r.of.Channel)
	for try := 0; ; try++ {
		found, err := States(ctx, n.s, name)
		if err != nil {
			return err
		}
		s := found[name]
		s.Name = name
		now := n.o.Now().UTC()
		switch {
		case r.err == nil && s.Trouble == nil:
			return nil
		case r.err == nil:
			s.Trouble = nil
		default:
			t := Trouble{Since: now}
			if s.Trouble != nil {
				t = *s.Trouble
			}
			if t.Last, t.Error = now, r.err.Error(); givenUp {
				t.GivenUp++
			}
			s.Trouble = &t
		}
		s.V++
		if err = PutState(ctx, n.s, s); err == nil {
			return nil
		}
		if !errors.Is(err, core.ErrRefused) || try == tries {
			return err
		}
	}
}
