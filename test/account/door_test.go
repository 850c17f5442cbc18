package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestDoor: each fault affects a queue at its configured rate, and the caller gets the same errors as from AWS.
func TestDoor(t *testing.T) {
	const send, fires = "AmazonSQS.SendMessageBatch", "http://emulator/000000000000/Tickring-fires"
	var reached atomic.Int64
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	defer to.Close()
	d, err := newFaultProxy(to.URL, "Tickring-counter")
	check.OK(t, err)
	defer d.server.Close()
	ask := func(target, queue string) (status int, err error) {
		body := fmt.Sprintf(`{"QueueUrl":%q}`, queue)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.at, strings.NewReader(body))
		check.OK(t, err)
		r.Header.Set("X-Amz-Target", target)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode == http.StatusOK && string(b) != body {
			t.Errorf("it forwards %s, not %s", b, body)
		}
		return resp.StatusCode, nil
	}
	for _, c := range []struct {
		f             fault
		target, queue string
		reached       int64
		status        int // 0: the connection breaks
	}{
		{fault{}, send, fires, 1, 200},
		{fault{throttled: 1}, send, fires, 0, 400},
		{fault{lost: 1}, send, fires, 1, 0},
		{fault{doubled: true}, send, fires, 2, 200},
		{fault{doubled: true}, "AmazonSQS.SendMessage", fires, 2, 200},
		{fault{doubled: true}, "AmazonSQS.DeleteMessageBatch", fires, 1, 200},
		{fault{doubled: true}, send, "http://emulator/000000000000/Tickring-counter-work", 1, 200},
		{fault{}, send, fires, 1, 200},
	} {
		d.fault.Store(&c.f)
		reached.Store(0)
		status, err := ask(c.target, c.queue)
		if status != c.status || (err != nil) != (c.status == 0) || reached.Load() != c.reached {
			t.Errorf("%+v %s %s: status %d (%v), reached %d times", c.f, c.target, c.queue, status, err, reached.Load())
		}
	}
	d.fault.Store(&fault{throttled: 0.5})
	reached.Store(0)
	for range 200 {
		check.Call(t)(ask(send, fires))
	}
	if n := reached.Load(); n < 50 || n > 150 {
		t.Errorf("%d of 200 requests reached the queue while half were throttled", n)
	}
}

type suffering struct {
	place
	faults []fault
}

func (s *suffering) suffer(_ context.Context, f fault) error {
	if s.faults = append(s.faults, f); f.doubled {
		return errNotHere
	}
	return nil
}

// TestFaultsEnd: a fault ends after a minute, or with an interrupt.
func TestFaultsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted, cancel := context.WithCancel(t.Context())
		cancel()
		for _, c := range []struct {
			ctx  context.Context
			took time.Duration
		}{{t.Context(), time.Minute}, {interrupted, 0}} {
			s := &suffering{}
			began := time.Now()
			err := (&proof{place: s}).suffers(fault{lost: 1})(c.ctx)
			if took := time.Since(began); err != nil || took != c.took || len(s.faults) != 2 || s.faults[1] != (fault{}) {
				t.Errorf("after %s: %+v, %v", took, s.faults, err)
			}
		}
		s := &suffering{}
		if err := (&proof{place: s}).suffers(fault{doubled: true})(t.Context()); !errors.Is(err, errNotHere) || len(s.faults) != 1 {
			t.Errorf("a fault that cannot be: %+v, %v", s.faults, err)
		}
	})
}
