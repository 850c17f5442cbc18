package client

import "context"

// Prove asks what only who knows the tokens can answer: see [Proof]. It sends no token.
// Each call asks by itself where that is needed.
func (c *Client) Prove(ctx context.Context, params ProveParams) (Proofs, error) {
	return do[Proofs](ctx, c, "GET", pathProof, params, nil)
}

// GetStatus says what the server is and how it does.
func (c *Client) GetStatus(ctx context.Context) (Status, error) {
	return do[Status](ctx, c, "GET", "/v1/status", nil, nil)
}

// GetOpenAPI reads the OpenAPI document that the server goes by.
func (c *Client) GetOpenAPI(ctx context.Context) ([]byte, error) {
	return c.ask(ctx, "GET", "/v1/openapi.yaml", nil, nil)
}

// Apply makes or changes up to 500 jobs and 100 apps at once: all of it is judged first,
// and if anything is refused nothing is changed and Applied is false. With Prune, the same
// with After is asked for while there is a Next.
func (c *Client) Apply(ctx context.Context, body ApplyRequest) (ApplyResult, error) {
	return do[ApplyResult](ctx, c, "POST", "/v1/apply", nil, body)
}

// ListJobs lists jobs in the order of their numbers, a page a call.
func (c *Client) ListJobs(ctx context.Context, params ListJobsParams) (JobPage, error) {
	return do[JobPage](ctx, c, "GET", "/v1/jobs", params, nil)
}

// GetHome tells what needs somebody now.
func (c *Client) GetHome(ctx context.Context) (Home, error) {
	return do[Home](ctx, c, "GET", "/v1/home", nil, nil)
}

// Bulk does one thing to a part of many jobs, as one act; the next call goes on after it.
func (c *Client) Bulk(ctx context.Context, body BulkRequest) (BulkResult, error) {
	return do[BulkResult](ctx, c, "POST", "/v1/bulk", nil, body)
}

// GetJobByNumber reads a job by its number.
func (c *Client) GetJobByNumber(ctx context.Context, id string) (Job, error) {
	return do[Job](ctx, c, "GET", "/v1/jobs/{id}", nil, nil, id)
}

// GetJob reads a job.
func (c *Client) GetJob(ctx context.Context, app, name string) (Job, error) {
	return do[Job](ctx, c, "GET", "/v1/jobs/{app}/{name}", nil, nil, app, name)
}

// PutJob makes a job, or changes it to be as body says; what is left out gets its default.
func (c *Client) PutJob(ctx context.Context, app, name string, body JobSpec) (JobResult, error) {
	return do[JobResult](ctx, c, "PUT", "/v1/jobs/{app}/{name}", nil, body, app, name)
}

// PutScript gives a job that has a script another version of it.
func (c *Client) PutScript(ctx context.Context, app, name string, body ScriptChange) (JobResult, error) {
	return do[JobResult](ctx, c, "PUT", "/v1/jobs/{app}/{name}/script", nil, body, app, name)
}

// ListScripts lists the versions of a job's script, the newest first.
func (c *Client) ListScripts(ctx context.Context, app, name string) (ScriptList, error) {
	return do[ScriptList](ctx, c, "GET", "/v1/jobs/{app}/{name}/scripts", nil, nil, app, name)
}

// GetScript reads a version of a job's script with its source; 0 is the present one.
func (c *Client) GetScript(ctx context.Context, app, name, version string) (Script, error) {
	return do[Script](ctx, c, "GET", "/v1/jobs/{app}/{name}/scripts/{version}", nil, nil, app, name, version)
}

// DiffScripts says how a version of a job's script differs from another.
func (c *Client) DiffScripts(ctx context.Context, app, name, version string, params DiffScriptsParams) (ScriptDiff, error) {
	return do[ScriptDiff](ctx, c, "GET", "/v1/jobs/{app}/{name}/scripts/{version}/diff", params, nil, app, name, version)
}

// DeleteJob deletes a job; its runs stay.
func (c *Client) DeleteJob(ctx context.Context, app, name string, params DeleteJobParams) (JobResult, error) {
	return do[JobResult](ctx, c, "DELETE", "/v1/jobs/{app}/{name}", params, nil, app, name)
}

