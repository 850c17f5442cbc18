package console

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/words"
)

type event struct {
	At    time.Time // time of the event; zero: unknown
	Gap   string    // time since the previous event
	Shape string    // shape of the event's mark, a value of the variable shapes
	Text  template.HTML
	Note  template.HTML
}

// Tone returns the CSS class of the event's text; a failure is red.
func (e event) Tone() string {
	if e.Shape == "fail" {
		return "t-fail"
	}
	return ""
}

// shownAttempts is the number of attempts that a story shows, from the first.
const shownAttempts = 20

// story returns the history of a retry chain in order, as far as users of one of its runs need it. chain has its
// attempts in order, including r.
func (a *ask) story(r *client.Run, job *client.Job, chain []client.Run) (list []event) {
	if r.Skip != nil {
		return a.skipStory(r)
	}
	first := &chain[0]
	list = append(list, event{At: first.ScheduledAt, Shape: "ok", Text: a.causeOf(first), Note: a.madeBy(r)})
	for i := range chain {
		one := &chain[i]
		if i > 0 && one.Attempt > chain[i-1].Attempt+1 {
			between := num(one.Attempt - chain[i-1].Attempt - 1)
			list = append(list, event{Shape: "skip", Text: a.Mark("%s more attempts, not shown here", between)})
		}
		list = append(list, a.attempt(one, first, len(chain))...)
	}
	last := &chain[len(chain)-1]
	if n := a.notice(last); n.Text != "" {
		list = append(list, n)
	}
	for _, c := range last.Children {
		list = append(list, event{Shape: shapes[core.State(c.State)], Text: a.Mark("triggered run %s of %s", a.RunLink(c.ID), a.JobLink(c.Job)),
			Note: text(a.StateName(c.State))})
	}
	if job != nil {
		list = append(list, a.notFollowed(last, job)...)
	}
	return list
}

func (a *ask) causeOf(r *client.Run) template.HTML {
	by := html("<b>%s</b>", cmp.Or(r.By, a.Say("a user")))
	switch {
	case r.RerunOf != "":
		return a.Mark("rerun of run %s, by %s", a.RunLink(r.RerunOf), by)
	case r.Cause == string(core.CauseManual):
		return a.Mark("triggered by hand, by %s", by)
	case r.Cause == string(core.CauseAPI):
		return a.Mark("triggered through the API, by %s", by)
	case r.Cause == string(core.CauseParent):
		return a.Mark("triggered by run %s", a.RunLink(r.Parent))
	case r.Cause == string(core.CauseRetry):
		return a.Mark("retry of a failed run; the record of the first attempt was deleted")
	case r.Cause == string(core.CauseMisfire):
		return a.Mark("due by schedule; the scheduler was not running at that time and sent the run later")
	}
	return a.Mark("due by schedule")
}

// madeBy names the author of the job version that a run has.
func (a *ask) madeBy(r *client.Run) template.HTML {
	w := r.With
	switch {
	case w == nil:
		return ""
	case w.By != "":
		return a.Mark("job version of %s, by %s", a.Time(w.At, r.Timezone), text(w.By))
	}
	return a.Mark("job version of %s", a.Time(w.At, r.Timezone))
}

