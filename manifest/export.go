package manifest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tickring/tickring/core"
)

// node is a value as it is written.
type node struct {
	key   string
	text  string // of a leaf: YAML on one line
	kids  []*node
	list  bool // kids are items
	block bool // a map that is written over several lines
}

func leaf(text string) *node { return &node{text: text} }

// texts is a list of texts, which is a leaf.
func texts[T ~string](list []T) *node {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(string(s))
	}
	return leaf("[" + strings.Join(quoted, ", ") + "]")
}

// object makes a map of what give says of the fields of o, in their order.
func (o *object) node(give func(name string) *node) *node {
	n := &node{}
	for _, f := range o.fields {
		if f.refused() {
			continue
		}
		if kid := give(f.name); kid != nil {
			kid.key = f.name
			n.kids = append(n.kids, kid)
		}
	}
	if len(n.kids) == 0 {
		return nil
	}
	return n
}

// writer says how a job is written; all writes defaults too.
type writer struct {
	all bool
	def core.Job
}

func newWriter(all bool) writer {
	w := writer{all: all}
	w.def.Normalize()
	return w
}

func (w writer) text(s, def string) *node {
	if s == def && !(w.all && s != "") {
		return nil
	}
	return leaf(quote(s))
}

func (w writer) duration(d, def time.Duration) *node {
	if d == def && !(w.all && d != 0) {
		return nil
	}
	return leaf(FormatDuration(d))
}

func (w writer) int(i, def int) *node {
	if i == def && !w.all {
		return nil
	}
	return leaf(strconv.Itoa(i))
}

// job is a normalized job as a map.
func (w writer) job(j *core.Job) *node {
	d, s, def, sched := &j.Def, &j.Sched, &w.def.Def, &w.def.Sched
	return jobObject.node(func(name string) *node {
		switch name {
		case "app":
			return w.text(d.App, "")
		case "name":
			return w.text(d.Name, "")
		case "title":
			return w.text(d.Title, "")
		case "labels":
			return labels(d.Labels)
		case "handler":
			return w.text(d.Handler, "")
		case "params":
			return w.text(d.Params, "")
		case "schedule":
			return w.schedule(s.Schedule)
		case "misfire":
			return w.text(string(s.Misfire), string(sched.Misfire))
		case "grace":
			return w.duration(s.Grace, sched.Grace)
		case "deadline":
			return w.duration(s.Deadline, 0)
		case "block":
			return w.text(string(d.Block), string(def.Block))
		case "route":
			return w.text(string(d.Route), string(def.Route))
		case "timeout":
			return w.duration(d.Timeout, 0)
		case "retry":
			return w.retry(d.Retry)
		case "lostAfter":
			return w.duration(d.LostAfter, def.LostAfter)
		case "keep":
			return keepObject.node(func(name string) *node {
				if name == "days" {
					return w.int(d.Keep.Days, def.Keep.Days)
				}
				return nil
			})
		case "paused":
			if s.State == core.Paused {
				return leaf("true")
			} else if w.all {
				return leaf("false")
			}
		}
		return nil
	})
}

func (w writer) retry(r core.Retry) *node {
	def := w.def.Def.Retry
	return retryObject.node(func(name string) *node {
		switch name {
		case "max":
			return w.int(r.Max, def.Max)
		case "delay":
			return w.duration(r.Delay, def.Delay)
		case "backoff":
			return w.text(string(r.Backoff), string(def.Backoff))
		case "maxDelay":
			return w.duration(r.MaxDelay, 0)
		case "on":
			if w.all || !slices.Equal(r.On, def.On) {
				return texts(r.On)
			}
		}
		return nil
	})
}

func labels(m map[string]string) *node {
	if len(m) == 0 {
		return nil
	}
	n := &node{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		n.kids = append(n.kids, &node{key: key, text: quote(m[key])})
	}
	return n
}

// schedule is one map, or a list whose first entry has what all share.
func (w writer) schedule(s core.Schedule) *node {
	entry := func(i int) *node {
		var when core.When
		if i < len(s.Any) {
			when = s.Any[i]
		}
		return scheduleObject.node(func(name string) *node {
			switch name {
			case string(when.Kind):
				switch when.Kind {
				case core.KindCron, core.KindCrontab:
					return leaf(strconv.Quote(when.Expr))
				case core.KindAt:
					return leaf(when.At.String())
				}
				return leaf(FormatDuration(when.Every))
			case "offset":
				if when.Aligned || when.Offset != 0 {
					return leaf(FormatDuration(when.Offset))
				}
			}
			if i > 0 {
				return nil
			}
			switch name {
			case "timezone":
				if s.Timezone == "" && w.all && len(s.Any) > 0 {
					return leaf("UTC")
				}
				return w.text(s.Timezone, "")
			case "from":
				return moment(s.From)
			case "until":
				return moment(s.Until)
			case "jitter":
				return w.duration(s.Jitter, 0)
			}
			return nil
		})
	}
	if len(s.Any) <= 1 {
		n := entry(0)
		if n != nil && len(n.kids) > 1 {
			n.block = true
		}
		return n
	}
	n := &node{list: true}
	for i := range s.Any {
		n.kids = append(n.kids, entry(i))
	}
	return n
}

