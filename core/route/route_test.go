package route

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

func TestEveryRouteIsInTheTable(t *testing.T) {
	if len(table) != len(core.Routes) {
		t.Errorf("%d routes in the table, %d in core", len(table), len(core.Routes))
	}
	for _, r := range core.Routes {
		if table[r].order == nil {
			t.Errorf("route %s has no order", r)
		}
	}
}

func TestOrder(t *testing.T) {
	addrs := []string{"c", "a", "b"}
	for _, c := range []struct {
		route core.Route
		seq   int64
		want  string
		ask   Ask
	}{
		{core.RouteFirst, 1, "[c a b]", AskNothing},
		{core.RouteLast, 1, "[b a c]", AskNothing},
		{core.RouteRound, 0, "[c a b]", AskNothing},
		{core.RouteRound, 4, "[a b c]", AskNothing},
		{core.RouteRound, -1, "[b c a]", AskNothing},
		{core.RouteLRU, 5, "[b c a]", AskNothing},
		{core.RouteFailover, 1, "[c a b]", AskBeat},
		{core.RouteBusyover, 1, "[c a b]", AskIdle},
		{core.RouteBroadcast, 1, "[c a b]", AskNothing},
	} {
		check.Equal(t, fmt.Sprint(Order(c.route, addrs, 7, c.seq, 3)), c.want, "%s at %d", c.route, c.seq)
		check.Equal(t, Asks(c.route), c.ask, "%s asks", c.route)
		if got := All(c.route); got != (c.route == core.RouteBroadcast) {
			t.Errorf("%s: every address: %t", c.route, got)
		}
	}
}

func TestOrderIsAPermutation(t *testing.T) {
	for _, r := range core.Routes {
		if got := Order(r, nil, 1, 1, 1); len(got) != 0 {
			t.Errorf("%s of no address: %v", r, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		addrs := someAddrs(t)
		kept := slices.Clone(addrs)
		r := rapid.SampledFrom(core.Routes).Draw(t, "route")
		got := Order(r, addrs, core.JobID(rapid.Int32Min(1).Draw(t, "job")), rapid.Int64().Draw(t, "seq"), rapid.Uint64().Draw(t, "rnd"))
		if !slices.Equal(addrs, kept) {
			t.Fatalf("%s changed its input", r)
		}
		slices.Sort(got)
		slices.Sort(kept)
		if !slices.Equal(got, kept) {
			t.Fatalf("%s: %v of %v", r, got, kept)
		}
	})
}

func TestRoundIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addrs := someAddrs(t)
		seq := rapid.Int64Range(0, 1<<40).Draw(t, "seq")
		if got, want := Order(core.RouteRound, addrs, 1, seq, 0)[0], addrs[seq%int64(len(addrs))]; got != want {
			t.Fatalf("fire %d of %d addresses went to %s, want %s", seq, len(addrs), got, want)
		}
	})
}

func TestRandomIsUniform(t *testing.T) {
	addrs := []string{"a", "b", "c", "d", "e"}
	first, second := map[string]int{}, map[string]int{}
	const n = 50000
	for i := range uint64(n) {
		o := Order(core.RouteRandom, addrs, 1, 1, mix(i))
		first[o[0]]++
		second[o[1]]++
	}
	for _, a := range addrs {
		for _, m := range []map[string]int{first, second} {
			if m[a] < n/5*95/100 || m[a] > n/5*105/100 {
				t.Errorf("%s was chosen %d times of %d", a, m[a], n)
			}
		}
	}
}

func TestHashVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/hash_vectors.json")
	check.OK(t, err)
	var vectors []struct {
		JobID     int64
		Addresses []string
		Pick      string
	}
	check.OK(t, json.Unmarshal(b, &vectors))
	check.Equal(t, len(vectors), 210, "vectors, want 210")
	for _, v := range vectors {
		check.Equal(t, int64(core.JobID(v.JobID)), v.JobID, "job N is no int32")
		check.Equal(t, Order(core.RouteHash, v.Addresses, core.JobID(v.JobID), 0, 0)[0], v.Pick, "job %d of %v", v.JobID, v.Addresses)
	}
}

