package localexec

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
)

// Allowed has the operating system users and the directories that commands may use.
type Allowed struct {
	users []account
	dirs  []string
	own   string // the user of this process
}

// account is a user of the machine.
type account struct {
	name, home string
	uid, gid   uint32
	groups     []uint32
	other      bool // not the user of this process
}

// Allow returns an Allowed for these users and directories. The working directory of a command must be one of the
// directories or below one. Allow returns an error for unknown users, users as whom this process cannot start
// commands, and paths that are not directories.
func Allow(users, dirs []string) (*Allowed, error) {
	if len(users) == 0 || len(dirs) == 0 {
		return nil, core.Invalid("commands", "", "commands need an allowed user and an allowed directory: set both --commands-user and "+
			"--commands-dir")
	}
	a := &Allowed{}
	var err error
	if a.own, err = ownName(); err != nil {
		return nil, core.Invalid("commands-user", "", "%v", err)
	}
	for _, name := range users {
		u, err := accountOf(name)
		if err != nil {
			return nil, core.Invalid("commands-user", name, "%v", err)
		}
		a.users = append(a.users, u)
	}
	for _, dir := range dirs {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, core.Invalid("commands-dir", dir, "%v", err)
		}
		if i, err := os.Stat(path); err != nil || !i.IsDir() {
			return nil, core.Invalid("commands-dir", dir, "the directory does not exist")
		}
		a.dirs = append(a.dirs, path)
	}
	return a, nil
}

// Check returns an error if the command has a user or directory that is not allowed. A nil Allowed rejects every
// command.
func (a *Allowed) Check(c *core.Command) error {
	if a == nil {
		return core.Invalid("command", "", "commands are not allowed on this server: start the server with --commands-user "+
			"USER and --commands-dir DIR, or run the command as a handler of `tickring exec`")
	}
	if a.user(c) < 0 {
		names := make([]string, len(a.users))
		for i, u := range a.users {
			names[i] = u.name
		}
		list := strings.Join(names, ", ")
		if c.User == "" {
			return core.Invalid("command.user", "", "the default is the server's user %s, but commands cannot run as this user; allowed values: %s "+
				"(--commands-user)", a.own, list)
		}
		return core.Invalid("command.user", c.User, "commands cannot run as this user; allowed values: %s (--commands-user)", list)
	}
	if dir := cmp.Or(c.Dir, a.dirs[0]); !within(dir, a.dirs) {
		return core.Invalid("command.dir", c.Dir, "commands cannot start in this directory; allowed values: %s and their subdirectories "+
			"(--commands-dir)",
			strings.Join(a.dirs, ", "))
	}
	return nil
}

func (a *Allowed) user(c *core.Command) int {
	name := cmp.Or(c.User, a.own)
	return slices.IndexFunc(a.users, func(u account) bool { return u.name == name })
}

func within(dir string, of []string) bool {
	return slices.ContainsFunc(of, func(allowed string) bool {
		rel, err := filepath.Rel(allowed, dir)
		return err == nil && filepath.IsLocal(rel)
	})
}

// as holds the user and the directory of a command.
type as struct {
	account
	dir string
}

// begin is Check against the current disk: a link cannot leave an allowed directory.
func (a *Allowed) begin(c *core.Command) (as, error) {
	if err := a.Check(c); err != nil {
		return as{}, err
	}
	var real []string
	for _, dir := range a.dirs {
		if to, err := filepath.EvalSymlinks(dir); err == nil {
			real = append(real, to)
		}
	}
	dir := cmp.Or(c.Dir, a.dirs[0])
	to, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return as{}, fmt.Errorf("the command's directory cannot be entered: %w", err)
	}
	if !within(to, real) {
		return as{}, fmt.Errorf("the command's directory %s is %s: it is outside the directories of --commands-dir", dir, to)
	}
	return as{a.users[a.user(c)], to}, nil
}

// environment returns the environment of a command, as cron's. From the server's it takes only
// PATH and LANG.
func (a *as) environment(more map[string]string) []string {
	env := map[string]string{"PATH": cmp.Or(os.Getenv("PATH"), "/usr/local/bin:/usr/bin:/bin"),
		"HOME": a.home, "USER": a.name, "LOGNAME": a.name, "SHELL": "/bin/sh", "PWD": a.dir}
	if lang, is := os.LookupEnv("LANG"); is {
		env["LANG"] = lang
	}
	for name, value := range more {
		env[name] = value
	}
	out := make([]string, 0, len(env))
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}
