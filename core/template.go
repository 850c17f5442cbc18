package core

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Template is a params text with placeholders, which are replaced by values for each run. The forms of a placeholder
// are {{name}}, {{name pattern}}, {{name offset}} and {{name pattern offset}}. Placeholders lists all names.
type Template struct {
	text   string
	places []place
}

// place replaces text[from:to].
type place struct {
	from, to int
	name     string
	pattern  []part // date pattern; nil: RFC 3339
	offset   offset
}

// part is a run of letters of a date pattern, or plain text.
type part struct {
	letter byte // 0: plain text
	text   string
}

type offset struct {
	n    int
	unit byte
}

var Placeholders = []string{"scheduledAt", "attempt", "runId", "lastSuccessAt", parentData}

// parentData is the data of the parent run. It is filled when the run is created, because the
// parent may be deleted before the run is sent.
const parentData = "parent.data"

const (
	maxPlaces  = 100
	maxPattern = 64
	maxOffset  = 10_000
)

// Filling has the values for the placeholders of one run.
type Filling struct {
	Run     RunID
	Attempt int
	At      Instant // value of scheduledAt
	// LastSuccess is the scheduled time of the job's last run that succeeded; 0: unknown.
	LastSuccess Instant
	Zone        *time.Location // time zone of the job
	ParentData  string         // data from the parent run; empty without a parent
}

// ParseTemplate parses params as a template. The error names the position of the mistake and the allowed syntax.
func ParseTemplate(text string) (*Template, error) {
	t := &Template{text: text}
	for at := 0; ; {
		open := strings.Index(text[at:], "{{")
		if open < 0 {
			return t, nil
		}
		open += at
		end := strings.Index(text[open:], "}}")
		if end < 0 {
			return nil, badTemplate(text, open, text[open:], Say("the closing }} is missing"))
		}
		end += open + 2
		p, err := parsePlace(text[open+2 : end-2])
		if err != nil {
			return nil, badTemplate(text, open, text[open:end], err)
		}
		p.from, p.to = open, end
		if t.places = append(t.places, p); len(t.places) > maxPlaces {
			return nil, badTemplate(text, open, text[open:end], Say("at most %d placeholders are allowed", maxPlaces))
		}
		at = end
	}
}

func badTemplate(text string, at int, what string, why any) error {
	if len(what) > 40 {
		what = strings.ToValidUTF8(what[:40], "") + "…"
	}
	line := 1 + strings.Count(text[:at], "\n")
	column := 1 + len([]rune(text[strings.LastIndexByte(text[:at], '\n')+1:at]))
	return Invalid("params", what, "line %d, column %d of the template: %s", line, column, why)
}

