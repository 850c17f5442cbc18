package core

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Command is a shell command that the server runs on its own machine for a job. A nil Command means that executors
// run the job.
type Command struct {
	Line   string            `json:"line"`             // argument of /bin/sh -c
	Dir    string            `json:"dir,omitempty"`    // absolute path; empty: the first directory that the server allows
	Env    map[string]string `json:"env,omitempty"`    // environment variables, in addition to the default ones
	Hidden []string          `json:"hidden,omitempty"` // names of the variables in Env that have secret values
	User   string            `json:"user,omitempty"`   // system user that runs the command; empty: the server's user
	// MaxOutput is the maximum number of bytes of output in the log; 0: DefaultMaxOutput.
	MaxOutput int64 `json:"maxOutput,omitempty"`
}

const (
	MaxLine          = 8 << 10  // bytes
	MaxDir           = 1 << 10  // bytes
	MaxEnv           = 64       // variables
	MaxCommand       = 32 << 10 // bytes of line, directory and variables together, because each run includes them
	DefaultMaxOutput = 1 << 20
	MinMaxOutput     = 1 << 10
	MaxMaxOutput     = 64 << 20
)

func (c *Command) Equal(o *Command) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.Line == o.Line && c.Dir == o.Dir && maps.Equal(c.Env, o.Env) && slices.Equal(c.Hidden, o.Hidden) && c.User == o.User &&
		c.MaxOutput == o.MaxOutput
}

// Normal returns a normalized copy of c: Hidden is sorted and has no duplicates, and empty fields are nil.
func (c *Command) Normal() *Command {
	if c == nil {
		return nil
	}
	out := *c
	if len(out.Env) == 0 {
		out.Env = nil
	}
	out.Hidden = slices.Compact(slices.Sorted(slices.Values(c.Hidden)))
	return &out
}

// Shown returns a copy of c in which AsStored replaces each secret.
func (c *Command) Shown() *Command { return c.withSecrets(asStored) }

// withSecrets returns a copy of c with each secret replaced by turn's result for it.
func (c *Command) withSecrets(turn func(secret string) string) *Command {
	if c == nil {
		return nil
	}
	out := *c
	out.Env = turnedValues(c.Env, c.Hidden, turn)
	return &out
}

// Kept returns a copy of c in which the stored secrets of the command `old` replace the AsStored values. If the line,
// directory or user has changed, Kept returns an error instead, because the changed command could reveal the stored
// secrets.
func (c *Command) Kept(old *Command) (*Command, error) {
	if c == nil {
		return nil, nil
	}
	out := *c
	out.Env = maps.Clone(c.Env)
	for _, name := range c.Hidden {
		switch {
		case out.Env[name] != AsStored:
		case old == nil || !slices.Contains(old.Hidden, name):
			return nil, notStored("command.env." + name)
		case c.Line != old.Line || c.Dir != old.Dir || c.User != old.User:
			return nil, Invalid("command.env."+name, AsStored, "the stored secret belongs to another `line`, `dir` or `user`: "+
				"set the secret again")
		default:
			out.Env[name] = old.Env[name]
		}
	}
	return &out, nil
}

func (c *Command) validate() error {
	if c == nil {
		return nil
	}
	return cmp.Or(
		plain("command.line", c.Line, MaxLine),
		when(strings.TrimSpace(c.Line) == "", Invalid("command.line", c.Line, "required: the command line for /bin/sh")),
		plain("command.dir", c.Dir, MaxDir),
		when(c.Dir != "" && (!path.IsAbs(c.Dir) || path.Clean(c.Dir) != c.Dir), Invalid("command.dir", c.Dir,
			"expected an absolute path without the elements `.` and `..`, such as /var/backups")),
		when(c.User != "" && !userName.MatchString(c.User),
			Invalid("command.user", c.User, "the name of a system user has 1 to 32 characters of a-z A-Z 0-9 . _ -")),
		when(c.MaxOutput != 0 && (c.MaxOutput < MinMaxOutput || c.MaxOutput > MaxMaxOutput),
			Invalid("command.maxOutput", strconv.FormatInt(c.MaxOutput, 10), "allowed values: 1KB to 64MB")),
		c.validateEnv(),
	)
}

func (c *Command) validateEnv() error {
	if err := atMost("command.env", len(c.Env), "variables", MaxEnv); err != nil {
		return err
	}
	size := len(c.Line) + len(c.Dir)
	for name, value := range c.Env {
		field := "command.env." + name
		switch {
		case len(name) > 128 || !envName.MatchString(name):
			return Invalid("command.env", name, "a variable name has 1 to 128 letters, digits and _, and does not start with a digit")
		case strings.HasPrefix(name, "TICKRING_"):
			return Invalid(field, "", "names that start with TICKRING_ are reserved for information about the run: choose another name")
		case len(value) > MaxSecret || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			// The error leaves out the value, because it may be a secret.
			return Invalid(field, "", "a value can have at most %d bytes of UTF-8 without zero bytes", MaxSecret)
		}
		size += len(name) + len(value)
	}
	for _, name := range c.Hidden {
		if _, is := c.Env[name]; !is {
			return Invalid("command.hidden", name, "command.env does not have this variable")
		}
	}
	if size > MaxCommand {
		return Invalid("command", fmt.Sprintf("%d bytes", size), "all texts of the command together can have at most %d bytes", MaxCommand)
	}
	return nil
}

var (
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}$`)
)

// plain returns an error unless s is UTF-8 within the size, without control characters except newline and tab.
func plain(field, s string, bytes int) error {
	if len(s) > bytes {
		return Invalid(field, "", "%d bytes; at most %d are allowed", len(s), bytes)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
		return Invalid(field, "", "expected UTF-8 without control characters")
	}
	return nil
}

// validateCommand rejects fields that have no effect in a job with a command.
func (d *Def) validateCommand() error {
	switch {
	case d.Handler != "":
		return Invalid("handler", d.Handler, "the server itself runs a job with a command and calls no handler: set either handler or command")
	case d.Call != nil:
		return Invalid("call", "", "the server itself runs a job with a command and calls no address: leave this field out")
	case d.Route == RouteBroadcast || d.Route == RouteBusyover:
		return Invalid("route", string(d.Route), "the server itself runs a job with a command, so no executor is chosen: leave this field out")
	case d.Block != BlockSerial:
		return Invalid("block", string(d.Block), "the server runs the command of a job one run after the other: to skip or "+
			"replace waiting runs, use `overlap: {limit: 1, whenFull: skip}` or `{limit: 1, whenFull: replace}`")
	}
	return nil
}
