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

// Props has the settings of a Scheduler. The zero value is a working deployment: on-demand tables, which are kept when
// the stack is deleted, a function URL, alarms, and a canary.
type Props struct {
	// Source is the directory of the Go module github.com/tickring/tickring, from which the functions are built.
	// If empty, the Go command finds the module.
	Source string
	// Functions is a directory with functions that were already built, each as <name>/bootstrap. If empty, the
	// Go installation of this machine builds the functions.
	Functions string
	// Architecture is the processor architecture of the functions; ARM_64 if nil.
	Architecture awslambda.Architecture
	// Memory maps the names of functions to their memory in MB. Functions that are not in the map get a default
	// size.
	Memory map[string]float64

	// Tables has the names of existing tables: tables that an earlier stack left behind, or replicas. These
	// tables do not belong to the stack. If nil, the stack creates its own tables.
	Tables *Tables
	// Provisioned is the provisioned capacity of the tables and of the index; nil means on-demand capacity.
	Provisioned *Provisioned
	// WarmThroughput is the throughput that AWS prepares for the tables of jobs and of runs in advance.
	WarmThroughput *Throughput
	// RecoverRuns turns on point-in-time recovery for the table of runs, in addition to the other tables.
	RecoverRuns bool
	// RemovalPolicy is the removal policy of the tables; RETAIN if empty.
	RemovalPolicy awscdk.RemovalPolicy
	// DeletionProtection is the deletion protection of the tables. If nil, the protection is on, unless
	// RemovalPolicy is DESTROY.
	DeletionProtection *bool
	// Replicas has further Regions to which DynamoDB copies the tables. A scheduler runs in only one Region: see
	// Tables.
	Replicas []string
	// EncryptionKey encrypts tables, queues, tokens and logs; nil means keys that AWS owns. The key policy must
	// allow CloudWatch Logs to use the key.
	EncryptionKey awskms.IKey

	// MaxPartitions is the maximum number of partitions of the index of due jobs under load; 16 if nil.
	MaxPartitions *float64
	// MaxConcurrency limits the concurrent function invocations that send runs; nil means the limit of the
	// account. SlowConcurrency limits the invocations for slow executors and for the post-run queue. If
	// SlowConcurrency is nil, the default depends on AccountConcurrency: 5 if it is not set, a fifth of a value
	// below 1000, or else the limit of the account. A limit on a queue adds three idle pollers, which cost $0.16
	// a month.
	MaxConcurrency, SlowConcurrency *float64
	// LogRetentionDays is the number of days for which the logs of the functions are kept; 14 if nil.
	LogRetentionDays *float64
	// LogLevel is the lowest level of the functions' log lines: debug, info, warn or error; info if empty.
	LogLevel string
	// ReportZone is the time zone of the days in `tickring report`, such as Europe/Berlin; UTC if empty.
	ReportZone string

	// RunUrl is the URL of the web page for a run, such as https://jobs.example.com/runs/{run}. The ID of the
	// run replaces {run}. Notifications link to this page; if RunUrl is empty, they have no link.
	RunUrl string

	// Allow has the private networks that executors may use, as CIDRs.
	Allow []string
	// Invoke has the ARNs of Lambda functions that may be executors, in this account or in other accounts.
	// InvokeTag also allows the functions of this account and Region that have this tag.
	Invoke    []string
	InvokeTag *Tag
	// Queues has the ARNs of SQS queues that may be executors.
	Queues []string
	// Topics has the ARNs of SNS topics that notifications may be sent to.
	Topics []string
	// NoToken allows apps without a token to accept executors that send no token. These executors receive the
	// params of jobs. The URL of a deployment is public, so any client can then register as an executor. Set
	// NoTokenPublic to confirm this risk; without NoTokenPublic, NoToken is rejected.
	NoToken, NoTokenPublic bool
	// ReadToken creates a second token of the API, which is read-only. If you later unset ReadToken, the SSM
	// parameter of the token is kept.
	ReadToken bool

	// Oidc is the identity provider for logins to the console; nil means no provider.
	Oidc *Oidc

	// Vpc is the VPC of the functions that call executors; nil means no VPC.
	Vpc            awsec2.IVpc
	Subnets        *awsec2.SubnetSelection
	SecurityGroups []awsec2.ISecurityGroup
	// VpcEndpoints creates the VPC endpoints that the functions need.
	VpcEndpoints bool

	// HttpApi puts an HTTP API in front of three functions. Without HttpApi, one function has a function URL.
	// The HTTP API costs $1 per million requests, and has a throttle, access logs and a Domain. Setting Domain
	// also sets HttpApi.
	HttpApi bool
	// Throttle limits the requests to each path of the HTTP API. If nil, Rate is AccountConcurrency, at least
	// 1,000, and Burst is twice Rate.
	Throttle *Throttle
	// EndpointConcurrency is the reserved concurrency of each function that is called over HTTP. 0 means no
	// reservation, so only the account limits the functions. If nil, the default depends on AccountConcurrency.
	// Below 200 or without AccountConcurrency, the default is 0, because AWS rejects reservations that leave
	// less than 100 to other functions. From 200 on, the function behind a function URL gets 15 percent of
	// AccountConcurrency. Each of the three functions behind an HTTP API gets 5 percent.
	EndpointConcurrency *float64
	// Domain is the domain name of the HTTP API. The HTTP API then answers only requests to this name.
	Domain *Domain
	// PublicUrl is the URL of the scheduler for executors and users. Set PublicUrl if they do not use the
	// stack's own URL, for example because of a proxy or an emulator. {api} stands for the identifier of the
	// HTTP API.
	PublicUrl string
	// AccessLogs turns on a log of each request to the HTTP API.
	AccessLogs bool

	// PermissionsBoundary is the permissions boundary of every IAM role in the stack.
	PermissionsBoundary awsiam.IManagedPolicy

	// NoAlarms leaves out the alarms. NoCanary leaves out the canary.
	NoAlarms, NoCanary bool
	// AlarmTopic is the SNS topic that receives alarms. If nil, alarms are only shown in CloudWatch.
	AlarmTopic awssns.ITopic
	// AccountConcurrency is the maximum number of concurrent function invocations in the account; 1000 if nil.
	// The default limits of the endpoints and of the slow queue depend on this number.
	AccountConcurrency *float64
	// InvocationsAlarm and WriteUnitsAlarm are numbers per minute above which an alarm fires. InvocationsAlarm
	// counts function invocations of the account; 60,000 if nil. WriteUnitsAlarm counts write units of the table
	// of runs; 120,000 if nil.
	InvocationsAlarm, WriteUnitsAlarm *float64
	// Budget sends an email when the costs of a month approach a limit; nil means no budget.
	Budget *Budget
	// XRay sends the traces of runs to AWS X-Ray. The account needs CloudWatch Transaction Search.
	XRay bool
	// Dashboard creates a CloudWatch dashboard.
	Dashboard bool

	// Environment has environment variables that are added to each function.
	Environment map[string]string
}

