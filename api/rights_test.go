package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/peak"
)

const (
	readToken = "a-token-that-may-only-read"
	appToken  = "secret-token" // of shop
)

// liar and otherAddress are in headers that name another caller.
const liar, otherAddress = "somebody-else", "203.0.113.200"

// as sends one request with a token.
func (f *fixture) as(token, method, path, body string) (int, string) {
	f.t.Helper()
	return f.inLanguage("", token, method, path, body)
}

// inLanguage sends one request with a token and a header Accept-Language. No answer is a page.
func (f *fixture) inLanguage(language, token, method, path, body string) (int, string) {
	f.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header = http.Header{"Accept-Language": {language}, "Tickring-Actor": {liar}, "X-Forwarded-For": {otherAddress}}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	h, in := w.Header(), "en"
	if strings.HasPrefix(language, "zh") {
		in = "zh"
	}
	if h.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(h.Get("Content-Type"), "html") || h.Get("Content-Language") != in {
		f.t.Errorf("%s %s: %v, want %s", method, path, h, in)
	}
	if (w.Code == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
		f.t.Errorf("%s %s: %d asks for %q", method, path, w.Code, w.Header())
	}
	return w.Code, w.Body.String()
}

// TestProof checks the allowed nonces, that one proof reveals nothing about another, and which hosts are proven: the
// host of the connection and the host of the URL, whatever the caller sends.
func TestProof(t *testing.T) {
	f := newFixture(t)
	proofs := regexp.MustCompile(`^{"proofs":\["[0-9a-f]{64}","[0-9a-f]{64}"\]}\n$`)
	seen := map[string]bool{}
	for nonce, want := range map[string]int{"": 400, "short": 400, strings.Repeat("x", 65): 400, strings.Repeat("x", 64): 200,
		"abcdefghijklmnop": 200} {
		status, text := f.as("", "GET", "/v1/proof?nonce="+nonce, "")
		if status != want || want == 200 && (!proofs.MatchString(text) || seen[text]) {
			t.Errorf("%q: %d %s", nonce, status, text)
		}
		seen[text] = true
	}
	const nonce = "abcdefghijklmnop"
	for _, c := range []struct {
		url   string
		local net.Addr
		want  []string
	}{
		{"", nil, []string{"jobs.example:443"}},
		{"", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7700}, []string{"127.0.0.1:7700"}},
		{"http://127.0.0.1:7700", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7700}, []string{"127.0.0.1:7700"}},
		{"http://Sched", &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 7700}, []string{"sched:80", "[fe80::1]:7700"}},
	} {
		h := api.NewHandler(nil, nil, api.Options{Token: "sesame", URL: c.url})
		r := httptest.NewRequest("GET", "/v1/proof?nonce="+nonce, nil)
		r.Host = "jobs.example"
		if c.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.local))
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var got, want client.Proofs
		for _, host := range c.want {
			want.Proofs = append(want.Proofs, client.Proof("sesame", host, nonce))
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !slices.Equal(got.Proofs, want.Proofs) {
			t.Errorf("%+v: %v %v", c, got, err)
		}
	}
}

// A hostileList is an oversized list in a request: the text before its items, an item, the text after them, and the
// number of items that the document allows.
type hostileList struct {
	at, before, after string
	item              func(i int) string
	most              any
}

// document returns api/openapi.yaml.
var document = sync.OnceValue(func() (doc map[string]any) {
	if err := yaml.Unmarshal(api.Document(), &doc); err != nil {
		panic(err)
	}
	return doc
})

// operations returns the operations of the document by their patterns.
func operations(yield func(pattern string, op map[string]any) bool) {
	for path, item := range document()["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if method != "parameters" && !yield(strings.ToUpper(method)+" "+path, op.(map[string]any)) {
				return
			}
		}
	}
}

// part returns a part of the document, or the component that it refers to.
func part(p any) map[string]any {
	of := p.(map[string]any)
	if ref, is := of["$ref"].(string); is {
		of = document()
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			of = of[name].(map[string]any)
		}
	}
	return of
}

