package infra

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/internal/iampolicy"
)

// Seconds. A message stays invisible for longer than its function can run, so no other function checks finished work. It reappears
// early enough that a run whose function dies twice is sent a third time within the default grace.
const (
	sendTimeout = 20
	visibility  = 25
	tickTimeout = 60 // until the schedule wakes the next
	doorTimeout = 29 // an HTTP API waits for 30
	// The post-run queue waits for executors and channels that can hang, and makes no run late.
	postRunTimeout = 60
)

// function is how one of the functions differs from the others.
type function struct {
	name    string
	code    string // name of the code, if that is another's
	about   string
	memory  float64
	timeout float64
	// calls executors: it lives in the VPC.
	calls bool
	// once is not tried again by Lambda when it was invoked by an event and failed.
	once bool
	// plain gets no environment variables of the scheduler.
	plain bool
	// reads are the parameters that it reads in addition to the secret key.
	reads []*string
	env   map[string]*string
	role  iampolicy.Role
}

// functionNames lists all possible functions.
var functionNames = []string{"tick", "dispatch", "slow", "postrun", "callback", "registry", "api", "canary"}

// constructID returns the construct ID of a function or queue.
func constructID(name string) string {
	if name == "postrun" {
		return "PostRun"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// ours are the variables that the construct sets.
var ours = []string{
	"TICKRING_TABLE_JOBS", "TICKRING_TABLE_RUNS", "TICKRING_TABLE_STATE",
	"TICKRING_QUEUE_FIRES", "TICKRING_QUEUE_SLOW", "TICKRING_QUEUE_CHECKS", "TICKRING_QUEUE_POSTRUN",
	"TICKRING_QUEUE_RESULTS", "TICKRING_QUEUE_DEAD",
	"TICKRING_ADMIN_TOKEN", "TICKRING_ADMIN_TOKEN_PARAM", "TICKRING_READ_TOKEN", "TICKRING_READ_TOKEN_PARAM",
	"TICKRING_SECRET_KEY_PARAM", "TICKRING_SECRET_KEY_KMS", "TICKRING_CREATE_PARAMS", "TICKRING_CANARY",
	"TICKRING_REPORT_KEY_PARAM", "TICKRING_REPORT_URL",
	"TICKRING_REPORT_ZONE", "TICKRING_RUN_URL",
	"TICKRING_ALLOW", "TICKRING_ALLOW_NO_TOKEN", "TICKRING_VISIBILITY", "TICKRING_MAX_PARTITIONS", "TICKRING_LOG_LEVEL", "TICKRING_ENDPOINTS",
	"TICKRING_METRICS", "TICKRING_OIDC_ISSUER", "TICKRING_OIDC_CLIENT_ID", "TICKRING_OIDC_CLIENT_SECRET",
	"TICKRING_OIDC_CLIENT_SECRET_PARAM", "TICKRING_OIDC_URL", "TICKRING_OIDC_NAME", "TICKRING_OIDC_SCOPES", "TICKRING_OIDC_NAME_CLAIM",
	"TICKRING_OIDC_ROLE_CLAIM", "TICKRING_OIDC_ROLES",
}

// statements returns the policy statements of a role.
func (s *Scheduler) statements(r iampolicy.Role) []awsiam.PolicyStatement {
	var list []awsiam.PolicyStatement
	add := func(prefix string, actions []string, resource *string) {
		if len(actions) > 0 {
			list = append(list, allow(actionsOf(prefix, actions), resource))
		}
	}
	add("dynamodb", r.Jobs, s.Jobs.TableArn())
	add("dynamodb", r.Due, jsii.String(*s.Jobs.TableArn()+"/index/"+due))
	add("dynamodb", r.Runs, s.Runs.TableArn())
	add("dynamodb", r.State, s.State.TableArn())
	queues := func(actions, names []string) {
		if len(names) > 0 {
			list = append(list, allow(actionsOf("sqs", actions), s.arns(names)...))
		}
	}
	queues(iampolicy.SendActions, r.Sends)
	queues(iampolicy.TakeActions, r.Takes)
	queues(iampolicy.CountActions, r.Counts)
	return list
}

// arns returns the ARNs of queues by their names in roles.
func (s *Scheduler) arns(queues []string) []*string {
	of := map[string]awssqs.IQueue{iampolicy.Fires: s.Fires, iampolicy.Slow: s.Slow, iampolicy.Checks: s.Checks, iampolicy.PostRuns: s.PostRun,
		iampolicy.Results: s.Results, iampolicy.Dead: s.Dead}
	var list []*string
	for _, q := range queues {
		list = append(list, of[q].QueueArn())
	}
	return list
}

func actionsOf(prefix string, names []string) []string {
	var list []string
	for _, n := range names {
		list = append(list, prefix+":"+n)
	}
	return list
}

func allow(actions []string, resources ...*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Actions: jsii.Strings(actions...), Resources: &resources})
}

