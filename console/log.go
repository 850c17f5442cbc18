package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

// Limits of one answer with a log.
const (
	logPage   = 1000             // lines of a page without its script
	logWithin = time.Second      // if an executor is slower, the page is sent and its script continues
	logFoot   = 3 * time.Second  // for the last lines, for which no page waits
	logLoad   = 5 * time.Minute  // a download
	logBytes  = 64 << 20         // bytes of a download
	logBrief  = 20 * time.Second // a download from a function, which answers within 29 s
	logSmall  = 4 << 20          // bytes of such a download: a function answers at most 6 MB, and base64 can add a third
	logAnswer = 20 * time.Second // a piece for the script
)

type logPiece struct {
	From  int      `json:"from"` // number of the first line
	Lines []string `json:"lines"`
	Next  int      `json:"next"` // number of the line to continue with
	End   bool     `json:"end"`  // whether the log has no further lines
	Note  string   `json:"note,omitempty"`
	// Broken reports whether the rest of the log could not be read. Note has the error.
	Broken bool `json:"broken,omitempty"`
}

type logLine struct {
	N    int
	Text string
	Tone string
}

type logData struct {
	Run      client.Run
	Lines    []logLine
	Note     string
	Last     bool   // whether only the last lines are shown, as on the page of a run
	From     int    // number of the first line that the page's script requests
	Tail     bool   // whether to show a link to the last lines
	NextURL  string // URL of the next page of lines
	Open     bool
	Wrap     bool
	Find     string
	LinesURL string
	Page     string // page that line numbers link to; empty: this page
}

// logShown shows a page of a log; with last=N, the last N lines.
func (a *ask) logShown() (any, error) {
	r := must.Get(a.GetRun(a.Ctx(), a.Path("run")))
	d := &logData{Run: r, Open: core.State(r.State).Open(), Wrap: a.Q("wrap") != "", Find: core.Truncate(a.Q("find")),
		LinesURL: a.RunPath(r.ID) + "/log/lines"}
	from, last := atLeast(a.r.URL.Query(), "from", 1), atLeast(a.r.URL.Query(), "last", 0)
	d.Last = last > 0
	within := logWithin
	if d.Last {
		within = logFoot
	}
	ctx, cancel := context.WithTimeout(a.Ctx(), within)
	defer cancel()
	var piece logPiece
	switch {
	case d.Last:
		d.Page = a.RunPath(r.ID) + "/log"
		piece = a.logPiece(ctx, &r, 1, min(last, logPage))
		if !d.Open && !piece.End && len(piece.Lines) > 0 { // it broke off
			piece.Note = a.logPiece(ctx, &r, piece.Next, 0).Note
		}
	case a.Q("tail") != "":
		piece = a.logPiece(ctx, &r, 1, logPage)
		d.From = piece.From
	default:
		piece = a.logPiece(ctx, &r, from, 0)
		d.From = from
		if len(piece.Lines) > logPage {
			piece.Lines, piece.End = piece.Lines[:logPage], false
			piece.Next = piece.From + logPage
		}
	}
	d.Note = piece.Note
	for i, text := range piece.Lines {
		d.Lines = append(d.Lines, logLine{N: piece.From + i, Text: text, Tone: toneOf(text)})
	}
	if d.Tail = a.Q("tail") == ""; d.Tail && !piece.End && len(piece.Lines) > 0 && !d.Last {
		d.NextURL = a.With("from", strconv.Itoa(piece.Next))
	}
	return d, nil
}

// atLeast parses a whole number of the query; the default is least.
func atLeast(q url.Values, name string, least int) int {
	given := q.Get(name)
	if given == "" {
		return least
	}
	n, err := strconv.ParseInt(given, 10, 32)
	if err != nil || int(n) < least {
		must.Do(core.Invalid(name, given, "must be a whole number, %d or more", least))
	}
	return int(n)
}

// logPiece returns a piece of a log from a line on, or its last lines (tail). If there is none, the note has the
// reason.
func (a *ask) logPiece(ctx context.Context, r *client.Run, from, tail int) logPiece {
	p := logPiece{From: from, Next: from, Lines: []string{}}
	open, unsent := core.State(r.State).Open(), r.SentAt.IsZero()
	if unsent && !open {
		p.End, p.Note = true, a.Say("No log: this run was never sent.")
		return p
	}
	var log client.Log
	var err error
	if !unsent {
		log, err = a.GetLog(ctx, r.ID, client.GetLogParams{From: from, Tail: tail})
	}
	switch {
	case ctx.Err() != nil:
		p.Broken, p.Note = true, a.Say("The executor did not return the log in time. Refresh the page to try again.")
	case open && from == 1 && status(err) == http.StatusNotFound, // a function's log does not exist before its first line
		err == nil && open && log.Next <= 1:
		p.Note = a.Say("No log lines yet: the run has not started on its executor, or wrote nothing.")
	case err != nil:
		p.End, p.Broken, p.Note = !open, true, a.problemOf(err).Message
	default:
		p.From, p.Next, p.End = max(log.From, from), max(log.Next, from), log.End
		if k := log.Kept; k != nil {
			p.Note, p.Broken = a.keptNote(k, r.Timezone), k.Why != ""
		}
		if log.Text != "" {
			p.Lines = strings.Split(strings.TrimSuffix(a.Plain(log.Text), "\n"), "\n")
		}
		p.End = p.End || len(p.Lines) == 0 && p.Next == from && !open
	}
	if p.Broken && from > 1 {
		p.Note = a.Say("The rest of the log is missing: %s", p.Note)
	}
	return p
}

