package infra_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
	outputs "github.com/tickring/tickring/internal/cfnoutputs"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
)

// functions is a directory of functions that the tests do not read.
var functions string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "functions")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"tick", "dispatch", "postrun", "callback", "registry", "api", "canary", "dead"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "bootstrap"), []byte(name), 0o700); err != nil {
			panic(err)
		}
	}
	functions = dir
	code := m.Run()
	os.RemoveAll(dir)
	jsii.Close()
	os.Exit(code)
}

// synth creates the template of a stack with props.
func synth(t *testing.T, p infra.Props) template {
	t.Helper()
	p.Functions = functions
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
	stack := infra.NewTickringStack(app, "Tickring", &infra.StackProps{Props: p})
	return read(t, stack.Stack)
}

type template struct {
	Resources map[string]resource
	Outputs   map[string]any
	bytes     int
}

type resource struct {
	Type                string
	Properties          map[string]any
	DeletionPolicy      string
	UpdateReplacePolicy string
	Metadata            map[string]any
	DependsOn           any
}

func read(t *testing.T, stack awscdk.Stack) template {
	t.Helper()
	b, err := json.Marshal(*assertions.Template_FromStack(stack, nil).ToJSON())
	check.OK(t, err)
	var tmpl template
	check.OK(t, json.Unmarshal(b, &tmpl))
	tmpl.bytes = len(b)
	return tmpl
}

