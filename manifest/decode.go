package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
)

type collector struct {
	errs     Errors
	warnings []*Error
	seen     map[string]bool
	last     bool // the last error makes further ones useless
}

// full reports whether enough errors are collected.
func (c *collector) full() bool { return c.last || len(c.errs) > 4*MaxErrors }

func (c *collector) add(e *Error) {
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	if text := e.Error(); !c.full() && !c.seen[text] {
		c.seen[text] = true
		c.errs = append(c.errs, e)
	}
}

// result is the errors in order, truncated.
func (c *collector) result() error {
	if len(c.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(c.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(c.errs) > MaxErrors {
		last := c.errs[MaxErrors-1]
		c.errs = append(c.errs[:MaxErrors:MaxErrors], &Error{File: last.File, Reason: core.Say("more errors exist: fix these first")})
	}
	return c.errs
}

// object is a map of a manifest in the form of the API's JSON. A wrong value is nil: its error is reported, and it takes no
// default.
type object = map[string]any

// place is where a value is: in the file, and under a key of the map that it was converted into.
type place struct {
	Pos
	in  object
	key string
}

// decoder converts the nodes of one document to plain values by the schema.
type decoder struct {
	file    string
	o       Options
	c       *collector
	places  map[string]place // of values, by their paths, such as jobs[3].schedule.cron
	stands  map[*ast.AliasNode]ast.Node
	aliases int             // number of aliases around the current node
	budget  int             // bytes to which aliases may still expand
	hidden  map[string]bool // paths of headers whose values were given by reference
}

// The maximum bytes that the aliases of a document expand to, also for a small one, and the size of a value without its path and
// text.
const (
	maxAliased      = 32 << 20
	maxAliasedSmall = 1 << 20
	valueBytes      = 128
)

// aliased returns the maximum bytes to which the aliases of a document may expand.
func (o *Options) aliased() int {
	if o.Small {
		return maxAliasedSmall
	}
	return maxAliased
}

// errorf reports an error, and returns nil, which stands for a wrong value.
func (d *decoder) errorf(p Pos, path, format string, args ...any) any {
	d.c.add(&Error{File: d.file, Line: p.Line, Column: p.Column, Path: path, Reason: core.Say(format, args...)})
	return nil
}

// errorfAt is errorf for the value at a path.
func (d *decoder) errorfAt(path, format string, args ...any) any {
	return d.errorf(d.places[path].Pos, path, format, args...)
}

func (d *decoder) warnf(p Pos, path, format string, args ...any) {
	d.c.warnings = append(d.c.warnings, &Error{File: d.file, Line: p.Line, Column: p.Column, Path: path, Reason: core.Say(format, args...)})
}

func (d *decoder) at(n ast.Node) Pos {
	p := posOf(n)
	return Pos{d.file, p.Line, max(p.Column, 1)}
}

// anchors resolves each alias of a document.
type anchors struct {
	names  map[string]ast.Node
	stands map[*ast.AliasNode]ast.Node
}

func (a *anchors) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AnchorNode:
		if n.Name != nil {
			a.names[n.Name.GetToken().Value] = n.Value
		}
	case *ast.AliasNode:
		if n.Value != nil {
			a.stands[n] = a.names[n.Value.GetToken().Value]
		}
	}
	return a
}

// value converts a node to a value; nil after an error.
func (d *decoder) value(n ast.Node, s *schema, path string) any {
	defer func(before int) { d.aliases = before }(d.aliases)
	for range 16 {
		at := d.at(n)
		d.places[path] = place{Pos: at}
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			if n = d.stands[x]; n == nil {
				name := "…" // may be a secret without quotes
				if !s.secret() && x.Value != nil {
					name = truncate(x.Value.GetToken().Value)
				}
				return d.errorf(at, path, "anchor &%s is not defined above this line: if this is a text that starts with *, use quotes", name)
			}
			d.aliases++
		case *ast.TagNode:
			tag := "!…"
			if !s.secret() {
				tag = truncate(x.Start.Value)
			}
			return d.errorf(at, path, "tags are not supported: remove %s", tag)
		case *ast.MappingValueNode:
			n = &ast.MappingNode{BaseNode: &ast.BaseNode{}, Start: x.Start, Values: []*ast.MappingValueNode{x}}
		default:
			if d.aliases > 0 {
				text, _ := scalar(n)
				if d.budget -= valueBytes + len(path) + len(text); d.budget < 0 {
					d.errorf(at, path, "the aliases in this file expand to more than %d MB: use fewer aliases, or several files", d.o.aliased()>>20)
					d.c.last = true
					return nil
				}
			}
			return d.fill(n, s, path, at)
		}
	}
	return d.errorfAt(path, "an alias cannot refer to itself")
}

func noun(n ast.Node) core.Text {
	switch n.Type() {
	case ast.NullType:
		return core.Say("value left empty")
	case ast.MappingType:
		return core.Say("map")
	case ast.SequenceType:
		return core.Say("list")
	case ast.BoolType:
		return core.Say("boolean")
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return core.Say("number")
	}
	return core.Say("text")
}

