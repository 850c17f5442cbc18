package executor

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// afterCrash starts an executor with a server of its own on a copy of the directory of another one, as if that process had died now.
func afterCrash(t *testing.T, mux *Mux, dead *Executor) (*fake, *Executor) {
	t.Helper()
	f := newFake()
	return f, startAfterCrash(t, mux, f, dead)
}

func startAfterCrash(t *testing.T, mux *Mux, f *fake, dead *Executor) *Executor {
	t.Helper()
	pass(gather)
	synctest.Wait()
	to := t.TempDir()
	names, err := filepath.Glob(filepath.Join(dead.o.Dir, "journal-*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no journal in %s: %v", dead.o.Dir, err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		check.OK(t, err)
		check.OK(t, os.WriteFile(filepath.Join(to, filepath.Base(n)), b, 0o600))
	}
	return start(t, mux, f, func(o *Options) {
		o.Dir, o.Servers = to, dead.o.Servers
		o.MaxUnreported, o.MaxUnreportedBytes = dead.o.MaxUnreported, dead.o.MaxUnreportedBytes
	})
}

func TestJournalFolderCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		check.OK(t, os.WriteFile(file, nil, 0o600))
		var out lockedBuffer
		f, e := started(t, okMux(), func(o *Options) {
			o.Dir, o.LogDir, o.Log = filepath.Join(file, "below"), filepath.Join(file, "logs"), out.log()
		})
		check.Contains(t, out.String(), "journal not writable", "it says")
		r := send(e, order(1, 1, "ok"))
		refused(t, r, wire.CodeBusy, "queue full: the run cannot be journaled")
		// Once the journal can be written, runs are accepted, including the rejected one.
		check.OK(t, os.Remove(file))
		pass(time.Second)
		synctest.Wait()
		mustSend(t, e, order(1, 1, "ok"))
		f.want(t, 1, 200, "")
	})
}

func TestLogFolderCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check.OK(t, os.WriteFile(file, nil, 0o600))
	var out lockedBuffer
	mux := muxOf("ok", func(_ context.Context, r *Run) error { r.Printf("hello"); return nil })
	f, e := started(t, mux, func(o *Options) { o.LogDir, o.Log = filepath.Join(file, "logs"), out.log() })
	run := order(1, 1, "ok")
	mustSend(t, e, run)
	f.want(t, 1, 200, "")
	if n := strings.Count(out.String(), "logs of runs not writable"); n != 1 {
		t.Errorf("it is logged %d times: %s", n, out.String())
	}
	check.Equal(t, readLog(t, e, run), "", "log")
}

// TestFullDisk: on a full disk the executor rejects runs that it cannot store and reports accepted ones. It continues once
// there is room.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	synctest.Test(t, func(t *testing.T) {
		w, f, e := startWaiting(t, nil)
		f.set(atPath(wire.PathCallback, ""))
		mustSend(t, e, order(1, 1, "w"))
		<-w.began
		synctest.Wait()
		e.journal.f.Close()
		e.journal.f = full
		refused(t, send(e, order(2, 2, "w")), wire.CodeBusy, "queue full: the run cannot be journaled")
		w.word <- nil // its result finds no room either
		synctest.Wait()
		pass(2 * time.Second)
		synctest.Wait()
		mustSend(t, e, order(2, 3, "w"))
		<-w.began
		f2, _ := afterCrash(t, NewMux(), e)
		f2.want(t, 1, 200, "")
		f2.result(t, 3)
		check.Equal(t, len(f2.items), 2, "%v", f2.items)
	})
}

// journalIn opens a journal in a directory, and returns its earlier content.
func journalIn(t *testing.T, dir string, most int64) (*journal, found) {
	t.Helper()
	j, was, err := openJournal(dir, true, most, quiet)
	check.OK(t, err)
	j.start(func() []remembered { return nil })
	return j, was
}

// replayed returns the runs in the files of a directory.
func replayed(dir string) map[int64]*entry {
	j := &journal{dir: dir, log: quiet, live: map[int64]*entry{}}
	j.replay()
	return j.live
}

