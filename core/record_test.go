package core

import (
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
)

// Change records are read for years: their JSON can only grow.
func TestRecordsAreStable(t *testing.T) {
	s := Sched{ID: 7, State: Paused, Rev: 1700000000001, RevAt: time.UnixMilli(1700000000000),
		Schedule: Schedule{Any: []When{{Kind: KindEvery, Every: time.Minute}}, Timezone: "Asia/Shanghai"},
		Misfire:  MisfireLatest, Grace: time.Minute, PauseUntil: 1700000600, PauseBy: "ann", PauseWhy: "db"}
	const job = `{"rev":1700000000001,"revAt":1700000000000,"state":"paused","schedule":{"any":[{"kind":"every","every":60000000000}],"timezone":"Asia/Shanghai"},"misfire":"latest","grace":60000000000,"pauseUntil":1700000600,"pauseBy":"ann","pauseWhy":"db"}`
	check.Equal(t, RecordOf(&s, nil).String(), job, "got")
	r, ok := ParseJobRecord(job)
	if !ok || r.Rev != s.Rev || !r.Schedule.Equal(s.Schedule) || r.State != Paused {
		t.Errorf("%+v %t", r, ok)
	}
	a := App{Name: "shop", Token: "secret", Rev: 3, Pause: Pause{From: time.UnixMilli(5), To: time.UnixMilli(9), By: "ann", Why: "db"}}
	const app = `{"name":"shop","rev":3,"hasToken":true,"pauseFrom":5,"pauseTo":9,"pauseBy":"ann","pauseWhy":"db"}`
	check.Equal(t, AppRecordOf(&a).String(), app, "got")
	p, ok := ParseAppRecord(app)
	if !ok || !p.Pause().From.Equal(a.Pause.From) || !p.Pause().To.Equal(a.Pause.To) {
		t.Errorf("%+v %t", p, ok)
	}
	for _, text := range []string{"", "{", "[]", `{"run":"7"}`} {
		if _, ok := ParseJobRecord(text); ok {
			t.Errorf("%q is taken for a record", text)
		}
	}
}
