package paging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/manifest"
)

// Bounds of a part of a file: the API accepts no more in a request, and its answer is larger
// than the request.
const (
	partJobs  = api.MaxApplyJobs
	partApps  = api.MaxApplyApps
	partBytes = 1 << 20
)

// Options has the settings of Apply.
type Options struct {
	Prune  bool // whether to delete jobs and apps of the set that are missing from the file
	DryRun bool
	// Sure is called before jobs and apps are deleted. If it returns false, Apply stops.
	Sure func(would *client.ApplyResult) (bool, error)
	Say  func(done, of int, what string) // reports the number of jobs that were checked, stored or deleted so far
}

// Interrupted is the error of an Apply that stopped early. It has the number of jobs that were certainly stored and
// the number of deleted jobs. If you repeat the Apply, it continues, because unchanged jobs are skipped.
type Interrupted struct {
	Err                  error
	Stored, Jobs         int
	Deleted, ToBeDeleted int
}

func (c *Interrupted) Error() string { return c.Err.Error() }
func (c *Interrupted) Unwrap() error { return c.Err }

// Apply creates, changes and deletes jobs and apps to match a document. All parts of the document are checked before
// the first part is stored, so an invalid document changes nothing. The error can be an *Interrupted.
func Apply(ctx context.Context, cl *client.Client, doc *manifest.Document, o Options) (client.ApplyResult, error) {
	a := &applying{ctx: ctx, cl: cl, o: o, Document: doc, at: map[string]int{}}
	for _, c := range a.Channels {
		a.res.Channels = append(a.res.Channels, client.ChannelResult{Name: c.Name, Change: "unchanged"})
	}
	for i, app := range a.Apps {
		a.res.Apps = append(a.res.Apps, client.AppResult{Name: app.Name, Change: "unchanged"})
		a.at[app.Name] = i
	}
	if a.Notify != nil {
		a.res.Notify = &client.NotifyResult{Change: "unchanged"}
	}
	a.res.Jobs = make([]client.JobResult, len(a.Jobs))
	err := a.do()
	a.res.Jobs, a.res.Apps = append(a.res.Jobs, a.unread...), append(a.res.Apps, a.unreadApps...)
	return a.res, err
}

type applying struct {
	ctx context.Context
	cl  *client.Client
	o   Options
	*manifest.Document
	at    map[string]int // of an app in Apps
	jobAt map[string]int // of a job in Jobs
	res   client.ApplyResult
	// unread lists jobs and apps that cannot be read, so that it is unknown whether a prune
	// must delete them.
	unread     []client.JobResult
	unreadApps []client.AppResult
}

func (a *applying) do() error {
	parts := a.parts()
	if !a.o.Prune && len(parts) <= 1 && len(a.Apps) <= partApps { // one request checks and stores
		return a.ask(true, true, a.allApps(), span{0, len(a.Jobs)}, a.o.DryRun)
	}
	_, err := a.all(parts, true, "checked")
	if err == nil && a.o.Prune {
		err = a.left()
	}
	if err != nil || a.o.DryRun || a.refused() {
		return err
	}
	if a.o.Prune {
		if ok, err := a.o.Sure(&a.res); err != nil || !ok {
			return err
		}
	}
	return a.store(parts)
}

type span struct{ from, to int }

// parts splits the jobs into spans that fit in a request.
func (a *applying) parts() []span {
	var list []span
	s, size := span{}, 0
	for i := range a.Jobs {
		raw, err := json.Marshal(&a.Jobs[i])
		if err != nil { // the request reports it
			raw = nil
		}
		if s.to-s.from == partJobs || s.to > s.from && size+len(raw) > partBytes {
			list, s, size = append(list, s), span{i, i}, 0
		}
		s.to, size = i+1, size+len(raw)
	}
	if s.to > s.from {
		list = append(list, s)
	}
	return list
}

