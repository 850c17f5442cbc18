package operate_test

import (
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/story"
)

// TestTriggers: the records and messages of a trigger, its change and its cancellation.
func TestTriggers(t *testing.T) {
	const first = "trigger shop/sweep key=k params=a addresses=http://10.0.0.1:9999 retries=2 at=+1h; "
	story.Play(t, map[string]string{
		// All actions on the runs of a job in one millisecond are recorded, and a change of the job too.
		"records of one millisecond": `job sweep; +1m; trigger shop/sweep at=+24h key=a; trigger shop/sweep at=+24h key=b
			cancel shop/sweep#a; cancel shop/sweep#b; pause shop/sweep`,
		"rejected": `job sweep; trigger shop/none; trigger -1; trigger shop/sweep at=+8808h; trigger shop/sweep at=-2m
			trigger shop/sweep params=$long; trigger shop/sweep retries=-1; trigger shop/sweep cause=retry; trigger shop/sweep key=a_b
			trigger shop/sweep addresses=10.0.0.1; trigger shop/sweep addresses=queue:x.fifo; trigger shop/sweep addresses=lambda:x
			trigger shop/sweep addresses=http://169.254.169.254; trigger shop/sweep addresses=call:https://x`,
		// A key returns its run to an equal request or one without values, and is rejected for other values. A run with the
		// job's params has none of its own.
		"a key": "job sweep; " + first + first + `trigger shop/sweep key=k; trigger shop/sweep key=k params=b
			trigger shop/sweep key=k params=a addresses=http://10.0.0.2:9999; trigger shop/sweep key=k retries=3
			trigger shop/sweep key=plain; trigger shop/sweep key=plain params=a`,
		// A trigger changes until it is sent. Equal values change nothing, and fields that are not set stay. A change to now sends
		// the run and removes its entry. A run on the delay queue can still be put off.
		"changes": `job sweep; trigger shop/sweep at=+24h key=k; by bob; +1s
			change shop/sweep#k at=+1h params=other addresses=http://10.0.0.7:9999; record shop/sweep; trigger shop/sweep key=k
			change 1#1 at=+1h; +1s; change 1#1 addresses= params=$wide; record shop/sweep; +1s; change 1#1 at=now; change 1#1 at=+48h`,
		"changes, rejected": `job sweep; trigger shop/sweep at=+1h; change 1#1; change 1#1 at=+8808h; change 1#1 at=-2m
			change 1#1 params=$long; change 1#1 addresses=10.0.0.1; change 1#1 addresses=http://169.254.169.254; change 1#99 params=p
			change shop/sweep#none params=p; change 17 params=p`,
		"changes, of runs that do not wait": `job sweep; trigger shop/sweep at=+1h; run 1#7 planned owner=me until=+1m address=http://a:1
			change 1#7 params=p; cancel 1#1; change 1#1 params=p; run 1#8 planned cause=retry attempt=2 first=1#1 slot=+30s
			change 1#8 params=p; run 1@0s running; change 1@0s params=p`,
		// A repeated request with a key sends the waiting run again and removes its entry, but not the entry of a concurrent change.
		// A run that was released unsent is given another time. It does not keep its concurrency slots until then.
		"a change frees its slots": `job sweep; run 1#1 planned cause=api slot=+30s permit=job/1+app/shop; permits job/1 limit=1 holders=1#1
			permits app/shop limit=1 holders=1#1; change 1#1 at=+48h`,
		"a key beside a change": `job sweep; trigger shop/sweep at=+1m key=k; +1m; before enqueue change 1#1 at=+1h
			trigger shop/sweep key=k`,
	}, newStage)
}

