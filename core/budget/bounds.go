package budget

import "time"

// Limits of the work, the number of attempts and the time of one call or pass. In each comment, "Beyond" describes the
// behavior if the limit is reached, and "Test" names the test that checks the limit.
const (
	// OpenAtOnce is the maximum number of open runs that one call of the store returns.
	// Beyond: the next call returns further runs. Test: TestOpenRunsStopsWhereAStoreSearches.
	OpenAtOnce = 10_000
	// LaterRuns is how many later runs of a job are read to prove that the executor lost an earlier run.
	// Beyond: further runs are not read, and the earlier run stays open until its executor or a later run reports a result.
	// Test: TestBusyReadsTheNewestLaterRuns.
	LaterRuns = 100
	// ReadTries is how often a write with an unknown result is retried after a read.
	// Beyond: the caller gets the error core.CodeUnavailable, and tries again. Test: TestCloseWithoutClearAnswer.
	ReadTries = 4
	// PermitTries is the maximum number of attempts to write the item of a concurrency limit while other processes write it.
	// Beyond: the caller gets the error core.CodeUnavailable, and tries again. Test: TestPermitsThatOthersWrite.
	PermitTries = 20
	// PermitLooks is how many runs with a concurrency slot are checked together.
	// Beyond: the next request for a slot checks further runs. Test: TestSettleChecksAllSlots.
	PermitLooks = 25
	// PauseRuns is how many scheduled runs, and how many other runs, of a job are read to count its consecutive failures.
	// Beyond: the counter that is stored for the job applies. Test: TestPauseAfter.
	PauseRuns = 1000

	// PlanPasses is how often one change of a job plans the job.
	// Beyond: the planner plans the remaining runs. Test: TestChangePlansTheRestByTick.
	PlanPasses = 20
	// ClaimLooks is how often a batch reads a run that it cannot decide about.
	// Beyond: the run is enqueued again. Test: TestUndecidedFireComesAgain.
	ClaimLooks = 5

	// UnreadTries is how often in a row a run is enqueued again because its job or app cannot be read. With the delays, this
	// takes at least 15 minutes, the duration of a rollout.
	// Beyond: the run is moved to the dead-letter queue. Test: TestLooksAreNoFailures.
	UnreadTries = 20

	// CloseFor is how long a process that continues after a batch tries to store the results of its calls.
	// Beyond: an error is logged, and the run ends as lost. Test: TestEndsWaitForRoomOnTheDisk.
	CloseFor = 10 * time.Minute

	// Recovered is the maximum number of missing runs of one job that a pass sends again.
	// Beyond: the next pass sends further runs. Test: TestManyAreCompared.
	Recovered = 1000
	// Compared is the maximum number of runs of one job that a pass compares with the schedule.
	// Beyond: the next pass compares further runs. Test: TestManyAreCompared.
	Compared = 5000
	// LookBack is the maximum age of a scheduled time that a pass compares with the runs. A store that can lose messages keeps
	// runs for at least 15 days.
	// Beyond: an error is logged, and the scheduled time is not compared. Test: TestComparisonLooksBack.
	LookBack = 14 * 24 * time.Hour

	// NoticeFor is how long a notification is retried, and how long it waits for a job or an app that cannot be read.
	// Beyond: the notification is dropped, and users see that it was dropped, or goes to the job's last channels. Test: TestNotices.
	NoticeFor = 24 * time.Hour
	// FailingFor is how long after its failure a job is checked for recovery.
	// Beyond: the next success of the job causes no notification. Test: TestFailingEnds.
	FailingFor = 40 * 24 * time.Hour

	// Looked is the maximum number of runs or change records that one page of a list checks.
	// Beyond: the page ends early and returns the cursor of the next page. Test: TestRunsBehindManyOthers.
	Looked = 20_000
	// Demanded is the maximum number of scheduled times that one report of an audit counts.
	// Beyond: the report ends early and returns the start of the next report. Test: TestAuditGoesOn.
	Demanded = 200_000
	// Missing is the maximum number of missing times, of jobs, and of runs that one report lists.
	// Beyond: further times, jobs and runs are counted but not listed. Test: TestAuditNamesSomeAndCountsAll.
	Missing = 100
	// History is the maximum number of change records of an app or a job that an audit reads.
	// Beyond: earlier changes are not read, and the audit is marked as partial. Test: TestAuditBehindManyChanges.
	History = 10_000
	// Again is the approximate number of runs that one call sends again.
	// Beyond: the next call sends further runs. Test: TestReplanOfAllThatWaitWithANumber.
	Again = 1000

	// Killed is the maximum number of runs that one kill of a job ends.
	// Beyond: the response is marked as partial. Test: TestKillReachesEachRun.
	Killed = 10_000
	// Reran is the maximum number of runs that one rerun with a filter checks.
	// Beyond: the response has the start of the next call. Test: TestRerunGoesOn.
	Reran = 100
	// RerunPages is the maximum number of pages of a job's change records that a rerun with a filter reads.
	// Beyond: runs that ended before these records are skipped and reported. Test: TestRerunBehindManyRequests.
	RerunPages = 5
	// Successes is how many of a job's newest successful runs a clean-up checks to find the one that ended last.
	// Beyond: an older run is deleted, although it ended later. Test: TestCleanKeepsTheLastSuccess.
	Successes = 20
	// FailingRead is the maximum number of recently failed jobs whose last runs are read for one page of the console.
	// Beyond: other failed jobs are counted, and the page suggests a narrower view. Test: TestPageReadsTheJobsThatFailedLast.
	FailingRead = 200
	// Redriven is the maximum number of dead-letter messages that one call checks.
	// Beyond: a higher limit is rejected, and the response has the start of the next call. Test: TestRedriveOfMany.
	Redriven = 100

	// Before is the maximum number of jobs that precede a job, directly or indirectly.
	// Beyond: the change is rejected. Test: TestMostJobsBeforeOne.
	Before = 10_000
)