// PauseJob stops the schedule of a job.
func (c *Client) PauseJob(ctx context.Context, app, name string, body PauseRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/pause", nil, body, app, name)
}

// ResumeJob ends the pause of a job; what passed is not run.
func (c *Client) ResumeJob(ctx context.Context, app, name string, body ResumeRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/resume", nil, body, app, name)
}

// GiveBackJob lets code that declares a job make or change it again, whoever changed or
// deleted it.
func (c *Client) GiveBackJob(ctx context.Context, app, name string) (JobResult, error) {
	return do[JobResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/give-back", nil, nil, app, name)
}

// TriggerJob asks for one run, now or at a moment.
func (c *Client) TriggerJob(ctx context.Context, app, name string, body TriggerRequest) (TriggerResult, error) {
	return do[TriggerResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/trigger", nil, body, app, name)
}

// KillJob ends a part of the runs of a job, and the next call goes on after it; its
// schedule goes on.
func (c *Client) KillJob(ctx context.Context, app, name string, params KillJobParams) (StopResult, error) {
	return do[StopResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/kill", params, nil, app, name)
}

// ListWaiting lists the triggers and retries of a job whose time is to come, a page
// a call.
func (c *Client) ListWaiting(ctx context.Context, app, name string, params ListWaitingParams) (RunPage, error) {
	return do[RunPage](ctx, c, "GET", "/v1/jobs/{app}/{name}/waiting", params, nil, app, name)
}

// GetRunByKey reads the run that a trigger with this key made.
func (c *Client) GetRunByKey(ctx context.Context, app, name, key string) (Run, error) {
	return do[Run](ctx, c, "GET", "/v1/jobs/{app}/{name}/waiting/{key}", nil, nil, app, name, key)
}

// ChangeByKey changes a trigger that waits; what is left out stays. It is refused once the
// trigger was sent.
func (c *Client) ChangeByKey(ctx context.Context, app, name, key string, body TriggerChange) (TriggerResult, error) {
	return do[TriggerResult](ctx, c, "PATCH", "/v1/jobs/{app}/{name}/waiting/{key}", nil, body, app, name, key)
}

// CancelByKey cancels a trigger that waits.
func (c *Client) CancelByKey(ctx context.Context, app, name, key string) (StopResult, error) {
	return do[StopResult](ctx, c, "DELETE", "/v1/jobs/{app}/{name}/waiting/{key}", nil, nil, app, name, key)
}

// GetRunAt reads the run of one instant, such as 2026-11-20T02:30 in the job's zone, or
// what there is in its place.
func (c *Client) GetRunAt(ctx context.Context, app, name, at string) (Run, error) {
	return do[Run](ctx, c, "GET", "/v1/jobs/{app}/{name}/runs/{at}", nil, nil, app, name, at)
}

// ListApps lists all apps by name.
func (c *Client) ListApps(ctx context.Context) (AppList, error) {
	return do[AppList](ctx, c, "GET", "/v1/apps", nil, nil)
}

// GetApp reads an app.
func (c *Client) GetApp(ctx context.Context, app string) (App, error) {
	return do[App](ctx, c, "GET", "/v1/apps/{app}", nil, nil, app)
}

// PutApp makes an app, or changes it to be as body says.
func (c *Client) PutApp(ctx context.Context, app string, body AppSpec) (AppResult, error) {
	return do[AppResult](ctx, c, "PUT", "/v1/apps/{app}", nil, body, app)
}

// DeleteApp deletes an app that has no job.
func (c *Client) DeleteApp(ctx context.Context, app string) (AppResult, error) {
	return do[AppResult](ctx, c, "DELETE", "/v1/apps/{app}", nil, nil, app)
}

// ListExecutors lists the executors of an app, live or not.
func (c *Client) ListExecutors(ctx context.Context, app string) (ExecutorList, error) {
	return do[ExecutorList](ctx, c, "GET", "/v1/apps/{app}/executors", nil, nil, app)
}

// RemoveExecutor removes the registration of an executor that is gone.
func (c *Client) RemoveExecutor(ctx context.Context, app string, body ExecutorTestRequest) (ExecutorTestRequest, error) {
	return do[ExecutorTestRequest](ctx, c, "POST", "/v1/apps/{app}/executors/remove", nil, body, app)
}

// TestExecutor asks an executor of an app, now and once, whether it is there.
func (c *Client) TestExecutor(ctx context.Context, app string, body ExecutorTestRequest) (ExecutorTest, error) {
	return do[ExecutorTest](ctx, c, "POST", "/v1/apps/{app}/executors/test", nil, body, app)
}

// ListChannels lists all channels of notices by name.
func (c *Client) ListChannels(ctx context.Context) (ChannelList, error) {
	return do[ChannelList](ctx, c, "GET", "/v1/channels", nil, nil)
}

// GetChannel reads a channel.
func (c *Client) GetChannel(ctx context.Context, channel string) (Channel, error) {
	return do[Channel](ctx, c, "GET", "/v1/channels/{channel}", nil, nil, channel)
}

// PutChannel makes a channel, or changes it to be as body says.
func (c *Client) PutChannel(ctx context.Context, channel string, body ChannelSpec) (ChannelResult, error) {
	return do[ChannelResult](ctx, c, "PUT", "/v1/channels/{channel}", nil, body, channel)
}

// DeleteChannel deletes a channel; what waits for it is told to nobody by it.
func (c *Client) DeleteChannel(ctx context.Context, channel string) (ChannelResult, error) {
	return do[ChannelResult](ctx, c, "DELETE", "/v1/channels/{channel}", nil, nil, channel)
}

// TestChannel sends a test message to a channel, now and once. What kept it from arriving
// is in the answer.
func (c *Client) TestChannel(ctx context.Context, channel string) (ChannelTest, error) {
	return do[ChannelTest](ctx, c, "POST", "/v1/channels/{channel}/test", nil, nil, channel)
}

// PauseApp stops the schedules of all jobs of an app.
func (c *Client) PauseApp(ctx context.Context, app string, body PauseRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/apps/{app}/pause", nil, body, app)
}

// ResumeApp ends the pause of an app; what passed is not run.
func (c *Client) ResumeApp(ctx context.Context, app string, body ResumeRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/apps/{app}/resume", nil, body, app)
}

// PauseAll stops all schedules.
func (c *Client) PauseAll(ctx context.Context, body PauseRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/pause", nil, body)
}

// ResumeAll ends the pause of everything; what passed is not run.
func (c *Client) ResumeAll(ctx context.Context, body ResumeRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/resume", nil, body)
}

// ListRuns lists runs, newest first, a page a call.
func (c *Client) ListRuns(ctx context.Context, params ListRunsParams) (RunPage, error) {
	return do[RunPage](ctx, c, "GET", "/v1/runs", params, nil)
}

// GetShape tells how the runs that began in a span ended, in at most 120 buckets.
func (c *Client) GetShape(ctx context.Context, params GetShapeParams) (Shape, error) {
	return do[Shape](ctx, c, "GET", "/v1/runs/shape", params, nil)
}

// GetLateness tells how late the runs that began in a span were sent, in buckets.
func (c *Client) GetLateness(ctx context.Context, params GetLatenessParams) (Lateness, error) {
	return do[Lateness](ctx, c, "GET", "/v1/lateness", params, nil)
}

// GetRun reads a run by its ID.
func (c *Client) GetRun(ctx context.Context, run string) (Run, error) {
	return do[Run](ctx, c, "GET", "/v1/runs/{run}", nil, nil, run)
}

// ChangeRun changes a trigger that waits; what is left out stays. It is refused once the
// trigger was sent.
func (c *Client) ChangeRun(ctx context.Context, run string, body TriggerChange) (TriggerResult, error) {
	return do[TriggerResult](ctx, c, "PATCH", "/v1/runs/{run}", nil, body, run)
}

// GetLog reads a piece of what the executor logged of a run.
func (c *Client) GetLog(ctx context.Context, run string, params GetLogParams) (Log, error) {
	return do[Log](ctx, c, "GET", "/v1/runs/{run}/log", params, nil, run)
}

// KillRun ends a run; an xxl-job executor ends all runs of its job at that address. It
// does a part, and the next call goes on after it.
func (c *Client) KillRun(ctx context.Context, run string, params KillRunParams) (StopResult, error) {
	return do[StopResult](ctx, c, "POST", "/v1/runs/{run}/kill", params, nil, run)
}

// CancelRun cancels a run that was not sent yet.
func (c *Client) CancelRun(ctx context.Context, run string) (StopResult, error) {
	return do[StopResult](ctx, c, "POST", "/v1/runs/{run}/cancel", nil, nil, run)
}

// ListUpcoming lists the instants to come of a part of the jobs, the earliest first; the
// next call goes on after it.
func (c *Client) ListUpcoming(ctx context.Context, params ListUpcomingParams) (Upcoming, error) {
	return do[Upcoming](ctx, c, "GET", "/v1/upcoming", params, nil)
}

// GetUpcomingShape tells what comes of the schedules of all jobs, in buckets for each app.
func (c *Client) GetUpcomingShape(ctx context.Context, params GetUpcomingShapeParams) (UpcomingShape, error) {
	return do[UpcomingShape](ctx, c, "GET", "/v1/upcoming/shape", params, nil)
}

// Preview says what a schedule means, without a job.
func (c *Client) Preview(ctx context.Context, body PreviewRequest) (Preview, error) {
	return do[Preview](ctx, c, "POST", "/v1/preview", nil, body)
}

// ListChanges lists who changed what: of a job, of an app with its jobs, or of everything,
// newest first.
func (c *Client) ListChanges(ctx context.Context, params ListChangesParams) (ChangeList, error) {
	return do[ChangeList](ctx, c, "GET", "/v1/changes", params, nil)
}

// Audit sums up what was demanded of a part of the jobs, after From and up to To, and what
// became of it; the next call goes on after it.
func (c *Client) Audit(ctx context.Context, params AuditParams) (Audit, error) {
	return do[Audit](ctx, c, "GET", "/v1/audit", params, nil)
}

// Clean removes a part of the runs that are asked for; the next call goes on after it.
func (c *Client) Clean(ctx context.Context, body CleanRequest) (CleanResult, error) {
	return do[CleanResult](ctx, c, "POST", "/v1/clean", nil, body)
}

// GetReport answers what became of the runs that began in a span, by hour or by day.
func (c *Client) GetReport(ctx context.Context, params GetReportParams) (Report, error) {
	return do[Report](ctx, c, "GET", "/v1/reports", params, nil)
}

// Replan sends a part of what an audit finds unaccounted for again; the next call goes on
// after it. What has a run, or a record of why not, is left alone.
func (c *Client) Replan(ctx context.Context, body ReplanRequest) (ReplanResult, error) {
	return do[ReplanResult](ctx, c, "POST", "/v1/replan", nil, body)
}

// Fence shuts everybody out of this data, until a restore or take-over. What was begun ends
// within 30 s.
func (c *Client) Fence(ctx context.Context) (Generation, error) {
	return do[Generation](ctx, c, "POST", "/v1/fence", nil, nil)
}

// Restore makes a part of a copy of the data, or of a replica, this deployment's; the next call
// goes on after it.
func (c *Client) Restore(ctx context.Context, body RestoreRequest) (RestoreResult, error) {
	return do[RestoreResult](ctx, c, "POST", "/v1/restore", nil, body)
}

// Redrive lists dead letters, and sends again those of their fires that may still be sent.
func (c *Client) Redrive(ctx context.Context, body RedriveRequest) (RedriveResult, error) {
	return do[RedriveResult](ctx, c, "POST", "/v1/redrive", nil, body)
}

// RotateKey encrypts a part of the stored secrets with a new key.
func (c *Client) RotateKey(ctx context.Context, params RotateKeyParams) (RotateResult, error) {
	return do[RotateResult](ctx, c, "POST", "/v1/rotate-key", params, nil)
}

// Rerun runs again one run that has ended, or a page of those that a filter finds.
func (c *Client) Rerun(ctx context.Context, body RerunRequest) (RerunResult, error) {
	return do[RerunResult](ctx, c, "POST", "/v1/rerun", nil, body)
}

// GetFacts reads what tickring doctor judges, as the deployment itself sees it; what could not be
// read is left out.
func (c *Client) GetFacts(ctx context.Context) (Facts, error) {
	return do[Facts](ctx, c, "GET", "/v1/facts", nil, nil)
}

// GetJobFacts reads which jobs nobody takes and which fail, of as many as it comes to in
// about 10 s.
func (c *Client) GetJobFacts(ctx context.Context) (JobFacts, error) {
	return do[JobFacts](ctx, c, "GET", "/v1/facts/jobs", nil, nil)
}

// ListPeople lists all people by name.
func (c *Client) ListPeople(ctx context.Context) (PeopleList, error) {
	return do[PeopleList](ctx, c, "GET", "/v1/people", nil, nil)
}

// GetPerson reads a person.
func (c *Client) GetPerson(ctx context.Context, person string) (Person, error) {
	return do[Person](ctx, c, "GET", "/v1/people/{person}", nil, nil, person)
}

// PutPerson makes a person, or changes what body says.
func (c *Client) PutPerson(ctx context.Context, person string, body PersonSpec) (PersonResult, error) {
	return do[PersonResult](ctx, c, "PUT", "/v1/people/{person}", nil, body, person)
}

// DeletePerson deletes a person, with all sessions, tokens and views of that person.
func (c *Client) DeletePerson(ctx context.Context, person string) (PersonResult, error) {
	return do[PersonResult](ctx, c, "DELETE", "/v1/people/{person}", nil, nil, person)
}

// EndTokenOf ends a token of a person.
func (c *Client) EndTokenOf(ctx context.Context, person, token string) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/people/{person}/tokens/{token}", nil, nil, person, token)
}

// GetMe says who asks, and of a person the sessions and tokens.
func (c *Client) GetMe(ctx context.Context) (Me, error) {
	return do[Me](ctx, c, "GET", "/v1/me", nil, nil)
}

// SetLook sets in which language and zone one reads.
func (c *Client) SetLook(ctx context.Context, body LookRequest) (Done, error) {
	return do[Done](ctx, c, "PUT", "/v1/me/look", nil, body)
}

// ChangePassword changes one's own password; all other sessions end.
func (c *Client) ChangePassword(ctx context.Context, body NewPassword) (Done, error) {
	return do[Done](ctx, c, "POST", "/v1/me/password", nil, body)
}

// EndSessions ends all of one's own sessions but the one that asks.
func (c *Client) EndSessions(ctx context.Context) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/me/sessions", nil, nil)
}

// EndSession ends one of one's own sessions.
func (c *Client) EndSession(ctx context.Context, session string) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/me/sessions/{session}", nil, nil, session)
}

// MakeToken makes a token of one's own. Its secret is in the answer, and nowhere again.
func (c *Client) MakeToken(ctx context.Context, body NewTokenSpec) (NewToken, error) {
	return do[NewToken](ctx, c, "POST", "/v1/me/tokens", nil, body)
}

// EndToken ends one of one's own tokens.
func (c *Client) EndToken(ctx context.Context, token string) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/me/tokens/{token}", nil, nil, token)
}

// ListViews lists pages of the console that one keeps under names, and those that others share.
func (c *Client) ListViews(ctx context.Context) (SavedViews, error) {
	return do[SavedViews](ctx, c, "GET", "/v1/me/views", nil, nil)
}

// PutView keeps a page of the console under a name.
func (c *Client) PutView(ctx context.Context, body SavedView) (Done, error) {
	return do[Done](ctx, c, "PUT", "/v1/me/views", nil, body)
}

// DeleteView deletes a view.
func (c *Client) DeleteView(ctx context.Context, params DeleteViewParams) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/me/views", params, nil)
}
