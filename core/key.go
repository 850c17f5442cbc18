package core

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of the key of a limit.
const (
	MaxPointer      = 256 // bytes
	MaxPointerDepth = 16
)

// NoValue is in place of the hash where params have nothing at the key, or are no JSON.
const NoValue = "none"

// Permit is the names of the limits that count a run, empty if none does: that of its job,
// and that of all runs of its app. It is the same whenever it is asked for while these are.
func (j *Job) Permit(app *App, r *Run) string {
	name := j.permit(app, r)
	switch {
	case app == nil || app.Limits == (Limits{}):
		return name
	case name == "":
		return PermitOfApp(app.Name)
	}
	return name + permitsPart + PermitOfApp(app.Name)
}

const (
	permitOfApp = "app/"
	permitsPart = "+"
)

// PermitNames are the names that a run's permit has, in the order in which they are asked.
func PermitNames(permit string) []string {
	if permit == "" {
		return nil
	}
	return strings.Split(permit, permitsPart)
}

// Counts reports whether a permit of that name is of the limits of all runs of the app.
func (l Limits) Counts(app, name string) bool {
	return l != (Limits{}) && name == permitOfApp+app
}

// PermitOfApp is the name of the limits of all runs of an app.
func PermitOfApp(app string) string { return permitOfApp + app }

// IsPermitOfApp reports whether a permit of that name counts all runs of an app.
func IsPermitOfApp(name string) bool { return strings.HasPrefix(name, permitOfApp) }

// permit is the name of the limit of its job, and behind it where that has a key a hash of
// the value that the run's params have there: what is not known before a run is sent is
// left empty in these.
func (j *Job) permit(app *App, r *Run) string {
	o := j.Overlap(app)
	name := o.name(j.Def.ID)
	if name == "" || o.Key == "" {
		return name
	}
	params, err := j.paramsToCount(r)
	if err != nil {
		return name + "/" + NoValue
	}
	return name + "/" + valueAt(params, o.Key)
}

func (o *Overlap) name(job JobID) string {
	switch {
	case o.Limit == 0:
		return ""
	case o.Group != "":
		return "group/" + o.Group
	}
	return "job/" + job.String()
}

func (j *Job) paramsToCount(r *Run) (string, error) {
	switch {
	case r.Params != nil:
		return *r.Params, nil
	case !j.Def.Template:
		return j.Def.Params, nil
	}
	t, err := ParseTemplate(j.Def.Params)
	if err != nil {
		return "", err
	}
	zone, err := time.LoadLocation(j.Sched.Schedule.Timezone) // empty is UTC
	if err != nil {
		return "", err
	}
	return t.Fill(Filling{Attempt: 1, At: r.At, Zone: zone})
}

// SplitPermit is a name of Job.Permit in its parts; value is empty where there is no key.
func SplitPermit(name string) (limit, value string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 && strings.Count(name, "/") == 2 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// Counts reports whether a permit of that name is of the limit, which a job has.
func (o *Overlap) Counts(job JobID, name string) bool {
	limit, value := SplitPermit(name)
	return limit == o.name(job) && (value != "") == (o.Key != "")
}

// valueAt is a hash of what JSON has at a pointer of RFC 6901. The order of members does
// not count.
func valueAt(text, pointer string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return NoValue
	}
	for _, token := range strings.Split(pointer, "/")[1:] {
		is := false
		switch of := v.(type) {
		case map[string]any:
			v, is = of[unescape.Replace(token)]
		case []any:
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(of) && strconv.Itoa(i) == token {
				v, is = of[i], true
			}
		}
		if !is {
			return NoValue
		}
	}
	canonical, err := json.Marshal(v)
	if err != nil {
		return NoValue
	}
	h := sha256.Sum256(canonical)
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// checkPointer refuses what is no JSON pointer to a part of a text, or a long one.
func checkPointer(field, p string) error {
	switch bad := strings.NewReplacer("~0", "", "~1", "").Replace(p); {
	case p == "":
		return nil
	case p[0] != '/':
		return Invalid(field, p, "a JSON pointer into the params begins with /, as /tenant or /order/customer")
	case len(p) > MaxPointer:
		return Invalid(field, "", fmt.Sprintf("%d bytes, at most %d are allowed", len(p), MaxPointer))
	case strings.Count(p, "/") > MaxPointerDepth:
		return Invalid(field, p, fmt.Sprintf("%d members deep, at most %d are allowed", strings.Count(p, "/"), MaxPointerDepth))
	case strings.Contains(bad, "~"):
		return Invalid(field, p, "in a JSON pointer ~ is written ~0, and / in a name ~1")
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Invalid(field, "", "a JSON pointer of printable UTF-8 is needed")
	}
	return nil
}
