package finish_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/story"
)

// TestEnds: which results end a run, and the follow-ups of its end.
func TestEnds(t *testing.T) {
	story.Play(t, map[string]string{
		"of no run":                          `run 1@-1s; end 1@0s succeeded + 1@-1s succeeded`,
		"by anybody":                         `job 1; run 1@-1s retries=0; end 1@-1s failed:handler code=500`,
		"by its owner":                       `job 1; run 1@-1s retries=0; end 1@-1s failed:handler owner=nonce`,
		"by an owner who lost it":            `job 1; run 1@-1s retries=0; end 1@-1s failed:handler owner=other`,
		"cancelled while it waits":           `run 1@-1s state=planned owner= address=; end 1@-1s skipped:cancelled unowned`,
		"cancelled with an owner":            `run 1@-1s; end 1@-1s skipped:cancelled unowned`,
		"cancelled when it may be sent":      `run 1@-1s state=planned owner= address= maybesent; end 1@-1s skipped:cancelled unowned`,
		"reported as failed, unsent":         `run 1@-1s state=planned owner= address=; end 1@-1s failed:handler reported`,
		"reported as succeeded, unsent":      `run 1@-1s state=planned owner= address=; end 1@-1s succeeded reported`,
		"reported when it may be sent":       `run 1@-1s state=planned owner= address= maybesent retries=0; end 1@-1s failed:handler reported`,
		"reported as killed":                 `run 1@-1s; end 1@-1s failed killed`,
		"reported as killed by a newer run":  `run 1@-1s; end 1@-1s failed:replaced killed`,
		"reported as killed, sent twice":     `run 1@-1s maybesent; end 1@-1s failed:replaced killed`,
		"killed by a user, sent twice":       `run 1@-1s maybesent killby=ann killat=-1s; end 1@-1s failed:replaced killed`,
		"failed after a kill":                `run 1@-1s killby=ann killat=-1s; end 1@-1s failed:handler code=500`,
		"lost after a kill":                  `run 1@-1s killby=ann killat=-1s; end 1@-1s lost:gone`,
		"succeeded after a kill":             `run 1@-1s killby=ann killat=-1s; end 1@-1s succeeded`,
		"by its owner, taken at that moment": `run 1@-1s retries=0; read 1@-1s; before close claim; end 1@-1s failed:not-accepted owner=nonce`,
		"as killed, taken at that moment":    `run 1@-1s retries=0; read 1@-1s; before close claim; end 1@-1s failed killed`,
		"reported, released at that moment":  `run 1@-1s retries=0; read 1@-1s; before close unclaim; end 1@-1s failed reported`,
		"six times in a call, without answer": "job 1; run 1@-1s; fault close unknown x10; end 1@-1s failed:handler" +
			strings.Repeat(" + 1@-1s failed:handler", 5),
		"three times in a call": `job 1; run 1@-1s; end 1@-1s failed:handler + 1@-1s failed:handler + 1@-1s failed:handler`,
		// Options.Closed is called once for a close whose answer was lost, and never for a close by another process.
		"lost answer, done":        `run 1@-1s; fault close unknown done; end 1@-1s succeeded reported; +1m; end 1@-1s succeeded reported`,
		"lost answer, not done":    `run 1@-1s; fault close unknown; end 1@-1s succeeded reported; +1m; end 1@-1s succeeded reported`,
		"lost answer, then done":   `run 1@-1s; fault close unknown; fault close unknown done; end 1@-1s succeeded reported; end 1@-1s succeeded`,
		"closed by another":        `run 1@-1s; before close loses 1@-1s; end 1@-1s succeeded reported; +1m; end 1@-1s succeeded reported`,
		"failure, lost, done":      `run 1@-1s retries=0; fault close unknown done; end 1@-1s failed:handler; +1m; end 1@-1s failed:handler`,
		"failure, lost, not done":  `run 1@-1s retries=0; fault close unknown; end 1@-1s failed:handler; +1m; end 1@-1s failed:handler`,
		"failure, lost, then done": `run 1@-1s retries=0; fault close unknown; fault close unknown done; end 1@-1s failed:handler`,
		"failure, by another":      `run 1@-1s retries=0; before close loses 1@-1s; end 1@-1s failed:handler; +1m; end 1@-1s failed:handler`,
		// A success is closed without a read. The run is read only if the close has an unclear answer or conflicts.
		"unread":                   `run 1@-1s; end 1@-1s succeeded code=200 app=orders; calls runs`,
		"unread, of whatever app":  `run 1@-1s; end 1@-1s succeeded code=200; calls runs`,
		"of another app":           `run 1@-1s; end 1@-1s succeeded code=200 app=billing; calls runs`,
		"unread, throttled":        `run 1@-1s; fault close throttled; end 1@-1s succeeded code=200 app=orders; calls runs`,
		"unread, unknown and done": `run 1@-1s; fault close unknown done; end 1@-1s succeeded code=200 app=orders; calls runs`,
		"unread, unknown":          `run 1@-1s; fault close unknown; end 1@-1s succeeded code=200 app=orders; calls runs`,
		"as seen":                  `run 1@-1s retries=0; read 1@-1s; end 1@-1s succeeded seen; calls runs; end 1@-1s failed:handler seen`,
		// A result that arrives after its run was given up is kept once.
		"late, lost":      late("lost:gone"),
		"late, timed out": late("timed-out:timeout"),
		"late, failed":    late("failed:not-accepted"),
		// If lists use journals, a run without a claim is named in a new journal before it is closed. The journal of the dispatcher
		// that recorded it may be lost.
		"listed, planned":                 listed("set journals", ""),
		"listed, queued half an hour ago": listed("set journals", "journal=29999970:0:a"),
		"listed, claimed":                 listed("set journals", "journal=29999880:0:a sentat=-2h"),
		"listed, runs have an index":      listed("", ""),
		// The next run of a fixed delay: a move with an unknown result returns an error. A second report repeats it.
		"of a fixed delay, unknown": fixedDelay("unknown"),
		"of a fixed delay, refused": fixedDelay("refused"),
		// If the post-run queue rejects a message, the log stays pending, and the next report or pass sends the message.
		"log refused, reported":    `run 1@-1s retries=0; fault enqueue throttled; end 1@-1s failed:handler; end 1@-1s failed:handler`,
		"log refused, followed up": `run 1@-1s retries=0; fault enqueue throttled; end 1@-1s failed:handler; mend 1@-1s`,
	}, newStage)
}

