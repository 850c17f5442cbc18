package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/words"
)

// An ask is one request of a browser: its user, language and time zone. Templates call its methods.
type ask struct {
	*client.Client // calls the API as the user
	c              *Console
	w              http.ResponseWriter
	r              *http.Request
	Lang           words.Language
	Now            time.Time
	began          time.Time // machine time
	zone           zone
	who            access.Who
	page           string // in the menu
	out            bool   // no user is logged in
	still          bool   // an open page with input does not refresh
	panel          string // open panel of a form whose URL does not name it
	rejection      error  // why the form or filter of this request was rejected; nil: it was not
	wrong          string // the same, as the page shows it
	since          string // the write count or journal before the page was built
	glance         *glance.Glance
}

// Cookies of the console, other than the session's.
const (
	langCookie = "tickring_lang"
	zoneCookie = "tickring_zone" // job, mine or utc
	tzCookie   = "tickring_tz"   // the browser's time zone
	saidCookie = "tickring_said" // the result of a form, which the next page shows
)

func (c *Console) askOf(w http.ResponseWriter, r *http.Request) *ask {
	a := &ask{c: c, w: w, r: r, Lang: words.Asked(r.Header.Get("Accept-Language")), Now: c.o.Now().UTC(), began: time.Now()}
	if k, err := r.Cookie(langCookie); err == nil {
		a.Lang = words.Of(k.Value)
	}
	a.zone = zoneOf(r)
	a.Client = c.asks[a.Lang]
	return a
}

func (a *ask) Ctx() context.Context { return a.r.Context() }

func (a *ask) Q(name string) string { return a.r.URL.Query().Get(name) }

func (a *ask) Form(name string) string { return a.r.PostFormValue(name) }

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// typedText returns a posted text with LF line ends, because browsers post CRLF.
func typedText(posted string) string { return lineEnds.Replace(posted) }

// shownText returns a stored text as a browser shows it and posts it unchanged: without CRs, and without the first
// line break of a text area.
func shownText(stored string) string { return strings.TrimPrefix(typedText(stored), "\n") }

// keptText returns stored if posted is the text that a browser showed for it, otherwise the posted
// text. Stored line ends change only if the text changes.
func keptText(posted, stored string) string {
	if text := typedText(posted); text != shownText(stored) {
		return text
	}
	return stored
}

func (a *ask) Path(name string) string { return a.r.PathValue(name) }

// May reports whether the user has a permission (a value of access.Deeds) for an app. An empty app means objects that
// belong to no app. Pages show only allowed actions, and the API checks the permission again.
func (a *ask) May(deed, app string) bool { return a.who.May(access.Deed(deed), app) == nil }

func (a *ask) MaySome(deed string) bool { return a.who.MaySome(access.Deed(deed)) }

// MayHere reports whether the user has a permission for the app of this page. If the page has no app, MayHere is
// MaySome.
func (a *ask) MayHere(deed string) bool {
	if app := a.Path("app"); app != "" {
		return a.May(deed, app)
	}
	return a.MaySome(deed)
}

func (a *ask) Who() access.Who { return a.who }

// Out reports whether no user is logged in. The page then has no menu.
func (a *ask) Out() bool { return a.out }

// With returns the URL of this page with changed query values, which are given as pairs of name and value. An empty
// value removes the name from the query. The list position `after` is also removed.
func (a *ask) With(pairs ...string) string {
	q := a.r.URL.Query()
	q.Del("after")
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
			continue
		}
		q.Set(pairs[i], pairs[i+1])
	}
	return withQuery(a.r.URL.EscapedPath(), q.Encode())
}

// withQuery returns the URL of a page with a query; without it if the query is empty.
func withQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// Held returns the query values with the given names, as pairs of name and value. A form keeps these values in hidden
// fields.
func (a *ask) Held(names ...string) [][2]string { return held(a.r.URL.Query(), names) }

func held(q url.Values, names []string) (list [][2]string) {
	for _, name := range names {
		for _, v := range q[name] {
			list = append(list, [2]string{name, v})
		}
	}
	return list
}

