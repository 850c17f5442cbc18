package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/notify"
)

func TestAPI(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	c, e := &lambdaboot.Config{AdminToken: "function-admin-token", Plan: plan.AWS()}, memory.Open(t, memory.Options{})
	h := awslambda.NewHandler(lambdaboot.HTTP(wire(c, e, doorOf(c, e, log), notify.Options{}), log))
	for _, c := range []struct {
		what, doc string
		replace   []string
		status    int
		body      string
	}{
		{"no token", "url.json", []string{"Bearer function-admin-token", ""}, 401, ""},
		{"another token", "url.json", []string{"function-admin-token", "function-admin-tokem"}, 401, ""},
		{"an app", "httpapi.json", nil, 200, "billing"},
		{"the apps", "url.json", nil, 200, "billing"},
		{"a job", "httpapi.json", []string{"/v1/apps/billing", "/v1/jobs/billing/close", `{\"token\":\"executor-token\"}`,
			`{\"handler\":\"close\",\"schedule\":{\"every\":\"1m\"}}`}, 200, "close"},
		{"the job", "url.json", []string{"/v1/apps", "/v1/jobs/billing/close"}, 200, "close"},
		{"no such path", "url.json", []string{"/v1/apps", "/v1/nothing"}, 404, ""},
		{"another method", "url.json", []string{`"method": "GET"`, `"method": "POST"`}, 405, ""},
		{"no JSON", "httpapi.json", []string{`{\"token\":`, `{token:`}, 400, ""},
	} {
		doc, err := os.ReadFile("testdata/" + c.doc)
		check.OK(t, err)
		out, err := h.Invoke(t.Context(), []byte(strings.NewReplacer(c.replace...).Replace(string(doc))))
		check.OK(t, err)
		var res events.APIGatewayV2HTTPResponse
		if err := json.Unmarshal(out, &res); err != nil {
			t.Fatalf("%s, %v", out, err)
		}
		if res.StatusCode != c.status || !strings.Contains(res.Body, c.body) || res.Headers["Content-Type"] == "" {
			t.Errorf("%s: %d %s %v; want %d, %s", c.what, res.StatusCode, res.Body, res.Headers, c.status, c.body)
		}
	}
}
