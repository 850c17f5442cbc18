package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/places"
	"github.com/tickring/tickring/words"
)

// Root is the path of the home page; every page is below it.
const Root = "/console/"

type Options struct {
	// API is asked for everything, in this process.
	API http.Handler
	// Access knows who is logged in, and lets people in.
	Access *access.Access
	// Provider lets in whom it knows, besides passwords; nil: there is none.
	Provider *oidc.Provider
	// Writes grows with what is written to the store, so that open pages hear of it at
	// once; nil where nobody knows: then they ask again and again.
	Writes func() uint64
	// Newest returns the key of the newest journal, where nobody knows Writes: an open page asks
	// for it before it is made anew. May be nil.
	Newest func(ctx context.Context) (core.JournalKey, error)
	// Done ends the connections of pages that listen; nil: nothing but their own end does.
	Done <-chan struct{}
	// Listeners is how many pages may listen for that at once, of one person half of them at
	// most: 500, or fewer. The others ask.
	Listeners int
	// URL is where browsers reach this server, "https://jobs.example" if by TLS; may be empty.
	URL string
	// Name is what this deployment is called, for who is logged in; may be empty.
	Name string
	// Log takes what people are not told; slog.Default() if nil.
	Log *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Console serves the pages. Handler is its way in.
type Console struct {
	alarms alarms // for the menu
	o      Options
	mux    *http.ServeMux
	asks   map[words.Language]*client.Client
	menu   []entry
	intake intake
	listen *places.Places // of pages that listen
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
		listen: places.New(listeners)}
	for _, l := range words.Languages {
		// Of https nobody has to prove who he is; the transport leaves this process never. Who
		// asks stands in the context of each question (api.As), and not in a token.
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

// maxForm bounds what a form may bring, in bytes: a script of 256 KB and params of 64 KB, each byte
// written as three.
const maxForm = 1 << 20

type entry struct {
	Name string // of the page
	Path string
	Text core.Text
	Part int // those of one part stand together
}

// policy is what a page may load and do: what comes from here, and no more.
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
	if _, port, _ := net.SplitHostPort(r.Host); c.secure(r) && port == "" { // it counts for all ports of a host
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
			if _, pattern := c.mux.Handler(&post); pattern != "" { // of a form whose answer was a page: what it is about stands above
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

// crossOrigin refuses what the page of another site has a browser send.
var crossOrigin = http.NewCrossOriginProtection()

// page serves a page: what get answers fills pages/NAME.html.
func (c *Console) page(pattern, name string, get func(*ask) (any, error)) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		a, ok := c.begin(w, r)
		if !ok {
			return
		}
		switch data, err := get(a); {
		case errors.Is(err, errShown):
		case err != nil:
			a.fail(err)
		default:
			a.render(http.StatusOK, name, data)
		}
	})
}

// form takes what a form posts from who may do a deed to the app of the path, or else to some app:
// of nobody else it is read. do does it, and answers the page to go on to, and what to
// say there. An error is shown on a page of its own, unless do has shown it.
func (c *Console) form(pattern string, deed access.Deed, do func(*ask) (to string, said core.Text, err error)) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		a, ok := c.begin(w, r)
		if !ok {
			return
		}
		if app := a.Path("app"); app != "" || !a.who.MaySome(deed) {
			if err := a.who.May(deed, app); err != nil {
				a.fail(err)
				return
			}
		}
		if err := a.r.ParseForm(); err != nil {
			a.fail(badForm(err))
			return
		}
		to, said, err := do(a)
		switch {
		case errors.Is(err, errShown):
		case err != nil:
			a.fail(err)
		default:
			a.remember(said)
			http.Redirect(w, r, here(to), http.StatusSeeOther)
		}
	})
}

// errShown is what the function of a page or form answers that has written the answer itself.
var errShown = errors.New("shown")

func badForm(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return core.Errorf(core.CodeTooLarge, "the input is larger than the %d bytes allowed for a form", maxForm)
	}
	return core.Errorf(core.CodeInvalid, "the form cannot be read")
}

// here is a path of the console, or its home page in the place of any other.
func here(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, Root) || strings.Contains(u.Path, "..") ||
		strings.Contains(to, "\\") {
		return Root
	}
	return u.String()
}

// begin is the start of each page: who asks, in which language. It has answered where
// nobody is logged in.
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
	if _, err := r.Cookie(saidCookie); err != nil && r.Method == http.MethodGet { // after a form it shows what that did
		var ctx context.Context
		ctx, a.glance = glance.Begin(a.r.Context())
		a.r = a.r.WithContext(ctx)
	}
	switch {
	case c.o.Writes != nil: // after that the session was seen, which is of no page
		a.since = fmt.Sprint(c.o.Writes())
	case c.o.Newest != nil && r.Method == http.MethodGet:
		a.since = a.sent()
	}
	return a, true
}

// refuse answers who has no page to go back to.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) { c.askOf(w, r).fail(err) }

// inside does requests by a handler in this process.
type inside struct{ h http.Handler }

func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	r.RequestURI = r.URL.RequestURI()
	r.RemoteAddr = "console"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	t.h.ServeHTTP(w, r)
	return w.response(r), nil
}

var _ http.RoundTripper = inside{}

// pageOf names the console's page for a page of xxl-job's admin.
var pageOf = map[string]string{"jobinfo": "jobs", "jobcode": "scripts", "joblog": "runs", "jobgroup": "executors", "user": "people"}

// SendAway redirects a browser that opens / or a page of xxl-job's admin, such as a
// bookmark of /xxl-job-admin/jobinfo, to the console. Other requests go to next.
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
