// Package lambdaboot has the setup that all Lambda functions share. The package reads and checks the configuration in
// the environment, creates each client once, and creates the use cases. If a setting is missing or invalid, the setup
// fails with an error that names the setting.
package lambdaboot

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/ratelog"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/traces"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/send/awssend"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// Config is the configuration of a function, read from its environment.
type Config struct {
	// Names has the names of tables and queues: TICKRING_TABLE_JOBS, _RUNS, _STATE; TICKRING_QUEUE_FIRES, _SLOW,
	// _CHECKS, _POSTRUN, _DEAD.
	Names dynamo.Names
	// AdminToken is set by TICKRING_ADMIN_TOKEN: the admin token of the API. Without a report key, the hash of the
	// token signs reports. The method Token returns the token from this variable or from its SSM parameter.
	AdminToken string
	ReadToken  string // TICKRING_READ_TOKEN: the read-only token of the API; empty: none
	// Params has the names of SSM parameters: TICKRING_ADMIN_TOKEN_PARAM, TICKRING_READ_TOKEN_PARAM,
	// TICKRING_REPORT_KEY_PARAM, TICKRING_SECRET_KEY_PARAM.
	Params Params
	// ReportURL is set by TICKRING_REPORT_URL: base URL for reports of HTTP calls, and for clients; empty: HTTP
	// calls cannot report results.
	ReportURL  string
	ReportZone *time.Location // TICKRING_REPORT_ZONE: time zone of the days in reports; default: UTC
	// RunURL is set by TICKRING_RUN_URL: URL of the web page for a run, which notifications link to (see
	// notification.CheckLink); empty: no link.
	RunURL string
	// Policy is set by TICKRING_ALLOW: private networks that executors may use. TICKRING_ALLOW_LOOPBACK=1 also
	// allows loopback addresses, for local emulators.
	Policy     safedial.Policy
	NoToken    bool          // TICKRING_ALLOW_NO_TOKEN=1: apps without a token accept executors that send no token
	Visibility time.Duration // TICKRING_VISIBILITY: visibility timeout of the queues of runs and checks; default: 25s
	Partitions int           // TICKRING_MAX_PARTITIONS: maximum number of partitions of the due index under load; default: 16
	Level      slog.Level    // TICKRING_LOG_LEVEL: the lowest level of log lines
	Function   string        // AWS_LAMBDA_FUNCTION_NAME: name of this function, with which the function invokes itself
	// Deployment is the name of the deployment that owns the tables: the Region and the name of the state table. A
	// copy or a replica has another name.
	Deployment string
	// Provider is the identity provider for console logins, from TICKRING_OIDC_ISSUER and the other variables of
	// oidc.Environment. The client secret is in the SSM parameter named by TICKRING_OIDC_CLIENT_SECRET_PARAM.
	// The zero value means no provider.
	Provider oidc.Settings
	// Canary is set by TICKRING_CANARY: address of the executor of the canary job, with which the deployment checks
	// itself; empty: no canary job.
	Canary string
	// Results is set by TICKRING_QUEUE_RESULTS: queue to which Lambda sends the results of functions; empty: the
	// functions report their results.
	Results string

	// Metrics writes the metrics of the deployment named in TICKRING_METRICS. Without this variable, no metrics
	// are written.
	Metrics *Metrics

	// Traces sends traces to the collector in OTEL_EXPORTER_OTLP_ENDPOINT; nil without this variable.
	Traces *traces.Traces

	// Functions sends runs to lambda: executors, and SQS sends runs to queue: executors. Open sets both fields.
	Functions send.Functions
	SQS       send.Queues
	Plan      plan.Options
	// Box encrypts stored secrets; nil: secrets are stored unencrypted. Open sets Box.
	Box *secretbox.Box

	admin, read, report, provider *secret // of Params; nil: none is named
}

