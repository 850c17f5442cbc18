package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// want is the permission that an operation must need, written by hand to check the table of rules.
type want struct {
	role  access.Role
	right access.Right
	scope string // shop: the app; all; list: any permission; open; own: users only
	body  string
}

const (
	viewer, operator, editor, admin = access.Viewer, access.Operator, access.Editor, access.Admin
	ofShop, ofAll, aList            = "shop", "all", "list"
)

// wanted has the permission of each operation. An operation whose body decides has several entries, with a label
// after a space.
var wanted = map[string]want{
	"GET /v1/proof":                                    {scope: "open"},
	"GET /v1/status":                                   {viewer, "", aList, ""},
	"GET /v1/openapi.yaml":                             {viewer, "", aList, ""},
	"POST /v1/apply":                                   {viewer, "", aList, `{"dryRun":true}`},
	"POST /v1/apply prune":                             {editor, "secrets", ofAll, `{"prune":true,"set":"s"}`},
	"POST /v1/apply notify":                            {editor, "", ofAll, `{"notify":{}}`},
	"POST /v1/apply channels":                          {editor, "secrets", ofAll, `{"channels":[{"name":"c"}]}`},
	"GET /v1/jobs":                                     {viewer, "", aList, ""},
	"POST /v1/bulk":                                    {operator, "", ofShop, `{"verb":"pause","jobs":["shop/report"]}`},
	"POST /v1/bulk kill":                               {operator, "", ofShop, `{"verb":"kill","filter":{"app":"shop"}}`},
	"POST /v1/bulk delete":                             {editor, "", ofShop, `{"verb":"delete","jobs":["shop/report"]}`},
	"POST /v1/bulk label":                              {editor, "", ofShop, `{"verb":"label","filter":{"app":"shop"},"labels":{"a":"b"}}`},
	"POST /v1/bulk dry":                                {viewer, "", ofShop, `{"verb":"delete","jobs":["shop/report"],"dryRun":true}`},
	"GET /v1/jobs/{id}":                                {viewer, "", ofShop, ""},
	"GET /v1/jobs/{app}/{name}":                        {viewer, "", ofShop, ""},
	"PUT /v1/jobs/{app}/{name}":                        {editor, "", ofShop, `{"handler":"x"}`},
	"PUT /v1/jobs/{app}/{name} script":                 {editor, "scripts", ofShop, `{"script":{"kind":"shell","source":"id"}}`},
	"PUT /v1/jobs/{app}/{name} command":                {admin, "", ofAll, `{"command":{"line":"id"}}`},
	"PUT /v1/jobs/{app}/{name} secret":                 {editor, "secrets", ofShop, `{"handler":"x","call":{"auth":{"bearer":"b"}}}`},
	"PUT /v1/jobs/{app}/{name} group":                  {editor, "", ofAll, `{"handler":"x","overlap":{"limit":1,"group":"g"}}`},
	"DELETE /v1/jobs/{app}/{name}":                     {editor, "", ofShop, ""},
	"POST /v1/jobs/{app}/{name}/pause":                 {operator, "", ofShop, `{}`},
	"POST /v1/jobs/{app}/{name}/resume":                {operator, "", ofShop, `{}`},
	"POST /v1/jobs/{app}/{name}/return-to-code":        {editor, "", ofShop, ""},
	"POST /v1/jobs/{app}/{name}/trigger":               {operator, "", ofShop, `{}`},
	"POST /v1/jobs/{app}/{name}/trigger address":       {operator, "addresses", ofShop, `{"addresses":["http://10.0.0.9:1"]}`},
	"POST /v1/jobs/{app}/{name}/kill":                  {operator, "", ofShop, ""},
	"GET /v1/jobs/{app}/{name}/waiting":                {viewer, "", ofShop, ""},
	"GET /v1/jobs/{app}/{name}/waiting/{key}":          {viewer, "", ofShop, ""},
	"PATCH /v1/jobs/{app}/{name}/waiting/{key}":        {operator, "", ofShop, `{"params":"p"}`},
	"PATCH /v1/jobs/{app}/{name}/waiting/{key} addr":   {operator, "addresses", ofShop, `{"addresses":["http://10.0.0.9:1"]}`},
	"DELETE /v1/jobs/{app}/{name}/waiting/{key}":       {operator, "", ofShop, ""},
	"GET /v1/jobs/{app}/{name}/runs/{at}":              {viewer, "", ofShop, ""},
	"PUT /v1/jobs/{app}/{name}/script":                 {editor, "scripts", ofShop, `{"kind":"shell","source":"id"}`},
	"GET /v1/jobs/{app}/{name}/scripts":                {viewer, "", ofShop, ""},
	"GET /v1/jobs/{app}/{name}/scripts/{version}":      {viewer, "", ofShop, ""},
	"GET /v1/jobs/{app}/{name}/scripts/{version}/diff": {viewer, "", ofShop, ""},
	"GET /v1/apps":                                     {viewer, "", aList, ""},
	"GET /v1/apps/{app}":                               {viewer, "", ofShop, ""},
	"PUT /v1/apps/{app}":                               {editor, "", ofShop, `{"title":"x","allow":["10.0.0.0/8"]}`},
	"PUT /v1/apps/{app} token":                         {editor, "secrets", ofShop, `{"token":"t-o-k-e-n-t-o-k-e-n","allow":["10.0.0.0/8"]}`},
	"PUT /v1/apps/{app} executors":                     {editor, "addresses", ofShop, `{"executors":["http://10.0.0.9:1"],"allow":["10.0.0.0/8"]}`},
	"PUT /v1/apps/{app} allow":                         {editor, "addresses", ofShop, `{"allow":["0.0.0.0/0"]}`},
	"PUT /v1/apps/{app} where its secret goes": {editor, "addresses", ofShop,
		`{"allow":["10.0.0.0/8"],"call":{"auth":{"oauth":{"tokenUrl":"https://example.org/t","clientId":"c"}}}}`},
	"DELETE /v1/apps/{app}":                  {editor, "secrets", ofShop, ""},
	"GET /v1/apps/{app}/executors":           {viewer, "", ofShop, ""},
	"POST /v1/apps/{app}/executors/test":     {operator, "", ofShop, `{"address":"http://10.0.0.1:9999"}`},
	"POST /v1/apps/{app}/executors/remove":   {operator, "", ofShop, `{"address":"http://10.0.0.1:9999"}`},
	"POST /v1/apps/{app}/pause":              {operator, "", ofShop, `{}`},
	"POST /v1/apps/{app}/resume":             {operator, "", ofShop, `{}`},
	"GET /v1/channels":                       {viewer, "", aList, ""},
	"GET /v1/channels/{channel}":             {viewer, "", aList, ""},
	"PUT /v1/channels/{channel}":             {editor, "secrets", ofAll, `{}`},
	"DELETE /v1/channels/{channel}":          {editor, "", ofAll, ""},
	"POST /v1/channels/{channel}/test":       {operator, "", ofAll, ""},
	"GET /v1/overview":                       {viewer, "", aList, ""},
	"POST /v1/bulk app":                      {operator, "", ofShop, `{"verb":"pause","filter":{"app":"shop"}}`},
	"GET /v1/users":                          {admin, "", ofAll, ""},
	"GET /v1/users/{user}":                   {admin, "", ofAll, ""},
	"PUT /v1/users/{user}":                   {admin, "", ofAll, `{}`},
	"DELETE /v1/users/{user}":                {admin, "", ofAll, ""},
	"DELETE /v1/users/{user}/tokens/{token}": {admin, "", ofAll, ""},
	"GET /v1/me":                             {scope: "known"},
	"PUT /v1/me/settings":                    {scope: "own", body: `{}`},
	"POST /v1/me/password":                   {scope: "own", body: `{}`},
	"DELETE /v1/me/sessions":                 {scope: "own"},
	"DELETE /v1/me/sessions/{session}":       {scope: "own"},
	"POST /v1/me/tokens":                     {scope: "own", body: `{}`},
	"DELETE /v1/me/tokens/{token}":           {scope: "own"},
	"GET /v1/me/views":                       {scope: "own"},
	"PUT /v1/me/views":                       {scope: "own", body: `{}`},
	"DELETE /v1/me/views":                    {scope: "own", body: "?name=x"},
	"POST /v1/pause":                         {operator, "", ofAll, `{}`},
	"POST /v1/resume":                        {operator, "", ofAll, `{}`},
	"GET /v1/runs":                           {viewer, "", aList, ""},
	"GET /v1/runs job":                       {viewer, "", ofShop, "?job=shop/report"},
	"GET /v1/runs number":                    {viewer, "", ofShop, "?job=1"},
	"GET /v1/runs/histogram":                 {viewer, "", aList, ""},
	"GET /v1/runs/histogram job":             {viewer, "", ofShop, "?job=shop/report"},
	"GET /v1/runs/histogram app":             {viewer, "", ofShop, "?app=shop"},
	"GET /v1/lateness":                       {viewer, "", aList, "?each=app"},
	"GET /v1/lateness number":                {viewer, "", ofShop, "?job=1"},
	"POST /v1/rerun":                         {operator, "", ofShop, `{"run":"RUN"}`},
	"POST /v1/rerun address":                 {operator, "addresses", ofShop, `{"run":"RUN","addresses":["http://10.0.0.9:1"]}`},
	"POST /v1/rerun app":                     {operator, "", ofShop, `{"app":"shop","key":"k2"}`},
	"POST /v1/rerun job":                     {operator, "", ofShop, `{"job":"shop/report","key":"k2"}`},
	"POST /v1/rerun all":                     {operator, "", aList, `{"failed":true,"key":"k2"}`},
	"POST /v1/rerun dry":                     {viewer, "", ofShop, `{"job":"1","dryRun":true}`},
	"POST /v1/clean":                         {editor, "", ofAll, `{"before":"2026-01-01T00:00:00Z"}`},
	"POST /v1/clean app":                     {editor, "", ofShop, `{"app":"shop","before":"2026-01-01T00:00:00Z"}`},
	"POST /v1/clean dry":                     {viewer, "", ofShop, `{"app":"shop","before":"2026-01-01T00:00:00Z","dryRun":true}`},
	"GET /v1/runs/{run}":                     {viewer, "", ofShop, ""},
	"PATCH /v1/runs/{run}":                   {operator, "", ofShop, `{"params":"p"}`},
	"PATCH /v1/runs/{run} address":           {operator, "addresses", ofShop, `{"addresses":["http://10.0.0.9:1"]}`},
	"GET /v1/runs/{run}/log":                 {viewer, "", ofShop, ""},
	"POST /v1/runs/{run}/kill":               {operator, "", ofShop, ""},
	"POST /v1/runs/{run}/cancel":             {operator, "", ofShop, ""},
	"GET /v1/upcoming":                       {viewer, "", aList, ""},
	"GET /v1/upcoming/histogram":             {viewer, "", aList, ""},
	"GET /v1/upcoming/histogram app":         {viewer, "", ofShop, "?app=shop"},
	"GET /v1/upcoming job":                   {viewer, "", ofShop, "?job=shop/report"},
	"POST /v1/preview":                       {viewer, "", aList, `{"schedule":{"every":"1h"}}`},
	"GET /v1/changes":                        {viewer, "", aList, ""},
	"GET /v1/changes app":                    {viewer, "", ofShop, "?app=shop"},
	"GET /v1/changes number":                 {viewer, "", ofShop, "?job=1"},
	"GET /v1/audit":                          {viewer, "", aList, "?from=2026-11-20T00:00:00Z&to=2026-11-20T01:00:00Z"},
	"GET /v1/audit job":                      {viewer, "", ofShop, "?job=1&from=2026-11-20T00:00:00Z&to=2026-11-20T01:00:00Z"},
	"GET /v1/reports":                        {viewer, "", aList, "?from=2026-11-20T00:00:00Z"},
	"GET /v1/reports app":                    {viewer, "", ofShop, "?app=shop&from=2026-11-20T00:00:00Z"},
	"POST /v1/replan":                        {operator, "", ofAll, `{"from":"2026-11-20T00:00:00Z"}`},
	"POST /v1/replan job":                    {operator, "", ofShop, `{"job":"shop/report","from":"2026-11-20T00:00:00Z"}`},
	"POST /v1/fence":                         {admin, "", ofAll, ""},
	"POST /v1/restore":                       {admin, "", ofAll, `{}`},
	"POST /v1/rotate-key":                    {admin, "", ofAll, ""},
	"POST /v1/redrive":                       {operator, "", ofAll, `{}`},
	"POST /v1/redrive dry":                   {viewer, "", ofAll, `{"dryRun":true}`},
	"GET /v1/facts":                          {viewer, "", aList, ""},
	"GET /v1/facts/jobs":                     {viewer, "", aList, ""},
}

