package console

import (
	"net/url"
	"slices"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

// Views are lists with their filters, saved under a name.

// viewed are the lists that can be saved.
var viewed = []string{"jobs", "runs"}

// viewRow is the row of views above a list, and the panel to save and delete them.
type viewRow struct {
	Ask   *ask
	Page  string
	Query string // query string of the list as shown
	Views []shownView
}

type shownView struct {
	client.SavedView
	To   string
	On   bool // whether this view is the shown list
	Mine bool // whether the user may delete the view
}

// viewQuery returns the part of a query that a view saves, without the position in the list.
func viewQuery(q url.Values) string {
	kept := url.Values{}
	for name, values := range q {
		values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
		if !slices.Contains([]string{"after", "panel", "shape", "pick"}, name) && len(values) > 0 {
			kept[name] = values
		}
	}
	return kept.Encode()
}

// Views returns the saved views of a list. If the views cannot be read, the result is empty and the list is still
// shown.
func (a *ask) Views(page string) viewRow {
	return a.viewRow(page, viewQuery(a.r.URL.Query()))
}

func (a *ask) viewRow(page, query string) viewRow {
	row := viewRow{Ask: a, Page: page, Query: query}
	list, err := a.ListViews(a.Ctx())
	if err != nil {
		return row
	}
	for _, v := range list.Views {
		if v.Page != page {
			continue
		}
		q, err := url.ParseQuery(v.Query)
		if err != nil {
			continue
		}
		is := viewQuery(q)
		row.Views = append(row.Views, shownView{SavedView: v, To: withQuery(Root+page, is), On: is == query,
			Mine: !v.Shared || v.By == a.who.Name || a.who.May(access.Administer, "") == nil})
	}
	return row
}

// Shown reports whether the row of views is shown. A list without filters and without views has no such row.
func (r viewRow) Shown() bool { return r.Query != "" || len(r.Views) > 0 }

// Panel returns the link that opens the panel for saving a view.
func (r viewRow) Panel() string { return r.Ask.With("panel", "view") }

func (r viewRow) Back() string { return withQuery(Root+r.Page, r.Query) }

func (a *ask) viewsDo() (string, core.Text, error) {
	page, query := a.Form("page"), a.Form("query")
	q, err := url.ParseQuery(query)
	if err != nil || !slices.Contains(viewed, page) {
		return "", core.Text{}, core.Errorf(core.CodeInvalid, "the form cannot be read")
	}
	query = viewQuery(q)
	name, shared := a.Form("name"), a.Form("shared") != ""
	said := core.Say("view %s is saved", name)
	if a.Form("do") == "delete" {
		said = core.Say("view %s is deleted", name)
		_, err = a.DeleteView(a.Ctx(), client.DeleteViewParams{Name: name, Shared: shared})
	} else {
		_, err = a.PutView(a.Ctx(), client.SavedView{Name: name, Page: page, Query: query, Shared: shared})
	}
	if err != nil {
		a.reject(err)
		return a.again(err, "views", a.viewRow(page, query))
	}
	return withQuery(Root+page, query), said, nil
}
