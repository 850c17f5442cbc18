package wire

import (
	"errors"
	"fmt"
	"strings"
)

// GroupExecutor is the only registryGroup that executors use.
const GroupExecutor = "EXECUTOR"

// Bounds of a registration in bytes.
const (
	MaxApp     = 255
	MaxAddress = 512
)

// A Registration is the body of registry and registryRemove, the same in all
// dialects: one address of one app. Java registers "http://ip:port/", Go
// "http://ip:port"; a removal must repeat the exact text.
type Registration struct {
	Group   string // registryGroup
	App     string // registryKey
	Address string // registryValue
}

func AppendRegistration(dst []byte, r Registration) []byte {
	dst = appendText(dst, `{"registryGroup":`, r.Group)
	dst = appendText(dst, `,"registryKey":`, r.App)
	dst = appendText(dst, `,"registryValue":`, r.Address)
	return append(dst, '}')
}

// DecodeRegistration reads the body of registry and registryRemove. Its error names a field that is blank, not a string or
// too long. The values are verbatim: white space around them is not removed.
func DecodeRegistration(body []byte) (Registration, error) {
	if len(body) == 0 {
		return Registration{}, errEmpty
	}
	var r Registration
	err := decodeObject(body, func(s *scanner, key []byte) (err error) {
		switch string(key) {
		case "registryGroup":
			r.Group, err = s.textField(key)
		case "registryKey":
			r.App, err = s.textField(key)
		case "registryValue":
			r.Address, err = s.textField(key)
		default:
			_, err = s.skip()
		}
		return err
	})
	if err != nil {
		return Registration{}, err
	}
	for _, f := range []struct {
		name, value string
		most        int
	}{{"registryGroup", r.Group, MaxApp}, {"registryKey", r.App, MaxApp}, {"registryValue", r.Address, MaxAddress}} {
		if strings.TrimSpace(f.value) == "" {
			return Registration{}, fmt.Errorf("%s is missing or blank", f.name)
		}
		if len(f.value) > f.most {
			return Registration{}, fmt.Errorf("%s has %d bytes, at most %d are allowed", f.name, len(f.value), f.most)
		}
	}
	return r, nil
}

var errEmpty = errors.New("the body is empty")
