package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

// registered registers an executor of shop with a token, and returns the server's answer.
func registered(t *testing.T, s *running, token string) (ok bool, answer string) {
	t.Helper()
	_, answer = ask(t, "POST", s.URL()+"/api/registry",
		`{"registryGroup":"EXECUTOR","registryKey":"shop","registryValue":"http://127.0.0.1:1"}`, wire.HeaderToken, token)
	return strings.HasPrefix(answer, `{"code":200`), answer
}

func opsChannel(secret string) manage.ChannelSpec {
	return manage.ChannelSpec{Channel: core.Channel{Name: "ops", Kind: core.ChannelWebhook, URL: "https://hooks.example.com/x",
		Secret: secret}}
}

func TestRestoreWithoutKeyAcceptsNewSecrets(t *testing.T) {
	t.Parallel()
	texts := golden.New(t)
	dir, copied := t.TempDir(), t.TempDir()
	s := start(t, Options{Dir: dir})
	save(t, s, "shop")
	calls := manage.AppSpec{Name: "calls", Executors: []string{"call:https://example.com"}}
	check.Call(t)(s.Manage().SaveApp(t.Context(), actor, calls))
	report := secondly("calls", "report")
	report.Def.Handler = "/report"
	report.Schedule, report.Def.Call = core.Schedule{}, &core.Call{Auth: core.Auth{Bearer: "token-of-the-report"}}
	saveAll(t, s, report)
	check.Call(t)(s.Manage().SaveChannel(t.Context(), actor, opsChannel("signs")))
	if ok, answer := registered(t, s, "executors-of-shop"); !ok {
		t.Fatal(answer)
	}
	s.stop()
	check.OK(t, os.CopyFS(copied, os.DirFS(dir)))
	if info, err := os.Stat(dir + ".key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key file: %v, %v", info, err)
	}

	out := &lines{}
	s = start(t, Options{Dir: copied, Notice: out})
	eventually(t, time.Minute, out.has("does not decrypt"))
	texts.Equal(t, "start without the key", strings.Join(out.with(".key"), ""), copied, "DATA")
	for _, token := range []string{"executors-of-shop", "a-wrong-token", ""} {
		ok, answer := registered(t, s, token)
		if ok {
			t.Errorf("an executor with the token %q got %s", token, answer)
		}
		if token != "" {
			texts.Equal(t, "registration with "+token, answer)
		}
	}
	c := s.client(t)
	facts, err := c.GetFacts(t.Context())
	if err != nil || len(facts.UnreadableApps) != 1 || facts.UnreadableApps[0].Name != "shop" || len(facts.LockedChannels) != 1 ||
		facts.LockedChannels[0].Name != "ops" {
		t.Errorf("doctor gets %+v, %+v, %v", facts.UnreadableApps, facts.LockedChannels, err)
	}
	jobs, err := c.GetJobFacts(t.Context())
	if err != nil || len(jobs.Locked) != 1 || jobs.Locked[0].Name != "calls/report" {
		t.Errorf("doctor gets the jobs %+v, %v", jobs.Locked, err)
	}
	for _, by := range []string{"", "name"} {
		list, err := c.ListJobs(t.Context(), client.ListJobsParams{Sort: by})
		if err != nil || len(list.Jobs) != 1 || len(list.Failed) != 1 || !strings.Contains(list.Failed[0].Message, "job calls/report") {
			t.Errorf("jobs by %q: %+v, %v", by, list, err)
		}
	}
	for name, change := range map[string]client.BulkRequest{
		"by name":   {Jobs: []string{"calls/report"}, Verb: "label", Labels: map[string]string{"team": "a"}},
		"by filter": {Filter: &client.BulkFilter{App: "calls"}, Verb: "label", Labels: map[string]string{"team": "b"}},
	} {
		if res, err := c.Bulk(t.Context(), change); err != nil || res.Done != 1 || len(res.Failed) > 0 {
			t.Errorf("labels %s: %+v, %v", name, res, err)
		}
	}
	_, err = s.Manage().TestChannel(t.Context(), actor, "ops")
	texts.Equal(t, "test of the channel", fmt.Sprint(err))
	if shown, err := c.GetApp(t.Context(), "shop"); err != nil || !shown.HasToken {
		t.Errorf("the app is shown as %+v, %v", shown, err)
	}

	token := "another-token-of-shop"
	check.Call(t)(s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "shop", Token: &token}))
	check.Call(t)(s.Manage().SaveChannel(t.Context(), actor, opsChannel("signs-again")))
	if ok, answer := registered(t, s, token); !ok {
		t.Errorf("with the new token: %s", answer)
	}
	s.stop()
	out = &lines{} // the key file of another server
	s = start(t, Options{Dir: copied, SecretKeyFile: dir + ".key", Notice: out})
	eventually(t, time.Minute, out.has("does not decrypt"))
	texts.Equal(t, "start with another key", strings.Join(out.with(".key"), ""), dir, "OTHER")
	s.stop()
}

func TestServerRefusesUnusableKeyFile(t *testing.T) {
	t.Parallel()
	texts := golden.New(t)
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"empty":     {"", 0o600},
		"truncated": {"ABCDEF\n", 0o600},
		"for all":   {secretbox.NewKey(), 0o644},
		"no rights": {secretbox.NewKey(), 0},
		"directory": {"", 0o700 | os.ModeDir},
	} {
		t.Run(name, func(t *testing.T) {
			file := t.TempDir() + "/key"
			create := os.WriteFile
			if c.mode.IsDir() {
				create = func(path string, _ []byte, mode os.FileMode) error { return os.Mkdir(path, mode) }
			}
			check.OK(t, create(file, []byte(c.text), c.mode.Perm()))
			if _, err := os.ReadFile(file); err == nil && c.mode == 0 {
				t.Skip("this user reads files of any mode")
			}
			s, err := New(Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", SecretKeyFile: file})
			check.OK(t, err)
			err = s.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), file) || errors.Is(err, fs.ErrPermission) != (c.mode == 0) {
				t.Errorf("got %v: expected the file", err)
			}
			if c.mode != 0 {
				texts.Equal(t, name, fmt.Sprint(err), file, "FILE")
			}
			if b, _ := os.ReadFile(file); c.mode != 0 && string(b) != c.text {
				t.Errorf("the file was changed to %q", b)
			}
		})
	}
}

func TestRotateKeyReplacesKeyOfLiveServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Options{Dir: dir})
	save(t, s, "shop")
	old, _ := os.ReadFile(dir + ".key")
	c := s.client(t)
	res, err := c.RotateKey(t.Context(), client.RotateKeyParams{})
	if err != nil || res.Changed != 1 || res.Next != "" {
		t.Fatalf("%+v, %v", res, err)
	}
	text, _ := os.ReadFile(dir + ".key")
	if newest, is := strings.CutSuffix(string(text), string(old)); !is || strings.Count(newest, "\n") != 1 {
		t.Errorf("the key file became %q", text)
	}
	if ok, answer := registered(t, s, "executors-of-shop"); !ok {
		t.Error(answer)
	}
	s.stop()
	s = start(t, Options{Dir: dir})
	if ok, answer := registered(t, s, "executors-of-shop"); !ok {
		t.Error(answer)
	}
}
