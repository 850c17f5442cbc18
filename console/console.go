package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/internal/fairsem"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/words"
)

// Root is the path of the overview page. The paths of all other pages begin with Root.
const Root = "/console/"

type Options struct {
	// API handles all requests that the pages send to the API, in this process.
	API http.Handler
	// Access checks logins, sessions and permissions.
	Access *access.Access
	// Provider is the identity provider for single sign-on; nil means that only passwords are accepted.
	Provider *oidc.Provider
	// Writes returns a counter that increases with each write to the store. Open pages refresh when the counter
	// changes. nil means that open pages poll.
	Writes func() uint64
	// Newest returns the key of the newest journal, if Writes is nil. An open page is built again only if this
	// key has changed. nil means that it is built again at each poll.
	Newest func(ctx context.Context) (core.JournalKey, error)
	// Done is a channel; when it is closed, the connections of listening pages are closed. May be nil.
	Done <-chan struct{}
	// Listeners is the maximum number of pages that listen for changes; 0 means 500, which is also the highest
	// allowed value. One user can have half of them. Further pages poll.
	Listeners int
	// URL is the public URL of the server, such as "https://jobs.example". May be empty.
	URL string
	// Name is the name of the deployment, which logged-in users see. May be empty.
	Name string
	// Log is the log for error details that users must not see; nil means slog.Default().
	Log *slog.Logger
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

// Console serves the pages of the console with its method Handler.
type Console struct {
	alarms alarms // in the menu
	o      Options
	mux    *http.ServeMux
	asks   map[words.Language]*client.Client
	menu   []entry
	intake intake
	listen *fairsem.Semaphore // listening pages
}

func New(o Options) *Console {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	listeners := min(maxListeners, max(1, cmp.Or(o.Listeners, maxListeners)))
	c := &Console{o: o, mux: http.NewServeMux(), asks: map[words.Language]*client.Client{}, intake: newIntake(),
		listen: fairsem.New(listeners)}
	for _, l := range words.Languages {
		// An https URL spares the client the proof of the server; the transport never leaves this process. The user
		// is in the context of each request (api.As), and not in the token.
		one, err := client.New("https://console.invalid", "nobody", client.Config{HTTP: &http.Client{Transport: inside{o.API}},
			Timeout: askTimeout, Language: string(l)})
		if err != nil {
			panic(err)
		}
		c.asks[l] = one
	}
	c.mux.HandleFunc("GET /console/static/{hash}/{name}", serveStatic)
	c.mux.HandleFunc("GET /console/live", c.live)
	c.mux.HandleFunc("GET /console/login", c.loginPage)
	c.mux.HandleFunc("POST /console/login", c.logIn)
	c.mux.HandleFunc("GET /console/once/{secret}", c.oncePage)
	c.mux.HandleFunc("POST /console/once/{secret}", c.logInOnce)
	c.mux.HandleFunc("POST /console/logout", c.logOut)
	if o.Provider != nil {
		c.mux.HandleFunc("GET "+oidc.StartPath, c.toProvider)
		c.mux.HandleFunc("GET "+oidc.CallbackPath, c.fromProvider)
	}
	c.pages()
	return c
}

const askTimeout = 25 * time.Second

// maxForm is the limit of a form in bytes. It allows for a script of 256 KB and params of 64 KB, in which a form can
// write each byte as three.
const maxForm = 1 << 20

type entry struct {
	Name string // name of the entry's page
	Path string
	Text core.Text
	Part int // number of the entry's group in the menu
	// Command has the CLI commands with the function of the page.
	Command string
}

// policy lets a page load and run only files of this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		c.o.Log.Error("a page panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		http.Error(w, "internal error", http.StatusInternalServerError)
	}()
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if _, port, _ := net.SplitHostPort(r.Host); c.secure(r) && port == "" { // it would apply to all ports of a host
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	if err := crossOrigin.Check(r); err != nil {
		c.refuse(w, r, core.Errorf(core.CodeForbidden, "this request did not come from a page of this console: open the page here and try again"))
		return
	}
	if _, pattern := c.mux.Handler(r); pattern == "" {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			post := *r
			post.Method = http.MethodPost
			if _, pattern := c.mux.Handler(&post); pattern != "" { // the URL of a form whose answer was a page: its subject is one level up
				http.Redirect(w, r, here(path.Dir(r.URL.EscapedPath())), http.StatusSeeOther)
				return
			}
		}
		c.refuse(w, r, core.Errorf(core.CodeNotFound, "page %s not found", core.Truncate(r.URL.Path)))
		return
	}
	bound := int64(maxForm)
	if r.URL.Path == Root+"login" {
		bound = maxUnsent
	}
	leave, err := c.take(w, r, bound)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	defer leave()
	c.mux.ServeHTTP(w, r)
}

// crossOrigin rejects requests that a page of another site makes a browser send.
var crossOrigin = http.NewCrossOriginProtection()

// page registers a page that fills pages/NAME.html with the result of get.
func (c *Console) page(pattern, name string, get func(*ask) (any, error)) {
	c.handle(pattern, func(a *ask) error {
		a.render(http.StatusOK, name, must.Get(get(a)))
		return nil
	})
}