// keptNote describes the saved part of a log, and why it is shown.
func (a *ask) keptNote(k *client.KeptLog, zone string) string {
	live := a.Line(k.Live)
	if k.Message {
		if k.More {
			return a.Say("This text is the saved message of the run, not a log, cut at %d characters: %s", core.MessageMax, live)
		}
		return a.Say("This text is the saved message of the run, not a log: %s", live)
	}
	if k.Why != "" {
		return a.Say("The log could not be saved (%s), and the executor did not return it: %s", k.Why, live)
	}
	at := a.Moment(k.At, zone)
	switch {
	case k.From > 1 && k.More:
		return a.Say("The executor did not return the log (%s). This part was saved at %s. Lines 1 to %d and the end are missing.", live, at,
			k.From-1)
	case k.From > 1:
		return a.Say("The executor did not return the log (%s). This part was saved at %s. Lines 1 to %d are missing.",
			live, at, k.From-1)
	case k.Cut > 0:
		return a.Say("The executor did not return the log (%s). This part was saved at %s. The first %d bytes are missing.",
			live, at, k.Cut)
	case k.More:
		return a.Say("The executor did not return the log (%s). This part was saved at %s. The end of the log is missing.", live, at)
	}
	return a.Say("The executor did not return the log (%s). This is the complete log, saved at %s.", live, at)
}

// logPieces returns the lines from a number on to the script.
func (a *ask) logPieces() error {
	ctx, cancel := context.WithTimeout(a.Ctx(), logAnswer)
	defer cancel()
	from := atLeast(a.r.URL.Query(), "from", 1)
	run := must.Get(a.GetRun(ctx, a.Path("run")))
	body := must.Get(json.Marshal(a.logPiece(ctx, &run, from, 0)))
	h := a.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	writeZipped(a.w, a.r, http.StatusOK, body)
	return nil
}

// logFile returns the log unchanged, as a file. If the log breaks off, the last line reports it.
func (a *ask) logFile() error {
	most, within := logBytes, logLoad
	if a.c.o.Writes == nil {
		most, within = logSmall, logBrief
	}
	ctx, cancel := context.WithTimeout(a.Ctx(), within)
	defer cancel()
	id := a.Path("run")
	log, err := a.GetLog(ctx, id, client.GetLogParams{From: 1})
	if err != nil && ctx.Err() != nil {
		return core.Errorf(core.CodeUnavailable, "the executor did not return the log in time: try again")
	}
	must.Get(log, err)
	rc := http.NewResponseController(a.w)
	h := a.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="run-%s.log"`, id))
	h.Set("Cache-Control", "no-store")
	for from, sent := 1, 0; ; {
		if err := rc.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil
		}
		n, err := io.WriteString(a.w, log.Text)
		if sent += n; err != nil || log.End || log.Next <= from {
			return nil
		}
		from = log.Next
		log, err = a.GetLog(ctx, id, client.GetLogParams{From: from})
		switch {
		case ctx.Err() != nil, err == nil && sent+len(log.Text) > most:
			fmt.Fprintf(a.w, "\n[%s]\n", a.Say("the log continues: a download ends after %d MB or %d seconds; full log: %s", most>>20,
				int(within.Seconds()), "tickring logs "+id))
			return nil
		case err != nil:
			fmt.Fprintf(a.w, "\n[%s]\n", a.Say("the rest is missing: %s", a.problemOf(err).Message))
			return nil
		}
	}
}

var (
	// escapes are terminal sequences for colors, cursor and title. They are removed.
	escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[ -/]*[0-~])")
	bad     = regexp.MustCompile(`\b(?:ERROR|FATAL|PANIC|SEVERE|CRITICAL)\b`)
	warn    = regexp.MustCompile(`\bWARN(?:ING)?\b`)
)

func toneOf(line string) string {
	if len(line) > 200 {
		line = line[:200]
	}
	switch {
	case bad.MatchString(line):
		return "t-fail"
	case warn.MatchString(line):
		return "t-late"
	}
	return ""
}

// Plain returns foreign text without terminal sequences. Control characters and characters that change the text
// direction are shown as escapes.
func (a *ask) Plain(s string) string {
	if !strings.ContainsFunc(s, odd) {
		return s
	}
	s = strings.ReplaceAll(escapes.ReplaceAllString(s, ""), "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case !odd(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func odd(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r == 0x2028 || r == 0x2029)
}

// LogText returns a log line with its line number, which links to the line on a page.
func (a *ask) LogText(l logLine, page string) template.HTML {
	return html(`<div id="L%d" class="%s"><a href="%s#L%d">%d</a><span>%s</span></div>`, l.N, l.Tone, page, l.N, l.N, l.Text)
}
