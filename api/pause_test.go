package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/testkit/check"
)

// A pause of an app or of everything changes no job. Each job still shows which pause holds it and until when, and
// its next times are after the pause.
func TestHeld(t *testing.T) {
	f := newFixture(t)
	f.shop()
	until := time.Now().Add(72 * time.Hour).UTC().Truncate(time.Second)
	read := func() (alone, listed client.Job) {
		t.Helper()
		var page client.JobPage
		check.OK(t, json.Unmarshal([]byte(f.must("GET", "/v1/jobs", "")), &page))
		check.OK(t, json.Unmarshal([]byte(f.must("GET", "/v1/jobs/shop/report", "")), &alone))
		return alone, page.Jobs[0]
	}
	check := func(of string, until time.Time, next bool) {
		t.Helper()
		alone, listed := read()
		for _, j := range []client.Job{alone, listed} {
			switch {
			case j.State != "started":
				t.Errorf("state %s", j.State)
			case of == "" && j.Pause != nil:
				t.Errorf("held by %+v", j.Pause)
			case of != "" && (j.Pause == nil || j.Pause.Of != of || !j.Pause.Until.Equal(until)):
				t.Errorf("held by %+v, want %s until %s", j.Pause, of, until)
			case (len(j.Next) > 0) != next:
				t.Errorf("next %v", j.Next)
			case next && j.Next[0].Before(until):
				t.Errorf("next %s lies in the pause until %s", j.Next[0], until)
			}
		}
	}
	check("", time.Time{}, true)
	f.must("POST", "/v1/apps/shop/pause", `{"reason":"db","until":"`+until.Format(time.RFC3339)+`"}`)
	check("app", until, true)
	f.must("POST", "/v1/pause", `{"reason":"holidays"}`)
	check("everything", time.Time{}, false)
	f.must("POST", "/v1/resume", "")
	check("app", until, true)
}
