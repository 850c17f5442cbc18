package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

//go:embed pages/*.html
var pageFiles embed.FS

type view struct {
	*ask
	Data any
	Said string // the result of the form that the user sent before this page
}

// Part returns a part of a page for a template of its own.
func (a *ask) Part(data any) view { return view{ask: a, Data: data} }

// templates has the template of each page with its frame; each is parsed at its first use.
var templates sync.Map // name: func() (*template.Template, error)

func templateOf(name string) (*template.Template, error) {
	one, _ := templates.LoadOrStore(name, sync.OnceValues(func() (*template.Template, error) {
		return template.New("frame.html").Option("missingkey=error").ParseFS(pageFiles, "pages/frame.html", "pages/parts.html",
			"pages/"+name+".html")
	}))
	return one.(func() (*template.Template, error))()
}

func (a *ask) render(status int, name string, data any) {
	if a.page == "" {
		a.page = name
	}
	if status != http.StatusOK {
		a.unsure()
	}
	said := a.said()
	t, err := templateOf(name)
	b := spill{a: a, status: status, streams: status != http.StatusOK || a.r.Method == http.MethodPost}
	if err == nil {
		err = t.Execute(&b, view{ask: a, Data: data, Said: said})
	}
	if b.out != nil {
		if err != nil {
			panic(http.ErrAbortHandler) // half of the page has been sent
		}
		b.out.Close()
		return
	}
	if err != nil {
		a.c.o.Log.Error("a page could not be filled", "page", name, "err", err)
		http.Error(a.w, "internal error", http.StatusInternalServerError)
		return
	}
	h := a.pageHeader()
	body := a.sinceSaid(b.buf.Bytes())
	if status != http.StatusOK || a.r.Method == http.MethodPost || !a.Partial() { // so that Back shows no page after a logout
		h.Set("Cache-Control", "no-store")
		writeZipped(a.w, a.r, status, body)
		return
	}
	// An open page polls; its tag lets the server answer that nothing has changed.
	h.Set("Cache-Control", "private, no-cache")
	sum := sha256.Sum256(b.buf.Bytes())
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`
	h.Set("ETag", tag)
	if a.r.Header.Get("If-None-Match") == tag {
		a.w.WriteHeader(http.StatusNotModified)
		return
	}
	writeZipped(a.w, a.r, status, body)
}

func (a *ask) pageHeader() http.Header {
	h := a.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", string(a.Lang))
	h.Set("Vary", "Cookie, Accept-Language, Accept-Encoding, HX-Request")
	units := 0.0
	if a.glance != nil {
		units = a.glance.Units()
	}
	h.Set("X-Ask-Again", fmt.Sprint(again(time.Since(a.began), units).Milliseconds())) // for pages that poll
	h.Set("X-Since", a.since)
	return h
}

// spill buffers a page until it is complete. A long answer to a form is sent while it is built, because it has the
// input, which would be in memory twice.
type spill struct {
	buf     bytes.Buffer
	a       *ask
	status  int
	streams bool
	out     io.WriteCloser // nil: buffering
}

// spillAt is the number of bytes of a page that are buffered.
const spillAt = 256 << 10

func (s *spill) Write(p []byte) (int, error) {
	if s.out != nil {
		return s.out.Write(p)
	}
	n, err := s.buf.Write(p)
	if s.streams && s.buf.Len() > spillAt {
		s.a.pageHeader().Set("Cache-Control", "no-store")
		s.out = zipped(s.a.w, s.a.r, s.status)
		_, err = s.out.Write(s.a.sinceSaid(s.buf.Bytes()))
		s.buf = bytes.Buffer{}
	}
	return n, err
}

// sinceSaid returns a page with the write count or journal before its build filled in.
func (a *ask) sinceSaid(page []byte) []byte {
	return bytes.Replace(page, sinceUnsaid, fmt.Appendf(nil, `data-since="%s"`, template.HTMLEscapeString(a.since)), 1)
}

// sinceUnsaid is the place of that value in a page. The page sends it when it starts to listen, and gets an event if
// there was a write since. The tag of a page ignores the value, because it is not visible.
var sinceUnsaid = []byte(`data-since="?"`)

// part returns one template of a page without its frame.
func (a *ask) part(page, name string, data any) {
	t, err := templateOf(page)
	var b bytes.Buffer
	if err == nil {
		err = t.ExecuteTemplate(&b, name, view{ask: a, Data: data})
	}
	if err != nil {
		a.c.o.Log.Error("a part of a page could not be filled", "page", page, "part", name, "err", err)
		http.Error(a.w, "internal error", http.StatusInternalServerError)
		return
	}
	a.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	a.w.Header().Set("Cache-Control", "no-store")
	writeZipped(a.w, a.r, http.StatusOK, b.Bytes())
}

// writeZipped writes a body, compressed if the client accepts gzip.
func writeZipped(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	if len(body) < 1000 || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(status)
		w.Write(body)
		return
	}
	out := zipped(w, r, status)
	out.Write(body)
	out.Close()
}

// zipped starts a body, compressed if the client accepts gzip.
func zipped(w http.ResponseWriter, r *http.Request, status int) io.WriteCloser {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		return plainBody{w}
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := zippers.Get().(*gzip.Writer)
	z.Reset(w)
	return zippedBody{z}
}

type (
	plainBody  struct{ io.Writer }
	zippedBody struct{ *gzip.Writer }
)

func (plainBody) Close() error { return nil }

func (z zippedBody) Close() error {
	defer zippers.Put(z.Writer)
	return z.Writer.Close()
}

var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return z
}}
