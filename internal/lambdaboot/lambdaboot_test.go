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

// TestRead: the settings of a section and the other required ones make a configuration, or one error names every missing or wrong
// setting. Loopback, which has Lambda's runtime API, is only allowed if DynamoDB is on loopback too. Without an admin token
// nothing signs report URLs, so there are none.
func TestRead(t *testing.T) {
	golden.Replay(t, func(t *testing.T, text string) (played string) {
		var vars []string
		for line := range strings.Lines(text) {
			if name, value, is := strings.Cut(strings.TrimSuffix(line, "\n"), "="); is && line[0] != ' ' {
				vars = append(vars, name, strings.ReplaceAll(value, `\n`, "\n"))
				played += line
			}
		}
		c, err := Read(with(vars...), Needs{})
		if err != nil {
			return played + "    " + strings.ReplaceAll(err.Error(), "\n", "\n    ") + "\n"
		}
		c.secrets(&fakeParams{values: map[string]string{"/t/read-token": "read-token-of-the-parameter"}}, isBlank)
		tokens, err := c.Tokens(t.Context())
		check.OK(t, err)
		return played + fmt.Sprintf("    %+v\n    %+v\n    allow %v, loopback %t, no token %t\n"+
			"    visibility %s, partitions %d, level %s, plan of AWS %t\n"+
			"    reports to %q, days of %s, runs at %q, results to %q, function %q\n", c.Names, tokens, c.Policy.Allow,
			c.Policy.AllowLoopback, c.NoToken, c.Visibility, c.Partitions, c.Level, c.Plan == plan.AWS(), c.Report(), c.ReportZone,
			c.RunURL, c.Results, c.Function)
	})
	_, err := Read(with(), Needs{AdminToken: true})
	check.Contains(t, fmt.Sprint(err), "TICKRING_ADMIN_TOKEN is missing")
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