// describe returns the kind of a node, with its text if that is short.
func describe(n ast.Node) core.Text {
	switch n.Type() {
	case ast.NullType:
		return core.Say("empty")
	case ast.MappingType, ast.SequenceType:
		return core.Say("a %s", noun(n))
	case ast.StringType, ast.LiteralType:
		s, _ := scalar(n)
		return core.Say("%q", truncate(s))
	}
	return core.Say("the %s %s", noun(n), truncate(n.GetToken().Value))
}

func truncate(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

// scalar is the text of a text.
func scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		if v.Value == nil {
			return "", true
		}
		return v.Value.Value, true
	}
	return "", false
}

// fill converts a node that is not an alias to a value.
func (d *decoder) fill(n ast.Node, s *schema, path string, at Pos) any {
	switch n := n.(type) {
	case *ast.MappingNode:
		switch s.kind {
		case kObject, kEither:
			return d.object(n, s.fields(), path, at)
		case kTexts:
			if len(n.Values) > s.MaxEntries {
				return d.errorf(at, path, "%d entries; at most %d are allowed", len(n.Values), s.MaxEntries)
			}
			return d.object(n, s, path, at)
		case kSecret, kHeader:
			d.hidden[path] = true
			return d.secret(n, path, at)
		}
	case *ast.SequenceNode:
		switch s.kind {
		case kEither:
			return d.list(n, s.OneOf[1], path, at)
		case kList:
			return d.list(n, s, path, at)
		}
	case *ast.BoolNode:
		if s.kind == kBool {
			return n.Value
		}
	case *ast.IntegerNode:
		i, err := strconv.ParseInt(n.GetToken().Value, 10, 64)
		if s.kind == kInt && err == nil && i >= s.Minimum && i <= s.Maximum {
			return i
		}
	}
	text, isText := scalar(n)
	if number := n.Type() == ast.IntegerType || n.Type() == ast.FloatType; number && s.kind == kSpan {
		text, isText = n.GetToken().Value, true // the error names the unit
	}
	var why core.Text
	switch bare, ok := n.(*ast.StringNode); {
	case ok && bare.Token.Type == token.StringType && strings.Contains(text, ": "):
		why = core.Say("a text with a colon and a space needs quotes, or a comma is missing before the text")
	case s.Type != "string" || !isText:
		why = s.mismatch(n)
	default:
		why = s.problem(n, text)
	}
	if why.Code() != "" {
		return d.errorf(at, path, "%s", why)
	}
	if s.kind == kSecret && text != "" && text != core.AsStored {
		d.warnf(at, path, "the secret is in plain text: use {env: NAME}, {file: PATH} or {ssm: NAME} to keep the secret out of the file")
		d.known(text, path, at)
	}
	return text
}

// mismatch returns the message for a node of another type than a value of s.
func (s *schema) mismatch(n ast.Node) core.Text {
	if s.secret() {
		return core.Say("a %s; %s", noun(n), s.allowed())
	}
	if s.kind == kText {
		switch n.Type() {
		case ast.IntegerType, ast.FloatType, ast.BoolType, ast.InfinityType, ast.NanType:
			return core.Say("%s is not a text: use quotes: %q", describe(n), truncate(n.GetToken().Value))
		case ast.NullType:
			return core.Say("empty: write a text, or leave the field out")
		}
	}
	word, _ := scalar(n)
	return core.Say("%s; %s%s", describe(n), s.allowed(), core.XXLEquivalent(word))
}

// problem returns the message for a text that is not a value of s; the zero Text if it is one.
func (s *schema) problem(n ast.Node, text string) core.Text {
	fits := true
	switch s.kind {
	case kSpan:
		span, why := api.ReadDuration(text)
		switch {
		case why.Code() != "":
			return core.Say("%q: %s; %s%s", truncate(text), why, s.allowed(), core.XXLEquivalent(text))
		case span%time.Second != 0 || span < s.min || span > s.max:
			return core.Say("%s; %s%s", truncate(text), s.allowed(), core.XXLEquivalent(text))
		}
	case kSize:
		n, err := api.ParseSize(text)
		least, _ := api.ParseSize(s.MinSpan)
		most, _ := api.ParseSize(s.MaxSpan)
		fits = err == nil && n >= least && n <= most
	case kInstant:
		t, err := time.Parse(time.RFC3339, text)
		fits = err == nil && t.Nanosecond() == 0 && t.Unix() > 0
	case kMoment:
		_, noDate := time.Parse(time.DateOnly, text)
		_, noTime := time.Parse(time.RFC3339, text)
		fits = noDate == nil || noTime == nil
	case kWord:
		if why := s.Later[text]; why != "" {
			return core.Say("not supported: %s; %s", core.Phrase(why), s.allowed())
		}
		fits = slices.Contains(s.words, text)
	}
	if fits {
		return core.Text{}
	}
	return s.mismatch(n)
}

