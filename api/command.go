package api

import (
	"reflect"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

func commandOf(c *core.Command) client.Command {
	if c == nil {
		return client.Command{}
	}
	return client.Command{Line: c.Line, Dir: c.Dir, Env: c.Env, Hidden: c.Hidden, User: c.User, MaxOutput: FormatSize(c.MaxOutput)}
}

// coreCommand converts a command from the API; an empty command is nil. Its errors name the field.
func coreCommand(c client.Command) (*core.Command, error) {
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
