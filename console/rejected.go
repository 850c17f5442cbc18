package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

// A rejected form or filter: the function of its page runs again, and the page shows the error and the input. The URL of
// a form names its panel, so that the same panel is open.

// onPage returns the function of a form that do handles. If do fails, the page that get returns shows its open panel
// with the error and the input.
func onPage(name string, get func(*ask) (any, error), do formFunc) formFunc {
	return orAgain(do, func(a *ask, err error) (string, core.Text, error) {
		a.reject(err)
		return a.again(err, name, must.Get(get(a)))
	})
}

// orWrong returns a page that a function fills. For an invalid request it shows the page with the error and the
// filters, so that users can correct them.
func (a *ask) orWrong(name string, page any, fill func()) (any, error) {
	err := must.Caught(func() error { fill(); return nil })
	if err == nil || errors.Is(err, errShown) {
		return page, err
	}
	status := a.problemOf(err).Status
	if status < 400 || status >= 500 {
		return page, err
	}
	a.reject(err)
	a.render(status, name, page)
	return nil, errShown
}

// reject makes the page show an error, and the input of the form in this request.
func (a *ask) reject(err error) { a.rejection, a.wrong = err, a.problemOf(err).Message }

// Wrong returns the error of a rejected form or filter; empty if the page shows none.
func (a *ask) Wrong() string { return a.wrong }

// WrongField returns the name of the field with the error; empty: no field, or the error concerns the whole form.
func (a *ask) WrongField() string {
	if e, ok := errors.AsType[*client.Error](a.rejection); ok {
		return e.Field
	}
	if e, ok := errors.AsType[*core.Error](a.rejection); ok {
		return e.Field
	}
	return ""
}

// Panel returns the name of the open panel.
func (a *ask) Panel() string { return cmp.Or(a.panel, a.Q("panel")) }

// typedOr returns the input of a rejected form. If the page shows no such form, it returns the given values.
func (a *ask) typedOr(stored url.Values) url.Values {
	if a.rejection == nil {
		return stored
	}
	return a.r.PostForm
}

// Or returns the input for a field of a rejected form. If the field has no input, it returns the given default.
func (a *ask) Or(name, first string) string {
	if typed := a.typedOr(nil)[name]; len(typed) > 0 {
		return typed[0]
	}
	return first
}

// Picked reports whether the user selected a checkbox or a list entry in a rejected form.
func (a *ask) Picked(name, value string) bool { return slices.Contains(a.typedOr(nil)[name], value) }
