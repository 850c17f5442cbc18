package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// FormatDuration returns a duration in the format of the API, except that one minute is 60s.
func FormatDuration(d time.Duration) string {
	if d == time.Minute {
		return "60s"
	}
	return core.FormatDuration(d)
}

// plainly is a form of the API as plain values.
func plainly[T any](form T) (out object) {
	raw, err := json.Marshal(form)
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err == nil {
		err = dec.Decode(&out)
	}
	if err != nil {
		panic("manifest: JSON of a plain form: " + err.Error())
	}
	return out
}

// normal returns the form of a job that has only defaults.
func normal() object {
	var j core.Job
	j.Normalize()
	return plainly(api.JobOf(&j))
}

// jobForm returns the manifest's form of a job; all includes defaults.
func jobForm(j *client.Job, all bool) object {
	form := plainly(j)
	if !all {
		strip(form, normal())
	}
	if paused := j.State == string(core.Paused); paused || all {
		form["paused"] = paused
	}
	if within := form["within"]; within != nil {
		form["after"] = object{"all": form["after"], "within": within}
		delete(form, "within")
	}
	sched, _ := form["schedule"].(object)
	list, _ := sched["any"].([]any)
	if all && (len(list) > 0 || len(rule{object: sched}.kinds()) > 0) && sched["timezone"] == nil {
		sched["timezone"] = "UTC"
	}
	if len(list) > 0 { // the first entry has the shared settings
		delete(sched, "any")
		maps.Copy(sched, list[0].(object))
		list[0] = sched
		form["schedule"] = list
	}
	return form
}

// strip removes the values that equal those in other.
func strip(form, other object) {
	for key, v := range other {
		below, ok := form[key].(object)
		if o, is := v.(object); ok && is {
			strip(below, o)
		} else if reflect.DeepEqual(form[key], v) {
			delete(form, key)
		}
	}
}