// TestKills: a kill is sent to the executor of a run that was sent, and ends runs that wait.
func TestKills(t *testing.T) {
	const two = "job sweep; run 1#101 running address=http://a; run 1#102 running address=http://b; "
	const retry = "run 1#104 planned cause=retry attempt=2 first=1#101 slot=+30s; "
	const four = "http://10.0.0.1:1,http://10.0.0.2:1,http://10.0.0.3:1,http://10.0.0.4:1"
	const broadcast = `job reindex route=broadcast
		run 1@0s running owner= until= shard.total=4 shard.first=1#10 address= addresses=` + four + `
		run 1#10 running shard.of=1@0s shard.total=4 cause=schedule at=0s slot=0s address=http://10.0.0.1:1
		run 1#11 failed:handler shard.of=1@0s shard.index=1 shard.total=4 cause=schedule at=0s slot=0s then=1#20 address=http://10.0.0.2:1
		run 1#13 succeeded shard.of=1@0s shard.index=3 shard.total=4 cause=schedule at=0s slot=0s address=http://10.0.0.4:1
		run 1#20 planned shard.of=1@0s shard.index=1 shard.total=4 cause=retry attempt=2 first=1#11 at=0s slot=0s; `
	story.Play(t, map[string]string{
		// The executor that has a run may have others of the job there. A trigger that waits is not part of its job's kill.
		"all at an address": `job sweep; run 1#101 running address=http://a; run 1#102 running address=http://a
			run 1#103 running address=http://deaf; kill 1#101; ` + retry + `trigger shop/sweep at=+1h; kill job shop/sweep; kill 1#1
			kill 1#1; cancel 1#101; kill 12`,
		"not recorded":         two + "fault put 1; kill 1#101",
		"recorded in part":     two + retry + "fault put 1#102; kill job shop/sweep; record shop/sweep",
		"not read again":       two + retry + "fault open 3; kill job shop/sweep; record shop/sweep",
		"waits, of its job":    two + "run 1#103 queued; kill job shop/sweep",
		"waits, alone":         two + "run 1#103 queued; kill 1#103",
		"of what is over":      two + "run 1@0s failed:handler; kill 1@0s",
		"broadcast":            broadcast + "kill 1@0s; claim 1#12; kill 1@0s; end 1#10 failed:handler",
		"broadcast, one shard": broadcast + "kill 1#10",
		// The process that closed the last shard died before it closed the broadcast.
		"broadcast, its shards ended": broadcast + `close 1#10 succeeded; close 1#20 succeeded
			run 1#12 skipped:undeliverable shard.of=1@0s shard.index=2 shard.total=4 cause=schedule at=0s slot=0s; kill 1@0s`,
		// A rerun goes to the executors available now, or to the first ones. A single shard is rerun where it ran, with its index.
		// A filter selects the broadcast without its shards.
		"broadcast, again": broadcast + `kill 1@0s; end 1#10 failed:handler; rerun filter.job=shop/reindex dryrun; rerun run=1@0s
			rerun run=1@0s sameaddress; rerun run=1#12`,
	}, newStage)
}