// of are the logical IDs of the resources of a type, which has to be there.
func (tmpl *template) of(t *testing.T, kind string) []string {
	t.Helper()
	var ids []string
	for id, r := range tmpl.Resources {
		if r.Type == kind {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		t.Fatalf("no %s is there", kind)
	}
	slices.Sort(ids)
	return ids
}

// at returns the value in a document at a path such as "Replicas.0.TableName".
func at(doc any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch d := doc.(type) {
		case map[string]any:
			doc = d[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(d) {
				return nil
			}
			doc = d[i]
		default:
			return nil
		}
	}
	return doc
}

// title is a name as a part of a logical ID.
func title(name string) string {
	return strings.Replace(strings.ToUpper(name[:1])+name[1:], "Postrun", "PostRun", 1)
}

// function finds the logical ID of a function by its name.
func (tmpl *template) function(t *testing.T, name string) string {
	t.Helper()
	return tmpl.first(t, "AWS::Lambda::Function", "Tickring"+title(name)+"Function")
}

// alarm finds the logical ID of an alarm by its name.
func (tmpl *template) alarm(t *testing.T, name string) string {
	t.Helper()
	return tmpl.first(t, "AWS::CloudWatch::Alarm", "TickringAlarm"+name)
}

// first finds a logical ID of a type by its beginning.
func (tmpl *template) first(t *testing.T, kind, prefix string) string {
	t.Helper()
	for _, id := range tmpl.of(t, kind) {
		if strings.HasPrefix(id, prefix) {
			return id
		}
	}
	t.Fatalf("there is no %s %s", kind, prefix)
	return ""
}

// refers returns the logical ID that a value refers to.
func refers(v any) string {
	if m, ok := v.(map[string]any); ok {
		if id, ok := m["Ref"].(string); ok {
			return id
		}
		if list, ok := m["Fn::GetAtt"].([]any); ok && len(list) > 0 {
			return fmt.Sprint(list[0])
		}
	}
	return ""
}

// TestDataStays: resources with data keep their logical ID, stay when the stack is deleted, and have no property whose change would
// replace them.
func TestDataStays(t *testing.T) {
	tmpl := synth(t, infra.Props{})
	if got, want := tmpl.of(t, "AWS::DynamoDB::GlobalTable"), []string{"TickringJobs", "TickringRuns", "TickringState"}; !slices.Equal(got,
		want) {
		t.Errorf("tables %q, want %q", got, want)
	}
	if got, want := tmpl.of(t, "AWS::SQS::Queue"), []string{"TickringChecks", "TickringDead", "TickringFires", "TickringPostRun",
		"TickringResults", "TickringSlow"}; !slices.Equal(got, want) {
		t.Errorf("queues %q, want %q", got, want)
	}
	for _, id := range tmpl.of(t, "AWS::DynamoDB::GlobalTable") {
		r := tmpl.Resources[id]
		if r.DeletionPolicy != "Retain" || r.UpdateReplacePolicy != "Retain" {
			t.Errorf("%s: deletion policy %s, %s when replaced", id, r.DeletionPolicy, r.UpdateReplacePolicy)
		}
		check.Equal(t, at(r.Properties, "Replicas.0.DeletionProtectionEnabled"), true, "%s is not protected", id)
		check.Equal(t, at(r.Properties, "TableName"), nil, "%s has a name of its own, and could not be replaced beside itself:", id)
		if at(r.Properties, "TimeToLiveSpecification.AttributeName") != "expires" || at(r.Properties, "TimeToLiveSpecification.Enabled") != true {
			t.Errorf("%s: %v", id, r.Properties["TimeToLiveSpecification"])
		}
		check.Equal(t, r.Properties["BillingMode"], "PAY_PER_REQUEST", "%s", id)
		recover := at(r.Properties, "Replicas.0.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled")
		check.Equal[any](t, recover, id != "TickringRuns", "%s: point-in-time recovery", id)
	}
	for _, id := range tmpl.of(t, "AWS::SQS::Queue") {
		for _, property := range []string{"QueueName", "FifoQueue"} {
			if at(tmpl.Resources[id].Properties, property) != nil {
				t.Errorf("%s has %s, whose change replaces it with all that is on it", id, property)
			}
		}
	}
	other := synth(t, infra.Props{RecoverRuns: true, RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
		Provisioned: &infra.Provisioned{MinRead: 5, MaxRead: 50, MinWrite: 5, MaxWrite: 50}})
	for _, id := range other.of(t, "AWS::DynamoDB::GlobalTable") {
		r := other.Resources[id]
		if r.DeletionPolicy != "Delete" || at(r.Properties, "Replicas.0.DeletionProtectionEnabled") != false ||
			r.Properties["BillingMode"] != "PROVISIONED" {
			t.Errorf("%s with RemovalPolicy DESTROY: %s, %v", id, r.DeletionPolicy, r.Properties)
		}
		if at(r.Properties, "Replicas.0.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled") != true {
			t.Errorf("%s cannot be recovered with RecoverRuns", id)
		}
		b, _ := json.Marshal(r.Properties)
		// docs/reference/aws-cost.md assumes this use of writes and reads, and of the index.
		want, is := 2, strings.Count(string(b), `"TargetValue":70`)
		if id == "TickringJobs" {
			want = 4
		}
		if all := strings.Count(string(b), `"TargetValue"`); is != want || all != want {
			t.Errorf("%s has %d capacities, %d used as computed; want %d", id, all, is, want)
		}
	}
}

// TestKeys: the tables and the index have the keys that the engine uses.
func TestKeys(t *testing.T) {
	tmpl := synth(t, infra.Props{})
	for id, want := range map[string][2]string{"TickringJobs": {"id S", "part S"}, "TickringRuns": {"job N", "run N"},
		"TickringState": {"of S", "key S"}} {
		p := tmpl.Resources[id].Properties
		kinds := map[any]any{}
		for _, a := range p["AttributeDefinitions"].([]any) {
			kinds[at(a, "AttributeName")] = at(a, "AttributeType")
		}
		key := func(schema any, i int) string {
			name := at(schema, fmt.Sprintf("KeySchema.%d.AttributeName", i))
			return fmt.Sprint(name, " ", kinds[name])
		}
		check.Equal(t, [2]string{key(p, 0), key(p, 1)}, want, "%s has the key", id)
		if id == "TickringJobs" {
			index := at(p, "GlobalSecondaryIndexes.0")
			if at(index, "IndexName") != "due" || key(index, 0) != "partition N" || key(index, 1) != "planAt S" ||
				at(index, "Projection.ProjectionType") != "ALL" {
				t.Errorf("the index is %v", index)
			}
		}
	}
}

// TestQueues: a message is delivered again only after its function died. The visibility is short enough that a run survives two
// deaths within the default grace of 60 s. After an hour and a half the message is in the dead-letter queue. Queues have no public
// readers, and requests need encryption.
func TestQueues(t *testing.T) {
	tmpl := synth(t, infra.Props{MaxConcurrency: jsii.Number(50), SlowConcurrency: jsii.Number(10),
		Invoke: []string{"arn:aws:lambda:us-east-1:123456789012:function:payroll"}})
	mapped := map[string]bool{}
	for _, id := range tmpl.of(t, "AWS::Lambda::EventSourceMapping") {
		m := tmpl.Resources[id].Properties
		queue, fn := refers(m["EventSourceArn"]), refers(m["FunctionName"])
		mapped[queue] = true
		visibility, timeout := at(tmpl.Resources[queue].Properties, "VisibilityTimeout"), at(tmpl.Resources[fn].Properties, "Timeout")
		v, _ := visibility.(float64)
		if v < timeout.(float64)+2 {
			t.Errorf("%s is invisible for %v s, and %s may take %v s", queue, visibility, fn, timeout)
		}
		if fires := queue != "TickringResults" && queue != "TickringPostRun"; fires && 2*v > 60-10 {
			t.Errorf("%s is invisible for %v s: a fire whose function died twice is late", queue, visibility)
		} else if fires && at(tmpl.Resources[fn].Properties, "Environment.Variables.TICKRING_VISIBILITY") != fmt.Sprintf("%vs", visibility) {
			t.Errorf("%s gets a visibility other than %v s", fn, visibility)
		}
		most := map[string]any{"TickringFires": 50.0, "TickringChecks": 50.0, "TickringSlow": 10.0, "TickringPostRun": 10.0}[queue]
		if at(m, "FunctionResponseTypes.0") != "ReportBatchItemFailures" || at(m, "ScalingConfig.MaximumConcurrency") != most {
			t.Errorf("the mapping of %s is %v", queue, m)
		}
		for _, alone := range []string{"TickringSlow", "TickringPostRun"} {
			check.Equal(t, strings.HasPrefix(fn, alone), queue == alone, "%s takes from %s", fn, queue)
		}
		check.Equal(t, at(tmpl.Resources[fn].Properties, "RecursiveLoop"), "Allow", "%s puts messages back: Lambda would stop it", fn)
	}
	if len(mapped) != 5 { // tick takes the dead-letter messages
		t.Errorf("only %v are taken from", mapped)
	}
	for _, id := range tmpl.of(t, "AWS::SQS::Queue") {
		p := tmpl.Resources[id].Properties
		if id != "TickringDead" && (refers(at(p, "RedrivePolicy.deadLetterTargetArn")) != "TickringDead" ||
			at(p, "RedrivePolicy.maxReceiveCount").(float64)*at(p, "VisibilityTimeout").(float64) < 90*60) {
			t.Errorf("%s: dead letters go by %v", id, p["RedrivePolicy"])
		}
		if p["SqsManagedSseEnabled"] != true || p["MessageRetentionPeriod"] != 1209600.0 {
			t.Errorf("%s: %v", id, p)
		}
		if !slices.ContainsFunc(tmpl.of(t, "AWS::SQS::QueuePolicy"), func(pol string) bool {
			q := tmpl.Resources[pol].Properties
			return refers(at(q, "Queues.0")) == id && at(q, "PolicyDocument.Statement.0.Effect") == "Deny" &&
				at(q, "PolicyDocument.Statement.0.Condition.Bool.aws:SecureTransport") == "false"
		}) {
			t.Errorf("%s may be asked without encryption", id)
		}
	}
	small := synth(t, infra.Props{AccountConcurrency: jsii.Number(10)})
	for _, id := range small.of(t, "AWS::Lambda::EventSourceMapping") {
		m := small.Resources[id].Properties
		if most := at(m, "ScalingConfig.MaximumConcurrency"); slices.Contains([]string{"TickringSlow", "TickringPostRun"},
			refers(m["EventSourceArn"])) && most != 2.0 {
			t.Errorf("slow executors take %v of the ten places of an account", most)
		}
	}
	unknown := synth(t, infra.Props{})
	for _, id := range unknown.of(t, "AWS::Lambda::EventSourceMapping") {
		m := unknown.Resources[id].Properties
		if most := at(m, "ScalingConfig.MaximumConcurrency"); strings.HasPrefix(id, "TickringSlow") && most != 5.0 {
			t.Errorf("%s takes %v places of an account of which nothing is known", id, most)
		}
	}
	unset := synth(t, infra.Props{AccountConcurrency: jsii.Number(1000)})
	polled := unset.of(t, "AWS::Lambda::EventSourceMapping")
	for _, id := range polled {
		check.Equal(t, unset.Resources[id].Properties["ScalingConfig"], nil, "%s has a bound, which makes five pollers of two:", id)
	}
	if len(polled) != 4 { // two pollers each: docs/reference/aws-cost.md has the 24 requests a minute of eight
		t.Errorf("an idle deployment polls by %v", polled)
	}
}

// A message that is offered to a function which may not run counts as received: the
// steps of docs/how-to/recover-on-aws.md turn off the mappings of all functions that
// take messages first.
func TestShutOutByMappings(t *testing.T) {
	b, err := os.ReadFile("../docs/how-to/recover-on-aws.md")
	check.OK(t, err)
	doc := strings.ReplaceAll(string(b), "\n   ", "\n") // commands are indented in steps
	off, none := strings.Index(doc, "\nmappings --no-enabled\n"), strings.Index(doc, "--reserved-concurrent-executions 0")
	if off < 0 || none < off || !strings.Contains(doc[none:], "\nmappings --enabled\n") {
		t.Errorf("mappings go off at %d, concurrency at %d", off, none)
	}
	_, loop, _ := strings.Cut(doc, "mappings() {\n  for f in ")
	loop, _, _ = strings.Cut(loop, ";")
	tmpl := synth(t, infra.Props{})
	for _, id := range tmpl.of(t, "AWS::Lambda::EventSourceMapping") {
		fn := refers(tmpl.Resources[id].Properties["FunctionName"])
		if name := strings.TrimPrefix(strings.SplitN(fn, "Function", 2)[0], "Tickring"); !slices.Contains(strings.Fields(loop), name) {
			t.Errorf("%s takes messages, and its mappings stay on: %s", name, loop)
		}
	}
}

// TestFunctions: each function has the smallest size, and logs only important events.
func TestFunctions(t *testing.T) {
	tmpl := synth(t, infra.Props{Memory: map[string]float64{"dispatch": 512}})
	for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
		p := tmpl.Resources[id].Properties
		if p["Runtime"] != "provided.al2023" || at(p, "Architectures.0") != "arm64" || p["Handler"] != "bootstrap" {
			t.Errorf("%s runs as %v %v %v", id, p["Runtime"], p["Architectures"], p["Handler"])
		}
		if at(p, "LoggingConfig.LogFormat") != "JSON" || at(p, "LoggingConfig.SystemLogLevel") != "WARN" {
			t.Errorf("%s logs by %v", id, p["LoggingConfig"])
		}
		group := tmpl.Resources[refers(at(p, "LoggingConfig.LogGroup"))]
		if at(group.Properties, "RetentionInDays") != 14.0 || group.DeletionPolicy != "Delete" {
			t.Errorf("the log of %s: %v, %s", id, group.Properties, group.DeletionPolicy)
		}
	}
	check.Equal(t, at(tmpl.Resources[tmpl.function(t, "dispatch")].Properties, "MemorySize"), 512.0, "dispatch has N MB")
	// Each function filters its own lines. Lambda would treat metrics as INFO, and our words for a warning too.
	for _, level := range []string{"", "debug", "warn", "error"} {
		other := synth(t, infra.Props{LogLevel: level})
		for _, id := range other.of(t, "AWS::Lambda::Function") {
			got := at(other.Resources[id].Properties, "LoggingConfig.ApplicationLogLevel")
			check.Equal[any](t, got, "DEBUG", "the level of %s at Lambda, with %q", id, level)
		}
	}
	tick := tmpl.function(t, "tick")
	once := false
	for _, id := range tmpl.of(t, "AWS::Lambda::EventInvokeConfig") {
		if p := tmpl.Resources[id].Properties; refers(p["FunctionName"]) == tick {
			once = p["MaximumRetryAttempts"] == 0.0
		}
	}
	if !once {
		t.Error("a tick that fails is tried again, beside the next one")
	}
	wake := tmpl.Resources[tmpl.of(t, "AWS::Events::Rule")[0]].Properties
	if wake["ScheduleExpression"] != "rate(1 minute)" || wake["State"] != "ENABLED" || refers(at(wake, "Targets.0.Arn")) != tick ||
		at(wake, "Targets.0.Input") != nil || at(wake, "Targets.0.RetryPolicy.MaximumRetryAttempts") != 0.0 ||
		at(wake, "Targets.0.RetryPolicy.MaximumEventAgeInSeconds") != 60.0 {
		t.Errorf("tick is woken by %v", wake)
	}
}