// TestJournalCut: a journal that is cut anywhere returns its complete records, without an error.
func TestJournalCut(t *testing.T) {
	dir := t.TempDir()
	j, _ := journalIn(t, dir, 64<<20)
	var ends []int64
	for id := range int64(5) {
		run := order(1, id+1, "h")
		b := j.accept(&incoming{Run: run})
		<-b.done
		ends = append(ends, j.size)
	}
	it := wire.CallbackItem{LogID: 1, Code: 200, Msg: "m"}
	<-j.end(&it, 1).done
	j.close()
	name := j.files()[0]
	whole, err := os.ReadFile(name)
	check.OK(t, err)
	for cut := range len(whole) + 1 {
		check.OK(t, os.WriteFile(name, whole[:cut], 0o600))
		live := replayed(dir)
		want := 0
		for _, e := range ends {
			if int64(cut) >= e {
				want++
			}
		}
		if len(live) != want {
			t.Fatalf("cut at %d of %d: %d runs, want %d", cut, len(whole), len(live), want)
		}
	}
	// One wrong byte is found.
	bad := bytes.Clone(whole)
	bad[ends[2]+headLen+10] ^= 1
	check.OK(t, os.WriteFile(name, bad, 0o600))
	check.Equal(t, len(replayed(dir)), 3, "runs before the wrong byte")
}

// TestJournalRolls: a journal starts new files, which contain open runs and recently ended ones.
func TestJournalRolls(t *testing.T) {
	dir := t.TempDir()
	past := []remembered{{100, 1}, {101, 2}}
	j, _, err := openJournal(dir, true, 2000, quiet)
	check.OK(t, err)
	j.start(func() []remembered { return past })
	for id := range int64(200) {
		run := order(1, id+1, "h")
		<-j.accept(&incoming{Run: run}).done
		if id%50 != 0 { // four stay open, four have results that no server took
			if it := (wire.CallbackItem{LogID: id + 1, Code: 200, Data: "d"}); id%50 == 1 {
				<-j.end(&it, 7).done
			} else {
				j.end(&it, 7)
				j.taken(id + 1)
			}
		}
	}
	j.close()
	check.Equal(t, len(j.files()), 1, "files")
	k, was := journalIn(t, dir, 2000)
	defer k.close()
	if len(was.open) != 4 || len(was.results) != 4 || was.open[1].LogID != 51 || was.results[1].LogID != 52 ||
		was.results[0].Data != "d" {
		t.Errorf("open %v, results %v", was.open, was.results)
	}
	if len(was.past) < 2 || was.past[0] != past[0] {
		t.Errorf("past %v", was.past)
	}
}

// TestJournalLargerThanAFile: open runs alone may exceed the size of a file. They are written again only after the same
// amount was added.
func TestJournalLargerThanAFile(t *testing.T) {
	dir := t.TempDir()
	const most = 100_000
	j, _ := journalIn(t, dir, most)
	msg := strings.Repeat("x", 10_000)
	const large = 60
	for id := range int64(large) { // six files full of results that no server took
		<-j.end(&wire.CallbackItem{LogID: id + 1, Code: 500, Msg: msg}, 7).done
	}
	first := number(j.files()[0])
	if first > 6 {
		t.Errorf("%d files were begun while it grew to six times their size", first)
	}
	const small = 200
	for id := range int64(small) {
		<-j.accept(&incoming{Run: order(1, 1000+id, "h")}).done
	}
	if n := number(j.files()[0]) - first; n > 1 {
		t.Errorf("%d small runs began %d files, each with all that is open", small, n)
	}
	for id := range int64(large) {
		j.taken(id + 1)
	}
	for id := range int64(large) {
		<-j.end(&wire.CallbackItem{LogID: 1000 + id, Code: 500, Msg: msg}, 7).done
		j.taken(1000 + id)
	}
	j.close()
	if size := j.size; size > 14*most {
		t.Errorf("the file has %d bytes", size)
	}
	_, was, err := openJournal(dir, true, most, quiet)
	if err != nil || len(was.open) != small-large || len(was.results) != 0 {
		t.Errorf("%d open, %d results, %v", len(was.open), len(was.results), err)
	}
}

func FuzzJournal(f *testing.F) {
	run := order(1, 1, "h")
	f.Add(frameJSON(frame(nil, recAccept, wire.AppendRun(nil, &run)), recTaken, []int64{1}))
	f.Add([]byte{0xff, 0xff, 0xff, 0x03, 0, 0, 0, 0, 1})
	f.Add(frameJSON(nil, recEnd, endRecord{wire.CallbackItem{LogID: 7, Code: 500, Msg: "m", Data: "d", RetryAfter: 60}, 1}))
	f.Add(frameJSON(nil, recGroup, groupRecord{7, group{Pid: 5, Session: 1, Mark: "m"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		j := &journal{log: quiet, live: map[int64]*entry{}}
		r := bufio.NewReader(bytes.NewReader(b))
		for {
			kind, rec, err := readFrame(r)
			if err != nil {
				break
			}
			j.apply(nil, kind, rec)
		}
		for _, kind := range []byte{recAccept, recGroup, recEnd, recTaken, recPast} {
			j.apply(nil, kind, b)
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// log returns a logger into the buffer.
func (l *lockedBuffer) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
