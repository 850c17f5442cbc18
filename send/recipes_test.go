package send

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// recipes are the files in examples/endpoint that verify a signature, from a text on, with a
// server around the code: it prints its port, and answers 200 to a verified request, else 401.
var recipes = []struct {
	language, code, from string
	file, run            string
	before, after        string
}{
	{"go", "main.go", "// verified reports", "main.go", "go", `package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)
`, `
func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr().(*net.TCPAddr).Port)
	http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !verified(os.Getenv("TOKEN"), r, body) {
			w.WriteHeader(401)
		}
	}))
}
`},
	{"python", "verify.py", "", "main.py", "python3", "", `
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        ok = verified(os.environ["TOKEN"], self.command, self.path, self.headers, body)
        self.send_response(200 if ok else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_GET = do_POST = do_PUT = answer
    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
`},
	{"javascript", "verify.mjs", "", "main.mjs", "node", "", `
import { createServer } from "node:http";

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    response.statusCode = verified(process.env.TOKEN, request, Buffer.concat(parts)) ? 200 : 401;
    response.end();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
`},
	{"java", "Signatures.java", "", "Main.java", "java", "", `
class Main {
    public static void main(String[] args) throws Exception {
        var server = com.sun.net.httpserver.HttpServer.create(new java.net.InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            var body = exchange.getRequestBody().readAllBytes();
            try {
                var ok = Signatures.verified(System.getenv("TOKEN"), exchange.getRequestMethod(), exchange.getRequestURI().toString(),
                        exchange.getRequestHeaders()::getFirst, body);
                exchange.sendResponseHeaders(ok ? 200 : 401, -1);
            } catch (java.security.GeneralSecurityException e) {
                exchange.sendResponseHeaders(500, -1);
            }
            exchange.close();
        });
        server.start();
        System.out.println(server.getAddress().getPort());
    }
}
`},
}

// TestRecipes runs the code that verifies a signature: it accepts each call as it is sent, and
// rejects a call with a changed part or an old time.
func TestRecipes(t *testing.T) {
	for _, r := range recipes {
		t.Run(r.language, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../examples/endpoint/" + r.code)
			check.OK(t, err)
			_, code, found := strings.Cut(string(text), r.from)
			if !found {
				t.Fatalf("%s has no %q", r.code, r.from)
			}
			code = r.from + code
			if _, err := exec.LookPath(r.run); err != nil {
				t.Skipf("there is no %s here to run it with", r.run)
			}
			file := filepath.Join(t.TempDir(), r.file)
			main := r.after // a class that is run as a file is its first
			if r.language == "java" {
				imports, class, _ := strings.Cut(code, "\n/** Signatures ")
				code, main = imports+"\n"+main+"\n/** Signatures "+class, ""
			}
			check.OK(t, os.WriteFile(file, []byte(r.before+code+"\n"+main), 0o600))
			const token = "web-token"
			cmd := exec.Command(r.run, file)
			if r.language == "go" { // go run does not kill the program that it starts
				cmd = exec.Command(file + ".exe")
				if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", file+".exe", file).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			cmd.Env = append(os.Environ(), "TOKEN="+token)
			var told strings.Builder
			cmd.Stderr = &told
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			check.OK(t, err)
			port, err := bufio.NewReader(out).ReadString('\n')
			defer func() {
				cmd.Process.Kill()
				cmd.Wait()
				if t.Failed() {
					t.Log(&told)
				}
			}()
			if err != nil {
				if strings.Contains(told.String(), "jdk.compiler") {
					t.Skip("the Java here has no compiler")
				}
				t.Fatalf("%v: %s", err, &told)
			}
			verify(t, "127.0.0.1:"+strings.TrimSpace(port), token)
		})
	}
}

func verify(t *testing.T, host, token string) {
	s := newSender(t, Options{ReportURL: "http://tickring.example:7700", ReportKey: known([]byte("key"))})
	for _, handler := range []string{"POST /warm", "GET /warm?x=1&y=%2F", "PUT /in/a%20b?", "/"} {
		for _, params := range []string{"", `{"depth":2}`, "für die Nacht\n"} {
			sh := shipment("call:http://"+host, handler)
			sh.Job.Def.Params, sh.App.Token = params, token
			if a := s.Send(t.Context(), sh); a.Kind != dispatch.AnswerEnded || a.State != core.Succeeded {
				t.Errorf("%s with %q: %+v", handler, params, a)
			}
		}
	}
	signed := func(age time.Duration) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+host+"/warm?x=1", strings.NewReader("body"))
		check.OK(t, err)
		for name, value := range map[string]string{HeaderTime: time.Now().Add(-age).UTC().Format(time.RFC3339), HeaderRun: "7",
			HeaderJob: "web/warm", wire.HeaderAttempt: "2", wire.HeaderScheduledAt: "2027-01-15T08:00:00Z",
			HeaderCallback: "http://tickring.example/v1/report/7?key=k"} {
			r.Header.Set(name, value)
		}
		r.Header.Set(HeaderSignature, Signature(token, "POST", host, "/warm?x=1", r.Header, "body"))
		return r
	}
	ask := func(r *http.Request) int {
		resp, err := http.DefaultClient.Do(r)
		check.OK(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, age := range []time.Duration{0, 4 * time.Minute, -4 * time.Minute} {
		check.Equal(t, ask(signed(age)), 200, "signed %s ago", age)
	}
	for _, age := range []time.Duration{6 * time.Minute, -6 * time.Minute} {
		check.Equal(t, ask(signed(age)), 401, "signed %s ago", age)
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for what, change := range map[string]func(*http.Request){
		"no signature": func(r *http.Request) { r.Header.Del(HeaderSignature) },
		"another token": func(r *http.Request) {
			r.Header.Set(HeaderSignature, Signature("other-token", "POST", host, "/warm?x=1", r.Header, "body"))
		},
		"a version of its own": func(r *http.Request) { set(HeaderSignature, "v1"+r.Header.Get(HeaderSignature)[2:])(r) },
		"method":               func(r *http.Request) { r.Method = "PUT" },
		"host":                 func(r *http.Request) { r.Host = "other.example" },
		"path":                 func(r *http.Request) { r.URL.Path = "/cold" },
		"query":                func(r *http.Request) { r.URL.RawQuery = "x=2" },
		"body":                 func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("BODY")) },
		"time":                 set(HeaderTime, time.Now().Add(time.Minute).UTC().Format(time.RFC3339)),
		"no time":              set(HeaderTime, "now"),
		"run":                  set(HeaderRun, "8"),
		"job":                  set(HeaderJob, "web/cold"),
		"attempt":              set(wire.HeaderAttempt, "1"),
		"instant":              set(wire.HeaderScheduledAt, "2027-01-15T08:00:01Z"),
		"callback":             set(HeaderCallback, "http://stranger.example/"),
	} {
		r := signed(0)
		change(r)
		check.Equal(t, ask(r), 401, "changed %s", what)
	}
}
