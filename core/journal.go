package core

import "fmt"

// JournalKey names a journal: the minute of the claims in it, one of 16
// suffixes that spread the load of a minute, and the invocation's nonce.
type JournalKey struct {
	Minute int64 // since 1970
	Suffix int   // 0 … 15
	Nonce  string
}

// JournalSuffixes is how many suffixes there are.
const JournalSuffixes = 16

// IsZero reports whether k names no journal.
func (k JournalKey) IsZero() bool { return k.Nonce == "" }

func (k JournalKey) String() string { return fmt.Sprintf("%d.%d.%s", k.Minute, k.Suffix, k.Nonce) }

// Outcome is what a journal knows of a run.
type Outcome uint8

const (
	Begun       Outcome = iota + 1 // claimed, no answer yet
	Accepted                       // the executor has it
	Unconfirmed                    // sent, and no answer that proves anything
	Left                           // this dispatcher did nothing with it and acks its message
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
	}
	return "none"
}

// Settled reports whether the outcome lets the message that brought the run be
// acked: it is the watchdog's from here on.
func (o Outcome) Settled() bool { return o == Accepted || o == Unconfirmed || o == Left }

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
}

// HasLeft reports whether an entry was left.
func (j *Journal) HasLeft() bool {
	for i := range j.Entries {
		if j.Entries[i].Outcome == Left {
			return true
		}
	}
	return false
}

// Find is the entry of a run; false if the journal does not name it.
func (j *Journal) Find(run RunID) (Entry, bool) {
	for _, e := range j.Entries {
		if e.Run == run {
			return e, true
		}
	}
	return Entry{}, false
}
