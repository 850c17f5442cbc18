package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/internal/places"
)

// A rule is what an operation asks of its caller, by its pattern: which deed, and of which
// app. It is asked before the operation does anything; of what a body names the operation
// asks itself, by [server.may].
type rule struct {
	deed access.Deed
	of   scope
}

// scope is where an operation says of which app it is.
type scope int

const (
	ofAll    scope = iota // of none, or of all
	ofPath                // in the path: /v1/jobs/{app}/…, /v1/apps/{app}…
	ofNumber              // by a job's number: /v1/jobs/{id}
	ofRun                 // by a run's ID: /v1/runs/{run}…
)

// lists are operations whose answer has what the caller may see, and whose body says what
// else is asked for.
var lists = rule{access.Enter, ofAll}

// rules are those of all operations; what is not here only an admin of all may.
var rules = map[string]rule{
	"GET /v1/proof":                                    {access.Open, ofAll},
	"GET /v1/status":                                   lists,
	"GET /v1/openapi.yaml":                             lists,
	"POST /v1/apply":                                   lists,
	"GET /v1/jobs":                                     lists,
	"GET /v1/home":                                     lists,
	"POST /v1/bulk":                                    lists,
	"GET /v1/jobs/{id}":                                {access.See, ofNumber},
	"GET /v1/jobs/{app}/{name}":                        {access.See, ofPath},
	"PUT /v1/jobs/{app}/{name}":                        {access.Declare, ofPath},
	"DELETE /v1/jobs/{app}/{name}":                     {access.Edit, ofPath},
	"POST /v1/jobs/{app}/{name}/pause":                 {access.Operate, ofPath},
	"POST /v1/jobs/{app}/{name}/resume":                {access.Operate, ofPath},
	"POST /v1/jobs/{app}/{name}/give-back":             {access.Edit, ofPath},
	"POST /v1/jobs/{app}/{name}/trigger":               {access.Operate, ofPath},
	"POST /v1/jobs/{app}/{name}/kill":                  {access.Operate, ofPath},
	"GET /v1/jobs/{app}/{name}/waiting":                {access.See, ofPath},
	"GET /v1/jobs/{app}/{name}/waiting/{key}":          {access.See, ofPath},
	"PATCH /v1/jobs/{app}/{name}/waiting/{key}":        {access.Operate, ofPath},
	"DELETE /v1/jobs/{app}/{name}/waiting/{key}":       {access.Operate, ofPath},
	"GET /v1/jobs/{app}/{name}/runs/{at}":              {access.See, ofPath},
	"PUT /v1/jobs/{app}/{name}/script":                 {access.Script, ofPath},
	"GET /v1/jobs/{app}/{name}/scripts":                {access.See, ofPath},
	"GET /v1/jobs/{app}/{name}/scripts/{version}":      {access.See, ofPath},
	"GET /v1/jobs/{app}/{name}/scripts/{version}/diff": {access.See, ofPath},
	"GET /v1/apps":                                     lists,
	"GET /v1/apps/{app}":                               {access.See, ofPath},
	"PUT /v1/apps/{app}":                               {access.Edit, ofPath},
	"DELETE /v1/apps/{app}":                            {access.Edit, ofPath},
	"GET /v1/apps/{app}/executors":                     {access.See, ofPath},
	"POST /v1/apps/{app}/executors/test":               {access.Operate, ofPath},
	"POST /v1/apps/{app}/executors/remove":             {access.Operate, ofPath},
	"POST /v1/apps/{app}/pause":                        {access.Operate, ofPath},
	"POST /v1/apps/{app}/resume":                       {access.Operate, ofPath},
	"GET /v1/channels":                                 lists,
	"GET /v1/channels/{channel}":                       lists,
	"PUT /v1/channels/{channel}":                       {access.Secret, ofAll},
	"DELETE /v1/channels/{channel}":                    {access.Edit, ofAll},
	"POST /v1/channels/{channel}/test":                 {access.Operate, ofAll},
	"GET /v1/people":                                   {access.Administer, ofAll},
	"GET /v1/people/{person}":                          {access.Administer, ofAll},
	"PUT /v1/people/{person}":                          {access.Administer, ofAll},
	"DELETE /v1/people/{person}":                       {access.Administer, ofAll},
	"DELETE /v1/people/{person}/tokens/{token}":        {access.Administer, ofAll},
	"GET /v1/me":                                       {access.Known, ofAll},
	"PUT /v1/me/look":                                  {access.Own, ofAll},
	"POST /v1/me/password":                             {access.Own, ofAll},
	"DELETE /v1/me/sessions":                           {access.Own, ofAll},
	"DELETE /v1/me/sessions/{session}":                 {access.Own, ofAll},
	"POST /v1/me/tokens":                               {access.Own, ofAll},
	"DELETE /v1/me/tokens/{token}":                     {access.Own, ofAll},
	"GET /v1/me/views":                                 {access.OwnSee, ofAll},
	"PUT /v1/me/views":                                 {access.Own, ofAll},
	"DELETE /v1/me/views":                              {access.Own, ofAll},
	"POST /v1/pause":                                   {access.Operate, ofAll},
	"POST /v1/resume":                                  {access.Operate, ofAll},
	"GET /v1/runs":                                     lists,
	"GET /v1/runs/shape":                               lists,
	"GET /v1/lateness":                                 lists,
	"POST /v1/rerun":                                   lists,
	"POST /v1/clean":                                   lists,
	"GET /v1/runs/{run}":                               {access.See, ofRun},
	"PATCH /v1/runs/{run}":                             {access.Operate, ofRun},
	"GET /v1/runs/{run}/log":                           {access.See, ofRun},
	"POST /v1/runs/{run}/kill":                         {access.Operate, ofRun},
	"POST /v1/runs/{run}/cancel":                       {access.Operate, ofRun},
	"GET /v1/upcoming":                                 lists,
	"GET /v1/upcoming/shape":                           lists,
	"POST /v1/preview":                                 lists,
	"GET /v1/changes":                                  lists,
	"GET /v1/audit":                                    lists,
	"GET /v1/reports":                                  lists,
	"POST /v1/replan":                                  lists,
	"POST /v1/rotate-key":                              {access.Administer, ofAll},
	"POST /v1/fence":                                   {access.Administer, ofAll},
	"POST /v1/restore":                                 {access.Administer, ofAll},
	"POST /v1/redrive":                                 {access.See, ofAll},
	"GET /v1/facts":                                    lists,
	"GET /v1/facts/jobs":                               lists,
}

