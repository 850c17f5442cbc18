package executor

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/tickring/tickring/wire"
)

var bodies = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, 4096)) }}

var accepted = wire.AppendReply(nil, wire.CodeSuccess, "")

var contentType = []string{wire.ContentType}

// ServeHTTP handles scheduler requests. Their paths end in /beat, /idleBeat, /run, /trigger, /kill or /log. Every response has
// HTTP status 200, as schedulers expect, and has the result in the body.
func (e *Executor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	buf := bodies.Get().(*bytes.Buffer)
	reply := e.answer(w, r, buf)
	w.Header()["Content-Type"] = contentType
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(reply))}
	_, _ = w.Write(reply) // a client that disconnected asks again
	if buf.Cap() <= 256<<10 {
		buf.Reset()
		bodies.Put(buf)
	}
}

func refuse(msg string) []byte { return wire.AppendReply(nil, wire.CodeFailure, msg) }

func (e *Executor) answer(w http.ResponseWriter, r *http.Request, buf *bytes.Buffer) []byte {
	if r.Method != http.MethodPost {
		return refuse("invalid request, HttpMethod not support.")
	}
	if wire.FromPage(r.Header) {
		return refuse("Requests from web pages are rejected: only schedulers can use this path.")
	}
	if !sameSecret(r.Header.Get(wire.HeaderToken), e.o.Token) {
		return refuse("The access token is wrong.")
	}
	app := r.Header.Get(wire.HeaderApp)
	if app != "" && app != e.o.App {
		return refuse("The executor belongs to another app.")
	}
	if msg := readBody(w, r, buf); msg != "" {
		return refuse(msg)
	}
	body := buf.Bytes()
	at := "/" + path.Base(r.URL.Path)
	switch at {
	case wire.PathBeat:
		if !e.serving() {
			return refuse("The executor is stopping.")
		}
		return accepted

	case wire.PathIdleBeat:
		q, err := wire.DecodeIdleBeat(body)
		switch {
		case err != nil:
			return refuse("idleBeat: " + err.Error())
		case !e.serving():
			return refuse("The executor is stopping.")
		case !e.idle(q.JobID):
			return refuse("job thread is running or has trigger queue.")
		}
		return accepted

	case wire.PathRun, wire.PathTrigger:
		run, err := decodeRun(body)
		if err != nil {
			return refuse("run: " + err.Error())
		}
		if said := wire.ParseAbout(r.Header.Get); said != (wire.About{}) {
			run.About = said
		}
		if at == wire.PathTrigger {
			e.client.speaksD()
		}
		code, msg := e.accept(run)
		if code == wire.CodeSuccess {
			return accepted
		}
		return wire.AppendReply(nil, code, msg)

	case wire.PathKill:
		q, err := wire.DecodeKill(body)
		if err != nil {
			return refuse("kill: " + err.Error())
		}
		e.killJob(q.JobID)
		return accepted

	case wire.PathLog:
		q, err := wire.DecodeLogRequest(body)
		if err != nil {
			return refuse("log: " + err.Error())
		}
		e.mu.Lock()
		open := e.open[q.LogID] != nil
		e.mu.Unlock()
		return logReply(app != "", e.logs.read(q, open))
	}
	return refuse("invalid request, uri-mapping(" + oneLine(r.URL.Path, 200) + ") not found.")
}

// logReply puts the lines under data if the client sends an app, as only dialect D and tickring do. Otherwise it uses both
// other field names, because the request does not distinguish A and B from C.
func logReply(d bool, res wire.LogResult) []byte {
	if d {
		return wire.AppendLogReply(nil, wire.DialectD, wire.CodeSuccess, "", res)
	}
	const head = `{"code":200,"msg":null,"content":`
	b := wire.AppendLogReply(nil, wire.DialectA, wire.CodeSuccess, "", res)
	payload := b[len(head) : len(b)-1]
	return append(append(append(b[:len(b)-1:len(b)-1], `,"data":`...), payload...), '}')
}

func (e *Executor) serving() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == stateRunning
}

// sameSecret compares in constant time, so that timing reveals neither content nor length. If want is empty, every secret
// passes.
func sameSecret(got, want string) bool {
	if want == "" {
		return true
	}
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// readBody reads a request's body into buf; if that fails, msg explains why.
func readBody(w http.ResponseWriter, r *http.Request, buf *bytes.Buffer) (msg string) {
	const tooLarge = "The body is larger than 5 MiB."
	if r.ContentLength > wire.MaxBody {
		w.Header().Set("Connection", "close")
		return tooLarge
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge
	case err != nil:
		return "The body could not be read to its end."
	}
	return ""
}