// provider is an identity provider for the console.
var provider = &infra.Oidc{Issuer: "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_abc", ClientId: "c",
	SecretParameter: "/oidc/secret", Name: "Example", Scopes: []string{"openid", "profile"}, NameClaim: "cognito:username",
	RoleClaim: "cognito:groups", Roles: []string{"devs=shop:editor", "ops=admin"}}

// TestEnvironment: every function starts with its environment, and no environment contains a secret.
func TestEnvironment(t *testing.T) {
	for form, p := range map[string]infra.Props{"HTTP API": {HttpApi: true, Allow: []string{"10.0.0.0/8"}, NoToken: true, NoTokenPublic: true,
		ReadToken: true, LogLevel: "warn", MaxPartitions: jsii.Number(32), RunUrl: "https://jobs.example.com/runs/{run}",
		PublicUrl: "https://jobs.example.com", Oidc: provider}, "function URL": {}} {
		tmpl := synth(t, p)
		for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
			vars, _ := at(tmpl.Resources[id].Properties, "Environment.Variables").(map[string]any)
			if strings.HasPrefix(id, "TickringCanary") {
				if len(vars) > 0 {
					t.Errorf("%s: %s gets %v, want none", form, id, vars)
				}
				continue
			}
			if name, _ := vars["TICKRING_METRICS"].(string); name == "" {
				t.Errorf("%s: %s has no name for its metrics", form, id)
			}
			c, err := lambdaboot.Read(func(name string) string {
				switch v := vars[name].(type) {
				case nil:
					return ""
				case string:
					return v
				default: // is known when it is deployed
					if strings.HasPrefix(name, "TICKRING_QUEUE") || strings.HasSuffix(name, "_URL") {
						return "https://sqs.us-east-1.amazonaws.com/1/" + refers(v)
					}
					return refers(v)
				}
			}, lambdaboot.Needs{AdminToken: strings.HasPrefix(id, "TickringApi")})
			if err != nil {
				t.Errorf("%s: %s could not start: %v", form, id, err)
			}
			if c.Names.Jobs != "TickringJobs" || c.Names.Runs != "TickringRuns" || c.Names.State != "TickringState" ||
				!strings.HasSuffix(c.Names.Fires, "/TickringFires") || !strings.HasSuffix(c.Names.Checks, "/TickringChecks") ||
				!strings.HasSuffix(c.Names.Dead, "/TickringDead") ||
				!strings.HasSuffix(c.Names.Slow, "/TickringSlow") || !strings.HasSuffix(c.Results, "/TickringResults") {
				t.Errorf("%s: %s works on %+v", form, id, c.Names)
			}
			if reads := c.Params.ReadToken != ""; reads != (p.ReadToken && strings.HasPrefix(id, "TickringApi")) {
				t.Errorf("%s: %s gets the parameter of the read token: %t", form, id, reads)
			}
			if has := c.Provider.Set(); has != (p.Oidc != nil && strings.HasPrefix(id, "TickringApi")) ||
				has && (c.Params.Provider != "/oidc/secret" || c.Provider.URL != p.PublicUrl || len(c.Provider.Roles) != 2 ||
					c.Provider.Issuer != p.Oidc.Issuer || len(c.Provider.Scopes) != 2) {
				t.Errorf("%s: %s gets the provider %+v, %+v", form, id, c.Provider, c.Params)
			}
			check.Equal(t, c.RunURL, p.RunUrl, "%s: notices of %s link to", form, id)
			if c.AdminToken != "" || c.ReadToken != "" {
				t.Errorf("%s: %s shows the token", form, id)
			}
			if form == "HTTP API" && (c.Partitions != 32 || !c.NoToken || len(c.Policy.Allow) != 1 ||
				c.Policy.Check(netip.MustParseAddr("10.0.3.17")) != nil) {
				t.Errorf("%s gets %d partitions, %v: an executor at 10.0.3.17 could not register, or not be called", id, c.Partitions, c.Policy)
			}
			if strings.HasPrefix(id, "TickringDispatch") && (c.ReportURL == "" || c.Params.ReportKey == "" || c.Params.AdminToken != "") {
				t.Errorf("%s: %s reports at %q with %+v", form, id, c.ReportURL, c.Params)
			}
		}
	}
}

