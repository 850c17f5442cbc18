package cron

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// MaxText is the maximum length of an expression in bytes. Lists with every value of every field fit.
const MaxText = 1024

// A ParseError reports why and where an expression is invalid.
type ParseError struct {
	Text   string
	Pos    int       // byte offset of the error in Text; the first byte is 0
	Field  string    // name of the field; empty if the error is not in one field
	Reason core.Text // the problem and the allowed values
}

// Error returns the message as one line.
func (e *ParseError) Error() string {
	text := e.Text
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:100], "") + "..."
	}
	where := fmt.Sprintf("at offset %d of %q", e.Pos, text)
	if e.Field != "" {
		where = e.Field + " " + where
	}
	return where + ": " + e.Reason.String()
}

type field struct {
	kind     kind
	min, max int
	allowed  core.Text
}

type kind uint8

const (
	seconds kind = iota
	minutes
	hours
	daysOfMonth
	months
	daysOfWeek
	yearField
)

func (k kind) String() string {
	return kindNames[k].String()
}

var kindNames = [...]core.Text{core.Say("seconds"), core.Say("minutes"), core.Say("hours"), core.Say("day-of-month"), core.Say("month"),
	core.Say("day-of-week"), core.Say("year")}

// maxYear is the largest year that may be written. It is beyond LastYear
// because people write 3000 or 9999 for "no end".
const maxYear = 9999

var quartzFields = []field{
	{seconds, 0, 59, core.Say("0-59")},
	{minutes, 0, 59, core.Say("0-59")},
	{hours, 0, 23, core.Say("0-23")},
	{daysOfMonth, 1, 31, core.Say("1-31, L, L-0 to L-30, 1W-31W, LW, L-nW or ?")},
	{months, 1, 12, core.Say("1-12 or JAN-DEC")},
	{daysOfWeek, 1, 7, core.Say("1-7 (1 is Sunday), SUN-SAT, n#1 to n#5, nL, L or ?")},
	{yearField, FirstYear, maxYear, core.Say("1970-9999")},
}

var crontabFields = []field{
	{minutes, 0, 59, core.Say("0-59")},
	{hours, 0, 23, core.Say("0-23")},
	{daysOfMonth, 1, 31, core.Say("1-31")},
	{months, 1, 12, core.Say("1-12 or JAN-DEC")},
	{daysOfWeek, 0, 7, core.Say("0-7 (0 and 7 are Sunday) or SUN-SAT")},
}

var nicknames = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// form is the way an item of a list is written.
type form uint8

const (
	formAny      form = iota // ?
	formStar                 // *, */n, /n
	formValue                // n
	formFrom                 // n/step
	formRange                // a-b, a-b/step
	formLast                 // L, L-n in day-of-month (lo: n)
	formNear                 // nW
	formLastNear             // LW, L-nW (lo: n)
	formNth                  // n#k in day-of-week (step: k)
	formLastDow              // nL in day-of-week
	formSaturday             // L in day-of-week
)

// item is one member of the list that a field is.
type item struct {
	form         form
	lo, hi, step int
	named        bool // months or days by name
	text         string
	pos          int
}

// ParseQuartz parses a cron expression of 6 or 7 fields in the Quartz dialect. Its error is a *ParseError.
func ParseQuartz(text string) (*Expr, error) {
	fields, err := readQuartz(text)
	if err != nil {
		return nil, foreignForm(text, err)
	}
	return &Expr{text: text, schedule: compileQuartz(fields)}, nil
}

// ParseCrontab parses a cron expression of 5 fields by the rules of Unix crontab. Its error is a *ParseError.
func ParseCrontab(text string) (*Expr, error) {
	fields, err := readCrontab(text)
	if err != nil {
		return nil, foreignForm(text, err)
	}
	return &Expr{text: text, schedule: compileCrontab(fields)}, nil
}

