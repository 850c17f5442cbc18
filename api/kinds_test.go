package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestEveryKindIsConverted: each kind of schedule, alone and in a list, is unchanged after a conversion to the API
// and back.
func TestEveryKindIsConverted(t *testing.T) {
	rules := map[core.Kind]core.When{
		core.KindCron:       {Expr: "0 0 3 * * ?"},
		core.KindCrontab:    {Expr: "0 3 * * *"},
		core.KindEvery:      {Every: 90 * time.Minute, Offset: 5 * time.Second, Aligned: true},
		core.KindFixedDelay: {Every: 10 * time.Second},
		core.KindAt:         {At: 1_800_000_000},
	}
	for _, kind := range core.Kinds {
		rule, ok := rules[kind]
		if !ok {
			t.Errorf("no example of the kind %s in this test", kind)
		}
		rule.Kind = kind
		for _, want := range []core.Schedule{{Any: []core.When{rule}}, {Any: []core.When{rule, rule}, Timezone: "Europe/Berlin",
			Jitter: time.Second}} {
			b, err := json.Marshal(scheduleOf(want))
			check.OK(t, err)
			check.Contains(t, string(b), `"`+string(kind)+`":`, "%s has no field %s", b, kind)
			var s client.Schedule
			check.OK(t, json.Unmarshal(b, &s))
			if got, err := coreSchedule(s); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s came back as %+v, %v", kind, b, got, err)
			}
		}
	}
}

// TestUnknownKindIsNotSwallowed: without its rule a job would look as if it had no schedule.
func TestUnknownKindIsNotSwallowed(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a rule of no known kind was shown as nothing")
		}
	}()
	scheduleOf(core.Schedule{Any: []core.When{{Kind: "moon"}}})
}
