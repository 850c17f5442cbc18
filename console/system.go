package console

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/internal/paging"
	"github.com/tickring/tickring/words"
)

const (
	workFor       = 15 * time.Second // work in parts stops after this time, and the user can continue
	lettersAPage  = 50
	longestAudits = 31 * 24 * time.Hour
)

// operatingPage shows the state of the deployment.
type operatingPage struct {
	Facts    client.Facts
	Findings []finding
	Verdict  string // summary of the findings, from package doctor
	Shape    string // shape of the status mark for Verdict
	Well     int    // findings without a problem, which are shown if All is set
	All      bool
	Jobs     bool // whether the jobs were also checked
	Pause    *client.Pause

	Letters []client.DeadLetter
	More    string // link to further dead-letter messages

	Audit  *client.Audit
	Span   string // time range of the audit
	Job    string
	GoOn   string // link that continues the audit
	NoSums string // reason why the page has no audit
}

// A finding is a result of doctor, with a link to the page where users can fix it.
type finding struct {
	Shape, Check, Says, Do string
	Path                   string
}

// levels has the shape of each level of doctor.
var levels = map[doctor.Level]string{doctor.Well: "ok", doctor.Unknown: "skip", doctor.Warning: "late", doctor.Wrong: "fail"}

// foundAt has the page for the findings of each check.
var foundAt = map[string]string{"dead letters": Root + "system#letters", "pause": Root + "system?panel=resume",
	"apps": Root + "executors", "executors": Root + "executors", "notifications": Root + "notifications", "jobs": Root + "jobs?status=failing",
	"losses": Root + "system?panel=replan"}

func (a *ask) system() (any, error) {
	p := a.operatingPage()
	a.audit(p)
	return p, nil
}

func (a *ask) operatingPage() *operatingPage {
	p := &operatingPage{All: a.Q("all") != "", Jobs: a.Q("jobs") != ""}
	began := time.Now()
	facts := must.Get(a.GetFacts(a.Ctx()))
	p.Facts = facts
	f := doctor.Facts{Now: a.Now, Took: time.Since(began), Endpoint: a.address(), Own: &facts}
	if p.Jobs {
		if jobs, err := a.GetJobFacts(a.Ctx()); err != nil {
			f.JobsErr = a.problemOf(err).Message
		} else {
			f.Jobs = &jobs
		}
	}
	a.judge(p, &f)
	p.Pause = a.holds(must.Get(a.GetStatus(a.Ctx())).Pause)
	if !a.May(string(access.See), "") || facts.Fenced != "" || facts.DeadLetters != nil && *facts.DeadLetters == 0 {
		return p
	}
	letters := must.Get(a.Redrive(a.Ctx(), client.RedriveRequest{DryRun: true, Limit: lettersAPage, After: a.Q("letter")}))
	if p.Letters = letters.Letters; letters.Next != "" {
		p.More = a.With("letter", letters.Next)
	}
	return p
}

// judge fills in doctor's findings, the worst first.
func (a *ask) judge(p *operatingPage, f *doctor.Facts) {
	list := doctor.Judge(f)
	slices.SortStableFunc(list, func(x, y doctor.Finding) int {
		return slices.Index(doctor.Levels, y.Level) - slices.Index(doctor.Levels, x.Level)
	})
	p.Verdict, p.Shape = words.Say(a.Lang, doctor.Verdict(f.Own, list)), levels[doctor.Worst(list)]
	if n := f.Own.Failing; n != nil && n.Jobs > 0 {
		p.Shape = levels[doctor.Wrong]
	}
	for _, x := range list {
		if x.Level == doctor.Well {
			if p.Well++; !p.All {
				continue
			}
		}
		one := finding{Shape: levels[x.Level], Check: words.Say(a.Lang, x.Check), Says: words.Say(a.Lang, x.Says), Do: words.Say(a.Lang, x.Do)}
		if x.Level != doctor.Well {
			one.Path = foundAt[x.Check.String()]
		}
		p.Findings = append(p.Findings, one)
	}
}

