package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type runCmd struct {
	Name string `arg:"" name:"run" placeholder:"RUN" help:"Run ID, app/name@TIME or app/name#KEY. TIME is the scheduled time in the job's time zone, such as 2026-11-20T02:30; 02:30 selects the latest run at that time of day. KEY is the --key of the trigger."`
}

func (c *runCmd) Run(e *conn) error {
	r, err := e.run(c.Name)
	if err != nil {
		return err
	}
	again := api.Reruns(e.Ctx, e.Client, &r)
	return e.show(struct {
		client.Run
		RerunAs []string `json:"rerunAs,omitempty"`
	}{r, again}, nil, func() {
		if r.Skip != nil {
			e.printf("%s   %s\n", runName(&r), e.skipLine(r.Skip, r.Timezone))
			if r.Message != "" {
				e.printf("%s\n", r.Message)
			}
			switch core.Reason(r.Skip.Reason) {
			case core.ReasonMisfire, core.ReasonDeadline:
				e.printf("no run: the scheduled time was too late for the job's misfire policy, grace or deadline: tickring describe %s\n", runName(&r))
			default:
				e.printf("no run   audit log: tickring changes %s\n", runName(&r))
			}
			return
		}
		about := &card{{"run " + r.ID, runName(&r) + "   " + e.stateText(&r)}}
		add := about.add
		colors := paints{{0, 1, howText(&r), stateColor(r.State)}}
		cause := r.Cause
		if r.By != "" {
			cause += ", by " + r.By
		}
		add("cause", cause)
		add("scheduled", e.full(r.ScheduledAt, r.Timezone))
		if !r.DueAt.Equal(r.ScheduledAt) {
			add("due", e.full(r.DueAt, r.Timezone))
		}
		if !r.SentAt.IsZero() {
			sent := e.full(r.SentAt, r.Timezone)
			if r.LatenessMs != nil {
				sent += "   " + lateness(&r)
				colors = append(colors, paint{len(*about), 1, lateness(&r), lateColor(&r)})
			}
			add("sent", sent)
		}
		if !waitsForPermit(&r) {
			add("waits", e.waitText(&r))
		}
		if len(r.Missing) > 0 {
			add("waits", fmt.Sprintf("for parent jobs %s, until %s", strings.Join(r.Missing, ", "), e.full(r.DueAt, r.Timezone)))
		}
		add("slot", e.permitText(&r))
		if !r.EndedAt.IsZero() {
			ended := e.full(r.EndedAt, r.Timezone)
			if !r.SentAt.IsZero() {
				ended += "   took " + took(&r)
			}
			add("ended", ended)
		}
		for _, t := range r.Tries {
			if t.Request != "" {
				add("invoked", t.Address+"   request "+t.Request+"   log group "+t.Log)
				continue
			}
			if t.Of > 0 {
				add("chosen", chosenText(&t))
				continue
			}
			add("asked", strings.TrimSpace(t.Address+"   "+e.firstLine(t.Message)))
		}
		add("address", r.Address)
		if r.MaybeTwice {
			add("sent", "possibly twice: the first sender stopped before it recorded the send")
		}
		if r.Answer != "" {
			add("answered", e.firstLine(r.Answer)+"   it is unknown whether the executor received the run: tickring executors "+r.App)
		}
		if s := r.Shard; s != nil && s.Index != nil {
			text := fmt.Sprintf("index %d of a total of %d", *s.Index, s.Total)
			if s.Of != "" {
				text += ", of broadcast " + s.Of
			}
			add("shard", text)
		}
		shardsText(add, r.Shards)
		add("attempt", attemptText(&r))
		add("after", r.Parent)
		for _, c := range r.Children {
			add("followed by", fmt.Sprintf("%s   %s   %s", c.ID, c.Job, c.State))
		}
		add("rerun of", r.RerunOf)
		add("rerun as", strings.Join(again, ", "))
		add("first", r.First)
		add("then", r.Then)
		add("key", r.Key)
		with := r.With
		if with != nil {
			add("handler", with.Handler)
			if with.Script.Kind != "" {
				add("script", scriptText(&with.Script))
			}
			if with.Command.Line != "" {
				add("command", e.firstLine(with.Command.Line))
			}
			add("route", with.Route+"   block "+with.Block+"   timeout "+cmp.Or(with.Timeout, "none"))
			switch {
			case r.Params != nil:
			case with.Template:
				e.addLines(add, "params", with.Params, "   (from the job; placeholders are replaced for each run)")
			case with.Params != "":
				e.addLines(add, "params", with.Params, "   (from the job)")
			}
		}
		if r.Params != nil {
			e.addLines(add, "params", *r.Params, "   (set for this run only)")
		}
		if with != nil && with.Verb != "" {
			add("job version", fmt.Sprintf("%s %s by %s", with.Verb, e.full(with.At, r.Timezone), with.By))
		} else if with != nil {
			add("job version", "from "+e.full(with.At, r.Timezone))
		}
		if r.KillBy != "" {
			add("killed", e.full(r.KillAt, r.Timezone)+" by "+r.KillBy+replacedText(&r))
		} else if !r.KillAt.IsZero() {
			add("timed out", e.full(r.KillAt, r.Timezone)+overText(&r))
		}
		if r.Code != 0 {
			add("code", fmt.Sprint(r.Code))
		}
		add("data", e.firstLine(r.Data))
		e.noticeText(add, &r)
		table(e.Stdout, *about, e.paints(colors)...)
		if r.Message != "" {
			e.printf("%s\n", strings.TrimRight(r.Message, "\n"))
		}
		if r.Late != nil {
			e.printf("result reported after the run ended, at %s: code %d %s\n", e.full(r.Late.At, r.Timezone), r.Late.Code,
				e.firstLine(r.Late.Message))
		}
		switch {
		case r.State == string(core.Planned):
			if r.Cause == string(core.CauseManual) || r.Cause == string(core.CauseAPI) {
				e.printf("to change: tickring edit-trigger %s   ", r.ID)
			}
			e.printf("to cancel: tickring kill %s\n", r.ID)
		case waitsForPermit(&r):
			if held := r.Permit.HeldBy; !r.Permit.Has && len(held) > 0 {
				e.printf("waits for: tickring run %s   ", held[0])
			}
			e.printf("to cancel: tickring kill %s\n", r.ID)
		case r.State == string(core.Queued):
			e.printf("executors: tickring executors %s   to cancel: tickring kill %s\n", r.App, r.ID)
		case core.State(r.State).Open():
			e.printf("log: tickring logs %s -f   to kill: tickring kill %s\n", r.ID, r.ID)
		case !r.SentAt.IsZero():
			e.printf("log: tickring logs %s\n", r.ID)
		case r.Reason == string(core.ReasonNoExecutor):
			e.printf("executors: tickring executors %s\n", r.App)
		}
		if core.State(r.State).Failure() && r.Then == "" && r.Job != "" {
			e.printf("to rerun: tickring rerun %s\n", r.ID)
		}
	})
}

