package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/server"
)

func TestParseTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	check.OK(t, err)
	now := time.Date(2026, 11, 20, 12, 0, 30, 0, berlin)
	for _, tt := range []struct {
		text string
		past bool
		want string
	}{
		{"2026-12-24T18:00:00Z", false, "2026-12-24T19:00:00+01:00"},
		{"2026-12-24T18:00", false, "2026-12-24T18:00:00+01:00"},
		{"2026-07-01 18:00:05", false, "2026-07-01T18:00:05+02:00"},
		{"2026-12-24", true, "2026-12-24T00:00:00+01:00"},
		{"2027-03-28 02:30", false, "2027-03-28T03:00:00+02:00"}, // a time that clocks skip
		{"2026-10-25 02:30", false, "2026-10-25T02:30:00+02:00"}, // one that they show twice
		{"06:00", false, "2026-11-21T06:00:00+01:00"},
		{"18:00", false, "2026-11-20T18:00:00+01:00"},
		{"06:00", true, "2026-11-20T06:00:00+01:00"},
		{"18:00:30", true, "2026-11-19T18:00:30+01:00"},
		{"2h", false, "2026-11-20T14:00:30+01:00"},
		{"2h", true, "2026-11-20T10:00:30+01:00"},
		{"-1d", true, "2026-11-19T12:00:30+01:00"},
		{"now", false, "2026-11-20T12:00:30+01:00"},
		{"soon", false, ""},
		{"0001-01-01T00:00:00Z", true, ""}, // it would count as omitted
		{"0001-01-01", true, ""},
		{"1970-01-01", true, ""},
		{"1970-01-01T00:00:00Z", true, ""},
		{"25:00", false, ""},
		{"600", false, ""},
		{"", false, ""},
	} {
		got, err := parseTime("at", tt.text, berlin, now, tt.past)
		text := got.In(berlin).Format(time.RFC3339)
		if err != nil {
			text = ""
			check.Equal(t, core.CodeOf(err), core.CodeInvalid, "%q: %v", tt.text, err)
		}
		check.Equal(t, text, tt.want, "%q, past %v", tt.text, tt.past)
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]kind{
		"reports": appKind, "Reports-1": appKind, "reports/nightly": jobKind, "4": jobKind, "2147483647": jobKind,
		"2147483648": runKind, "17179869185": runKind, "reports/nightly@2026-11-20T02:30": runKind, "a/b#k": runKind, "": appKind,
	} {
		check.Equal(t, kindOf(text), want, "%q", text)
	}
}

func TestCallOf(t *testing.T) {
	known := []string{"http://10.0.0.1:9999", "call:https://pay.example/base"}
	for _, tt := range []struct {
		text              string
		executor, handler string
	}{
		{"https://example.com/warm", "call:https://example.com", "POST /warm"},
		{"GET https://example.com:8443/warm?x=1", "call:https://example.com:8443", "GET /warm?x=1"},
		{"https://example.com", "call:https://example.com", "POST /"},
		{"https://pay.example/base/run", "call:https://pay.example/base", "POST /run"},
		{"https://pay.example/base", "call:https://pay.example/base", "POST /"},
		{"https://pay.example/based", "call:https://pay.example", "POST /based"},
		{"example.com/warm", "", ""},
		{"ftp://example.com", "", ""},
		{"https://example.com/#x", "", ""},
	} {
		executor, handler, err := callOf(tt.text, known)
		if err != nil {
			executor, handler = "", ""
		}
		if executor != tt.executor || handler != tt.handler {
			t.Errorf("%q: %q %q, want %q %q", tt.text, executor, handler, tt.executor, tt.handler)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 84 * time.Millisecond: "84 ms", 2300 * time.Millisecond: "2.3 s", 23 * time.Second: "23 s",
		5 * time.Minute: "5 min", 23 * time.Hour: "23 h", 50 * time.Hour: "2 days",
	} {
		check.Equal(t, span(d), want, "%s", d)
	}
}

func TestShort(t *testing.T) {
	e := &Env{Globals: &Globals{}}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		at   time.Time
		zone string
		want string
	}{
		{now.Add(time.Hour), "", "13:00:00 Z"},
		{now.Add(time.Hour), "Europe/Berlin", "14:00:00 +01:00"},
		{now.Add(24 * time.Hour), "Asia/Tokyo", "Sat 21 Nov 21:00 +09:00"},
		{now.Add(24*time.Hour + 5*time.Second), "", "Sat 21 Nov 12:00:05 Z"},
		{now.AddDate(1, 0, 0), "", "2027-11-20 12:00 Z"},
	} {
		check.Equal(t, e.short(tt.at, now, tt.zone), tt.want, "%s %s", tt.at, tt.zone)
	}
}

