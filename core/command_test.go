package core

import (
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestCommandKept checks that stored secrets are kept, but not for another line, directory or
// user, because a command could print them.
func TestCommandKept(t *testing.T) {
	old := &Command{Line: "dump", Dir: "/a", User: "u", Env: map[string]string{"A": "s3cret", "B": "b"}, Hidden: []string{"A"}}
	shown := old.Shown()
	if shown.Env["A"] != AsStored || old.Env["A"] != "s3cret" {
		t.Errorf("shown %v of %v", shown.Env, old.Env)
	}
	if kept, err := shown.Kept(old); err != nil || !kept.Equal(old) {
		t.Errorf("%+v, %v", kept, err)
	}
	for name, change := range map[string]func(*Command){
		"line":  func(c *Command) { c.Line = "env" },
		"dir":   func(c *Command) { c.Dir = "/b" },
		"user":  func(c *Command) { c.User = "v" },
		"other": func(c *Command) { c.Env, c.Hidden = map[string]string{"B": AsStored}, []string{"B"} },
	} {
		c := old.Shown()
		if change(c); c.Equal(old) {
			t.Errorf("%s: a change is no change", name)
		}
		if kept, err := c.Kept(old); err == nil {
			t.Errorf("%s: %+v", name, kept)
		}
	}
	if _, err := old.Shown().Kept(nil); err == nil {
		t.Error("a secret of nothing")
	}
	if shown := (&Command{Hidden: []string{"A"}}).Shown(); shown.Env != nil {
		t.Errorf("a hidden variable that is not given is shown: %v", shown.Env)
	}
	more := *old
	if more.MaxOutput = 4096; more.Equal(old) {
		t.Error("another bound of the output is no change")
	}
}

func TestCommandBounds(t *testing.T) {
	for name, c := range map[string]Command{
		"no line":         {},
		"a blank line":    {Line: " \n"},
		"a zero":          {Line: "a\x00b"},
		"no UTF-8":        {Line: "a\xff"},
		"a long line":     {Line: strings.Repeat("x", MaxLine+1)},
		"a relative dir":  {Line: "x", Dir: "a"},
		"a dir with dots": {Line: "x", Dir: "/a/.."},
		"a long dir":      {Line: "x", Dir: "/" + strings.Repeat("x", MaxDir)},
		"a user":          {Line: "x", User: "-x"},
		"a variable":      {Line: "x", Env: map[string]string{"1A": ""}},
		"ours":            {Line: "x", Env: map[string]string{"TICKRING_RUN": ""}},
		"a long value":    {Line: "x", Env: map[string]string{"A": strings.Repeat("x", MaxSecret+1)}},
		"a zero in it":    {Line: "x", Env: map[string]string{"A": "\x00"}},
		"hidden nothing":  {Line: "x", Hidden: []string{"A"}},
		"little output":   {Line: "x", MaxOutput: MinMaxOutput - 1},
		"much output":     {Line: "x", MaxOutput: MaxMaxOutput + 1},
		"much in all": {Line: "x", Env: map[string]string{"A": strings.Repeat("x", MaxSecret), "B": strings.Repeat("x", MaxSecret),
			"C": strings.Repeat("x", MaxSecret), "D": strings.Repeat("x", MaxSecret), "E": strings.Repeat("x", MaxSecret),
			"F": strings.Repeat("x", MaxSecret), "G": strings.Repeat("x", MaxSecret), "H": strings.Repeat("x", MaxSecret)}},
	} {
		if err := c.validate(); err == nil {
			t.Errorf("%s is allowed", name)
		}
	}
	good := Command{Line: "a\n\tb " + strings.Repeat("x", MaxLine-6), Dir: "/", Env: map[string]string{"_A1": "line\nline"},
		Hidden: []string{"_A1"}, User: "www-data", MaxOutput: MaxMaxOutput}
	check.NoError(t, good.validate())
}

// No executor can have the address of commands.
func TestLocalAddressIsNobodys(t *testing.T) {
	for _, address := range []string{LocalAddress, "local:x", "local:http://h"} {
		if _, _, err := ParseAddress(address); err == nil {
			t.Errorf("an executor may have %s", address)
		}
	}
}
