package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tickring/tickring/executor/internal/request"
)

// A Job is a job declared in code. When the executor starts, it creates the job on the server, or updates the job to match the
// declaration.
//
// The executor does not change a job that a user created, or that a user changed after the last declaration. The executor does
// not recreate a job that a user deleted. The command "tickring return-to-code" returns such a job to code. Pausing a job does
// not count as a change.
//
// Declared jobs need a tickring server, an app that exists there, and [Options].Token, the token of the app.
type Job struct {
	// Name of the job, unique in the app.
	Name string
	// Handler is the name of the handler that runs the job. Empty: the name of the job.
	Handler string
	// Title is a description of the job for users.
	Title string
	// Author is the contact for the job, as free text.
	Author string
	// Schedule is the result of [Cron], [Crontab], [Every], [FixedDelay] or [At]. A job with the zero Schedule runs only when
	// triggered.
	Schedule Schedule
	Params   string
	// Timeout is how long a run may last, in whole seconds. When it has passed, the handler's context ends. 0: no timeout.
	Timeout time.Duration
	// Retries is the maximum number of attempts after the first attempt failed. RetryDelay is the delay before each retry.
	Retries    int
	RetryDelay time.Duration
	// Block decides about a run that arrives while another run of the job is running on the executor. Allowed values: "serial"
	// (default) queues it, "discard-later" rejects it, "cover-early" ends the older run.
	Block string
	// Misfire decides which scheduled times run if runs could not be sent in time: "latest" (default), "all" or "skip" (none).
	Misfire string
}

// A Schedule defines the scheduled times of a job.
type Schedule struct{ rule, text, zone string }

// Cron returns a schedule for a Quartz or xxl-job cron expression of 6 or 7 fields. The parameter zone is an IANA time zone
// such as "Europe/Berlin"; empty means UTC.
func Cron(expression, zone string) Schedule { return Schedule{"cron", expression, zone} }

// Crontab returns a schedule for a Unix cron expression of 5 fields. The parameter zone is an IANA time zone; empty means UTC.
func Crontab(expression, zone string) Schedule { return Schedule{"crontab", expression, zone} }

// Every returns a schedule with a fixed interval. The interval is in whole seconds and is counted from 1970-01-01 00:00 UTC.
func Every(period time.Duration) Schedule { return Schedule{"every", period.String(), ""} }

// FixedDelay returns a schedule that fires after the given delay from the end of the job's last run.
func FixedDelay(delay time.Duration) Schedule { return Schedule{"fixedDelay", delay.String(), ""} }

// At returns a schedule that fires once, at time t.
func At(t time.Time) Schedule { return Schedule{"at", t.UTC().Format(time.RFC3339), ""} }

// Declare adds a job. [New] returns an error if the job has no name, its handler is not registered, or its name is declared
// twice. If the server rejects the schedule, the executor logs the error.
func (m *Mux) Declare(j Job) {
	or(&j.Handler, j.Name)
	m.jobs = append(m.jobs, j)
}

func (m *Mux) checkJobs() (errs []error) {
	seen := map[string]bool{}
	for _, j := range m.jobs {
		switch {
		case strings.TrimSpace(j.Name) == "":
			errs = append(errs, errors.New("a declared job has no name"))
		case seen[j.Name]:
			errs = append(errs, fmt.Errorf("job %q is declared twice", j.Name))
		case m.handlers[j.Handler] == nil:
			errs = append(errs, fmt.Errorf("job %q calls the handler %q, which is not registered", j.Name, j.Handler))
		}
		seen[j.Name] = true
	}
	return errs
}

// The parts of the server's API that the executor uses.
type (
	apiJob struct {
		App      string            `json:"app,omitempty"`
		Name     string            `json:"name,omitempty"`
		Title    string            `json:"title,omitempty"`
		Author   string            `json:"author,omitempty"`
		Set      string            `json:"set,omitempty"`
		Handler  string            `json:"handler,omitempty"`
		Params   string            `json:"params,omitempty"`
		Schedule map[string]string `json:"schedule,omitempty"`
		Timeout  string            `json:"timeout,omitempty"`
		Block    string            `json:"block,omitempty"`
		Misfire  string            `json:"misfire,omitempty"`
		Retry    *apiRetry         `json:"retry,omitempty"`
		Declared bool              `json:"declared"`
	}
	apiRetry struct {
		Max   int    `json:"max"`
		Delay string `json:"delay,omitempty"`
	}
	apiError struct {
		Error struct {
			Code    string `json:"code"`
			Field   string `json:"field"`
			Message string `json:"message"`
		} `json:"error"`
	}
	apiResult struct {
		Change string `json:"change"`
	}
)

