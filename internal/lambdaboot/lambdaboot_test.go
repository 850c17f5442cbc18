package lambdaboot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func whole() map[string]string {
	return map[string]string{
		"TICKRING_TABLE_JOBS": "jobs", "TICKRING_TABLE_RUNS": "runs", "TICKRING_TABLE_STATE": "state",
		"TICKRING_QUEUE_FIRES":   "https://sqs.us-east-1.amazonaws.com/1/fires",
		"TICKRING_QUEUE_SLOW":    "https://sqs.us-east-1.amazonaws.com/1/slow",
		"TICKRING_QUEUE_CHECKS":  "https://sqs.us-east-1.amazonaws.com/1/checks",
		"TICKRING_QUEUE_POSTRUN": "https://sqs.us-east-1.amazonaws.com/1/postrun",
		"TICKRING_QUEUE_DEAD":    "https://sqs.us-east-1.amazonaws.com/1/dead",
	}
}

func with(pairs ...string) func(string) string {
	env := whole()
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return env[name] }
}

// readWith reads an environment with all required settings and some of the form NAME=value, and returns it as a text.
func readWith(t *testing.T, vars []string) string {
	var pairs []string
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		pairs = append(pairs, name, value)
	}
	c, err := Read(with(pairs...), Needs{})
	if err != nil {
		return err.Error()
	}
	c.secrets(&fakeParams{values: map[string]string{"/t/read-token": "read-token-of-the-parameter"}}, isBlank)
	tokens, err := c.Tokens(t.Context())
	check.OK(t, err)
	return fmt.Sprintf("%+v\n%+v\nallow %v, loopback %t, no token %t\nvisibility %s, partitions %d, level %s, plan of AWS %t\n"+
		"reports to %q, days of %s, runs at %q, results to %q, function %q", c.Names, tokens, c.Policy.Allow, c.Policy.AllowLoopback, c.NoToken,
		c.Visibility, c.Partitions, c.Level, c.Plan == plan.AWS(), c.Report(), c.ReportZone, c.RunURL, c.Results, c.Function)
}

// TestRead: an environment makes a configuration, or one error names every missing or wrong setting. Loopback, which has Lambda's
// runtime API, is only allowed if DynamoDB is on loopback too. Without an admin token nothing signs report URLs, so there are none.
func TestRead(t *testing.T) {
	const admin, read, loopback = "TICKRING_ADMIN_TOKEN=function-admin-token", "TICKRING_READ_TOKEN=read-token-of-the-tests",
		"TICKRING_ALLOW_LOOPBACK=1"
	cases := map[string][]string{
		"defaults": {},
		"all": {admin, read, "TICKRING_REPORT_URL=https://jobs.example.com/prod/", "TICKRING_ALLOW=10.0.0.0/8, fd00::/8",
			"TICKRING_ALLOW_NO_TOKEN=1", "TICKRING_VISIBILITY=2m", "TICKRING_MAX_PARTITIONS=256", "TICKRING_LOG_LEVEL=warn",
			"TICKRING_RUN_URL=https://jobs.example.com/runs/{run}", "TICKRING_REPORT_ZONE=Europe/Berlin",
			"TICKRING_QUEUE_RESULTS=https://sqs.us-east-1.amazonaws.com/1/results", "AWS_LAMBDA_FUNCTION_NAME=tick"},
		"all wrong": {"TICKRING_QUEUE_FIRES=fires", "TICKRING_QUEUE_SLOW=slow", "TICKRING_QUEUE_CHECKS=https://",
			"TICKRING_QUEUE_DEAD=arn:aws:sqs:us-east-1:1:dead", "TICKRING_ADMIN_TOKEN=nineteen-characters", "TICKRING_REPORT_URL=http://",
			"TICKRING_ALLOW=10.0.0.1", "TICKRING_ALLOW_NO_TOKEN=yes", "TICKRING_VISIBILITY=1500ms", "TICKRING_MAX_PARTITIONS=257",
			"TICKRING_LOG_LEVEL=loud", "TICKRING_QUEUE_RESULTS=results", "TICKRING_RUN_URL=https://jobs.example.com/runs"},
		"short read token":          {admin, "TICKRING_READ_TOKEN=read-token"},
		"read token of a parameter": {admin, "TICKRING_READ_TOKEN_PARAM=/t/read-token"},
		"two read tokens":           {admin, read, "TICKRING_READ_TOKEN_PARAM=/t/read-token"},
		"reports without a token":   {"TICKRING_REPORT_URL=https://jobs.example.com"},
		"loopback":                  {loopback, "AWS_ENDPOINT_URL=http://127.0.0.1:4566"},
		"loopback by name":          {loopback, "AWS_ENDPOINT_URL_DYNAMODB=http://localhost:8000"},
		"loopback not asked for":    {"AWS_ENDPOINT_URL=http://127.0.0.1:4566"},
		"loopback, DynamoDB of AWS": {loopback, "AWS_ENDPOINT_URL=http://127.0.0.1:4566",
			"AWS_ENDPOINT_URL_DYNAMODB=https://dynamodb.us-east-1.amazonaws.com"},
		"loopback, DynamoDB of a VPC": {loopback, "AWS_ENDPOINT_URL=https://vpce-1.dynamodb.us-east-1.vpce.amazonaws.com"},
		"loopback without endpoint":   {loopback},
	}
	for _, v := range []string{"VISIBILITY=0s", "VISIBILITY=12h1s", "VISIBILITY=60", "VISIBILITY=1s", "VISIBILITY=12h", "MAX_PARTITIONS=0",
		"MAX_PARTITIONS=8x", "MAX_PARTITIONS=+8", "MAX_PARTITIONS=08", "MAX_PARTITIONS=1", "ADMIN_TOKEN=with a space",
		"ADMIN_TOKEN=" + strings.Repeat("x", 513), "ADMIN_TOKEN=new\nline-token", "ADMIN_TOKEN=12345678901234567890", "ALLOW= , ",
		"ALLOW_NO_TOKEN=0", "REPORT_URL=ftp://jobs.example.com", "REPORT_URL=jobs.example.com"} {
		cases[fmt.Sprintf("%.40q", v)] = []string{"TICKRING_" + v}
	}
	texts := golden.New(t)
	for name, vars := range cases {
		texts.Equal(t, name, readWith(t, vars))
	}
	_, err := Read(func(string) string { return "" }, Needs{AdminToken: true})
	texts.Equal(t, "nothing", fmt.Sprint(err))
}

// TestOpen: Open fails on a wrong configuration before it creates clients, and names a missing region, which the SDK
// reports only at the first call.
func TestOpen(t *testing.T) {
	for name, v := range whole() {
		t.Setenv(name, v)
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	if _, _, _, _, err := Open(t.Context(), Needs{}); !strings.Contains(fmt.Sprint(err), "AWS_REGION is missing") {
		t.Error(err)
	}
	t.Setenv("AWS_REGION", "eu-central-1")
	c, sdk, store, log, err := Open(t.Context(), Needs{})
	if err != nil || sdk.Region != "eu-central-1" || store == nil || log == nil || c.Names.Jobs != "jobs" {
		t.Errorf("%+v, %q, %v", c, sdk.Region, err)
	}
	t.Setenv("TICKRING_TABLE_RUNS", "")
	if _, _, store, log, err := Open(t.Context(), Needs{}); !strings.Contains(fmt.Sprint(err),
		"configuration: TICKRING_TABLE_RUNS is missing") || store != nil || log == nil {
		t.Error(err)
	}
}
