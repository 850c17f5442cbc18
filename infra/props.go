package infra

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"

	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/internal/oidc"
)

// Props of a Scheduler. The zero value is a working deployment: tables on demand, kept when the stack is deleted, a function
// URL, alarms, and a canary.
type Props struct {
	// Source is the directory of the Go module github.com/tickring/tickring, from which the functions are built. Empty:
	// where Go finds that module.
	Source string
	// Functions is a directory with functions built elsewhere, each <name>/bootstrap. Empty: the Go on this machine builds them.
	Functions string
	// Architecture of the functions; ARM_64 if nil.
	Architecture awslambda.Architecture
	// Memory of single functions in MB, by name.
	Memory map[string]float64

	// Tables names existing tables: tables that an earlier stack left with their data, or replicas. They stay outside the stack;
	// nil: it creates its own.
	Tables *Tables
	// Provisioned capacity of the tables and of the index; nil: on demand.
	Provisioned *Provisioned
	// WarmThroughput is the throughput for which the tables of jobs and of runs are prepared.
	WarmThroughput *Throughput
	// RecoverRuns turns point-in-time recovery on for the table of runs too.
	RecoverRuns bool
	// RemovalPolicy of the tables: RETAIN if empty.
	RemovalPolicy awscdk.RemovalPolicy
	// DeletionProtection of the tables: on if nil, off with RemovalPolicy DESTROY.
	DeletionProtection *bool
	// Replicas are other Regions that DynamoDB copies the tables to. A scheduler runs in one Region only: see Tables.
	Replicas []string
	// EncryptionKey of tables, queues, tokens and logs; nil: keys that AWS owns. Its policy must let CloudWatch Logs use it.
	EncryptionKey awskms.IKey

	// MaxPartitions is the maximum number of partitions of the index of due jobs under load: 16.
	MaxPartitions *float64
	// MaxConcurrency limits the concurrent invocations that send; nil: the account's limit. SlowConcurrency limits the invocations
	// for slow executors and for the post-run queue; nil: the account's limit if AccountConcurrency is at least 1000, a fifth of a
	// smaller one, 5 if it is not set. Each limit of a queue costs three more idle pollers, $0.16 a month.
	MaxConcurrency, SlowConcurrency *float64
	// LogRetentionDays is how long the functions' logs stay: 14.
	LogRetentionDays *float64
	// LogLevel of the functions' own lines: debug, info, warn, error; info if empty.
	LogLevel string
	// ReportZone is the time zone of the days in tickring report, such as Europe/Berlin; UTC if empty.
	ReportZone string

	// RunUrl is the URL of a run's page, with {run} for its number, such as https://jobs.example.com/runs/{run}: notifications link
	// to it. Empty: no links.
	RunUrl string

	// Allow names the private networks that executors may live in, as CIDRs.
	Allow []string
	// Invoke names Lambda functions as allowed executors, by ARN, including other accounts'. InvokeTag allows the functions of this
	// account and Region that have a tag.
	Invoke    []string
	InvokeTag *Tag
	// Queues names SQS queues that may be executors, by ARN.
	Queues []string
	// Topics names SNS topics that notifications may go to, by ARN.
	Topics []string
	// NoToken lets apps without a token accept executors without one, which then receive the params of jobs. The URL of a
	// deployment is public, so any client can be one: NoTokenPublic confirms that, and NoToken is rejected without it.
	NoToken, NoTokenPublic bool
	// ReadToken creates a second, read-only token of the API. Its parameter stays when this is unset.
	ReadToken bool

	// Oidc is the provider of logins to the console; nil: there is none.
	Oidc *Oidc

	// Vpc is the VPC of the functions that call executors; nil: none.
	Vpc            awsec2.IVpc
	Subnets        *awsec2.SubnetSelection
	SecurityGroups []awsec2.ISecurityGroup
	// VpcEndpoints creates the endpoints of the VPC that the functions need.
	VpcEndpoints bool

	// HttpApi puts an HTTP API in front of three functions, instead of one function with a URL. It costs $1 per million
	// requests, and has a throttle, access logs and a Domain, which implies it.
	HttpApi bool
	// Throttle of each path of the HTTP API; nil: as many requests a second as AccountConcurrency, at least 1,000, and twice as
	// many at once.
	Throttle *Throttle
	// EndpointConcurrency is the reserved concurrency of each function that is called over HTTP; 0: none, the account bounds
	// them. Nil: with an AccountConcurrency of at least 200, three twentieths of it for the function behind a function URL,
	// and one twentieth for each of the three functions behind an HTTP API; else 0, because AWS rejects a deployment whose
	// reservations leave less than 100 to other functions.
	EndpointConcurrency *float64
	// Domain of the HTTP API, which answers only under that name.
	Domain *Domain
	// PublicUrl is the URL of the scheduler for executors and users if it is not the stack's own URL: behind a proxy, or in an
	// emulator. {api} in it stands for the identifier of the HTTP API.
	PublicUrl string
	// AccessLogs makes the HTTP API log each request.
	AccessLogs bool

	// PermissionsBoundary of every role.
	PermissionsBoundary awsiam.IManagedPolicy

	// NoAlarms removes the alarms, NoCanary the canary.
	NoAlarms, NoCanary bool
	// AlarmTopic receives alarms; nil: they are only shown.
	AlarmTopic awssns.ITopic
	// AccountConcurrency is the maximum number of concurrent functions in the account. The limits of the endpoints and of
	// the slow queue follow it: 1000.
	AccountConcurrency *float64
	// InvocationsAlarm and WriteUnitsAlarm are the numbers per minute above which alarms fire: for function invocations of
	// the account, 60,000, and for writes to the table of runs, 120,000.
	InvocationsAlarm, WriteUnitsAlarm *float64
	// Budget sends an email when the costs of a month approach a limit; nil: none.
	Budget *Budget
	// XRay sends the spans of runs to AWS X-Ray. The account needs CloudWatch Transaction Search.
	XRay bool
	// Dashboard creates a CloudWatch dashboard.
	Dashboard bool

	// Environment is added to the environment of each function.
	Environment map[string]string
}

