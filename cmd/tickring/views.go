package main

import (
	"cmp"

	"github.com/tickring/tickring/api/client"
)

type viewsCmd struct {
	List   viewsListCmd   `cmd:"" default:"1" help:"List your views and shared views."`
	Set    viewsSetCmd    `cmd:"" help:"Save a console page under a name."`
	Delete viewsDeleteCmd `cmd:"" help:"Delete a view."`
}

type viewsListCmd struct{}

func (c *viewsListCmd) Run(e *conn) error {
	list, err := e.ListViews(e.Ctx)
	rows := [][]string{{"NAME", "PAGE", "FILTERS", "SHARED BY"}}
	for _, v := range list.Views {
		rows = append(rows, []string{v.Name, v.Page, v.Query, cmp.Or(v.By, "-")})
	}
	return e.list(list, err, "no views", rows)
}

type viewsSetCmd struct {
	Name   string `arg:"" placeholder:"NAME" help:"Name of the view."`
	Page   string `arg:"" placeholder:"PAGE" help:"Part of the page's URL after /console/ and before the query string, such as runs."`
	Query  string `arg:"" optional:"" placeholder:"QUERY" help:"Query string of the page's URL, such as app=shop&failed=true."`
	Shared bool   `help:"Show the view to all users."`
}

func (c *viewsSetCmd) Run(e *conn) error {
	res, err := e.PutView(e.Ctx, client.SavedView{Name: c.Name, Page: c.Page, Query: c.Query, Shared: c.Shared})
	return e.show(res, err, func() { e.printf("%s kept\n", c.Name) })
}

type viewsDeleteCmd struct {
	Name   string `arg:"" placeholder:"NAME" help:"Name of the view."`
	Shared bool   `help:"Delete the shared view with this name instead of your own view."`
}

func (c *viewsDeleteCmd) Run(e *conn) error {
	res, err := e.DeleteView(e.Ctx, client.DeleteViewParams{Name: c.Name, Shared: c.Shared})
	return e.show(res, err, func() { e.printf("%s deleted\n", c.Name) })
}
