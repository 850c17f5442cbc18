package notification

import (
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// A State is the stored state of the notifications of one job, or of a channel that fails. A State is stored as JSON.
type State struct {
	Name    string    `json:"-"` // result of JobName or ChannelName
	V       int64     `json:"-"` // version, incremented by each write; 0 means that the State is not stored
	Told    []Told    `json:"told,omitempty"`
	Pending []Pending `json:"pending,omitempty"`
	// Failing is the last failure of the job since its last success; nil: none. Failures is the number of these failures.
	// Retries do not count as failures.
	Failing  *Occurrence  `json:"failing,omitempty"`
	Failures int64        `json:"failures,omitempty"`
	Checked  core.Instant `json:"checked,omitempty"` // latest scheduled time that was checked for the event overdue
	Success  core.Instant `json:"success,omitempty"` // end time of the last known success
	Slow     core.Instant `json:"slow,omitempty"`    // runs sent until this time were checked for the event slow
	Of       *Subject     `json:"of,omitempty"`
	Look     core.Instant `json:"look,omitempty"`    // time of the next check, as in the index; 0: no check is scheduled
	Trouble  *Trouble     `json:"trouble,omitempty"` // only for a channel: why the channel fails; nil: the channel works
}

// keepStates is how long a State stays at least after its last write. After it expired, its version begins at 1 again.
const keepStates = 48 * time.Hour

var states = store.Table[State]{Kind: "notice",
	Name:    func(s *State) string { return s.Name },
	Version: func(s *State) int64 { return s.V },
	Fill:    func(s *State, r *store.Record) { s.Name, s.V = r.Name, r.V }}

// States reads the notifications of jobs and channels, by the names of JobName and ChannelName. States that are not stored are
// not in the result.
func States(ctx context.Context, s *store.Store, names ...string) (map[string]State, error) {
	return states.Read(ctx, s, names...)
}

// PutState stores a State on the condition that the stored version is one lower.
func PutState(ctx context.Context, s *store.Store, v State) error {
	return states.SaveAll(ctx, s, []State{v}, func(v *State) (was int64, expires time.Time) {
		if expires = v.Keep(); !expires.IsZero() && expires.Before(s.Now().Add(keepStates)) {
			expires = s.Now().Add(keepStates)
		}
		return v.V - 1, expires
	})[0]
}

// A Subject describes a job in notifications. A Subject is stored in the State, because the job can be deleted before its
// notifications are sent.
type Subject struct {
	App   string   `json:"app"`
	Name  string   `json:"name"`
	Title string   `json:"title,omitempty"`
	Zone  string   `json:"zone,omitempty"`
	To    []string `json:"to,omitempty"` // the channels of the job, or of its app
}

// JobName returns the State.Name of a job. JobID 0 is for events without a job.
func JobName(id core.JobID) string { return "job/" + id.String() }

func ChannelName(name string) string { return "channel/" + name }

// Told is the state of the notifications about one kind of event.
type Told struct {
	Event core.Event  `json:"event"`
	Sent  time.Time   `json:"sent"`            // when the last notification was created
	Quiet time.Time   `json:"quiet"`           // end of the quiet period; until then, events are only counted
	Count int64       `json:"count,omitempty"` // number of events since the last notification
	First *Occurrence `json:"first,omitempty"` // first and last of these events
	Last  *Occurrence `json:"last,omitempty"`
	// Since is the time of the first event in the last notification. Through is the time of the latest event in all
	// notifications.
	Since   time.Time `json:"since,omitzero"`
	Through time.Time `json:"through,omitzero"`
	// GivenUp has the last dropped notification of each channel.
	GivenUp []Undelivered `json:"givenUp,omitempty"`
	// Seen are the last runs whose events were counted. A second event of one of these runs is ignored, because messages can
	// be duplicates. If the event arrives a day or more later, it is counted.
	Seen []core.RunID `json:"seen,omitempty"`
}

// An Occurrence is one occurrence of an event, or several that one message reports.
type Occurrence struct {
	Run    core.RunID   `json:"run,omitempty"`
	At     core.Instant `json:"at,omitempty"`
	Reason core.Reason  `json:"reason,omitempty"`
	Why    string       `json:"why,omitempty"`
	Times  int64        `json:"count,omitempty"` // number of occurrences; 0 means one
	When   time.Time    `json:"when"`
}

// A Pending is a notification that its channel has not accepted.
type Pending struct {
	Channel string      `json:"channel"`
	Event   core.Event  `json:"event"`
	Count   int64       `json:"count"`
	First   Occurrence  `json:"first"`
	Last    Occurrence  `json:"last"`
	Added   *Occurrence `json:"added,omitempty"` // first occurrence since the last Take; nil: none
	Made    time.Time   `json:"made"`
	Tries   int         `json:"tries,omitempty"`
	Next    time.Time   `json:"next"` // time of the next attempt; during an attempt, when the lease ends
	Error   string      `json:"error,omitempty"`
}

// An Undelivered is a notification that was dropped because its channel did not accept it.
type Undelivered struct {
	Channel string     `json:"channel"`
	First   Occurrence `json:"first"`
	Last    Occurrence `json:"last"`
	When    time.Time  `json:"when"`
	Error   string     `json:"error"`
}

// A Trouble describes a channel that accepts no notifications.
type Trouble struct {
	Since   time.Time `json:"since"`
	Last    time.Time `json:"last"`
	Error   string    `json:"error"`
	GivenUp int64     `json:"givenUp,omitempty"` // number of dropped notifications
}

const (
	seenMost = 16
	// copiesFor is how long after a record its duplicates can arrive.
	copiesFor = 24 * time.Hour
	// least and most limit the time between two attempts.
	least, most = time.Minute, time.Hour
	// busyFor is the delay before a notification is retried if all senders were busy.
	busyFor = 10 * time.Second
)

// told returns the Told of an event, and adds one if it is missing.
func (s *State) told(e core.Event) *Told {
	i := slices.IndexFunc(s.Told, func(t Told) bool { return t.Event == e })
	if i < 0 {
		i, s.Told = len(s.Told), append(s.Told, Told{Event: e})
	}
	return &s.Told[i]
}

// Fold counts an event, unless its run is already in Seen, and returns the state of this kind of event.
func (s *State) Fold(note *ring.Note) *Told {
	t := s.told(note.Event)
	newest := t.Sent
	if t.Count > 0 {
		newest = later(newest, t.Last.When)
	}
	if note.When.Sub(newest) >= copiesFor {
		t.Seen = nil
	}
	if note.Run != 0 {
		if slices.Contains(t.Seen, note.Run) {
			return t
		}
		t.Seen = append(t.Seen, note.Run)
		t.Seen = t.Seen[max(0, len(t.Seen)-seenMost):]
	}
	h := happening(note)
	if t.Count == 0 || h.When.Before(t.First.When) {
		t.First = h
	}
	if t.Count == 0 || !h.When.Before(t.Last.When) {
		t.Last = h
	}
	t.Count++ // a record counts once, regardless of its Times
	return t
}

func happening(n *ring.Note) *Occurrence {
	return &Occurrence{n.Run, n.At, n.Reason, n.Why, n.Times, n.When.UTC()}
}

// tell creates a notification of an event for each channel, or adds the event to a pending notification.
func (s *State) tell(t *Told, to []string, quiet time.Duration, now time.Time) {
	for _, c := range to {
		i := slices.IndexFunc(s.Pending, func(p Pending) bool { return p.Channel == c && p.Event == t.Event })
		if i < 0 {
			s.Pending = append(s.Pending, Pending{Channel: c, Event: t.Event, Count: t.Count, First: *t.First, Last: *t.Last,
				Made: now.UTC(), Next: now.UTC()})
			continue
		}
		p := &s.Pending[i] // merge with the pending notification
		p.Count += t.Count
		if t.First.When.Before(p.First.When) {
			p.First = *t.First
		}
		if !t.Last.When.Before(p.Last.When) {
			p.Last = *t.Last
		}
		if p.Added == nil || t.First.When.Before(p.Added.When) {
			p.Added = t.First
		}
	}
	t.Sent, t.Quiet, t.Since = now.UTC(), now.Add(quiet).UTC(), t.First.When
	t.Through = later(t.Last.When, t.Through)
	t.Count, t.First, t.Last = 0, nil, nil
}

// Due creates a notification for each kind of event that was counted and whose quiet period has ended. The parameter to lists
// the channels. The parameter quiet is the length of the next quiet period.
func (s *State) Due(to []string, quiet time.Duration, now time.Time) {
	for i := range s.Told {
		if t := &s.Told[i]; t.Count > 0 && !now.Before(t.Quiet) {
			s.tell(t, to, quiet, now)
		}
	}
}

// Take returns the notifications that are due, and leases them to the caller. Take skips notifications that another worker has
// leased.
func (s *State) Take(now time.Time, lease time.Duration) (mine []Pending) {
	for i := range s.Pending {
		if p := &s.Pending[i]; !now.Before(p.Next) {
			p.Next, p.Added = now.Add(lease).UTC(), nil
			mine = append(mine, *p)
		}
	}
	return mine
}

// is returns the index of a notification that Take returned; -1 if it is not pending.
func (s *State) is(p *Pending) int {
	return slices.IndexFunc(s.Pending, func(o Pending) bool { return o.Channel == p.Channel && o.Event == p.Event })
}

// Sent records that a channel accepted the notification p. Occurrences that were added after Take stay pending.
func (s *State) Sent(p *Pending, now time.Time) {
	i := s.is(p)
	if i < 0 {
		return
	}
	o := &s.Pending[i]
	if o.Count -= p.Count; o.Count > 0 && o.Made.Equal(p.Made) {
		if o.Added != nil {
			o.First = *o.Added
		}
		o.Made, o.Next, o.Tries, o.Error = now.UTC(), now.UTC(), 0, ""
		return
	}
	s.Pending = slices.Delete(s.Pending, i, i+1)
}

// Failed records that a channel did not accept the notification p; the parameter why is the reason. Failed drops the
// notification and returns true if forGood is set or if the notification is a day old. Otherwise it schedules a retry.
// The delay is half the notification's age, at least one minute and at most an hour, but not less than the parameter
// after. If busy is set, because all senders were busy, the delay is 10 s.
func (s *State) Failed(p *Pending, why string, forGood, tried, busy bool, after time.Duration, now time.Time) (
	givenUp bool) {
	i := s.is(p)
	if i < 0 {
		return false
	}
	o := &s.Pending[i]
	age := now.Sub(o.Made)
	if forGood || age >= budget.NoticeFor {
		t := s.told(o.Event)
		t.GivenUp = slices.DeleteFunc(t.GivenUp, func(g Undelivered) bool { return g.Channel == o.Channel })
		t.GivenUp = append(t.GivenUp, Undelivered{o.Channel, o.First, o.Last, now.UTC(), core.Truncate(why)})
		t.GivenUp = t.GivenUp[max(0, len(t.GivenUp)-core.MaxNotifyTo):]
		s.Pending = slices.Delete(s.Pending, i, i+1)
		return true
	}
	wait := max(min(max(age/2, least), most), min(after, most))
	if busy {
		wait = busyFor
	}
	o.Next = now.Add(wait).UTC()
	if tried {
		o.Tries++
	}
	if why != "" {
		o.Error = why
	}
	return false
}

// Next returns the time of the next check; zero: no check is needed.
func (s *State) Next() (at time.Time) {
	for i := range s.Told {
		if s.Told[i].Count > 0 {
			at = sooner(at, s.Told[i].Quiet)
		}
	}
	for i := range s.Pending {
		at = sooner(at, s.Pending[i].Next)
	}
	return at
}

func (s State) Clone() State {
	s.Told, s.Pending = slices.Clone(s.Told), slices.Clone(s.Pending)
	for i := range s.Told {
		s.Told[i].Seen, s.Told[i].GivenUp = slices.Clone(s.Told[i].Seen), slices.Clone(s.Told[i].GivenUp)
	}
	return s
}

// Keep returns when the stored State expires; zero: never, while it has its current content.
func (s *State) Keep() (until time.Time) {
	if len(s.Pending) > 0 || s.Failing != nil || s.Trouble != nil || s.Look != 0 {
		return until
	}
	for i := range s.Told {
		t := &s.Told[i]
		if t.Count > 0 {
			return time.Time{}
		}
		until = later(until, t.Quiet)
		for _, g := range t.GivenUp {
			until = later(until, g.When)
		}
	}
	return until.Add(keepFor)
}

// keepFor is how long an item without content is kept, because duplicates of records can arrive during that time.
const keepFor = 24 * time.Hour
