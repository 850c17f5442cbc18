package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// The forms of the chat services, as their documentation has them. All texts go where the
// service reads no markup, so that no text of a job can call people by name, or show a link
// as another.

// Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks and
// https://docs.slack.dev/reference/block-kit/blocks (header: 150 characters, a section: 3,000).
type (
	slackBody struct {
		Text   string `json:"text"` // of the notification; read as markup
		Blocks []any  `json:"blocks"`
	}
	slackText struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Emoji *bool  `json:"emoji,omitempty"`
	}
	slackBlock struct {
		Type string    `json:"type"`
		Text slackText `json:"text"`
	}
	slackRich struct {
		Type     string         `json:"type"`
		Elements []slackElement `json:"elements"`
	}
	slackElement struct {
		Type     string      `json:"type"`
		Elements []slackPart `json:"elements"`
	}
	slackPart struct {
		Type string `json:"type"`
		Text string `json:"text,omitempty"`
		URL  string `json:"url,omitempty"`
	}
)

// Slack's bounds, in characters.
const (
	maxSlackHeader = 150
	maxSlackText   = 3000
)

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func runeLen(rune) int { return 1 }

func slack(_ *Sender, ch *core.Channel, m *Message) (request, error) {
	no := false
	b, err := fit(ch, m, func(p page) slackBody {
		link, lines := p.link, p.lines
		p.link, p.lines = "", ""
		b := slackBody{Text: slackEscapes.Replace(p.subject), Blocks: []any{
			slackBlock{"header", slackText{"plain_text", truncate(p.subject, maxSlackHeader, runeLen), &no}},
			slackBlock{"section", slackText{"plain_text", p.body(), &no}},
		}}
		if lines != "" {
			b.Blocks = append(b.Blocks, slackRich{"rich_text", []slackElement{{"rich_text_preformatted", []slackPart{{Type: "text", Text: lines}}}}})
		}
		if link != "" {
			part := slackPart{Type: "link", Text: p.open, URL: link}
			b.Blocks = append(b.Blocks, slackRich{"rich_text", []slackElement{{"rich_text_section", []slackPart{part}}}})
		}
		return b
	}, func(b slackBody) bool {
		for _, block := range b.Blocks {
			switch block := block.(type) {
			case slackBlock:
				if runes(block.Text.Text) > maxSlackText {
					return false
				}
			case slackRich:
				if runes(block.Elements[0].Elements[0].Text) > maxSlackText {
					return false
				}
			}
		}
		return true
	})
	return request{url: ch.URL, body: encode(b)}, err
}

func runes(text string) int { return len([]rune(text)) }

// judgeSlack returns nil if Slack answered "ok", which means that it accepted the message.
func judgeSlack(body []byte) error {
	if said := strings.TrimSpace(string(body)); said != "ok" {
		return permanent(`answered %q instead of "ok": is this the URL of an incoming webhook?`, line(said, maxWord))
	}
	return nil
}

// Feishu: https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot (a request: 20 KB).
type (
	feishuBody struct {
		Timestamp string        `json:"timestamp,omitempty"` // seconds
		Sign      string        `json:"sign,omitempty"`
		MsgType   string        `json:"msg_type"`
		Content   feishuContent `json:"content"`
	}
	feishuContent struct {
		Post map[string]feishuPost `json:"post"`
	}
	feishuPost struct {
		Title   string         `json:"title"`
		Content [][]feishuPart `json:"content"`
	}
	feishuPart struct {
		Tag  string `json:"tag"`
		Text string `json:"text"`
		Href string `json:"href,omitempty"`
	}
)

const maxFeishu = 20_000 // bytes of a request

func feishu(s *Sender, ch *core.Channel, m *Message) (request, error) {
	locale := "en_us"
	if ch.Language == core.Chinese {
		locale = "zh_cn"
	}
	body, err := fit(ch, m, func(p page) []byte {
		link := p.link
		p.link = ""
		post := feishuPost{Title: p.subject, Content: [][]feishuPart{{{Tag: "text", Text: p.body()}}}}
		if link != "" {
			post.Content = append(post.Content, []feishuPart{{Tag: "a", Text: p.open, Href: link}})
		}
		b := feishuBody{MsgType: "post", Content: feishuContent{map[string]feishuPost{locale: post}}}
		if ch.Secret != "" {
			b.Timestamp = strconv.FormatInt(s.o.Now().Unix(), 10)
			b.Sign = feishuSign(b.Timestamp, ch.Secret)
		}
		return encode(b)
	}, func(b []byte) bool { return len(b) <= maxFeishu })
	return request{url: ch.URL, body: body}, err
}

// feishuSign is the HMAC-SHA256 of nothing, keyed with the time and the secret.
func feishuSign(timestamp, secret string) string { return sign(timestamp+"\n"+secret, "") }

// feishuSays are answers of Feishu that another try would have again, in words.
var feishuSays = map[int]string{
	9499:  "the service rejected the format of the message",
	19001: "unknown bot: the URL is wrong, or the bot was removed",
	19021: "wrong signature: check the bot's secret and the clock of this machine",
	19022: "the bot rejects this IP address",
	19024: "the bot accepts only messages with its keywords: set it to check the signature instead, or add the keyword tickring",
}

