package notice

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/ring"
)

// State is what is known of the notices of one job, or of how a channel fares. Its JSON is how
// it is stored.
type State struct {
	Name    string    `json:"-"` // JobName or ChannelName
	V       int64     `json:"-"` // grows by one with each write; 0: none is stored
	Told    []Told    `json:"told,omitempty"`
	Pending []Pending `json:"pending,omitempty"`
	// Failing is its last chain that failed, until it recovers, Failures how many did by then.
	Failing  *Happening   `json:"failing,omitempty"`
	Failures int64        `json:"failures,omitempty"`
	Checked  core.Instant `json:"checked,omitempty"` // the last moment that it was judged overdue at, or not
	Success  core.Instant `json:"success,omitempty"` // the end of its last success that was seen
	Slow     core.Instant `json:"slow,omitempty"`    // what was sent up to then was judged slow, or not
	Of       *Subject     `json:"of,omitempty"`
	Look     core.Instant `json:"look,omitempty"`    // the next that is in the index; 0 none
	Trouble  *Trouble     `json:"trouble,omitempty"` // of a channel
}

// Subject is what a notice says of its job, which may be deleted by then.
type Subject struct {
	App   string `json:"app"`
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
	Zone  string `json:"zone,omitempty"`
}

// JobName is the name of the item of a job; of 0, of what is of none.
func JobName(id core.JobID) string { return "job/" + id.String() }

func ChannelName(name string) string { return "channel/" + name }

// Told is what came of one event.
type Told struct {
	Event core.Event `json:"event"`
	Sent  time.Time  `json:"sent"`            // when the last notice of it was made
	Quiet time.Time  `json:"quiet"`           // until then there is no other
	Count int64      `json:"count,omitempty"` // notes that came since
	First *Happening `json:"first,omitempty"` // of these, by when it happened
	Last  *Happening `json:"last,omitempty"`
	// Since is when the first of what the last notice stands for happened, Through when the last
	// of what was ever told did.
	Since   time.Time `json:"since,omitzero"`
	Through time.Time `json:"through,omitzero"`
	// GivenUp are the channels that will not take a notice, each its last one.
	GivenUp []Untaken `json:"givenUp,omitempty"`
	// Seen are the runs that were counted last: a copy of their note adds nothing. What happens
	// copiesFor after them is no copy, though it has the same run: that may stand for a cause.
	Seen []core.RunID `json:"seen,omitempty"`
}

// Happening is one of what an event stands for.
type Happening struct {
	Run    core.RunID   `json:"run,omitempty"`
	At     core.Instant `json:"at,omitempty"`
	Reason core.Reason  `json:"reason,omitempty"`
	Why    string       `json:"why,omitempty"`
	Times  int64        `json:"count,omitempty"` // of how many it is; 0: one
	When   time.Time    `json:"when"`
}

// Pending is a notice that a channel has not taken yet.
type Pending struct {
	Channel string     `json:"channel"`
	Event   core.Event `json:"event"`
	Count   int64      `json:"count"`
	First   Happening  `json:"first"`
	Last    Happening  `json:"last"`
	Added   *Happening `json:"added,omitempty"` // the first of what came since it was taken
	Made    time.Time  `json:"made"`
	Tries   int        `json:"tries,omitempty"`
	Next    time.Time  `json:"next"` // not before; while somebody is at it, until he is over
	Error   string     `json:"error,omitempty"`
}

// Untaken is a notice that a channel did not take, and is not tried any more.
type Untaken struct {
	Channel string    `json:"channel"`
	First   Happening `json:"first"`
	Last    Happening `json:"last"`
	When    time.Time `json:"when"`
	Error   string    `json:"error"`
}

// Trouble is that a channel takes nothing.
type Trouble struct {
	Since   time.Time `json:"since"`
	Last    time.Time `json:"last"`
	Error   string    `json:"error"`
	GivenUp int64     `json:"givenUp,omitempty"` // notices
}

const (
	seenMost = 16
	// copiesFor is within what time after a note its copies come.
	copiesFor = 24 * time.Hour
	// Between two tries of a notice there are least at first, most at last.
	least, most = time.Minute, time.Hour
	// busyFor is until one that found no place is tried.
	busyFor = 10 * time.Second
)

// told is what came of an event.
func (s *State) told(e core.Event) *Told {
	i := slices.IndexFunc(s.Told, func(t Told) bool { return t.Event == e })
	if i < 0 {
		i, s.Told = len(s.Told), append(s.Told, Told{Event: e})
	}
	return &s.Told[i]
}

// Fold counts what a note says, unless that was counted.
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
	t.Count++ // of however many the note is: its Times
	return t
}

func happening(n *ring.Note) *Happening {
	return &Happening{n.Run, n.At, n.Reason, n.Why, n.Times, n.When.UTC()}
}

// tell makes the notice of what came of an event.
func (s *State) tell(t *Told, to []string, quiet time.Duration, now time.Time) {
	for _, c := range to {
		i := slices.IndexFunc(s.Pending, func(p Pending) bool { return p.Channel == c && p.Event == t.Event })
		if i < 0 {
			s.Pending = append(s.Pending, Pending{Channel: c, Event: t.Event, Count: t.Count, First: *t.First, Last: *t.Last,
				Made: now.UTC(), Next: now.UTC()})
			continue
		}
		p := &s.Pending[i] // the one before has not been taken yet
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

// Due has the channels told of what was counted, each event once in a quiet period.
func (s *State) Due(to []string, quiet time.Duration, now time.Time) {
	for i := range s.Told {
		if t := &s.Told[i]; t.Count > 0 && !now.Before(t.Quiet) {
			s.tell(t, to, quiet, now)
		}
	}
}

// Take answers the notices that are to be sent now, and notes that somebody is at them for so
// long. Another's come again by his message.
func (s *State) Take(now time.Time, lease time.Duration) (mine []Pending) {
	for i := range s.Pending {
		if p := &s.Pending[i]; !now.Before(p.Next) {
			p.Next, p.Added = now.Add(lease).UTC(), nil
			mine = append(mine, *p)
		}
	}
	return mine
}

// is finds a notice that was taken.
func (s *State) is(p *Pending) int {
	return slices.IndexFunc(s.Pending, func(o Pending) bool { return o.Channel == p.Channel && o.Event == p.Event })
}

// Sent notes that a channel took a notice. What was added to it since is still to be told.
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

// Failed notes that a channel did not take a notice: it is tried again, later each time, until
// it is a day old, and not before after; busy: there was no place. forGood: it is not tried
// again. It reports whether it is given up.
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

// Next is when the item is to be looked at for what is in it; zero: never.
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

// Keep is until when an item is needed; zero: no time ends that.
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

// keepFor is how long an item stays that says nothing any more: no copy of a note comes as late.
const keepFor = 24 * time.Hour