func readQuartz(text string) ([][]item, error) {
	words, err := split(text)
	if err != nil {
		return nil, err
	}
	switch n := len(words); {
	case strings.HasPrefix(words[0].text, "@"):
		return nil, &ParseError{text, words[0].pos, "", core.Say("`cron` does not support @ names: use `crontab`")}
	case n == 5:
		return nil, &ParseError{text, words[0].pos, "",
			core.Say("5 fields are Unix crontab syntax: use the kind crontab; cron has 6 or 7: seconds minutes hours day-of-month month " +
				"day-of-week [year]")}
	case n < 6:
		return nil, &ParseError{text, len(text), "",
			core.Say("the expression has only %s; 6 or 7 fields are required: seconds minutes hours day-of-month month "+
				"day-of-week [year]", counted(n))}
	case n > 7:
		return nil, &ParseError{text, words[7].pos, "",
			core.Say("the expression has %d fields; 6 or 7 are required: seconds minutes hours day-of-month month day-of-week "+
				"[year]", n)}
	}
	fields, err := readFields(text, words, quartzFields, false)
	if err != nil {
		return nil, err
	}
	dom, dow := fields[daysOfMonth][0], fields[daysOfWeek][0]
	if dom.form == formAny && dow.form == formAny {
		return nil, &ParseError{text, dow.pos, daysOfWeek.String(), core.Say("day-of-month and day-of-week are both ?; exactly one must be ?")}
	}
	if dom.form != formAny && dow.form != formAny {
		return nil, bothDays(text, words, fields[daysOfMonth], fields[daysOfWeek])
	}
	return fields, nil
}

func readCrontab(text string) ([][]item, error) {
	words, err := split(text)
	if err != nil {
		return nil, err
	}
	first := words[0]
	if strings.HasPrefix(first.text, "@") {
		expansion, ok := nicknames[strings.ToLower(first.text)]
		if rest := behind(words, 1); ok && rest != "" {
			return nil, isCommand(text, words[1].pos, rest)
		}
		if !ok || len(words) > 1 {
			return nil, &ParseError{text, first.pos, "",
				core.Say("not a known name; allowed: 5 fields, or exactly one of @yearly @annually @monthly @weekly @daily " +
					"@midnight @hourly")}
		}
		words, _ = split(expansion)
	}
	if rest := behind(words, 5); rest != "" {
		return nil, isCommand(text, words[5].pos, rest)
	}
	switch n := len(words); {
	case n == 6 || n == 7:
		return nil, &ParseError{text, first.pos, "",
			core.Say("%d fields are Quartz syntax: use the kind cron; crontab has 5: minutes hours day-of-month month day-of-week", n)}
	case n < 5:
		return nil, &ParseError{text, len(text), "",
			core.Say("the expression has only %s; 5 fields are required: minutes hours day-of-month month day-of-week", counted(n))}
	case n > 5:
		return nil, &ParseError{text, words[5].pos, "",
			core.Say("the expression has %d fields; 5 are required: minutes hours day-of-month month day-of-week", n)}
	}
	return readFields(text, words, crontabFields, true)
}

// Line splits a line of a crontab file into its expression and its command. The result ok is false if the line is not a valid
// expression and a command.
func Line(text string) (expr, command string, ok bool) {
	words, _ := split(text)
	n := 5
	if len(words) > 0 && strings.HasPrefix(words[0].text, "@") {
		n = 1
	}
	if command = behind(words, n); command == "" {
		return "", "", false
	}
	expr = strings.TrimSpace(text[:words[n].pos])
	_, err := ParseCrontab(expr)
	return expr, strings.TrimSpace(text[words[n].pos:]), err == nil
}

// behind is the first of the words behind n, if that is not a field of any cron expression.
func behind(words []word, n int) string {
	if len(words) <= n {
		return ""
	}
	text := words[n].text
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r < 'A' || r > 'Z' && r < 'a' || r > 'z' }) {
		if !slices.Contains([]string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "L", "W", "LW"}, strings.ToUpper(name)) {
			return text
		}
	}
	return ""
}

func isCommand(text string, pos int, word string) error {
	return &ParseError{text, pos, "", core.Say("the schedule is followed by a command, %s: set `command: {line: …}` if the "+
		"server runs commands, or run the command as a handler of `tickring exec`; 5 fields are required: "+
		"minutes hours day-of-month month day-of-week", quote(word))}
}

type word struct {
	text string
	pos  int
}

// split splits the text into fields. There is at least one.
func split(text string) ([]word, error) {
	if len(text) > MaxText {
		return nil, &ParseError{text, MaxText, "", core.Say("the expression has %d bytes; at most %d are allowed", len(text), MaxText)}
	}
	// A line end at either end comes from files; inside it is a mistake.
	end := len(strings.TrimRight(text, " \t\r\n"))
	pos := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	var words []word
	for pos < end {
		n := strings.IndexAny(text[pos:end], " \t")
		if n < 0 {
			n = end - pos
		}
		if n > 0 {
			words = append(words, word{text[pos : pos+n], pos})
		}
		pos += n + 1
	}
	if len(words) == 0 {
		return nil, &ParseError{text, 0, "", core.Say("the expression is empty")}
	}
	return words, nil
}

