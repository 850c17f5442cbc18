package wirehttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/internal/ratelog"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/wire"
)

// A Caller is the sender of a request, as described by the request. Its values are not verified. The implementations of
// Registry and Callbacks must check the token, which belongs to an app.
type Caller struct {
	Token   string       // header XXL-JOB-ACCESS-TOKEN; empty if missing
	App     string       // header XXL-JOB-APPNAME, which only dialect D sends; empty if missing
	Dialect wire.Dialect // dialect that header and form prove; DialectB means B or C, which look alike
	Remote  string       // IP address and port of the client
	Date    time.Time    // header Date, which has the caller's clock; zero if missing
}

// A Registration is one address of one app.
type Registration struct {
	App     string
	Address string // base URL, exactly as it was sent
}

// A Registry stores the addresses of apps. Both methods return nil only after the change is stored. Executors repeat a
// registration every 20 to 30 s, so Register must be cheap. Removing a missing address succeeds.
type Registry interface {
	Register(ctx context.Context, c Caller, r Registration) error
	Remove(ctx context.Context, c Caller, r Registration) error
}

// Callbacks stores the results of runs. Callback returns nil, or one error for each item of the batch, in order. A nil error
// means that the result is stored, or that the executor need not send it again because the run is unknown or already closed.
// If one item has an error, the executor repeats the whole batch. A batch can contain duplicates of its own items and of
// earlier ones.
type Callbacks interface {
	Callback(ctx context.Context, c Caller, batch []wire.CallbackItem) (perItem []error)
}

// Ports are the dependencies of the handler. Both are required.
type Ports struct {
	Registry  Registry
	Callbacks Callbacks
}

// Options of the handler. A field with its zero value gets the default in its comment.
type Options struct {
	// Admit returns an error if a caller must be rejected before its body is read. Registry and Callbacks still check other
	// callers. nil: every caller is accepted.
	Admit func(ctx context.Context, c Caller) error
	// Refused records rejected requests. nil: they are not recorded.
	Refused *rejectlog.Trace

	MaxBody int64 // maximum size of a callback in bytes; 0: wire.MaxBody. A registration is limited by MaxRegistration
	// Stranger reports whether an admitted caller is unknown. A callback of an unknown caller has at most MaxStranger bytes.
	// nil: every caller is known.
	Stranger func(ctx context.Context, c Caller) bool
	MaxItems int // maximum number of items in a callback; 0: wire.MaxItems
	// HeldLong is the maximum number of bodies longer than MaxRegistration in memory, in addition to 1,024 shorter bodies. The
	// first app, identified by its token, gets at most half of them, and a second app a quarter. Further requests wait up to
	// HoldFor, and are then rejected with a message to retry. A body must arrive within ReadFor.
	HeldLong int           // default: 4
	HoldFor  time.Duration // default: 5 s
	ReadFor  time.Duration // default: 10 s

	// CheckAddress returns an error if an address may not be registered. The error is sent to the executor. Removals are not
	// checked. nil: safedial.ParseBase.
	CheckAddress func(address string) error

	// Log receives errors that the caller does not get in detail: errors of Registry and Callbacks, and unusable items. nil:
	// nothing is logged.
	Log *slog.Logger
}

// ErrUnauthorized is the error that Registry and Callbacks return if the token does not belong to the app.
var ErrUnauthorized = errors.New("unauthorized")

// Refuse returns an error whose text the handler sends to the executor. The text of any other error is only logged.
func Refuse(format string, args ...any) error {
	return RefuseFor(rejectlog.Invalid, fmt.Sprintf(format, args...))
}

// RefuseFor returns an error whose text the handler sends to the executor. The parameter reason is recorded in the rejection
// log. [Refuse] records rejectlog.Invalid.
func RefuseFor(reason, text string) error { return &refused{text: text, trace: reason} }

// Unauthorized returns an error that wraps ErrUnauthorized. The handler sends its text to the executor.
func Unauthorized(text string) error { return &refused{text, rejectlog.Token, ErrUnauthorized} }

