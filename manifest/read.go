package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/tickring/tickring/core"
)

// Limits on YAML nesting and size, which protect the YAML library.
const (
	maxFlow  = 64     // brackets in brackets
	maxBlock = 256    // columns in columns
	maxMarks = 40_000 // of a small document: each may be a token, which takes 200 bytes and more
	maxKeys  = 1000   // of block maps (and keys with ?) without a list between: the library is quadratic in them
)

// piece is one YAML document of a file.
type piece struct {
	text string
	line int // how many lines are before it
}

var (
	// lineBreaks are as YAML counts them.
	lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n")
	marks      = regexp.MustCompile(`(?m)^(---|\.\.\.)( |$)`)
	marksJSON  = regexp.MustCompile(`(?m)^(---|\.\.\.)( |$)|^\{`)
	content    = regexp.MustCompile(`(?m)^([^%#\s]|[ \t]+[^#\s])`) // not a comment; a directive begins its line with %
)

// documents splits a file at its --- lines or, if its first line alone is JSON, at each line that begins like it. It skips
// documents with comments only.
func documents(data []byte) []piece {
	text := lineBreaks.Replace(string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	mark := marks
	if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "{") && json.Valid([]byte(first)) {
		mark = marksJSON
	}
	var docs []piece
	start, lines := 0, 0
	for i, at := range append(mark.FindAllStringIndex(text, -1), []int{len(text)}) {
		part := text[start:at[0]]
		if i > 0 && part[0] != '{' { // the rest of the line belongs to the document
			part = "   " + part[3:]
		}
		if content.MatchString(part) {
			docs = append(docs, piece{part, lines})
		}
		start, lines = at[0], lines+strings.Count(part, "\n")
	}
	return docs
}

// parse has the library read one document, with the lines of the file.
func parse(p piece, small bool) (body ast.Node, err *Error) {
	problem := func(line, column int, format string, args ...any) *Error {
		return &Error{Line: max(line, p.line+1), Column: max(column, 1), Reason: core.Say(format, args...)}
	}
	defer func() {
		if v := recover(); v != nil { // from the library, on input that no user writes
			body, err = nil, problem(0, 0, "not readable as YAML: check quotes, brackets and indentation")
		}
	}()
	if len(p.text) > MaxDocument {
		return nil, problem(0, 0, "the document has %d bytes; at most %d (%d MB) are allowed: split it with the lines `---` "+
			"and `version: 1`, or use several files", len(p.text), MaxDocument, MaxDocument>>20)
	}
	marks := 0
	for i := range len(p.text) {
		if strings.IndexByte("\n,:[]{}", p.text[i]) >= 0 {
			marks++
		}
	}
	if small && marks > maxMarks {
		return nil, problem(0, 0, "the manifest of one job has more than %d lines, commas, colons and brackets: at most a few "+
			"thousand are expected", maxMarks)
	}
	if json.Valid([]byte(p.text)) { // its tabs are between values; the library does not take all of them
		p.text = strings.ReplaceAll(p.text, "\t", " ")
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
			return nil, problem(0, 0, "not YAML")
		}
		at := position(y.GetToken())
		return nil, problem(at.Line, at.Column, "invalid YAML: %s", reason(y.GetMessage()))
	}
	for _, d := range f.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.CommentType:
		case body != nil:
			at := posOf(d.Body)
			return nil, problem(at.Line, at.Column, "a second document starts here, but the line --- before it is missing")
		default:
			body = d.Body
		}
	}
	return body, nil
}

// reason returns a message of the library without the parts that quote the text.
func reason(msg string) core.Text {
	switch {
	case strings.HasPrefix(msg, "invalid header option"): // the rest quotes the text, perhaps a secret
		return core.Say("only `-`, `+` and a digit are allowed after `|` and `>`")
	case strings.Contains(msg, "character '\t'") || strings.Contains(msg, "tab character"):
		return core.Say("tabs are not allowed: indent YAML with spaces")
	}
	if known, ok := oftenSaid[msg]; ok {
		return known
	}
	return core.Say("%s", where.ReplaceAllString(truncate(msg), " at $1"))
}

