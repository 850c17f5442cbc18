package console_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	nethtml "golang.org/x/net/html"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// goldenConsole is newConsole, in English, with the golden file of the test.
func goldenConsole(t *testing.T) *site {
	s := newConsole(t)
	s.texts, s.keys = golden.New(t), map[string]int{}
	s.in("en")
	return s
}

// compare compares the text of elements of the last page with the golden file.
func (s *site) compare(key, find string) {
	s.t.Helper()
	text := varies.ReplaceAllString(textOf(s.t, s.page, find), "$1 N")
	if text == "" {
		s.t.Errorf("%s: the page has no %s: %s", key, find, s.page)
	}
	s.equal(key, text)
}

// equal compares a text with the golden file. A key that is used again gets a number.
func (s *site) equal(key, text string) {
	s.t.Helper()
	key = strings.Replace(key, "/console", "", 1)
	if s.keys[key]++; s.keys[key] > 1 {
		key += fmt.Sprintf(" (%d)", s.keys[key])
	}
	s.texts.Equal(s.t, key, text)
}

// messages compares the elements of the last page that show a result, an error or a warning, if the test has a golden file.
func (s *site) messages(key string) {
	s.t.Helper()
	const all = "[role=status],[role=alert],.error,.warn"
	if s.texts != nil && textOf(s.t, s.page, all) != "" {
		s.compare(key, all)
	}
}

// shows requests a page, checks that it has the texts, and compares elements with the golden file.
func (s *site) shows(find, path string, texts ...string) string {
	s.t.Helper()
	body := s.says(path, texts...)
	s.compare("GET "+path, find)
	return body
}

var (
	varies = regexp.MustCompile(`\b(at rev|answered in|test message in|answer the test \(|not accepted, after|line with the ID) ?[0-9a-f]+`)
	blocks = regexp.MustCompile(`^(p|div|li|h\d|tr|dt|option|label|legend|fieldset|form|pre|br|ul|ol|table|dl|button|section)$`)
	apart  = regexp.MustCompile("\x00+([,;:.)，。：])") // the end of an element and punctuation
	unread = regexp.MustCompile(`^(script|style|datalist|textarea|input)$`)
)

// textOf returns the text of the elements that find selects: tags, #id, .class or [attribute=value], with commas
// between them. Each block is a line. A title follows its element in brackets.
func textOf(t *testing.T, page, find string) string {
	t.Helper()
	root, err := nethtml.ParseWithOptions(strings.NewReader(page), nethtml.ParseOptionEnableScripting(false))
	check.OK(t, err)
	var out strings.Builder
	var walk func(n *nethtml.Node, inside bool)
	walk = func(n *nethtml.Node, inside bool) {
		has := map[string]string{}
		for _, a := range n.Attr {
			has[a.Key] = a.Val
		}
		in, gap := inside || n.Type == nethtml.ElementNode && selected(n.Data, has, find), ""
		switch {
		case n.Type == nethtml.ElementNode && unread.MatchString(n.Data):
			return
		case in && n.Type == nethtml.TextNode:
			out.WriteString(n.Data)
		case in && inside && !blocks.MatchString(n.Data):
			gap = "\x00"
		case in:
			gap = "\n"
		}
		out.WriteString(gap)
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, in)
		}
		if has["title"] != "" && in && n.Data != "time" {
			out.WriteString(" [" + has["title"] + "]")
		}
		out.WriteString(gap)
	}
	walk(root, false)
	var text strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(apart.ReplaceAllString(out.String(), "$1"), "\x00", " ")) {
		if words := strings.Fields(line); len(words) > 0 {
			text.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return text.String()
}

func selected(tag string, has map[string]string, find string) bool {
	for f := range strings.SplitSeq(find, ",") {
		name, value, _ := strings.Cut(strings.Trim(f, "[]"), "=")
		if tag == f || "#"+has["id"] == f || f[0] == '[' && has[name] == value ||
			f[0] == '.' && slices.Contains(strings.Fields(has["class"]), f[1:]) {
			return true
		}
	}
	return false
}
