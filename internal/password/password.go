// Package password hashes passwords with argon2id. Hashing is slow, so that guessing a password is expensive. A text
// that is not an argon2id hash matches no password.
package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Argon2id has the cost parameters of new hashes. Each hash contains the parameters that it was created with, so
// existing hashes stay valid when the parameters change.
type Argon2id struct {
	Passes uint32 // number of passes; 0: 2
	KiB    uint32 // memory in KiB; 0: 19456, the OWASP recommendation for two passes
}

const (
	saltBytes = 16
	hashBytes = 32
	// A hash with higher costs was not made here.
	mostPasses = 16
	mostKiB    = 256 << 10
)

var encoding = base64.RawStdEncoding

// Hash returns the argon2id hash of a password as text.
func (a Argon2id) Hash(password string) (string, error) {
	if a.Passes == 0 {
		a.Passes = 2
	}
	if a.KiB == 0 {
		a.KiB = 19 << 10
	}
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	sum := argon2.IDKey([]byte(password), salt, a.Passes, a.KiB, 1, hashBytes)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, a.KiB, a.Passes, encoding.EncodeToString(salt),
		encoding.EncodeToString(sum)), nil
}

// Is reports whether hash is the hash of password, with the parameters in hash.
func (Argon2id) Is(hash, password string) bool {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return false
	}
	var kib, passes uint32
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=1", &kib, &passes); n != 2 || err != nil || passes < 1 || passes > mostPasses ||
		kib < 8 || kib > mostKiB {
		return false
	}
	salt, err := encoding.DecodeString(parts[4])
	if err != nil || len(salt) != saltBytes {
		return false
	}
	want, err := encoding.DecodeString(parts[5])
	if err != nil || len(want) != hashBytes {
		return false
	}
	return subtle.ConstantTimeCompare(argon2.IDKey([]byte(password), salt, passes, kib, 1, hashBytes), want) == 1
}