// someone is a caller; its grants are for shop, for pay, or for all.
type someone struct {
	name   string
	grants []access.Grant // nil: no user
	token  string         // of callers that are no users
}

// everyone returns each kind of caller, and each role of users for the app, for another one and for all.
func everyone() (list []someone) {
	list = []someone{{"nobody", nil, ""}, {"a wrong token", nil, "tkr_ann_WRONGWRONGWRONGWRONGWRONG"}, {"code of shop", nil, appToken},
		{"the read token", nil, readToken}, {"the admin token", nil, token}, {"a person without a role", []access.Grant{}, ""}}
	for _, app := range []string{"shop", "pay", ""} {
		for _, role := range access.Roles {
			list = append(list, someone{fmt.Sprintf("%s of %q", role, app), []access.Grant{{App: app, Role: role}}, ""})
		}
		for _, right := range access.Rights {
			for _, role := range []access.Role{operator, editor} {
				list = append(list, someone{fmt.Sprintf("%s with %s of %q", role, right, app),
					[]access.Grant{{App: app, Role: role, Rights: []access.Right{right}}}, ""})
			}
		}
	}
	return append(list, someone{"admin of pay, viewer of shop", []access.Grant{{App: "pay", Role: admin}, {App: "shop", Role: viewer}}, ""})
}

