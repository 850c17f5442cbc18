// Command urlproxy makes the function URL of a stack in an AWS emulator reachable at an address of this machine.
// Emulators expect a host name that does not resolve. OUTPUTS is the file that cdk --outputs-file writes. The file is
// read at each request, so the stack may be deployed after urlproxy starts, or deployed again.
//
//	urlproxy -listen 127.0.0.1:4570 -emulator http://127.0.0.1:4566 -outputs OUTPUTS
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:4570", "address to listen at")
	emulator := flag.String("emulator", "http://127.0.0.1:4566", "address of the emulator")
	outputs := flag.String("outputs", "", "file with the outputs of the stack")
	flag.Parse()
	to, err := url.Parse(*emulator)
	if err != nil {
		log.Fatal(err)
	}
	s := &http.Server{Addr: *listen, Handler: proxy(to, *outputs), ReadHeaderTimeout: time.Minute}
	log.Fatal(s.ListenAndServe())
}

// proxy sends requests to the emulator under the host name of the function URL.
func proxy(to *url.URL, outputs string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, err := functionHost(outputs)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		p := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = host
		}}
		p.ServeHTTP(w, r)
	})
}

// functionHost is the host name in the output FunctionUrl of the one stack in a file.
func functionHost(outputs string) (string, error) {
	b, err := os.ReadFile(outputs)
	if err != nil {
		return "", fmt.Errorf("nothing is deployed: %w", err)
	}
	var stacks map[string]struct{ FunctionUrl string }
	if err := json.Unmarshal(b, &stacks); err != nil {
		return "", fmt.Errorf("%s: %w", outputs, err)
	}
	for _, s := range stacks {
		if u, err := url.Parse(s.FunctionUrl); err == nil && u.Host != "" {
			return u.Host, nil
		}
	}
	return "", fmt.Errorf("%s: no stack has a FunctionUrl", outputs)
}
