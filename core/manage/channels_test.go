package manage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

const someSecret = "s3cr3t-of-chance"

func feishu() core.Channel {
	return core.Channel{Name: "finance", Kind: core.ChannelFeishu, URL: "https://open.feishu.cn/hook/" + someSecret, Secret: someSecret}
}

func mailTo(host string) core.Channel {
	return core.Channel{Name: "mail", Kind: core.ChannelEmail, Email: core.Email{To: []string{"ops@example.com"}, From: "jobs@example.com",
		SMTP: core.SMTP{Host: host, User: "jobs", Password: someSecret}}}
}

// TestChannels: a channel is created, changed, left as it is, and deleted. Its secrets are in no
// record. The value *** keeps them, unless they would go to another place.
func TestChannels(t *testing.T) {
	f := newFixture(t)
	save := func(c core.Channel) (string, error) {
		res, err := f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: c})
		return res.Change, err
	}
	expectChange := func(c core.Channel, want string) {
		t.Helper()
		if got, err := save(c); err != nil || got != want {
			t.Fatalf("%s: %q, %v, want %s", c.Name, got, err, want)
		}
	}
	expectChange(feishu(), manage.Created)
	expectChange(feishu(), manage.Unchanged)
	kept := feishu()
	kept.URL, kept.Secret = core.AsStored, core.AsStored
	expectChange(kept, manage.Unchanged)
	kept.Language = core.Chinese
	expectChange(kept, manage.Updated)
	is, err := f.M.Channel(ctx, "finance")
	if err != nil || is.URL != feishu().URL || is.Secret != someSecret || is.Language != core.Chinese || is.Created.IsZero() {
		t.Fatalf("%+v, %v", is, err)
	}

	f.Clock = f.Clock.Add(time.Second)
	expectChange(mailTo("mail.example.com"), manage.Created)
	elsewhere := mailTo("evil.example.com")
	elsewhere.Email.SMTP.Password = core.AsStored
	_, err = save(elsewhere)
	check.Equal(t, core.CodeOf(err), core.CodeInvalid, "the password went to another host: %v", err)
	texts := golden.New(t)
	texts.Equal(t, "a kept secret at another host", fmt.Sprint(err))
	none := feishu()
	none.Name, none.Secret = "new", core.AsStored
	_, err = save(none)
	check.Equal(t, core.CodeOf(err), core.CodeInvalid, "*** of nothing: %v", err)
	texts.Equal(t, "no secret to keep", fmt.Sprint(err))
	topic := core.Channel{Name: "t", Kind: core.ChannelSNS, ARN: "arn:aws:sns:eu-central-1:123456789012:jobs"}
	fails(t, core.CodeRefused, "a topic without AWS")(save(topic))
	zero := int64(0)
	fails(t, core.CodeConflict, "ifRev")(f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: feishu(), IfRev: &zero}))

	f.Clock = f.Clock.Add(time.Second)
	check.OK(t, f.M.DeleteChannel(ctx, ann, "finance"))
	fails(t, core.CodeNotFound, "deleted again")(f.M.DeleteChannel(ctx, ann, "finance"))
	changes, err := f.Changes("", "", 100)
	check.OK(t, err)
	verbs := ""
	for _, c := range changes {
		if c.App == "" && c.Job == 0 {
			verbs += c.Verb + " " + c.Name + ";"
		}
		if strings.Contains(c.Old+c.New, someSecret) {
			t.Errorf("a secret in a record: %+v", c)
		}
	}
	check.Equal(t, verbs, "deleted finance;created mail;updated finance;created finance;", "changes")
}

// TestLostAnswers: a change whose answer was lost is reported as made, and a test of a channel sends one message.
func TestLostAnswers(t *testing.T) {
	for _, after := range []bool{false, true} {
		f := newFixture(t)
		lost := func() *people.People { return f.Fresh(&faults{At: 1, After: after}) }
		saved, err := lost().SaveChannel(ctx, ann, manage.ChannelSpec{Channel: feishu()})
		tested, err2 := lost().TestChannel(ctx, ann, "finance")
		told, err3 := lost().SaveNotify(ctx, ann, core.Notify{To: []string{"finance"}})
		paused, err4 := lost().Pause(ctx, ann, manage.Target{App: "shop"}, manage.PauseRequest{Why: "flood"})
		f.Clock = f.Clock.Add(time.Minute)
		resumed, err5 := lost().Resume(ctx, ann, manage.Target{App: "shop"}, "")
		check.OK(t, errors.Join(err, err2, err3, err4, err5))
		if saved.Change != manage.Created || !tested.Sent || len(f.Notifier.Sent) != 1 || told.Change != manage.Updated ||
			!paused.Changed || paused.State != core.Paused || !resumed.Changed || resumed.State != core.Started || resumed.Rev == paused.Rev {
			t.Errorf("after %t: %+v, %+v, %+v, %+v, %+v", after, saved, tested, told, paused, resumed)
		}
	}
}

