package query_test

import (
	"fmt"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/story"
)

// TestAudits: the audit counts each expected run once.
func TestAudits(t *testing.T) {
	const ten, hourly = "quiet; job sweep every=10s; ", "quiet; job sweep every=1h keep.days="
	const look = "; audit now-70h now; replan now-70h now"
	behind := func(job, holder string) string {
		return "quiet; job sweep every=10s " + job + "; next 1 +30s; " + holder + "; run 1@20s queued permit=job/1; +2h; audit 0s +20s"
	}
	const holder = "permits job/1 limit=1 holders=1@10s queue=1@20s; run 1@10s running permit=job/1 "
	early := func(of string) string {
		pause := "pause " + of + " why=stocktaking; +30m; resume " + of + "; "
		return "quiet; early; job sweep every=1m; empty; " + pause + pause + "next 1 +61m; +20s; replan 0s now; at shop/sweep 2m"
	}
	pauses := func(n int) string { return fmt.Sprintf("repeat %d pause shop & resume shop; ", n) }
	story.Play(t, map[string]string{
		"still to be planned": ten + "next 1 +10s; +105s; audit 0s +100s",
		// A run that was never sent is neither on time nor late, and not missing.
		"never sent": ten + `next 1 +30s; run 1@10s succeeded sentat=+10020ms
			run 1@20s failed:no-executor address= sentat=+23s endedat=+23s; +40s; audit 0s +20s`,
		// A run with a fixed delay is expected after the end of the one before. In the end the tick found no run of +58s, recorded
		// it as skipped and went on; then a late message ran it.
		"fixed delay": `quiet; job poll delay=10s; run 1@10s succeeded fixeddelay endedat=+11500ms
			run 1@22s succeeded fixeddelay endedat=+23500ms; run 1@34s succeeded fixeddelay endedat=+35500ms
			run 1@46s succeeded fixeddelay endedat=+47500ms; run 1@58s succeeded fixeddelay endedat=+59500ms; +370s
			next 1 +70s; audit 0s +170s; next 1 +70s 1@70s; audit 0s +170s; next 1 +58s 1@58s; audit 0s +170s; next 1 +58s
			audit 0s +170s; next 1 +9000s; audit 0s +170s; run 1@130s succeeded fixeddelay endedat=+131s; next 1 +160s; audit 0s +150s
			skip job=1 first=58s last=58s count=1 reason=deadline made=+64s; audit 0s +150s`,
		// The chain went on with the old delay, before an edit by a slow clock.
		"fixed delay, edit by a clock behind": `quiet; job poll delay=3s; run 1@3s succeeded fixeddelay endedat=+3080ms; +2500ms
			next 1 +7s; job poll delay=2s; run 1@7s succeeded fixeddelay endedat=+7080ms; next 1 +10s 1@10s; +300s; audit 0s +103s`,
		// A run waits rightly while another run of its limit is open and within its timeout. Behind a hanging or ended run it is
		// overdue.
		"behind one without a timeout":    behind("", holder),
		"behind one in time":              behind("timeout=3h", holder),
		"behind one past its timeout":     behind("timeout=1h", holder),
		"behind one that ended":           behind("", holder+"state=succeeded endedat=+70s owner="),
		"behind one that was never sent":  behind("", "permits job/1 limit=1 holders=2@10s; run 2@10s queued permit=job/1"),
		"behind it, a deadline to come":   behind("timeout=1h deadline=4h", holder),
		"behind it, a deadline is past":   behind("timeout=3h deadline=1h", holder),
		"kept for a day":                  hourly + "1; empty; hours 1 72; sweep" + look,
		"two are lost":                    hourly + "1; empty; hours 1 72 60,20; sweep" + look,
		"not swept yet":                   hourly + "1; empty; hours 1 72" + look,
		"kept for ever, and one was lost": hourly + "-1; empty; hours 1 72 20; sweep" + look,
		"cleaned up": `quiet; job sweep every=1h; empty; hours 1 72; clean app=shop keep=60; audit now-72h now; clean app=shop
			audit now-72h now; replan now-72h now`,
		"deleted": hourly + "1; empty; hours 1 72; sweep; delete sweep" + look,
		"kept for longer since ten hours ago": hourly + `1; empty; hours 1 72; sweep; job sweep every=1h keep.days=30; hours 1 10 0
			sweep` + look,
		// Pauses older than the change records are unknown, however long runs are kept. An app has its last pauses itself.
		"beyond the records of pauses": `quiet; job sweep every=24h keep.days=90; empty; pause shop; +120h; resume shop; +720h
			pause shop; resume shop; +744h; ` + pauses(core.MaxPast-1) + "sweep; next 1 +1592h; audit 0s now; " + pauses(1) +
			"sweep; next 1 +1592h; audit 0s now",
		// An item by an earlier version has only the last pause. It gets older ones from the change records.
		"early file, pauses of an app":     early("shop"),
		"early file, pauses of everything": early("all"),
		"a pause that ended before its begin": `quiet; job sweep every=1m; empty; +1861s; pause shop; -20m; pause shop; +599s; resume shop
			+2395s; next 1 +61m; audit 59s +60m`,
		// An old message excuses later runs for some minutes only. Unplanned and unsent runs become overdue.
		"overdue": `job sweep every=10m schedule.jitter=1s; empty; run 1@10m planned slot=+601s sentat=+10m; next 1 +60m; waits 1@10m
			+24m; audit 599s now; +2m; audit 599s now; +10m; audit 599s now; +41m; audit 599s now; replan 599s now`,
		// The pauses of a deleted app excuse its times until the deletion. A new app with its name has none of them.
		"a deleted app and its heir": `quiet; job sweep every=10m; empty; next 1 +60m; +1m; pause shop; +34m; resume shop; +595s
			pause shop; +10m; delete sweep; delete-app shop; +1m; audit 0s now-5s; +1m; app allow=; job sweep every=10m; empty
			next 2 +90m; +24m; audit 0s now-5s`,
	}, newStage)
}

