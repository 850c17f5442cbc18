package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/cfnoutputs"
)

// canary is the task that creates the job by which a deployment watches itself, once in the life of a process. ready reports
// whether the functions that send and report its runs can do that. The app gets the address last, so the address shows that the
// job was created: a user who deletes or pauses the job later is respected.
func canary(p *people.People, address string, ready func(context.Context) error) tick.Task {
	done := false
	return tick.Task{Name: "canary", Do: func(ctx context.Context) error {
		if done {
			return nil
		}
		app, found, err := p.FindApp(ctx, cfnoutputs.CanaryApp)
		if err != nil {
			return fmt.Errorf("read the app of the canary: %w", err)
		}
		if done = slices.Contains(app.Executors, address); done {
			return nil
		}
		if err := ready(ctx); err != nil {
			return err
		}
		actor := core.Actor{Name: "deployment"}
		spec := manage.AppSpec{Name: cfnoutputs.CanaryApp, Title: "Created by the deployment: runs every three minutes and reports back"}
		if !found {
			if _, err := p.SaveApp(ctx, actor, spec); err != nil {
				return fmt.Errorf("create the app of the canary: %w", err)
			}
		}
		job := manage.JobSpec{Def: core.Def{App: cfnoutputs.CanaryApp, Name: cfnoutputs.CanaryJob, Handler: "alive"},
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: cfnoutputs.CanaryEvery}}}}
		if r := p.Save(ctx, actor, []manage.JobSpec{job})[0]; r.Err != nil {
			return fmt.Errorf("create the canary: %w", r.Err)
		}
		spec.Executors = []string{address}
		if _, err := p.SaveApp(ctx, actor, spec); err != nil {
			return fmt.Errorf("set the address of the canary: %w", err)
		}
		done = true
		return nil
	}}
}
