package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/server"
)

type contextCmd struct {
	Set    contextSetCmd    `cmd:"" help:"Save a server and its token under a name."`
	Use    contextUseCmd    `cmd:"" help:"Select the saved server that commands use by default."`
	List   contextListCmd   `cmd:"" help:"List the saved servers and mark the server in use."`
	Remove contextRemoveCmd `cmd:"" help:"Remove a saved server."`
}

func (c *contextCmd) Help() string {
	return `A command uses the server that its flags select (--context, --endpoint, --stack, --data). Without these flags, the ` +
		`environment selects the server (TICKRING_CONTEXT, ` +
		`TICKRING_ENDPOINT, TICKRING_STACK, TICKRING_DATA), else the context in use, else the command uses the server on this machine. ` +
		`Contexts are stored in ` +
		`tickring/contexts.yaml in your configuration directory, readable only by you (0600).`
}

type contexts struct {
	Use      string            `yaml:"use,omitempty"`
	Contexts map[string]target `yaml:"contexts,omitempty"`
}

// target is one server: at a URL with a token, or a stack on AWS, which has its own.
type target struct {
	Endpoint  string `yaml:"endpoint,omitempty" json:"endpoint,omitempty"`
	Token     string `yaml:"token,omitempty" json:"-"`
	TokenFile string `yaml:"tokenFile,omitempty" json:"tokenFile,omitempty"`
	Stack     string `yaml:"stack,omitempty" json:"stack,omitempty"`
	Region    string `yaml:"region,omitempty" json:"region,omitempty"`
	Profile   string `yaml:"profile,omitempty" json:"profile,omitempty"`
}

func (p target) where() string {
	if p.Stack == "" {
		return p.Endpoint
	}
	text := "stack " + p.Stack
	if p.Region != "" {
		text += " in " + p.Region
	}
	return text
}

func (p target) tokenText() string {
	switch {
	case p.Stack != "":
		return "the stack's"
	case p.Token != "":
		return "in contexts.yaml"
	case p.TokenFile != "":
		return p.TokenFile
	}
	return "the token in the data directory"
}

var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

type contextSetCmd struct {
	Name      string `arg:"" placeholder:"CONTEXT" help:"Context name: letters, digits, - . and _."`
	TokenFile string `placeholder:"FILE" type:"path" help:"File with the token; each command reads the file (default: for a server on this machine, the token in its data directory). With --token, the token itself is stored in contexts.yaml."`
}

func (c *contextSetCmd) Help() string {
	return `Examples:

    tickring context set prod --endpoint https://tickring.example.com --token-file FILE
    tickring context set cloud --stack Tickring --region eu-central-1`
}

func (c *contextSetCmd) Run(e *Env) error {
	p := target{Endpoint: e.Endpoint, Token: e.Token, TokenFile: c.TokenFile, Stack: e.Stack, Region: e.Region, Profile: e.Profile}
	switch {
	case !contextName.MatchString(c.Name):
		return usagef("%q: not a context name: at most 63 letters, digits, - . and _", c.Name)
	case e.Data != "" || e.Context != "" || (p.Endpoint == "") == (p.Stack == ""):
		return usagef("set either --endpoint URL or --stack NAME")
	case p.Stack != "" && (p.Token != "" || p.TokenFile != ""):
		return usagef("--stack reads its token with your AWS credentials: leave out --token and --token-file")
	case p.Token != "" && p.TokenFile != "":
		return usagef("--token and --token-file: set only one of them")
	case p.Endpoint != "" && (p.Region != "" || p.Profile != ""):
		return usagef("--region and --profile require --stack")
	}
	if p.Endpoint != "" {
		if _, err := client.New(p.Endpoint, "none", client.Config{}); err != nil {
			return usagef("%w", err)
		}
	}
	all, path, err := e.contexts()
	if err != nil {
		return err
	}
	if all.Contexts == nil {
		all.Contexts = map[string]target{}
	}
	all.Contexts[c.Name] = p
	if err := all.write(path); err != nil {
		return err
	}
	if p.TokenFile != "" {
		if _, err := e.tokenIn(p.TokenFile); err != nil {
			e.notef("warning: %v\n", err)
		}
	}
	hint := ""
	if all.Use != c.Name {
		hint = "   for one command: --context " + c.Name + "   for all: tickring context use " + c.Name
	}
	e.printf("context %s: %s   token: %s%s\n", c.Name, p.where(), p.tokenText(), hint)
	return nil
}

