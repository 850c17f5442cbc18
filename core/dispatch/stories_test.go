package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/story"
)

// TestLimits: runs count against the limits of their job, group and app. Two executors never have more runs than a limit allows.
func TestLimits(t *testing.T) {
	const one = "job 7 overlap.limit=1; permits job/7; +30s; "
	const goesOn = "; repeat 3 +20s & come"
	story.Play(t, map[string]string{
		"skips": `job 7 overlap.limit=1 overlap.full=skip; +30s; fire 7@1s 7@2s 7@3s; end 7@1s succeeded; fire 7@4s`,
		// The closer of a run died before it freed the slot. No run is skipped for it, and the run's own message frees the slot.
		"skips, closer died": `job 7 overlap.limit=1 overlap.full=skip; +30s; fire 7@1s; closes 7@1s skipped; fire 7@2s`,
		"closer died":        one + `trigger 7#1; fire 7#1; fire 7@2s; +2m; come; closes 7#1 skipped; fire 7#1; come`,
		"queue":              `job 8 overlap.limit=1 overlap.max=2; +30s; fire 8@1s 8@2s 8@3s 8@4s 8@5s`,
		// The running run and the first in the queue both end without releasing. The runs behind notice it themselves.
		"lost slots": one + `fire 7@1s 7@2s 7@3s 7@4s; +20s; come; closes 7@1s skipped; closes 7@2s skipped; +20s; come without 7@2s
			repeat 5 +15s & come without 7@2s`,
		// A run that is closed while it asks does not enter the queue.
		"closed as it asks": one + `fire 7@1s; trigger 7#1; before limits end 7#1 skipped:cancelled reported=false unowned; fire 7#1`,
		// A lower limit takes no slot away and applies to later runs. A higher one admits waiting runs.
		"limit changed": `job 7 overlap.limit=3; permits job/7; +30s; fire 7@1s 7@2s 7@3s 7@4s 7@5s; edit 7 rev=1 overlap.limit=1
			fire 7@6s; end 7@1s succeeded; come; end 7@2s succeeded; come; end 7@3s succeeded; come; edit 7 rev=1 overlap.limit=3
			+20s; come`,
		// The waiting runs of a paused or deleted job are skipped when their turn comes, and pass the slot on.
		"paused":  one + `fire 7@1s 7@2s; edit 7 state=paused revat=+30s; end 7@1s succeeded; come`,
		"deleted": one + `fire 7@1s 7@2s 7@3s; delete 7; end 7@1s succeeded; come`,
		// The limit holds for each key value across the jobs of a group. Parameters of a trigger count, and a run keeps its
		// value when its job changes.
		"keys": `job 7 overlap.limit=1 overlap.group=db overlap.key=/tenant params={"tenant":"a"}
			job 8 overlap.limit=1 overlap.group=db overlap.key=/tenant template params={"tenant":"{{scheduledAt_'b'}}"}
			job 9 overlap.limit=1 overlap.group=db; +30s; fire 7@1s 7@2s; fire 8@3s 8@4s; fire 9@5s 9@6s
			edit 7 rev=1 params={"tenant":"b"}; trigger 8#1 params={"tenant":"a"}; fire 8#1; trigger 8#2 params={"tenant":"c"}; fire 8#2
			trigger 8#3 params=nobody; fire 8#3; end 7@1s succeeded; come; end 7@2s succeeded; come; fire 7@9s`,
		// An app starts no more attempts in a second than its limit, in order, retries included. A waiting run that is sent
		// again keeps its second.
		"per second": `job 7 retry.max=1 retry.delay=1s; app limits.persecond=2; +30s; fire 7@1s 7@2s 7@3s 7@4s 7@5s 7@6s 7@7s
			fire 7@7s; +1s; come; fire 7@7s; +1s; come; fire 7@7s; +1s; come; end 7@1s failed:handler; end 7@2s failed:handler
			end 7@3s failed:handler; +1100ms; come; +1s; come`,
		// Runs made under the old name keep it and do not wait forever. New runs use the new name.
		"group renamed": `job 7 overlap.limit=1 overlap.group=old; +30s; fire 7@1s 7@2s 7@3s; edit 7 rev=1 overlap.group=new; fire 7@4s
			end 7@1s succeeded; come; edit 7 rev=1 overlap.limit=0 overlap.group=; end 7@2s succeeded; come
			trigger 7#1 permit=group/never; fire 7#1`,
		// A waiting run of a group is a dead letter. Its slot goes to the next run, and it runs once its message is redriven.
		"dead letter": `job 7 overlap.limit=1 overlap.group=db; job 8 overlap.limit=1 overlap.group=db; +30s; fire 7@1s; fire 8@2s
			fire 7@3s; end 7@1s succeeded; purge; bury 8@2s; come; end 7@3s succeeded; fire 8@2s`,
		// The same for a retry: once its message is redriven, it waits for the slot.
		"dead letter of a retry": `job 7 overlap.limit=1 retry.max=1 retry.delay=1s; +30s; fire 7@1s; end 7@1s failed:handler; purge
			bury 7#1; fire 7@2s; fire 7#1; end 7@2s succeeded; come`,
		// A trigger is released because its executor is busy, and then moved. It does not hold its slot until then.
		"moved trigger": one + `answers busy; trigger 7#1; fire 7#1; answers accepted; retime 7#1 at=+720h slot=+720h; fire 7@1s
			repeat 4 +15s & come`,
		"found closed": one + `trigger 7#1; before limits end 7#1 skipped:cancelled reported=false unowned; fire 7#1
			fire 7@1s; repeat 3 +20s & come`,
		// A trigger asked before a user changed its limits. While it waits for its job's slot, it releases its app's slot.
		"limits changed after it asked": `job 7 overlap.limit=1; app limits.inflight=1; permits job/7; +30s; trigger 7#1 at=2s slot=2s
			permits app/a limit=1 holders=7#1:+29s; fire 7@1s; fire 7#1` + goesOn + "; end 7#1 succeeded" + goesOn + "; end 7@1s succeeded" + goesOn,
		// A chain that holds both slots but was never stored loses its job's slot, and comes before the app's slots are asked for.
		// It loses the app's slot too, else it would keep that one while it waits for a job whose run waits for the app.
		"never began": `job 7 overlap.limit=1; app limits.inflight=1; +30s; permits job/7 limit=1 holders=7@1s:+29s
			permits app/a limit=1 holders=7@1s:+29s; evicted job/7 7@1s elsewhere 7@1s; fire 7@2s; +20s; come; end 7@2s succeeded` +
			goesOn + "; end 7@1s succeeded",
		// Runs without a limit do not wait while others in their message ask for one.
		"beside no limit": "job 7 overlap.limit=1; job 8; +30s; before limits +1s; begin fire 7@1s 8@1s; finish",
	}, newStage)
}

