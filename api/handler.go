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
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/probe"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/fairsem"
	"github.com/tickring/tickring/internal/ratelog"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/words"
)

//go:embed openapi.yaml
var document []byte

// Answer returns the last response of an executor address of an app. The second result is false if no response is
// recorded.
type Answer = func(app, address string) (probe.Answer, bool)

// Options has the settings of NewHandler.
type Options struct {
	// Token is the admin token. ReadToken is the read-only token. An empty token is never accepted.
	Token, ReadToken string
	// Access finds users by their tokens; nil means that no users exist.
	Access *access.Access
	// URL is the public URL of the server. If empty, only the addresses that the server listens at are used.
	URL string
	// Admit limits requests that send the token of an app, before the store is read. Unknown clients therefore
	// cannot cause load on the store. nil means no limit.
	Admit func(ctx context.Context, app, token string) error
	// Status returns the status of the server; nil means that the status is unknown.
	Status func() client.Status
	// Facts returns the facts that `tickring doctor` checks; nil means that no facts are known.
	Facts func(ctx context.Context, l words.Language) client.Facts
	// Answer returns the last response of an executor address; nil means that no responses are recorded.
	Answer Answer
	// Reports returns the statistics of runs by hour and day; nil means no reports.
	Reports *report.Reports
	// Restore starts a new generation of the data; nil means that no other deployment can have the data.
	Restore Restore
	// Store is the store of the deployment, with the state of notifications; nil means that the state is unknown.
	Store *store.Store
	// Refused records rejected requests, and lists the executors that sent rejected requests; nil means no
	// record.
	Refused *rejectlog.Trace
	// Log is the log for error details that callers must not see; nil means slog.Default().
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

// NewHandler returns a handler for the paths below /v1. If logs is nil, runs have no logs.
func NewHandler(m *people.People, logs postrun.Logs, o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Log = ratelog.Of(o.Log)
	s := &server{m: m, logs: logs, o: o, known: knownOf(&o), long: fairsem.New(longPlaces), tails: fairsem.New(longPlaces),
		reads: fairsem.New(2 * longPlaces), mux: &queryMux{http.NewServeMux(), map[string][]string{}}}
	HandlerWithOptions(s, StdHTTPServerOptions{BaseRouter: s.mux, ErrorHandlerFunc: s.badParam})
	return s
}

type server struct {
	m            *people.People
	logs         postrun.Logs
	o            Options
	known        []known
	long         *fairsem.Semaphore // long bodies
	tails, reads *fairsem.Semaphore // tails and pieces of logs; admins count too
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
	deed, known := rules[pattern]
	if !known {
		deed = access.Administer
	}
	if pattern == "" {
		if s.methods(r) == nil {
			// Unknown clients get it too: paths are not secret, and a 401 would make users look for the mistake in
			// their token.
			s.fail(w, r, core.Errorf(core.CodeNotFound, "%s does not exist: see /v1/openapi.yaml", core.Truncate(r.URL.Path)))
			return
		}
		deed = lists // the Allow header
	}
	who, err := s.whoSent(r, deed)
	if err == nil {
		err = s.admit(r, who, deed, pattern)
	}
	if err != nil {
		if core.CodeOf(err) == core.CodeUnauthorized {
			if s.o.Refused.Note(r.Context(), rejectlog.Refusal{Door: rejectlog.API, Reason: rejectlog.Token, Remote: r.RemoteAddr}) ||
				r.ContentLength != 0 { // else net/http would wait for the body before it answers
				w.Header().Set("Connection", "close")
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		s.fail(w, r, err)
		return
	}
	if who.From == "" { // else the caller in this process has set it
		who.From = access.Host(r.RemoteAddr)
	}
	c := caller{Who: who}
	if who.Kind != access.AdminToken {
		c.long = s.long
	}
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
	if pattern == "" {
		s.lost(w, r)
		return
	}
	err = s.mux.check(pattern, r)
	if err == nil && strings.Contains(pattern, "{run}") { // the use cases also take other references to runs
		_, err = core.ParseRunID(segment(r))
	}
	if err == nil {
		err = s.open(r)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// methods returns the methods that exist at the path of a request.
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

// lost answers a request whose path exists for other methods only.
func (s *server) lost(w http.ResponseWriter, r *http.Request) {
	allow := s.methods(r)
	w.Header().Set("Allow", strings.Join(append(allow, http.MethodOptions), ", "))
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	write(w, http.StatusMethodNotAllowed, client.ErrorReply{Error: client.Error{Code: string(core.CodeInvalid), Field: "method",
		Value: core.Truncate(r.Method), Message: words.Say(language(r), core.Say("allowed methods: %s", strings.Join(allow, ", ")))}})
}

// badParam answers a request whose path or query the generated code could not parse.
func (s *server) badParam(w http.ResponseWriter, r *http.Request, err error) {
	var missing *RequiredParamError
	var format *InvalidParamFormatError
	switch {
	case errors.As(err, &missing):
		err = core.Invalid(missing.ParamName, "", "required")
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

// language returns the language for answers to a request, by its Accept-Language.
func language(r *http.Request) words.Language { return words.Asked(r.Header.Get("Accept-Language")) }

// said sets the Content-Language of an answer.
func said(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Language", string(language(r)))
}

// allSaid translates texts; the result is nil if there are none.
func allSaid(l words.Language, texts []core.Text) (list []string) {
	for _, t := range texts {
		list = append(list, words.Say(l, t))
	}
	return list
}

// errorOf returns the error that a caller sees. For an internal error it has only an ID, under which the log has the
// details.
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
		return client.Error{Code: string(core.CodeUnavailable), Message: words.Say(l, core.Say("the server is temporarily unavailable: "+
			"try again"))}
	case code == core.CodeConflict:
		return client.Error{Code: string(code),
			Message: words.Say(l, core.Say("another user changed the object: reload it and try again"))}
	}
	var raw [4]byte
	rand.Read(raw[:])
	id := hex.EncodeToString(raw[:])
	log.ErrorContext(r.Context(), "api", "id", id, "method", r.Method, "path", r.URL.Path, "error", err, "cause", errors.Unwrap(err))
	return client.Error{Code: string(core.CodeInternal),
		Message: words.Say(l, core.Say("internal error: the server's log has the details in the line with the ID %s", id))}
}

// WriteError writes an error response in the format of this API, with the HTTP status for the code of the error. It
// also logs the error details that callers must not see.
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
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if _, is := v.(openAPI); is {
		w.Header().Set("Content-Type", "application/yaml")
		w.Write(document)
		return
	}
	write(w, http.StatusOK, v)
}

// openAPI stands for the OpenAPI document, the only answer that is not JSON.
type openAPI struct{}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a caller that has gone needs no answer
}

// Document is the text of api/openapi.yaml. Its components with names that begin with Manifest describe the manifest
// format.
func Document() []byte { return document }

func (s *server) GetOpenAPI(r *http.Request) (any, error) {
	return openAPI{}, nil
}

func (s *server) GetStatus(r *http.Request) (any, error) {
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
