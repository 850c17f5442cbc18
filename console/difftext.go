package console

import (
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

type diffLine struct {
	Class string // add, del, at, or none
	Text  string
}

// diffOf is how two texts differ, as diff -u writes it; empty where they do not.
func diffOf(old, now string) []diffLine { return diffLines(udiff.Unified("a", "b", old, now)) }

// diffLines are the lines of a difference, without its head.
func diffLines(text string) (list []diffLine) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		head := len(list) == 0 // behind it a line may begin so of itself: one taken out that was -- a comment
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