// TestReplacements: a newer run has the running one killed and starts when that ends. Among waiting runs the newest stays.
func TestReplacements(t *testing.T) {
	const one = "job 7 overlap.limit=1 overlap.full=replace; permits job/7; +30s; "
	story.Play(t, map[string]string{
		"one":                   one + "fire 7@1s; fire 7@2s; checks; end 7@1s killed:person killed code=500",
		"a failure comes first": one + "fire 7@1s; fire 7@2s; end 7@1s failed:handler; come",
		"a success comes first": one + "fire 7@1s; fire 7@2s; end 7@1s succeeded; come",
		"the newest of five":    one + "fire 7@1s 7@2s 7@3s 7@4s 7@5s; checks",
		"two of a group at once": `job 7 overlap.limit=2 overlap.full=replace overlap.group=db
			job 8 overlap.limit=2 overlap.full=replace overlap.group=db; +30s; fire 7@1s; fire 8@2s; fire 7@3s; checks`,
		"late, a newer one runs":  one + "fire 7@6s; fire 7@2s; checks",
		"late, a newer one waits": one + "fire 7@1s; fire 7@7s; fire 7@2s; checks",
		"late, a newer one is retried": one + `fire 7@6s; run 7#9 state=planned cause=retry attempt=2 first=7@6s permit=job/7 at=6s slot=10m
			closes 7@6s failed:handler then=7#9; fire 7@2s; come`,
		// A user gave a run other params. Neither a waiting nor a running one of another key is replaced.
		"another key": `job 7 overlap.limit=1 overlap.full=replace overlap.key=/tenant; +30s; trigger 7#1 params={"tenant":"a"}; fire 7#1
			trigger 7#2 params={"tenant":"c"}; fire 7#2; trigger 7#3 params={"tenant":"c"}; fire 7#3; trigger 7#4 params={"tenant":"b"}
			fire 7#4; end 7#4 succeeded; slots 7#4 holders=7#1:+31s queue=7#3; trigger 7#5 params={"tenant":"b"}; fire 7#5; slots 7#4 queue=
			+1m; come; end 7#1 succeeded; repeat 5 +1m & come`,
		"no kill is taken": one + `deaf; fire 7@1s; fire 7@2s; repeat 60 checks & +5s & come; killed 10 80; hears; +20s; come; checks`,
		"a retry that waits": one + `fire 7@1s; run 7#9 state=planned cause=retry attempt=2 first=7@1s permit=job/7 at=1s slot=10m
			closes 7@1s failed:handler then=7#9; fire 7@2s; come`,
	}, newStage)
}