// TestVisible: text from a server or an executor cannot control the terminal; control characters are shown escaped.
func TestVisible(t *testing.T) {
	const said = "a\x1b[31m\r\nb\u009bc\td\re\x7f \u202eF\u2069 \u200f\u061c\u2066 ä 漢 \xff"
	check.Equal(t, oneLine(said), "a\\u001b[31m  b\\u009bc d e\\u007f \\u202eF\\u2069 \\u200f\\u061c\\u2066 ä 漢 \uFFFD")
	const seen = "a\\u001b[31m\nb\\u009bc\td\\u000de\\u007f \\u202eF\\u2069 \\u200f\\u061c\\u2066 ä 漢 \uFFFD"
	check.Equal(t, visible(said), seen)
	var out, errs bytes.Buffer
	e := &Env{Globals: &Globals{}, Stdout: &out, Stderr: &errs}
	e.printf("%s %v", said, errors.New(said))
	e.notef("%s", said)
	if out.String() != seen+" "+seen || errs.String() != seen {
		t.Errorf("%q %q", out.String(), errs.String())
	}
	out.Reset()
	valid := strings.ToValidUTF8(said, "")
	err := e.printJSON(map[string]string{"is": valid, valid: "key"})
	if err != nil || strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), steers) {
		t.Errorf("%q %v", out.String(), err)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["is"] != valid || back[valid] != "key" {
		t.Errorf("%q %v", back, err)
	}
}

// TestStrangerSaysLittle: error text from an unauthenticated server is shown escaped and cut.
func TestStrangerSaysLittle(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		json.NewEncoder(w).Encode(client.ErrorReply{Error: client.Error{Code: "no",
			Message: "\x1b]0;mine\a\u202eoh" + strings.Repeat("x", 50<<10)}})
	}))
	defer s.Close()
	for _, args := range [][]string{{"get"}, {"get", "-o", "json"}, {"doctor"}, {"doctor", "-o", "json"}} {
		_, out, errs := runMain(t, s.URL, "", args...)
		if text := out + errs; text == "" || len(text) > 8<<10 || strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), steers) ||
			args[0] == "get" && !strings.Contains(text, `\u001b]0;mine\u0007\u202eoh`) {
			t.Errorf("%v: %d bytes: %.300q", args, len(text), text)
		}
	}
}

