package finish_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestCrashAtEachStep: the process that closes a run dies at each of its writes, before or after the write. Then the report comes
// again, or the watchdog finds the run closed. The store and the messages are as without a crash.
func TestCrashAtEachStep(t *testing.T) {
	const run = `permits group/db limit=1 holders=1@-1s; permits app/orders limit=1 holders=1@-1s
		run 1@-1s place=1 permit=group/db+app/orders `
	for name, c := range map[string]struct{ begin, end string }{
		"failed": {"children 1; edit 1 pauseafter=1; " + run + "retries=0 pauseafter notice listed=accepted",
			"end 1@-1s failed:handler reported"},
		"retried":   {"children 1; " + run + "retries=1 notice listed=accepted", "end 1@-1s failed:handler reported"},
		"succeeded": {"children 1; " + run + "pauseafter listed=accepted", "end 1@-1s succeeded reported"},
		"of a fixed delay": {"job 1 delay=1h next=-1s tail=1@-1s seq=5 planat=+10m; job 100 after=orders/job-1:1:succeeded; " + run +
			"fixeddelay listed=accepted", "end 1@-1s succeeded reported"},
	} {
		for _, then := range []string{"+11m; " + c.end, "cursor -1m; +11m; pass; +12m; pass"} {
			if strings.HasPrefix(then, "cursor") && strings.Contains(c.begin, "fixeddelay") {
				continue // the tick plans its next run
			}
			t.Run(name+", then "+then, func(t *testing.T) {
				want, _ := crashed(t, c.begin, c.end, then, 0, false)
				for step := 1; ; step++ {
					for _, done := range []bool{false, true} {
						got, died := crashed(t, c.begin, c.end, then, step, done)
						if !died {
							return
						}
						if !slices.Equal(got, want) {
							t.Errorf("it dies at write %d, done: %t: missing %q, not expected %q", step, done, without(want, got), without(got, want))
						}
					}
				}
			})
		}
	}
}

// oneOf matches a run or a notification in a message, whichever others are in it.
var oneOf = regexp.MustCompile(`\{[^{}]+\}`)

// varies matches what depends on the time of a repetition, and on how often something was written.
var varies = regexp.MustCompile(`#[0-9]+|\+[0-9hm.]+s?|\b(v|planat|next|rev|id|seq)=\S+`)

// crashed plays a story whose process dies, and returns the records in the end, and the messages that were sent at least once.
func crashed(t *testing.T, begin, end, then string, step int, done bool) (all []string, died bool) {
	synctest.Test(t, func(t *testing.T) {
		s := onStage(t)
		var mu sync.Mutex
		sent := map[string]bool{}
		s.say = func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			if what := fmt.Sprintf(format, args...); !strings.HasPrefix(what, "closed ") { // this dies with the process
				for _, one := range oneOf.FindAllString(varies.ReplaceAllString(what, ""), -1) {
					sent[one] = true
				}
			}
		}
		s.Play(begin)
		s.writes, s.done = step, done
		s.Step(end)
		if died = s.dead; step > 0 && !died {
			return
		}
		s.writes, s.dead = 0, false
		if run := s.Store.Run(s.Stage.Run("1@-1s")); run.State.Open() {
			s.Step(end)
		}
		s.Play(then)
		for thing, fields := range s.See() {
			all = append(all, varies.ReplaceAllString(fmt.Sprint(thing, ": ", fields), ""))
		}
		for what := range sent {
			all = append(all, what)
		}
		slices.Sort(all)
	})
	return all, died
}

// without returns the elements of all that are not in list.
func without(all, list []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(x string) bool { return slices.Contains(list, x) })
}