// TestChangedTriggers: a trigger changes before its message is handled, or between the check and the claim. It is sent as
// changed, at its new due time.
func TestChangedTriggers(t *testing.T) {
	const trigger = "job 7; trigger 7#1 params=old addresses=http://10.0.0.1:1; "
	const paused = "app pause.from=-1h pause.by=ann; "
	const later, params = "retime 7#1 at=+1h slot=+1h params=new", "retime 7#1 params=new addresses=http://10.0.0.2:1"
	const fire = "; fire 7#1 at=0s slot=0s"
	story.Play(t, map[string]string{
		"later, before the look":      trigger + later + fire,
		"later, after the look":       trigger + "before put " + later + fire,
		"later, and paused":           paused + trigger + "before put " + later + fire,
		"earlier, before the look":    trigger + "retime 7#1 at=-1s slot=-1s params=new" + fire,
		"params, before the look":     trigger + params + fire,
		"params, after the look":      trigger + "before put " + params + fire,
		"params, and paused":          paused + trigger + "before put " + params + fire,
		"earlier, with both messages": trigger + "retime 7#1 at=-2s slot=-2s params=new addresses=http://10.0.0.2:1" + fire + " + 7#1",
		// Between check and claim, the trigger changes, and another process claims and releases it. The old check must not
		// claim it, even if its last two owners had the same until.
		"given back":       trigger + "before put " + params + " & answers busy & elsewhere 7#1 & answers accepted; fire 7#1",
		"given back twice": trigger + `answers busy; elsewhere 7#1; before put ` + params + ` & elsewhere 7#1 & answers accepted; fire 7#1`,
		// A run records the job revision that it was sent with.
		"not edited":              "job 1 handler=of_1; trigger 1#100; fire 1#100",
		"edited before the read":  "job 1 handler=of_1; trigger 1#100; edit 1 rev=5 handler=of_5; fire 1#100",
		"edited before the claim": "job 1 handler=of_1; trigger 1#100; before put edit 1 rev=9 handler=of_9; fire 1#100",
		"edited before and after": `job 1 handler=of_1; trigger 1#100; edit 1 rev=5 handler=of_5
			before put edit 1 rev=9 handler=of_9; fire 1#100`,
		"broadcast edited after shards": spread(2, "") + "trigger 1#100; fire 1#100; edit 1 rev=5 handler=of_5; come",
	}, newStage)
}

// spread has a broadcast job with n executors.
func spread(n int, def string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint("http://10.0.0.1:1/", i+1))
	}
	return "app executors=" + strings.Join(list, ",") + "; job 1 route=broadcast " + def + "; +30s; "
}

