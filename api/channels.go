package api

import (
	"net/http"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/words"
)

// ChannelOf converts a channel from package core to the form in the API, without its secrets.
func ChannelOf(c *core.Channel) client.Channel {
	out := client.Channel{Name: c.Name, Language: string(c.Language), Kind: string(c.Kind), To: c.To(), Set: c.Set, Rev: c.Rev,
		CreatedAt: c.Created, TestedAt: c.Tested}
	switch c := c.Shown(); c.Kind {
	case core.ChannelWebhook:
		out.Webhook = &client.ChannelWebhook{URL: c.URL, Secret: c.Secret}
	case core.ChannelSlack:
		out.Slack = &client.ChannelHook{URL: c.URL}
	case core.ChannelFeishu:
		out.Feishu = &client.ChannelRobot{URL: c.URL, Secret: c.Secret}
	case core.ChannelDingTalk:
		out.Dingtalk = &client.ChannelRobot{URL: c.URL, Secret: c.Secret}
	case core.ChannelWeCom:
		out.Wecom = &client.ChannelHook{URL: c.URL}
	case core.ChannelEmail:
		s := c.Email.SMTP
		out.Email = &client.ChannelEmail{To: c.Email.To, From: c.Email.From,
			SMTP: client.ChannelSMTP{Host: s.Host, Port: s.Port, User: s.User, Password: s.Password, TLS: string(s.TLS)}}
	case core.ChannelSNS:
		out.Sns = &client.ChannelTopic{Arn: c.ARN}
	}
	return out
}

// ManageChannel converts the settings of a channel from the form in the API to package manage.
func ManageChannel(s client.ChannelSpec) (manage.ChannelSpec, error) {
	c := core.Channel{Name: s.Name, Set: s.Set, Language: core.Language(s.Language)}
	if err := words.CheckLanguage(c.Language); err != nil {
		return manage.ChannelSpec{}, err
	}
	given := 0
	of := func(kind core.ChannelKind, is bool) bool {
		if is {
			c.Kind = kind
			given++
		}
		return is
	}
	if of(core.ChannelWebhook, s.Webhook != nil) {
		c.URL, c.Secret = s.Webhook.URL, s.Webhook.Secret
	}
	if of(core.ChannelSlack, s.Slack != nil) {
		c.URL = s.Slack.URL
	}
	if of(core.ChannelFeishu, s.Feishu != nil) {
		c.URL, c.Secret = s.Feishu.URL, s.Feishu.Secret
	}
	if of(core.ChannelDingTalk, s.Dingtalk != nil) {
		c.URL, c.Secret = s.Dingtalk.URL, s.Dingtalk.Secret
	}
	if of(core.ChannelWeCom, s.Wecom != nil) {
		c.URL = s.Wecom.URL
	}
	if of(core.ChannelEmail, s.Email != nil) {
		e := s.Email
		c.Email = core.Email{To: e.To, From: e.From, SMTP: core.SMTP{Host: e.SMTP.Host, Port: e.SMTP.Port, User: e.SMTP.User,
			Password: e.SMTP.Password, TLS: core.SMTPTLS(e.SMTP.TLS)}}
	}
	if of(core.ChannelSNS, s.Sns != nil) {
		c.ARN = s.Sns.Arn
	}
	out := manage.ChannelSpec{Channel: c, IfRev: s.IfRev}
	if given != 1 {
		return out, core.Invalid("", "", "a channel needs exactly one of %s", core.JoinAllowed(core.ChannelKinds))
	}
	return out, nil
}

func (s *server) ListChannels(r *http.Request) (any, error) {
	list, err := s.m.Channels(r.Context())
	if err != nil {
		return nil, err
	}
	troubles, err := Troubles(r.Context(), s.o.Store, list)
	out := client.ChannelList{Channels: make([]client.Channel, len(list))}
	for i := range list {
		out.Channels[i] = ChannelOf(&list[i])
		out.Channels[i].Trouble = troubles[list[i].Name]
	}
	return out, err
}

func (s *server) GetChannel(r *http.Request, name string) (any, error) {
	c, err := s.m.Channel(r.Context(), name)
	if err != nil {
		return nil, err
	}
	troubles, err := Troubles(r.Context(), s.o.Store, []core.Channel{c})
	out := ChannelOf(&c)
	out.Trouble = troubles[name]
	return out, err
}

func (s *server) PutChannel(r *http.Request, name string, body client.ChannelSpec) (any, error) {
	if err := asInPath("name", &body.Name, name); err != nil {
		return nil, err
	}
	spec, err := ManageChannel(body)
	if err != nil {
		return nil, err
	}
	res, err := s.m.SaveChannel(r.Context(), actor(r), spec)
	return client.ChannelResult{Name: res.Name, Rev: res.Rev, Change: res.Change}, err
}

func (s *server) DeleteChannel(r *http.Request, name string) (any, error) {
	err := s.m.DeleteChannel(r.Context(), actor(r), name)
	return client.ChannelResult{Name: name, Change: manage.Deleted}, err
}

func (s *server) TestChannel(r *http.Request, name string) (any, error) {
	res, err := s.m.TestChannel(r.Context(), actor(r), name)
	return client.ChannelTest{Sent: res.Sent, Reason: res.Why, Permanent: res.Permanent, After: orNone(res.After),
		TookMs: res.Took.Milliseconds()}, err
}
