package core

// Cause is why there is a fire.
type Cause string

const (
	CauseSchedule Cause = "schedule"
	CauseMisfire  Cause = "misfire"
	CauseManual   Cause = "manual"
	CauseAPI      Cause = "api"
	CauseParent   Cause = "parent"
	CauseRetry    Cause = "retry"
	CauseBackfill Cause = "backfill"
)

var Causes = []Cause{CauseSchedule, CauseMisfire, CauseManual, CauseAPI, CauseParent, CauseRetry, CauseBackfill}

// Planned reports whether a planner makes fires of this cause: only those fall
// to a pause or to a newer revision.
func (c Cause) Planned() bool {
	return c == CauseSchedule || c == CauseMisfire || c == CauseBackfill
}

// Fire is one instant (or one demand by hand, parent or retry) of one job, on
// its way to become a run.
type Fire struct {
	Run   RunID
	Rev   int64   // the job's revision under which it was planned
	At    Instant // the nominal instant
	Slot  Instant // when it is due: At after jitter
	Cause Cause
	Seq   int64
	Of    RunID // of a shard that has no record yet: its broadcast
}