// ask makes one request and puts its answer in place. One whose answer is too long,
// or too late, is halved.
func (a *applying) ask(first, channels bool, apps []int, s span, dry bool) error {
	body := client.ApplyRequest{Set: a.Set, DryRun: dry, Jobs: a.Jobs[s.from:s.to]}
	if channels {
		body.Notify = a.Notify
	}
	if channels || dry { // a check knows the channels that the file creates
		body.Channels = a.Channels
	}
	if dry {
		body.Beside = a.beside(s)
	}
	for _, i := range apps {
		body.Apps = append(body.Apps, a.Apps[i])
	}
	res, err := one(a.ctx, first, func() (client.ApplyResult, error) { return a.cl.Apply(a.ctx, body) })
	if n := s.to - s.from; err != nil && n > 1 && tooMuch(err) {
		half := s.from + n/2
		if err := a.ask(first, channels, apps, span{s.from, half}, dry); err != nil {
			return err
		}
		return a.ask(false, false, apps, span{half, s.to}, dry)
	}
	if err != nil {
		return err
	}
	if len(res.Apps) != len(apps) || len(res.Jobs) != s.to-s.from || len(res.Channels) != len(body.Channels) {
		return fmt.Errorf("the server returned results for %d apps, %d jobs and %d channels, but the request had %d apps, %d "+
			"jobs and %d channels",
			len(res.Apps), len(res.Jobs), len(res.Channels), len(apps), s.to-s.from, len(body.Channels))
	}
	copy(a.res.Channels, res.Channels)
	if body.Notify != nil && res.Notify != nil {
		a.res.Notify = res.Notify
	}
	for k, i := range apps {
		a.res.Apps[i] = res.Apps[k]
	}
	copy(a.res.Jobs[s.from:], res.Jobs)
	a.res.Applied = a.res.Applied || res.Applied
	return nil
}

// beside returns the jobs of other requests that are parents of jobs in a span.
func (a *applying) beside(s span) (list []client.Beside) {
	if a.jobAt == nil {
		a.jobAt = make(map[string]int, len(a.Jobs))
		for i := range a.Jobs {
			a.jobAt[a.Jobs[i].App+"/"+a.Jobs[i].Name] = i
		}
	}
	named := map[int]bool{}
	for i := s.from; i < s.to; i++ {
		for _, p := range a.Jobs[i].After {
			if at, is := a.jobAt[p.Job]; is && (at < s.from || at >= s.to) && !named[at] {
				named[at] = true
				list = append(list, client.Beside{Job: p.Job, After: a.Jobs[at].After})
			}
		}
	}
	return list
}

// tooMuch reports whether a proxy answered instead of the server, because the request was too
// long or took too long.
func tooMuch(err error) bool {
	_, refused := errors.AsType[*client.Error](err)
	return !refused && !errors.Is(err, client.ErrNoAnswer)
}

// allApps are the apps of the file, by their places.
func (a *applying) allApps() []int {
	list := make([]int, len(a.Apps))
	for i := range list {
		list[i] = i
	}
	return list
}

