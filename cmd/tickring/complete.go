package main

import (
	"context"
	_ "embed"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

var (
	//go:embed completion/tickring.bash
	bashScript string
	//go:embed completion/tickring.zsh
	zshScript string
	//go:embed completion/tickring.fish
	fishScript string
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell that runs the script."`
}

func (c *completionCmd) Help() string {
	return `The script calls tickring whenever you press TAB. It completes commands, flags and values of flags. To complete names of ` +
		`jobs and ` +
		`apps, tickring asks the server that the command would use, and waits for at most one second.

    bash, in ~/.bashrc:                eval "$(tickring completion bash)"
    zsh, in ~/.zshrc after compinit:   eval "$(tickring completion zsh)"
    fish:  tickring completion fish > ~/.config/fish/completions/tickring.fish`
}

func (c *completionCmd) Run(e *Env) error {
	_, err := io.WriteString(e.Stdout, map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell])
	return err
}

// completeCmd is called by the shell scripts. It prints a line for each candidate for the last word, with a description after a
// tab, or ":" if a file name is expected.
type completeCmd struct {
	Shell string   `arg:"" enum:"bash,zsh,fish"`
	Words []string `arg:"" optional:"" passthrough:""`
}

// completeMost is the maximum number of names to list.
const completeMost = 200

// completeBytes are read of an answer: more than completePage jobs need.
const (
	completePage  = 100
	completeBytes = 8 << 20
)

// completeFor limits the wait after TAB. Tests on a busy machine set it higher.
var completeFor = time.Second

func (c *completeCmd) Run(e *Env) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if c.Shell == "bash" {
		words = joined(words)
	}
	var g grammar
	ctx, cancel := context.WithTimeout(e.Ctx, completeFor)
	defer cancel()
	asked := &Env{Globals: &g.Globals, Ctx: ctx, Stdin: e.Stdin, Stdout: io.Discard, Stderr: io.Discard, Getenv: e.Getenv, most: completeBytes}
	list := (&completer{e: asked, node: newParser(&g, io.Discard, io.Discard).Model.Node}).complete(words)
	for _, w := range list {
		line := w.text
		if c.Shell == "bash" {
			if _, value, ok := strings.Cut(line, "="); ok {
				line = value // its words end at a =
			}
		} else if w.means != "" {
			line += "\t" + oneLine(w.means)
		}
		e.printf("%s\n", line)
	}
	return nil
}

// joined are the words as they were before bash split them at each =.
func joined(words []string) (all []string) {
	for i, w := range words {
		last := len(all) - 1
		switch {
		case w == "=" && last >= 0 && strings.HasPrefix(all[last], "--"):
			all[last] += "="
		case i > 0 && words[i-1] == "=" && last >= 0 && strings.HasSuffix(all[last], "="):
			all[last] += w
		default:
			all = append(all, w)
		}
	}
	return all
}

type word struct{ text, means string }

// aFile requests file names, which shells complete themselves.
var aFile = []word{{":", ""}}

type completer struct {
	e    *Env
	node *kong.Node
	arg  int // of the command's values without a flag, the next one
}

// complete returns the candidates for the last of words.
func (c *completer) complete(words []string) []word {
	if len(words) == 0 {
		words = []string{""}
	}
	before, cur := words[:len(words)-1], words[len(words)-1]
	if len(before) > 0 && before[0] == "help" {
		before = before[1:]
	}
	var open *kong.Flag // a flag whose value comes
	for _, w := range before {
		switch {
		case open != nil:
			set(open, w)
			open = nil
		case w == "--":
			return aFile // of exec: a program
		case strings.HasPrefix(w, "-") && w != "-":
			name, value, has := strings.Cut(w, "=")
			if f := c.flag(name); f != nil && has {
				set(f, value)
			} else if f != nil && !f.IsBool() {
				open = f
			}
		default:
			c.step(w)
		}
	}
	name, value, has := strings.Cut(cur, "=")
	switch {
	case open != nil:
		return c.values(open.Value, "", cur)
	case strings.HasPrefix(cur, "--") && has:
		if f := c.flag(name); f != nil {
			return c.values(f.Value, name+"=", value)
		}
		return nil
	case strings.HasPrefix(cur, "-"):
		return begun(c.flags(true), "", cur)
	case c.arg < len(c.node.Positional):
		return c.values(c.node.Positional[c.arg], "", cur)
	case len(c.node.Children) > 0:
		var list []word
		for _, child := range c.node.Children {
			if !child.Hidden {
				list = append(list, word{child.Name, firstSentence(child.Help)})
			}
		}
		list = begun(list, "", cur)
		if d := c.node.DefaultCmd; d != nil && len(d.Positional) > 0 { // its name can be omitted
			list = append(list, c.values(d.Positional[0], "", cur)...)
		}
		return list
	}
	return begun(c.flags(false), "", cur)
}

