package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/tickring/tickring/core"
)

// watchFlags are the flags of commands that can repeat their output.
type watchFlags struct {
	Watch    bool          `short:"w" help:"Refresh the output until Ctrl-C. On a terminal, the new output replaces the old; elsewhere, it is printed after each change."`
	Interval time.Duration `default:"2s" placeholder:"SPAN" help:"Time between two refreshes with --watch: 500ms to 1h (default: 2s)."`
}

// run shows what once prints: once, or until the command is interrupted. A server that
// does not answer for a while is asked again; but it must have answered before.
func (w *watchFlags) run(e *conn, once func(e *conn) error) error {
	if w.Interval < 500*time.Millisecond || w.Interval > time.Hour {
		return core.Invalid("interval", core.FormatDuration(w.Interval), "allowed values: 500ms to 1h")
	}
	if !w.Watch {
		return once(e)
	}
	s := screen{e: e.Env, every: w.Interval, inPlace: terminal(e.Stdout) && e.Output == "text"}
	for first := true; ; first = false {
		out, notes, err := e.record(s.inPlace, once)
		said := err == nil || err.Error() == "" // its notes contain the error
		switch {
		case e.Ctx.Err() != nil:
			return nil
		case said:
			s.show(out, notes)
		case first || exitOf(err) != exitFailed:
			return err
		default:
			s.away(err)
		}
		if !e.wait(w.Interval) {
			return nil
		}
	}
}

// record returns what once writes to stdout and to stderr.
func (e *conn) record(inPlace bool, once func(e *conn) error) (out, notes string, err error) {
	env := *e.Env
	var text, beside bytes.Buffer
	env.Stdout, env.Stderr, env.still = &text, &beside, !inPlace
	if f, ok := e.Stdout.(interface{ Fd() uintptr }); ok && inPlace {
		env.Stdout = &page{&text, f.Fd()}
	}
	err = once(&conn{&env, e.Client})
	return text.String(), beside.String(), err
}

// page buffers output for a terminal. It has the terminal's descriptor, so commands format for a terminal.
type page struct {
	*bytes.Buffer
	fd uintptr
}

func (p *page) Fd() uintptr { return p.fd }

// screen shows the output of a watch.
type screen struct {
	e       *Env
	every   time.Duration
	inPlace bool
	lines   int    // currently on the terminal
	out     string // shown last
	notes   string
	gone    time.Time // since when there is no answer
}

func (s *screen) show(out, notes string) {
	if !s.inPlace {
		if !s.gone.IsZero() {
			s.e.notef("the server answers again, after %s\n", span(time.Since(s.gone)))
		}
		if notes != s.notes {
			io.WriteString(s.e.Stderr, notes)
		}
		if out != s.out {
			if s.out != "" && s.e.Output == "text" {
				out = "\n" + out
			}
			io.WriteString(s.e.Stdout, out)
			out = strings.TrimPrefix(out, "\n")
		}
	}
	s.out, s.notes, s.gone = out, notes, time.Time{}
	s.draw(fmt.Sprintf("every %s   %s   to stop: Ctrl-C", core.FormatDuration(s.every), s.e.full(time.Now().Truncate(time.Second), "")))
}

// away reports, once, that the server does not answer.
func (s *screen) away(err error) {
	if s.gone.IsZero() {
		s.gone = time.Now()
		if !s.inPlace {
			s.e.notef("%s\nretrying every %s\n", s.e.errorText(err), core.FormatDuration(s.every))
		}
	}
	s.draw(fmt.Sprintf("shown as of %s; the server has failed since: %s   retrying every %s", s.e.full(s.gone.Truncate(time.Second), ""),
		oneLine(firstLineOf(err.Error())), core.FormatDuration(s.every)))
}

// draw puts the picture in place of the one before, under a line on its state.
func (s *screen) draw(state string) {
	if !s.inPlace {
		return
	}
	_, height, err := term.GetSize(int(s.e.Stdout.(interface{ Fd() uintptr }).Fd()))
	if err != nil {
		height = 24
	}
	lines := strings.Split(strings.TrimSuffix(state+"\n"+s.notes+s.out, "\n"), "\n")
	if most := max(height-1, 2); len(lines) > most {
		lines = append(lines[:most-1], fmt.Sprintf("… %d more lines: make the window higher", len(lines)-most+1))
	}
	up := ""
	if s.lines > 0 {
		up = fmt.Sprintf("\x1b[%dA", s.lines)
	}
	// Lines that wrapped would be more than are counted.
	fmt.Fprintf(s.e.Stdout, "%s\r\x1b[J\x1b[?7l%s\n\x1b[?7h", up, strings.Join(lines, "\n"))
	s.lines = len(lines)
}
