package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
)

// prefix of the context that is ours: cdk deploy -c tickring:allow=10.0.0.0/8
const prefix = "tickring:"

// settings holds the values that a user can set.
type settings struct {
	name  string
	props infra.Props
	// Names of existing resources, from which a stack makes references.
	vpc, subnets, groups, key, boundary, topic string
	domain, certificate, zone, zoneName        string
	emulator, httpApiSet                       bool
	tags                                       map[string]string
}

type setting struct {
	key, takes string
	set        func(s *settings, v string) error
}

func text(into func(*settings) *string) func(*settings, string) error {
	return func(s *settings, v string) error { *into(s) = v; return nil }
}

func flag(into func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return errors.New("allowed values: true and false")
		}
		*into(s) = b
		return nil
	}
}

func number(into func(*settings) **float64) func(*settings, string) error {
	return func(s *settings, v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return errors.New("a number is allowed")
		}
		*into(s) = &f
		return nil
	}
}

func list(into func(*settings) *[]string) func(*settings, string) error {
	return func(s *settings, v string) error { *into(s) = split(v); return nil }
}

// provider returns the identity provider, with the values set so far.
func (s *settings) provider() *infra.Oidc {
	if s.props.Oidc == nil {
		s.props.Oidc = &infra.Oidc{}
	}
	return s.props.Oidc
}

func split(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
}

// pairs reads KEY=VALUE,KEY=VALUE; like is an example for the error.
func pairs(v, like string) (map[string]string, error) {
	list := map[string]string{}
	for _, t := range split(v) {
		k, v, found := strings.Cut(t, "=")
		if !found || k == "" {
			return nil, fmt.Errorf("%q: expected a value such as %s", t, like)
		}
		list[k] = v
	}
	return list, nil
}

// maxTags is how many tags a resource may have on AWS (50), less the tag tickring of each resource.
const maxTags = 49

// tagKey and tagValue are the characters and lengths that AWS allows. CloudFormation rejects an empty value of a stack's tag; a space
// ends a value of this setting.
var (
	tagKey   = regexp.MustCompile(`^[\p{L}\p{N}_.:/=+@-]{1,128}$`)
	tagValue = regexp.MustCompile(`^[\p{L}\p{N}_.:/=+@-]{1,256}$`)
)

// checkTags rejects tags that fail a deployment halfway.
func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("%d tags: at most %d are allowed", len(tags), maxTags)
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		switch v := tags[k]; {
		case !tagKey.MatchString(k) || !tagValue.MatchString(v):
			return fmt.Errorf("%.140q=%.280q: a key of 1 to 128 and a value of 1 to 256 letters, digits and _ . : / = + - @ are allowed",
				k, v)
		case strings.HasPrefix(strings.ToLower(k), "aws:") || strings.HasPrefix(strings.ToLower(v), "aws:"):
			return fmt.Errorf("%q=%q: the prefix aws: is reserved by AWS", k, v)
		case k == "tickring":
			return fmt.Errorf("%q: each resource has this tag already: choose another key", k)
		}
	}
	return nil
}

func numbers(v string, n int) ([]float64, error) {
	var out []float64
	for _, t := range split(v) {
		f, err := strconv.ParseFloat(t, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", t)
		}
		out = append(out, f)
	}
	if len(out) != n {
		return nil, fmt.Errorf("expected %d numbers", n)
	}
	return out, nil
}

