package wirehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/wire"
)

// A Kind is the proven result of a call. The caller decides how to react; for a run see the constants.
type Kind uint8

// The kinds. The zero value is Unknown, the one that claims least.
const (
	// Unknown: the request may have been received and processed, but no answer of the protocol proves it. A run stays where it was
	// sent: unconfirmed.
	Unknown Kind = iota
	// Accepted: code 200. A run is queued, not finished.
	Accepted
	// Repeat: the executor has this logId already. To a re-send this means
	// accepted.
	Repeat
	// Refused: it is proven that nothing was started, and the same request would be rejected again. Outcome.Verdict separates block
	// strategies from other reasons.
	Refused
	// RefusedPassing: it is proven that nothing was started, for a temporary reason: HTTP 429 or a full queue of the executor.
	// Before the first byte the reason can also be local: the caller's context, the client's limit of connections, a closed client,
	// or a shortage on this machine (safedial.OwnWant). The address is not to blame.
	RefusedPassing
	// BeforeFirstByte: no byte of the request left this process: the address
	// is not allowed, does not resolve, refuses connections or fails TLS.
	BeforeFirstByte
)

// String names the kind for logs.
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
	Verdict    wire.Verdict // verdict of the reply; VerdictGarbage without a reply
	Code       int          // code of the envelope; 0 without an envelope
	Msg        string       // message of the envelope, at most wire.MaxMessage characters
	HTTPStatus int          // 0 if no response arrived
	Took       time.Duration
	Date       time.Time // the executor's clock in an answer to Beat, in whole seconds; zero: unknown
	Err        error     // why Kind is not Accepted, if the envelope does not explain it
	// Dialect is set if the answer proved another dialect than expected: a run was accepted at the path of D, or at the other path
	// (B stands for its dialects), or /log identified C.
	Dialect wire.Dialect
}

// Auth identifies the admin to an executor. Executors before D ignore the app, and all executors ignore a token that they do
// not expect.
type Auth struct {
	Token string
	App   string

	// Dialect of the executor if known: it decides the path of a run. A wrong guess costs a second call, but no run.
	Dialect wire.Dialect
}

// ClientOptions of [New]. The zero value reaches public addresses only.
type ClientOptions struct {
	// Policy checks IP addresses: when connecting, after DNS, and again when a kept connection is used, with the networks that
	// safedial.WithAllow put into the context of the call.
	Policy safedial.Policy

	// Dial replaces the dialer of Policy. Policy still checks the remote IP address of its connections, if they have one.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Timeout bounds one call from beginning to end, beside the context's own
	// deadline. 0: 3 s.
	Timeout time.Duration

	// MaxConnsPerHost bounds the connections, and so the concurrent calls, for each base URL. Further calls wait, within
	// their timeout. 0: 256.
	MaxConnsPerHost int

	// TLS is for https; nil uses the system's roots.
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
	// ErrBadHeader is the error of calls whose token or app is invalid in a header.
	ErrBadHeader = errors.New("the token or the app name has a control character, or a space at its start or end")

	errBusy = errors.New("all connections to the executor are in use")
)

// A Client calls executors. It may be used by any number of goroutines, and
// must be closed. It follows no redirects, uses no proxy, and never repeats a
// request of which a byte was written.
type Client struct {
	timeout time.Duration
	pool    *pool
	plain   transport
	secure  transport
}

// New returns a client. It starts nothing until it is used.
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
	p := newPool(o.MaxConnsPerHost)
	return &Client{
		timeout: o.Timeout,
		pool:    p,
		plain:   &plain{pool: p, dial: o.Dial, check: o.Policy.CheckContext},
		secure:  newViaNetHTTP(o.Dial, o.Policy.CheckContext, o.TLS, o.MaxConnsPerHost, o.Timeout),
	}
}

// Close closes idle connections and leaves no goroutine. Calls in progress continue to their end; their connections are
// closed then. Later calls send nothing and get ErrClosed.
func (c *Client) Close() {
	c.plain.closeIdle()
	c.secure.closeIdle()
}

// Run sends an order to start a run to the executor at base; r.About goes in headers. It uses the path of auth.Dialect, and the
// other path if the executor proves that it does not know the first.
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

// IdleBeat asks whether the executor neither runs nor queues the job. The outcome is Accepted if this is so, else Refused.
func (c *Client) IdleBeat(ctx context.Context, base string, auth Auth, jobID int32) Outcome {
	body := wire.AppendIdleBeat(make([]byte, 0, 32), wire.IdleBeatRequest{JobID: jobID})
	out, _ := c.call(ctx, base, exchange{path: wire.PathIdleBeat, auth: auth, body: body, most: maxReply}, nil)
	return out
}

// Kill asks the executor to end all runs of the job, running and queued. If there is nothing to end, Java accepts and Go
// rejects.
func (c *Client) Kill(ctx context.Context, base string, auth Auth, jobID int32) Outcome {
	body := wire.AppendKill(make([]byte, 0, 32), wire.KillRequest{JobID: jobID})
	out, _ := c.call(ctx, base, exchange{path: wire.PathKill, auth: auth, body: body, most: maxReply}, nil)
	return out
}

// Log asks for lines of a run's log. The result counts only if the outcome is
// Accepted; an answer without log is Unknown with the reason in Err. An answer of
// more than 4 MB is read as a stream to there, and its result ends with a whole line.
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
	t := c.plain
	if h.base.HTTPS {
		t = c.secure
	}
	res, err := t.roundTrip(ctx, &x)
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
