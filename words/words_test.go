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
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, prefix) && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
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
	for _, c := range []struct{ got, want string }{
		{Subject(English, "failed", f), "pay/salaries failed"},
		{Sentence(English, "failed", f), "pay/salaries, scheduled for 2026-11-28 02:30, failed after 3 attempts and will not be retried."},
		{Sentence(Chinese, "failed", f), "任务 pay/salaries 计划于 2026-11-28 02:30 的运行尝试 3 次后仍然失败，不再重试。"},
		{Sentence(Chinese, "overdue", Facts{Job: "a/b", Due: "06:05:49"}), "任务 a/b 应在 06:05:49 之前执行成功，但至今没有成功。"},
		{Sentence(English, "skipped", Facts{Job: "a/b", Due: "02:30", Times: 1, Why: Reason(English, core.ReasonDeadline)}),
			"a/b, scheduled for 02:30, was skipped: later than the deadline."},
		{Sentence(Chinese, "skipped", Facts{Job: "a/b", Due: "02:30", Times: 1, Why: Reason(Chinese, core.ReasonDeadline)}),
			"任务 a/b 计划于 02:30 的调度被跳过，没有执行：晚于截止时间。"},
		{Subject(English, "dead-letter", Facts{}), "tickring: a message is in the dead-letter queue"},
		{Subject(English, "failed", Facts{Job: "a\r\nBcc: x"}), "a Bcc: x failed"},
		{Others(Chinese, 2, "02:30"), "自 02:30 起另有 2 次同类情况。"},
		{Others(English, 0, "02:30"), ""},
		{Span(English, 90*time.Minute), "1 h 30 min"},
		{Span(Chinese, 500*time.Millisecond), "0 秒"},
		{string(Of("zh_CN.UTF-8")), "zh"}, {string(Of("zh-Hans")), "zh"}, {string(Of("zhuang")), "en"},
		{string(Of("C")), "en"}, {string(Of("")), "en"},
		{string(Asked("")), "en"}, {string(Asked("zh-CN,zh;q=0.9,en;q=0.8")), "zh"}, {string(Asked("en-GB, zh;q=0.5")), "en"},
		{string(Asked("de, fr;q=0.9, zh;q=0.1")), "zh"}, {string(Asked("zh;q=0, en;q=0.1")), "en"}, {string(Asked("zh;q=NaN")), "en"},
		{string(Asked("zh;q=9")), "en"}, {string(Asked("*")), "en"}, {string(Asked(strings.Repeat("de,", 50) + "zh")), "en"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
