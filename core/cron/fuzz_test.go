package cron

import (
	"testing"
)

func FuzzParseQuartz(f *testing.F) {
	valid, invalid := vectors(f)
	for i, v := range valid {
		if i%20 == 0 {
			f.Add(v.Expr, v.From/1000)
		}
	}
	for _, text := range invalid {
		f.Add(text, int64(0))
	}
	for _, v := range oddVectors(f) {
		f.Add(v.Expr, int64(0))
	}
	f.Fuzz(func(t *testing.T, text string, after int64) { fuzzOne(t, ParseQuartz, text, after) })
}

func FuzzParseCrontab(f *testing.F) {
	for _, text := range described {
		f.Add(text, int64(1_700_000_000))
	}
	f.Add("1-5/2,7 */3 1,L * mon-sun", int64(0))
	f.Fuzz(func(t *testing.T, text string, after int64) { fuzzOne(t, ParseCrontab, text, after) })
}

func fuzzOne(t *testing.T, parse func(string) (*Expr, error), text string, after int64) {
	e, err := parse(text)
	if err != nil {
		checkParseError(t, text, err)
		if e != nil {
			t.Errorf("%q: an expression and an error", text)
		}
		return
	}
	again, err := parse(e.String())
	if err != nil || *again != *e {
		t.Errorf("%q parses differently the second time: %v", text, err)
	}
	checkWords(t, e)
	w := Wall(after)
	for range 3 {
		next, ok := e.Next(w)
		if !ok {
			break
		}
		if next <= w || !e.Matches(next) {
			t.Fatalf("%q: Next(%d) = %d", text, w, next)
		}
		w = next
	}
}
