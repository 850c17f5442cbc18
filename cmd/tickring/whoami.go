package main

import (
	"cmp"

	"github.com/tickring/tickring/api"
)

type whoamiCmd struct{}

func (c *whoamiCmd) Run(e *conn) error {
	me, err := e.GetMe(e.Ctx)
	return e.show(me, err, func() {
		e.printf("%s, by %s\n  may: %s\n", me.Name, me.By, cmp.Or(api.FormatGrants(me.Grants), "no roles"))
		if len(me.Within) > 0 {
			e.printf("  this token may at most: %s\n", api.FormatGrants(me.Within))
		}
	})
}
