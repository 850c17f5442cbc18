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
	"unicode/utf8"

	"github.com/tickring/tickring/core"
)

// object is a JSON object of a message, in the form that the documentation of a chat service describes. All texts go where
// the service reads no markup, so that no text of a job can call people by name, or show a link as another.
type object = map[string]any

// Slack's bounds, in characters.
const (
	maxSlackHeader = 150
	maxSlackText   = 3000
)

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks and
// https://docs.slack.dev/reference/block-kit/blocks (header: 150 characters, a section: 3,000).
func slack(_ *Sender, ch *core.Channel, m *Message) (request, error) {
	plain := func(kind, text string) object {
		return object{"type": kind, "text": object{"type": "plain_text", "text": text, "emoji": false}}
	}
	rich := func(kind string, part object) object {
		return object{"type": "rich_text", "elements": []object{{"type": kind, "elements": []object{part}}}}
	}
	body, err := fit(ch, m, func(p page) ([]byte, bool) {
		link, lines := p.link, p.lines
		p.link, p.lines = "", ""
		text := p.body()
		blocks := []object{plain("header", truncate(p.subject, maxSlackHeader, runeLen)), plain("section", text)}
		if lines != "" {
			blocks = append(blocks, rich("rich_text_preformatted", object{"type": "text", "text": lines}))
		}
		if link != "" {
			blocks = append(blocks, rich("rich_text_section", object{"type": "link", "text": p.open, "url": link}))
		}
		longest := max(utf8.RuneCountInString(text), utf8.RuneCountInString(lines))
		// Slack reads the text of the notification as markup.
		return encode(object{"text": slackEscapes.Replace(p.subject), "blocks": blocks}), longest <= maxSlackText
	})
	return request{url: ch.URL, body: body}, err
}

func runeLen(rune) int { return 1 }

// judgeSlack returns nil if Slack answered "ok", which means that it accepted the message.
func judgeSlack(body []byte) error {
	if said := strings.TrimSpace(string(body)); said != "ok" {
		return permanent(`answered %q instead of "ok": is this the URL of an incoming webhook?`, line(said, maxWord))
	}
	return nil
}

const maxFeishu = 20_000 // bytes of a request

// feishu: https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot (a request: 20 KB).
func feishu(s *Sender, ch *core.Channel, m *Message) (request, error) {
	locale := "en_us"
	if ch.Language == core.Chinese {
		locale = "zh_cn"
	}
	body, err := fit(ch, m, func(p page) ([]byte, bool) {
		link := p.link
		p.link = ""
		content := [][]object{{{"tag": "text", "text": p.body()}}}
		if link != "" {
			content = append(content, []object{{"tag": "a", "text": p.open, "href": link}})
		}
		o := object{"msg_type": "post", "content": object{"post": object{locale: object{"title": p.subject, "content": content}}}}
		if ch.Secret != "" {
			timestamp := strconv.FormatInt(s.o.Now().Unix(), 10)
			o["timestamp"], o["sign"] = timestamp, sign(timestamp+"\n"+ch.Secret, "") // of nothing, keyed with both
		}
		b := encode(o)
		return b, len(b) <= maxFeishu
	})
	return request{url: ch.URL, body: body}, err
}

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

// textMessage is the body of a message to DingTalk or WeCom.
func textMessage(text string) []byte {
	return encode(object{"msgtype": "text", "text": object{"content": text}})
}

const maxDingTalk = 20_000 // bytes of a request

// dingTalk: https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages (a message: 20,000 bytes; 20 a minute).
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
	body, err := fit(ch, m, func(p page) ([]byte, bool) {
		b := textMessage(p.text())
		return b, len(b) <= maxDingTalk
	})
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

const maxWeCom = 2048 // bytes of a text

// weCom: https://developer.work.weixin.qq.com/document/path/91770 (a text: 2,048 bytes; 20 a minute).
func weCom(_ *Sender, ch *core.Channel, m *Message) (request, error) {
	body, err := fit(ch, m, func(p page) ([]byte, bool) { return textMessage(p.text()), len(p.text()) <= maxWeCom })
	return request{url: ch.URL, body: body}, err
}

var weComSays = map[int]string{
	40008: "the service rejected the format of the message",
	40058: "the service rejected the format of the message",
	93000: "unknown robot: the URL is wrong, or the robot was removed",
	93008: "the robot was removed from the group",
}

var weComBusy = map[int]time.Duration{45009: time.Minute, 45033: time.Minute}

// judgeErrCode returns a function that judges the answers of DingTalk and WeCom, by the meanings of their codes.
func judgeErrCode(says map[int]string, busy map[int]time.Duration) func(body []byte) error {
	return func(body []byte) error {
		var a struct {
			ErrCode *int   `json:"errcode"`
			ErrMsg  string `json:"errmsg"`
		}
		if err := json.Unmarshal(body, &a); err != nil || a.ErrCode == nil {
			return noAnswer(body)
		}
		return judgeCode(*a.ErrCode, a.ErrMsg, says, busy)
	}
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
