package console_test

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/story"
)

// The stories of the console: each section of a file is a story. Each line is a step, with its result on the indented lines
// below. A step fails if its answer has another status than the step; without one, a GET needs 200 and a POST 303. The flag
// -update writes the results, and nothing else. A story begins as an admin, in English.
//
//	METHOD /v1/…              a request to the API, by the admin token
//	GET PAGE [STATUS] [FIND]  a page, with the text of the elements that FIND selects, see textOf
//	SEE FIND                  more of the last page
//	+ TEXT, - TEXT            the last answer has the text, or does not have it
//	IN BEGIN … END            the next texts are in, or not in, the part between these two
//	POST PATH [STATUS] FORM   posts a form, and follows to the next page; shows its messages
//	TYPE PATH FORM            sends a form as a page does while its user types
//	FORM PAGE FORM            fills in the large form of a page; FORM alone takes all fields of the last page
//	FORM on PATH FORM         fills in the form of the last page that posts to PATH
//	KEEP NAME, USE NAME       keeps the present form under a name, and uses it again
//	HAS FORM                  the present form has these values
//	LET NAME BEGIN … END      {NAME} is from now on the part of the last answer between the two; {rev} is the revision in it
//	LET NAME, PAGE ADDRESS    {NAME} is the address of the last page; the last page has this address
//	RUN JOB MINUTES FIELDS    a run of a job that is MINUTES old; {run2} is the ID of the one that is two minutes old
//	REPEAT N STEP             repeats a step for {n} from 00 on
//	SKIP JOB TIME             a run of a job that was skipped by the misfire policy
//	REPORTS SPAN              counts for reports, up to a time before now
//	WAIT SPAN, AT TIME        the clock
//	LANG, USER, AS            another language; a new user with grants; a login as a user
//
// A FORM has fields like name=value, with ampersands between them. It begins with an ampersand if it changes the present
// form. A name alone removes a field, and name~old~new replaces a part of its value.
func TestAppStories(t *testing.T)    { golden.Replay(t, tell) }
func TestFormStories(t *testing.T)   { golden.Replay(t, tell) }
func TestJobStories(t *testing.T)    { golden.Replay(t, tell) }
func TestListStories(t *testing.T)   { golden.Replay(t, tell) }
func TestPeopleStories(t *testing.T) { golden.Replay(t, tell) }

// A teller plays the steps of a story.
type teller struct {
	*site
	text string // of the last answer, or the part of it that was chosen
	addr string // of the last page
	form url.Values
	kept map[string]url.Values
	vars map[string]string
}

func tell(t *testing.T, text string) (told string) {
	p := &teller{site: newConsole(t), form: url.Values{}, kept: map[string]url.Values{}, vars: map[string]string{"ledger": pay,
		"long": strings.Repeat("9", 5000)}}
	p.in("en")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "    ") {
			continue // the result of a step
		}
		told += line
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		for shown := range strings.Lines(varies.ReplaceAllString(p.step(line), "$1 N")) {
			told += "    " + shown
		}
		if t.Failed() {
			t.Fatalf("at the step %s", line)
		}
	}
	return told
}

// fill replaces the names in braces.
func (p *teller) fill(text string) string {
	for name, value := range p.vars {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// step plays a step, and returns the text that it shows.
func (p *teller) step(line string) (shown string) {
	if rest, is := strings.CutPrefix(line, "REPEAT "); is {
		times, step, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(times)
		check.OK(p.t, err)
		for i := range n {
			p.vars["n"] = fmt.Sprintf("%02d", i)
			p.step(step)
		}
		return ""
	}
	verb, args, _ := strings.Cut(p.fill(line), " ")
	path, rest, _ := strings.Cut(args, " ")
	switch {
	case strings.HasPrefix(path, "/v1/"):
		p.text = p.ask(verb, path, rest)
	case verb == "GET":
		status, find := statusOf(rest, http.StatusOK)
		w := p.gets(path, status)
		if p.answer(cmp.Or(w.Header().Get("Location"), path)); find != "" {
			shown = p.seen(find)
		}
	case verb == "POST":
		status, fields := statusOf(rest, http.StatusSeeOther)
		p.fields(fields)
		w := p.posts(path, p.form, status)
		if to := w.Header().Get("Location"); status == http.StatusSeeOther {
			p.gets(to, http.StatusOK)
			path = to
		}
		p.answer(path)
		shown = textOf(p.t, p.page, results)
	case verb == "SEE":
		shown = p.seen(args)
	case verb == "+":
		if text := strings.ReplaceAll(args, `\n`, "\n"); !strings.Contains(p.text, text) {
			check.Contains(p.t, html.UnescapeString(p.text), text)
		}
	case verb == "-":
		p.never(p.text+html.UnescapeString(p.text), strings.ReplaceAll(args, `\n`, "\n"))
	default:
		p.prepare(verb, args, path, rest)
	}
	return shown
}

// statusOf returns the status at the beginning of a text, and the rest of the text.
func statusOf(text string, usual int) (status int, rest string) {
	first, rest, _ := strings.Cut(text, " ")
	if n, err := strconv.Atoi(first); err == nil {
		return n, rest
	}
	return usual, text
}

// answer takes the last page as the answer of a step.
func (p *teller) answer(addr string) {
	p.text, p.addr = p.page, addr
	if _, rest, is := strings.Cut(p.page, `name="rev" value="`); is {
		p.vars["rev"], _, _ = strings.Cut(rest, `"`)
	}
}

// seen returns the text of elements of the last page, which must be there.
func (p *teller) seen(find string) string {
	text := textOf(p.t, p.page, find)
	if text == "" {
		p.t.Errorf("the page has no %s: %s", find, p.page)
	}
	return text
}

// fields sets the fields of the form.
func (p *teller) fields(text string) {
	if text == "" || text[0] != '&' {
		p.form = url.Values{}
	}
	text = strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(text, "&"), " "), `\n`, "\n")
	for part := range strings.SplitSeq(text, " & ") {
		name, value, is := strings.Cut(part, "=")
		edited, change, edits := strings.Cut(part, "~")
		switch {
		case part == "":
		case edits && len(edited) < len(name):
			old, now, _ := strings.Cut(change, "~")
			p.form.Set(edited, strings.ReplaceAll(p.form.Get(edited), old, now))
		case is:
			p.form.Set(name, value)
		default:
			p.form.Del(part)
		}
	}
}

