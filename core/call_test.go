package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func TestCallValidates(t *testing.T) {
	const secret = "hunter2"
	header := func(name, value string) Call { return Call{Headers: map[string]string{name: value}} }
	many := Call{Headers: map[string]string{}}
	for i := range MaxHeaders + 1 {
		many.Headers["X-"+strings.Repeat("a", i+1)] = "b"
	}
	texts := golden.New(t)
	for _, c := range []struct {
		call  Call
		field string
		name  string
	}{
		{header("X-Team", "finance"), "", ""},
		{header("X-Team", secret+"\r\nX-Admin: 1"), "call.headers.X-Team", "line break in a value"},
		{header("X-Team", secret+"\x00"), "call.headers.X-Team", "zero byte in a value"},
		{header("X-Team", " "+secret), "call.headers.X-Team", "space before a value"},
		{header("X-Team", strings.Repeat("x", MaxSecret+1)), "call.headers.X-Team", "long value"},
		{header("X Team", secret), "call.headers", "space in a name"},
		{header("X-Team\r\nX-Admin", secret), "call.headers", "line break in a name"},
		{header("", secret), "call.headers", "no name"},
		{header("Transfer-Encoding", "chunked"), "call.headers.Transfer-Encoding", "header of the connection"},
		{header("cOnnection", "close"), "call.headers.cOnnection", "header of the connection in capitals"},
		{header("Host", "other"), "call.headers.Host", "Host"},
		{header("content-length", "1"), "call.headers.content-length", "Content-Length"},
		{header("Idempotency-Key", "1"), "call.headers.Idempotency-Key", "Idempotency-Key"},
		{header("tickring-run", "1"), "call.headers.tickring-run", "a name of tickring"},
		{header("Tickring-Whatever", "1"), "call.headers.Tickring-Whatever", "another name of tickring"},
		{Call{Headers: map[string]string{"X-A": "1", "x-a": "2"}}, "call.headers.x-a", "header twice"},
		{Call{Headers: map[string]string{"Authorization": secret}, Auth: Auth{Bearer: secret}}, "call.headers.Authorization", "header of auth"},
		{many, "call.headers", "many headers"},
		{Call{Headers: map[string]string{"A": strings.Repeat("x", 4000), "B": strings.Repeat("x", 4000)},
			Auth: Auth{Bearer: strings.Repeat("x", 400)}}, "call", "large in all"},
		{Call{Hidden: []string{"X-Key"}}, "call.hidden", "unknown hidden header"},
		{Call{Expect: []int{200, 202, 404}, MaxAnswer: 64 << 10}, "", ""},
		{Call{Expect: []int{200, 100}}, "call.expect[1]", "expected code"},
		{Call{Expect: []int{200, 200}}, "call.expect[1]", "expected code twice"},
		{Call{MaxAnswer: 10}, "call.maxAnswer", "small answer"},
		{Call{MaxAnswer: 17 << 20}, "call.maxAnswer", "large answer"},
		{Call{Auth: Auth{Bearer: secret + "\n"}}, "call.auth.bearer", "line break in a token"},
		{Call{Auth: Auth{Bearer: secret, Basic: Basic{User: "a"}}}, "call.auth", "two auths"},
		{Call{Auth: Auth{Basic: Basic{Password: secret}}}, "call.auth.basic.user", "no user"},
		{Call{Auth: Auth{Basic: Basic{User: "a:b", Password: secret}}}, "call.auth.basic.user", "colon in a user name"},
		{Call{Auth: Auth{OAuth: OAuth{TokenURL: "ftp://x", ClientID: "a", ClientSecret: secret}}}, "call.auth.oauth.tokenUrl", "not http"},
		{Call{Auth: Auth{OAuth: OAuth{TokenURL: "https://u:p@x", ClientID: "a", ClientSecret: secret}}}, "call.auth.oauth.tokenUrl",
			"password in a URL"},
		{Call{Auth: Auth{OAuth: OAuth{TokenURL: "https://x", ClientSecret: secret}}}, "call.auth.oauth.clientId", "no client ID"},
		{Call{Auth: Auth{OAuth: OAuth{TokenURL: "https://x", ClientID: "a"}}}, "call.auth.oauth.clientSecret", "no client secret"},
		{Call{Auth: Auth{OAuth: OAuth{TokenURL: "https://x", ClientID: "a", ClientSecret: secret, Scope: "a\nb"}}}, "call.auth.oauth.scope",
			"line break in a scope"},
	} {
		err := c.call.Normal().validate()
		if c.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.call, err)
			}
			continue
		}
		e, is := errors.AsType[*Error](err)
		if !is || e.Field != c.field || strings.Contains(e.Value+e.Reason.String(), secret) {
			t.Errorf("%s: %v, want %s", c.name, err, c.field)
		}
		texts.Equal(t, c.name, fmt.Sprint(err))
	}
}

