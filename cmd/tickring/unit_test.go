package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
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
		var out bytes.Buffer
		Main(t.Context(), append(args, "--endpoint", s.URL, "--token", "sesame"), strings.NewReader(""), &out, &out, lookup(nil))
		if text := out.String(); text == "" || len(text) > 8<<10 || strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), steers) ||
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