type contextUseCmd struct {
	Name string `arg:"" optional:"" placeholder:"CONTEXT" help:"Context name."`
	None bool   `help:"Use the server on this machine by default."`
}

func (c *contextUseCmd) Run(e *Env) error {
	if (c.Name == "") != c.None {
		return usagef("name a context, or use --none")
	}
	all, path, err := e.contexts()
	if err != nil {
		return err
	}
	p, err := all.get(c.Name)
	if err != nil && !c.None {
		return err
	}
	all.Use = c.Name
	if err := all.write(path); err != nil {
		return err
	}
	if c.None {
		e.printf("no context in use: commands use the server on this machine\n")
	} else {
		e.printf("commands use %s: %s   to stop: tickring context use --none\n", c.Name, p.where())
	}
	e.sayBeaten()
	return nil
}

func (e *Env) sayBeaten() {
	for _, name := range elsewhere {
		if e.env(name) != "" {
			e.notef("note: %s is set and takes precedence over the context in use\n", name)
		}
	}
}

type contextListCmd struct{}

func (c *contextListCmd) Run(e *Env) error {
	all, path, err := e.contexts()
	if err != nil {
		return err
	}
	type named struct {
		Name  string `json:"name"`
		InUse bool   `json:"inUse"`
		target
	}
	list, rows := []named{}, [][]string{{"CONTEXT", "SERVER", "TOKEN", ""}}
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		p, used := all.Contexts[name], ""
		if name == all.Use {
			used = "in use"
		}
		list, rows = append(list, named{name, name == all.Use, p}), append(rows, []string{name, p.where(), p.tokenText(), used})
	}
	none := fmt.Sprintf("no contexts in %s   to create one: tickring context set NAME --endpoint URL --token-file FILE", path)
	if err = e.list(list, nil, none, rows); all.Use != "" && !e.json() {
		e.sayBeaten()
	}
	return err
}

type contextRemoveCmd struct {
	Name string `arg:"" placeholder:"CONTEXT" help:"Context name."`
}

func (c *contextRemoveCmd) Run(e *Env) error {
	all, path, err := e.contexts()
	if err != nil {
		return err
	}
	if _, err := all.get(c.Name); err != nil {
		return err
	}
	delete(all.Contexts, c.Name)
	used := all.Use == c.Name
	if used {
		all.Use = ""
	}
	if err := all.write(path); err != nil {
		return err
	}
	e.printf("removed context %s\n", c.Name)
	if used {
		e.printf("the context was in use: commands use the server on this machine from now on\n")
	}
	return nil
}

// contextsPath is the file of the names; empty where the user has no folder for it.
func (e *Env) contextsPath() string {
	dir := e.userDir("AppData", "XDG_CONFIG_HOME", ".config")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "contexts.yaml")
}

// contexts reads the names; there are none where there is no file.
func (e *Env) contexts() (all contexts, path string, err error) {
	if path = e.contextsPath(); path == "" {
		return all, "", errors.New("the home directory for contexts is unknown: set HOME")
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, path, nil
	}
	if err != nil {
		return all, path, fmt.Errorf("read the contexts: %w", err)
	}
	e.warnWide(path)
	if err := yaml.UnmarshalWithOptions(data, &all, yaml.DisallowUnknownField()); err != nil {
		// The text of the file, which the error would show, can contain a token.
		return all, path, usagef("%s: not a valid contexts file%s: fix or delete it", path, yamlPlace(err))
	}
	return all, path, nil
}