// attempt returns the history of one attempt in a chain of n.
func (a *ask) attempt(r, first *client.Run, n int) (list []event) {
	nth := template.HTML("")
	if n > 1 || r.Retries > 0 && r.Shards == nil {
		nth = a.Mark("attempt %s of %s", a.attemptLink(r), num(max(n, r.Attempt+r.Retries)))
	}
	for _, t := range r.Tries {
		list = append(list, a.try(&t))
	}
	before := first.DueAt
	if len(r.Missing) > 0 {
		list = append(list, event{Shape: "wait", Text: a.Mark("waits for %s, until %s", text(strings.Join(r.Missing, ", ")),
			a.Time(r.DueAt, r.Timezone))})
	}
	switch {
	case len(r.Shards) > 0:
		said := a.Mark("sent to each available executor; shards: %s", num(len(r.Shards)))
		list = append(list, event{At: r.SentAt, Shape: "ok", Text: said, Note: nth})
	case !r.SentAt.IsZero():
		said := a.Mark("claimed and sent to %s", html(`<span class="mono break">%s</span>`, cmp.Or(r.Address, "?")))
		if r.Attempt > 1 {
			said = a.Mark("resent to %s", html(`<span class="mono break">%s</span>`, cmp.Or(r.Address, "?")))
		}
		gap := ""
		if r.LatenessMs != nil {
			gap = "+" + a.Ms(*r.LatenessMs)
		} else if d := r.SentAt.Sub(before); d > 0 {
			gap = "+" + a.Span(d)
		}
		list = append(list, event{At: r.SentAt, Gap: gap, Shape: "ok", Text: said, Note: nth})
	case r.State == string(core.Planned) && r.Missing == nil:
		said := a.Mark("starts %s", a.Rel(r.DueAt))
		if !r.DueAt.After(a.Now) {
			said = a.Mark("waits to be sent")
		}
		list = append(list, event{At: r.DueAt, Shape: "plan", Text: said, Note: nth})
	case r.State == string(core.Queued):
		list = append(list, event{Shape: "wait", Text: a.waitsFor(r), Note: nth})
	case r.State == string(core.Running):
		list = append(list, event{Shape: "run", Text: a.Mark("is being sent"), Note: nth})
	}
	if r.MaybeTwice {
		list = append(list, event{Shape: "late",
			Text: a.Mark("may have been sent twice: the first sender stopped before the send was recorded")})
	}
	if r.Answer != "" {
		list = append(list, event{Shape: "fail", Text: a.Mark("the executor did not confirm the run: %s", text(r.Answer)),
			Note: a.Mark("unknown whether the executor has the run")})
	}
	list = append(list, a.kill(r)...)
	if !r.EndedAt.IsZero() {
		list = append(list, a.end(r))
	} else if r.State == string(core.Running) && !r.SentAt.IsZero() {
		list = append(list, event{Shape: "run", Gap: a.Took(r), Text: a.Mark("is running")})
	}
	if l := r.Late; l != nil {
		said := firstLine(l.Message)
		list = append(list, event{At: l.At, Gap: "+" + a.Span(l.At.Sub(r.EndedAt)), Shape: "late",
			Text: a.Mark("the executor reported later, with code %s: %s", num(l.Code), text(said))})
	}
	return list
}

// attemptLink returns the number of an attempt, with a link to its page.
func (a *ask) attemptLink(r *client.Run) template.HTML {
	return html(`<a href="%s">%d</a>`, a.RunPath(r.ID), max(r.Attempt, 1))
}

// try describes a step of sending a run: a function call, the choice of an address, or the answer of an address.
func (a *ask) try(t *client.Try) event {
	at := html(`<span class="mono break">%s</span>`, t.Address)
	switch {
	case t.Request != "":
		return event{Shape: "ok", Text: a.Mark("invoked %s, request %s", at, html("<span class=mono>%s</span>", t.Request)),
			Note: text(t.Log)}
	case t.Of > 0:
		return event{Shape: "ok", Text: a.Mark("%s was chosen by route %s; executors to choose from: %s", at, text(t.By), num(t.Of)),
			Note: text(strings.Join(t.From, ", "))}
	case t.Code == 200:
		return event{Shape: "ok", Text: a.Mark("contacted %s: %s", at, text(cmp.Or(firstLine(t.Message), a.Say("the executor is live"))))}
	}
	return event{Shape: "fail", Text: a.Mark("contacted %s: %s", at, text(cmp.Or(firstLine(t.Message), a.Say("not accepted"))))}
}

