package main

import (
	"cmp"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type tokensCmd struct {
	List tokensListCmd `cmd:"" default:"1" help:"Yours, and when they end."`
	Make tokensMakeCmd `cmd:"" help:"Make one; it is shown this once."`
	End  tokensEndCmd  `cmd:"" help:"End one."`
}

type tokensListCmd struct{}

func (c *tokensListCmd) Run(e *conn) error {
	me, err := e.GetMe(e.Ctx)
	return e.show(me.Tokens, err, func() {
		if len(me.Tokens) == 0 {
			e.printf("no tokens of %s\n", me.Name)
			return
		}
		rows := [][]string{{"NAME", "MAY", "ENDS"}}
		for _, t := range me.Tokens {
			rows = append(rows, []string{t.Name, cmp.Or(api.FormatGrants(t.Grants), "all that "+me.Name+" may"), e.full(t.EndsAt, "")})
		}
		table(e.Stdout, rows)
	})
}

type tokensMakeCmd struct {
	Name string   `arg:"" placeholder:"NAME" help:"What it is for."`
	Role []string `placeholder:"ROLE" help:"Less than you may: viewer, or shop:operator. Left out: all that you may, whenever it is used."`
	For  string   `default:"90d" placeholder:"SPAN" help:"How long it is good: at most 366d."`
}

func (c *tokensMakeCmd) Run(e *conn) error {
	span, err := api.ParseDuration(c.For)
	if err != nil {
		return core.Invalid("for", c.For, "%v", err)
	}
	res, err := e.MakeToken(e.Ctx, client.NewTokenSpec{Name: c.Name, Grants: api.ParseGrants(c.Role), EndsAt: time.Now().Add(span)})
	return e.show(res, err, func() {
		e.printf("%s\n  it is shown this once, and ends %s\n", res.Secret, e.full(res.Token.EndsAt, ""))
	})
}

type tokensEndCmd struct {
	Name string `arg:"" placeholder:"NAME" help:"Which one."`
	Of   string `placeholder:"PERSON" help:"Whose, of somebody else: for an admin."`
}

func (c *tokensEndCmd) Run(e *conn) error {
	var err error
	if c.Of != "" {
		_, err = e.EndTokenOf(e.Ctx, c.Of, c.Name)
	} else {
		_, err = e.EndToken(e.Ctx, c.Name)
	}
	return e.show(client.Done{Done: true}, err, func() { e.printf("%s ended\n", c.Name) })
}
