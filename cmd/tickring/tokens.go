package main

import (
	"cmp"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type tokensCmd struct {
	List   tokensListCmd   `cmd:"" default:"1" help:"List your tokens and when they expire."`
	Create tokensCreateCmd `cmd:"" help:"Create a token. It is shown only once."`
	Revoke tokensRevokeCmd `cmd:"" help:"Revoke a token."`
}

type tokensListCmd struct{}

func (c *tokensListCmd) Run(e *conn) error {
	me, err := e.GetMe(e.Ctx)
	rows := [][]string{{"NAME", "ROLES", "ENDS"}}
	for _, t := range me.Tokens {
		rows = append(rows, []string{t.Name, cmp.Or(api.FormatGrants(t.Grants), "all that "+me.Name+" may"), e.full(t.EndsAt, "")})
	}
	return e.list(me.Tokens, err, "no tokens of "+me.Name, rows)
}

type tokensCreateCmd struct {
	Name string   `arg:"" placeholder:"NAME" help:"Name of the token; use its purpose."`
	Role []string `placeholder:"ROLE" help:"Role of the token, such as viewer or shop:operator, with no permission that you do not have (default: all permissions that you have when the token is used)."`
	For  string   `default:"90d" placeholder:"SPAN" help:"Lifetime of the token, at most 366d."`
}

func (c *tokensCreateCmd) Run(e *conn) error {
	span, err := api.ParseDuration(c.For)
	if err != nil {
		return core.Invalid("for", c.For, "%v", err)
	}
	res, err := e.CreateToken(e.Ctx, client.NewTokenSpec{Name: c.Name, Grants: api.ParseGrants(c.Role), EndsAt: time.Now().Add(span)})
	return e.show(res, err, func() {
		e.printf("%s\n  the token is shown only once; expires %s\n", res.Secret, e.full(res.Token.EndsAt, ""))
	})
}

type tokensRevokeCmd struct {
	Name string `arg:"" placeholder:"NAME" help:"Name of the token."`
	Of   string `placeholder:"USER" help:"User who owns the token; only for admins (default: you)."`
}

func (c *tokensRevokeCmd) Run(e *conn) error {
	var err error
	if c.Of != "" {
		_, err = e.RevokeUserToken(e.Ctx, c.Of, c.Name)
	} else {
		_, err = e.RevokeToken(e.Ctx, c.Name)
	}
	return e.show(client.Done{Done: true}, err, func() { e.printf("%s revoked\n", c.Name) })
}