// waitsFor describes why a queued run waits.
func (a *ask) waitsFor(r *client.Run) template.HTML {
	p := r.Permit
	switch turn := p.Waits(a.Now); {
	case !turn && r.WaitsUntil.IsZero():
		return a.Mark("waits to be sent")
	case !turn:
		return a.Mark("waits for an executor of app %s, until %s", a.AppLink(r.App), a.Time(r.WaitsUntil, r.Timezone))
	case p.Place == 0:
		return a.Mark("waits in the queue: %s limits starts per second; starts at %s", text(p.Of), a.Time(p.Begins, r.Timezone))
	case len(p.HeldBy) == 0:
		return a.Mark("waits in the queue: %s allows %s concurrent runs, now used by another run; position %s of %s", text(p.Of), num(p.Limit),
			num(p.Place), num(p.Waiting))
	}
	held := make([]string, 0, 3)
	for _, id := range p.HeldBy[:min(3, len(p.HeldBy))] {
		held = append(held, string(a.RunLink(id)))
	}
	return a.Mark("waits in the queue: %s allows %s concurrent runs, now used by run %s; position %s of %s", text(p.Of), num(p.Limit),
		template.HTML(strings.Join(held, ", ")), num(p.Place), num(p.Waiting))
}

// kill describes the request to end a run: its author or its reason.
func (a *ask) kill(r *client.Run) []event {
	by, replaced := strings.CutPrefix(r.KillBy, "run ")
	switch {
	case r.KillAt.IsZero():
		return nil
	case replaced:
		return []event{{At: r.KillAt, Shape: "stop", Text: a.Mark("kill requested: run %s replaces this run", a.RunLink(by))}}
	case r.KillBy != "":
		e := event{At: r.KillAt, Shape: "stop", Text: a.Mark("kill requested by %s", html("<b>%s</b>", r.KillBy))}
		if deaf(r) && core.State(r.State).Open() {
			e.Note = a.Mark("A Lambda function or an HTTP endpoint cannot be asked to end the run. The run is closed as killed when the " +
				"run fails or exceeds its timeout.")
		}
		return []event{e}
	case core.State(r.State).Open():
		return []event{{At: r.KillAt, Shape: "stop", Text: a.Mark("timeout exceeded, but a kill would also end other runs of this job on the " +
			"executor: the run is killed after the other runs end")}}
	}
	return []event{{At: r.KillAt, Shape: "stop", Text: a.Mark("timeout exceeded: the executor was asked to end the run")}}
}

// end describes the result of a run, and whether it is retried.
func (a *ask) end(r *client.Run) event {
	e := event{At: r.EndedAt, Gap: a.Took(r), Shape: shapes[core.State(r.State)]}
	e.Text = text(a.StateName(r.State))
	if r.Reason != "" {
		e.Text = a.Mark("%s: %s", e.Text, text(a.ReasonName(r.Reason)))
	}
	if said := firstLine(r.Message); said != "" && r.State != string(core.Succeeded) {
		e.Text = html(`%s <span class=mono>%s</span>`, e.Text, said)
	}
	switch {
	case r.Then != "" && !r.ThenAt.IsZero():
		e.Note = a.Mark("retry at %s as run %s", a.Stamp(r.ThenAt, r.Timezone), a.RunLink(r.Then))
	case r.Then != "":
		e.Note = a.Mark("retry as run %s", a.RunLink(r.Then))
	case core.State(r.State).Failure() && r.Attempt > 1 && r.Retries <= 0:
		e.Note = a.Mark("no attempts left")
	}
	return e
}