type refused struct {
	text, trace string
	is          error
}

func (r *refused) Error() string { return r.text }
func (r *refused) Unwrap() error { return r.is }

// MaxRegistration is the maximum size of a registration in bytes. MaxStranger is the maximum size in bytes of a callback from
// an unknown caller; see Options.Stranger.
const (
	MaxRegistration = 16 << 10
	MaxStranger     = 256 << 10
)

// decodedAtOnce is the number of long callbacks that are decoded and stored at once: each takes
// about three times its bytes.
const decodedAtOnce = 2

// Patterns are the URL patterns at which to mount the handler of [NewHandler]. Executors are configured with an admin base URL
// that has, or does not have, the path of xxl-job's own admin.
var Patterns = []string{"/api/", adminPrefix + "/api/"}

const adminPrefix = "/xxl-job-admin"

// CleanPath returns r with consecutive slashes in its path replaced by one slash. Call it before an http.ServeMux, which would
// redirect the request. Executors whose admin address ends with a slash send requests to //api/registry, and do not follow
// redirects.
func CleanPath(r *http.Request) *http.Request {
	path := r.URL.EscapedPath()
	if !strings.Contains(path, "//") {
		return r
	}
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return r
	}
	cleaned, address := *r, *r.URL
	address.Path, address.RawPath, cleaned.URL = plain, path, &address
	return &cleaned
}