func late(gaveUp string) string {
	return `run 1@-1s retries=0; end 1@-1s ` + gaveUp + ` message=given_up; end 1@-1s ` + gaveUp + ` message=again; +1m
		end 1@-1s succeeded code=200 message=done; end 1@-1s succeeded code=200 message=done_twice`
}

func listed(set, run string) string {
	return set + `; run 1#1 state=planned owner= until= address= sentat= ` + run + `; run 1#2; fault journal unknown x3
		end 1#1 skipped:cancelled unowned + 1#2 succeeded; fault journal unknown; end 1#1 skipped:cancelled unowned`
}

func fixedDelay(answer string) string {
	return `job 1 delay=1h next=-1s tail=1@-1s seq=5 planat=+10m; run 1@-1s fixeddelay; fault advance ` + answer + ` x4
		end 1@-1s succeeded; end 1@-1s succeeded`
}

// TestRetries: which ends cause another attempt, and when it is sent.
func TestRetries(t *testing.T) {
	story.Play(t, map[string]string{
		"failed":                      `job 1; run 1@-1s retries=1; end 1@-1s failed:handler`,
		"no executor":                 `job 1; run 1@-1s retries=1; end 1@-1s failed:no-executor`,
		"timed out":                   `job 1; run 1@-1s retries=1; end 1@-1s timed-out:timeout`,
		"lost":                        `job 1; run 1@-1s retries=1; end 1@-1s lost:gone`,
		"lost, as the job asks":       `job 1 retry.on=lost; run 1@-1s retries=1; end 1@-1s lost:gone`,
		"failed, and lost is retried": `job 1 retry.on=lost; run 1@-1s retries=1; end 1@-1s failed:handler`,
		"no retries left":             `job 1; run 1@-1s retries=0; end 1@-1s failed:handler`,
		"failed, killed":              `job 1; run 1@-1s retries=1 killby=ann killat=0s; end 1@-1s failed:handler`,
		"timed out, killed":           `job 1; run 1@-1s retries=1 killby=ann killat=0s; end 1@-1s timed-out:timeout`,
		"lost, killed":                `job 1 retry.on=lost; run 1@-1s retries=1 killby=ann killat=0s; end 1@-1s lost:gone`,
		"succeeded":                   `job 1; run 1@-1s retries=1; end 1@-1s succeeded`,
		"skipped":                     `job 1; run 1@-1s retries=1; end 1@-1s skipped:overlap`,
		"replaced":                    `job 1; run 1@-1s retries=1; end 1@-1s killed:replaced`,
		"of a deleted job":            `run 1@-1s; end 1@-1s failed:handler`,
		"beyond the delay queue":      `job 1 retry.delay=1h; run 1@-1s; end 1@-1s failed:handler`,
		"second, with a slow queue":   `set slow; job 1; run 1@-1s attempt=2 retries=9; end 1@-1s failed:handler`,
		"third, with a slow queue":    `set slow; job 1; run 1@-1s attempt=3 retries=9; end 1@-1s failed:handler`,
		"third, without a slow queue": `job 1; run 1@-1s attempt=3 retries=9; end 1@-1s failed:handler`,
		"reported again and again": `job 1; run 1@-1s params=p addresses=http://a:1 by=ann attempt=2 retries=3 first=1#1048576; +200ms
			end 1@-1s failed:handler code=500; end 1@-1s failed:handler code=500; end 1@-1s failed:handler code=500`,
		// A handler's word on its retry is followed within bounds. A kill or a timeout takes precedence.
		"snoozed":                      word("attempt=1 retries=0", "failed:handler", "1m"),
		"snoozed, keeps its retries":   word("attempt=4 retries=3", "failed:handler", "1m"),
		"snoozed for a day":            word("attempt=1 retries=0", "failed:handler", "24h"),
		"snoozed for too long":         word("attempt=1 retries=0", "failed:handler", "24h0m0.001s"),
		"snoozed too long, retried":    word("attempt=1 retries=2", "failed:handler", "48h"),
		"snoozed, last of its chain":   word("attempt=100 retries=0", "failed:handler", "1m"),
		"snoozed, beyond that":         word("attempt=101 retries=0", "failed:handler", "1m"),
		"snoozed, all retries left":    word("attempt=1 retries=100", "failed:handler", "1m"),
		"handler cancels the retries":  word("attempt=1 retries=3", "failed:handler", "-1s"),
		"snoozed, was killed":          word("attempt=1 retries=3 killby=ann killat=0s", "failed:handler", "1m"),
		"cancelled, its time was over": word("attempt=1 retries=3 killat=0s", "failed:handler", "-1s"),
		"snoozed, succeeded":           word("attempt=1 retries=3", "succeeded", "1m"),
		"cancelled, timed out":         word("attempt=1 retries=3", "timed-out:timeout", "-1s"),
	}, newStage)
}

