package console

import (
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

type diffLine struct {
	Class string // CSS class: add, del, at, or none
	Text  string
}

// diffOf returns the difference of two texts in the format of diff -u; empty if they are equal.
func diffOf(old, now string) []diffLine { return diffLines(udiff.Unified("a", "b", old, now)) }

// diffLines returns the lines of a difference, without its header.
func diffLines(text string) (list []diffLine) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		head := len(list) == 0 // a later line can look like a header: a removed "-- comment"
		switch {
		case head && (strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ")), strings.HasPrefix(line, "\\ "):
		case strings.HasPrefix(line, "@@"):
			list = append(list, diffLine{"at", line})
		case strings.HasPrefix(line, "+"):
			list = append(list, diffLine{"add", line})
		case strings.HasPrefix(line, "-"):
			list = append(list, diffLine{"del", line})
		default:
			list = append(list, diffLine{"", line})
		}
	}
	return list
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
