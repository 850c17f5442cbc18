package cron

import (
	"slices"
	"testing"
)

const (
	same    = "same"    // accepted with the meaning it has in Java
	refused = "refused" // a *ParseError
)

// oddAccepted is the decision about each text that Java accepts although it looks wrong; the comment
// has Java's meaning. testdata/README.md has the reasons.
var oddAccepted = map[string]string{
	"10A * * * * ?":              refused, // trailing junk after a number is ignored: same as 10
	"5; * * * * ?":               refused, // trailing junk ignored
	"1.5 * * * * ?":              refused, // '.5' ignored: same as 1
	"1* * * * * ?":               refused, // '*' after a digit ignored: same as 1
	"1-5A * * * * ?":             refused, // junk after a range ignored
	"1-5/2A * * * * ?":           refused, // junk after a range step ignored
	"0 0 0 1-5-9 * ?":            refused, // second '-' ignored: same as 1-5
	"*5 * * * * ?":               refused, // anything after '*' that is not '/' is ignored: same as *
	"** * * * * ?":               refused, // same as *
	"*-5 * * * * ?":              refused, // same as *
	"*abc * * * * ?":             refused, // same as *
	"*/0 * * * * ?":              refused, // zero increment after '*' means *
	"*/-5 * * * * ?":             refused, // negative increment after '*' means *
	"*/+5 * * * * ?":             refused, // Integer.parseInt accepts '+5': same as */5
	"/0 * * * * ?":               refused, // same as *
	"/-3 * * * * ?":              refused, // same as *
	"5/0 * * * * ?":              refused, // zero increment after a number: just 5
	"0-10/0 * * * * ?":           refused, // zero increment after a range: just 0
	"0-10/60 * * * * ?":          refused, // range increments are not range-checked: just 0
	"0-10/99 * * * * ?":          refused, // range increments are not range-checked: just 0
	"0 0 0-10/100 * * ?":         refused, // range increments are not range-checked: just 0
	"99 * * * * ?":               refused, // 99 is the internal marker for '*': same as *
	"0 99 * * * ?":               refused, // same as *
	"0 0 99 * * ?":               refused, // same as *
	"0 0 0 99 * ?":               refused, // same as *
	"0 0 0 ? * 99":               refused, // same as *
	"0 0 0 1 99 ?":               refused, // same as *
	"99/5 * * * * ?":             refused, // same as */5
	"99-5 * * * * ?":             refused, // 99 treated as start of field: 0-5
	"0 0 0 98 * 2":               refused, // 98 is the internal marker for '?': day-of-month 98 acts as ?
	"0 0 0 1 * 98":               refused, // day-of-week 98 acts as ?
	"0 0 0 ?X * 2":               refused, // one trailing character after '?' ignored
	"0 0 0 ?5 * 2":               refused, // one trailing character after '?' ignored
	"0 0 0 1 * ?9":               refused, // one trailing character after '?' ignored
	"0 0 0 ?, * 2":               refused, // empty list members ignored
	",0, 0 0 * * ?":              refused, // empty list members ignored
	"0,,5 0 0 * * ?":             refused, // empty list members ignored
	", 0 0 * * ?":                refused, // a field of only commas parses to an empty set; evaluating it throws
	"0 0 0 0W * ?":               refused, // 0W accepted, never fires
	"0 0 0 15WXYZ * ?":           refused, // junk after W ignored
	"0 0 0 15W-20 * ?":           refused, // junk after W ignored
	"0 0 0 15-20W * ?":           refused, // W after a range ignored: same as 15-20
	"0 0 0 L-W * ?":              refused, // a missing offset counts as 0: same as LW
	"0 0 0 1 L ?":                refused, // L in month is accepted and leaves the month set empty; evaluating throws
	"0 0 0 1 1,L ?":              refused, // L in month ignored
	"0 0 0 1 1 ? L":              refused, // L in year is accepted and leaves the year set empty: never fires
	"0 0 0 1 1 ? 5":              refused, // year is not range-checked: never fires
	"0 0 0 1 1 ? 0":              refused, // year is not range-checked: never fires
	"0 0 0 1 1 ? 1969":           refused, // year is not range-checked: never fires
	"0 0 0 1 1 ? 5000":           same,    // year is not range-checked: never fires
	"0 0 0 1 1 ? 99":             refused, // 99 means * in the year field too
	"0 0 0 1 1 ? 2025X":          refused, // junk after year ignored
	"0 0 0 ? * 0#1":              refused, // day-of-week before # is not range-checked; 0 acts as Saturday
	"0 0 0 ? * 8#1":              refused, // day-of-week before # is not range-checked; never fires
	"0 0 0 ? * 9#2":              refused, // day-of-week before # is not range-checked; never fires
	"0 0 0 ? * 99#1":             refused, // not range-checked: never fires
	"0 0 0 1 * 98#1":             refused, // 98 counts as ?
	"0 0 0 ? * 2,3#1":            refused, // # applies to the smallest day in the list: first Monday
	"0 0 0 ? * 3#1,2":            refused, // # applies to the smallest day in the list: first Monday
	"0 0 0 ? * MON,FRI#2":        refused, // # applies to the smallest day in the list: second Monday
	"0 0 0 ? * 2-4#2":            refused, // # after a range ignored: same as 2-4
	"0 0 0 ? * 6#+1":             refused, // parseInt accepts '+1'
	"0 0 0 ? * 6#01":             same,    // leading zero accepted
	"0 0 0 ? * 2-4L":             refused, // L after a range ignored
	"0 0 0 ? * 6LX":              refused, // junk after L ignored
	"0 0 0 ? * LW":               refused, // LW in day-of-week means Saturday
	"0 0 0 ? * L-3":              refused, // L-3 in day-of-week means Saturday
	"0 0 0 ? * MONDAY":           same,    // only the first three letters count
	"0 0 0 ? * MONX":             refused, // only the first three letters count
	"0 0 0 ? * MON/2":            refused, // step after a name ignored: just Monday
	"0 0 0 ? * MON-FRI/2":        refused, // step after a name range ignored: Monday to Friday
	"0 0 0 ? * MON-FRIDAY":       same,    // only the first three letters count
	"0 0 0 ? * MONLX":            refused, // junk ignored
	"0 0 0 1 JANUARY ?":          same,    // only the first three letters count
	"0 0 0 1 JAN/3 ?":            refused, // step after a name ignored: just January
	"0 0 0 1 JAN-JUN/2 ?":        refused, // step after a name range ignored: January to June
	"0 0 0 1 JAN#2 ?":            refused, // junk after a name ignored
	"0 0 0 1 JANL ?":             refused, // junk after a name ignored
	"0 0 1-\u0663 * * ?":         refused, // Unicode digits accepted after '-' (Integer.parseInt)
	"0 */\u0665 * * * ?":         refused, // Unicode digits accepted after '*/'
	"0 0 0 ? * fr\u0131":         refused, // dotless i upper-cases to I: FRI
	"\n0 0 0 * * ?":              same,    // newline is not a separator but tokens are trimmed
	"0 0 0 * * ?\n":              same,    // newline is not a separator but tokens are trimmed
	"0\x01 0 0 * * ?":            refused, // control characters at token ends are trimmed
	"0 0 0 1,? * 2":              refused, // '?' inside a list: the presence of '?' wins and day-of-month is ignored
	"0 0 0 29 FEB/ ?":            refused, // junk after a name ignored
	"*/19 16 0 13 4 ?/":          refused, // one trailing character after '?' ignored
	"0 0 0 ?,15 * MON":           refused, // '?' inside a list: day-of-month is ignored
	"0 0 0 1 * ?,2":              refused, // '?' inside a list: day-of-week is ignored
	"0 0 0 15W,? * 2":            refused, // '?' inside a list: day-of-month is ignored
	"0 0 0 1 1-2-3 ?":            refused, // second '-' ignored
	"0 0 0 1 1 ? 2025-2026-2027": refused, // second '-' ignored
	"0 0 0 1 1 ? 2030/0":         refused, // zero increment: just 2030
}

func TestOddAccepted(t *testing.T) {
	var odd []vector
	load(t, "cron_odd_accepted.json", &odd)
	if len(odd) != len(oddAccepted) {
		t.Errorf("%d texts, %d decisions", len(odd), len(oddAccepted))
	}
	for _, v := range odd {
		e, err := ParseQuartz(v.Expr)
		switch oddAccepted[v.Expr] {
		case same:
			if err != nil {
				t.Error(err)
			} else if got, want := chain(e, v, len(v.Next)), v.want(); !slices.Equal(got, want) {
				t.Errorf("%q: %v, want %v", v.Expr, got, want)
			}
		case refused:
			checkParseError(t, v.Expr, err)
		default:
			t.Errorf("%q: no decision", v.Expr)
		}
	}
}
