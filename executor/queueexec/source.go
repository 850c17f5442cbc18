package queueexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/executor/internal/request"
	"github.com/tickring/tickring/wire"
)

// delivery is a run as received from the queue.
type delivery struct {
	id       string
	handle   string
	body     []byte
	receives int
	state    state
	got      time.Time // when it became hidden
}

// state is a server's answer about a run.
type state string

const (
	stateHeld    state = "held"    // continue
	stateLost    state = "lost"    // another process has it
	stateKilled  state = "killed"  // a user killed it
	stateEnded   state = "ended"   // it has ended
	stateUnknown state = "unknown" // it belongs to another app
)

// source is a queue.
type source interface {
	// receive waits up to 20 s for messages and returns at most most of them.
	receive(ctx context.Context, most int) ([]delivery, error)
	// hide hides a message for d from now on (0 shows it) and returns whether its run must continue. An error proves nothing.
	hide(ctx context.Context, m delivery, d time.Duration) (state, error)
	remove(ctx context.Context, m delivery) error
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) }

// queued is an SQS queue. It asks the servers about the state of its runs.
type queued struct {
	o    *Options
	door *door
}

func (q *queued) receive(ctx context.Context, most int) ([]delivery, error) {
	out, err := q.o.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.o.Queue, MaxNumberOfMessages: int32(most), WaitTimeSeconds: 20, VisibilityTimeout: seconds(q.o.Visibility),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	})
	if err != nil {
		return nil, err
	}
	got := time.Now()
	list := make([]delivery, len(out.Messages))
	runs := make([]string, len(out.Messages))
	for i, m := range out.Messages {
		n, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		list[i] = delivery{id: aws.ToString(m.MessageId), handle: aws.ToString(m.ReceiptHandle), body: []byte(aws.ToString(m.Body)), receives: n,
			state: stateHeld, got: got}
		if r, err := wire.DecodeRun(list[i].body); err == nil {
			runs[i] = strconv.FormatInt(r.LogID, 10)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	known, err := q.door.ask(ctx, runs, nil)
	if err == nil {
		for i := range list {
			if s, ok := known[runs[i]]; ok {
				list[i].state = s
			}
		}
	}
	return list, nil
}

func (q *queued) hide(ctx context.Context, m delivery, d time.Duration) (state, error) {
	_, err := q.o.Client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &q.o.Queue, ReceiptHandle: &m.handle,
		VisibilityTimeout: seconds(d)})
	var gone *types.ReceiptHandleIsInvalid
	var visible *types.MessageNotInflight
	switch {
	case errors.As(err, &gone), errors.As(err, &visible):
		return stateLost, nil
	case err != nil:
		return "", err
	}
	if r, err := wire.DecodeRun(m.body); err == nil && d > 0 {
		run := strconv.FormatInt(r.LogID, 10)
		if known, err := q.door.ask(ctx, nil, []string{run}); err == nil && known[run] != "" {
			return known[run], nil
		}
	}
	return stateHeld, nil
}

func (q *queued) remove(ctx context.Context, m delivery) error {
	_, err := q.o.Client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.o.Queue, ReceiptHandle: &m.handle})
	return err
}

// polled is a queue of the servers.
type polled struct {
	door *door
	o    *Options
}

func (p *polled) receive(ctx context.Context, most int) ([]delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var out struct {
		Runs []struct {
			Receipt  string          `json:"receipt"`
			Receives int             `json:"receives"`
			Run      json.RawMessage `json:"run"`
		} `json:"runs"`
	}
	if err := p.door.post(ctx, "/v1/queue/receive", question{Max: most, Wait: 20, Visibility: seconds(p.o.Visibility)}, &out); err != nil {
		return nil, err
	}
	got := time.Now()
	list := make([]delivery, len(out.Runs))
	for i, r := range out.Runs {
		list[i] = delivery{id: r.Receipt, handle: r.Receipt, body: r.Run, receives: r.Receives, state: stateHeld, got: got}
	}
	return list, nil
}