func word(run, state, after string) string {
	end := "end 1@-1s " + state + " message=said retryafter=" + after
	return "job 1; run 1@-1s " + run + "; " + end + "; " + end
}

// TestLogsOwed: which ends make keeping the log pending with the close, and what their retries inherit.
func TestLogsOwed(t *testing.T) {
	stories := map[string]string{}
	for name, end := range map[string][2]string{
		"failed":                    {"", "failed:handler"},
		"timed out":                 {"", "timed-out:timeout"},
		"lost":                      {"", "lost:gone"},
		"succeeded":                 {"", "succeeded"},
		"killed":                    {"killby=ann killat=0s", "failed:handler"},
		"without an executor":       {"", "failed:no-executor"},
		"taken by none":             {"", "failed:not-accepted"},
		"skipped by its executor":   {"", "skipped:overlap"},
		"of a function":             {"address=lambda:payroll", "failed:handler"},
		"a command":                 {"address=" + core.LocalAddress, "failed:handler"},
		"a command, succeeded":      {"address=" + core.LocalAddress, "succeeded"},
		"of an endpoint":            {"address=call:https://pay", "failed:handler"},
		"of an endpoint, succeeded": {"address=call:https://pay", "succeeded"},
		"pulled":                    {"address=queue:nightly", "failed:handler"},
		"never sent":                {"address=", "lost:gone"},
	} {
		for _, keep := range []core.KeepLog{"", core.KeepLogAlways, core.KeepLogNever} {
			retries := 0
			if name == "failed" {
				retries = 1
			}
			stories[strings.TrimSpace(fmt.Sprint(name, " ", keep))] = fmt.Sprintf("job 1; run 1@-1s keeplog=%s retries=%d %s; "+
				"end 1@-1s %s; end 1@-1s %s", keep, retries, end[0], end[1], end[1])
		}
	}
	story.Play(t, stories, newStage)
}

