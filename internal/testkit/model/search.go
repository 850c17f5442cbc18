package model

import (
	"hash/maphash"
	"slices"
	"sync"
)

// Report has the result of a search.
type Report struct {
	States, Steps int
	// Complete reports whether the search visited all states within its limit. If false, the search did not
	// check that every state can reach a good end.
	Complete bool
	Windows  map[string]int // number of steps that used each exception in section 8 of claim-protocol.md
	Broken   *Trace         // the shortest trace that breaks a promise; nil: none
	Stuck    *Trace         // the shortest trace to a state that cannot reach a good end; nil: none
	StuckAll int            // number of states that cannot reach a good end
}

// Trace has the steps from the start state to a state, as text.
type Trace struct {
	Why   string
	Steps []string
}

// String returns the reason of the trace and one line for each step.
func (t *Trace) String() string {
	text := t.Why
	for i, s := range t.Steps {
		text += "\n  " + number(i+1) + " " + s
	}
	return text
}

func number(n int) string { return string([]byte{byte('0' + n/10%10), byte('0' + n%10)}) }

// Each of the shards is searched by one goroutine; block is the number of states that they
// expand before they merge their results.
const (
	shards = 2
	block  = 1 << 15
)

// id names a state: its place in its shard, and the shard in the lowest bit.
type id uint32

// set is one shard of the visited states. Two states are distinguished by 64 bits of hash.
type set[S comparable] struct {
	places map[uint64]uint32 // by hash
	hashes []uint64
	parent []id
	fresh  []found[S] // of the next level
	from   []id       // of steps without fault, with to
	to     []id
	levels []int // len(hashes) when each level began
	ends   []id  // good ones
}

type found[S comparable] struct {
	id id
	s  S
}

// arrival is a step whose state may be new to the set.
type arrival[S comparable] struct {
	hash  uint64
	from  id
	fault bool
	s     S
}

// subject is a world that can be searched: its start, the steps from a state, and the distance of a state from rest with the
// reason why its end is not good ("" if good). A reason that disappears by itself has the smallest distance.
type subject[S comparable] interface {
	start() S
	moves(say bool) func(*S) []move[S]
	rest(*S) (far int, why string)
}

// search is one search under way.
type search[S comparable] struct {
	w      subject[S]
	seed   maphash.Seed
	sets   [shards]set[S]
	report Report
	broken []breach // of this level
	// made holds the states that a block reached, by the shard that found them and the shard
	// that keeps them; it is reused for the next block.
	made [shards][shards][]arrival[S]
}

type breach struct {
	from id
	why  string
}

// Search visits every state, or approximately most states if they exceed the limit. The search ends at the first
// broken promise, and no shorter trace breaks a promise.
func (w *World) Search(most int) Report { return look[state](w, most) }

func look[S comparable](w subject[S], most int) Report {
	x := &search[S]{w: w, seed: maphash.MakeSeed(), report: Report{Windows: map[string]int{}}}
	for i := range x.sets {
		x.sets[i].places = map[uint64]uint32{}
	}
	s := w.start()
	hash := maphash.Comparable(x.seed, s)
	x.put([]arrival[S]{{hash: hash, fault: true, s: s}}, int(hash%shards))
	for x.next() {
		if len(x.broken) > 0 {
			x.report.Broken = x.trace(x.broken[0].from, x.broken[0].why)
			break
		}
		if x.states() > most {
			break
		}
	}
	x.report.States = x.states()
	x.report.Complete = x.report.Broken == nil && x.frontier() == 0
	if x.report.Complete {
		x.liveness()
	}
	return x.report
}

func (x *search[S]) states() (n int) {
	for i := range x.sets {
		n += len(x.sets[i].hashes)
	}
	return n
}

func (x *search[S]) frontier() (n int) {
	for i := range x.sets {
		n += len(x.sets[i].fresh)
	}
	return n
}

