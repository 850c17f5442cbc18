package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Account has all stored data of a user. The store keeps an account as one record, so that one read identifies a caller.
// The JSON is the stored form and is stable: new versions only add fields.
type Account struct {
	Name     string `json:"name"`
	Disabled bool   `json:"disabled,omitempty"`
	// Password is the hash of the password; empty: the user cannot log in with a password.
	Password   string `json:"password,omitempty"`
	MustChange bool   `json:"mustChange,omitempty"` // another user set the password, and the user must change it
	// Issuer and Subject identify the user at an identity provider.
	Issuer   string    `json:"issuer,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Grants   []Grant   `json:"grants,omitempty"`
	Tokens   []Token   `json:"tokens,omitempty"`
	Sessions []Session `json:"sessions,omitempty"`
	Views    []View    `json:"views,omitempty"`
	Failures Failures  `json:"failures,omitzero"`
	// FailuresKnown counts failed logins from known browsers, and wrong passwords from logged-in users.
	FailuresKnown Failures      `json:"failuresKnown,omitzero"`
	Language      core.Language `json:"language,omitempty"` // empty: the language of the browser
	Zone          string        `json:"zone,omitempty"`     // empty: the time zone of the browser
	LastSeen      time.Time     `json:"lastSeen,omitzero"`  // time of the last login
	Created       time.Time     `json:"created,omitzero"`
	Rev           int64         `json:"rev"`
	// Edited is the Rev of the last change that has a change record. A login increases Rev without a change record.
	Edited int64 `json:"edited,omitempty"`
}

// Token is a user's token, with which programs call the API as the user.
type Token struct {
	Name    string    `json:"name"`
	Hash    []byte    `json:"hash"`
	Grants  []Grant   `json:"grants,omitempty"` // empty: the token has all permissions of its owner
	Created time.Time `json:"created"`
	End     time.Time `json:"end"`
}

// Session is a user's login in one browser.
type Session struct {
	ID      string    `json:"id"`
	Hash    []byte    `json:"hash"`
	Created time.Time `json:"created"`
	Seen    time.Time `json:"seen"` // last use, rounded down to a minute
	From    string    `json:"from,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	// ByPassword reports whether the session began with a password login.
	ByPassword bool `json:"byPassword,omitempty"`
}

// View is a page of the console with its filters, saved under a name.
type View struct {
	Name   string `json:"name"`
	Page   string `json:"page"`
	Query  string `json:"query,omitempty"`
	By     string `json:"by,omitempty"`     // author of a shared view
	Shared bool   `json:"shared,omitempty"` // visible to all users
}

// Failures counts the failed logins since the last successful login.
type Failures struct {
	Count int       `json:"count"`
	At    time.Time `json:"at"` // time of the last failed login
}

// Limits for accounts and their content.
const (
	MaxPeople      = 1000
	MaxSessions    = 20 // sessions of a user; a new session replaces the least recently used session
	MaxTokens      = 20
	MaxTokenGrants = 20
	MaxViews       = 50
	MaxSharedViews = 200
	maxName        = 64 // of users and tokens
	MaxViewName    = 64
	maxPage        = 100
	MaxQuery       = 1000
	MaxBytes       = 300_000 // bytes of a stored account; the limit of DynamoDB is 400 KB
	MinPassword    = 10
	MaxPassword    = 200
	maxAgent       = 200
	maxFrom        = 64
	maxSubject     = 255
	maxIssuer      = 255
)

var (
	personForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._@-]*[a-z0-9])?$`)
	tokenForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	pageForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9/._-]*[a-z0-9])?$`)
)

// CheckName returns an error if a user name is invalid, or is reserved for machines in change records.
func CheckName(field, name string) error {
	switch {
	case len(name) > maxName || !personForm.MatchString(name):
		return core.Invalid(field, name, "a user name has 1 to %d characters of a-z 0-9 . _ - @ and starts and ends with a letter or digit",
			maxName)
	case slices.Contains([]string{ByAdminToken, ByReadToken, ByLink, ByProvider, "api"}, name), strings.HasPrefix(name, byCode):
		return core.Invalid(field, name, "this name is reserved for machines in the audit log")
	}
	return nil
}

func checkPassword(field, name, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case !utf8.ValidString(password):
		return core.Invalid(field, "", "not UTF-8")
	case n < MinPassword || len(password) > MaxPassword:
		return core.Invalid(field, "", "a password must have at least %d characters and at most %d bytes", MinPassword, MaxPassword)
	case strings.EqualFold(password, name):
		return core.Invalid(field, "", "the password must differ from the user name")
	case isCommon(password):
		return core.Invalid(field, "", "this password is one of the first that attackers try: choose another password")
	}
	return nil
}

