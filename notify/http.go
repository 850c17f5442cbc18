package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/safedial"
)

const (
	maxAnswer = 64 << 10 // bytes that are read of one
	// maxAfter bounds how long a server can have a message wait.
	maxAfter = time.Hour
	// minSecret is how long a secret is that is looked for in an answer: a shorter one is in any text.
	minSecret = 6
)

// request is a message in the form of a service.
type request struct {
	url    string
	header http.Header
	body   []byte
}

type service struct {
	form func(s *Sender, ch *core.Channel, m *Message) (request, error)
	// judge reads the body of an answer with status 2xx, if the service reports its result there; nil: the status decides.
	judge func(body []byte) error
}

var services = map[core.ChannelKind]service{
	core.ChannelWebhook:  {form: webhook},
	core.ChannelSlack:    {form: slack, judge: judgeSlack},
	core.ChannelFeishu:   {form: feishu, judge: judgeFeishu},
	core.ChannelDingTalk: {form: dingTalk, judge: judgeErrCode(dingTalkSays, dingTalkBusy)},
	core.ChannelWeCom:    {form: weCom, judge: judgeErrCode(weComSays, weComBusy)},
}

func (s *Sender) post(ctx context.Context, ch *core.Channel, m *Message) error {
	of, ok := services[ch.Kind]
	if !ok {
		return permanent("channel %s: this version does not support channels of the kind %q", ch.Name, ch.Kind)
	}
	r, err := of.form(s, ch, m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(r.body))
	if err != nil {
		return permanent("the URL of channel %s cannot be read", ch.Name)
	}
	req.Header = r.header
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "tickring")
	resp, err := s.http.Do(req)
	if err != nil {
		return unreached(ch, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = cmp.Or(err, ctx.Err()); err != nil && of.judge != nil && resp.StatusCode < 300 {
		return &core.Undelivered{Reason: ch.To() + " sent an incomplete answer", Err: err}
	}
	if err := s.judgeStatus(ch, resp, body); err != nil || of.judge == nil {
		return err
	}
	err = of.judge(body)
	if u, ok := errors.AsType[*core.Undelivered](err); ok {
		u.Reason = ch.To() + ": " + hide(ch, u.Reason)
	}
	return err
}

// judgeStatus is nil for a status of success.
func (s *Sender) judgeStatus(ch *core.Channel, resp *http.Response, body []byte) error {
	status := resp.StatusCode
	if status >= 200 && status < 300 {
		return nil
	}
	u := &core.Undelivered{Permanent: true, Reason: fmt.Sprintf("%s answered %d %s", ch.To(), status, http.StatusText(status))}
	if said := line(hide(ch, clean(string(body), 4*maxWord)), maxWord); said != "" {
		u.Reason += ": " + said
	}
	switch {
	case status >= 300 && status < 400:
		u.Reason += "; redirects are not followed: set the target URL in the channel"
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		u.Permanent, u.After = false, retryAfter(resp.Header.Get("Retry-After"), s.o.Now())
	}
	return u
}

// unreached is why nothing was answered, without the URL, which may be a secret.
func unreached(ch *core.Channel, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	u := &core.Undelivered{Reason: ch.To() + " was not reached: " + hide(ch, clean(err.Error(), maxWord)), Err: err,
		Permanent: errors.Is(err, safedial.ErrNotAllowed)}
	if errors.Is(err, context.DeadlineExceeded) {
		u.Reason = ch.To() + " did not answer in time"
	}
	return u
}

// retryAfter reads a header Retry-After: seconds, or a date.
func retryAfter(said string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(said, 10, 32); err == nil {
		return min(max(time.Duration(n)*time.Second, 0), maxAfter)
	}
	if at, err := http.ParseTime(said); err == nil {
		return min(max(at.Sub(now).Round(time.Second), 0), maxAfter)
	}
	return 0
}

// hide removes the secrets of a channel from a text: some servers echo the request.
func hide(ch *core.Channel, text string) string {
	secrets := []string{ch.Secret, ch.Email.SMTP.Password}
	if u, err := url.Parse(ch.URL); err == nil {
		secrets = append(secrets, ch.URL, u.RequestURI(), u.Path, u.RawQuery)
		for _, values := range u.Query() {
			secrets = append(secrets, values...)
		}
		if i := strings.LastIndexByte(u.Path, '/'); i >= 0 {
			secrets = append(secrets, u.Path[i+1:])
		}
	}
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, core.AsStored)
		}
	}
	return text
}

// encode is JSON without the escapes that are for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("notify: JSON of plain values: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// cuts are how many bytes the long texts of a message have, the first that fits.
var cuts = []int{8 << 10, 4 << 10, 2 << 10, 1 << 10, 512, 256, 128, 64, 0}

// fit writes a message, cutting it until its form fits.
func fit(ch *core.Channel, m *Message, form func(p page) (body []byte, fits bool)) ([]byte, error) {
	for _, cut := range cuts {
		if body, fits := form(pageOf(ch, m, cut)); fits {
			return body, nil
		}
	}
	return nil, permanent("the message is too long for channel %s, even when shortened", ch.Name)
}
