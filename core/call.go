package core

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Call has the settings for HTTP requests to `call:` executors. A job and its app can each have a Call; nil means no
// settings.
type Call struct {
	Headers map[string]string `json:"headers,omitempty"`
	Hidden  []string          `json:"hidden,omitempty"` // names of the headers that have secret values
	Auth    Auth              `json:"auth,omitzero"`
	// Expect lists the HTTP statuses that mean success. Empty means 200 to 299, except 202: an endpoint that answers
	// 202 reports the result later.
	Expect    []int `json:"expect,omitempty"`
	MaxAnswer int64 `json:"maxAnswer,omitempty"` // maximum size of a response body in bytes; 0: the constant MaxAnswer
}

// Auth has the credentials for HTTP requests to `call:` executors. At most one field is set.
type Auth struct {
	Bearer string `json:"bearer,omitempty"`
	Basic  Basic  `json:"basic,omitzero"`
	OAuth  OAuth  `json:"oauth,omitzero"`
}

// Basic is a name and a password for HTTP basic authentication.
type Basic struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// OAuth has the client credentials with which tickring requests an access token at TokenURL.
type OAuth struct {
	TokenURL     string `json:"tokenUrl"`
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	Scope        string `json:"scope,omitempty"`
}

const (
	MaxHeaders   = 32
	MaxHeader    = 128     // bytes of a header name
	MaxSecret    = 4 << 10 // bytes of a secret, and of the value of a header
	MaxCall      = 8 << 10 // bytes of all headers and secrets together, because each dispatch reads them
	MaxExpect    = 32
	MaxAnswer    = 16 << 20
	MinMaxAnswer = 1 << 10
)

// AsStored is shown in place of a secret. If a user saves AsStored as the value of a secret, the stored secret is
// kept.
const AsStored = "***"

// Over returns the settings of c, and in addition the settings of the parameter under that c does not set. A header of c
// replaces the header of under with the same name.
func (c *Call) Over(under *Call) *Call {
	if c == nil || under == nil {
		return cmp.Or(c, under)
	}
	rest := under.Besides(c)
	if rest == nil {
		return c
	}
	out := Call{Auth: cmp.Or(c.Auth, rest.Auth), MaxAnswer: cmp.Or(c.MaxAnswer, rest.MaxAnswer), Expect: c.Expect,
		Hidden: slices.Concat(c.Hidden, rest.Hidden), Headers: map[string]string{}}
	if len(out.Expect) == 0 {
		out.Expect = rest.Expect
	}
	maps.Copy(out.Headers, rest.Headers)
	maps.Copy(out.Headers, c.Headers)
	return &out
}

// Besides returns the settings of c that the parameter over does not set. It returns nil if over sets all of them.
func (c *Call) Besides(over *Call) *Call {
	if c == nil || over == nil {
		return c
	}
	out := *c
	out.Headers = maps.Clone(c.Headers)
	own := over.Auth != Auth{}
	for name := range over.Headers {
		own = own || strings.EqualFold(name, "authorization")
		maps.DeleteFunc(out.Headers, func(n, _ string) bool { return strings.EqualFold(n, name) })
	}
	out.Hidden = slices.DeleteFunc(slices.Clone(c.Hidden), func(name string) bool {
		_, is := out.Headers[name]
		return !is
	})
	if own {
		out.Auth = Auth{}
	}
	if len(over.Expect) > 0 {
		out.Expect = nil
	}
	if over.MaxAnswer != 0 {
		out.MaxAnswer = 0
	}
	return out.Normal()
}

func (c *Call) Equal(o *Call) bool {
	if c == nil || o == nil {
		return c == o
	}
	return maps.Equal(c.Headers, o.Headers) && slices.Equal(c.Hidden, o.Hidden) && c.Auth == o.Auth &&
		slices.Equal(c.Expect, o.Expect) && c.MaxAnswer == o.MaxAnswer
}

// Shown returns a copy of c in which AsStored replaces each secret.
func (c *Call) Shown() *Call { return c.withSecrets(asStored) }

// withSecrets returns a copy of c with each secret replaced by turn's result for it.
func (c *Call) withSecrets(turn func(secret string) string) *Call {
	if c == nil {
		return nil
	}
	out := *c
	out.Headers = turnedValues(c.Headers, c.Hidden, turn)
	turned(out.Auth.secrets(), turn)
	return &out
}