// TestBroadcasts: each executor has one shard, and the broadcast ends once with the last.
func TestBroadcasts(t *testing.T) {
	const refuses = "answers refused address=http://10.0.0.1:1/2 message=connection_refused; "
	ends := func(n int) (steps string) {
		for i := range n {
			steps += fmt.Sprintf("; end 1#%d succeeded", i+1)
		}
		return steps
	}
	story.Play(t, map[string]string{
		"an executor refuses":    spread(3, "") + refuses + "fire 1@1s; come" + ends(3),
		"refused, discard later": spread(3, "block=discard-later") + refuses + "fire 1@1s; come; end 1#1 succeeded; end 1#3 succeeded",
		"refused, cover early":   spread(3, "block=cover-early") + refuses + "fire 1@1s; come; end 1#1 succeeded; end 1#3 succeeded",
		"no executor":            spread(0, "retry.max=1 retry.delay=1s") + "fire 1@1s; app executors=http://a:1,http://b:1; +2s; come; come",
		"a dead letter, first":   spread(3, "") + "fire 1@1s; bury 1#2; fire 1#1; end 1#1 succeeded; fire 1#3; end 1#3 succeeded; bury 1#2",
		"a dead letter, last":    spread(3, "") + "fire 1@1s; fire 1#1; end 1#1 succeeded; fire 1#3; end 1#3 succeeded; bury 1#2",
		"skipped shards, killed": spread(2, "") + `fire 1@1s; before put closes 1@1s killed; skips 1@1s 1#1 1#2`,
		"skipped shards, listed": spread(2, "") + "journals; fire 1@1s; skips 1@1s 1#1 1#2",
		"open for a day": spread(3, "") + `fire 1@1s; come; end 1#1 succeeded; end 1#3 succeeded; +25h; mend 1@1s; come
			end 1#2 succeeded`,
		"paused before it is sent": spread(2, "every=1m") + "fire 1@1s; edit 1 state=paused; come",
		"killed before it is sent": spread(2, "") + "fire 1@1s; kills 1@1s; come",
		"cancelled as it spreads": spread(2, "") + "trigger 1#100; before put elsewhere 1#100; " +
			"end 1#100 skipped:cancelled reported=false unowned; come",
		"reported itself": spread(2, "") + "fire 1@1s; come; end 1@1s succeeded; end 1@1s skipped:cancelled reported=false unowned",
		"its closer dies": spread(2, "pauseafter=1") + `fire 1@1s; come; end 1#1 succeeded; cut 1@1s; end 1#2 failed:handler; cut none
			fire 1#1`,
		"unreadable":                 spread(1, "") + "fire 1@1s; fire 1@2s; unreadable 1@1s; fire 1#1 1#2",
		"unreadable, with its shard": spread(1, "") + "journals; fire 1@1s; unreadable 1@1s 1#1; fire 1#1",
	}, newStage)
}

// TestThousandShards: a broadcast has at most this number of shards.
func TestThousandShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(story.Begin)) // fake time
		s := newStage(t)
		s.Play(spread(core.MaxShards, "") + "fire 1@1s; come")
		for i := range core.MaxShards {
			s.Step(fmt.Sprintf("end 1#%d succeeded", i+1))
		}
		check.Equal(t, s.See()["1@+1s"][0], "state=succeeded")
	})
}

// TestSends: the content of a send, and the end of a retry that is never sent.
func TestSends(t *testing.T) {
	const retry = "job 7 state=paused; run 7#1 cause=retry attempt=2 first=7@0s state=planned at=0s slot=0s; "
	story.Play(t, map[string]string{
		"dialect of its executor": "app executors=; beat now http://newer dialect=D; job 1; fire 1@0s",
		"no dialect":              "app executors=; beat now http://older; job 1; fire 1@0s",
		// A retry chain ends because its job is paused before the retry. The end is notified once, even if the answer is lost.
		"paused before a retry":              retry + "fire 7#1",
		"paused before a retry, lost answer": retry + "lost ends; fire 7#1",
	}, newStage)
}

// TestScripts: a run is sent with the source of its job's script.
func TestScripts(t *testing.T) {
	const one = "job 1; script 1 one; trigger 1#1; "
	story.Play(t, map[string]string{
		// Plain jobs read no source. A script is read once for all its runs, at the same time or later, and each new version once too.
		"read once": `job 1; job 2; script 1 one; trigger 2#1; fire 2#1; trigger 1#1 addresses=http://a:1
			trigger 1#2 addresses=http://b:1; trigger 1#3 addresses=http://c:1; fire 1#1 1#2 1#3; trigger 1#4; fire 1#4; script 1 two
			trigger 1#5; fire 1#5`,
		// If the store fails, the run comes again and is sent then. If the source is missing, the run fails.
		"read is throttled": one + "source throttled; fire 1#1; +1m; come",
		"read is cut":       one + "source cut; fire 1#1; +1m; come",
		"is missing":        one + "source absent; fire 1#1; trigger 1#2; fire 1#2",
	}, newStage)
}