// The limits of IAM: 10,240 characters in all for the policies inside a role, and 6,144 for each of up to ten policies attached to
// it. A hundred functions and a hundred queues need 27,000. So a statement about the users' resources is split into portions, and
// portions that do not fit in the role are attached in pairs.
const (
	maxPortion   = 2500
	maxInRole    = 4300 // for portions and parameters; the rest is for the function's own work
	tokenLength  = 170  // of an ARN that is known when it is deployed, at most
	statementTax = 350  // characters of a statement without its resources
)

// portions are statements of some resources each; none without a resource.
func portions(actions []string, condition *map[string]any, resources []string) []awsiam.PolicyStatement {
	var list []awsiam.PolicyStatement
	var some []string
	size := 0
	flush := func() {
		if len(some) > 0 {
			list = append(list, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Actions: jsii.Strings(actions...),
				Resources: jsii.Strings(some...), Conditions: condition}))
		}
		some, size = nil, 0
	}
	for _, r := range resources {
		if size+arnSize(r) > maxPortion-statementTax {
			flush()
		}
		some, size = append(some, r), size+arnSize(r)
	}
	flush()
	return list
}

func arnSize(arn string) int {
	if isToken(arn) {
		return tokenLength
	}
	return len(arn) + len(`"",`)
}

// inRole splits statements into a part that fits in a role and policies for the rest.
func inRole(list []awsiam.PolicyStatement) (in []awsiam.PolicyStatement, beside [][]awsiam.PolicyStatement) {
	size := 0
	for len(list) > 0 {
		n := statementTax
		for _, r := range *list[0].Resources() {
			n += arnSize(*r)
		}
		if size += n; size > maxInRole {
			break
		}
		in, list = append(in, list[0]), list[1:]
	}
	return in, slices.Collect(slices.Chunk(list, 2))
}

func (s *Scheduler) function(p *Props, dir string, f function, more ...awsiam.PolicyStatement) awslambda.Function {
	title := constructID(f.name)
	scope := constructs.NewConstruct(s.Construct, &title)
	logs := awslogs.NewLogGroup(scope, jsii.String("Log"), &awslogs.LogGroupProps{Retention: p.retention(),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY, EncryptionKey: p.EncryptionKey})
	if !f.plain {
		more = append(s.mayRead(p, append(f.reads, s.secretKey)...), more...)
	}
	more, beside := inRole(more)
	statements := append(s.statements(f.role), more...)
	statements = append(statements, allow([]string{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.LogGroupArn()))
	if p.XRay && !f.plain {
		statements = append(statements, allow([]string{"xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:PutSpans",
			"xray:PutSpansForIndexing"}, jsii.String("*")))
	}
	inVpc := f.calls && p.Vpc != nil
	if inVpc {
		statements = append(statements, allow([]string{
			"ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
			"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
		}, jsii.String("*")))
	}
	statements = append(statements, s.byKey(p, f.role)...)
	role := awsiam.NewRole(scope, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:      awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description:    jsii.String("Permissions of tickring's " + f.name),
		InlinePolicies: &map[string]awsiam.PolicyDocument{f.name: awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements})},
	})
	if p.XRay && !f.plain || inVpc || f.calls && p.InvokeTag != nil {
		excuse(role.Node().DefaultChild().(awscdk.CfnResource), "AwsSolutions-IAM5",
			"X-Ray has no resources. Lambda checks the permissions on network interfaces before it creates them, for all resources. "+
				"Functions that are allowed by a tag are selected by a condition on the tag, not by name.")
	}
	env := map[string]*string{}
	if !f.plain {
		env = s.environment(p)
	}
	maps.Copy(env, f.env)
	if p.XRay && !f.plain {
		env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = jsii.String("https://xray." + *awscdk.Aws_REGION() + "." + *awscdk.Aws_URL_SUFFIX() +
			"/v1/traces")
	}
	for k, v := range p.Environment {
		env[k] = jsii.String(v)
	}
	props := &awslambda.FunctionProps{
		Description:      jsii.String("tickring: " + f.about),
		Code:             awslambda.Code_FromAsset(jsii.String(filepath.Join(dir, cmp.Or(f.code, f.name))), nil),
		Handler:          jsii.String("bootstrap"),
		Runtime:          awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:     p.architecture(),
		MemorySize:       &f.memory,
		Timeout:          awscdk.Duration_Seconds(&f.timeout),
		Environment:      &env,
		Role:             role,
		LogGroup:         logs,
		LoggingFormat:    awslambda.LoggingFormat_JSON,
		SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
		// Each function filters its lines by level itself. Lambda treats lines without a level as INFO, including metrics and the
		// trace of a crash.
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_DEBUG,
	}
	if m, ok := p.Memory[f.name]; ok {
		props.MemorySize = &m
	}
	// Its messages on the delay queue lead back to it, and Lambda would stop it as a runaway loop. No message or invocation carries
	// the chain that caused it, because its sixteenth run would otherwise stop the executor's function.
	if len(f.role.Sends) > 0 {
		props.RecursiveLoop = awslambda.RecursiveLoop_ALLOW
	}
	if slices.Contains(p.doors(), f.name) {
		props.ReservedConcurrentExecutions = p.places()
	}
	if f.once {
		props.RetryAttempts = jsii.Number(0)
		props.MaxEventAge = awscdk.Duration_Seconds(jsii.Number(60))
	}
	if p.EncryptionKey != nil {
		props.EnvironmentEncryption = p.EncryptionKey
	}
	if inVpc {
		props.Vpc, props.VpcSubnets = p.Vpc, p.Subnets
		if len(p.SecurityGroups) > 0 {
			props.SecurityGroups = &p.SecurityGroups
		}
	}
	fn := awslambda.NewFunction(scope, jsii.String("Function"), props)
	if p.EncryptionKey != nil && len(env) > 0 {
		s.readsEnvironment(p, scope, role, fn)
	}
	for i, list := range beside {
		policy := awsiam.NewManagedPolicy(scope, jsii.String(fmt.Sprint("May", i+1)), &awsiam.ManagedPolicyProps{
			Description: jsii.String("What else tickring's " + f.name + " may do"), Roles: &[]awsiam.IRole{role}, Statements: &list,
		})
		fn.Node().AddDependency(policy)
	}
	s.Functions[f.name] = fn
	return fn
}

