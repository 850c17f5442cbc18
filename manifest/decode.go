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

// decoder converts the nodes of one document to plain values by the schema.
type decoder struct {
	file    string
	o       Options
	c       *collector
	places  map[string]Pos // of values, by their paths, such as jobs[3].schedule.cron
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

func (d *decoder) errorf(p Pos, path, format string, args ...any) {
	d.c.add(&Error{File: d.file, Line: p.Line, Column: p.Column, Path: path, Reason: core.Say(format, args...)})
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

// value converts a node to a value; false after an error.
func (d *decoder) value(n ast.Node, s *schema, path string) (any, bool) {
	defer func(before int) { d.aliases = before }(d.aliases)
	for range 16 {
		at := d.at(n)
		d.places[path] = at
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			if n = d.stands[x]; n == nil {
				name := "…" // may be a secret without quotes
				if !s.secret() && x.Value != nil {
					name = truncate(x.Value.GetToken().Value)
				}
				d.errorf(at, path, "anchor &%s is not defined above this line: if this is a text that starts with *, use quotes", name)
				return nil, false
			}
			d.aliases++
		case *ast.TagNode:
			tag := "!…"
			if !s.secret() {
				tag = truncate(x.Start.Value)
			}
			d.errorf(at, path, "tags are not supported: remove %s", tag)
			return nil, false
		case *ast.MappingValueNode:
			n = &ast.MappingNode{BaseNode: &ast.BaseNode{}, Start: x.Start, Values: []*ast.MappingValueNode{x}}
		default:
			if d.aliases > 0 {
				text, _ := scalar(n)
				if d.budget -= valueBytes + len(path) + len(text); d.budget < 0 {
					d.errorf(at, path, "the aliases in this file expand to more than %d MB: use fewer aliases, or several files", d.o.aliased()>>20)
					d.c.last = true
					return nil, false
				}
			}
			return d.fill(n, s, path, at)
		}
	}
	d.errorf(d.places[path], path, "an alias cannot refer to itself")
	return nil, false
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
func (d *decoder) fill(n ast.Node, s *schema, path string, at Pos) (any, bool) {
	fail := func(format string, args ...any) (any, bool) {
		d.errorf(at, path, format, args...)
		return nil, false
	}
	wrong := func() (any, bool) {
		if s.secret() {
			return fail("a %s; %s", noun(n), s.allowed())
		}
		word, _ := scalar(n)
		return fail("%s; %s%s", describe(n), s.allowed(), core.XXLEquivalent(word))
	}
	text, isText := scalar(n)
	if bare, ok := n.(*ast.StringNode); ok && bare.Token.Type == token.StringType && strings.Contains(text, ": ") {
		return fail("a text with a colon and a space needs quotes, or a comma is missing before the text")
	}
	number := ""
	if n.Type() == ast.IntegerType || n.Type() == ast.FloatType {
		number = n.GetToken().Value
	}
	m, isMap := n.(*ast.MappingNode)
	seq, isList := n.(*ast.SequenceNode)
	switch s.kind {
	case kObject:
		if isMap {
			return d.object(m, s, path, at), true
		}
	case kEither:
		if isMap {
			return d.fill(n, s.OneOf[0], path, at)
		} else if isList {
			return d.fill(n, s.OneOf[1], path, at)
		}
	case kList:
		if isList {
			return d.list(seq, s, path, at)
		}
	case kTexts:
		if isMap && len(m.Values) > s.MaxEntries {
			return fail("%d entries; at most %d are allowed", len(m.Values), s.MaxEntries)
		} else if isMap {
			return d.object(m, s, path, at), true
		}
	case kSecret:
		if isMap {
			return d.secret(m, path, at)
		}
		if text != "" && text != core.AsStored {
			d.warnf(at, path, "the secret is in plain text: use {env: NAME}, {file: PATH} or {ssm: NAME} to keep the secret out of the file")
			d.known(text, path, at)
		}
	case kHeader:
		if isMap {
			d.hidden[path] = true
			return d.secret(m, path, at)
		}
	case kSize:
		n, err := api.ParseSize(text)
		least, _ := api.ParseSize(s.MinSpan)
		most, _ := api.ParseSize(s.MaxSpan)
		isText = isText && err == nil && n >= least && n <= most
	case kVersion:
		if number == "1" {
			return 1, true
		}
		isText = false
	case kInt:
		if i, err := strconv.ParseInt(number, 10, 64); err == nil && i >= s.Minimum && i <= s.Maximum {
			return i, true
		}
		isText = false
	case kBool:
		if b, ok := n.(*ast.BoolNode); ok {
			if why := s.Later[strconv.FormatBool(b.Value)]; why != "" {
				return fail("not supported: %s; leave the field out", core.Phrase(why))
			}
			return b.Value, true
		}
		isText = false
	case kSpan:
		if number != "" {
			text, isText = number, true
		}
		if isText {
			span, why := api.ReadDuration(text)
			if why.Code() != "" {
				return fail("%q: %s; %s%s", truncate(text), why, s.allowed(), core.XXLEquivalent(text))
			}
			if span%time.Second != 0 || span < s.min || span > s.max {
				return fail("%s; %s%s", truncate(text), s.allowed(), core.XXLEquivalent(text))
			}
		}
	case kInstant:
		t, err := time.Parse(time.RFC3339, text)
		isText = isText && err == nil && t.Nanosecond() == 0 && t.Unix() > 0
	case kMoment:
		_, err := time.Parse(time.DateOnly, text)
		if err != nil {
			_, err = time.Parse(time.RFC3339, text)
		}
		isText = isText && err == nil
	case kWord:
		if why := s.Later[text]; why != "" {
			return fail("not supported: %s; %s", core.Phrase(why), s.allowed())
		}
		isText = isText && slices.Contains(s.words, text)
	case kText:
		switch n.Type() {
		case ast.IntegerType, ast.FloatType, ast.BoolType, ast.InfinityType, ast.NanType:
			return fail("%s is not a text: use quotes: %q", describe(n), truncate(n.GetToken().Value))
		case ast.NullType:
			return fail("empty: write a text, or leave the field out")
		}
	}
	if s.Type == "string" && isText {
		return text, true
	}
	return wrong()
}

// list converts the items of a list. Channels, apps and jobs stay nodes: each is read separately later.
func (d *decoder) list(seq *ast.SequenceNode, s *schema, path string, at Pos) (any, bool) {
	switch n := len(seq.Values); {
	case n < s.MinItems:
		d.errorf(at, path, "the list is empty; %s", s.allowed())
		return nil, false
	case s.MaxItems > 0 && n > s.MaxItems:
		d.errorf(at, path, "%d entries; at most %d are allowed", n, s.MaxItems)
		return nil, false
	case path == "channels" || path == "apps" || path == "jobs":
		return seq.Values, true
	}
	list := make([]any, 0, len(seq.Values))
	for i, n := range seq.Values {
		if d.c.full() {
			break
		}
		if n == nil {
			continue
		}
		v, _ := d.value(n, s.Items, fmt.Sprintf("%s[%d]", path, i))
		list = append(list, v)
	}
	return list, true
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
			if need := s.Instead[key]; need != "" && out[need] == nil {
				out[need] = nil // it is not missed
			}
			if why := s.Later[key]; why != "" { // whatever its value is
				d.errorf(keys[key], below, "not supported: %s; leave the field out", core.Phrase(why))
				continue
			}
		}
		if field == nil {
			d.errorf(keys[key], join(path, truncate(key)), "%s", s.unknown(key))
		} else if kv.Value != nil {
			v, ok := d.value(kv.Value, field, below)
			if ok || s.kind == kObject {
				out[key] = v
			}
		}
	}
	for _, name := range s.Required {
		if _, there := out[name]; !there {
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
func (d *decoder) secret(m *ast.MappingNode, path string, at Pos) (any, bool) {
	before := len(d.c.errs)
	where := d.object(m, component("ManifestSecret"), path, at)
	if len(d.c.errs) > before || d.c.full() {
		return nil, false
	}
	if len(where) != 1 {
		d.errorf(at, path, "use exactly one of `env`, `file` and `ssm`; allowed values: %s", references)
		return nil, false
	}
	for kind, name := range where {
		text, why := d.o.secret(kind, name.(string))
		if why.Code() == "" {
			d.known(text, path, at)
			return text, true
		}
		d.errorf(d.places[join(path, kind)], join(path, kind), "%s", why)
	}
	return nil, false
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