// Params has the names of the SSM parameters that contain secrets. A parameter is read when its secret is first
// needed. Therefore the environment contains no secrets, and a function reads only the secrets that it needs.
type Params struct {
	AdminToken string // contains the admin token, instead of TICKRING_ADMIN_TOKEN
	ReadToken  string // contains the read-only token, instead of TICKRING_READ_TOKEN
	ReportKey  string // contains the key that signs the report URLs of HTTP calls
	Provider   string // contains the client secret at the identity provider
	// SecretKey contains the key that encrypts the secrets of apps, jobs and channels; empty: secrets are stored
	// unencrypted.
	SecretKey string
	// SecretKMS is set by TICKRING_SECRET_KEY_KMS: ARN of the KMS key that encrypts the parameters; empty: the
	// default key of the account.
	SecretKMS string
	// Create has the parameters that this function creates if a parameter is missing when it is read. The names
	// come from TICKRING_CREATE_PARAMS, separated by commas. The secret key is created last, so if the secret
	// key exists, the other parameters also exist.
	Create string
}

// Needs has the settings that a function requires.
type Needs struct {
	AdminToken bool
}

// Read reads and checks the environment. The error has the name of every variable that is missing or invalid.
func Read(getenv func(string) string, needs Needs) (Config, error) {
	c, e := Config{Plan: plan.AWS(), Function: getenv("AWS_LAMBDA_FUNCTION_NAME")}, &environment{get: getenv}
	c.readNames(e)
	c.readTokens(e, needs)
	c.readNetwork(e)
	c.readLimits(e)
	c.readLinks(e)
	c.Metrics = NewMetrics(getenv("TICKRING_METRICS"), os.Stdout)
	return c, errors.Join(e.errs...)
}

// environment has the variables, and an error for each one that is missing or invalid.
type environment struct {
	get  func(string) string
	errs []error
}

func (e *environment) wrong(format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf(format, args...))
}

func (e *environment) need(name string) string {
	value := e.get(name)
	if value == "" {
		e.wrong("%s is missing", name)
	}
	return value
}

// url checks that the value of a variable is empty or a URL.
func (e *environment) url(name, value, what string) string {
	u, err := url.Parse(value)
	if value != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		e.wrong("%s: %q is not %s", name, value, what)
	}
	return value
}

func (e *environment) flag(name string) bool {
	v := e.get(name)
	on := v == "1" || v == "true"
	if !on && v != "" && v != "0" && v != "false" {
		e.wrong("%s: %q; allowed values: 1, 0", name, v)
	}
	return on
}

func (c *Config) readNames(e *environment) {
	c.Names.Jobs, c.Names.Runs = e.need("TICKRING_TABLE_JOBS"), e.need("TICKRING_TABLE_RUNS")
	c.Names.State = e.need("TICKRING_TABLE_STATE")
	queue := func(name string) string { return e.url(name, e.need(name), "the URL of a queue") }
	c.Names.Fires, c.Names.Slow = queue("TICKRING_QUEUE_FIRES"), queue("TICKRING_QUEUE_SLOW")
	c.Names.Checks, c.Names.PostRun = queue("TICKRING_QUEUE_CHECKS"), queue("TICKRING_QUEUE_POSTRUN")
	c.Names.Dead = queue("TICKRING_QUEUE_DEAD")
	c.Results = e.url("TICKRING_QUEUE_RESULTS", e.get("TICKRING_QUEUE_RESULTS"), "the URL of a queue")
}

func (c *Config) readTokens(e *environment, needs Needs) {
	c.Params = Params{e.get("TICKRING_ADMIN_TOKEN_PARAM"), e.get("TICKRING_READ_TOKEN_PARAM"), e.get("TICKRING_REPORT_KEY_PARAM"),
		e.get("TICKRING_OIDC_CLIENT_SECRET_PARAM"), e.get("TICKRING_SECRET_KEY_PARAM"),
		e.get("TICKRING_SECRET_KEY_KMS"), e.get("TICKRING_CREATE_PARAMS")}
	token := func(name, param string) string {
		value := e.get(name)
		if value != "" && param != "" {
			e.wrong("%s and %s_PARAM: set only one of them", name, name)
		} else if value != "" {
			e.errs = append(e.errs, core.CheckToken(name, value))
		}
		return value
	}
	c.ReadToken = token("TICKRING_READ_TOKEN", c.Params.ReadToken)
	c.AdminToken = token("TICKRING_ADMIN_TOKEN", c.Params.AdminToken)
	if needs.AdminToken && c.AdminToken == "" && c.Params.AdminToken == "" {
		e.wrong("TICKRING_ADMIN_TOKEN is missing")
	}
}

