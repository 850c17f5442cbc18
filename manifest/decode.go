package manifest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/tickring/tickring/core"
)

// value is one value of a manifest, checked against its field.
type value struct {
	field     *field
	parent    *value
	key       string // of a map of texts
	index     int    // in a list
	line, col int
	text      string // kText, kMoment, kWord, kSecret
	num       int64  // kInt, kDuration, kInstant, kBool
	items     []*value
	fields    []*value // of an object, by the index of its table; nil is left out
	single    bool     // kOneOrList: not written as a list
	bad       bool     // an error was reported, so it does not count; an object: it lacks what is required
}

// get is a field of an object, nil where it is left out.
func (v *value) get(name string) *value {
	if v == nil || v.fields == nil {
		return nil
	}
	if i, ok := v.field.obj.index[name]; ok {
		return v.fields[i]
	}
	return nil
}

// path is such as jobs[3].schedule.cron.
func (v *value) path() string {
	switch {
	case v == nil || v.parent == nil:
		return ""
	case v.parent.field.kind == kOneOrList && v.parent.single && v.index == 0 && v.field.kind == kObject:
		return v.parent.path()
	case v.field.name == "" && v.key == "":
		return fmt.Sprintf("%s[%d]", v.parent.path(), v.index)
	}
	name := v.field.name
	if v.key != "" {
		name = v.key
	}
	return join(v.parent.path(), name)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// collector gathers errors, each once.
type collector struct {
	errs     Errors
	warnings []*Error
	seen     map[Error]bool
}

// full says that there are enough.
func (c *collector) full() bool { return len(c.errs) > 4*MaxErrors }

func (c *collector) add(e *Error) {
	if c.seen == nil {
		c.seen = map[Error]bool{}
	}
	if !c.full() && !c.seen[*e] {
		c.seen[*e] = true
		c.errs = append(c.errs, e)
	}
}

// result is the errors in order, cut.
func (c *collector) result() error {
	if len(c.errs) == 0 {
		return nil
	}
	c.errs.sort()
	if len(c.errs) > MaxErrors {
		last := c.errs[MaxErrors-1]
		c.errs = append(c.errs[:MaxErrors:MaxErrors], &Error{File: last.File, Message: "and more errors: mend these first"})
	}
	return c.errs
}

// decoder makes values of the nodes of one document.
type decoder struct {
	file    string
	o       Options
	c       *collector
	lines   int // before the piece that is read
	anchors map[string]anchor
	aliases int // that the node stands behind
	budget  int // of values that aliases may stand for
}

type anchor struct {
	node  ast.Node
	lines int
}

// maxAliased bounds how many values aliases may stand for.
const maxAliased = 1_000_000

func (d *decoder) errorf(line, col int, path, format string, args ...any) {
	d.c.add(&Error{File: d.file, Line: line, Column: col, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) at(n ast.Node) (line, col int) {
	p := posOf(n)
	return p.Line + d.lines, max(p.Column, 1)
}

// inside calls do with the node that a node stands for.
func (d *decoder) inside(n ast.Node, v *value, do func(ast.Node)) {
	for range 16 {
		switch x := n.(type) {
		case *ast.AnchorNode:
			if x.Name != nil {
				d.anchors[x.Name.GetToken().Value] = anchor{x.Value, d.lines}
			}
			n = x.Value
		case *ast.AliasNode:
			line, col := d.at(n)
			a, ok := anchor{}, false
			name := ""
			if x.Value != nil {
				name = x.Value.GetToken().Value
				a, ok = d.anchors[name]
			}
			if !ok {
				if v.field.kind == kSecret {
					name = "…" // may be a secret without quotes
				}
				d.errorf(line, col, v.path(), "no anchor &%s stands before this", cutText(name))
				return
			}
			lines := d.lines
			defer func() { d.lines = lines }()
			d.lines = a.lines
			n = a.node
			d.aliases++
			defer func() { d.aliases-- }()
		case *ast.TagNode:
			line, col := d.at(n)
			tag := x.Start.Value
			if v.field.kind == kSecret {
				tag = "!…"
			}
			d.errorf(line, col, v.path(), "tags are not supported; leave out %s", cutText(tag))
			return
		case *ast.MappingValueNode:
			n = &ast.MappingNode{BaseNode: &ast.BaseNode{}, Start: x.Start, Values: []*ast.MappingValueNode{x}}
		default:
			do(n)
			return
		}
	}
	line, col := d.at(n)
	d.errorf(line, col, v.path(), "an alias of itself")
}

// value makes the value of a field; nil after an error.
func (d *decoder) value(n ast.Node, v *value) (out *value) {
	d.inside(n, v, func(n ast.Node) {
		v.line, v.col = d.at(n)
		if d.aliases > 0 {
			if d.budget--; d.budget < 0 {
				d.errorf(v.line, v.col, v.path(), "the aliases of this file stand for more than %d values", maxAliased)
				return
			}
		}
		if d.fill(n, v) {
			out = v
		}
	})
	return out
}

func (d *decoder) wrong(n ast.Node, v *value, path string) bool {
	what := describe(n)
	if v.field.kind == kSecret || path != v.path() {
		what = "a " + noun(n)
	}
	d.errorf(v.line, v.col, path, "%s; %s", what, v.field.allowed())
	return false
}

func noun(n ast.Node) string {
	switch n.Type() {
	case ast.NullType:
		return "value left empty"
	case ast.MappingType:
		return "map"
	case ast.SequenceType:
		return "list"
	case ast.BoolType:
		return "boolean"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "number"
	}
	return "text"
}

// describe says what a node is, with its text if that is short.
func describe(n ast.Node) string {
	switch n.Type() {
	case ast.NullType:
		return "empty"
	case ast.MappingType, ast.SequenceType:
		return "a " + noun(n)
	case ast.StringType, ast.LiteralType:
		s, _ := scalar(n)
		return strconv.Quote(cutText(s))
	}
	return "the " + noun(n) + " " + cutText(n.GetToken().Value)
}

func cutText(s string) string {
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

// number is the text of a number as it was written.
func number(n ast.Node) (string, bool) {
	switch n.Type() {
	case ast.IntegerType, ast.FloatType:
		return n.GetToken().Value, true
	}
	return "", false
}

// fill makes v of a node; false after an error.
func (d *decoder) fill(n ast.Node, v *value) bool {
	f, path := v.field, v.path
	if f.refused() {
		d.errorf(v.line, v.col, path(), "not yet: %s; leave it out", f.later)
		return false
	}
	fail := func(format string, args ...any) bool {
		d.errorf(v.line, v.col, path(), format, args...)
		return false
	}
	s, isText := scalar(n)
	if bare, ok := n.(*ast.StringNode); ok && bare.Token.Type == token.StringType && strings.Contains(s, ": ") {
		return fail("a text with a colon and a space needs quotes; or a comma is missing before it")
	}
	switch f.kind {
	case kText:
		if !isText {
			switch n.Type() {
			case ast.IntegerType, ast.FloatType, ast.BoolType, ast.InfinityType, ast.NanType:
				return fail("%s is no text; write it in quotes: %q", describe(n), cutText(n.GetToken().Value))
			case ast.NullType:
				return fail("empty; write a text, or leave the field out")
			}
			return d.wrong(n, v, path())
		}
		v.text = s
	case kVersion:
		if text, ok := number(n); !ok || text != "1" {
			return d.wrong(n, v, path())
		}
		v.num = 1
	case kInt:
		text, ok := number(n)
		i, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil || i < f.min || i > f.max {
			return d.wrong(n, v, path())
		}
		v.num = i
	case kBool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return d.wrong(n, v, path())
		}
		if b.Value {
			v.num = 1
		}
		if f.later != "" && b.Value {
			return fail("not yet: %s; leave it out", f.later)
		}
	case kDuration:
		text, bare := number(n)
		if !bare && !isText {
			return d.wrong(n, v, path())
		}
		if !bare {
			text = s
		}
		dur, err := ParseDuration(text)
		if err != nil {
			return fail("%s: %v; %s", cutText(text), err, f.allowed())
		}
		if dur%time.Second != 0 || int64(dur) < f.min || int64(dur) > f.max {
			return fail("%s; %s", cutText(text), f.allowed())
		}
		v.num = int64(dur)
	case kInstant:
		t, err := time.Parse(time.RFC3339, s)
		if !isText || err != nil || t.Nanosecond() != 0 || t.Unix() <= 0 {
			return d.wrong(n, v, path())
		}
		v.num = t.Unix()
	case kMoment:
		if !isText {
			return d.wrong(n, v, path())
		}
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			if _, err := time.Parse(time.RFC3339, s); err != nil {
				return d.wrong(n, v, path())
			}
		}
		v.text = s
	case kWord:
		if !isText {
			return d.wrong(n, v, path())
		}
		return d.word(s, v)
	case kSecret:
		return d.secret(n, v)
	case kTexts:
		m, ok := n.(*ast.MappingNode)
		if !ok {
			return d.wrong(n, v, path())
		}
		return d.texts(m, v)
	case kList:
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			return d.wrong(n, v, path())
		}
		if f.min > 0 && len(seq.Values) == 0 {
			return fail("an empty list; %s", f.allowed())
		}
		return d.list(seq, v, f.item)
	case kObject:
		m, ok := n.(*ast.MappingNode)
		if !ok {
			return d.wrong(n, v, path())
		}
		return d.object(m, v)
	case kOneOrList:
		item := &field{kind: kObject, obj: f.obj, max: f.max}
		v.items = nil
		switch n := n.(type) {
		case *ast.MappingNode:
			v.single = true
			one := &value{field: item, parent: v, line: v.line, col: v.col}
			if one := d.value(n, one); one != nil {
				v.items = append(v.items, one)
			}
		case *ast.SequenceNode:
			return d.list(n, v, item)
		default:
			return d.wrong(n, v, path())
		}
	}
	return true
}

func (d *decoder) word(s string, v *value) bool {
	f := v.field
	for _, w := range f.words {
		if s == w {
			v.text = s
			return true
		}
	}
	for _, w := range f.notYet {
		if s == w {
			d.errorf(v.line, v.col, v.path(), "not yet: %s comes with a later version; %s", w, f.allowed())
			return false
		}
	}
	d.errorf(v.line, v.col, v.path(), "%q; %s", cutText(s), f.allowed())
	return false
}

// list makes the items of v.
func (d *decoder) list(seq *ast.SequenceNode, v *value, item *field) bool {
	if v.field.max > 0 && int64(len(seq.Values)) > v.field.max {
		d.errorf(v.line, v.col, v.path(), "%d entries, at most %d are allowed", len(seq.Values), v.field.max)
		return false
	}
	v.items = make([]*value, 0, len(seq.Values))
	for i, n := range seq.Values {
		if d.c.full() {
			break
		}
		if n == nil {
			continue
		}
		if one := d.value(n, &value{field: item, parent: v, index: i}); one != nil {
			v.items = append(v.items, one)
		}
	}
	return true
}

func (d *decoder) texts(m *ast.MappingNode, v *value) bool {
	if len(m.Values) > int(v.field.max) {
		d.errorf(v.line, v.col, v.path(), "%d entries, at most %d are allowed", len(m.Values), v.field.max)
		return false
	}
	first := map[string]Pos{}
	item := &field{kind: kText}
	for _, kv := range m.Values {
		key, ok := d.key(kv, v, first)
		if !ok {
			continue
		}
		if one := d.value(kv.Value, &value{field: item, parent: v, key: key}); one != nil {
			v.items = append(v.items, one)
		}
	}
	return true
}

// key reads a key, once.
func (d *decoder) key(kv *ast.MappingValueNode, in *value, first map[string]Pos) (string, bool) {
	line, col := d.at(kv.Key)
	var key string
	switch k := kv.Key.(type) {
	case *ast.StringNode:
		key = k.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		key = k.GetToken().Value
	case *ast.MergeKeyNode:
		d.errorf(line, col, in.path(), "merge keys (<<) are not supported; use defaults, or an alias in place of a whole value")
		return "", false
	default:
		d.errorf(line, col, in.path(), "a key is a plain text")
		return "", false
	}
	if p, ok := first[key]; ok {
		d.errorf(line, col, join(in.path(), cutText(key)), "duplicate key; it stands at %d:%d already", p.Line, p.Column)
		return "", false
	}
	first[key] = Pos{Line: line, Column: col}
	return key, true
}

func (d *decoder) object(m *ast.MappingNode, v *value) bool {
	v.fields = make([]*value, len(v.field.obj.fields))
	d.more(m, v, map[string]Pos{})
	d.required(v)
	return true
}

// more reads the fields of a map into v.
func (d *decoder) more(m *ast.MappingNode, v *value, first map[string]Pos) {
	o := v.field.obj
	for _, kv := range m.Values {
		if d.c.full() {
			return
		}
		key, ok := d.key(kv, v, first)
		if !ok {
			continue
		}
		i, ok := o.index[key]
		if !ok {
			line, col := d.at(kv.Key)
			d.errorf(line, col, join(v.path(), cutText(key)), "%s", o.unknown(key))
			continue
		}
		one := &value{field: o.fields[i], parent: v}
		if o.fields[i].refused() { // at its key, whatever its value is
			one.line, one.col = d.at(kv.Key)
			d.fill(nil, one)
			if j, ok := o.index[one.field.instead]; ok && v.fields[j] == nil {
				v.fields[j] = &value{field: o.fields[j], parent: v, bad: true}
			}
			continue
		}
		if kv.Value == nil {
			continue
		}
		if one = d.value(kv.Value, one); one == nil {
			one = &value{field: o.fields[i], parent: v, bad: true} // wrong, but not missing
		}
		v.fields[i] = one
	}
}

// required says what is missing, and drops what is wrong.
func (d *decoder) required(v *value) {
	for i, f := range v.field.obj.fields {
		one := v.fields[i]
		if one == nil && f.required {
			d.errorf(v.line, v.col, join(v.path(), f.name), "needed: %s", f.doc)
		}
		if (one == nil || one.bad) && f.required {
			v.bad = true
		}
		if one != nil && one.bad {
			v.fields[i] = nil
		}
	}
}

// secret reads a text, {env: NAME} or {file: PATH}. No message names the text.
func (d *decoder) secret(n ast.Node, v *value) bool {
	path := v.path()
	if s, ok := scalar(n); ok {
		if s != "" {
			d.c.warnings = append(d.c.warnings, &Error{File: d.file, Line: v.line, Column: v.col, Path: path,
				Message: "a secret is written out; {env: NAME} or {file: PATH} keeps it out of the file"})
		}
		v.text = s
		return true
	}
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return d.wrong(n, v, path)
	}
	v.fields = make([]*value, len(v.field.obj.fields))
	before := len(d.c.errs)
	d.more(m, v, map[string]Pos{})
	if len(d.c.errs) > before || d.c.full() {
		return false
	}
	env, file := v.get("env"), v.get("file")
	fail := func(at *value, format string, args ...any) bool {
		d.errorf(at.line, at.col, at.path(), format, args...)
		return false
	}
	switch {
	case (env == nil) == (file == nil):
		return fail(v, "one of env and file is needed; %s", v.field.allowed())
	case env != nil:
		s, ok := "", false
		if d.o.Getenv != nil {
			s, ok = d.o.Getenv(env.text)
		}
		if !ok {
			return fail(env, "the environment has no %s", cutText(env.text))
		}
		v.text = s
	default:
		if d.o.ReadFile == nil {
			return fail(file, "files cannot be read here")
		}
		b, err := d.o.ReadFile(file.text)
		switch {
		case err != nil:
			return fail(file, "%s: %v", cutText(file.text), plain(err))
		case len(b) > core.MaxToken+2:
			return fail(file, "%d bytes; a secret has at most %d", len(b), core.MaxToken)
		}
		v.text = strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	}
	return true
}

// plain is an error without its wrapping.
func plain(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// top reads the fields of the document itself.
func (d *decoder) top(t tree, root *value, seen map[string]Pos) {
	d.inside(t.body, root, func(n ast.Node) {
		m, ok := n.(*ast.MappingNode)
		if !ok {
			line, col := d.at(n)
			d.errorf(line, col, "", "%s; a manifest is a map that begins with version: 1", describe(n))
			for _, f := range root.field.obj.fields { // which are not missing then
				if f.required {
					root.fields[root.field.obj.index[f.name]] = &value{field: f, parent: root, bad: true}
				}
			}
			return
		}
		d.more(m, root, seen)
	})
}

// entries are the items of a piece of a list.
func (d *decoder) entries(n ast.Node, list *value) []ast.Node {
	if seq, ok := n.(*ast.SequenceNode); ok {
		return seq.Values
	}
	list.line, list.col = d.at(n)
	d.wrong(n, list, list.path())
	return nil
}
