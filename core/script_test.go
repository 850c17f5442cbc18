package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func TestCheckSource(t *testing.T) {
	texts := golden.New(t)
	for _, c := range []struct {
		source string
		valid  bool
	}{
		{"#!/bin/sh\r\necho ü\r\n", true},
		{strings.Repeat("x", MaxScript), true},
		{"", false},
		{strings.Repeat("x", MaxScript+1), false},
		{"echo\x00", false},
		{"\x7fELF\xff", false},
		{"echo \xfc\n", false}, // Latin-1
	} {
		err := CheckSource("script.source", c.source)
		if (err == nil) != c.valid {
			t.Errorf("%.20q: %v", c.source, err)
		}
		if err == nil {
			continue
		}
		if e, is := err.(*Error); !is || e.Value != "" || e.Field != "script.source" {
			t.Errorf("%+v", e)
		}
		texts.Equal(t, fmt.Sprintf("%.20q", c.source), err.Error())
	}
}

func TestValidateScript(t *testing.T) {
	valid := func(change func(d *Def)) error {
		j := Job{Def: Def{App: "a", Name: "b", Script: ScriptOf(ScriptShell, "n", "x")}}
		change(&j.Def)
		j.Normalize()
		return j.Validate()
	}
	if err := valid(func(*Def) {}); err != nil {
		t.Error(err)
	}
	texts := golden.New(t)
	for _, c := range []struct {
		name   string
		change func(d *Def)
		field  string
	}{
		{"no script", func(d *Def) { d.Script = nil }, "handler"},
		{"handler", func(d *Def) { d.Handler = "h" }, "handler"},
		{"unknown kind", func(d *Def) { d.Script.Kind = "perl" }, "script.kind"},
		{"kind of xxl-job", func(d *Def) { d.Script.Kind = "GLUE_PHP" }, "script.kind"},
		{"long note", func(d *Def) { d.Script.Note = strings.Repeat("x", MaxNote+1) }, "script.note"},
		{"path as hash", func(d *Def) { d.Script.Hash = "../x" }, "script.hash"},
		{"hash in capitals", func(d *Def) { d.Script.Hash = strings.ToUpper(d.Script.Hash) }, "script.hash"},
		{"command", func(d *Def) { d.Command = &Command{Line: "x"} }, "command"},
		{"call", func(d *Def) { d.Call = &Call{Expect: []int{200}} }, "call"},
	} {
		err := valid(c.change)
		if e, is := errors.AsType[*Error](err); !is || e.Field != c.field {
			t.Errorf("%s: %v, want field %s", c.name, err, c.field)
		}
		texts.Equal(t, c.name, fmt.Sprint(err))
	}
}

func TestCheckWork(t *testing.T) {
	d := &Def{Script: ScriptOf(ScriptShell, "", "x")}
	for address, want := range map[string]bool{"http://10.0.0.1:9999/": true, "call:https://x": false, "lambda:f": false, "queue:q": false} {
		if err := (&App{Executors: []string{"http://10.0.0.2:9999/", address}}).CheckWork(d); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	check.NoError(t, (&App{}).CheckWork(d))
}

// versions returns n versions, made a second apart.
func versions(n int) (list []Script) {
	for i := range n {
		list = append(list, Script{Kind: ScriptShell, Hash: fmt.Sprint("h", i+1), Version: i + 1, Rev: int64(i+1) * 1000})
	}
	return list
}

func numbers(list []Script) (out []int) {
	for _, v := range list {
		out = append(out, v.Version)
	}
	return out
}

// TestTrim checks that the last 29 earlier versions stay, and older ones if they are young or an
// open run uses them.
func TestTrim(t *testing.T) {
	last := func(from, to int) (out []int) {
		for v := from; v <= to; v++ {
			out = append(out, v)
		}
		return out
	}
	for _, c := range []struct {
		n     int
		since int64
		revs  []int64
		want  []int
	}{
		{29, 1 << 40, nil, last(1, 29)},
		{30, 1 << 40, nil, last(2, 30)},
		{35, 1 << 40, nil, last(7, 35)},
		{35, 1 << 40, []int64{3000, 5999, 36_000}, append([]int{3, 5}, last(7, 35)...)},
		{35, 1 << 40, []int64{999}, last(7, 35)},                // before the first version
		{35, 5000, nil, append([]int{4, 5, 6}, last(7, 35)...)}, // 4 was replaced at 5000
		{0, 1 << 40, []int64{1}, nil},
	} {
		s := Scripts{Old: versions(c.n)}
		if s.Trim(c.since, c.revs); !slices.Equal(numbers(s.Old), c.want) {
			t.Errorf("of %d since %d, open %v: %v, want %v", c.n, c.since, c.revs, numbers(s.Old), c.want)
		}
	}
}

func TestUnnamed(t *testing.T) {
	s := Scripts{Old: versions(2), Stored: map[string]int64{"h1": 1, "h2": 1, "old": 5, "young": 10, "is": 1}}
	if got := s.Unnamed(10, "is"); !slices.Equal(got, []string{"old"}) {
		t.Error(got)
	}
}

func TestAllVersions(t *testing.T) {
	s := Scripts{Old: versions(3)}
	if got := numbers(s.All(nil)); !slices.Equal(got, []int{1, 2, 3}) {
		t.Error(got)
	}
	if got := numbers(s.All(&Script{Version: 4})); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Error(got)
	}
	if got := s.All(&Script{Version: 3, Note: "newer"}); len(got) != 3 || got[2].Note != "newer" || s.Old[2].Note != "" {
		t.Error(got)
	}
}

// TestMostVersionsFit checks that the maximum number of versions, at maximum size, fits into an
// item of DynamoDB.
func TestMostVersionsFit(t *testing.T) {
	s := Scripts{Stored: map[string]int64{}}
	for i := range MostVersions {
		hash := fmt.Sprintf("%064x", i)
		s.Old = append(s.Old, Script{Kind: ScriptPowerShell, Note: strings.Repeat("<", MaxNote), By: strings.Repeat("<", 128), Hash: hash,
			Size: MaxScript, Version: 1 << 30, Rev: 1 << 50})
		s.Stored[hash] = 1 << 50
	}
	if b, err := json.Marshal(s); err != nil || len(b) > 390<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
