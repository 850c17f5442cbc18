package schedule

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
)

// TestEveryKindIsHandled checks that each kind compiles, fires, and has its own description.
func TestEveryKindIsHandled(t *testing.T) {
	const now = core.Instant(1_800_000_000)
	rules := map[core.Kind]core.When{
		core.KindCron:       {Expr: "0 0 3 * * ?"},
		core.KindCrontab:    {Expr: "0 4 * * *"},
		core.KindEvery:      {Every: time.Minute},
		core.KindFixedDelay: {Every: 10 * time.Second},
		core.KindAt:         {At: now + 3600},
	}
	words := map[string]core.Kind{"": "", (&Schedule{}).Describe().String(): "no kind"}
	for _, kind := range core.Kinds {
		rule, ok := rules[kind]
		if !ok {
			t.Errorf("no example of the kind %s in this test", kind)
			continue
		}
		rule.Kind = kind
		s, err := Compile(core.Schedule{Any: []core.When{rule}}, 7)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		at, fires := s.Next(now)
		if _, delay := s.FixedDelay(); fires == delay {
			t.Errorf("%s: next %s, %t; fixed delay %t: exactly one of them must set when it fires", kind, at, fires, delay)
		} else if fires && at <= now || s.Never(now) {
			t.Errorf("%s: next %s, never %t", kind, at, s.Never(now))
		}
		text := s.Describe().String()
		if other, taken := words[text]; taken {
			t.Errorf("%s is described by %q, as %s is", kind, text, other)
		}
		words[text] = kind
	}
}
