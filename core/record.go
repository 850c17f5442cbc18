package core

import (
	"encoding/json"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"
)

// JobRecord is the state of a job before or after a change, with all data that an audit needs to compute the expected
// scheduled times. The JSON is stable: new versions only add fields.
type JobRecord struct {
	Rev        int64         `json:"rev"`
	RevAt      int64         `json:"revAt"` // milliseconds since 1970
	State      JobState      `json:"state"`
	Schedule   Schedule      `json:"schedule"`
	Misfire    Misfire       `json:"misfire"`
	Grace      time.Duration `json:"grace"`
	Deadline   time.Duration `json:"deadline,omitempty"`
	PauseUntil Instant       `json:"pauseUntil,omitempty"`
	PauseBy    string        `json:"pauseBy,omitempty"`
	PauseWhy   string        `json:"pauseWhy,omitempty"`
	// Deleted is true if this revision deleted the job.
	Deleted bool `json:"deleted,omitempty"`
	// Def is nil if only planning fields changed.
	Def *Def `json:"def,omitempty"`
}

// RecordOf returns the JobRecord of a job, without secrets and children. If def is nil, the record has no definition.
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

// ParseJobRecord parses Change.Old or Change.New of a change to a job. It returns false if the text is not a
// JobRecord.
func ParseJobRecord(text string) (JobRecord, bool) {
	var r JobRecord
	if text == "" || json.Unmarshal([]byte(text), &r) != nil || r.Rev == 0 {
		return JobRecord{}, false
	}
	return r, true
}

