package core

import (
	"fmt"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		all  bool
		ends []State
		want string
	}{
		{false, []State{Succeeded, Succeeded}, "succeeded  2 of 2 shards succeeded"},
		{false, []State{Succeeded, Lost}, "failed shards 1 of 2 shards succeeded, 1 lost"},
		{true, []State{Succeeded, Lost}, "succeeded  1 of 2 shards succeeded, 1 lost"},
		{false, []State{TimedOut, Failed, Lost, Failed, Killed, Skipped},
			"failed shards 0 of 6 shards succeeded, 2 failed, 1 timed-out, 1 lost, 1 killed, 1 skipped"},
		{false, []State{Killed, Skipped}, "killed person 0 of 2 shards succeeded, 1 killed, 1 skipped"},
		{false, []State{Skipped, Skipped}, "skipped paused 0 of 2 shards succeeded, 2 skipped"},
		{false, []State{Succeeded, Skipped}, "failed shards 1 of 2 shards succeeded, 1 skipped"},
	} {
		ends := make([]Run, len(c.ends))
		for i, state := range c.ends {
			ends[i] = Run{State: state, Reason: ReasonPaused}
		}
		state, reason, message := Shard{Total: len(ends), All: c.all}.Verdict(ends)
		check.Equal(t, fmt.Sprint(state, " ", reason, " ", message), c.want)
	}
}
