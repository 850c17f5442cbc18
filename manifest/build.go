package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/schedule"
)

// builder converts the values of one document to specs, and validates them in core.
type builder struct {
	*decoder
	top      map[string]place // of values outside of apps and jobs
	defaults object
	told     map[string]object // notify of the apps of the document
	earlier  int               // number of errors in the documents before
}

// merge returns own with the missing keys taken from defaults. Keys with wrong values get no default.
func merge(own, defaults object) object {
	out := make(object, len(own)+len(defaults))
	for key, v := range own {
		switch below, _ := defaults[key].(object); v := v.(type) {
		case nil:
		case object:
			out[key] = merge(v, below)
		case []any:
			list := make([]any, 0, len(v))
			for _, one := range v {
				if m, ok := one.(object); ok {
					list = append(list, merge(m, nil))
				} else if one != nil || key == "schedule" { // the schedule's entries keep their numbers
					list = append(list, one)
				}
			}
			out[key] = list
		default:
			out[key] = v
		}
	}
	for key, v := range defaults {
		if _, said := own[key]; said || v == nil {
			continue
		}
		if m, ok := v.(object); ok {
			v = merge(m, nil)
		}
		out[key] = v
	}
	return out
}

type rule struct {
	object
	path string // in the job
}

// rules are the schedules of a job: one, or a list.
func rules(form object) (list []rule, single bool) {
	switch v := form["schedule"].(type) {
	case object:
		return []rule{{v, "schedule"}}, true
	case []any:
		for i, one := range v {
			if one != nil {
				list = append(list, rule{one.(object), fmt.Sprintf("schedule[%d]", i)})
			}
		}
	}
	return list, false
}

// The fields of a schedule that all of one job share.
var shared = []string{"timezone", "from", "until", "jitter"}

// kinds are the fields of a rule that set its times.
func (r rule) kinds() []string {
	var list []string
	for _, k := range core.Kinds {
		if _, ok := r.object[string(k)]; ok {
			list = append(list, string(k))
		}
	}
	return list
}

func (b *builder) checkSchedule(job object, path string) {
	list, single := rules(job)
	first := map[string]rule{}
	words := core.JoinAllowed(core.Kinds)
	for _, r := range list {
		above := join(path, r.path)
		wrong := func(field, format string, args ...any) {
			below := join(above, field)
			b.errorfAt(below, format, args...)
			r.object[field] = nil
		}
		kinds := r.kinds()
		switch {
		case len(kinds) == 0 && !single:
			b.errorfAt(above, "the schedule is missing: set one of %s", words)
			job["schedule"] = nil
		case len(kinds) > 1:
			for _, k := range kinds[1:] {
				wrong(k, "%s and %s in one schedule: only one of %s is allowed; write several schedules as a list", kinds[0], k, words)
			}
			job["schedule"] = nil
		case len(kinds) == 1 && r.object[kinds[0]] == "":
			wrong(kinds[0], "the expression is empty")
		}
		if r.object["offset"] != nil && (len(kinds) == 0 || kinds[0] != string(core.KindEvery)) {
			wrong("offset", "allowed only with the key `every`")
		}
		for i, name := range shared {
			v := r.object[name]
			if v == nil {
				continue
			}
			if was, ok := first[name]; !ok {
				first[name] = r
			} else if was.object[name] != v {
				at := b.places[join(path, join(was.path, name))]
				wrong(name, "differs from the value at %d:%d: the schedules of a job share one %s: write the field once, or "+
					"write the same value in each schedule",
					at.Line, at.Column, name)
			}
			if len(kinds) == 0 && single && i > 0 {
				below := join(above, name)
				b.warnf(b.places[below].Pos, below, "without any of %s, the schedule never fires: the job runs only when triggered", words)
				single = false // report it once
			}
		}
	}
}

// spec converts the merged form of a job to the API's form, and that to the types of core.
func spec(form object) (job client.JobSpec, spec manage.JobSpec, err error) {
	sched, list := object{}, []any(nil)
	each, _ := rules(form)
	for _, r := range each {
		one := object{}
		for key, v := range r.object {
			if slices.Contains(shared, key) {
				sched[key] = v
			} else {
				one[key] = v
			}
		}
		if len(r.kinds()) > 0 {
			list = append(list, one)
		}
	}
	sched["any"] = list
	if zone := sched["timezone"]; zone == nil || zone == "" {
		sched["timezone"] = form["timezone"]
	}
	out := maps.Clone(form)
	out["schedule"] = sched
	delete(out, "timezone")
	if join, is := form["after"].(object); is {
		if out["after"] = join["all"]; join["all"] != nil {
			out["within"] = join["within"]
		}
	}
	if err = strictly(out, &job); err == nil {
		spec, err = api.ManageJob(job)
	}
	return job, spec, err
}

