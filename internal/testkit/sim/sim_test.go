package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	flagFires = flag.Int("sim.fires", 1_000,
		"minimum number of scheduled runs in all worlds together, without retries and runs that are due after the faults")
	flagSeed   = flag.Uint64("sim.seed", 1, "seed of the first world; the others follow")
	flagEngine = flag.String("sim.engine", "sqlite", "store of the worlds: sqlite or aws")
	flagWorlds = flag.Int("sim.worlds", 0, "how many worlds; 0: one for each 1,200 fires, at least 4")
)

// configOf is the world of a seed: some have late writes, stopped processes and clocks that are set, some plan minutes ahead.
func configOf(engine string, seed uint64, fires int) Config {
	d := dice{mix(seed)}
	c := Config{Seed: seed, Fires: fires, For: 100 * time.Second, Rate: []float64{0.5, 1, 1, 2}[d.n(4)],
		Failing: 0.1, Users: d.n(3), Far: d.chance(0.4)}
	c.Late, c.Pauses, c.Skew = d.chance(0.5), d.chance(0.5), d.chance(0.5)
	if engine == "aws" {
		c.AWS, c.SDK, c.Far = true, d.chance(0.7), true
	} else if d.chance(0.08) {
		c.machine(12 * time.Minute)
	}
	if c.Far {
		c.Partitions = []int{1, 2, 2, 4, 8, 16, 32}[d.n(7)]
		if d.chance(0.1) {
			c.asDeployed(25 * time.Minute)
		}
	}
	c.Waits = d.chance(0.5)
	c.Limits = d.chance(0.4)
	d = dice{mix(seed ^ 0x77616974)} // separate, so that the draws above stay the same
	c.Rollouts, c.Losses, c.Hangs = d.chance(0.3), c.Waits && d.chance(0.5), d.chance(0.3)
	long := 0.12
	if c.AWS { // these worlds take longer
		long = 0.05
	}
	if !c.Machine && !c.Deployed && d.chance(long) {
		c.long(7 * time.Minute)
		c.Line = d.chance(0.25)
		if d.chance(0.5) {
			c.Users = 0 // then only the tick finds the runs that a purge lost
		}
	} else if !c.Machine && d.chance(0.04) {
		c.days()
	}
	if d = (dice{mix(seed ^ 0x666f637573)}); !c.Machine && !c.Deployed && !c.Long && !c.Days && d.chance(0.4) {
		c.focus(&focuses[d.n(len(focuses))])
	}
	return c
}

// long makes it a world in which runs wait for minutes.
func (c *Config) long(lasts time.Duration) {
	c.Long, c.Waits, c.Limits, c.Losses, c.Rollouts, c.Hangs = true, true, true, true, true, true
	c.For, c.Rate, c.Users = lasts, min(c.Rate, 0.5), min(c.Users, 1)
}

// asDeployed makes it a world of functions with the durations of the real ones.
func (c *Config) asDeployed(long time.Duration) {
	// Each change puts a window of ten minutes on the ring again, so few users make changes.
	c.Deployed, c.For, c.Rate, c.Users = true, long, min(c.Rate, 0.25), min(c.Users, 1)
}

// machine makes it a world of one machine.
func (c *Config) machine(long time.Duration) {
	c.Machine, c.Pauses, c.Skew, c.Far = true, true, true, false
	c.For, c.Rate, c.Users = long, min(c.Rate, 1), min(c.Users, 1)
}

// TestWorlds lets worlds live, two at a time, and prints a line of figures.
func TestWorlds(t *testing.T) { worlds(t, *flagEngine, *flagFires) }

// TestWorldsOnAWS runs fewer worlds on the engine of AWS, whose every request is a call of fakes.
func TestWorldsOnAWS(t *testing.T) {
	if *flagEngine == "aws" {
		t.Skip("TestWorlds runs on it")
	}
	worlds(t, "aws", min(*flagFires/4, 6_000))
}

func worlds(t *testing.T, engine string, fires int) {
	worlds := *flagWorlds
	if worlds == 0 {
		worlds = max(4, fires/1200)
	}
	each := fires / worlds
	if testing.Short() { // for the race detector, which is slow
		worlds = min(worlds, 2)
	}
	began := time.Now()
	var mu sync.Mutex
	sum := Report{Counts: map[string]int{}}
	seeds := make(chan uint64, worlds)
	for i := range worlds {
		seeds <- *flagSeed + uint64(i)
	}
	close(seeds)
	t.Run("all", func(t *testing.T) {
		for n := range 2 {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					r := runOne(t, configOf(engine, seed, each))
					mu.Lock()
					sum.Virtual += r.Virtual
					sum.Broken += r.Broken
					for k, v := range r.Counts {
						sum.Counts[k] += v
					}
					mu.Unlock()
				}
			})
		}
	})
	wall := time.Since(began).Round(time.Millisecond)
	fmt.Printf("sim: %d worlds on %s from seed %d in %s: %s\n", worlds, engine, *flagSeed, wall, line(&sum))
}

// runOne runs a world in a bubble of its own.
func runOne(t *testing.T, c Config) Report {
	t.Helper()
	var r Report
	synctest.Test(t, func(*testing.T) { r = Run(c) })
	if r.Broken > 0 {
		t.Errorf("seed %d (%+v): %d promises broken:\n%s", c.Seed, c, r.Broken, strings.Join(r.Faults, "\n"))
	}
	return r
}

func line(r *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "virtual %s, broken %d", r.Virtual.Round(time.Second), r.Broken)
	for _, k := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(&b, ", %s %d", k, r.Counts[k])
	}
	return b.String()
}