func (a *ask) audit(p *operatingPage) {
	if p.Span, p.Job = a.Q("audit"), strings.TrimSpace(a.Q("job")); p.Span == "" {
		return
	}
	span, err := api.ParseDuration(p.Span)
	if err != nil || span <= 0 || span > longestAudits {
		p.NoSums = a.Say("must be a duration such as 24h or 7d, at most 31 days")
		return
	}
	params := client.AuditParams{Job: p.Job, From: a.Now.Add(-span), To: a.Now, After: a.Q("after")}
	sum := client.Audit{Skipped: map[string]int64{}}
	for began := time.Now(); ; {
		page, err := a.Client.Audit(a.Ctx(), params)
		if err != nil {
			p.NoSums = a.problemOf(err).Message
			return
		}
		if params.After = paging.AddAudit(&sum, &page); params.After == "" || time.Since(began) > workFor {
			break
		}
	}
	if p.Audit = &sum; params.After != "" {
		p.GoOn = a.With() + "&after=" + params.After
	}
}

func (a *ask) SkippedOf(skipped map[string]int64) string {
	var all int64
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		all += skipped[reason]
		list = append(list, a.ReasonName(reason)+" "+strconv.FormatInt(skipped[reason], 10))
	}
	if len(list) == 0 {
		return "0"
	}
	return strconv.FormatInt(all, 10) + " (" + strings.Join(list, ", ") + ")"
}

// operate handles the forms of the page.
func (a *ask) operate() (to string, said core.Text, err error) {
	to = Root + "system"
	switch do := a.Form("do"); do {
	case "pause":
		must.Get(a.PauseAll(a.Ctx(), a.pauseRequest()))
		return to, core.Say("everything is paused: no schedule fires"), nil
	case "resume":
		must.Get(a.ResumeAll(a.Ctx(), client.ResumeRequest{Reason: strings.TrimSpace(a.Form("reason"))}))
		return to, core.Say("everything is resumed; runs that were missed during the pause are not sent later"), nil
	case "redrive", "drop":
		return to, a.redrive(client.RedriveRequest{Drop: do == "drop", Unread: do == "drop" && a.Form("unread") != ""}), nil
	case "replan":
		return to, a.replan(), nil
	}
	return to, said, a.noForm()
}

// redrive resends dead-letter messages, or deletes the ones that cannot be resent.
func (a *ask) redrive(body client.RedriveRequest) core.Text {
	var sum client.RedriveResult
	for began := time.Now(); ; {
		res := must.Get(a.Redrive(a.Ctx(), body))
		sum.Sent, sum.Left, sum.Dropped = sum.Sent+res.Sent, sum.Left+res.Left, sum.Dropped+res.Dropped
		if body.After = res.Next; body.After == "" {
			return core.Say("dead-letter messages: %d resent, %d kept, %d deleted", sum.Sent, sum.Left, sum.Dropped)
		}
		if time.Since(began) > workFor {
			return core.Say("dead-letter messages: %d resent, %d kept, %d deleted; more messages remain: repeat the operation",
				sum.Sent, sum.Left, sum.Dropped)
		}
	}
}

// replan resends the runs that an audit reports as missing.
func (a *ask) replan() core.Text {
	body := client.ReplanRequest{Job: strings.TrimSpace(a.Form("job")), From: a.past("from", a.Form("from"))}
	if to := a.Form("to"); strings.TrimSpace(to) != "" {
		body.To = a.past("to", to)
	}
	var sum client.ReplanResult
	for began := time.Now(); ; {
		res := must.Get(a.Replan(a.Ctx(), body))
		if body.After = paging.AddReplan(&sum, &res); body.After == "" {
			return core.Say("jobs: %d; runs expected: %d, missing: %d, resent: %d", sum.Jobs, sum.Expected, sum.Missing, sum.Sent)
		}
		if time.Since(began) > workFor {
			return core.Say("jobs: %d; runs resent: %d; more jobs remain: continue with `tickring replan`, after job %s",
				sum.Jobs, sum.Sent, body.After)
		}
	}
}

// past parses a time in the past: by the user's clock, or as a duration before now, such as 24h or 90d.
func (a *ask) past(name, text string) time.Time {
	text = strings.TrimSpace(text)
	if d, err := api.ParseDuration(text); err == nil {
		return a.Now.Add(-d)
	}
	at, _, err := momentOf(name, text, a.typedBy())
	return must.Get(at, err)
}

// Size formats a number of bytes for users.
func (a *ask) Size(n int64) string {
	switch {
	case n >= 10<<30:
		return strconv.FormatInt(n>>30, 10) + " GB"
	case n >= 10<<20:
		return strconv.FormatInt(n>>20, 10) + " MB"
	}
	return strconv.FormatInt(n>>10, 10) + " KB"
}
