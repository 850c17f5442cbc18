package model

import "strings"

// namer keeps the names in a trace where canonical exchanges pairs.
type namer struct{ swaps }

func (n *namer) tell(words string, swapped swaps) string {
	for _, pair := range []struct {
		swapped bool
		a, b    string
	}{{n.disp, "D1", "D2"}, {n.tickers, "T1", "T2"}, {n.people, "P1", "P2"}} {
		if pair.swapped {
			words = strings.NewReplacer(pair.a, pair.b, pair.b, pair.a).Replace(words)
		}
	}
	n.disp = n.disp != swapped.disp
	n.tickers = n.tickers != swapped.tickers
	n.people = n.people != swapped.people
	return words
}