// Kept returns a copy of c in which the stored secrets of the call `old` replace the AsStored values. Kept returns an
// error if `old` lacks a needed secret, or if the OAuth token URL has changed.
func (c *Call) Kept(old *Call) (*Call, error) {
	if c == nil {
		return nil, nil
	}
	if old == nil {
		old = &Call{}
	}
	out := *c
	out.Headers = maps.Clone(c.Headers)
	for _, name := range c.Hidden {
		if out.Headers[name] == AsStored {
			if !slices.Contains(old.Hidden, name) {
				return nil, notStored("call.headers." + name)
			}
			out.Headers[name] = old.Headers[name]
		}
	}
	was := old.Auth.secrets()
	for i, s := range out.Auth.secrets() {
		switch {
		case *s.text != AsStored:
		case *was[i].text == "":
			return nil, notStored(s.field)
		case out.Auth.OAuth.TokenURL != old.Auth.OAuth.TokenURL: // a user who changes the URL must not send the stored secret there
			return nil, Invalid(s.field, AsStored, "the stored secret belongs to another `tokenUrl`: set the secret again")
		default:
			*s.text = *was[i].text
		}
	}
	return &out, nil
}

// notStored returns the error for AsStored in a field for which no secret is stored.
func notStored(field string) *Error {
	return Invalid(field, AsStored, "the value stands for the stored secret, but no secret is stored: set the secret")
}

type secretField struct {
	field string
	text  *string
}

// turned replaces the secrets that are set.
func turned(list []secretField, turn func(string) string) {
	for _, s := range list {
		if *s.text != "" {
			*s.text = turn(*s.text)
		}
	}
}

// turnedValues returns a copy of values with the hidden ones replaced.
func turnedValues(values map[string]string, hidden []string, turn func(string) string) map[string]string {
	values = maps.Clone(values)
	for _, name := range hidden {
		if secret, given := values[name]; given {
			values[name] = turn(secret)
		}
	}
	return values
}

func asStored(string) string { return AsStored }

// LockedMark is the prefix of a secret that could not be decrypted. The encrypted secret follows the prefix, so that
// saving other fields does not change the secret. No valid secret begins with LockedMark.
const LockedMark = "\x00"

// Locked is the error for a stored record with a secret that cannot be decrypted. A read returns it beside the record,
// which has all other fields.
type Locked struct{ Err *Error }

func (l *Locked) Error() string { return l.Err.Error() }
func (l *Locked) Unwrap() error { return l.Err }

func (a *Auth) secrets() []secretField {
	return []secretField{{"call.auth.bearer", &a.Bearer}, {"call.auth.basic.password", &a.Basic.Password},
		{"call.auth.oauth.clientSecret", &a.OAuth.ClientSecret}}
}

// alwaysHidden are headers that always count as secret.
var alwaysHidden = []string{"authorization", "cookie"}

// notGiven are headers that users cannot set, because they belong to the connection or tickring sets them.
var notGiven = map[string]Text{
	"connection": hopByHop, "keep-alive": hopByHop, "proxy-authenticate": hopByHop, "proxy-authorization": hopByHop,
	"proxy-connection": hopByHop, "te": hopByHop, "trailer": hopByHop, "transfer-encoding": hopByHop, "upgrade": hopByHop,
	"http2-settings": hopByHop, "expect": hopByHop, "content-length": Say("tickring computes the value"),
	"host":            Say("the address determines the value"),
	"idempotency-key": Say("the value is the run ID"),
}

var hopByHop = Say("reserved for the HTTP connection")

// Normal returns a normalized copy of c: Hidden is sorted and includes the Authorization and Cookie headers, and
// empty lists are nil. Normal returns nil if c has no settings.
func (c *Call) Normal() *Call {
	if c == nil {
		return nil
	}
	out := *c
	out.Hidden = slices.Clone(c.Hidden)
	for name := range c.Headers {
		if slices.Contains(alwaysHidden, strings.ToLower(name)) {
			out.Hidden = append(out.Hidden, name)
		}
	}
	out.Hidden = slices.Compact(slices.Sorted(slices.Values(out.Hidden)))
	if len(out.Headers) == 0 {
		out.Headers = nil
	}
	if len(out.Expect) == 0 {
		out.Expect = nil
	}
	if out.Equal(&Call{}) {
		return nil
	}
	return &out
}