// ruleOf is that of a pattern.
func ruleOf(pattern string) rule {
	if r, ok := rules[pattern]; ok {
		return r
	}
	return rule{access.Administer, ofAll}
}

// segment is what a path has in the place of {app}, {id} or {run}.
func segment(r *http.Request) string {
	if parts := strings.Split(r.URL.EscapedPath(), "/"); len(parts) > 3 { // /v1/jobs/{app}/{name}
		if name, err := url.PathUnescape(parts[3]); err == nil {
			return name
		}
	}
	return ""
}

// admit asks whether a caller may do what a rule says.
func (s *server) admit(r *http.Request, who access.Who, rule rule) error {
	if rule.of == ofAll || who.Kind == access.Nobody || who.May(rule.deed, "") == nil {
		return who.May(rule.deed, "")
	}
	switch rule.of {
	case ofNumber:
		return s.mayJob(r.Context(), who, rule.deed, segment(r))
	case ofRun:
		return s.mayRun(r.Context(), who, rule.deed, segment(r))
	}
	app := segment(r)
	if err := core.CheckAppName("app", app); err != nil && who.Kind != access.Code {
		return err
	}
	return who.May(rule.deed, app)
}

// mayJob asks whether somebody may do a deed to a job, by app/name or number. Whether there is
// one that he may not see is not told.
func (s *server) mayJob(ctx context.Context, who access.Who, deed access.Deed, ref string) error {
	if who.May(deed, "") == nil {
		return nil
	}
	if app, _, named := strings.Cut(ref, "/"); named {
		if err := core.CheckAppName("job", app); err != nil {
			return err
		}
		return who.May(deed, app)
	}
	id, err := s.m.JobID(ctx, ref)
	if err != nil {
		return err
	}
	names, err := s.m.Names(ctx, []core.JobID{id})
	if err != nil {
		return err
	}
	app, _, _ := strings.Cut(names[id], "/")
	if app == "" || !who.Sees(app) {
		return core.Errorf(core.CodeNotFound, "job %s does not exist", ref)
	}
	return who.May(deed, app)
}

// mayRun is mayJob of a run: by its ID, or by its job with an instant or a key.
func (s *server) mayRun(ctx context.Context, who access.Who, deed access.Deed, ref ask.RunRef) error {
	if who.May(deed, "") == nil {
		return nil
	}
	if i := strings.IndexAny(ref, "@#"); i >= 0 {
		return s.mayJob(ctx, who, deed, ref[:i])
	}
	id, err := core.ParseRunID(ref)
	if err != nil {
		return err
	}
	run, found, err := s.m.Stored(ctx, id)
	if err != nil {
		return err
	}
	app := run.App
	if !found { // an instant may have been skipped
		names, err := s.m.Names(ctx, []core.JobID{id.Job()})
		if err != nil {
			return err
		}
		app, _, _ = strings.Cut(names[id.Job()], "/")
	}
	if app == "" || !who.Sees(app) {
		return core.Errorf(core.CodeNotFound, "run %d does not exist", id)
	}
	return who.May(deed, app)
}

// may asks whether the caller of a request may do a deed to an app, or with none to all.
func may(r *http.Request, deed access.Deed, app string) error { return callerOf(r).May(deed, app) }

