package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// JournalKey names a journal: the minute of the claims in it, one of 16
// suffixes that spread the load of a minute, and the invocation's nonce.
type JournalKey struct {
	Minute int64 // since 1970
	Suffix int   // 0 … 15
	Nonce  string
}

// JournalSuffixes is how many suffixes there are.
const JournalSuffixes = 16

func (k JournalKey) IsZero() bool { return k.Nonce == "" }

func (k JournalKey) String() string { return fmt.Sprintf("%d.%d.%s", k.Minute, k.Suffix, k.Nonce) }

// Outcome is what a journal knows of a run.
type Outcome uint8

const (
	Begun       Outcome = iota + 1 // claimed, no answer yet
	Accepted                       // the executor has it
	Unconfirmed                    // sent, and no answer that proves anything
	Left                           // this dispatcher did nothing with it and acks its message
	Done                           // claimed, and then closed or put back on the ring
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

// Settled reports whether the outcome lets the message that brought the run be
// acked: it is the watchdog's from here on.
func (o Outcome) Settled() bool { return o == Accepted || o == Unconfirmed || o == Left }

// Watched reports whether the watchdog looks at the run. The other outcomes only name it, for stores that list runs by their
// journals.
func (o Outcome) Watched() bool { return o != Done && o != Recorded }

// Journal says for a batch of claims where its runs went and which were
// accepted. V grows with each write of it; a write with a lower V is refused.
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

// AnswerMax is the longest answer that an entry keeps, in bytes; the rest is cut.
// AnswersMax is how many entries of a journal keep one; entries beyond it have none.
const (
	AnswerMax  = 200
	AnswersMax = 100
)

// NotConfirmed begins the message of a run that is lost or timed out and whose send got an
// answer that proved nothing.
const NotConfirmed = "the executor did not confirm the run"

// CutAnswer returns the first line of an answer as an entry keeps it.
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

// UnpackAnswers reads what PackAnswers encoded into the entries.
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