// step continues after a command, or an argument.
func (c *completer) step(w string) {
	for _, child := range c.node.Children {
		if child.Name == w || slices.Contains(child.Aliases, w) {
			c.node, c.arg = child, 0
			return
		}
	}
	if c.arg < len(c.node.Positional) && !c.node.Positional[c.arg].IsCumulative() {
		c.arg++
	}
}

// flag is the one of that name that the command takes; nil if there is none.
func (c *completer) flag(name string) *kong.Flag {
	for _, f := range slices.Concat(c.node.AllFlags(true)...) {
		if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name || slices.Contains(f.Aliases, strings.TrimPrefix(name, "--")) {
			return f
		}
	}
	return nil
}

// set gives a flag the value that it has on the line, because some flags select the server.
func set(f *kong.Flag, value string) {
	if f.Target.Kind() == reflect.String {
		f.Target.SetString(value)
	}
}

// flags lists the flags of the command; also adds the global flags.
func (c *completer) flags(also bool) (list []word) {
	for _, f := range slices.Concat(c.node.AllFlags(true)...) {
		if also || slices.Contains(c.node.Flags, f) {
			list = append(list, word{"--" + f.Name, firstSentence(f.Help)})
		}
	}
	return list
}

func begun(list []word, before, cur string) []word {
	list = slices.DeleteFunc(list, func(w word) bool { return !strings.HasPrefix(w.text, cur) })
	for i := range list {
		list[i].text = before + list[i].text
	}
	return list
}

// policies holds the values of flags that the server validates; a server of another version can accept others.
var policies = map[string][]word{
	"route": wordsOf(core.Routes), "block": wordsOf(core.Blocks), "misfire": wordsOf(core.Misfires), "backoff": wordsOf(core.Backoffs),
}

func wordsOf[T ~string](list []T) (words []word) {
	for _, w := range list {
		words = append(words, word{string(w), ""})
	}
	return words
}

// values lists the candidates for the value of a flag or an argument.
func (c *completer) values(v *kong.Value, before, cur string) []word {
	if v.Enum != "" {
		return begun(wordsOf(v.EnumSlice()), before, cur)
	}
	if list := policies[v.Name]; v.Flag != nil && list != nil {
		return begun(slices.Clone(list), before, cur)
	}
	if v.Passthrough || v.Tag.Type == "path" {
		return aFile
	}
	var list []word
	for kind := range strings.SplitSeq(v.Tag.PlaceHolder, "|") {
		switch kind {
		case "FILE", "DIR":
			return aFile
		case "CONTEXT":
			all, _, _ := c.e.contexts()
			for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
				list = append(list, word{name, all.Contexts[name].where()})
			}
		case "APP", "CHANNEL", "JOB": // no error is printed, because the user is editing a line
			if e, err := c.e.connect(); err == nil {
				list = append(list, e.namesOf(kind, cur)...)
			}
		}
	}
	list = begun(list, before, cur)
	return list[:min(len(list), completeMost)]
}

// namesOf lists the names of objects on the server, without invalid ones, which a shell could execute.
func (e *conn) namesOf(kind, cur string) (list []word) {
	switch kind {
	case "APP":
		apps, _ := e.ListApps(e.Ctx)
		for _, a := range apps.Apps {
			if core.CheckAppName("", a.Name) == nil {
				list = append(list, word{a.Name, a.Title})
			}
		}
	case "CHANNEL":
		all, _ := e.ListChannels(e.Ctx)
		for _, ch := range all.Channels {
			if core.CheckChannelName("", ch.Name) == nil {
				list = append(list, word{ch.Name, strings.TrimSpace(ch.Kind + " " + ch.To)})
			}
		}
	default:
		return e.jobNames(cur)
	}
	return list
}

func (e *conn) jobNames(cur string) (list []word) {
	of := client.ListJobsParams{Limit: completePage}
	if app, name, ok := strings.Cut(cur, "/"); ok {
		of.App, of.Text = app, name
	}
	for len(list) < completeMost {
		page, err := e.ListJobs(e.Ctx, of)
		if err != nil {
			break
		}
		for _, j := range page.Jobs {
			ours := core.CheckAppName("", j.App) == nil && core.CheckName("", j.Name) == nil
			if name := j.App + "/" + j.Name; ours && strings.HasPrefix(name, cur) {
				list = append(list, word{name, scheduleText(&j)})
			}
		}
		if of.After = page.Next; of.After == 0 {
			break
		}
	}
	return list
}
