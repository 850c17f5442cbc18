package main

import (
	"testing"

	"github.com/tickring/tickring/api"
)

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
