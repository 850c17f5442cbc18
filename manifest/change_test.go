package manifest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestReadChange: a change has the fields that differ in its records, also fields that no manifest has. A record that cannot
// be read adds nothing.
func TestReadChange(t *testing.T) {
	record := func(declared core.Declared) json.RawMessage {
		def := core.Def{ID: 1, App: "a", Name: "b", Declared: declared}
		return json.RawMessage(core.RecordOf(&core.Sched{ID: 1, App: "a", Rev: 7}, &def).String())
	}
	code, taken := record(core.DeclaredCode), record(core.DeclaredTaken)
	for name, c := range map[string]struct {
		change client.Change
		fields []FieldChange
	}{
		"taken from code": {client.Change{Job: "a/b", Old: code, New: taken}, []FieldChange{{"declared", "code", "taken"}}},
		"no difference":   {client.Change{Job: "a/b", Old: code, New: code}, nil},
		"all apps": {client.Change{Old: json.RawMessage(`{"rev":1}`), New: json.RawMessage(`{"rev":2,"notify":{"to":["oncall"]}}`)},
			[]FieldChange{{"notify.to", "", "[oncall]"}}},
		"user":           {client.Change{User: "lina", New: json.RawMessage(`{"disabled":true}`)}, []FieldChange{{"disabled", "", "true"}}},
		"unreadable job": {client.Change{Job: "a/b", Old: json.RawMessage(`7`), New: taken}, nil},
		"deleted user":   {client.Change{User: "lina", Old: json.RawMessage(`{"disabled":true}`)}, nil},
	} {
		c.change.Verb = core.VerbUpdated
		check.Equal(t, fmt.Sprint(ReadChange(&c.change).Fields), fmt.Sprint(c.fields), "%s", name)
	}
}