// notice describes the notification of a run.
func (a *ask) notice(r *client.Run) event {
	n := r.Notification
	if n == nil {
		return event{}
	}
	what := html("<b>%s</b>", words.Subject(a.Lang, n.Event, words.Facts{Job: r.Job}))
	switch {
	case len(n.GivenUp) > 0:
		g := n.GivenUp[0]
		return event{At: g.At, Shape: "fail", Text: a.Mark("notification %s: channel %s never accepted it: %s", what,
			html("<b>%s</b>", g.Channel), text(firstLine(g.Error)))}
	case len(n.Waiting) > 0:
		w := n.Waiting[0]
		return event{At: n.At, Shape: "wait", Text: a.Mark("notification %s: channel %s has not accepted it yet; next attempt %s %s", what,
			html("<b>%s</b>", w.Channel), a.Rel(w.NextAt), text(firstLine(w.Error)))}
	case n.Status == "told":
		return event{At: n.At, Shape: "ok", Text: a.Mark("notification %s: sent, each channel accepted it", what)}
	case n.Status == "counted":
		return event{Shape: "wait", Text: a.Mark("notification %s: counted; will be sent together with later notifications at "+
			"%s", what, a.Time(n.At, r.Timezone))}
	}
	return event{Shape: "wait", Text: a.Mark("notification %s: will be created shortly", what)}
}

// notFollowed lists the child jobs that did not run after this result, or that can still run.
func (a *ask) notFollowed(r *client.Run, job *client.Job) (list []event) {
	if r.Then != "" || r.Shard != nil && r.Shard.Of != "" {
		return nil
	}
	for _, c := range job.Children {
		if slices.ContainsFunc(r.Children, func(run client.ChildRun) bool { return run.Job == c.Job }) {
			continue
		}
		when := a.whenName(c.When)
		switch {
		case core.State(r.State).Open():
			list = append(list, event{Shape: "plan", Text: a.Mark("then %s runs, %s", a.JobLink(c.Job), when)})
		default:
			list = append(list, event{Shape: "skip", Text: a.Mark("%s was not triggered, because the job runs only %s", a.JobLink(c.Job), when)})
		}
	}
	return list
}

func (a *ask) whenName(when string) template.HTML {
	switch core.ParentCondition(when) {
	case core.UponFailure:
		return a.Mark("if this run fails after all attempts")
	case core.UponClose:
		return a.Mark("when this run finishes, with any result")
	}
	return a.Mark("if this run succeeds")
}

// skipStory is the story of scheduled times that have a skip record and no run.
func (a *ask) skipStory(r *client.Run) []event {
	s := r.Skip
	e := event{At: s.FirstAt, Shape: "skip"}
	e.Text = a.Mark("%s: %s", text(a.StateName(string(core.Skipped))), text(a.ReasonName(s.Reason)))
	if s.Count > 1 {
		e.Note = a.Mark("%s scheduled times in total, the last at %s", num(s.Count), a.Stamp(s.LastAt, r.Timezone))
	}
	due := event{At: r.ScheduledAt, Shape: "plan", Text: a.Mark("due by schedule")}
	if r.Message != "" {
		due.Note = a.Mark("%s", text(firstLine(r.Message)))
	}
	return []event{due, e}
}

// firstLine returns the first line of foreign text, shortened.
func firstLine(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(plainText(s)), "\n")
	if cut := []rune(line); len(cut) > 300 {
		return string(cut[:300]) + "…"
	}
	if more {
		line += " …"
	}
	return line
}