// listsOf finds the lists and maps of a schema, also those inside other lists.
func listsOf(of any, l hostileList, deep int, found func(hostileList)) {
	if deep == 0 {
		return // a recursive schema
	}
	s := part(of)
	for _, of := range []string{"allOf", "oneOf"} {
		parts, _ := s[of].([]any)
		for _, part := range parts {
			listsOf(part, l, deep-1, found)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		in := l
		in.at, in.before, in.after = strings.TrimPrefix(l.at+"."+name, "."), l.before+`{"`+name+`":`, "}"+l.after
		listsOf(p, in, deep-1, found)
	}
	if items, is := s["items"].(map[string]any); is {
		l.before, l.after, l.most = l.before+"[", "]"+l.after, s["maxItems"]
		text := map[any]string{"string": `""`, "integer": "0"}[items["type"]]
		if text == "" {
			text = "{}"
		}
		l.item = func(int) string { return text }
		found(l)
		l.at += "[0]"
		listsOf(items, l, deep-1, found)
	} else if s["additionalProperties"] != nil {
		l.before, l.after, l.most = l.before+"{", "}"+l.after, s["maxProperties"]
		l.item = func(i int) string { return fmt.Sprintf(`"%d":""`, i) }
		found(l)
	}
}

// TestNoOperationHoldsMuchMemory: the server reads no body from unknown clients, and decodes no list with more items
// than the document allows, from any client.
func TestNoOperationHoldsMuchMemory(t *testing.T) {
	check.Long(t)
	f, _ := guardedFixture(t)
	viewerToken, adminToken := f.person("vera", access.Grant{Role: viewer}), f.person("alma", access.Grant{Role: access.Admin})
	const size = 1_000_000
	send := func(token, op, body string, most int64) (status int, says string, held int64) {
		method, path, _ := strings.Cut(op, " ")
		path = strings.NewReplacer("{app}", "shop", "{name}", "report", "{id}", "1", "{run}", "4294967297", "{at}", "2026-11-20T02:30",
			"{key}", "k", "{version}", "1", "{user}", "vera", "{channel}", "c", "{token}", "t", "{session}", "s").Replace(path)
		held = peak.Of(most, func() { status, says = f.as(token, method, path, body) })
		return status, says, held
	}
	for op, of := range operations {
		all := []hostileList{{before: `{"x":[`, item: func(int) string { return "{}" }, after: "]}"}}
		if body, _ := of["requestBody"].(map[string]any); body != nil {
			for _, c := range body["content"].(map[string]any) {
				listsOf(c.(map[string]any)["schema"], hostileList{}, 20, func(l hostileList) { all = append(all, l) })
			}
		}
		for _, l := range all {
			text := []byte(l.before + l.item(0))
			for i := 1; len(text) < size; i++ {
				text = append(append(text, ','), l.item(i)...)
			}
			text = append(text, l.after...)
			if status, _, held := send("", op, string(text), 4<<20); status < 400 && op != "GET /v1/proof" || held > 4<<20 {
				t.Errorf("%s, %s from an unknown client: %d, %d MB were held", op, l.at, status, held>>20)
			}
			if l.at == "" { // the other lists are decoded for a viewer as for an admin
				if _, _, held := send(viewerToken, op, string(text), 16<<20); held > 16<<20 {
					t.Errorf("%s, a viewer's body: %d MB were held", op, held>>20)
				}
				continue
			}
			status, answer, held := send(adminToken, op, string(text), 16<<20)
			if e := errorOf(t, answer); status != 400 || e.Field != l.at || !strings.Contains(e.Message, fmt.Sprint(l.most)) || held > 16<<20 {
				t.Errorf("%s: %s: %d %.200s, want at most %v; %d MB were held", op, l.at, status, answer, l.most, held>>20)
			}
		}
	}
}
