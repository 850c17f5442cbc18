// Package notify sends one message to one channel: by email, to a webhook, to Slack, Feishu, DingTalk or WeCom, or to an SNS
// topic. If a send fails, the error explains why and whether a retry can help. The caller is responsible for retries.
// docs/reference/notification-events.md describes the messages of each channel.
//
// The package keeps no state and follows no redirects. The package connects only to addresses that the deployment's policy
// allows. Texts in a message can come from executors, so no text can change the recipient or the structure of the message.
package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/safedial"
)

type Message = core.Message

// Options of a Sender. A field with its zero value gets the default in its comment.
type Options struct {
	// Policy decides which IP addresses the sender may connect to.
	Policy safedial.Policy
	// Timeout is the timeout of one message, from name resolution to the end of the response.
	Timeout time.Duration // default: 15 s
	// Topics publishes to SNS topics; nil: messages to SNS channels are rejected.
	Topics Topics
	// Deployment is the deployment name in messages that do not have one.
	Deployment string
	Now        func() time.Time
}

// Topics publishes to SNS topics.
type Topics interface {
	// Ready returns nil if this server can publish to SNS, and otherwise why not.
	Ready(ctx context.Context) error
	// Publish publishes a text to the topic with the given ARN. Its error is a *core.Undelivered.
	Publish(ctx context.Context, arn, subject, text string) error
}

// A Sender sends messages to channels. A Sender has no goroutine, and no state except idle connections.
type Sender struct {
	o    Options
	http *http.Client
	tls  *tls.Config // trusted certificates; nil: the machine's certificates
}

// New returns a Sender. Call Close to close its connections.
func New(o Options) *Sender {
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sender{o: o}
	s.http = &http.Client{
		Transport: &http.Transport{
			DialContext: o.Policy.Dialer(o.Timeout).DialContext, TLSHandshakeTimeout: o.Timeout, MaxIdleConnsPerHost: 2,
			IdleConnTimeout: 30 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

func (s *Sender) Close() { s.http.CloseIdleConnections() }

// Send sends a message to a channel once, without a retry. Its error is a *core.Undelivered.
func (s *Sender) Send(ctx context.Context, ch core.Channel, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	m.Deployment = cmp.Or(m.Deployment, s.o.Deployment)
	err := ch.Locked()
	if err != nil { // a later try may have the key
		return &core.Undelivered{Reason: err.Error(), Err: err}
	}
	switch ch.Kind {
	case core.ChannelEmail:
		err = s.mail(ctx, &ch, &m)
	case core.ChannelSNS:
		err = s.publish(ctx, &ch, &m)
	default:
		err = s.post(ctx, &ch, &m)
	}
	if err == nil {
		return nil
	}
	if u, ok := errors.AsType[*core.Undelivered](err); ok {
		return u
	}
	return &core.Undelivered{Reason: hide(&ch, clean(err.Error(), maxWord)), Err: err}
}

// Test sends a test message to a channel. Its error is a *core.Undelivered.
func (s *Sender) Test(ctx context.Context, ch core.Channel) error {
	var id [8]byte
	rand.Read(id[:])
	return s.Send(ctx, ch, Message{ID: "test-" + hex.EncodeToString(id[:]), At: s.o.Now()})
}

// Takes returns nil if this sender can send to a channel, and otherwise why not. Takes does not check the form of the
// channel's settings.
func (s *Sender) Takes(ctx context.Context, ch core.Channel) error {
	if err := ch.Locked(); err != nil || ch.Kind != core.ChannelSNS {
		return err
	}
	if s.o.Topics == nil {
		return errNoTopics
	}
	return s.o.Topics.Ready(ctx)
}

var errNoTopics = errors.New("this server cannot publish to SNS: it has no AWS credentials")

func (s *Sender) publish(ctx context.Context, ch *core.Channel, m *Message) error {
	if s.o.Topics == nil {
		return permanent("%v", errNoTopics)
	}
	// SNS accepts 256 KB, and mails them unchanged.
	p := pageOf(ch, m, 16<<10)
	// A subject has less than 100 UTF-16 code units.
	return s.o.Topics.Publish(ctx, ch.ARN, truncate(p.subject, 99, utf16Len), p.text())
}

// permanent is an error that another try would have again.
func permanent(format string, args ...any) error {
	return &core.Undelivered{Permanent: true, Reason: fmt.Sprintf(format, args...)}
}
