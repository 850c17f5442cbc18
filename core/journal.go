package core

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// JournalKey identifies the journal of one dispatcher invocation by the minute of its claims, a suffix, and the nonce
// of the invocation. The suffix spreads the journals of one minute over 16 storage keys.
type JournalKey struct {
	Minute int64 // minutes since 1970
	Suffix int   // from 0 to 15
	Nonce  string
}

// NewJournalKey returns the journal key of a dispatcher invocation that begins at the time now.
func NewJournalKey(nonce string, now time.Time) JournalKey {
	h := fnv.New32a()
	h.Write([]byte(nonce))
	return JournalKey{Minute: now.Unix() / 60, Suffix: int(h.Sum32() % JournalSuffixes), Nonce: nonce}
}

// JournalSuffixes is the number of values of JournalKey.Suffix.
const JournalSuffixes = 16

func (k JournalKey) IsZero() bool { return k.Nonce == "" }

func (k JournalKey) String() string { return fmt.Sprintf("%d.%d.%s", k.Minute, k.Suffix, k.Nonce) }

// Outcome is the result of the dispatch of one run, as a journal records it.
type Outcome uint8

const (
	Begun       Outcome = iota + 1 // claimed; the executor has not answered
	Accepted                       // the executor accepted the run
	Unconfirmed                    // sent, without a conclusive answer
	Left                           // the dispatcher did nothing with the run and acknowledged the message
	Done                           // claimed, and then closed or released
	Recorded                       // queued, skipped or found closed, without a claim
)

func (o Outcome) String() string {
	switch o {
	case Begun:
		return "begun"
	case Accepted:
		return "accepted"
	case Unconfirmed:
		return "unconfirmed"
	case Left:
		return "left"
	case Done:
		return "done"
	case Recorded:
		return "recorded"
	}
	return "none"
}

// Settled reports whether the dispatcher can acknowledge the message with the run, because the watchdog checks the
// run later.
func (o Outcome) Settled() bool { return o == Accepted || o == Unconfirmed || o == Left }

// Watched reports whether the watchdog checks a run with this outcome. Entries with other outcomes exist only so that
// stores can list runs by journal.
func (o Outcome) Watched() bool { return o != Done && o != Recorded }

// EndedWithin is the maximum time, in minutes, between the journal that an unclaimed run names and the end of the run. A
// dispatcher that ends such a run names its own journal, and all others store a new one. So reports find a run by a journal
// that is not much older than the end of the run.
const EndedWithin = 60

// Journal lists the runs that one dispatcher invocation handled, with the address and the outcome of each run. V
// grows with each write of the journal, and the store rejects a write with a lower V.
type Journal struct {
	Key     JournalKey
	V       int
	Entries []Entry
}

// Entry is one run of a journal.
type Entry struct {
	Run     RunID
	Address string
	Outcome Outcome
	// Answer is the executor's answer to an unconfirmed send, at most AnswerMax bytes; empty if no answer is stored.
	Answer string
}

// AnswerMax is the maximum length of Entry.Answer in bytes. AnswersMax is the maximum number of entries with an
// Answer in one journal.
const (
	AnswerMax  = 200
	AnswersMax = 100
)

// NotConfirmed is the prefix of a run's message if the run was lost or timed out after its send got an inconclusive
// answer.
const NotConfirmed = "the executor did not confirm the run"

// CutAnswer returns the first line of an executor's answer, shortened to AnswerMax bytes.
func CutAnswer(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > AnswerMax {
		text = text[:AnswerMax-len("…")] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

func (j *Journal) Find(run RunID) (Entry, bool) {
	for _, e := range j.Entries {
		if e.Run == run {
			return e, true
		}
	}
	return Entry{}, false
}
