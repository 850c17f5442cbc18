package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/words"
)

// failed is a message with all that one can have.
func failed() Message {
	return Message{ID: "n-17179869185-failed", Event: "failed", App: "reports", Job: "nightly", Title: "每日报表", Run: 17179869185,
		Instant: 1_790_000_000, Due: 1_790_000_120, Zone: "Asia/Shanghai", State: core.Failed, Reason: core.ReasonHandler, Code: 500,
		Text: "division by zero <!channel> @all", Lines: []string{"step 1", "step 2 & <b>3</b>"}, At: time.Unix(1_790_000_300, 0), Times: 3,
		Count: 4, Since: time.Unix(1_789_999_000, 0), Link: "https://sched.example.com/runs/17179869185", Deployment: "finance-prod"}
}

// endless returns a message with texts that exceed every service's limits.
func endless() Message {
	m := failed()
	m.Title, m.Text = strings.Repeat("题", 5000), strings.Repeat("长 <&> \"", 100_000)
	m.Lines = nil
	for range 200 {
		m.Lines = append(m.Lines, strings.Repeat("行", 10_000))
	}
	m.Lines = append(m.Lines, "the last line")
	m.Link = "https://sched.example.com/" + strings.Repeat("x", 5000)
	return m
}

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func sender(t *testing.T) *Sender {
	s := New(Options{Now: func() time.Time { return noon }})
	t.Cleanup(s.Close)
	return s
}

func channel(kind core.ChannelKind, l core.Language) core.Channel {
	c := core.Channel{Name: "oncall", Kind: kind, Language: l}
	switch kind {
	case core.ChannelEmail:
		c.Email = core.Email{To: []string{"ops@example.com", "Lina <lina@example.com>"}, From: "Tickring <jobs@example.com>",
			SMTP: core.SMTP{Host: "mail.example.com"}}
	case core.ChannelSNS:
		c.ARN = "arn:aws:sns:eu-central-1:123456789012:jobs"
	case core.ChannelDingTalk:
		c.URL = "https://oapi.dingtalk.com/robot/send?access_token=0123456789abcdef"
	default:
		c.URL = "https://hooks.example.com/services/T0/B0/secretpath"
	}
	return c.Normal()
}

