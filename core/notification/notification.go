package notification

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Options of Notices. A field with its zero value gets the default in its comment.
type Options struct {
	Now        func() time.Time
	Log        *slog.Logger
	Deployment string // name of the deployment in messages
	// Link is the URL of a run's page, with the placeholder RunInLink for the run's ID. CheckLink checks it. Empty: messages
	// have no link.
	Link string
	// Places is the maximum number of concurrent sends to one channel, and Line the maximum number of further notifications
	// that wait. A notification waits at most PlaceWait. Notifications that exceed a limit are retried later.
	Places, Line int           // defaults: 16 and 4,096
	PlaceWait    time.Duration // default: 15 s
	// SendFor is the timeout of one send. Lease is how long no other process sends the notification.
	SendFor, Lease time.Duration // defaults: 20 s and 45 s
	// Rest is how long nothing is sent to a channel after a send without a response.
	Rest time.Duration // default: 30 s
	// Pace is the minimum interval between two writes of one job's item by this process.
	Pace time.Duration // default: 250 ms
	// Again is the interval between two checks whether a failing job has recovered. The interval grows while the job keeps
	// failing.
	Again time.Duration // default: 1 min
	Logs  Logs          // reads the last log lines for messages; nil: messages have no log lines
	// Went is called with the outcome of each attempt to send to a channel. The function must not block. nil: no call.
	Went func(o Outcome)
}

// RunInLink is the placeholder in Options.Link for the ID of a run.
const RunInLink = "{run}"

// maxLink limits a link in bytes: messages leave out longer ones, and an ID has up to 20.
const maxLink = 900

// CheckLink returns an error unless link is empty or an http or https URL that contains RunInLink.
func CheckLink(link string) error {
	if link == "" {
		return nil
	}
	u, err := url.Parse(strings.ReplaceAll(link, RunInLink, "1"))
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil:
		return fmt.Errorf("%q: an http or https URL without a password is allowed, such as https://jobs.example.com/runs/%s", link, RunInLink)
	case !strings.Contains(link, RunInLink):
		return fmt.Errorf("%q: the URL must contain %s, which is replaced by the run ID", link, RunInLink)
	case len(link) > maxLink:
		return fmt.Errorf("a URL of %d bytes: at most %d are allowed", len(link), maxLink)
	}
	return nil
}

// An Outcome is the result of one attempt to send a notification to a channel.
type Outcome string

// The outcomes. Took: the channel accepted the notification. Retried: the attempt failed and will be retried. GivenUp: the
// notification is dropped.
const (
	Took    Outcome = "sent"
	Retried Outcome = "failed"
	GivenUp Outcome = "given-up"
)

var Outcomes = []Outcome{Took, Retried, GivenUp}

type Notices struct {
	s      *store.Store
	to     Sender
	o      Options
	mu     sync.Mutex
	lanes  map[string]*lane
	groups map[part]*group
	paced  map[part]time.Time
}

// New returns Notices.
func New(s *store.Store, to Sender, o Options) *Notices {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Places, o.Line = cmp.Or(o.Places, 16), cmp.Or(o.Line, 4096)
	o.PlaceWait, o.SendFor, o.Lease = cmp.Or(o.PlaceWait, 15*time.Second), cmp.Or(o.SendFor, 20*time.Second), cmp.Or(o.Lease, 45*time.Second)
	o.Again = cmp.Or(o.Again, time.Minute)
	o.Rest, o.Pace = cmp.Or(o.Rest, 30*time.Second), cmp.Or(o.Pace, 250*time.Millisecond)
	return &Notices{s: s, to: to, o: o, lanes: map[string]*lane{}, groups: map[part]*group{}, paced: map[part]time.Time{}}
}

// part is the work of a job that waits for a definition that cannot be read, or the rest: checks, and notes of an unplanned job or of a
// dead letter, because the unreadable definition can be their cause.
type part struct {
	job   core.JobID
	waits bool
}

// work is the requests of several messages for one part.
type work struct {
	part
	notes []ring.Note
	looks []ring.CheckRequest
	asks  []int
	err   error
}

// holds reports whether the work contains a check at a time.
func (w *work) holds(at core.Instant) bool {
	return slices.ContainsFunc(w.looks, func(l ring.CheckRequest) bool { return l.At == at })
}