func TestVersion(t *testing.T) {
	build := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for _, tt := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{build("(devel)"), "0.1"},
		{build(""), "0.1"},
		{build("v0.0.0-20261121140000-0123456789ab+dirty", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
			"0.1 (0123456789ab, changed)"},
		{build("v0.0.0-20261121140000-0123456789ab", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "0.1 (0123456789ab)"},
		{build("v0.0.0-20261121140000-0123456789ab"), "0.1 (0123456789ab)"},
	} {
		check.Equal(t, versionOf(tt.info), tt.want, "%s", tt.info.Main.Version)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"shop/report", "shop/sweep", "web/x"}
	for text, want := range map[string]string{"shop/reprot": "shop/report", "shop/swep": "shop/sweep", "other/thing": "", "": "", "ab": ""} {
		check.Equal(t, nearest(text, names), want, "%q", text)
	}
}

// TestServePolicy: the flags of serve limit the addresses of executors.
func TestServePolicy(t *testing.T) {
	for _, c := range []struct {
		cmd     ServeCmd
		allowed string // of here, private, public, and a network of its own
	}{
		{ServeCmd{}, "here private public own"},
		{ServeCmd{Allow: []string{"203.0.113.0/24"}}, "here private own"},
		{ServeCmd{DenyPrivate: true}, "public own"},
		{ServeCmd{DenyPrivate: true, Allow: []string{"203.0.113.0/24", "10.0.0.0/8"}}, "private own"},
		{ServeCmd{DenyPrivate: true, Allow: []string{"127.0.0.0/8"}}, "here"},
	} {
		p, err := c.cmd.policy()
		check.OK(t, err)
		var got []string
		for _, x := range []struct{ name, ip string }{{"here", "127.0.0.1"}, {"private", "10.1.2.3"}, {"public", "198.51.100.1"},
			{"own", "203.0.113.1"}} {
			if p.Check(netip.MustParseAddr(x.ip)) == nil {
				got = append(got, x.name)
			}
		}
		check.Equal(t, strings.Join(got, " "), c.allowed, "%+v: %v, want", c.cmd, got)
	}
}

func TestPermitText(t *testing.T) {
	p := client.Permit{Of: "group db", Limit: 4, HeldBy: []string{"1", "2", "3", "4"}, Place: 3, Waiting: 10}
	has, asks := p, p
	has.Has, has.Place, asks.Place = true, 0, 0
	later := has
	later.Begins = time.Date(2027, 1, 1, 12, 0, 5, 0, time.UTC)
	own, other, hidden := has, has, p
	hidden.HeldBy = nil
	own.Of, other.Of = "job 29", "job 2"
	texts := golden.New(t)
	for name, p := range map[string]*client.Permit{
		"starts later": &later, "waits": &p, "waits for hidden runs": &hidden, "has one": &has, "will ask": &asks, "of its own job": &own,
		"of another job": &other, "needs none": nil,
	} {
		texts.Equal(t, name, (&Env{Globals: &Globals{}}).permitText(&client.Run{Permit: p, State: "queued", Job: "pay/ledger", JobID: 29}))
	}
	over := &client.Run{State: "failed", Permit: &client.Permit{Of: "group db, app shop", Value: "x"}}
	texts.Equal(t, "ended", (&Env{Globals: &Globals{}}).permitText(over))
}

// TestMemoryLimit: the least limit of the cgroup and of those above it counts, unless GOMEMLIMIT is set.
func TestMemoryLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	before := debug.SetMemoryLimit(-1)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	for _, c := range []struct {
		name, set string
		files     fstest.MapFS
		want      int64
	}{
		{"v2, of the unit", "", fstest.MapFS{"proc/self/cgroup": file("0::/a/b"), "sys/fs/cgroup/a/b/memory.max": file("1000000000"),
			"sys/fs/cgroup/a/memory.max": file("2000000000")}, 900_000_000},
		{"v2, above it", "", fstest.MapFS{"proc/self/cgroup": file("0::/a/b"), "sys/fs/cgroup/a/b/memory.max": file("1000000000"),
			"sys/fs/cgroup/a/memory.max": file("500000000")}, 450_000_000},
		{"v2, container", "", fstest.MapFS{"proc/self/cgroup": file("0::/"), "sys/fs/cgroup/memory.max": file("1000000000")}, 900_000_000},
		{"v1, container", "", fstest.MapFS{"proc/self/cgroup": file("3:cpu:/x\n4:memory:/docker/x"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("1000000000")}, 900_000_000},
		{"GOMEMLIMIT", "2GiB", fstest.MapFS{"proc/self/cgroup": file("0::/"), "sys/fs/cgroup/memory.max": file("1000000000")}, before},
		{"none", "", fstest.MapFS{"proc/self/cgroup": file("0::/"), "sys/fs/cgroup/memory.max": file("max")}, before},
		{"another system", "", fstest.MapFS{}, before},
	} {
		debug.SetMemoryLimit(before)
		limitMemory(c.files, func(string) string { return c.set })
		check.Equal(t, debug.SetMemoryLimit(-1), c.want, "%s", c.name)
	}
}

// A table that is colored is the same table.
func TestColorMovesNothing(t *testing.T) {
	codes := regexp.MustCompile("\x1b\\[[0-9]*m")
	dice := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[dice.IntN(len(of))] }
	for range 100 {
		rows := make([][]string, 1+dice.IntN(5))
		var colors paints
		for row := range rows {
			for col := range 1 + dice.IntN(4) {
				other := string([]rune{dice.Int32N(1 << 7), dice.Int32N(1 << 16), dice.Int32N(1 << 20)}[dice.IntN(4):])
				rows[row] = append(rows[row], pick("", " ", "-", "failed", "failed 1/3: handler", "shop/failed", "ü…", other))
				colors = append(colors, paint{row, col, pick("", "failed", rows[row][col]), []color{"", red}[dice.IntN(2)]})
			}
		}
		var plain, colored bytes.Buffer
		table(&plain, rows)
		table(&colored, rows, colors...)
		check.Equal(t, codes.ReplaceAllString(colored.String(), ""), plain.String(), "without its colors")
	}
}

