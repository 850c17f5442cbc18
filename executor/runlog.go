package executor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/wire"
)

// logs are the rolling logs: one directory for each day (UTC, of the trigger time), one file for each run.
type logs struct {
	dir  string    // empty: no files
	out  io.Writer // instead of files
	outs sync.Mutex
	most int64 // bytes of a run's log
	// Bytes of a run's log that go into its message, and of one that did not succeed.
	tail, failedTail int
	log              *slog.Logger

	mu     sync.Mutex
	said   bool               // that it cannot be written
	marks  map[int64]*offsets // by run
	recent []int64            // keys of marks, the oldest first
}

// offsets are the positions of lines, so that a reader need not start at line 1.
type offsets struct {
	mu  sync.Mutex
	at  []int64 // of line 1+k*markEvery
	seq struct {
		line int32 // where the last read stopped
		at   int64
	}
}

const (
	markEvery = 256
	markFiles = 256     // files whose offsets are cached
	pageBytes = 512_000 // of one answer
	dayFormat = "2006-01-02"
)

func (l *logs) path(id, logTime int64) string {
	return filepath.Join(l.dir, time.UnixMilli(logTime).UTC().Format(dayFormat), strconv.FormatInt(id, 10)+".log")
}

// failed logs once that logs cannot be written.
func (l *logs) failed(err error) {
	l.mu.Lock()
	said := l.said
	l.said = true
	l.mu.Unlock()
	if !said {
		l.log.Error("logs of runs not writable: runs continue without logs", "folder", l.dir, "error", err)
	}
}

// open returns the log of one run. Nothing is on disk before the first line of the handler or the end.
func (l *logs) open(id, logTime int64) *runLog {
	switch {
	case l.out != nil:
		return &runLog{l: l, before: "run " + strconv.FormatInt(id, 10) + ": "}
	case l.dir == "" && max(l.tail, l.failedTail) > 0:
		return &runLog{l: l}
	case l.dir == "":
		return nil
	}
	return &runLog{l: l, path: l.path(id, logTime)}
}

// A runLog is the log of one run. A nil one discards everything. Each write reaches the file at once: a process that dies
// loses none.
type runLog struct {
	l      *logs
	path   string
	before string // each line; only with out
	rest   []byte // of a line that has no end yet; only with out

	mu   sync.Mutex
	head []byte // the first line, until another line follows
	f    *os.File
	size int64
	full bool
	part bool // the last line has no end yet
	shut bool
	kept []byte // the end of the log, for the run's message
}

