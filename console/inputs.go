package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

// as converts a value to another type of the API, by the fields that both have.
func as[T any](v any) (out T) {
	must.Do(json.Unmarshal(must.Get(json.Marshal(v)), &out))
	return out
}

// An input is one field of a form: its name, the path of its value in an object of the API, and its kind. Spaces around a
// text and a secret are removed, but not around a raw text and a password. Words are in one line. A form does not show
// a stored secret or password, and keeps it if the input is empty. The other kinds are number, lines and marks.
type input struct{ name, path, kind string }

// show sets the values of a form to the values of an object.
func show(f url.Values, o object, inputs []input) {
	for _, in := range inputs {
		text := textOf(in.kind, at(o, in.path))
		switch in.kind {
		case "marks":
			f[in.name] = strings.Fields(text)
		case "words":
			f.Set(in.name, strings.ReplaceAll(text, "\n", " "))
		case "secret", "password":
			mark(f, "has"+in.name, text != "")
		default:
			f.Set(in.name, text)
		}
	}
}

// read sets the value in an object to the input. field is its name in an error.
func (in input) read(o object, f url.Values, field string) {
	var v any
	text := f.Get(in.name)
	switch in.kind {
	case "marks":
		v = slices.Clone(f[in.name])
	case "words", "lines":
		v = strings.Fields(text)
	case "number":
		v = wholeNumber(field, text)
	case "raw", "password":
		v = text
	default:
		v = strings.TrimSpace(text)
	}
	if v == "" && (in.kind == "secret" || in.kind == "password") && f.Get("has"+in.name) != "" {
		v = core.AsStored
	}
	setAt(o, in.path, v)
}
