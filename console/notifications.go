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
	"github.com/tickring/tickring/words"
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

// channelForm returns the values of a channel's form, which has secrets only as input. A value such as hassecret reports
// whether a secret is stored. The stored secret is kept if the input is empty.
func channelForm(ch client.Channel) url.Values {
	f := url.Values{"kind": {ch.Kind}, "language": {ch.Language}, "rev": {itoa(ch.Rev)}}
	robot := func(r *client.ChannelRobot) {
		mark(f, "hasurl", r.URL != "")
		mark(f, "hassecret", r.Secret != "")
	}
	switch {
	case ch.Webhook != nil:
		mark(f, "hasurl", true)
		mark(f, "hassecret", ch.Webhook.Secret != "")
	case ch.Slack != nil, ch.Wecom != nil:
		mark(f, "hasurl", true)
	case ch.Feishu != nil:
		robot(ch.Feishu)
	case ch.Dingtalk != nil:
		robot(ch.Dingtalk)
	case ch.Email != nil:
		m := ch.Email
		f["to"], f["from"], f["host"] = []string{strings.Join(m.To, "\n")}, []string{m.From}, []string{m.SMTP.Host}
		f["port"], f["user"], f["tls"] = []string{number(m.SMTP.Port)}, []string{m.SMTP.User}, []string{m.SMTP.TLS}
		mark(f, "haspass", m.SMTP.Password != "")
	case ch.Sns != nil:
		f.Set("arn", ch.Sns.Arn)
	}
	return f
}

// channelSpec returns the channel in a form, without its name and revision.
func channelSpec(f url.Values) client.ChannelSpec {
	text := func(name string) string { return strings.TrimSpace(f.Get(name)) }
	kept := func(typed, has string) string { // a secret in the input, or the marker for the stored one
		if typed == "" && f.Get(has) != "" {
			return core.AsStored
		}
		return typed
	}
	s := client.ChannelSpec{Language: f.Get("language")}
	secret, hook := kept(f.Get("secret"), "hassecret"), kept(text("url"), "hasurl")
	switch kind := f.Get("kind"); core.ChannelKind(kind) {
	case core.ChannelWebhook:
		s.Webhook = &client.ChannelWebhook{URL: hook, Secret: secret}
	case core.ChannelSlack:
		s.Slack = &client.ChannelHook{URL: hook}
	case core.ChannelWeCom:
		s.Wecom = &client.ChannelHook{URL: hook}
	case core.ChannelFeishu:
		s.Feishu = &client.ChannelRobot{URL: hook, Secret: secret}
	case core.ChannelDingTalk:
		s.Dingtalk = &client.ChannelRobot{URL: hook, Secret: secret}
	case core.ChannelEmail:
		s.Email = &client.ChannelEmail{To: strings.Fields(f.Get("to")), From: text("from"), SMTP: client.ChannelSMTP{Host: text("host"),
			Port: wholeNumber("email.smtp.port", f.Get("port")), User: f.Get("user"), Password: kept(f.Get("pass"), "haspass"),
			TLS: f.Get("tls")}}
	case core.ChannelSNS:
		s.Sns = &client.ChannelTopic{Arn: text("arn")}
	default:
		must.Do(core.Invalid("kind", kind, "allowed values: %s", core.JoinAllowed(core.ChannelKinds)))
	}
	return s
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

// kindTexts has the names of the kinds whose name is not their value.
var kindTexts = map[core.ChannelKind]core.Text{core.ChannelEmail: core.Say("mail"), core.ChannelFeishu: core.Say("Feishu"),
	core.ChannelDingTalk: core.Say("DingTalk"), core.ChannelWeCom: core.Say("WeCom")}

func (a *ask) KindName(kind string) string {
	if text, is := kindTexts[core.ChannelKind(kind)]; is {
		return words.Say(a.Lang, text)
	}
	return kind
}

func (a *ask) Kinds() []core.ChannelKind { return core.ChannelKinds }

// TLS returns the choices for the encryption of SMTP connections.
func (a *ask) TLS() []string { return []string{"starttls", "implicit", "none"} }