// TestChildren: which jobs run after a run has ended. Jobs 100, 200 and 300 come after a success, a failure and any end.
func TestChildren(t *testing.T) {
	end := func(parent, state string) string {
		return "children 2; parent 1@-1s " + parent + "; end 1@-1s " + state + "; end 1@-1s " + state
	}
	story.Play(t, map[string]string{
		"succeeded":                end("", "succeeded reported"),
		"failed":                   end("", "failed:handler"),
		"no executor":              end("", "failed:no-executor"),
		"timed out":                end("", "timed-out:timeout"),
		"never again":              end("", "failed retryafter=-1s"),
		"lost":                     end("", "lost:gone"),
		"lost, and that is named":  "children 2; edit 1 retry.on=lost; parent 1@-1s; end 1@-1s lost:gone",
		"killed":                   end("killby=bob killat=0s", "failed"),
		"skipped":                  end("", "skipped:overlap"),
		"a retry that was skipped": end("attempt=2", "skipped:paused"),
		"tried again":              "children 2; run 1@-1s place=1 retries=1; end 1@-1s failed",
		"has none":                 "children 2; run 1@-1s retries=0; end 1@-1s succeeded",
		"none of its end":          "children 2; run 1@-1s place=302 retries=0; end 1@-1s lost:gone",
		"of a job that is gone":    "parent 1@-1s; end 1@-1s succeeded reported",
		"deleted while it is owed": `children 1; parent 1@-1s; fault create throttled; end 1@-1s succeeded reported; delete 100
			end 1@-1s succeeded reported`,
		"follows its job": `job 1; job 100 after=orders/job-1:1:succeeded pauseafter=1 overlap.limit=1; parent 1@-1s
			end 1@-1s succeeded reported`,
		// A template that names the parent's data is filled at the child's first attempt, any other when the run is sent.
		"data": `job 1; job 2 after=orders/job-1:1 template params={{scheduledAt_yyyy}}:_{{parent.data}}
			job 3 after=orders/job-1:1 template params={{runId}}; parent 1@-1s; end 1@-1s succeeded reported data={{runId}}`,
		// A child whose job cannot be decoded stays pending until it can. Siblings and reports do not wait for it.
		"unreadable": `children 1; job 400 after=orders/job-1:1:succeeded template params={{parent.data}}
			run 1@-1s place=1 listed=accepted; damage 400; end 1@-1s succeeded reported data=data; end 1@-1s succeeded
			end 1@-1s succeeded reported; damage 0; +1m; pass 24`,
	}, newStage)
}

