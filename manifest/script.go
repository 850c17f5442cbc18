package manifest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// script replaces the name of a script file by the file's text. If a script has a reported error, a handler replaces it, unless
// the job has other work.
func (b *builder) script(form object, path string) {
	s, is := form["script"].(object)
	if !is {
		return
	}
	right := s["kind"] != nil
	refuse := func(field, format string, args ...any) {
		below := strings.TrimSuffix(path+".script."+field, ".")
		at, there := b.places[below]
		if !there {
			at = b.places[path+".script"]
		}
		b.errorf(at.Pos, below, format, args...)
		right = false
	}
	_, hasFile := b.places[path+".script.file"]
	_, hasSource := b.places[path+".script.source"]
	file, isFile := s["file"].(string)
	switch {
	case hasFile && hasSource:
		refuse("source", "`file` and `source` are both set: use only one of these fields")
	case !hasFile && !hasSource:
		refuse("", "required: `file` (name of the script file) or `source` (text of the script)")
	case hasFile && !isFile, hasSource && s["source"] == nil:
		right = false // already reported
	case isFile && b.o.ReadFile == nil:
		refuse("file", "file references are not supported here: only `tickring apply` reads files")
	case isFile:
		text, err := b.o.ReadFile(file)
		if err != nil {
			refuse("file", "%s: %v", truncate(file), plain(err))
		} else if err := core.CheckSource("file", string(text)); err != nil {
			refuse("file", "%s: %s", truncate(file), message(err.(*core.Error)))
		}
		s["source"] = string(text)
	default:
		if err := core.CheckSource("source", s["source"].(string)); err != nil {
			refuse("source", "%s", message(err.(*core.Error)))
		}
	}
	if delete(s, "file"); !right {
		if delete(form, "script"); form["handler"] == nil && form["command"] == nil {
			form["handler"] = "x"
		}
	}
}

// withText returns a job for a comparison: the source of its script, which can be long, is replaced by its hash and size.
func withText(j *client.Job) *client.Job {
	if j.Script.Hash == "" {
		return j
	}
	c := *j
	c.Script.Source = fmt.Sprintf("sha256 %.12s, %d bytes", j.Script.Hash, j.Script.Size)
	return &c
}

// writeScript writes the script of a job with its source as a block of lines, where YAML reads
// that byte for byte as it is.
func writeScript(b *bytes.Buffer, parts []string, source string) {
	b.WriteString("\n")
	for _, part := range parts {
		if block, ok := literal(source, "        "); ok && strings.HasPrefix(part, "source: ") {
			part = "source: " + strings.TrimSuffix(block, "\n")
		}
		b.WriteString("      " + part + "\n")
	}
}

// literal is a text as a block of lines with an indentation; false where YAML would read another.
func literal(text, indent string) (string, bool) {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r <= 0x9f) }) ||
		strings.ContainsAny(text, "\u2028\u2029\ufeff\u0085") || text[0] == ' ' || text[0] == '\t' || text[0] == '\n' {
		return "", false
	}
	head := "|\n"
	switch {
	case !strings.HasSuffix(text, "\n"):
		head = "|-\n"
	case strings.HasSuffix(text, "\n\n"):
		head = "|+\n"
	}
	var b strings.Builder
	b.WriteString(head)
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString(indent)
		}
		b.WriteString(line)
	}
	if !strings.HasSuffix(text, "\n") {
		b.WriteString("\n")
	}
	var read struct{ Text string }
	if err := yaml.Unmarshal([]byte("text: "+b.String()+"after: x\n"), &read); err != nil || read.Text != text {
		return "", false
	}
	return b.String(), true
}
