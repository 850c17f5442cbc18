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
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/fairsem"
)

// lists is the permission for operations that return only items that the caller may see. They check further
// permissions by their body.
const lists = access.Enter

// rules has the permission that each operation needs, by pattern. The server checks it before the operation starts: for
// the app, job or run in the path, if the pattern has one, else for all apps. The operation itself checks apps that only
// the body names, by [server.may]. Operations without an entry need an admin of all apps.
var rules = map[string]access.Deed{
	"GET /v1/proof":                                    access.Open,
	"GET /v1/status":                                   lists,
	"GET /v1/openapi.yaml":                             lists,
	"POST /v1/apply":                                   lists,
	"GET /v1/jobs":                                     lists,
	"GET /v1/overview":                                 lists,
	"POST /v1/bulk":                                    lists,
	"GET /v1/jobs/{id}":                                access.See,
	"GET /v1/jobs/{app}/{name}":                        access.See,
	"PUT /v1/jobs/{app}/{name}":                        access.Declare,
	"DELETE /v1/jobs/{app}/{name}":                     access.Edit,
	"POST /v1/jobs/{app}/{name}/pause":                 access.Operate,
	"POST /v1/jobs/{app}/{name}/resume":                access.Operate,
	"POST /v1/jobs/{app}/{name}/return-to-code":        access.Edit,
	"POST /v1/jobs/{app}/{name}/trigger":               access.Operate,
	"POST /v1/jobs/{app}/{name}/kill":                  access.Operate,
	"GET /v1/jobs/{app}/{name}/waiting":                access.See,
	"GET /v1/jobs/{app}/{name}/waiting/{key}":          access.See,
	"PATCH /v1/jobs/{app}/{name}/waiting/{key}":        access.Operate,
	"DELETE /v1/jobs/{app}/{name}/waiting/{key}":       access.Operate,
	"GET /v1/jobs/{app}/{name}/runs/{at}":              access.See,
	"PUT /v1/jobs/{app}/{name}/script":                 access.Script,
	"GET /v1/jobs/{app}/{name}/scripts":                access.See,
	"GET /v1/jobs/{app}/{name}/scripts/{version}":      access.See,
	"GET /v1/jobs/{app}/{name}/scripts/{version}/diff": access.See,
	"GET /v1/apps":                                     lists,
	"GET /v1/apps/{app}":                               access.See,
	"PUT /v1/apps/{app}":                               access.Edit,
	"DELETE /v1/apps/{app}":                            access.Edit,
	"GET /v1/apps/{app}/executors":                     access.See,
	"POST /v1/apps/{app}/executors/test":               access.Operate,
	"POST /v1/apps/{app}/executors/remove":             access.Operate,
	"POST /v1/apps/{app}/pause":                        access.Operate,
	"POST /v1/apps/{app}/resume":                       access.Operate,
	"GET /v1/channels":                                 lists,
	"GET /v1/channels/{channel}":                       lists,
	"PUT /v1/channels/{channel}":                       access.Secret,
	"DELETE /v1/channels/{channel}":                    access.Edit,
	"POST /v1/channels/{channel}/test":                 access.Operate,
	"GET /v1/users":                                    access.Administer,
	"GET /v1/users/{user}":                             access.Administer,
	"PUT /v1/users/{user}":                             access.Administer,
	"DELETE /v1/users/{user}":                          access.Administer,
	"DELETE /v1/users/{user}/tokens/{token}":           access.Administer,
	"GET /v1/me":                                       access.Known,
	"PUT /v1/me/settings":                              access.Own,
	"POST /v1/me/password":                             access.Own,
	"DELETE /v1/me/sessions":                           access.Own,
	"DELETE /v1/me/sessions/{session}":                 access.Own,
	"POST /v1/me/tokens":                               access.Own,
	"DELETE /v1/me/tokens/{token}":                     access.Own,
	"GET /v1/me/views":                                 access.OwnSee,
	"PUT /v1/me/views":                                 access.Own,
	"DELETE /v1/me/views":                              access.Own,
	"POST /v1/pause":                                   access.Operate,
	"POST /v1/resume":                                  access.Operate,
	"GET /v1/runs":                                     lists,
	"GET /v1/runs/histogram":                           lists,
	"GET /v1/lateness":                                 lists,
	"POST /v1/rerun":                                   lists,
	"POST /v1/clean":                                   lists,
	"GET /v1/runs/{run}":                               access.See,
	"PATCH /v1/runs/{run}":                             access.Operate,
	"GET /v1/runs/{run}/log":                           access.See,
	"POST /v1/runs/{run}/kill":                         access.Operate,
	"POST /v1/runs/{run}/cancel":                       access.Operate,
	"GET /v1/upcoming":                                 lists,
	"GET /v1/upcoming/histogram":                       lists,
	"POST /v1/preview":                                 lists,
	"GET /v1/changes":                                  lists,
	"GET /v1/audit":                                    lists,
	"GET /v1/reports":                                  lists,
	"POST /v1/replan":                                  lists,
	"POST /v1/rotate-key":                              access.Administer,
	"POST /v1/fence":                                   access.Administer,
	"POST /v1/restore":                                 access.Administer,
	"POST /v1/redrive":                                 access.See,
	"GET /v1/facts":                                    lists,
	"GET /v1/facts/jobs":                               lists,
}

