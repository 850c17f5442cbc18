package core

import (
	"cmp"
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

// Channel is a destination of notifications. The store keeps a channel as this JSON, and change records contain the
// JSON without secrets ([Channel.Shown]). The JSON is stable: new versions only add fields.
type Channel struct {
	Name     string      `json:"name"`
	Set      string      `json:"set,omitempty"` // name of the manifest that created the channel
	Language Language    `json:"language"`
	Kind     ChannelKind `json:"kind"`
	// URL is the address to which an HTTP channel posts. URL is hidden as a secret, because anyone with the URL of a
	// chat can post there.
	URL    string `json:"url,omitempty"`
	Secret string `json:"secret,omitempty"` // key that signs messages to a webhook, Feishu or DingTalk; empty: unsigned
	Email  Email  `json:"email,omitzero"`
	ARN    string `json:"arn,omitempty"` // ARN of an SNS topic
	Rev    int64  `json:"rev"`
	// Tested is when a user last requested a test message; zero: never.
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

// HTTP reports whether tickring posts messages of this kind to Channel.URL.
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

// SMTP has the settings of a mail server. If User is empty, tickring does not log in.
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
	TLSStart    SMTPTLS = "starttls" // the connection starts unencrypted and switches to TLS before the login
	TLSImplicit SMTPTLS = "implicit" // the connection uses TLS from the first byte
	TLSNone     SMTPTLS = "none"     // for a mail server without TLS; not allowed with a password
)

var SMTPTLSs = []SMTPTLS{TLSStart, TLSImplicit, TLSNone}

const (
	MaxChannels   = 200
	MaxChannelURL = 2 << 10 // bytes
	MaxTo         = 50      // receivers of one email
	MaxMail       = 320     // bytes of an email address, including the display name
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

// Shown returns a copy of c in which AsStored replaces each secret.
func (c Channel) Shown() Channel { return c.WithSecrets(asStored) }

// WithSecrets returns a copy of c in which each secret that is set is replaced by turn(secret).
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

// Kept returns c in which the stored secrets of the channel `old` replace the AsStored values. If the destination has
// changed, Kept returns an error, because tickring must not send a stored secret to a new destination.
func (c Channel) Kept(old Channel) (Channel, error) {
	if c.Kind != old.Kind {
		old = Channel{}
	}
	keep := func(field string, secret *string, was string, there bool) error {
		switch {
		case *secret != AsStored:
		case was == "":
			return notStored(field)
		case !there:
			return Invalid(field, AsStored, "the stored secret belongs to another address: set the secret again")
		default:
			*secret = was
		}
		return nil
	}
	s, o := &c.Email.SMTP, old.Email.SMTP
	sameURL := c.URL == old.URL || c.URL == AsStored
	err := cmp.Or(
		keep(string(c.Kind)+".url", &c.URL, old.URL, true),
		keep(string(c.Kind)+".secret", &c.Secret, old.Secret, sameURL),
		keep("email.smtp.password", &s.Password, o.Password, s.Host == o.Host && s.Port == o.Port && s.TLS == o.TLS),
	)
	return c, err
}

// Equal reports whether two channels are equal, ignoring Rev, Tested and Created.
func (c Channel) Equal(o Channel) bool {
	return c.Name == o.Name && c.Set == o.Set && c.Language == o.Language && c.Kind == o.Kind && c.URL == o.URL && c.Secret == o.Secret &&
		c.ARN == o.ARN && slices.Equal(c.Email.To, o.Email.To) && c.Email.From == o.Email.From && c.Email.SMTP == o.Email.SMTP
}

// To returns the destination as text for users, without secrets: the email addresses, the ARN, or the host of the
// URL.
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

var topicARN = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]{1,32}:[0-9]{12}:[A-Za-z0-9_-]+$`)

// Validate returns an error with the path of a field if the field has an invalid value. The channel must come from
// Normal.
func (c Channel) Validate() error {
	if err := cmp.Or(CheckChannelName("name", c.Name), CheckSet("set", c.Set), oneOf("kind", c.Kind, ChannelKinds)); err != nil {
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
		case len(c.ARN[strings.LastIndexByte(c.ARN, ':')+1:]) > 256 || !topicARN.MatchString(c.ARN):
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
		if err := cmp.Or(checkMail(field, to), when(slices.Index(e.To, to) != i, Invalid(field, to, "named twice"))); err != nil {
			return err
		}
	}
	s := &e.SMTP
	return cmp.Or(
		checkMail("email.from", e.From),
		when(!hostname(s.Host),
			Invalid("email.smtp.host", s.Host, "expected the name or IP address of a server, such as mail.example.com")),
		when(s.Port < 1 || s.Port > 65535, Invalid("email.smtp.port", strconv.Itoa(s.Port), "allowed values: 1 to 65535")),
		oneOf("email.smtp.tls", s.TLS, SMTPTLSs),
		text("email.smtp.user", s.User, MaxTitle),
		when((s.User == "") != (s.Password == ""), Invalid("email.smtp.user", s.User, "set both user and password, or neither")),
		when(s.Password != "" && s.TLS == TLSNone, Invalid("email.smtp.tls", string(s.TLS),
			"passwords are never sent unencrypted: remove the password, or set `tls` to `starttls` or `implicit`")),
	)
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

var hostLabel = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$`)

// hostname reports whether text is a DNS host name or an IP address.
func hostname(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	if text == "" || len(text) > MaxHost {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(text, "."), ".") {
		if len(label) > 63 || !hostLabel.MatchString(label) {
			return false
		}
	}
	return true
}

// Message is the content of one notification to one channel.
type Message struct {
	// ID identifies the notification: 1 to 128 printable ASCII characters without spaces. If tickring sends the
	// message again, the ID is the same, so that receivers can detect duplicates.
	ID    string
	Event string // one of Events, or EventMute; empty for a channel test
	App   string
	Job   string // name of the job without its app; empty: no job
	Title string
	Run   RunID // 0: no run
	// Instant and Due are the scheduled time and the due time of the run. For EventOverdue, Due is when the job
	// should have succeeded. Zone is the time zone for all times in the message text; empty means UTC.
	Instant, Due Instant
	Zone         string
	State        State
	Reason       Reason
	Code         int    // exit code of the run
	Text         string // text of the run's result; without a result, the reason for the event, such as a planning error
	Lines        []string
	Muted        string    // for EventMute: name of the channel that rejected a notification; Text has the error
	At           time.Time // time of the event
	// Took is the delay for EventLate, the running time for EventSlow, and the time since the last success for
	// EventOverdue.
	Took time.Duration
	// Times is a number that depends on the event; 0 means 1. Times counts the earlier failures for EventRecovered,
	// the skipped times for EventSkipped, and the runs of a dead-letter message for EventDeadLetter. For most other
	// events, Times is the number of the attempt.
	Times int
	// Count is the number of equal events that this message reports, including the latest event; 0 means 1. Since is
	// the time of the first of these events.
	Count      int
	Since      time.Time
	Link       string // URL of a page with details; empty: no page
	Deployment string // name of the sending deployment; empty: not shown
}

// Undelivered is the error for a message that did not reach its channel, or may not have reached it.
type Undelivered struct {
	Permanent bool          // a retry would fail too
	After     time.Duration // minimum delay before a retry; 0: the sender decides
	Reason    string        // description of the problem for users, without secrets
	Err       error         // error for the log; may be nil
}

func (u *Undelivered) Error() string { return u.Reason }
func (u *Undelivered) Unwrap() error { return u.Err }
