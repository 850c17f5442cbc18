package words

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// whole reports what of a closed list has no text, or no translation of it.
func whole(t *testing.T, list string, values []string, english func(value string) string) {
	t.Helper()
	for _, v := range values {
		text := english(v)
		if text == "" {
			t.Errorf("%q of %s has no text", v, list)
			continue
		}
		pair(t, list, text)
	}
}

var (
	placeholders = regexp.MustCompile(`\{[a-z]+\}`)
	// prose matches four English words in a row: an untranslated sentence.
	prose = regexp.MustCompile(`(?:\b[a-z]{2,} ){3}[a-z]{2,}\b`)
)

// pair reports a text of a list that is not translated, or whose translations name something else.
func pair(t *testing.T, list, english string) {
	t.Helper()
	for l, catalog := range catalogs() {
		text, ok := catalog[entry{list, english}]
		if !ok {
			t.Errorf("add to words/catalog/%s.po\nmsgctxt %q\nmsgid %q", l, list, english)
			continue
		}
		en, other := placeholders.FindAllString(english, -1), placeholders.FindAllString(text, -1)
		slices.Sort(en)
		slices.Sort(other)
		if !slices.Equal(en, other) {
			t.Errorf("%q names %v, and in %s %v", english, en, l, other)
		}
	}
	said[entry{list, english}] = true
}

// said has the texts of lists that were checked.
var said = map[entry]bool{}

// texts are the values of a closed list.
func texts[K ~string](list []K) (all []string) {
	for _, k := range list {
		all = append(all, string(k))
	}
	return all
}

// TestEveryWord: each value of a closed list has a text in each language, and nothing else has one.
func TestEveryWord(t *testing.T) {
	same := func(v string) string { return v }
	whole(t, "state", texts(core.States), func(v string) string { return states[core.State(v)] })
	all := texts(slices.Concat(slices.Collect(maps.Values(core.Reasons))...))
	whole(t, "reason", all, func(v string) string { return reasons[core.Reason(v)] })
	whole(t, "notice", constants(t, "notice.go", "Label"), same)
	whole(t, "unit", []string{"d", "h", "min", "s"}, same)
	whole(t, "language", []string{"English"}, same)
	for field, list := range map[string][]string{"route": texts(core.Routes), "broadcast.fail": texts(core.BroadcastFails),
		"block": texts(core.Blocks), "misfire": texts(core.Misfires), "retry.backoff": texts(core.Backoffs), "retry.on": texts(core.RetryOns),
		"overlap.whenFull": texts(core.Fulls), "notify.on": append(texts(core.Events), string(core.EventMute)),
		"retention.log": texts(core.KeepLogs), "after.when": texts(core.Upons)} {
		whole(t, field, list, same)
		if means, ok := choices[field]; ok {
			whole(t, field, list, func(v string) string { return means[v] })
		}
	}
	for event, s := range sentences {
		for _, text := range []string{s.subject, s.one, s.many} {
			if text != "" {
				pair(t, "notice", text)
			} else if text != s.many {
				t.Errorf("the event %q has no text", event)
			}
		}
	}
	for _, text := range []string{others, testSubject, testSentence, ": ", "."} {
		pair(t, "notice", text)
	}
	for l, catalog := range catalogs() {
		for e := range catalog {
			if e.list != "" && !said[e] {
				t.Errorf("%s.po translates %q of %s, which is not in the source: delete it", l, e.english, e.list)
			}
		}
	}
}

// constants are the values of the string constants of a file whose names begin so.
func constants(t *testing.T, file, prefix string) (list []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	check.OK(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, prefix) && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				text, err := strconv.Unquote(lit.Value)
				check.OK(t, err)
				list = append(list, text)
			}
		}
		return true
	})
	if len(list) == 0 {
		t.Fatalf("%s has no constant %s…", file, prefix)
	}
	return list
}

// TestEveryNotice: each event has a subject and a sentence that contain its facts, in both
// languages, with no placeholder left.
func TestEveryNotice(t *testing.T) {
	told := append(slices.Clone(core.Events), core.EventMute)
	for _, event := range told {
		e := string(event)
		if _, ok := sentences[e]; !ok {
			t.Errorf("the event %q has no sentence: add its subject and sentence to the table sentences", e)
			continue
		}
		for _, l := range Languages {
			for _, times := range []int{1, 3} {
				f := Facts{Job: "reports/nightly", Due: "02:30", Took: 90 * time.Second, Times: times, Why: "why"}
				subject, text := Subject(l, e, f), Sentence(l, e, f)
				if !strings.Contains(subject, f.Job) || !strings.Contains(text, f.Job) {
					t.Errorf("%s in %s does not name the job: %q, %q", e, l, subject, text)
				}
				if !strings.Contains(text, "why") || strings.ContainsAny(subject+text, "{}") {
					t.Errorf("%s in %s: %q, %q", e, l, subject, text)
				}
			}
			if text := Sentence(l, e, Facts{}); strings.ContainsAny(text, "{}") {
				t.Errorf("%s in %s without facts: %q", e, l, text)
			}
		}
	}
	if len(sentences) != len(told) {
		t.Errorf("%d events have sentences, and there are %d", len(sentences), len(told))
	}
}

func TestNoticeSays(t *testing.T) {
	f := Facts{Job: "pay/salaries", Due: "2026-11-28 02:30", Took: 26 * time.Hour, Times: 3}
	skipped := func(l Language) string {
		return Sentence(l, "skipped", Facts{Job: "a/b", Due: "02:30", Times: 1, Why: Reason(l, core.ReasonDeadline)})
	}
	notices := golden.New(t)
	for name, text := range map[string]string{
		"failed, subject": Subject(English, "failed", f), "failed": Sentence(English, "failed", f), "failed, zh": Sentence(Chinese, "failed", f),
		"overdue, zh": Sentence(Chinese, "overdue", Facts{Job: "a/b", Due: "06:05:49"}),
		"skipped":     skipped(English), "skipped, zh": skipped(Chinese),
		"dead-letter, subject":           Subject(English, "dead-letter", Facts{}),
		"line break in a job's name":     Subject(English, "failed", Facts{Job: "a\r\nBcc: x"}),
		"others, zh":                     Others(Chinese, 2, "02:30"),
		"90 minutes":                     Span(English, 90*time.Minute),
		"less than a second, in Chinese": Span(Chinese, 500*time.Millisecond),
	} {
		notices.Equal(t, name, text)
	}
	check.Equal(t, Others(English, 0, "02:30"), "", "no others")
	for name, want := range map[string]Language{"zh_CN.UTF-8": Chinese, "zh-Hans": Chinese, "zhuang": English, "C": English, "": English} {
		check.Equal(t, Of(name), want, "language of %q", name)
	}
	for header, want := range map[string]Language{"": English, "zh-CN,zh;q=0.9,en;q=0.8": Chinese, "en-GB, zh;q=0.5": English,
		"de, fr;q=0.9, zh;q=0.1": Chinese, "zh;q=0, en;q=0.1": English, "zh;q=NaN": English, "zh;q=9": English, "*": English,
		strings.Repeat("de,", 50) + "zh": English} {
		check.Equal(t, Asked(header), want, "language for %q", header)
	}
}