// attemptText returns a run's attempt number and how many attempts can follow; empty if there is only one.
func attemptText(r *client.Run) string {
	switch {
	case r.Shards != nil || r.Attempt <= 1 && r.Retries == 0 && r.Then == "":
		return ""
	case !core.State(r.State).Open() && r.Then == "":
		return fmt.Sprintf("%d, no retry follows", r.Attempt)
	case r.Reason == string(core.ReasonSnoozed): // it used none up
		return fmt.Sprintf("%d, retries left: %d", r.Attempt, r.Retries+1)
	}
	return fmt.Sprintf("%d, retries left: %d", r.Attempt, r.Retries)
}

func waitsForPermit(r *client.Run) bool {
	return r.State == string(core.Queued) && r.Permit.Waits(time.Now())
}

func chosenText(t *client.Try) string {
	text := fmt.Sprintf("%s by route %s from %d executors", t.Address, t.By, t.Of)
	if len(t.From) == 0 {
		return text
	}
	text += ": " + strings.Join(t.From, ", ")
	if len(t.From) < t.Of {
		text += ", …"
	}
	return text
}

func overText(r *client.Run) string {
	if !core.State(r.State).Open() {
		return ""
	}
	return "   the executor has other runs of this job, and a kill would also end these runs: this run is killed after the other runs end"
}

// replacedText returns a note that a newer run replaces r, or "".
func replacedText(r *client.Run) string {
	if r.Reason == string(core.ReasonReplaced) || r.State == string(core.Running) && strings.HasPrefix(r.KillBy, "run ") {
		return ", which replaces this run"
	}
	return ""
}

const shownShards = 20

// shardsText adds rows about the shards of a broadcast: the count of each state, and some shards of each. If there are many, failed
// ones come first.
func shardsText(add func(name, value string), list []client.ShardRun) {
	n, states := map[string]int{}, []string(nil)
	for _, s := range list {
		if n[s.State]++; n[s.State] == 1 {
			states = append(states, s.State)
		}
	}
	for i, state := range states {
		states[i] = fmt.Sprintf("%d %s", n[state], state)
	}
	if len(list) > 0 {
		add("broadcast", fmt.Sprintf("%d shards: %s", len(list), strings.Join(states, ", ")))
	}
	shown := slices.Clone(list)
	if len(list) > shownShards {
		last := map[bool]int{true: 1}
		slices.SortStableFunc(shown, func(a, b client.ShardRun) int {
			return last[a.State == string(core.Succeeded)] - last[b.State == string(core.Succeeded)]
		})
		shown = shown[:shownShards]
	}
	for _, s := range shown {
		how := howText(&client.Run{State: s.State, Reason: s.Reason, Attempt: s.Attempt})
		add(fmt.Sprintf("shard %d", s.Index), strings.TrimSpace(strings.Join([]string{s.ID, how, s.Address}, "   ")))
	}
	if rest := len(list) - len(shown); rest > 0 {
		add("", fmt.Sprintf("and %d more shards", rest))
	}
}
