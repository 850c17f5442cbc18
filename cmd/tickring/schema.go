package main

import (
	"strings"

	"github.com/tickring/tickring/manifest"
)

type schemaCmd struct{}

func (c *schemaCmd) Run(e *Env) error {
	e.printf("%s\n", strings.TrimRight(string(manifest.Schema()), "\n"))
	return nil
}
