package model

// maxFires and maxMessages bound the arrays of a state.
const (
	maxFires    = 2
	maxMessages = 3
)

// state is one state of the world. It consists of bytes only, so it is its own encoding:
// comparable, and hashed as it lies in memory. Fields without meaning are zero (see canonical),
// so that equivalent states are equal.
type state struct {
	job      job
	changes  [2]change // that made revisions 2 and 3
	covered  uint8     // fires inside a stored skipped range
	over     uint8     // fires that the watchdog has reached: due before any later change
	alleged  uint8     // change records that precede the write which makes them true
	entry    uint8     // of the trigger in the due index: 1 + the slot it names; 0: none
	pause    uint8     // 1: the app of the trigger is paused
	away     uint8     // bits: see below
	tickers  [2]ticker
	ring     [maxMessages]message
	runs     [maxFires]run
	seen     [maxFires]seen
	disp     [2]invocation
	people   [2]person
	callback ender
	watchdog ender
	check    check
	late     late
	left     budget
}

// Bits of away.
const (
	nobody = 1 // no executor is there
	over   = 2 // so is the wait for one
)

// job is the sched item. next is the index of the first fire that is not
// provably on the ring; tail is 1 + the fire that is the open chain's first run.
type job struct{ rev, next, tail uint8 }

// change describes the change of a revision: its kind, and how many fires were due by then.
type change struct{ kind, due uint8 }

// Kinds of changes; as bits they are the set that a world allows.
const (
	edit   = 1 // the instants after it stay demanded
	pause  = 2 // or a removal: nothing after it is demanded
	resume = 4
)

type message struct{ fires, rev, slot, at uint8 }

// Places of a message.
const (
	nowhere = iota
	onRing
	acked // but an invocation still holds it
)

// run is the item of a run. Owners and untils are tokens: each claim, takeover and change of a trigger allocates an unused one.
// past: the until of the owner has passed. journal is the entry of the run in the journal that the claim names, once the
// invocation that writes it is gone.
type run struct {
	is, owner, until, past, address, maybeSent, journal, kill uint8
	rev                                                       uint8 // of its claim; of a fixed delay
	slot, params                                              uint8 // how often the trigger's were changed
	// The owed ID; bits of the IDs that were created; 1: its message was sent.
	owes, retries, sent uint8
	place               uint8 // see children.go
	queued              uint8 // 1: it waits for an executor
	word                uint8 // of its handler, by which it was closed: endSnoozed or endCancelled
}

// States of a run.
const (
	absent = iota
	open
	failed
	skipped
	lost
	killed
)

// Entries of a run in a journal.
const (
	nothing = iota
	begun
	accepted
	unconfirmed
	left
)

// seen is the outside view of a fire. Steps of the protocol do not read it, with two exceptions:
// an executor runs fires that arrived, and the watchdog reads fires that journals named.
type seen struct {
	arrived  uint8 // bits of the addresses that a send reached
	recorded uint8 // bits: see record
	tried    uint8 // 1: a dispatcher began to send
	exec     uint8 // of the executor: see below
	reports  uint8 // 1: a 'killed' of an earlier copy is on its way
	word     uint8 // the executor's report: endSnoozed or endCancelled
	known    uint8 // bits: begun, accepted or unconfirmed, left, in any stored journal or consumed check
}

const (
	idle = iota
	running
	reported
)

// Bits of known.
const (
	knownBegun   = 1
	knownSettled = 2
	knownLeft    = 4
)

// invocation is one Handle call of a dispatcher with one message.
type invocation struct {
	at, message, fires, rev, slot, read, nonce, past, told, away uint8
	of                                                           [maxFires]item
}

// Stations of an invocation.
const (
	unborn = iota
	received
	working
)

// item is one fire in an invocation; owner and until are as last read.
type item struct{ is, falls, owner, until, address, maybeSent, slot, params, stored, place, id uint8 }

// States of an item.
const (
	none = iota
	toClaim
	toRecord // as skipped
	toLook
	judged   // broken: journal read, until not compared yet
	readPast // foreign, until past: its journal comes next
	readLive
	toTake
	mine
	checked // own until compared: the send comes next
	refused
	movedUnknown
	failing
	owing1 // closed: the next piece of its children needs IDs
	owing2
	owing3
	owing4
	chained // closed: the chain of a fixed delay must move on
	passing
	givenBack
	putBack
	isAccepted
	isUnconfirmed
	isLeft
	done
	notDone
)

// How a fire falls.
const (
	sends = iota
	fallsRecorded
)

// ticker is one pass under way.
type ticker struct{ at, rev, next, tail, slot uint8 }

// Stations of a ticker.
const (
	tickIdle = iota
	tickRead
	tickSent
	tickEntry // has read an entry of the due index
	tickEntryRun
	tickEntrySent
	tickResume
)

// person is a user who changes the job or a trigger.
type person struct{ at, kind, rev, next, tail, due, until, slot, params uint8 }

// Stations of a user.
const (
	away = iota
	toCover
	toChange
	toChangeTrigger
	toSendTrigger
	toRemoveEntry
	toKill
)

// ender is a callback or the watchdog that closes a run.
type ender struct{ at, fire, what, id, kill, place uint8 }

// Stations of an ender.
const (
	endIdle = iota
	endRead
	endClose
	endDraw
	endCreate
	endSend
	endNote
	endChain
	endOver // it is past its timeout, and its executor is busy
	endTell
)

// Results that an ender writes.
const (
	endFailed = iota + 1
	endKilled
	endLost
	endLeft     // as skipped, unless it has an owner or was sent
	endStranger // a report for a run without an owner, as if its executor ran it
	endSnoozed
	endCancelled
)

// check is a check that carries the entries of a journal that could not be stored.
type check struct {
	nonce uint8
	says  [maxFires]uint8
}

// late is a write that is still on its way to the store.
type late struct {
	what, fire, nonce, until, owner, seen, address, rev uint8
	says                                                [maxFires]uint8
}

// Writes that may arrive late.
const (
	lateNone = iota
	lateClaim
	lateGiveBack
	lateMove
	lateJournal
	lateTake
)

// budget is how many faults may still come: of each kind, and in all.
type budget struct{ crash, write, busy, second, slow, all, changes, kills uint8 }
