package postrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/peak"
)

// file is an executor with a log.
type file struct {
	lines []string
	// paged is the minimum bytes of an answer in whole lines, as from tickring's own executors; 0: answers
	// have all lines up to most bytes, as from xxl-job.
	paged, most int
	words       string // an error text instead of a log
	looks       int
	bytes       int
}

func (f *file) Log(_ context.Context, _ *core.App, _ *core.Run, from int) (string, int, bool, error) {
	f.looks++
	if f.words != "" {
		return f.words, from, true, nil
	}
	var b strings.Builder
	i := from - 1
	for ; i < len(f.lines); i++ {
		if f.paged > 0 && b.Len() >= f.paged {
			break
		}
		if f.most > 0 && b.Len() > 0 && b.Len()+len(f.lines[i]) >= f.most {
			break
		}
		b.WriteString(f.lines[i] + "\n")
	}
	f.bytes += b.Len()
	return b.String(), max(i+1, from), false, nil
}

func numbered(n int, of func(i int) string) *file {
	f := &file{}
	for i := 1; i <= n; i++ {
		f.lines = append(f.lines, of(i))
	}
	return f
}

var wired = &core.Run{ID: core.NumberedRun(1, 1), Address: "http://10.0.0.1:9999", State: core.Failed, SentAt: time.Unix(1, 0)}

// want checks that a kept log is the end of the whole log, that its start is right, and that nothing is
// missing that fits.
func want(t interface {
	Helper()
	Errorf(string, ...any)
}, f *file, k *core.KeptLog) {
	t.Helper()
	whole := printable(strings.Join(f.lines, "\n") + "\n")
	text, err := Text(k)
	if err != nil {
		t.Errorf("read the kept log: %v", err)
		return
	}
	if len(text) > core.KeptLogMax || !strings.HasSuffix(whole, text) || k.More || k.Why != "" {
		t.Errorf("kept %d bytes from line %d, more %t, why %q: not the end", len(text), k.From, k.More, k.Why)
		return
	}
	before := whole[:len(whole)-len(text)]
	if from, cut := strings.Count(before, "\n")+1, len(before)-1-strings.LastIndexByte(before, '\n'); k.From != from || k.Cut != int64(cut) {
		t.Errorf("its stored beginning is %d bytes into line %d, its real one %d bytes into line %d", k.Cut, k.From, cut, from)
	}
	if whole := k.From == 1 && k.Cut == 0; whole != k.Whole() {
		t.Errorf("whole: %t", k.Whole())
	}
	if len(before) == 0 || f.looks >= mostLooks {
		return
	}
	// One more line must not fit, unless it is longer than the limit.
	last := len(strings.Split(strings.TrimSuffix(before, "\n"), "\n"))
	if k.Cut == 0 && len(text)+len(printable(f.lines[last-1]))+1 <= core.KeptLogMax {
		t.Errorf("only %d bytes are kept, and line %d would fit", len(text), last)
	}
}

// TestEnd checks that the end of any log is kept with some dozens of answers.
func TestEnd(t *testing.T) {
	million := func(i int) string {
		return fmt.Sprintf("2026-11-25T15:00:00.000Z line %d of a million: %s", i, strings.Repeat("x", 60))
	}
	binary := func(i int) string { return fmt.Sprintf("%d \x00\x01\x1b[31m\xff\xfe\x80 %c", i, rune(0x4e00+i%1000)) }
	long := "begin " + strings.Repeat("界", 333_000) + " end"
	// docs/decisions/038 has these numbers for a million lines.
	answers := map[string]int{"a million lines, pages": 17, "a million lines, all at once": 25}
	for _, c := range []struct {
		name  string
		lines *file
	}{
		{"one line", numbered(1, func(int) string { return "hello" })},
		{"some", numbered(100, func(i int) string { return fmt.Sprint("line ", i) })},
		{"a million lines", numbered(1_000_000, million)},
		{"one line of a million characters", numbered(1, func(int) string { return long })},
		{"a long line, then some", numbered(20, func(i int) string {
			if i == 1 {
				return long
			}
			return "short"
		})},
		{"some, then a long line", numbered(20, func(i int) string {
			if i == 20 {
				return long
			}
			return "short"
		})},
		{"empty lines", numbered(300_000, func(int) string { return "" })},
		{"binary", numbered(50_000, binary)},
		{"exactly the maximum", numbered(64, func(int) string { return strings.Repeat("y", 1023) })},
		{"a byte more", numbered(64, func(i int) string { return strings.Repeat("y", 1023+i/64) })},
	} {
		for _, how := range []struct {
			name        string
			paged, most int
		}{{"pages", 512_000, 0}, {"all at once", 0, 4 << 20}, {"small pages", 2000, 0}} {
			if how.paged == 2000 && len(c.lines.lines) > 100_000 {
				continue // no executor has such small pages; the search would stop at its limit
			}
			t.Run(c.name+", "+how.name, func(t *testing.T) {
				f := &file{lines: c.lines.lines, paged: how.paged, most: how.most}
				k, err := End(t.Context(), f, &core.App{}, wired)
				check.OK(t, err)
				want(t, f, &k)
				t.Logf("%d answers, %d KB, %d bytes kept", f.looks, f.bytes>>10, len(k.Text))
				if f.looks > mostLooks || f.bytes > mostBytes {
					t.Errorf("%d answers of %d bytes", f.looks, f.bytes)
				}
				if want := answers[c.name+", "+how.name]; want != 0 && f.looks != want {
					t.Errorf("%d answers, want %d", f.looks, want)
				}
			})
		}
	}
}

func TestEndOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &file{paged: rapid.SampledFrom([]int{0, 300, 5000, 512_000}).Draw(t, "paged"), most: 4 << 20}
		n := rapid.IntRange(1, 3000).Draw(t, "lines")
		most := rapid.SampledFrom([]int{3, 100, 900}).Draw(t, "long")
		odd := rapid.IntRange(0, n).Draw(t, "odd")
		for i := range n {
			long := (i*7919 + odd) % most
			if i == odd {
				long = rapid.SampledFrom([]int{0, 60_000, 70_000, 200_000}).Draw(t, "longest")
			}
			f.lines = append(f.lines, strings.Repeat("z", long))
		}
		k, err := End(context.Background(), f, &core.App{}, wired)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if !k.More {
			want(t, f, &k)
		}
	})
}

// TestNoEnd checks that an error text is reported as a missing log, and that the search for an end is limited.
func TestNoEnd(t *testing.T) {
	none := &file{words: "readLog fail, logFile not exists"}
	if _, err := End(t.Context(), none, &core.App{}, wired); core.CodeOf(err) != core.CodeNotFound ||
		!strings.Contains(err.Error(), none.words) {
		t.Errorf("words in place of a log: %v", err)
	}
	if _, err := End(t.Context(), &file{}, &core.App{}, wired); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("no line: %v", err)
	}
	endless := &endless{}
	k, err := End(t.Context(), endless, &core.App{}, wired)
	if err != nil || !k.More || endless.looks > mostLooks {
		t.Errorf("a log that never ends: %v, %+v after %d answers", err, k.From, endless.looks)
	}
	gone := errors.New("connection refused")
	if _, err := End(t.Context(), broken{gone}, &core.App{}, wired); !errors.Is(err, gone) {
		t.Errorf("no answer: %v", err)
	}
}

// answer is a fixed answer for a log.
type answer struct {
	text string
	next int
	end  bool
	err  error
}

func (a answer) Log(context.Context, *core.App, *core.Run, int) (string, int, bool, error) {
	return a.text, a.next, a.end, a.err
}

// TestEndOfFunctions checks logs of Lambda functions: one answer is read, its lines keep their numbers, an
// incomplete log is retried, and a cut one is marked.
func TestEndOfFunctions(t *testing.T) {
	run := *wired
	run.Address = "lambda:payroll"
	long := strings.Repeat(strings.Repeat("x", 1023)+"\n", 1000)
	tooLarge := core.Errorf(core.CodeTooLarge, "it goes on")
	for _, c := range []struct {
		name   string
		answer answer
		from   int
		bytes  int
		more   bool
		err    error
	}{
		{"short", answer{"a\nb\n", 3, true, nil}, 1, 4, false, nil},
		{"long", answer{long, 1001, true, nil}, 937, 64 << 10, false, nil},
		{"its last lines", answer{long, 50_001, true, nil}, 49_937, 64 << 10, false, nil},
		{"up to the end of the search", answer{long, 50_001, true, tooLarge}, 49_937, 64 << 10, true, nil},
		{"not there as a whole", answer{"a\n", 2, false, nil}, 0, 0, false, errUnfinished},
		{"too long to be found", answer{"", 1, true, tooLarge}, 0, 0, false, tooLarge},
	} {
		k, err := End(t.Context(), c.answer, &core.App{}, &run)
		text, bad := Text(&k)
		if !errors.Is(err, c.err) || bad != nil || len(text) != c.bytes || k.From != c.from || k.More != c.more ||
			!strings.HasSuffix(c.answer.text, text) {
			t.Errorf("%s: %d bytes from line %d, more %t, %v, %v", c.name, len(text), k.From, k.More, err, bad)
		}
	}
}

