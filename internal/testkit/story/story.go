// Package story plays short texts against the real parts of tickring, and compares the result of each step with a golden
// file. A story is a list of steps, one a line or separated by semicolons. The first word of a step is its verb.
//
// In a text, 7@-1s is the run of job 7 that is scheduled a second before Begin, and 7#2 is its numbered run 2. A time is a
// duration since Begin, or since now: +30s, now-90s. Fields of structs are set by name: state=planned retry.max=2.
package story

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// Begin is when each story begins.
var Begin = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// A Stage has the parts that one story is played on. A step such as +10m lets time pass.
type Stage struct {
	T *testing.T
	// Given has the verbs that prepare a story. Their results are not in the golden file.
	Given, Do map[string]func(args string)
	See       func() map[string][]string // the fields of all that can be seen, by the name of the thing
	Now       func() time.Time
	Sleep     func(time.Duration)

	mu   sync.Mutex
	said []string
	seen map[string][]string
}

// Play plays stories, each in a bubble of testing/synctest and on its own stage. The golden file has a section for each: the
// steps, and below each step that does something its results.
func Play(t *testing.T, stories map[string]string, stage func(*testing.T) *Stage) {
	texts := golden.New(t)
	for name, text := range stories {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(Begin)) // fake time
				s := stage(t)
				s.seen = s.See()
				var page strings.Builder
				var steps []string // whose results are not shown yet
				for _, step := range split(text) {
					lines := s.play(step)
					steps = append(steps, step)
					if verb, _, _ := strings.Cut(step, " "); s.Do[verb] == nil && len(lines) == 0 {
						continue
					}
					fmt.Fprintln(&page, strings.Join(steps, "; "))
					for _, line := range lines {
						fmt.Fprintln(&page, "   ", line)
					}
					steps = nil
				}
				fmt.Fprintln(&page, strings.Join(steps, "; "))
				texts.Equal(t, name, numbers.ReplaceAllStringFunc(page.String(), func(digits string) string {
					n, _ := strconv.ParseInt(digits, 10, 64)
					for _, at := range []time.Time{time.UnixMilli(n), time.Unix(n, 0)} {
						if at.Sub(Begin).Abs() < 60*24*time.Hour {
							return Since(at)
						}
					}
					return Name(core.RunID(n))
				}))
			})
		})
	}
}

// numbers matches the run IDs in messages, and scheduled times and revisions, which are seconds and milliseconds.
var numbers = regexp.MustCompile(`\d{9,}`)

func split(text string) (list []string) {
	for step := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if step = strings.TrimSpace(step); step != "" {
			list = append(list, step)
		}
	}
	return list
}

// play plays a step and returns what happened and what changed.
func (s *Stage) play(step string) (lines []string) {
	s.Step(step)
	before := s.seen
	s.seen = s.See()
	s.mu.Lock()
	said := s.said
	s.said = nil
	s.mu.Unlock()
	if verb, _, _ := strings.Cut(step, " "); s.Given[verb] != nil {
		return nil
	}
	times := map[string]int{}
	for _, line := range said {
		times[line]++
	}
	for _, line := range slices.Sorted(maps.Keys(times)) { // parts of a step may run in parallel
		if strings.HasPrefix(line, again) && !strings.HasPrefix(step, "fire") {
			continue
		}
		if n := times[line]; n > 1 {
			line += fmt.Sprintf(" (%d times)", n)
		}
		lines = append(lines, line)
	}
	for _, thing := range slices.Sorted(maps.Keys(s.seen)) {
		if fields := changes(before[thing], s.seen[thing]); len(fields) > 0 {
			lines = append(lines, thing+": "+strings.Join(fields, " "))
		}
	}
	for _, thing := range slices.Sorted(maps.Keys(before)) {
		if _, is := s.seen[thing]; !is {
			lines = append(lines, thing+" is gone")
		}
	}
	return lines
}

// Step plays one step.
func (s *Stage) Step(step string) {
	s.T.Helper()
	verb, args, _ := strings.Cut(step, " ")
	do := s.Do[verb]
	if do == nil {
		do = s.Given[verb]
	}
	switch {
	case do != nil:
		do(args)
	case verb == "repeat":
		times, each, _ := strings.Cut(args, " ")
		for range s.number(times) {
			s.Steps(each)
		}
	case step[0] == '+' || step[0] == '-':
		d, err := time.ParseDuration(step)
		check.OK(s.T, err)
		s.Sleep(d)
	default:
		s.T.Fatalf("no verb of %q", step)
	}
}

// Play plays a text without a golden file.
func (s *Stage) Play(text string) {
	for _, step := range split(text) {
		s.Step(step)
	}
}

// Steps plays steps between which there is an ampersand.
func (s *Stage) Steps(text string) {
	s.T.Helper()
	for step := range strings.SplitSeq(text, " & ") {
		s.Step(step)
	}
}

// Say adds a line to the result of the step.
func (s *Stage) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
}

// changes returns the fields that are new or have another value. A field that is gone has no value.
func changes(before, after []string) (list []string) {
	has := map[string]bool{}
	for _, f := range after {
		name, _, _ := strings.Cut(f, "=")
		if has[name] = true; !slices.Contains(before, f) {
			list = append(list, f)
		}
	}
	for _, f := range before {
		if name, _, _ := strings.Cut(f, "="); !has[name] {
			list = append(list, name+"=")
		}
	}
	return list
}

// Run returns the run with a name.
func (s *Stage) Run(name string) core.RunID {
	s.T.Helper()
	if job, n, is := strings.Cut(name, "#"); is {
		return core.NumberedRun(core.JobID(s.number(job)), uint32(s.number(n)))
	}
	job, at, _ := strings.Cut(name, "@")
	return core.PlannedRun(core.JobID(s.number(job)), core.InstantOf(s.Time(at)))
}

