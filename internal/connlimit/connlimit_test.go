package connlimit

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memlistener"
)

// TestConnsAreBounded: however many connections clients hold without a complete request, the
// next request is answered, and running answers are not interrupted. If all connections are
// being answered, the next one waits.
func TestConnsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	var told strings.Builder
	l := newConns(inner, 8, slog.New(slog.NewTextHandler(&told, nil)))
	begun, end := make(chan bool, 100), make(chan bool)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		if r.URL.Path == "/long" {
			begun <- true
			<-end
		}
		io.WriteString(w, r.URL.Path)
	})}
	l.patience = time.Millisecond
	l.watch(srv)
	var serving sync.WaitGroup
	serving.Go(func() { srv.Serve(l) })
	defer serving.Wait()
	defer srv.Close()

	// dial opens a connection and writes to it.
	dial := func(says string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err == nil {
			_, err = io.WriteString(c, says)
		}
		check.OK(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	answer := func(c net.Conn, want string) error {
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(resp.Body)
		if err == nil && string(b) != want {
			err = fmt.Errorf("it is %q", b)
		}
		return err
	}
	const get = "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
	const post = "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"

	long := []net.Conn{dial(fmt.Sprintf(get, "long")), dial(fmt.Sprintf(post, "long") + "12345")}
	<-begun
	<-begun
	for _, says := range []string{"", "GET /", "GET /x HTTP/1.1\r\nHost: x\r\nX: ", fmt.Sprintf(post, "x") + "123"} {
		for range 20 {
			dial(says)
		}
		if err := answer(dial(fmt.Sprintf(get, "quick")), "/quick"); err != nil {
			t.Errorf("beside unknown clients that send %q: %v", says, err)
		}
	}
	for range 6 {
		long = append(long, dial(fmt.Sprintf(get, "long")))
		<-begun
	}
	waits := dial(fmt.Sprintf(get, "waits"))
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	if open > 8 {
		t.Errorf("%d connections are open", open)
	}
	end <- true // of one of them
	if err := answer(waits, "/waits"); err != nil {
		t.Errorf("when one was answered: %v", err)
	}
	close(end)
	for i, c := range long {
		if err := answer(c, "/long"); err != nil {
			t.Errorf("long request %d: %v", i, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := strings.Count(told.String(), "connection limit reached"); n != 1 || !strings.Contains(told.String(), "most=8") {
		t.Errorf("it was logged %d times:\n%s", n, &told)
	}
}

// TestRestOfBodyIsNotAwaited: a request that is rejected before its body was read is answered after a second at
// most, and its connection is closed if the body has not arrived; else it stays open.
func TestRestOfBodyIsNotAwaited(t *testing.T) {
	for body, after := range map[string]time.Duration{"": time.Second, "12345": 0} {
		synctest.Test(t, func(t *testing.T) {
			inner := memlistener.Listen()
			srv := &http.Server{ReadTimeout: time.Minute,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) })}
			l := Listen(inner, 4, srv, slog.New(slog.DiscardHandler))
			var serving sync.WaitGroup
			serving.Go(func() { srv.Serve(l) })
			defer serving.Wait()
			defer srv.Close()
			here, began := inner.Dial(), time.Now()
			defer here.Close()
			go io.WriteString(here, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"+body)
			res, err := http.ReadResponse(bufio.NewReader(here), nil)
			if err != nil || res.StatusCode != http.StatusForbidden || time.Since(began) != after || res.Close != (body == "") {
				t.Errorf("%q: after %v: %+v, %v", body, time.Since(began), res, err)
			}
		})
	}
}

func TestMost(t *testing.T) {
	for of, want := range map[uint64]int{0: 8192, 1: 1, 600: 300, 1024: 512, 1 << 20: 8192, 1<<64 - 1: 8192} {
		check.Equal(t, mostOf(of), want, "of %d descriptors N connections", of)
	}
}

// bubble serves answers of a number of bytes, with room for four connections. ask opens one and
// sends a request; take reads the answer, some of it each time.
func bubble(t *testing.T, long int, do func(inner memlistener.Listener, ask func() net.Conn, take func(net.Conn, time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		inner := memlistener.Listen()
		l := newConns(inner, 4, slog.New(slog.DiscardHandler))
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, long)) })}
		l.watch(srv)
		var serving sync.WaitGroup
		serving.Go(func() { srv.Serve(l) })
		defer serving.Wait()
		defer srv.Close()
		ask := func() net.Conn {
			here := inner.Dial()
			io.WriteString(here, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			return here
		}
		take := func(c net.Conn, every time.Duration) {
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Errorf("taking some each %v: %v", every, err)
				return
			}
			n := 0
			for err == nil {
				time.Sleep(every)
				var m int
				m, err = io.ReadFull(resp.Body, make([]byte, 8<<10))
				n += m
			}
			if n != long {
				t.Errorf("taking some each %v: %d bytes: %v", every, n, err)
			}
		}
		do(inner, ask, take)
	})
}

