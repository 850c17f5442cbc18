package words

import (
	"fmt"

	"github.com/tickring/tickring/core"
)

// Say returns a text of package core in a language. Arguments that are themselves texts or errors for users are also
// translated. Other arguments are data and stay unchanged.
func Say(l Language, t core.Text) string {
	if l == English || l == "" {
		return t.String()
	}
	code, ok := translated(l, "", t.Code())
	switch {
	case !ok && len(t.Args()) == 0: // perhaps a phrase, in which a % is no verb
		return t.String()
	case !ok:
		code = t.Code()
	}
	args := make([]any, len(t.Args()))
	for i, arg := range t.Args() {
		switch arg := arg.(type) {
		case core.Text:
			args[i] = Say(l, arg)
		case *core.Error:
			args[i] = Error(l, arg)
		default:
			args[i] = arg
		}
	}
	return fmt.Sprintf(code, args...)
}

// Error returns the text of an error for users in a language, with the field, the rejected value, and the reason.
func Error(l Language, e *core.Error) string {
	reason := Say(l, e.Reason)
	switch {
	case e.Field != "" && e.Value != "":
		return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, reason)
	case e.Field != "":
		return e.Field + ": " + reason
	}
	return reason
}