// TestEndOfCommands checks that the log of a command is read in pages.
func TestEndOfCommands(t *testing.T) {
	run := *wired
	run.Address = core.LocalAddress
	f := numbered(100_000, func(i int) string { return fmt.Sprint("line ", i) })
	f.paged = 512_000
	k, err := End(t.Context(), f, &core.App{}, &run)
	check.OK(t, err)
	want(t, f, &k)
}

// endless is a log without an end.
type endless struct{ looks int }

func (e *endless) Log(_ context.Context, _ *core.App, _ *core.Run, from int) (string, int, bool, error) {
	e.looks++
	return fmt.Sprintf("line %d\n", from), from + 1, false, nil
}

type broken struct{ err error }

func (b broken) Log(context.Context, *core.App, *core.Run, int) (string, int, bool, error) {
	return "", 0, false, b.err
}

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"a\nb\nc\n", 2, "b\nc"}, {"a\nb\nc", 3, "a\nb\nc"}, {"a\nb", 9, "a\nb"}, {"", 2, ""}, {"a\n", 0, ""}} {
		check.Equal(t, lastLines(c.text, c.n), c.want, "the last %d of %q", c.n, c.text)
	}
	for _, c := range []struct {
		text string
		n    int
		want string
		cut  int
	}{{"a\nb\nc\n", 2, "b\nc\n", 1}, {"a\nb\nc", 3, "a\nb\nc", 0}, {"a\n\n", 1, "\n", 1}, {"\n\n", 9, "\n\n", 0}, {"", 2, "", 0}} {
		if got, cut := LastLines(c.text, c.n); got != c.want || cut != c.cut {
			t.Errorf("the last %d of %q: %q, without %d", c.n, c.text, got, cut)
		}
	}
}

// lying is an executor that answers with 4 MB of empty lines for each line before end, and sets next to on
// lines later.
type lying struct{ end, on int }

var emptyLines = strings.Repeat("\n", 4<<20)

func (l lying) Log(_ context.Context, _ *core.App, _ *core.Run, from int) (string, int, bool, error) {
	switch {
	case from == l.end:
		return "\n", from + 1, false, nil
	case l.end != 0 && from > l.end:
		return "", from, false, nil
	}
	return emptyLines, from + l.on, false, nil
}

// TestTailOfALyingExecutor checks that such an executor makes Tail allocate little more than its answers.
func TestTailOfALyingExecutor(t *testing.T) {
	for _, c := range []lying{{0, 4 << 20}, {1000, 1}} {
		var text string
		var err error
		took := peak.Allocated(func() { text, _, _, _, err = Tail(t.Context(), c, &core.App{}, wired, 1000) })
		if err != nil || len(text) != 1000 || took > 48<<20 {
			t.Errorf("%+v: %d bytes, %d MB allocated, %v", c, len(text), took>>20, err)
		}
	}
}

// TestTail checks the last lines of logs of any length, their numbers, and the number of answers.
func TestTail(t *testing.T) {
	for _, lines := range []int{1, 5, 100_000, 1_000_000} {
		for _, paged := range []int{0, 512_000} {
			f := numbered(lines, func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", 50)) })
			f.paged, f.most = paged, 4<<20
			text, from, next, _, err := Tail(t.Context(), f, &core.App{}, wired, 1000)
			got := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if first := max(1, lines-999); err != nil || from != first || next != lines+1 || len(got) != lines-first+1 ||
				got[0] != f.lines[first-1] || f.looks > 20 {
				t.Errorf("%d lines, %d a page: %d lines from %d on, next %d, after %d answers, %v", lines, paged, len(got), from, next, f.looks, err)
			}
		}
	}
	if _, _, _, _, err := Tail(t.Context(), &file{}, &core.App{}, wired, 10); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("no line: %v", err)
	}
}
