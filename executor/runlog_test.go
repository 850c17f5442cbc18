package executor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

func ask(l *logs, from int32) wire.LogRequest {
	return wire.LogRequest{LogID: 7, LogTime: 1_700_000_000_000, FromLine: from}
}

// TestLogPages: pages continue line by line to the end, even if the log grows while it is read.
func TestLogPages(t *testing.T) {
	l := &logs{dir: t.TempDir(), most: 100 << 20, log: quiet}
	g := l.open(7, 1_700_000_000_000)
	g.first("first")
	if r := l.read(ask(l, 1), true); r.End || r.Content != "" || r.ToLine != 0 {
		t.Errorf("before there is a file: %+v", r)
	}
	var want strings.Builder
	write := func(n int) {
		for range n {
			line := strings.Repeat("x", 90)
			fmt.Fprintf(g, "%s\n", line)
		}
	}
	write(20_000) // 1.8 MB: several pages
	fmt.Fprintf(g, "half")
	b, err := os.ReadFile(g.path)
	check.OK(t, err)
	want.Write(b)
	var got strings.Builder
	from, pages := int32(1), 0
	next := func(open bool) bool {
		r := l.read(ask(l, from), open)
		if n := strings.Count(r.Content, "\n"); n != int(r.ToLine-from+1) {
			t.Fatalf("lines %d to %d hold %d", from, r.ToLine, n)
		}
		if r.ToLine < from {
			return false
		}
		got.WriteString(r.Content)
		from = r.ToLine + 1
		pages++
		return true
	}
	for next(true) {
	}
	if got.String()+"half" != want.String() || pages < 3 {
		t.Fatalf("%d pages of %d bytes, want %d bytes but the half line", pages, got.Len(), want.Len())
	}
	g.last("end")
	if !next(false) || !strings.Contains(got.String(), "half\n") || !strings.HasSuffix(got.String(), "end\n") {
		t.Errorf("the rest: %q", got.String()[want.Len()-4:])
	}
	if r := l.read(ask(l, from), false); !r.End || r.Content != "" || r.ToLine != from-1 || r.FromLine != from {
		t.Errorf("after the end: %+v", r)
	}
	for _, far := range []int32{math.MaxInt32, math.MaxInt32 - 1} {
		if r := l.read(ask(l, far), false); !r.End || r.Content != "" || r.ToLine != far-1 || r.FromLine != far {
			t.Errorf("from line %d: %+v", far, r)
		}
	}
	// From anywhere, also backwards.
	lines := strings.SplitAfter(got.String(), "\n")
	for _, at := range []int32{15_000, 3, 257, 256, 19_999, 1} {
		if r := l.read(ask(l, at), false); !strings.HasPrefix(r.Content, lines[at-1]) || r.FromLine != at {
			t.Errorf("from line %d: %.60q, want %.60q", at, r.Content, lines[at-1])
		}
	}
}

// TestLogPagesAreNotReadFromTheStart: a page is read at its position; the part of the file before it is not read.
func TestLogPagesAreNotReadFromTheStart(t *testing.T) {
	l := &logs{dir: t.TempDir(), most: 100 << 20, log: quiet}
	g := l.open(7, 1_700_000_000_000)
	for i := range 20_000 {
		fmt.Fprintf(g, "line %06d of some length, so that pages fill\n", i+1)
	}
	first := l.read(ask(l, 1), true)
	f, err := os.OpenFile(g.path, os.O_WRONLY, 0)
	check.OK(t, err)
	defer f.Close()
	check.Call(t)(f.WriteAt(bytes.Repeat([]byte{'\n'}, len(first.Content)-100), 0))
	for _, from := range []int32{first.ToLine + 1, first.ToLine + 300} {
		if r := l.read(ask(l, from), true); !strings.HasPrefix(r.Content, fmt.Sprintf("line %06d ", from)) {
			t.Errorf("from line %d: %.40q", from, r.Content)
		}
	}
	g.last("end")
}

func TestLogBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		mux.Register("loud", func(_ context.Context, r *Run) error {
			for range 100 {
				r.Printf("%s", strings.Repeat("y", 50))
			}
			return nil
		})
		mux.Register("one", func(_ context.Context, r *Run) error {
			_, err := r.Output().Write(bytes.Repeat([]byte("z"), 5000)) // no line end, and past the bound
			return err
		})
		f, e := started(t, mux, func(o *Options) { o.LogMax = 1000 })
		for id, handler := range map[int64]string{1: "loud", 2: "one"} {
			run := order(int32(id), id, handler)
			mustSend(t, e, run)
			f.want(t, id, 200, "")
			log := readLog(t, e, run)
			if strings.Count(log, "---- cut: the log reached its limit of 1000 bytes") != 1 || !strings.Contains(log, "---- start") ||
				!strings.Contains(log, "---- end: code 200") || len(log) > 1300 {
				t.Errorf("%s: %d bytes:\n%s", handler, len(log), log)
			}
		}
	})
}

