package infra_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
	"github.com/tickring/tickring/internal/boot"
)

// functions is a folder of functions that are not looked into.
var functions string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "functions")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"tick", "dispatch", "callback", "registry", "api", "setup", "canary", "dead"} {
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

// synth makes the template of a stack with props.
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
}

func read(t *testing.T, stack awscdk.Stack) template {
	t.Helper()
	b, err := json.Marshal(*assertions.Template_FromStack(stack, nil).ToJSON())
	if err != nil {
		t.Fatal(err)
	}
	var tmpl template
	if err := json.Unmarshal(b, &tmpl); err != nil {
		t.Fatal(err)
	}
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

// at is what stands in a document at a path such as "Replicas.0.TableName".
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

// function finds the logical ID of a function by its name.
func (tmpl *template) function(t *testing.T, name string) string {
	t.Helper()
	title := strings.ToUpper(name[:1]) + name[1:]
	for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
		if strings.HasPrefix(id, "Tickring"+title+"Function") {
			return id
		}
	}
	t.Fatalf("there is no function %s", name)
	return ""
}

// refers tells the logical ID that a value refers to.
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

// What holds data has the same logical ID for ever, is kept when the stack
// goes, and has no property whose change would replace it.
func TestDataStays(t *testing.T) {
	tmpl := synth(t, infra.Props{})
	if got, want := tmpl.of(t, "AWS::DynamoDB::GlobalTable"), []string{"TickringJobs", "TickringRuns", "TickringState"}; !slices.Equal(got, want) {
		t.Errorf("tables %q, want %q", got, want)
	}
	if got, want := tmpl.of(t, "AWS::SQS::Queue"), []string{"TickringChecks", "TickringDead", "TickringFires"}; !slices.Equal(got, want) {
		t.Errorf("queues %q, want %q", got, want)
	}
	for _, id := range tmpl.of(t, "AWS::DynamoDB::GlobalTable") {
		r := tmpl.Resources[id]
		if r.DeletionPolicy != "Retain" || r.UpdateReplacePolicy != "Retain" {
			t.Errorf("%s: deletion policy %s, %s when replaced", id, r.DeletionPolicy, r.UpdateReplacePolicy)
		}
		if at(r.Properties, "Replicas.0.DeletionProtectionEnabled") != true {
			t.Errorf("%s is not protected", id)
		}
		if at(r.Properties, "TableName") != nil {
			t.Errorf("%s has a name of its own: it could not be replaced beside itself", id)
		}
		if at(r.Properties, "TimeToLiveSpecification.AttributeName") != "expires" || at(r.Properties, "TimeToLiveSpecification.Enabled") != true {
			t.Errorf("%s: %v", id, r.Properties["TimeToLiveSpecification"])
		}
		if r.Properties["BillingMode"] != "PAY_PER_REQUEST" {
			t.Errorf("%s: %v", id, r.Properties["BillingMode"])
		}
		recover := at(r.Properties, "Replicas.0.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled")
		if recover != (id != "TickringRuns") {
			t.Errorf("%s: point-in-time recovery is %v", id, recover)
		}
	}
	for _, id := range tmpl.of(t, "AWS::SQS::Queue") {
		for _, property := range []string{"QueueName", "FifoQueue"} {
			if at(tmpl.Resources[id].Properties, property) != nil {
				t.Errorf("%s has %s, whose change replaces it with all that is on it", id, property)
			}
		}
	}
	other := synth(t, infra.Props{RecoverRuns: true, RemovalPolicy: awscdk.RemovalPolicy_DESTROY, Provisioned: &infra.Provisioned{MinRead: 5, MaxRead: 50, MinWrite: 5, MaxWrite: 50}})
	for _, id := range other.of(t, "AWS::DynamoDB::GlobalTable") {
		r := other.Resources[id]
		if r.DeletionPolicy != "Delete" || at(r.Properties, "Replicas.0.DeletionProtectionEnabled") != false || r.Properties["BillingMode"] != "PROVISIONED" {
			t.Errorf("%s with RemovalPolicy DESTROY: %s, %v", id, r.DeletionPolicy, r.Properties)
		}
		if at(r.Properties, "Replicas.0.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled") != true {
			t.Errorf("%s cannot be recovered with RecoverRuns", id)
		}
	}
}

