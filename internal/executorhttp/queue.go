package executorhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

// Queues serves executors that receive runs from queues. Each request must have the token of its app, as defined by
// the xxl-job protocol.
type Queues struct {
	Config
	Registry *registry.Registry
	Runs     store.Runs
	Finish   *finish.Finish
	Puller   *pullqueue.Puller // serves the server's own queues; nil: the queues are in SQS
}

// maxQueueBody bounds a request, in bytes.
const maxQueueBody = 64 << 10

// maxChecked is how many runs one request may ask about.
const maxChecked = 1000

// queueRequest is the body of every request; each path reads only some of the fields.
type queueRequest struct {
	App               string   `json:"app"`
	Queue             string   `json:"queue"`
	Max               int      `json:"max"`
	WaitSeconds       int      `json:"waitSeconds"`
	VisibilitySeconds int      `json:"visibilitySeconds"`
	Receipts          []string `json:"receipts"`
	Begin             []string `json:"begin"`
	Runs              []string `json:"runs"`
}

// A queueHandler returns the answer to a request of an app.
type queueHandler func(context.Context, *core.App, *queueRequest) (any, error)

// Serve adds the endpoint for the state of runs to the HTTP routes. If the server has its own queues, Serve also adds
// the endpoints of these queues.
func (d *Queues) Serve(mux *http.ServeMux) {
	room := wirehttp.NewRoom(heldLong, 0)
	handle := func(path string, f queueHandler) {
		mux.HandleFunc("POST "+path, d.noPage(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, room, f) }, refusePage))
	}
	handle("/v1/queue/runs", d.runs)
	if d.Puller == nil {
		return
	}
	handle("/v1/queue/receive", d.receive)
	handle("/v1/queue/extend", d.held(func(ctx context.Context, q store.PullQueue, list []store.Receipt, keep int) ([]pullqueue.State, error) {
		return d.Puller.Extend(ctx, q, list, seconds(keep))
	}))
	handle("/v1/queue/ack", d.held(func(ctx context.Context, q store.PullQueue, list []store.Receipt, _ int) ([]pullqueue.State, error) {
		return d.Puller.Ack(ctx, q, list)
	}))
}