// Tables has the names of tickring's three tables.
type Tables struct{ Jobs, Runs, State string }

// Provisioned limits the provisioned capacity of a table. Between these limits, the capacity follows the use of the
// table.
type Provisioned struct {
	MinRead, MaxRead, MinWrite, MaxWrite float64
}

// Budget is a monthly cost limit in US dollars. AWS sends an email to the address Email at 80 and 100 percent of the
// limit.
type Budget struct {
	Dollars float64
	Email   string
}

// Throughput is a number of read and write units for each second.
type Throughput struct{ Read, Write float64 }

// Throttle limits HTTP requests. Rate is the number of requests in each second. Burst is the number of requests at
// once.
type Throttle struct{ Rate, Burst float64 }

// Oidc is an OpenID Connect identity provider, such as a Cognito user pool.
type Oidc struct {
	// Issuer is the issuer URL in the provider's tokens. ClientId is the ID of the console at the provider.
	Issuer, ClientId string
	// SecretParameter is the name of an existing SSM parameter of type SecureString with the client secret.
	// Leave SecretParameter empty if the client has no secret.
	SecretParameter string
	// Url is the URL at which browsers reach the deployment. If empty, Domain or PublicUrl applies. The stack's
	// own URL cannot be the default, because it is only known after the deployment.
	Url string
	// Name is the provider's display name. Scopes are the OpenID Connect scopes that the console requests.
	Name   string
	Scopes []string
	// NameClaim is the claim with the user's name; preferred_username if empty. RoleClaim is the claim with the
	// user's groups. Roles maps values of RoleClaim to roles, such as devs=shop:editor or ops=admin.
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

var (
	tableName     = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)
	region        = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$`)
	email         = regexp.MustCompile(`^[^@\s]{1,64}@[^@\s]{1,185}$`)
	domainName    = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$`)
	parameterName = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+){1,15}$`)
	queueArn      = regexp.MustCompile(`^arn:aws[a-z-]*:sqs:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,80}$`)
	topicArn      = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$`)
	functionArn   = regexp.MustCompile(
		`^arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:function:[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9_-]+|:\$LATEST)?$`)
)

