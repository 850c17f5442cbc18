package send

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/wire"
)

// MaxPayload is the maximum size in bytes of the payload for a Lambda function, and of a message for a queue.
const MaxPayload = 1 << 20

// A Note is the member "tickring" in the payload of a run for a function or a queue. The other members are the fields of the
// xxl-job protocol. A Note has the fields of wire.About, the job of the run, and the URL for reports.
type Note struct {
	Job         string    `json:"job"` // full name of the job, app/name
	App         string    `json:"app"`
	Run         string    `json:"run"` // run ID, as text because some languages have no 64-bit integers
	ScheduledAt time.Time `json:"scheduledAt"`
	Attempt     int       `json:"attempt"`
	Cause       string    `json:"cause"`
	// Traceparent identifies the trace span that sent the run, in the format of W3C Trace Context. Empty: no tracing.
	Traceparent string `json:"traceparent,omitempty"`
	// ReportURL is the URL to which the executor POSTs the result of the run. Empty: the executor cannot reach the server at a
	// URL.
	ReportURL string `json:"reportUrl,omitempty"`
	// Key proves that a report belongs to this run.
	Key string `json:"key,omitempty"`
}

// payload returns a run as functions and queues get it: the body of the protocol's /run with a Note.
func (s *Sender) payload(sh dispatch.SendRequest, key []byte) ([]byte, error) {
	r := order(sh)
	n := Note{Job: sh.Job.Name(), App: sh.App.Name, Run: sh.Run.ID.String(), ScheduledAt: sh.Run.At.Time(), Attempt: sh.Run.Attempt,
		Cause: string(sh.Run.Cause), Traceparent: sh.Traceparent}
	if len(key) > 0 {
		n.Key = ReportSignature(key, sh.Run.ID)
		if s.o.ReportURL != "" {
			n.ReportURL = s.o.ReportURL + "/v1/report/" + n.Run + "?key=" + n.Key
		}
	}
	more, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("write the payload: %w", err)
	}
	b := wire.AppendRun(make([]byte, 0, 1024+len(r.Params)), &r)
	b = append(append(b[:len(b)-1], `,"tickring":`...), more...)
	return append(b, '}'), nil
}

func (s *Sender) hand(ctx context.Context, scheme core.Scheme, target string, sh dispatch.SendRequest, key []byte) dispatch.Answer {
	b, err := s.payload(sh, key)
	if err == nil && len(b) > MaxPayload {
		err = fmt.Errorf("the run has %d bytes as JSON; %s accepts at most %d (1 MB): shorten the params", len(b), scheme, MaxPayload)
	}
	if err != nil {
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	started := time.Now()
	var a dispatch.Answer
	if scheme == core.SchemeLambda {
		a = s.o.Functions.Invoke(ctx, target, b)
	} else {
		a = s.queuesOf(target).Put(ctx, sh.App, target, sh.Run.ID, b)
	}
	a.Took = time.Since(started)
	return a
}

// queuesOf is who has a queue: this server those with a name alone, SQS the
// others, or all where this is not a server.
func (s *Sender) queuesOf(target string) Queues {
	if s.o.Queues != nil && !strings.HasPrefix(target, "arn:") {
		return s.o.Queues
	}
	return s.o.SQS
}

var errNoAWS = errors.New("this server has no AWS credentials: set AWS_REGION and a profile, or AWS_ACCESS_KEY_ID and " +
	"AWS_SECRET_ACCESS_KEY, in its environment")

var errNoCommands = errors.New("commands are not allowed: start tickring serve with --commands-user and --commands-dir; commands are " +
	"not available on AWS")

// parse is core.ParseAddress, and knows where commands go. It remembers: an address is read
// twice a fire, and there are few.
func (s *Sender) parse(address string) (scheme core.Scheme, target string, err error) {
	if address == core.LocalAddress {
		return core.SchemeLocal, "", nil
	}
	if known, ok := s.parsed.Load(address); ok {
		p := known.(place)
		return p.scheme, p.target, nil
	}
	scheme, target, err = core.ParseAddress(address)
	if err == nil {
		if s.places.Add(1) > maxPaths {
			s.parsed.Clear()
			s.places.Store(1)
		}
		s.parsed.Store(address, place{scheme, target})
	}
	return scheme, target, err
}

// place is a parsed address.
type place struct {
	scheme core.Scheme
	target string
}

// commandHandler is the handler name in the order of a command, because each order needs one.
const commandHandler = "command"

// command has this server run a command.
func (s *Sender) command(ctx context.Context, sh dispatch.SendRequest) dispatch.Answer {
	if sh.Job.Def.Command == nil {
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: "the job has no command"}
	}
	r := order(sh)
	r.Handler = commandHandler
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	started := time.Now()
	a := s.o.Commands.Run(ctx, sh, wire.AppendOrder(nil, &r))
	a.Took = time.Since(started)
	return a
}

// place reads an address; an error where nothing here can send to it.
func (s *Sender) place(address string) (scheme core.Scheme, target string, err error) {
	scheme, target, err = s.parse(address)
	switch {
	case err != nil:
	case scheme == core.SchemeLocal && s.o.Commands == nil:
		err = errNoCommands
	case scheme == core.SchemeLambda && s.o.Functions == nil:
		err = errNoAWS
	case scheme == core.SchemeQueue && s.queuesOf(target) == nil:
		err = errNoAWS
	}
	return scheme, target, err
}

// Reachable returns an error if this sender cannot send to address.
func (s *Sender) Reachable(address string) error {
	_, _, err := s.place(address)
	return err
}

// Limit returns the maximum duration of a run at an address, or an error if it is unknown.
func (s *Sender) Limit(ctx context.Context, address string) (time.Duration, error) {
	scheme, target, err := s.place(address)
	if err != nil {
		return 0, err
	}
	if scheme != core.SchemeLambda {
		return 0, fmt.Errorf("%s addresses have no timeout limit", scheme)
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.o.Functions.Limit(ctx, target)
}
