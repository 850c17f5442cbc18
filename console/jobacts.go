package console

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
)

// What is done to one job: each act is a panel of its page, and a form that is posted.

// Key is one for a trigger: the form that holds it, sent twice, makes one run.
func (a *ask) Key() string { return "console-" + rand.Text() }

// act does something to the job of the path. What the API refuses is shown in the panel,
// with what was typed.
func (a *ask) act(panel string, do func() (string, core.Text, error)) (string, core.Text, error) {
	to, said, err := do()
	if err == nil {
		return to, said, nil
	}
	e, isClient := errors.AsType[*client.Error](err)
	own, isOwn := errors.AsType[*core.Error](err)
	switch {
	case isClient && e.Status < http.StatusInternalServerError && e.Status != http.StatusUnauthorized:
	case isOwn && own.Code != core.CodeInternal:
	default:
		return "", said, err
	}
	j, gone := a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))
	if gone != nil {
		return "", said, gone
	}
	a.page = "jobs"
	page, bad := a.jobPage(j)
	if bad != nil {
		return "", said, bad
	}
	p := a.problemOf(err)
	page.Panel, page.F = panel, typed{Error: p.Message, Of: a.r.PostForm}
	if seen := a.seen(); isConflict(err) && seen != nil && *seen != j.Rev {
		a.r.PostForm.Del("rev") // sent again, it is for what the page shows now
		if panel == "label" {
			mine := j
			mine.Labels, _ = pairsOf("labels", a.Form("labels")) // else it was no conflict
			if page.Clash, bad = a.clash(&j, *seen, &mine); bad != nil {
				return "", said, bad
			}
			page.F.Error = ""
		}
	}
	if isClient {
		page.F.Field = e.Field
	} else {
		page.F.Field = own.Field
	}
	a.render(p.Status, "job", page)
	return "", said, errShown
}

// seen is the revision that the page of the form was of; nil where the form says none.
func (a *ask) seen() *int64 {
	rev, err := strconv.ParseInt(a.Form("rev"), 10, 64)
	if err != nil {
		return nil
	}
	return &rev
}

// typedBy is the zone by whose clock a form was typed: the one that it names beside its
// fields, and carries. The reader may have chosen another since.
func (a *ask) typedBy() *time.Location { return locationOf(a.Form("zone")) }

// typedIn is that of a query, whose link may say none: then it is the reader's.
func (a *ask) typedIn(q url.Values) *time.Location {
	if zone := q.Get("zone"); zone != "" {
		return locationOf(zone)
	}
	return a.In("")
}

// when is a moment as people type it: a clock time (the next one), a day, both, or a span
// from now; zero where nothing was typed.
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
	return a.act("run", func() (string, core.Text, error) {
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
		var err error
		if body.At, err = a.when("at", a.Form("at"), a.typedBy()); err != nil {
			return "", core.Text{}, err
		}
		if text := strings.TrimSpace(a.Form("retries")); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return "", core.Text{}, core.Invalid("retries", core.Truncate(text), "a whole number is expected")
			}
			body.Retries = &n
		}
		res, err := a.TriggerJob(a.Ctx(), a.Path("app"), a.Path("name"), body)
		if err != nil {
			return "", core.Text{}, err
		}
		if res.Existing {
			return a.RunPath(res.Run.ID), core.Say("already submitted: this is the same run"), nil
		}
		return a.RunPath(res.Run.ID), core.Text{}, nil
	})
}

// stillJSON refuses params that are none, where those of the job are JSON.
func stillJSON(was, is string) error {
	if was == "" || !json.Valid([]byte(was)) || is == "" {
		return nil
	}
	if why := notJSON(is); why.Code() != "" {
		return core.Invalid("params", "", "the params of the job are JSON, but these are not: %s", why)
	}
	return nil
}

// nearJSON says where a text that begins as JSON is none; a template is JSON only once it is filled.
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
	return a.act("pause", func() (string, core.Text, error) {
		until, err := a.when("until", a.Form("until"), a.typedBy())
		if err != nil {
			return "", core.Text{}, err
		}
		if strings.TrimSpace(a.Form("reason")) == "" {
			return "", core.Text{}, core.Invalid("reason", "", "required: users who see the paused job ask for the reason")
		}
		res, err := a.PauseJob(a.Ctx(), a.Path("app"), a.Path("name"), client.PauseRequest{Reason: a.Form("reason"), Until: until,
			IfRev: a.seen()})
		if isConflict(err) && a.pausedSo(until) { // sent twice
			err = nil
		}
		if err != nil {
			return "", core.Text{}, err
		}
		said := core.Say("%s is paused", a.ref())
		if !res.Changed {
			said = core.Say("%s was already paused", a.ref())
		}
		if a.Form("running") != "kill" {
			return jobPath(a.ref()), said, nil
		}
		killed, err := a.killAll()
		if err != nil {
			return "", core.Text{}, err
		}
		return jobPath(a.ref()), core.Say("%s; %s", said, killed), nil
	})
}