func readFields(text string, words []word, fields []field, crontab bool) ([][]item, error) {
	result := make([][]item, len(words))
	for i, w := range words {
		r := reader{text: text, field: fields[i], crontab: crontab}
		list, err := r.list(w)
		if err != nil {
			return nil, err
		}
		result[i] = list
	}
	return result, nil
}

// reader reads one field.
type reader struct {
	text    string
	field   field
	crontab bool
	rest    string // the unread part of the item
	pos     int    // the position of rest
}

func (r *reader) list(w word) ([]item, error) {
	var list []item
	pos := w.pos
	for part := range strings.SplitSeq(w.text, ",") {
		r.rest, r.pos = part, pos
		it, err := r.item()
		if err != nil {
			return nil, err
		}
		if r.rest != "" {
			return nil, r.fail("%s is not valid after %q", quote(r.rest), part[:len(part)-len(r.rest)])
		}
		it.text, it.pos = part, pos
		list = append(list, it)
		pos += len(part) + 1
	}
	for _, it := range list {
		if len(list) > 1 && it.alone() {
			r.pos = it.pos
			return nil, r.fail("%s must be the only value, not part of a list", it.text)
		}
	}
	return list, nil
}

// alone reports whether Quartz applies the item to the whole field, whatever else is listed.
func (it item) alone() bool {
	switch it.form {
	case formAny, formNth, formLastDow, formSaturday:
		return true
	}
	return false
}

func (r *reader) item() (item, error) {
	dayOfMonth, dayOfWeek := r.field.kind == daysOfMonth, r.field.kind == daysOfWeek
	switch {
	case r.rest == "":
		return item{}, r.fail("a value is missing")
	case r.rest[0] == '?':
		if r.crontab {
			return item{}, r.fail("? is Quartz syntax: use * in crontab")
		}
		if !dayOfMonth && !dayOfWeek {
			return item{}, r.fail("? is allowed only in the day fields")
		}
		r.skip(1)
		return item{form: formAny}, nil
	case r.rest[0] == '*':
		r.skip(1)
		step, err := r.step()
		return item{form: formStar, lo: r.field.min, hi: r.field.max, step: step}, err
	case r.rest[0] == '/' && !r.crontab:
		step, err := r.step()
		return item{form: formStar, lo: r.field.min, hi: r.field.max, step: step}, err
	case dayOfMonth && r.at("L"):
		return r.lastOfMonth()
	case dayOfWeek && strings.EqualFold(r.rest, "L"):
		return item{form: formSaturday, lo: 7, hi: 7, step: 1}, r.quartz("L")
	}

	lo, named, err := r.value()
	if err != nil {
		return item{}, err
	}
	it := item{form: formValue, lo: lo, hi: lo, step: 1, named: named}
	switch {
	case dayOfMonth && r.at("W"):
		it.form = formNear
		return it, r.quartz("W")
	case dayOfWeek && r.at("L"):
		it.form = formLastDow
		return it, r.quartz("L")
	case dayOfWeek && r.at("#"):
		it.form = formNth
		if err := r.quartz("#"); err != nil {
			return it, err
		}
		at := r.pos
		it.step, err = r.number()
		if err == nil && (it.step < 1 || it.step > 5) {
			r.pos = at
			err = r.fail("#%d is out of range 1-5", it.step)
		}
		return it, err
	case r.at("-"):
		return r.toEnd(it)
	case r.at("/"):
		if r.crontab {
			return item{}, r.fail("a step after one value is ambiguous in crontab: write %d-%d%s", lo, r.field.max, r.rest)
		}
		if named {
			return item{}, r.fail("a step after a name is ignored by Quartz: write numbers")
		}
		it.form, it.hi = formFrom, r.field.max
		it.step, err = r.step()
		return it, err
	}
	return it, nil
}

// toEnd reads the rest of a range.
func (r *reader) toEnd(it item) (item, error) {
	r.skip(1)
	at := r.pos
	hi, named, err := r.value()
	if err != nil {
		return it, err
	}
	if r.crontab && r.field.kind == daysOfWeek && named && hi == 0 {
		hi = 7 // FRI-SUN
	}
	if !r.crontab && named != it.named {
		r.pos = at
		return it, r.fail("a range needs two numbers or two names")
	}
	if hi < it.lo && (r.crontab || r.field.kind == yearField) {
		r.pos = at
		if r.crontab {
			return it, r.fail("a range cannot wrap around in crontab: write %d-%d,%d-%d", it.lo, r.field.max, r.field.min, hi)
		}
		return it, r.fail("a range of years cannot end before its start")
	}
	at = r.pos
	it.form, it.hi = formRange, hi
	it.step, err = r.step()
	if err == nil && named && it.step > 1 && !r.crontab {
		r.pos = at
		err = r.fail("a step after names is ignored by Quartz: write numbers")
	}
	return it, err
}