// next expands one level; false if there is none.
func (x *search[S]) next() bool {
	if x.frontier() == 0 {
		return false
	}
	var level []found[S]
	for i := range x.sets {
		level = append(level, x.sets[i].fresh...)
		x.sets[i].fresh = nil
		x.sets[i].levels = append(x.sets[i].levels, len(x.sets[i].hashes))
	}
	for len(level) > 0 {
		n := min(block, len(level))
		x.expand(level[:n])
		level = level[n:]
	}
	return true
}

// expand makes all steps from some states, and adds where they lead.
func (x *search[S]) expand(states []found[S]) {
	var told [shards]Report
	var broken [shards][]breach
	var all sync.WaitGroup
	for me := range shards {
		all.Go(func() {
			steps := x.w.moves(false)
			told[me].Windows = map[string]int{}
			for to := range shards {
				x.made[me][to] = x.made[me][to][:0]
			}
			half := states[len(states)*me/shards : len(states)*(me+1)/shards]
			for i := range half {
				made := steps(&half[i].s)
				for j := range made {
					m := &made[j]
					told[me].Steps++
					if m.window != "" {
						told[me].Windows[m.window]++
					}
					if m.broken != "" {
						broken[me] = append(broken[me], breach{half[i].id, m.broken})
					}
					h := maphash.Comparable(x.seed, m.to)
					to := h % shards
					x.made[me][to] = append(x.made[me][to], arrival[S]{h, half[i].id, m.fault, m.to})
				}
			}
		})
	}
	all.Wait()
	for me := range shards {
		x.report.Steps += told[me].Steps
		for w, n := range told[me].Windows {
			x.report.Windows[w] += n
		}
		x.broken = append(x.broken, broken[me]...)
	}
	for me := range shards {
		all.Go(func() {
			for who := range shards {
				x.put(x.made[who][me], me)
			}
		})
	}
	all.Wait()
}

// put adds arrivals that are of one shard.
func (x *search[S]) put(of []arrival[S], shard int) {
	s := &x.sets[shard]
	for i := range of {
		a := &of[i]
		place, known := s.place(a.hash)
		to := id(place)<<1 | id(shard)
		if !known {
			s.parent = append(s.parent, a.from)
			s.fresh = append(s.fresh, found[S]{to, a.s})
			if _, why := x.w.rest(&a.s); why == "" {
				s.ends = append(s.ends, to)
			}
		}
		if !a.fault {
			s.from, s.to = append(s.from, a.from), append(s.to, to)
		}
	}
}

// place returns the place of a hash, and adds the hash if it is new.
func (s *set[S]) place(hash uint64) (place uint32, known bool) {
	if place, known = s.places[hash]; !known {
		place = uint32(len(s.hashes))
		s.places[hash], s.hashes = place, append(s.hashes, hash)
	}
	return place, known
}

func (x *search[S]) hashOf(i id) uint64 { return x.sets[i&1].hashes[i>>1] }

// trace returns the steps to a state, and the step from there that breaks a rule.
func (x *search[S]) trace(to id, broken string) *Trace {
	s := x.w.start()
	start := maphash.Comparable(x.seed, s)
	var way []uint64
	for i := to; x.hashOf(i) != start; i = x.sets[i&1].parent[i>>1] {
		way = append(way, x.hashOf(i))
	}
	t := &Trace{Why: broken}
	var names namer
	steps := x.w.moves(true)
	step := func(is func(m *move[S]) bool) {
		made := steps(&s)
		if i := slices.IndexFunc(made, func(m move[S]) bool { return is(&m) }); i >= 0 {
			t.Steps = append(t.Steps, names.tell(made[i].words, made[i].swapped))
			s = made[i].to
		}
	}
	for _, hash := range slices.Backward(way) {
		step(func(m *move[S]) bool { return maphash.Comparable(x.seed, m.to) == hash })
	}
	if broken == "" {
		t.Why = x.hindrance(&s)
	} else {
		step(func(m *move[S]) bool { return m.broken == broken })
	}
	return t
}
