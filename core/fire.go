package core

// Cause is the reason why a run is created.
type Cause string

const (
	CauseSchedule Cause = "schedule"
	CauseMisfire  Cause = "misfire"
	CauseManual   Cause = "manual"
	CauseAPI      Cause = "api"
	CauseParent   Cause = "parent"
	CauseRetry    Cause = "retry"
)

var Causes = []Cause{CauseSchedule, CauseMisfire, CauseManual, CauseAPI, CauseParent, CauseRetry}

// Planned reports whether the planner creates fires with this cause. A pause or a newer job revision drops only fires
// of the planner.
func (c Cause) Planned() bool {
	return c == CauseSchedule || c == CauseMisfire
}

// Fire is an instruction to send one run: a scheduled run, a triggered run, a child run or a retry. Messages on the
// delay queue contain fires.
type Fire struct {
	Run   RunID
	Rev   int64   // job revision when the fire was created
	At    Instant // scheduled time
	Slot  Instant // due time: At plus jitter
	Cause Cause
	Seq   int64
	Of    RunID // run ID of the broadcast, if the run is a shard without a stored record; else 0
}
