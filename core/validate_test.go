package core

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func goodJob() Job {
	j := Job{Def: Def{App: "shop", Name: "sweep", Handler: "sweep"}}
	j.Normalize()
	return j
}

func TestNormalize(t *testing.T) {
	j := goodJob()
	want := "latest 1m0s 0s first serial 0s {0 30s constant 0s [failed timed-out]} 10m0s {30 } started "
	got := fmt.Sprintln(j.Sched.Misfire, j.Sched.Grace, j.Sched.Deadline, j.Def.Route, j.Def.Block, j.Def.Timeout, j.Def.Retry,
		j.Def.LostAfter, j.Def.Keep, j.Sched.State, j.Sched.Schedule.Timezone)
	check.Equal(t, strings.TrimSpace(got), strings.TrimSpace(want), "got  %s\nwant %s", got, want)
	if err := j.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	a, b := goodJob(), goodJob()
	a.Def.Retry.On = []State{TimedOut, Failed, Failed}
	a.Sched.Schedule.Timezone = "UTC"
	a.Def.Labels = map[string]string{}
	a.Normalize()
	if !a.Def.Equal(b.Def) || !a.Sched.Schedule.Equal(b.Sched.Schedule) {
		t.Errorf("the same in other words differs: %+v %+v", a, b)
	}
}

