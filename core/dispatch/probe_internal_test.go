package dispatch

import (
	"errors"
	"testing"
)

// TestChosen: what has said yes by the moment of the choice is chosen, also where it
// said so after the look that led to it, and the first of several.
func TestChosen(t *testing.T) {
	no, open, quick := said(errors.New("no")), &probe{done: make(chan struct{})}, said(nil)
	order := []string{"http://a", "http://b", "http://c"}
	for name, c := range map[string]struct {
		asked []*probe
		first string // of the choice
		err   bool
	}{
		"the second, and a third said yes since": {[]*probe{no, quick, quick}, "http://b", false},
		"the only one":                           {[]*probe{quick}, "http://a", false},
		"beside one that is awaited":             {[]*probe{open, no, quick}, "http://c", false},
		"none, and one is not asked":             {[]*probe{no, no}, "", true},
		"none, and one has no answer":            {[]*probe{no, open, no}, "", true},
		"none":                                   {[]*probe{no, no, no}, "", false},
	} {
		got := chosen(order, c.asked, 0, -1)
		first := ""
		if len(got.order) > 0 {
			first = got.order[0]
		}
		if first != c.first || (got.err != nil) != c.err {
			t.Errorf("%s: %q, %v", name, first, got.err)
		}
	}
}
