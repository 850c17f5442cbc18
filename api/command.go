package api

import (
	"reflect"

	"github.com/tickring/tickring/core"
)

func commandOf(c *core.Command) Command {
	if c == nil {
		return Command{}
	}
	return Command{Line: c.Line, Dir: c.Dir, Env: c.Env, Hidden: c.Hidden, User: c.User, MaxOutput: FormatSize(c.MaxOutput)}
}

// coreCommand is a command as core has it, nil where it says nothing. Its errors name the field.
func coreCommand(c Command) (*core.Command, error) {
	if reflect.ValueOf(c).IsZero() {
		return nil, nil
	}
	out := &core.Command{Line: c.Line, Dir: c.Dir, Env: c.Env, Hidden: c.Hidden, User: c.User}
	if c.MaxOutput != "" {
		n, err := ParseSize(c.MaxOutput)
		if err != nil {
			return nil, core.Invalid("command.maxOutput", c.MaxOutput, "%v", err)
		}
		out.MaxOutput = n
	}
	return out.Normal(), nil
}