func (s *Stage) Runs(names string) (list []core.RunID) {
	s.T.Helper()
	for name := range strings.FieldsSeq(names) {
		list = append(list, s.Run(name))
	}
	return list
}

// Name returns the name of a run.
func Name(id core.RunID) string {
	if n, is := id.Number(); is {
		return fmt.Sprintf("%d#%d", id.Job(), n)
	}
	at, _ := id.Planned()
	return fmt.Sprintf("%d@%s", id.Job(), Since(at.Time()))
}

// Time returns the time that a text names.
func (s *Stage) Time(text string) time.Time {
	s.T.Helper()
	from, rest := Begin, text
	if after, is := strings.CutPrefix(text, "now"); is {
		from, rest = s.Now(), after
	}
	if text == "" || rest == "" {
		return map[bool]time.Time{true: {}, false: from}[text == ""]
	}
	d, err := time.ParseDuration(rest)
	check.OK(s.T, err)
	return from.Add(d)
}

// Since returns the text of a time.
func Since(t time.Time) string {
	d := t.Sub(Begin)
	if d < 0 {
		return "-" + core.FormatDuration(-d)
	}
	return "+" + core.FormatDuration(d)
}

func (s *Stage) number(text string) int64 {
	s.T.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	check.OK(s.T, err)
	return n
}

// Set sets fields of structs. Each field is in the first struct that has it.
func (s *Stage) Set(text string, to ...any) {
	s.T.Helper()
	for word := range strings.FieldsSeq(text) {
		name, value, given := strings.Cut(word, "=")
		if !given {
			value = "true"
		}
		var v reflect.Value
		for _, of := range to {
			v = reflect.ValueOf(of).Elem()
			for part := range strings.SplitSeq(name, ".") {
				if v.IsValid() && v.Kind() == reflect.Pointer {
					v.Set(reflect.New(v.Type().Elem()))
					v = v.Elem()
				}
				if v.IsValid() {
					v = v.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, part) })
				}
			}
			if v.IsValid() {
				break
			}
		}
		if !v.IsValid() {
			s.T.Fatalf("%q names no field", word)
		}
		s.set(v, value)
	}
}

// set sets a field. The items of a list are separated by commas, and the fields of an item by colons.
func (s *Stage) set(v reflect.Value, text string) {
	s.T.Helper()
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = s.Time(text)
		return
	case *core.Instant:
		if *x = 0; text != "" {
			*x = core.InstantOf(s.Time(text))
		}
		return
	case *core.RunID:
		if *x = 0; text != "" {
			*x = s.Run(text)
		}
		return
	case *time.Duration:
		d, err := time.ParseDuration(text)
		check.OK(s.T, err)
		*x = d
		return
	case **string:
		*x = &text
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.ReplaceAll(text, "_", " "))
	case reflect.Bool:
		v.SetBool(text == "true")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		s.set(v.Elem(), text)
	case reflect.Slice:
		v.SetZero()
		for item := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
			v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
			s.set(v.Index(v.Len()-1), item)
		}
	case reflect.Struct:
		for i, part := range strings.Split(text, ":") {
			s.set(v.Field(i), part)
		}
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(s.number(text)))
	default:
		v.SetInt(s.number(text))
	}
}

// Fields returns the fields of a struct that are not zero, without some of them.
func Fields(of any, without ...string) (list []string) {
	v := reflect.Indirect(reflect.ValueOf(of))
	for i := range v.NumField() {
		name, f := strings.ToLower(v.Type().Field(i).Name), v.Field(i)
		if k, is := f.Interface().(core.JournalKey); f.IsZero() || is && k.IsZero() || slices.Contains(without, name) {
			continue
		}
		if text, is := show(f); is {
			list = append(list, name+"="+text)
			continue
		}
		for _, part := range Fields(f.Interface()) {
			list = append(list, name+"."+part)
		}
	}
	return list
}

// show returns the text of a value; false: it is a struct whose fields are shown.
func show(v reflect.Value) (text string, is bool) {
	switch x := v.Interface().(type) {
	case time.Time:
		return Since(x), true
	case core.Instant:
		return Since(x.Time()), true
	case core.RunID:
		return Name(x), true
	case core.JournalKey: // its nonce may be random
		return Since(time.Unix(x.Minute*60, 0)), true
	case time.Duration:
		return x.String(), true
	case string:
		if strings.Contains(x, " ") {
			return strconv.Quote(x), true
		}
	case fmt.Stringer:
		return x.String(), true
	}
	switch v.Kind() {
	case reflect.Struct:
		return "", false
	case reflect.Pointer:
		if text, is := show(v.Elem()); is {
			return text, true
		}
		return "{" + strings.Join(Fields(v.Interface()), " ") + "}", true
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			item, is := show(v.Index(i))
			if !is {
				item = "{" + strings.Join(Fields(v.Index(i).Interface()), " ") + "}"
			}
			items = append(items, item)
		}
		return strings.Join(items, ","), true
	}
	return fmt.Sprint(v.Interface()), true
}

// again begins the text of a message that was put on the delay queue again. Its time is random. Only the step that
// dispatches runs first shows it: later, the number and the order of these messages are random too.
const again = "enqueued again"

// Enqueued returns the text of a message that was put on the delay queue.
func Enqueued(o ring.Out) string {
	m := o.Message
	if m.Try > 0 {
		var runs []string
		for _, f := range m.Fires {
			runs = append(runs, Name(f.Run))
		}
		return fmt.Sprintf("%s on %s: %s", again, m.Queue(), strings.Join(runs, " "))
	}
	return strings.Join(append([]string{"enqueued", string(m.Queue()), Since(o.NotBefore)}, Fields(m, "kind", "slot", "slow")...), " ")
}
