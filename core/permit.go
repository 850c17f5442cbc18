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

// Permits says who may be at work at once of those that share a limit: a job, or a group
// of them. It is one stored item, written on the condition that nobody wrote it meanwhile;
// docs/internals/claim-protocol.md section 9 has its rules.
type Permits struct {
	Name string // see Def.Permit
	V    int64  // grows by one with each write; 0: none is stored
	// Limit is how many may be at work at once, as the last that asked said.
	Limit   int
	Holders []Holder
	Queue   []RunID // first runs of chains that wait, in the order in which they came
	// Second is the latest in which attempts begin, where a limit counts these; Begun says
	// how many.
	Second Instant `json:",omitempty"`
	Begun  int     `json:",omitempty"`
	// Join stands alone, in the item of a job that comes after all of its parents.
	Join *Join `json:",omitempty"`
}

// Holder is a chain of attempts that has a permit, by its first run. Its end frees it;
// time alone frees only one of which no run is stored.
type Holder struct {
	First RunID
	// Until is that of the claim to come, where nothing was stored of the run yet, or it was to ask
	// anew; zero: neither.
	Until time.Time `json:",omitzero"`
	// Attempt is the last that was given a second to begin in, which is From.
	Attempt int     `json:",omitempty"`
	From    Instant `json:",omitempty"`
}

const (
	MaxLimit      = 1000
	MaxQueue      = 1000 // that wait for a permit
	QueueIfUnsaid = 100
)

// Asked is a run that is to be claimed.
type Asked struct {
	First RunID
	Until time.Time // of the claim to come
	Limit int
	Max   int // of those that wait
	// PerSecond is how many attempts begin in a second, 0: as many as may. Attempt is which of
	// its chain it is, now by the clock of who asks.
	PerSecond int
	Attempt   int
	Now       Instant
	Skips     bool // it is skipped where there is no permit, and does not wait
	Stored    bool // its run is: only then it may stand in the queue
	Anew      bool // its run says no permit, and yet it may have one that is being freed
}

// clocksApart is how many seconds the clocks of two that ask may be apart before one takes
// what the other gave for that of a clock that was set.
const clocksApart = 5

// PermitAnswer is what becomes of a run that asks.
type PermitAnswer uint8

const (
	PermitGranted PermitAnswer = iota
	PermitWaits
	PermitSkips // there is none, and it does not wait
	PermitFull  // so many wait that it may not
	PermitLater // it has one, and begins in a second that is to come: Permits.From
)

// Ask answers a run that is to be claimed, and notes it; changed says whether p did. Who
// asks finds a free permit only where nobody waits, for those that wait are given theirs
// as they get free.
func (p *Permits) Ask(a Asked) (answer PermitAnswer, changed bool) {
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

// begin gives an attempt of a holder its second: the first that has room, none before those
// of others. Once, unless the count began anew since, before that second: one further ahead
// than all that have a permit would need is that of a clock that was set back, of a limit
// that was another, or of some that were closed before it came.
func (p *Permits) begin(h *Holder, a Asked, changed bool) (PermitAnswer, bool) {
	if a.PerSecond == 0 {
		return PermitGranted, changed
	}
	furthest := a.Now + Instant(max(p.Limit, len(p.Holders))/a.PerSecond) + clocksApart
	if h.Attempt < a.Attempt || h.From > min(p.Second, furthest+1) {
		if p.Second < a.Now {
			p.second(a.Now)
		}
		if p.room(a.PerSecond); p.Second > furthest {
			p.second(a.Now + 1) // nobody knows any more how many began in this one
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

// room goes on to the next second in which fewer begin.
func (p *Permits) room(perSecond int) {
	for p.Begun >= perSecond {
		p.second(p.Second + 1)
	}
}

// second goes on to a second, in which those begin that were given it before the count began
// anew.
func (p *Permits) second(at Instant) {
	p.Second, p.Begun = at, 0
	for i := range p.Holders {
		if p.Holders[i].From == at {
			p.Begun++
		}
	}
}

// From is when the attempt of a holder begins, where that is known.
func (p *Permits) From(first RunID) Instant {
	if i := p.holder(first); i >= 0 {
		return p.Holders[i].From
	}
	return 0
}

// Past reports whether the claim to come of a holder was to come before now.
func (p *Permits) Past(first RunID, now time.Time) bool {
	i := p.holder(first)
	return i >= 0 && now.After(p.Holders[i].Until)
}

func (p *Permits) Holds(first RunID) bool { return p.holder(first) >= 0 }

func (p *Permits) holder(first RunID) int {
	return slices.IndexFunc(p.Holders, func(h Holder) bool { return h.First == first })
}

// Release takes chains out that are over, or wait no more, and gives the permits that
// are free to those that have waited longest.
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

// Bounds of the key of a limit.
const (
	MaxPointer      = 256 // bytes
	MaxPointerDepth = 16
)

// NoValue is in place of the hash where params have nothing at the key, or are no JSON.
const NoValue = "none"

// Permit is the names of the limits that count a run, empty if none does: that of its job,
// and that of all runs of its app. It is the same whenever it is asked for while these are.
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

// PermitNames are the names that a run's permit has, in the order in which they are asked.
func PermitNames(permit string) []string {
	if permit == "" {
		return nil
	}
	return strings.Split(permit, permitsPart)
}

// Counts reports whether a permit of that name is of the limits of all runs of the app.
func (l Limits) Counts(app, name string) bool {
	return l != (Limits{}) && name == permitOfApp+app
}

// PermitOfApp is the name of the limits of all runs of an app.
func PermitOfApp(app string) string { return permitOfApp + app }

// IsPermitOfApp reports whether a permit of that name counts all runs of an app.
func IsPermitOfApp(name string) bool { return strings.HasPrefix(name, permitOfApp) }

// permit is the name of the limit of its job, and behind it where that has a key a hash of
// the value that the run's params have there: what is not known before a run is sent is
// left empty in these.
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
	zone, err := time.LoadLocation(j.Sched.Schedule.Timezone) // empty is UTC
	if err != nil {
		return "", err
	}
	return t.Fill(Filling{Attempt: 1, At: r.At, Zone: zone})
}

// SplitPermit is a name of Job.Permit in its parts; value is empty where there is no key.
func SplitPermit(name string) (limit, value string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 && strings.Count(name, "/") == 2 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// Counts reports whether a permit of that name is of the limit, which a job has.
func (o *Overlap) Counts(job JobID, name string) bool {
	limit, value := SplitPermit(name)
	return limit == o.name(job) && (value != "") == (o.Key != "")
}

// valueAt is a hash of what JSON has at a pointer of RFC 6901. The order of members does
// not count.
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

// checkPointer refuses what is no JSON pointer to a part of a text, or a long one.
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
		return Invalid(field, "", "expected a JSON pointer of printable UTF-8")
	}
	return nil
}