// feishuBusy are the codes for too many requests.
var feishuBusy = map[int]time.Duration{11232: time.Minute, 99991400: time.Minute}

func judgeFeishu(body []byte) error {
	var a struct {
		Code *int   `json:"code"`
		Msg  string `json:"msg"`
		// StatusCode is in the answers of earlier versions.
		StatusCode    *int
		StatusMessage string
	}
	if err := json.Unmarshal(body, &a); err != nil || a.Code == nil && a.StatusCode == nil {
		return noAnswer(body)
	}
	if a.Code == nil {
		a.Code, a.Msg = a.StatusCode, a.StatusMessage
	}
	return judgeCode(*a.Code, a.Msg, feishuSays, feishuBusy)
}

// DingTalk: https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages (a
// message: 20,000 bytes; 20 a minute).
type (
	dingTalkBody struct {
		MsgType string       `json:"msgtype"`
		Text    dingTalkText `json:"text"`
	}
	dingTalkText struct {
		Content string `json:"content"`
	}
)

const maxDingTalk = 20_000 // bytes of a request

func dingTalk(s *Sender, ch *core.Channel, m *Message) (request, error) {
	to := ch.URL
	if ch.Secret != "" {
		u, err := url.Parse(to)
		if err != nil {
			return request{}, permanent("the URL of channel %s cannot be read", ch.Name)
		}
		timestamp := strconv.FormatInt(s.o.Now().UnixMilli(), 10)
		query := url.Values{"timestamp": {timestamp}, "sign": {sign(ch.Secret, timestamp+"\n"+ch.Secret)}}.Encode()
		if u.RawQuery != "" {
			query = u.RawQuery + "&" + query
		}
		u.RawQuery = query
		to = u.String()
	}
	body, err := fit(ch, m, func(p page) []byte { return encode(dingTalkBody{"text", dingTalkText{p.text()}}) },
		func(b []byte) bool { return len(b) <= maxDingTalk })
	return request{url: to, body: body}, err
}

// sign is a base64 HMAC-SHA256.
func sign(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

var dingTalkSays = map[int]string{
	40035:  "the service rejected the format of the message",
	300005: "unknown robot: the URL is wrong, or the robot was removed",
	310000: "rejected by the robot's security settings: check its signature secret, its keywords and its allowed IP addresses",
	400013: "the group was dissolved",
	400101: "the URL has no access_token",
	400102: "the robot was switched off",
	400105: "the service rejected the format of the message",
	400106: "unknown robot: the URL is wrong, or the robot was removed",
}

// dingTalkBusy are the codes for more than 20 messages in a minute; the sender must wait ten.
var dingTalkBusy = map[int]time.Duration{130101: 10 * time.Minute, 410100: 10 * time.Minute}

func judgeDingTalk(body []byte) error { return judgeErrCode(body, dingTalkSays, dingTalkBusy) }

// WeCom: https://developer.work.weixin.qq.com/document/path/91770 (a text: 2,048 bytes; 20 a minute).
type (
	weComBody struct {
		MsgType string    `json:"msgtype"`
		Text    weComText `json:"text"`
	}
	weComText struct {
		Content string `json:"content"`
	}
)

const maxWeCom = 2048 // bytes of a text

func weCom(_ *Sender, ch *core.Channel, m *Message) (request, error) {
	b, err := fit(ch, m, func(p page) weComBody { return weComBody{"text", weComText{p.text()}} },
		func(b weComBody) bool { return len(b.Text.Content) <= maxWeCom })
	return request{url: ch.URL, body: encode(b)}, err
}

var weComSays = map[int]string{
	40008: "the service rejected the format of the message",
	40058: "the service rejected the format of the message",
	93000: "unknown robot: the URL is wrong, or the robot was removed",
	93008: "the robot was removed from the group",
}

var weComBusy = map[int]time.Duration{45009: time.Minute, 45033: time.Minute}

func judgeWeCom(body []byte) error { return judgeErrCode(body, weComSays, weComBusy) }

func judgeErrCode(body []byte, says map[int]string, busy map[int]time.Duration) error {
	var a struct {
		ErrCode *int   `json:"errcode"`
		ErrMsg  string `json:"errmsg"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.ErrCode == nil {
		return noAnswer(body)
	}
	return judgeCode(*a.ErrCode, a.ErrMsg, says, busy)
}

// judgeCode converts the code of an answer to an error; unknown codes are retried.
func judgeCode(code int, msg string, says map[int]string, busy map[int]time.Duration) error {
	if code == 0 {
		return nil
	}
	u := &core.Undelivered{Reason: "answered " + strconv.Itoa(code) + ": " + line(msg, maxWord), After: busy[code]}
	if text, known := says[code]; known {
		u.Permanent, u.Reason = true, u.Reason+": "+text
	}
	return u
}

// noAnswer is of a status of success with a body that is not the service's.
func noAnswer(body []byte) error {
	return permanent("answered %q, which is not an answer of the service: is this the URL of a robot?",
		line(clean(string(body), 4*maxWord), maxWord))
}