// free returns the time of a check at or after t that the work does not contain: checks in hand are dropped later, and with a slow
// clock the next one can have the same time.
func (w *work) free(t time.Time) core.Instant {
	at := core.Ceil(t)
	for w.holds(at) {
		at++
	}
	return at
}

// known is the data that was read for a job.
type known struct {
	job      *core.Job // nil: it is deleted, or cannot be read
	unread   bool      // the job or its app cannot be read
	app      core.App
	global   core.Global
	state    State
	channels map[string]core.Channel
}

// Handle counts the notes of messages and makes their checks. It returns an error for each message. nil means that the message
// can be acknowledged.
//
// A message that only requests checks always gets nil. An open check stays in the index and is requested again by each pass,
// so redelivery would only add messages. A check that failed not only because the store was overloaded moves on by unreadAgain.
func (n *Notices) Handle(ctx context.Context, asks []ring.PostRun) []error {
	errs := make([]error, len(asks))
	var all []*work
	of := map[part]*work{}
	at := func(p part, i int) *work {
		w := of[p]
		if w == nil {
			w = &work{part: p}
			of[p], all = w, append(all, w)
		}
		if k := len(w.asks); k == 0 || w.asks[k-1] != i {
			w.asks = append(w.asks, i)
		}
		return w
	}
	for i, a := range asks {
		for _, note := range a.Notes {
			w := at(part{note.Job, note.Event != core.EventUnplanned && note.Event != core.EventDeadLetter}, i)
			w.notes = append(w.notes, note)
		}
		for _, l := range a.Looks {
			w := at(part{job: l.Job}, i)
			w.looks = append(w.looks, l)
		}
	}
	if len(all) == 0 {
		return errs
	}
	var lanes sync.WaitGroup
	for _, w := range all {
		lanes.Go(func() { w.err = n.together(ctx, w) })
	}
	lanes.Wait()
	var done, back []ring.CheckRequest
	for _, w := range all {
		if len(w.looks) > 0 && !errors.Is(w.err, core.ErrThrottled) {
			if done = append(done, w.looks...); w.err != nil {
				back = append(back, ring.CheckRequest{At: w.free(n.o.Now().Add(unreadAgain)), Job: w.job})
			}
		}
		if w.err == nil {
			continue
		}
		n.o.Log.Warn("notices of a job come again", "job", w.job, "err", w.err)
		for _, i := range w.asks {
			if len(asks[i].Notes) > 0 {
				errs[i] = w.err
			}
		}
	}
	var err error
	if len(back) > 0 {
		err = n.s.PutLooks(ctx, back)
	}
	if err == nil && len(done) > 0 {
		err = n.s.DropLooks(ctx, done)
	}
	if err != nil { // a check that stays is repeated, which is harmless
		n.o.Log.Warn("looks at notices are not dropped", "err", err)
	}
	return errs
}

// group collects the work of one part from calls within Options.Pace and does it at once. Thousands
// of failures a minute thus cause only a few writes a second.
type group struct {
	work
	done chan struct{}
}

