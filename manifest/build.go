package manifest

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/schedule"
)

// builder makes specs of the values of one document, and has core judge them.
type builder struct {
	file     string
	c        *collector
	set      string
	defaults *value
}

func (b *builder) report(v *value, format string, args ...any) {
	b.c.add(&Error{File: b.file, Line: v.line, Column: v.col, Path: v.path(), Message: fmt.Sprintf(format, args...)})
}

// of is the value of a field of a job, or where it says nothing of defaults;
// nil if neither says anything that is not wrong.
func (b *builder) of(job *value, path ...string) *value {
	for _, v := range []*value{job, b.defaults} {
		for _, name := range path {
			if v = v.get(name); v == nil {
				break
			}
		}
		if v != nil && !v.bad {
			return v
		}
		if v != nil { // wrong: it does not let what it hides through
			return nil
		}
	}
	return nil
}

func text(v *value) string {
	if v == nil || v.bad {
		return ""
	}
	return v.text
}

func num[T ~int | ~int64](v *value) T {
	if v == nil || v.bad {
		return 0
	}
	return T(v.num)
}

// spec makes the spec of a job.
func (b *builder) spec(job *value) manage.JobSpec {
	s := manage.JobSpec{
		Def: core.Def{
			App: text(job.get("app")), Name: text(job.get("name")), Title: text(job.get("title")), Set: b.set,
			Handler: text(job.get("handler")), Params: text(job.get("params")),
			Route: core.Route(text(b.of(job, "route"))), Block: core.Block(text(b.of(job, "block"))),
			Timeout: num[time.Duration](b.of(job, "timeout")), LostAfter: num[time.Duration](b.of(job, "lostAfter")),
			Retry: core.Retry{
				Max: num[int](b.of(job, "retry", "max")), Delay: num[time.Duration](b.of(job, "retry", "delay")),
				Backoff: core.Backoff(text(b.of(job, "retry", "backoff"))), MaxDelay: num[time.Duration](b.of(job, "retry", "maxDelay")),
			},
			Keep: core.Keep{Days: num[int](b.of(job, "keep", "days"))},
		},
		Schedule: b.schedule(job.get("schedule")),
		Misfire:  core.Misfire(text(b.of(job, "misfire"))),
		Grace:    num[time.Duration](b.of(job, "grace")),
		Deadline: num[time.Duration](b.of(job, "deadline")),
	}
	if on := b.of(job, "retry", "on"); on != nil {
		for _, v := range on.items {
			s.Def.Retry.On = append(s.Def.Retry.On, core.State(v.text))
		}
	}
	if labels := job.get("labels"); labels != nil {
		for _, v := range labels.items {
			if !v.bad {
				if s.Def.Labels == nil {
					s.Def.Labels = make(map[string]string, len(labels.items))
				}
				s.Def.Labels[v.key] = v.text
			}
		}
	}
	if p := job.get("paused"); p != nil {
		paused := p.num != 0
		s.Paused = &paused
	}
	return s
}

// rules are the fields of a schedule that are a kind.
var rules = words(core.Kinds)

func kindOf(entry *value) *value {
	for _, name := range rules {
		if v := entry.get(name); v != nil {
			return v
		}
	}
	return nil
}

// schedule makes the schedule that values say; what is wrong was reported by
// checkSchedule before.
func (b *builder) schedule(v *value) core.Schedule {
	var s core.Schedule
	if v != nil && !v.bad {
		for _, entry := range v.items {
			for _, f := range entry.fields {
				if f == nil || f.bad {
					continue
				}
				switch f.field.name {
				case "timezone":
					s.Timezone = f.text
				case "from":
					s.From = f.text
				case "until":
					s.Until = f.text
				case "jitter":
					s.Jitter = time.Duration(f.num)
				}
			}
			k := kindOf(entry)
			if k == nil || k.bad {
				continue
			}
			w := core.When{Kind: core.Kind(k.field.name)}
			switch w.Kind {
			case core.KindCron, core.KindCrontab:
				w.Expr = k.text
			case core.KindAt:
				w.At = core.Instant(k.num)
			default:
				w.Every = time.Duration(k.num)
			}
			if o := entry.get("offset"); o != nil && !o.bad {
				w.Offset, w.Aligned = time.Duration(o.num), true
			}
			s.Any = append(s.Any, w)
		}
	}
	if s.Timezone == "" {
		if zone := b.defaults.get("timezone"); zone != nil && !zone.bad {
			s.Timezone = zone.text
		}
	}
	return s
}

