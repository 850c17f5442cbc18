// Package ring defines the messages of the durable queues between planning and dispatch: their encoding and limits. For an
// unreadable message, it returns the reason for the dead-letter queue. The package contains no queue.
package ring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
)

// Version is the newest version of messages that this code writes and reads.
const Version = 1

// MaxFires is the maximum number of runs in a message, MaxJobs the maximum number of jobs in a check, and MaxBytes the
// maximum length of a message in bytes.
const (
	MaxFires = 50
	MaxJobs  = 500
	MaxBytes = 256 << 10
	// Farthest is the longest delay of a message that every queue supports.
	Farthest = 895 * time.Second
)

type Kind string

const (
	KindFires Kind = "fires" // runs to dispatch at the due time Slot
	KindCheck Kind = "check" // runs that the watchdog checks
	// KindSlow names the slow queue. Its messages have the kind KindFires. KindSlow is used only to receive and to count
	// messages.
	KindSlow Kind = "slow"
	// KindPostRun is for messages of the post-run queue: work after the end of runs that must not delay scheduled runs.
	KindPostRun Kind = "postrun"
)

// A Message is one message of a queue. A Message never contains params or tokens.
type Message struct {
	Kind Kind
	Slot core.Instant // due time of its runs; for other kinds, the time of the request
	Try  int          // number of times that its runs were requeued
	// Unread is how often in a row it was requeued because a record could not be read, or other logs were read.
	Unread  int
	Fires   []core.Fire // runs of a KindFires message, from 1 to MaxFires
	Check   *Check
	PostRun *PostRun
	// Slow reports whether the message is on the slow queue, which is for runs of slow jobs and addresses. Slow is not
	// encoded, because the queue defines it.
	Slow bool
	// Hint reports whether the message is an additional one, for queued runs that may begin. It has no effect on a run that still
	// has to wait.
	Hint bool
}

// Queue returns the name of the queue that the message belongs to.
func (m *Message) Queue() Kind {
	if m.Slow && m.Kind == KindFires {
		return KindSlow
	}
	return m.Kind
}

// A Check asks the watchdog to check runs. A Check can also have a journal that the dispatcher could not store. The watchdog
// stores the journal before the check. Or it has an app or jobs whose waiting runs are to be woken.
type Check struct {
	Runs    []core.RunID
	Idle    bool // whether an earlier check found the executors of the runs idle
	Journal *core.Journal
	App     string       // the app whose waiting runs are to be woken
	After   core.JobID   // jobs of the app up to this ID are done; 0: none
	Jobs    []core.JobID // jobs whose waiting runs are to be woken, at most MaxJobs
}

// A PostRun requests the pending work of an ended run, which the run records. Slot in its Message is the time of the first
// request, and Try the number of earlier requests to the executor.
type PostRun struct {
	Run   core.RunID // 0: the message has Notes or Looks instead
	Notes []Note     // events other than the end of a run
	Looks []CheckRequest
}

// An Out is a message to enqueue. Consumers cannot receive it before NotBefore, except that messages of runs may come early.
type Out struct {
	NotBefore time.Time
	Message   Message
}

// ErrNewer is the error for a message of a newer version. The message must stay in its queue for a newer reader, and must not
// move to the dead-letter queue.
var ErrNewer = errors.New("message of a newer version")

// A PoisonError reports why a message can never be read.
type PoisonError struct{ Reason string }

func (e *PoisonError) Error() string { return "unreadable message: " + e.Reason }

func poison(format string, args ...any) error {
	return &PoisonError{Reason: fmt.Sprintf(format, args...)}
}

type wireMessage struct {
	V       int          `json:"v"`
	Kind    Kind         `json:"kind"`
	Slot    int64        `json:"slot"`
	Try     int          `json:"try"`
	Unread  int          `json:"unread,omitempty"`
	Hint    bool         `json:"hint,omitempty"`
	Fires   []wireFire   `json:"fires,omitempty"`
	Check   *wireCheck   `json:"check,omitempty"`
	PostRun *wirePostRun `json:"postrun,omitempty"`
}

type wirePostRun struct {
	Run   int64      `json:"run,omitempty"`
	Notes []wireNote `json:"notes,omitempty"`
	Looks []wireLook `json:"looks,omitempty"`
}

type wireFire struct {
	Run   int64      `json:"run"`
	Rev   int64      `json:"rev"`
	At    int64      `json:"at,omitempty"` // seconds before (negative) the slot
	Cause core.Cause `json:"cause"`
	Seq   int64      `json:"seq,omitempty"`
	Of    int64      `json:"of,omitempty"`
}

type wireCheck struct {
	Runs    []int64      `json:"runs,omitempty"`
	Idle    bool         `json:"idle,omitempty"`
	Journal *wireJournal `json:"journal,omitempty"`
	App     string       `json:"app,omitempty"`
	After   core.JobID   `json:"after,omitempty"`
	Jobs    []core.JobID `json:"jobs,omitempty"`
}

