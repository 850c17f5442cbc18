package wirehttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/wire"
)

// A Kind is the conclusion from the result of a call. The constants describe the meaning for a run.
type Kind uint8

// The kinds. The zero value is Unknown, which proves least.
const (
	// Unknown: the executor may have received and processed the request, but did not send a reply of the protocol. A run stays
	// unconfirmed at this address.
	Unknown Kind = iota
	// Accepted: the reply has code 200. A run is queued, not finished.
	Accepted
	// Repeat: the executor already has the logId. If the run was sent again, this means that the executor accepted the earlier
	// request.
	Repeat
	// Refused: the executor started nothing, and would reject the same request again. Outcome.Verdict distinguishes block
	// strategies from other reasons.
	Refused
	// RefusedPassing: the executor started nothing, for a temporary reason. The executor responded with HTTP 429, or its queue
	// is full. Or nothing was sent, for a local reason: the context ended, the connection limit is reached, the client is
	// closed, or this machine lacks resources. A local reason does not mean that the address has a problem.
	RefusedPassing
	// BeforeFirstByte: no byte of the request was sent. The address is not allowed, its name does not resolve, it refuses
	// connections, or TLS fails.
	BeforeFirstByte
)

// String returns the name of the kind for logs.
func (k Kind) String() string {
	switch k {
	case Accepted:
		return "accepted"
	case Repeat:
		return "repeat"
	case Refused:
		return "refused"
	case RefusedPassing:
		return "rejected temporarily"
	case BeforeFirstByte:
		return "not sent"
	}
	return "unknown"
}

// An Outcome is the result of one call.
type Outcome struct {
	Kind       Kind
	Verdict    wire.Verdict // verdict of the reply; VerdictGarbage if there is none
	Code       int          // code in the reply; 0 if there is none
	Msg        string       // message in the reply, at most wire.MaxMessage characters
	HTTPStatus int          // 0 if no response arrived
	Took       time.Duration
	Date       time.Time // for Beat: the executor's clock, in whole seconds; zero if the reply does not have it
	Err        error     // why Kind is not Accepted; nil if Code and Msg explain it
	// Dialect is the dialect that the reply proves, if it differs from Auth.Dialect. A run accepted at the path of dialect D
	// proves DialectD. A run accepted at the other path proves DialectB, which stands for all other dialects. A reply to Log
	// can prove DialectC. Otherwise Dialect is DialectUnknown.
	Dialect wire.Dialect
}

// Auth identifies the admin to an executor. Executors older than dialect D ignore App. An executor without a token ignores
// Token.
type Auth struct {
	Token string
	App   string

	// Dialect is the executor's dialect; DialectUnknown if it is not known. Dialect decides which path Client.Run tries first.
	// A wrong dialect costs a second request, but never starts a run twice.
	Dialect wire.Dialect
}

// ClientOptions are the options of [New]. With the zero value, the client connects only to public IP addresses.
type ClientOptions struct {
	// Policy checks IP addresses: when the client connects, after name resolution, and when it reuses a connection. The
	// context of a call can allow further networks, with safedial.WithAllow.
	Policy safedial.Policy

	// Dial replaces the dialer of Policy. Policy still checks the remote IP address of its connections. nil: the dialer of
	// Policy.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Timeout is the timeout of one call, in addition to the deadline of its context. 0: 3 s.
	Timeout time.Duration

	// MaxConnsPerHost is the maximum number of connections, and so of concurrent calls, for each base URL. Further calls wait
	// within their timeout. 0: 256.
	MaxConnsPerHost int

	// TLS is the configuration for https; nil uses the root certificates of the system.
	TLS *tls.Config
}

// Bounds of a client.
const (
	defaultTimeout = 3 * time.Second
	defaultConns   = 256
	maxReply       = 64 << 10 // bytes of a reply but to Log
	maxLogReply    = 4 << 20  // bytes of a reply to Log, of which the rest is left unread
)

var (
	// ErrClosed is the error of calls to a closed client.
	ErrClosed = errors.New("the client is closed")
	// ErrBadHeader is the error of calls whose token or app cannot be sent in a header.
	ErrBadHeader = errors.New("token or app has a control character, or a space at an end")

	errBusy = errors.New("all connections to the executor are in use")
)

// A Client calls executors. A Client is safe for concurrent use and must be closed. A Client follows no redirects and uses no
// proxy. A Client never repeats a request after its first byte was sent.
type Client struct {
	timeout   time.Duration
	pool      *pool
	transport transport
}