// set returns the name of the set that the jobs of this app belong to.
func (e *Executor) set() string { return "code-of-" + e.o.App }

func (e *Executor) spec(j Job) apiJob {
	s := apiJob{App: e.o.App, Name: j.Name, Title: j.Title, Author: j.Author, Set: e.set(), Handler: j.Handler, Params: j.Params,
		Block: j.Block, Misfire: j.Misfire, Declared: true}
	if j.Schedule.rule != "" {
		s.Schedule = map[string]string{j.Schedule.rule: j.Schedule.text}
		if j.Schedule.zone != "" {
			s.Schedule["timezone"] = j.Schedule.zone
		}
	}
	if j.Timeout > 0 {
		s.Timeout = j.Timeout.String()
	}
	if j.Retries > 0 {
		s.Retry = &apiRetry{Max: j.Retries}
		if j.RetryDelay > 0 {
			s.Retry.Delay = j.RetryDelay.String()
		}
	}
	return s
}

// errAPI is an error that a retry does not change.
var errAPI = errors.New("the server rejected the job")

// errTheirs reports that others changed the job.
var errTheirs = errors.New("code does not own the job")

// declare creates the declared jobs, and retries while no server answers.
func (e *Executor) declare(ctx context.Context) {
	for _, j := range e.mux.jobs {
		for failures := 1; ; failures++ {
			err := e.client.each(ctx, func(s *server) error { return e.declareAt(ctx, s.base, j) })
			if errors.Is(err, errAPI) {
				e.log.Error("declared job rejected", "app", e.o.App, "job", j.Name, "error", err)
			} else if err != nil && failures == 1 {
				e.log.Warn("declared jobs not created: retrying", "app", e.o.App, "job", j.Name, "error", err)
			}
			if err == nil || errors.Is(err, errAPI) {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff(failures, e.o.CallbackRetry)):
			}
		}
	}
}

func (e *Executor) declareAt(ctx context.Context, server string, j Job) error {
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	var res apiResult
	err = e.put(ctx, u.Scheme+"://"+u.Host+"/v1/jobs/"+url.PathEscape(e.o.App)+"/"+url.PathEscape(j.Name), e.spec(j), &res)
	switch {
	case errors.Is(err, errTheirs):
		e.log.Info("declared job not updated, because a user changed or deleted the job: to return the job to code, run "+
			"tickring return-to-code",
			"app", e.o.App, "job", j.Name, "why", err)
		return nil
	case err != nil:
		return err
	case res.Change != "unchanged":
		e.log.Info("declared job stored on the server", "app", e.o.App, "job", j.Name, "change", res.Change)
	}
	return nil
}

// put sends one request to the API. An answer other than 2xx is an error.
func (e *Executor) put(ctx context.Context, url string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, e.o.RequestTimeout)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	headers := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + e.o.Token}
	s, b, err := request.Send(ctx, e.o.Client, http.MethodPut, url, headers, body, 4<<20)
	if err != nil {
		return err
	}
	if s < 200 || s > 299 {
		var why apiError
		_ = json.Unmarshal(b, &why) // without JSON there is no message
		err := fmt.Errorf("HTTP %d: %s", s, strings.TrimLeft(why.Error.Field+" "+oneLine(why.Error.Message, 500), " "))
		switch {
		case s == http.StatusConflict && why.Error.Code == "conflict":
			return fmt.Errorf("%w: %w", errTheirs, err)
		// the app may be created later, or get its token
		case s >= 400 && s < 500 && s != http.StatusTooManyRequests && s != http.StatusUnauthorized:
			return fmt.Errorf("%w: %w", errAPI, err)
		}
		return err
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