var all = []setting{
	{"name", "stack name", text(func(s *settings) *string { return &s.name })},
	{"emulator", "true: deploy to an emulator of AWS; never set it for an account", flag(func(s *settings) *bool { return &s.emulator })},
	{"functions", "directory of compiled functions, each NAME/bootstrap", text(func(s *settings) *string { return &s.props.Functions })},
	{"source", "directory of tickring's source code", text(func(s *settings) *string { return &s.props.Source })},
	{"architecture", "arm64 or x86_64", func(s *settings, v string) error {
		switch v {
		case "arm64":
			s.props.Architecture = awslambda.Architecture_ARM_64()
		case "x86_64":
			s.props.Architecture = awslambda.Architecture_X86_64()
		default:
			return errors.New("allowed values: arm64 and x86_64")
		}
		return nil
	}},
	{"memory", "MB for each function, 128 to 10240: dispatch=512,api=256", func(s *settings, v string) error {
		s.props.Memory = map[string]float64{}
		for _, t := range split(v) {
			name, mb, _ := strings.Cut(t, "=")
			f, err := strconv.ParseFloat(mb, 64)
			if err != nil {
				return fmt.Errorf("%q: expected a value such as dispatch=512", t)
			}
			s.props.Memory[name] = f
		}
		return nil
	}},
	{"tables", "names of existing tables of jobs, runs and state, in this order", func(s *settings, v string) error {
		names := split(v)
		if len(names) != 3 {
			return errors.New("expected three names: of the tables of jobs, runs and state")
		}
		s.props.Tables = &infra.Tables{Jobs: names[0], Runs: names[1], State: names[2]}
		return nil
	}},
	{"provisioned", "minimum and maximum read units, minimum and maximum write units, of each table and of the index: 1,100,5,200",
		func(s *settings, v string) error {
			n, err := numbers(v, 4)
			if err == nil {
				s.props.Provisioned = &infra.Provisioned{MinRead: n[0], MaxRead: n[1], MinWrite: n[2], MaxWrite: n[3]}
			}
			return err
		}},
	{"warmThroughput", "reads and writes per second that new tables accept at once: 24000,8000", func(s *settings, v string) error {
		n, err := numbers(v, 2)
		if err == nil {
			s.props.WarmThroughput = &infra.Throughput{Read: n[0], Write: n[1]}
		}
		return err
	}},
	{"recoverRuns", "true: point-in-time recovery also for the table of runs",
		flag(func(s *settings) *bool { return &s.props.RecoverRuns })},
	{"removalPolicy", "retain or destroy: keep or delete the tables with the stack", func(s *settings, v string) error {
		switch v {
		case "retain":
			s.props.RemovalPolicy = awscdk.RemovalPolicy_RETAIN
		case "destroy":
			s.props.RemovalPolicy = awscdk.RemovalPolicy_DESTROY
		default:
			return errors.New("allowed values: retain and destroy")
		}
		return nil
	}},
	{"deletionProtection", "true or false: protect the tables against deletion", func(s *settings, v string) error {
		s.props.DeletionProtection = new(bool)
		return flag(func(s *settings) *bool { return s.props.DeletionProtection })(s, v)
	}},
	{"replicas", "other Regions that DynamoDB copies the tables to, at most 10: eu-west-1,us-east-2",
		list(func(s *settings) *[]string { return &s.props.Replicas })},
	{"key", "ARN of a KMS key", text(func(s *settings) *string { return &s.key })},
	{"maxPartitions", "maximum number of partitions of the index of due jobs, 1 to 256",
		number(func(s *settings) **float64 { return &s.props.MaxPartitions })},
	{"maxConcurrency", "maximum concurrency of `dispatch` for each of its two queues, 2 to 1000",
		number(func(s *settings) **float64 { return &s.props.MaxConcurrency })},
	{"logRetentionDays", "days that CloudWatch keeps the functions' logs, such as 30",
		number(func(s *settings) **float64 { return &s.props.LogRetentionDays })},
	{"reportZone", "time zone of days in reports: Europe/Berlin", text(func(s *settings) *string { return &s.props.ReportZone })},
	{"runUrl", "link to a run in notifications: https://jobs.example.com/runs/{run}",
		text(func(s *settings) *string { return &s.props.RunUrl })},
	{"logLevel", "debug, info, warn or error", text(func(s *settings) *string { return &s.props.LogLevel })},
	{"allow", "private networks of executors, at most 100: 10.0.0.0/8,192.168.0.0/16",
		list(func(s *settings) *[]string { return &s.props.Allow })},
	{"invoke", "ARNs of Lambda functions that can be executors, at most 100", list(func(s *settings) *[]string { return &s.props.Invoke })},
	{"slowConcurrency", "maximum concurrency of `slow` and of `postrun`, 2 to 1000",
		number(func(s *settings) **float64 { return &s.props.SlowConcurrency })},
	{"queues", "ARNs of standard SQS queues that can be executors, at most 100",
		list(func(s *settings) *[]string { return &s.props.Queues })},
	{"topics", "ARNs of standard SNS topics for notifications, at most 100", list(func(s *settings) *[]string { return &s.props.Topics })},
	{"invokeTag", "tag of Lambda functions that can be executors: tickring=yes", func(s *settings, v string) error {
		k, v, _ := strings.Cut(v, "=")
		s.props.InvokeTag = &infra.Tag{Key: k, Value: v}
		return nil
	}},
	{"noToken", "true: an app without a token accepts executors without a token; requires `noTokenPublic`",
		flag(func(s *settings) *bool { return &s.props.NoToken })},
	{"noTokenPublic", "true: confirms that any client that knows the URL can be an executor of these apps",
		flag(func(s *settings) *bool { return &s.props.NoTokenPublic })},
	{"readToken", "true: create a read token", flag(func(s *settings) *bool { return &s.props.ReadToken })},
	{"oidcIssuer", "issuer URL of an OpenID Connect provider for logins to the console",
		text(func(s *settings) *string { return &s.provider().Issuer })},
	{"oidcClientId", "client ID of the console at the provider", text(func(s *settings) *string { return &s.provider().ClientId })},
	{"oidcSecretParameter", "name of the SSM parameter with the client secret: /oidc/tickring-client",
		text(func(s *settings) *string { return &s.provider().SecretParameter })},
	{"oidcUrl", "URL of the console in browsers",
		text(func(s *settings) *string { return &s.provider().Url })},
	{"oidcName", "name of the provider on the login page", text(func(s *settings) *string { return &s.provider().Name })},
	{"oidcScopes", "scopes to request: openid,profile", list(func(s *settings) *[]string { return &s.provider().Scopes })},
	{"oidcNameClaim", "claim that contains the user name",
		text(func(s *settings) *string { return &s.provider().NameClaim })},
	{"oidcRoleClaim", "claim that gives roles", text(func(s *settings) *string { return &s.provider().RoleClaim })},
	{"oidcRoles", "roles for each value of that claim, separated by ;: devs=shop:editor;ops=admin", func(s *settings, v string) error {
		s.provider().Roles = strings.Split(v, ";")
		return nil
	}},
	{"vpc", "ID of a VPC", text(func(s *settings) *string { return &s.vpc })},
	{"subnets", "IDs of subnets", text(func(s *settings) *string { return &s.subnets })},
	{"securityGroups", "IDs of security groups", text(func(s *settings) *string { return &s.groups })},
	{"vpcEndpoints", "true: create the VPC endpoints that the functions need",
		flag(func(s *settings) *bool { return &s.props.VpcEndpoints })},
	{"httpApi", "true: an HTTP API; false: a function URL",
		func(s *settings, v string) error {
			s.httpApiSet = true
			return flag(func(s *settings) *bool { return &s.props.HttpApi })(s, v)
		}},
	{"throttle", "requests per second and burst for each path of the HTTP API: 1000,2000", func(s *settings, v string) error {
		n, err := numbers(v, 2)
		if err == nil {
			s.props.Throttle = &infra.Throttle{Rate: n[0], Burst: n[1]}
		}
		return err
	}},
	{"endpointConcurrency", "reserved concurrency of each function that serves HTTP requests; 0: none",
		number(func(s *settings) **float64 { return &s.props.EndpointConcurrency })},
	{"domain", "domain name of the HTTP API: jobs.example.com", text(func(s *settings) *string { return &s.domain })},
	{"certificate", "ARN of the certificate of the domain", text(func(s *settings) *string { return &s.certificate })},
	{"zone", "ID of the Route 53 hosted zone of the domain", text(func(s *settings) *string { return &s.zone })},
	{"zoneName", "name of the hosted zone: example.com", text(func(s *settings) *string { return &s.zoneName })},
	{"publicUrl", "URL of the deployment behind your own proxy", text(func(s *settings) *string { return &s.props.PublicUrl })},
	{"accessLogs", "true: the HTTP API logs each request", flag(func(s *settings) *bool { return &s.props.AccessLogs })},
	{"permissionsBoundary", "ARN of a managed policy for every role", text(func(s *settings) *string { return &s.boundary })},
	{"alarms", "true or false", negated(func(s *settings) *bool { return &s.props.NoAlarms })},
	{"canary", "true or false", negated(func(s *settings) *bool { return &s.props.NoCanary })},
	{"alarmTopic", "ARN of an SNS topic for alarms", text(func(s *settings) *string { return &s.topic })},
	{"accountConcurrency", "concurrency limit of the account",
		number(func(s *settings) **float64 { return &s.props.AccountConcurrency })},
	{"invocationsAlarm", "function invocations per minute in the account above which an alarm is raised",
		number(func(s *settings) **float64 { return &s.props.InvocationsAlarm })},
	{"writeUnitsAlarm", "write units per minute of the table of runs above which an alarm is raised",
		number(func(s *settings) **float64 { return &s.props.WriteUnitsAlarm })},
	{"budget", "dollars per month, and an email address to notify at 80 and 100 percent: 50,ops@example.com",
		func(s *settings, v string) error {
			dollars, email, _ := strings.Cut(v, ",")
			f, err := strconv.ParseFloat(dollars, 64)
			if err != nil || email == "" {
				return errors.New("expected a value such as 50,ops@example.com")
			}
			s.props.Budget = &infra.Budget{Dollars: f, Email: email}
			return nil
		}},
	{"tags", "tags for all resources, at most 49: team=payments,env=prod", func(s *settings, v string) (err error) {
		if s.tags, err = pairs(v, "team=payments"); err == nil {
			err = checkTags(s.tags)
		}
		return err
	}},
	{"xray", "true: send traces of runs to AWS X-Ray", flag(func(s *settings) *bool { return &s.props.XRay })},
	{"dashboard", "true or false", flag(func(s *settings) *bool { return &s.props.Dashboard })},
	{"environment", "additional environment variables of the functions: NAME=value,NAME=value", func(s *settings, v string) (err error) {
		s.props.Environment, err = pairs(v, "NAME=value")
		return err
	}},
}

