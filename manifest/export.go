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

// node is a value in written form.
type node struct {
	key  string
	text string // of a leaf: YAML on one line
	kids []*node
	list bool // kids are items, and no leaves
}

// plainly is a form of the API as plain values.
func plainly(form any) object {
	raw, err := json.Marshal(form)
	if err != nil {
		panic("manifest: JSON of a plain form: " + err.Error())
	}
	var out object
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
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

// write is a value as the schema has it written; nil if there is nothing in it.
func (s *schema) write(v any) *node {
	n := &node{}
	switch v := v.(type) {
	case object:
		names := slices.Sorted(maps.Keys(v))
		if s = s.fields(); s.kind == kObject {
			names = strings.Split(s.names(), ", ")
		}
		for _, name := range names {
			field := s.Entries
			if s.kind == kObject {
				field = s.get(name)
			}
			if below, ok := v[name]; ok {
				if kid := field.write(below); kid != nil {
					kid.key = name
					n.kids = append(n.kids, kid)
				}
			}
		}
		if len(n.kids) == 0 {
			return nil
		}
	case []any:
		n.list = s.kind == kEither
		if n.list {
			s = s.OneOf[1]
		}
		for _, one := range v {
			n.kids = append(n.kids, s.Items.write(one))
		}
		if !n.list {
			n.text, n.kids = "["+n.flows()+"]", nil
		}
	default:
		n.text = fmt.Sprint(v)
		switch s.kind {
		case kText, kWord, kSecret, kHeader:
			n.text = quote(n.text)
		case kMoment:
			if strings.Trim(n.text, "0123456789-:+TZ") != "" {
				n.text = quote(n.text)
			}
		case kSpan:
			if d, err := api.ParseDuration(n.text); err == nil {
				n.text = FormatDuration(d)
			}
		}
	}
	return n
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
	b.WriteString(head)
	if notify != nil && len(notify.To) > 0 {
		told := component("ManifestDefaults").write(object{"notify": plainly(notify)})
		fmt.Fprintf(&b, "\ndefaults:\n  notify: %s\n", told.kids[0].flow())
		if len(channels)+len(apps)+len(jobs) > 0 {
			b.WriteString("---\n")
			begun = b.Len()
			b.WriteString(head)
		}
	}
	put := func(list, set string, n *node, source string) {
		if b.Len()-begun > MaxDocument/2 {
			b.WriteString("---\n")
			begun, section = b.Len(), ""
			b.WriteString(head)
		}
		if section != list {
			section = list
			fmt.Fprintf(&b, "\n%s:\n", list)
		}
		entry(&b, n, source)
		if !one && set != "" {
			fmt.Fprintf(&b, "    # set: %s\n", quote(set))
		}
	}
	for i := range channels {
		c := &channels[i]
		if err := core.CheckChannelName("name", c.Name); err != nil {
			return nil, fmt.Errorf("channel %d cannot be written: %w", i, err)
		}
		put("channels", c.Set, component("ManifestChannel").write(channelForm(c)), "")
	}
	for i := range apps {
		a := &apps[i]
		if err := core.CheckAppName("name", a.Name); err != nil {
			return nil, fmt.Errorf("app %d cannot be written: %w", i, err)
		}
		put("apps", a.Set, component("ManifestApp").write(plainly(a)), "")
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
		put("jobs", j.Set, component("ManifestJob").write(jobForm(j, false)), j.Script.Source)
	}
	return b.Bytes(), nil
}

// entry writes a map as an item of a list; source is the text of its script, if it has one.
func entry(b *bytes.Buffer, n *node, source string) {
	lead := "  - "
	for _, kid := range n.kids {
		b.WriteString(lead)
		lead = "    "
		if kid.key == "script" {
			writeScript(b, kid, source)
			continue
		}
		if kid.key != "schedule" || !kid.list && len(kid.kids) == 1 {
			fmt.Fprintf(b, "%s: %s\n", quote(kid.key), kid.flow())
			continue
		}
		fmt.Fprintf(b, "%s:\n", quote(kid.key))
		for _, k := range kid.kids {
			if kid.list {
				fmt.Fprintf(b, "      - %s\n", k.flow())
			} else {
				fmt.Fprintf(b, "      %s: %s\n", quote(k.key), k.flow())
			}
		}
	}
}

// flow is a node on one line.
func (n *node) flow() string {
	switch {
	case n.kids == nil:
		return n.text
	case n.list:
		return "[" + n.flows() + "]"
	}
	return "{" + n.flows() + "}"
}

func (n *node) flows() string {
	parts := make([]string, len(n.kids))
	for i, k := range n.kids {
		if parts[i] = k.flow(); k.key != "" {
			parts[i] = quote(k.key) + ": " + parts[i]
		}
	}
	return strings.Join(parts, ", ")
}

// FieldChange is the difference of one field. Its values are written as YAML on one line, as in a manifest. Old or New
// is empty if the field has no value.
type FieldChange struct{ Path, Old, New string }

// Diff returns the differences between two jobs, by field in the order of the manifest. Fields with default values are
// compared too. If one job is nil, Diff returns all fields of the other job that do not have default values.
func Diff(old, new *client.Job) []FieldChange {
	return compare(old, new, func(j *client.Job) []FieldChange {
		j = withText(j)
		return component("ManifestJob").write(jobForm(j, old != nil && new != nil)).leaves("", nil, "set", j.Set)
	})
}

// Recorded returns the job in the field Old or New of a change record, and the revision of the job. It returns nil if
// the record has no job definition.
func Recorded(record []byte) (*client.Job, int64) {
	r, ok := core.ParseJobRecord(string(record))
	if !ok || r.Def == nil {
		return nil, r.Rev
	}
	j := api.JobOf(&core.Job{Def: *r.Def, Sched: core.Sched{ID: r.Def.ID, App: r.Def.App, Rev: r.Rev, State: r.State,
		Schedule: r.Schedule, Misfire: r.Misfire, Grace: r.Grace, Deadline: r.Deadline}})
	return &j, r.Rev
}

func RecordedApp(record []byte) *client.App {
	r, ok := core.ParseAppRecord(string(record))
	if !ok {
		return nil
	}
	a := api.AppOf(&core.App{Name: r.Name, Title: r.Title, Set: r.Set, Rev: r.Rev, Executors: r.Executors, Allow: r.Allow,
		WaitForExecutor: r.WaitForExecutor, Overlap: r.Overlap, Limits: r.Limits, Call: r.Call, Notify: r.Notify})
	a.HasToken = r.HasToken
	return &a
}

// DiffApp returns the differences between two apps. For the token, it shows only whether a token is set.
func DiffApp(old, new *client.App) []FieldChange {
	return compare(old, new, func(a *client.App) []FieldChange {
		token := ""
		if a.HasToken {
			token = "(set)"
		}
		return component("ManifestApp").write(plainly(a)).leaves("", nil, "token", token, "set", a.Set)
	})
}

// channelForm returns the manifest's form of a channel, without defaults.
func channelForm(c *client.Channel) object {
	form := plainly(c)
	strip(form, object{"language": string(core.English)})
	if mail, is := form["email"].(object); is {
		usual := core.Channel{Kind: core.ChannelEmail}
		if c.Email.SMTP.Port == 465 {
			usual.Email.SMTP.Port = 465
		}
		smtp := usual.Normal().Email.SMTP
		server, _ := mail["smtp"].(object)
		if server["tls"] == string(smtp.TLS) {
			delete(server, "tls")
		}
		if c.Email.SMTP.Port == 587 {
			delete(server, "port")
		}
	}
	return form
}

// DiffNotify returns the differences between two lists of recipients of notifications that belong to no job.
func DiffNotify(old, new *client.Notify) []FieldChange {
	return compare(old, new, func(n *client.Notify) []FieldChange {
		return component("ManifestDefaults").write(object{"notify": plainly(n)}).leaves("", nil)
	})
}

// DiffChannel returns the differences between two channels. For a secret, it shows only whether the secret is set.
func DiffChannel(old, new *client.Channel) []FieldChange {
	return compare(old, new, func(c *client.Channel) []FieldChange {
		return component("ManifestChannel").write(plainly(c)).leaves("", nil, "set", c.Set)
	})
}

// leaves lists the leaves of a tree, their texts as New, and what more it has.
func (n *node) leaves(path string, out []FieldChange, more ...string) []FieldChange {
	if n != nil && n.kids == nil {
		out = append(out, FieldChange{Path: path, New: n.text})
	} else if n != nil {
		for i, kid := range n.kids {
			below := join(path, kid.key)
			if n.list {
				below = fmt.Sprintf("%s[%d]", path, i)
			}
			out = kid.leaves(below, out)
		}
	}
	for i := 0; i < len(more); i += 2 {
		if more[i+1] != "" {
			out = append(out, FieldChange{Path: more[i], New: more[i+1]})
		}
	}
	return out
}

// compare joins the leaves of two objects in their order; nil has none.
func compare[T any](before, after *T, leaves func(*T) []FieldChange) []FieldChange {
	var old, new []FieldChange
	if before != nil {
		old = leaves(before)
	}
	if after != nil {
		new = leaves(after)
	}
	was, is := map[string]string{}, map[string]bool{}
	for _, c := range old {
		was[c.Path] = c.New
	}
	for _, c := range new {
		is[c.Path] = true
	}
	var out []FieldChange
	gone := func(until string) { // fields in old only, up to a path in both
		for len(old) > 0 && old[0].Path != until {
			if !is[old[0].Path] {
				out = append(out, FieldChange{Path: old[0].Path, Old: old[0].New})
			}
			old = old[1:]
		}
	}
	for _, c := range new {
		before, ok := was[c.Path]
		if ok {
			gone(c.Path)
		}
		if !ok || before != c.New {
			out = append(out, FieldChange{c.Path, before, c.New})
		}
	}
	gone("")
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
