//go:build unix && !darwin

package mail_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/test/mailbox"
)

// bad listens on a port of this machine, and runs talk on the first connection. The test fails if the sender leaves the connection
// open.
func bad(t *testing.T, talk func(net.Conn)) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		talk(c)
		_, err = io.Copy(io.Discard, c)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil // closed, or reset
		}
		ended <- err
	}()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; err != nil {
			t.Errorf("the connection was not closed: %v", err)
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// says answers each command by its first word, and closes the connection if it has no answer.
func says(answers map[string]string) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, "220 at your service\r\n")
		for r := bufio.NewReader(c); ; {
			command, err := r.ReadString('\n')
			if err != nil {
				return
			}
			word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(command)), " ")
			answer, ok := answers[word]
			if word == "DATA" && strings.HasPrefix(answer, "354") {
				io.WriteString(c, answer)
				for command != ".\r\n" {
					if command, err = r.ReadString('\n'); err != nil {
						return
					}
				}
				answer, ok = answers["."]
			}
			if !ok {
				c.Close()
				return
			}
			io.WriteString(c, answer)
			if word == "STARTTLS" {
				return // TLS follows
			}
		}
	}
}

// and is answers with others in their place; an empty one is silence.
func and(change ...string) map[string]string {
	m := map[string]string{"EHLO": "250 hello\r\n", "HELO": "250 hello\r\n", "MAIL": "250 ok\r\n", "RCPT": "250 ok\r\n",
		"DATA": "354 go on\r\n", ".": "250 taken\r\n", "QUIT": "221 bye\r\n"}
	for i := 0; i < len(change); i += 2 {
		m[change[i]] = change[i+1]
	}
	return m
}

func without(word string) map[string]string {
	m := and()
	delete(m, word)
	return m
}

// endless sends a text again and again, each so often.
func endless(text string, each time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		for _, err := io.WriteString(c, text); err == nil; _, err = io.WriteString(c, text) {
			time.Sleep(each)
		}
	}
}

// TestBadServers: a bad server costs at most the time limit of one message, and leaves no connection open. The error explains the
// problem, and is temporary if a retry can help.
func TestBadServers(t *testing.T) {
	texts := golden.New(t)
	const again, never, arrives, slow = "temporary", "permanent", "arrives", "temporary, after the time limit"
	for _, c := range []struct {
		name string
		tls  core.SMTPTLS
		talk func(net.Conn)
		end  string
	}{
		{"one that is good", core.TLSNone, says(and()), arrives},
		{"silent at once", core.TLSNone, func(net.Conn) {}, slow},
		{"silent before TLS", core.TLSImplicit, func(net.Conn) {}, slow},
		{"silent after STARTTLS", core.TLSStart, says(and("EHLO", "250-hello\r\n250 STARTTLS\r\n", "STARTTLS", "220 go on\r\n")), slow},
		{"silent to EHLO", core.TLSNone, says(and("EHLO", "")), slow},
		{"silent to DATA", core.TLSNone, says(and("DATA", "")), again},
		{"silent after the letter", core.TLSNone, says(and(".", "")), again},
		{"silent to QUIT", core.TLSNone, says(and("QUIT", "")), arrives},
		{"a byte now and then", core.TLSNone, endless("2", 10*time.Millisecond), slow},
		{"a line now and then", core.TLSNone, endless("220-wait\r\n", 10*time.Millisecond), slow},
		{"a greeting without end", core.TLSNone, endless(strings.Repeat("220-welcome to my home\r\n", 1000), 0), again},
		{"a line without end", core.TLSNone, endless(strings.Repeat("welcome ", 1000), 0), again},
		{"another protocol", core.TLSNone, func(c net.Conn) { io.WriteString(c, "HELLO\r\n") }, again},
		{"a web server", core.TLSNone, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, again},
		{"no TLS where TLS begins", core.TLSImplicit, func(c net.Conn) { io.WriteString(c, "220 at your service\r\n") }, never},
		{"busy", core.TLSNone, func(c net.Conn) { io.WriteString(c, "421 come back\r\n") }, again},
		{"closed for you", core.TLSNone, func(c net.Conn) { io.WriteString(c, "554 go away\r\n") }, never},
		{"closes at once", core.TLSNone, func(c net.Conn) { c.Close() }, again},
		{"closes at EHLO", core.TLSNone, says(map[string]string{}), again},
		{"closes at RCPT", core.TLSNone, says(without("RCPT")), again},
		{"closes at DATA", core.TLSNone, says(without("DATA")), again},
		{"closes after the letter", core.TLSNone, says(without(".")), again},
		{"closes at QUIT", core.TLSNone, says(without("QUIT")), arrives},
		{"full", core.TLSNone, says(and(".", "452 no room\r\n")), again},
		{"strict", core.TLSNone, says(and(".", "554-it looks\r\n554 like spam\r\n")), never},
		{"who are you", core.TLSNone, says(and("MAIL", "553 not from here\r\n")), never},
		{"asks for no user", core.TLSImplicit, nil, never},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout, port := 300*time.Millisecond, 0
			if c.talk != nil {
				port = bad(t, c.talk)
			} else {
				timeout, port = 0, (&mailbox.Server{}).Start(t, c.tls, trusted).Port
			}
			if c.end != slow { // a busy machine may not get that far
				timeout = 3 * time.Second
			}
			began := time.Now()
			u := send(t, channel(port, c.tls, core.English), failed(), timeout)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			if c.end == arrives && u == nil {
				return
			}
			if u == nil || c.end == arrives || u.Permanent != (c.end == never) || len(u.Reason) > 1000 {
				t.Fatalf("%+v; want %s", u, c.end)
			}
			if c.end == slow { // at any step
				u.Reason = u.Reason[strings.LastIndex(u.Reason, ": ")+2:]
			}
			texts.Equal(t, c.name, u.Reason, strconv.Itoa(port), "PORT")
		})
	}
}