func moment(text string) *node {
	switch {
	case text == "":
		return nil
	case strings.Trim(text, "0123456789-:+TZ") == "":
		return leaf(text)
	}
	return leaf(quote(text))
}

// app is an app as a map, without its token.
func (w writer) app(a *core.App) *node {
	return appObject.node(func(name string) *node {
		switch name {
		case "name":
			return w.text(a.Name, "")
		case "title":
			return w.text(a.Title, "")
		case "executors":
			if len(a.Executors) > 0 {
				return texts(a.Executors)
			}
		case "allow":
			if len(a.Allow) > 0 {
				list := make([]string, len(a.Allow))
				for i, p := range a.Allow {
					list[i] = p.String()
				}
				return texts(list)
			}
		}
		return nil
	})
}

// Export writes apps and jobs as a manifest that Parse takes and that means the
// same. What is as the default is left out. Tokens are never in it: a comment
// says that there is one, and apply leaves it as it is. A job that is not paused
// says nothing of it, so that apply never undoes a pause. The set is written if
// it is the same of all; otherwise comments name it, and apply leaves it.
func Export(apps []core.App, jobs []core.Job) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("version: 1\n")
	w := newWriter(false)
	sets := map[string]bool{}
	for i := range apps {
		sets[apps[i].Set] = true
	}
	for i := range jobs {
		sets[jobs[i].Def.Set] = true
	}
	one := len(sets) == 1
	if set := slices.Collect(maps.Keys(sets)); one && set[0] != "" {
		fmt.Fprintf(&b, "set: %s\n", quote(set[0]))
	}
	comment := func(set string) {
		if !one && set != "" {
			fmt.Fprintf(&b, "    # set: %s\n", quote(set))
		}
	}
	if len(apps) > 0 {
		b.WriteString("\napps:\n")
	}
	for i := range apps {
		a := &apps[i]
		if err := core.CheckAppName("name", a.Name); err != nil {
			return nil, fmt.Errorf("app %d cannot be written: %w", i, err)
		}
		entry(&b, w.app(a))
		comment(a.Set)
		if a.Token != "" {
			b.WriteString("    # token: set; it is never printed, and left out here it stays as it is\n")
		}
	}
	if len(jobs) > 0 {
		b.WriteString("\njobs:\n")
	}
	for i := range jobs {
		j := jobs[i]
		j.Normalize()
		if err := j.Validate(); err != nil {
			return nil, fmt.Errorf("job %s cannot be written: %w", j.Name(), err)
		}
		entry(&b, w.job(&j))
		comment(j.Def.Set)
	}
	return b.Bytes(), nil
}

// entry writes a map as an item of a list.
func entry(b *bytes.Buffer, n *node) {
	lead := "  - "
	for _, kid := range n.kids {
		b.WriteString(lead)
		lead = "    "
		switch {
		case kid.block:
			fmt.Fprintf(b, "%s:\n", quote(kid.key))
			for _, k := range kid.kids {
				fmt.Fprintf(b, "      %s: %s\n", quote(k.key), k.flow())
			}
		case kid.list:
			fmt.Fprintf(b, "%s:\n", quote(kid.key))
			for _, k := range kid.kids {
				fmt.Fprintf(b, "      - %s\n", k.flow())
			}
		default:
			fmt.Fprintf(b, "%s: %s\n", quote(kid.key), kid.flow())
		}
	}
}

// flow is a node on one line.
func (n *node) flow() string {
	if n.kids == nil {
		return n.text
	}
	parts := make([]string, len(n.kids))
	for i, k := range n.kids {
		if parts[i] = k.flow(); !n.list {
			parts[i] = quote(k.key) + ": " + parts[i]
		}
	}
	if n.list {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// quote writes a text so that YAML reads the same, plain where that is safe.
func quote(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r >= 0x7f && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// notPlain are words that some YAML reader takes for something else.
var notPlain = map[string]bool{"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true}

func isPlain(s string) bool {
	if s == "" || s[len(s)-1] == ' ' || notPlain[strings.ToLower(s)] && s != "on" {
		return false
	}
	for i, r := range s {
		switch {
		case unicode.IsLetter(r) || r == '/':
		case i > 0 && (r >= '0' && r <= '9' || r == ' ' || r == '.' || r == '_' || r == '-'):
		default:
			return false
		}
	}
	return true
}
