package main

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func TestAttemptText(t *testing.T) {
	for _, c := range []struct {
		run  client.Run
		want string
	}{
		{client.Run{State: "succeeded", Attempt: 1}, ""},
		{client.Run{State: "running", Attempt: 1, Retries: 3}, "1, retries left: 3"},
		{client.Run{State: "failed", Reason: "handler", Attempt: 1, Retries: 3, Then: "5"}, "1, retries left: 3"},
		{client.Run{State: "failed", Reason: "snoozed", Attempt: 1, Then: "5"}, "1, retries left: 1"},
		{client.Run{State: "failed", Reason: "snoozed", Attempt: 2, Retries: 3, Then: "5"}, "2, retries left: 4"},
		{client.Run{State: "failed", Reason: "cancelled", Attempt: 1, Retries: 3}, "1, no retry follows"},
		{client.Run{State: "succeeded", Attempt: 2, Retries: 1}, "2, no retry follows"},
		{client.Run{State: "running", Attempt: 1, Retries: 3, Shards: []client.ShardRun{{}}}, ""},
	} {
		check.Equal(t, attemptText(&c.run), c.want, "%+v", c.run)
	}
}

func TestWaitsForPermit(t *testing.T) {
	for _, c := range []struct {
		state  string
		permit *client.Permit
		want   bool
	}{
		{"queued", nil, false},
		{"queued", &client.Permit{HeldBy: []string{"1"}, Place: 1}, true},
		{"queued", &client.Permit{HeldBy: []string{"1"}}, false}, // for an executor, and then it asks
		{"queued", &client.Permit{Has: true}, false},             // for an executor
		{"queued", &client.Permit{Has: true, Begins: time.Now().Add(time.Hour)}, true},
		{"running", &client.Permit{}, false},
	} {
		check.Equal(t, waitsForPermit(&client.Run{State: c.state, Permit: c.permit}), c.want, "%s %+v", c.state, c.permit)
	}
}

func TestChosenText(t *testing.T) {
	for want, c := range map[string]client.Try{
		"b by route random from 3 executors: a, b, c": {Address: "b", By: "random", Of: 3, From: []string{"a", "b", "c"}},
		"b by route lfu from 9 executors: a, …":       {Address: "b", By: "lfu", Of: 9, From: []string{"a"}},
		"b by route last from 2 executors":            {Address: "b", By: "last", Of: 2},
	} {
		check.Equal(t, chosenText(&c), want)
	}
}

// TestKeptText: the text above a log names the part that was kept, and the missing part.
func TestKeptText(t *testing.T) {
	e := &conn{Env: &Env{Globals: &Globals{}, Stdout: io.Discard}}
	at := time.Date(2026, 11, 25, 18, 58, 35, 0, time.UTC)
	texts := golden.New(t)
	for name, kept := range map[string]client.KeptLog{
		"whole":                       {From: 1},
		"its end":                     {From: 98610},
		"one long line":               {From: 1, Cut: 900},
		"a long line behind others":   {From: 20, Cut: 900},
		"its beginning":               {From: 1, More: true},
		"its middle":                  {From: 20, More: true},
		"of one long line its middle": {From: 1, Cut: 9, More: true},
		"none":                        {Why: "no answer"},
		"a message":                   {Message: true, From: 1},
		"a message that was cut":      {Message: true, From: 1, More: true},
	} {
		kept.At, kept.Live = at, "refused"
		texts.Equal(t, name, e.keptText(&kept, "UTC"))
	}
}

// TestDescribed: each field of a job has words in describe, or is one whose fields are shown as a file has them.
func TestDescribed(t *testing.T) {
	spec := reflect.TypeFor[client.JobSpec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if slices.Contains([]string{"call", "command", "declared", "ifRev", "notify"}, name) == slices.Contains(described, name) {
			t.Errorf("%s: of fields with words are %v", name, described)
		}
	}
}
