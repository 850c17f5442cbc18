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

// Permits is the state of one limit: which retry chains hold a slot and which wait. It is one
// stored item, written only if no other writer changed it. The rules are in
// docs/internals/claim-protocol.md section 9.
type Permits struct {
	Name string // see Job.Permit
	V    int64  // incremented by each write; 0: not stored
	// Limit is the number of slots, as set by the last run that asked.
	Limit   int
	Holders []Holder
	Queue   []RunID // first runs of the waiting chains, in order of arrival
	// Second is the latest second that was assigned to an attempt, if the limit has a rate. Begun is the number of attempts
	// in that second.
	Second Instant `json:",omitempty"`
	Begun  int     `json:",omitempty"`
	// Join is the only field set in the item of a job that follows all of its parents.
	Join *Join `json:",omitempty"`
}

// Holder is a chain of attempts that holds a slot, named by its first run. The end of the chain frees the slot. Only a slot
// without a stored run is freed after a time.
type Holder struct {
	First RunID
	// Until is the end of the next claim. Zero: the run was stored and did not have to ask again.
	Until time.Time `json:",omitzero"`
	// Attempt is the last attempt that got a second to start in. From is this second.
	Attempt int     `json:",omitempty"`
	From    Instant `json:",omitempty"`
}

const (
	MaxLimit      = 1000
	MaxQueue      = 1000 // runs waiting for a slot
	QueueIfUnsaid = 100
)

// PermitRequest is the request of a run before its claim.
type PermitRequest struct {
	First RunID
	Until time.Time // end of the next claim
	Limit int
	Max   int // longest queue
	// PerSecond is how many attempts can start in a second; 0: no limit. Attempt is the number of
	// the attempt in its chain. Now is from the caller's clock.
	PerSecond int
	Attempt   int
	Now       Instant
	Skips     bool // the run is skipped if no slot is free
	Stored    bool // the run is stored; only stored runs can wait in the queue
	Anew      bool // the run has no permit, but may hold a slot that is being freed
}

// clocksApart is the largest difference in seconds between the clocks of two callers. A larger one
// is treated as a clock that was set back.
const clocksApart = 5

// PermitResult is the result of Permits.Ask.
type PermitResult uint8

const (
	PermitGranted PermitResult = iota
	PermitWaits
	PermitSkips // no slot is free, and the run does not wait
	PermitFull  // the queue is full
	PermitLater // the run holds a slot and starts in a later second, see Permits.From
)

// Ask decides whether a run gets a slot, and records it in p; changed reports whether p changed. A
// new run gets a free slot only if the queue is empty, because waiting runs come first.
func (p *Permits) Ask(a PermitRequest) (answer PermitResult, changed bool) {
	if changed = p.Limit != a.Limit; changed {
		p.Limit = a.Limit
		p.fill()
	}
	if i := p.holder(a.First); i >= 0 {
		h := &p.Holders[i]
		if (!a.Stored || a.Anew) && h.Until.Before(a.Until) {
			h.Until, changed = a.Until, true
		}
		return p.begin(h, a, changed)
	}
	switch {
	case slices.Contains(p.Queue, a.First):
		return PermitWaits, changed
	case len(p.Queue) == 0 && len(p.Holders) < p.Limit:
		h := Holder{First: a.First}
		if !a.Stored {
			h.Until = a.Until
		}
		p.Holders = append(p.Holders, h)
		return p.begin(&p.Holders[len(p.Holders)-1], a, true)
	case a.Skips:
		return PermitSkips, changed
	case len(p.Queue) >= a.Max:
		return PermitFull, changed
	case !a.Stored:
		return PermitWaits, changed
	}
	p.Queue = append(p.Queue, a.First)
	return PermitWaits, true
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

// From returns the second in which the holder's attempt starts; 0 if unknown.
func (p *Permits) From(first RunID) Instant {
	if i := p.holder(first); i >= 0 {
		return p.Holders[i].From
	}
	return 0
}

// Past reports whether the time for a holder's next claim has passed.
func (p *Permits) Past(first RunID, now time.Time) bool {
	i := p.holder(first)
	return i >= 0 && now.After(p.Holders[i].Until)
}

func (p *Permits) Holds(first RunID) bool { return p.holder(first) >= 0 }

func (p *Permits) holder(first RunID) int {
	return slices.IndexFunc(p.Holders, func(h Holder) bool { return h.First == first })
}

// Release removes the chains for which over is true, and gives free slots to the runs that have
// waited longest.
func (p *Permits) Release(over func(first RunID) bool) (changed bool) {
	holders, queue := len(p.Holders), len(p.Queue)
	p.Holders = slices.DeleteFunc(p.Holders, func(h Holder) bool { return over(h.First) })
	p.Queue = slices.DeleteFunc(p.Queue, over)
	if len(p.Holders) == holders && len(p.Queue) == queue {
		return false
	}
	p.fill()
	return true
}

func (p *Permits) fill() {
	n := max(0, min(len(p.Queue), p.Limit-len(p.Holders)))
	for _, first := range p.Queue[:n] {
		p.Holders = append(p.Holders, Holder{First: first})
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

// Bounds for the key of a limit.
const (
	MaxPointer      = 256 // bytes
	MaxPointerDepth = 16
)

// NoValue replaces the hash if params have no value at the key, or are not JSON.
const NoValue = "none"

// Permit returns the names of the limits that count a run: the job's limit and the app's limit over all runs. Without limits
// it is empty. The names change only with these settings.
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

// Counts reports whether name is the permit of the app's limits over all its runs.
func (l Limits) Counts(app, name string) bool {
	return l != (Limits{}) && name == permitOfApp+app
}

// PermitOfApp returns the permit name of an app's limits over all its runs.
func PermitOfApp(app string) string { return permitOfApp + app }

// IsPermitOfApp reports whether a permit name is for the limits of an app.
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

// SplitPermit splits a permit name into limit and value; value is empty without a key.
func SplitPermit(name string) (limit, value string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 && strings.Count(name, "/") == 2 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// Counts reports whether a permit name belongs to the limit of this job.
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
		return Invalid(field, "", "%d bytes, at most %d are allowed", len(p), MaxPointer)
	case strings.Count(p, "/") > MaxPointerDepth:
		return Invalid(field, p, "%d levels deep, at most %d are allowed", strings.Count(p, "/"), MaxPointerDepth)
	case strings.Contains(bad, "~"):
		return Invalid(field, p, "in a JSON pointer, write ~ as ~0, and / within a name as ~1")
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Invalid(field, "", "expected a JSON pointer of printable UTF-8 characters")
	}
	return nil
}
