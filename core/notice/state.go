package notice

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/ring"
)

// State is the stored state of the notifications of one job, or of the health of a channel. Its JSON is the
// stored form.
type State struct {
	Name    string    `json:"-"` // JobName or ChannelName
	V       int64     `json:"-"` // version, incremented by each write; 0: not stored
	Told    []Told    `json:"told,omitempty"`
	Pending []Pending `json:"pending,omitempty"`
	// Failing is the end of the last failed retry chain until the job recovers; Failures counts them.
	Failing  *Happening   `json:"failing,omitempty"`
	Failures int64        `json:"failures,omitempty"`
	Checked  core.Instant `json:"checked,omitempty"` // the last time that was checked for overdue
	Success  core.Instant `json:"success,omitempty"` // the end of the last success seen
	Slow     core.Instant `json:"slow,omitempty"`    // runs sent up to then were checked for slow
	Of       *Subject     `json:"of,omitempty"`
	Look     core.Instant `json:"look,omitempty"`    // the next check in the index; 0: none
	Trouble  *Trouble     `json:"trouble,omitempty"` // only for a channel
}

// Subject describes the job in notifications, because the job may be deleted by then.
type Subject struct {
	App   string `json:"app"`
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
	Zone  string `json:"zone,omitempty"`
}

// JobName returns the name of a job's item; ID 0 is the item for everything without a job.
func JobName(id core.JobID) string { return "job/" + id.String() }

func ChannelName(name string) string { return "channel/" + name }

// Told is the notification state of one event.
type Told struct {
	Event core.Event `json:"event"`
	Sent  time.Time  `json:"sent"`            // when the last notification of it was made
	Quiet time.Time  `json:"quiet"`           // no other notification before then
	Count int64      `json:"count,omitempty"` // notes since the last notification
	First *Happening `json:"first,omitempty"` // the first and the last of them
	Last  *Happening `json:"last,omitempty"`
	// Since is the first happening of the last notification, Through the last happening that was ever notified.
	Since   time.Time `json:"since,omitzero"`
	Through time.Time `json:"through,omitzero"`
	// GivenUp has the last notification that each channel finally did not accept.
	GivenUp []Untaken `json:"givenUp,omitempty"`
	// Seen are the runs counted last, so that copies of their notes do not count. A note copiesFor later is no
	// copy, even with the same run: the run then stands for a cause.
	Seen []core.RunID `json:"seen,omitempty"`
}

// Happening is one occurrence of an event.
type Happening struct {
	Run    core.RunID   `json:"run,omitempty"`
	At     core.Instant `json:"at,omitempty"`
	Reason core.Reason  `json:"reason,omitempty"`
	Why    string       `json:"why,omitempty"`
	Times  int64        `json:"count,omitempty"` // the number of occurrences; 0: one
	When   time.Time    `json:"when"`
}

// Pending is a notification that a channel has not accepted.
type Pending struct {
	Channel string     `json:"channel"`
	Event   core.Event `json:"event"`
	Count   int64      `json:"count"`
	First   Happening  `json:"first"`
	Last    Happening  `json:"last"`
	Added   *Happening `json:"added,omitempty"` // the first occurrence since it was taken
	Made    time.Time  `json:"made"`
	Tries   int        `json:"tries,omitempty"`
	Next    time.Time  `json:"next"` // the next attempt; during one, the end of its lease
	Error   string     `json:"error,omitempty"`
}

// Untaken is a notification that a channel did not accept and that was given up.
type Untaken struct {
	Channel string    `json:"channel"`
	First   Happening `json:"first"`
	Last    Happening `json:"last"`
	When    time.Time `json:"when"`
	Error   string    `json:"error"`
}

// Trouble means that a channel accepts nothing.
type Trouble struct {
	Since   time.Time `json:"since"`
	Last    time.Time `json:"last"`
	Error   string    `json:"error"`
	GivenUp int64     `json:"givenUp,omitempty"` // notifications
}

const (
	seenMost = 16
	// copiesFor is how long after a note its copies can arrive.
	copiesFor = 24 * time.Hour
	// least and most are the limits of the time between two attempts.
	least, most = time.Minute, time.Hour
	// busyFor is the delay of a notification that found no free place.
	busyFor = 10 * time.Second
)