func (c *Config) readNetwork(e *environment) {
	c.ReportURL = strings.TrimSuffix(e.url("TICKRING_REPORT_URL", e.get("TICKRING_REPORT_URL"), "an http or https URL"), "/")
	for text := range strings.FieldsFuncSeq(e.get("TICKRING_ALLOW"), func(r rune) bool { return r == ',' || r == ' ' }) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			e.wrong("TICKRING_ALLOW: %q is not a network such as 10.0.0.0/8", text)
			continue
		}
		c.Policy.Allow = append(c.Policy.Allow, p)
	}
	c.NoToken, c.Policy.AllowLoopback = e.flag("TICKRING_ALLOW_NO_TOKEN"), e.flag("TICKRING_ALLOW_LOOPBACK")
	if c.Policy.AllowLoopback && !standIn(e.get) { // on Lambda the function's runtime API is on loopback
		e.wrong("TICKRING_ALLOW_LOOPBACK is allowed only if the DynamoDB endpoint is on loopback (AWS_ENDPOINT_URL)")
	}
}

func (c *Config) readLimits(e *environment) {
	var err error
	text := e.get("TICKRING_VISIBILITY")
	if c.Visibility, err = time.ParseDuration(cmp.Or(text, "25s")); err != nil || c.Visibility < time.Second ||
		c.Visibility > 12*time.Hour || c.Visibility%time.Second != 0 {
		e.wrong("TICKRING_VISIBILITY: %q; allowed values: whole seconds from 1s to 12h", text)
	}
	text = cmp.Or(e.get("TICKRING_MAX_PARTITIONS"), "16")
	if c.Partitions, err = strconv.Atoi(text); err != nil || c.Partitions < 1 || c.Partitions > 256 || strconv.Itoa(c.Partitions) != text {
		e.wrong("TICKRING_MAX_PARTITIONS: %q; allowed values: 1 to 256", text)
	}
	if v := e.get("TICKRING_LOG_LEVEL"); v != "" && c.Level.UnmarshalText([]byte(v)) != nil {
		e.wrong("TICKRING_LOG_LEVEL: %q; allowed values: debug, info, warn, error", v)
	}
}

// readLinks reads the settings of links, reports and logins, and the canary job.
func (c *Config) readLinks(e *environment) {
	var err error
	if c.ReportZone, err = report.Zone(e.get("TICKRING_REPORT_ZONE")); err != nil {
		e.wrong("TICKRING_REPORT_ZONE: %w", err)
	}
	c.RunURL = e.get("TICKRING_RUN_URL")
	if err := notification.CheckLink(c.RunURL); err != nil {
		e.wrong("TICKRING_RUN_URL: %w", err)
	}
	if c.Provider = oidc.Environment(e.get); c.Provider.Set() || c.Params.Provider != "" {
		if c.Provider.Secret != "" {
			e.wrong("TICKRING_OIDC_CLIENT_SECRET is read from the parameter that TICKRING_OIDC_CLIENT_SECRET_PARAM names")
		}
		if err := c.Provider.Check(); err != nil {
			e.wrong("TICKRING_OIDC_…: %w", err)
		}
	}
	if c.Canary = e.get("TICKRING_CANARY"); c.Canary != "" && c.Params.SecretKey == "" {
		e.wrong("TICKRING_CANARY requires TICKRING_SECRET_KEY_PARAM")
	}
}

