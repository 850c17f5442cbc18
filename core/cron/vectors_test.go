package cron

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/tickring/tickring/internal/testkit/check"
)

type vector struct {
	Expr, TZ string
	From     int64
	Next     []*int64 // null: the chain ends
	DST      bool
	Quirk    string
	Throws   string
	Why      string
}

func load(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	check.OK(t, err)
	check.OK(t, json.Unmarshal(data, into))
}

func vectors(t testing.TB) (valid []vector, invalid []string) {
	var all struct {
		Valid   []vector
		Invalid []string
	}
	load(t, "cron_vectors.json", &all)
	if len(all.Valid) < 3000 || len(all.Invalid) < 200 {
		t.Fatalf("only %d valid and %d invalid vectors", len(all.Valid), len(all.Invalid))
	}
	return all.Valid, all.Invalid
}

// wall returns the wall clock of an epoch second.
func wall(epoch int64, zone *time.Location) Wall {
	_, offset := time.Unix(epoch, 0).In(zone).Zone()
	return Wall(epoch + int64(offset))
}

// epochMilli is its inverse. Where DST makes it ambiguous the vector is flagged
// and the answer of no interest.
func epochMilli(w Wall, zone *time.Location) int64 {
	u := time.Unix(int64(w), 0).UTC()
	return time.Date(u.Year(), u.Month(), u.Day(), u.Hour(), u.Minute(), u.Second(), 0, zone).UnixMilli()
}

func mustQuartz(t testing.TB, text string) *Expr {
	t.Helper()
	e, err := ParseQuartz(text)
	check.OK(t, err)
	return e
}

func mustCrontab(t testing.TB, text string) *Expr {
	t.Helper()
	e, err := ParseCrontab(text)
	check.OK(t, err)
	return e
}

// chain returns up to n instants as epoch milliseconds; -1 is the end.
func chain(e *Expr, v vector, n int) []int64 {
	zone, err := time.LoadLocation(v.TZ)
	if err != nil {
		panic(err)
	}
	w := wall(v.From/1000, zone)
	var got []int64
	for range n {
		next, ok := e.Next(w)
		if !ok {
			return append(got, -1)
		}
		got = append(got, epochMilli(next, zone))
		w = next
	}
	return got
}

func (v vector) want() []int64 {
	var want []int64
	for _, n := range v.Next {
		if n == nil {
			want = append(want, -1)
		} else {
			want = append(want, *n)
		}
	}
	return want
}

func TestVectors(t *testing.T) {
	valid, _ := vectors(t)
	checked, quirks, quirksDiffer := 0, 0, 0
	for _, v := range valid {
		e, err := ParseQuartz(v.Expr)
		if err != nil {
			t.Errorf("refused: %v", err)
			continue
		}
		check.Equal(t, e.String(), v.Expr, "String()")
		got, want := chain(e, v, len(v.Next)), v.want()
		switch {
		case v.DST:
		case v.Quirk != "":
			quirks++
			if !slices.Equal(got, want) {
				quirksDiffer++
			}
		default:
			checked++
			if !slices.Equal(got, want) {
				t.Errorf("%q from %d in %s:\n got %v\nwant %v", v.Expr, v.From, v.TZ, got, want)
			}
		}
	}
	t.Logf("%d compared; %d of %d quirks differ", checked, quirksDiffer, quirks)
	if checked < 2500 {
		t.Errorf("only %d vectors compared", checked)
	}
	if quirksDiffer == 0 {
		t.Error("no quirk vector differs: is the flag read?")
	}
}

func TestInvalidVectors(t *testing.T) {
	_, invalid := vectors(t)
	for _, text := range invalid {
		_, err := ParseQuartz(text)
		checkParseError(t, text, err)
	}
}

func checkParseError(t testing.TB, text string, err error) {
	t.Helper()
	var pe *ParseError
	if !errors.As(err, &pe) {
		t.Errorf("%q: error %v, want a *ParseError", text, err)
		return
	}
	if pe.Text != text || pe.Pos < 0 || pe.Pos > len(text) || pe.Reason.String() == "" {
		t.Errorf("%q: %#v", text, pe)
	}
}

// sameInJava has the texts that look wrong and are accepted with the meaning that they have in Java. testdata/README.md
// has the reasons. The other texts of cron_odd_accepted.json, which Java accepts, are refused.
var sameInJava = []string{
	"0 0 0 1 1 ? 5000",
	"0 0 0 ? * 6#01",
	"0 0 0 ? * MONDAY",
	"0 0 0 ? * MON-FRIDAY",
	"0 0 0 1 JANUARY ?",
	"\n0 0 0 * * ?",
	"0 0 0 * * ?\n",
}

func oddVectors(t testing.TB) (list []vector) {
	load(t, "cron_odd_accepted.json", &list)
	return list
}

func TestOddAccepted(t *testing.T) {
	accepted := 0
	for _, v := range oddVectors(t) {
		e, err := ParseQuartz(v.Expr)
		if !slices.Contains(sameInJava, v.Expr) {
			checkParseError(t, v.Expr, err)
			continue
		}
		accepted++
		if err != nil {
			t.Error(err)
		} else if got, want := chain(e, v, len(v.Next)), v.want(); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", v.Expr, got, want)
		}
	}
	check.Equal(t, accepted, len(sameInJava), "accepted texts")
}
