package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
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

// TestSlack compares a message for Slack with its documentation:
// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks (text, blocks),
// https://docs.slack.dev/reference/block-kit/blocks/header-block (plain_text, at most 150 characters),
// https://docs.slack.dev/reference/block-kit/blocks/section-block (text, 1 to 3000 characters),
// https://docs.slack.dev/reference/block-kit/blocks/rich-text-block (rich_text_section, rich_text_preformatted; text, link),
// https://docs.slack.dev/messaging/formatting-message-text (& < > are escaped in text).
func TestSlack(t *testing.T) {
	type part struct {
		Type string `json:"type"`
		Text string `json:"text"`
		URL  string `json:"url"`
	}
	type block struct {
		Type string `json:"type"`
		Text *struct {
			Type  string `json:"type"`
			Text  string `json:"text"`
			Emoji *bool  `json:"emoji"`
		} `json:"text"`
		Elements []struct {
			Type     string `json:"type"`
			Elements []part `json:"elements"`
		} `json:"elements"`
	}
	each(t, func(t *testing.T, l core.Language, m Message, long bool) {
		m.Job = "a<!channel>b"
		b := strict[struct {
			Text   string  `json:"text"`
			Blocks []block `json:"blocks"`
		}](t, form(t, sender(t), channel(core.ChannelSlack, l), m).body)
		if b.Text == "" || strings.ContainsAny(b.Text, "<>") || !strings.Contains(b.Text, "&lt;!channel&gt;") {
			t.Errorf("markup in %q", b.Text)
		}
		var kinds []string
		for _, x := range b.Blocks {
			kinds = append(kinds, x.Type)
			switch x.Type {
			case "header", "section":
				most := map[string]int{"header": 150, "section": 3000}[x.Type]
				if n := utf8.RuneCountInString(x.Text.Text); x.Text.Type != "plain_text" || n == 0 || n > most || x.Elements != nil {
					t.Errorf("%s: %d characters of %s", x.Type, n, x.Text.Type)
				}
			case "rich_text":
				e := x.Elements[0]
				if p := e.Elements[0]; e.Type == "rich_text_preformatted" && (p.Type != "text" || p.Text == "") ||
					e.Type == "rich_text_section" && (p.Type != "link" || p.URL == "") || len(x.Elements) != 1 || x.Text != nil {
					t.Errorf("%+v", x)
				}
			}
		}
		if want := []string{"header", "section", "rich_text", "rich_text"}; !slices.Equal(kinds, want) {
			t.Errorf("blocks %v, want %v", kinds, want)
		}
		if lines := b.Blocks[2].Elements[0].Elements[0].Text; long != strings.HasPrefix(lines, "…") ||
			long && !strings.HasSuffix(lines, "the last line") ||
			!long && lines != "step 1\nstep 2 & <b>3</b>" {
			t.Errorf("lines %q", lines)
		}
	})
}

// TestFeishu compares a message for Feishu with https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot: msg_type post,
// content.post by language, title, content as lines of parts (tag text or a); timestamp in seconds and sign, the base64 HMAC-SHA256
// of an empty text with the key timestamp, line feed, secret; a request has at most 20 KB.
func TestFeishu(t *testing.T) {
	type part struct {
		Tag  string `json:"tag"`
		Text string `json:"text"`
		Href string `json:"href"`
	}
	each(t, func(t *testing.T, l core.Language, m Message, _ bool) {
		ch := channel(core.ChannelFeishu, l)
		ch.Secret = "demo-secret"
		r := form(t, sender(t), ch, m)
		if len(r.body) > 20_000 || r.url != ch.URL {
			t.Errorf("%d bytes to %s", len(r.body), r.url)
		}
		b := strict[struct {
			Timestamp string `json:"timestamp"`
			Sign      string `json:"sign"`
			MsgType   string `json:"msg_type"`
			Content   struct {
				Post map[string]struct {
					Title   string   `json:"title"`
					Content [][]part `json:"content"`
				} `json:"post"`
			} `json:"content"`
		}](t, r.body)
		// printf '' | openssl dgst -sha256 -hmac "$(printf '1795608000\ndemo-secret')" -binary | base64
		if b.Timestamp != "1795608000" || b.Sign != "eHJhH7ksRy7OgevH6gTwUBVflm35tc6jAsnR0bf9RjE=" {
			t.Errorf("time %s, sign %s", b.Timestamp, b.Sign)
		}
		post, ok := b.Content.Post[map[core.Language]string{core.English: "en_us", core.Chinese: "zh_cn"}[l]]
		if b.MsgType != "post" || !ok || post.Title == "" || len(b.Content.Post) != 1 || len(post.Content) != 2 {
			t.Fatalf("%+v", b)
		}
		text, a := post.Content[0][0], post.Content[1][0]
		if text.Tag != "text" || text.Text == "" || a.Tag != "a" || a.Href == "" || a.Text == "" {
			t.Errorf("%+v, %+v", text, a)
		}
		if ch.Secret = ""; bytes.Contains(form(t, sender(t), ch, m).body, []byte(`"sign"`)) {
			t.Error("signed without a secret")
		}
	})
}

