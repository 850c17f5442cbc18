package client

import "context"

// Prove requests proofs that the server has the tokens. Only a holder of a token can compute its proof, with the function
// Proof. Prove sends no token. The other methods request the proof themselves.
func (c *Client) Prove(ctx context.Context, params ProveParams) (Proofs, error) {
	return do[Proofs](ctx, c, "GET", pathProof, params, nil)
}

// GetStatus returns the version and the status of the server.
func (c *Client) GetStatus(ctx context.Context) (Status, error) {
	return do[Status](ctx, c, "GET", "/v1/status", nil, nil)
}

// GetOpenAPI returns the OpenAPI document that the server implements.
func (c *Client) GetOpenAPI(ctx context.Context) ([]byte, error) {
	return c.ask(ctx, "GET", "/v1/openapi.yaml", nil, nil)
}

// Apply creates or updates up to 500 jobs and 100 apps in one call. The server checks everything first. If anything is
// rejected, nothing changes and Applied is false. With Prune, repeat the call with the answer's Next as After until
// Next is 0.
func (c *Client) Apply(ctx context.Context, body ApplyRequest) (ApplyResult, error) {
	return do[ApplyResult](ctx, c, "POST", "/v1/apply", nil, body)
}

// ListJobs lists jobs in the order of their numbers, one page in each call.
func (c *Client) ListJobs(ctx context.Context, params ListJobsParams) (JobPage, error) {
	return do[JobPage](ctx, c, "GET", "/v1/jobs", params, nil)
}

// GetOverview returns the problems of jobs and runs, and the runs of the near future.
func (c *Client) GetOverview(ctx context.Context) (Overview, error) {
	return do[Overview](ctx, c, "GET", "/v1/overview", nil, nil)
}

// Bulk applies one operation to many jobs. One call handles some of the jobs. Repeat the call with After set to the Next
// of the result, until Next is 0.
func (c *Client) Bulk(ctx context.Context, body BulkRequest) (BulkResult, error) {
	return do[BulkResult](ctx, c, "POST", "/v1/bulk", nil, body)
}

// GetJobByNumber reads a job by its number.
func (c *Client) GetJobByNumber(ctx context.Context, id string) (Job, error) {
	return do[Job](ctx, c, "GET", "/v1/jobs/{id}", nil, nil, id)
}

// GetJob reads a job by its app and name.
func (c *Client) GetJob(ctx context.Context, app, name string) (Job, error) {
	return do[Job](ctx, c, "GET", "/v1/jobs/{app}/{name}", nil, nil, app, name)
}

// PutJob creates a job, or replaces its settings with body. Settings that are missing in body get their defaults.
func (c *Client) PutJob(ctx context.Context, app, name string, body JobSpec) (JobResult, error) {
	return do[JobResult](ctx, c, "PUT", "/v1/jobs/{app}/{name}", nil, body, app, name)
}

// PutScript adds a new version of a job's script.
func (c *Client) PutScript(ctx context.Context, app, name string, body ScriptChange) (JobResult, error) {
	return do[JobResult](ctx, c, "PUT", "/v1/jobs/{app}/{name}/script", nil, body, app, name)
}

// ListScripts lists the versions of a job's script, newest first.
func (c *Client) ListScripts(ctx context.Context, app, name string) (ScriptList, error) {
	return do[ScriptList](ctx, c, "GET", "/v1/jobs/{app}/{name}/scripts", nil, nil, app, name)
}

// GetScript reads a version of a job's script with its source. Version 0 is the current version.
func (c *Client) GetScript(ctx context.Context, app, name, version string) (Script, error) {
	return do[Script](ctx, c, "GET", "/v1/jobs/{app}/{name}/scripts/{version}", nil, nil, app, name, version)
}

// DiffScripts returns the difference between two versions of a job's script.
func (c *Client) DiffScripts(ctx context.Context, app, name, version string, params DiffScriptsParams) (ScriptDiff, error) {
	return do[ScriptDiff](ctx, c, "GET", "/v1/jobs/{app}/{name}/scripts/{version}/diff", params, nil, app, name, version)
}