// oftenSaid has clearer texts for the library's messages about the most common mistakes. Other messages stay unchanged, in
// English.
var oftenSaid = map[string]core.Text{
	"could not find end character of double-quoted text":     core.Say("a text in double quotes has no closing quote"),
	"could not find end character of single-quoted text":     core.Say("a text in single quotes has no closing quote"),
	"block sequence entries are not allowed in this context": core.Say("a list entry (`- `) is not allowed here: fix the indentation"),
	"mapping value is not allowed in this context":           core.Say("a map is not allowed here: fix the indentation, or quote the text"),

	"',' or ']' must be specified":              core.Say("`,` or `]` is missing in a list that starts with `[`"),
	"',' or '}' must be specified":              core.Say("`,` or `}` is missing in a map that starts with `{`"),
	"sequence end token ']' not found":          core.Say("the list that starts here with `[` has no closing `]`"),
	"could not find flow mapping end token '}'": core.Say("the map that starts here with `{` has no closing `}`"),
	"value is not allowed in this context":      core.Say("a value is not allowed here: fix the indentation"),
	"non-map value is specified":                core.Say(`expected "key: value" here: add the colon, or fix the indentation`),

	"unexpected key name":               core.Say("this key is invalid: write the key and its colon on one line, or fix the indentation"),
	"found an invalid key for this map": core.Say("the text before this colon is not a valid key: fix the key or the indentation"),

	"value is not allowed in this context. map key-value is pre-defined": core.Say("a map begins above this value: fix the indentation"),
}

// where is a place in a message of the library.
var where = regexp.MustCompile(` at \[(\d+:\d+)\]`)

// tooDeep finds tokens that would take the library too deep or too long.
func tooDeep(tokens token.Tokens) (at *token.Position, why core.Text) {
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
				return tk.Position, core.Say("more than %d map keys follow each other: a map in a manifest has only a few keys", maxKeys)
			}
		}
		if flow == 0 {
			for len(columns) > 0 && columns[len(columns)-1] >= tk.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, tk.Position.Column)
		}
		if flow > maxFlow || len(columns) > maxBlock {
			return tk.Position, core.Say("nested too deep: a manifest can have at most 6 levels")
		}
	}
	return nil, core.Text{}
}

func posOf(n ast.Node) token.Position {
	for range maxBlock {
		m, _ := n.(*ast.MappingNode)
		kv, _ := n.(*ast.MappingValueNode)
		switch {
		case m != nil && !m.IsFlowStyle && len(m.Values) > 0:
			n = m.Values[0].Key
		case kv != nil:
			n = kv.Key
		case n == nil:
			return position(nil)
		default:
			return position(n.GetToken())
		}
	}
	return position(nil)
}

func position(tk *token.Token) token.Position {
	if tk == nil || tk.Position == nil {
		return token.Position{Line: 1, Column: 1}
	}
	return *tk.Position
}

// readable rejects bytes that are not text.
func readable(data []byte) *Error {
	if len(data) > MaxFile {
		return &Error{Reason: core.Say("%d bytes; at most %d (32 MB) are allowed: use several files", len(data), MaxFile)}
	}
	bad, what := bytes.IndexByte(data, 0), core.Say("zero byte found: a manifest must be UTF-8 text")
	if bad < 0 && !utf8.Valid(data) {
		bad, what = bytes.IndexByte(bytes.ToValidUTF8(data, []byte{0}), 0), core.Say("not UTF-8")
	}
	if bad < 0 {
		return nil
	}
	before := data[:bad]
	return &Error{Line: bytes.Count(before, []byte("\n")) + 1, Reason: what,
		Column: utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1}
}
