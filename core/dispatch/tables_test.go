package dispatch

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/protocoldoc"
)

var (
	errLost = errors.New("connection reset") // the result of the write is unknown
	answers = map[string]error{"ok": nil, "refused": core.ErrRefused, "throttled": core.ErrThrottled, "unknown": errLost}
)

// words returns the name of a phase in the claim protocol.
func words(p phase) string {
	switch p := p.(type) {
	case undecided:
		return "look"
	case ours:
		return "ours"
	case moves:
		return "next address: table E"
	case ended:
		return string(p.State) + ": " + string(p.Reason)
	case settled:
		return core.Outcome(p).String()
	case passing:
		return "passing"
	case undeliverable:
		return "undeliverable: a dead letter"
	case notDone:
		return "not done"
	case done:
		return "done"
	}
	return "?"
}

func TestPageJudge(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const minute, hour = time.Minute, time.Hour
	type facts struct {
		cause  core.Cause    // empty: the schedule
		due    time.Duration // time since the run was due
		old    bool          // the message has the revision before the current one, which was made 30 minutes ago
		tail   bool
		job    core.Sched
		gone   bool
		pause  core.Pause // tested on the app, on everything, and on both
		past   core.PauseHistory
		misses bool // the next scheduled time has passed
	}
	const api, parent, retry, byHand = core.CauseAPI, core.CauseParent, core.CauseRetry, core.CauseManual
	paused := core.Sched{State: core.Paused}
	until := func(seconds core.Instant) core.Sched {
		return core.Sched{State: core.Paused, PauseUntil: core.InstantOf(now) + seconds}
	}
	over := core.Pause{From: ago(2 * hour), To: ago(hour)}
	lasts := core.Pause{From: ago(2 * hour)}
	before := core.PauseHistory{Pauses: []core.Pause{{From: ago(4 * hour), To: ago(3 * hour)}}}
	p := protocoldoc.After(t, "### J.")
	for row, list := range map[string][]facts{
		"deleted job, planned, due after the deletion": {{gone: true, due: minute}, {gone: true, due: minute, pause: lasts}},
		"deleted job, else":                            {{gone: true, due: hour}, {gone: true, cause: retry}},
		"triggered by hand":                            {{cause: byHand, pause: lasts, job: paused}, {cause: byHand, old: true}},
		"retry, by API or of a parent, its app or everything is paused now": {{cause: api, pause: lasts}, {cause: parent, pause: lasts},
			{cause: retry, pause: lasts}},
		"retry, its job is paused now": {{cause: retry, job: paused}, {cause: retry, job: until(1)}},
		"retry, by API or of a parent, else": {{cause: retry}, {cause: retry, job: until(0)}, {cause: parent, job: paused},
			{cause: api, job: paused}, {cause: api, pause: over, due: 90 * minute}, {cause: api, old: true}},
		"due inside a pause of app or everything that is over, the tail of a fixed delay": {{tail: true, pause: over, due: 90 * minute},
			{tail: true, pause: over, due: 90 * minute, old: true}},
		"due inside a pause of app or everything: the last, or one of the 16 before it, which the store keeps with the item": {
			{pause: over, due: 90 * minute}, {pause: lasts, due: minute}, {tail: true, pause: lasts, due: minute},
			{pause: over, past: before, due: 200 * minute}},
		"due before the pause of app or everything that is under way": {{pause: lasts, due: 3 * hour}},
		"due before the end of a pause of these that is not known any more": {
			{pause: over, past: core.PauseHistory{From: ago(5 * hour)}, due: 6 * hour}},
		"old rev, and instant > revAt":       {{old: true, due: 29 * minute}},
		"old rev, the tail of a fixed delay": {{old: true, due: hour, tail: true}},
		"old rev, its job says paused":       {{old: true, due: 30 * minute, job: paused}, {old: true, due: 30 * minute, job: until(0)}},
		"old rev, else":                      {{old: true, due: 30 * minute}, {old: true, due: 3 * hour, pause: over}},
		"late, by misfire": {{due: 2 * minute, job: core.Sched{Misfire: core.MisfireSkip, Grace: minute}}, {due: minute, misses: true},
			{due: 2 * minute, misses: true, job: core.Sched{Deadline: minute}}},
		"late, by deadline": {{due: 2 * minute, job: core.Sched{Grace: hour, Deadline: minute}}},
		"else": {{}, {due: minute, job: core.Sched{Grace: minute}}, {due: minute, misses: true, job: core.Sched{Misfire: core.MisfireAll}},
			{pause: over, due: 3 * hour, job: core.Sched{Misfire: core.MisfireAll}}},
	} {
		var got string
		for _, c := range list {
			f := core.Fire{Run: 7, Rev: 2, At: core.InstantOf(ago(c.due)), Slot: core.InstantOf(ago(c.due)),
				Cause: cmp.Or(c.cause, core.CauseSchedule)}
			if c.old {
				f.Rev = 1
			}
			s := c.job
			s.Rev, s.RevAt = 2, ago(30*minute)
			if c.tail {
				s.Tail = f.Run
			}
			next := func(*core.Sched, core.Instant) core.Instant {
				if c.misses {
					return f.At + 1
				}
				return 0
			}
			paused, not := stops{&c.pause, &c.past}, stops{&core.Pause{}, &core.PauseHistory{}}
			for _, pauses := range [][2]stops{{paused, not}, {not, paused}, {paused, paused}} {
				falls, reason := judge(&f, &s, c.gone, pauses, now, next)
				was := got
				switch falls {
				case sends:
					got = "sent"
				case fallsSilently:
					got = "falls silently"
				case fallsRecorded:
					got = "falls, recorded: " + string(reason)
				case fallsLate, fallsPast:
					got = "falls late: " + string(reason)
					past := c.job.Deadline > 0 && c.due > c.job.Deadline
					if past != (falls == fallsPast) {
						t.Errorf("%s: past its deadline: %t", row, !past)
					}
				}
				if was != "" && was != got {
					t.Errorf("%s: %q, and of another such fire %q", row, was, got)
				}
			}
		}
		p.Says(row, got)
	}
	p.Says("its job has neither item nor tombstone", words((&known{}).meet(&item{fire: core.Fire{Run: 7}}, nil)))
}