// lastOfMonth reads L, L-n, LW and L-nW in day-of-month.
func (r *reader) lastOfMonth() (item, error) {
	if err := r.quartz("L"); err != nil {
		return item{}, err
	}
	it := item{form: formLast}
	if r.at("-") {
		r.skip(1)
		at := r.pos
		n, err := r.number()
		if err == nil && n > 30 {
			r.pos = at
			err = r.fail("L-%d is before the start of every month", n)
		}
		if err != nil {
			return it, err
		}
		it.lo = n
	}
	if r.at("W") {
		r.skip(1)
		it.form = formLastNear
	}
	return it, nil
}

// step reads an optional /n.
func (r *reader) step() (int, error) {
	if !r.at("/") {
		return 1, nil
	}
	r.skip(1)
	at := r.pos
	n, err := r.number()
	if err == nil && (n < 1 || n > r.field.max) {
		r.pos = at
		err = r.fail("step %d is out of range 1-%d", n, r.field.max)
	}
	return n, err
}

// value reads a number in range, or a name if the field has names.
func (r *reader) value() (n int, named bool, err error) {
	letters := 0
	for letters < len(r.rest) && isLetter(r.rest[letters]) {
		letters++
	}
	if letters > 0 && (r.field.kind == months || r.field.kind == daysOfWeek) {
		n, used := r.name(r.rest[:letters])
		switch {
		case used > 0:
			r.skip(used)
			return n, true, nil
		case r.field.kind == months:
			return 0, true, r.fail("%s is not the name of a month", quote(r.rest[:letters]))
		}
		return 0, true, r.fail("%s is not the name of a day", quote(r.rest[:letters]))
	}
	at := r.pos
	n, err = r.number()
	if err == nil && (n < r.field.min || n > r.field.max) {
		r.pos = at
		err = r.fail("%d is out of range", n)
	}
	return n, false, err
}

// name looks up a month or day by its first three letters or its full name and
// returns how many letters it used: the L of FRIL is not part of the name.
func (r *reader) name(letters string) (n, used int) {
	short := letters
	if r.field.kind == daysOfWeek && len(letters) == 4 && strings.EqualFold(letters[3:], "L") {
		short = letters[:3]
	}
	matches := func(full string) bool {
		return strings.EqualFold(letters, full) || strings.EqualFold(short, full[:3])
	}
	if r.field.kind == months {
		for m := time.January; m <= time.December; m++ {
			if matches(m.String()) {
				return int(m), len(letters)
			}
		}
		return 0, 0
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if matches(d.String()) {
			return int(d) + r.field.min, len(short) // Sunday is the first day in both dialects
		}
	}
	return 0, 0
}

func (r *reader) number() (int, error) {
	n, digits := 0, 0
	for digits < len(r.rest) && r.rest[digits] >= '0' && r.rest[digits] <= '9' {
		n = min(n*10+int(r.rest[digits]-'0'), 1_000_000) // no overflow, and out of every range
		digits++
	}
	switch {
	case r.rest == "":
		return 0, r.fail("a number is missing")
	case digits == 0:
		return 0, r.fail("%s is not a number", quote(r.rest))
	}
	if n == 1_000_000 {
		return 0, r.fail("%s is out of range", quote(r.rest[:digits]))
	}
	r.skip(digits)
	return n, nil
}

func (r *reader) at(s string) bool {
	return len(r.rest) >= len(s) && strings.EqualFold(r.rest[:len(s)], s)
}

func (r *reader) skip(n int) { r.rest, r.pos = r.rest[n:], r.pos+n }

func (r *reader) fail(format string, args ...any) error {
	return &ParseError{r.text, r.pos, r.field.kind.String(), core.Say("%s; allowed: %s", core.Say(format, args...), r.field.allowed)}
}

// quartz skips a mark of one character that only Quartz has.
func (r *reader) quartz(mark string) error {
	if r.crontab {
		return r.fail("%s is Quartz syntax: use the kind cron, not crontab", mark)
	}
	r.skip(1)
	return nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func quote(s string) string {
	if len(s) > 20 {
		s = strings.ToValidUTF8(s[:20], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}

// counted writes a number of fields.
func counted(n int) core.Text {
	if n == 1 {
		return core.Say("1 field")
	}
	return core.Say("%d fields", n)
}