// used are the apps of the file that some jobs belong to.
func (a *applying) used(s span) []int {
	var list []int
	for i := range a.Jobs[s.from:s.to] {
		if at, is := a.at[a.Jobs[s.from+i].App]; is && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// all makes the requests of all parts, and returns the number of jobs in the requests that succeeded.
func (a *applying) all(parts []span, dry bool, done string) (jobs int, err error) {
	first := dry
	ask := func(channels bool, apps []int, s span) error {
		defer func() { first = false }()
		return a.ask(first, channels, apps, s, dry)
	}
	if len(a.Channels) > 0 || a.Notify != nil {
		if err := ask(true, nil, span{}); err != nil {
			return 0, err
		}
	}
	for apps := range slices.Chunk(a.allApps(), partApps) {
		if err := ask(false, apps, span{}); err != nil {
			return 0, err
		}
	}
	for _, s := range parts {
		var apps []int
		if dry { // a check knows the apps that the file creates
			apps = a.used(s)
		}
		if err := ask(false, apps, s); err != nil {
			return s.from, err
		}
		a.o.Say(s.to, len(a.Jobs), done)
	}
	return len(a.Jobs), nil
}

// left marks jobs that the set made and the file does not name for deletion.
func (a *applying) left() error {
	named := make(map[string]bool, len(a.Jobs))
	for i := range a.Jobs {
		named[a.Jobs[i].App+"/"+a.Jobs[i].Name] = true
	}
	for params := (client.ListJobsParams{Set: a.Set, Limit: 100}); ; {
		page, err := one(a.ctx, false, func() (client.JobPage, error) { return a.cl.ListJobs(a.ctx, params) })
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if j := &page.Jobs[i]; !named[j.App+"/"+j.Name] {
				a.res.Jobs = append(a.res.Jobs, client.JobResult{App: j.App, Name: j.Name, ID: j.ID, Rev: j.Rev, Change: "deleted"})
			}
		}
		for _, bad := range page.Failed {
			a.unread = append(a.unread, client.JobResult{ID: bad.Number, Change: "refused",
				Error: &client.Error{Code: string(core.CodeRefused), Message: fmt.Sprintf("job %d cannot be read: %s", bad.Number, bad.Message)}})
		}
		if params.After = page.Next; params.After == 0 {
			break
		}
	}
	list, err := a.cl.ListApps(a.ctx)
	for _, bad := range list.Failed {
		a.unreadApps = append(a.unreadApps, client.AppResult{Name: bad.Name, Change: "refused",
			Error: &client.Error{Code: string(core.CodeRefused), Message: fmt.Sprintf("app %s cannot be read: %s", bad.Name, bad.Message)}})
	}
	for _, app := range list.Apps {
		if _, is := a.at[app.Name]; !is && app.Set == a.Set {
			a.res.Apps = append(a.res.Apps, client.AppResult{Name: app.Name, Change: "deleted"})
		}
	}
	if err != nil {
		return err
	}
	channels, err := a.cl.ListChannels(a.ctx)
	for _, c := range channels.Channels {
		named := slices.ContainsFunc(a.Channels, func(s client.ChannelSpec) bool { return s.Name == c.Name })
		if !named && c.Set == a.Set {
			a.res.Channels = append(a.res.Channels, client.ChannelResult{Name: c.Name, Change: "deleted"})
		}
	}
	return err
}

func (a *applying) refused() bool {
	return a.res.Notify != nil && a.res.Notify.Error != nil ||
		slices.ContainsFunc(a.res.Channels, func(r client.ChannelResult) bool { return r.Error != nil }) ||
		slices.ContainsFunc(a.res.Apps, func(r client.AppResult) bool { return r.Error != nil }) ||
		slices.ContainsFunc(a.res.Jobs, func(r client.JobResult) bool { return r.Error != nil })
}

// store stores all parts. With a prune, it then deletes the marked objects.
func (a *applying) store(parts []span) error {
	if n, err := a.all(parts, false, "stored"); err != nil {
		return &Interrupted{Err: err, Stored: n, Jobs: len(a.Jobs)}
	}
	if !a.o.Prune || a.refused() {
		return nil
	}
	gone := a.res.Jobs[len(a.Jobs):]
	for i := range gone {
		j := &gone[i]
		err := remove(a.ctx, &j.Change, &j.Error, func() (client.JobResult, error) { // one that was changed since stays
			return a.cl.DeleteJob(a.ctx, j.App, j.Name, client.DeleteJobParams{IfRev: new(j.Rev)})
		})
		if err != nil {
			return &Interrupted{Err: err, Stored: len(a.Jobs), Jobs: len(a.Jobs), Deleted: i, ToBeDeleted: len(gone)}
		}
		a.o.Say(i+1, len(gone), "deleted")
	}
	for i := range a.res.Apps[len(a.Apps):] {
		app := &a.res.Apps[len(a.Apps)+i]
		err := remove(a.ctx, &app.Change, &app.Error, func() (client.AppResult, error) { return a.cl.DeleteApp(a.ctx, app.Name) })
		if err != nil {
			return err
		}
	}
	for i := range a.res.Channels[len(a.Channels):] {
		c := &a.res.Channels[len(a.Channels)+i]
		err := remove(a.ctx, &c.Change, &c.Error, func() (client.ChannelResult, error) { return a.cl.DeleteChannel(a.ctx, c.Name) })
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes one object, and notes a rejection in its result. Any other error ends the command, unless the object is
// already gone.
func remove[T any](ctx context.Context, change *string, problem **client.Error, ask func() (T, error)) error {
	_, err := one(ctx, false, ask)
	r, is := errors.AsType[*client.Error](err)
	if !is {
		return err
	}
	if r.Code != string(core.CodeNotFound) {
		*change, *problem = "refused", r
	}
	return nil
}
