// Package notificationtext returns the subject and text of a notification, as users read them. The wording is the
// wording that package notify sends to an SNS topic, which gets the subject and the text unchanged.
package notificationtext

import (
	"context"
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

// paper is the topic that a message is written to.
type paper string

// Ready implements notify.Topics.
func (*paper) Ready(context.Context) error { return nil }

// Publish implements notify.Topics.
func (p *paper) Publish(_ context.Context, _, _, text string) error {
	*p = paper(text)
	return nil
}
