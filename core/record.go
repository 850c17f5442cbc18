package core

import (
	"encoding/json"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"
)

// JobRecord is what a change record says of a job, before or after the change:
// all that audit needs to tell which instants were demanded. Its JSON is
// stable: fields are only added.
type JobRecord struct {
	Rev        int64         `json:"rev"`
	RevAt      int64         `json:"revAt"` // millisecond
	State      JobState      `json:"state"`
	Schedule   Schedule      `json:"schedule"`
	Misfire    Misfire       `json:"misfire"`
	Grace      time.Duration `json:"grace"`
	Deadline   time.Duration `json:"deadline,omitempty"`
	PauseUntil Instant       `json:"pauseUntil,omitempty"`
	PauseBy    string        `json:"pauseBy,omitempty"`
	PauseWhy   string        `json:"pauseWhy,omitempty"`
	// Deleted says that the job ended with this revision.
	Deleted bool `json:"deleted,omitempty"`
	// Def is left out where only planning changed something.
	Def *Def `json:"def,omitempty"`
}

// RecordOf is the record of a job, without its secrets, and those that come after it; def may be nil.
func RecordOf(s *Sched, def *Def) JobRecord {
	if def != nil && (def.Call != nil || def.Command != nil || def.Children != nil) {
		shown := *def
		shown.Call, shown.Command, shown.Children, def = def.Call.Shown(), def.Command.Shown(), nil, &shown
	}
	return JobRecord{
		Rev: s.Rev, RevAt: Millis(s.RevAt), State: s.State, Schedule: s.Schedule, Misfire: s.Misfire, Grace: s.Grace,
		Deadline: s.Deadline, PauseUntil: s.PauseUntil, PauseBy: s.PauseBy, PauseWhy: s.PauseWhy, Def: def,
	}
}

func (r JobRecord) String() string { return marshal(r) }

// ParseJobRecord reads the Old or New of a change of a job; false if there is none.
func ParseJobRecord(text string) (JobRecord, bool) {
	var r JobRecord
	if text == "" || json.Unmarshal([]byte(text), &r) != nil || r.Rev == 0 {
		return JobRecord{}, false
	}
	return r, true
}

// AppRecord is what a change record says of an app, without its token, or (with
// no name) of everything. Its JSON is stable: fields are only added.
type AppRecord struct {
	Name      string         `json:"name,omitempty"`
	Rev       int64          `json:"rev"`
	Title     string         `json:"title,omitempty"`
	Set       string         `json:"set,omitempty"`
	HasToken  bool           `json:"hasToken,omitempty"`
	Executors []string       `json:"executors,omitempty"`
	Allow     []netip.Prefix `json:"allow,omitempty"`
	Withheld  []string       `json:"withheld,omitempty"`
	// WaitForExecutor is as of App.
	WaitForExecutor time.Duration `json:"waitForExecutor,omitempty"`
	Overlap         Overlap       `json:"overlap,omitzero"`
	Limits          Limits        `json:"limits,omitzero"`
	Call            *Call         `json:"call,omitempty"` // without its secrets
	Notify          Notify        `json:"notify,omitzero"`
	// The last pause, in milliseconds; zero as in Pause.
	PauseFrom int64  `json:"pauseFrom,omitempty"`
	PauseTo   int64  `json:"pauseTo,omitempty"`
	PauseBy   string `json:"pauseBy,omitempty"`
	PauseWhy  string `json:"pauseWhy,omitempty"`
}

func AppRecordOf(a *App) AppRecord {
	r := pauseRecord(a.Rev, a.Pause)
	r.Name, r.Title, r.Set, r.HasToken, r.Executors, r.Allow, r.Withheld = a.Name, a.Title, a.Set, a.Token != "", a.Executors, a.Allow,
		a.Withheld
	r.WaitForExecutor, r.Overlap, r.Limits, r.Call, r.Notify = a.WaitForExecutor, a.Overlap, a.Limits, a.Call.Shown(), a.Notify
	return r
}

func GlobalRecordOf(g *Global) AppRecord {
	r := pauseRecord(g.Rev, g.Pause)
	r.Notify = g.Notify
	return r
}

func pauseRecord(rev int64, p Pause) AppRecord {
	return AppRecord{Rev: rev, PauseFrom: Millis(p.From), PauseTo: Millis(p.To), PauseBy: p.By, PauseWhy: p.Why}
}

func (r AppRecord) Pause() Pause {
	return Pause{From: FromMillis(r.PauseFrom), To: FromMillis(r.PauseTo), By: r.PauseBy, Why: r.PauseWhy}
}

func (r AppRecord) String() string { return marshal(r) }

// ParseAppRecord reads the Old or New of a change of an app or of everything;
// false if there is none.
func ParseAppRecord(text string) (AppRecord, bool) {
	var r AppRecord
	if text == "" || json.Unmarshal([]byte(text), &r) != nil {
		return AppRecord{}, false
	}
	return r, true
}

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("core: marshal of plain values: " + err.Error())
	}
	return string(b)
}

// OfPerson begins the name of a change record that is of a person: no channel has such a name.
const OfPerson = "person:"

// The verbs of change records.
const (
	VerbCreated   = "created"
	VerbUpdated   = "updated"
	VerbPaused    = "paused"
	VerbResumed   = "resumed"
	VerbDeleted   = "deleted"
	VerbTriggered = "triggered"
	VerbChanged   = "changed" // a trigger that waited
	VerbCancelled = "cancelled"
	VerbKilled    = "killed"
	VerbFenced    = "fenced"
	VerbRestored  = "restored"
	VerbTested    = "tested"  // a channel
	VerbActed     = "acted"   // on many jobs, whose records name the act
	VerbCleaned   = "cleaned" // runs that had ended were removed
	VerbRemoved   = "removed" // the registration of an executor, whose address is the reason
	VerbRotated   = "rotated" // the key of stored secrets; the ID of the new key is the reason
)

