package console

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/internal/must"
)

// Actions on one job: each one has a panel on the job's page, and a form.

// Key returns a new idempotency key for a trigger form. The form creates one run, even if it is sent twice.
func (a *ask) Key() string { return "console-" + rand.Text() }

// onJob returns the function of a form with an action on the job in the path. If the action is rejected, the panel shows
// the error and the input.
func onJob(panel string, do formFunc) formFunc {
	return onPage("job", func(a *ask) (any, error) {
		a.panel, a.page = panel, "jobs"
		j := must.Get(a.GetJob(a.Ctx(), a.Path("app"), a.Path("name")))
		page := a.jobPage(j)
		if seen := a.seen(); isConflict(a.rejection) && seen != nil && *seen != j.Rev {
			a.r.PostForm.Del("rev") // sent again, the form applies to the job as shown now
			if panel == "label" {
				mine := j
				mine.Labels, _ = pairsOf("labels", a.Form("labels")) // valid, or there would be no conflict
				page.Clash, a.wrong = a.clash(&j, *seen, &mine), ""
			}
		}
		return page, nil
	}, do)
}

// seen returns the job's revision when the form was shown; nil if the form has none.
func (a *ask) seen() *int64 {
	rev, err := strconv.ParseInt(a.Form("rev"), 10, 64)
	if err != nil {
		return nil
	}
	return &rev
}

// typedBy returns the zone of the times in a form. The form carries the zone that it shows beside its fields, because
// users can select another one before they send it.
func (a *ask) typedBy() *time.Location { return locationOf(a.Form("zone")) }

// typedIn returns the zone of the times in a query; if a link has none, the user's zone.
func (a *ask) typedIn(q url.Values) *time.Location {
	if zone := q.Get("zone"); zone != "" {
		return locationOf(zone)
	}
	return a.In("")
}

// when parses a time as users type it: a clock time (its next occurrence), a day, both, or a duration from now. An
// empty text is the zero time.
func (a *ask) when(field, text string, loc *time.Location) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	if t, _, err := momentOf(field, text, loc); err == nil {
		return t, nil
	}
	if c, err := time.Parse("15:04", text); err == nil {
		day := a.Now.In(loc)
		at := time.Date(day.Year(), day.Month(), day.Day(), c.Hour(), c.Minute(), 0, 0, time.UTC)
		t := schedule.WallTime(at, loc)
		if !t.After(a.Now) {
			t = schedule.WallTime(at.AddDate(0, 0, 1), loc)
		}
		return t, nil
	}
	if d, err := api.ParseDuration(text); err == nil {
		return a.Now.Add(d), nil
	}
	return time.Time{}, core.Invalid(field, core.Truncate(text), "allowed formats: 06:00, 2h, 3d, 2026-12-24 and 2026-12-24 18:00")
}

func (a *ask) triggerJob() (string, core.Text, error) {
	body := client.TriggerRequest{Key: a.Form("key"), Cause: string(core.CauseManual)}
	if params := keptText(a.Form("params"), a.Form("was")); params != a.Form("was") {
		if err := stillJSON(a.Form("was"), params); err != nil && a.Form("asis") == "" {
			return "", core.Text{}, err
		}
		body.Params = &params
	}
	for _, address := range append(a.r.PostForm["address"], strings.Fields(a.Form("other"))...) {
		if address != "" {
			body.Addresses = append(body.Addresses, address)
		}
	}
	body.At = must.Get(a.when("at", a.Form("at"), a.typedBy()))
	if text := strings.TrimSpace(a.Form("retries")); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return "", core.Text{}, core.Invalid("retries", core.Truncate(text), "a whole number is expected")
		}
		body.Retries = &n
	}
	res := must.Get(a.TriggerJob(a.Ctx(), a.Path("app"), a.Path("name"), body))
	if res.Existing {
		return a.RunPath(res.Run.ID), core.Say("already submitted: this is the run of the first submission"), nil
	}
	return a.RunPath(res.Run.ID), core.Text{}, nil
}

// stillJSON rejects params that are invalid JSON if the job's params are JSON.
func stillJSON(was, is string) error {
	if was == "" || !json.Valid([]byte(was)) || is == "" {
		return nil
	}
	if why := notJSON(is); why.Code() != "" {
		return core.Invalid("params", "", "the job's params are JSON, but these params are not valid JSON: %s", why)
	}
	return nil
}

// nearJSON returns the error in a text that starts as JSON but is invalid. A template becomes JSON only when it is
// filled in.
func nearJSON(text string, template bool) core.Text {
	begins := strings.TrimSpace(text)
	if !strings.HasPrefix(begins, "{") && !strings.HasPrefix(begins, "[") || template && strings.Contains(text, "{{") {
		return core.Text{}
	}
	return notJSON(text)
}

func notJSON(text string) core.Text {
	var v any
	err := json.Unmarshal([]byte(text), &v)
	e, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return core.Text{}
	}
	before := text[:max(0, min(int(e.Offset), len(text))-1)]
	if e.Offset >= int64(len(text)) && strings.Contains(e.Error(), "end of JSON") {
		before = text
	}
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return core.Say("line %d, column %d: %s", lines(before), utf8.RuneCountInString(line)+1, e.Error())
}