// TestShown: a scheduled time is shown with its run.
func TestShown(t *testing.T) {
	story.Play(t, map[string]string{
		// A time is one of the job's zone. The clock there shows 02:30 twice on 25 October, and skips it on 29 March.
		"by its time": `job nightly cron=0_30_2_*_*_? schedule.timezone=Europe/Berlin; run 1@-6h30m succeeded
			show shop/nightly@2027-01-15T02:30 shop/nightly@2027-01-15T02:30:00 shop/nightly@2027-01-15T01:30Z
			show shop/nightly@2027-01-15T02:30:00+01:00 shop/nightly@02:30 shop/nightly@2:30:00
			skip job=1 first=-30h30m last=-6h30m count=2 reason=misfire; show shop/nightly@2027-01-14T02:30
			run 1@-1975h30m succeeded; show shop/nightly@2026-10-25T02:30; run 1@-7015h succeeded; show shop/nightly@2026-03-29T02:30
			show shop/nightly@23:30 shop/nightly@2026-12-24T02:30 shop/nightly@noon shop/nightly@1999-01-01T00:00 x -7 99999999999`,
		// A time without a run shows who paused the job, its app or everything, when and why.
		"in a pause": `job sweep every=10m; empty; by bob; +5m; pause shop/sweep why=release; +3m; job sweep every=10m params=edited
			at shop/sweep 10m 100m 15m; +17m; resume shop/sweep; at shop/sweep 10m 20m 30m; +10m; pause shop why=move; +10m; resume shop
			+595s; pause shop until=+65m; +1m; at shop/sweep 40m 60m 70m; +19m; pause all why=storm; at shop/sweep 80m; +10m; resume all
			at shop/sweep 80m; +595s; pause shop/sweep until=+115m why=nap; at shop/sweep 110m 120m; +26m; at shop/sweep 110m 120m
			job sweep every=20m; at shop/sweep 91m 130m 100m; +2h; at shop/sweep 140m`,
		"in an outage": `job sweep every=1h schedule.timezone=Europe/Berlin; +4h; outage +59m +3h1m
			skip job=1 first=+2h last=+2h count=1 reason=misfire made=+3h; at shop/sweep 2h 3h 4h`,
	}, newStage)
}

// TestHomePage: exactly the problems of now are listed.
func TestHomePage(t *testing.T) {
	story.Play(t, map[string]string{
		"each problem": `job well every=1h; job fails every=1h; job late every=1h; job long every=1h; job soon every=10m; +5m
			run 1@-4m succeeded; run 1@4m running; run 2@1m failed:handler; run 3@1m planned; run 4@-25m succeeded; run 4@1m running; home
			home nobody`,
		// A hanging run is listed behind any number of skipped runs, by a new process as by one that saw them.
		"behind skips": `job hangs every=1h; run 1@-31m succeeded; run 1@-30m running; home; repeat 40 run 1@now skipped:overlap & +1m & home
			restart; home`,
		// Runs are listed until they are due, even though they are planned. A pause and a change apply at once.
		"on their way": `job payroll cron=0_10_8_*_*_?; job later cron=0_12_8_*_*_?; job night cron=0_0_3_*_*_?; next 1 +1450m; home; +10m
			home; pause shop until=now+1m; home; pause shop until=now+1h; home; resume shop; job later cron=0_0_4_*_*_?
			job payroll cron=0_14_8_*_*_?; home`,
		"not planned": "job export every=1h; run 1@0s succeeded sentat=+120ms; +70m; home",
		// A failing job is listed with the failed run, even while the next run is open or skipped.
		"the run that failed": `job export every=1h; +10m; run 1@1m failed:handler; run 1@7m running; home; +1m; run 1@now skipped:overlap
			home; +1m; run 1@now skipped:overlap; home`,
	}, newStage)
}

// TestJobLists: each job is found by its status, and runs apply a moment later.
func TestJobLists(t *testing.T) {
	story.Play(t, map[string]string{
		"by status": `job well every=1h; job fails every=1h; job was-late every=1h; job waits every=1h; job held every=1h; job fresh every=1h
			job over every=1h; job tried every=1h; +10m; run 1@5m failed:handler; run 1@8m succeeded; run 1@9m running
			run 2@5m succeeded; run 2@6m failed:handler; run 2@7m skipped:overlap; run 2@8m running; run 3@2m succeeded sentat=+4m
			run 4@8m planned; run 7@1m succeeded; run 5@1m succeeded; run 8@1m failed:handler; pause shop/held; jobs; +1m
			run 2@659s succeeded; run 6@659s failed:handler; close 1@9m failed:handler; jobs; jobs FAILS; jobs #5`,
		// An app without a live or fixed executor is a problem if it has scheduled jobs and is not paused.
		"apps without executors": `app fixed executors=http://10.0.0.7:9999; app paused allow=; pause paused; job a app=fixed every=1m
			job b app=paused every=1m; job c every=1m; job d every=1m; job e; job f every=1m paused; job g every=1m handler= command.line=x
			run 1@-1m failed:handler; run 2@-1m failed:handler; run 3@-1m failed:handler; trouble
			beat now http://10.0.0.8:9999; trouble; +3m; trouble`,
		// A pause with an end hides only its own times, however many these are.
		"after pauses": `job beat every=1s; pause shop until=+10m; upcoming; resume shop; pause all until=+10m; upcoming
			pause shop/beat until=+10m; pause shop until=+10m; upcoming; pause shop; upcoming`,
	}, newStage)
}