// Tables names tables of tickring.
type Tables struct{ Jobs, Runs, State string }

// Provisioned bounds the capacity of a table, which follows its use in between.
type Provisioned struct {
	MinRead, MaxRead, MinWrite, MaxWrite float64
}

// Budget is in dollars a month. AWS sends Email at 80 and 100 percent.
type Budget struct {
	Dollars float64
	Email   string
}

// Throughput is in units a second.
type Throughput struct{ Read, Write float64 }

// Throttle admits Rate requests a second, and Burst at once.
type Throttle struct{ Rate, Burst float64 }

// Oidc is a provider of OpenID Connect, such as a user pool of Cognito.
type Oidc struct {
	// Issuer of its tokens; ClientId is its ID of the console.
	Issuer, ClientId string
	// SecretParameter names an existing SSM parameter with the client's secret, a SecureString; empty: the client has none.
	SecretParameter string
	// Url is where browsers reach the deployment; empty: its Domain or PublicUrl. The stack's own URL is only known after
	// the deployment.
	Url string
	// Name is the provider's display name; Scopes are the requested scopes.
	Name   string
	Scopes []string
	// NameClaim is the claim with the user's name, preferred_username if empty. The values of RoleClaim map to roles by Roles:
	// devs=shop:editor, ops=admin.
	NameClaim, RoleClaim string
	Roles                []string
}

// settings returns the settings of the function that handles logins.
func (o *Oidc) settings(p *Props) oidc.Settings {
	s := oidc.Settings{Issuer: o.Issuer, ClientID: o.ClientId, URL: o.Url, Name: o.Name, Scopes: o.Scopes, NameClaim: o.NameClaim,
		RoleClaim: o.RoleClaim, Roles: o.Roles}
	switch {
	case s.URL != "":
	case p.PublicUrl != "":
		s.URL = p.PublicUrl
	case p.Domain != nil:
		s.URL = "https://" + p.Domain.Name
	}
	return s
}

type Tag struct{ Key, Value string }

type Domain struct {
	Name        string
	Certificate awscertificatemanager.ICertificate
	Zone        awsroute53.IHostedZone
}

// Limits of props.
const (
	maxPartitions  = 256
	minConcurrency = 2 // of an event source mapping
	unknownSlow    = 5.0
	maxConcurrency = 1000
	minMemory      = 128
	maxMemory      = 10240
	maxRate        = 10_000 // of all HTTP APIs of an account in a Region, by default
	maxBurst       = 5_000
	keptByAWS      = 100 // places of an account that cannot be reserved
	maxAlarm       = 1_000_000_000
	maxDollars     = 1_000_000
	maxReplicas    = 10
	maxAllow       = 100
	maxInvoke      = 100
)

var tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

var region = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$`)

var email = regexp.MustCompile(`^[^@\s]{1,64}@[^@\s]{1,185}$`)

var queueArn = regexp.MustCompile(`^arn:aws[a-z-]*:sqs:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,80}$`)

var topicArn = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$`)

