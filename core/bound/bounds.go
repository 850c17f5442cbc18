package bound

import "time"

// How much one call or pass of the core looks at, how often it tries, and for how long. Each
// bound says what lies beyond it, and names the test that walks over it: at the bound, one
// beyond, and far beyond.
const (
	// OpenAtOnce is how many open runs one call of the store returns.
	// Beyond: the next call goes on. Test: TestTimeoutEndsBehindQueuedRuns.
	OpenAtOnce = 10_000
	// LaterRuns is how many runs of a job are read in search of one that proves something of
	// those before it.
	// Beyond: not read; the run stays open until its executor or a later run tells.
	// Test: TestBusyReadsTheNewestLaterRuns.
	LaterRuns = 100
	// ReadTries is how often a write without a clear answer is read and tried again.
	// Beyond: the caller gets an unavailable error, and tries again. Test: TestCloseWithoutClearAnswer.
	ReadTries = 4
	// PermitTries is how often an item of permits is written that others write too.
	// Beyond: the caller gets an unavailable error, and tries again. Test: TestPermitsThatOthersWrite.
	PermitTries = 20
	// PermitLooks is how many holders of permits, and how many chains that wait for one, are
	// looked at together.
	// Beyond: holders are looked at in turns of PermitTurn seconds; a chain that waits is looked
	// at once it is among the first. Test: TestOverLooksAtHoldersInTurn.
	PermitLooks = 25
	// PermitTurn is how many seconds a turn of PermitLooks lasts.
	// Beyond: the next turn. Test: TestOverLooksAtHoldersInTurn.
	PermitTurn = 15
	// PauseRuns is how many runs of each kind are read to count failures in a row.
	// Beyond: failures count by the row that is kept for the job. Test: TestPauseAfter.
	PauseRuns = 1000

	// PlanPasses is how often a change plans a job at once.
	// Beyond: the tick goes on. Test: TestChangePlansTheRestByTick.
	PlanPasses = 20
	// ClaimLooks is how often a batch reads the run of a fire that it cannot decide.
	// Beyond: the fire comes again. Test: TestUndecidedFireComesAgain.
	ClaimLooks = 5

	// UnreadTries is how often in a row a fire comes again because its job or app cannot be
	// understood: for at least a quarter of an hour, as long as a rollout may take.
	// Beyond: it goes to the dead letters. Test: TestLooksAreNoFailures.
	UnreadTries = 20

	// CloseFor is for how long a process that lives on tries to store the end of a call.
	// Beyond: an error is logged, and the run ends as lost. Test: TestEndsWaitForRoomOnTheDisk.
	CloseFor = 10 * time.Minute

	// Recovered is how many lost instants of one job a pass sends again.
	// Beyond: the next pass goes on there. Test: TestManyAreCompared.
	Recovered = 1000
	// Compared is how many runs of one job a pass compares with its schedule.
	// Beyond: the next pass goes on there. Test: TestManyAreCompared.
	Compared = 5000
	// LookBack is how old an instant is at most that is compared: a store of queues keeps runs
	// for 15 days at least.
	// Beyond: an error is logged, and the instant is not compared. Test: TestComparisonLooksBack.
	LookBack = 14 * 24 * time.Hour

	// NoticeFor is for how long a notice is tried, and waits for a definition that cannot be read.
	// Beyond: it is given up, and shown as such. Test: TestNoticeWaitsForUnreadableJob.
	NoticeFor = 24 * time.Hour
	// FailingFor is for how long a job that failed is asked whether it has recovered.
	// Beyond: its next success is not told. Test: TestFailingEnds.
	FailingFor = 40 * 24 * time.Hour

	// Looked is how many runs, or change records, one page of a list looks at.
	// Beyond: the page ends, and says where the next one goes on. Test: TestRunsBehindManyOthers.
	Looked = 20_000
	// Demanded is how many instants one report of an audit counts.
	// Beyond: the report ends, and says where the next one goes on. Test: TestAuditGoesOn.
	Demanded = 200_000
	// Missing is how many instants, jobs or runs one report names of each kind.
	// Beyond: they are counted. Test: TestAuditNamesSomeAndCountsAll.
	Missing = 100
	// History is how many change records of an app or a job are read for one question.
	// Beyond: not known, and the answer says that it is partial. Test: TestAuditBehindManyChanges.
	History = 10_000
	// Again is how many runs one call sends again, about.
	// Beyond: the next call goes on there. Test: TestReplanOfAllThatWaitWithANumber.
	Again = 1000

	// Killed is how many runs one kill of a job ends.
	// Beyond: the answer says that it is partial. Test: TestKillReachesEachRun.
	Killed = 10_000
	// Reran is how many runs one rerun by a filter looks at.
	// Beyond: the answer says where the next call goes on. Test: TestRerunGoesOn.
	Reran = 100
	// RerunPages is how many pages of change records of a job a rerun by a filter reads.
	// Beyond: runs that ended before these records are left, and say so. Test: TestRerunBehindManyRequests.
	RerunPages = 5
	// Successes is among how many of the newest successes a clean-up looks for the one that ended last.
	// Beyond: an older run goes, though it ended later. Test: TestCleanKeepsTheLastSuccess.
	Successes = 20
	// FailingRead is the number of possibly failing jobs whose last runs one page reads: those that failed last.
	// Beyond: they are counted, and the page names a narrower view. Test: TestPageReadsTheJobsThatFailedLast.
	FailingRead = 200
	// Redriven is how many dead letters one call looks at.
	// Beyond: more are refused; the answer says where the next call goes on. Test: TestRedriveOfMany.
	Redriven = 100

	// Before is how many jobs may come before one, those before these included.
	// Beyond: the change is refused. Test: TestMostJobsBeforeOne.
	Before = 10_000
)