func TestColorOfStates(t *testing.T) {
	for s, want := range map[core.State]color{core.Failed: red, core.Lost: red, core.TimedOut: red, core.Running: cyan, core.Succeeded: "",
		core.Queued: "", core.Killed: "", core.Skipped: "", core.Planned: ""} {
		check.Equal(t, stateColor(string(s)), want, "%s", s)
	}
	var b bytes.Buffer
	e := &Env{Globals: &Globals{Output: "text", Color: "always"}, Stdout: &b}
	for late, want := range map[int64]string{1000: " +1.0 s ", 1001: " \x1b[33m+1.0 s\x1b[0m "} {
		b.Reset()
		e.printRuns(&client.RunPage{Runs: []client.Run{{ID: "17", Job: "shop/x", State: "succeeded", LatenessMs: &late}}}, "")
		check.Contains(t, b.String(), want, "%d ms", late)
	}
}

// TestSpansOfRecords: all durations of a record are formatted, and nothing else in it changes.
func TestSpansOfRecords(t *testing.T) {
	r := core.JobRecord{Rev: 1795399384725, Grace: 10 * time.Minute, Deadline: 36 * time.Hour,
		Schedule: core.Schedule{Jitter: 5 * time.Second},
		Def: &core.Def{Name: "ab", Params: "600000000000", Timeout: 90 * time.Second, LostAfter: time.Hour,
			Retry: core.Retry{Max: 2, Delay: 1500 * time.Millisecond}}}
	got := string(spans(json.RawMessage(r.String()), reflect.TypeFor[core.JobRecord]()))
	for _, want := range []string{`"grace":"10m"`, `"deadline":"1d12h"`, `"timeout":"1m30s"`, `"lostAfter":"1h"`, `"delay":"1s500ms"`,
		`"jitter":"5s"`, `"rev":1795399384725`, `"params":"600000000000"`, `"name":"ab"`, `"max":2`} {
		check.Contains(t, got, want)
	}
	app := core.AppRecord{Name: "a", WaitForExecutor: 10 * time.Minute}
	b, err := json.Marshal(app)
	check.OK(t, err)
	check.Contains(t, string(spans(b, reflect.TypeFor[core.AppRecord]())), `"waitForExecutor":"10m"`)
	for _, odd := range []string{"", "null", "7", `{"later":{"x":1}}`} {
		if got := strings.TrimSpace(string(spans(json.RawMessage(odd), reflect.TypeFor[core.JobRecord]()))); got != odd {
			t.Errorf("%s became %s", odd, got)
		}
	}
}