var parameterName = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+){1,15}$`)

var functionArn = regexp.MustCompile(`^arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:function:[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9_-]+|:\$LATEST)?$`)

// Check returns an error with a sentence for each invalid value or combination.
func (p *Props) Check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	number := func(name string, v *float64, min, max float64) {
		if v != nil && (*v < min || *v > max || *v != float64(int(*v))) {
			fault("%s is %v: a whole number from %v to %v is allowed", name, *v, min, max)
		}
	}
	number("MaxPartitions", p.MaxPartitions, 1, maxPartitions)
	number("MaxConcurrency", p.MaxConcurrency, minConcurrency, maxConcurrency)
	number("SlowConcurrency", p.SlowConcurrency, minConcurrency, maxConcurrency)
	number("AccountConcurrency", p.AccountConcurrency, 1, 1_000_000)
	number("EndpointConcurrency", p.EndpointConcurrency, 0, 1_000_000)
	number("InvocationsAlarm", p.InvocationsAlarm, 1, maxAlarm)
	number("WriteUnitsAlarm", p.WriteUnitsAlarm, 1, maxAlarm)
	if b := p.Budget; b != nil && (b.Dollars < 1 || b.Dollars > maxDollars || !email.MatchString(b.Email)) {
		fault("Budget is %v dollars for %q: 1 to %d dollars and an email address are allowed", b.Dollars, b.Email, maxDollars)
	}
	for i, r := range p.Replicas {
		if !region.MatchString(r) || slices.Contains(p.Replicas[:i], r) {
			fault("Replicas: %q: not a Region such as eu-west-1, or named twice", r)
		}
	}
	if len(p.Replicas) > maxReplicas {
		fault("Replicas names %d Regions: at most %d are allowed", len(p.Replicas), maxReplicas)
	}
	if len(p.Replicas) > 0 && p.EncryptionKey != nil {
		fault("Replicas and EncryptionKey are both set: a replica needs a key of its own Region")
	}
	if d, a := p.EndpointConcurrency, p.AccountConcurrency; d != nil && a != nil && *d > 0 && *d*float64(len(p.doors()))+keptByAWS > *a {
		fault("EndpointConcurrency: %v for each of %s leaves less than %[4]v of AccountConcurrency %[3]v for others: AWS rejects this",
			*d, strings.Join(p.doors(), ", "), *a, keptByAWS)
	}
	if t := p.Throttle; t != nil {
		number("Throttle.Rate", &t.Rate, 1, maxRate)
		number("Throttle.Burst", &t.Burst, 1, maxBurst)
		if !p.httpApi() {
			fault("Throttle is set without HttpApi: a function URL has no throttle: use EndpointConcurrency")
		}
	}
	if v := p.LogRetentionDays; v != nil && !slices.Contains(retentions, *v) {
		fault("LogRetentionDays is %v: logs are kept for %s days", *v, strings.Trim(fmt.Sprint(retentions), "[]"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Memory)) {
		if !slices.Contains(functionNames, name) {
			fault("Memory: the function %q does not exist: allowed values: %s", name, strings.Join(functionNames, ", "))
		}
		number("Memory of "+name, new(p.Memory[name]), minMemory, maxMemory)
	}
	if p.Functions != "" && p.Source != "" {
		fault("Functions and Source are both set: set only one of them")
	}
	if v := p.ReportZone; v != "" {
		if _, err := time.LoadLocation(v); err != nil || v == "Local" {
			fault("ReportZone is %q: IANA names such as Europe/Berlin are allowed", v)
		}
	}
	if err := notification.CheckLink(p.RunUrl); err != nil && !isToken(p.RunUrl) {
		fault("RunUrl is %v", err)
	}
	if v := p.LogLevel; v != "" && !slices.Contains([]string{"debug", "info", "warn", "error"}, v) {
		fault("LogLevel is %q: debug, info, warn and error are allowed", v)
	}

	if t := p.Tables; t != nil {
		for _, name := range []string{t.Jobs, t.Runs, t.State} {
			if !isToken(name) && !tableName.MatchString(name) {
				fault("Tables: %q is not the name of a table: set the names of all three tables", name)
			}
		}
		if t.Jobs == t.Runs || t.Runs == t.State || t.Jobs == t.State {
			fault("Tables names a table twice: %s, %s, %s", t.Jobs, t.Runs, t.State)
		}
		if p.Provisioned != nil || p.WarmThroughput != nil || p.RecoverRuns || p.RemovalPolicy != "" ||
			p.DeletionProtection != nil || len(p.Replicas) > 0 {
			fault("Tables names existing tables, which keep their settings: remove the settings of tables")
		}
	}
	if c := p.Provisioned; c != nil {
		for _, r := range []struct {
			what     string
			min, max float64
		}{{"read", c.MinRead, c.MaxRead}, {"write", c.MinWrite, c.MaxWrite}} {
			if r.min < 1 || r.max < r.min {
				fault("Provisioned: %s capacity is from %v to %v: the minimum must be at least 1, and the maximum must not be below the minimum",
					r.what, r.min, r.max)
			}
		}
	}
	if w := p.WarmThroughput; w != nil && (w.Read < 1 || w.Write < 1) {
		fault("WarmThroughput is %v reads and %v writes a second: both are at least 1", w.Read, w.Write)
	}
	switch p.RemovalPolicy {
	case "", awscdk.RemovalPolicy_RETAIN, awscdk.RemovalPolicy_DESTROY, awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE:
	default:
		fault("RemovalPolicy is %s: RETAIN and DESTROY are allowed", p.RemovalPolicy)
	}
	if p.RemovalPolicy == awscdk.RemovalPolicy_DESTROY && p.DeletionProtection != nil && *p.DeletionProtection {
		fault("RemovalPolicy is DESTROY with DeletionProtection: a protected table cannot be deleted with its stack")
	}

	if len(p.Allow) > maxAllow {
		fault("Allow names %d networks: at most %d are allowed", len(p.Allow), maxAllow)
	}
	for _, text := range p.Allow {
		if n, err := netip.ParsePrefix(text); err != nil {
			fault("Allow: %q is not a network such as 10.0.0.0/8", text)
		} else if n != n.Masked() {
			fault("Allow: %q is an address in a network: the network is %s", text, n.Masked())
		}
	}
	if len(p.Invoke) > maxInvoke {
		fault("Invoke names %d functions: at most %d are allowed: use InvokeTag for more", len(p.Invoke), maxInvoke)
	}
	for _, arn := range p.Invoke {
		if !isToken(arn) && !functionArn.MatchString(arn) {
			fault("Invoke: %q is not a complete ARN of a Lambda function without *", arn)
		}
	}
	if len(p.Queues) > maxInvoke {
		fault("Queues names %d queues: at most %d are allowed", len(p.Queues), maxInvoke)
	}
	for _, arn := range p.Queues {
		if !isToken(arn) && !queueArn.MatchString(arn) {
			fault("Queues: %q is not a complete ARN of a standard SQS queue without *", arn)
		}
	}
	if len(p.Topics) > maxInvoke {
		fault("Topics names %d topics: at most %d are allowed", len(p.Topics), maxInvoke)
	}
	for _, arn := range p.Topics {
		if !isToken(arn) && !topicArn.MatchString(arn) {
			fault("Topics: %q is not a complete ARN of a standard SNS topic without *", arn)
		}
	}
	if t := p.InvokeTag; t != nil && (t.Key == "" || t.Value == "" || strings.ContainsAny(t.Key+t.Value, "*?${}")) {
		fault("InvokeTag is %q = %q: the key and the value are required, without * and ?", t.Key, t.Value)
	}

	if o := p.Oidc; o != nil {
		s := o.settings(p)
		for _, text := range []*string{&s.Issuer, &s.URL} {
			if isToken(*text) {
				*text = "https://known.when.deployed"
			}
		}
		if s.URL == "" || strings.Contains(s.URL, "{api}") {
			fault("Oidc has no Url: the provider redirects browsers to a URL that must be known before the deployment: " +
				"set Oidc.Url, Domain or PublicUrl")
		} else if err := s.Check(); err != nil {
			fault("Oidc: %v", err)
		}
		if strings.Contains(strings.Join(o.Roles, ""), ";") {
			fault("Oidc: Roles: %q: a value of the claim must not contain ;", o.Roles)
		}
		if v := o.SecretParameter; v != "" && !isToken(v) && !parameterName.MatchString(v) {
			fault("Oidc: SecretParameter: %q is not the name of an SSM parameter that begins with /", v)
		}
	}
	if p.NoToken != p.NoTokenPublic {
		if p.NoToken {
			fault("NoToken is set, and the URL is public: any client that finds it can take the runs of apps without a token. " +
				"NoTokenPublic confirms this")
		} else {
			fault("NoTokenPublic is set without NoToken, which it confirms")
		}
	}

	if p.Vpc == nil {
		if p.Subnets != nil || len(p.SecurityGroups) > 0 {
			fault("Subnets or SecurityGroups are set without Vpc: set Vpc")
		}
		if p.VpcEndpoints {
			fault("VpcEndpoints is set without Vpc: set Vpc")
		}
	} else if err := subnets(p); err != nil {
		errs = append(errs, err)
	}

	if !p.httpApi() && p.AccessLogs {
		fault("AccessLogs is set without HttpApi: a function URL writes no access logs")
	}
	if !p.httpApi() && strings.Contains(p.PublicUrl, "{api}") {
		fault("PublicUrl has {api} without HttpApi: set HttpApi, or write the URL in full")
	}
	if d := p.Domain; d != nil {
		if !regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$`).MatchString(d.Name) {
			fault("Domain is %q: not a domain name", d.Name)
		}
		if d.Certificate == nil {
			fault("Domain %s has no Certificate: an HTTP API with a domain name requires a certificate", d.Name)
		}
		if strings.Contains(p.PublicUrl, "{api}") {
			fault("Domain %s is set with {api} in PublicUrl: with a domain, the HTTP API has no other URL", d.Name)
		}
	}
	if text := p.PublicUrl; text != "" {
		u, err := url.Parse(strings.ReplaceAll(text, "{api}", "api"))
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			fault("PublicUrl is %q: expected an http or https URL without a query", text)
		}
	}
	if p.XRay && slices.ContainsFunc(slices.Collect(maps.Keys(p.Environment)), func(k string) bool {
		return strings.HasPrefix(k, "OTEL_EXPORTER_OTLP_")
	}) {
		fault("XRay is set with OTEL_EXPORTER_OTLP_… in Environment: spans go to one collector")
	}
	if p.NoAlarms && (p.InvocationsAlarm != nil || p.WriteUnitsAlarm != nil) {
		fault("InvocationsAlarm or WriteUnitsAlarm is set with NoAlarms: no alarm would use it")
	}
	if p.NoAlarms && p.AlarmTopic != nil {
		fault("NoAlarms is set with an AlarmTopic: no alarm would use it")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
		if slices.Contains(ours, name) {
			fault("Environment has %s: the construct sets this variable itself", name)
		}
	}
	return errors.Join(errs...)
}

