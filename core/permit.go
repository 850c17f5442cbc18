package core

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Permits is the state of one concurrency limit: the retry chains that hold a slot, and the retry chains that wait
// for one. Permits is stored as one item, and a write fails if another writer changed the item. docs/internals/limits.md
// has the rules.
type Permits struct {
	Name string // name of the limit, see PermitNames
	V    int64  // incremented by each write; 0: not stored
	// Limit is the number of slots, as configured for the last run that requested a slot.
	Limit   int
	Holders []Holder
	Queue   []RunID // first run of each waiting chain, in order of arrival
	// Second is the latest second that was assigned to an attempt as its start, if Limits.PerSecond is set. Begun is
	// the number of attempts that start in Second.
	Second Instant `json:",omitempty"`
	Begun  int     `json:",omitempty"`
	// Join is set only in the item of a job with a join. This item has no limit, holders or queue.
	Join *Join `json:",omitempty"`
}

// Holder is a retry chain that holds a slot. First is the first run of the chain. The slot is freed when the chain
// ends.
type Holder struct {
	First RunID
	// Until is the time after which the slot is doubtful: the claim that it was requested for may never have been
	// stored. Zero: the chain was claimed with this slot.
	Until time.Time `json:",omitzero"`
	// Attempt is the last attempt that was assigned a second as its start, counted from 1. From is this second.
	Attempt int     `json:",omitempty"`
	From    Instant `json:",omitempty"`
}

const (
	MaxLimit      = 1000
	MaxQueue      = 1000 // runs that wait for a slot
	QueueIfUnsaid = 100
)

// PermitRequest is the request of a run for a slot, before the run is claimed.
type PermitRequest struct {
	First RunID
	Until time.Time // when the claim after this request expires
	Limit int
	Max   int // maximum number of waiting runs
	// PerSecond is the maximum number of attempts that start in one second; 0: no limit. Attempt is the number of the
	// run's attempt, counted from 1. Now is the time of the caller's clock.
	PerSecond int
	Attempt   int
	Now       Instant
	Skips     bool // the run is skipped if no slot is free
	Named     bool // the stored run names this limit; only such a run can wait in the queue
	Claimed   bool // the chain was claimed before
	Second    bool // the limit comes after another one in the run's Permit
}

// DoubtAfter is how long a chain may take to claim a run after it was given a slot. Then the slot is doubtful.
const DoubtAfter = time.Minute

// clocksApart is the largest difference in seconds between the clocks of two callers. A larger one
// is treated as a clock that was set back.
const clocksApart = 5

// PermitResult is the answer to a request for a slot.
type PermitResult uint8

const (
	PermitGranted PermitResult = iota
	PermitWaits
	PermitSkips // no slot is free, and the run must be skipped
	PermitFull  // the queue is full
	PermitLater // the run holds a slot, but must not start before the second that Permits.From returns
)

// Ask decides whether a run gets a slot, and records the decision in p. changed reports whether p changed. A new run
// gets a free slot only if no run waits in the queue.
func (p *Permits) Ask(a PermitRequest) (answer PermitResult, changed bool) {
	if changed = p.Limit != a.Limit; changed {
		p.Limit = a.Limit
		p.fill(a.Until)
	}
	if i := p.holder(a.First); i >= 0 {
		h := &p.Holders[i]
		if h.freeable(&a) && h.Until.Before(a.Until) {
			h.Until, changed = a.Until, true
		}
		return p.begin(h, a, changed)
	}
	switch {
	case slices.Contains(p.Queue, a.First):
		return PermitWaits, changed
	case len(p.Queue) == 0 && len(p.Holders) < p.Limit:
		p.Holders = append(p.Holders, Holder{First: a.First, Until: a.Until})
		return p.begin(&p.Holders[len(p.Holders)-1], a, true)
	case a.Skips:
		return PermitSkips, changed
	case len(p.Queue) >= a.Max:
		return PermitFull, changed
	case !a.Named:
		return PermitWaits, changed
	}
	p.Queue = append(p.Queue, a.First)
	return PermitWaits, true
}

// freeable reports whether another process may be about to free the slot of the run that requests it again. Then the
// request must change the item, so that the write of that process fails.
func (h *Holder) freeable(a *PermitRequest) bool {
	if a.Second {
		return !a.Claimed || !h.Until.IsZero()
	}
	return !a.Named
}