// NewHandler returns the handler of /api/registry, /api/registryRemove and /api/callback, with and without the prefix
// /xxl-job-admin. NewHandler needs the full path of a request; mount it at [Patterns].
//
// Every response has HTTP status 200 and a reply of the protocol, because Java executors treat any other status as a network
// failure. Code 200 in the reply means that the request is stored. Otherwise the code is 500, with a message for the
// executor's log.
//
// An item of a callback is unusable if it has no positive logId or no result. Unusable items are logged and named in the
// message. They fail the request only if it has no usable item, because executors repeat a failed callback forever.
func NewHandler(p Ports, o Options) http.Handler {
	if p.Registry == nil || p.Callbacks == nil {
		panic("wirehttp: NewHandler without its ports")
	}
	if o.MaxBody <= 0 {
		o.MaxBody = wire.MaxBody
	}
	if o.CheckAddress == nil {
		o.CheckAddress = func(address string) error {
			_, err := safedial.ParseBase(address)
			return err
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = ratelog.Of(o.Log)
	return &handler{p, o, NewRoom(o.HeldLong, o.HoldFor), make(chan struct{}, decodedAtOnce)}
}

type handler struct {
	ports    Ports
	opts     Options
	room     *Room
	decoding chan struct{} // one for each long callback that is decoded
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var serve func(context.Context, Caller, []byte) (string, error)
	most := int64(MaxRegistration)
	path := r.URL.Path
	switch strings.TrimPrefix(path, adminPrefix) {
	case wire.PathRegistry:
		serve = h.register
	case wire.PathRegistryRemove:
		serve = h.remove
	case wire.PathCallback:
		serve, most = h.callback, h.opts.MaxBody
	}
	app := r.Header.Get(wire.HeaderApp)
	c := Caller{Token: r.Header.Get(wire.HeaderToken), App: app, Dialect: wire.DialectOfHeader(app), Remote: r.RemoteAddr,
		Date: dateOf(r.Header.Get("Date"))}
	var msg string
	var of wire.Registration
	var err error
	switch {
	case serve == nil:
		err = Refuse("path %.200q is not known; executors may use %s, %s and %s", r.URL.Path, wire.PathRegistry, wire.PathRegistryRemove,
			wire.PathCallback)
	case r.Method != http.MethodPost:
		err = Refuse("method %.20q is not allowed at %s; use POST", r.Method, path)
	default:
		msg, of, err = h.take(w, r, c, most, serve)
	}
	if err != nil {
		h.note(w, r, c, most, of, err)
		err = fmt.Errorf("%s from %s: %w", path, r.RemoteAddr, err)
	}
	h.reply(w, msg, err)
}

// take admits a caller, reserves room for its body, and passes the body to serve. If a registration is rejected, of is its content.
// The body of a caller that was not admitted is read only for that, if the rejection log needs it.
func (h *handler) take(w http.ResponseWriter, r *http.Request, c Caller, most int64,
	serve func(context.Context, Caller, []byte) (string, error)) (msg string, of wire.Registration, err error) {
	names := most == MaxRegistration
	if !names && h.opts.Stranger != nil && h.opts.Stranger(r.Context(), c) {
		most = min(most, MaxStranger)
	}
	size := sizeOf(r, most)
	defer func() {
		if err != nil && size > MaxRegistration {
			w.Header().Set("Connection", "close") // rather than read the rest of it
		}
	}()
	if h.opts.Admit != nil {
		err = h.opts.Admit(r.Context(), c)
	}
	names = names && size <= most
	within := h.opts.ReadFor
	switch {
	case err != nil:
		if !errors.Is(err, ErrUnauthorized) || !names {
			return "", of, err
		}
		if within = h.opts.Refused.Asks(); within == 0 {
			return "", of, err
		}
	case size > most:
		return "", of, tooLarge(most)
	default:
		leave, ok := h.room.enter(r.Context(), c.Token, size)
		if !ok {
			return "", of, errNoRoom
		}
		defer leave()
	}
	from := &bodies
	if size > MaxRegistration {
		from = &longBodies
	}
	buf := from.Get().(*[]byte)
	defer from.Put(buf)
	var unread error
	if *buf, unread = ReadBody(w, r, (*buf)[:0], most, within); unread != nil {
		if _, large := errors.AsType[*http.MaxBytesError](unread); large {
			return "", of, cmp.Or(err, tooLarge(most))
		}
		return "", of, cmp.Or(err, Refuse("the body could not be read completely"))
	}
	if err == nil && size > MaxRegistration {
		select {
		case h.decoding <- struct{}{}:
			defer func() { <-h.decoding }()
		case <-r.Context().Done():
			return "", of, errNoRoom
		}
	}
	if err == nil {
		msg, err = serve(r.Context(), c, *buf)
	}
	if names && err != nil {
		of, _ = wire.DecodeRegistration(*buf)
	}
	return msg, of, err
}

// note records a rejection.
func (h *handler) note(w http.ResponseWriter, r *http.Request, c Caller, most int64, of wire.Registration, err error) {
	t := rejectlog.Refusal{Door: rejectlog.Callback, Reason: rejectlog.Unavailable, Remote: c.Remote, App: cmp.Or(of.App, c.App),
		Address: of.Address, Why: err.Error()}
	if most == MaxRegistration {
		t.Door = rejectlog.Registry
	}
	var said *refused
	switch {
	case errors.As(err, &said):
		t.Reason, t.Why = said.trace, said.text
	case errors.Is(err, ErrUnauthorized):
		t.Reason = rejectlog.App
	}
	if h.opts.Refused.Note(r.Context(), t) {
		w.Header().Set("Connection", "close")
	}
}

// reply answers with code 200 and msg, or with what of err is for the caller.
func (h *handler) reply(w http.ResponseWriter, msg string, err error) {
	code := wire.CodeSuccess
	if err != nil {
		code = wire.CodeFailure
		var said *refused
		switch {
		case errors.As(err, &said):
			msg = said.text
		case errors.Is(err, ErrUnauthorized):
			msg = "The access token is wrong: it must be the token of the app in the manifest."
		default:
			msg = "The server could not store the request; send the request again."
			h.opts.Log.Error("xxl-job request failed", "error", err)
		}
	}
	var room [256]byte
	b := wire.AppendReply(room[:0], code, wire.TruncateMessage(msg))
	w.Header()["Content-Type"] = contentType
	_, _ = w.Write(b) // an executor that is gone repeats the request
}

var contentType = []string{wire.ContentType}

func (h *handler) register(ctx context.Context, c Caller, body []byte) (string, error) {
	r, err := registration(c, body)
	if err != nil {
		return "", err
	}
	if err := h.opts.CheckAddress(r.Address); err != nil {
		if !strings.Contains(r.Address, "://") {
			err = fmt.Errorf("%.80q is not a base URL such as http://HOST:PORT: executors before xxl-job 2.2 cannot be used", r.Address)
		}
		return "", RefuseFor(rejectlog.Address, fmt.Sprintf("registryValue: %v", err))
	}
	return "", h.ports.Registry.Register(ctx, c, r)
}

func (h *handler) remove(ctx context.Context, c Caller, body []byte) (string, error) {
	r, err := registration(c, body)
	if err != nil {
		return "", err
	}
	return "", h.ports.Registry.Remove(ctx, c, r)
}

func registration(c Caller, body []byte) (Registration, error) {
	r, err := wire.DecodeRegistration(body)
	switch {
	case err != nil:
		return Registration{}, Refuse("the body is not a registration: %v", err)
	case r.Group != wire.GroupExecutor:
		return Registration{}, Refuse("registryGroup is %.40q; allowed values: %q", r.Group, wire.GroupExecutor)
	case c.App != "" && c.App != r.App:
		return Registration{}, Refuse("registryKey is %.100q but the header %s is %.100q; they must be equal", r.App, wire.HeaderApp, c.App)
	}
	return Registration{App: r.App, Address: r.Address}, nil
}

func (h *handler) callback(ctx context.Context, c Caller, body []byte) (string, error) {
	cb, err := wire.DecodeCallback(body, h.opts.MaxItems)
	if err != nil {
		return "", Refuse("the body is not a callback: %v", err)
	}
	if c.Dialect == wire.DialectUnknown {
		c.Dialect = cb.Dialect
	}
	msg := ""
	if cb.Broken != nil {
		msg = fmt.Sprintf("the callback is %v; the readable part was stored", cb.Broken)
	}
	if n := len(cb.Bad); n > 0 {
		msg = fmt.Sprintf("%d of %d items cannot be used: %v", n, n+len(cb.Items), cb.Bad[0])
		if n > 1 {
			msg += ", and more"
		}
		if len(cb.Items) == 0 {
			return "", Refuse("%s", msg)
		}
	}
	if msg != "" {
		h.opts.Refused.Note(ctx, rejectlog.Refusal{Door: rejectlog.Callback, Reason: rejectlog.Invalid, Remote: c.Remote, App: c.App, Why: msg})
	}
	if len(cb.Items) == 0 {
		return msg, nil
	}
	batch := cb.Items
	for i := range batch {
		batch[i].Msg = wire.TruncateMessage(batch[i].Msg)
	}
	errs := h.ports.Callbacks.Callback(ctx, c, batch)
	if len(errs) != 0 && len(errs) != len(batch) {
		return "", fmt.Errorf("callback port gave %d errors for %d items", len(errs), len(batch))
	}
	for i, err := range errs {
		if err != nil {
			return "", fmt.Errorf("item %d, log %d: %w", i, batch[i].LogID, err)
		}
	}
	return msg, nil
}

// bodies holds buffers for requests and replies, longBodies buffers for long requests, of which a Room allows a few at once.
// Decoded values are copies, so a buffer can be reused at once.
var (
	bodies     = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}
	longBodies = sync.Pool{New: func() any { return new([]byte) }}
)

// putBody gives a buffer back unless it grew so large that keeping it would
// cost more than making another.
func putBody(b *[]byte) {
	if cap(*b) <= 256<<10 {
		*b = (*b)[:0]
		bodies.Put(b)
	}
}

var errNoRoom = &refused{text: "The server is overloaded; send the request again.", trace: rejectlog.Busy}

func tooLarge(most int64) error {
	return &refused{text: fmt.Sprintf("the body is larger than %d bytes, the maximum", most), trace: rejectlog.Large}
}