// TestHashIsStable checks that removing an address moves only its jobs, each to the next of its order.
func TestHashIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addrs := someAddrs(t)
		gone := rapid.SampledFrom(addrs).Draw(t, "gone")
		left := slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return a == gone })
		before := newHashRing(addrs)
		for job := core.JobID(1); job <= 100; job++ {
			order := before.order(job)
			want := slices.DeleteFunc(order, func(a string) bool { return a == gone })
			if got := Order(core.RouteHash, left, job, 0, 0); !slices.Equal(got, want) {
				t.Fatalf("job %d without %s: %v, want %v", job, gone, got, want)
			}
		}
	})
}

// lruModel implements the rule as Java does: with an access-ordered map.
type lruModel struct {
	clock int
	used  map[string]int
}

func (m *lruModel) pick(addrs []string) string {
	for _, a := range addrs {
		if _, ok := m.used[a]; !ok {
			m.clock++
			m.used[a] = m.clock
		}
	}
	for a := range m.used {
		if !slices.Contains(addrs, a) {
			delete(m.used, a)
		}
	}
	best := addrs[0]
	for _, a := range addrs {
		if m.used[a] < m.used[best] {
			best = a
		}
	}
	m.clock++
	m.used[best] = m.clock
	return best
}

// TestLRUWithoutStateIsLRU checks that on a constant list, LRU with state equals the order by number.
func TestLRUWithoutStateIsLRU(t *testing.T) {
	addrs := []string{"b", "a", "c"}
	m := &lruModel{used: map[string]int{}}
	for seq := range int64(20) {
		got := m.pick(addrs)
		if want := Order(core.RouteLRU, addrs, 1, seq, 0)[0]; got != want {
			t.Fatalf("fire %d: %s, want %s", seq, got, want)
		}
	}
}

func TestLFU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Counts
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			addrs := someAddrs(t)
			before := c
			order, next := c.Order(addrs, rapid.Uint64().Draw(t, "rnd"))
			got := order[0]
			next[got]++
			c = next
			if len(c) != len(addrs) {
				t.Fatalf("counts %v of addresses %v", c, addrs)
			}
			for _, a := range addrs {
				n := c[a]
				if a == got {
					n--
				}
				if old, ok := before[a]; ok && old != n {
					t.Fatalf("%s had %d and has %d", a, old, n)
				} else if !ok && (n < 0 || n >= int64(len(addrs))) {
					t.Fatalf("a new address begins at %d of %d", n, len(addrs))
				}
				if n < c[got]-1 {
					t.Fatalf("%s with %d was chosen, %s has %d", got, c[got]-1, a, n)
				}
			}
		}
	})
	if order, _ := (Counts{"a": maxCount + 1, "b": 5}).Order([]string{"a", "b"}, 1); order[0] != "a" {
		t.Errorf("a count over a million does not begin again: %s", order)
	}
	if order, _ := (Counts{}).Order(nil, 1); len(order) > 0 {
		t.Errorf("of no address: %q", order)
	}
}

func TestShard(t *testing.T) {
	for i, want := range []string{"a", "b", "a", "a"} {
		check.Equal(t, Shard([]string{"a", "b"}, i), want, "shard %d", i)
	}
}

func someAddrs(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.1:9999", "10.0.0.2:9999", "b", "a", "http://x:1/y", "c", "d"}),
		1, 7, rapid.ID).Draw(t, "addrs")
}

func BenchmarkOrderHash(b *testing.B) {
	addrs := []string{"10.0.0.1:9999", "10.0.0.2:9999", "10.0.0.3:9999", "10.0.0.4:9999", "10.0.0.5:9999"}
	for i := range b.N {
		Order(core.RouteHash, addrs, core.JobID(i+1), 0, 0)
	}
}

func BenchmarkOrderRound(b *testing.B) {
	addrs := []string{"10.0.0.1:9999", "10.0.0.2:9999", "10.0.0.3:9999"}
	for i := range b.N {
		Order(core.RouteRound, addrs, 1, int64(i), 0)
	}
}
