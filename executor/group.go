package executor

import (
	"encoding/binary"
	"time"
)

// A group is the process group of a program that a run has started. It is in
// the journal, so that the process after one that was killed can end it.
//
// A number alone says nothing: another program may have it by now. What it was
// the number of is told by session and mark.
type group struct {
	pid     int
	session int
	// mark is when its first process began, in which boot of the machine and in
	// which container, as the system tells it.
	mark string
}

// most of the groups of a run that are noted: of one that starts programs one
// after another, or many at a time, the newest.
const maxGroups = 16

// noted is a run's groups with one more, the last. It may be there: what came while a file of
// the journal was begun is in its head, and in what is written after that.
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

func appendGroup(dst []byte, run int64, g group) []byte {
	for _, n := range [...]int64{run, int64(g.pid), int64(g.session)} {
		dst = binary.AppendVarint(dst, n)
	}
	return append(dst, g.mark...)
}

func readGroup(b []byte) (run int64, g group, ok bool) {
	var n [3]int64
	for i := range n {
		v, size := binary.Varint(b)
		if size <= 0 {
			return 0, g, false
		}
		n[i], b = v, b[size:]
	}
	g = group{pid: int(n[1]), session: int(n[2]), mark: string(b)}
	return n[0], g, n[1] > 1 && n[1] == int64(g.pid) && g.mark != ""
}

// endGroups ends what runs of a process that died have left at work, and
// answers for which of them that did not succeed within the bound.
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