// standIn reports whether DynamoDB is an emulator on this machine.
func standIn(getenv func(string) string) bool {
	u, err := url.Parse(cmp.Or(getenv("AWS_ENDPOINT_URL_DYNAMODB"), getenv("AWS_ENDPOINT_URL")))
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// Assemble returns a wiring.Assembly, which creates the parts of a function on a store.
func (c *Config) Assemble(e *store.Store, log *slog.Logger) *wiring.Assembly {
	return wiring.New(e, wiring.Options{Plan: c.Plan, Log: ratelog.Of(log), Deployment: c.Deployment,
		AllowNoToken: func(context.Context) bool { return c.NoToken },
		Closed: func(r *core.Run) {
			c.Traces.Closed(r)
			if r.FailedForGood() {
				c.Metrics.Put(time.Now(), map[string]float64{Failed: 1})
			}
		}})
}

// Send returns the options with which a function sends runs to executors and queries executors.
func (c *Config) Send() send.Options {
	o := send.Options{Policy: c.Policy, ReportURL: c.Report(), Functions: c.Functions, SQS: c.SQS}
	if c.Signs() {
		o.ReportKey = c.ReportKey
	}
	return o
}

// Token returns the admin token of the API. It returns an error if the token cannot be read now.
func (c *Config) Token(ctx context.Context) (string, error) {
	if c.admin == nil {
		return c.AdminToken, nil
	}
	return c.admin.get(ctx)
}

// Tokens has the tokens of the API.
type Tokens struct {
	Admin string
	Read  string // the read-only token; empty: none
}

// Tokens returns the tokens of the API. It returns an error if a token cannot be read now.
func (c *Config) Tokens(ctx context.Context) (t Tokens, err error) {
	if t.Admin, err = c.Token(ctx); err != nil || c.read == nil {
		t.Read = c.ReadToken
		return t, err
	}
	t.Read, err = c.read.get(ctx)
	return t, err
}

// ProviderSecret returns the client secret at the identity provider; empty: no secret. If the secret cannot be read
// now, only logins through the provider fail.
func (c *Config) ProviderSecret(ctx context.Context) (string, error) {
	return c.provider.get(ctx)
}

// ReportKey returns the key that signs report URLs and the events of invoked functions. If no report key is set, the
// key is derived from the admin token. ReportKey returns an error if the key cannot be read now.
func (c *Config) ReportKey(ctx context.Context) ([]byte, error) {
	of := c.Token
	if c.report != nil {
		of = c.report.get
	}
	secret, err := of(ctx)
	if err != nil {
		return nil, err
	}
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("report"))
	return m.Sum(nil), nil
}

// Signs reports whether the configuration has a key that signs reports.
func (c *Config) Signs() bool { return c.report != nil || c.admin != nil || c.AdminToken != "" }

// Report returns the URL to which HTTP calls report results; empty if no key signs reports.
func (c *Config) Report() string {
	if !c.Signs() {
		return ""
	}
	return c.ReportURL
}

// secrets sets where the configured secrets are read; blank reports whether the tables have no records.
func (c *Config) secrets(params parameters, blank func(context.Context) (bool, error)) {
	create := creator(params, &c.Params, blank)
	named := func(name string, create func(context.Context) error) *secret {
		if name == "" {
			return nil
		}
		return newSecret(params, name, create)
	}
	c.admin, c.read, c.report = named(c.Params.AdminToken, create), named(c.Params.ReadToken, create), named(c.Params.ReportKey, create)
	if c.provider = named(c.Params.Provider, nil); c.provider != nil {
		c.provider.check = func(name, value string) error { // the provider decides its length
			if value == "" || len(value) > 2000 {
				return fmt.Errorf("%s has no secret of 1 to 2000 bytes", name)
			}
			return nil
		}
	}
	if name := c.Params.SecretKey; name != "" {
		c.Box = secretbox.New(core.Say("the parameter %s", name), func(ctx context.Context) (string, error) {
			s := newSecret(params, name, create) // not cached: a rotation changes it
			s.check = func(string, string) error { return nil }
			text, err := s.get(ctx)
			if errors.Is(err, errMissing) {
				err = core.Errorf(core.CodeRefused, "the parameter %s does not exist: functions create this parameter only "+
					"while the tables are empty; restore the parameter from your copy", name)
			} else if err != nil && ctx.Err() == nil && !passing(err) {
				err = core.Errorf(core.CodeRefused, "the secrets cannot be decrypted: %v", err)
			}
			return text, err
		}, func(ctx context.Context, text string) error {
			in := &ssm.PutParameterInput{Name: &name, Value: &text, Overwrite: aws.Bool(true), Type: types.ParameterTypeSecureString}
			if c.Params.SecretKMS != "" {
				in.KeyId = &c.Params.SecretKMS
			}
			_, err := params.PutParameter(ctx, in)
			return err
		})
	}
}