func (a *ask) pauseJob() (string, core.Text, error) {
	until := must.Get(a.when("until", a.Form("until"), a.typedBy()))
	if strings.TrimSpace(a.Form("reason")) == "" {
		return "", core.Text{}, core.Invalid("reason", "", "required: the reason is shown to users who see the paused job")
	}
	res, err := a.PauseJob(a.Ctx(), a.Path("app"), a.Path("name"), client.PauseRequest{Reason: a.Form("reason"), Until: until,
		IfRev: a.seen()})
	if isConflict(err) && a.pausedSo(until) { // the form was sent twice
		err = nil
	}
	must.Get(res, err)
	said := core.Say("%s is paused", a.ref())
	if !res.Changed {
		said = core.Say("%s was already paused", a.ref())
	}
	if a.Form("running") != "kill" {
		return a.JobPath(a.ref()), said, nil
	}
	return a.JobPath(a.ref()), core.Say("%s; %s", said, a.killAll()), nil
}

// pausedSo reports whether the user has already paused the job in the path as the form requests. If the form has a
// duration, the end moves a little each time it is sent.
func (a *ask) pausedSo(until time.Time) bool {
	j, err := a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))
	return err == nil && j.State == string(core.Paused) && j.Pause != nil && j.Pause.Of == "job" &&
		j.Pause.By == a.who.Actor().Name && j.Pause.Reason == a.Form("reason") &&
		until.IsZero() == j.Pause.Until.IsZero() && until.Sub(j.Pause.Until).Abs() <= time.Minute
}

func (a *ask) resumeJob() (string, core.Text, error) {
	must.Get(a.ResumeJob(a.Ctx(), a.Path("app"), a.Path("name"), client.ResumeRequest{Reason: a.Form("reason")}))
	return a.JobPath(a.ref()), core.Say("%s is resumed; missed runs do not run later", a.ref()), nil
}

func (a *ask) killJob() (string, core.Text, error) {
	return a.JobPath(a.ref()), a.killAll(), nil
}

// maxKills is the maximum number of pages of runs that one form kills.
const maxKills = 20

// killAll kills the unfinished runs of the job in the path, page by page.
func (a *ask) killAll() core.Text {
	res, more := stop(maxKills, func(after string) (client.StopResult, error) {
		return a.KillJob(a.Ctx(), a.Path("app"), a.Path("name"), client.KillJobParams{After: after})
	})
	killed, cancelled, problem := len(res.Killed), len(res.Cancelled), untold(res.Sent)
	said := core.Say("kills requested: %d; runs cancelled before they were sent: %d", killed, cancelled)
	switch {
	case problem != "" && cancelled > 0:
		said = core.Say("runs cancelled before they were sent: %d; %s", cancelled, killedUntold(killed, problem))
	case problem != "":
		said = killedUntold(killed, problem)
	case killed+cancelled == 0 && !more:
		said = core.Say("no run of the job was in progress")
	}
	if more {
		said = core.Say("more runs of the job remain: repeat the kill; %s", said)
	}
	return said
}

func (a *ask) labelJob() (string, core.Text, error) {
	j := must.Get(a.GetJob(a.Ctx(), a.Path("app"), a.Path("name")))
	labels := must.Get(pairsOf("labels", a.Form("labels")))
	said := core.Say("the labels of %s are saved", a.ref())
	if maps.Equal(labels, j.Labels) {
		return a.JobPath(a.ref()), said, nil
	}
	spec := sameSpec(&j)
	spec.Labels, spec.IfRev = labels, cmp.Or(a.seen(), &j.Rev)
	must.Get(a.PutJob(a.Ctx(), j.App, j.Name, spec))
	return a.JobPath(a.ref()), said, nil
}

// sameSpec returns the spec with which a PUT leaves a job unchanged; it has the hash of the script.
func sameSpec(j *client.Job) client.JobSpec {
	same := *j
	same.Declared = "" // in a job it is the declared state, in a spec a request by code
	return as[client.JobSpec](same)
}

// pairsOf parses key=value pairs, separated by line breaks or spaces.
func pairsOf(field, text string) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, core.Invalid(field, core.Truncate(line), "must be key=value, one per line")
		}
		out[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return out, nil
}

func (a *ask) deleteJob() (string, core.Text, error) {
	if strings.TrimSpace(a.Form("name")) != a.ref() {
		return "", core.Text{}, core.Invalid("name", core.Truncate(a.Form("name")), "type %s to confirm", a.ref())
	}
	res := must.Get(a.DeleteJob(a.Ctx(), a.Path("app"), a.Path("name"), client.DeleteJobParams{IfRev: a.seen()}))
	if res.Withheld {
		return Root + "jobs", core.Say("%s is deleted; code that declares the job does not create it again until you return the job to code",
			a.ref()), nil
	}
	return Root + "jobs", core.Say("%s is deleted; its runs are kept, and you can restore the job from its changes", a.ref()), nil
}

func (a *ask) returnJobToCode() (string, core.Text, error) {
	must.Get(a.ReturnJobToCode(a.Ctx(), a.Path("app"), a.Path("name")))
	return a.JobPath(a.ref()), core.Say("%s is returned to code: code that declares the job can change it", a.ref()), nil
}
