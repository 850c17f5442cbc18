package fakeaws

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The two languages that dynamo uses: DynamoDB's expressions, whose names begin with # and
// values with :, and PartiQL with names in double quotes and values as ? or in single quotes.
// Both are parsed into one kind of tree; anything outside this grammar is rejected.

// operand is a name or a value, as written.
type operand struct {
	kind byte // '#' name, ':' value, '?' parameter, a single quote for a literal
	text string
	n    int // of a parameter
}

// cond is a condition.
type cond struct {
	op   string // and or = < <= > >= between in exists missing
	args []operand
	subs []*cond
}

// set is one assignment.
type set struct {
	name, value operand
}

// update holds the changes that a write makes to an item.
type update struct {
	sets    []set
	adds    []set
	removes []operand
}

// statement is one of PartiQL.
type statement struct {
	table  string
	insert []set // name and value
	update *update
	where  *cond
	params int
}

// unknown is an error of this package for unsupported input: no answer of DynamoDB.
type unknown struct{ text string }

func (e *unknown) Error() string { return e.text }

func strange(format string, args ...any) error { return &unknown{fmt.Sprintf(format, args...)} }

// token matches the next token of a text, or the space before it.
var token = regexp.MustCompile(`^(\s+|[#:]?\w+|"[^"]*"|'[^']*'|[<>]=|[=<>(),?{}:])`)

// lex splits a text into tokens.
func lex(text string) (list []string, err error) {
	for rest := text; rest != ""; {
		next := token.FindString(rest)
		if next == "" {
			return nil, strange("%q of %q", rest, text)
		}
		rest = rest[len(next):]
		if next = strings.TrimSpace(next); next != "" {
			list = append(list, next)
		}
	}
	return list, nil
}

// parser reads tokens. Its first error stays.
type parser struct {
	text   string
	tokens []string
	params int
	err    error
}

func parse(text string) *parser {
	tokens, err := lex(text)
	return &parser{text: text, tokens: tokens, err: err}
}