// list converts the items of a list. Channels, apps and jobs stay nodes: each is read separately later.
func (d *decoder) list(seq *ast.SequenceNode, s *schema, path string, at Pos) any {
	switch n := len(seq.Values); {
	case n < s.MinItems:
		return d.errorf(at, path, "the list is empty; %s", s.allowed())
	case s.MaxItems > 0 && n > s.MaxItems:
		return d.errorf(at, path, "%d entries; at most %d are allowed", n, s.MaxItems)
	case path == "channels" || path == "apps" || path == "jobs":
		return seq.Values
	}
	list := make([]any, 0, len(seq.Values))
	for i, n := range seq.Values {
		if d.c.full() {
			break
		}
		if n == nil {
			continue
		}
		list = append(list, d.value(n, s.Items, fmt.Sprintf("%s[%d]", path, i)))
	}
	return list
}

// object converts the fields of a map.
func (d *decoder) object(m *ast.MappingNode, s *schema, path string, at Pos) object {
	out := make(object, len(m.Values))
	keys := make(map[string]Pos, len(m.Values))
	for _, kv := range m.Values {
		if d.c.full() {
			break
		}
		key, ok := d.key(kv.Key, path, keys)
		if !ok {
			continue
		}
		below, field := join(path, key), s.Entries
		if s.kind == kObject {
			field = s.get(key)
			if why := s.Later[key]; why != "" { // whatever its value is
				d.errorf(keys[key], below, "not supported: %s; leave the field out", core.Phrase(why))
				continue
			}
		}
		if field == nil {
			d.errorf(keys[key], join(path, truncate(key)), "%s", s.unknown(key))
		} else if kv.Value != nil {
			if v := d.value(kv.Value, field, below); v != nil || s.kind == kObject {
				out[key] = v
			}
			d.places[below] = place{d.places[below].Pos, out, key}
		}
	}
	has := func(name string) bool { _, has := out[name]; return has }
	required := s.Required
	if len(s.One) > 0 && !slices.ContainsFunc(s.One, has) {
		required = append(slices.Clone(required), s.One[0])
	}
	for _, name := range required {
		if !has(name) {
			d.errorf(at, join(path, name), "required: %s", core.Phrase(s.get(name).Description))
		}
	}
	return out
}

func (d *decoder) key(n ast.MapKeyNode, path string, keys map[string]Pos) (string, bool) {
	at, key := d.at(n), ""
	switch k := n.(type) {
	case *ast.StringNode:
		key = k.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		key = k.GetToken().Value
	case *ast.MergeKeyNode:
		d.errorf(at, path, "merge keys (<<) are not supported: use defaults, or an alias in place of a whole value")
		return "", false
	default:
		d.errorf(at, path, "a key must be plain text")
		return "", false
	}
	if p, ok := keys[key]; ok {
		d.errorf(at, join(path, truncate(key)), "duplicate key: the key is already set at %d:%d", p.Line, p.Column)
		return "", false
	}
	keys[key] = at
	return key, true
}

// secret reads a reference. No message names the secret.
func (d *decoder) secret(m *ast.MappingNode, path string, at Pos) any {
	before := len(d.c.errs)
	where := d.object(m, component("ManifestSecret"), path, at)
	if len(d.c.errs) > before || d.c.full() {
		return nil
	}
	if len(where) != 1 {
		return d.errorf(at, path, "use exactly one of `env`, `file` and `ssm`; allowed values: %s", references)
	}
	for kind, name := range where {
		text, why := d.o.secret(kind, name.(string))
		if why.Code() == "" {
			d.known(text, path, at)
			return text
		}
		d.errorfAt(join(path, kind), "%s", why)
	}
	return nil
}

// secret returns the secret behind a reference, or why there is none.
func (o *Options) secret(kind, name string) (text string, why core.Text) {
	var err error
	most := core.MaxSecret
	switch {
	case kind == "env":
		if o.Getenv != nil {
			if text, ok := o.Getenv(name); ok {
				return text, why
			}
		}
		return "", core.Say("the environment variable %s is not set", truncate(name))
	case kind == "ssm" && o.Parameter == nil:
		return "", core.Say("SSM parameters are not supported here")
	case kind == "ssm":
		text, err = o.Parameter(name)
	case o.ReadFile == nil:
		return "", core.Say("file references are not supported here: only `tickring apply` reads files")
	default:
		var b []byte
		b, err = o.ReadFile(name)
		text, err, most = string(b), plain(err), core.MaxSecret+2 // with a line break
	}
	switch {
	case err != nil:
		return "", core.Say("%s: %v", truncate(name), err)
	case len(text) > most:
		return "", core.Say("%d bytes: a secret can have at most %d bytes", len(text), core.MaxSecret)
	case kind == "file":
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	return text, why
}

func (d *decoder) known(text, path string, at Pos) {
	if core.KnownToken(text) {
		d.warnf(at, path, "default_token is the default token of xxl-job, which is public: set a random token for the app and its executors")
	}
}

// said returns the message of a system error, without its wrapping.
func said(err error) core.Text { return core.Say("%v", plain(err)) }

// plain is an error without its wrapping.
func plain(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
