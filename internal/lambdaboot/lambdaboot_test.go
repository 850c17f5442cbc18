package lambdaboot

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

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

func TestReadDefaults(t *testing.T) {
	c, err := Read(with(), Needs{})
	check.OK(t, err)
	if c.Names.Runs != "runs" || !strings.HasSuffix(c.Names.Dead, "/dead") || c.Visibility != 25*time.Second || c.Partitions != 16 ||
		c.NoToken || len(c.Policy.Allow) > 0 ||
		c.Level != slog.LevelInfo || c.Report() != "" || c.Plan != plan.AWS() {
		t.Errorf("%+v", c)
	}
}

func TestReadAll(t *testing.T) {
	c, err := Read(with("TICKRING_ADMIN_TOKEN", "token-of-an-administrator", "TICKRING_REPORT_URL", "https://jobs.example.com/prod/",
		"TICKRING_ALLOW",
		"10.0.0.0/8, fd00::/8",
		"TICKRING_ALLOW_NO_TOKEN", "1", "TICKRING_VISIBILITY", "2m", "TICKRING_MAX_PARTITIONS", "256", "TICKRING_LOG_LEVEL", "warn",
		"TICKRING_RUN_URL", "https://jobs.example.com/runs/{run}",
		"TICKRING_QUEUE_RESULTS", "https://sqs.us-east-1.amazonaws.com/1/results", "AWS_LAMBDA_FUNCTION_NAME", "tick"), Needs{AdminToken: true})
	check.OK(t, err)
	if c.Report() != "https://jobs.example.com/prod" || !c.NoToken || c.Visibility != 2*time.Minute || c.Partitions != 256 ||
		c.Level != slog.LevelWarn || c.Function != "tick" || c.RunURL != "https://jobs.example.com/runs/{run}" ||
		!strings.HasSuffix(c.Results, "/results") {
		t.Errorf("%+v", c)
	}
	if a := c.Policy.Allow; len(a) != 2 || a[0] != netip.MustParsePrefix("10.0.0.0/8") || a[1] != netip.MustParsePrefix("fd00::/8") {
		t.Errorf("allowed networks %v", a)
	}
}