func TestPageFirstWrite(t *testing.T) {
	p := protocoldoc.After(t, "### A.")
	for answer, err := range answers {
		p.Says(answer, words(firstWrite(err, false)), words(firstWrite(err, true)))
	}
}

func TestPageLook(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	past := func(r *core.Run) bool { return r.Expired(now) }
	fire := core.Fire{Run: 7, Slot: 100}
	run := core.Run{ID: 7, Slot: 100, State: core.Running, Cause: core.CauseSchedule, Owner: "other", Until: now.Add(time.Second)}
	with := func(change func(*core.Run)) row {
		r := run
		change(&r)
		return rowOf(&r, &fire, "me", past)
	}
	owes := []core.Owed{{Run: 8}}
	journal := func(outcome core.Outcome) core.Journal {
		return core.Journal{Entries: []core.Entry{{Run: 6, Outcome: core.Accepted}, {Run: 7, Outcome: outcome}}}
	}
	live, dead := with(func(r *core.Run) {}), with(func(r *core.Run) { r.Until = now })
	p := protocoldoc.After(t, "### B.")
	for found, rows := range map[string][]row{
		"no item": {noItem},
		"no item, though the fire has a record of its own": {noRecord},
		"its trigger was moved to another slot (section 4)": {
			with(func(r *core.Run) { r.State, r.Owner, r.Cause, r.Slot = core.Planned, "", core.CauseAPI, 101 }),
			with(func(r *core.Run) { r.State, r.Owner, r.Cause, r.Slot = core.Queued, "", core.CauseAPI, 101 }),
			with(func(r *core.Run) { r.Owner, r.Cause, r.Slot = "", core.CauseAPI, 101 }),
			with(func(r *core.Run) { r.State, r.Owner, r.Cause, r.Slot = core.Planned, "", core.CauseManual, 99 })},
		"closed, owes nothing": {
			with(func(r *core.Run) { r.State = core.Succeeded }),
			with(func(r *core.Run) { r.State, r.Owner = core.Skipped, "me" })},
		"closed, owes something": {
			with(func(r *core.Run) { r.State, r.Owes = core.Failed, owes })},
		"a broadcast that is open (section 10)": {
			with(func(r *core.Run) { r.Owner, r.Shard = "", core.Shard{First: 8, Total: 2} })},
		"owner = my nonce": {
			with(func(r *core.Run) { r.Owner = "me" }),
			with(func(r *core.Run) { r.Owner, r.MaybeSent, r.Until = "me", true, now })},
		"owner empty, not maybeSent": {
			with(func(r *core.Run) { r.State, r.Owner = core.Planned, "" }),
			with(func(r *core.Run) { r.State, r.Owner, r.Cause = core.Planned, "", core.CauseAPI }),
			with(func(r *core.Run) { r.State, r.Owner, r.Slot = core.Planned, "", 101 })}, // a scheduled run whose jitter was edited
		"queued (nobody's, and it waits for an executor or a permit)": {
			with(func(r *core.Run) { r.State, r.Owner = core.Queued, "" }),
			with(func(r *core.Run) { r.State, r.Owner, r.Cause = core.Queued, "", core.CauseAPI })},
		"planned, and it waits for its join (section 5)": {
			with(func(r *core.Run) {
				r.State, r.Owner, r.Cause, r.At, r.Attempt = core.Planned, "", core.CauseParent, 99, 1
			})},
		"owner empty, maybeSent": {
			with(func(r *core.Run) { r.State, r.Owner, r.MaybeSent = core.Planned, "", true })},
		"foreign, journal says accepted or unconfirmed": {
			live.says(journal(core.Accepted), 7), live.says(journal(core.Unconfirmed), 7), dead.says(journal(core.Accepted), 7)},
		"foreign, else, until to come": {
			live.says(core.Journal{}, 7), live.says(journal(core.Begun), 7), live.says(journal(core.Left), 7)},
		"foreign, else, until past": {
			dead.says(core.Journal{}, 7), dead.says(journal(core.Begun), 7), dead.says(journal(core.Left), 7)},
	} {
		for _, what := range rows[1:] {
			if what != rows[0] {
				t.Errorf("%s: row %d, and of another such run %d", found, rows[0], what)
			}
		}
		what := rows[0]
		p.Says(found, actions[look(what, sends)], actions[look(what, fallsRecorded)])
		late, past := sends, sends
		switch found {
		case "no item", "owner empty, not maybeSent":
			late, past = fallsRecorded, fallsRecorded
		case "queued (nobody's, and it waits for an executor or a permit)":
			past = fallsRecorded
		}
		if look(what, fallsLate) != look(what, late) || look(what, fallsPast) != look(what, past) {
			t.Errorf("%s: what falls late: %s, past its deadline: %s", found, actions[look(what, fallsLate)], actions[look(what, fallsPast)])
		}
	}
}

