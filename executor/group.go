package executor

import "time"

// A group is the process group of a program that a run has started. The journal has it, so that the process after a killed
// one can end the group.
//
// A number alone is not enough: another program may have it by then. Session and mark identify the group.
type group struct {
	Pid     int
	Session int
	// Mark is when and in which boot and container its first process started, as the system reports it.
	Mark string
}

// maxGroups is the maximum number of groups recorded for a run. If it starts more programs, the newest are kept.
const maxGroups = 16

// noted returns a run's groups with g as the last. g may be in gs: a record that arrives while a journal file is created
// is in its head and is written after it again.
func noted(gs []group, g group) []group {
	list := make([]group, 0, len(gs)+1)
	for _, is := range gs {
		if is != g {
			list = append(list, is)
		}
	}
	list = append(list, g)
	return list[max(0, len(list)-maxGroups):]
}

// groupRecord is the record of a group.
type groupRecord struct {
	Run int64
	group
}

// endGroups ends the programs that runs of a dead process left running, and returns the runs for which that took longer
// than within.
func endGroups(open []*incoming, within time.Duration) (left map[int64]bool) {
	for _, run := range open {
		for _, g := range run.groups {
			g.kill()
		}
	}
	limit := time.Now().Add(within)
	for _, run := range open {
		for _, g := range run.groups {
			for wait := time.Millisecond; g.kill(); wait = min(2*wait, 50*time.Millisecond) {
				if time.Now().After(limit) {
					if left == nil {
						left = map[int64]bool{}
					}
					left[run.LogID] = true
					break
				}
				time.Sleep(wait)
			}
		}
	}
	return left
}