func (d *Queues) serve(w http.ResponseWriter, r *http.Request, room *wirehttp.Room, f queueHandler) {
	token := r.Header.Get(wire.HeaderToken)
	var q queueRequest
	refuse := func(reason string, err error) {
		d.note(w, r, rejectlog.Refusal{Door: rejectlog.Queue, Reason: reason, App: q.App,
			Address: store.PullQueue{App: q.App, Name: q.Queue}.Address(),
			Why:     err.Error()})
		api.WriteError(w, r, d.Log, err)
	}
	if err := d.Tokens.Admit(r.Context(), "", token); err != nil {
		if within := d.Refused.Asks(); within > 0 { // for the trace alone
			b, _ := wirehttp.ReadBody(w, r, nil, wirehttp.MaxRegistration, within)
			_ = json.Unmarshal(b, &q)
		}
		reason := reasonOf(err)
		if reason == rejectlog.App {
			reason = rejectlog.Token
		}
		refuse(reason, err)
		return
	}
	leave, ok := room.Enter(r, token, maxQueueBody)
	if !ok {
		refuse(rejectlog.Busy, errNoRoom)
		return
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	b, err := wirehttp.ReadBody(w, r, nil, maxQueueBody, d.ReadFor)
	if err != nil {
		err = unread(err, core.Say("a request to a queue"), maxQueueBody)
		refuse(reasonOf(err), err)
		return
	}
	if err := json.Unmarshal(b, &q); err != nil {
		refuse(rejectlog.Invalid,
			core.Errorf(core.CodeInvalid,
				`the body is not a JSON request to a queue, such as {"app":"reports","queue":"nightly","max":1,"waitSeconds":20,"visibilitySeconds":60}`))
		return
	}
	app, err := d.Registry.Admit(r.Context(), q.App, token)
	if err != nil {
		refuse(reasonOf(err), err)
		return
	}
	if len(q.Receipts)+len(q.Begin)+len(q.Runs) == 0 {
		leave() // a poll, that waits with a few words
	}
	out, err := f(r.Context(), &app, &q)
	switch {
	case err != nil && r.Context().Err() != nil:
		return // the client of the poll is gone
	case err != nil:
		refuse(reasonOf(err), err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(out); err != nil {
		d.Log.Debug("answer of a queue not delivered", "app", app.Name, "queue", q.Queue, "err", err)
	}
}

// unread returns the error for a body that was not read.
func unread(err error, what core.Text, most int) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return core.Errorf(core.CodeTooLarge, "%s can have at most %d bytes", what, most)
	}
	return core.Errorf(core.CodeUnavailable, "%s did not arrive in time: send the request again", what)
}

// beat records that an executor polls a queue of the app.
func (d *Queues) beat(ctx context.Context, app *core.App, queue string) (store.PullQueue, error) {
	q := store.PullQueue{App: app.Name, Name: queue}
	return q, d.Registry.Polled(ctx, app, q.Address())
}

// handed is one run as it is handed out.
type handed struct {
	Receipt  string          `json:"receipt"`
	Receives int             `json:"receives"`
	Run      json.RawMessage `json:"run"`
}

func (d *Queues) receive(ctx context.Context, app *core.App, r *queueRequest) (any, error) {
	q, err := d.beat(ctx, app, r.Queue)
	if err != nil {
		return nil, err
	}
	held, err := d.Puller.Receive(ctx, q, pullqueue.Want{Max: r.Max, Wait: seconds(r.WaitSeconds), Visibility: seconds(r.VisibilitySeconds)})
	if err != nil {
		return nil, err
	}
	out := struct {
		Runs []handed `json:"runs"`
	}{make([]handed, len(held))}
	for i, h := range held {
		out.Runs[i] = handed{h.Receipt.String(), h.Receipt.N, h.Body}
	}
	return out, nil
}

// seconds returns n seconds, limited so that the duration does not overflow.
func seconds(n int) time.Duration { return time.Duration(min(max(n, -1), 1<<30)) * time.Second }

type states struct {
	States []pullqueue.State `json:"states"` // the states of the runs, in the order of the receipts in the request
}

// held returns the handler of a request about runs that an executor received.
func (d *Queues) held(
	change func(ctx context.Context, q store.PullQueue, list []store.Receipt, keep int) ([]pullqueue.State, error)) queueHandler {
	return func(ctx context.Context, app *core.App, r *queueRequest) (any, error) {
		q, err := d.beat(ctx, app, r.Queue)
		if err != nil {
			return nil, err
		}
		if len(r.Receipts) > pullqueue.MaxReceipts {
			return nil, core.Invalid("receipts", fmt.Sprint(len(r.Receipts)), "at most %d are allowed", pullqueue.MaxReceipts)
		}
		list := make([]store.Receipt, len(r.Receipts))
		for i, text := range r.Receipts {
			if list[i], err = pullqueue.ParseReceipt(text); err != nil {
				return nil, err
			}
		}
		s, err := change(ctx, q, list, r.VisibilitySeconds)
		return states{s}, err
	}
}

// stateUnknown is the state of another app's run: the caller must not touch it.
const stateUnknown pullqueue.State = "unknown"

// runs returns for runs that are about to begin, or are running, whether they may. A run that
// was killed before it begins is ended here. If the request names a queue, it is a sign of life
// of that queue's executor.
func (d *Queues) runs(ctx context.Context, app *core.App, r *queueRequest) (any, error) {
	if r.Queue != "" {
		if _, err := d.beat(ctx, app, r.Queue); err != nil {
			return nil, err
		}
	}
	if n := len(r.Begin) + len(r.Runs); n > maxChecked {
		return nil, core.Invalid("runs", fmt.Sprint(n), "at most %d at the same time are allowed", maxChecked)
	}
	ids := make([]core.RunID, 0, len(r.Begin)+len(r.Runs))
	for _, text := range slices.Concat(r.Begin, r.Runs) {
		id, err := core.ParseRunID(text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	out := struct {
		States map[string]pullqueue.State `json:"states"` // by run
	}{make(map[string]pullqueue.State, len(ids))}
	if len(ids) == 0 {
		return out, nil
	}
	found, err := store.Complete(d.Runs.Get(ctx, ids))
	if err != nil {
		return nil, core.Retryable(err)
	}
	for i, id := range ids {
		run := found[id]
		s := pullqueue.StateOf(run)
		switch {
		case run != nil && run.App != app.Name:
			s = stateUnknown
		case s == pullqueue.StateKilled && i < len(r.Begin):
			end := finish.Result{Run: id, State: core.Killed, Reason: core.ReasonPerson, Killed: true, Reported: true,
				Message: "killed before an executor began it"}
			if err := d.Finish.End(ctx, []finish.Result{end})[0]; err != nil {
				return nil, err
			}
			s = pullqueue.StateEnded
		}
		out.States[id.String()] = s
	}
	return out, nil
}
