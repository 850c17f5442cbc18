package aside

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
)

// Bounds of the search for the end of one log: executors tell no length, and answer with
// all that comes after a line, or with a page of it.
const (
	mostLooks = 48
	mostBytes = 64 << 20 // of all answers
)

// errUnfinished says that a log is still being brought to where it is read.
var errUnfinished = errors.New("its log was not there as a whole yet")

// page is an answer with text.
type page struct {
	text string
	from int // its first line
	next int // the line behind it
}

// reader looks for the end of one log.
type reader struct {
	logs  Logs
	app   *core.App
	run   *core.Run
	looks int
	bytes int
}

// look asks for the log from a line on. Of one that has no line there text is empty.
func (r *reader) look(ctx context.Context, from int) (p page, end bool, err error) {
	r.looks++
	text, next, end, err := r.logs.Log(ctx, r.app, r.run, from)
	r.bytes += len(text)
	return page{text, from, next}, end, err
}

func (r *reader) spent() bool { return r.looks >= mostLooks || r.bytes >= mostBytes }

// End reads the last core.KeptLogMax bytes of a run's log: a log of any length costs some
// dozens of answers at most, none of them longer than an answer may be.
func End(ctx context.Context, logs Logs, app *core.App, run *core.Run) (core.KeptLog, error) {
	r := &reader{logs: logs, app: app, run: run}
	if scheme, _, err := core.ParseAddress(run.Address); err == nil && scheme != core.SchemeWire {
		p, end, err := r.look(ctx, 1) // its end is in that
		more := core.CodeOf(err) == core.CodeTooLarge && p.text != ""
		switch {
		case err != nil && !more:
			return core.KeptLog{}, err
		case !end && scheme == core.SchemeLambda:
			return core.KeptLog{}, errUnfinished
		}
		// What is before that has its numbers too.
		p.from = max(p.next-strings.Count(p.text, "\n"), 1)
		return keptOf(p, more)
	}
	last, more, err := r.last(ctx)
	if err != nil {
		return core.KeptLog{}, err
	}
	return keptOf(r.before(ctx, last), more)
}

// last finds the last page of a log: it asks at lines further and further on, until there is
// none, and halves what lies between. More says that it was left off before the end.
func (r *reader) last(ctx context.Context) (p page, more bool, err error) {
	const far = 1 << 30         // no log has more lines
	lo, hi, step := 1, 0, 1<<12 // lines before lo are there, and from hi on none is; 0: not known
	at, largest := 1, 0
	tooLarge := error(nil)
	for hi == 0 || lo < hi {
		if r.spent() {
			if p.text == "" {
				return p, false, core.Errorf(core.CodeTooLarge, "its end was not found within %d answers of its executor", r.looks)
			}
			return p, true, nil
		}
		got, end, err := r.look(ctx, at)
		switch {
		case core.CodeOf(err) == core.CodeTooLarge: // there is a lot from here on
			if tooLarge, lo = err, max(lo, at+1); at >= p.from {
				p = page{}
			}
		case err != nil:
			return p, false, err
		case end && got.next <= at && at == 1 && got.text != "": // words in place of a log
			return p, false, core.Errorf(core.CodeNotFound, "the executor has no log of it: %s", firstLine(got.text))
		case got.text == "" || got.next <= at:
			hi = at
		default:
			p, lo = got, got.next
			if end {
				return p, false, nil
			}
		}
		short := err == nil && len(got.text) < largest/2 // of pages that is the last one, as a rule
		largest = max(largest, len(got.text))
		switch {
		case at == 1 && err == nil, short && got.text != "":
			at = lo
		case hi == 0:
			at = min(lo+step, far)
			step = min(step*8, far)
			if lo >= far {
				return p, true, nil
			}
		default:
			at = lo + (hi-lo)/2
		}
	}
	switch {
	case p.text != "":
		return p, false, nil
	case tooLarge != nil:
		return p, false, core.Errorf(core.CodeTooLarge, "its last line alone is longer than an answer of an executor may be")
	}
	return p, false, core.Errorf(core.CodeNotFound, "the executor has no line of it")
}

// before adds to the last page, where that is short, what stands before it.
func (r *reader) before(ctx context.Context, last page) page {
	n := 0
	for len(last.text) < core.KeptLogMax && last.from > 1 {
		// As many lines as fill the room, if those before are as long.
		long := max(len(last.text)/max(last.next-last.from, 1), 1)
		n = max(n*4, (core.KeptLogMax-len(last.text))/long+16)
		got, ok := r.between(ctx, max(last.from-n, 1), last)
		for ; !ok && n > 1 && !r.spent(); got, ok = r.between(ctx, max(last.from-n, 1), last) { // too much for an answer
			n /= 8
		}
		if !ok {
			return last
		}
		last = got
	}
	return last
}

// between reads from a line on until the last page begins, or is in what it read.
func (r *reader) between(ctx context.Context, from int, last page) (page, bool) {
	text := ""
	for at := from; ; {
		if r.spent() {
			return last, false
		}
		got, _, err := r.look(ctx, at)
		if err != nil || got.text == "" || got.next <= at {
			return last, false
		}
		text += got.text
		switch at = got.next; {
		case at >= last.next:
			return page{text, from, at}, true
		case at >= last.from: // it ends inside
			rest := strings.SplitAfter(last.text, "\n")
			return page{text + strings.Join(rest[min(at-last.from, len(rest)):], ""), from, last.next}, true
		}
	}
}

// keptOf keeps the last bytes of a page, from the beginning of a line on where it has one.
func keptOf(p page, more bool) (core.KeptLog, error) {
	text := printable(p.text)
	k := core.KeptLog{From: p.from, More: more}
	if over := len(text) - core.KeptLogMax; over > 0 {
		cut := over
		if text[over-1] != '\n' {
			if i := strings.IndexByte(text[over:], '\n'); i >= 0 && over+i+1 < len(text) {
				cut = over + i + 1
			} else { // the last line alone is longer
				for !utf8.RuneStart(text[cut]) {
					cut++
				}
			}
		}
		k.From += strings.Count(text[:cut], "\n")
		k.Cut = int64(cut - 1 - strings.LastIndexByte(text[:cut], '\n'))
		text = text[cut:]
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return k, fmt.Errorf("compress a log: %w", err)
	}
	k.Text = b.Bytes()
	return k, nil
}

// Text is what is kept.
func Text(k *core.KeptLog) (string, error) {
	if len(k.Text) == 0 {
		return "", nil
	}
	r, err := gzip.NewReader(bytes.NewReader(k.Text))
	if err == nil {
		var b []byte
		b, err = io.ReadAll(io.LimitReader(r, core.KeptLogMax+1))
		if err == nil && len(b) <= core.KeptLogMax {
			return string(b), nil
		}
	}
	if err == nil {
		err = errors.New("it is longer than what is kept")
	}
	return "", fmt.Errorf("read the kept log of run %d: %w", k.Run, err)
}

// printable has what is no text replaced: bytes that are no UTF-8, and control characters
// but tabs and the ends of lines.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7F {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "")
	}
	return line
}

func lastLines(s string, n int) string {
	if n <= 0 {
		return ""
	}
	s = strings.TrimRight(s, "\n")
	at := len(s)
	for ; n > 0 && at >= 0; n-- {
		at = strings.LastIndexByte(s[:at], '\n')
	}
	return s[at+1:]
}