// Check returns an error with one sentence for each invalid value or combination of props.
func (p *Props) Check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	number := func(name string, v *float64, min, max float64) {
		if v != nil && (*v < min || *v > max || *v != float64(int(*v))) {
			fault("%s is %v: a whole number from %v to %v is allowed", name, *v, min, max)
		}
	}
	// when adds a fault if the condition is true.
	when := func(condition bool, format string, args ...any) {
		if condition {
			fault(format, args...)
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
		when(!region.MatchString(r) || slices.Contains(p.Replicas[:i], r), "Replicas: %q: not a Region such as eu-west-1, or named twice", r)
	}
	when(len(p.Replicas) > maxReplicas, "Replicas names %d Regions: at most %d are allowed", len(p.Replicas), maxReplicas)
	when(len(p.Replicas) > 0 && p.EncryptionKey != nil,
		"Replicas and EncryptionKey are both set: a replica needs a key of its own Region")
	if d, a := p.EndpointConcurrency, p.AccountConcurrency; d != nil && a != nil && *d > 0 && *d*float64(len(p.doors()))+keptByAWS > *a {
		fault("EndpointConcurrency: %v for each of %s leaves less than %[4]v of AccountConcurrency %[3]v for others: AWS rejects this",
			*d, strings.Join(p.doors(), ", "), *a, keptByAWS)
	}
	if t := p.Throttle; t != nil {
		number("Throttle.Rate", &t.Rate, 1, maxRate)
		number("Throttle.Burst", &t.Burst, 1, maxBurst)
		when(!p.httpApi(), "Throttle is set without HttpApi: a function URL has no throttle: use EndpointConcurrency")
	}
	if v := p.LogRetentionDays; v != nil && !slices.Contains(retentions, *v) {
		fault("LogRetentionDays is %v: logs are kept for %s days", *v, strings.Trim(fmt.Sprint(retentions), "[]"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Memory)) {
		when(!slices.Contains(functionNames, name),
			"Memory: the function %q does not exist: allowed values: %s", name, strings.Join(functionNames, ", "))
		number("Memory of "+name, new(p.Memory[name]), minMemory, maxMemory)
	}
	when(p.Functions != "" && p.Source != "", "Functions and Source are both set: set only one of them")
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
			when(!isToken(name) && !tableName.MatchString(name),
				"Tables: %q is not the name of a table: set the names of all three tables", name)
		}
		when(t.Jobs == t.Runs || t.Runs == t.State || t.Jobs == t.State,
			"Tables names a table twice: %s, %s, %s", t.Jobs, t.Runs, t.State)
		when(p.Provisioned != nil || p.WarmThroughput != nil || p.RecoverRuns || p.RemovalPolicy != "" ||
			p.DeletionProtection != nil || len(p.Replicas) > 0,
			"Tables names existing tables, which keep their settings: remove the settings of tables")
	}
	if c := p.Provisioned; c != nil {
		capacity := func(what string, min, max float64) {
			when(min < 1 || max < min,
				"Provisioned: %s capacity is from %v to %v: the minimum must be at least 1, and the maximum must not be below the minimum",
				what, min, max)
		}
		capacity("read", c.MinRead, c.MaxRead)
		capacity("write", c.MinWrite, c.MaxWrite)
	}
	if w := p.WarmThroughput; w != nil && (w.Read < 1 || w.Write < 1) {
		fault("WarmThroughput is %v reads and %v writes a second: both are at least 1", w.Read, w.Write)
	}
	when(!slices.Contains([]awscdk.RemovalPolicy{"", awscdk.RemovalPolicy_RETAIN, awscdk.RemovalPolicy_DESTROY,
		awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE}, p.RemovalPolicy),
		"RemovalPolicy is %s: RETAIN and DESTROY are allowed", p.RemovalPolicy)
	when(p.RemovalPolicy == awscdk.RemovalPolicy_DESTROY && p.DeletionProtection != nil && *p.DeletionProtection,
		"RemovalPolicy is DESTROY with DeletionProtection: a protected table cannot be deleted with its stack")

	when(len(p.Allow) > maxAllow, "Allow names %d networks: at most %d are allowed", len(p.Allow), maxAllow)
	for _, text := range p.Allow {
		if n, err := netip.ParsePrefix(text); err != nil {
			fault("Allow: %q is not a network such as 10.0.0.0/8", text)
		} else if n != n.Masked() {
			fault("Allow: %q is an address in a network: the network is %s", text, n.Masked())
		}
	}
	for _, list := range []struct {
		name   string
		arns   []string
		form   *regexp.Regexp
		of     string // what an ARN names
		plural string
		more   string // how to name more than the maximum
	}{
		{"Invoke", p.Invoke, functionArn, "Lambda function", "functions", ": use InvokeTag for more"},
		{"Queues", p.Queues, queueArn, "standard SQS queue", "queues", ""},
		{"Topics", p.Topics, topicArn, "standard SNS topic", "topics", ""},
	} {
		when(len(list.arns) > maxInvoke, "%s names %d %s: at most %d are allowed%s", list.name, len(list.arns), list.plural, maxInvoke, list.more)
		for _, arn := range list.arns {
			when(!isToken(arn) && !list.form.MatchString(arn), "%s: %q is not a complete ARN of a %s without *", list.name, arn, list.of)
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
		when(strings.Contains(strings.Join(o.Roles, ""), ";"), "Oidc: Roles: %q: a value of the claim must not contain ;", o.Roles)
		v := o.SecretParameter
		when(v != "" && !isToken(v) && !parameterName.MatchString(v),
			"Oidc: SecretParameter: %q is not the name of an SSM parameter that begins with /", v)
	}
	when(p.NoToken && !p.NoTokenPublic, "NoToken is set, and the URL is public: any client that finds it can take the runs of apps "+
		"without a token. NoTokenPublic confirms this")
	when(p.NoTokenPublic && !p.NoToken, "NoTokenPublic is set without NoToken, which it confirms")

	if p.Vpc == nil {
		when(p.Subnets != nil || len(p.SecurityGroups) > 0, "Subnets or SecurityGroups are set without Vpc: set Vpc")
		when(p.VpcEndpoints, "VpcEndpoints is set without Vpc: set Vpc")
	} else if err := subnets(p); err != nil {
		errs = append(errs, err)
	}

	when(!p.httpApi() && p.AccessLogs, "AccessLogs is set without HttpApi: a function URL writes no access logs")
	when(!p.httpApi() && strings.Contains(p.PublicUrl, "{api}"),
		"PublicUrl has {api} without HttpApi: set HttpApi, or write the URL in full")
	if d := p.Domain; d != nil {
		when(!domainName.MatchString(d.Name), "Domain is %q: not a domain name", d.Name)
		when(d.Certificate == nil, "Domain %s has no Certificate: an HTTP API with a domain name requires a certificate", d.Name)
		when(strings.Contains(p.PublicUrl, "{api}"),
			"Domain %s is set with {api} in PublicUrl: with a domain, the HTTP API has no other URL", d.Name)
	}
	if text := p.PublicUrl; text != "" {
		u, err := url.Parse(strings.ReplaceAll(text, "{api}", "api"))
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			fault("PublicUrl is %q: expected an http or https URL without a query", text)
		}
	}
	names := slices.Sorted(maps.Keys(p.Environment))
	when(p.XRay && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") }),
		"XRay is set with OTEL_EXPORTER_OTLP_… in Environment: spans go to one collector")
	when(p.NoAlarms && (p.InvocationsAlarm != nil || p.WriteUnitsAlarm != nil),
		"InvocationsAlarm or WriteUnitsAlarm is set with NoAlarms: no alarm would use it")
	when(p.NoAlarms && p.AlarmTopic != nil, "NoAlarms is set with an AlarmTopic: no alarm would use it")
	for _, name := range names {
		when(slices.Contains(ours, name), "Environment has %s: the construct sets this variable itself", name)
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
