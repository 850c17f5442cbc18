package core

import (
	"strings"
	"unicode/utf8"
)

// Actor is who asks for a change; it goes into the change record.
type Actor struct{ Name string }

// Validate refuses one that a change record could not name.
func (a Actor) Validate() error {
	if a.Name == "" || len(a.Name) > 128 || !utf8.ValidString(a.Name) {
		return Invalid("actor", a.Name, "who asks is named in 1 to 128 bytes")
	}
	if strings.HasPrefix(a.Name, replacedBy) {
		return Invalid("actor", a.Name, `a name does not begin with "run ", which stands for a run`)
	}
	return nil
}