// order returns the names of the entries of maps in the order in which they are written.
func (s *schema) order(of ...object) (names []string) {
	if s.kind == kObject {
		return s.names()
	}
	for _, m := range of {
		names = slices.AppendSeq(names, maps.Keys(m))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// entry returns the schema of an entry of a map.
func (s *schema) entry(name string) *schema {
	if s.kind == kObject {
		return s.get(name)
	}
	return s.Entries
}

// item returns the schema of the items of a value that is a list.
func (s *schema) item() *schema {
	if s.kind == kEither {
		return s.OneOf[1].Items
	}
	return s.Items
}

// parts returns the entries of a map, or the items of a list, as YAML on one line each.
func (s *schema) parts(v any) (parts []string) {
	switch v := v.(type) {
	case object:
		s = s.fields()
		for _, name := range s.order(v) {
			if text := s.entry(name).flow(v[name]); text != "" {
				parts = append(parts, quote(name)+": "+text)
			}
		}
	case []any:
		for _, one := range v {
			parts = append(parts, s.item().flow(one))
		}
	}
	return parts
}

// flow returns a value as YAML on one line; empty if there is nothing in it.
func (s *schema) flow(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case object:
		if parts := s.parts(v); parts != nil {
			return "{" + strings.Join(parts, ", ") + "}"
		}
		return ""
	case []any:
		return "[" + strings.Join(s.parts(v), ", ") + "]"
	}
	text := fmt.Sprint(v)
	switch s.kind {
	case kText, kWord, kSecret, kHeader:
		return quote(text)
	case kMoment:
		if strings.Trim(text, "0123456789-:+TZ") != "" {
			return quote(text)
		}
	case kSpan:
		if d, err := api.ParseDuration(text); err == nil {
			return FormatDuration(d)
		}
	}
	return text
}

// Export writes apps and jobs as a manifest, from which Parse reads equal apps and jobs. Fields with default values
// are left out. Tokens are never written: a comment marks each token, and `apply` keeps the stored token. A job that
// is not paused has no field `paused`, so that `apply` never resumes a paused job. If all objects have one set, the
// set is written. Otherwise comments name the set of each object, and `apply` keeps it. Each document is small enough
// for Parse.
func Export(apps []client.App, jobs []client.Job) ([]byte, error) {
	return ExportAll(nil, nil, apps, jobs)
}

// ExportAll writes apps, jobs and channels, and the recipients of notifications that belong to no job; nil: no
// recipients. In place of a channel's secret it writes ***, and `apply` keeps the stored secret. The recipients are
// under `defaults` in a document without jobs, so that they apply to no job. Apps and jobs are written by the rules of
// Export.
func ExportAll(notify *client.Notify, channels []client.Channel, apps []client.App, jobs []client.Job) ([]byte, error) {
	var b bytes.Buffer
	sets := map[string]bool{}
	for i := range channels {
		sets[channels[i].Set] = true
	}
	for i := range apps {
		sets[apps[i].Set] = true
	}
	for i := range jobs {
		sets[jobs[i].Set] = true
	}
	head := "version: 1\n"
	one := len(sets) == 1
	for set := range sets {
		if one && set != "" {
			head += fmt.Sprintf("set: %s\n", quote(set))
		}
	}
	if len(sets) > 1 {
		b.WriteString("# Several sets: apply --prune requires one file for each set, as tickring get --set SET -o yaml writes it.\n")
	}
	begun, section := 0, ""
	next := func() {
		b.WriteString("---\n")
		begun, section = b.Len(), ""
		b.WriteString(head)
	}
	b.WriteString(head)
	if notify != nil && len(notify.To) > 0 {
		fmt.Fprintf(&b, "\ndefaults:\n  notify: %s\n", component("Notify").flow(plainly(notify)))
		if len(channels)+len(apps)+len(jobs) > 0 {
			next()
		}
	}
	put := func(list, set, of string, form object, source string) {
		if b.Len()-begun > MaxDocument/2 {
			next()
		}
		if section != list {
			section = list
			fmt.Fprintf(&b, "\n%s:\n", list)
		}
		writeEntry(&b, component(of), form, source)
		if !one && set != "" {
			fmt.Fprintf(&b, "    # set: %s\n", quote(set))
		}
	}
	for i := range channels {
		c := &channels[i]
		if err := core.CheckChannelName("name", c.Name); err != nil {
			return nil, fmt.Errorf("channel %d cannot be written: %w", i, err)
		}
		put("channels", c.Set, "ManifestChannel", channelForm(c), "")
	}
	for i := range apps {
		a := &apps[i]
		if err := core.CheckAppName("name", a.Name); err != nil {
			return nil, fmt.Errorf("app %d cannot be written: %w", i, err)
		}
		put("apps", a.Set, "ManifestApp", plainly(a), "")
		if a.HasToken {
			b.WriteString("    # token: set, but never printed; without it here, the token is unchanged\n")
		}
	}
	for i := range jobs {
		j := &jobs[i]
		if j.App == "" || j.Name == "" || j.Handler == "" && j.Command.Line == "" && j.Script.Source == "" {
			return nil, fmt.Errorf("job %s/%s cannot be written: an app, a name, and a handler, a command or a script with its source are "+
				"required", j.App, j.Name)
		}
		put("jobs", j.Set, "ManifestJob", jobForm(j, false), j.Script.Source)
	}
	return b.Bytes(), nil
}

// writeEntry writes an object as an item of a list; source is the text of its script, if it has one.
func writeEntry(b *bytes.Buffer, s *schema, form object, source string) {
	lead := "  - "
	for _, p := range s.Properties {
		text := p.flow(form[p.name])
		if text == "" {
			continue
		}
		b.WriteString(lead + p.name + ":")
		lead = "    "
		parts := p.parts(form[p.name])
		_, list := form[p.name].([]any)
		switch {
		case p.name == "script":
			writeScript(b, parts, source)
		case p.name != "schedule" || !list && len(parts) == 1:
			b.WriteString(" " + text + "\n")
		case list:
			b.WriteString("\n      - " + strings.Join(parts, "\n      - ") + "\n")
		default:
			b.WriteString("\n      " + strings.Join(parts, "\n      ") + "\n")
		}
	}
}

// FieldChange is the difference of one field. Its values are written as YAML on one line, as in a manifest. Old or New
// is empty if the field has no value.
type FieldChange struct{ Path, Old, New string }

// Diff returns the differences between two jobs, by field in the order of the manifest. Fields with default values are
// compared too. If one job is nil, Diff returns all fields of the other job that do not have default values.
func Diff(old, new *client.Job) []FieldChange {
	all := old != nil && new != nil
	return compare("ManifestJob", old, new, func(j *client.Job) object { return jobForm(withText(j), all) })
}

// DiffApp returns the differences between two apps. For the token, it shows only whether a token is set.
func DiffApp(old, new *client.App) []FieldChange {
	token := func(a *client.App) string {
		if a == nil || !a.HasToken {
			return ""
		}
		return "(set)"
	}
	out := compare("ManifestApp", old, new, plainly)
	if c := (FieldChange{"token", token(old), token(new)}); c.Old != c.New {
		out = append(out, c)
	}
	return out
}

// channelForm returns the manifest's form of a channel, without defaults.
func channelForm(c *client.Channel) object {
	usual := core.Channel{Kind: core.ChannelEmail}
	if c.Email != nil && c.Email.SMTP.Port == 465 {
		usual.Email.SMTP.Port = 465
	}
	form, smtp := plainly(c), usual.Normal().Email.SMTP
	strip(form, object{"language": string(core.English), "email": object{"smtp": object{"tls": string(smtp.TLS), "port": json.Number("587")}}})
	return form
}

// DiffNotify returns the differences between two lists of recipients of notifications that belong to no job.
func DiffNotify(old, new *client.Notify) []FieldChange {
	return compare("ManifestDefaults", old, new, func(n *client.Notify) object { return object{"notify": plainly(n)} })
}

// DiffChannel returns the differences between two channels. For a secret, it shows only whether the secret is set.
func DiffChannel(old, new *client.Channel) []FieldChange {
	return compare("ManifestChannel", old, new, plainly)
}

// compare returns the differences between two objects: of the fields of a component, and of their sets. form returns the
// fields.
func compare[T any](of string, old, new *T, form func(*T) object) []FieldChange {
	var before, after object
	if old != nil {
		before = form(old)
	}
	if new != nil {
		after = form(new)
	}
	s := *component(of)
	s.Properties = append(slices.Clip(s.Properties), property{"set", &schema{kind: kText}})
	return s.diff("", before, after)
}

// diff returns the differences between two values by field; nil is no value.
func (s *schema) diff(path string, old, new any) (out []FieldChange) {
	a, isMap := old.(object)
	b, isMapToo := new.(object)
	x, isList := old.([]any)
	y, isListToo := new.([]any)
	switch {
	case isMap && isListToo || isList && isMapToo: // one schedule has become several, or several have become one
		return append(s.diff(path, nil, new), s.diff(path, old, nil)...)
	case isMap || isMapToo:
		s = s.fields()
		for _, name := range s.order(a, b) {
			out = append(out, s.entry(name).diff(join(path, name), a[name], b[name])...)
		}
	case s.kind == kEither:
		for i := range max(len(x), len(y)) {
			var one, other any
			if i < len(x) {
				one = x[i]
			}
			if i < len(y) {
				other = y[i]
			}
			out = append(out, s.item().diff(fmt.Sprintf("%s[%d]", path, i), one, other)...)
		}
	default:
		if c := (FieldChange{path, s.flow(old), s.flow(new)}); c.Old != c.New {
			out = append(out, c)
		}
	}
	return out
}

var (
	plainText = regexp.MustCompile(`^[\p{L}/]([\p{L}/0-9 ._-]*[\p{L}/0-9._-])?$`)
	// notPlain matches words that some YAML readers take for other values.
	notPlain = regexp.MustCompile(`^(?i:true|false|null|yes|no|off|y|n)$|^(On|oN|ON)$`)
)

func quote(s string) string {
	if plainText.MatchString(s) && !notPlain.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}