func strictly(from object, to any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

// hide records in a call which of its headers were given by reference, and in a command which of
// its variables.
func (b *builder) hide(own object, path string) {
	for field, texts := range map[string]string{"call": "headers", "command": "env"} {
		in, _ := own[field].(object)
		named, _ := in[texts].(object)
		list, _ := in["hidden"].([]any)
		at := fmt.Sprintf("%s.%s.%s.", path, field, texts)
		list = slices.DeleteFunc(list, func(name any) bool { // the value has an error of its own
			_, written := b.places[fmt.Sprint(at, name)]
			return written && named[fmt.Sprint(name)] == nil
		})
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if b.hidden[at+name] && named[name] != nil && !slices.Contains(list, any(name)) {
				list = append(list, name)
			}
		}
		if len(list) > 0 {
			in["hidden"] = list
		} else {
			delete(in, "hidden")
		}
	}
}

// maxMends bounds how many errors of one entry core is asked for.
const maxMends = 40

// settle calls check until it accepts the values of an entry. It reports each error, and removes the rejected value. An
// error about a missing value counts only if no error of the value is reported yet, and if the entry is whole: it has the
// required fields.
func (b *builder) settle(path string, whole bool, check func() error) {
	for range maxMends {
		err := check()
		if err == nil || b.c.full() {
			return
		}
		e, ok := errors.AsType[*core.Error](err)
		if !ok {
			e = &core.Error{Reason: core.Say("%v", err)}
		}
		at, below := b.placeOf(path, e.Field)
		if !b.remove(path, e.Field) {
			if whole && (below == path || !b.failed(below)) {
				b.errorf(b.places[path].Pos, strings.TrimSuffix(path+"."+e.Field, "."), "%s", message(e))
			}
			return
		}
		reported := slices.ContainsFunc(b.c.errs[b.earlier:], func(e *Error) bool {
			return e.Path == below || strings.HasPrefix(e.Path, below+"[") // of a list, an item
		})
		if !reported {
			b.errorf(at, below, "%s", message(e))
		}
	}
}

func (b *builder) job(own object, path string) (job client.JobSpec, want manage.JobSpec) {
	b.checkSchedule(own, path)
	b.script(own, path)
	whole := own["app"] != nil && own["name"] != nil && (own["handler"] != nil || own["command"] != nil || own["script"] != nil)
	b.settle(path, whole, func() (err error) {
		b.hide(own, path)
		form := merge(own, b.defaultsOf(own))
		if job, want, err = spec(form); err == nil {
			err = judge(form, want)
		}
		if e, ok := errors.AsType[*core.Error](err); ok {
			moved := *e
			moved.Field = fieldOf(form, e)
			err = &moved
		}
		return err
	})
	return job, want
}

// defaultsOf returns the defaults of a job. Notification settings of the job's app in this file take precedence over them.
func (b *builder) defaultsOf(own object) object {
	app, _ := own["app"].(string)
	said, ok := b.told[app]
	below, is := b.defaults["notify"].(object)
	if !ok || !is {
		return b.defaults
	}
	out, rest := maps.Clone(b.defaults), maps.Clone(below)
	for key := range said {
		delete(rest, key)
	}
	if out["notify"] = rest; len(rest) == 0 {
		delete(out, "notify")
	}
	return out
}

// placeOf is where a field of a job stands: in it, or in `defaults`.
func (b *builder) placeOf(path, field string) (Pos, string) {
	below := path + "." + field
	if at, ok := b.places[below]; ok {
		return at.Pos, below
	}
	below = "defaults." + field
	if at, ok := b.top[below]; ok {
		return at.Pos, below
	}
	return b.places[path].Pos, path
}

// failed reports whether a value or one below it has an error.
func (b *builder) failed(path string) bool {
	return slices.ContainsFunc(b.c.errs[b.earlier:], func(e *Error) bool {
		below, ok := strings.CutPrefix(e.Path, path)
		return ok && (below == "" || below[0] == '.' || below[0] == '[')
	})
}

// message returns the text of a core error, without the path.
func message(e *core.Error) core.Text {
	switch {
	case e.Value == "":
		return e.Reason
	case e.Reason.Code() == "named twice":
		return core.Say("%q appears twice", e.Value)
	}
	return core.Say("%q: %s", e.Value, e.Reason)
}