func TestValidateJob(t *testing.T) {
	labels := map[string]string{}
	for i := range 33 {
		labels[fmt.Sprint("l", i)] = ""
	}
	for name, c := range map[string]struct {
		change func(j *Job)
		field  string
	}{
		"app": {func(j *Job) { j.Def.App = "a/b" }, "app"},
		"bytes": {func(j *Job) {
			j.Def.Params, j.Def.Command = strings.Repeat("\x01", MaxParams), nil // six times as long in JSON
		}, "job"},
		"no name":         {func(j *Job) { j.Def.Name = "" }, "name"},
		"name":            {func(j *Job) { j.Def.Name = "007" }, "name"},
		"title":           {func(j *Job) { j.Def.Title = strings.Repeat("报", 257) }, "title"},
		"author":          {func(j *Job) { j.Def.Author = strings.Repeat("报", 257) }, "author"},
		"author lines":    {func(j *Job) { j.Def.Author = "a\nb" }, "author"},
		"title lines":     {func(j *Job) { j.Def.Title = "a\nb" }, "title"},
		"labels":          {func(j *Job) { j.Def.Labels = labels }, "labels"},
		"label key":       {func(j *Job) { j.Def.Labels = map[string]string{"a=b": ""} }, "labels"},
		"long label key":  {func(j *Job) { j.Def.Labels = map[string]string{strings.Repeat("k", 64): ""} }, "labels"},
		"label":           {func(j *Job) { j.Def.Labels = map[string]string{"k": strings.Repeat("v", 257)} }, "labels.k"},
		"no handler":      {func(j *Job) { j.Def.Handler = "" }, "handler"},
		"spaced handler":  {func(j *Job) { j.Def.Handler = " nightly" }, "handler"},
		"handler":         {func(j *Job) { j.Def.Handler = strings.Repeat("h", 513) }, "handler"},
		"params":          {func(j *Job) { j.Def.Params = strings.Repeat("p", MaxParams+1) }, "params"},
		"params no UTF-8": {func(j *Job) { j.Def.Params = "\xff" }, "params"},
		"timeout":         {func(j *Job) { j.Def.Timeout = -1 }, "timeout"},
		"long timeout":    {func(j *Job) { j.Def.Timeout = MaxTimeout + time.Second }, "timeout"},
		"half timeout":    {func(j *Job) { j.Def.Timeout = 500 * time.Millisecond }, "timeout"},
		"grace":           {func(j *Job) { j.Sched.Grace = 25 * time.Hour }, "grace"},
		"negative grace":  {func(j *Job) { j.Sched.Grace = -time.Second }, "grace"},
		"deadline":        {func(j *Job) { j.Sched.Deadline = -time.Second }, "deadline"},
		"misfire":         {func(j *Job) { j.Sched.Misfire = "never" }, "misfire"},
		"route":           {func(j *Job) { j.Def.Route = "nearest" }, "route"},
		"block":           {func(j *Job) { j.Def.Block = "x" }, "block"},
		"retry.max":       {func(j *Job) { j.Def.Retry.Max = 101 }, "retry.max"},
		"negative max":    {func(j *Job) { j.Def.Retry.Max = -1 }, "retry.max"},
		"retry.delay":     {func(j *Job) { j.Def.Retry.Delay = 25 * time.Hour }, "retry.delay"},
		"retry.maxDelay":  {func(j *Job) { j.Def.Retry.MaxDelay = time.Second }, "retry.maxDelay"},
		"retry.backoff":   {func(j *Job) { j.Def.Retry.Backoff = "x" }, "retry.backoff"},
		"retry.on":        {func(j *Job) { j.Def.Retry.On = []State{Killed} }, "retry.on"},
		"lostAfter":       {func(j *Job) { j.Def.LostAfter = time.Second }, "lostAfter"},
		"retention.days":  {func(j *Job) { j.Def.Keep.Days = 3651 }, "retention.days"},
		"set":             {func(j *Job) { j.Def.Set = "\n" }, "set"},
		"rules":           {func(j *Job) { j.Sched.Schedule.Any = make([]When, 17) }, "schedule"},
		"expression":      {func(j *Job) { j.Sched.Schedule.Any = []When{{Kind: KindCron, Expr: strings.Repeat("*", 257)}} }, "schedule.cron"},
		"zone":            {func(j *Job) { j.Sched.Schedule.Timezone = strings.Repeat("z", 65) }, "schedule.timezone"},
	} {
		j := goodJob()
		c.change(&j)
		j.Normalize()
		var e *Error
		if err := j.Validate(); !errors.As(err, &e) || e.Field != c.field || e.Reason.String() == "" {
			t.Errorf("%s: %#v, want field %s", name, err, c.field)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for raw, want := range map[string]string{
		"http://10.0.0.1:9999/":     "wire http://10.0.0.1:9999/",
		"https://x.example/base":    "wire https://x.example/base",
		"http://[fd00::1]:80":       "wire http://[fd00::1]:80",
		"call:https://pay.internal": "call https://pay.internal",
		"lambda:payroll":            "lambda payroll",
		"lambda:payroll:live":       "lambda payroll:live",
		"lambda:payroll:$LATEST":    "lambda payroll:$LATEST",
		"queue:mail":                "queue mail",
		"lambda:arn:aws:lambda:eu-central-1:123456789012:function:pay":     "lambda arn:aws:lambda:eu-central-1:123456789012:function:pay",
		"lambda:arn:aws-cn:lambda:cn-north-1:123456789012:function:pay:v2": "lambda arn:aws-cn:lambda:cn-north-1:123456789012:function:pay:v2",
		"queue:arn:aws:sqs:eu-central-1:123456789012:mail":                 "queue arn:aws:sqs:eu-central-1:123456789012:mail",
	} {
		scheme, target, err := ParseAddress(raw)
		if err != nil || string(scheme)+" "+target != want {
			t.Errorf("%s: %s %s %v", raw, scheme, target, err)
		}
	}
	for _, raw := range []string{"", "10.0.0.1:9999", "ftp://x", "http://", "http://u:p@x", "http://x/#f", "http://x?a=b", "http://x:0",
		"http://x:", "http://x:99999",
		"http://x y", "http://x\\y", "call:x", "call:", "call:call:http://x", "lambda:", "queue:a b", "lambda:a b",
		"lambda:" + strings.Repeat("x", 65), "lambda:a:b:c",
		"lambda:arn:aws:sqs:eu-central-1:123456789012:mail", "lambda:arn:aws:lambda:eu-central-1:1234:function:pay",
		"lambda:123456789012:function:pay",
		"queue:mail.fifo", "queue:https://sqs.eu-central-1.amazonaws.com/123456789012/mail", "queue:" + strings.Repeat("x", 81),
		"queue:arn:aws:lambda:eu-central-1:123456789012:function:pay", "http://" + strings.Repeat("x", 512), "javascript:alert(1)",
		"http://é.example"} {
		if scheme, target, err := ParseAddress(raw); err == nil || CodeOf(err) != CodeInvalid {
			t.Errorf("%q: %s %s %v", raw, scheme, target, err)
		}
	}
}

func TestCheckHandler(t *testing.T) {
	call := App{Executors: []string{"lambda:x", "call:https://x"}}
	for handler, want := range map[string]string{"POST /run": "POST /run", "/run?x=1": "POST /run?x=1", "DELETE /a/b": "DELETE /a/b"} {
		method, path, err := ParseCallHandler(handler)
		if err != nil || method+" "+path != want || call.CheckHandler(handler) != nil {
			t.Errorf("%s: %s %s %v", handler, method, path, err)
		}
	}
	for _, handler := range []string{"sweep", "POST run", "post /run", "POST  /run", "POST /a b", "POST //host/x", "/x#f", "CONNECT /x",
		"POST /\\x"} {
		if call.CheckHandler(handler) == nil {
			t.Errorf("%q is taken", handler)
		}
	}
	wire := App{Executors: []string{"http://x"}}
	check.NoError(t, wire.CheckHandler("any name at all"))
}

// The error for an unsupported route names the alternatives.
func TestCheckRoute(t *testing.T) {
	texts := golden.New(t)
	for _, address := range []string{"lambda:pay", "queue:mail"} {
		a := App{Executors: []string{"http://x", address}}
		for _, r := range Routes {
			err := a.CheckRoute(r)
			if (err != nil) != (r == RouteBusyover) {
				t.Errorf("%s %s: %v", address, r, err)
			}
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Field != "route") {
				t.Errorf("%s: %v", address, err)
			}
			if err != nil {
				texts.Equal(t, address, err.Error())
			}
		}
	}
	check.NoError(t, (&App{Executors: []string{"http://x"}}).CheckRoute(RouteBusyover))
}

func TestParseARN(t *testing.T) {
	for target, want := range map[string]ARN{
		"arn:aws:lambda:eu-central-1:123456789012:function:pay":      {"aws", "eu-central-1", "123456789012", "pay", ""},
		"arn:aws:lambda:eu-central-1:123456789012:function:pay:live": {"aws", "eu-central-1", "123456789012", "pay", "live"},
		"arn:aws-cn:sqs:cn-north-1:123456789012:mail":                {"aws-cn", "cn-north-1", "123456789012", "mail", ""},
	} {
		if got, ok := ParseARN(target); !ok || got != want {
			t.Errorf("%s: %+v %t", target, got, ok)
		}
	}
	if _, ok := ParseARN("pay:live"); ok {
		t.Error("a name is no ARN")
	}
}

func TestValidateApp(t *testing.T) {
	good := App{Name: "shop", Token: "t", Executors: []string{"http://a"}, Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	check.OK(t, good.Validate())
	for field, change := range map[string]func(a *App){
		"name":         func(a *App) { a.Name = "" },
		"title":        func(a *App) { a.Title = strings.Repeat("x", 257) },
		"token":        func(a *App) { a.Token = "a\nb" },
		"executors[1]": func(a *App) { a.Executors = []string{"http://a", "nowhere"} },
		"executors":    func(a *App) { a.Executors = make([]string, MaxAddresses+1) },
		"allow[0]":     func(a *App) { a.Allow = []netip.Prefix{{}} },
		"allow":        func(a *App) { a.Allow = make([]netip.Prefix, MaxAllow+1) },
	} {
		a := good
		change(&a)
		var e *Error
		if err := a.Validate(); !errors.As(err, &e) || e.Field != field || strings.Contains(e.Value, "a\nb") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestLive(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	all := []Executor{
		{Address: "d", Beat: ago(91)}, {Address: "c", Beat: ago(90)}, {Address: "b", Beat: ago(0)}, {Address: "b", Beat: ago(5)},
		{Address: "z", Fixed: true}, {Address: "y", Fixed: true}, {Address: "z", Fixed: true}, {Address: "e", Beat: ago(200)},
		{Address: "f", Beat: ago(700)},
	}
	for _, c := range []struct {
		name string
		g    Global
		want string
	}{
		{"no outage", Global{}, "z y b c"},
		{"up again for 10 s after 100 s", Global{DownAt: ago(110), UpSince: ago(10)}, "z y b c d e"},
		{"up again for 90 s", Global{DownAt: ago(200), UpSince: ago(90)}, "z y b c d e"},
		{"up again for 91 s", Global{DownAt: ago(200), UpSince: ago(91)}, "z y b c"},
		{"dead before the outage", Global{DownAt: ago(109), UpSince: ago(1)}, "z y b c d"},
	} {
		var got []string
		for _, e := range Live(all, c.g, now, BeatExpiry) {
			got = append(got, e.Address)
		}
		check.Equal(t, strings.Join(got, " "), c.want, "%s: %v, want", c.name, got)
	}
	app := App{Name: "shop", Executors: []string{"z"}}
	if got := app.Candidates(all, Global{}, now, BeatExpiry); len(got) != 1 || !got[0].Fixed || got[0].App != "shop" {
		t.Errorf("fixed ones are not all: %+v", got)
	}
}
