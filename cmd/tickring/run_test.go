package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
)

func TestAttemptText(t *testing.T) {
	for _, c := range []struct {
		run  api.Run
		want string
	}{
		{api.Run{State: "succeeded", Attempt: 1}, ""},
		{api.Run{State: "running", Attempt: 1, Retries: 3}, "1, 3 may follow"},
		{api.Run{State: "failed", Reason: "handler", Attempt: 1, Retries: 3, Then: "5"}, "1, 3 may follow"},
		{api.Run{State: "failed", Reason: "snoozed", Attempt: 1, Then: "5"}, "1, 1 may follow"},
		{api.Run{State: "failed", Reason: "snoozed", Attempt: 2, Retries: 3, Then: "5"}, "2, 4 may follow"},
		{api.Run{State: "failed", Reason: "cancelled", Attempt: 1, Retries: 3}, "1, the last"},
		{api.Run{State: "succeeded", Attempt: 2, Retries: 1}, "2, the last"},
		{api.Run{State: "running", Attempt: 1, Retries: 3, Shards: []api.ShardRun{{}}}, ""},
	} {
		if got := attemptText(&c.run); got != c.want {
			t.Errorf("%+v: %q, want %q", c.run, got, c.want)
		}
	}
}

func TestWaitsForPermit(t *testing.T) {
	for _, c := range []struct {
		state  string
		permit *api.Permit
		want   bool
	}{
		{"queued", nil, false},
		{"queued", &api.Permit{HeldBy: []string{"1"}}, true},
		{"queued", &api.Permit{Has: true}, false}, // for an executor
		{"queued", &api.Permit{Has: true, Begins: time.Now().Add(time.Hour)}, true},
		{"running", &api.Permit{}, false},
	} {
		if got := waitsForPermit(&api.Run{State: c.state, Permit: c.permit}); got != c.want {
			t.Errorf("%s %+v: %v", c.state, c.permit, got)
		}
	}
}

func TestChosenText(t *testing.T) {
	for want, c := range map[string]api.Try{
		"b by random from 3: a, b, c": {Address: "b", By: "random", Of: 3, From: []string{"a", "b", "c"}},
		"b by lfu from 9: a, …":       {Address: "b", By: "lfu", Of: 9, From: []string{"a"}},
		"b by last from 2":            {Address: "b", By: "last", Of: 2},
	} {
		if got := chosenText(&c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestDescribed: each field of a job has words in describe, or is one whose fields are shown as a file has them.
func TestDescribed(t *testing.T) {
	spec := reflect.TypeFor[api.JobSpec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if slices.Contains([]string{"call", "command", "declared", "ifRev", "notify"}, name) == slices.Contains(described, name) {
			t.Errorf("%s: of fields with words are %v", name, described)
		}
	}
}