func parsePlace(text string) (p place, err error) {
	words, err := templateWords(text)
	if err != nil {
		return p, err
	}
	if len(words) == 0 {
		return p, Errorf(CodeInvalid, "a name is missing; allowed values: %s", strings.Join(Placeholders, ", "))
	}
	p.name = words[0]
	switch {
	case !slices.Contains(Placeholders, p.name):
		return p, Errorf(CodeInvalid, "%s is not a known name; allowed values: %s", p.name, strings.Join(Placeholders, ", "))
	case p.name != "scheduledAt" && p.name != "lastSuccessAt" && len(words) > 1:
		return p, Errorf(CodeInvalid, "%s is not a time, so no pattern or offset can follow its name", p.name)
	}
	for k, w := range words[1:] {
		switch {
		case w[0] == '+' || w[0] == '-':
			if p.offset != (offset{}) {
				return p, Errorf(CodeInvalid, "only one offset is allowed: remove the second offset %s", w)
			}
			if p.offset, err = parseOffset(w); err != nil {
				return p, err
			}
		case k > 0:
			return p, Errorf(CodeInvalid, "%s: only an offset such as -1d is allowed after the pattern; put a pattern with spaces in \"quotes\"", w)
		default:
			if p.pattern, err = parsePattern(w); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// templateWords splits a placeholder into words; a quoted text is one word.
func templateWords(text string) (words []string, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if text[0] == '"' {
			end := strings.IndexByte(text[1:], '"')
			if end < 1 {
				return nil, Errorf(CodeInvalid, "a quoted text is empty or not closed")
			}
			words, text = append(words, text[1:end+1]), text[end+2:]
			continue
		}
		end := strings.IndexAny(text, " \t\n")
		if end < 0 {
			end = len(text)
		}
		words, text = append(words, text[:end]), text[end:]
	}
	return words, nil
}

const offsetUnits = "smhdwMy"

func parseOffset(w string) (o offset, err error) {
	unit := w[len(w)-1]
	n, err := strconv.Atoi(w[:len(w)-1])
	if err != nil || strings.IndexByte(offsetUnits, unit) < 0 || n < -maxOffset || n > maxOffset {
		return o, Errorf(CodeInvalid, "%s is not an offset: expected a sign, a number up to %d and one of s, m, h, d, w, M (months), y, such "+
			"as -1d", w,
			maxOffset)
	}
	return offset{n, unit}, nil
}

// move adds the offset to t. Days and longer units follow the calendar of t's zone. The last day of
// a month becomes the last day of a shorter month.
func (o offset) move(t time.Time) time.Time {
	switch o.unit {
	case 's':
		return t.Add(time.Duration(o.n) * time.Second)
	case 'm':
		return t.Add(time.Duration(o.n) * time.Minute)
	case 'h':
		return t.Add(time.Duration(o.n) * time.Hour)
	case 'd':
		return t.AddDate(0, 0, o.n)
	case 'w':
		return t.AddDate(0, 0, 7*o.n)
	case 'M', 'y':
		months := o.n
		if o.unit == 'y' {
			months *= 12
		}
		first := time.Date(t.Year(), t.Month()+time.Month(months), 1, t.Hour(), t.Minute(), t.Second(), 0, t.Location())
		last := first.AddDate(0, 1, -1).Day()
		return first.AddDate(0, 0, min(t.Day(), last)-1)
	}
	return t
}

// patternLetters maps the allowed letters of Java date patterns, by length, to Go's layouts.
var patternLetters = map[string]string{"yyyy": "2006", "yy": "06", "MM": "01", "M": "1", "dd": "02", "d": "2", "HH": "15", "mm": "04",
	"ss": "05", "XXX": "Z07:00", "EEE": "Mon"}

func parsePattern(w string) (parts []part, err error) {
	if len(w) > maxPattern {
		return nil, Errorf(CodeInvalid, "a pattern can have at most %d characters", maxPattern)
	}
	for i := 0; i < len(w); {
		c := w[i]
		n := 1
		switch {
		case c == '\'':
			end := strings.IndexByte(w[i+1:], '\'')
			if end < 0 {
				return nil, Errorf(CodeInvalid, "%s: a closing ' is missing", w)
			}
			text := w[i+1 : i+1+end]
			if end == 0 { // '' is a quote character
				text = "'"
			}
			parts = append(parts, part{text: text})
			n = end + 2
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			for i+n < len(w) && w[i+n] == c {
				n++
			}
			layout, is := patternLetters[w[i:i+n]]
			if !is {
				return nil, Errorf(CodeInvalid, "%s is not allowed in a pattern; allowed values: yyyy yy MM M dd d HH mm ss XXX EEE, "+
					"other letters in 'quotes'", w[i:i+n])
			}
			parts = append(parts, part{letter: c, text: layout})
		default:
			for i+n < len(w) && strings.IndexByte("'", w[i+n]) < 0 && !isLetter(w[i+n]) {
				n++
			}
			parts = append(parts, part{text: w[i : i+n]})
		}
		i += n
	}
	return parts, nil
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// NeedsLastSuccess reports whether the template has the placeholder lastSuccessAt.
func (t *Template) NeedsLastSuccess() bool {
	return slices.ContainsFunc(t.places, func(p place) bool { return p.name == "lastSuccessAt" })
}

// NeedsParent reports whether the template has the placeholder parent.data.
func (t *Template) NeedsParent() bool {
	return slices.ContainsFunc(t.places, func(p place) bool { return p.name == parentData })
}

// checkParent returns an error if the parent data cannot be filled once for all attempts, or if
// the result can become too long.
func (t *Template) checkParent() error {
	if !t.NeedsParent() {
		return nil
	}
	longest := len(t.text)
	for _, p := range t.places {
		switch p.name {
		case parentData:
			longest += DataMax
		case "scheduledAt":
			longest += maxPattern + 2*len(time.RFC3339)
		default:
			return badTemplate(t.text, p.from, t.text[p.from:p.to], Say("a template with parent.data can have only parent.data and scheduledAt: "+
				"tickring fills in the template once, when it creates the run"))
		}
	}
	if longest > MaxParams {
		return Invalid("params", "", "with the longest data (%d bytes for each placeholder), the params would exceed %d bytes",
			DataMax, MaxParams)
	}
	return nil
}

// Fill returns the params of one run, or an error if the params are too long.
func (t *Template) Fill(f Filling) (string, error) {
	var b strings.Builder
	at := 0
	for i := range t.places {
		p := &t.places[i]
		b.WriteString(t.text[at:p.from])
		b.WriteString(p.value(&f))
		at = p.to
	}
	b.WriteString(t.text[at:])
	return b.String(), CheckParams("params", b.String())
}

func (p *place) value(f *Filling) string {
	switch p.name {
	case "attempt":
		return strconv.Itoa(f.Attempt)
	case "runId":
		return f.Run.String()
	case "lastSuccessAt":
		return p.moment(f.LastSuccess, f.Zone)
	case parentData:
		return f.ParentData
	}
	return p.moment(f.At, f.Zone)
}

func (p *place) moment(at Instant, zone *time.Location) string {
	if at == 0 {
		return ""
	}
	if zone == nil {
		zone = time.UTC
	}
	t := p.offset.move(at.Time().In(zone))
	if p.pattern == nil {
		return t.Format(time.RFC3339)
	}
	var b strings.Builder
	for _, x := range p.pattern {
		if x.letter == 0 {
			b.WriteString(x.text)
		} else {
			b.WriteString(t.Format(x.text))
		}
	}
	return b.String()
}