// stamped appends a line that begins with the current time.
func stamped(dst []byte, s string) []byte {
	return append(append(time.Now().UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z "), s...), '\n')
}

func (g *runLog) line(s string) {
	if g != nil {
		_, _ = g.Write(stamped(make([]byte, 0, len(s)+32), s))
	}
}

// first sets the first line, which is not written alone.
func (g *runLog) first(s string) {
	if g != nil {
		g.head = stamped(nil, s)
	}
}

// Write implements io.Writer. Write always succeeds, and discards bytes beyond the size limit or that cannot be stored. A
// failing log must not end a handler.
func (g *runLog) Write(b []byte) (int, error) {
	if g == nil || len(b) == 0 {
		return len(b), nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if most := max(g.l.tail, g.l.failedTail); most > 0 {
		g.kept = append(g.kept, b[max(len(b)-most, 0):]...)
		if over := len(g.kept) - most; over > most {
			g.kept = append(g.kept[:0], g.kept[over:]...)
		}
	}
	switch {
	case g.path == "" && g.l.out == nil:
	case g.full:
	case g.size+int64(len(g.head)+len(b)) > g.l.most:
		g.full = true
		// Write the part that fits, to the end of a line.
		if room := g.l.most - g.size - int64(len(g.head)); room > 0 {
			if i := bytes.LastIndexByte(b[:room], '\n'); i >= 0 {
				g.put(b[:i+1])
			}
		}
		g.put(fmt.Appendf(nil, "---- cut: the log reached its limit of %d bytes; later lines are not kept\n", g.l.most))
	default:
		g.put(b)
	}
	return len(b), nil
}

// tailed returns a run's message followed by the last lines of its log, if it wrote any, as far as the message has room:
// the server keeps only the beginning. If a run succeeded without a message, it returns only the lines.
func (g *runLog) tailed(msg string, failed bool) string {
	if g == nil {
		return msg
	}
	most := g.l.tail
	if failed {
		most = g.l.failedTail
	}
	head := strings.TrimPrefix(msg+"\n---- log\n", "\n")
	if msg == "" && !failed {
		head = "" // the log is the whole message
	}
	if most = min(most, wire.MaxMessage-utf8.RuneCountInString(head)); most <= 0 {
		return msg
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.kept
	if over := len(b) - most; over > 0 {
		b = b[over:]
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i+1 < len(b) {
			b = b[i+1:] // whole lines
		}
	}
	if len(b) == 0 {
		return msg
	}
	return head + strings.TrimRight(strings.ToValidUTF8(string(b), "\uFFFD"), "\n")
}

// put writes to the file. Call it with mu held.
func (g *runLog) put(b []byte) {
	if g.path == "" && g.l.out == nil {
		return
	}
	if g.part && g.full {
		b = append([]byte{'\n'}, b...)
	}
	if len(g.head) > 0 {
		b = append(g.head, b...)
		g.head = nil
	}
	if g.l.out != nil {
		g.emit(b)
		return
	}
	if g.f == nil {
		f, err := os.OpenFile(g.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640) //nolint:gosec // log collectors are in its group
		if errors.Is(err, fs.ErrNotExist) {
			if err = os.MkdirAll(filepath.Dir(g.path), 0o750); err == nil {
				f, err = os.OpenFile(g.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640) //nolint:gosec // log collectors are in its group
			}
		}
		if err != nil {
			g.l.failed(err)
			return
		}
		g.f = f
	}
	n, err := g.f.Write(b)
	g.size += int64(n)
	g.part = n > 0 && b[n-1] != '\n'
	if err != nil {
		g.l.failed(err)
	}
	if g.shut { // an abandoned handler still writes
		g.f.Close()
		g.f = nil
	}
}

// emit writes whole lines, each with its run in front. Call it with mu held.
func (g *runLog) emit(b []byte) {
	g.size += int64(len(b))
	g.part = b[len(b)-1] != '\n'
	g.rest = append(g.rest, b...)
	end := bytes.LastIndexByte(g.rest, '\n')
	if end < 0 {
		return
	}
	var out []byte
	for line := range bytes.Lines(g.rest[:end+1]) {
		out = append(append(out, g.before...), line...)
	}
	g.rest = append(g.rest[:0], g.rest[end+1:]...)
	g.l.outs.Lock()
	_, err := g.l.out.Write(out)
	g.l.outs.Unlock()
	if err != nil {
		g.l.failed(err)
	}
}

// last writes the last line, regardless of the limit, and closes the file.
func (g *runLog) last(s string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var b []byte
	if g.part {
		b = append(b, '\n')
		g.part = false
	}
	g.put(stamped(b, s))
	g.shut = true
	if g.f != nil {
		g.f.Close()
		g.f = nil
	}
}

// read answers /log: as many whole lines from q.FromLine on as fit into an answer. open reports that the run has not ended
// here.
func (l *logs) read(q wire.LogRequest, open bool) wire.LogResult {
	from := max(q.FromLine, 1)
	res := wire.LogResult{FromLine: q.FromLine, ToLine: from - 1}
	path := l.find(q)
	if path == "" {
		res.End = !open
		return res
	}
	f, err := os.Open(path)
	if err != nil {
		res.End = !open
		return res
	}
	defer f.Close()
	o := l.offsets(q.LogID)
	o.mu.Lock()
	defer o.mu.Unlock()

	// The nearest known line before the one that is wanted.
	line, at := int32(1), int64(0)
	if k := int(from-1) / markEvery; len(o.at) > 0 {
		k = min(k, len(o.at)-1)
		line, at = int32(k*markEvery)+1, o.at[k]
	}
	if o.seq.line > line && o.seq.line <= from {
		line, at = o.seq.line, o.seq.at
	}
	if st, err := f.Stat(); err != nil || st.Size() < at { // not the file that it was
		o.at, o.seq.line, line, at = nil, 0, 1, 0
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return res
	}
	r := bufio.NewReaderSize(f, 64<<10)
	var b strings.Builder
	for b.Len() < pageBytes {
		if k := int(line - 1); k%markEvery == 0 && k/markEvery == len(o.at) {
			o.at = append(o.at, at)
		}
		have := b.Len()
		n, err := l.copyLine(&b, r, line >= from)
		if err != nil { // the end, or a line that is still being written
			res.Content = b.String()[:have]
			res.End = !open
			if n > 0 && !open && line >= from {
				res.ToLine, res.Content = line, b.String()
			}
			break
		}
		res.Content = b.String()
		at += n
		if line >= from {
			res.ToLine = line
		}
		line++
	}
	o.seq.line, o.seq.at = line, at
	return res
}

// copyLine reads one line with its end and, if it is wanted, copies as much as fits into an answer.
func (l *logs) copyLine(b *strings.Builder, r *bufio.Reader, wanted bool) (n int64, err error) {
	long := false
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		if wanted {
			if room := 2*pageBytes - b.Len(); len(part) > room {
				b.Write(part[:room])
				long = true
			} else {
				b.Write(part)
			}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return n, err
		default:
			if long {
				b.WriteString("… (the line is cut)\n")
			}
			return n, nil
		}
	}
}

// find returns the path of a run's log; empty if there is none.
func (l *logs) find(q wire.LogRequest) string {
	if l.dir == "" {
		return ""
	}
	if q.LogTime > 0 {
		return l.path(q.LogID, q.LogTime)
	}
	days, _ := os.ReadDir(l.dir)
	for i := len(days) - 1; i >= 0; i-- {
		p := filepath.Join(l.dir, days[i].Name(), strconv.FormatInt(q.LogID, 10)+".log")
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

func (l *logs) offsets(id int64) *offsets {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marks == nil {
		l.marks = map[int64]*offsets{}
	}
	o := l.marks[id]
	if o == nil {
		o = &offsets{}
		l.marks[id] = o
		if l.recent = append(l.recent, id); len(l.recent) > markFiles {
			delete(l.marks, l.recent[0])
			l.recent = l.recent[1:]
		}
	}
	return o
}

// sweep removes the days before keep ago. It only touches directories named like a day.
func (l *logs) sweep(now time.Time, keep time.Duration) {
	if l.dir == "" {
		return
	}
	days, err := os.ReadDir(l.dir)
	if err != nil {
		return
	}
	for _, d := range days {
		day, err := time.Parse(dayFormat, d.Name())
		if err != nil || !d.IsDir() || now.Sub(day) < keep+24*time.Hour {
			continue
		}
		if err := os.RemoveAll(filepath.Join(l.dir, d.Name())); err != nil {
			l.log.Warn("old logs not removed", "day", d.Name(), "error", err)
		}
	}
}