// actions has the name of each action in the claim protocol.
var actions = map[act]string{
	isDone:   "done",
	toClaim:  "claim (A)",
	toRecord: "skipped record (A)",
	toLeave:  "left",
	toBury:   "undeliverable: a dead letter",
	toSpread: "the fires of its shards, on the ring",
	toMend:   "create and send it (section 5, from F2), or list as left",
	toKeep:   "ours; take `address` and `maybeSent` from the item",
	toTake:   "take (C), routed afresh",
	toRetake: "take (C), same address, a re-send",
	toSkip:   "close as skipped, condition: open, owner empty, until as read, not maybeSent; answers as in A",
	toWait:   "not done, no ack",
	toJoin:   "N1 or N2",
}

func TestPageTakeOver(t *testing.T) {
	p := protocoldoc.After(t, "### C.")
	p.Says("ok", words(takeOver(nil))+", with the item's address")
	for _, err := range []error{core.ErrThrottled, errLost} {
		if takeOver(err) != takeOver(core.ErrRefused) {
			t.Errorf("%v: %s", err, words(takeOver(err)))
		}
	}
	p.Says("refused, throttled, unknown", words(takeOver(core.ErrRefused))+" (B) again")
}

func TestPageSend(t *testing.T) {
	p := protocoldoc.After(t, "### D.")
	for row, kind := range map[string]AnswerKind{
		"accepted": AnswerAccepted,
		`"repeate trigger": it has the run from an earlier send`: AnswerRepeat,
		"the answer is the result (a `call:`)":                   AnswerEnded,
		"no answer after the first byte, garbage":                AnswerUnconfirmed,
		"error before the first byte, proven refusal":            AnswerRefused,
		"refused by the job's own block strategy":                AnswerBlocked,
		"refused for a passing reason (429, queue full); the key that signs its report cannot be read before the end of the batch; want of " +
			"our own descriptors, ports or memory before the first byte": AnswerBusy,
	} {
		cell := func(resend bool) string {
			a := Answer{Kind: kind, State: core.Succeeded, Message: "m"}
			more, none := words(sent(&a, resend, true)), words(sent(&a, resend, false))
			switch {
			case more == words(moves{}) && none == "failed: not-accepted":
				return more + "; none left: fails (step 8)"
			case more != none:
				t.Errorf("%s: %s, without a further address %s", row, more, none)
			case none == "succeeded: ":
				return "close with it (step 8)"
			case none == "skipped: overlap":
				return "close as skipped: overlap (step 8)"
			}
			return none
		}
		p.Says(row, cell(false), cell(true))
	}
	if b := sent(&Answer{Kind: AnswerBusy}, false, true).(passing); !b.claimed || b.slowly || b.why == nil {
		t.Errorf("passing: %+v", b)
	}
}

