package golden

import (
	"fmt"
	"strings"
	"testing"
)

// recorder is a test whose failures are recorded and whose end is called by hand.
type recorder struct {
	testing.TB
	failures []string
	cleanup  func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Name() string     { return "TestExample" }
func (r *recorder) Failed() bool     { return false }
func (r *recorder) Skipped() bool    { return false }
func (r *recorder) Cleanup(f func()) { r.cleanup = f }
func (r *recorder) Errorf(text string, v ...any) {
	r.failures = append(r.failures, fmt.Sprintf(text, v...))
}

func TestTextsFail(t *testing.T) {
	for name, c := range map[string]struct {
		texts   [][]string // key, text, and what replaces what
		failure string
	}{
		"all equal":        {[][]string{{"one", "Listens on port 8080.", "8080", "PORT"}, {"two", "Two\nlines."}}, ""},
		"another text":     {[][]string{{"one", "Listens on port PORT."}, {"two", "Two lines."}}, `"two" is`},
		"a new key":        {[][]string{{"one", "Listens on port PORT."}, {"two", "Two\nlines."}, {"three", "x"}}, "no section"},
		"no error":         {[][]string{{"one", "<nil>"}}, "has no text"},
		"an unused key":    {[][]string{{"one", "Listens on port PORT."}}, "does not compare"},
		"a key used twice": {[][]string{{"one", "Listens on port PORT."}, {"one", "x"}, {"two", "Two\nlines."}}, "two texts"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			texts := New(r)
			for _, of := range c.texts {
				texts.Equal(r, of[0], of[1], of[2:]...)
			}
			r.cleanup()
			if all := strings.Join(r.failures, "\n"); c.failure == "" && all != "" || !strings.Contains(all, c.failure) {
				t.Errorf("failures are %q, not %q", all, c.failure)
			}
		})
	}
}

func TestReplayNamesTheFirstDifference(t *testing.T) {
	for played, failure := range map[string]string{"ask answer ask": "", "ask other ask": `after "ask" is`, "ask answer": "no line",
		"ask answer ask more": `after "ask" is`} {
		r := &recorder{TB: t}
		differs(r, "file", []string{"ask", "answer", "ask"}, strings.Fields(played))
		if all := strings.Join(r.failures, "\n"); (all == "") != (failure == "") || !strings.Contains(all, failure) {
			t.Errorf("%s: failures are %q, not %q", played, all, failure)
		}
	}
}