// The limits of CloudFormation are 1 MB (1,000,000 bytes) and 500 resources.
func TestSize(t *testing.T) {
	for form, p := range map[string]infra.Props{"HTTP API": {HttpApi: true, Dashboard: true}, "function URL": {Dashboard: true}} {
		tmpl := synth(t, p)
		t.Logf("%s: %d bytes, %d resources", form, tmpl.bytes, len(tmpl.Resources))
		if tmpl.bytes > 200_000 || len(tmpl.Resources) > 150 {
			t.Errorf("%s: the template has %d bytes and %d resources: a fifth of what CloudFormation takes is meant for others", form, tmpl.bytes,
				len(tmpl.Resources))
		}
	}
}

// Two in one stack do not meet.
func TestTwice(t *testing.T) {
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Mine"), nil)
	a := infra.NewScheduler(stack, "Blue", &infra.Props{Functions: functions})
	b := infra.NewScheduler(stack, "Green", &infra.Props{Functions: functions})
	if *a.TokenParameter == *b.TokenParameter {
		t.Errorf("both have the token %s", *a.TokenParameter)
	}
	tmpl := read(t, stack)
	check.Equal(t, len(tmpl.of(t, "AWS::DynamoDB::GlobalTable")), 6, "tables")
}

// endpoints lists the services for which a VPC has endpoints, and the functions allowed to use each.
func (tmpl *template) endpoints(t *testing.T) string {
	t.Helper()
	var words []string
	for _, id := range tmpl.of(t, "AWS::EC2::VPCEndpoint") {
		p := tmpl.Resources[id].Properties
		b, _ := json.Marshal(p["ServiceName"])
		service := strings.Trim(string(b[strings.LastIndex(string(b), ".")+1:]), `"]}`)
		var who []string
		for _, r := range tmpl.Resources {
			if r.Type != "AWS::EC2::SecurityGroupIngress" || refers(r.Properties["GroupId"]) != refers(at(p, "SecurityGroupIds.0")) {
				continue
			}
			who = append(who, strings.TrimPrefix(strings.SplitN(refers(r.Properties["SourceSecurityGroupId"]), "Function", 2)[0], "Tickring"))
		}
		slices.Sort(who)
		if len(who) > 0 {
			service += ": " + strings.Join(who, " ")
		}
		words = append(words, service)
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

// TestTablesByName: a stack can reuse the tables that an earlier stack left, by their names. All functions use them and have
// permission, and the stack neither creates nor deletes tables. The docs contain the names of the outputs.
func TestTablesByName(t *testing.T) {
	tmpl := synth(t, infra.Props{HttpApi: true, Tables: &infra.Tables{Jobs: "Old-Jobs", Runs: "Old-Runs", State: "Old-State"}})
	for id, r := range tmpl.Resources {
		if strings.HasPrefix(r.Type, "AWS::DynamoDB::") {
			t.Errorf("%s is created in addition to the existing tables", id)
		}
	}
	own := synth(t, infra.Props{HttpApi: true})
	named := func(of *template, names map[string]string) map[string]bool {
		got := map[string]bool{}
		for _, g := range of.grants(t) {
			for name, what := range names {
				if strings.HasPrefix(g.action, "dynamodb:") && strings.Contains(g.resource, name) {
					got[fmt.Sprint(g.role, " ", g.action, " ", what, " ", strings.Contains(g.resource, "/index/due"))] = true
				}
			}
		}
		return got
	}
	got := named(&tmpl, map[string]string{"table/Old-Jobs": "jobs", "table/Old-Runs": "runs", "table/Old-State": "state"})
	want := named(&own, map[string]string{"TickringJobs": "jobs", "TickringRuns": "runs", "TickringState": "state"})
	if same(t, got, want, "the template with named tables"); len(want) < 20 {
		t.Errorf("only %d permissions on own tables", len(want))
	}
	for _, name := range []string{"tick", "dispatch", "slow", "postrun", "callback", "registry", "api"} {
		vars := at(tmpl.Resources[tmpl.function(t, name)].Properties, "Environment.Variables").(map[string]any)
		if vars["TICKRING_TABLE_JOBS"] != "Old-Jobs" || vars["TICKRING_TABLE_RUNS"] != "Old-Runs" || vars["TICKRING_TABLE_STATE"] != "Old-State" {
			t.Errorf("%s works on %v, %v, %v", name, vars["TICKRING_TABLE_JOBS"], vars["TICKRING_TABLE_RUNS"], vars["TICKRING_TABLE_STATE"])
		}
	}
	for output, want := range map[string]string{"JobsTable": "Old-Jobs", "RunsTable": "Old-Runs", "StateTable": "Old-State"} {
		check.Equal[any](t, at(tmpl.Outputs[output], "Value"), want, "the output %s", output)
	}
	doc, err := os.ReadFile("../docs/reference/aws-alarms.md")
	check.OK(t, err)
	for output := range tmpl.Outputs { // the outputs that the command line uses are in the documented places
		o := outputs.Outputs{output: "x"}
		if len(o.Tables())+len(o.Queues())+len(o.Functions()) > 0 && !strings.Contains(string(doc), "`"+output+"`") {
			t.Errorf("docs/reference/aws-alarms.md does not name the output %s", output)
		}
	}
}

// TestOutputsLeadToTheConsole: the outputs name the console's address and the command that prints the token of its first login.
func TestOutputsLeadToTheConsole(t *testing.T) {
	tmpl := synth(t, infra.Props{PublicUrl: "https://jobs.example.com/"})
	check.Equal(t, at(tmpl.Outputs["Console"], "Value"), "https://jobs.example.com/console/", "the output Console")
	command, _ := json.Marshal(at(tmpl.Outputs["AdminTokenCommand"], "Value"))
	if !strings.Contains(string(command), "ssm get-parameter --with-decryption") || !strings.Contains(string(command), "AWS::Region") ||
		!strings.Contains(string(command), "/admin-token") {
		t.Errorf("the output AdminTokenCommand is %s", command)
	}
}

// TestOperatingSettings: replicas, budget and the key of the log groups reach the template.
func TestOperatingSettings(t *testing.T) {
	env := &awscdk.StackProps{Env: &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-central-1")}}
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Mine"), env)
	infra.NewScheduler(stack, "Tickring", &infra.Props{Functions: functions, Replicas: []string{"eu-west-1"},
		Budget: &infra.Budget{Dollars: 50, Email: "ops@example.com"}})
	tmpl := read(t, stack)
	for _, id := range tmpl.of(t, "AWS::DynamoDB::GlobalTable") {
		var regions []any
		for _, r := range list(tmpl.Resources[id].Properties["Replicas"]) {
			regions = append(regions, at(r, "Region"), at(r, "DeletionProtectionEnabled"))
		}
		check.Equal(t, fmt.Sprint(regions), "[eu-west-1 true eu-central-1 true]", "%s has replicas in %v", id, regions)
	}
	budget, _ := json.Marshal(tmpl.Resources[tmpl.of(t, "AWS::Budgets::Budget")[0]].Properties)
	for _, part := range []string{`"Amount":50`, `"user:tickring$Mine"`, `"Address":"ops@example.com"`, `"Threshold":80`, `"Threshold":100`} {
		check.Contains(t, string(budget), part, "the budget")
	}
	jobs, _ := json.Marshal(tmpl.Resources[tmpl.of(t, "AWS::SQS::Queue")[0]].Properties["Tags"])
	check.Contains(t, string(jobs), `{"Key":"tickring","Value":"Mine"}`, "the tag that the budget filters by is missing: %s", jobs)
	keyed := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Keyed"), env)
	key := awskms.NewKey(keyed, jsii.String("Key"), nil)
	infra.NewScheduler(keyed, "Tickring", &infra.Props{Functions: functions, EncryptionKey: key, HttpApi: true, AccessLogs: true, XRay: true})
	tmpl = read(t, keyed)
	tick := at(tmpl.Resources[tmpl.function(t, "tick")].Properties, "Environment.Variables.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if b, _ := json.Marshal(tick); !strings.Contains(string(b), `"https://xray.",{"Ref":"AWS::Region"}`) {
		t.Errorf("tick sends spans to %s", b)
	}
	rest := slices.DeleteFunc(tmpl.statements(t), func(s statement) bool { return !slices.Contains(list(s.Action), any("xray:PutSpans")) })
	check.Equal(t, len(rest), 7, "roles may send spans")
	for _, id := range tmpl.of(t, "AWS::Logs::LogGroup") {
		if tmpl.Resources[id].Properties["KmsKeyId"] == nil || tmpl.Resources[id].DeletionPolicy != "Delete" {
			t.Errorf("the log group %s has the key %v and the deletion policy %s", id, tmpl.Resources[id].Properties["KmsKeyId"],
				tmpl.Resources[id].DeletionPolicy)
		}
	}
}

// TestAlarms: every alarm has a metric and a description, and notifies the topic. There are few custom metrics, and functions write
// all of them.
func TestAlarms(t *testing.T) {
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Tickring"), nil)
	topic := awssns.NewTopic(stack, jsii.String("Topic"), nil)
	infra.NewScheduler(stack, "Tickring", &infra.Props{Functions: functions, HttpApi: true, AlarmTopic: topic, Dashboard: true})
	tmpl := read(t, stack)
	want := map[string]bool{"OldestMessage": true, "PostRunQueueAge": true, "Problems": true, "Faults": true, "Throttles": true,
		"AccountConcurrency": true, "ApiErrors": true, "ApiNearThrottle": true, "Invocations": true,
		"WriteUnits": true, "NoTick": true, "Canary": true}
	watched, charged, looks := map[string]string{}, 0, map[string][]string{}
	for _, id := range tmpl.of(t, "AWS::CloudWatch::Alarm") {
		p := tmpl.Resources[id].Properties
		name := ""
		for w := range want {
			if strings.HasPrefix(id, "TickringAlarm"+w) && len(w) > len(name) {
				name = w
			}
		}
		if name == "" {
			t.Errorf("%s is not among the alarms", id)
		}
		delete(want, name)
		if about, _ := p["AlarmDescription"].(string); len(about) < 20 || len(list(p["AlarmActions"])) != 1 || p["AlarmActions"] == nil ||
			p["OKActions"] == nil {
			t.Errorf("%s: %v", id, p)
		}
		silent := name == "NoTick" || name == "Canary"
		check.Equal[any](t, p["TreatMissingData"], map[bool]string{true: "breaching", false: "notBreaching"}[silent], "%s: missing parts", id)
		metrics := []any{p}
		if m, ok := p["Metrics"].([]any); ok {
			metrics = nil
			for _, one := range m {
				if stat := at(one, "MetricStat.Metric"); stat != nil {
					metrics = append(metrics, stat)
				}
			}
		}
		charged += len(metrics)
		for _, m := range metrics {
			of := ""
			for _, d := range list(at(m, "Dimensions")) {
				id := refers(at(d, "Value"))
				if id != "" && tmpl.Resources[id].Type == "" {
					t.Errorf("%s looks at %s, which is not there", name, id)
				}
				if at(d, "Name") == "GlobalSecondaryIndexName" {
					of = fmt.Sprint(at(d, "Value"))
				} else if of == "" {
					of = id
				}
			}
			if of != "" {
				looks[name] = append(looks[name], fmt.Sprint(of, " ", at(m, "MetricName")))
			}
			if at(m, "Namespace") == lambdaboot.MetricNamespace {
				watched[at(m, "MetricName").(string)] = at(m, "Dimensions.0.Value").(string)
			}
		}
	}
	for name := range want {
		t.Errorf("there is no alarm %s", name)
	}
	if id := tmpl.function(t, "dispatch"); !slices.Contains(looks["Throttles"], id+" Throttles") {
		t.Errorf("no alarm for throttles of dispatch: %v", looks["Throttles"])
	}
	if got, want := looks["ApiErrors"][0], tmpl.of(t, "AWS::ApiGatewayV2::Api")[0]+" 5xx"; got != want { // of all that are behind it
		t.Errorf("rejected API requests are reported by %s, want %s", got, want)
	}
	if asked := tmpl.Resources[tmpl.alarm(t, "ApiNearThrottle")].Properties; looks["ApiNearThrottle"][0] != tmpl.of(t,
		"AWS::ApiGatewayV2::Api")[0]+" Count" || asked["Threshold"] != 0.8*1000*asked["Period"].(float64) {
		t.Errorf("API requests near the throttle are reported by %v", asked)
	}
	url := synth(t, infra.Props{})
	for _, of := range [][3]string{{"api", "ApiErrors", "Throttles"}} {
		b, _ := json.Marshal(url.Resources[url.alarm(t, of[1])].Properties)
		if !strings.Contains(string(b), url.function(t, of[0])) || !strings.Contains(string(b), of[2]) {
			t.Errorf("no alarm for %s of %s behind a function URL: %s", of[2], of[0], b)
		}
	}
	for _, fn := range []string{"tick", "dispatch", "slow", "postrun", "callback", "registry", "api"} {
		writes := at(tmpl.Resources[tmpl.function(t, fn)].Properties, "Environment.Variables.TICKRING_METRICS")
		if watched[lambdaboot.Problems] != writes || watched[lambdaboot.Faults] != writes {
			t.Errorf("the alarms are on metrics of %v, the function %s writes %v", watched, fn, writes)
		}
	}
	for name, want := range map[string][2]float64{"Problems": {0, 1}, "Faults": {lambdaboot.FaultsMost, 2}, "Throttles": {0, 1}} {
		p := tmpl.Resources[tmpl.alarm(t, name)].Properties
		if p["Threshold"] != want[0] || p["EvaluationPeriods"] != want[1] || p["Statistic"] != "Sum" ||
			p["ComparisonOperator"] != "GreaterThanThreshold" {
			t.Errorf("the alarm %s goes off by %v, want above %v in %v periods", name, p, want[0], want[1])
		}
	}
	t.Logf("%d alarms on %d metrics, at $0.10 a metric and month", len(tmpl.of(t, "AWS::CloudWatch::Alarm")), charged)
	if id := tmpl.of(t, "AWS::DynamoDB::GlobalTable"); len(looks["WriteUnits"]) != 1 ||
		!slices.Contains(id, strings.Fields(looks["WriteUnits"][0])[0]) {
		t.Errorf("the alarm WriteUnits looks at %v", looks["WriteUnits"])
	}
	if id := tmpl.function(t, "tick"); !slices.Equal(looks["NoTick"], []string{id + " Errors"}) {
		t.Errorf("the alarm NoTick looks at %v", looks["NoTick"])
	}
	tick := tmpl.Resources[tmpl.alarm(t, "NoTick")].Properties // it is invoked five times in a period
	if tick["TreatMissingData"] != "breaching" || tick["Threshold"] != 4.0 || tick["ComparisonOperator"] != "GreaterThanOrEqualToThreshold" ||
		tick["Period"] != 300.0 {
		t.Errorf("the alarm NoTick goes off by %v", tick)
	}
	low := synth(t, infra.Props{InvocationsAlarm: jsii.Number(10), WriteUnitsAlarm: jsii.Number(20)})
	for name, want := range map[string]float64{"Invocations": 50, "WriteUnits": 100} { // in five minutes
		check.Equal[any](t, low.Resources[low.alarm(t, name)].Properties["Threshold"], want, "the threshold of the alarm %s", name)
	}
	// docs/reference/aws-cost.md has this number for a function URL, which has no ApiNearThrottle.
	if n := len(url.of(t, "AWS::CloudWatch::Alarm")); charged != 12 || n != 11 {
		t.Errorf("alarms on %d metrics, and %d alarms with a function URL: they cost more than all else of an idle deployment", charged, n)
	}
	check.Equal(t, len(tmpl.of(t, "AWS::CloudWatch::Dashboard")), 1, "no dashboard")
	none := synth(t, infra.Props{NoAlarms: true, NoCanary: true})
	for id, r := range none.Resources {
		if strings.HasPrefix(r.Type, "AWS::CloudWatch::") || strings.Contains(id, "Canary") { // an account without cloudwatch:PutMetricAlarm
			t.Errorf("%s exists unexpectedly", id)
		}
	}
}

// The deployment runs a job of its own, with an executor that only reports.
func TestCanary(t *testing.T) {
	tmpl := synth(t, infra.Props{})
	tick := tmpl.Resources[tmpl.function(t, "tick")].Properties
	if address := at(tick, "Environment.Variables.TICKRING_CANARY"); !strings.Contains(fmt.Sprint(address), tmpl.function(t, "canary")) {
		t.Errorf("%v", address)
	}
}

// A stack has no resources that only some CloudFormations have.
func TestNoCustomResources(t *testing.T) {
	for form, p := range allForms() {
		for id, r := range synth(t, p).Resources {
			if strings.HasPrefix(r.Type, "Custom::") || strings.HasPrefix(r.Type, "AWS::CloudFormation::") {
				t.Errorf("%s: %s is a %s", form, id, r.Type)
			}
		}
	}
}

// TestForms: differences between deployments appear in the template.
func TestForms(t *testing.T) {
	account := &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-central-1")}
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Mine"), &awscdk.StackProps{Env: account})
	vpc := awsec2.NewVpc(stack, jsii.String("Vpc"), &awsec2.VpcProps{MaxAzs: jsii.Number(2)})
	key := awskms.NewKey(stack, jsii.String("Key"), nil)
	infra.NewScheduler(stack, "Tickring", &infra.Props{
		Functions: functions, Vpc: vpc, VpcEndpoints: true, EncryptionKey: key, AccessLogs: true,
		Invoke: []string{"arn:aws:lambda:eu-central-1:123456789012:function:payroll"},
		Domain: &infra.Domain{Name: "jobs.example.com",
			Certificate: awscertificatemanager.Certificate_FromCertificateArn(stack, jsii.String("Certificate"),
				jsii.String("arn:aws:acm:eu-central-1:123456789012:certificate/1")),
			Zone: awsroute53.HostedZone_FromHostedZoneAttributes(stack, jsii.String("Zone"),
				&awsroute53.HostedZoneAttributes{HostedZoneId: jsii.String("Z1"), ZoneName: jsii.String("example.com")})},
		PermissionsBoundary: awsiam.ManagedPolicy_FromManagedPolicyArn(stack, jsii.String("Boundary"),
			jsii.String("arn:aws:iam::123456789012:policy/boundary")),
	})
	tmpl := read(t, stack)
	for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
		if !strings.HasPrefix(id, "Tickring") {
			continue // of the CDK's own
		}
		p := tmpl.Resources[id].Properties
		dials := slices.Contains([]string{tmpl.function(t, "tick"), tmpl.function(t, "dispatch"), tmpl.function(t, "slow"),
			tmpl.function(t, "postrun"), tmpl.function(t, "api")}, id)
		check.Equal(t, p["VpcConfig"] != nil, dials, "%s is in the VPC: %v", id, p["VpcConfig"])
		if refers(p["KmsKeyArn"]) == "" {
			t.Errorf("%s: its environment is not encrypted by the key", id)
		}
		role := tmpl.Resources[refers(p["Role"])].Properties
		check.Equal(t, role["PermissionsBoundary"], "arn:aws:iam::123456789012:policy/boundary", "the role of %s has the boundary", id)
		if strings.HasPrefix(id, "TickringDispatch") && at(p, "Environment.Variables.TICKRING_REPORT_URL") != "https://jobs.example.com" {
			t.Errorf("calls report to %v", at(p, "Environment.Variables.TICKRING_REPORT_URL"))
		}
	}
	if got, want := tmpl.endpoints(t),
		"dynamodb; lambda: Api Dispatch PostRun Slow Tick; logs: Api PostRun; "+
			"sqs: Api Dispatch PostRun Slow Tick; ssm: Api Dispatch PostRun Slow Tick"; got != want {
		t.Errorf("endpoints %s; want %s", got, want)
	}
	for _, id := range tmpl.of(t, "AWS::SQS::Queue") {
		if refers(tmpl.Resources[id].Properties["KmsMasterKeyId"]) == "" {
			t.Errorf("%s is not encrypted by the key", id)
		}
	}
	for _, id := range tmpl.of(t, "AWS::DynamoDB::GlobalTable") {
		check.Equal(t, at(tmpl.Resources[id].Properties, "SSESpecification.SSEType"), "KMS", "%s is not encrypted by the key", id)
	}
	if at(tmpl.Resources[tmpl.of(t, "AWS::ApiGatewayV2::Api")[0]].Properties, "DisableExecuteApiEndpoint") != true {
		t.Error("the HTTP API answers beside its domain too")
	}
	check.Equal(t, len(tmpl.of(t, "AWS::Route53::RecordSet")), 2, "records of the domain")
	if at(tmpl.Resources[tmpl.of(t, "AWS::ApiGatewayV2::Stage")[0]].Properties, "AccessLogSettings.Format") == nil {
		t.Error("no access log")
	}
	for _, w := range wild(&tmpl, t) {
		if strings.HasPrefix(w, "Tickring") {
			t.Error(w)
		}
	}
	url := synth(t, infra.Props{})
	target := at(url.Resources[url.of(t, "AWS::Lambda::Url")[0]].Properties, "TargetFunctionArn")
	check.Equal(t, refers(target), url.function(t, "api"), "the function URL is of")
	for _, r := range url.Resources {
		if r.Type == "AWS::ApiGatewayV2::Api" {
			t.Error("an HTTP API beside the function URL")
		}
	}
}
