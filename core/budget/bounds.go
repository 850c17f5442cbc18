package budget

import "time"

// Limits of the work, the tries and the time of one call or pass of the core. Each comment
// describes the behavior beyond the limit, and names the test that covers it: at the limit, one beyond, and far beyond.
const (
	// OpenAtOnce is how many open runs one call of the store returns.
	// Beyond: the next call returns further runs. Test: TestTimeoutEndsBehindQueuedRuns.
	OpenAtOnce = 10_000
	// LaterRuns is how many later runs of a job are read to prove that the executor lost an earlier run.
	// Beyond: further runs are not read; the run stays open until its executor or a later run reports.
	// Test: TestBusyReadsTheNewestLaterRuns.
	LaterRuns = 100
	// ReadTries is how often a write without a clear answer is read and tried again.
	// Beyond: the caller gets an unavailable error, and tries again. Test: TestCloseWithoutClearAnswer.
	ReadTries = 4
	// PermitTries is how often a contended item of permits is written.
	// Beyond: the caller gets an unavailable error, and tries again. Test: TestPermitsThatOthersWrite.
	PermitTries = 20
	// PermitLooks is how many holders of permits, and how many waiting chains, are checked together.
	// Beyond: holders are checked in turns of PermitTurn seconds; a waiting chain is checked once it is
	// among the first. Test: TestOverLooksAtHoldersInTurn.
	PermitLooks = 25
	// PermitTurn is how many seconds a turn of PermitLooks lasts.
	// Beyond: the next turn checks further holders. Test: TestOverLooksAtHoldersInTurn.
	PermitTurn = 15
	// PauseRuns is how many runs of each kind are read to count consecutive failures.
	// Beyond: the counter that is stored for the job applies. Test: TestPauseAfter.
	PauseRuns = 1000

	// PlanPasses is how often a change plans a job at once.
	// Beyond: the next tick plans the rest. Test: TestChangePlansTheRestByTick.
	PlanPasses = 20
	// ClaimLooks is how often a batch reads the run of a fire that it cannot decide.
	// Beyond: the fire is requeued. Test: TestUndecidedFireComesAgain.
	ClaimLooks = 5

	// UnreadTries is how often in a row a fire is requeued because its job or app is unreadable: for at least a quarter of
	// an hour, the duration of a rollout.
	// Beyond: the fire is moved to the dead-letter queue. Test: TestLooksAreNoFailures.
	UnreadTries = 20

	// CloseFor is how long a living process tries to store the end of a call.
	// Beyond: an error is logged, and the run ends as lost. Test: TestEndsWaitForRoomOnTheDisk.
	CloseFor = 10 * time.Minute

	// Recovered is how many missing runs of one job a pass sends again.
	// Beyond: the next pass sends further runs. Test: TestManyAreCompared.
	Recovered = 1000
	// Compared is how many runs of one job a pass compares with its schedule.
	// Beyond: the next pass compares further runs. Test: TestManyAreCompared.
	Compared = 5000
	// LookBack is the maximum age of a scheduled time that a pass compares with the runs. A store with queues keeps
	// runs for at least 15 days.
	// Beyond: an error is logged, and the time is not compared. Test: TestComparisonLooksBack.
	LookBack = 14 * 24 * time.Hour

	// NoticeFor is how long a notification is tried, and waits for an unreadable definition.
	// Beyond: the notification is given up, and shown as given up. Test: TestNoticeWaitsForUnreadableJob.
	NoticeFor = 24 * time.Hour
	// FailingFor is how long a failed job is checked for recovery.
	// Beyond: the job's next success causes no notification. Test: TestFailingEnds.
	FailingFor = 40 * 24 * time.Hour

	// Looked is how many runs, or change records, one page of a list checks.
	// Beyond: the page ends early and returns the cursor of the next page. Test: TestRunsBehindManyOthers.
	Looked = 20_000
	// Demanded is how many scheduled times one report of an audit counts.
	// Beyond: the report ends early and returns the start of the next report. Test: TestAuditGoesOn.
	Demanded = 200_000
	// Missing is how many times, jobs or runs of each kind one report names.
	// Beyond: the others are only counted. Test: TestAuditNamesSomeAndCountsAll.
	Missing = 100
	// History is how many change records of an app or a job are read for one question.
	// Beyond: earlier changes are not read, and the answer is marked as partial. Test: TestAuditBehindManyChanges.
	History = 10_000
	// Again is about how many runs one call sends again.
	// Beyond: the next call sends further runs. Test: TestReplanOfAllThatWaitWithANumber.
	Again = 1000

	// Killed is how many runs one kill of a job ends.
	// Beyond: the answer is marked as partial. Test: TestKillReachesEachRun.
	Killed = 10_000
	// Reran is how many runs one rerun by a filter checks.
	// Beyond: the answer returns the start of the next call. Test: TestRerunGoesOn.
	Reran = 100
	// RerunPages is how many pages of a job's change records a rerun by a filter reads.
	// Beyond: runs that ended before these records are skipped and reported. Test: TestRerunBehindManyRequests.
	RerunPages = 5
	// Successes is how many of the newest successes a cleanup checks for the one that ended last.
	// Beyond: an older run is removed, although it ended later. Test: TestCleanKeepsTheLastSuccess.
	Successes = 20
	// FailingRead is how many of the most recently failed jobs have their last runs read for one page.
	// Beyond: the other jobs are counted, and the page names a narrower view. Test: TestPageReadsTheJobsThatFailedLast.
	FailingRead = 200
	// Redriven is how many dead-letter messages one call checks.
	// Beyond: a higher limit is rejected; the answer returns the start of the next call. Test: TestRedriveOfMany.
	Redriven = 100

	// Before is how many jobs may precede a job, directly or indirectly.
	// Beyond: the change is rejected. Test: TestMostJobsBeforeOne.
	Before = 10_000
)