// answer returns the status with which a caller is rejected; 0 means that the caller is admitted.
func (w want) answer(op string, s someone) int {
	switch {
	case w.scope == "open", w.scope == "known" && (s.grants != nil || s.token == readToken), s.token == token && w.scope != "own":
		return 0
	case w.scope == "own" && s.grants != nil:
		return 0
	case w.scope == "own" && (s.token == token || s.token == readToken):
		return 403 // a machine has no account
	case s.token == readToken && w.role != viewer:
		return 403
	case s.token == readToken:
		return 0
	case s.token == appToken && strings.HasPrefix(op, "PUT /v1/jobs/{app}/{name}") && !strings.HasPrefix(op, "PUT /v1/jobs/{app}/{name}/"):
		return 403 // none of these bodies declares a job, and this token allows nothing else
	case s.grants == nil:
		return 401
	}
	var has access.Role
	rights, sees := false, false
	for _, g := range s.grants {
		sees = sees || g.App != "pay"
		if g.App == "" || g.App == w.scope {
			has, rights = g.Role, slices.Contains(g.Rights, w.right)
		}
	}
	switch {
	case w.scope == aList && !slices.ContainsFunc(s.grants, func(g access.Grant) bool {
		return slices.Index(access.Roles, g.Role) >= slices.Index(access.Roles, w.role)
	}):
		return 403
	case w.scope == aList:
		return 0
	case w.scope == ofShop && len(s.grants) == 0 && slices.Contains([]string{"POST /v1/bulk", "POST /v1/rerun", "POST /v1/clean",
		"POST /v1/replan"}, opOf(op)),
		w.scope == ofShop && len(s.grants) == 0 && slices.Contains([]string{"GET /v1/runs", "GET /v1/upcoming", "GET /v1/changes",
			"GET /v1/upcoming/histogram",
			"GET /v1/audit",
			"GET /v1/reports", "GET /v1/runs/histogram", "GET /v1/lateness"}, opOf(op)):
		return 403 // before the operation
	case (w.scope == ofShop || strings.Contains(op, "/{app}")) && !sees:
		return 404
	case slices.Index(access.Roles, has) < slices.Index(access.Roles, w.role), w.right != "" && !rights && has != admin:
		return 403
	}
	return 0
}

