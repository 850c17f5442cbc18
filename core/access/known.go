package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
)

// KnownFor is how long a value from TrustedBrowser is valid.
const KnownFor = 90 * 24 * time.Hour

// TrustedBrowser returns a value that the browser of a session stores and sends at later logins. Failed logins with
// this value are counted separately, so that attackers in other browsers cannot lock the user out. The value is not a
// credential, and a new password invalidates it. The value is empty if the session did not begin with a password.
func (a *Access) TrustedBrowser(ctx context.Context, session string) (string, error) {
	name, is := ownerOf(sessionPrefix, session)
	if !is {
		return "", nil
	}
	acc, _, err := a.find(ctx, name)
	hash := hashOf(session)
	if err != nil || !slices.ContainsFunc(acc.Sessions, func(s Session) bool { return s.ByPassword && sameHash(s.Hash, hash) }) {
		return "", err
	}
	return acc.knownSince(strconv.FormatInt(a.now().Unix(), 10)), nil
}

// knownSince signs a time with the password hash of the account.
func (a *Account) knownSince(at string) string {
	mac := hmac.New(sha256.New, []byte(a.Password))
	mac.Write([]byte("known browser " + a.Name + " " + at))
	return at + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// mayBeKnown reports whether a value has the form of TrustedBrowser and is not older than KnownFor.
func mayBeKnown(known string, now time.Time) bool {
	at, mac, _ := strings.Cut(known, ".")
	since, err := strconv.ParseInt(at, 10, 64)
	age := now.Sub(time.Unix(since, 0))
	return err == nil && age > -time.Hour && age < KnownFor && len(mac) == base64.RawURLEncoding.EncodedLen(sha256.Size)
}

// isKnown reports whether TrustedBrowser gave a value to a browser of this account.
func (a *Account) isKnown(known string, now time.Time) bool {
	at, _, _ := strings.Cut(known, ".")
	return mayBeKnown(known, now) && a.Password != "" && hmac.Equal([]byte(a.knownSince(at)), []byte(known))
}

// failures returns the counter for logins from known or from unknown browsers.
func (a *Account) failures(known bool) *Failures {
	if known {
		return &a.FailuresKnown
	}
	return &a.Failures
}