// negated is a flag that is kept as its contrary.
func negated(into func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, v string) error {
		err := flag(into)(s, v)
		*into(s) = !*into(s)
		return err
	}
}

// readContext reads the values set with -c. For an unknown key, the error lists the known ones.
func readContext(context any) (*settings, error) {
	s := &settings{name: "Tickring"}
	given, _ := context.(map[string]any)
	var errs []error
	for key, v := range given {
		name, mine := strings.CutPrefix(key, prefix)
		if !mine {
			continue
		}
		i := slices.IndexFunc(all, func(o setting) bool { return o.key == name })
		if i < 0 {
			var known []string
			for _, o := range all {
				known = append(known, o.key)
			}
			errs = append(errs, fmt.Errorf("%s is not a setting; allowed after %s: %s", key, prefix, strings.Join(known, ", ")))
			continue
		}
		if err := all[i].set(s, fmt.Sprint(v)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q: %w (%s)", key, fmt.Sprint(v), err, all[i].takes))
		}
	}
	for _, pair := range []struct{ has, wants, key, by string }{
		{s.subnets, s.vpc, "vpc", "subnets"}, {s.groups, s.vpc, "vpc", "securityGroups"}, {s.certificate, s.domain, "domain", "certificate"},
		{s.zone, s.domain, "domain", "zone"}, {s.zone, s.zoneName, "zoneName", "zone"}, {s.zoneName, s.zone, "zone", "zoneName"},
	} {
		if pair.has != "" && pair.wants == "" {
			errs = append(errs, fmt.Errorf("%[1]s%[2]s is missing: %[1]s%[3]s requires it", prefix, pair.key, pair.by))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return s, errors.Join(errs...)
}

// stackProps returns the props of the stack, in the account and Region that cdk selected.
func (s *settings) stackProps() *infra.StackProps {
	p := &infra.StackProps{StackProps: awscdk.StackProps{Description: jsii.String("tickring, a job scheduler")}, Props: s.props,
		Refer: s.refer}
	if s.emulator {
		// The emulator does not support the conditions of the roles that cdk bootstrap creates.
		p.Synthesizer = awscdk.NewCliCredentialsStackSynthesizer(nil)
	}
	if account := os.Getenv("CDK_DEFAULT_ACCOUNT"); account != "" {
		p.Env = &awscdk.Environment{Account: &account, Region: jsii.String(os.Getenv("CDK_DEFAULT_REGION"))}
	}
	return p
}

// refer creates references to existing resources inside the stack that uses them.
func (s *settings) refer(stack awscdk.Stack, p *infra.Props) {
	for _, k := range slices.Sorted(maps.Keys(s.tags)) {
		awscdk.Tags_Of(stack).Add(&k, jsii.String(s.tags[k]), nil)
	}
	id := func(name string) *string { return jsii.String("Given" + name) }
	if s.vpc != "" {
		p.Vpc = awsec2.Vpc_FromLookup(stack, id("Vpc"), &awsec2.VpcLookupOptions{VpcId: &s.vpc})
		if s.subnets != "" {
			var list []awsec2.ISubnet
			for _, sub := range split(s.subnets) {
				list = append(list, awsec2.Subnet_FromSubnetId(stack, id(sub), &sub))
			}
			p.Subnets = &awsec2.SubnetSelection{Subnets: &list}
		}
		for _, g := range split(s.groups) {
			p.SecurityGroups = append(p.SecurityGroups, awsec2.SecurityGroup_FromSecurityGroupId(stack, id(g), &g, nil))
		}
	}
	if s.key != "" {
		p.EncryptionKey = awskms.Key_FromKeyArn(stack, id("Key"), &s.key)
	}
	if s.boundary != "" {
		p.PermissionsBoundary = awsiam.ManagedPolicy_FromManagedPolicyArn(stack, id("Boundary"), &s.boundary)
	}
	if s.topic != "" {
		p.AlarmTopic = awssns.Topic_FromTopicArn(stack, id("Topic"), &s.topic)
	}
	if s.domain != "" {
		p.Domain = &infra.Domain{Name: s.domain}
		if s.certificate != "" {
			p.Domain.Certificate = awscertificatemanager.Certificate_FromCertificateArn(stack, id("Certificate"), &s.certificate)
		}
		if s.zone != "" {
			p.Domain.Zone = awsroute53.HostedZone_FromHostedZoneAttributes(stack, id("Zone"), &awsroute53.HostedZoneAttributes{HostedZoneId: &s.zone,
				ZoneName: &s.zoneName})
		}
	}
}