// The tables and the index are those that the engine asks for.
func TestKeys(t *testing.T) {
	tmpl := synth(t, infra.Props{})
	for id, want := range map[string][2]string{"TickringJobs": {"id S", "part S"}, "TickringRuns": {"job N", "run N"}, "TickringState": {"of S", "key S"}} {
		p := tmpl.Resources[id].Properties
		kinds := map[any]any{}
		for _, a := range p["AttributeDefinitions"].([]any) {
			kinds[at(a, "AttributeName")] = at(a, "AttributeType")
		}
		key := func(schema any, i int) string {
			name := at(schema, fmt.Sprintf("KeySchema.%d.AttributeName", i))
			return fmt.Sprint(name, " ", kinds[name])
		}
		if got := [2]string{key(p, 0), key(p, 1)}; got != want {
			t.Errorf("%s has the key %q, want %q", id, got, want)
		}
		if id == "TickringJobs" {
			index := at(p, "GlobalSecondaryIndexes.0")
			if at(index, "IndexName") != "due" || key(index, 0) != "partition N" || key(index, 1) != "planAt S" || at(index, "Projection.ProjectionType") != "KEYS_ONLY" {
				t.Errorf("the index is %v", index)
			}
		}
	}
}

// A message comes again only when the function that took it is dead, and after
// many times it is among the dead letters. Nobody reads a queue, nor asks it
// without encryption.
func TestQueues(t *testing.T) {
	tmpl := synth(t, infra.Props{MaxConcurrency: jsii.Number(50)})
	mapped := map[string]bool{}
	for _, id := range tmpl.of(t, "AWS::Lambda::EventSourceMapping") {
		m := tmpl.Resources[id].Properties
		queue, fn := refers(m["EventSourceArn"]), refers(m["FunctionName"])
		mapped[queue] = true
		visibility, timeout := at(tmpl.Resources[queue].Properties, "VisibilityTimeout"), at(tmpl.Resources[fn].Properties, "Timeout")
		if v, ok := visibility.(float64); !ok || v < 2*timeout.(float64) {
			t.Errorf("%s is invisible for %v s, and %s may take %v s", queue, visibility, fn, timeout)
		}
		if at(tmpl.Resources[fn].Properties, "Environment.Variables.TICKRING_VISIBILITY") != fmt.Sprintf("%vs", visibility) {
			t.Errorf("%s is told another visibility than %v s", fn, visibility)
		}
		if at(m, "FunctionResponseTypes.0") != "ReportBatchItemFailures" || at(m, "ScalingConfig.MaximumConcurrency") != 50.0 {
			t.Errorf("the mapping of %s is %v", queue, m)
		}
		if at(tmpl.Resources[fn].Properties, "RecursiveLoop") != "Allow" {
			t.Errorf("%s puts messages back: Lambda would stop it", fn)
		}
	}
	if !mapped["TickringFires"] || !mapped["TickringChecks"] {
		t.Errorf("only %v are taken from", mapped)
	}
	for _, id := range tmpl.of(t, "AWS::SQS::Queue") {
		p := tmpl.Resources[id].Properties
		if id != "TickringDead" && (refers(at(p, "RedrivePolicy.deadLetterTargetArn")) != "TickringDead" || at(p, "RedrivePolicy.maxReceiveCount").(float64) < 50) {
			t.Errorf("%s: dead letters go by %v", id, p["RedrivePolicy"])
		}
		if p["SqsManagedSseEnabled"] != true || p["MessageRetentionPeriod"] != 1209600.0 {
			t.Errorf("%s: %v", id, p)
		}
		if !slices.ContainsFunc(tmpl.of(t, "AWS::SQS::QueuePolicy"), func(pol string) bool {
			q := tmpl.Resources[pol].Properties
			return refers(at(q, "Queues.0")) == id && at(q, "PolicyDocument.Statement.0.Effect") == "Deny" && at(q, "PolicyDocument.Statement.0.Condition.Bool.aws:SecureTransport") == "false"
		}) {
			t.Errorf("%s may be asked without encryption", id)
		}
	}
	if unset := synth(t, infra.Props{}); at(unset.Resources[unset.of(t, "AWS::Lambda::EventSourceMapping")[0]].Properties, "ScalingConfig") != nil {
		t.Error("a mapping is bounded without MaxConcurrency: that costs more when idle")
	}
}

