package main

import (
	"cmp"

	"github.com/tickring/tickring/api/client"
)

type viewsCmd struct {
	List   viewsListCmd   `cmd:"" default:"1" help:"Yours, and those that others share."`
	Set    viewsSetCmd    `cmd:"" help:"Keep a page under a name."`
	Delete viewsDeleteCmd `cmd:"" help:"Delete one."`
}

type viewsListCmd struct{}

func (c *viewsListCmd) Run(e *conn) error {
	list, err := e.ListViews(e.Ctx)
	return e.show(list, err, func() {
		if len(list.Views) == 0 {
			e.printf("no views\n")
			return
		}
		rows := [][]string{{"NAME", "PAGE", "FILTERS", "SHARED BY"}}
		for _, v := range list.Views {
			rows = append(rows, []string{v.Name, v.Page, v.Query, cmp.Or(v.By, "-")})
		}
		table(e.Stdout, rows)
	})
}

type viewsSetCmd struct {
	Name   string `arg:"" placeholder:"NAME" help:"How it is called."`
	Page   string `arg:"" placeholder:"PAGE" help:"The page, as its URL has it behind /console/: runs."`
	Query  string `arg:"" optional:"" placeholder:"QUERY" help:"What stands behind the question mark of the URL: app=shop&failed=true."`
	Shared bool   `help:"Everybody sees it."`
}

func (c *viewsSetCmd) Run(e *conn) error {
	res, err := e.PutView(e.Ctx, client.SavedView{Name: c.Name, Page: c.Page, Query: c.Query, Shared: c.Shared})
	return e.show(res, err, func() { e.printf("%s kept\n", c.Name) })
}

type viewsDeleteCmd struct {
	Name   string `arg:"" placeholder:"NAME" help:"Which one."`
	Shared bool   `help:"One that everybody sees."`
}

func (c *viewsDeleteCmd) Run(e *conn) error {
	res, err := e.DeleteView(e.Ctx, client.DeleteViewParams{Name: c.Name, Shared: c.Shared})
	return e.show(res, err, func() { e.printf("%s deleted\n", c.Name) })
}