// TestExecutorsHaveALineEach: a rejected address has no second line beside its own.
func TestExecutorsHaveALineEach(t *testing.T) {
	now := time.Now()
	all := &client.ExecutorList{
		Executors: []client.Executor{{App: "a", Address: "http://live", Live: true, Used: true, BeatAt: now, ClockAheadMs: new(int64(-40_000))},
			{App: "a", Address: "http://doubtful", Live: true, Used: true, BeatAt: now.Add(-time.Minute)}},
		Refused: []client.RefusedExecutor{{App: "a", Address: "http://live", From: "10.0.0.1", At: now.Add(-time.Minute)},
			{App: "a", Address: "http://doubtful", From: "10.0.0.2", At: now}, {App: "a", Address: "http://other", From: "10.0.0.3", At: now},
			{App: "b", Address: "http://live", From: "10.0.0.4", At: now}}}
	rows := executorRows(&Env{}, all)
	if len(rows) != 5 {
		t.Fatalf("%q", rows)
	}
	if !strings.HasSuffix(rows[1][2], ", its clock 40 s behind") {
		t.Error(rows[1][2])
	}
	for i, want := range []string{"", "live, last heartbeat", "rejected", "rejected", "rejected"} {
		if state := rows[i][2]; i > 0 && (!strings.Contains(state, want) || i == 1 && strings.Contains(state, "rejected") ||
			i == 2 && !strings.Contains(state, "live")) {
			t.Errorf("%q", rows[i])
		}
	}
}

func TestAttemptText(t *testing.T) {
	for _, c := range []struct {
		run  client.Run
		want string
	}{
		{client.Run{State: "succeeded", Attempt: 1}, ""},
		{client.Run{State: "running", Attempt: 1, Retries: 3}, "1, retries left: 3"},
		{client.Run{State: "failed", Reason: "handler", Attempt: 1, Retries: 3, Then: "5"}, "1, retries left: 3"},
		{client.Run{State: "failed", Reason: "snoozed", Attempt: 1, Then: "5"}, "1, retries left: 1"},
		{client.Run{State: "failed", Reason: "snoozed", Attempt: 2, Retries: 3, Then: "5"}, "2, retries left: 4"},
		{client.Run{State: "failed", Reason: "cancelled", Attempt: 1, Retries: 3}, "1, no retry follows"},
		{client.Run{State: "succeeded", Attempt: 2, Retries: 1}, "2, no retry follows"},
		{client.Run{State: "running", Attempt: 1, Retries: 3, Shards: []client.ShardRun{{}}}, ""},
	} {
		check.Equal(t, attemptText(&c.run), c.want, "%+v", c.run)
	}
}

func TestWaitsForPermit(t *testing.T) {
	for _, c := range []struct {
		state  string
		permit *client.Permit
		want   bool
	}{
		{"queued", nil, false},
		{"queued", &client.Permit{HeldBy: []string{"1"}, Place: 1}, true},
		{"queued", &client.Permit{HeldBy: []string{"1"}}, false}, // for an executor, and then it asks
		{"queued", &client.Permit{Has: true}, false},             // for an executor
		{"queued", &client.Permit{Has: true, Begins: time.Now().Add(time.Hour)}, true},
		{"running", &client.Permit{}, false},
	} {
		check.Equal(t, waitsForPermit(&client.Run{State: c.state, Permit: c.permit}), c.want, "%s %+v", c.state, c.permit)
	}
}

