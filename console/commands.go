package console

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// Commands with the effect of a panel when it opens. Fields without a value have an example, or ….

// word returns a word of a command, quoted for a shell if needed, with a space before it; empty if the text is empty.
func word(text string) string {
	if text == "" {
		return ""
	}
	return " " + shellWord(text)
}

// flag returns a flag of a command for each value that is not empty.
func flag(name string, values ...string) (words string) {
	for _, v := range values {
		if v != "" {
			words += " --" + name + word(v)
		}
	}
	return words
}

// flagIf returns a flag without a value if it is set.
func flagIf(name string, set bool) string {
	if !set {
		return ""
	}
	return " --" + name
}

// rangeFlags returns the flags of a time range.
func rangeFlags(from, to time.Time) (flags string) {
	if !from.IsZero() {
		flags = flag("from", rfc(from))
	}
	if !to.IsZero() {
		flags += flag("to", rfc(to))
	}
	return flags
}

// BulkCommands returns the CLI commands of a bulk panel: one for the selected jobs, and one for all jobs that match
// the filter.
func (a *ask) BulkCommands(p *bulkPanel) (list []string) {
	bulk, f := "tickring bulk "+p.Verb, p.Filter
	more := map[string]string{"pause": ` --reason "…"`, "label": " --set team=pay"}[p.Verb]
	if len(p.Picked) > 0 {
		picked := ""
		for _, ref := range p.Picked {
			picked += word(ref)
		}
		list = append(list, bulk+picked+more)
	}
	all := flagIf("all", len(f.Label)+len(f.Status) == 0 && f.Text == "")
	return append(list, bulk+jobsFlags(f.App, f.Label, f.Status, f.Text)+all+more)
}

// jobsFlags returns the words of a command that select jobs.
func jobsFlags(app string, labels, status []string, text string) string {
	return word(app) + flag("status", status...) + flag("label", labels...) + flag("text", text)
}

func (a *ask) RunsCli(p *runsPage) string { return "tickring runs" + runsFlags(p.Filter, "address") }

func (a *ask) RerunCommand(p *runsPage) string {
	f := p.Filter
	if p.Again != nil {
		f.To = p.Again.Of.last()
	}
	return "tickring rerun" + runsFlags(f, "ran-at")
}

// runsFlags returns the words of a command that select runs; address is the name of the flag for an address.
func runsFlags(f client.ListRunsParams, address string) string {
	return word(f.Job+f.App) + flag("state", f.State...) + flag("cause", f.Cause...) + flagIf("failed", f.Failed) + flag(address, f.Address) +
		flag("longer", f.Longer) + flag("shorter", f.Shorter) + flag("late", f.Late) + flag("text", f.Text) + rangeFlags(f.From, f.To)
}

func (a *ask) PersonCommand(f url.Values) string {
	if f.Get("rev") == "" {
		return "tickring users set lina --role shop:editor"
	}
	roles, disabled := strings.Fields(f.Get("roles")), f.Get("disabled") != ""
	command := "tickring users set" + word(f.Get("name")) + flag("role", roles...) + flagIf("no-role", len(roles) == 0)
	if issuer := f.Get("issuer"); issuer != "" {
		command += flag("issuer", issuer) + " --subject " + shellWord(f.Get("subject"))
	}
	return command + flagIf("disable", disabled) + flagIf("enable", !disabled)
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
