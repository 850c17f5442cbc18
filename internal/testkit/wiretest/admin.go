package wiretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/wire"
)

// Register registers the executor's address with the admins. The error is that
// of the last admin if none replied 200.
func (e *Executor) Register(ctx context.Context) error {
	return e.post(ctx, wire.PathRegistry, wire.AppendRegistration(nil, e.registration()))
}

// Deregister removes the executor's address.
func (e *Executor) Deregister(ctx context.Context) error {
	return e.post(ctx, wire.PathRegistryRemove, wire.AppendRegistration(nil, e.registration()))
}

func (e *Executor) registration() wire.Registration {
	return wire.Registration{Group: wire.GroupExecutor, App: e.opts.App, Address: e.URL()}
}

// Beat registers at once and then every interval (Java 30 s, Go 20 s) until
// StopBeating, Close, or the next Beat. Failures are not told: a real executor
// goes on too.
func (e *Executor) Beat(every time.Duration) {
	e.StopBeating()
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan struct{})
	e.mu.Lock()
	e.beating, e.beatDone = cancel, done
	e.mu.Unlock()
	e.wg.Go(func() {
		defer close(done)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			_ = e.Register(ctx)
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// StopBeating ends what Beat began, and waits for it. It does not deregister.
func (e *Executor) StopBeating() {
	e.mu.Lock()
	cancel, done := e.beating, e.beatDone
	e.beating, e.beatDone = nil, nil
	e.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

// Callback sends these items now, in one request, and gives the error of the
// last admin if none replied 200. It changes nothing of what the executor
// runs.
func (e *Executor) Callback(ctx context.Context, items ...wire.CallbackItem) error {
	return e.post(ctx, wire.PathCallback, wire.AppendCallback(nil, e.opts.Dialect, items))
}

// Flush waits until every result so far was sent once, whether it was taken or
// not. Nothing is sent while there is no admin.
func (e *Executor) Flush(ctx context.Context) error {
	return e.until(ctx, func() bool { return len(e.outbox) == 0 && !e.sending && e.later == 0 })
}

// Failed gives the results that no admin took. Java keeps them in a file and
// sends them again every 30 s; here Resend does. Go loses them.
func (e *Executor) Failed() []wire.CallbackItem {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.failed)
}

// Resend puts the results that no admin took back into the queue and waits
// until they were sent.
func (e *Executor) Resend(ctx context.Context) error {
	e.mu.Lock()
	e.outbox = append(e.failed, e.outbox...)
	e.failed = nil
	e.change()
	e.mu.Unlock()
	return e.Flush(ctx)
}

// send calls back what is in the outbox, in batches like the dialect's: the
// whole queue, at most 50 (D), or one (Go).
func (e *Executor) send() {
	for e.until(e.ctx, func() bool { return len(e.outbox) > 0 && len(e.admins) > 0 }) == nil {
		e.mu.Lock()
		n := len(e.outbox)
		switch e.opts.Dialect {
		case wire.DialectGo:
			n = min(n, 1)
		case wire.DialectD:
			n = min(n, 50)
		}
		batch := e.outbox[:n:n]
		e.outbox = e.outbox[n:]
		e.sending = true
		e.mu.Unlock()

		err := error(nil)
		if n > 0 { // Forget may have come in between
			err = e.Callback(e.ctx, batch...)
		}

		e.mu.Lock()
		e.sending = false
		if err != nil && e.opts.Dialect != wire.DialectGo {
			e.failed = append(e.failed, batch...)
		}
		e.change()
		e.mu.Unlock()
	}
}

// post sends a request to the admins in the manner of the dialect.
func (e *Executor) post(ctx context.Context, path string, body []byte) error {
	e.mu.Lock()
	admins := slices.Clone(e.admins)
	e.mu.Unlock()
	err := errors.New("wiretest: the executor has no admin")
	for _, base := range admins {
		if err = e.postTo(ctx, strings.TrimRight(base, "/")+path, body); err == nil || e.opts.Dialect == wire.DialectGo {
			break
		}
	}
	return err
}

func (e *Executor) postTo(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", wire.ContentType)
	if e.opts.Token != "" {
		req.Header.Set(wire.HeaderToken, e.opts.Token)
	}
	if e.opts.Dialect == wire.DialectD {
		req.Header.Set(wire.HeaderApp, e.opts.App)
	}
	res, err := e.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: HTTP %d: %.200s", url, res.StatusCode, b)
	}
	reply, err := wire.DecodeReply(b)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", url, err)
	case !reply.OK():
		return fmt.Errorf("%s: code %d: %s", url, reply.Code, reply.Msg)
	}
	return nil
}
