package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// JournalKey identifies a journal by the minute of its claims, a suffix and the nonce of the invocation. The 16
// suffixes spread the load of a minute.
type JournalKey struct {
	Minute int64 // since 1970
	Suffix int   // 0 … 15
	Nonce  string
}

// NewJournalKey returns the key of the journal of an invocation that begins at now.
func NewJournalKey(nonce string, now time.Time) JournalKey {
	h := fnv.New32a()
	h.Write([]byte(nonce))
	return JournalKey{Minute: now.Unix() / 60, Suffix: int(h.Sum32() % JournalSuffixes), Nonce: nonce}
}

// JournalSuffixes is the number of suffixes.
const JournalSuffixes = 16

func (k JournalKey) IsZero() bool { return k.Nonce == "" }

func (k JournalKey) String() string { return fmt.Sprintf("%d.%d.%s", k.Minute, k.Suffix, k.Nonce) }

// Outcome is the state of a run in a journal.
type Outcome uint8

const (
	Begun       Outcome = iota + 1 // claimed, no answer yet
	Accepted                       // the executor has it
	Unconfirmed                    // sent, without a conclusive answer
	Left                           // untouched: this dispatcher did nothing and acks the message
	Done                           // claimed, and then closed or requeued
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

// Settled reports whether the message that brought the run can be acked, because the watchdog takes
// care of the run.
func (o Outcome) Settled() bool { return o == Accepted || o == Unconfirmed || o == Left }

// Watched reports whether the watchdog checks the run. Stores use the other outcomes to list runs
// by journal.
func (o Outcome) Watched() bool { return o != Done && o != Recorded }

// EndedWithin is the maximum number of minutes between the journal and the end of a run without a claim. If more time
// passed, the end sets another journal. Reports count such a run at its end, and find it by its journal.
const EndedWithin = 60

// Journal records for a batch of claims where the runs were sent and which were accepted. V grows
// with each write; a write with a lower V fails.
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
	// Answer is the answer to an unconfirmed send, at most AnswerMax bytes; empty if none is kept.
	Answer string
}

// AnswerMax is the maximum length in bytes of an answer in an entry.
// AnswersMax is the maximum number of entries of a journal that keep an answer.
const (
	AnswerMax  = 200
	AnswersMax = 100
)

// NotConfirmed is the prefix of the message of a lost or timed-out run whose send got an
// inconclusive answer.
const NotConfirmed = "the executor did not confirm the run"

// CutAnswer returns the first line of an answer, shortened for an entry.
func CutAnswer(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > AnswerMax {
		text = text[:AnswerMax-len("…")] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// PackAnswers encodes the answers of a journal's entries; nil if there are none.
func PackAnswers(entries []Entry) (b []byte) {
	for i := range entries {
		if a := entries[i].Answer; a != "" {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i)), uint64(len(a)))
			b = append(b, a...)
		}
	}
	return b
}

// UnpackAnswers decodes the result of PackAnswers into the entries.
func UnpackAnswers(b []byte, entries []Entry) error {
	for len(b) > 0 {
		i, n := binary.Uvarint(b)
		if n <= 0 || i >= uint64(len(entries)) {
			return errAnswers
		}
		size, m := binary.Uvarint(b[n:])
		if b = b[n+max(m, 0):]; m <= 0 || size > uint64(len(b)) {
			return errAnswers
		}
		entries[i].Answer, b = string(b[:size]), b[size:]
	}
	return nil
}

var errAnswers = errors.New("the answers of a journal are damaged")

func (j *Journal) HasLeft() bool {
	for i := range j.Entries {
		if j.Entries[i].Outcome == Left {
			return true
		}
	}
	return false
}

func (j *Journal) Find(run RunID) (Entry, bool) {
	for _, e := range j.Entries {
		if e.Run == run {
			return e, true
		}
	}
	return Entry{}, false
}
