// Package notificationtext returns the subject and text of a notification, as users read them. The wording is the
// wording that package notify sends to an SNS topic, which gets the subject and the text unchanged.
package notificationtext

import (
	"context"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/notify"
)

// Text returns a notification in the language l: the subject, an empty line, and the text.
func Text(t testing.TB, l core.Language, m core.Message) string {
	t.Helper()
	var p paper
	s := notify.New(notify.Options{Topics: &p})
	defer s.Close()
	ch := core.Channel{Name: "paper", Kind: core.ChannelSNS, Language: l, ARN: "arn:aws:sns:eu-central-1:123456789012:jobs"}
	if err := s.Send(context.WithoutCancel(t.Context()), ch.Normal(), m); err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// Says fails the test if the English or Chinese notification does not contain the expected text, or contains a
// forbidden text.
func Says(t testing.TB, m core.Message, english, chinese string, not ...string) {
	t.Helper()
	for l, want := range map[core.Language]string{core.English: english, core.Chinese: chinese} {
		text := Text(t, l, m)
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the notice:\n%s", want, text)
		}
		for _, bad := range not {
			if strings.Contains(text, bad) {
				t.Errorf("%q in the notice:\n%s", bad, text)
			}
		}
	}
}

// paper is the topic that a message is written to.
type paper string

// Ready implements notify.Topics.
func (*paper) Ready(context.Context) error { return nil }

// Publish implements notify.Topics.
func (p *paper) Publish(_ context.Context, _, _, text string) error {
	*p = paper(text)
	return nil
}