// subnets checks that the VPC has the selected subnets: the CDK would stop with an unclear message.
func subnets(p *Props) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no subnets of Vpc match Subnets: %v", r)
		}
	}()
	if s := p.Vpc.SelectSubnets(p.Subnets); len(*s.SubnetIds) == 0 {
		return errors.New("no subnets of Vpc match Subnets")
	}
	return nil
}

// doors lists the functions that unknown clients can call.
func (p *Props) doors() []string {
	if p.httpApi() {
		return []string{"api", "callback", "registry"}
	}
	return []string{"api"}
}

func (p *Props) httpApi() bool { return p.HttpApi || p.Domain != nil }

// inClear reports whether requests to PublicUrl are sent unencrypted over a network.
func (p *Props) inClear() bool {
	u, err := url.Parse(p.PublicUrl)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err != nil || !ip.IsLoopback()
}

// account is how many functions may run at a time in the account.
func (p *Props) account() float64 {
	if p.AccountConcurrency == nil {
		return 1000
	}
	return *p.AccountConcurrency
}

// slow bounds the functions slow and post-run, which wait for slow executors. They could use up a small account, and one of which
// nothing is known may have 10.
func (p *Props) slow() *float64 {
	switch {
	case p.SlowConcurrency != nil || p.account() >= 1000 && p.AccountConcurrency != nil:
		return p.SlowConcurrency
	case p.AccountConcurrency == nil:
		return new(unknownSlow)
	}
	return new(max(minConcurrency, math.Floor(p.account()/5)))
}

// places returns the reserved concurrency of each endpoint function; nil: none. Without a known account concurrency it reserves
// none: in a new account, which has 10, any reservation fails.
func (p *Props) places() *float64 {
	switch n := p.EndpointConcurrency; {
	case n != nil && *n > 0:
		return n
	case n == nil && p.AccountConcurrency != nil && *p.AccountConcurrency >= 2*keptByAWS:
		return new(math.Floor(3 * *p.AccountConcurrency / 20 / float64(len(p.doors()))))
	}
	return nil
}

// throttle returns the throttle of each path. A request takes some milliseconds, so 1,000 a second need about ten functions, which
// a new account has.
func (p *Props) throttle() Throttle {
	if p.Throttle != nil {
		return *p.Throttle
	}
	return Throttle{Rate: max(1000, min(p.account(), maxRate)), Burst: max(2000, min(2*p.account(), maxBurst))}
}

func isToken(text string) bool { return *awscdk.Token_IsUnresolved(text) }

// retentions lists the values that CloudWatch Logs accepts.
var retentions = []float64{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