// Each function is as small as it can be, and says only what matters.
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
	if got := at(tmpl.Resources[tmpl.function(t, "dispatch")].Properties, "MemorySize"); got != 512.0 {
		t.Errorf("dispatch has %v MB", got)
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
	wake := tmpl.Resources[tmpl.of(t, "AWS::Scheduler::Schedule")[0]].Properties
	if wake["ScheduleExpression"] != "rate(1 minute)" || refers(at(wake, "Target.Arn")) != tick || at(wake, "Target.RetryPolicy.MaximumRetryAttempts") != 0.0 {
		t.Errorf("tick is woken by %v", wake)
	}
}

// Every function starts with the environment that it is given, and no
// environment holds a secret.
func TestEnvironment(t *testing.T) {
	for form, p := range map[string]infra.Props{"HTTP API": {Allow: []string{"10.0.0.0/8"}, NoToken: true, LogLevel: "warn", MaxPartitions: jsii.Number(32)}, "function URL": {FunctionUrl: true}} {
		tmpl := synth(t, p)
		for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
			vars, _ := at(tmpl.Resources[id].Properties, "Environment.Variables").(map[string]any)
			c, err := boot.Read(func(name string) string {
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
			}, boot.Needs{AdminToken: strings.HasPrefix(id, "TickringApi")})
			if err != nil {
				t.Errorf("%s: %s could not start: %v", form, id, err)
			}
			if c.Names.Jobs != "TickringJobs" || c.Names.Runs != "TickringRuns" || c.Names.State != "TickringState" ||
				!strings.HasSuffix(c.Names.Fires, "/TickringFires") || !strings.HasSuffix(c.Names.Checks, "/TickringChecks") || !strings.HasSuffix(c.Names.Dead, "/TickringDead") {
				t.Errorf("%s: %s works on %+v", form, id, c.Names)
			}
			if c.AdminToken != "" {
				t.Errorf("%s: %s shows the token", form, id)
			}
			dials := strings.HasPrefix(id, "TickringDispatch") || strings.HasPrefix(id, "TickringTick") || strings.HasPrefix(id, "TickringApi")
			if form == "HTTP API" && (c.Partitions != 32 || !c.NoToken || dials != (len(c.Policy.Allow) == 1)) {
				t.Errorf("%s is told %d partitions, %v", id, c.Partitions, c.Policy)
			}
			if strings.HasPrefix(id, "TickringDispatch") && (c.ReportURL == "" || c.Params.ReportKey == "" || c.Params.AdminToken != "") {
				t.Errorf("%s: %s reports at %q with %+v", form, id, c.ReportURL, c.Params)
			}
		}
	}
}

// The limits of CloudFormation are 1 MB (1,000,000 bytes) and 500 resources.
func TestSize(t *testing.T) {
	for form, p := range map[string]infra.Props{"HTTP API": {Dashboard: true}, "function URL": {FunctionUrl: true, Dashboard: true}} {
		tmpl := synth(t, p)
		t.Logf("%s: %d bytes, %d resources", form, tmpl.bytes, len(tmpl.Resources))
		if tmpl.bytes > 200_000 || len(tmpl.Resources) > 150 {
			t.Errorf("%s: the template has %d bytes and %d resources: a fifth of what CloudFormation takes is meant for others", form, tmpl.bytes, len(tmpl.Resources))
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
	if n := len(tmpl.of(t, "AWS::DynamoDB::GlobalTable")); n != 6 {
		t.Errorf("%d tables", n)
	}
}
