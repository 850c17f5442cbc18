package notify

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/words"
)

// Limits of texts in bytes, independent of the service.
const (
	maxWord    = 300 // a server's answer, and each text of one line
	maxSubject = 200
)

// page is a message in the language of a channel, before it takes the form of a service.
type page struct {
	subject  string // one line
	sentence string
	facts    []fact
	label    string // of the lines
	lines    string // of the log, the last ones
	open     string // label of the link
	link     string
}

type fact struct{ Label, Value string }

// pageOf writes a message. cut is how many bytes each of the texts that may be long has at
// most: of a text its beginning, of a log its end.
func pageOf(ch *core.Channel, m *Message, cut int) page {
	l := ch.Language
	p := page{label: words.Label(l, words.LabelLines), open: words.Label(l, words.LabelOpen), link: clean(m.Link, 1000)}
	if m.Event == "" {
		p.subject, p.sentence = words.Test(l, ch.Name)
		p.facts = factsOf(m, l, cut)
		return p.titled(m)
	}
	at := m.Instant // the due time of a retry is later
	if at == 0 || m.Event == string(core.EventOverdue) {
		at = m.Due
	}
	f := words.Facts{Job: nameOf(m), Due: when(m, at.Time()), Took: m.Took, Times: max(m.Times, 1), Channel: m.Muted}
	if m.Reason != "" {
		f.Why = words.Reason(l, m.Reason)
	}
	p.subject, p.sentence = words.Subject(l, m.Event, f), words.Sentence(l, m.Event, f)
	p.sentence += words.Others(l, m.Count-1, when(m, m.Since))
	p.facts = factsOf(m, l, cut)
	p.lines = last(strings.Join(m.Lines, "\n"), cut)
	return p.titled(m)
}

// titled adds the deployment to the subject and limits its length. Every subject contains tickring, because some robots accept only
// messages with a keyword.
func (p page) titled(m *Message) page {
	p.subject = strings.TrimSpace("[tickring "+line(m.Deployment, maxWord)) + "] " + p.subject
	p.subject = line(p.subject, maxSubject)
	return p
}

func nameOf(m *Message) string {
	if m.Job == "" {
		return m.App
	}
	return m.App + "/" + m.Job
}

// when is a time as people read it, in the zone of the message.
func when(m *Message, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	zone, err := time.LoadLocation(m.Zone)
	if err != nil || m.Zone == "" {
		return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	return t.In(zone).Format("2006-01-02 15:04:05") + " " + m.Zone
}

// factsOf lists the details of a message below its sentence.
func factsOf(m *Message, l words.Language, cut int) (list []fact) {
	add := func(label, value string) {
		if value != "" {
			list = append(list, fact{words.Label(l, label), value})
		}
	}
	one := min(maxWord, max(cut, 16))
	if m.Job == "" {
		add(words.LabelApp, line(m.App, maxWord))
	} else {
		add(words.LabelJob, line(nameOf(m), maxWord))
	}
	add(words.LabelTitle, line(m.Title, one))
	if m.Run != 0 {
		add(words.LabelRun, m.Run.String())
	}
	add(words.LabelInstant, when(m, m.Instant.Time()))
	if m.Due != m.Instant {
		add(words.LabelDue, when(m, m.Due.Time()))
	}
	if m.State != "" {
		text := words.State(l, m.State)
		if m.Code != 0 {
			text += " (" + strconv.Itoa(m.Code) + ")"
		}
		add(words.LabelState, text)
	}
	if m.Reason != "" {
		add(words.LabelReason, words.Reason(l, m.Reason))
	}
	add(words.LabelMessage, clean(besides(m.Text, m.Lines), cut))
	if m.Count > 1 {
		add(words.LabelCount, strconv.Itoa(m.Count))
	}
	return list
}

func (p page) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s", p.subject, p.body())
	return b.String()
}

// body is text without the subject.
func (p page) body() string {
	var b strings.Builder
	b.WriteString(p.sentence + "\n")
	if len(p.facts) > 0 {
		b.WriteString("\n")
	}
	for _, f := range p.facts {
		fmt.Fprintf(&b, "%s: %s\n", f.Label, f.Value)
	}
	if p.lines != "" {
		fmt.Fprintf(&b, "\n%s:\n%s\n", p.label, p.lines)
	}
	if p.link != "" {
		fmt.Fprintf(&b, "\n%s: %s\n", p.open, p.link)
	}
	return b.String()
}

// logMark is the line after which the message of a command repeats the end of its log
// (executor.Options.LogTail).
const logMark = "---- log"

// besides returns the part of a run's message that the last lines of its log do not show. The very last line can follow the
// repeated part, because it reports the end of the run.
func besides(text string, lines []string) string {
	plain := func(s string) string { return strings.Trim(strings.ReplaceAll(visible(s), "\ufffd", ""), "\n") }
	said, printed, marked := strings.Cut("\n"+text, "\n"+logMark+"\n")
	whole, end := plain(text), plain(printed)
	for n := len(lines); n > 0 && n >= len(lines)-1; n-- {
		switch shown := plain(strings.Join(lines[:n], "\n")); {
		case shown == "":
		case strings.HasSuffix("\n"+shown, "\n"+whole): // even if the message replaces a log
			return ""
		case marked && (strings.HasSuffix(shown, end) || strings.HasSuffix(end, shown)):
			return strings.TrimPrefix(said, "\n")
		case strings.HasSuffix("\n"+whole, "\n"+shown):
			return strings.TrimSuffix(whole, "\n"+shown)
		}
	}
	return text
}

// clean returns the first most bytes of a text from outside, safe to show: UTF-8, and no control characters except line feeds and
// tabs.
func clean(text string, most int) string {
	if len(text) > 4*most+1024 { // enough, however much is removed
		text = text[:4*most+1024]
	}
	return truncate(visible(text), most, byteLen)
}

// last is clean of the end of a text, from the beginning of a line on where there is one.
func last(text string, most int) string {
	if len(text) > 4*most+1024 {
		text = text[len(text)-4*most-1024:]
	}
	text = strings.Trim(visible(text), "\n")
	if len(text) <= most {
		return text
	}
	text = text[len(text)-max(most-len("…\n"), 0):]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		text = rest
	}
	if text == "" {
		return ""
	}
	return "…\n" + text
}

func line(text string, most int) string {
	return truncate(strings.Join(strings.Fields(clean(text, 4*most)), " "), most, byteLen)
}

func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || r >= 0x7f && r < 0xa0: // including terminal colors
			return -1
		case r == '\u2028' || r == '\u2029' || r == '\u0085':
			return '\n'
		case r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069': // controls of the text direction
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

// truncate shortens text to a size of most, as size counts it, without breaking a rune. It adds an ellipsis if it cuts.
func truncate(text string, most int, size func(rune) int) string {
	n, cut := 0, 0 // cut is where an ellipsis still fits
	for i, r := range text {
		if n+size('…') <= most {
			cut = i
		}
		if n += size(r); n > most {
			if size('…') > most {
				return ""
			}
			return text[:cut] + "…"
		}
	}
	return text
}

func byteLen(r rune) int  { return utf8.RuneLen(r) }
func utf16Len(r rune) int { return max(utf16.RuneLen(r), 1) }