// segment returns the part of a path that stands for {app}, {id} or {run}.
func segment(r *http.Request) string {
	if parts := strings.Split(r.URL.EscapedPath(), "/"); len(parts) > 3 { // /v1/jobs/{app}/{name}
		if name, err := url.PathUnescape(parts[3]); err == nil {
			return name
		}
	}
	return ""
}

// admit returns an error unless the caller has the permission for an operation with a pattern.
func (s *server) admit(r *http.Request, who access.Who, deed access.Deed, pattern string) error {
	_, known := rules[pattern]
	switch {
	case !known || who.Kind == access.Nobody || who.May(deed, "") == nil:
	case strings.Contains(pattern, "{id}"):
		return s.mayJob(r.Context(), who, deed, segment(r))
	case strings.Contains(pattern, "{run}"):
		return s.mayRun(r.Context(), who, deed, segment(r))
	case strings.Contains(pattern, "{app}"):
		app := segment(r)
		if err := core.CheckAppName("app", app); err != nil && who.Kind != access.Code {
			return err
		}
		return who.May(deed, app)
	}
	return who.May(deed, "")
}

// mayJob returns an error unless who has a permission for a job, given as app/name or number. A job that the caller
// cannot see gives the same error as a missing job.
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

// mayRun is mayJob for a run, given by its ID, or by its job with a scheduled time or a key.
func (s *server) mayRun(ctx context.Context, who access.Who, deed access.Deed, ref query.RunRef) error {
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
	if !found { // the run may have been skipped
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

// may returns an error unless the caller has a permission for an app; an empty app means all apps.
func may(r *http.Request, deed access.Deed, app string) error { return callerOf(r).May(deed, app) }

// mayThese is may for the app of a job, if one is given, else for app, else for all apps.
func (s *server) mayThese(r *http.Request, deed access.Deed, job, app string) error {
	if app != "" {
		if err := core.CheckAppName("app", app); err != nil {
			return err
		}
	}
	if job != "" {
		return s.mayJob(r.Context(), callerOf(r).Who, deed, job)
	}
	return may(r, deed, app)
}

// sift returns a filter of the apps that the caller may see; nil means all. If a job or an app is given, it returns
// an error unless the caller may see it.
func (s *server) sift(r *http.Request, job, app string) (func(app string) bool, error) {
	if job == "" && app == "" {
		return callerOf(r).Filter(), nil
	}
	return callerOf(r).Filter(), s.mayThese(r, access.See, job, app)
}

// unless returns the permission of an operation: with dryRun, reading is enough.
func unless(dryRun bool, deed access.Deed) access.Deed {
	if dryRun {
		return access.See
	}
	return deed
}

// A caller is the authenticated sender of a request.
type caller struct {
	access.Who
	long *fairsem.Semaphore // limits long bodies at a time; nil for admins
}

type callerKey struct{}

func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// actor returns the author of the changes that a request makes. Nothing in the request can set it.
func actor(r *http.Request) core.Actor { return callerOf(r).Actor() }

type asKey struct{}

// As returns a context for requests of the given caller. The Authorization headers of these requests have no effect.
// Use As after the user has been authenticated by other means, such as a session.
func As(ctx context.Context, who access.Who) context.Context {
	return context.WithValue(ctx, asKey{}, who)
}

// A known is a configured token and its caller. Hashes are compared, so that the duration of the comparison reveals
// nothing about the token.
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

// whoSent returns the caller of a request, from its context or its token.
func (s *server) whoSent(r *http.Request, deed access.Deed) (access.Who, error) {
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
	if deed != access.Declare {
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
	if strings.HasPrefix(app.Token, core.LockedMark) { // no caller has this token
		found = false
	}
	of := sha256.Sum256([]byte(app.Token))
	if err != nil || !found || subtle.ConstantTimeCompare(sum[:], of[:]) != 1 {
		return access.Who{}, err
	}
	return access.CodeOf(name), nil
}

// Prove returns one proof for each token and each host at which this server is reachable. Only a holder of the token
// can compute the proof. A client checks the proof before it sends its token. A server that forwards the request has
// another host, so its proof is invalid.
func (s *server) Prove(r *http.Request, params client.ProveParams) (any, error) {
	if n := len(params.Nonce); n < 16 || n > 64 {
		return nil, core.Invalid("nonce", params.Nonce, "16 to 64 random characters are expected")
	}
	var hosts []string
	if u, err := url.Parse(s.o.URL); err == nil && u.Host != "" {
		hosts = append(hosts, client.HostOf(u))
	}
	at := client.HostOf(&url.URL{Scheme: "https", Host: r.Host}) // load balancers before a function route by it
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