// pausedSo reports whether the job of the path is paused as the form asks for, by who sent it. Of a span from
// now the end is a little later when it is sent again.
func (a *ask) pausedSo(until time.Time) bool {
	j, err := a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))
	return err == nil && j.State == string(core.Paused) && j.Pause != nil && j.Pause.Of == "job" &&
		j.Pause.By == a.who.Actor().Name && j.Pause.Reason == a.Form("reason") &&
		until.IsZero() == j.Pause.Until.IsZero() && until.Sub(j.Pause.Until).Abs() <= time.Minute
}

func (a *ask) resumeJob() (string, core.Text, error) {
	return a.act("resume", func() (string, core.Text, error) {
		_, err := a.ResumeJob(a.Ctx(), a.Path("app"), a.Path("name"), client.ResumeRequest{Reason: a.Form("reason")})
		if err != nil {
			return "", core.Text{}, err
		}
		return jobPath(a.ref()), core.Say("%s is resumed; missed runs are not made up", a.ref()), nil
	})
}

func (a *ask) killJob() (string, core.Text, error) {
	return a.act("kill", func() (string, core.Text, error) {
		said, err := a.killAll()
		return jobPath(a.ref()), said, err
	})
}

// maxKills bounds how many parts of the runs of a job one form ends.
const maxKills = 20

// killAll ends what runs of the job of the path, part by part.
func (a *ask) killAll() (core.Text, error) {
	killed, cancelled, after, problem := 0, 0, "", ""
	for range maxKills {
		res, err := a.KillJob(a.Ctx(), a.Path("app"), a.Path("name"), client.KillJobParams{After: after})
		if err != nil {
			return core.Text{}, err
		}
		killed, cancelled = killed+len(res.Killed), cancelled+len(res.Cancelled)
		problem = cmp.Or(untold(res.Sent), problem)
		if after = res.Next; after == "" {
			break
		}
	}
	said := core.Say("kill requested for %d runs; %d runs cancelled before they were sent", killed, cancelled)
	switch {
	case problem != "" && cancelled > 0:
		said = core.Say("%d runs cancelled before they were sent; %s", cancelled, killedUntold(killed, problem))
	case problem != "":
		said = killedUntold(killed, problem)
	case killed+cancelled == 0 && after == "":
		said = core.Say("no run of the job was in progress")
	}
	if after != "" {
		said = core.Say("more runs of the job remain, kill again; %s", said)
	}
	return said, nil
}

func (a *ask) labelJob() (string, core.Text, error) {
	return a.act("label", func() (string, core.Text, error) {
		j, err := a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))
		if err != nil {
			return "", core.Text{}, err
		}
		labels, err := pairsOf("labels", a.Form("labels"))
		if err != nil {
			return "", core.Text{}, err
		}
		said := core.Say("the labels of %s are saved", a.ref())
		if maps.Equal(labels, j.Labels) {
			return jobPath(a.ref()), said, nil
		}
		spec, err := sameSpec(&j)
		if err != nil {
			return "", core.Text{}, err
		}
		spec.Labels, spec.IfRev = labels, cmp.Or(a.seen(), &j.Rev)
		if _, err := a.PutJob(a.Ctx(), j.App, j.Name, spec); err != nil {
			return "", core.Text{}, err
		}
		return jobPath(a.ref()), said, nil
	})
}

// sameSpec is a job as it is put again unchanged: its script by its hash.
func sameSpec(j *client.Job) (spec client.JobSpec, err error) {
	same := *j
	same.Declared = "" // who made it last, of a spec whether code asks
	text, err := json.Marshal(same)
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	return spec, err
}

// pairsOf reads key=value, one a line or with spaces between.
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
	return a.act("delete", func() (string, core.Text, error) {
		if strings.TrimSpace(a.Form("name")) != a.ref() {
			return "", core.Text{}, core.Invalid("name", core.Truncate(a.Form("name")), "type %s to confirm", a.ref())
		}
		res, err := a.DeleteJob(a.Ctx(), a.Path("app"), a.Path("name"), client.DeleteJobParams{IfRev: a.seen()})
		if err != nil {
			return "", core.Text{}, err
		}
		if res.Withheld {
			return Root + "jobs", core.Say("%s is deleted; code that declares it does not create it again until you return it to code", a.ref()), nil
		}
		return Root + "jobs", core.Say("%s is deleted; its runs are kept, and you can restore it from its changes", a.ref()), nil
	})
}

func (a *ask) giveBackJob() (string, core.Text, error) {
	return a.act("giveback", func() (string, core.Text, error) {
		if _, err := a.GiveBackJob(a.Ctx(), a.Path("app"), a.Path("name")); err != nil {
			return "", core.Text{}, err
		}
		return jobPath(a.ref()), core.Say("%s is returned to code: the code that declares it can change it", a.ref()), nil
	})
}
