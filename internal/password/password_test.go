package password

import (
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestHash: a hash matches only its password, contains its parameters, and no two are alike.
func TestHash(t *testing.T) {
	var a Argon2id
	hash, err := a.Hash("correct horse")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatal(hash, err)
	}
	other, err := a.Hash("correct horse")
	if err != nil || other == hash {
		t.Error("no salt", err)
	}
	cheap, err := Argon2id{Passes: 1, KiB: 8}.Hash("correct horse")
	check.OK(t, err)
	for _, h := range []string{hash, other, cheap} {
		if !a.Is(h, "correct horse") || a.Is(h, "correct horsf") || a.Is(h, "") {
			t.Errorf("%s", h)
		}
	}
	for _, h := range []string{"", "x", "$argon2id$v=19$m=19456,t=2,p=1$$", strings.Replace(hash, "argon2id", "argon2i", 1),
		strings.Replace(hash, "m=19456", "m=4294967295", 1), strings.Replace(hash, "t=2", "t=0", 1), hash[:len(hash)-4], hash + "$"} {
		if a.Is(h, "correct horse") {
			t.Errorf("%q", h)
		}
	}
}