// handle registers a function for logged-in users. Its error is shown on a page of its own, unless the function has
// already written its answer.
func (c *Console) handle(pattern string, do func(*ask) error) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		a, ok := c.begin(w, r)
		if !ok {
			return
		}
		if err := must.Caught(func() error { return do(a) }); err != nil && !errors.Is(err, errShown) {
			a.fail(err)
		}
	})
}

// A formFunc handles a form. It returns the next page and a message for it.
type formFunc = func(*ask) (to string, said core.Text, err error)

// form registers the handler of a form. It reads the form only if the user has the permission for the app in the
// path, or for some app if the path has none. An error is shown on a page of its own, unless do has shown it.
func (c *Console) form(pattern string, deed access.Deed, do formFunc) {
	c.handle(pattern, func(a *ask) error {
		if app := a.Path("app"); app != "" || !a.who.MaySome(deed) {
			if err := a.who.May(deed, app); err != nil {
				return err
			}
		}
		if err := a.r.ParseForm(); err != nil {
			return badForm(err)
		}
		to, said, err := do(a)
		if err == nil {
			a.remember(said)
			http.Redirect(a.w, a.r, here(to), http.StatusSeeOther)
		}
		return err
	})
}

// errShown is the error of a page or form function that has already written its answer.
var errShown = errors.New("shown")

// orAgain returns the function of a form that do handles. If do fails, again shows the page of the form with the error
// and the input.
func orAgain(do formFunc, again func(a *ask, err error) (string, core.Text, error)) formFunc {
	return func(a *ask) (to string, said core.Text, err error) {
		err = must.Caught(func() (err error) {
			to, said, err = do(a)
			return err
		})
		if own, is := errors.AsType[*core.Error](err); err == nil || errors.Is(err, errShown) || is && own.Field == "do" {
			return to, said, err
		}
		return again(a, err)
	}
}

// noForm returns the error of a form that the page does not have.
func (a *ask) noForm() error {
	return core.Invalid("do", a.Form("do"), "this page has no form with this name")
}

func badForm(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return core.Errorf(core.CodeTooLarge, "the input is larger than the %d bytes allowed for a form", maxForm)
	}
	return core.Errorf(core.CodeInvalid, "the form cannot be read")
}

// here returns to if it is a path of the console, otherwise the overview page.
func here(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, Root) || strings.Contains(u.Path, "..") ||
		strings.Contains(to, "\\") {
		return Root
	}
	return u.String()
}

// begin authenticates the user of a page. If no user is logged in, it has already answered, and returns false.
func (c *Console) begin(w http.ResponseWriter, r *http.Request) (*ask, bool) {
	a := c.askOf(w, r)
	who, err := c.whoIs(r)
	switch {
	case core.CodeOf(err) == core.CodeUnauthorized:
		c.askLogin(a)
		return nil, false
	case err != nil:
		a.fail(err)
		return nil, false
	}
	a.who = who
	if who.MustChange && r.URL.Path != Root+"account" && r.URL.Path != Root+"live" {
		http.Redirect(w, r, Root+"account", http.StatusSeeOther)
		return nil, false
	}
	a.r = r.WithContext(api.As(r.Context(), who))
	if _, err := r.Cookie(saidCookie); err != nil && r.Method == http.MethodGet { // else the page shows the result of a form
		var ctx context.Context
		ctx, a.glance = glance.Begin(a.r.Context())
		a.r = a.r.WithContext(ctx)
	}
	switch {
	case c.o.Writes != nil: // after the session was recorded as seen, which changes no page
		a.since = fmt.Sprint(c.o.Writes())
	case c.o.Newest != nil && r.Method == http.MethodGet:
		a.since = a.sent()
	}
	return a, true
}

// refuse shows an error to a browser without a page to return to.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) { c.askOf(w, r).fail(err) }

// inside sends requests to a handler in this process.
type inside struct{ h http.Handler }

func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.RequestURI = r.URL.RequestURI()
	r.RemoteAddr = "console"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	t.h.ServeHTTP(w, r)
	return w.Result(), nil
}

var _ http.RoundTripper = inside{}

// pageOf maps a page of xxl-job's admin to the console's page.
var pageOf = map[string]string{"jobinfo": "jobs", "jobcode": "scripts", "joblog": "runs", "jobgroup": "executors", "user": "users"}

// SendAway redirects two kinds of requests to the console: requests for /, and for pages of the xxl-job admin, such as
// /xxl-job-admin/jobinfo. All other requests go to the next handler.
func SendAway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		page, old := strings.CutPrefix(path+"/", "/xxl-job-admin/")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead,
			path != "" && path != "/console" && !old,
			path != "/console" && !strings.Contains(r.Header.Get("Accept"), "text/html"):
			next.ServeHTTP(w, r)
		default:
			page, _, _ = strings.Cut(page, "/")
			http.Redirect(w, r, Root+pageOf[page], http.StatusSeeOther)
		}
	})
}