// checkSchedule reports what the table and core cannot say.
func (b *builder) checkSchedule(v *value) {
	if v == nil {
		return
	}
	shared := map[string]*value{}
	for _, entry := range v.items {
		var kind *value
		for _, name := range rules {
			k := entry.get(name)
			switch {
			case k == nil:
			case kind == nil:
				kind = k
			default:
				b.report(k, "%s and %s in one schedule; one of %s is allowed, a list has several", kind.field.name, name, strings.Join(rules, ", "))
				k.bad, v.bad = true, true
			}
		}
		if kind == nil && (len(v.items) > 1 || !v.single) {
			if !entry.bad {
				b.report(entry, "no schedule; one of %s is needed", strings.Join(rules, ", "))
			}
			v.bad = true
		}
		if o := entry.get("offset"); o != nil && kind != nil && kind.field.name != "every" {
			b.report(o, "only every has an offset")
			o.bad = true
		}
		if o := entry.get("offset"); o != nil && kind == nil {
			b.report(o, "an offset of nothing; only every has one")
			o.bad = true
		}
		for _, name := range []string{"timezone", "from", "until", "jitter"} {
			f := entry.get(name)
			if f == nil {
				continue
			}
			first, ok := shared[name]
			if !ok {
				shared[name] = f
			} else if first.text != f.text || first.num != f.num {
				b.report(f, "not as at %d:%d; the schedules of a job share one %s: write it once, or the same in each", first.line, first.col, name)
				f.bad = true
			}
		}
		if kind == nil && v.single {
			for _, name := range []string{"from", "until", "jitter"} {
				if f := entry.get(name); f != nil && !entry.bad {
					b.c.warnings = append(b.c.warnings, &Error{File: b.file, Line: f.line, Column: f.col, Path: f.path(),
						Message: "a schedule without any of " + strings.Join(rules, ", ") + " fires by hand only"})
					break
				}
			}
		}
	}
}

// maxMends bounds how many errors of one app or job core is asked for.
const maxMends = 40

// job makes the spec of a job.
func (b *builder) job(job *value) manage.JobSpec {
	b.checkSchedule(job.get("schedule"))
	spec := b.spec(job)
	for range maxMends {
		if b.c.full() {
			break
		}
		err := b.judge(spec, job)
		if err == nil {
			break
		}
		e, ok := errors.AsType[*core.Error](err)
		if !ok {
			e = &core.Error{Reason: err.Error()}
		}
		at, owner := b.locate(job, e.Field)
		if at == nil {
			if !owner.bad { // of what is missing it is known
				b.report(owner, "%s", b.message(e, e.Field))
			}
			break
		}
		b.report(at, "%s", b.message(e, ""))
		at.bad = true
		spec = b.spec(job)
	}
	return spec
}

// message is what core says, without the path.
func (b *builder) message(e *core.Error, field string) string {
	msg := e.Reason
	if e.Value != "" {
		msg = strconv.Quote(e.Value) + ": " + msg
	}
	if field != "" {
		msg = field + ": " + msg
	}
	return msg
}

// judge has core look at a spec. What was reported stands in with something
// that is right.
func (b *builder) judge(spec manage.JobSpec, job *value) error {
	for _, f := range []struct {
		name string
		text *string
	}{{"app", &spec.Def.App}, {"name", &spec.Def.Name}, {"handler", &spec.Def.Handler}} {
		if v := job.get(f.name); v == nil || v.bad {
			*f.text = "x"
		}
	}
	j := JobOf(spec, nil)
	if err := j.Validate(); err != nil {
		return err
	}
	sch, err := schedule.Compile(spec.Schedule, 1)
	if err != nil {
		return err
	}
	if sch.Never(0) {
		s := spec.Schedule
		field := "schedule"
		if len(s.Any) == 1 {
			field += "." + string(s.Any[0].Kind)
		}
		return core.Invalid(field, s.Any[0].Expr, "it never fires")
	}
	return nil
}

// locate finds the value that a path of core means: it itself or nil, and the
// innermost value around it.
func (b *builder) locate(job *value, path string) (at, owner *value) {
	first, rest, _ := strings.Cut(path, ".")
	if first == "labels" || strings.HasPrefix(path, "schedule") {
		return b.locateIn(job, path)
	}
	if v := b.of(job, strings.Split(path, ".")...); v != nil && path != "" {
		return v, v
	}
	owner = job
	if v := job.get(first); v != nil && rest != "" {
		owner = v
	}
	return nil, owner
}