// TestReruns: an ended run is rerun as its own trigger, with the scheduled time and the params of the first run.
func TestReruns(t *testing.T) {
	const one = "job sweep every=1h params=of_then retry.max=3; +1h; run 1@1m failed:handler; "
	const hourly = "job sweep every=1h; +1h; "
	template := func(was, is, then string) string {
		return "job sweep every=1h template params=" + was + "; +1h; " + is + "run 1@5m succeeded; run 1@20m succeeded; " + then
	}
	story.Play(t, map[string]string{
		"one": one + `rerun run=1@1m dryrun; rerun run=1@1m key=k; record shop/sweep; rerun run=1@1m key=k; rerun run=1#1
			job sweep every=1h params=of_now; rerun run=1@1m; rerun run=1@1m sameaddress; rerun run=1@1m params=other retries=0 cause=api
			delete sweep; rerun run=1@1m`,
		"rejected": one + `rerun run=1@1m key=k; rerun run=1@1m addresses=http://198.51.100.7:9999
			rerun run=1@1m sameaddress addresses=http://10.0.0.1:9999; run 1@2m failed:handler address=http://198.51.100.7:1
			rerun run=1@2m sameaddress; run 1@3m failed:handler address=; rerun run=1@3m sameaddress
			run 1@4m failed:handler addresses=http://198.51.100.7:1; rerun run=1@4m; rerun run=1@2m key=k`,
		// A user sent a run to addresses without an executor. It is rerun there only for users who may give these addresses.
		"addresses": `app allow=10.0.0.0/8; job sweep every=1h; +1h; beat now http://10.0.0.1:9999
			run 1@1m failed:handler address=http://10.6.6.6:9999 addresses=http://10.6.6.6:9999
			run 1@2m failed:handler address=http://10.0.0.1:9999 addresses=http://10.0.0.1:9999
			rerun filter.job=shop/sweep filter.failed key=k forbidden; rerun run=1@1m; rerun run=1@1m forbidden
			rerun run=1@1m sameaddress forbidden; rerun run=1@2m forbidden; rerun run=1@2m addresses=http://10.6.6.6:9999 forbidden`,
		// The scheduled time and the last success before it fill a template, even if the job has another template now.
		"template": template("{{scheduledAt_HH:mm}}", "", "run 1@10m failed:handler; rerun run=1@10m"),
		"template, another by now": template("{{scheduledAt_HH:mm}}_{{attempt}}", "run 1@10m failed:handler; ",
			"job sweep every=1h template params={{attempt}}; rerun run=1@10m"),
		"template, last success": template("{{lastSuccessAt_HH:mm}}", "", "run 1@10m failed:handler; rerun run=1@10m"),
		// Open and retried runs, and runs of deleted jobs, are skipped with a reason. The new runs belong to another request.
		"many": hourly + `job gone every=1h; run 1@1m failed:handler; run 1@2m failed:handler; run 1@3m failed:handler
			run 1@4m failed:handler then=1#7; run 1@5m running; run 2@6m failed:handler; delete gone
			rerun filter.app=shop filter.limit=1 key=k dryrun; rerun filter.app=shop filter.limit=1 key=k; close 1#1 failed:handler
			close 1#2 failed:handler; close 1#3 failed:handler; rerun filter.app=shop filter.limit=1 key=k`,
		"many, rejected": hourly + "rerun key=k; rerun filter.app=shop; rerun filter.app=shop key=" + strings.Repeat("k", core.MaxKey),
		// A request with another key skips runs that were rerun before, by filter or ID, unless the new run was skipped. A failed
		// new run is rerun itself. A run that is named by ID is rerun.
		"again": hourly + `run 1@1m failed:handler
			+24h; rerun filter.app=shop filter.failed key=a; rerun filter.app=shop filter.failed key=a; close 1#1 skipped:overlap
			+24h; rerun filter.app=shop filter.failed key=b; rerun filter.app=shop filter.failed key=b; close 1#3 failed:handler
			+24h; rerun filter.app=shop filter.failed key=c; close 1#5 succeeded; +24h; rerun filter.app=shop filter.failed key=d
			rerun run=1@1m; run 1@100h failed:handler; rerun run=1@100h; +24h; rerun filter.app=shop filter.failed key=e`,
	}, newStage)
}