func TestCallOver(t *testing.T) {
	app := &Call{Headers: map[string]string{"X-Team": "all", "X-App": "pay"}, Auth: Auth{Bearer: "a"}, Expect: []int{200}, MaxAnswer: 5000}
	job := &Call{Headers: map[string]string{"x-team": "mine"}, MaxAnswer: 6000}
	got := job.Over(app)
	want := &Call{Headers: map[string]string{"x-team": "mine", "X-App": "pay"}, Auth: Auth{Bearer: "a"}, Expect: []int{200}, MaxAnswer: 6000}
	if !got.Equal(want) || len(app.Headers) != 2 || len(job.Headers) != 1 {
		t.Errorf("%+v", got)
	}
	if got := (&Call{Auth: Auth{Basic: Basic{User: "u"}}}).Over(app); got.Auth != (Auth{Basic: Basic{User: "u"}}) {
		t.Errorf("another auth: %+v", got)
	}
	if got := (&Call{Headers: map[string]string{"Authorization": "x"}}).Over(app); got.Auth != (Auth{}) {
		t.Errorf("the auth of the app in addition to an authorization header of the job: %+v", got)
	}
	all := &Call{Headers: map[string]string{"X-Team": "***", "X-App": "pay"}, Hidden: []string{"X-Team"}, Auth: Auth{Bearer: "a"},
		Expect: []int{200}, MaxAnswer: 5000}
	over := &Call{Headers: map[string]string{"x-team": "mine", "X-App": "other"}, Auth: Auth{Basic: Basic{User: "u"}}, Expect: []int{202},
		MaxAnswer: 6000}
	if rest := all.Besides(job); !rest.Equal(&Call{Headers: map[string]string{"X-App": "pay"}, Auth: Auth{Bearer: "a"}, Expect: []int{200}}) {
		t.Errorf("of the app there counts beside the job %+v", rest)
	}
	if rest := all.Besides(over); rest != nil || over.Over(all) != over || len(all.Headers) != 2 {
		t.Errorf("%+v", rest)
	}
	if job.Over(nil) != job || (*Call)(nil).Over(app) != app || (*Call)(nil).Over(nil) != nil {
		t.Error("over nothing")
	}
}

func TestCallSecrets(t *testing.T) {
	c := (&Call{Headers: map[string]string{"X-Team": "a", "X-Key": "hunter2", "cookie": "hunter2"}, Hidden: []string{"X-Key"},
		Auth: Auth{OAuth: OAuth{TokenURL: "https://login", ClientID: "id", ClientSecret: "hunter2"}}}).Normal()
	shown := c.Shown()
	if text := marshal(shown); strings.Contains(text, "hunter2") || !strings.Contains(text, `"X-Team":"a"`) {
		t.Error(text)
	}
	check.Contains(t, marshal(c), "hunter2", "the shown value is the stored one")
	if kept, err := shown.Kept(c); err != nil || !kept.Equal(c) {
		t.Errorf("%+v %v", kept, err)
	}
	for _, bad := range []struct {
		old *Call
		to  func(*Call)
	}{
		{nil, func(*Call) {}},
		{&Call{Headers: map[string]string{"X-Key": "open", "cookie": "x"}, Hidden: []string{"cookie"}, Auth: c.Auth}, func(*Call) {}},
		{c, func(n *Call) { n.Auth.OAuth.TokenURL = "https://evil" }},
		{c, func(n *Call) { n.Auth = Auth{Bearer: AsStored} }},
	} {
		n := c.Shown()
		bad.to(n)
		if kept, err := n.Kept(bad.old); err == nil {
			t.Errorf("%+v of %+v is %+v", n, bad.old, kept)
		}
	}
	if shown := (&Call{Hidden: []string{"X-Key"}}).Shown(); shown.Headers != nil {
		t.Errorf("a hidden header that is not given is shown: %v", shown.Headers)
	}
	d := Def{Call: c}
	if text := RecordOf(&Sched{Rev: 1}, &d).String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "X-Key") || d.Call != c {
		t.Error(text)
	}
	if text := AppRecordOf(&App{Name: "a", Call: c}).String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "X-Key") {
		t.Error(text)
	}
}