// TestDingTalk compares a message for DingTalk with https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages
// (msgtype text, text.content; at most 20,000 bytes) and
// https://open.dingtalk.com/document/robots/customize-robot-security-settings (timestamp in milliseconds and sign, the base64
// HMAC-SHA256 of timestamp, line feed, secret with the key secret, in the query).
func TestDingTalk(t *testing.T) {
	each(t, func(t *testing.T, l core.Language, m Message, _ bool) {
		ch := channel(core.ChannelDingTalk, l)
		ch.Secret = "SECdemo"
		r := form(t, sender(t), ch, m)
		b := strict[struct {
			MsgType string `json:"msgtype"`
			Text    struct {
				Content string `json:"content"`
			} `json:"text"`
		}](t, r.body)
		if b.MsgType != "text" || b.Text.Content == "" || len(r.body) > 20_000 {
			t.Errorf("%d bytes, %s", len(r.body), b.MsgType)
		}
		u, err := url.Parse(r.url)
		check.OK(t, err)
		// printf '1795608000000\nSECdemo' | openssl dgst -sha256 -hmac SECdemo -binary | base64
		want := url.Values{"access_token": {"0123456789abcdef"}, "timestamp": {"1795608000000"},
			"sign": {"syy32IPJ1F7ScJ7ECosbH4eJFcahqxhC90/x2RpIJXk="}}
		if got := u.Query(); got.Encode() != want.Encode() {
			t.Errorf("query %v, want %v", got, want)
		}
		if ch.Secret = ""; form(t, sender(t), ch, m).url != ch.URL {
			t.Error("signed without a secret")
		}
	})
}

// TestWeCom compares a message for WeCom with https://developer.work.weixin.qq.com/document/path/91770: msgtype text, text.content
// of at most 2,048 bytes of UTF-8.
func TestWeCom(t *testing.T) {
	each(t, func(t *testing.T, l core.Language, m Message, long bool) {
		b := strict[struct {
			MsgType string `json:"msgtype"`
			Text    struct {
				Content string `json:"content"`
			} `json:"text"`
		}](t, form(t, sender(t), channel(core.ChannelWeCom, l), m).body)
		if n := len(b.Text.Content); b.MsgType != "text" || n == 0 || n > 2048 {
			t.Errorf("%d bytes, %s", n, b.MsgType)
		}
		if long && !strings.Contains(b.Text.Content, "reports/nightly") {
			t.Errorf("the subject was left out: %s", b.Text.Content)
		}
	})
}

// TestWebhook checks a webhook's body against its schema, which is Body and in docs/reference/notification-events.md.
func TestWebhook(t *testing.T) {
	each(t, func(t *testing.T, l core.Language, m Message, long bool) {
		ch := channel(core.ChannelWebhook, l)
		ch.URL, ch.Secret = "https://Hooks.example.com/t?x=1", "hook-secret"
		r := form(t, sender(t), ch, m)
		b := strict[Body](t, r.body)
		if len(r.body) > 64<<10 || b.Version != 1 || b.ID != m.ID || b.Event != "failed" || b.Language != string(l) || b.Count != 4 ||
			b.Run.ID != "17179869185" || b.Run.State != "failed" || b.Run.Reason != "handler" || b.Run.Code != 500 || b.Job.App != "reports" ||
			b.Job.Name != "nightly" || b.Deployment != "finance-prod" || !b.Run.ScheduledAt.Equal(time.Unix(1_790_000_000, 0)) {
			t.Errorf("%d bytes: %+v, %+v", len(r.body), b, b.Run)
		}
		if !long && (b.Run.Message != m.Text || b.Run.Log != "step 1\nstep 2 & <b>3</b>") {
			t.Errorf("%+v", b.Run)
		}
		if r.header.Get("Tickring-Event") != "failed" || r.header.Get("Tickring-Notice") != m.ID ||
			r.header.Get("Tickring-Time") != "2026-11-25T12:00:00Z" {
			t.Errorf("%v", r.header)
		}
		// The code in examples/endpoint that verifies a call also verifies a webhook.
		if got, want := r.header.Get("Tickring-Signature"), send.Signature("hook-secret", "POST", "hooks.example.com", "/t?x=1", r.header,
			string(r.body)); got != want || !strings.HasPrefix(got, "v2=") {
			t.Errorf("signature %s, want %s", got, want)
		}
		if ch.Secret = ""; form(t, sender(t), ch, m).header.Get("Tickring-Signature") != "" {
			t.Error("signed without a secret")
		}
	})
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
