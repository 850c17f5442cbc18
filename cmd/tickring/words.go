package main

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// The parser describes errors as text only; its model holds the flag or argument they concern.
var (
	noFlag    = regexp.MustCompile(`^unknown flag (--?[^ ,]+)`)
	noWord    = regexp.MustCompile(`^unexpected (?:argument|flag argument|token) (.*?)(?:, did you mean .*)?$`)
	tooFew    = regexp.MustCompile(`^(?:missing flags: |missing positional arguments |expected (?:one of )?["<])`)
	notOf     = regexp.MustCompile(`^(--[^ ]+|<[^>]+>)(?: \.\.\.)? must be one of .* but got "(.*)"$`)
	badValue  = regexp.MustCompile(`^\[?(--[^ :]+|<[^>]+>)\]?(?:=[^:]*)?: `)
	badText   = regexp.MustCompile(` (?:got|value) "((?:[^"\\]|\\.)*)"`)
	notBoth   = regexp.MustCompile(`^(--[^ ]+) and (--[^ ]+) can't be used together$`)
	onlyBoth  = regexp.MustCompile(`^(--[^ ]+) and (--[^ ]+) must be used together$`)
	otherWord = map[string]string{ // names of commands in other programs
		"list": "get", "ls": "get", "jobs": "get", "show": "describe", "inspect": "describe", "add": "create", "new": "create",
		"rm": "delete", "remove": "delete", "status": "doctor", "check": "doctor", "history": "runs", "ps": "runs",
		"suspend": "pause", "disable": "pause", "enable": "resume", "unpause": "resume", "fire": "trigger", "cancel": "kill",
		"next": "upcoming", "server": "serve", "daemon": "serve", "rollback": "changes", "workers": "executors",
	}
	otherFlag = map[string]string{ // names of flags in other programs
		"serve --port": "use --listen 127.0.0.1:PORT", "serve -p": "use --listen 127.0.0.1:PORT",
		"serve --host": "use --listen HOST:7700", "serve --bind": "use --listen HOST:7700",
	}
)

// wrongLine explains an error in a command line: the place, the allowed values, and a likely correction.
func wrongLine(p *kong.ParseError) string {
	text, node := p.Error(), nodeOf(p)
	if m := noFlag.FindStringSubmatch(text); m != nil {
		return noFlagWords(p.Context, node, m[1])
	}
	if m := noWord.FindStringSubmatch(text); m != nil {
		return noWordWords(node, m[1])
	}
	if tooFew.MatchString(text) {
		return needs(node)
	}
	if m := notOf.FindStringSubmatch(text); m != nil {
		if v := valueOf(p.Context, node, m[1]); v != nil {
			return fmt.Sprintf("%s: %q: allowed values: %s", called(v), m[2], strings.Join(v.EnumSlice(), ", ")) +
				didYouMean("", m[2], v.EnumSlice())
		}
	}
	if m := badValue.FindStringSubmatch(text); m != nil {
		if v := valueOf(p.Context, node, m[1]); v != nil {
			return badValueWords(v, called(v), text)
		}
	}
	if m := notBoth.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s and %s: set only one of them", m[1], m[2])
	}
	if m := onlyBoth.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s and %s: set both or none", m[1], m[2])
	}
	return text
}

// nodeOf is the command that a line means, or the program.
func nodeOf(p *kong.ParseError) *kong.Node {
	if n := p.Context.Selected(); n != nil {
		return n
	}
	return p.Context.Model.Node
}

// commandPath returns a command as written after the program's name.
func commandPath(n *kong.Node) string {
	var path []string
	for ; n != nil && n.Type == kong.CommandNode; n = n.Parent {
		path = append([]string{n.Name}, path...)
	}
	return strings.Join(path, " ")
}