type wireJournal struct {
	Minute  int64       `json:"minute"`
	Suffix  int         `json:"suffix"`
	Nonce   string      `json:"nonce"`
	V       int         `json:"v"`
	Entries []wireEntry `json:"entries"`
}

type wireEntry struct {
	Run     int64  `json:"run"`
	Address string `json:"address,omitempty"`
	Outcome uint8  `json:"outcome"`
	Answer  string `json:"answer,omitempty"`
}

func Encode(m Message) []byte {
	w := wireMessage{V: Version, Kind: m.Kind, Slot: int64(m.Slot), Try: m.Try, Unread: m.Unread}
	switch {
	case m.PostRun != nil:
		w.PostRun = &wirePostRun{int64(m.PostRun.Run), encodeNotes(m.PostRun.Notes), encodeLooks(m.PostRun.Looks)}
		return marshal(w)
	case m.Check == nil:
		return encodeFires(m)
	}
	w.Check = &wireCheck{Idle: m.Check.Idle, App: m.Check.App, After: m.Check.After, Jobs: m.Check.Jobs}
	for _, r := range m.Check.Runs {
		w.Check.Runs = append(w.Check.Runs, int64(r))
	}
	if j := m.Check.Journal; j != nil {
		wj := &wireJournal{Minute: j.Key.Minute, Suffix: j.Key.Suffix, Nonce: j.Key.Nonce, V: j.V}
		for _, e := range j.Entries {
			wj.Entries = append(wj.Entries, wireEntry{Run: int64(e.Run), Address: e.Address, Outcome: uint8(e.Outcome), Answer: e.Answer})
		}
		w.Check.Journal = wj
	}
	return marshal(w)
}

func marshal(w wireMessage) []byte {
	b, err := json.Marshal(w)
	if err != nil {
		panic("ring: marshal of plain numbers and strings: " + err.Error())
	}
	return b
}