// TestTemplates: the params of a job are filled in its zone, with the scheduled time of its last success.
func TestTemplates(t *testing.T) {
	story.Play(t, map[string]string{
		// Params of a trigger are sent byte for byte.
		"filled": `job 7 template schedule.timezone=Asia/Shanghai params={{scheduledAt_HH:mm}}_{{lastSuccessAt_HH:mm:ss}}_{{attempt}}_{{runId}}
			fire 7@0s; closes 7@0s succeeded; fails 7 120; +1m; fire 7@now; trigger 7#1 params={{scheduledAt}}_as_it_is; fire 7#1`,
		// Params that become too long fail the run, but not one that may have been sent.
		"too long": `long 7; fire 7@0s; long 8; run 8@0s owner=dead until=-1m address=http://10.0.0.1:1 sentat=-2m; fire 8@0s try=1`,
		// A slow read of a last success delays no other job. A template that stays unreadable moves to the dead-letter queue.
		"hold up nobody": `job 1; job 2 template params={{lastSuccessAt}} deadline=10m
			job 3 template params={{word_of_a_later_version}} deadline=10m; span silent; begin fire 1@0s 2@0s 3@0s; +1100ms; finish
			span damaged; fire 2@0s 3@0s try=20 unread=20; +1h; fire 2@0s`,
	}, newStage)
}

// TestWaitsForExecutor: a run waits for an executor as long as the setting of its job.
func TestWaitsForExecutor(t *testing.T) {
	const away = "app executors=; job 7 waitforexecutor="
	story.Play(t, map[string]string{
		// A queue that rounds times down to seconds does not deliver the last check repeatedly until the wait is over.
		"less than a second": away + "500ms; fire 7@0s; +900ms; come; +1s; come",
		"paused":             away + "1h; fire 7@1s; edit 7 state=paused revat=+2s; repeat 2 +15s & come",
		"deleted":            away + "1h; fire 7@1s; delete 7; repeat 2 +15s & come",
		"edited":             away + "1h; fire 7@1s; edit 7 rev=1 waitforexecutor=10s; repeat 2 +15s & come",
		// A trigger got a later due time. An old message that arrives after that time does not shorten its wait.
		"since its due time": away + "10m; run 7#1 state=queued owner= cause=api at=0s slot=0s; +1s; fire 7#1 slot=-15m",
	}, newStage)
}

// TestUnreadable: a run that cannot be read is not claimed, and the others of its message are handled.
func TestUnreadable(t *testing.T) {
	story.Play(t, map[string]string{
		"run":           "job 1; +30s; run 1@1s state=planned; unreadable 1@1s; fire 1@1s 1@2s",
		"run, a letter": "job 1; job 2; run 1@0s state=planned; unreadable 1@0s; bury 1@0s 2@0s",
	}, newStage)
}

// TestPostRunQueueFails: the post-run queue and checks accept nothing, or do not answer.
func TestPostRunQueueFails(t *testing.T) {
	story.Play(t, map[string]string{
		// Plain jobs of the batch wait at most a second. Jobs with notifications are retried.
		"checks are silent": "job 7; job 8 notify.to=x notify.on=slow notify.slow=1m; mute silent; fire 7@0s 8@0s",
		// The next run of a fixed delay does not wait for the notification of the skip, which stays pending.
		"skipped fixed delay": `job 7 delay=1m misfire=skip next=-2h tail=7@-2h planat=+1h notify.to=x notify.on=skipped revat=-24h
			mute refuses; fire 7@-2h`,
	}, newStage)
}

// TestProbes: a run fails if none of its addresses answers in time, and never because of a cached answer. If they could not be
// asked, it comes again.
func TestProbes(t *testing.T) {
	const a, b, c = "http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.3:1"
	const failover = "job 7 route=failover; app executors=" + a + "," + b + "; "
	const busyover = "job 7 route=busyover; app executors=" + a + "," + b + "," + c + "; "
	story.Play(t, map[string]string{
		"no answer": failover + "probe silent " + a + " " + b + "; fire 7@0s",
		// A send that hangs has the only place at the gate of its address. A probe needs a place there too.
		"behind a send": "app executors=" + a + "; job 7 route=failover; job 8; answers unconfirmed took=5s; begin fire 8@0s; fire 7@0s; finish",
		// The silent address is asked again, and gets the runs.
		"silent before": failover + "probe silent " + a + " " + b + "; fire 7@0s; probe idle " + a + "; +2s; fire 7@1s; fire 7@2s",
		// The address that was silent before is not asked in time. The run comes again, and fails only when both are silent.
		"no time to ask": failover + "probe silent " + a + " " + b + "; fire 7@0s; probe idle " + a + "; +2s; fire 7@1s; probe silent " + a +
			"; +2s; fire 7@2s; +1s; fire 7@2s",
		// A probe that failed for lack of local resources is no answer.
		"could not be asked": failover + "probe unasked " + a + " " + b + "; fire 7@0s; probe idle " + a + "; +2s; come",
		// Missing answers count as slow. Later runs move to the slow queue without a probe or a claim.
		"silent and slow": "slow; " + failover + "probe silent " + a + "; fire 7@0s; +15s; fire 7@15s; +15s; fire 7@30s; +15s; fire 7@45s" +
			"; fire 7@45s slow=true",
		// Each run goes to the first address that is idle for its job. If all are busy it fails, after they were asked again.
		"busy": busyover + "probe busy " + a + " " + b + "; probe free " + c + "; fire 7@0s; +500ms; fire 7@1s; +200ms; probe free " + b +
			"; fire 7@2s",
	}, newStage)
}