// TestReplans: a run without a record is enqueued again with its ID once it is not in transit. No other run is.
func TestReplans(t *testing.T) {
	const ten = "quiet; job sweep every=10s; "
	pause := func(of string) string {
		return ten + "next 1 +100s; +15s; pause " + of + "; +30s; empty; replan all 15s"
	}
	heal := func(loss string) string {
		return "job one every=10s; job two every=10s; job three every=10s; next 1 +30s; next 2 +30s; next 3 +30s; +5s; empty; global " +
			loss + "; heal; heal"
	}
	story.Play(t, map[string]string{
		"missing": ten + `job other every=30s; run 1@10s succeeded; run 1@40s succeeded; run 2@30s succeeded; next 1 +90s; next 2 +90s
			skip job=1 first=50s last=60s count=2 reason=misfire; +85s; empty; replan shop/sweep 0s +100s; empty
			replan shop/sweep 0s +100s; run 1@20s succeeded; run 1@30s succeeded; run 1@70s succeeded; run 1@80s succeeded; empty
			replan all 0s +100s; run 2@60s succeeded; empty; replan all 0s +100s`,
		"rejected": ten + "replan all 10s +10s; replan all -438300h +10s; replan shop/none 0s +10s; by; replan all 0s +10s",
		// A replan without an end treats the delay queue as empty. It enqueues all planned runs, due or ahead, and each run that is
		// open or has pending follow-ups. This includes claimed runs, since an owner may die before its journal.
		"planned ahead": ten + `+45s; run 1@10s failed:handler owes=1#9:retry; run 1@20s planned
			run 1@30s running until=+40s; run 1@40s running until=+70s; run 1@50s succeeded
			skip job=1 first=70s last=70s count=1 reason=misfire; run 1#1 planned cause=retry slot=+46s
			run 1#3 failed:handler owes=1#9:retry slot=+30s; run 1#2 succeeded slot=+30s; next 1 +100s; empty; replan all 0s +100s
			replan all 0s`,
		// A tick enqueues runs before it moves the job on. If the queue is emptied in between, replan sends the runs from the job's
		// next time on, up to MaxAhead. It sends none of a job that is not due to be planned.
		"as a tick plans": `job sweep every=5s; empty; moves 1 newnext=+5s newplanat=now; replan all 4s; moves 1 newplanat=+10s
			replan all 4s; moves 1 newplanat=-1h; replan all 4s`,
		// Future runs are in the queue during a pause. They are due if the pause ends before them. Runs inside it are not sent.
		"in a pause of the app":      pause("shop"),
		"in a pause of everything":   pause("all"),
		"nothing was lost":           heal("loss.from="),
		"all were lost":              heal("loss.from=0s"),
		"lost from the second on":    heal("loss.from=0s loss.next=1"),
		"lost again":                 heal("loss.from=0s loss.again=1s"),
		"lost from within the third": heal("loss.from=0s loss.next=3@1800000015"),
		// A retry that is due within MaxAhead is only in the queue. A later one has an entry of the due index.
		"retries": `job sweep every=1h; empty; aws; run 1#1 planned cause=retry attempt=2; run 1#2 planned cause=retry attempt=2 slot=+211s
			run 1#3 planned cause=retry attempt=2 slot=+895s; run 1#4 planned cause=retry attempt=2 slot=+896s; replan all -895s`,
		// A run that the queue rejected is found and counted by the repeated call, not before.
		"queue is throttled": ten + "next 1 +40s; +5s; empty; fault enqueue 1; replan all 0s; fault enqueue; replan all 0s",
	}, newStage)
}