// Open reads the environment and creates the AWS clients. The variables of the AWS SDK also apply: region, credentials
// and AWS_ENDPOINT_URL.
func Open(ctx context.Context, needs Needs) (Config, aws.Config, *dynamo.Store, *slog.Logger, error) {
	c, err := Read(os.Getenv, needs)
	log := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: c.Level}))
	if err != nil {
		return c, aws.Config{}, nil, log, fmt.Errorf("configuration: %w", err)
	}
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return c, sdk, nil, log, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if sdk.Region == "" {
		return c, sdk, nil, log, errors.New("configuration: AWS_REGION is missing")
	}
	stored, sdk := Clients{}.Of(sdk)
	stored.APIOptions = append(stored.APIOptions, items.Throttled(c.Metrics.counter(TableThrottles)))
	var s *dynamo.Store
	if c.Params != (Params{}) {
		c.secrets(ssm.NewFromConfig(sdk), func(ctx context.Context) (bool, error) { return s.Blank(ctx) })
	}
	if s, err = dynamo.New(dynamodb.NewFromConfig(stored), sqs.NewFromConfig(stored),
		dynamo.Options{Names: c.Names, Visibility: c.Visibility, Secrets: c.Box}); err != nil {
		return c, sdk, nil, log, err
	}
	if c.Box != nil {
		soon, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if err := c.Box.Load(soon); err != nil { // callers that need a key read it again
			log.Error("secret key not read", "err", err)
		}
	}
	c.Deployment = sdk.Region + "/" + c.Names.State
	if c.Traces, err = traces.New(traces.Options{Salt: []byte(c.Deployment), Log: log, Count: c.Metrics.spans, Timeout: time.Second,
		Wrap: func(next http.RoundTripper) http.RoundTripper { return newXRay(sdk, next) }}); err != nil {
		return c, sdk, nil, log, fmt.Errorf("configuration: %w", err)
	}
	c.Functions, c.SQS = awssend.NewFunctions(lambda.NewFromConfig(sdk), cloudwatchlogs.NewFromConfig(sdk)),
		awssend.NewQueues(sqs.NewFromConfig(sdk), sdk.Region)
	return c, sdk, s, log, nil
}

// Start passes a handler to Lambda. If traces are enabled, the function sends its traces to the collector at the end
// of each invocation, within a time limit. Lambda freezes the function after the invocation.
func (c *Config) Start(handler any) {
	awslambda.Start(flushing(newFailing(awslambda.NewHandler(handler), c.Metrics, os.TempDir()), c.Traces))
}

// flushed is a handler that sends its traces after it has answered.
type flushed struct {
	awslambda.Handler
	traces *traces.Traces
}

func flushing(h awslambda.Handler, t *traces.Traces) awslambda.Handler {
	if t == nil {
		return h
	}
	return flushed{h, t}
}

func (f flushed) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	defer f.traces.Flush(ctx)
	return f.Handler.Invoke(ctx, payload)
}

// Must logs the error in one line and ends the process if err is not nil, because the function cannot start.
func Must(log *slog.Logger, err error) {
	if err != nil {
		log.Error("cannot start", "err", err.Error())
		NewMetrics(os.Getenv("TICKRING_METRICS"), os.Stdout).Put(time.Now(), map[string]float64{FunctionErrors: 1})
		os.Exit(1)
	}
}