var Verbs = []string{VerbCreated, VerbUpdated, VerbPaused, VerbResumed, VerbDeleted, VerbTriggered, VerbChanged, VerbCancelled, VerbKilled,
	VerbFenced, VerbRestored, VerbTested, VerbActed, VerbCleaned, VerbRemoved, VerbRotated}

// Actor is who asks for a change; it goes into the change record.
type Actor struct {
	Name string
	From string // the address that it asks from; empty: it is not known
	Via  string // by what it asks: BySession, ByToken of its name; empty: the name says it
	Act  string // what the change is part of, where one act changes many
}

// BySession is the Via of a person who is logged in.
const BySession = "session"

// ByToken is the Via of what has a person's token of that name.
func ByToken(name string) string { return tokenOf + name }

// TokenOf is the name of the token in a Via; false: it is of none.
func TokenOf(via string) (string, bool) { return strings.CutPrefix(via, tokenOf) }

const tokenOf = "token:"

// Did is the record of a change with who made it, and from where.
func (a Actor) Did(c Change) Change {
	c.By, c.From, c.Via, c.Act = a.Name, a.From, a.Via, a.Act
	return c
}

// Says is what tells a record from others of its ID, app and job; one that is stored again says
// the same. The name of a job is in some of its records only.
func (c *Change) Says() string {
	if c.Job != 0 {
		return c.Verb + " " + c.New
	}
	return c.Verb + " " + c.New + " " + c.Name
}

// ActRecord is what the record of an act on many jobs says of it.
type ActRecord struct {
	Act   string `json:"act"`
	Verb  string `json:"verb"`
	Found int    `json:"found"` // jobs, when it began
}

func (r ActRecord) String() string { return marshal(r) }

// Validate refuses one that a change record could not name.
func (a Actor) Validate() error {
	if a.Name == "" || len(a.Name) > 128 || !utf8.ValidString(a.Name) {
		return Invalid("actor", a.Name, "the name of the caller must have 1 to 128 bytes")
	}
	if strings.HasPrefix(a.Name, replacedBy) {
		return Invalid("actor", a.Name, `a name cannot start with "run ", which stands for a run`)
	}
	return nil
}

// Aside is what the end of a run owes that keeps no fire waiting: it is made by one message
// on the aside lane, and cleared once all of it exists. It stands in a field of its own, for
// who knows only Owed would make a run of it.
type Aside struct {
	Log    bool `json:"log,omitempty"`    // its log is to be kept
	Notice bool `json:"notice,omitempty"` // people may have to be told
}

// OwesAside is what a closed run owes to the aside lane: what its close says, and where a
// success was closed unread, what the run said from when it was made.
func (r *Run) OwesAside() Aside {
	if r.State.Open() {
		return Aside{}
	}
	a := r.Aside
	a.Log = a.Log || r.State == Succeeded && r.KeepLog == KeepLogAlways && r.hasLog()
	return a
}

// hasLog reports whether the log of a run is at its executor, and nowhere else: who is
// called, and who pulls from a queue, sends it with the result, and the run has it.
func (r *Run) hasLog() bool {
	return r.Address != "" && !r.SentAt.IsZero() && !r.IsBroadcast() &&
		!strings.HasPrefix(r.Address, string(SchemeCall)+":") && !strings.HasPrefix(r.Address, string(SchemeQueue)+":")
}

// LogOwed reports whether the end of an open run owes that its log is kept.
func (r *Run) LogOwed(state State, reason Reason) bool {
	switch {
	case !r.hasLog() || r.KeepLog == KeepLogNever || reason == ReasonNoExecutor || reason == ReasonNotAccepted:
		return false
	case r.KeepLog == KeepLogAlways:
		return state != Skipped
	}
	return state.Failure()
}

// ClearAside notes what a closed run owes to the aside lane after some of it was made.
func (r *Run) ClearAside(rest Aside) RunPut {
	p := RunPut{ID: r.ID, If: RunState | RunAside, Was: *r, Set: RunAside, To: Run{Aside: rest, KeepLog: r.KeepLog}}
	if !rest.Log && r.State == Succeeded { // of a failure it is its retry's too
		p.To.KeepLog = ""
	}
	return p
}

// KeptLogMax is how many bytes of the end of a log are kept.
const KeptLogMax = 64 << 10

// KeptLog is the end of a run's log, kept so that it outlives its executor.
type KeptLog struct {
	Run RunID     `json:"run"`
	At  time.Time `json:"at"` // when it was read
	// Text is gzip of what is kept, whole lines but for one that is longer than all that is
	// kept; empty where nothing could be.
	Text []byte `json:"text,omitempty"`
	// From is the number of its first line, from 1; 0: it is not known.
	From int `json:"from,omitempty"`
	// Cut is how many bytes of that first line are missing before what is kept.
	Cut int64 `json:"cut,omitempty"`
	// More says that the log went on behind what is kept, as far as is known.
	More bool `json:"more,omitempty"`
	// Why is why what is missing is: of a log that could not be kept, all of it.
	Why string `json:"why,omitempty"`
}

// Whole reports whether all of the log is kept.
func (k *KeptLog) Whole() bool { return k.From == 1 && k.Cut == 0 && !k.More && k.Why == "" }