// TestTooManyChannels: one more channel than the maximum is rejected.
func TestTooManyChannels(t *testing.T) {
	f := newFixture(t)
	for i := range core.MaxChannels + 1 {
		c := feishu()
		c.Name = fmt.Sprintf("c%d", i)
		_, err := f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: c})
		if over := i == core.MaxChannels; (core.CodeOf(err) == core.CodeTooLarge) != over || !over && err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// TestTestIsBounded: a channel is tested once in ten seconds, for all callers and processes. Each
// test has a record, and the result has the error.
func TestTestIsBounded(t *testing.T) {
	f, texts := newFixture(t), golden.New(t)
	fails(t, core.CodeNotFound, "no channel")(f.M.TestChannel(ctx, ann, "finance"))
	check.Call(t)(f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: feishu()}))
	f.Notifier.Err = &core.Undelivered{Permanent: true, After: time.Minute, Reason: "no such robot"}
	res, err := f.M.TestChannel(ctx, ann, "finance")
	if err != nil || res.Sent || res.Why != "no such robot" || !res.Permanent || res.After != time.Minute ||
		f.Notifier.Sent[0].Secret != someSecret {
		t.Fatalf("%+v, %v", res, err)
	}
	f.Notifier.Err = nil
	for range 50 {
		other := f.Fresh(f.Faults) // another process
		if _, err := other.TestChannel(ctx, ann, "finance"); core.CodeOf(err) != core.CodeRefused {
			t.Fatalf("tested again at once: %v", err)
		} else {
			texts.Equal(t, "tested again at once", err.Error())
		}
	}
	f.Clock = f.Clock.Add(10 * time.Second)
	if res, err := f.M.TestChannel(ctx, ann, "finance"); err != nil || !res.Sent || len(f.Notifier.Sent) != 2 {
		t.Fatalf("%+v, %v, %d sent", res, err, len(f.Notifier.Sent))
	}
	// An edit does not reset the limit.
	c := feishu()
	c.Language = core.Chinese
	check.Call(t)(f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: c}))
	fails(t, core.CodeRefused, "after an edit")(f.M.TestChannel(ctx, ann, "finance"))
	changes, err := f.Changes("", "", 3)
	if err != nil || changes[1].Verb != core.VerbTested || changes[1].Name != "finance" || changes[1].By != "ann" {
		t.Errorf("%+v, %v", changes, err)
	}
}

// TestPruneChannels: a prune deletes exactly the channels of its set that are not named.
func TestPruneChannels(t *testing.T) {
	f := newFixture(t)
	for name, set := range map[string]string{"gone": "s", "stays": "s", "other": "t"} {
		c := feishu()
		c.Name, c.Set = name, set
		check.Call(t)(f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: c}))
	}
	for _, dry := range []bool{true, false} {
		res, err := f.M.Prune(ctx, ann, manage.PruneRequest{Set: "s", Channels: []string{"stays"}, DryRun: dry})
		if err != nil || len(res.Channels) != 1 || res.Channels[0].Name != "gone" || res.Channels[0].Change != manage.Deleted {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	list, err := f.M.Manage.Prune(ctx, ann, manage.PruneRequest{Set: "s", Channels: []string{"stays"}, DryRun: true})
	left, lerr := f.M.Queries.Channels(ctx)
	if err != nil || len(list.Channels) != 0 || lerr != nil || len(left) != 2 {
		t.Errorf("%+v, %v; left %+v, %v", list, err, left, lerr)
	}
}

// TestPruneDryRunFindsWhatKeepsAnObject: a dry run rejects exactly the objects that the prune
// rejects.
func TestPruneDryRunFindsWhatKeepsAnObject(t *testing.T) {
	tells := core.Notify{To: []string{"oncall"}}
	for _, c := range []struct {
		name, set string // of the job that notifies the channel
		stay      map[string]core.Notify
		want      string
	}{
		{"a job of another set", "t", nil, "app refused, channel refused"},
		{"a job of the file that notifies the channel", "s", map[string]core.Notify{"web/a": tells, "web": {}}, "channel refused"},
		{"a job of the file that stops telling it", "s", map[string]core.Notify{"web/a": {}, "web": {}}, "channel deleted"},
		{"a job that goes", "s", nil, "app deleted, channel deleted"},
	} {
		for _, dry := range []bool{true, false} {
			f := newFixture(t)
			oncall := feishu()
			oncall.Name, oncall.Set = "oncall", "s"
			check.Call(t)(f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: oncall}))
			check.Call(t)(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "web", Set: "s"}))
			job := after("a")
			job.Def.App, job.Def.Set, job.Def.Notify = "web", c.set, tells
			f.Save(job)
			if n, stays := c.stay["web/a"]; stays && !dry { // the jobs of the file are saved before the prune
				job.Def.Notify = n
				f.Save(job)
			}
			res, err := f.M.Prune(ctx, ann, manage.PruneRequest{Set: "s", Stay: c.stay, DryRun: dry})
			check.OK(t, err)
			var got []string
			for _, x := range res.Apps {
				got = append(got, "app "+x.Change)
			}
			for _, x := range res.Channels {
				got = append(got, "channel "+x.Change)
			}
			check.Equal(t, strings.Join(got, ", "), c.want, "%s, dry %v", c.name, dry)
		}
	}
}
