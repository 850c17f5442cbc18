package postrun

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
)

// Limits of the search for the end of a log. Executors report no length, and return everything after a
// line, or one page.
const (
	mostLooks   = 48
	answerBytes = 4 << 20 // maximum bytes of an answer; the rest is cut
	mostBytes   = mostLooks * answerBytes
)

// errUnfinished means that a log is not completely available.
var errUnfinished = errors.New("its log was not there as a whole yet")

// page is an answer with text.
type page struct {
	text string
	from int // its first line
	next int // the line after it
}

// reader searches for the end of one log.
type reader struct {
	logs  Logs
	app   *core.App
	run   *core.Run
	looks int
	bytes int
	wary  bool // each look gets half of the remaining time, so that its result can be returned
}

// look reads the log from a line; the text is empty if there is no such line.
func (r *reader) look(ctx context.Context, from int) (p page, end bool, err error) {
	r.looks++
	if until, has := ctx.Deadline(); has && r.wary {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)/2)
		defer cancel()
	}
	text, next, end, err := r.logs.Log(ctx, r.app, r.run, from)
	r.bytes += len(text)
	return page{text, from, next}, end, err
}

func (r *reader) spent() bool { return r.looks >= mostLooks || r.bytes >= mostBytes }

// End reads the last core.KeptLogMax bytes of a run's log from its executor. Even for a long log, it sends only a few dozen
// requests.
func End(ctx context.Context, logs Logs, app *core.App, run *core.Run) (core.KeptLog, error) {
	r := &reader{logs: logs, app: app, run: run}
	if scheme, _, err := core.ParseAddress(run.Address); err == nil && scheme != core.SchemeWire {
		p, end, err := r.look(ctx, 1) // the answer contains the end
		more := core.CodeOf(err) == core.CodeTooLarge && p.text != ""
		switch {
		case err != nil && !more:
			return core.KeptLog{}, err
		case !end && scheme == core.SchemeLambda:
			return core.KeptLog{}, errUnfinished
		}
		// Lines before the text are numbered too.
		p.from = max(p.next-strings.Count(p.text, "\n"), 1)
		return keptOf(p, more)
	}
	last, more, err := r.last(ctx)
	if err != nil {
		return core.KeptLog{}, err
	}
	return keptOf(r.before(ctx, last, func(p page) int {
		// As many lines as fill the room, if earlier lines have the same length.
		long := max(len(p.text)/max(p.next-p.from, 1), 1)
		if room := core.KeptLogMax - len(p.text); room > 0 {
			return room/long + 16
		}
		return 0
	}), more)
}

// MaxTail is the maximum number of lines that Tail returns.
const MaxTail = 10_000

// tailBytes limits the text for which Tail reads lines before the last page.
const tailBytes = 1 << 20

// Tail reads the last n lines of a run's log. The result from is the number of the first returned line, and the result next is
// the line from which to continue. The result end reports whether the log is complete. If the log could be read only in part,
// Tail returns its last readable lines and an error.
func Tail(ctx context.Context, logs Logs, app *core.App, run *core.Run, n int) (text string, from, next int, end bool, err error) {
	r := &reader{logs: logs, app: app, run: run, wary: true}
	var p page
	if scheme, _, bad := core.ParseAddress(run.Address); bad == nil && scheme != core.SchemeWire && scheme != core.SchemeLocal {
		if p, end, err = r.look(ctx, 1); p.text == "" {
			return "", 1, 1, end, err
		}
		p.from = max(p.next-strings.Count(p.text, "\n"), 1)
	} else {
		var more bool
		if p, more, err = r.last(ctx); p.text == "" {
			return "", 1, 1, false, err
		}
		p = r.before(ctx, p, func(p page) int {
			if len(p.text) >= tailBytes {
				return 0
			}
			return n - (p.next - p.from)
		})
		end = err == nil && !more && !run.State.Open()
	}
	text, cut := LastLines(p.text, n)
	return text, p.from + cut, p.next, end, err
}

// LastLines returns the last n lines of text, and the number of lines before them. The parameter n must be at least 1.
func LastLines(text string, n int) (last string, cut int) {
	at := len(strings.TrimSuffix(text, "\n"))
	for ; n > 0 && at >= 0; n-- {
		at = strings.LastIndexByte(text[:at], '\n')
	}
	return text[at+1:], strings.Count(text[:at+1], "\n")
}

// last finds the last page of a log: it reads at growing line numbers until there is no line, then bisects.
// more: it stopped before the end.
func (r *reader) last(ctx context.Context) (p page, more bool, err error) {
	const far = 1 << 30         // no log has more lines
	lo, hi, step := 1, 0, 1<<12 // lines before lo exist, lines from hi on do not; 0: unknown
	at, largest := 1, 0
	for hi == 0 || lo < hi {
		if r.spent() {
			if p.text == "" {
				return p, false, core.Errorf(core.CodeTooLarge, "the end of the log was not found within %d answers of the executor", r.looks)
			}
			return p, true, nil
		}
		got, end, err := r.look(ctx, at)
		switch {
		case err != nil:
			return p, false, err
		case end && got.next <= at && at == 1 && got.text != "": // an error text instead of a log
			return p, false, core.Errorf(core.CodeNotFound, "the executor has no log of the run: %s", firstLine(got.text))
		case got.text == "" || got.next <= at:
			hi = at
		default:
			p, lo = got, got.next
			if end {
				return p, false, nil
			}
		}
		short := len(got.text) < largest/2 // usually the last page
		largest = max(largest, len(got.text))
		switch {
		case at == 1, short && got.text != "":
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
	if p.text != "" {
		return p, false, nil
	}
	return p, false, core.Errorf(core.CodeNotFound, "the executor has no lines of the log")
}

// before adds earlier lines to the last page, until missing returns 0.
func (r *reader) before(ctx context.Context, last page, missing func(page) int) page {
	for n := 0; last.from > 1; {
		want := missing(last)
		if want <= 0 {
			break
		}
		n = max(n*4, want)
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

// between reads from a line until the start of the last page.
func (r *reader) between(ctx context.Context, from int, last page) (page, bool) {
	text := ""
	for at := from; ; {
		if r.spent() || len(text) > answerBytes {
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
			rest := last.text
			for n := at - last.from; n > 0 && rest != ""; n-- {
				_, rest, _ = strings.Cut(rest, "\n")
			}
			return page{text + rest, from, last.next}, true
		}
	}
}

// keptOf keeps the last bytes of a page, from the start of a line if there is one.
func keptOf(p page, more bool) (core.KeptLog, error) {
	text := printable(p.text)
	k := core.KeptLog{From: p.from, More: more}
	if over := len(text) - core.KeptLogMax; over > 0 {
		cut := over
		if text[over-1] != '\n' {
			if i := strings.IndexByte(text[over:], '\n'); i >= 0 && over+i+1 < len(text) {
				cut = over + i + 1
			} else { // only the last line, which is longer
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

// Text returns the decompressed text of a kept log.
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
		err = errors.New("it exceeds the maximum length")
	}
	return "", fmt.Errorf("read the kept log of run %d: %w", k.Run, err)
}

// printable replaces invalid UTF-8, and control characters except tabs and line ends.
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
	last, _ := LastLines(strings.TrimRight(s, "\n"), n)
	return last
}
