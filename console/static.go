package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"sync"

	"github.com/tickring/tickring/internal/must"
)

// htmx (static/htmx.min.js, its license beside it) refreshes parts of open pages; app.js is ours.
//
//go:embed static
var staticFiles embed.FS

// statics are the files that pages load. Each path includes the file's hash, so that a browser loads it once.
var statics = sync.OnceValue(func() map[string]static {
	all := map[string]static{}
	for _, e := range must.Get(staticFiles.ReadDir("static")) {
		b := must.Get(staticFiles.ReadFile("static/" + e.Name()))
		sum := sha256.Sum256(b)
		all[e.Name()] = static{body: b, hash: hex.EncodeToString(sum[:6])}
	}
	return all
})

type static struct {
	body []byte
	hash string
}

var staticTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func (a *ask) Static(name string) string { return Root + "static/" + statics()[name].hash + "/" + name }

func serveStatic(w http.ResponseWriter, r *http.Request) {
	s, ok := statics()[r.PathValue("name")]
	kind := staticTypes[path.Ext(r.PathValue("name"))]
	if !ok || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	if s.hash == r.PathValue("hash") {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else { // of another release: send the present file
		w.Header().Set("Cache-Control", "no-store")
	}
	writeZipped(w, r, http.StatusOK, s.body)
}