// DeleteJob deletes a job. The runs of the job are kept.
func (c *Client) DeleteJob(ctx context.Context, app, name string, params DeleteJobParams) (JobResult, error) {
	return do[JobResult](ctx, c, "DELETE", "/v1/jobs/{app}/{name}", params, nil, app, name)
}

// PauseJob pauses the schedule of a job.
func (c *Client) PauseJob(ctx context.Context, app, name string, body PauseRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/pause", nil, body, app, name)
}

// ResumeJob ends the pause of a job. Runs that were missed during the pause are not run later.
func (c *Client) ResumeJob(ctx context.Context, app, name string, body ResumeRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/resume", nil, body, app, name)
}

// ReturnJobToCode returns a job to the code that declares it, even if another author changed or deleted the job.
func (c *Client) ReturnJobToCode(ctx context.Context, app, name string) (JobResult, error) {
	return do[JobResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/return-to-code", nil, nil, app, name)
}

// TriggerJob requests one run, now or at a given time.
func (c *Client) TriggerJob(ctx context.Context, app, name string, body TriggerRequest) (TriggerResult, error) {
	return do[TriggerResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/trigger", nil, body, app, name)
}

// KillJob kills the open runs of a job and cancels its pending retries. The schedule and triggers that are due later are
// not affected. One call handles some of the runs. Repeat the call with After set to the Next of the result, until Next
// is empty.
func (c *Client) KillJob(ctx context.Context, app, name string, params KillJobParams) (StopResult, error) {
	return do[StopResult](ctx, c, "POST", "/v1/jobs/{app}/{name}/kill", params, nil, app, name)
}

// ListWaiting lists the triggers and retries of a job that are not due yet. Each call returns one page.
func (c *Client) ListWaiting(ctx context.Context, app, name string, params ListWaitingParams) (RunPage, error) {
	return do[RunPage](ctx, c, "GET", "/v1/jobs/{app}/{name}/waiting", params, nil, app, name)
}

// GetRunByKey reads the run that a trigger with this key created.
func (c *Client) GetRunByKey(ctx context.Context, app, name, key string) (Run, error) {
	return do[Run](ctx, c, "GET", "/v1/jobs/{app}/{name}/waiting/{key}", nil, nil, app, name, key)
}

// ChangeByKey changes a waiting trigger. Fields that are missing in body stay unchanged. After the run was sent, the
// call fails.
func (c *Client) ChangeByKey(ctx context.Context, app, name, key string, body TriggerChange) (TriggerResult, error) {
	return do[TriggerResult](ctx, c, "PATCH", "/v1/jobs/{app}/{name}/waiting/{key}", nil, body, app, name, key)
}

// CancelByKey cancels the waiting trigger with this key.
func (c *Client) CancelByKey(ctx context.Context, app, name, key string) (StopResult, error) {
	return do[StopResult](ctx, c, "DELETE", "/v1/jobs/{app}/{name}/waiting/{key}", nil, nil, app, name, key)
}

// GetRunAt reads the run of one scheduled time, or the record of its skip. The parameter at is the scheduled time in the
// job's zone, such as 2026-11-20T02:30.
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

// PutApp creates an app, or replaces its settings with body.
func (c *Client) PutApp(ctx context.Context, app string, body AppSpec) (AppResult, error) {
	return do[AppResult](ctx, c, "PUT", "/v1/apps/{app}", nil, body, app)
}

// DeleteApp deletes an app that has no jobs.
func (c *Client) DeleteApp(ctx context.Context, app string) (AppResult, error) {
	return do[AppResult](ctx, c, "DELETE", "/v1/apps/{app}", nil, nil, app)
}

// ListExecutors lists the executors of an app, both live and not live.
func (c *Client) ListExecutors(ctx context.Context, app string) (ExecutorList, error) {
	return do[ExecutorList](ctx, c, "GET", "/v1/apps/{app}/executors", nil, nil, app)
}

// RemoveExecutor removes the registration of an executor that no longer exists.
func (c *Client) RemoveExecutor(ctx context.Context, app string, body ExecutorTestRequest) (ExecutorTestRequest, error) {
	return do[ExecutorTestRequest](ctx, c, "POST", "/v1/apps/{app}/executors/remove", nil, body, app)
}

// TestExecutor checks once whether an executor of an app is available.
func (c *Client) TestExecutor(ctx context.Context, app string, body ExecutorTestRequest) (ExecutorTest, error) {
	return do[ExecutorTest](ctx, c, "POST", "/v1/apps/{app}/executors/test", nil, body, app)
}

// ListChannels lists all notification channels by name.
func (c *Client) ListChannels(ctx context.Context) (ChannelList, error) {
	return do[ChannelList](ctx, c, "GET", "/v1/channels", nil, nil)
}

// GetChannel reads a channel.
func (c *Client) GetChannel(ctx context.Context, channel string) (Channel, error) {
	return do[Channel](ctx, c, "GET", "/v1/channels/{channel}", nil, nil, channel)
}

// PutChannel creates a channel, or replaces its settings with body.
func (c *Client) PutChannel(ctx context.Context, channel string, body ChannelSpec) (ChannelResult, error) {
	return do[ChannelResult](ctx, c, "PUT", "/v1/channels/{channel}", nil, body, channel)
}

// DeleteChannel deletes a channel. Notifications that wait for the channel are dropped.
func (c *Client) DeleteChannel(ctx context.Context, channel string) (ChannelResult, error) {
	return do[ChannelResult](ctx, c, "DELETE", "/v1/channels/{channel}", nil, nil, channel)
}

// TestChannel sends one test message to a channel. The result contains the delivery error, if the delivery failed.
func (c *Client) TestChannel(ctx context.Context, channel string) (ChannelTest, error) {
	return do[ChannelTest](ctx, c, "POST", "/v1/channels/{channel}/test", nil, nil, channel)
}

// PauseApp pauses the schedules of all jobs of an app.
func (c *Client) PauseApp(ctx context.Context, app string, body PauseRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/apps/{app}/pause", nil, body, app)
}

// ResumeApp ends the pause of an app. Runs that were missed during the pause are not run later.
func (c *Client) ResumeApp(ctx context.Context, app string, body ResumeRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/apps/{app}/resume", nil, body, app)
}

// PauseAll pauses the schedules of all jobs.
func (c *Client) PauseAll(ctx context.Context, body PauseRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/pause", nil, body)
}

// ResumeAll ends the pause of everything. Runs that were missed during the pause are not run later.
func (c *Client) ResumeAll(ctx context.Context, body ResumeRequest) (StateResult, error) {
	return do[StateResult](ctx, c, "POST", "/v1/resume", nil, body)
}

// ListRuns lists runs, newest first, one page in each call.
func (c *Client) ListRuns(ctx context.Context, params ListRunsParams) (RunPage, error) {
	return do[RunPage](ctx, c, "GET", "/v1/runs", params, nil)
}

// GetHistogram returns a histogram of the results of the runs that began in a period. It has at most 120 buckets.
func (c *Client) GetHistogram(ctx context.Context, params GetHistogramParams) (Histogram, error) {
	return do[Histogram](ctx, c, "GET", "/v1/runs/histogram", params, nil)
}

// GetLateness returns the lateness of the runs that began in a period, in the form of a histogram.
func (c *Client) GetLateness(ctx context.Context, params GetLatenessParams) (Lateness, error) {
	return do[Lateness](ctx, c, "GET", "/v1/lateness", params, nil)
}

// GetRun reads a run by its ID.
func (c *Client) GetRun(ctx context.Context, run string) (Run, error) {
	return do[Run](ctx, c, "GET", "/v1/runs/{run}", nil, nil, run)
}

// ChangeRun changes a waiting trigger. Fields that are missing in body stay unchanged. After the run was sent, the
// call fails.
func (c *Client) ChangeRun(ctx context.Context, run string, body TriggerChange) (TriggerResult, error) {
	return do[TriggerResult](ctx, c, "PATCH", "/v1/runs/{run}", nil, body, run)
}

// GetLog reads lines of a run's log from the executor of the run, or from the stored log.
func (c *Client) GetLog(ctx context.Context, run string, params GetLogParams) (Log, error) {
	return do[Log](ctx, c, "GET", "/v1/runs/{run}/log", params, nil, run)
}

// KillRun kills a run. An xxl-job executor kills all runs of the run's job that it executes. One call handles some of the
// runs. Repeat the call with After set to the Next of the result, until Next is empty.
func (c *Client) KillRun(ctx context.Context, run string, params KillRunParams) (StopResult, error) {
	return do[StopResult](ctx, c, "POST", "/v1/runs/{run}/kill", params, nil, run)
}

// CancelRun cancels a run that was not sent to an executor yet.
func (c *Client) CancelRun(ctx context.Context, run string) (StopResult, error) {
	return do[StopResult](ctx, c, "POST", "/v1/runs/{run}/cancel", nil, nil, run)
}

// ListUpcoming lists the upcoming scheduled times of jobs, earliest first. One call handles some of the jobs. Repeat the
// call with After set to the Next of the result, until Next is 0.
func (c *Client) ListUpcoming(ctx context.Context, params ListUpcomingParams) (Upcoming, error) {
	return do[Upcoming](ctx, c, "GET", "/v1/upcoming", params, nil)
}

// GetUpcomingHistogram returns a histogram of the upcoming runs of all jobs, with one row for each app.
func (c *Client) GetUpcomingHistogram(ctx context.Context, params GetUpcomingHistogramParams) (UpcomingHistogram, error) {
	return do[UpcomingHistogram](ctx, c, "GET", "/v1/upcoming/histogram", params, nil)
}

// Preview returns the description and the next times of a schedule, without creating a job.
func (c *Client) Preview(ctx context.Context, body PreviewRequest) (Preview, error) {
	return do[Preview](ctx, c, "POST", "/v1/preview", nil, body)
}

// ListChanges lists the audit log, newest first: of one job, of an app and its jobs, or of everything.
func (c *Client) ListChanges(ctx context.Context, params ListChangesParams) (ChangeList, error) {
	return do[ChangeList](ctx, c, "GET", "/v1/changes", params, nil)
}

// Audit compares the expected runs of a period with their results. The period begins after From and includes To. One call
// handles some of the jobs. Repeat the call with After set to the Next of the result, until Next is empty.
func (c *Client) Audit(ctx context.Context, params AuditParams) (Audit, error) {
	return do[Audit](ctx, c, "GET", "/v1/audit", params, nil)
}

// Clean deletes the records of the selected runs. One call handles some of the records. Repeat the call with After set to
// the Next of the result, until Next is empty.
func (c *Client) Clean(ctx context.Context, body CleanRequest) (CleanResult, error) {
	return do[CleanResult](ctx, c, "POST", "/v1/clean", nil, body)
}

// GetReport returns statistics of the runs that began in a period, by hour or by day.
func (c *Client) GetReport(ctx context.Context, params GetReportParams) (Report, error) {
	return do[Report](ctx, c, "GET", "/v1/reports", params, nil)
}

// Replan resends the runs that an audit reports as missing. Scheduled times that have a run or a recorded skip do not
// change. One call handles some of the runs. Repeat the call with After set to the Next of the result, until Next is
// empty.
func (c *Client) Replan(ctx context.Context, body ReplanRequest) (ReplanResult, error) {
	return do[ReplanResult](ctx, c, "POST", "/v1/replan", nil, body)
}

// Fence blocks all deployments from this data until a restore or takeover. Operations in progress end within 30 s.
func (c *Client) Fence(ctx context.Context) (Generation, error) {
	return do[Generation](ctx, c, "POST", "/v1/fence", nil, nil)
}

// Restore gives a copy or a replica of the data to this deployment. One call handles some of the jobs. Repeat the call
// with After set to the Next of the result, until Next is 0.
func (c *Client) Restore(ctx context.Context, body RestoreRequest) (RestoreResult, error) {
	return do[RestoreResult](ctx, c, "POST", "/v1/restore", nil, body)
}

// Redrive lists dead-letter messages, and resends the runs in these messages if they may still be sent.
func (c *Client) Redrive(ctx context.Context, body RedriveRequest) (RedriveResult, error) {
	return do[RedriveResult](ctx, c, "POST", "/v1/redrive", nil, body)
}

// RotateKey encrypts the stored secrets with a new key. One call handles some of the secrets. Repeat the call with After
// set to the Next of the result, until Next is empty.
func (c *Client) RotateKey(ctx context.Context, params RotateKeyParams) (RotateResult, error) {
	return do[RotateResult](ctx, c, "POST", "/v1/rotate-key", params, nil)
}

// Rerun reruns one finished run, or one page of the runs that match a filter.
func (c *Client) Rerun(ctx context.Context, body RerunRequest) (RerunResult, error) {
	return do[RerunResult](ctx, c, "POST", "/v1/rerun", nil, body)
}

// GetFacts returns the facts about the deployment that `tickring doctor` checks. Facts that the deployment could not
// read are missing.
func (c *Client) GetFacts(ctx context.Context) (Facts, error) {
	return do[Facts](ctx, c, "GET", "/v1/facts", nil, nil)
}

// GetJobFacts lists the apps without executors and the failing jobs. The scan of the jobs stops after about 10 s.
func (c *Client) GetJobFacts(ctx context.Context) (JobFacts, error) {
	return do[JobFacts](ctx, c, "GET", "/v1/facts/jobs", nil, nil)
}

// ListUsers lists all users by name.
func (c *Client) ListUsers(ctx context.Context) (UserList, error) {
	return do[UserList](ctx, c, "GET", "/v1/users", nil, nil)
}

// GetUser reads a user.
func (c *Client) GetUser(ctx context.Context, user string) (User, error) {
	return do[User](ctx, c, "GET", "/v1/users/{user}", nil, nil, user)
}

// PutUser creates a user, or updates the fields of the user that are set in body.
func (c *Client) PutUser(ctx context.Context, user string, body UserSpec) (UserResult, error) {
	return do[UserResult](ctx, c, "PUT", "/v1/users/{user}", nil, body, user)
}

// DeleteUser deletes a user, and all sessions, tokens and views of the user.
func (c *Client) DeleteUser(ctx context.Context, user string) (UserResult, error) {
	return do[UserResult](ctx, c, "DELETE", "/v1/users/{user}", nil, nil, user)
}

// RevokeUserToken revokes a token of a user.
func (c *Client) RevokeUserToken(ctx context.Context, user, token string) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/users/{user}/tokens/{token}", nil, nil, user, token)
}

// GetMe returns the caller. If the caller is a user, the result has the user's sessions and tokens.
func (c *Client) GetMe(ctx context.Context) (Me, error) {
	return do[Me](ctx, c, "GET", "/v1/me", nil, nil)
}

// PutSettings sets the caller's language and time zone.
func (c *Client) PutSettings(ctx context.Context, body UserSettings) (Done, error) {
	return do[Done](ctx, c, "PUT", "/v1/me/settings", nil, body)
}

// ChangePassword changes the password of the caller. All other sessions of the caller end.
func (c *Client) ChangePassword(ctx context.Context, body NewPassword) (Done, error) {
	return do[Done](ctx, c, "POST", "/v1/me/password", nil, body)
}

// EndSessions ends all sessions of the caller except the current one.
func (c *Client) EndSessions(ctx context.Context) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/me/sessions", nil, nil)
}

// EndSession ends one session of the caller.
func (c *Client) EndSession(ctx context.Context, session string) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/me/sessions/{session}", nil, nil, session)
}

// CreateToken creates a token for the caller. Only this result contains the token's secret.
func (c *Client) CreateToken(ctx context.Context, body NewTokenSpec) (NewToken, error) {
	return do[NewToken](ctx, c, "POST", "/v1/me/tokens", nil, body)
}

// RevokeToken revokes one token of the caller.
func (c *Client) RevokeToken(ctx context.Context, token string) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/me/tokens/{token}", nil, nil, token)
}

// ListViews lists the caller's saved console views, and the views that other users share.
func (c *Client) ListViews(ctx context.Context) (SavedViews, error) {
	return do[SavedViews](ctx, c, "GET", "/v1/me/views", nil, nil)
}

// PutView saves a console view under a name.
func (c *Client) PutView(ctx context.Context, body SavedView) (Done, error) {
	return do[Done](ctx, c, "PUT", "/v1/me/views", nil, body)
}

// DeleteView deletes a saved console view.
func (c *Client) DeleteView(ctx context.Context, params DeleteViewParams) (Done, error) {
	return do[Done](ctx, c, "DELETE", "/v1/me/views", params, nil)
}
