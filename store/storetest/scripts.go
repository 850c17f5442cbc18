package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// sources: a source is there byte for byte until it is dropped, and dropped only where it is old.
func sources(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	source := func(job core.JobID, text, want string) {
		t.Helper()
		got, found, err := s.Source(ctx, job, core.HashScript(text))
		ok(t, err)
		if got != want || found != (want != "") {
			t.Fatalf("%d bytes, %v; want %d", len(got), found, len(want))
		}
	}
	long := strings.Repeat("ü\r\n\"<&\t", core.MaxScript/8)
	for _, text := range []string{"#!/bin/sh\r\necho ü\r\n", "x", long} {
		source(1, text, "")
		ok(t, s.PutSource(ctx, 1, text, base))
		source(1, text, text)
		source(2, text, "")
	}
	hash := core.HashScript("x")
	ok(t, s.DropSource(ctx, 1, hash, base))
	source(1, "x", "x")
	ok(t, s.PutSource(ctx, 1, "x", base.Add(time.Hour))) // used again: it is young
	ok(t, s.DropSource(ctx, 1, hash, base.Add(time.Hour)))
	source(1, "x", "x")
	ok(t, s.DropSource(ctx, 1, hash, base.Add(time.Hour+time.Millisecond)))
	source(1, "x", "")
	ok(t, s.DropSource(ctx, 1, hash, base.Add(2*time.Hour)))
	source(1, long, long)

	// The job stores only the settings of its script.
	j := job(9)
	j.Def.Handler, j.Def.Script = "", &core.Script{Kind: core.ScriptGroovy, Note: "n", Hash: hash, Size: 1, Version: 3, Rev: 77, By: "ann"}
	createJobs(t, s, j)
	same(t, "job", mustJob(t, s, 9), j)
}

// sweepScripts: of a job of which nothing is left, not even its tombstone, no script is.
func sweepScripts(t *testing.T, h Harness) {
	if h.Expires {
		t.Skip("this store keeps the scripts of a deleted job after a crash")
	}
	s, ctx := h.Open(t), t.Context()
	createJobs(t, s, job(1), job(2))
	for _, id := range []core.JobID{1, 2} {
		ok(t, s.PutSource(ctx, id, "x", base))
		ok(t, s.PutScripts(ctx, core.Scripts{Job: id, V: 1, Stored: map[string]int64{core.HashScript("x"): 1}}))
	}
	ok(t, s.Jobs.Put(ctx, []store.JobPut{deletesAt(1, 100, base)})[0])
	left := func(s *store.Store, id core.JobID, want bool) {
		t.Helper()
		_, found, err := s.Source(ctx, id, core.HashScript("x"))
		ok(t, err)
		rec, err := s.Scripts(ctx, id)
		ok(t, err)
		if found != want || (rec.V > 0) != want {
			t.Errorf("job %d: source %v, record %d; want %v", id, found, rec.V, want)
		}
	}
	sweepAll(t, s, base.Add(10*day), 0, 20*day)
	left(s, 1, true)
	sweepAll(t, s, base.Add(30*day), 0, 20*day)
	left(s, 1, false)
	left(s, 2, true)
}