// strict decodes JSON and fails on fields that T does not have.
func strict[T any](t *testing.T, body []byte) (v T) {
	t.Helper()
	if !utf8.Valid(body) {
		t.Fatalf("not UTF-8: %q", body)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

func form(t *testing.T, s *Sender, ch core.Channel, m Message) request {
	t.Helper()
	check.OK(t, ch.Validate())
	r, err := services[ch.Kind].form(s, &ch, &m)
	check.OK(t, err)
	return r
}

func each(t *testing.T, f func(t *testing.T, l core.Language, m Message, long bool)) {
	for _, l := range words.Languages {
		for _, long := range []bool{false, true} {
			m := failed()
			if long {
				m = endless()
			}
			t.Run(string(l)+map[bool]string{true: "/endless"}[long], func(t *testing.T) { f(t, l, m, long) })
		}
	}
}

// TestRequests compares the request for each service with the golden file, which was checked against the documentation of
// the service. The request of an endless message respects the limits:
//   - Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks (text, blocks),
//     https://docs.slack.dev/reference/block-kit/blocks/header-block (plain_text, at most 150 characters),
//     https://docs.slack.dev/reference/block-kit/blocks/section-block (text, 1 to 3000 characters),
//     https://docs.slack.dev/reference/block-kit/blocks/rich-text-block (rich_text_section, rich_text_preformatted; text, link),
//     https://docs.slack.dev/messaging/formatting-message-text (& < > are escaped in text).
//   - Feishu: https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot (at most 20 KB; timestamp in seconds; sign:
//     printf ” | openssl dgst -sha256 -hmac "$(printf '1795608000\ndemo-secret')" -binary | base64).
//   - DingTalk: https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages (at most 20,000 bytes) and
//     https://open.dingtalk.com/document/robots/customize-robot-security-settings (timestamp in milliseconds; sign:
//     printf '1795608000000\nSECdemo' | openssl dgst -sha256 -hmac SECdemo -binary | base64).
//   - WeCom: https://developer.work.weixin.qq.com/document/path/91770 (text.content of at most 2,048 bytes of UTF-8).
//   - A webhook: Body, and docs/reference/notification-events.md.
func TestRequests(t *testing.T) {
	texts := golden.New(t)
	secrets := map[core.ChannelKind]string{core.ChannelWebhook: "hook-secret", core.ChannelSlack: "", core.ChannelFeishu: "demo-secret",
		core.ChannelDingTalk: "SECdemo", core.ChannelWeCom: ""}
	each(t, func(t *testing.T, l core.Language, m Message, long bool) {
		for kind, secret := range secrets {
			ch, m := channel(kind, l), m
			switch kind {
			case core.ChannelWebhook:
				ch.URL = "https://Hooks.example.com/t?x=1"
			case core.ChannelSlack:
				m.Job = "a<!channel>b"
			}
			plain := form(t, sender(t), ch, m)
			ch.Secret = secret
			r := form(t, sender(t), ch, m)
			if long {
				checkSize(t, kind, r)
				continue
			}
			texts.Equal(t, fmt.Sprintf("%s %s", kind, l), shown(t, r))
			if secret != "" {
				texts.Equal(t, fmt.Sprintf("%s %s, not signed", kind, l), shown(t, plain))
			}
			// The code in examples/endpoint that verifies a call also verifies a webhook.
			if kind == core.ChannelWebhook {
				check.Equal(t, r.header.Get("Tickring-Signature"), send.Signature(secret, "POST", "hooks.example.com", "/t?x=1", r.header,
					string(r.body)))
			}
		}
	})
}

// shown formats a request.
func shown(t *testing.T, r request) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintln(&b, r.url)
	check.OK(t, r.header.Write(&b))
	check.OK(t, json.Indent(&b, r.body, "", " "))
	return strings.ReplaceAll(b.String(), "\r\n", "\n")
}

// checkSize checks the size of the request for an endless message.
func checkSize(t *testing.T, kind core.ChannelKind, r request) {
	t.Helper()
	var b struct {
		Text   json.RawMessage
		Blocks []struct {
			Text     struct{ Text string }
			Elements []struct{ Elements []struct{ Text string } }
		}
	}
	check.OK(t, json.Unmarshal(r.body, &b))
	most := map[core.ChannelKind]int{core.ChannelWebhook: 64 << 10, core.ChannelFeishu: 20_000, core.ChannelDingTalk: 20_000}[kind]
	switch kind {
	case core.ChannelSlack:
		head, text := utf8.RuneCountInString(b.Blocks[0].Text.Text), utf8.RuneCountInString(b.Blocks[1].Text.Text)
		if lines := b.Blocks[2].Elements[0].Elements[0].Text; head > 150 || text == 0 || text > 3000 || !strings.HasPrefix(lines, "…") ||
			!strings.HasSuffix(lines, "the last line") {
			t.Errorf("header of %d, text of %d, and %q", head, text, lines)
		}
	case core.ChannelWeCom:
		content := strict[struct{ Content string }](t, b.Text).Content
		if len(content) > 2048 || !strings.Contains(content, "reports/nightly") {
			t.Errorf("%d bytes: %s", len(content), content)
		}
	default:
		if len(r.body) > most {
			t.Errorf("%s: %d bytes", kind, len(r.body))
		}
	}
}

type topics struct{ subject, text string }

func (x *topics) Ready(_ context.Context) error { return nil }
func (x *topics) Publish(_ context.Context, _, subject, text string) error {
	x.subject, x.text = subject, text
	return nil
}

// TestTopic: a subject of SNS has less than 100 characters on one line, a message at most 256 KB:
// https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
func TestTopic(t *testing.T) {
	each(t, func(t *testing.T, l core.Language, m Message, _ bool) {
		var x topics
		s := New(Options{Topics: &x})
		m.Job = strings.Repeat("𝒳", 200) + "\r\nBcc: x"
		check.OK(t, s.Send(t.Context(), channel(core.ChannelSNS, l), m))
		if n := len(utf16.Encode([]rune(x.subject))); n == 0 || n >= 100 || strings.ContainsAny(x.subject, "\r\n") ||
			len(x.text) > 256<<10 || x.text == "" {
			t.Errorf("subject of %d, text of %d", n, len(x.text))
		}
	})
}

// TestEveryEvent: each event is written in each language with all that it is about.
func TestEveryEvent(t *testing.T) {
	for _, l := range words.Languages {
		for _, event := range append([]core.Event{"", core.EventMute}, core.Events...) {
			m := failed()
			m.Event = string(event)
			ch := channel(core.ChannelSlack, l)
			p := pageOf(&ch, &m, 4096)
			if text := p.text(); p.subject == "" || p.sentence == "" || strings.Contains(text, "{") ||
				event != "" && !strings.Contains(text, "reports/nightly") ||
				event != "" && !strings.Contains(text, m.Link) {
				t.Errorf("%s %s: %s", l, event, text)
			}
		}
	}
}

// TestHeaderWithLineBreaks: line breaks in a name start no header and no second line of a subject.
func TestHeaderWithLineBreaks(t *testing.T) {
	for _, kind := range core.ChannelKinds {
		ch := channel(kind, core.English)
		m := failed()
		m.Title, m.Job, m.Deployment = "a\r\nBcc: x@example.com", "b\r\nSubject: y", "c\nTo: z@example.com\u2028"
		p := pageOf(&ch, &m, 1024)
		if strings.ContainsAny(p.subject, "\r\n\u2028") {
			t.Errorf("%s: subject %q", kind, p.subject)
		}
	}
	m := failed()
	m.Job, m.ID = "b\r\nX-Evil: 1", "id\r\nX-Evil: 2"
	ch := channel(core.ChannelWebhook, core.English)
	ch.Secret = "s"
	err := sender(t).Send(t.Context(), ch, m)
	if u, ok := err.(*core.Undelivered); !ok || !strings.Contains(u.Reason, "invalid header") {
		t.Errorf("a header with a line break: %v", err)
	}
	msg, err := sender(t).letter(new(channel(core.ChannelEmail, core.English)), &m)
	check.OK(t, err)
	var b bytes.Buffer
	check.Call(t)(msg.WriteTo(&b))
	head, _, _ := strings.Cut(b.String(), "\r\n\r\n")
	for _, line := range strings.Split(head, "\r\n") {
		if strings.HasPrefix(line, "X-Evil") {
			t.Errorf("a header of its own: %s", head)
		}
	}
}

// TestTruncate: the result respects the limit, breaks no rune, and ends with an ellipsis if it is cut.
func TestTruncate(t *testing.T) {
	for _, text := range []string{"", "a", "abc", "ab…", "日本語テキスト", "a𝒳b𝒳", "\xff\xfe", strings.Repeat("é", 100)} {
		for most := range 20 {
			got := truncate(visible(text), most, byteLen)
			if len(got) > most || !utf8.ValidString(got) || got != visible(text) && most >= 3 && !strings.HasSuffix(got, "…") {
				t.Errorf("%q to %d: %q", text, most, got)
			}
			if end := last(text, most+4); len(end) > most+4 || !utf8.ValidString(end) {
				t.Errorf("the last %d of %q: %q", most+4, text, end)
			}
		}
	}
	check.Equal(t, visible("a\x1b[31mred\x1b[0m\tb\r\nc\u202ed"), "a[31mred[0m\tb\ncd")
}

// TestMailIsEscaped: no text of a job becomes markup of a mail, and no link runs a script.
func TestMailIsEscaped(t *testing.T) {
	m := failed()
	m.Text, m.Title, m.Lines = `<script>alert(1)</script>`, `"><img src=x>`, []string{"</pre><b>"}
	m.Link = `javascript:alert(1)`
	ch := channel(core.ChannelEmail, core.English)
	p := pageOf(&ch, &m, 4096)
	text := p.html("en")
	for _, bad := range []string{"<script", "<img", "<b>", "javascript:"} {
		if strings.Contains(text, bad) {
			t.Errorf("%s in %s", bad, text)
		}
	}
	m.Link = `https://sched.example.com/?a=1&b="2"`
	p = pageOf(&ch, &m, 4096)
	check.Contains(t, p.html("en"), `href="https://sched.example.com/?a=1&amp;b=&#34;2&#34;"`)
}

// TestOnce: a message does not repeat the last log lines, as the message of a command does.
func TestOnce(t *testing.T) {
	start, end := "2026-11-25T02:30:00.012Z ---- start: job 1", "2026-11-25T02:30:01.012Z ---- end: code 3, message: exit code 3"
	var many []string
	for i := range 100 {
		many = append(many, "line "+strconv.Itoa(i))
	}
	for name, c := range map[string]struct {
		text  string
		lines []string
		want  string
	}{
		"a command":             {"exit code 3\n---- log\n1\nboom", []string{start, "1", "boom", end}, "exit code 3"},
		"a command of one word": {"---- log\nboom", []string{start, "boom", end}, ""},
		"more than the lines":   {"exit code 3\n---- log\n" + strings.Join(many, "\n"), append(slices.Clone(many[81:]), end), "exit code 3"},
		"in colors":             {"exit code 3\n---- log\n\x1b[31mred", []string{start, "\ufffd[31mred", end}, "exit code 3"},
		"of a long line":        {"exit code 3\n---- log\nthe end", []string{"the beginning of the end", end}, "exit code 3"},
		"in place of a log":     {"exit code 3\n---- log\nstep 1\nboom", []string{"exit code 3", "---- log", "step 1", "boom"}, ""},
		"another log":           {"exit code 3\n---- log\n1\nboom", []string{"1", "2"}, "exit code 3\n---- log\n1\nboom"},
		"no log":                {"exit code 3\n---- log\n1\nboom", nil, "exit code 3\n---- log\n1\nboom"},
		"the last line":         {"division by zero", []string{"step 1", "division by zero"}, ""},
		"the end of a line":     {"zero", []string{"step 1", "division by zero"}, "zero"},
		"the end of the text":   {"it failed:\nstep 1\nstep 2", []string{"step 1", "step 2"}, "it failed:"},
		"something else":        {"it failed", []string{"step 1"}, "it failed"},
		"nothing":               {"", []string{"step 1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, besides(c.text, c.lines), c.want)
			m := failed()
			m.Text, m.Lines = c.text, c.lines
			for _, l := range words.Languages {
				ch := channel(core.ChannelWebhook, l)
				text := strict[Body](t, form(t, sender(t), ch, m).body).Text
				if len(c.lines) > 1 && c.want != c.text && strings.Count(text, c.lines[len(c.lines)-2]) != 1 {
					t.Errorf("not once:\n%s", text)
				}
			}
		})
	}
}

// TestSentenceNamesTheScheduledTime: the due time of a retry is later than its scheduled time.
func TestSentenceNamesTheScheduledTime(t *testing.T) {
	ch, m := channel(core.ChannelSlack, core.English), failed()
	golden.New(t).Equal(t, "sentence", pageOf(&ch, &m, 1000).sentence)
}