// encodeFires encodes by hand, because it runs 20 times a second per thousand runs.
func encodeFires(m Message) []byte {
	b := make([]byte, 0, 64+len(m.Fires)*80)
	b = append(b, `{"v":1,"kind":"`...)
	b = append(b, m.Kind...)
	b = append(b, `","slot":`...)
	b = strconv.AppendInt(b, int64(m.Slot), 10)
	b = append(b, `,"try":`...)
	b = strconv.AppendInt(b, int64(m.Try), 10)
	if m.Unread != 0 {
		b = append(b, `,"unread":`...)
		b = strconv.AppendInt(b, int64(m.Unread), 10)
	}
	if m.Hint {
		b = append(b, `,"hint":true`...)
	}
	b = append(b, `,"fires":[`...)
	for i, f := range m.Fires {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"run":`...)
		b = strconv.AppendInt(b, int64(f.Run), 10)
		b = append(b, `,"rev":`...)
		b = strconv.AppendInt(b, f.Rev, 10)
		if d := f.At - m.Slot; d != 0 {
			b = append(b, `,"at":`...)
			b = strconv.AppendInt(b, int64(d), 10)
		}
		b = append(b, `,"cause":"`...)
		b = append(b, f.Cause...)
		b = append(b, '"')
		if f.Seq != 0 {
			b = append(b, `,"seq":`...)
			b = strconv.AppendInt(b, f.Seq, 10)
		}
		if f.Of != 0 {
			b = append(b, `,"of":`...)
			b = strconv.AppendInt(b, int64(f.Of), 10)
		}
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// Decode decodes a message. Its error is ErrNewer, or a *PoisonError with the reason.
func Decode(b []byte) (Message, error) {
	if len(b) > MaxBytes {
		return Message{}, poison("%d bytes; at most %d are allowed", len(b), MaxBytes)
	}
	var w wireMessage
	err := json.Unmarshal(b, &w)
	switch {
	case w.V > Version: // its fields may have other types
		return Message{}, fmt.Errorf("version %d: %w", w.V, ErrNewer)
	case err != nil:
		return Message{}, poison("not a JSON message: %v", err)
	case w.V < 1:
		return Message{}, poison("version %d, at least 1 is needed", w.V)
	}
	m := Message{Kind: w.Kind, Slot: core.Instant(w.Slot), Try: w.Try, Unread: w.Unread, Hint: w.Hint}
	if w.Slot <= 0 || w.Slot > int64(core.Horizon)+86400 {
		return Message{}, poison("slot %d is out of range", w.Slot)
	}
	for i, n := range [2]int{w.Try, w.Unread} {
		if n < 0 || n > 1<<20 {
			return Message{}, poison("%s %d is out of range", [2]string{"try", "unread"}[i], n)
		}
	}
	switch w.Kind {
	case KindFires:
		if len(w.Fires) == 0 || len(w.Fires) > MaxFires {
			return Message{}, poison("%d fires, 1 to %d are allowed", len(w.Fires), MaxFires)
		}
		m.Fires = make([]core.Fire, len(w.Fires))
		for i, f := range w.Fires {
			fire := f.fire(w.Slot)
			if err := check(fire); err != nil {
				return Message{}, poison("fire %d: %v", i, err)
			}
			m.Fires[i] = fire
		}
	case KindCheck:
		if w.Check == nil {
			return Message{}, poison("the field check is missing")
		}
		c, err := decodeCheck(w.Check)
		if err != nil {
			return Message{}, err
		}
		m.Check = c
	case KindPostRun:
		a, err := decodePostRun(w.PostRun)
		if err != nil {
			return Message{}, err
		}
		m.PostRun = a
	default:
		return Message{}, poison("kind %q is unknown", w.Kind)
	}
	return m, nil
}

func (f *wireFire) fire(slot int64) core.Fire {
	return core.Fire{Run: core.RunID(f.Run), Rev: f.Rev, At: core.Instant(slot + f.At), Slot: core.Instant(slot), Cause: f.Cause, Seq: f.Seq,
		Of: core.RunID(f.Of)}
}

func check(f core.Fire) error {
	if !f.Run.Valid() {
		return fmt.Errorf("%d is not a run ID", f.Run)
	}
	if _, planned := f.Run.Planned(); f.Of != 0 && (planned || f.Of.Job() != f.Run.Job()) {
		return fmt.Errorf("run %d is not a shard of run %d", f.Run, f.Of)
	}
	if !slices.Contains(core.Causes, f.Cause) {
		return fmt.Errorf("cause %q is unknown", f.Cause)
	}
	if at, ok := f.Run.Planned(); ok && at != f.At {
		return fmt.Errorf("run %d is scheduled for %s, not for %s", f.Run, at, f.At)
	}
	return nil
}

func decodeCheck(w *wireCheck) (*Check, error) {
	if len(w.Runs) > 10000 {
		return nil, poison("a check of %d runs; at most 10000 are allowed", len(w.Runs))
	}
	if w.App != "" && core.CheckAppName("app", w.App) != nil || w.After < 0 {
		return nil, poison("the check has an invalid app or job: %.100q, %d", w.App, w.After)
	}
	if len(w.Jobs) > MaxJobs || len(w.Jobs) > 0 && slices.Min(w.Jobs) <= 0 {
		return nil, poison("the check has an invalid job, or more than %d jobs", MaxJobs)
	}
	c := &Check{Idle: w.Idle, App: w.App, After: w.After, Jobs: w.Jobs}
	for _, r := range w.Runs {
		if !core.RunID(r).Valid() {
			return nil, poison("%d is not a run ID", r)
		}
		c.Runs = append(c.Runs, core.RunID(r))
	}
	if wj := w.Journal; wj != nil {
		if wj.Nonce == "" || wj.Suffix < 0 || wj.Suffix >= core.JournalSuffixes || len(wj.Entries) > 10000 {
			return nil, poison("the journal of the check has an invalid key, or more than 10000 entries")
		}
		j := &core.Journal{Key: core.JournalKey{Minute: wj.Minute, Suffix: wj.Suffix, Nonce: wj.Nonce}, V: wj.V}
		for _, e := range wj.Entries {
			if !core.RunID(e.Run).Valid() || e.Outcome == 0 || e.Outcome > uint8(core.Recorded) {
				return nil, poison("a journal entry has an invalid run ID or outcome: run %d, outcome %d", e.Run, e.Outcome)
			}
			j.Entries = append(j.Entries, core.Entry{Run: core.RunID(e.Run), Address: e.Address, Outcome: core.Outcome(e.Outcome),
				Answer: core.CutAnswer(e.Answer)})
		}
		c.Journal = j
	}
	return c, nil
}

// maxSalvaged limits the runs of one message that are read individually.
const maxSalvaged = 10_000

// Salvage decodes the valid runs of a message that may be damaged, each run once. The result unread is the number of runs that
// it could not decode. Salvage decodes nothing if the message has a newer version, because the fields may then have other
// meanings.
func Salvage(b []byte) (fires []core.Fire, unread int) {
	var w struct {
		V     int               `json:"v"`
		Kind  Kind              `json:"kind"`
		Slot  int64             `json:"slot"`
		Fires []json.RawMessage `json:"fires"`
	}
	err := json.NewDecoder(bytes.NewReader(b)).Decode(&w)
	if err != nil || w.V < 1 || w.V > Version || w.Kind != KindFires || w.Slot <= 0 || w.Slot > int64(core.Horizon)+86400 {
		return nil, 0
	}
	seen := map[core.RunID]bool{}
	list := w.Fires[:min(len(w.Fires), maxSalvaged)]
	unread = len(w.Fires) - len(list)
	for _, raw := range list {
		var f wireFire
		if json.Unmarshal(raw, &f) != nil {
			unread++
			continue
		}
		fire := f.fire(w.Slot)
		switch {
		case check(fire) != nil:
			unread++
		case !seen[fire.Run]:
			seen[fire.Run] = true
			fires = append(fires, fire)
		}
	}
	return fires, unread
}