// opOf returns an operation without the label of its body.
func opOf(op string) string {
	parts := strings.Fields(op)
	return parts[0] + " " + parts[1]
}

// takesAway matches the operations after which other callers get other answers.
var takesAway = regexp.MustCompile(`^(DELETE|PUT) |/bulk delete|/kill|/cancel|/apply prune|/clean|/fence|/restore|/executors/remove`)

// TestEachOperationForEachRole sends every operation of the document, with each kind of body that needs another
// permission, as every kind of caller.
func TestEachOperationForEachRole(t *testing.T) {
	left := maps.Collect(operations)
	for _, op := range slices.Sorted(maps.Keys(wanted)) {
		delete(left, opOf(op))
		w := wanted[op]
		t.Run(op, func(t *testing.T) {
			f, run := guardedFixture(t)
			for i, s := range everyone() {
				secret := s.token
				if s.grants != nil {
					secret = f.person(fmt.Sprint("lina-", i), s.grants...)
				}
				status, text := f.send(op, run, w.body, secret)
				refused := status == 401 || status == 403 || status == 404 && hides(text)
				if want := w.answer(op, s); want == 0 && refused || want != 0 && (!refused || status != want) {
					t.Errorf("%s: %d %s, want %d", s.name, status, strings.TrimSpace(text), want)
				}
				if !refused && takesAway.MatchString(op) {
					f, run = guardedFixture(t)
				}
			}
		})
	}
	for op := range left {
		t.Errorf("%s is not in the table of what operations ask for", op)
	}
}

