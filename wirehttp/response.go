package wirehttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// Bounds of the head of a response.
const (
	lineBuffer = 4 << 10  // bytes of one line
	maxHead    = 32 << 10 // bytes of all lines
	maxInterim = 4        // 1xx responses before the real one
)

var (
	// ErrTooLarge means that a response exceeds its maximum size.
	ErrTooLarge  = errors.New("the response body is too large")
	errMalformed = errors.New("malformed HTTP response")
)

func malformed(what string) error { return fmt.Errorf("%w: %s", errMalformed, what) }

// readResponse reads one HTTP/1 response to a POST and appends its body to dst: at most `most` bytes; a longer body is ErrTooLarge.
// status is 0 until the head was read completely; a later error leaves it set. reuse reports whether the connection can carry
// another request. A line of the head must fit into the buffer of br. If date is not nil, it receives the Date header.
//
// It supports the responses of executors and rejects others: it keeps no trailers and offers no content coding except identity. A
// head that net/http and this parser could read differently (folded lines, contradicting lengths, unknown transfer codings) is
// malformed.
func readResponse(br *bufio.Reader, dst []byte, most int, date *time.Time) (status int, body []byte, reuse bool, err error) {
	h, err := readHead(br, date)
	for i := 0; err == nil && h.status < 200; i++ {
		if i == maxInterim || h.status == 101 {
			err = malformed("too many interim responses, or an interim response that switches protocols")
			break
		}
		h, err = readHead(br, date)
	}
	if err != nil {
		return 0, dst, false, err
	}
	start := len(dst)
	switch {
	case h.status == 204 || h.status == 304:
	case h.chunked:
		if dst, err = readToEnd(httputil.NewChunkedReader(br), dst, most); err == nil {
			err = skipTrailers(br)
		}
	case h.length >= 0:
		dst, err = readToEnd(io.LimitReader(br, h.length), dst, most)
		if err == nil && int64(len(dst)-start) < h.length {
			err = io.ErrUnexpectedEOF
		}
	default:
		h.reuse = false
		dst, err = readToEnd(br, dst, most)
	}
	return h.status, dst, h.reuse && err == nil, err
}

type head struct {
	status  int
	length  int64 // -1: unknown
	chunked bool
	reuse   bool
}

func readHead(br *bufio.Reader, date *time.Time) (h head, err error) {
	left := maxHead
	line, err := readLine(br, &left)
	if err != nil {
		return h, err
	}
	// HTTP/1.1 200 OK; the reason may be missing with its space.
	protocol, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	status, err := strconv.ParseUint(string(code), 10, 16)
	old := string(protocol) == "HTTP/1.0"
	if !old && string(protocol) != "HTTP/1.1" || len(code) != 3 || err != nil || status < 100 {
		return h, malformed("it does not begin with HTTP/1 and a status from 100 to 999")
	}
	h = head{status: int(status), length: -1, reuse: !old}
	for {
		line, err := readLine(br, &left)
		if err != nil {
			return h, err
		}
		if len(line) == 0 {
			if h.chunked && h.length >= 0 {
				// Allowed, but also how responses are smuggled: the chunks
				// count, and nothing after them does.
				h.length, h.reuse = -1, false
			}
			return h, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if len(name) == 0 || len(name) == len(line) || len(textproto.TrimBytes(name)) < len(name) {
			return h, malformed("a header line has no name or is folded")
		}
		if err := h.header(name, textproto.TrimBytes(value), old, date); err != nil {
			return h, err
		}
	}
}

func (h *head) header(name, value []byte, old bool, date *time.Time) error {
	switch {
	case equal(name, "Content-Length"):
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			return malformed("Content-Length")
		}
		h.length = int64(n)
	case equal(name, "Transfer-Encoding"):
		if h.chunked || old || !equal(value, "chunked") {
			return malformed("Transfer-Encoding is not chunked, is set twice, or is used in HTTP/1.0")
		}
		h.chunked = true
	case date != nil && equal(name, "Date"):
		*date = dateOf(string(value))
	case equal(name, "Connection"):
		for token := range bytes.SplitSeq(value, []byte(",")) {
			if equal(textproto.TrimBytes(token), "close") {
				h.reuse = false
			}
		}
	}
	return nil
}

// equal ignores the case of ASCII letters.
func equal(b []byte, word string) bool {
	return len(b) == len(word) && strings.EqualFold(string(b), word)
}

// dateOf reads a Date; zero: it is none.
func dateOf(text string) (t time.Time) {
	if text != "" {
		t, _ = http.ParseTime(text)
	}
	return t
}

// readLine takes one line without its end. It is valid until the next read.
func readLine(br *bufio.Reader, left *int) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if *left -= len(line); *left < 0 || errors.Is(err, bufio.ErrBufferFull) {
		return nil, malformed("the head is too large")
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), err
}

// skipTrailers reads the lines after the last chunk.
func skipTrailers(br *bufio.Reader) error {
	for left := maxHead; ; {
		if line, err := readLine(br, &left); err != nil || len(line) == 0 {
			return err
		}
	}
}

// readToEnd appends all that r has to dst. After `most` bytes, more is ErrTooLarge. It reserves no more at once than it has seen, so
// that a body cannot claim memory that it does not fill.
func readToEnd(r io.Reader, dst []byte, most int) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst)-start > most:
			return dst[:start+most], ErrTooLarge
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}
