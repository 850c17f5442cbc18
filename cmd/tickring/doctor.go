package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/cfnoutputs"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/words"
)

type doctorCmd struct {
	All bool `help:"Also show checks that passed."`
}

func (c *doctorCmd) Help() string {
	return `Exit code 0: no problems; warnings are possible. Exit code 1: at least one problem.`
}

// ask limits the time for all requests.
const ask = 40 * time.Second

func (c *doctorCmd) Run(e *Env) error {
	ctx, cancel := context.WithTimeout(e.Ctx, ask)
	defer cancel()
	e.Ctx = ctx
	f := doctor.Facts{Now: time.Now()}
	cl, err := e.api()
	if err != nil {
		if exitOf(err) == exitUsage || e.stackName() != "" && e.outputs == nil {
			return err // there is nothing to check
		}
		f.OwnErr = firstLineOf(e.errorText(err))
	}
	f.Endpoint = cmp.Or(e.endpoint, strings.TrimSuffix(e.outputs[cfnoutputs.Url], "/"), words.Say(e.lang(), core.Say("the server"))) + e.on()
	if err == nil {
		began := time.Now()
		own, err := cl.GetFacts(ctx)
		f.Took = time.Since(began)
		f.Now = began.Add(f.Took / 2)
		r, refused := errors.AsType[*client.Error](err)
		switch {
		case err == nil:
			f.Own = &own
		case refused && r.Code == string(core.CodeUnauthorized), errors.Is(err, client.ErrUnproven):
			f.Refused = true
		case refused && r.Code == string(core.CodeNotFound):
			f.Older = true
		case refused && r.Status == 503: // it stands by
			f.Own = &client.Facts{Now: f.Now, Standby: true}
			f.OwnErr = r.Message
		default:
			f.OwnErr = firstLineOf(err.Error())
		}
	}
	if f.Own != nil && len(f.Own.Refused) > 0 {
		if list, err := cl.ListApps(ctx); err == nil {
			f.Apps = []string{}
			for _, a := range list.Apps {
				f.Apps = append(f.Apps, a.Name)
			}
			for _, a := range list.Failed {
				f.Apps = append(f.Apps, a.Name)
			}
		}
	}
	if f.Own != nil && f.OwnErr == "" {
		jobs, err := cl.GetJobFacts(ctx)
		if f.Jobs = &jobs; err != nil {
			f.Jobs, f.JobsErr = nil, firstLineOf(err.Error())
		}
	}
	if e.stackName() != "" {
		if f.Own != nil && f.OwnErr == "" {
			f.Canary = canary(ctx, cl)
		}
		f.Cloud = doctor.Ask(ctx, e.aws, e.outputs, time.Now())
	}
	list := doctor.Judge(&f)
	worst, verdict := doctor.Worst(list), words.Say(e.lang(), doctor.Verdict(f.Own, list))
	return e.result(worst != doctor.Wrong, struct {
		Verdict  string       `json:"verdict"`
		Worst    doctor.Level `json:"worst"`
		Findings []finding    `json:"findings"`
	}{verdict, worst, findings(e.lang(), list)}, nil, func() { c.print(e, verdict, list) })
}

func (c *doctorCmd) print(e *Env, verdict string, list []doctor.Finding) {
	e.printf("%s\n", verdict)
	well := 0
	slices.SortStableFunc(list, func(a, b doctor.Finding) int {
		return slices.Index(doctor.Levels, b.Level) - slices.Index(doctor.Levels, a.Level)
	})
	for _, x := range list {
		if x.Level == doctor.Well && !c.All {
			well++
			continue
		}
		level := fmt.Sprintf("%-8s", x.Level)
		if e.colors() {
			level = levelColors[x.Level].on(level)
		}
		fmt.Fprintf(e.Stdout, "%s %s\n", level, visible(words.Say(e.lang(), x.Check)+": "+words.Say(e.lang(), x.Says)))
		if do := words.Say(e.lang(), x.Do); do != "" {
			e.printf("         %s\n", do)
		}
	}
	if well > 0 {
		e.printf("%-8s %s   to show all: tickring doctor --all\n", doctor.Well, plural(well, "check"))
	}
}

// finding is one finding in doctor -o json; its fields are stable. Says and Do are in the user's language; Check and Level are the
// same in every language.
type finding struct {
	Check string       `json:"check"`
	Level doctor.Level `json:"level"`
	Says  string       `json:"says"`
	Do    string       `json:"do,omitempty"`
}

func findings(l words.Language, list []doctor.Finding) []finding {
	out := make([]finding, len(list))
	for i, x := range list {
		out[i] = finding{x.Check.String(), x.Level, words.Say(l, x.Says), words.Say(l, x.Do)}
	}
	return out
}

var levelColors = map[doctor.Level]color{doctor.Wrong: red, doctor.Warning: yellow}

// canary is the last run that ended of the job by which the deployment watches
// itself; nil where there is no such job, or it cannot be asked.
func canary(ctx context.Context, cl *client.Client) *doctor.Canary {
	page, err := cl.ListRuns(ctx, client.ListRunsParams{Job: cfnoutputs.CanaryApp + "/" + cfnoutputs.CanaryJob, To: time.Now(), Limit: 10})
	if err != nil {
		return nil
	}
	for i := range page.Runs {
		if r := &page.Runs[i]; !r.EndedAt.IsZero() {
			return &doctor.Canary{Ran: true, Came: r.State == string(core.Succeeded), At: r.ScheduledAt, Message: r.Message}
		}
	}
	return &doctor.Canary{}
}

func firstLineOf(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