// together does the work of one part, combined with the work of concurrent calls.
func (n *Notices) together(ctx context.Context, w *work) error {
	n.mu.Lock()
	if g := n.groups[w.part]; g != nil {
		g.notes, g.looks = append(g.notes, w.notes...), append(g.looks, w.looks...)
		n.mu.Unlock()
		select {
		case <-g.done:
			return g.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g := &group{work: *w, done: make(chan struct{})}
	n.groups[w.part] = g
	now := time.Now()
	if len(n.paced) > mostPaced {
		maps.DeleteFunc(n.paced, func(_ part, at time.Time) bool { return !now.Before(at) })
	}
	wait := n.paced[w.part].Sub(now)
	n.paced[w.part] = now.Add(max(wait, 0) + n.o.Pace)
	n.mu.Unlock()
	store.Sleep(ctx, wait)
	n.mu.Lock()
	delete(n.groups, w.part)
	n.mu.Unlock()
	defer close(g.done)
	k, err := n.read(ctx, &g.work)
	if err == nil {
		err = n.job(ctx, &g.work, k)
	}
	g.err = err
	return err
}

// mostPaced is the number of parts from which on expired entries of paced are removed.
const mostPaced = 10_000

func (n *Notices) read(ctx context.Context, w *work) (k *known, err error) {
	k = &known{}
	if w.job != 0 {
		found, err := n.s.Jobs.Get(ctx, store.Whole, []core.JobID{w.job})
		job := found[w.job]
		if err = cmp.Or(err, n.waits(w, job.Usable())); err != nil {
			return nil, fmt.Errorf("read job for notices: %w", err)
		}
		if k.unread = job.Usable() != nil; !k.unread {
			k.job = job.Is
		}
	}
	if k.job != nil {
		name := k.job.Def.App
		found, err := n.s.Apps(ctx, name)
		app := found[name]
		if err = cmp.Or(err, n.waits(w, app.Usable())); err != nil {
			return nil, fmt.Errorf("read app for notices: %w", err)
		}
		if k.unread = app.Usable() != nil; !k.unread {
			k.app = app.Is
		}
	}
	if k.global, err = n.s.Global(ctx); err != nil {
		return nil, fmt.Errorf("read global item for notices: %w", err)
	}
	found, err := States(ctx, n.s, JobName(w.job))
	if err != nil {
		return nil, fmt.Errorf("read notices: %w", err)
	}
	k.state = found[JobName(w.job)]
	to := slices.Clone(k.notify().To)
	for _, p := range k.state.Pending {
		if !slices.Contains(to, p.Channel) {
			to = append(to, p.Channel)
		}
	}
	if len(to) > 0 {
		if k.channels, err = n.s.Channels(ctx, to); err != nil {
			return nil, fmt.Errorf("read channels: %w", err)
		}
	}
	return k, nil
}

// waits returns why a definition cannot be read if the work must wait for it: the read was throttled, or a note that waits is less than
// budget.NoticeFor old. The definition is not gone.
func (n *Notices) waits(w *work, why error) error {
	recent := func(x ring.Note) bool { return w.waits && n.o.Now().Sub(x.When) < budget.NoticeFor }
	if why != nil && (errors.Is(why, core.ErrThrottled) || slices.ContainsFunc(w.notes, recent)) {
		return why
	}
	if why != nil {
		n.o.Log.Warn("notices of a job are made without its settings", "job", w.job, "err", why)
	}
	return nil
}

// notify returns the notification settings of the job. If it is deleted, or it or its app cannot be read, its last channels apply.
func (k *known) notify() core.Notify {
	who := core.EventRule(k.job, &k.app, &k.global)
	if k.job == nil || k.unread {
		var last core.Notify
		if k.state.Of != nil {
			last.To = k.state.Of.To
		}
		who.To = last.Over(who).Over(k.global.Notify).To
	}
	return who
}

// tries limits the retries of a write that another writer preceded.
const tries = 8

// job does the work of one job: it counts the notes, evaluates the conditions that cause no notes, and sends
// the due notifications.
func (n *Notices) job(ctx context.Context, w *work, k *known) error {
	who, job := k.notify(), k.job
	seen, err := n.judge(ctx, w, k, &who)
	if err != nil {
		return err
	}
	var mine []Pending
	var s State
	change := func(st *State) time.Time {
		now := n.o.Now()
		if job != nil {
			st.Of = &Subject{job.Def.App, job.Def.Name, job.Def.Title, job.Sched.Schedule.Timezone, who.To}
		}
		for _, note := range slices.Concat(w.notes, seen.notes) {
			if failure(note.Event) && who.Includes(core.EventRecovered) {
				st.fails(&note)
			}
			if who.Includes(note.Event) {
				st.Fold(&note)
			}
		}
		seen.into(st)
		if f := st.Failing; f != nil && (job == nil && !k.unread || now.Sub(f.When) >= budget.FailingFor) {
			st.Failing, st.Failures = nil, 0
		}
		st.Due(who.To, who.Quiet, now)
		before := st.Clone()
		mine = st.Take(now, n.o.Lease)
		for i := range mine { // delivery removes them, or sets their next attempt
			before.Sent(&mine[i], now)
		}
		return sooner(seen.next, n.next(k, &before))
	}
	if s, err = n.update(ctx, w, k.state, change); err != nil || len(mine) == 0 {
		return err
	}
	return n.deliver(ctx, w, s, k, &who, mine)
}

// next returns when a job must be checked because of its state. While the job cannot be read, recovery is not checked.
func (n *Notices) next(k *known, s *State) time.Time {
	if s.Failing == nil || k.unread {
		return s.Next()
	}
	now := n.o.Now()
	return sooner(s.Next(), now.Add(n.again(now.Sub(s.Failing.When))))
}

// longThen is the age of a failure after which recovery is checked once an hour.
const longThen = 4 * 24 * time.Hour

// again returns the time between two checks for recovery; age is the age of the last failure.
func (n *Notices) again(age time.Duration) time.Duration {
	if age >= longThen {
		return max(time.Hour, n.o.Again)
	}
	return max(min(age/16, 15*time.Minute), n.o.Again)
}

// failure reports whether an event is the end of a failed retry chain.
func failure(e core.Event) bool {
	return e == core.EventFailed || e == core.EventLost || e == core.EventNoExecutor
}

// fails records the end of a failed retry chain, so that a later success is notified. Notes arrive in any
// order; each counts except known copies.
func (s *State) fails(note *ring.Note) {
	if s.Failing != nil && note.Run == s.Failing.Run ||
		slices.ContainsFunc(s.Told, func(t Told) bool { return t.Event == note.Event && slices.Contains(t.Seen, note.Run) }) {
		return
	}
	s.Failures++
	if s.Failing == nil || note.When.After(s.Failing.When) {
		s.Failing = happening(note)
	}
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// update changes the item of a job with change, which returns the time of the next check. The check is put into
// the index before the item is stored.
func (n *Notices) update(ctx context.Context, w *work, was State, change func(*State) time.Time) (State, error) {
	name := JobName(w.job)
	for try := 0; ; try++ {
		now := n.o.Now()
		s := was.Clone()
		s.Name = name
		next := change(&s)
		if s.Look <= core.InstantOf(now) || w.holds(s.Look) {
			s.Look = 0
		}
		at := w.free(next)
		if !next.IsZero() && (s.Look == 0 || at < s.Look) {
			if err := n.s.PutLooks(ctx, []ring.CheckRequest{{At: at, Job: w.job}}); err != nil {
				return s, fmt.Errorf("schedule a check of notifications: %w", err)
			}
			s.Look = at
		}
		if same(&s, &was) {
			return s, nil
		}
		s.V++
		err := PutState(ctx, n.s, s)
		switch {
		case err == nil:
			return s, nil
		case errors.Is(err, core.ErrThrottled), try == tries, ctx.Err() != nil:
			return s, fmt.Errorf("store notices: %w", err)
		}
		found, rerr := States(ctx, n.s, name)
		if rerr != nil {
			return s, fmt.Errorf("read notices: %w", rerr)
		}
		was = found[name]
	}
}

func same(s, was *State) bool {
	a, b := *s, *was
	a.Name, b.Name = "", ""
	if b.Of == nil && len(a.Told)+len(a.Pending) == 0 && a.Failing == nil && a.Look == 0 && a.Checked == 0 && b.V == 0 {
		return true // an empty item is not stored
	}
	return reflect.DeepEqual(a, b)
}

// Pass requests the checks that are due, by messages of the post-run queue. Pass returns the number of requested checks. Each
// process calls it every minute. A check that is not completed is requested again.
func (n *Notices) Pass(ctx context.Context) (asked int, err error) {
	now := n.o.Now()
	err = n.s.Fence(ctx)
	var looks []ring.CheckRequest
	if err == nil {
		looks, err = n.s.DueLooks(ctx, core.InstantOf(now), passMost)
	}
	if err != nil {
		return 0, fmt.Errorf("read looks at notices: %w", err)
	}
	var out []ring.Out
	for some := range slices.Chunk(looks, looksAMessage) {
		out = append(out, ring.Checked(some, now))
	}
	if len(out) == 0 {
		return 0, nil
	}
	for i, e := range n.s.Queue.Enqueue(ctx, out) {
		if e != nil {
			err = fmt.Errorf("ask for looks at notices: %w", e)
			continue
		}
		asked += len(out[i].Message.PostRun.Looks)
	}
	return asked, err
}

// Limits of checks per pass and per message. A pass takes the oldest checks. A check that fails moves on by unreadAgain, so passMost
// of these jobs delay the other checks by at most one pass.
const passMost, looksAMessage = 5000, 50
