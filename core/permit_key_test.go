package core_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func permitOf(params, key string) string {
	j := core.Job{Def: core.Def{ID: 7, Overlap: core.Overlap{Limit: 1, Key: key}}}
	return j.Permit(&core.App{}, &core.Run{Params: &params})
}

// TestKeyCountsByValue checks that params with equal JSON at the key share a limit, and that all
// params without a value share another.
func TestKeyCountsByValue(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	groups := []struct {
		key    string
		params []string // each list shares one limit
	}{
		{"/tenant", []string{`{"tenant":"a"}`, ` {"n": 1, "tenant" : "\u0061"}`}},
		{"/tenant", []string{`{"tenant":"b"}`}},
		{"/tenant", []string{`{"tenant":1}`, `{"tenant": 1, "n":[]}`}},
		{"/tenant", []string{`{"tenant":"1"}`}},
		{"/tenant", []string{`{"tenant":1.0}`}},
		{"/tenant", []string{`{"tenant":12345678901234567890}`}},
		{"/tenant", []string{`{"tenant":12345678901234567891}`}},
		{"/tenant", []string{`{"tenant":null}`}},
		{"/tenant", []string{`{"tenant":{"a":1,"b":2}}`, `{"tenant":{"b":2,"a":1}}`}},
		{"/tenant", []string{`{"tenant":"` + long + `"}`}},
		{"/tenant", []string{``, `x`, `{"Tenant":"a"}`, `{"tenant":"a"} 2`, `["a"]`, `"tenant"`, `{"tenant":`}},
	}
	of := map[string]int{}
	for i, g := range groups {
		for _, params := range g.params {
			name := permitOf(params, g.key)
			if was, is := of[name]; is && was != i {
				t.Errorf("%.40q is counted with %.40q", params, groups[was].params[0])
			}
			of[name] = i
			if len(name) > 40 {
				t.Errorf("%.40q is named by %d bytes", params, len(name))
			}
		}
	}
	if len(of) != len(groups) {
		t.Errorf("%d limits of %d: %v", len(of), len(groups), of)
	}
	check.Equal(t, permitOf(`x`, "/tenant"), "job/7/"+core.NoValue)
}

func TestKeyPoints(t *testing.T) {
	doc := `{"a":[{"b":"found"},1],"x/y":{"~":"found"},"":"found","~1":"found"}`
	for key, is := range map[string]bool{"/a/0/b": true, "/x~1y/~0": true, "/": true, "/~01": true, "/a/00/b": false, "/a/-1": false,
		"/a/2": false, "/a/-": false, "/a/0/b/c": false, "/a/+0/b": false} {
		if found := permitOf(doc, key) == permitOf(`{"":"found"}`, "/"); found != is {
			t.Errorf("%s: %v", key, found)
		}
	}
}

// TestKeyOfTemplate checks that the key uses the filled template, with the values known before the
// send.
func TestKeyOfTemplate(t *testing.T) {
	j := core.Job{Def: core.Def{ID: 7, Template: true, Overlap: core.Overlap{Limit: 1, Group: "db", Key: "/day"},
		Params: `{"day":"{{scheduledAt yyyy-MM-dd}}","run":"{{runId}}","since":"{{lastSuccessAt}}"}`}}
	j.Sched.Schedule.Timezone = "Asia/Kolkata"
	day := `{"day":"1970-01-02"}`
	given := j.Permit(&core.App{}, &core.Run{Params: &day})
	if early := j.Permit(&core.App{}, &core.Run{ID: 5, At: 18*3600 + 1800}); early != given || !strings.HasPrefix(given, "group/db/") {
		t.Errorf("%s, want %s", early, given)
	}
	if before := j.Permit(&core.App{}, &core.Run{At: 18*3600 + 1799}); before == given {
		t.Error(before)
	}
	limit, value := core.SplitPermit(given)
	if limit != "group/db" || !j.Def.Overlap.Counts(7, given) || j.Def.Overlap.Counts(7, limit) || value == "" {
		t.Error(limit, value)
	}
	j.Def.Overlap.Key = ""
	if got := j.Permit(&core.App{}, &core.Run{}); got != "group/db" || j.Def.Overlap.Counts(7, given) || !j.Def.Overlap.Counts(7, limit) {
		t.Error(got)
	}
}

func TestKeyIsBounded(t *testing.T) {
	texts := golden.New(t)
	for key, valid := range map[string]bool{
		"": true, "/": true, "/tenant": true, "/a~0b~1c/租户": true, strings.Repeat("/a", 16): true,
		"tenant": false, "#/tenant": false, "/a~b": false, "/a~": false, "/~2": false, "/a\nb": false, "/\xff": false,
		strings.Repeat("/a", 17): false, "/" + strings.Repeat("a", 1<<20): false,
	} {
		j := core.Job{Def: core.Def{App: "a", Name: "j", Handler: "h", Overlap: core.Overlap{Limit: 1, Key: key}}}
		j.Normalize()
		err := j.Validate()
		if (err == nil) != valid || err != nil && len(err.Error()) > 1000 {
			t.Errorf("%.20q: %v", key, err)
		}
		if e, is := errors.AsType[*core.Error](err); is && e.Field != "overlap.key" {
			t.Errorf("%.20q: error of %s", key, e.Field)
		}
		if err != nil {
			texts.Equal(t, fmt.Sprintf("%.20q", key), err.Error())
		}
	}
	j := core.Job{Def: core.Def{App: "a", Name: "j", Handler: "h", Overlap: core.Overlap{Key: "/a"}}}
	if j.Normalize(); j.Validate() == nil {
		t.Error("a key without a limit")
	}
}

// TestLimitsOfAnAppAreBounded checks that an app's defaults for jobs have the bounds of a job.
func TestLimitsOfAnAppAreBounded(t *testing.T) {
	for field, a := range map[string]core.App{
		"":                 {Overlap: core.Overlap{Limit: 3, Group: "db", Key: "/tenant"}, Limits: core.Limits{InFlight: 1000, PerSecond: 1000}},
		"overlap.limit":    {Overlap: core.Overlap{Group: "db"}},
		"overlap.key":      {Overlap: core.Overlap{Limit: 1, Key: "tenant"}},
		"limits.inFlight":  {Limits: core.Limits{InFlight: 1001}},
		"limits.perSecond": {Limits: core.Limits{PerSecond: -1}},
	} {
		a.Name, a.Overlap = "a", a.Overlap.Normal()
		err := a.Validate()
		if e := (*core.Error)(nil); field == "" && err != nil || field != "" && (!errors.As(err, &e) || e.Field != field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
