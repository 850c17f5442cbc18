package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// What would take the library too deep or too long is refused.
const (
	maxFlow  = 64   // brackets in brackets
	maxBlock = 256  // columns in columns
	maxKeys  = 1000 // of block maps (and keys with ?) without a list between: the library is quadratic in them
)

// piece is one YAML document of a file.
type piece struct {
	text string
	line int // how many lines are before it
}

// documents cuts a file at its lines ---, or if it is JSON with a map in each
// line, at each. What is only comments is left out.
func documents(data []byte) []piece {
	text := lineBreaks.Replace(string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	var docs []piece
	if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "{") && json.Valid([]byte(first)) {
		lines := 0
		for row := range strings.Lines(text) {
			if row != "\n" {
				docs = append(docs, piece{row, lines})
			}
			lines++
		}
		if !slices.ContainsFunc(docs, func(p piece) bool { return p.text[0] != '{' }) {
			return docs
		}
		docs = nil
	}
	start, startLine, line, some := 0, 0, 0, false
	add := func(end int) {
		if some {
			docs = append(docs, piece{text[start:end], startLine})
		}
	}
	for at := 0; at < len(text); line++ {
		end := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		row := strings.TrimRight(text[at:end], "\n")
		switch {
		case row == "---" || strings.HasPrefix(row, "--- ") || row == "..." || strings.HasPrefix(row, "... "):
			add(at)
			start, startLine, some = end, line+1, false
			if rest := strings.TrimSpace(row[3:]); rest != "" && rest[0] != '#' { // what stands behind is of the document
				text = text[:at] + "   " + text[at+3:]
				start, startLine, some = at, line, true
			}
		case !some && strings.HasPrefix(row, "%"): // a directive
		case !some:
			if t := strings.TrimSpace(row); t != "" && t[0] != '#' {
				some = true
			}
		}
		at = end
	}
	add(len(text))
	return docs
}

// lineBreaks are as YAML counts them.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// parse has the library read one document, with the lines of the file.
func parse(p piece) (body ast.Node, err *Error) {
	problem := func(line, column int, format string, args ...any) *Error {
		return &Error{Line: max(line, p.line+1), Column: max(column, 1), Message: fmt.Sprintf(format, args...)}
	}
	defer func() {
		if v := recover(); v != nil { // of the library, on what no person writes
			body, err = nil, problem(0, 0, "no YAML that can be read; look for a mistake in quotes, brackets or indentation")
		}
	}()
	if len(p.text) > MaxDocument {
		return nil, problem(0, 0, "%d MB in one document, at most %d are read at once; "+
			"begin the next with the lines --- and version: 1, or use several files", len(p.text)>>20, MaxDocument>>20)
	}
	tokens := lexer.Tokenize(p.text)
	for _, tk := range tokens {
		tk.Position.Line += p.line
	}
	if at, why := tooDeep(tokens); at != nil {
		return nil, problem(at.Line, at.Column, "%s", why)
	}
	f, e := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if e != nil {
		y, ok := errors.AsType[yaml.Error](e)
		if !ok {
			return nil, problem(0, 0, "no YAML")
		}
		at := position(y.GetToken())
		return nil, problem(at.Line, at.Column, "no YAML: %s", reason(y.GetMessage()))
	}
	for _, d := range f.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.CommentType:
		case body != nil:
			at := posOf(d.Body)
			return nil, problem(at.Line, at.Column, "a second document begins here without a line ---")
		default:
			body = d.Body
		}
	}
	return body, nil
}

// reason is a message of the library, without what it says of the text.
func reason(msg string) string {
	switch {
	case strings.HasPrefix(msg, "invalid header option"): // the rest is what was written, perhaps a secret
		return "only -, + and a digit are allowed behind | and >"
	case strings.Contains(msg, "character '\t'") || strings.Contains(msg, "tab character"):
		return "a tab; YAML is indented with spaces"
	}
	return where.ReplaceAllString(cutText(msg), " at $1")
}

// where is a place in a message of the library.
var where = regexp.MustCompile(` at \[(\d+:\d+)\]`)

// tooDeep finds what would take the library too deep or too long.
func tooDeep(tokens token.Tokens) (at *token.Position, why string) {
	flow, keys := 0, 0
	var columns []int
	for _, tk := range tokens {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.SequenceEntryType:
			keys = 0
		}
		if tk.Type == token.MappingKeyType || tk.Type == token.MappingValueType && flow == 0 {
			if keys++; keys > maxKeys {
				return tk.Position, fmt.Sprintf("more than %d keys in a row; a map of a manifest has a few", maxKeys)
			}
		}
		if flow == 0 {
			for len(columns) > 0 && columns[len(columns)-1] >= tk.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, tk.Position.Column)
		}
		if flow > maxFlow || len(columns) > maxBlock {
			return tk.Position, "nested too deep; a manifest is at most 6 deep"
		}
	}
	return nil, ""
}

// posOf is where a node begins.
func posOf(n ast.Node) token.Position {
	for range maxBlock {
		switch v := n.(type) {
		case *ast.MappingNode:
			if v.IsFlowStyle || len(v.Values) == 0 {
				return position(v.Start)
			}
			n = v.Values[0].Key
		case *ast.MappingValueNode:
			n = v.Key
		case *ast.AnchorNode:
			return position(v.Start)
		default:
			if n == nil {
				return token.Position{Line: 1, Column: 1}
			}
			return position(n.GetToken())
		}
	}
	return token.Position{Line: 1, Column: 1}
}

func position(tk *token.Token) token.Position {
	if tk == nil || tk.Position == nil {
		return token.Position{Line: 1, Column: 1}
	}
	return *tk.Position
}

// readable refuses bytes that are no text.
func readable(data []byte) *Error {
	if len(data) > MaxFile {
		return &Error{Message: fmt.Sprintf("%d bytes; at most %d (32 MB) are allowed: use several files", len(data), MaxFile)}
	}
	line := 1
	for row := range bytes.Lines(data) {
		column, what := 1, ""
		if i := bytes.IndexByte(row, 0); i >= 0 {
			column, what = utf8.RuneCount(row[:i])+1, "a zero byte; a manifest is UTF-8 text"
		} else if !utf8.Valid(row) {
			valid := bytes.ToValidUTF8(row, []byte{0}) // begins with what is before the first wrong byte
			column, what = utf8.RuneCount(valid[:bytes.IndexByte(valid, 0)])+1, "not UTF-8"
		}
		if what != "" {
			return &Error{Line: line, Column: column, Message: what}
		}
		line++
	}
	return nil
}