func (c *Call) validate() error {
	if c == nil {
		return nil
	}
	if err := atMost("call.headers", len(c.Headers), "headers", MaxHeaders); err != nil {
		return err
	}
	size := len(c.Auth.Bearer) + len(c.Auth.Basic.Password) + len(c.Auth.OAuth.ClientSecret)
	names := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		field, value := "call.headers."+name, c.Headers[name]
		lower := strings.ToLower(name)
		why, taken := notGiven[lower]
		if strings.HasPrefix(lower, "tickring-") {
			why, taken = Say("reserved for tickring"), true
		}
		switch {
		case name == "" || len(name) > MaxHeader || strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") != "":
			return Invalid("call.headers", name, "a header name has 1 to %d letters, digits and !#$%%&'*+-.^_`|~", MaxHeader)
		case taken:
			return Invalid(field, name, "this header cannot be set: %s", why)
		case names[lower]:
			return Invalid(field, name, "named twice: names are not case-sensitive")
		case lower == "authorization" && c.Auth != (Auth{}):
			return Invalid(field, name, "'auth' also sets this header: set only one of 'auth' and the header")
		}
		if err := hidden(field, value, Say("the value of a header")); err != nil {
			return err
		}
		names[lower] = true
		size += len(name) + len(value)
	}
	for _, name := range c.Hidden {
		if _, is := c.Headers[name]; !is {
			return Invalid("call.hidden", name, "'call.headers' does not contain this header")
		}
	}
	if err := cmp.Or(
		when(size > MaxCall, Invalid("call", fmt.Sprintf("%d bytes", size), "headers and secrets together can have at most %d bytes", MaxCall)),
		atMost("call.expect", len(c.Expect), "statuses", MaxExpect),
	); err != nil {
		return err
	}
	for i, status := range c.Expect {
		field := fmt.Sprintf("call.expect[%d]", i)
		if err := cmp.Or(
			when(status < 200 || status > 599, Invalid(field, strconv.Itoa(status), "allowed values: whole numbers from %d to %d", 200, 599)),
			when(slices.Index(c.Expect, status) != i, Invalid(field, strconv.Itoa(status), "named twice")),
		); err != nil {
			return err
		}
	}
	return cmp.Or(
		when(c.MaxAnswer != 0 && (c.MaxAnswer < MinMaxAnswer || c.MaxAnswer > MaxAnswer),
			Invalid("call.maxAnswer", strconv.FormatInt(c.MaxAnswer, 10), "allowed values: 1KB to 16MB")),
		c.Auth.validate(),
	)
}

func (a *Auth) validate() error {
	given := 0
	for _, is := range []bool{a.Bearer != "", a.Basic != Basic{}, a.OAuth != OAuth{}} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return Invalid("call.auth", "", "use exactly one of `bearer`, `basic` and `oauth`")
	case a.Basic != Basic{}:
		if a.Basic.User == "" || len(a.Basic.User) > MaxTitle || strings.Contains(a.Basic.User, ":") || !printable(a.Basic.User) {
			return Invalid("call.auth.basic.user", a.Basic.User, "a user name has 1 to %d printable ASCII characters without a colon", MaxTitle)
		}
	case a.OAuth != OAuth{}:
		u, err := url.Parse(a.OAuth.TokenURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" ||
			len(a.OAuth.TokenURL) > MaxAddress {
			return Invalid("call.auth.oauth.tokenUrl", a.OAuth.TokenURL, "expected a URL such as https://login.example.com/oauth/token")
		}
		short := func(field, text string) error {
			return when(len(text) > MaxTitle || !printable(text),
				Invalid(field, text, "at most %d printable ASCII characters are allowed", MaxTitle))
		}
		if err := cmp.Or(
			when(a.OAuth.ClientID == "", Invalid("call.auth.oauth.clientId", "", "required")),
			when(a.OAuth.ClientSecret == "", Invalid("call.auth.oauth.clientSecret", "", "required")),
			short("call.auth.oauth.clientId", a.OAuth.ClientID),
			short("call.auth.oauth.scope", a.OAuth.Scope),
		); err != nil {
			return err
		}
	}
	for _, s := range a.secrets() {
		if err := hidden(s.field, *s.text, Say("a secret")); err != nil {
			return err
		}
	}
	return nil
}

// hidden returns an error, without the value, if it cannot be the value of a header.
func hidden(field, value string, what Text) error {
	if len(value) > MaxSecret || !printable(value) || strings.TrimSpace(value) != value {
		return Invalid(field, "", "%s can have at most %d printable ASCII characters, without line breaks or surrounding spaces", what, MaxSecret)
	}
	return nil
}

// CheckCall returns an error if c has call settings but the app has no `call:` executor.
func (a *App) CheckCall(c *Call) error {
	if c == nil || slices.ContainsFunc(a.Executors, func(s string) bool { return strings.HasPrefix(s, string(SchemeCall)+":") }) {
		return nil
	}
	return Invalid("call", "", "app %s has no executor that is an HTTP endpoint: add one, such as executors: [\"call:https://example.com\"]",
		a.Name)
}
