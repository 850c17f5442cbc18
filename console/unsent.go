package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A form whose session has ended before it was sent is not lost: the log-in has it with it,
// and shows it again, to be sent as it is.

// unsent is such a form.
type unsent struct {
	To     string
	Fields []unsentField
}

type unsentField struct{ Name, Value string }

// keepUnsent writes down a form that was posted; empty if it cannot be read, or has what
// belongs on no page.
func keepUnsent(r *http.Request) string {
	if r.ParseForm() != nil || r.PostForm.Has("password") || r.PostForm.Has("token") {
		return ""
	}
	return url.Values{"to": {r.URL.RequestURI()}, "form": {r.PostForm.Encode()}}.Encode()
}

// unsentOf reads it again. It goes nowhere but to the console.
func unsentOf(text string) (unsent, bool) {
	q, err := url.ParseQuery(text)
	u := unsent{To: q.Get("to")}
	fields, wrong := url.ParseQuery(q.Get("form"))
	if text == "" || err != nil || wrong != nil || here(u.To) != u.To {
		return unsent{}, false
	}
	for name, values := range fields {
		for _, v := range values {
			u.Fields = append(u.Fields, unsentField{name, v})
		}
	}
	slices.SortStableFunc(u.Fields, func(x, y unsentField) int { return strings.Compare(x.Name, y.Name) })
	return u, true
}