// TestJoins: job 100 runs once after all of its parents, if all of them end within an hour.
func TestJoins(t *testing.T) {
	const first, second = "parent 1@0s; end 1@0s succeeded reported", "parent 2@0s; end 2@0s succeeded reported"
	const told = " notify.to=a notify.on=skipped"
	story.Play(t, map[string]string{
		"unreadable":             "join 2; damage 100; " + first + "; damage 0; end 1@0s succeeded reported; " + second,
		"another kind of end":    "join 2 after=orders/job-1:1:finished,orders/job-2:2:failed; " + first + "; " + second,
		"over, seen by the run":  "join 2; " + first + "; due; +1h; due; due; " + second,
		"over, seen by a parent": "join 2; " + first + "; +1h; " + second,
		"edited: fewer parents":  "join 3; " + first + "; " + second + "; edit 100 after=orders/job-1:1:finished,orders/job-2:2:finished; due",
		"edited: after each":     "join 2; " + first + "; edit 100 within=0s; " + second + "; +1h; due",
		"data of a deleted run": `join 2 template params={{parent.data}}; parent 1@0s; end 1@0s succeeded data=0_of_1
			parent 1@1s; end 1@1s succeeded data=1_of_1; drop 1@1s; parent 2@5s; end 2@5s succeeded data=5_of_2`,
		// Every caller that finds a round over requests the notification of its skipped run.
		"skip is told, awaited": "join 2" + told + "; " + first + "; +1h; parent 2@0s; fault enqueue throttled; " + `
			end 2@0s succeeded; end 2@0s succeeded`,
		"skip is told, unawaited": "join 2" + told + "; parent 1@0s; fault create throttled; end 1@0s succeeded; +1h; " + `
			parent 2@0s; fault enqueue throttled; end 2@0s succeeded; end 2@0s succeeded`,
	}, newStage)
}

// TestSlots: when a run without an executor frees its slots, and which doubtful slots are freed.
func TestSlots(t *testing.T) {
	const waits = `permits group/db limit=1 holders=1@-1s; permits app/orders limit=1 holders=1@-1s; job 1
		run 1@-1s state=queued permit=group/db+app/orders owner= address= sentat=; read 1@-1s; `
	const looks = "; release 1@-1s; +1m; release 1@-1s"
	const group, app = "permits group/db limit=1 holders=1@-1s:-1m; ", "permits app/orders limit=1 holders=1@-1s:-1m; "
	const named = "permit=group/db+app/orders "
	const settles = "settle app/orders; settle group/db"
	story.Play(t, map[string]string{
		"released":                                    waits + looks[2:],
		"claimed at that moment":                      waits + "before change claim" + looks,
		"claimed after an outdated read":              waits + "before put-permits claim" + looks,
		"asked for at that moment":                    waits + "fault put-permits ok x2; before put-permits asks group/db app/orders" + looks,
		"asked for the first, when the last is freed": waits + "fault put-permits ok x3; before put-permits asks group/db" + looks,
		"not stored":                                  waits + "fault put-permits throttled" + looks,
		"doubtful, no run":                            group + app + settles,
		"doubtful, unnamed":                           group + app + "run 1@-1s permit=group/db; " + settles,
		"doubtful, waits":                             group + app + "run 1@-1s state=queued owner= " + named + "; " + settles,
		"doubtful, second alone":                      app + "run 1@-1s state=queued owner= " + named + "; " + settles,
		"doubtful, claimed":                           group + app + "run 1@-1s " + named + "; " + settles,
		"doubtful, claimed late":                      app + "run 1@-1s " + named + "; " + settles,
		"doubtful, retried": group + "run 1@-1s state=failed endedat=0s then=1#1 permit=group/db; " +
			"run 1#1 state=planned owner= attempt=2 first=1@-1s permit=group/db; settle group/db; loses 1#1; settle group/db ended",
		"doubtful, unreadable": `run 1@-1s state=succeeded endedat=0s; run 1@0s state=succeeded endedat=0s
			permits group/db limit=2 holders=1@-1s:-1m,1@0s:-1m; damage 1@-1s; settle group/db`,
		"certain, ended": "permits group/db limit=1 holders=1@-1s; run 1@-1s state=succeeded endedat=0s permit=group/db" +
			"; settle group/db; settle group/db ended",
		// The release is a follow-up: the report is repeated, or the watchdog does it.
		"release refused": "permits group/db limit=1 holders=1@-1s; run 1@-1s permit=group/db; fault put-permits throttled" +
			"; end 1@-1s succeeded reported; end 1@-1s succeeded reported",
		"closer died": "permits group/db limit=1 holders=1@-1s; run 1@-1s permit=group/db state=succeeded endedat=0s listed=accepted" +
			"; cursor -1m; +11m; fault put-permits throttled; pass 2; pass 20",
	}, newStage)
}

