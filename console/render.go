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
	Said string // what the form before it did
}

// templates are those of the pages, each with the frame around it; read when first asked for.
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
			panic(http.ErrAbortHandler) // half of it is sent
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
	if status != http.StatusOK || a.r.Method == http.MethodPost || !a.partial() { // who is logged out finds none by Back
		h.Set("Cache-Control", "no-store")
		writeZipped(a.w, a.r, status, body)
		return
	}
	// An open page asks again and again, and is told by the tag that it has the newest.
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
	h.Set("X-Ask-Again", fmt.Sprint(again(time.Since(a.began), units).Milliseconds())) // for who is not told
	h.Set("X-Since", a.since)
	return h
}

// spill keeps a page until it is made, or sends it as it is made once it is long: what was typed
// stands on the answer to a form, and is not held once more.
type spill struct {
	buf     bytes.Buffer
	a       *ask
	status  int
	streams bool
	out     io.WriteCloser // nil: it is kept
}

// spillAt is how many bytes of a page are kept.
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

// sinceSaid is a page with what was written before it was made.
func (a *ask) sinceSaid(page []byte) []byte {
	return bytes.Replace(page, sinceUnsaid, fmt.Appendf(nil, `data-since="%s"`, template.HTMLEscapeString(a.since)), 1)
}

// sinceUnsaid is where a page says what was written before it was made: it begins to listen
// later, and what came between is told it then. It is not in the tag, for it says nothing of what
// the page shows.
var sinceUnsaid = []byte(`data-since="?"`)

// part answers one template of a page, without its frame.
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

// writeZipped writes a body, compressed for who takes that.
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

// zipped begins a body, compressed for who takes that.
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
