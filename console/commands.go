package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// Commands with the effect of a panel when it opens. Fields without a value have an example, or ….

// BulkCommands returns the CLI commands of a bulk panel: one for the selected jobs, and one for all jobs that match
// the filter.
func (a *ask) BulkCommands(p *bulkPanel) (list []string) {
	more := map[string]string{"pause": ` --reason "…"`, "label": " --set team=pay"}[p.Verb]
	if len(p.Picked) > 0 {
		words := []string{"tickring bulk", p.Verb}
		for _, ref := range p.Picked {
			words = append(words, shellWord(ref))
		}
		list = append(list, strings.Join(words, " ")+more)
	}
	f := p.Filter
	which := filterWords(f.App, f.Label, f.Status, f.Text)
	if len(f.Label)+len(f.Status) == 0 && f.Text == "" {
		which = append(which, "--all")
	}
	words := append([]string{"tickring bulk", p.Verb}, which...)
	return append(list, strings.Join(words, " ")+more)
}

func (a *ask) RunsCli(p *runsPage) string { return "tickring runs" + runsWords(p.Filter, "--address") }

func (a *ask) RerunCommand(p *runsPage) string {
	f := p.Filter
	if p.Again != nil {
		f.To = p.Again.Of.last()
	}
	return "tickring rerun" + runsWords(f, "--ran-at")
}

// runsWords returns the flags that select runs; address is the name of the flag for an address.
func runsWords(f client.ListRunsParams, address string) string {
	var b strings.Builder
	if what := f.Job + f.App; what != "" {
		b.WriteString(" " + shellWord(what))
	}
	add := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				b.WriteString(" " + flag + " " + shellWord(v))
			}
		}
	}
	add("--state", f.State...)
	add("--cause", f.Cause...)
	if f.Failed {
		b.WriteString(" --failed")
	}
	add(address, f.Address)
	add("--longer", f.Longer)
	add("--shorter", f.Shorter)
	add("--late", f.Late)
	add("--text", f.Text)
	return b.String() + rangeFlags(f.From, f.To)
}

// rangeFlags returns the flags of a time range.
func rangeFlags(from, to time.Time) (flags string) {
	if !from.IsZero() {
		flags += " --from " + rfc(from)
	}
	if !to.IsZero() {
		flags += " --to " + rfc(to)
	}
	return flags
}

func (a *ask) PersonCommand(f personForm) string {
	if f.Rev == "" {
		return "tickring users set lina --role shop:editor"
	}
	words, roles := []string{"tickring users set", shellWord(f.Name)}, strings.Fields(f.Roles)
	for _, role := range roles {
		words = append(words, "--role "+shellWord(role))
	}
	if len(roles) == 0 {
		words = append(words, "--no-role")
	}
	if f.Issuer != "" {
		words = append(words, "--issuer "+shellWord(f.Issuer)+" --subject "+shellWord(f.Subject))
	}
	return strings.Join(append(words, map[bool]string{true: "--disable", false: "--enable"}[f.Disabled]), " ")
}

var channelSamples = map[core.ChannelKind]string{
	core.ChannelWebhook:  `{url: "https://hooks.example.com/t"}`,
	core.ChannelSlack:    `{url: "https://hooks.slack.com/services/T0/B0/x"}`,
	core.ChannelWeCom:    `{url: "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=x"}`,
	core.ChannelFeishu:   `{url: "https://open.feishu.cn/open-apis/bot/v2/hook/x"}`,
	core.ChannelDingTalk: `{url: "https://oapi.dingtalk.com/robot/send?access_token=x"}`,
	core.ChannelEmail:    `{to: [ops@example.com], from: jobs@example.com, smtp: {host: mail.example.com}}`,
	core.ChannelSNS:      `{arn: "arn:aws:sns:eu-central-1:123456789012:oncall"}`,
}

// ChannelCommand returns the CLI command that creates or replaces a channel with this name and kind.
func (a *ask) ChannelCommand(name, kind string) string {
	if name == "" {
		name = "oncall"
	}
	file := fmt.Sprintf("{version: 1, channels: [{name: %s, %s: %s}]}", name, kind, channelSamples[core.ChannelKind(kind)])
	return "printf '%s' " + quoted(file) + " | tickring apply -f -"
}