func yamlPlace(err error) string {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		return fmt.Sprintf(", line %d: %s", e.GetToken().Position.Line, oneLine(e.GetMessage()))
	}
	return ""
}

// warnWide warns if other users can access a file that holds a secret.
func (e *Env) warnWide(path string) {
	if info, err := os.Stat(path); err == nil && server.ReadableByOthers(info) {
		e.notef("warning: other users of this machine can read or change %s: chmod go= %s\n", path, path)
	}
}

func (c *contexts) get(name string) (target, error) {
	p, ok := c.Contexts[name]
	if !ok {
		return p, &exitError{exitNotFound, fmt.Errorf("context %s does not exist%s: tickring context list", name,
			didYouMean("", name, slices.Sorted(maps.Keys(c.Contexts))))}
	}
	return p, nil
}

// write puts the names into their file, whole or not at all, for its owner alone.
func (c *contexts) write(path string) error {
	data, err := yaml.Marshal(c)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = secretbox.WriteFile(path, string(data))
	}
	if err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return nil
}

func (e *Env) tokenIn(path string) (string, error) {
	e.warnWide(path)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("%s contains no token", path)
	}
	return text, nil
}

// elsewhere lists the variables that locate a server outside of contexts.
var elsewhere = []string{"TICKRING_ENDPOINT", "TICKRING_STACK", "TICKRING_DATA"}

// useContext sets the flags from the selected context, unless another flag or variable locates the server.
func (e *Env) useContext() error {
	if e.context != "" {
		return nil
	}
	name := e.Context
	for _, other := range []struct{ flag, value string }{{"--endpoint", e.Endpoint}, {"--stack", e.Stack}, {"--data", e.Data}} {
		switch {
		case other.value == "":
		case name != "":
			return usagef("--context and %s: each selects a server: set only one of them", other.flag)
		default:
			return nil
		}
	}
	if name == "" {
		name = e.env("TICKRING_CONTEXT")
		for _, other := range elsewhere {
			switch {
			case e.env(other) == "":
			case name == "":
				return nil
			case other != "TICKRING_DATA": // which is also where this machine's own files are
				return usagef("TICKRING_CONTEXT and %s: each selects a server: unset one of them, or use --context", other)
			}
		}
	}
	all, _, err := e.contexts()
	if err != nil {
		if name == "" && e.contextsPath() == "" {
			return nil
		}
		return err
	}
	if name = cmp.Or(name, all.Use); name == "" {
		return nil
	}
	p, err := all.get(name)
	if err != nil {
		return err
	}
	e.context, e.target = name, p
	e.Endpoint, e.Stack, e.Region, e.Profile = p.Endpoint, p.Stack, cmp.Or(e.Region, p.Region), cmp.Or(e.Profile, p.Profile)
	return nil
}

// contextToken returns the token of the context's server. No other token is sent there, not even the one in the environment.
func (e *Env) contextToken() (secret, error) {
	from := "context " + e.context
	switch {
	case e.Token != "":
		return secret{e.Token, "--token"}, nil
	case e.target.Token != "":
		return secret{e.target.Token, from}, nil
	case e.target.TokenFile != "":
		text, err := e.tokenIn(e.target.TokenFile)
		if err != nil {
			err = fmt.Errorf("%s: %w", from, err)
		}
		return secret{text, from + " (" + e.target.TokenFile + ")"}, err
	}
	return e.tokenOf(e.Endpoint), nil
}

// on returns the context in use, as a suffix after the name of its server.
func (e *Env) on() string {
	if e.context == "" {
		return ""
	}
	return " (context " + e.context + ")"
}

// at names the server that is meant by a context, for questions.
func (e *Env) at() string {
	if e.context == "" {
		return ""
	}
	return fmt.Sprintf(" on %s (%s)", e.context, e.target.where())
}

// sayWhere prints the server behind a context before an operation that is hard to undo.
func (e *Env) sayWhere() {
	if e.context != "" {
		e.notef("context %s: %s\n", e.context, e.target.where())
	}
}
