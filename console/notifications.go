package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
	Panel    string
	Form     channelForm
	Wrong    string
}

func (a *ask) notifications() (any, error) {
	p := a.noticesPage()
	p.Panel = a.Q("panel")
	p.Form = channelForm{Kind: a.Q("kind"), Language: string(a.Lang)}
	if !slices.Contains(core.ChannelKinds, core.ChannelKind(p.Form.Kind)) {
		p.Form.Kind = string(core.ChannelWebhook)
	}
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

type channelPage struct {
	Channel client.Channel
	Apps    []client.App
	Jobs    []client.Job
	Rest    bool // whether the channel gets the events that belong to no job
	Looked  int
	More    bool
	Panel   string
	Form    channelForm
	Wrong   string
	Clash   *clash
	Test    *client.ChannelTest // result of a test message
}

func (a *ask) channel() (any, error) {
	p := a.channelPage(a.Path("channel"))
	p.Panel = a.Q("panel")
	return p, nil
}

func (a *ask) channelPage(name string) *channelPage {
	one := must.Get(a.GetChannel(a.Ctx(), name))
	all := a.noticesPage()
	p := &channelPage{Channel: one, Form: channelFormOf(one), Looked: all.Looked, More: all.More, Rest: slices.Contains(all.Rest.To, name)}
	a.page = "notifications"
	p.Apps = slices.DeleteFunc(all.Apps, func(app client.App) bool { return !slices.Contains(app.Notify.To, name) })
	p.Jobs = slices.DeleteFunc(all.Jobs, func(j client.Job) bool { return !slices.Contains(j.Notify.To, name) })
	return p
}

func (a *ask) ChannelPath(name string) string { return Root + "notifications/" + url.PathEscape(name) }

// channelForm has secrets only as input.
type channelForm struct {
	Name, Kind, Language, Rev             string
	URL, Secret                           string
	To, From, Host, Port, User, Pass, TLS string
	ARN                                   string
	// HasSecret reports whether a secret is stored. The stored secret is kept if the input is empty.
	HasSecret, HasURL, HasPass bool
}

func channelFormOf(ch client.Channel) channelForm {
	f := channelForm{Name: ch.Name, Kind: ch.Kind, Language: ch.Language, Rev: strconv.FormatInt(ch.Rev, 10)}
	robot := func(r *client.ChannelRobot) { f.HasURL, f.HasSecret = r.URL != "", r.Secret != "" }
	switch {
	case ch.Webhook != nil:
		f.HasURL, f.HasSecret = true, ch.Webhook.Secret != ""
	case ch.Slack != nil:
		f.HasURL = true
	case ch.Wecom != nil:
		f.HasURL = true
	case ch.Feishu != nil:
		robot(ch.Feishu)
	case ch.Dingtalk != nil:
		robot(ch.Dingtalk)
	case ch.Email != nil:
		m := ch.Email
		f.To, f.From, f.Host, f.Port = strings.Join(m.To, "\n"), m.From, m.SMTP.Host, number(m.SMTP.Port)
		f.User, f.HasPass, f.TLS = m.SMTP.User, m.SMTP.Password != "", m.SMTP.TLS
	case ch.Sns != nil:
		f.ARN = ch.Sns.Arn
	}
	return f
}

// channelForm reads the posted form.
func (a *ask) channelForm() channelForm {
	return channelForm{Name: strings.TrimSpace(a.Form("name")), Kind: a.Form("kind"), Language: a.Form("language"), Rev: a.Form("rev"),
		URL: strings.TrimSpace(a.Form("url")), Secret: a.Form("secret"), To: a.Form("to"), From: strings.TrimSpace(a.Form("from")),
		Host: strings.TrimSpace(a.Form("host")), Port: a.Form("port"), User: a.Form("user"), Pass: a.Form("pass"), TLS: a.Form("tls"),
		ARN: strings.TrimSpace(a.Form("arn")), HasSecret: a.Form("hassecret") != "", HasURL: a.Form("hasurl") != "",
		HasPass: a.Form("haspass") != ""}
}

// kept returns a secret in the input, or the marker for the stored one.
func kept(typed string, stored bool) string {
	if typed == "" && stored {
		return core.AsStored
	}
	return typed
}

// spec returns the channel in the form.
func (f channelForm) spec() (client.ChannelSpec, error) {
	s := client.ChannelSpec{Name: f.Name, Language: f.Language}
	secret, hook := kept(f.Secret, f.HasSecret), kept(f.URL, f.HasURL)
	switch core.ChannelKind(f.Kind) {
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
		port := wholeNumber("email.smtp.port", f.Port)
		s.Email = &client.ChannelEmail{To: strings.Fields(f.To), From: f.From, SMTP: client.ChannelSMTP{Host: f.Host, Port: port,
			User: f.User, Password: kept(f.Pass, f.HasPass), TLS: f.TLS}}
	case core.ChannelSNS:
		s.Sns = &client.ChannelTopic{Arn: f.ARN}
	default:
		return s, core.Invalid("kind", f.Kind, "allowed values: %s", core.JoinAllowed(core.ChannelKinds))
	}
	rev, err := strconv.ParseInt(f.Rev, 10, 64)
	if err != nil {
		return s, core.Invalid("rev", f.Rev, "a whole number is expected")
	}
	s.IfRev = &rev
	return s, nil
}

// differs returns the differences between the stored channel and the form, except for secrets.
func (f channelForm) differs(now client.Channel) []manifest.FieldChange {
	f.Name = now.Name
	spec, _ := f.spec() // valid, or there would be no conflict
	what, _ := api.ManageChannel(spec)
	what.Channel = what.Channel.Normal()
	mine := api.ChannelOf(&what.Channel)
	mine.Set = now.Set
	return manifest.DiffChannel(&now, &mine)
}

// notificationsDo creates a channel, or sets the channels for events without a job.
func (a *ask) notificationsDo() (to string, said core.Text, err error) {
	f := a.channelForm()
	switch a.Form("do") {
	case "new":
		f.Rev = "0"
		spec := must.Get(f.spec())
		if f.Name == "" {
			return to, said, core.Invalid("name", "", "a channel needs a name")
		}
		must.Get(a.PutChannel(a.Ctx(), f.Name, spec))
		return a.ChannelPath(f.Name), core.Say("%s is created: send a test", f.Name), nil
	case "rest":
		res := must.Get(a.Apply(a.Ctx(), client.ApplyRequest{Notify: &client.Notify{To: strings.Fields(f.To)}}))
		if res.Notify != nil && res.Notify.Error != nil {
			return to, said, refusal(res.Notify.Error)
		}
		return Root + "notifications", core.Say("the channels for events without a job are saved"), nil
	}
	return to, said, a.noForm()
}

func (a *ask) notificationsAgain(err error) (string, core.Text, error) {
	p := a.noticesPage()
	p.Panel, p.Form, p.Wrong = a.Form("do"), a.channelForm(), a.problemOf(err).Message
	return a.again(err, "notifications", p)
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
		f := a.channelForm()
		f.Name = name
		must.Get(a.PutChannel(a.Ctx(), name, must.Get(f.spec())))
		return to, core.Say("%s is saved", name), nil
	case "test":
		res := must.Get(a.TestChannel(a.Ctx(), name))
		if res.Sent {
			return to, core.Say("%s accepted the test message in %d ms: check that it arrived", name, res.TookMs), nil
		}
		p := a.channelPage(name)
		p.Test = &res
		return a.shown(http.StatusOK, "channel", p)
	case "delete":
		must.Get(a.DeleteChannel(a.Ctx(), name))
		return Root + "notifications", core.Say("%s is deleted", name), nil
	}
	return to, said, a.noForm()
}

func (a *ask) channelAgain(err error) (string, core.Text, error) {
	if a.problemOf(err).Status == http.StatusNotFound {
		return "", core.Text{}, err
	}
	p := a.channelPage(a.Path("channel"))
	if p.Panel, p.Wrong = a.Form("do"), a.problemOf(err).Message; p.Panel == "edit" {
		was := p.Form
		p.Form = a.channelForm()
		if isConflict(err) && p.Form.Rev != was.Rev {
			p.Clash, p.Wrong = &clash{Differs: p.Form.differs(p.Channel)}, ""
			p.Form.Rev, p.Form.HasURL, p.Form.HasSecret, p.Form.HasPass = was.Rev, was.HasURL, was.HasSecret, was.HasPass
		}
		p.Form.Kind, p.Form.Name = p.Channel.Kind, p.Channel.Name
	}
	return a.again(err, "channel", p)
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