func (p *Props) architecture() awslambda.Architecture {
	if p.Architecture == nil {
		return awslambda.Architecture_ARM_64()
	}
	return p.Architecture
}

// firesBatch is the maximum number of messages, of up to 50 runs each, that a function takes at once. With 256 MB a function has a
// seventh of a core, on which 250 runs take 2.5 s.
const firesBatch = 5

// takes lets a function receive batches of at most batch messages of a queue. At most most batches run at
// the same time; nil: as many as the account allows, and fewer pollers while the queue is idle.
func takes(fn awslambda.Function, id string, q awssqs.IQueue, batch float64, most *float64) {
	fn.AddEventSourceMapping(&id, &awslambda.EventSourceMappingOptions{
		EventSourceArn:          q.QueueArn(),
		BatchSize:               &batch,
		ReportBatchItemFailures: jsii.Bool(true),
		MaxConcurrency:          most,
	})
}

// executors returns the permissions to send to the users' functions and queues, or only to query them. A function named with an
// alias or a version can be called only by that name, because IAM compares the name in a call.
func (s *Scheduler) executors(p *Props, sends bool) []awsiam.PolicyStatement {
	var list []awsiam.PolicyStatement
	add := func(actions []string, send string, condition *map[string]any, resources []string) {
		if sends {
			actions = append(actions, send)
		}
		list = append(list, portions(actions, condition, resources)...)
	}
	if canary := s.Functions["canary"]; canary != nil {
		add([]string{"lambda:GetFunctionConfiguration"}, "lambda:InvokeFunction", nil, []string{*canary.FunctionArn()})
	}
	if t := p.InvokeTag; t != nil {
		add([]string{"lambda:GetFunctionConfiguration"}, "lambda:InvokeFunction",
			&map[string]any{"StringEquals": map[string]string{"aws:ResourceTag/" + t.Key: t.Value}},
			[]string{*awscdk.Stack_Of(s.Construct).FormatArn(&awscdk.ArnComponents{Service: jsii.String("lambda"), Resource: jsii.String("function"),
				ResourceName: jsii.String("*"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME})})
	}
	add([]string{"lambda:GetFunctionConfiguration"}, "lambda:InvokeFunction", nil, p.Invoke)
	add([]string{"sqs:GetQueueUrl", "sqs:GetQueueAttributes"}, "sqs:SendMessage", nil, p.Queues)
	return list
}

func (s *Scheduler) topics(p *Props) []awsiam.PolicyStatement {
	return portions([]string{"sns:Publish"}, nil, p.Topics)
}

// logs returns the permissions to read the logs of executors that are functions named by ARN. They cover the default log group of
// each function, shared by its aliases. For a custom log group, its owner must grant access; the function's configuration names it.
func (s *Scheduler) logs(p *Props) []awsiam.PolicyStatement {
	var groups, named []string
	for _, arn := range p.Invoke {
		if isToken(arn) {
			continue
		}
		named = append(named, arn)
		a := strings.Split(arn, ":")
		if group := "arn:" + a[1] + ":logs:" + a[3] + ":" + a[4] + ":log-group:/aws/lambda/" + a[6] + ":*"; !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return append(portions([]string{"logs:FilterLogEvents"}, nil, groups), portions([]string{"lambda:GetFunctionConfiguration"}, nil,
		named)...)
}

func (p *Props) retention() awslogs.RetentionDays {
	days := 14.0
	if p.LogRetentionDays != nil {
		days = *p.LogRetentionDays
	}
	return map[float64]awslogs.RetentionDays{
		1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
		7:  awslogs.RetentionDays_ONE_WEEK,
		14: awslogs.RetentionDays_TWO_WEEKS, 30: awslogs.RetentionDays_ONE_MONTH, 60: awslogs.RetentionDays_TWO_MONTHS,
		90:  awslogs.RetentionDays_THREE_MONTHS,
		120: awslogs.RetentionDays_FOUR_MONTHS, 150: awslogs.RetentionDays_FIVE_MONTHS, 180: awslogs.RetentionDays_SIX_MONTHS,
		365: awslogs.RetentionDays_ONE_YEAR,
		400: awslogs.RetentionDays_THIRTEEN_MONTHS, 545: awslogs.RetentionDays_EIGHTEEN_MONTHS, 731: awslogs.RetentionDays_TWO_YEARS,
		1096: awslogs.RetentionDays_THREE_YEARS, 1827: awslogs.RetentionDays_FIVE_YEARS, 2192: awslogs.RetentionDays_SIX_YEARS,
		2557: awslogs.RetentionDays_SEVEN_YEARS,
		2922: awslogs.RetentionDays_EIGHT_YEARS, 3288: awslogs.RetentionDays_NINE_YEARS, 3653: awslogs.RetentionDays_TEN_YEARS,
	}[days]
}

// environment returns the variables of all functions of the scheduler. All get the same, because the function that stores an
// address must validate it by the same rules as the one that calls it.
func (s *Scheduler) environment(p *Props) map[string]*string {
	env := map[string]*string{
		"TICKRING_TABLE_JOBS": s.Jobs.TableName(), "TICKRING_TABLE_RUNS": s.Runs.TableName(), "TICKRING_TABLE_STATE": s.State.TableName(),
		"TICKRING_QUEUE_FIRES": s.Fires.QueueUrl(), "TICKRING_QUEUE_SLOW": s.Slow.QueueUrl(), "TICKRING_QUEUE_CHECKS": s.Checks.QueueUrl(),
		"TICKRING_QUEUE_POSTRUN": s.PostRun.QueueUrl(), "TICKRING_QUEUE_RESULTS": s.Results.QueueUrl(), "TICKRING_QUEUE_DEAD": s.Dead.QueueUrl(),
		"TICKRING_SECRET_KEY_PARAM": s.secretKey,
		"TICKRING_METRICS":          s.name(), "TICKRING_VISIBILITY": jsii.String(fmt.Sprintf("%ds", visibility)),
	}
	if p.MaxPartitions != nil {
		env["TICKRING_MAX_PARTITIONS"] = jsii.String(fmt.Sprint(*p.MaxPartitions))
	}
	if p.LogLevel != "" {
		env["TICKRING_LOG_LEVEL"] = &p.LogLevel
	}
	if p.ReportZone != "" {
		env["TICKRING_REPORT_ZONE"] = &p.ReportZone
	}
	if p.RunUrl != "" {
		env["TICKRING_RUN_URL"] = &p.RunUrl
	}
	if p.NoToken {
		env["TICKRING_ALLOW_NO_TOKEN"] = jsii.String("1")
	}
	if len(p.Allow) > 0 {
		env["TICKRING_ALLOW"] = jsii.String(strings.Join(p.Allow, ","))
	}
	return env
}
