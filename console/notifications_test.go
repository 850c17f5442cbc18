package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestChannelForms: channels of each kind are created and edited. Secrets are never shown, and stay if the input is
// empty.
func TestChannelForms(t *testing.T) {
	s := goldenConsole(t)
	s.shows("#first,#rest", "/console/notifications")
	for kind, form := range map[string]url.Values{
		"webhook":  {"url": {"https://hooks.example.com/t"}, "secret": {"very-secret-1"}},
		"slack":    {"url": {"https://hooks.slack.com/services/very-secret-1"}},
		"feishu":   {"url": {"https://open.feishu.cn/open-apis/bot/v2/hook/very-secret-1"}, "secret": {"very-secret-1"}},
		"dingtalk": {"url": {"https://oapi.dingtalk.com/robot/send?access_token=very-secret-1"}},
		"wecom":    {"url": {"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=very-secret-1"}},
		"email": {"to": {"a@example.com\nb@example.com"}, "from": {"t@example.com"}, "host": {"mail.example.com"}, "port": {"587"},
			"user": {"t"}, "pass": {"very-secret-1"}},
	} {
		s.says("/console/notifications?panel=new&kind="+kind, `name="kind" value="`+kind+`"`)
		form.Set("do", "new")
		form.Set("kind", kind)
		form.Set("name", "by-"+kind)
		s.done("/console/notifications?panel=new&kind="+kind, form)
		s.compare(kind, ".t-late")
		at := "/console/notifications/by-" + kind
		page := s.shows("dialog", at+"?panel=edit")
		s.never(page, "very-secret-1")
		edit := url.Values{"do": {"edit"}, "kind": {kind}, "rev": {cutOut(page, `name="rev" value="`, `"`)}, "language": {"zh"}}
		for _, has := range []string{"hasurl", "hassecret", "haspass"} {
			if strings.Contains(page, `name="`+has+`"`) {
				edit.Set(has, "1")
			}
		}
		for _, name := range []string{"url", "to", "from", "host", "port", "user", "arn"} {
			if name != "url" {
				edit.Set(name, form.Get(name))
			}
		}
		s.done(at+"?panel=edit", edit, "<dd>中文")
		edit.Set("language", "en")
		for _, secret := range []string{"url", "secret", "pass"} {
			if secret != "url" || kind != "email" {
				edit.Set(secret, form.Get(secret)) // entered again
			}
		}
		page = s.wrong(at+"?panel=edit", edit, http.StatusConflict)
		s.never(cutOut(page, `<div class="warn"`, "</div>"), "very-secret-1")
		edit.Set("rev", cutOut(page, `name="rev" value="`, `"`))
		s.never(s.done(at+"?panel=edit", edit), "<dd>中文")
		check.Call(t)(s.M.Channel(t.Context(), "by-"+kind))
	}
	s.wrong("/console/notifications?panel=new", url.Values{"do": {"new"}, "kind": {"pigeon"}, "name": {"p"}}, http.StatusBadRequest, "pigeon")
	s.wrong("/console/notifications?panel=new", url.Values{"do": {"new"}, "kind": {"email"}, "name": {"m"}, "port": {"many"},
		"from": {"kept@example.com"}},
		http.StatusBadRequest, "many", "kept@example.com")
	s.wrong("/console/notifications?panel=new", url.Values{"do": {"new"}, "kind": {"webhook"}, "name": {""}, "url": {"https://x.example"}},
		http.StatusBadRequest, `role="alert"`)
	s.done("/console/notifications/by-slack?panel=delete", url.Values{"do": {"delete"}})
	s.wrong("/console/notifications/by-slack?panel=delete", url.Values{"do": {"delete"}}, http.StatusNotFound)
}

// TestChannelIsTested: the page shows that a test was accepted, or the error.
func TestChannelIsTested(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/channels/oncall", `{"webhook": {"url": "https://hooks.example.com/t"}}`)
	s.done("/console/notifications/oncall?panel=test", url.Values{"do": {"test"}})
	s.wrong("/console/notifications/oncall?panel=test", url.Values{"do": {"test"}}, http.StatusConflict, `role="alert"`)
	s.Clock = s.Clock.Add(10 * time.Second)
	s.Notifier.Err = &core.Undelivered{Reason: "<b>401</b> no such robot", Permanent: true}
	s.wrong("/console/notifications/oncall?panel=test", url.Values{"do": {"test"}}, http.StatusOK, "<b>401</b> no such robot", `role="alert"`)
	s.Clock = s.Clock.Add(10 * time.Second)
	s.never(s.post("/console/notifications/oncall?panel=test", url.Values{"do": {"test"}}).Body.String(), "<b>401")
}
