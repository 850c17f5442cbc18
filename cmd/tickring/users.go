package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
)

type usersCmd struct {
	List   usersListCmd   `cmd:"" default:"1" help:"List all users and their roles."`
	Set    usersSetCmd    `cmd:"" help:"Create or update a user."`
	Delete usersDeleteCmd `cmd:"" help:"Delete a user, with all sessions, tokens and views."`
}

func (c *usersCmd) Help() string {
	return "A role is viewer, operator, editor or admin. To limit a role to one app, write app:role. To add permissions, use +, such as " +
		"shop:editor+scripts or operator+addresses. See docs/reference/permissions.md."
}

type usersListCmd struct{}

func (c *usersListCmd) Run(e *conn) error {
	list, err := e.ListUsers(e.Ctx)
	rows := [][]string{{"NAME", "ROLES", "LOGS IN", "TOKENS", "LAST"}}
	for i := range list.Users {
		p := &list.Users[i]
		rows = append(rows, []string{p.Name, api.FormatGrants(p.Grants), logsIn(p), fmt.Sprint(len(p.Tokens)),
			e.fullOr(p.LastSeenAt, "", "never")})
	}
	const none = "no users yet: log in to the console with the admin token; to create a user: tickring users set NAME --role viewer"
	return e.list(list, err, none, rows)
}

func logsIn(p *client.User) string {
	var ways []string
	switch {
	case p.Disabled:
		return "disabled"
	case p.MustChange:
		ways = append(ways, "password, to be changed")
	case p.HasPassword:
		ways = append(ways, "password")
	}
	if p.Issuer != "" {
		ways = append(ways, oneLine(p.Issuer))
	}
	return strings.Join(ways, ", ")
}

type usersSetCmd struct {
	Name     string   `arg:"" placeholder:"NAME" help:"User name: 1 to 64 characters a-z 0-9 . _ - @."`
	Role     []string `placeholder:"ROLE" help:"Role that replaces the current roles, such as editor or shop:editor+scripts. Repeat for each app."`
	NoRole   bool     `help:"Remove all roles."`
	Password string   `placeholder:"FILE" help:"File with the initial password; - is standard input."`
	Disable  bool     `help:"Log the user out and reject the user's logins and tokens until --enable."`
	Enable   bool     `help:"Accept logins and tokens of the user again."`
	Issuer   *string  `placeholder:"URL" help:"URL of the OpenID provider that the user logs in with; requires --subject."`
	Subject  *string  `placeholder:"ID" help:"ID of the user at the provider (its 'sub' claim)."`
}

func (c *usersSetCmd) Run(e *conn) error {
	if c.NoRole && len(c.Role) > 0 || c.Enable && c.Disable {
		return usagef("set only one of --no-role and --role, and only one of --enable and --disable")
	}
	spec := client.UserSpec{Issuer: c.Issuer, Subject: c.Subject}
	if len(c.Role) > 0 || c.NoRole {
		grants := api.ParseGrants(c.Role)
		spec.Grants = &grants
	}
	if c.Enable || c.Disable {
		spec.Disabled = &c.Disable
	}
	if c.Password != "" {
		text, err := e.secretOf(c.Password)
		if err != nil {
			return err
		}
		spec.Password = &text
	}
	res, err := e.PutUser(e.Ctx, c.Name, spec)
	if err != nil {
		return err
	}
	for _, g := range api.ParseGrants(c.Role) {
		if g.App == "" {
			continue
		}
		switch near := e.appLike(g.App); near {
		case g.App:
		case "":
			e.notef("warning: app %s does not exist\n", g.App)
		default:
			e.notef("warning: app %s does not exist, did you mean %s?\n", g.App, near)
		}
	}
	return e.show(res, nil, func() { e.printf("%s %s\n", res.Name, res.Change) })
}

// secretOf reads a secret of one line from a file, or for - from standard input.
func (e *Env) secretOf(file string) (string, error) {
	var b []byte
	var err error
	if file == "-" {
		b, err = io.ReadAll(io.LimitReader(e.Stdin, 4<<10))
	} else {
		b, err = namedFile(file)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

type usersDeleteCmd struct {
	Name string `arg:"" placeholder:"NAME" help:"User name."`
}

func (c *usersDeleteCmd) Run(e *conn) error {
	res, err := e.DeleteUser(e.Ctx, c.Name)
	return e.show(res, err, func() { e.printf("%s deleted\n", res.Name) })
}