// isCommon reports whether a password is easy to guess: a common word with digits or signs around it, a
// sequence of the keyboard or the alphabet, or fewer than five different characters.
func isCommon(password string) bool {
	p := strings.ToLower(password)
	seen := map[rune]bool{}
	for _, r := range p {
		seen[r] = true
	}
	word := strings.TrimFunc(p, func(r rune) bool { return r < 'a' || r > 'z' })
	return len(seen) < 5 || slices.Contains(commonWords, word) || slices.ContainsFunc(commonWalks, func(walk string) bool {
		return strings.Contains(walk, p)
	})
}

var (
	commonWords = strings.Fields("password passw passwort passwd admin administrator root welcome letmein changeme changeit iloveyou qwerty " +
		"qwertyuiop secret tickring scheduler sunshine princess football baseball monkey dragon superman starwars master")
	commonWalks = []string{"0123456789012345678901234567890", "9876543210987654321098765432109876543210", "abcdefghijklmnopqrstuvwxyz",
		"qwertyuiopasdfghjklzxcvbnm", "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik,9ol.0p;/", "1q2w3e4r5t6y7u8i9o0p", "q1w2e3r4t5y6u7i8o9p0"}
)

func (v *View) check() error {
	switch {
	case v.Name == "" || utf8.RuneCountInString(v.Name) > MaxViewName || !utf8.ValidString(v.Name) ||
		strings.ContainsFunc(v.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return core.Invalid("name", v.Name, "a view name has 1 to %d characters", MaxViewName)
	case len(v.Page) > maxPage || !pageForm.MatchString(v.Page):
		return core.Invalid("page", v.Page, "expected the name of a console page, such as `runs`")
	case len(v.Query) > MaxQuery:
		return core.Invalid("query", v.Query, "at most %d bytes are allowed", MaxQuery)
	case strings.ContainsFunc(v.Query, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }):
		return core.Invalid("query", v.Query, "expected a query string: the part of a URL after the question mark")
	}
	return nil
}

// clone returns a deep copy.
func (a Account) clone() Account {
	var out Account
	if err := json.Unmarshal(a.JSON(), &out); err != nil {
		panic("access: decode an encoded account: " + err.Error())
	}
	return out
}

// JSON encodes an account, including hashes, for the store. JSON does not escape HTML characters, because escaping
// can make the queries of views six times as long.
func (a Account) JSON() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a); err != nil { //nolint:gosec // a hash, for the store
		panic("access: marshal of plain values: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// Accounts is the table of all accounts.
var Accounts = store.Table[Account]{Kind: "user",
	Name:    func(a *Account) string { return a.Name },
	Version: func(a *Account) int64 { return a.Rev },
	Encode:  func(a *Account) ([]byte, error) { return a.JSON(), nil }}

// record is the part of an account that a change record contains: no secrets and no hashes.
type record struct {
	Name        string        `json:"name"`
	Rev         int64         `json:"rev"`
	Disabled    bool          `json:"disabled,omitempty"`
	HasPassword bool          `json:"hasPassword,omitempty"`
	Issuer      string        `json:"issuer,omitempty"`
	Subject     string        `json:"subject,omitempty"`
	Grants      []Grant       `json:"grants,omitempty"`
	Tokens      []tokenRecord `json:"tokens,omitempty"`
}

type tokenRecord struct {
	Name   string    `json:"name"`
	End    time.Time `json:"end"`
	Grants []Grant   `json:"grants,omitempty"`
}

func (a *Account) record() string {
	r := record{Name: a.Name, Rev: a.Rev, Disabled: a.Disabled, HasPassword: a.Password != "", Issuer: a.Issuer, Subject: a.Subject,
		Grants: a.Grants}
	for _, t := range a.Tokens {
		r.Tokens = append(r.Tokens, tokenRecord{t.Name, t.End, t.Grants})
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic("access: marshal of plain values: " + err.Error())
	}
	return string(b)
}

// who returns the caller that an account identifies.
func (a *Account) who(kind Kind) Who {
	return Who{Kind: kind, Name: a.Name, Grants: slices.Clone(a.Grants)}
}

// sharedName is the item with the shared views; it is not a valid user name.
const sharedName = "~shared"

// subject returns the name of a user in change records.
func subject(name string) string { return core.OfPerson + name }

// clip removes control characters from a client's text and cuts it to a number of bytes.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
	for len(text) > most {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text
}

func checkExternal(issuer, subject string) error {
	if issuer == "" || subject == "" || len(issuer) > maxIssuer || len(subject) > maxSubject {
		return core.Invalid("subject", fmt.Sprint(len(subject)), "the provider's identifier of a user must have 1 to %d bytes", maxSubject)
	}
	return nil
}