// New returns a client. The client opens no connection and starts no goroutine before the first call.
func New(o ClientOptions) *Client {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxConnsPerHost <= 0 {
		o.MaxConnsPerHost = defaultConns
	}
	if o.Dial == nil {
		o.Dial = o.Policy.Dialer(0).DialContext
	}
	p := &pool{most: o.MaxConnsPerHost, hosts: map[string]*host{}, done: make(chan struct{})}
	return &Client{o.Timeout, p, transport{p, o.Dial, o.Policy.CheckContext, cmp.Or(o.TLS, &tls.Config{})}}
}

// Close closes idle connections. Calls in progress continue, and then close their connections. Later calls send nothing and
// return ErrClosed.
func (c *Client) Close() { c.pool.close() }

// Run sends the order to start the run r to the executor at the base URL base. r.About is sent in headers. Run uses the path
// of auth.Dialect. If the executor proves that it does not know this path, Run uses the other path.
func (c *Client) Run(ctx context.Context, base string, auth Auth, r *wire.Run) Outcome {
	buf := bodies.Get().(*[]byte)
	defer putBody(buf)
	*buf = wire.AppendRun((*buf)[:0], r)
	path := auth.Dialect.RunPath()
	x := exchange{path: path, auth: auth, about: r.About, body: *buf, most: maxReply}
	out, reply := c.call(ctx, base, x, nil)
	other := wire.PathRun
	if path == wire.PathRun {
		other = wire.PathTrigger
	}
	switch {
	case out.Kind != Refused:
		return out
	case reply.NoMapping(path), path == wire.PathTrigger && out.HTTPStatus == 404:
	default:
		return out
	}
	first := out.Took
	x.path = other
	out, _ = c.call(ctx, base, x, nil)
	out.Took += first
	if out.Kind == Accepted || out.Kind == Repeat {
		out.Dialect = wire.DialectB
		if other == wire.PathTrigger {
			out.Dialect = wire.DialectD
		}
	}
	return out
}

func (c *Client) Beat(ctx context.Context, base string, auth Auth) Outcome {
	var date time.Time
	out, _ := c.call(ctx, base, exchange{path: wire.PathBeat, auth: auth, most: maxReply, date: &date}, nil)
	out.Date = date
	return out
}

// IdleBeat asks the executor whether it has no running or queued run of the job. The outcome is Accepted if it has none, and
// Refused otherwise.
func (c *Client) IdleBeat(ctx context.Context, base string, auth Auth, jobID int32) Outcome {
	body := wire.AppendIdleBeat(make([]byte, 0, 32), wire.IdleBeatRequest{JobID: jobID})
	out, _ := c.call(ctx, base, exchange{path: wire.PathIdleBeat, auth: auth, body: body, most: maxReply}, nil)
	return out
}

// Kill asks the executor to end all runs of the job, running and queued. If there is no such run, Java executors accept the
// request and Go executors reject it.
func (c *Client) Kill(ctx context.Context, base string, auth Auth, jobID int32) Outcome {
	body := wire.AppendKill(make([]byte, 0, 32), wire.KillRequest{JobID: jobID})
	out, _ := c.call(ctx, base, exchange{path: wire.PathKill, auth: auth, body: body, most: maxReply}, nil)
	return out
}

// Log requests lines of a run's log. The result is valid only if the outcome is Accepted. A reply without a log is Unknown,
// and Err has the reason. If a reply has more than 4 MB, the result has the complete lines of the first 4 MB.
func (c *Client) Log(ctx context.Context, base string, auth Auth, q wire.LogRequest) (wire.LogResult, Outcome) {
	var res wire.LogResult
	body := wire.AppendLogRequest(make([]byte, 0, 128), q)
	x := exchange{path: wire.PathLog, auth: auth, body: body, most: maxLogReply, cut: true}
	out, reply := c.call(ctx, base, x, func(r wire.Reply, cut []byte) (err error) {
		if cut == nil {
			res, err = r.LogResult()
		} else if found, ok := wire.CutLog(cut, q.FromLine); ok {
			res = found
		} else {
			err = ErrTooLarge
		}
		return err
	})
	if out.Kind == Accepted {
		// Rule 3 for detecting dialects: "content" is A, B or Go, "data" C or D.
		if reply.PayloadKey == "data" && auth.Dialect != wire.DialectD {
			out.Dialect = wire.DialectC
		}
	}
	return res, out
}

