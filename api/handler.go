package api

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/probe"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/boundlog"
	"github.com/tickring/tickring/internal/places"
	"github.com/tickring/tickring/internal/refusal"
	"github.com/tickring/tickring/words"
)

//go:embed openapi.yaml
var document []byte

// Logs reads what executors logged of runs; *send.Sender does.
type Logs interface {
	// Log reads lines from the given one (from 1) on; the line to go on from,
	// and whether there will be no more.
	Log(ctx context.Context, app *core.App, run *core.Run, fromLine int) (text string, nextLine int, end bool, err error)
}

// Answer returns what an address of an app said last; false: nothing is known.
type Answer = func(app, address string) (probe.Answer, bool)

// Options of NewHandler.
type Options struct {
	// Token is the admin token, which may do all; ReadToken one that may only read.
	// One that is empty lets nobody in.
	Token, ReadToken string
	// Access knows people by their tokens; nil: no token is one of a person.
	Access *access.Access
	// URL is the one by which the server is reached besides the addresses at which it
	// listens; empty is none.
	URL string
	// Admit judges beforehand who says to be the code of an app, so that strangers do
	// not have the store asked; nil: it is asked.
	Admit func(ctx context.Context, app, token string) error
	// Status says what the server is; nil is nothing known.
	Status func() client.Status
	// Facts says what doctor judges; nil is nothing known.
	Facts func(ctx context.Context, l words.Language) client.Facts
	// Answer is what the address of an executor said last; nil: nothing is known.
	Answer Answer
	// Dead are the dead letters; nil: none are kept.
	Dead operate.DeadLetters
	// Notices is how notices and channels fare; nil: it is not said.
	Notices Notices
	// Reports are what runs came to, by hour and day; nil: there are none.
	Reports *report.Reports
	// Restore begins a new generation of the data; nil where there is no other
	// deployment to be told from.
	Restore Restore
	// Rotator replaces the key of stored secrets.
	Rotator engine.Rotator
	// Refused is where who is refused leaves a trace, and who says of executors that
	// they were; nil: nowhere.
	Refused *refusal.Trace
	// Log takes what callers are not told; slog.Default() if nil.
	Log *slog.Logger
}

// statuses is the HTTP status of each code.
var statuses = map[core.Code]int{
	core.CodeInvalid:      http.StatusBadRequest,
	core.CodeNotFound:     http.StatusNotFound,
	core.CodeConflict:     http.StatusConflict,
	core.CodeUnauthorized: http.StatusUnauthorized,
	core.CodeForbidden:    http.StatusForbidden,
	core.CodeTooLarge:     http.StatusRequestEntityTooLarge,
	core.CodeRefused:      http.StatusConflict,
	core.CodeUnavailable:  http.StatusServiceUnavailable,
	core.CodeInternal:     http.StatusInternalServerError,
}

// NewHandler serves /v1. logs may be nil: then no run has a log.
func NewHandler(m *people.People, logs Logs, o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Log = boundlog.Of(o.Log)
	s := &server{m: m, logs: logs, o: o, known: knownOf(&o), long: places.New(longPlaces), tails: places.New(longPlaces),
		reads: places.New(2 * longPlaces), mux: &queryMux{http.NewServeMux(), map[string][]string{}}}
	HandlerWithOptions(s, StdHTTPServerOptions{BaseRouter: s.mux, ErrorHandlerFunc: s.badParam})
	return s
}

type server struct {
	m            *people.People
	logs         Logs
	o            Options
	known        []known
	long         *places.Places // of long bodies
	tails, reads *places.Places // of ends of logs, and of pieces of them; of admins too
	quota        quota
	mux          *queryMux
}