func TestPageFailover(t *testing.T) {
	r := (&core.Run{ID: 7, State: core.Running, Owner: "me", Address: "a"}).Readdress("b", nil)
	run := func(state core.State, owner, address string) *core.Run {
		return &core.Run{ID: 7, State: state, Owner: owner, Address: address}
	}
	p := protocoldoc.After(t, "### E.")
	for _, c := range []struct {
		row    string
		err    error
		stored []*core.Run
	}{
		{"ok", nil, []*core.Run{nil}},
		{"refused", core.ErrRefused, []*core.Run{nil}},
		{"throttled", core.ErrThrottled, []*core.Run{nil}},
		{"unknown; read: owner mine and new address", errLost, []*core.Run{run(core.Running, "me", "b")}},
		{"unknown; read: owner mine and old address", errLost, []*core.Run{run(core.Running, "me", "a")}},
		{"unknown; read: else", errLost, []*core.Run{nil, run(core.Running, "other", "b"), run(core.Running, "other", "a"),
			run(core.Failed, "me", "b"), run(core.Running, "me", "c"), run(core.Planned, "", "")}},
	} {
		got := ""
		for _, stored := range c.stored {
			was := got
			switch got = words(failover(c.err, &r, stored)); {
			case got == words(ours{}):
				got = "check until, send to the new address"
			case c.err == core.ErrRefused:
				got = "not ours any more: " + got
			}
			if was != "" && was != got {
				t.Errorf("%s: %s, and of another such run %s", c.row, was, got)
			}
		}
		p.Says(c.row, got)
	}
}

func TestPageJournal(t *testing.T) {
	p := protocoldoc.After(t, "### F.")
	counts := map[bool]string{
		true:  "entries count (refused: this `v` or a higher one is stored, and an invocation writes one at a time)",
		false: "write again with a higher `v`, until 1 s before the deadline",
	}
	if journalled(nil) != journalled(core.ErrRefused) || journalled(core.ErrThrottled) != journalled(errLost) {
		t.Error("answers that lead to the same differ")
	}
	p.Says("ok, refused", counts[journalled(nil)])
	p.Says("throttled, unknown", counts[journalled(errLost)])
	p.Beside("never")
}

func TestPageAck(t *testing.T) {
	p := protocoldoc.After(t, "**The ack rule.**")
	again := time.Unix(1_800_000_000, 0)
	for row, of := range map[string]phase{
		"done, or in a new message":       done{},
		"accepted":                        settled(core.Accepted),
		"unconfirmed":                     settled(core.Unconfirmed),
		"left":                            settled(core.Left),
		"ours, without an answer":         ours{},
		"ours, and its end is not stored": ended{},
		"passing, claimed":                passing{claimed: true, why: errLost},
		"passing, unclaimed":              passing{why: errLost},
		"undeliverable, and not among the dead letters": undeliverable{why: "why"},
		"not done": notDone{why: errLost, retryAt: again},
	} {
		in := "-"
		if o := entry(of); o != 0 {
			in = o.String()
		}
		stored, not := ackRule(of, true), ackRule(of, false)
		if stored.Ack == (stored.Err != nil) || not.Ack == (not.Err != nil) {
			t.Errorf("%s: %+v, %+v", row, stored, not)
		}
		becomes := "not acked"
		switch {
		case not.Ack:
			becomes = "acked"
		case stored.Ack:
			becomes = "acked once it is stored"
		case stored.RetryAt.Equal(again):
			becomes = "not acked, and told when to come again"
		}
		p.Says(row, in, becomes)
	}
}

// TestPageClose checks step 8 and table G of the claim protocol.
func TestPageClose(t *testing.T) {
	until := time.Unix(1_800_000_000, 0)
	for answer, want := range map[string]string{"ok": "done", "refused": "not done", "throttled": "?", "unknown": "?"} {
		if got := words(closing(answers[answer])); got != want {
			t.Errorf("%s: %s", answer, got)
		}
	}
	failed := ended{Answer{Kind: AnswerRefused}}
	if p := unclosed(errLost, failed, false, until).(notDone); p.retryAt != until || p.why != errLost {
		t.Errorf("an end that is not stored: %+v", p)
	}
	for _, p := range []phase{unclosed(errLost, failed, true, until), unclosed(errLost, ended{Answer{Kind: AnswerEnded}}, false, until)} {
		if words(p) != "unconfirmed" {
			t.Errorf("of a run that may have started: %s", words(p))
		}
	}
}