// prepare plays a step that shows nothing.
func (p *teller) prepare(verb, args, path, rest string) {
	switch verb {
	case "TYPE":
		p.fields(rest)
		p.typing(path, p.form)
		p.answer(path)
	case "FORM":
		switch path {
		case "":
			p.form = fields(p.page)
		case "on":
			path, rest, _ = strings.Cut(rest, " ")
			p.form = formTo(p.t, p.page, html.EscapeString(path))
		default:
			p.form = p.site.form(path)
			p.answer(path)
		}
		p.fields("& " + rest)
	case "HAS":
		for part := range strings.SplitSeq(args, " & ") {
			name, value, _ := strings.Cut(part, "=")
			check.Equal(p.t, p.form.Get(name), strings.ReplaceAll(value, `\n`, "\n"), "%s", name)
		}
	case "IN":
		begin, end, _ := strings.Cut(args, " … ")
		check.Contains(p.t, p.text, begin)
		p.text = cutOut(p.text, begin, end)
	case "KEEP":
		p.kept[args] = maps.Clone(p.form)
	case "USE":
		p.form = maps.Clone(p.kept[args])
	case "LET":
		begin, end, isPart := strings.Cut(rest, " … ")
		if p.vars[path] = p.addr; isPart {
			p.vars[path] = html.UnescapeString(cutOut(p.text, begin, end))
		}
	case "PAGE":
		check.Equal(p.t, p.addr, args, "the address")
	case "WAIT":
		d, err := time.ParseDuration(args)
		check.OK(p.t, err)
		p.Clock = p.Clock.Add(d)
	case "AT":
		at, err := time.Parse(time.RFC3339, args)
		check.OK(p.t, err)
		p.Clock = at
	case "LANG":
		p.in(args)
	case "AS":
		p.logInAs(args)
	default:
		p.store(verb, path, rest)
	}
}

// store plays a step that stores something.
func (p *teller) store(verb, name, rest string) {
	stage := story.Stage{T: p.t, Now: func() time.Time { return p.Clock }}
	switch verb {
	case "RUN":
		ago, set, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(ago)
		check.OK(p.t, err)
		r := p.ended(new(p.Job(name)), n, func(r *core.Run) { stage.Set(set, r) })
		p.vars["run"+ago] = r.ID.String()
	case "SKIP":
		job, at := p.Job(name), core.InstantOf(stage.Time(rest))
		check.OK(p.t, p.E.PutSkips(p.t.Context(), []core.Skip{{Job: job.Def.ID, First: at, Last: at, Count: 1,
			Reason: core.ReasonMisfire, Rev: job.Sched.Rev, Made: p.Clock}})[0])
	case "REPORTS":
		ago, err := time.ParseDuration(name)
		check.OK(p.t, err)
		p.reportsSince(ago)
	case "USER":
		var list []access.Grant
		for grant := range strings.FieldsSeq(rest) {
			app, role, ofApp := strings.Cut(grant, ":")
			if !ofApp {
				app, role = "", app
			}
			list = append(list, access.Grant{App: app, Role: access.Role(role)})
		}
		p.person(name, list...)
	default:
		p.t.Fatalf("no step of a story: %s %s %s", verb, name, rest)
	}
}
