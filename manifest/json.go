package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// jsonText makes the nodes of the YAML library of valid JSON: several times as fast
// as the library, and for a fleet that is seconds.
type jsonText struct {
	text         string
	dec          *json.Decoder
	at           int // end of the last token
	seen         int // offset of the byte at line and column
	line, column int
}

// token is the next token, and where it begins.
func (j *jsonText) token() (json.Token, *token.Token) {
	j.at += len(j.text[j.at:]) - len(strings.TrimLeft(j.text[j.at:], " \t\r\n,:"))
	passed := j.text[j.seen:j.at]
	if i := strings.LastIndexByte(passed, '\n'); i >= 0 {
		j.line, j.column, passed = j.line+strings.Count(passed, "\n"), 1, passed[i+1:]
	}
	j.column += utf8.RuneCountInString(passed)
	j.seen = j.at
	t, _ := j.dec.Token()
	j.at = int(j.dec.InputOffset())
	return t, &token.Token{Value: fmt.Sprint(t), Position: &token.Position{Line: j.line, Column: j.column}}
}

// value is the next value; nil where it is nested too deep.
func (j *jsonText) value(depth int) ast.Node {
	base := &ast.BaseNode{}
	t, tk := j.token()
	switch t := t.(type) {
	case string:
		tk.Type = token.DoubleQuoteType
		return &ast.StringNode{BaseNode: base, Token: tk, Value: t}
	case bool:
		return &ast.BoolNode{BaseNode: base, Token: tk, Value: t}
	case json.Number:
		if strings.ContainsAny(tk.Value, ".eE") {
			return &ast.FloatNode{BaseNode: base, Token: tk}
		}
		return &ast.IntegerNode{BaseNode: base, Token: tk}
	case nil:
		return &ast.NullNode{BaseNode: base, Token: tk}
	}
	m := &ast.MappingNode{BaseNode: base, Start: tk, IsFlowStyle: true}
	list := &ast.SequenceNode{BaseNode: base, Start: tk, IsFlowStyle: true}
	for j.dec.More() {
		var key ast.MapKeyNode
		if t == json.Delim('{') {
			key = j.value(depth).(ast.MapKeyNode)
		}
		v := j.value(depth + 1)
		if v == nil || depth == maxFlow {
			return nil
		}
		if key == nil {
			list.Values = append(list.Values, v)
		} else {
			m.Values = append(m.Values, &ast.MappingValueNode{BaseNode: base, Key: key, Value: v})
		}
	}
	j.token() // its end
	if t == json.Delim('{') {
		return m
	}
	return list
}
