package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/manifest"
)

type noticesPage struct {
	Channels []client.Channel
	Troubled int
	Rest     client.Notify // notification settings for events that belong to no job
	Apps     []client.App  // apps that have notification settings
	Jobs     []client.Job  // jobs that have notification settings of their own
	Looked   int           // number of jobs that were read; More reports whether further jobs exist
	More     bool
	Form     url.Values
}

func (a *ask) notifications() (any, error) {
	p, kind := a.noticesPage(), core.ChannelKind(a.Q("kind"))
	if !slices.Contains(core.ChannelKinds, kind) {
		kind = core.ChannelWebhook
	}
	p.Form = a.typedOr(url.Values{"kind": {string(kind)}, "language": {string(a.Lang)}})
	return p, nil
}

// jobsLooked is the number of jobs whose channels the page shows.
const jobsLooked = 1000

func (a *ask) noticesPage() *noticesPage {
	p := &noticesPage{Channels: must.Get(a.ListChannels(a.Ctx())).Channels}
	for i := range p.Channels {
		if p.Channels[i].Trouble != nil {
			p.Troubled++
		}
	}
	if rest := must.Get(a.GetStatus(a.Ctx())).Notify; rest != nil {
		p.Rest = *rest
	}
	p.Apps = slices.DeleteFunc(must.Get(a.ListApps(a.Ctx())).Apps, func(app client.App) bool { return len(app.Notify.To) == 0 })
	jobs := must.Get(a.ListJobs(a.Ctx(), client.ListJobsParams{Limit: jobsLooked}))
	p.Looked, p.More = len(jobs.Jobs), jobs.Next != 0
	p.Jobs = slices.DeleteFunc(jobs.Jobs, func(j client.Job) bool { return len(j.Notify.To) == 0 })
	return p
}

// channelPage has only the apps and jobs that use the channel.
type channelPage struct {
	*noticesPage
	Channel client.Channel
	ForRest bool // whether the channel gets the events that belong to no job
	Clash   *clash
	Test    *client.ChannelTest // result of a test message
}

func (a *ask) channel() (any, error) { return a.channelPage(), nil }

func (a *ask) channelPage() *channelPage {
	name := a.Path("channel")
	one, all := must.Get(a.GetChannel(a.Ctx(), name)), a.noticesPage()
	stored := channelForm(one)
	p := &channelPage{noticesPage: all, Channel: one, ForRest: slices.Contains(all.Rest.To, name)}
	p.Form = a.typedOr(stored)
	p.Form.Set("kind", one.Kind)
	if a.Panel() == "edit" && isConflict(a.rejection) && p.Form.Get("rev") != stored.Get("rev") {
		p.Clash, a.wrong = &clash{Differs: channelDiffers(one, p.Form)}, ""
		for _, name := range []string{"rev", "hasurl", "hassecret", "haspass"} {
			p.Form[name] = stored[name]
		}
	}
	a.page = "notifications"
	p.Apps = slices.DeleteFunc(all.Apps, func(app client.App) bool { return !slices.Contains(app.Notify.To, name) })
	p.Jobs = slices.DeleteFunc(all.Jobs, func(j client.Job) bool { return !slices.Contains(j.Notify.To, name) })
	return p
}

func (a *ask) ChannelPath(name string) string { return Root + "notifications/" + url.PathEscape(name) }

// channelInputs are the inputs of the form of a channel. Each kind of channel has some of them.
var channelInputs = []input{{"url", "url", "secret"}, {"secret", "secret", "password"}, {"to", "to", "lines"}, {"from", "from", "text"},
	{"host", "smtp.host", "text"}, {"port", "smtp.port", "number"}, {"user", "smtp.user", "raw"}, {"pass", "smtp.password", "password"},
	{"tls", "smtp.tls", "raw"}, {"arn", "arn", "text"}}

// channelForm returns the values of a channel's form.
func channelForm(ch client.Channel) url.Values {
	f := url.Values{"kind": {ch.Kind}, "language": {ch.Language}, "rev": {itoa(ch.Rev)}}
	what, _ := as[object](ch)[ch.Kind].(object)
	show(f, what, channelInputs)
	return f
}

// channelSpec returns the channel in a form, without its name and revision.
func channelSpec(f url.Values) client.ChannelSpec {
	kind, what := f.Get("kind"), object{}
	if !slices.Contains(core.ChannelKinds, core.ChannelKind(kind)) {
		must.Do(core.Invalid("kind", kind, "allowed values: %s", core.JoinAllowed(core.ChannelKinds)))
	}
	for _, in := range channelInputs {
		in.read(what, f, kind+"."+in.path)
	}
	return as[client.ChannelSpec](object{"language": f.Get("language"), kind: what})
}

// channelDiffers returns the differences between the stored channel and a form, except for secrets.
func channelDiffers(now client.Channel, f url.Values) []manifest.FieldChange {
	spec := channelSpec(f) // valid, or there would be no conflict
	spec.Name = now.Name
	what, _ := api.ManageChannel(spec)
	what.Channel = what.Channel.Normal()
	mine := api.ChannelOf(&what.Channel)
	mine.Set = now.Set
	return manifest.DiffChannel(&now, &mine)
}

// notificationsDo creates a channel, or sets the channels for events without a job.
func (a *ask) notificationsDo() (to string, said core.Text, err error) {
	switch a.Form("do") {
	case "new":
		name, spec := strings.TrimSpace(a.Form("name")), channelSpec(a.r.PostForm)
		if name == "" {
			return to, said, core.Invalid("name", "", "a channel needs a name")
		}
		spec.Name, spec.IfRev = name, new(int64)
		must.Get(a.PutChannel(a.Ctx(), name, spec))
		return a.ChannelPath(name), core.Say("%s is created: send a test", name), nil
	case "rest":
		res := must.Get(a.Apply(a.Ctx(), client.ApplyRequest{Notify: &client.Notify{To: strings.Fields(a.Form("to"))}}))
		if res.Notify != nil && res.Notify.Error != nil {
			return to, said, refusal(res.Notify.Error)
		}
		return Root + "notifications", core.Say("the channels for events without a job are saved"), nil
	}
	return to, said, a.noForm()
}

// refusal converts the error of one item to the error of a request.
func refusal(e *client.Error) error {
	one := *e
	one.Status = map[string]int{string(core.CodeConflict): http.StatusConflict, string(core.CodeNotFound): http.StatusNotFound}[e.Code]
	if one.Status == 0 {
		one.Status = http.StatusBadRequest
	}
	return &one
}

func (a *ask) channelDo() (to string, said core.Text, err error) {
	name := a.Path("channel")
	to = a.ChannelPath(name)
	switch a.Form("do") {
	case "edit":
		spec := channelSpec(a.r.PostForm)
		spec.Name, spec.IfRev = name, revisionIn(a.r.PostForm)
		must.Get(a.PutChannel(a.Ctx(), name, spec))
		return to, core.Say("%s is saved", name), nil
	case "test":
		res := must.Get(a.TestChannel(a.Ctx(), name))
		if res.Sent {
			return to, core.Say("%s accepted the test message in %d ms: check that it arrived", name, res.TookMs), nil
		}
		p := a.channelPage()
		p.Test = &res
		return a.shown(http.StatusOK, "channel", p)
	case "delete":
		must.Get(a.DeleteChannel(a.Ctx(), name))
		return Root + "notifications", core.Say("%s is deleted", name), nil
	}
	return to, said, a.noForm()
}