func (p *parser) fail(what string) {
	if p.err == nil {
		rest := strings.Join(p.tokens, " ")
		p.err = strange("%s expected at %q of %q", what, rest, p.text)
	}
	p.tokens = nil
}

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) next() string {
	t := p.peek()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

// accept consumes tokens if they come next; words in any case.
func (p *parser) accept(words ...string) bool {
	if len(p.tokens) < len(words) {
		return false
	}
	for i, w := range words {
		if !strings.EqualFold(p.tokens[i], w) {
			return false
		}
	}
	p.tokens = p.tokens[len(words):]
	return true
}

func (p *parser) expect(words ...string) {
	if !p.accept(words...) {
		p.fail(strings.Join(words, " "))
	}
}

func (p *parser) end() error {
	if len(p.tokens) > 0 {
		p.fail("the end")
	}
	return p.err
}

func (p *parser) operand() operand {
	t := p.next()
	switch {
	case t == "?":
		p.params++
		return operand{kind: '?', n: p.params - 1}
	case len(t) > 1 && t[0] == '#':
		return operand{kind: '#', text: t}
	case len(t) > 2 && t[0] == '"':
		return operand{kind: '"', text: t[1 : len(t)-1]}
	case len(t) > 1 && t[0] == '\'':
		return operand{kind: '\'', text: t[1 : len(t)-1]}
	case len(t) > 1 && t[0] == ':':
		return operand{kind: ':', text: t}
	}
	p.fail("a name or a value instead of " + t)
	return operand{}
}

func (o operand) isName() bool { return o.kind == '#' || o.kind == '"' }

func (p *parser) name() operand {
	o := p.operand()
	if !o.isName() {
		p.fail("a name")
	}
	return o
}

// value is no name: comparing two attributes is not in the grammar.
func (p *parser) value() operand {
	o := p.operand()
	if o.isName() {
		p.fail("a value")
	}
	return o
}

func (p *parser) or() *cond {
	c := p.and()
	for p.err == nil && p.accept("OR") {
		c = &cond{op: "or", subs: []*cond{c, p.and()}}
	}
	return c
}

func (p *parser) and() *cond {
	list := []*cond{p.term()}
	for p.err == nil && p.accept("AND") {
		list = append(list, p.term())
	}
	if len(list) == 1 {
		return list[0]
	}
	return &cond{op: "and", subs: list}
}

// term is a test, or a condition in parentheses.
func (p *parser) term() *cond {
	if p.accept("(") {
		c := p.or()
		p.expect(")")
		return c
	}
	return p.test()
}

func (p *parser) test() *cond {
	for _, f := range []struct{ name, op string }{{"attribute_exists", "exists"}, {"attribute_not_exists", "missing"}} {
		if p.accept(f.name, "(") {
			c := &cond{op: f.op, args: []operand{p.name()}}
			p.expect(")")
			return c
		}
	}
	name := p.name()
	switch {
	case p.accept("IS", "MISSING"):
		return &cond{op: "missing", args: []operand{name}}
	case p.accept("BETWEEN"):
		c := &cond{op: "between", args: []operand{name, p.value()}}
		p.expect("AND")
		c.args = append(c.args, p.value())
		return c
	case p.accept("IN", "("):
		c := &cond{op: "in", args: []operand{name, p.value()}}
		for p.err == nil && p.accept(",") {
			c.args = append(c.args, p.value())
		}
		p.expect(")")
		return c
	}
	for _, op := range []string{"=", "<", "<=", ">", ">="} {
		if p.accept(op) {
			return &cond{op: op, args: []operand{name, p.value()}}
		}
	}
	p.fail("a comparison")
	return &cond{}
}

// parseCond reads a condition, a filter or the condition of a key.
func parseCond(text string) (*cond, error) {
	p := parse(text)
	c := p.or()
	return c, p.end()
}

// parseUpdate reads an update expression.
func parseUpdate(text string) (*update, error) {
	p := parse(text)
	u := &update{}
	for seen := map[string]bool{}; p.err == nil && p.peek() != ""; {
		verb := strings.ToUpper(p.next())
		if seen[verb] {
			p.fail("one " + verb)
		}
		seen[verb] = true
		for more := true; more && p.err == nil; more = p.accept(",") {
			switch verb {
			case "SET":
				u.sets = append(u.sets, p.assignment())
			case "ADD":
				u.adds = append(u.adds, set{name: p.name(), value: p.value()})
			case "REMOVE":
				u.removes = append(u.removes, p.name())
			default:
				p.fail("SET, ADD or REMOVE")
			}
		}
	}
	return u, p.end()
}

func (p *parser) assignment() set {
	s := set{name: p.name()}
	p.expect("=")
	s.value = p.value()
	return s
}

// parseStatement reads one of PartiQL's writes.
func parseStatement(text string) (*statement, error) {
	p := parse(text)
	st := &statement{}
	table := func() string {
		o := p.operand()
		if o.kind != '"' {
			p.fail("a table in double quotes")
		}
		return o.text
	}
	switch {
	case p.accept("INSERT", "INTO"):
		st.table = table()
		p.expect("VALUE", "{")
		for more := true; more && p.err == nil; more = p.accept(",") {
			name := p.operand()
			if name.kind != '\'' {
				p.fail("a name in single quotes")
			}
			p.expect(":")
			st.insert = append(st.insert, set{name: operand{kind: '"', text: name.text}, value: p.value()})
		}
		p.expect("}")
	case p.accept("UPDATE"):
		st.table, st.update = table(), &update{}
		for p.err == nil {
			if p.accept("SET") {
				st.update.sets = append(st.update.sets, p.assignment())
			} else if p.accept("REMOVE") {
				st.update.removes = append(st.update.removes, p.name())
			} else {
				break
			}
		}
		p.expect("WHERE")
		st.where = p.or()
	default:
		p.fail("INSERT INTO or UPDATE")
	}
	st.params = p.params
	return st, p.end()
}

// env holds the values of the names and placeholders in a request.
type env struct {
	names  map[string]string
	values item
	params []types.AttributeValue
	used   map[string]bool
	err    error
}

func (e *env) name(o operand) string {
	if o.kind == '"' {
		return o.text
	}
	n, ok := e.names[o.text]
	if !ok && e.err == nil {
		e.err = invalid("An expression attribute name used in the document path is not defined; attribute name: %s", o.text)
	}
	e.use(o.text)
	return n
}

func (e *env) value(o operand) types.AttributeValue {
	switch o.kind {
	case '\'':
		return &types.AttributeValueMemberS{Value: o.text}
	case '?':
		if o.n < len(e.params) {
			return e.params[o.n]
		}
		if e.err == nil {
			e.err = invalid("Number of parameters in request and statement don't match.")
		}
		return nil
	}
	v, ok := e.values[o.text]
	if !ok && e.err == nil {
		e.err = invalid("An expression attribute value used in expression is not defined; attribute value: %s", o.text)
	}
	e.use(o.text)
	return v
}

func (e *env) use(text string) {
	if e.used == nil {
		e.used = map[string]bool{}
	}
	e.used[text] = true
}

// check resolves all expressions of a request once, whatever their values are, and rejects names and values that none uses.
func (e *env) check(c *cond, u *update) error {
	e.walk(c)
	var written []string
	if u != nil {
		for _, s := range slices.Concat(u.sets, u.adds) {
			written = append(written, e.name(s.name))
			e.value(s.value)
		}
		for _, o := range u.removes {
			written = append(written, e.name(o))
		}
	}
	if e.err != nil {
		return e.err
	}
	slices.Sort(written)
	for i := range written {
		if i > 0 && written[i] == written[i-1] {
			return invalid("Two document paths overlap with each other: %s", written[i])
		}
	}
	for n := range e.names {
		if !e.used[n] {
			return invalid("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", n)
		}
	}
	for n := range e.values {
		if !e.used[n] {
			return invalid("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", n)
		}
	}
	return whole(e.values)
}

func (e *env) walk(c *cond) {
	if c == nil {
		return
	}
	for _, s := range c.subs {
		e.walk(s)
	}
	for _, o := range c.args {
		if o.isName() {
			e.name(o)
		} else {
			e.value(o)
		}
	}
}

// holds evaluates a condition on an item; a missing item has no attributes.
func (e *env) holds(c *cond, it item) bool {
	if c == nil {
		return true
	}
	switch c.op {
	case "and":
		for _, s := range c.subs {
			if !e.holds(s, it) {
				return false
			}
		}
		return true
	case "or":
		return e.holds(c.subs[0], it) || e.holds(c.subs[1], it)
	}
	v := it[e.name(c.args[0])]
	switch c.op {
	case "missing":
		return v == nil
	case "exists":
		return v != nil
	}
	if v == nil {
		return false // a comparison with a missing attribute
	}
	arg := e.value(c.args[1])
	before, after := less(v, arg), less(arg, v)
	switch c.op {
	case "=":
		return equal(v, arg)
	case "<":
		return before
	case ">":
		return after
	case "<=":
		return before || equal(v, arg)
	case ">=":
		return after || equal(v, arg)
	case "between":
		return (after || equal(v, arg)) && !less(e.value(c.args[2]), v)
	case "in":
		return slices.ContainsFunc(c.args[1:], func(o operand) bool { return equal(v, e.value(o)) })
	}
	panic("a condition that was parsed: " + c.op)
}

// apply makes the item that an update makes of one.
func (e *env) apply(u *update, it item) (item, error) {
	out := item{}
	for n, v := range it {
		out[n] = v
	}
	for _, s := range u.sets {
		out[e.name(s.name)] = e.value(s.value)
	}
	for _, s := range u.adds {
		n := e.name(s.name)
		by, ok := e.value(s.value).(*types.AttributeValueMemberN)
		if !ok {
			return nil, strange("ADD of %T", e.value(s.value))
		}
		was := int64(0)
		if it[n] != nil {
			v, ok := it[n].(*types.AttributeValueMemberN)
			if !ok {
				return nil, invalid("An operand in the update expression has an incorrect data type")
			}
			was = intOf(v)
		}
		out[n] = &types.AttributeValueMemberN{Value: fmt.Sprint(was + intOf(by))}
	}
	for _, o := range u.removes {
		delete(out, e.name(o))
	}
	return out, e.err
}