func (p *polled) hide(ctx context.Context, m delivery, d time.Duration) (state, error) {
	var out struct {
		States []state `json:"states"`
	}
	err := p.door.post(ctx, "/v1/queue/extend", question{Receipts: []string{m.handle}, Visibility: seconds(d)}, &out)
	if err == nil && len(out.States) != 1 {
		err = errors.New("the server's answer does not include the run")
	}
	if err != nil {
		return "", err
	}
	return out.States[0], nil
}

// remove removes a message if it still belongs to this process; otherwise another process has it by now.
func (p *polled) remove(ctx context.Context, m delivery) error {
	return p.door.post(ctx, "/v1/queue/ack", question{Receipts: []string{m.handle}}, nil)
}

// question is the body of every request to the queue API.
type question struct {
	App        string   `json:"app"`
	Queue      string   `json:"queue"`
	Max        int      `json:"max,omitempty"`
	Wait       int      `json:"waitSeconds,omitempty"`
	Visibility int32    `json:"visibilitySeconds"`
	Receipts   []string `json:"receipts,omitempty"`
	Begin      []string `json:"begin,omitempty"`
	Runs       []string `json:"runs,omitempty"`
}

// door is a client of the servers' queue API.
type door struct {
	servers           []string
	app, token, queue string
	http              *http.Client
	first             atomic.Int32 // the server that answered last
}

// errNoDoor is of servers that are none of tickring.
var errNoDoor = errors.New("the server has no queues")

// ask returns the states that the servers have for runs that are about to start and for running ones.
func (d *door) ask(ctx context.Context, begin, runs []string) (map[string]state, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if len(d.servers) == 0 {
		return nil, errNoDoor
	}
	begin = slices.DeleteFunc(slices.Clone(begin), func(run string) bool { return run == "" })
	var out struct {
		States map[string]state `json:"states"`
	}
	err := d.post(ctx, "/v1/queue/runs", question{Begin: begin, Runs: runs}, &out)
	return out.States, err
}

// beatEvery is how often the executor reports to the servers that it pulls.
const beatEvery = 30 * time.Second

// beat reports to the servers until ctx ends.
func (d *door) beat(ctx context.Context, log *slog.Logger) {
	for said := false; ; {
		_, err := d.ask(ctx, nil, nil)
		if err != nil && ctx.Err() == nil && !said {
			log.Warn("heartbeat for the queue not accepted by any server: retrying", "queue", d.queue, "error", err)
		}
		said = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(beatEvery):
		}
	}
}

// maxAnswer is the maximum size of a server's answer in bytes: ten runs of 1 MB.
const maxAnswer = 11 << 20

// post tries one server after the other, starting with the one that answered last.
func (d *door) post(ctx context.Context, path string, r question, into any) error {
	r.App, r.Queue = d.app, d.queue
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	first := int(d.first.Load())
	var errs []error
	for i := range d.servers {
		n := (first + i) % len(d.servers)
		err := d.postTo(ctx, d.servers[n], path, body, into)
		if err == nil {
			d.first.Store(int32(n))
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", d.servers[n], err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (d *door) postTo(ctx context.Context, server, path string, body []byte, into any) error {
	base := strings.TrimSuffix(strings.TrimRight(server, "/"), "/xxl-job-admin")
	headers := map[string]string{"Content-Type": "application/json", wire.HeaderToken: d.token}
	status, b, err := request.Send(ctx, d.http, http.MethodPost, base+path, headers, body, maxAnswer+1)
	switch {
	case err != nil:
		return err
	case len(b) > maxAnswer:
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case status != http.StatusOK:
		var e struct {
			Error struct {
				Code    string `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal(b, &e) == nil && e.Error.Message != "" {
			return fmt.Errorf("answered %d: %s", status, e.Error.Message)
		}
		if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
			return errNoDoor
		}
		return fmt.Errorf("answered %d", status)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