// TestRedrives: only runs that may still be sent are sent again. A message is removed when all its runs were sent.
func TestRedrives(t *testing.T) {
	const fated = `job fine every=10s misfire=all; job late every=10s misfire=skip; job paused every=10s misfire=all
		job changed every=10s misfire=all; job gone every=10s misfire=all; job mixed every=10s misfire=all
		job monthly every=10s misfire=all keep.days=1; empty; +10m; pause shop/paused; job changed every=20s; delete gone; empty; `
	story.Play(t, map[string]string{
		"by the fate of their jobs": fated + `letter fine 1@5m 1@5m; run 6@5m running; letter mixed 6@320s 6@5m; letter late 2@5m
			letter paused 3@5m rev=+11m; letter changed 4@5m; letter gone 5@5m; letter unknown 999@5m; redrive dryrun; redrive limit=5
			redrive drop`,
		"of triggers and shards": `job sweep every=10s misfire=all; empty; +10m; run 1#101 planned cause=manual; letter by_hand 1#101; run 1#102 failed:handler
			letter ended 1#102; run 1#103 skipped:undeliverable; letter recorded 1#103; letter without_a_record 1#104
			run 1#110 running shard.total=2 shard.first=1#111 addresses=a,b; letter of_an_open_broadcast 1#111 of=1#110
			letter of_no_broadcast 1#130 of=1#140; redrive; redrive drop`,
		// Only its message names an open run without an owner, or a run with pending follow-ups. It is sent again, whatever
		// happened to its job, so that dispatch ends it. A message stays while the run's owner may still die.
		"of open runs": fated + `run 1@5m running until=+9m; letter owner_killed 1@5m; run 1@310s running; letter owner_lives 1@310s
			run 1@320s failed:handler owes=1#1:retry; letter owes 1@320s; run 2@5m planned; letter released_late 2@5m; run 3@5m planned
			letter released_paused 3@5m; run 4@5m planned rev=0; letter released_changed 4@5m; run 4@310s planned maybesent address=http://a
			letter perhaps_sent_changed 4@310s; run 5@5m planned; letter released_deleted 5@5m; run 5#1 planned cause=manual
			letter by_hand_deleted 5#1; letter forgotten 7@-24h; redrive drop`,
		// A message for notifications or a log is sent again as new.
		"of the post-run queue": `owed a 1#3; owed b note; owed c check; +3h
			redrive dryrun; redrive`,
		// The readable runs of a message are sent. The message stays as the only trace of the unreadable ones, also if its readable
		// runs can never be sent, until a user removes it.
		"unreadable in part": `torn; job one every=10s misfire=all; empty; +1m; letter one_run 1@1m; owed no_run check; redrive; +960h
			redrive drop; redrive unread dryrun; redrive unread`,
		"rejected": "redrive limit=-1; redrive limit=101; by; redrive",
	}, newStage)
}

// TestCleans: runs are selected by job and app, outcome, age and count. Runs that something else needs stay at any age.
func TestCleans(t *testing.T) {
	story.Play(t, map[string]string{
		// A dry run only counts. Neither a replan nor a dead-letter message sends deleted runs. A deleted job has only its number.
		"selected": `job sweep every=1h; empty; quiet; hours 1 72; clean job=shop/sweep dryrun; clean app=shop keep=60 dryrun
			clean job=shop/sweep states=failed; clean job=shop/sweep before=now-62h; clean app=shop keep=60; clean app=shop
			replan all 0s now; letter old 1@1h; redrive; +48h; delete sweep; clean job=1`,
		// A message in transit may name runs that are due after it. A requeued one may wait for long, and names only runs of its
		// own due time.
		"needed": `job sweep every=1h; empty; run 1#1 running; run 1#2 failed:handler then=1#1
			run 1#3 succeeded shard.of=1#1 shard.index=1 shard.total=2; run 1#4 succeeded owes=1#99:parent; run 1#5 succeeded place=1
			run 1#6 failed:handler then=1#2; run 1#7 succeeded; run 1#8 succeeded then=1#7; +36h; run 1#9 succeeded
			clean job=shop/sweep dryrun; message -4h 1@-4h; clean job=shop/sweep; empty; message now+1h 1@-4h; clean job=shop/sweep`,
		// A success separates failures in a row, even after a clean-up of successes.
		"a success between failures": `job sweep every=1h pauseafter=3; empty; run 1#1 failed:handler pauseafter; +1h
			run 1#2 succeeded pauseafter; +1h; run 1#3 failed:handler pauseafter; +1h; run 1#4 succeeded pauseafter; +48h
			clean job=shop/sweep states=succeeded; run 1#5 running pauseafter; end 1#5 failed:handler`,
		"rejected": `job sweep; clean; clean job=shop/none; clean app=shop keep=-1; clean app=shop before=now-23h; clean app=shop after=x
			clean app=shop states=running; clean app=shop states=odd`,
	}, newStage)
}