// nextSteps has the recommended next step for each reason. Reasons of several states that are missing need none.
var nextSteps = map[core.Reason]core.Text{
	core.ReasonNotAccepted: core.Say("Check the executors of the app: each one rejected the run or did not answer. Then rerun this run."),
	core.ReasonNoExecutor: core.Say(
		"Start an executor of the app, then rerun this run. To make runs wait for an executor instead, set waitForExecutor."),
	core.ReasonHandler: core.Say("See the log for the error of the handler. Fix the cause, then rerun this run."),
	core.ReasonCrashed: core.Say("Find out why the executor exited (memory, a deployment), then rerun this run."),
	core.ReasonShards:  core.Say("Open the shards that did not succeed. Each shard has its own log and result."),
	core.ReasonSnoozed: core.Say("No action is needed: the handler postponed the run. The retry starts at the time that the handler set."),
	core.ReasonTimeout: core.Say(
		"The log shows how far the run got. Increase the timeout or make the job faster, then rerun this run."),
	core.ReasonPerson:   core.Say("A killed run is not retried automatically. You can rerun this run."),
	core.ReasonReplaced: core.Say("No action is needed: the newer run does the work."),
	core.ReasonGone: core.Say(
		"The run may have finished its work before its executor disappeared. Check the result before you rerun this run."),
	core.ReasonForgotten: core.Say(
		"The executor has no record of the run, for example after a restart. Check how far the run got before you rerun this run."),
	core.ReasonNoReport: core.Say("The run may still have finished its work. Check the result before you rerun this run."),
	core.ReasonMisfire: core.Say(
		"The job's misfire policy skipped this late run: \"latest\" sends only the newest missed run, \"all\" sends each missed run. " +
			"To make up for this run, trigger the job."),
	core.ReasonDeadline: core.Say("The run was later than the job's deadline. To run the job now, trigger the job."),
	core.ReasonOverlap: core.Say(
		"Another run was in progress, and runs of this job do not wait. Check whether a neighboring run takes too long."),
	core.ReasonQueueFull: core.Say("The waiting queue of the job was full. Check whether a neighboring run takes too long."),
	core.ReasonPaused: core.Say(
		"The schedule was paused. The changes show who paused it and why. Missed runs do not run later."),
	core.ReasonChanged: core.Say("The job was changed after this run was due, so the new version of the job applies. See the changes " +
		"of the job."),
	core.ReasonDeleted:   core.Say("The job was deleted. The changes show who deleted it."),
	core.ReasonCancelled: core.Say("A user or the handler cancelled the run. To run the job anyway, rerun this run."),
	core.ReasonUndeliverable: core.Say(
		"The dispatch message of the run moved to the dead-letter queue, and the run was not sent. " +
			"To see the error, run: tickring redrive --dry-run"),
	core.ReasonJoin: core.Say("The message names the parent jobs that did not finish in time. Check the runs of these jobs."),
}

// nextStep returns the recommended next step for a run; empty if none is needed.
func (a *ask) nextStep(r *client.Run) string {
	switch state := core.State(r.State); {
	case r.Answer != "", strings.HasPrefix(r.Message, core.NotConfirmed) && r.Then == "":
		return a.Say("Check that the address is the base URL of an executor. Check the executor's own log for this run.")
	case r.Skip != nil:
		return words.Say(a.Lang, nextSteps[core.Reason(r.Skip.Reason)])
	case state == core.Planned && len(r.Missing) > 0:
		return a.Say("The run starts when its parent jobs have ended with the required results. If they have not ended by %s, the run is "+
			"skipped. "+
			"Until then you can cancel the run.", a.Moment(r.DueAt, r.Timezone))
	case state == core.Queued && r.Permit != nil && r.Permit.Place > 0:
		return a.Say("The run starts when another run ends. Kill a run that takes too long, or cancel this run.")
	case state == core.Queued && !r.Permit.Waits(a.Now) && !r.WaitsUntil.IsZero():
		return a.Say("The run starts when an executor is available. Start an executor, or cancel the run.")
	case state == core.Planned, state == core.Queued:
		return a.Say("No action is needed: the run starts automatically. Until then you can cancel it.")
	case state == core.Running:
		return a.Say("The log below is updated live. The run ends when its executor reports a result. You can kill the run.")
	case state == core.Failed && r.Reason == string(core.ReasonCancelled):
		return a.Say("The handler reported that a retry cannot help. See the log, fix the cause, then rerun this run.")
	case r.Then != "":
		return a.Say("The run is retried automatically. The result of the retry is shown above.")
	}
	return words.Say(a.Lang, nextSteps[core.Reason(r.Reason)])
}