var _ ServerInterface = (*server)(nil)

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		s.fail(w, r, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	said(w, r)
	_, pattern := s.mux.Handler(r)
	rule := ruleOf(pattern)
	if pattern == "" {
		if s.methods(r) == nil {
			// To strangers too: the paths are no secret, and whoever has a wrong one would look for a mistake in his token.
			s.fail(w, r, core.Errorf(core.CodeNotFound, "%s does not exist: see /v1/openapi.yaml", core.Truncate(r.URL.Path)))
			return
		}
		rule = lists // which methods there are
	}
	who, err := s.whoSent(r, rule)
	if err == nil {
		err = s.admit(r, who, rule)
	}
	if err != nil {
		if core.CodeOf(err) == core.CodeUnauthorized {
			if s.o.Refused.Note(r.Context(), refusal.Refusal{Door: refusal.API, Reason: refusal.Token, Remote: r.RemoteAddr}) ||
				r.ContentLength != 0 { // else net/http would wait for the body before it answers
				w.Header().Set("Connection", "close")
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		s.fail(w, r, err)
		return
	}
	if who.From == "" { // else who asks in this process knows better
		who.From = access.Host(r.RemoteAddr)
	}
	c := caller{Who: who}
	if who.Kind != access.AdminToken {
		c.long = s.long
	}
	r = withCaller(r, c)
	if pattern == "" {
		s.lost(w, r)
		return
	}
	if err := s.mux.check(pattern, r); err != nil {
		s.fail(w, r, err)
		return
	}
	if err := s.open(r); err != nil {
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// methods are those that are at the path of a request.
func (s *server) methods(r *http.Request) (allow []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		try := r.Clone(r.Context())
		try.Method = method
		if _, pattern := s.mux.Handler(try); pattern != "" {
			allow = append(allow, method)
		}
	}
	return allow
}

// lost answers what no pattern takes: another method.
func (s *server) lost(w http.ResponseWriter, r *http.Request) {
	allow := s.methods(r)
	w.Header().Set("Allow", strings.Join(append(allow, http.MethodOptions), ", "))
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	write(w, http.StatusMethodNotAllowed, client.ErrorReply{Error: client.Error{Code: string(core.CodeInvalid), Field: "method",
		Value: core.Truncate(r.Method), Message: words.Say(language(r), core.Say("allowed here are %s", strings.Join(allow, ", ")))}})
}

// badParam answers what the generated code could not read of path and query.
func (s *server) badParam(w http.ResponseWriter, r *http.Request, err error) {
	var missing *RequiredParamError
	var format *InvalidParamFormatError
	switch {
	case errors.As(err, &missing):
		err = core.Invalid(missing.ParamName, "", "needed")
	case errors.As(err, &format):
		allowed := core.Say("the format is invalid")
		switch name := format.ParamName; name {
		case "from", "to":
			allowed = core.Say("write a time as 2026-11-20T02:30:00Z, or with an offset such as +01:00 (escaped: %%2B01:00)")
			if strings.HasSuffix(r.URL.Path, "/log") {
				allowed = core.Say("a whole number is expected")
			}
		case "limit", "after", "ifRev":
			allowed = core.Say("a whole number is expected")
		case "last":
			allowed = core.Say("true or false is expected")
		}
		err = core.Invalid(format.ParamName, r.URL.Query().Get(format.ParamName), "%s", allowed)
	default:
		err = &core.Error{Code: core.CodeInvalid, Reason: core.Say("the query cannot be read"), Err: err}
	}
	s.fail(w, r, err)
}

// language is the one in which a caller is answered, by its Accept-Language.
func language(r *http.Request) words.Language { return words.Asked(r.Header.Get("Accept-Language")) }

// said tells in the header of an answer in which language its words are.
func said(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Language", string(language(r)))
}

// allSaid is each of the texts in a language; nil of none.
func allSaid(l words.Language, texts []core.Text) (list []string) {
	for _, t := range texts {
		list = append(list, words.Say(l, t))
	}
	return list
}

// errorOf is what a caller is told of an error. Of an internal one that is an
// ID, under which the log has the rest.
func errorOf(r *http.Request, log *slog.Logger, err error) client.Error {
	code, l := core.CodeOf(err), language(r)
	if e, ok := errors.AsType[*core.Error](err); ok && code != core.CodeInternal {
		if e.Err != nil {
			log.WarnContext(r.Context(), "api", "method", r.Method, "path", r.URL.Path, "code", code, "error", err, "cause", e.Err)
		}
		reason := e.Reason
		if who := callerOf(r); !who.SeesAll() {
			reason = reason.Seen(func(app string) bool { return who.Sees(app) || app == who.App })
		}
		return client.Error{Code: string(code), Field: e.Field, Value: e.Value, Message: words.Say(l, reason)}
	}
	switch {
	case code == core.CodeUnavailable, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return client.Error{Code: string(core.CodeUnavailable), Message: words.Say(l, core.Say("temporarily unavailable: try again"))}
	case code == core.CodeConflict:
		return client.Error{Code: string(code),
			Message: words.Say(l, core.Say("another user changed it in the meantime: reload it and try again"))}
	}
	var raw [4]byte
	rand.Read(raw[:])
	id := hex.EncodeToString(raw[:])
	log.ErrorContext(r.Context(), "api", "id", id, "method", r.Method, "path", r.URL.Path, "error", err, "cause", errors.Unwrap(err))
	return client.Error{Code: string(core.CodeInternal),
		Message: words.Say(l, core.Say("internal error: the server's log has the details under %s", id))}
}

// WriteError answers an error in the shape of this interface, with the status
// of its code. What callers are not to know goes into the log.
func WriteError(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	said(w, r)
	e := errorOf(r, log, err)
	status, ok := statuses[core.Code(e.Code)]
	if !ok {
		status = http.StatusInternalServerError
	}
	write(w, status, client.ErrorReply{Error: e})
}

func (s *server) errorOf(r *http.Request, err error) client.Error { return errorOf(r, s.o.Log, err) }

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	WriteError(w, r, s.o.Log, err)
}

func (s *server) reply(w http.ResponseWriter, r *http.Request, v any, err error) {
	switch {
	case err != nil:
		s.fail(w, r, err)
	case v != nil:
		write(w, http.StatusOK, v)
	}
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a caller that has gone needs no answer
}

// Document is the OpenAPI document. Its components Manifest… describe the file of apply.
func Document() []byte { return document }

func (s *server) GetOpenAPI(w http.ResponseWriter, r *http.Request) (any, error) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(document)
	return nil, nil
}

func (s *server) GetStatus(w http.ResponseWriter, r *http.Request) (any, error) {
	var status client.Status
	if s.o.Status != nil {
		status = s.o.Status()
	}
	if !status.Standby {
		g, err := s.m.Global(r.Context())
		switch {
		case err == nil:
			status.Pause = pauseOf(g.Pause)
			if !g.Notify.IsZero() {
				status.Notify = new(NotifyOf(g.Notify))
			}
		case core.CodeOf(err) == core.CodeRefused:
			status.Fenced = err.Error()
		default:
			return nil, err
		}
	}
	return status, nil
}