// begin assigns an attempt the first second with room, never before a second of another attempt. An attempt keeps its
// second, unless the count was reset to before it. The count resets if the next second is further ahead than all
// holders need. Then a clock was set back, the limit was changed, or runs were closed before their second.
func (p *Permits) begin(h *Holder, a PermitRequest, changed bool) (PermitResult, bool) {
	if a.PerSecond == 0 {
		return PermitGranted, changed
	}
	furthest := a.Now + Instant(max(p.Limit, len(p.Holders))/a.PerSecond) + clocksApart
	if h.Attempt < a.Attempt || h.From > min(p.Second, furthest+1) {
		if p.Second < a.Now {
			p.second(a.Now)
		}
		if p.room(a.PerSecond); p.Second > furthest {
			p.second(a.Now + 1) // the number of starts in the current second is unknown
			p.room(a.PerSecond)
		}
		p.Begun++
		h.Attempt, h.From, changed = a.Attempt, p.Second, true
		if until := h.From.Time().Add(DoubtAfter); !h.Until.IsZero() && h.Until.Before(until) {
			h.Until = until
		}
	}
	if h.From > a.Now {
		return PermitLater, changed
	}
	return PermitGranted, changed
}

// room advances to the next second that has room.
func (p *Permits) room(perSecond int) {
	for p.Begun >= perSecond {
		p.second(p.Second + 1)
	}
}

// second advances to a second and counts the holders that already have it.
func (p *Permits) second(at Instant) {
	p.Second, p.Begun = at, 0
	for i := range p.Holders {
		if p.Holders[i].From == at {
			p.Begun++
		}
	}
}

// From returns the second that was assigned to the chain's last attempt as its start; 0 if the chain has no such
// second.
func (p *Permits) From(first RunID) Instant {
	if i := p.holder(first); i >= 0 {
		return p.Holders[i].From
	}
	return 0
}

// Doubt makes the slot of a chain doubtful from the time at; false: the chain holds no slot.
func (p *Permits) Doubt(first RunID, at time.Time) bool {
	i := p.holder(first)
	if i >= 0 {
		p.Holders[i].Until = at
	}
	return i >= 0
}

// Confirm records that the slot of a chain is not doubtful, and reports whether p changed.
func (p *Permits) Confirm(first RunID) (changed bool) {
	i := p.holder(first)
	return i >= 0 && !p.Holders[i].Until.IsZero() && p.Doubt(first, time.Time{})
}

// Doubtful reports whether the claim that the slot was requested for may never have been stored.
func (h *Holder) Doubtful(now time.Time) bool { return !h.Until.IsZero() && now.After(h.Until) }

func (p *Permits) Holds(first RunID) bool { return p.holder(first) >= 0 }

func (p *Permits) holder(first RunID) int {
	return slices.IndexFunc(p.Holders, func(h Holder) bool { return h.First == first })
}

// Release removes the chains for which the function `over` returns true, and gives the free slots to the chains that have
// waited longest. Release reports whether p changed.
func (p *Permits) Release(now time.Time, over func(first RunID) bool) (changed bool) {
	holders, queue := len(p.Holders), len(p.Queue)
	p.Holders = slices.DeleteFunc(p.Holders, func(h Holder) bool { return over(h.First) })
	p.Queue = slices.DeleteFunc(p.Queue, over)
	if len(p.Holders) == holders && len(p.Queue) == queue {
		return false
	}
	p.fill(now.Add(DoubtAfter))
	return true
}

func (p *Permits) fill(until time.Time) {
	n := max(0, min(len(p.Queue), p.Limit-len(p.Holders)))
	for _, first := range p.Queue[:n] {
		p.Holders = append(p.Holders, Holder{First: first, Until: until})
	}
	p.Queue = slices.Delete(p.Queue, 0, n)
}

func (p *Permits) Given(was *Permits) (first []RunID) {
	for _, id := range was.Queue {
		if p.Holds(id) {
			first = append(first, id)
		}
	}
	return first
}

func (p *Permits) Clone() Permits {
	n := *p
	n.Holders, n.Queue, n.Join = slices.Clone(p.Holders), slices.Clone(p.Queue), p.Join.Clone()
	return n
}

// Bounds of Overlap.Key, which is a JSON pointer.
const (
	MaxPointer      = 256 // bytes
	MaxPointerDepth = 16
)

// NoValue is the last part of a permit name if the run's params have no value at Overlap.Key, or are not JSON.
const NoValue = "none"