// AppRecord is the state of an app, without its token, before or after a change. If Name is empty, the record is the
// state of Global instead. The JSON is stable: new versions only add fields.
type AppRecord struct {
	Name      string         `json:"name,omitempty"`
	Rev       int64          `json:"rev"`
	Title     string         `json:"title,omitempty"`
	Set       string         `json:"set,omitempty"`
	HasToken  bool           `json:"hasToken,omitempty"`
	Executors []string       `json:"executors,omitempty"`
	Allow     []netip.Prefix `json:"allow,omitempty"`
	Withheld  []string       `json:"withheld,omitempty"`
	// WaitForExecutor is how long runs wait for an available executor; 0: runs do not wait.
	WaitForExecutor time.Duration `json:"waitForExecutor,omitempty"`
	Overlap         Overlap       `json:"overlap,omitzero"`
	Limits          Limits        `json:"limits,omitzero"`
	Call            *Call         `json:"call,omitempty"` // without secrets
	Notify          Notify        `json:"notify,omitzero"`
	// PauseFrom and PauseTo are the start and the end of the latest pause, in milliseconds since 1970. 0 means no
	// pause, or a pause without an end.
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

// ParseAppRecord parses Change.Old or Change.New of a change to an app or to the global state. It returns false if
// the text is not an AppRecord.
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

// OfPerson is the prefix of Change.Name if the change is about a user. No channel name begins with this prefix.
const OfPerson = "person:"

// The values of Change.Verb.
const (
	VerbCreated   = "created"
	VerbUpdated   = "updated"
	VerbPaused    = "paused"
	VerbResumed   = "resumed"
	VerbDeleted   = "deleted"
	VerbTriggered = "triggered"
	VerbChanged   = "changed" // a waiting trigger was changed
	VerbCancelled = "cancelled"
	VerbKilled    = "killed"
	VerbFenced    = "fenced"
	VerbRestored  = "restored"
	VerbTested    = "tested"  // a test message was sent to a channel
	VerbActed     = "acted"   // a bulk operation was run; the record of each changed job has the operation's ID
	VerbCleaned   = "cleaned" // ended runs were removed
	VerbRemoved   = "removed" // the registration of an executor was removed; the reason is the executor's address
	VerbRotated   = "rotated" // the encryption key of stored secrets was replaced; the reason is the ID of the new key
)

var Verbs = []string{VerbCreated, VerbUpdated, VerbPaused, VerbResumed, VerbDeleted, VerbTriggered, VerbChanged, VerbCancelled, VerbKilled,
	VerbFenced, VerbRestored, VerbTested, VerbActed, VerbCleaned, VerbRemoved, VerbRotated}

// Actor is the user or client that makes a change.
type Actor struct {
	Name string
	From string // client address; empty: unknown
	Via  string // type of credential: BySession or a result of ByToken; empty: another type
	Act  string // ID of the bulk operation that makes the change; empty: none
}

// BySession is the value of Actor.Via for a user with a login session.
const BySession = "session"

// ByToken returns the value of Actor.Via for a client that uses a user's token with this name.
func ByToken(name string) string { return tokenOf + name }

// TokenOf returns the token name in a value of Actor.Via; false if the value names no token.
func TokenOf(via string) (string, bool) { return strings.CutPrefix(via, tokenOf) }

const tokenOf = "token:"

// Did returns the change c with the actor's name, address, type of credential and bulk operation.
func (a Actor) Did(c Change) Change {
	c.By, c.From, c.Via, c.Act = a.Name, a.From, a.Via, a.Act
	return c
}

// Says returns a text that distinguishes change records with equal ID, app and job. If a record is stored again, its
// text does not change. The text contains the name only if the change is not about a job.
func (c *Change) Says() string {
	text := c.Verb + " " + c.New + " " + c.Why
	if c.Job == 0 {
		text += " " + c.Name
	}
	return text
}

// ActRecord is the content of Change.New in the change record about a whole bulk operation.
type ActRecord struct {
	Act   string `json:"act"`
	Verb  string `json:"verb"`
	Found int    `json:"found"` // number of selected jobs when the operation started
}

func (r ActRecord) String() string { return marshal(r) }

// Validate returns an error if the actor's name is empty, too long, not UTF-8, or reserved.
func (a Actor) Validate() error {
	if a.Name == "" || len(a.Name) > 128 || !utf8.ValidString(a.Name) {
		return Invalid("actor", a.Name, "the name of the caller must have 1 to 128 bytes")
	}
	if strings.HasPrefix(a.Name, replacedBy) {
		return Invalid("actor", a.Name, `a name cannot start with "run ", which stands for a run`)
	}
	return nil
}

// PostRun has the pending follow-ups of a closed run that must not delay other runs. A message on the post-run queue
// causes these follow-ups, and then PostRun is cleared. PostRun is not part of Run.Owes, because older versions would
// create a run from each item of Run.Owes.
type PostRun struct {
	Log    bool `json:"log,omitempty"`    // the log must be kept
	Notice bool `json:"notice,omitempty"` // users may need a notification
}

// OwesPostRun returns the pending follow-ups of a closed run for the post-run queue; zero for an open run. The result has
// the follow-ups in PostRun. It also has the log of a succeeded run if KeepLog is KeepLogAlways and only the executor has
// the log, because a run can be closed as succeeded without a read, and then PostRun lacks the log.
func (r *Run) OwesPostRun() PostRun {
	if r.State.Open() {
		return PostRun{}
	}
	a := r.PostRun
	a.Log = a.Log || r.State == Succeeded && r.LogOwed()
	return a
}

// hasLog reports whether only the executor has the log. HTTP endpoints and queue consumers send
// the log with the result, so the run already has it.
func (r *Run) hasLog() bool {
	return r.Address != "" && !r.SentAt.IsZero() && !r.IsBroadcast() &&
		!strings.HasPrefix(r.Address, string(SchemeCall)+":") && !strings.HasPrefix(r.Address, string(SchemeQueue)+":")
}

// Owe sets the pending log and notification of the closed run r. If notify is false, no notification is pending.
func (r *Run) Owe(notify bool) {
	r.PostRun = PostRun{Log: r.LogOwed(), Notice: notify && EndEvent(r) != ""}
}

// LogOwed reports whether the end of r requires that the server keeps the log of r.
func (r *Run) LogOwed() bool {
	switch {
	case !r.hasLog() || r.KeepLog == KeepLogNever || r.Reason == ReasonNoExecutor || r.Reason == ReasonNotAccepted:
		return false
	case r.KeepLog == KeepLogAlways:
		return r.State != Skipped
	}
	return r.State.Failure()
}

// ClearPostRun returns a RunPut that records that only the follow-ups in rest are still pending for the post-run queue.
func (r *Run) ClearPostRun(rest PostRun) RunPut {
	p := RunPut{ID: r.ID, If: RunState | RunPostRun, Was: *r, Set: RunPostRun, To: Run{PostRun: rest, KeepLog: r.KeepLog}}
	if !rest.Log && r.State == Succeeded { // after a failure, its retry needs KeepLog too
		p.To.KeepLog = ""
	}
	return p
}

// KeptLogMax is the maximum size in bytes of a kept log; the end of the log is kept.
const KeptLogMax = 64 << 10

// KeptLog is the end of a run's log, stored by the server so that the log is available without the executor.
type KeptLog struct {
	Run RunID     `json:"run"`
	At  time.Time `json:"at"` // when the log was read
	// Text has the kept lines, compressed with gzip. Lines are whole, except a single line longer than KeptLogMax.
	// Text is empty if the log could not be read.
	Text []byte `json:"text,omitempty"`
	// From is the line number of the first kept line, counted from 1; 0: unknown.
	From int `json:"from,omitempty"`
	// Cut is the number of bytes that are missing at the start of the first kept line.
	Cut int64 `json:"cut,omitempty"`
	// More is true if the log continues after the kept lines.
	More bool `json:"more,omitempty"`
	// Why is the reason why a part of the log is missing. If Text is empty, the whole log is missing.
	Why string `json:"why,omitempty"`
}

// Whole reports whether the complete log is kept.
func (k *KeptLog) Whole() bool { return k.From == 1 && k.Cut == 0 && !k.More && k.Why == "" }
