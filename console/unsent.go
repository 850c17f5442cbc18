package console

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tickring/tickring/core"
)

// unsent is a form that was posted after its session ended. The login page carries it, and so does the page after
// that. The server stores nothing, and handles the form only when the user confirms it.
type unsent struct {
	At   string // path of the request that was not processed
	Form string // form values as sent by the browser
}

// maxUnsent is the limit of the login form: a form inside it can grow threefold.
const maxUnsent = 3*maxForm + 4096

const formType = "application/x-www-form-urlencoded"

// unsentForm reads a form that was posted without a session; nil if the request has none.
func (a *ask) unsentForm() (*unsent, error) {
	r := a.r
	if r.Method != http.MethodPost || a.Partial() || !strings.HasPrefix(r.Header.Get("Content-Type"), formType) {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, badForm(err)
	}
	return unsentOf(r.URL.RequestURI(), string(body))
}

// unsentOf returns a form for a page of the console; nil if it is empty.
func unsentOf(at, form string) (*unsent, error) {
	if form == "" {
		return nil, nil
	}
	if _, err := url.ParseQuery(form); err != nil || at != here(at) {
		return nil, core.Errorf(core.CodeInvalid, "the form cannot be read")
	}
	return &unsent{At: at, Form: form}, nil
}

// Pieces splits a text for a template, because escaping takes ten times the memory of each piece.
func (a *ask) Pieces(text string) (list []string) {
	const size = 8 << 10
	for len(text) > size {
		list, text = append(list, text[:size]), text[size:]
	}
	return append(list, text)
}

// Values returns the values of the form by name.
func (k *unsent) Values() url.Values {
	values, _ := url.ParseQuery(k.Form) // unsentOf has parsed it
	return values
}

// cameFrom returns the page with the form.
func (a *ask) cameFrom() string {
	u, err := url.Parse(a.r.Referer())
	if err != nil || u.Host != a.r.Host {
		return Root
	}
	return here(u.RequestURI())
}

type unsentPage struct {
	*unsent
	Back string // URL of the page with the form
}
