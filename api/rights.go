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
)

// A need is what an operation asks of its caller.
type need int

const (
	changes  need = iota // it changes something; so does what the table does not name
	asks                 // it shows with dryRun what it would change without
	declares             // it changes a job, which may be one that an app's code declares
	scripts              // it gives executors a script to run: whatever it says is done there
	reads                // it shows what there is
	open                 // it shows nothing that is not for everybody
)

// needs are those of all operations, by pattern.
var needs = map[string]need{
	"GET /v1/proof":                                    open,
	"GET /v1/status":                                   reads,
	"GET /v1/openapi.yaml":                             reads,
	"POST /v1/apply":                                   asks,
	"GET /v1/jobs":                                     reads,
	"GET /v1/jobs/{id}":                                reads,
	"GET /v1/jobs/{app}/{name}":                        reads,
	"PUT /v1/jobs/{app}/{name}":                        declares,
	"DELETE /v1/jobs/{app}/{name}":                     changes,
	"POST /v1/jobs/{app}/{name}/pause":                 changes,
	"POST /v1/jobs/{app}/{name}/resume":                changes,
	"POST /v1/jobs/{app}/{name}/give-back":             changes,
	"POST /v1/jobs/{app}/{name}/trigger":               changes,
	"POST /v1/jobs/{app}/{name}/kill":                  changes,
	"GET /v1/jobs/{app}/{name}/waiting":                reads,
	"GET /v1/jobs/{app}/{name}/waiting/{key}":          reads,
	"PATCH /v1/jobs/{app}/{name}/waiting/{key}":        changes,
	"DELETE /v1/jobs/{app}/{name}/waiting/{key}":       changes,
	"GET /v1/jobs/{app}/{name}/runs/{at}":              reads,
	"PUT /v1/jobs/{app}/{name}/script":                 scripts,
	"GET /v1/jobs/{app}/{name}/scripts":                reads,
	"GET /v1/jobs/{app}/{name}/scripts/{version}":      reads,
	"GET /v1/jobs/{app}/{name}/scripts/{version}/diff": reads,
	"GET /v1/apps":                                     reads,
	"GET /v1/apps/{app}":                               reads,
	"PUT /v1/apps/{app}":                               changes,
	"DELETE /v1/apps/{app}":                            changes,
	"GET /v1/apps/{app}/executors":                     reads,
	"POST /v1/apps/{app}/pause":                        changes,
	"POST /v1/apps/{app}/resume":                       changes,
	"GET /v1/channels":                                 reads,
	"GET /v1/channels/{channel}":                       reads,
	"PUT /v1/channels/{channel}":                       changes,
	"DELETE /v1/channels/{channel}":                    changes,
	"POST /v1/channels/{channel}/test":                 changes,
	"POST /v1/pause":                                   changes,
	"POST /v1/resume":                                  changes,
	"GET /v1/runs":                                     reads,
	"GET /v1/runs/shape":                               reads,
	"GET /v1/lateness":                                 reads,
	"POST /v1/rerun":                                   asks,
	"POST /v1/clean":                                   asks,
	"GET /v1/runs/{run}":                               reads,
	"PATCH /v1/runs/{run}":                             changes,
	"GET /v1/runs/{run}/log":                           reads,
	"POST /v1/runs/{run}/kill":                         changes,
	"POST /v1/runs/{run}/cancel":                       changes,
	"GET /v1/upcoming":                                 reads,
	"POST /v1/preview":                                 reads,
	"GET /v1/changes":                                  reads,
	"GET /v1/audit":                                    reads,
	"GET /v1/reports":                                  reads,
	"POST /v1/replan":                                  changes,
	"POST /v1/fence":                                   changes,
	"POST /v1/restore":                                 changes,
	"POST /v1/redrive":                                 asks,
	"GET /v1/facts":                                    reads,
	"GET /v1/facts/jobs":                               reads,
}

// A caller is who asks, as its token says; the zero caller has none that is known.
type caller struct {
	kind kind
	app  string        // of code: whose it is
	long chan struct{} // places of long bodies, for who is no admin
}

type kind int

const (
	nobody kind = iota
	code        // of an app, with the token that its executors send
	reader
	admin
)