// call makes one call. x describes the request, without host, deadline and buffer. accepted, if not nil, reads the payload of an
// accepted reply, or the beginning of one that was cut; it must not keep their bytes.
func (c *Client) call(ctx context.Context, base string, x exchange,
	accepted func(r wire.Reply, cut []byte) error) (out Outcome, reply wire.Reply) {
	start := time.Now()
	defer func() { out.Took = time.Since(start) }()
	if !headerValue(x.auth.Token) || !headerValue(x.auth.App) {
		return Outcome{Kind: BeforeFirstByte, Err: ErrBadHeader}, reply
	}
	if len(x.body) > wire.MaxBody {
		return Outcome{Kind: Refused, Err: fmt.Errorf("the request has %d bytes; executors take at most %d", len(x.body), wire.MaxBody)}, reply
	}
	deadline := start.Add(c.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	h, err := c.pool.acquire(ctx, base, deadline)
	if err != nil {
		return notBegun(ctx, err), reply
	}
	defer c.pool.release(h)

	room := bodies.Get().(*[]byte)
	defer putBody(room)
	x.host, x.deadline, x.room = h, deadline, (*room)[:0]
	res, err := c.transport.roundTrip(ctx, &x)
	if res.body != nil {
		*room = res.body
	}
	if !res.began {
		if err == nil {
			err = errors.New("no byte of the request was written")
		}
		return notBegun(ctx, err), reply
	}
	out, reply = judge(res.status, res.body, err, deadline.Sub(start))
	var cut []byte
	if x.cut && res.status == 200 && errors.Is(err, ErrTooLarge) {
		out.Kind, out.Err, cut = Accepted, nil, res.body
	}
	if out.Kind == Accepted && accepted != nil {
		if err := accepted(reply, cut); err != nil {
			out.Kind, out.Err = Unknown, err
		}
	}
	reply.Payload = nil // it aliases room
	return out, reply
}

func notBegun(ctx context.Context, err error) Outcome {
	end, ok := ctx.Deadline()
	over := ctx.Err() != nil || ok && !time.Now().Before(end)
	if over || errors.Is(err, errBusy) || errors.Is(err, ErrClosed) || safedial.OwnWant(err) {
		return Outcome{Kind: RefusedPassing, Err: err}
	}
	return Outcome{Kind: BeforeFirstByte, Err: err}
}

// judge converts a response to an outcome; err is why it could not be read completely within the time. The request was sent, so
// without proof the result is Unknown.
func judge(status int, body []byte, err error, within time.Duration) (Outcome, wire.Reply) {
	out := Outcome{HTTPStatus: status, Err: err}
	var reply wire.Reply
	if err == nil {
		var garbage error
		if reply, garbage = wire.DecodeReply(body); garbage == nil {
			out.Code, out.Msg, out.Verdict = reply.Code, wire.TruncateMessage(reply.Msg), reply.Verdict()
		} else if status >= 200 && status <= 299 {
			out.Err = Unproven(status, body, nil, within)
		}
	}
	answered := out.Verdict != wire.VerdictGarbage
	switch {
	case status == 0:
		out.Err = Unproven(status, body, err, within)
		return out, reply

	case status == 429:
		out.Kind = RefusedPassing

	case status >= 200 && status <= 299 && answered, status == 500 && answered && !reply.OK():
		// xxl-job answers HTTP 200 always; a framework around it may turn the
		// envelope's 500 into the status as well.
		out.Kind = kindOf(out.Verdict)
		return out, reply

	case status == 301 || status == 302 || status == 307 || status == 308:
		// Not followed: it would bypass the check of the address. A server that redirects a POST this way did not accept it; a 303
		// can follow acceptance.
		out.Kind = Refused

	case status >= 400 && status <= 499 && !reply.OK():
		// Proven: the receiver rejected the request.
		out.Kind = Refused
		if answered {
			out.Kind = kindOf(out.Verdict)
		}

	default:
		// 5xx proves nothing. A gateway can send 502 and 504, with JSON of its own, for requests that reached the executor. A 500
		// without envelope can be a crash after the start. A status that contradicts its envelope proves nothing either.
	}
	if out.Err == nil || err != nil {
		out.Err = Unproven(status, body, err, within)
	}
	return out, reply
}

func kindOf(v wire.Verdict) Kind {
	switch v {
	case wire.VerdictAccepted:
		return Accepted
	case wire.VerdictRepeatTrigger:
		return Repeat
	case wire.VerdictQueueFull:
		return RefusedPassing
	case wire.VerdictBlockStrategy, wire.VerdictRefused:
		return Refused
	}
	return Unknown
}
