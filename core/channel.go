package core

import (
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Channel is a destination of notifications. Its JSON is the stored form and, without secrets ([Channel.Shown]), the form in
// change records. The JSON is stable: fields are only added.
type Channel struct {
	Name     string      `json:"name"`
	Set      string      `json:"set,omitempty"` // name of the manifest that created the channel
	Language Language    `json:"language"`
	Kind     ChannelKind `json:"kind"`
	// URL is the address of an HTTP channel. It is a secret because it allows posting, except for a webhook.
	URL    string `json:"url,omitempty"`
	Secret string `json:"secret,omitempty"` // signs messages to a webhook, Feishu or DingTalk; may be empty
	Email  Email  `json:"email,omitzero"`
	ARN    string `json:"arn,omitempty"` // ARN of an SNS topic
	Rev    int64  `json:"rev"`
	// Tested is when a user last requested a test message.
	Tested  time.Time `json:"tested,omitzero"`
	Created time.Time `json:"created,omitzero"`
}

// ChannelKind is the service that delivers notifications.
type ChannelKind string

const (
	ChannelWebhook  ChannelKind = "webhook"
	ChannelSlack    ChannelKind = "slack"
	ChannelFeishu   ChannelKind = "feishu"
	ChannelDingTalk ChannelKind = "dingtalk"
	ChannelWeCom    ChannelKind = "wecom"
	ChannelEmail    ChannelKind = "email"
	ChannelSNS      ChannelKind = "sns"
)

var ChannelKinds = []ChannelKind{ChannelWebhook, ChannelSlack, ChannelFeishu, ChannelDingTalk, ChannelWeCom, ChannelEmail, ChannelSNS}

// HTTP reports whether messages are posted to Channel.URL.
func (k ChannelKind) HTTP() bool { return k != ChannelEmail && k != ChannelSNS }

// Language is the language of a channel's messages.
type Language string

const (
	English Language = "en"
	Chinese Language = "zh"
)

type Email struct {
	To   []string `json:"to"`
	From string   `json:"from"`
	SMTP SMTP     `json:"smtp"`
}

// SMTP is a mail server. An empty User means no login.
type SMTP struct {
	Host     string  `json:"host"`
	Port     int     `json:"port"`
	User     string  `json:"user,omitempty"`
	Password string  `json:"password,omitempty"`
	TLS      SMTPTLS `json:"tls"`
}

// SMTPTLS is the encryption of a connection to an SMTP server.
type SMTPTLS string

const (
	TLSStart    SMTPTLS = "starttls" // starts unencrypted, and switches to TLS right after the greeting
	TLSImplicit SMTPTLS = "implicit" // TLS from the first byte
	TLSNone     SMTPTLS = "none"     // for a relay without TLS; never with a password
)

var SMTPTLSs = []SMTPTLS{TLSStart, TLSImplicit, TLSNone}

const (
	MaxChannels   = 200
	MaxChannelURL = 2 << 10 // bytes
	MaxTo         = 50      // addresses of one mail
	MaxMail       = 320     // bytes of an address, with the name before it
	MaxHost       = 253     // bytes
)

// Normal returns c with defaults for empty fields.
func (c Channel) Normal() Channel {
	fill(&c.Language, English)
	if c.Kind == ChannelEmail {
		s := &c.Email.SMTP
		fill(&s.Port, 587)
		if s.Port == 465 { // RFC 8314: TLS from the first byte
			fill(&s.TLS, TLSImplicit)
		}
		fill(&s.TLS, TLSStart)
	}
	return c
}

// secrets returns the secrets of the channel with their field names.
func (c *Channel) secrets() []secretField {
	return []secretField{{string(c.Kind) + ".secret", &c.Secret}, {"email.smtp.password", &c.Email.SMTP.Password},
		{string(c.Kind) + ".url", &c.URL}}
}

// Shown returns c with AsStored instead of its secrets.
func (c Channel) Shown() Channel { return c.WithSecrets(asStored) }

// WithSecrets returns a copy of c with each secret replaced by turn's result for it.
func (c Channel) WithSecrets(turn func(secret string) string) Channel {
	turned(c.secrets(), turn)
	return c
}

func (c Channel) SecretsOf() string { return "channel/" + c.Name }

// Locked returns an error if a secret of the channel could not be decrypted, else nil.
func (c Channel) Locked() error {
	for _, s := range c.secrets() {
		if strings.HasPrefix(*s.text, LockedMark) {
			return Errorf(CodeRefused, "channel %s: %s cannot be decrypted: set a new value, or add the key that encrypted "+
				"the value to the key file",
				c.Name, s.field)
		}
	}
	return nil
}

// Kept returns c with each AsStored replaced by the secret in old. A secret for another destination is not kept, because a
// user who changes the destination must not send the secret there.
func (c Channel) Kept(old Channel) (Channel, error) {
	if c.Kind != old.Kind {
		old = Channel{}
	}
	keep := func(field string, secret *string, was string, there bool) error {
		switch {
		case *secret != AsStored:
		case was == "":
			return Invalid(field, AsStored, "the value stands for the stored secret, but no secret is stored: set the secret")
		case !there:
			return Invalid(field, AsStored, "the stored secret belongs to another address: set the secret again")
		default:
			*secret = was
		}
		return nil
	}
	if err := keep(string(c.Kind)+".url", &c.URL, old.URL, true); err != nil {
		return c, err
	}
	if err := keep(string(c.Kind)+".secret", &c.Secret, old.Secret, c.URL == old.URL); err != nil {
		return c, err
	}
	s, o := &c.Email.SMTP, old.Email.SMTP
	return c, keep("email.smtp.password", &s.Password, o.Password, s.Host == o.Host && s.Port == o.Port && s.TLS == o.TLS)
}

// Equal reports whether two channels are equal except for their revisions.
func (c Channel) Equal(o Channel) bool {
	return c.Name == o.Name && c.Set == o.Set && c.Language == o.Language && c.Kind == o.Kind && c.URL == o.URL && c.Secret == o.Secret &&
		c.ARN == o.ARN && slices.Equal(c.Email.To, o.Email.To) && c.Email.From == o.Email.From && c.Email.SMTP == o.Email.SMTP
}

// To returns the destination as text for users, without secrets.
func (c Channel) To() string {
	switch c.Kind {
	case ChannelEmail:
		return strings.Join(c.Email.To, ", ")
	case ChannelSNS:
		return c.ARN
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Host
}

func (c Channel) String() string { return marshal(c.Shown()) }

func CheckChannelName(field, name string) error { return CheckName(field, name) }

var topicARN = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]{1,32}:[0-9]{12}:[A-Za-z0-9_-]{1,256}$`)

// Validate returns an error with the field's path if a normal channel exceeds a bound.
func (c Channel) Validate() error {
	if err := CheckChannelName("name", c.Name); err != nil {
		return err
	}
	if err := CheckSet("set", c.Set); err != nil {
		return err
	}
	if err := oneOf("kind", c.Kind, ChannelKinds); err != nil {
		return err
	}
	for _, s := range c.secrets() {
		if err := hidden(s.field, *s.text, Say("a secret")); err != nil {
			return err
		}
	}
	switch c.Kind {
	case ChannelEmail:
		return c.Email.validate()
	case ChannelSNS:
		switch {
		case strings.HasSuffix(c.ARN, ".fifo"):
			return Invalid("sns.arn", c.ARN, "FIFO topics are not supported: create a standard topic")
		case !topicARN.MatchString(c.ARN):
			return Invalid("sns.arn", c.ARN, "expected the ARN of a topic: arn:aws:sns:REGION:ACCOUNT:NAME")
		}
		return nil
	}
	return c.validateURL()
}

func (c Channel) validateURL() error {
	if c.URL == AsStored {
		return nil
	}
	wrong := func(reason string, args ...any) error { return Invalid(string(c.Kind)+".url", "", reason, args...) } // the value is a secret
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		return wrong("required")
	case len(c.URL) > MaxChannelURL:
		return wrong("at most %d bytes are allowed", MaxChannelURL)
	case !printable(c.URL) || strings.ContainsAny(c.URL, " \\"):
		return wrong("the URL has a space, a backslash, or a character that is not printable ASCII")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return wrong("expected a URL such as https://hooks.example.com/tickring")
	case u.User != nil:
		return wrong("the URL has a user name or password, which is not sent")
	case u.Fragment != "":
		return wrong("the URL has a fragment, which is not sent")
	case c.Kind != ChannelWebhook && u.Scheme != "https":
		return wrong("https is required, because the URL is a secret")
	}
	return nil
}

func (e *Email) validate() error {
	if len(e.To) == 0 || len(e.To) > MaxTo {
		return Invalid("email.to", strconv.Itoa(len(e.To))+" addresses", "1 to %d are allowed", MaxTo)
	}
	for i, to := range e.To {
		field := fmt.Sprintf("email.to[%d]", i)
		if err := checkMail(field, to); err != nil {
			return err
		}
		if slices.Index(e.To, to) != i {
			return Invalid(field, to, "named twice")
		}
	}
	if err := checkMail("email.from", e.From); err != nil {
		return err
	}
	s := &e.SMTP
	if !hostname(s.Host) {
		return Invalid("email.smtp.host", s.Host, "expected the name or IP address of a server, such as mail.example.com")
	}
	if s.Port < 1 || s.Port > 65535 {
		return Invalid("email.smtp.port", strconv.Itoa(s.Port), "allowed values: 1 to 65535")
	}
	if err := oneOf("email.smtp.tls", s.TLS, SMTPTLSs); err != nil {
		return err
	}
	if err := text("email.smtp.user", s.User, MaxTitle); err != nil {
		return err
	}
	switch {
	case (s.User == "") != (s.Password == ""):
		return Invalid("email.smtp.user", s.User, "set both user and password, or neither")
	case s.Password != "" && s.TLS == TLSNone:
		return Invalid("email.smtp.tls", string(s.TLS),
			"passwords are never sent unencrypted: remove the password, or set `tls` to `starttls` or `implicit`")
	}
	return nil
}

// checkMail returns an error unless address is a mail address that fits one header line.
func checkMail(field, address string) error {
	a, err := mail.ParseAddress(address)
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if err != nil || len(address) > MaxMail || !utf8.ValidString(address) || strings.ContainsFunc(address+a.Name, control) ||
		!printable(a.Address) || strings.Contains(a.Address, " ") {
		return Invalid(field, address, "expected an email address such as ops@example.com, with at most %d bytes", MaxMail)
	}
	return nil
}

var hostLabel = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)

// hostname reports whether text is a DNS host name or an IP address.
func hostname(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	if text == "" || len(text) > MaxHost {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(text, "."), ".") {
		if !hostLabel.MatchString(label) {
			return false
		}
	}
	return true
}

// Message is the content of one notification for a channel, in the channel's language. Each text fits the bounds of
// the service.
type Message struct {
	// ID identifies the notification: 1 to 128 printable ASCII characters without space. A repeated message has an
	// equal ID, so that receivers can detect duplicates.
	ID    string
	Event string // one of Events, or EventMute; empty for a channel test
	App   string
	Job   string // name in the app; empty: no job
	Title string
	Run   RunID // 0: no run
	// Instant and Due are from the run, if there is one. For EventOverdue, Due is when the job had to succeed. Zone is the
	// time zone of all times in the text; empty is UTC.
	Instant, Due Instant
	Zone         string
	State        State
	Reason       Reason
	Code         int    // exit code from the result
	Text         string // text of the result or, without a result, the reason, such as a planning error
	Lines        []string
	Muted        string    // for EventMute: the channel that rejected a notification; Text has its error
	At           time.Time // time of the event
	// Took is the delay, the running time, or the time without a success, by event.
	Took time.Duration
	// Times counts attempts, earlier failures, skipped times or runs of a dead-letter message, by event. If Count is more
	// than 1, Times is from the last cause. 0 means 1.
	Times int
	// Count is how many notifications with one cause this one represents, including itself, since Since; 0 means 1.
	Count      int
	Since      time.Time
	Link       string // link for details; empty: none
	Deployment string // name of the sending deployment; empty: not shown
}

// Undelivered explains why a message did not, or may not, have reached a channel.
type Undelivered struct {
	Permanent bool          // a retry would fail too
	After     time.Duration // earliest retry; 0: the sender decides
	Reason    string        // the problem and its place, for users, without secrets
	Err       error         // error for the log; may be nil
}

func (u *Undelivered) Error() string { return u.Reason }
func (u *Undelivered) Unwrap() error { return u.Err }
