package wire

import (
	"errors"
	"fmt"
	"strings"
)

// GroupExecutor is the registryGroup of every executor.
const GroupExecutor = "EXECUTOR"

// Maximum lengths in bytes of the fields of a Registration.
const (
	MaxApp     = 255
	MaxAddress = 512
)

// A Registration is the body of a registry or registryRemove request: one address of one app. A Registration is the same in
// all dialects. Java executors register "http://ip:port/" and Go executors "http://ip:port". A removal must repeat the
// registered text exactly.
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

// DecodeRegistration reads the body of a registry or registryRemove request. Its error names the field that is blank, too long
// or not a string. White space around values is kept.
func DecodeRegistration(body []byte) (Registration, error) {
	if len(body) == 0 {
		return Registration{}, errEmpty
	}
	var r Registration
	err := decodeObject(body, field{"registryGroup", &r.Group}, field{"registryKey", &r.App}, field{"registryValue", &r.Address})
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
			return Registration{}, fmt.Errorf("%s has %d bytes; at most %d are allowed", f.name, len(f.value), f.most)
		}
	}
	return r, nil
}

var errEmpty = errors.New("the body is empty")