// TestPauses: a job is paused after failures in a row, beside other changes and after faults.
func TestPauses(t *testing.T) {
	const job = "job 7 pauseafter=1 retry.max=0 every=1m next=+1m; run 7@-1s retries=0 pauseafter; "
	const fails = "; end 7@-1s failed:handler code=500"
	stories := map[string]string{
		"a tick moves the job on":  job + "before advance moves 7 newnext=+2m" + fails,
		"a user pauses it":         job + "before advance moves 7 newstate=paused newrev=2 newrevat=0s newpauseby=ann newpausewhy=lunch" + fails,
		"the job is created again": job + "before advance moves 7 newrev=2 newrevat=+1s" + fails,
		"the job is deleted":       job + "before close delete 7" + fails,
		// The chain of a fixed delay ends, and no run is sent until a user resumes the job.
		"fixed delay": `job 7 pauseafter=1 retry.max=0 delay=10s next=-1s tail=7@-1s seq=5 planat=+10m; run 7@-1s fixeddelay
			run 7@-2s fixeddelay pauseafter retries=0; end 7@-2s failed:handler code=500; end 7@-1s succeeded`,
		// If the notification of a pause cannot be enqueued, the pause stays pending.
		"notification refused": `job 7 pauseafter=1 retry.max=0 every=1m; run 7#1 retries=0 pauseafter notice keeplog=never
			fault enqueue throttled x2; end 7#1 failed:handler; mend 7#1`,
		"no notification": `job 7 pauseafter=1 retry.max=0 every=1m; run 7#1 retries=0 pauseafter keeplog=never
			end 7#1 failed:handler; mend 7#1`,
		// The process that closed a success died before it forgot the earlier failures. The watchdog forgets them.
		"success of a dead process": `job 7 pauseafter=2 retry.max=0 every=1m; permits row/7
			run 7#1 retries=0 pauseafter keeplog=never; end 7#1 failed:handler; +1m; run 7#2 retries=0 pauseafter
			fault permits throttled; end 7#2 succeeded; check 7#2; drop 7#1; drop 7#2; +1m
			run 7#3 retries=0 pauseafter; end 7#3 failed:handler`,
		"failures of a deleted job": `job 7 pauseafter=3 retry.max=0 every=1m; permits row/7; run 7#1 retries=0 pauseafter
			end 7#1 failed:handler; run 7#2 retries=0 pauseafter; delete 7; end 7#2 failed:handler`,
	}
	// A report that is repeated until it is taken pauses the job once, after any fault. Earlier due runs are recorded.
	for _, op := range []string{"close", "jobs", "span", "skips", "advance", "change"} {
		for _, answer := range []string{"throttled", "unknown", "unknown done"} {
			stories["owed: "+op+" "+answer] = "job 7 pauseafter=1 retry.max=0 every=1m next=-1m; run 7@-1s retries=0 pauseafter; fault " + op + " " +
				answer + fails + fails + fails + "; calls " + op
		}
	}
	story.Play(t, stories, newStage)
}