// TestUnknownQueryParametersAreRejected sends every operation of the document with an unknown parameter, and with
// each known one.
func TestUnknownQueryParametersAreRejected(t *testing.T) {
	texts := golden.New(t)
	f, run := guardedFixture(t)
	ada := f.person("ada", access.Grant{Role: access.Admin})
	for call, op := range operations {
		secret := token
		if strings.Contains(call, " /v1/me") {
			secret = ada
		}
		status, text := f.send(call, run, "?foo=1", secret)
		unknown := errorOf(t, text)
		if status != 400 || unknown.Field != "foo" {
			t.Errorf("%s?foo=1: %d %s", call, status, text)
		}
		if call == "GET /v1/apps" || call == "GET /v1/reports" {
			texts.Equal(t, call, unknown.Message)
		}
		list, _ := op["parameters"].([]any)
		for _, p := range list {
			p := part(p)
			if p["in"] != "query" {
				continue
			}
			if _, text := f.send(call, run, fmt.Sprintf("?%s=%%2B", p["name"]), secret); strings.Contains(text, unknown.Message) {
				t.Errorf("%s?%s: %s", call, p["name"], text)
			}
		}
	}
}

var noRun = regexp.MustCompile(`run \d+ does not exist"`)

// hides reports whether an answer is not-found for a caller that may not see the object. All objects in these tests
// exist.
func hides(text string) bool {
	return strings.Contains(text, "does not exist, or you cannot see it") || strings.Contains(text, "job 1 does not exist\"") ||
		noRun.MatchString(text)
}

// guardedFixture has the apps shop and pay, each with a job and a waiting run.
func guardedFixture(t *testing.T) (*fixture, string) {
	f := newHandler(t)
	f.h = f.withReports()
	f.shop()
	f.must("PUT", "/v1/apps/pay", `{"token":"token-of-pay-token-of-pay","executors":["call:https://pay.example.com"]}`)
	f.must("PUT", "/v1/jobs/pay/bills", `{"handler":"POST /x","schedule":{"every":"1h"}}`)
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	var res client.TriggerResult
	for _, job := range []string{"pay/bills", "shop/report"} {
		text := f.must("POST", "/v1/jobs/"+job+"/trigger", `{"key":"k","at":"`+at+`"}`)
		check.OK(t, json.Unmarshal([]byte(text), &res))
	}
	return f, res.Run.ID
}

// send sends an operation on objects of shop.
func (f *fixture) send(op, run, body, secret string) (int, string) {
	method, path, _ := strings.Cut(opOf(op), " ")
	path = strings.NewReplacer("{app}", "shop", "{name}", "report", "{id}", "1", "{run}", run, "{at}", "2026-11-20T02:30",
		"{key}", "k", "{version}", "1", "{channel}", "c", "{user}", "bob", "{token}", "x", "{session}", "x").Replace(path)
	if strings.HasPrefix(body, "?") {
		path, body = path+body, ""
	}
	return f.as(secret, method, path, strings.ReplaceAll(body, "RUN", run))
}

// TestListsCoverVisibleAppsOnly: addresses and totals cover only one's own apps. An app that one does not see is answered as one that
// does not exist.
func TestListsCoverVisibleAppsOnly(t *testing.T) {
	f, _ := guardedFixture(t)
	shop := f.person("sam", access.Grant{App: "shop", Role: admin})
	f.expect(t, shop, "GET", "/v1/apps/pay/executors", "", 404)
	for _, path := range []string{"/v1/apps", "/v1/jobs", "/v1/runs", "/v1/upcoming?for=24h", "/v1/changes", "/v1/facts",
		"/v1/facts/jobs", "/v1/lateness?each=app", "/v1/overview",
		"/v1/reports?each=app&from=2026-11-20T00:00:00Z", "/v1/audit?from=2026-11-20T00:00:00Z&to=2026-11-20T01:00:00Z"} {
		if text := f.expect(t, shop, "GET", path, "", 200); strings.Contains(text, "pay") {
			t.Errorf("%s: %s", path, text)
		}
	}
	check.Contains(t, f.expect(t, shop, "GET", "/v1/jobs", "", 200), "report", "one's own")
	for _, path := range []string{"/v1/runs?app=pay", "/v1/changes?app=pay", "/v1/reports?app=pay&from=2026-11-20T00:00:00Z",
		"/v1/jobs?app=pay", "/v1/upcoming/histogram?app=pay"} {
		text := f.expect(t, shop, "GET", path, "", 404)
		none := f.expect(t, shop, "GET", strings.Replace(path, "app=pay", "app=nix", 1), "", 404)
		check.Equal(t, strings.Replace(none, "nix", "pay", 1), text, "%s, and of an app that does not exist", path)
	}
}