// told returns the state of an event, and adds it if it is missing.
func (s *State) told(e core.Event) *Told {
	i := slices.IndexFunc(s.Told, func(t Told) bool { return t.Event == e })
	if i < 0 {
		i, s.Told = len(s.Told), append(s.Told, Told{Event: e})
	}
	return &s.Told[i]
}

// Fold counts a note, unless it is a copy.
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
	t.Count++ // one note, whatever its Times
	return t
}

func happening(n *ring.Note) *Happening {
	return &Happening{n.Run, n.At, n.Reason, n.Why, n.Times, n.When.UTC()}
}

// tell makes the notification of an event for each channel.
func (s *State) tell(t *Told, to []string, quiet time.Duration, now time.Time) {
	for _, c := range to {
		i := slices.IndexFunc(s.Pending, func(p Pending) bool { return p.Channel == c && p.Event == t.Event })
		if i < 0 {
			s.Pending = append(s.Pending, Pending{Channel: c, Event: t.Event, Count: t.Count, First: *t.First, Last: *t.Last,
				Made: now.UTC(), Next: now.UTC()})
			continue
		}
		p := &s.Pending[i] // merge it into the pending one
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
	if t.Last.When.After(t.Through) {
		t.Through = t.Last.When
	}
	t.Count, t.First, t.Last = 0, nil, nil
}

// Due makes the notifications of counted events whose quiet period is over.
func (s *State) Due(to []string, quiet time.Duration, now time.Time) {
	for i := range s.Told {
		if t := &s.Told[i]; t.Count > 0 && !now.Before(t.Quiet) {
			s.tell(t, to, quiet, now)
		}
	}
}

// Take returns the notifications to send now and leases them. Notifications that others leased are retried with their
// messages.
func (s *State) Take(now time.Time, lease time.Duration) (mine []Pending) {
	for i := range s.Pending {
		if p := &s.Pending[i]; !now.Before(p.Next) {
			p.Next, p.Added = now.Add(lease).UTC(), nil
			mine = append(mine, *p)
		}
	}
	return mine
}

// is returns the index of a taken notification.
func (s *State) is(p *Pending) int {
	return slices.IndexFunc(s.Pending, func(o Pending) bool { return o.Channel == p.Channel && o.Event == p.Event })
}

// Sent records that a channel accepted a notification. Occurrences added since then stay pending.
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

// Failed records that a channel did not accept a notification, and reports whether it is given up: if forGood,
// or after a day. Otherwise it is retried with growing delays, at least after; busy: no place was free.
func (s *State) Failed(p *Pending, why string, forGood, tried, busy bool, after time.Duration, now time.Time) (
	givenUp bool) {
	i := s.is(p)
	if i < 0 {
		return false
	}
	o := &s.Pending[i]
	age := now.Sub(o.Made)
	if forGood || age >= bound.NoticeFor {
		t := s.told(o.Event)
		t.GivenUp = slices.DeleteFunc(t.GivenUp, func(g Untaken) bool { return g.Channel == o.Channel })
		t.GivenUp = append(t.GivenUp, Untaken{o.Channel, o.First, o.Last, now.UTC(), core.Truncate(why)})
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

// Next returns when the item needs a check; zero: never.
func (s *State) Next() (at time.Time) {
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for i := range s.Told {
		if s.Told[i].Count > 0 {
			sooner(s.Told[i].Quiet)
		}
	}
	for i := range s.Pending {
		sooner(s.Pending[i].Next)
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

// Keep returns until when an item is needed; zero: its content decides.
func (s *State) Keep() (until time.Time) {
	if len(s.Pending) > 0 || s.Failing != nil || s.Trouble != nil || s.Look != 0 {
		return until
	}
	for i := range s.Told {
		if t := &s.Told[i]; t.Count > 0 {
			return time.Time{}
		} else if t.Quiet.After(until) {
			until = t.Quiet
		}
		for _, g := range s.Told[i].GivenUp {
			if g.When.After(until) {
				until = g.When
			}
		}
	}
	return until.Add(keepFor)
}

// keepFor is how long an item without content stays: copies of notes arrive within that time.
const keepFor = 24 * time.Hour