// Permit returns the names of the limits that apply to run r, joined into one text. These are the limit of the job,
// and the limit over all runs of the app. The text is empty if no limit applies. For one run, the names change only
// if the settings of the limits change.
func (j *Job) Permit(app *App, r *Run) string {
	name := j.permit(app, r)
	switch {
	case app == nil || app.Limits == (Limits{}):
		return name
	case name == "":
		return PermitOfApp(app.Name)
	}
	return name + permitsPart + PermitOfApp(app.Name)
}

const (
	permitOfApp = "app/"
	permitsPart = "+"
)

// PermitNames splits the result of Job.Permit into limit names, in the order in which slots are requested.
func PermitNames(permit string) []string {
	if permit == "" {
		return nil
	}
	return strings.Split(permit, permitsPart)
}

// Counts reports whether name is the permit name for the limits over all runs of the app. It returns false if no
// limit is set.
func (l Limits) Counts(app, name string) bool {
	return l != (Limits{}) && name == permitOfApp+app
}

// PermitOfApp returns the permit name of an app's limits over all its runs.
func PermitOfApp(app string) string { return permitOfApp + app }

// IsPermitOfApp reports whether a permit name is for the limits over all runs of an app.
func IsPermitOfApp(name string) bool { return strings.HasPrefix(name, permitOfApp) }

// permit returns the name of the job's limit. If the limit has a key, a hash of the value in the
// run's params follows. Template values that are unknown before the send count as empty.
func (j *Job) permit(app *App, r *Run) string {
	o := j.Overlap(app)
	name := o.name(j.Def.ID)
	if name == "" || o.Key == "" {
		return name
	}
	params, err := j.paramsToCount(r)
	if err != nil {
		return name + "/" + NoValue
	}
	return name + "/" + valueAt(params, o.Key)
}

func (o *Overlap) name(job JobID) string {
	switch {
	case o.Limit == 0:
		return ""
	case o.Group != "":
		return "group/" + o.Group
	}
	return "job/" + job.String()
}

func (j *Job) paramsToCount(r *Run) (string, error) {
	switch {
	case r.Params != nil:
		return *r.Params, nil
	case !j.Def.Template:
		return j.Def.Params, nil
	}
	t, err := ParseTemplate(j.Def.Params)
	if err != nil {
		return "", err
	}
	zone, err := time.LoadLocation(j.Sched.Schedule.Timezone) // empty means UTC
	if err != nil {
		return "", err
	}
	return t.Fill(Filling{Attempt: 1, At: r.At, Zone: zone})
}

// SplitPermit splits a permit name into the limit's name and the hash of the value at Overlap.Key. The hash is empty
// if the limit has no key.
func SplitPermit(name string) (limit, value string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 && strings.Count(name, "/") == 2 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// Counts reports whether a permit name belongs to the limit o of the job.
func (o *Overlap) Counts(job JobID, name string) bool {
	limit, value := SplitPermit(name)
	return limit == o.name(job) && (value != "") == (o.Key != "")
}

// valueAt returns a hash of the JSON value at an RFC 6901 pointer. The order of object members
// does not matter.
func valueAt(text, pointer string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return NoValue
	}
	for _, token := range strings.Split(pointer, "/")[1:] {
		is := false
		switch of := v.(type) {
		case map[string]any:
			v, is = of[unescape.Replace(token)]
		case []any:
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(of) && strconv.Itoa(i) == token {
				v, is = of[i], true
			}
		}
		if !is {
			return NoValue
		}
	}
	canonical, err := json.Marshal(v)
	if err != nil {
		return NoValue
	}
	h := sha256.Sum256(canonical)
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// checkPointer returns an error unless p is empty or a JSON pointer within the bounds.
func checkPointer(field, p string) error {
	switch bad := strings.NewReplacer("~0", "", "~1", "").Replace(p); {
	case p == "":
		return nil
	case p[0] != '/':
		return Invalid(field, p, "a JSON pointer into the params starts with /, such as /tenant or /order/customer")
	case len(p) > MaxPointer:
		return Invalid(field, "", "%d bytes; at most %d are allowed", len(p), MaxPointer)
	case strings.Count(p, "/") > MaxPointerDepth:
		return Invalid(field, p, "nested %d levels deep; at most %d levels are allowed", strings.Count(p, "/"), MaxPointerDepth)
	case strings.Contains(bad, "~"):
		return Invalid(field, p, "in a JSON pointer, write ~ as ~0, and / within a name as ~1")
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Invalid(field, "", "expected a JSON pointer of printable UTF-8 characters")
	}
	return nil
}