func (b *builder) locateIn(job *value, path string) (at, owner *value) {
	if labels := job.get("labels"); strings.HasPrefix(path, "labels") {
		key, ok := strings.CutPrefix(path, "labels.")
		for _, v := range labels.items {
			if ok && v.key == key && !v.bad {
				return v, v
			}
		}
		// Of a wrong name core tells the value only: try each.
		for _, v := range labels.items {
			j := core.Job{Def: core.Def{App: "x", Name: "x", Handler: "x", Labels: map[string]string{v.key: ""}}}
			j.Normalize()
			if !v.bad && j.Validate() != nil {
				return v, v
			}
		}
		return nil, labels
	}
	v := job.get("schedule")
	index, name := 0, ""
	if rest, ok := strings.CutPrefix(path, "schedule["); ok {
		n, after, _ := strings.Cut(rest, "]")
		index, _ = strconv.Atoi(n)
		name = strings.TrimPrefix(after, ".")
	} else {
		name = strings.TrimPrefix(strings.TrimPrefix(path, "schedule"), ".")
	}
	if v != nil {
		owner = v
		switch name {
		case "timezone", "from", "until", "jitter":
			var last *value // the one that counted
			for _, entry := range v.items {
				if f := entry.get(name); f != nil && !f.bad {
					last = f
				}
			}
			if last != nil {
				return last, last
			}
		case "":
			if !v.bad {
				return v, v
			}
		default:
			n := 0
			for _, entry := range v.items {
				k := kindOf(entry)
				if k == nil || k.bad {
					continue
				}
				if n == index {
					if f := entry.get(name); f != nil && !f.bad {
						return f, f
					}
					return nil, entry
				}
				n++
			}
		}
	}
	if name == "timezone" {
		if zone := b.defaults.get("timezone"); zone != nil && !zone.bad {
			return zone, zone
		}
	}
	if owner == nil {
		owner = job
	}
	return nil, owner
}

// app makes the spec of an app; false after an error.
func (b *builder) app(app *value) (manage.AppSpec, bool) {
	before := len(b.c.errs)
	s := manage.AppSpec{Name: text(app.get("name")), Title: text(app.get("title")), Set: b.set}
	if t := app.get("token"); t != nil {
		s.Token = &t.text
	}
	if list := app.get("executors"); list != nil {
		for _, v := range list.items {
			s.Executors = append(s.Executors, v.text)
		}
	}
	want := core.App{Name: s.Name, Title: s.Title}
	if app.bad && s.Name == "" {
		want.Name = "x"
	}
	for range 2 { // the name, the title
		e, ok := errors.AsType[*core.Error](want.Validate())
		if !ok {
			break
		}
		at := app.get(e.Field)
		if at == nil {
			at = app
		}
		b.report(at, "%s", b.message(e, ""))
		if e.Field == "name" {
			want.Name = "x"
		} else {
			want.Title = ""
		}
	}
	if t := app.get("token"); t != nil {
		if e, ok := errors.AsType[*core.Error]((&core.App{Name: "x", Token: t.text}).Validate()); ok {
			b.report(t, "%s", e.Reason)
		}
	}
	if list := app.get("executors"); list != nil {
		seen := map[string]bool{}
		for _, v := range list.items {
			one := core.App{Name: "x", Executors: []string{v.text}}
			if e, ok := errors.AsType[*core.Error](one.Validate()); ok {
				b.report(v, "%s", b.message(e, ""))
			} else if seen[v.text] {
				b.report(v, "%q is named twice", cutText(v.text))
			}
			seen[v.text] = true
		}
	}
	if list := app.get("allow"); list != nil {
		for _, v := range list.items {
			if !isRange(v.text) {
				b.report(v, "%q; a range is written as 10.0.0.0/8 or fd00::/8, or as a single IP address", cutText(v.text))
			}
			s.Allow = append(s.Allow, v.text)
		}
	}
	return s, len(b.c.errs) == before && !app.bad
}

func isRange(text string) bool {
	_, ok := rangeOf(text)
	return ok
}

func rangeOf(text string) (netip.Prefix, bool) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		return p.Masked(), err == nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	ip = ip.WithZone("")
	return netip.PrefixFrom(ip, ip.BitLen()), true
}

// checkDefaults judges `defaults` by a job that takes all of it.
func (b *builder) checkDefaults() {
	if b.defaults == nil {
		return
	}
	empty := &value{field: &field{kind: kObject, obj: jobObject}, fields: make([]*value, len(jobObject.fields)), bad: true,
		line: b.defaults.line, col: b.defaults.col}
	b.job(empty)
}