// may says whether a caller may do what an operation needs, to a job of an app: the
// one place that knows.
func may(c caller, n need, app string) error {
	switch {
	case n == open, c.kind == admin, c.kind == reader && n == reads, c.kind == code && n == declares && c.app == app:
		return nil
	case c.kind == reader:
		return core.Errorf(core.CodeForbidden, "this token may only read: what changes something takes the admin token")
	case c.kind == code && n == scripts:
		return core.Errorf(core.CodeForbidden, "this is the token of app %s: a script takes the admin token, for it may say anything to "+
			"its executors", c.app)
	case c.kind == code:
		return core.Errorf(core.CodeForbidden,
			"this is the token of app %s: with it code may declare jobs of that app (declared: true), and nothing else", c.app)
	case n == declares:
		return core.Errorf(core.CodeUnauthorized, "the token is missing or wrong: send the admin token, or to declare a job that of its app, "+
			"as Authorization: Bearer TOKEN")
	}
	return core.Errorf(core.CodeUnauthorized, "the token is missing or wrong: send it as Authorization: Bearer TOKEN")
}

// A known is a token and who has it. Hashes are compared, so that the time it takes
// tells nothing of the token.
type known struct {
	caller
	token string
	sum   [sha256.Size]byte
}

func knownOf(o *Options) []known {
	list := []known{{caller: caller{kind: admin}, token: o.Token}, {caller: caller{kind: reader}, token: o.ReadToken}}
	for i := range list {
		list[i].sum = sha256.Sum256([]byte(list[i].token))
	}
	return slices.DeleteFunc(list, func(k known) bool { return k.token == "" })
}

// callerOf is who sent a request for an operation.
func (s *server) callerOf(r *http.Request, n need) (caller, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return caller{}, nil
	}
	sum := sha256.Sum256([]byte(token))
	for i := range s.known {
		if subtle.ConstantTimeCompare(sum[:], s.known[i].sum[:]) == 1 {
			return s.known[i].caller, nil
		}
	}
	if n != declares {
		return caller{}, nil
	}
	name, err := url.PathUnescape(strings.Split(r.URL.EscapedPath(), "/")[3]) // of /v1/jobs/{app}/{name}
	if err != nil || core.CheckAppName("app", name) != nil {
		return caller{}, nil
	}
	if s.o.Admit != nil {
		if err := s.o.Admit(r.Context(), name, token); err != nil {
			if core.CodeOf(err) == core.CodeUnauthorized {
				err = nil
			}
			return caller{}, err
		}
	}
	app, found, err := s.m.FindApp(r.Context(), name)
	of := sha256.Sum256([]byte(app.Token))
	if err != nil || !found || subtle.ConstantTimeCompare(sum[:], of[:]) != 1 {
		return caller{}, err
	}
	return caller{kind: code, app: name}, nil
}

type callerKey struct{}

// may says whether the caller of a request that is let in may do this too.
func (s *server) may(r *http.Request, n need, app string) error {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return may(c, n, app)
}

// unless is what an operation of the need asks is, by its body.
func unless(dryRun bool) need {
	if dryRun {
		return reads
	}
	return changes
}

func withCaller(r *http.Request, c caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// actor is who asks, as the caller says; code is nobody but its app's.
func actor(r *http.Request) core.Actor {
	if c, _ := r.Context().Value(callerKey{}).(caller); c.kind == code {
		return core.Actor{Name: "code-of-" + c.app}
	}
	if name := r.Header.Get(client.ActorHeader); name != "" {
		return core.Actor{Name: name}
	}
	return core.Actor{Name: "api"}
}

// Prove answers what only who knows the tokens can, for where it was reached, so that a
// caller sends its own to nobody else: who hands the question on is reached elsewhere.
func (s *server) Prove(w http.ResponseWriter, r *http.Request, params ProveParams) {
	if n := len(params.Nonce); n < 16 || n > 64 {
		s.fail(w, r, core.Invalid("nonce", params.Nonce, "16 to 64 characters of chance are expected"))
		return
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
	out := Proofs{Proofs: []string{}}
	for _, k := range s.known {
		for _, host := range hosts {
			out.Proofs = append(out.Proofs, client.Proof(k.token, host, params.Nonce))
		}
	}
	s.write(w, http.StatusOK, out)
}