// given returns the values of a name in a query that are not empty.
func given(q url.Values, name string) (list []string) {
	for _, v := range q[name] {
		if v != "" {
			list = append(list, v)
		}
	}
	return list
}

// remember keeps the result of a form for the next page.
func (a *ask) remember(said core.Text) {
	if said.Code() == "" {
		return
	}
	http.SetCookie(a.w, a.cookie(saidCookie, base64.RawURLEncoding.EncodeToString([]byte(words.Say(a.Lang, said))), 20))
}

// said returns the result of the form before this page, once.
func (a *ask) said() string {
	k, err := a.r.Cookie(saidCookie)
	if err != nil || a.Partial() {
		return ""
	}
	http.SetCookie(a.w, a.cookie(saidCookie, "", -1))
	b, err := base64.RawURLEncoding.DecodeString(k.Value)
	if err != nil || len(b) > 2000 {
		return ""
	}
	return strings.ToValidUTF8(string(b), "")
}

// Partial reports whether the request is the automatic refresh of an open page.
func (a *ask) Partial() bool { return a.r.Header.Get("HX-Request") != "" }

func (a *ask) secure() bool { return a.c.secure(a.r) }

// secure reports whether the browser uses TLS, with the server itself or with a proxy in front.
func (c *Console) secure(r *http.Request) bool {
	return r.TLS != nil || r.URL.Scheme == "https" || r.Header.Get("X-Forwarded-Proto") == "https" ||
		strings.HasPrefix(c.o.URL+"/", "https://"+r.Host+"/")
}

// status returns the HTTP status of an error of the API; 0 for other errors.
func status(err error) int {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Status
	}
	return 0
}

// rejected reports whether the API rejected a request, because of its content or of the state of the data.
func rejected(err error) bool {
	return status(err) != 0 && status(err) < http.StatusInternalServerError
}

type problem struct {
	Status  int
	Title   string
	Message string
}

// problemOf returns the error that users see. It logs the details that users must not see.
func (a *ask) problemOf(err error) problem {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return problem{Status: e.Status, Message: e.Error()}
	}
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code != core.CodeInternal {
		status := map[core.Code]int{core.CodeInvalid: 400, core.CodeNotFound: 404, core.CodeForbidden: 403, core.CodeConflict: 409,
			core.CodeTooLarge: 413, core.CodeUnauthorized: 401}[e.Code]
		if status == 0 {
			status = http.StatusServiceUnavailable
		}
		return problem{Status: status, Message: words.Error(a.Lang, e)}
	}
	a.c.o.Log.Error("a page could not be made", "path", a.r.URL.Path, "err", err)
	return problem{Status: http.StatusInternalServerError, Message: a.Say("the request failed: see the server's log for the reason")}
}

var problemTitles = map[int]core.Text{http.StatusNotFound: core.Say("Not found"), http.StatusForbidden: core.Say("Not allowed"),
	http.StatusConflict: core.Say("Conflict"), http.StatusBadRequest: core.Say("Invalid request"),
	http.StatusRequestEntityTooLarge: core.Say("Invalid request")}

func (a *ask) fail(err error) {
	p := a.problemOf(err)
	a.still = p.Status < 500 // another request gives the same page
	p.Title = cmp.Or(words.Say(a.Lang, problemTitles[p.Status]), a.Say("Not completed"))
	a.render(p.Status, "problem", p)
}

// again shows the page of a rejected form again, with the error and the input.
func (a *ask) again(err error, name string, data any) (string, core.Text, error) {
	return a.shown(a.problemOf(err).Status, name, data)
}

// shown answers a form with a page.
func (a *ask) shown(status int, name string, data any) (string, core.Text, error) {
	a.render(status, name, data)
	return "", core.Text{}, errShown
}

func (a *ask) JobPath(job string) string {
	app, name, _ := strings.Cut(job, "/")
	return Root + "jobs/" + url.PathEscape(app) + "/" + url.PathEscape(name)
}