func TestLogSweep(t *testing.T) {
	l := &logs{dir: t.TempDir(), most: 1000, log: quiet}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for back := range 40 {
		l.open(int64(back+1), now.AddDate(0, 0, -back).UnixMilli()).last("end")
	}
	for _, other := range []string{"2020-01-01.txt", "notes"} {
		check.OK(t, os.WriteFile(filepath.Join(l.dir, other), nil, 0o600))
	}
	l.sweep(now, 30*24*time.Hour)
	left, err := os.ReadDir(l.dir)
	check.OK(t, err)
	// 30 days before now reach into the 31st day back.
	if len(left) != 31+2 || left[0].Name() != "2020-01-01.txt" || left[1].Name() != "2026-10-22" {
		t.Errorf("%d are left, the oldest %s", len(left), left[1].Name())
	}
	// Without a time the newest with the number is found; a foreign one is not.
	if r := l.read(wire.LogRequest{LogID: 5, FromLine: 1}, false); !strings.Contains(r.Content, "end") {
		t.Errorf("without time: %+v", r)
	}
	if r := l.read(wire.LogRequest{LogID: 99, FromLine: 1}, false); !r.End || r.Content != "" {
		t.Errorf("of an unknown run: %+v", r)
	}
}

// A running executor sweeps by itself, at once and hourly.
func TestLogsAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		old := filepath.Join(dir, time.Now().UTC().AddDate(0, 0, -4).Format(dayFormat))
		young := filepath.Join(dir, time.Now().UTC().AddDate(0, 0, -1).Format(dayFormat))
		for _, d := range []string{old, young} {
			check.OK(t, os.Mkdir(d, 0o700))
		}
		start(t, NewMux(), newFake(), func(o *Options) { o.LogDir, o.LogRetention = dir, 48*time.Hour })
		synctest.Wait()
		there := func(d string) bool { _, err := os.Stat(d); return err == nil }
		if there(old) || !there(young) {
			t.Error("the first sweep")
		}
		pass(49 * time.Hour)
		synctest.Wait()
		if there(young) {
			t.Error("it is not swept again")
		}
	})
}

func TestNoLogs(t *testing.T) {
	mux := muxOf("h", func(_ context.Context, r *Run) error { r.Printf("x"); r.Logger().Info("y"); return nil })
	f, e := started(t, mux, func(o *Options) { o.LogMax = -1 })
	run := order(1, 1, "h")
	mustSend(t, e, run)
	f.want(t, 1, 200, "")
	check.Equal(t, readLog(t, e, run), "", "log")
	if _, err := os.Stat(filepath.Join(e.o.Dir, "logs")); err == nil {
		t.Error("there is a folder of logs")
	}
}

// TestLogTail: the end of a run's output goes into its message, in whole lines, wherever the log goes. A run without
// output keeps its message alone.
func TestLogTail(t *testing.T) {
	for name, l := range map[string]*logs{
		"nowhere else": {tail: 20, most: -1, log: quiet},
		"files":        {tail: 20, most: 1 << 20, dir: t.TempDir(), log: quiet},
		"a writer":     {tail: 20, most: 1 << 20, out: io.Discard, log: quiet},
		"a short file": {tail: 20, most: 3, dir: t.TempDir(), log: quiet},
	} {
		g := l.open(1, 1)
		g.first("---- start")
		check.Equal(t, g.tailed("done", false), "done", "%s: nothing written", name)
		for i := range 1000 {
			fmt.Fprintf(g, "line %d\n", i)
		}
		io.WriteString(g, "end")
		g.last("---- end")
		check.Equal(t, g.tailed("done", false), "done\n---- log\nline 999\nend", "%s", name)
		check.Equal(t, g.tailed("", false), "line 999\nend", "%s", name)
	}
	check.Equal(t, (*runLog)(nil).tailed("done", false), "done", "without a log")
}

// TestFailedLogTail: the end of a failed run's log fills the rest of its message. The server keeps only the beginning of a
// longer message, and would cut the end of the log.
func TestFailedLogTail(t *testing.T) {
	l := &logs{tail: 20, failedTail: wire.MaxMessage, most: -1, log: quiet}
	g := l.open(1, 1)
	for i := range 10_000 {
		fmt.Fprintf(g, "line %d\n", i)
	}
	check.Equal(t, g.tailed("done", false), "done\n---- log\nline 9999", "of one that succeeded")
	for own, room := range map[string]bool{"": true, "no such table": true, strings.Repeat("界", 5000): true,
		strings.Repeat("x", wire.MaxMessage-5): false} {
		got := g.tailed(own, true)
		if !strings.HasPrefix(got, own) || wire.TruncateMessage(got) != got {
			t.Errorf("behind %d bytes: it is %d bytes long, and would be cut", len(own), len(got))
		}
		if n := utf8.RuneCountInString(got); room != strings.HasSuffix(got, "\nline 9999") || room && n < wire.MaxMessage-20 {
			t.Errorf("behind %d bytes: it has %d characters, and ends with %q", len(own), n, got[len(got)-10:])
		}
	}
}