// judge validates a spec in core. Fields already reported as missing or wrong get a valid placeholder first.
func judge(form object, spec manage.JobSpec) error {
	for field, text := range map[string]*string{"app": &spec.Def.App, "name": &spec.Def.Name, "handler": &spec.Def.Handler} {
		if form[field] == nil && (field != "handler" || form["command"] == nil && form["script"] == nil) {
			*text = "x"
		}
	}
	if c, is := form["command"].(object); is && c["line"] == nil && spec.Def.Command != nil {
		spec.Def.Command.Line = "x"
	}
	j := api.Wanted(&spec, nil)
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
		return core.Invalid(field, s.Any[0].Expr, "the schedule never fires")
	}
	return nil
}

// fieldOf returns the path in the manifest of the field of a job that an error of core names.
func fieldOf(form object, e *core.Error) string {
	fields, n := map[string]string{"schedule.timezone": "timezone"}, 0
	list, _ := rules(form)
	for _, r := range list {
		for key := range r.object {
			fields["schedule."+key], fields[fmt.Sprintf("schedule[%d].%s", n, key)] = join(r.path, key), join(r.path, key)
		}
		if len(r.kinds()) > 0 {
			n++
		}
	}
	if _, joined := form["after"].(object); joined {
		fields["within"] = "after.within"
		if rest, is := strings.CutPrefix(e.Field, "after"); is {
			return "after.all" + rest
		}
	}
	if labels, _ := form["labels"].(object); e.Field == "labels" {
		for name := range labels {
			if core.Truncate(name) == e.Value {
				return join("labels", name)
			}
		}
	}
	return cmp.Or(fields[e.Field], e.Field)
}

// remove removes the value of a field from an entry or from `defaults`, and reports whether there was one. A list goes as
// a whole, except a list of schedules; a valid address replaces one of executors, so that the others keep their places.
func (b *builder) remove(path, field string) bool {
	if index, is := strings.CutPrefix(field, "executors["); is {
		p := b.places[path+".executors"]
		list, _ := p.in[p.key].([]any)
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if is = err == nil && i < len(list); is {
			list[i] = standIn(i)
		}
		return is
	}
	for field != "" {
		p, ok := b.places[path+"."+field]
		if !ok {
			p = b.top["defaults."+field]
		}
		if p.in[p.key] != nil {
			p.in[p.key] = nil
			return true
		}
		field = field[:max(strings.LastIndexByte(field, '['), 0)] // the list around it
	}
	return false
}

func (b *builder) app(own object, path string) (app client.AppSpec) {
	if told, is := own["notify"].(object); is {
		name, _ := own["name"].(string)
		b.told[name] = told
	}
	executors, _ := own["executors"].([]any)
	for i := range executors {
		if executors[i] == nil {
			executors[i] = standIn(i)
		}
	}
	allow, _ := own["allow"].([]any)
	for i := range allow {
		if text, is := allow[i].(string); is {
			if _, err := manage.ParseRange(text); err != nil {
				below := fmt.Sprintf("%s.allow[%d]", path, i)
				b.errorfAt(below, "%q; %v", truncate(text), err)
			}
		}
	}
	b.settle(path, own["name"] != nil, func() error {
		b.hide(own, path)
		form := merge(own, nil)
		var a client.AppSpec
		if err := strictly(form, &a); err != nil {
			return err
		}
		spec, err := api.ManageApp(a)
		if err != nil {
			return err
		}
		if app.Name == "" { // before a wrong value is removed
			app = a
		}
		want := core.App{Name: a.Name, Title: a.Title, Executors: a.Executors, Call: spec.Call, Notify: spec.Notify.Normal()}
		if form["name"] == nil {
			want.Name = "x" // its absence or error is already reported
		}
		if a.Token != nil {
			want.Token = *a.Token
		}
		return cmp.Or(want.Validate(), want.CheckCall(want.Call))
	})
	return app
}

func (b *builder) channel(own object, path string) (c client.ChannelSpec) {
	if b.failed(path) { // the errors are reported; the rest is checked once they are fixed
		c.Name, _ = own["name"].(string)
		return c
	}
	b.settle(path, true, func() error {
		c = client.ChannelSpec{}
		if err := strictly(merge(own, nil), &c); err != nil {
			return err
		}
		spec, err := api.ManageChannel(c)
		if err == nil {
			err = spec.Channel.Normal().Validate()
		}
		return err
	})
	return c
}

// standIn returns a valid address that replaces a wrong one.
func standIn(i int) string { return "http://stand-in:" + strconv.Itoa(i+1) }