func TestChosenText(t *testing.T) {
	for want, c := range map[string]client.Try{
		"b by route random from 3 executors: a, b, c": {Address: "b", By: "random", Of: 3, From: []string{"a", "b", "c"}},
		"b by route lfu from 9 executors: a, …":       {Address: "b", By: "lfu", Of: 9, From: []string{"a"}},
		"b by route last from 2 executors":            {Address: "b", By: "last", Of: 2},
	} {
		check.Equal(t, chosenText(&c), want)
	}
}

// TestKeptText: the text above a log names the part that was kept, and the missing part.
func TestKeptText(t *testing.T) {
	e := &conn{Env: &Env{Globals: &Globals{}, Stdout: io.Discard}}
	at := time.Date(2026, 11, 25, 18, 58, 35, 0, time.UTC)
	texts := golden.New(t)
	for name, kept := range map[string]client.KeptLog{
		"whole":                       {From: 1},
		"its end":                     {From: 98610},
		"one long line":               {From: 1, Cut: 900},
		"a long line behind others":   {From: 20, Cut: 900},
		"its beginning":               {From: 1, More: true},
		"its middle":                  {From: 20, More: true},
		"of one long line its middle": {From: 1, Cut: 9, More: true},
		"none":                        {Why: "no answer"},
		"a message":                   {Message: true, From: 1},
		"a message that was cut":      {Message: true, From: 1, More: true},
	} {
		kept.At, kept.Live = at, "refused"
		texts.Equal(t, name, e.keptText(&kept, "UTC"))
	}
}

// TestDescribed: each field of a job has words in describe, or is one whose fields are shown as a file has them.
func TestDescribed(t *testing.T) {
	spec := reflect.TypeFor[client.JobSpec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if slices.Contains([]string{"call", "command", "declared", "ifRev", "notify"}, name) == slices.Contains(described, name) {
			t.Errorf("%s: of fields with words are %v", name, described)
		}
	}
}

// TestDemoAfterAServer: commands use the token of the demo if it started after the server of the default directory, at the same
// address. The endpoint file of a stopped server stays.
func TestDemoAfterAServer(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(server.HeaderVersion, "test") }))
	t.Cleanup(web.Close)
	dir := t.TempDir()
	demo := filepath.Join(dir, demoFolder)
	at := time.Now()
	start := func(dir, token string) {
		at = at.Add(time.Second)
		file := filepath.Join(dir, server.EndpointFile)
		for _, err := range []error{os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, server.TokenFile), []byte(token), 0o600),
			os.WriteFile(file, []byte(web.URL), 0o600), os.Chtimes(file, at, at)} {
			check.OK(t, err)
		}
	}
	for _, c := range []struct{ dir, token string }{{dir, "server"}, {demo, "demo"}, {dir, "server again"}} {
		start(c.dir, c.token)
		e := &Env{Globals: &Globals{}, Ctx: t.Context(), Getenv: func(name string) (string, bool) {
			value, is := map[string]string{"TICKRING_DATA": dir}[name]
			return value, is
		}}
		if _, token, err := e.findServer(); err != nil || token.text != c.token {
			t.Errorf("the token is %q, %v; want %q", token.text, err, c.token)
		}
	}
}

// TestHealthReportsTheStatusOfTheServer: the exit code is the one that a container engine reads.
func TestHealthReportsTheStatusOfTheServer(t *testing.T) {
	texts := golden.New(t)
	for _, tt := range []struct {
		name   string
		status int
		body   string
		code   int
	}{
		{"healthy", 200, `{"status":"ok","verdict":"scheduler healthy, no job failing"}`, 0},
		{"on hold", 503, `{"status":"the server is on hold"}`, 1},
		{"another program", 200, `<html>`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				check.Equal(t, r.URL.Path, "/healthz", "the command asks for")
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer s.Close()
			code, out, errs := runMain(t, "", "", "health", "--endpoint", s.URL)
			check.Equal(t, code, tt.code, "exit code")
			texts.Equal(t, tt.name, out+errs, s.URL, "URL")
		})
	}
}