// TestGetChangesNothing sends a GET to the path of each operation that changes something.
func TestGetChangesNothing(t *testing.T) {
	f, run := guardedFixture(t)
	before := f.state()
	for op := range wanted {
		if method, path, _ := strings.Cut(opOf(op), " "); method != "GET" {
			f.send("GET "+path, run, "{}", token)
		}
	}
	f.expect(t, token, "GET", "/v1/jobs/shop/report/pause", "", 405)
	check.Equal(t, f.state(), before, "the data after all requests")
}

// expect sends one request with a token, and returns the body of the answer.
func (f *fixture) expect(t *testing.T, secret, method, path, body string, want int) string {
	t.Helper()
	status, text := f.as(secret, method, path, body)
	if status != want {
		t.Errorf("%s %s %s: %d %s, want %d", method, path, body, status, text, want)
	}
	return text
}

// TestHeldByOthers: apps share a group. A run that waits in the group names only holders in apps that the caller
// sees.
func TestHeldByOthers(t *testing.T) {
	f, _ := guardedFixture(t)
	f.must("PUT", "/v1/jobs/shop/report", `{"handler":"report","overlap":{"limit":3,"group":"db"}}`)
	own, waits, others := core.NumberedRun(1, 90), core.NumberedRun(1, 91), core.NumberedRun(2, 90)
	r := core.Run{ID: waits, First: waits, Attempt: 1, App: "shop", State: core.Queued, Cause: core.CauseAPI, Permit: "group/db"}
	check.OK(t, f.e.CreateRuns(t.Context(), []core.Run{r})[0])
	holders := []core.Holder{{First: own}, {First: others}, {First: core.NumberedRun(77, 1)}}
	item := core.Permits{Name: "group/db", V: 1, Limit: 3, Holders: holders, Queue: []core.RunID{waits}}
	check.OK(t, f.e.PutPermits(t.Context(), []core.Permits{item})[0])
	sam := f.person("sam", access.Grant{App: "shop", Role: viewer})
	for secret, held := range map[string][]string{sam: {own.String()}, token: {own.String(), others.String(), holders[2].First.String()}} {
		var got client.Run
		check.OK(t, json.Unmarshal([]byte(f.expect(t, secret, "GET", "/v1/runs/"+waits.String(), "", 200)), &got))
		if p := got.Permit; p == nil || !slices.Equal(p.HeldBy, held) || p.Limit != 3 || p.Place != 1 || p.Waiting != 1 {
			t.Errorf("%+v, want %s", p, held)
		}
	}
}

// TestAs: the caller in a context takes precedence over any token. A record has the address of the session's browser.
func TestAs(t *testing.T) {
	f := newFixture(t)
	f.shop()
	for _, c := range []struct {
		who  access.Who
		want int
	}{{access.Who{}, 401}, {access.Who{Kind: access.Person, Name: "vera", Grants: []access.Grant{{App: "shop", Role: viewer}}}, 403},
		{access.Who{Kind: access.Person, Name: "otto", From: "2001:db8::7", Grants: []access.Grant{{App: "shop", Role: operator}}}, 200}} {
		r := httptest.NewRequest("POST", "/v1/jobs/shop/report/pause", strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r.WithContext(api.As(context.Background(), c.who)))
		if w.Code != c.want {
			t.Errorf("%+v: %d %s", c.who, w.Code, w.Body)
		}
	}
	list, err := f.c.ListChanges(t.Context(), client.ListChangesParams{Job: "shop/report", Limit: 1})
	if err != nil || list.Changes[0].By != "otto" || list.Changes[0].From != "2001:db8::7" || list.Changes[0].Via != "session" {
		t.Errorf("%+v, %v", list.Changes, err)
	}
}