func commands(n *kong.Node) (names []string) {
	for _, child := range n.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

func noWordWords(node *kong.Node, word string) string {
	if names := commands(node); len(names) > 0 {
		what := strings.TrimSpace(commandPath(node) + " " + word)
		text := fmt.Sprintf("command %s does not exist", what)
		if other := otherWord[word]; other != "" && node.Parent == nil {
			return text + ": the tickring command is " + other
		}
		if hint := didYouMean("", word, names); hint != "" {
			return text + hint
		}
		return text + ": allowed commands: " + strings.Join(names, ", ")
	}
	var takes []string
	for _, v := range node.Positional {
		takes = append(takes, placeholder(v))
	}
	for _, f := range node.Flags {
		if f.Required && f.Short != 0 {
			return fmt.Sprintf("set a %s with -%c: tickring %s -%c %s", strings.ToLower(f.Name), f.Short, commandPath(node), f.Short, word)
		}
	}
	if len(takes) == 0 {
		return fmt.Sprintf("%s takes no arguments, only flags: remove %q", commandPath(node), word)
	}
	return fmt.Sprintf("%s takes only %s: remove %q", commandPath(node), strings.Join(takes, " "), word)
}

func noFlagWords(c *kong.Context, node *kong.Node, flag string) string {
	var all, own []string
	for _, f := range c.Flags() {
		if f.Hidden {
			continue
		}
		all = append(append(all, f.Name), f.Aliases...)
	}
	for _, f := range node.Flags {
		if !f.Hidden && f.Name != "help" {
			own = append(own, "--"+f.Name)
		}
	}
	hint := didYouMean("--", strings.TrimLeft(flag, "-"), all)
	path := commandPath(node)
	if path == "" {
		var has []string
		for _, child := range node.Children {
			for _, f := range child.Flags {
				if "--"+f.Name == flag && !child.Hidden {
					has = append(has, child.Name)
				}
			}
		}
		if len(has) > 0 {
			return fmt.Sprintf("flag %s must come after its command: %s", flag, strings.Join(has, ", "))
		}
		return fmt.Sprintf("flag %s does not exist%s", flag, hint)
	}
	text := fmt.Sprintf("%s has no flag %s", path, flag)
	if other := otherFlag[path+" "+flag]; other != "" {
		return text + ": " + other
	}
	if path == "edit" {
		return text + ": the command opens the job in your editor. Without an editor: tickring get JOB -o yaml >job.yaml, change a field, " +
			"tickring " +
			"apply -f job.yaml; for one run: tickring trigger JOB --params TEXT"
	}
	switch {
	case hint != "":
		return text + hint
	case len(own) == 0:
		return text + ": the command has only the flags of all commands"
	}
	return text + ": allowed flags: " + strings.Join(own, ", ")
}

// needs lists the missing flags and arguments of a command line.
func needs(node *kong.Node) string {
	path := commandPath(node)
	if names := commands(node); len(names) > 0 {
		return fmt.Sprintf("%s requires a command: %s", cmp.Or(path, "tickring"), strings.Join(names, ", "))
	}
	var missing, help []string
	for _, f := range node.Flags {
		if f.Required && !f.Set {
			missing, help = append(missing, "--"+f.Name+" "+placeholder(f.Value)), append(help, f.Help)
		}
	}
	for _, v := range node.Positional {
		if v.Required && !v.Set {
			missing, help = append(missing, placeholder(v)), append(help, v.Help)
		}
	}
	text := path + " requires " + strings.Join(missing, ", ")
	if len(help) == 1 {
		text += ": " + firstSentence(help[0])
	}
	return text
}

// badValueWords is of a value that is none of its kind, or is not there.
func badValueWords(v *kong.Value, name, text string) string {
	got := ""
	if m := badText.FindStringSubmatch(text); m != nil {
		got = m[1]
	}
	switch {
	case strings.Contains(text, ": missing value") || strings.HasSuffix(text, "(<EOL>)"):
		return fmt.Sprintf("%s requires a value, as in %s %s: %s", name, name, placeholder(v), firstSentence(v.Help))
	case strings.Contains(text, " flag); perhaps try "):
		return fmt.Sprintf("%s requires a value, as in %s %s, but the next argument %s is a flag: add the value, or write %s=%s if this is "+
			"the value", name, name, placeholder(v), got, name, got)
	}
	kind := v.Target.Type()
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	allowed := "allowed values: " + placeholder(v)
	switch {
	case kind == reflect.TypeFor[time.Duration]():
		allowed = "allowed values: durations such as 30s, 10m and 1h30m"
	case kind.Kind() == reflect.Bool:
		allowed = "allowed values: true and false"
	case kind.Kind() >= reflect.Int && kind.Kind() <= reflect.Uint64:
		allowed = "allowed values: whole numbers"
	}
	return fmt.Sprintf("%s: %q: %s", name, got, allowed)
}

func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}

// placeholder returns the text that stands for a value in help.
func placeholder(v *kong.Value) string {
	if v.Tag.PlaceHolder != "" {
		return v.Tag.PlaceHolder
	}
	if v.HasDefault {
		return v.Default
	}
	return strings.ToUpper(v.Name)
}

// called returns the name of a value: its flag or its placeholder.
func called(v *kong.Value) string {
	if v.Flag != nil {
		return "--" + v.Name
	}
	return placeholder(v)
}

// valueOf is the flag, or the value without a flag, of that name.
func valueOf(c *kong.Context, node *kong.Node, name string) *kong.Value {
	for _, f := range c.Flags() {
		if "--"+f.Name == name {
			return f.Value
		}
	}
	for _, v := range node.Positional {
		if "<"+v.Name+">" == name {
			return v
		}
	}
	return nil
}

// didYouMean asks for the name that a word may be meant to be, if there is one.
func didYouMean(dashes, word string, names []string) string {
	if name := meant(word, names); name != "" {
		return ", did you mean " + dashes + name + "?"
	}
	return ""
}

// meant is the one of the names that begins as the word does, or is the nearest;
// empty if there is none.
func meant(word string, names []string) string {
	var begins []string
	for _, name := range names {
		if strings.HasPrefix(name, word) && len(word) > 1 {
			begins = append(begins, name)
		}
	}
	name := nearest(word, names)
	if len(begins) == 1 {
		name = begins[0]
	}
	return name
}
