package api_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// grants has the grants of the users in stories, and tokens the tokens of other callers.
var (
	grants = map[string][]access.Grant{"ada": {{Role: admin}}, "anna": {{Role: viewer}}, "edda": {{Role: editor}},
		"edi": {{App: "shop", Role: editor}}, "nora": {}, "olga": {{Role: operator}},
		"otto": {{App: "shop", Role: operator}}, "paul": {{App: "shop", Role: operator}, {App: "pay", Role: viewer}},
		"sam": {{App: "shop", Role: admin}}, "sven": {{Role: editor, Rights: []access.Right{access.Secrets}}},
		"vera": {{App: "shop", Role: viewer}}, "vic": {{Role: viewer}, {App: "shop", Role: editor}},
		"vip": {{App: "pay", Role: viewer}, {App: "shop", Role: editor}}}
	tokens = map[string]string{"": token, "reader": readToken, "code": appToken, "pay": "token-of-pay", "nobody": ""}
)

// parts are the parts of requests that would be too long in them.
var parts = strings.NewReplacer("PAYROLL", `{"name":"pay","title":"Pay","executors":["call:https://pay.example"]}`,
	"PAY", `{"name":"pay","executors":["call:https://pay.example"]}`,
	"SALARIES", `{"app":"pay","name":"salaries","handler":"POST /run","schedule":{"any":[{"every":"10s"},{"crontab":"30 2 28 * *"}]}}`,
	"LATER", `{"app":"pay","name":"salaries","handler":"POST /run","schedule":{"cron":"0 45 2 * * ?"}}`,
	"EXPECTING", `{"app":"shop","name":"report","handler":"POST /x","call":{"expect":[200]}}`,
	"HEADERS", `"headers":{"X-Team":"mine","X-Key":"hunter2"},"hidden":["X-Key"]`,
	"SHOWN", `"headers":{"X-Team":"mine","X-Key":"***"},"hidden":["X-Key"]`,
	"AUDIT", `{"app":"shop","name":"audit","handler":"audit"}`,
	"HASH", core.HashScript("id"), "LONG", strings.Repeat("x", api.MaxJob), "PARAMS", strings.Repeat("x", core.MaxParams+1))

// TestStories sends the requests of each story, and compares the answers with the file. No answer has a token of an app or a word
// that only developers know.
func TestStories(t *testing.T) {
	golden.Replay(t, func(t *testing.T, story string) (played string) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))) // in the bubble
			f := newHandler(t)
			f.h = f.withReports()
			f.shop()
			secrets := maps.Clone(tokens)
			for line := range strings.Lines(story) {
				if strings.HasPrefix(line, "    ") {
					continue // an answer
				}
				if played += line; !strings.HasPrefix(line, "#") {
					time.Sleep(time.Second)
					played += f.request(strings.TrimSpace(line), secrets)
				}
			}
		})
		return played
	})
}

// request sends the request of a line in a story, and returns the lines of its answer.
func (f *fixture) request(line string, secrets map[string]string) string {
	t := f.t
	t.Helper()
	ask, same := strings.CutPrefix(line, "! ")
	who, language, rest := "", "", ask
	if strings.HasPrefix(ask, "@") {
		who, rest, _ = strings.Cut(ask[1:], " ")
		who, language, _ = strings.Cut(who, "~")
	}
	if secrets[who] == "" && who != "nobody" {
		secrets[who] = f.person(who, grants[who]...)
	}
	method, rest, _ := strings.Cut(rest, " ")
	path, body, _ := strings.Cut(rest, " ")
	if method == "FAIL" {
		id, err := core.ParseRunID(path)
		check.OK(t, err)
		end := finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "no"}
		check.OK(t, f.finish.End(t.Context(), []finish.Result{end})[0])
		return ""
	}
	before := ""
	if same {
		before = f.state()
	}
	status, answer := f.inLanguage(language, secrets[who], method, path, parts.Replace(body))
	if same {
		check.Equal(t, cmp.Diff(before, f.state()), "", "%s changes something", ask)
	}
	for _, inside := range []string{"another-token", appToken, " ring", " lease", " claim", "json:", "runtime", "goroutine", "12345}",
		liar, otherAddress, "hunter2"} {
		if strings.Contains(answer, inside) {
			t.Errorf("%s: %q is in %s", ask, inside, answer)
		}
	}
	return fmt.Sprintf("    %d %s\n", status, strings.ReplaceAll(strings.TrimSpace(answer), "\n", "\n    "))
}
