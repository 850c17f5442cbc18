package wirehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// Unproven returns an error for a call that was sent and got no reply of the protocol. Its text is, for example, "no answer
// within 3 s", "closed the connection", "answered with HTML", or "HTTP 500: " and the first line of the body. The parameter
// status is the HTTP status; 0 if no response arrived. The parameter err is why the response could not be read completely. The
// result wraps it.
func Unproven(status int, body []byte, err error, within time.Duration) error {
	text, _, _ := bytes.Cut(bytes.TrimSpace(body), []byte("\n"))
	var said string
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return &unproven{"no answer within " + seconds(within), errors.Join(err, context.DeadlineExceeded)}
	case closes(err) && status == 0:
		return &unproven{"closed the connection", err}
	case closes(err):
		return &unproven{fmt.Sprintf("HTTP %d, then closed the connection", status), err}
	case err != nil:
		return err
	case len(text) > 0 && text[0] == '<':
		said = "answered with HTML"
	case len(text) > 0:
		said = strings.ToValidUTF8(string(text[:min(len(text), mostSaid)]), "")
	case status >= 200 && status <= 299:
		said = "an empty answer"
	}
	switch {
	case said == "answered with HTML" && status == 200:
	case said == "":
		said = fmt.Sprintf("HTTP %d", status)
	default:
		said = fmt.Sprintf("HTTP %d: %s", status, said)
	}
	return errors.New(said)
}

// mostSaid is how many bytes of a body are repeated.
const mostSaid = 150

type unproven struct {
	text string
	err  error
}

func (u *unproven) Error() string { return u.text }
func (u *unproven) Unwrap() error { return u.err }

func closes(err error) bool {
	for _, c := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

func seconds(d time.Duration) string {
	if d = d.Round(100 * time.Millisecond); d < time.Second {
		return d.String()
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}
