package main

import "github.com/tickring/tickring/api/client"

type rotateKeyCmd struct{}

func (c *rotateKeyCmd) Run(e *conn) error {
	var sum client.RotateResult
	for after := ""; ; {
		res, err := e.RotateKey(e.Ctx, client.RotateKeyParams{After: after})
		if err != nil {
			return err
		}
		sum.Key, sum.Changed = res.Key, sum.Changed+res.Changed
		if after = res.Next; after == "" {
			break
		}
	}
	return e.show(sum, nil, func() {
		e.printf("new key %s: %s encrypted again\n", sum.Key, plural(sum.Changed, "record"))
	})
}
