package wirehttp

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// readResponse reads one HTTP/1 response to a POST and appends its body, of at most `most` bytes, to dst. status is 0 until the
// head was read completely; a later error leaves it set. reuse reports whether the connection can carry another request. br must
// have a buffer of lineBuffer bytes. If date is not nil, it receives the Date header.
//
// It supports the responses of executors and rejects others: it keeps no trailers and offers no content coding except identity. A
// head that net/http and this parser could read differently (folded lines, contradicting lengths, unknown transfer codings) is
// malformed.
func readResponse(br *bufio.Reader, dst []byte, most int, cut bool, date *time.Time) (status int, body []byte, reuse bool, err error) {
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
	switch {
	case h.status == 204 || h.status == 304:
		return h.status, dst, h.reuse, nil
	case h.chunked:
		dst, err = readChunked(br, dst, most, cut)
	case h.length > int64(most):
		if cut {
			dst, err = readN(br, dst, most)
		}
		err = cmp.Or(err, ErrTooLarge)
	case h.length >= 0:
		dst, err = readN(br, dst, int(h.length))
	default:
		h.reuse = false
		dst, err = readToEnd(br, dst, most)
	}
	if err != nil {
		return h.status, dst, false, err
	}
	return h.status, dst, h.reuse, nil
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
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' || len(line) > 12 &&
		line[12] != ' ' {
		return h, malformed("the status line is not HTTP/1")
	}
	old := line[7] == '0'
	h.reuse = !old
	for _, c := range line[9:12] {
		if c -= '0'; c > 9 {
			return h, malformed("the status is not a number")
		} else {
			h.status = h.status*10 + int(c)
		}
	}
	if h.status < 100 {
		return h, malformed("the status is below 100")
	}
	h.length = -1
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
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || line[0] == ' ' || line[0] == '\t' || line[colon-1] == ' ' || line[colon-1] == '\t' {
			return h, malformed("a header line has no name or is folded")
		}
		name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
		switch {
		case fold(name, "content-length"):
			n, ok := length(value)
			if !ok || h.length >= 0 && h.length != n {
				return h, malformed("Content-Length")
			}
			h.length = n
		case fold(name, "transfer-encoding"):
			if h.chunked || old || !fold(value, "chunked") {
				return h, malformed("Transfer-Encoding is not chunked, is set twice, or is used in HTTP/1.0")
			}
			h.chunked = true
		case date != nil && fold(name, "date"):
			*date = dateOf(string(value))
		case fold(name, "connection"):
			for _, token := range bytes.Split(value, []byte(",")) {
				if fold(bytes.Trim(token, " \t"), "close") {
					h.reuse = false
				}
			}
		}
	}
}

// dateOf reads a Date; zero: it is none.
func dateOf(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// fold compares b with a lower-case word, ignoring the case of ASCII letters.
func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func length(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c -= '0'; c > 9 {
			return 0, false
		} else {
			n = n*10 + int64(c)
		}
	}
	return n, true
}

// readLine takes one line without its end. It is valid until the next read.
func readLine(br *bufio.Reader, left *int) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if *left -= len(line); *left < 0 || errors.Is(err, bufio.ErrBufferFull) {
		return nil, malformed("the head is too large")
	}
	if err != nil {
		return nil, noEOF(err)
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readN appends n bytes. It reserves no more at once than it has seen, so that
// a response cannot claim memory that it does not fill.
func readN(br *bufio.Reader, dst []byte, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, 64<<10)
		at := len(dst)
		if cap(dst)-at < step {
			dst = append(dst, make([]byte, step)...)[:at]
		}
		if _, err := io.ReadFull(br, dst[at:at+step]); err != nil {
			return dst, noEOF(err)
		}
		dst = dst[:at+step]
		n -= step
	}
	return dst, nil
}

func readToEnd(br *bufio.Reader, dst []byte, most int) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := br.Read(dst[len(dst):cap(dst)])
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

func readChunked(br *bufio.Reader, dst []byte, most int, cut bool) ([]byte, error) {
	// The lines around the chunks count against the same kind of bound as the
	// head, so that a stream of tiny chunks ends.
	left := maxHead + most
	for total := 0; ; {
		line, err := readLine(br, &left)
		if err != nil {
			return dst, err
		}
		if i := bytes.IndexByte(line, ';'); i >= 0 {
			line = line[:i]
		}
		size, ok := chunkSize(bytes.TrimRight(line, " \t"))
		if !ok {
			return dst, malformed("a chunk without size")
		}
		if size == 0 {
			break
		}
		if total += size; total > most || size > most {
			if cut {
				dst, err = readN(br, dst, min(size, most-(total-size)))
			}
			return dst, cmp.Or(err, ErrTooLarge)
		}
		if dst, err = readN(br, dst, size); err != nil {
			return dst, err
		}
		if line, err = readLine(br, &left); err != nil {
			return dst, err
		}
		if len(line) != 0 {
			return dst, malformed("a chunk longer than its size")
		}
	}
	for {
		line, err := readLine(br, &left)
		if err != nil {
			return dst, err
		}
		if len(line) == 0 {
			return dst, nil
		}
	}
}

func chunkSize(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 7 {
		return 0, false
	}
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		n = n<<4 | int(c)
	}
	return n, true
}