// TestFailoverWithoutBeats: failover skips a queue that executors polled before and no longer poll. It takes queues that are
// polled or unknown, and does not ask functions.
func TestFailoverWithoutBeats(t *testing.T) {
	const first = "job 7 route=failover; app executors="
	story.Play(t, map[string]string{
		"polled":        first + "queue:q,http://10.0.0.3:1; beat now-90s queue:q; fire 7@0s",
		"polled before": first + "queue:q,http://10.0.0.3:1; beat now-91s queue:q; fire 7@0s",
		"never polled":  first + "queue:q,http://10.0.0.3:1; fire 7@0s",
		"function":      first + "lambda:f,http://10.0.0.3:1; fire 7@0s",
	}, newStage)
}

// TestLists: if lists use journals, the journal of a batch names all its runs, and other journals the runs of dead processes.
func TestLists(t *testing.T) {
	const full = "job 3 overlap.limit=1 overlap.full=skip; permits job/3 limit=1 holders=3@-1m; run 3@-1m permit=job/3 sentat=-1m; "
	const two = "job 1; job 2; journals; "
	const ended = "answers ended state=succeeded code=200; "
	const dead = "journal=29999999:0:dead "
	const pause = "app pause.from=now pause.by=ann; "
	story.Play(t, map[string]string{
		"one is skipped":                   full + two + ended + "fire 1@0s 2@0s 3@0s",
		"runs have an index":               full + "job 1; job 2; " + ended + "fire 1@0s 2@0s 3@0s",
		"no journal":                       two + ended + "down; fire 1@0s 2@0s; up; fire 1@0s 2@0s",
		"no journal, and one is accepted":  two + ended + "answers accepted job=1; down; fire 1@0s 2@0s",
		"no journal, and one comes again":  two + ended + "answers busy job=1; down; fire 1@0s 2@0s; up; fire 1@0s 2@0s",
		"no journal, and all come again":   two + "answers busy; down; fire 1@0s 2@0s",
		"dead process, ended":              two + "run 1@0s " + dead + "state=succeeded sentat=0s endedat=0s; +5m; fire 1@0s",
		"dead process, released, paused":   two + "run 1@0s " + dead + "state=planned sentat=0s; +5m; " + pause + "fire 1@0s",
		"dead process, queued, paused":     two + "run 1@0s " + dead + "state=queued; +5m; " + pause + "fire 1@0s",
		"dead process, it waits":           two + "run 1@0s " + dead + "state=queued; app waitforexecutor=1h executors=; +5m; fire 1@0s",
		"dead process, its second message": two + "run 1@0s " + dead + "state=queued; app waitforexecutor=1h executors=; +5m; fire 1@0s try=1",
		"dead process, hint dropped":       two + "job 4 template params={{x}}; run 4@0s " + dead + "state=skipped; fire 4@0s try=20 hint=true",
		"dead process, job edited":         two + "run 1@0s " + dead + "owner=dead sentat=0s; edit 1 rev=2 revat=-1s; +5m; fire 1@0s rev=1",
		"dead process, job edited, beside a call": two + "app calls executors=call:https://h; edit 2 app=calls timeout=10m; run 1@0s " + dead +
			"owner=dead sentat=0s; edit 1 rev=2 revat=-1s; +5m; answers accepted job=2 took=1h; fire 1@0s 2@0s rev=1",
		"the write was refused, claimed": two + ended + "lost records; fire 1@0s try=1",
		"the write was refused, skipped": two + "+1s; " + pause + "lost records; fire 1@0s try=1",
		// One journal names the runs that a dead-letter message records, another one a run whose writer died.
		"dead letter": two + "run 1#8 cause=api state=succeeded at=0s slot=0s sentat=0s endedat=0s " + dead + `
			down; bury 1#9 1#8; up; +5m; bury 1#9 1#8`,
	}, newStage)
}
