package core

// Cause is the reason for a fire.
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

// Planned reports whether a planner creates fires with this cause. A pause or a newer revision drops only these fires.
func (c Cause) Planned() bool {
	return c == CauseSchedule || c == CauseMisfire
}

// Fire is one scheduled time of a job, or one manual trigger, follow-up or retry, before it
// becomes a run.
type Fire struct {
	Run   RunID
	Rev   int64   // job revision under which it was planned
	At    Instant // scheduled time
	Slot  Instant // due time: At plus jitter
	Cause Cause
	Seq   int64
	Of    RunID // for a shard without a record: its broadcast
}