// TestWhoTakesNoAnswerMakesRoom: clients that ask and read nothing hold no connection for long
// if others want it; a client that reads a long answer slowly gets all of it.
func TestWhoTakesNoAnswerMakesRoom(t *testing.T) {
	bubble(t, 200<<10, func(_ memlistener.Listener, ask func() net.Conn, take func(net.Conn, time.Duration)) {
		var taking sync.WaitGroup
		slow := ask()
		taking.Go(func() {
			take(slow, time.Second)
			slow.Close()
		})
		for range 3 {
			defer ask().Close()
		}
		for i := range 3 {
			began := time.Now()
			c := ask()
			take(c, 0)
			c.Close()
			if d := time.Since(began); d > 6*time.Second {
				t.Errorf("request %d beside clients that read nothing: after %v", i, d)
			}
		}
		taking.Wait()
	})
}

// TestWhoAsksOnAndOnMakesRoom: a connection that has had an answer makes room for others
// though its next request is there already.
func TestWhoAsksOnAndOnMakesRoom(t *testing.T) {
	bubble(t, 200<<10, func(inner memlistener.Listener, ask func() net.Conn, take func(net.Conn, time.Duration)) {
		var asking sync.WaitGroup
		var all []net.Conn
		for range 4 {
			c := inner.Dial()
			all = append(all, c)
			asking.Go(func() {
				for err := error(nil); err == nil; {
					_, err = io.WriteString(c, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 100))
				}
			})
			asking.Go(func() {
				for err := error(nil); err == nil; {
					time.Sleep(10 * time.Millisecond)
					_, err = c.Read(make([]byte, 8<<10))
				}
			})
		}
		time.Sleep(3 * time.Second)
		for range 4 {
			began := time.Now()
			c := ask()
			all = append(all, c)
			take(c, 0)
			if d := time.Since(began); d > time.Second {
				t.Errorf("it waits %v", d)
			}
		}
		for _, c := range all {
			c.Close()
		}
		asking.Wait()
	})
}

// TestWhoIsSilentHoldsUpNobody: while a connection without a request has its time, one
// between two requests makes room; afterwards the silent one goes first.
func TestWhoIsSilentHoldsUpNobody(t *testing.T) {
	bubble(t, 1, func(inner memlistener.Listener, ask func() net.Conn, take func(net.Conn, time.Duration)) {
		come := func() net.Conn {
			began := time.Now()
			c := ask()
			take(c, 0)
			check.Equal(t, time.Since(began), 0, "it waits")
			synctest.Wait() // until the server too is done with it
			return c
		}
		gone := func(c net.Conn) bool {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			return err == io.EOF
		}
		var all []net.Conn
		for range 3 {
			all = append(all, come())
		}
		time.Sleep(2 * time.Second)
		silent := inner.Dial()
		synctest.Wait()
		for range 2 {
			all = append(all, come())
			time.Sleep(2 * time.Second)
		}
		if !gone(all[0]) || !gone(silent) || gone(all[1]) || gone(all[2]) {
			t.Error("others made room than the oldest between two requests, and then the silent one")
		}
		for _, c := range append(all, silent) {
			c.Close()
		}
	})
}
