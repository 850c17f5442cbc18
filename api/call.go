package api

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

func callOf(c *core.Call) client.Call {
	if c == nil {
		return client.Call{}
	}
	return client.Call{Headers: c.Headers, Hidden: c.Hidden, Expect: c.Expect, MaxAnswer: FormatSize(c.MaxAnswer), Auth: client.Auth{
		Bearer: c.Auth.Bearer, Basic: client.Basic{User: c.Auth.Basic.User, Password: c.Auth.Basic.Password},
		Oauth: client.OAuth{TokenURL: c.Auth.OAuth.TokenURL, ClientID: c.Auth.OAuth.ClientID, ClientSecret: c.Auth.OAuth.ClientSecret,
			Scope: c.Auth.OAuth.Scope}}}
}

// coreCall converts a call from the API; an empty call is nil. Its errors name the field.
func coreCall(c client.Call) (*core.Call, error) {
	if reflect.ValueOf(c).IsZero() {
		return nil, nil
	}
	o := c.Auth.Oauth
	out := &core.Call{Headers: c.Headers, Hidden: c.Hidden, Expect: c.Expect, Auth: core.Auth{Bearer: c.Auth.Bearer,
		Basic: core.Basic{User: c.Auth.Basic.User, Password: c.Auth.Basic.Password},
		OAuth: core.OAuth{TokenURL: o.TokenURL, ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scope: o.Scope}}}
	if c.MaxAnswer != "" {
		n, err := ParseSize(c.MaxAnswer)
		if err != nil {
			return nil, core.Invalid("call.maxAnswer", c.MaxAnswer, "%v", err)
		}
		out.MaxAnswer = n
	}
	return out.Normal(), nil
}

var sizes = []struct {
	name string
	size int64
}{{"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}}

// ParseSize parses a size such as 512B, 64KB or 1MB, and returns the number of bytes. One KB is 1024 bytes.
func ParseSize(text string) (int64, error) {
	for _, u := range sizes {
		if number, is := strings.CutSuffix(text, u.name); is {
			if n, err := strconv.ParseUint(number, 10, 31); err == nil {
				return int64(n) * u.size, nil
			}
			break
		}
	}
	return 0, errors.New("write a size as 512B, 64KB or 1MB")
}

// FormatSize formats a number of bytes in the largest unit that divides the number, such as 64KB. For 0 it returns an
// empty string.
func FormatSize(n int64) string {
	for _, u := range sizes {
		if n > 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return ""
}
