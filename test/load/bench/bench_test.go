package main

import (
	"testing"

	"github.com/tickring/tickring/core"
)

// The server of a bench starts only with a token that servers accept.
func TestToken(t *testing.T) {
	if err := core.CheckToken("token", token); err != nil {
		t.Error(err)
	}
}