// TestReadTokenIsChecked: without an admin token nothing can sign a report URL, so there are none. The read token is
// checked like the admin token, and is unset without a setting.
func TestReadTokenIsChecked(t *testing.T) {
	texts := golden.New(t)
	for name, c := range map[string]struct {
		env   []string
		read  string
		fails bool
	}{
		"none":      {},
		"one":       {[]string{"TICKRING_READ_TOKEN", "read-token-of-the-tests"}, "read-token-of-the-tests", false},
		"short":     {[]string{"TICKRING_READ_TOKEN", "read-token"}, "", true},
		"parameter": {[]string{"TICKRING_READ_TOKEN_PARAM", "/tickring/read-token"}, "of-the-parameter", false},
		"both": {[]string{"TICKRING_READ_TOKEN", "read-token-of-the-tests", "TICKRING_READ_TOKEN_PARAM", "/tickring/read-token"}, "",
			true},
	} {
		conf, err := Read(with(append(c.env, "TICKRING_ADMIN_TOKEN", "function-admin-token")...), Needs{AdminToken: true})
		check.Equal(t, err != nil, c.fails, "%s: %v", name, err)
		if err != nil {
			texts.Equal(t, name, err.Error())
			continue
		}
		if conf.Params.ReadToken != "" {
			conf.read = &secret{value: "of-the-parameter", turn: make(chan struct{}, 1), o: SecretOptions{}.defaults()}
		}
		got, err := conf.Tokens(t.Context())
		if want := (Tokens{"function-admin-token", c.read}); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestReportNeedsToken(t *testing.T) {
	c, err := Read(with("TICKRING_REPORT_URL", "https://jobs.example.com"), Needs{})
	if err != nil || c.Report() != "" {
		t.Errorf("%q, %v", c.Report(), err)
	}
}

// TestReadNamesAllThatIsWrong: one error names every missing or wrong setting.
func TestReadNamesAllThatIsWrong(t *testing.T) {
	texts := golden.New(t)
	_, err := Read(func(string) string { return "" }, Needs{AdminToken: true})
	texts.Equal(t, "nothing", fmt.Sprint(err))
	_, err = Read(with("TICKRING_QUEUE_FIRES", "fires", "TICKRING_QUEUE_SLOW", "slow", "TICKRING_QUEUE_CHECKS", "https://",
		"TICKRING_QUEUE_DEAD", "arn:aws:sqs:us-east-1:1:dead", "TICKRING_ADMIN_TOKEN", "nineteen-characters", "TICKRING_REPORT_URL", "http://",
		"TICKRING_ALLOW", "10.0.0.1", "TICKRING_ALLOW_NO_TOKEN", "yes", "TICKRING_VISIBILITY", "1500ms", "TICKRING_MAX_PARTITIONS", "257",
		"TICKRING_LOG_LEVEL", "loud", "TICKRING_QUEUE_RESULTS", "results", "TICKRING_RUN_URL", "https://jobs.example.com/runs"), Needs{})
	texts.Equal(t, "all settings", fmt.Sprint(err))
}

func TestReadBounds(t *testing.T) {
	texts := golden.New(t)
	for _, c := range []struct{ name, value string }{
		{"TICKRING_VISIBILITY", "0s"}, {"TICKRING_VISIBILITY", "12h1s"}, {"TICKRING_VISIBILITY", "60"},
		{"TICKRING_MAX_PARTITIONS", "0"}, {"TICKRING_MAX_PARTITIONS", "8x"}, {"TICKRING_MAX_PARTITIONS", "+8"}, {"TICKRING_MAX_PARTITIONS", "08"},
		{"TICKRING_ADMIN_TOKEN", "with a space"}, {"TICKRING_ADMIN_TOKEN", strings.Repeat("x", 513)}, {"TICKRING_ADMIN_TOKEN", "new\nline-token"},
		{"TICKRING_REPORT_URL", "ftp://jobs.example.com"}, {"TICKRING_REPORT_URL", "jobs.example.com"},
	} {
		_, err := Read(with(c.name, c.value), Needs{})
		texts.Equal(t, fmt.Sprintf("%s=%.30q", c.name, c.value), fmt.Sprint(err))
	}
	for _, c := range []struct{ name, value string }{
		{"TICKRING_VISIBILITY", "1s"}, {"TICKRING_VISIBILITY", "12h"}, {"TICKRING_MAX_PARTITIONS", "1"}, {"TICKRING_ALLOW_NO_TOKEN", "0"},
		{"TICKRING_ALLOW", " , "},
		{"TICKRING_ADMIN_TOKEN", "12345678901234567890"}, {"TICKRING_REPORT_URL", "http://127.0.0.1:8080"},
	} {
		if _, err := Read(with(c.name, c.value), Needs{}); err != nil {
			t.Errorf("%s=%q: %v", c.name, c.value, err)
		}
	}
}

// TestReadLoopback: loopback, which has Lambda's runtime API, is only allowed if DynamoDB is on loopback too.
func TestReadLoopback(t *testing.T) {
	for _, c := range []struct {
		endpoint []string
		ok       bool
	}{
		{[]string{"AWS_ENDPOINT_URL", "http://127.0.0.1:4566"}, true},
		{[]string{"AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:8000"}, true},
		{[]string{"AWS_ENDPOINT_URL", "http://127.0.0.1:4566", "AWS_ENDPOINT_URL_DYNAMODB", "https://dynamodb.us-east-1.amazonaws.com"}, false},
		{[]string{"AWS_ENDPOINT_URL", "https://vpce-1.dynamodb.us-east-1.vpce.amazonaws.com"}, false},
		{nil, false},
	} {
		cfg, err := Read(with(append(c.endpoint, "TICKRING_ALLOW_LOOPBACK", "1")...), Needs{})
		if (err == nil) != c.ok || c.ok && !cfg.Policy.AllowLoopback || !c.ok &&
			!strings.Contains(fmt.Sprint(err), "TICKRING_ALLOW_LOOPBACK is allowed only if") {
			t.Errorf("%v: %+v, %v; allowed: %t", c.endpoint, cfg.Policy, err, c.ok)
		}
	}
	if cfg, err := Read(with("AWS_ENDPOINT_URL", "http://127.0.0.1:4566"), Needs{}); err != nil || cfg.Policy.AllowLoopback {
		t.Errorf("%+v, %v; it is asked for, never taken", cfg.Policy, err)
	}
}

func TestReportKey(t *testing.T) {
	a, b := Config{AdminToken: "one-token"}, Config{AdminToken: "another-token"}
	if of := keyOf(t, &a); of == keyOf(t, &b) || len(of) != 32 || strings.Contains(of, "one-token") {
		t.Error("the key does not follow from the token alone")
	}
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
