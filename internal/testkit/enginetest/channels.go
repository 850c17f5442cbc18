package enginetest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
)

// aChannel is one with all that a mail channel can have.
var aChannel = core.Channel{Name: "mail", Set: "s", Language: core.Chinese, Kind: core.ChannelEmail, Rev: 5,
	Email: core.Email{To: []string{"ops@example.com", "Lina <lina@example.com>"}, From: "jobs@example.com",
		SMTP: core.SMTP{Host: "mail.example.com", Port: 465, User: "jobs", Password: "p", TLS: core.TLSImplicit}},
	Tested: base.Add(time.Second), Created: base}

func channels(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	read := func(name string) *core.Channel {
		t.Helper()
		found, err := e.Manage.Channels(ctx, []string{name, "none"})
		ok(t, err)
		if c, is := found[name]; is {
			return &c
		}
		return nil
	}
	c := core.Change{ID: 5, At: base, By: "ann", Verb: "created", Name: "mail", New: `{"a":1}`}
	refused(t, e.Manage.PutChannel(ctx, 4, aChannel, c))
	same(t, "no channel", read("mail"), nil)
	ok(t, e.Manage.PutChannel(ctx, 0, aChannel, c))
	refused(t, e.Manage.PutChannel(ctx, 0, aChannel, c))
	same(t, "channel", read("mail"), &aChannel)

	b := aChannel
	b.Rev, b.Kind, b.Email, b.URL, b.Secret = 6, core.ChannelFeishu, core.Email{}, "https://example.com/hook", "s"
	refused(t, e.Manage.PutChannel(ctx, 6, b, c))
	same(t, "unchanged channel", read("mail"), &aChannel)
	ok(t, e.Manage.PutChannel(ctx, 5, b, core.Change{ID: 6, At: base, Verb: "updated", Name: "mail", New: `{"a":2}`}))
	same(t, "changed channel", read("mail"), &b)

	topic := core.Channel{Name: "a-topic", Language: core.English, Kind: core.ChannelSNS,
		ARN: "arn:aws:sns:eu-central-1:123456789012:jobs", Rev: 1}
	ok(t, e.Manage.PutChannel(ctx, 0, topic, core.Change{ID: 1, At: base, Verb: "created", Name: "a-topic"}))
	list, err := e.Manage.ListChannels(ctx)
	ok(t, err)
	if d := cmp.Diff([]core.Channel{topic, b}, list, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
	changes, err := e.Manage.Changes(ctx, "", 0, math.MaxInt64, 10)
	ok(t, err)
	if len(changes) != 3 || changes[0].ID != 6 || changes[0].Name != "mail" || changes[0].New != `{"a":2}` {
		t.Fatalf("changes: %+v", changes)
	}

	del := core.Change{ID: 7, At: base, Verb: "deleted", Name: "mail"}
	refused(t, e.Manage.DeleteChannel(ctx, 5, "mail", del))
	refused(t, e.Manage.DeleteChannel(ctx, 6, "none", del))
	ok(t, e.Manage.DeleteChannel(ctx, 6, "mail", del))
	refused(t, e.Manage.DeleteChannel(ctx, 6, "mail", del))
	same(t, "deleted channel", read("mail"), nil)
	same(t, "another channel", read("a-topic"), &topic)
}
