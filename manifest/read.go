package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The YAML library takes 20 KB of memory for a job while it works. So the list
// of jobs of a large file is cut into pieces at its entries, and the pieces are
// read side by side, a few at a time.
const (
	pieceSize = 64 << 10
	maxWhole  = 4 << 20 // of what cannot be cut
	maxFlow   = 64      // brackets in brackets
	maxBlock  = 256     // columns in columns
	maxKeys   = 1000    // of block maps (and keys with ?) without a list between: the library is quadratic in them
)

// piece is a part of a file, at the begin of a line.
type piece struct {
	text string
	line int // how many lines are before it
}

// cut is one YAML document: what is around the list of jobs, and the entries of
// that list; items is empty if it was not cut.
type cut struct {
	around []piece
	items  []piece
	jobs   int // the line of the key jobs
}

// documents cuts a file at its lines ---. What is only comments is left out.
func documents(data []byte) []piece {
	text := lineBreaks.Replace(string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	var docs []piece
	start, startLine, line, some := 0, 0, 0, false
	add := func(end int) {
		if some {
			docs = append(docs, piece{text[start:end], startLine})
		}
	}
	for at := 0; at < len(text); line++ {
		end := lineEnd(text, at)
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

func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// cutJobs cuts a large document at the entries of its list of jobs. Nothing
// inside an entry can begin at the column of the list, so lines tell them.
func cutJobs(doc piece) cut {
	whole := cut{around: []piece{doc}}
	if len(doc.text) <= 2*pieceSize {
		return whole
	}
	text, line := doc.text, doc.line
	at := 0
	for ; at < len(text); line++ {
		end := lineEnd(text, at)
		if rest, ok := strings.CutPrefix(text[at:end], "jobs:"); ok {
			if rest = strings.TrimSpace(rest); rest == "" || rest[0] == '#' {
				break
			}
			return whole
		}
		at = end
	}
	if at == len(text) {
		return whole
	}
	c := cut{around: []piece{{text[:at], doc.line}}, jobs: line + 1}
	at = lineEnd(text, at)
	line++
	indent := -1
	start, startLine := at, line
	for ; at < len(text); line++ {
		end := lineEnd(text, at)
		row := text[at:end]
		body := strings.TrimLeft(row, " ")
		width := len(row) - len(body)
		body = strings.TrimSpace(body)
		if body != "" && body[0] != '#' {
			item := body == "-" || strings.HasPrefix(body, "- ")
			if indent < 0 {
				if !item {
					return whole
				}
				indent = width
			}
			if width < indent || width == indent && !item {
				break
			}
			if item && width == indent && at-start >= pieceSize {
				c.items = append(c.items, piece{text[start:at], startLine})
				start, startLine = at, line
			}
		}
		at = end
	}
	if at > start {
		c.items = append(c.items, piece{text[start:at], startLine})
	}
	if at < len(text) {
		c.around = append(c.around, piece{text[at:], line})
	}
	return c
}

// tree is one piece as the YAML library read it.
type tree struct {
	body ast.Node // nil: nothing in it
	line int      // how many lines are before it
	err  *Error
}

// parseAll reads pieces side by side and gives their trees in order.
func parseAll(pieces []piece, use func(tree)) {
	if len(pieces) == 1 {
		use(parseTree(pieces[0]))
		return
	}
	ahead := 2 * min(runtime.GOMAXPROCS(0), 4)
	trees := make([]chan tree, len(pieces))
	begin := func(i int) {
		if i < len(pieces) {
			trees[i] = make(chan tree, 1)
			go func() { trees[i] <- parseTree(pieces[i]) }()
		}
	}
	for i := range ahead {
		begin(i)
	}
	for i := range pieces {
		t := <-trees[i]
		trees[i] = nil
		begin(i + ahead)
		use(t)
	}
}

// The messages of the library: places in a piece, and one that tells a text.
const blockOption = "invalid header option"

var where = regexp.MustCompile(` at \[(\d+):(\d+)\]`)

// parseTree reads one piece.
func parseTree(p piece) (t tree) {
	t.line = p.line
	defer func() {
		if v := recover(); v != nil { // of the library, on what no person writes
			t.body, t.err = nil, &Error{Line: p.line + 1, Column: 1, Message: "no YAML that can be read; look for a mistake in quotes, brackets or indentation"}
		}
	}()
	if len(p.text) > maxWhole {
		t.err = &Error{Line: p.line + 1, Column: 1, Message: fmt.Sprintf("%d MB that cannot be read in parts, at most %d are allowed; write jobs: as a block list, an entry a line with -, or use several files", len(p.text)>>20, maxWhole>>20)}
		return t
	}
	tokens := lexer.Tokenize(p.text)
	if t.err = tooDeep(tokens, p.line); t.err != nil {
		return t
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		t.err = &Error{Line: p.line + 1, Column: 1, Message: "no YAML"}
		if e, ok := errors.AsType[yaml.Error](err); ok {
			msg := e.GetMessage()
			if strings.HasPrefix(msg, blockOption) { // the rest is what was written, perhaps a secret
				msg = "only -, + and a digit are allowed behind | and >"
			}
			if strings.Contains(msg, "character '\t'") || strings.Contains(msg, "tab character") {
				msg = "a tab; YAML is indented with spaces"
			}
			t.err.Message = "no YAML: " + where.ReplaceAllStringFunc(cutText(msg), func(s string) string {
				m := where.FindStringSubmatch(s)
				n, _ := strconv.Atoi(m[1])
				return fmt.Sprintf(" at %d:%s", n+p.line, m[2])
			})
			if tk := e.GetToken(); tk != nil && tk.Position != nil {
				t.err.Line, t.err.Column = p.line+max(tk.Position.Line, 1), max(tk.Position.Column, 1)
			}
		}
		return t
	}
	for _, d := range f.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.CommentType:
		case t.body != nil:
			pos := posOf(d.Body)
			t.err = &Error{Line: p.line + pos.Line, Column: pos.Column, Message: "a second document begins here without a line ---"}
			return t
		default:
			t.body = d.Body
		}
	}
	return t
}

// tooDeep refuses what would take the library too deep or too long.
func tooDeep(tokens token.Tokens, lines int) *Error {
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
				return &Error{Line: lines + tk.Position.Line, Column: tk.Position.Column, Message: fmt.Sprintf("more than %d keys in a row; a map of a manifest has a few", maxKeys)}
			}
		}
		if flow == 0 {
			for len(columns) > 0 && columns[len(columns)-1] >= tk.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, tk.Position.Column)
		}
		if flow > maxFlow || len(columns) > maxBlock {
			return &Error{Line: lines + tk.Position.Line, Column: tk.Position.Column, Message: "nested too deep; a manifest is at most 6 deep"}
		}
	}
	return nil
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
	for at, line := 0, 1; at < len(data); line++ {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			end = len(data) - at - 1
		}
		row := data[at : at+end+1]
		at += end + 1
		if i := bytes.IndexByte(row, 0); i >= 0 {
			return &Error{Line: line, Column: utf8.RuneCount(row[:i]) + 1, Message: "a zero byte; a manifest is UTF-8 text"}
		}
		if !utf8.Valid(row) {
			i := 0
			for i < len(row) {
				r, n := utf8.DecodeRune(row[i:])
				if r == utf8.RuneError && n == 1 {
					break
				}
				i += n
			}
			return &Error{Line: line, Column: utf8.RuneCount(row[:i]) + 1, Message: "not UTF-8"}
		}
	}
	return nil
}