// mayThese asks it of what a job, or else an app, picks; with neither of all.
func (s *server) mayThese(r *http.Request, deed access.Deed, job, app string) error {
	switch {
	case job != "":
		return s.mayJob(r.Context(), callerOf(r).Who, deed, job)
	case app != "":
		if err := core.CheckAppName("app", app); err != nil {
			return err
		}
	}
	return may(r, deed, app)
}

// sift is what the caller of a list sees of what a job, or else an app, picks: of either all,
// where he may see it, with neither what is his.
func (s *server) sift(r *http.Request, job, app string) (func(app string) bool, error) {
	if job == "" && app == "" {
		return callerOf(r).Sift(), nil
	}
	return callerOf(r).Sift(), s.mayThese(r, access.See, job, app)
}

// unless is the deed of what only shows with dryRun what it would do.
func unless(dryRun bool, deed access.Deed) access.Deed {
	if dryRun {
		return access.See
	}
	return deed
}

// A caller is who sent a request that is let in.
type caller struct {
	access.Who
	long *places.Places // of long bodies, for who is no admin
}

type callerKey struct{}

func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

func withCaller(r *http.Request, c caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// actor is the author of what a request changes: who asks, and nothing that it says.
func actor(r *http.Request) core.Actor { return callerOf(r).Actor() }

type asKey struct{}

// As is a context whose requests are somebody's, whatever their Authorization says: for who has
// found out by other means, and asks the handler in the same process.
func As(ctx context.Context, who access.Who) context.Context {
	return context.WithValue(ctx, asKey{}, who)
}

// A known is a token and who has it. Hashes are compared, so that the time it takes
// tells nothing of the token.
type known struct {
	who   access.Who
	token string
	sum   [sha256.Size]byte
}

func knownOf(o *Options) []known {
	list := []known{{who: access.ByMachine(true), token: o.Token}, {who: access.ByMachine(false), token: o.ReadToken}}
	for i := range list {
		list[i].sum = sha256.Sum256([]byte(list[i].token))
	}
	return slices.DeleteFunc(list, func(k known) bool { return k.token == "" })
}

// whoSent is who sent a request, as its context or its token says.
func (s *server) whoSent(r *http.Request, rule rule) (access.Who, error) {
	if who, ok := r.Context().Value(asKey{}).(access.Who); ok {
		return who, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return access.Who{}, nil
	}
	sum := sha256.Sum256([]byte(token))
	for i := range s.known {
		if subtle.ConstantTimeCompare(sum[:], s.known[i].sum[:]) == 1 {
			return s.known[i].who, nil
		}
	}
	if s.o.Access != nil {
		if who, err := s.o.Access.Bearer(r.Context(), token); err != nil || who.Kind != access.Nobody {
			return who, err
		}
	}
	if rule.deed != access.Declare {
		return access.Who{}, nil
	}
	name := segment(r)
	if core.CheckAppName("app", name) != nil {
		return access.Who{}, nil
	}
	if s.o.Admit != nil {
		if err := s.o.Admit(r.Context(), name, token); err != nil {
			if core.CodeOf(err) == core.CodeUnauthorized {
				err = nil
			}
			return access.Who{}, err
		}
	}
	app, found, err := s.m.FindApp(r.Context(), name)
	if strings.HasPrefix(app.Token, core.LockedMark) { // nobody has it
		found = false
	}
	of := sha256.Sum256([]byte(app.Token))
	if err != nil || !found || subtle.ConstantTimeCompare(sum[:], of[:]) != 1 {
		return access.Who{}, err
	}
	return access.CodeOf(name), nil
}

// Prove answers what only who knows the tokens can, for where it was reached, so that a
// caller sends its own to nobody else: who hands the question on is reached elsewhere.
func (s *server) Prove(w http.ResponseWriter, r *http.Request, params client.ProveParams) (any, error) {
	if n := len(params.Nonce); n < 16 || n > 64 {
		return nil, core.Invalid("nonce", params.Nonce, "16 to 64 random characters are expected")
	}
	var hosts []string
	if u, err := url.Parse(s.o.URL); err == nil && u.Host != "" {
		hosts = append(hosts, client.HostOf(u))
	}
	at := client.HostOf(&url.URL{Scheme: "https", Host: r.Host}) // what is before a function goes by it
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		at = client.HostAt(local)
	}
	if !slices.Contains(hosts, at) {
		hosts = append(hosts, at)
	}
	out := client.Proofs{Proofs: []string{}}
	keys := make([]string, len(s.known))
	for i := range s.known {
		keys[i] = s.known[i].token
	}
	if params.Of != "" && s.o.Access != nil {
		key, err := s.o.Access.ProofKey(r.Context(), params.Of)
		if err != nil {
			return nil, err
		}
		if key != "" {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		for _, host := range hosts {
			out.Proofs = append(out.Proofs, client.Proof(key, host, params.Nonce))
		}
	}
	return out, nil
}
