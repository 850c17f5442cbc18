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
	ids := tmpl.of(t, "AWS::Lambda::Function")
	i := slices.IndexFunc(ids, func(id string) bool { return strings.HasPrefix(id, "Tickring"+title(name)+"Function") })
	if i < 0 {
		t.Fatalf("no function %s", name)
	}
	return ids[i]
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
	for kind, want := range map[string][]string{
		"AWS::DynamoDB::GlobalTable": {"TickringJobs", "TickringRuns", "TickringState"},
		"AWS::SQS::Queue": {"TickringChecks", "TickringDead", "TickringFires", "TickringPostRun", "TickringResults",
			"TickringSlow"},
	} {
		if got := tmpl.of(t, kind); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
		for _, id := range want {
			r := tmpl.Resources[id]
			if isTable := kind != "AWS::SQS::Queue"; isTable && (r.DeletionPolicy != "Retain" || r.UpdateReplacePolicy != "Retain" ||
				at(r.Properties, "Replicas.0.DeletionProtectionEnabled") != true) {
				t.Errorf("%s: deletion policy %s, %s when replaced: %v", id, r.DeletionPolicy, r.UpdateReplacePolicy, r.Properties)
			}
			for _, property := range []string{"TableName", "QueueName", "FifoQueue"} {
				check.Equal(t, r.Properties[property], nil, "%s has %s, whose change replaces it with all its data:", id, property)
			}
		}
	}
}

// TestQueues: a message is delivered again only after its function died. The visibility is short enough that a run survives two
// deaths within the default grace of 60 s. After an hour and a half the message is in the dead-letter queue.
func TestQueues(t *testing.T) {
	tmpl := synth(t, infra.Props{})
	number := func(id, path string) float64 {
		n, is := at(tmpl.Resources[id].Properties, path).(float64)
		if !is {
			t.Errorf("%s has no number %s", id, path)
		}
		return n
	}
	for _, id := range tmpl.of(t, "AWS::Lambda::EventSourceMapping") {
		m := tmpl.Resources[id].Properties
		queue, fn := refers(m["EventSourceArn"]), refers(m["FunctionName"])
		visibility, timeout := number(queue, "VisibilityTimeout"), number(fn, "Timeout")
		if visibility < timeout+2 {
			t.Errorf("%s is invisible for %v s, and %s may take %v s", queue, visibility, fn, timeout)
		}
		if fires := queue != "TickringResults" && queue != "TickringPostRun"; fires && 2*visibility > 60-10 {
			t.Errorf("%s is invisible for %v s: a fire whose function died twice is late", queue, visibility)
		} else if fires && at(tmpl.Resources[fn].Properties, "Environment.Variables.TICKRING_VISIBILITY") != fmt.Sprintf("%vs", visibility) {
			t.Errorf("%s gets a visibility other than %v s", fn, visibility)
		}
	}
	for _, id := range tmpl.of(t, "AWS::SQS::Queue") {
		if id != "TickringDead" && number(id, "RedrivePolicy.maxReceiveCount")*number(id, "VisibilityTimeout") < 90*60 {
			t.Errorf("%s: dead letters go by %v", id, tmpl.Resources[id].Properties["RedrivePolicy"])
		}
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

// TestEnvironment: every function starts with its environment, and no environment contains a secret.
func TestEnvironment(t *testing.T) {
	for form, p := range map[string]infra.Props{"HTTP API": {HttpApi: true, Allow: []string{"10.0.0.0/8"}, NoToken: true, NoTokenPublic: true,
		ReadToken: true, PublicUrl: "https://jobs.example.com", Oidc: provider}, "function URL": {}} {
		tmpl := synth(t, p)
		for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
			vars, _ := at(tmpl.Resources[id].Properties, "Environment.Variables").(map[string]any)
			if strings.HasPrefix(id, "TickringCanary") {
				continue // it has none
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
			if err != nil || c.AdminToken != "" || c.ReadToken != "" {
				t.Errorf("%s: %s could not start, or shows a token: %v", form, id, err)
			}
			if form == "HTTP API" && c.Policy.Check(netip.MustParseAddr("10.0.3.17")) != nil {
				t.Errorf("%s: an executor at 10.0.3.17 could not register, or not be called: %v", id, c.Policy)
			}
			if has := c.Provider.Set(); has != (p.Oidc != nil && strings.HasPrefix(id, "TickringApi")) ||
				has && (len(c.Provider.Roles) != 2 || len(c.Provider.Scopes) != 2) {
				t.Errorf("%s: %s gets the provider %+v", form, id, c.Provider)
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

// TestOutputsAreDocumented: the docs contain the names of the outputs that the command line uses.
func TestOutputsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/reference/aws-alarms.md")
	check.OK(t, err)
	tmpl := synth(t, infra.Props{HttpApi: true})
	for output := range tmpl.Outputs {
		o := outputs.Outputs{output: "x"}
		if len(o.Tables())+len(o.Queues())+len(o.Functions()) > 0 && !strings.Contains(string(doc), "`"+output+"`") {
			t.Errorf("docs/reference/aws-alarms.md does not name the output %s", output)
		}
	}
}

// TestAlarms: every alarm has a description and notifies the topic. There are few alarms and metrics, because they cost more than all
// else of an idle deployment. docs/reference/aws-cost.md has the number for a function URL, which has no ApiNearThrottle.
func TestAlarms(t *testing.T) {
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Tickring"), nil)
	topic := awssns.NewTopic(stack, jsii.String("Topic"), nil)
	infra.NewScheduler(stack, "Tickring", &infra.Props{Functions: functions, HttpApi: true, AlarmTopic: topic})
	tmpl, metrics := read(t, stack), 0
	for _, id := range tmpl.of(t, "AWS::CloudWatch::Alarm") {
		p := tmpl.Resources[id].Properties
		if about, _ := p["AlarmDescription"].(string); len(about) < 20 || p["AlarmActions"] == nil || p["OKActions"] == nil {
			t.Errorf("%s: %v", id, p)
		}
		if p["MetricName"] != nil {
			metrics++
		}
		for _, m := range list(p["Metrics"]) {
			if at(m, "MetricStat") != nil {
				metrics++
			}
		}
	}
	url := synth(t, infra.Props{})
	if n := len(url.of(t, "AWS::CloudWatch::Alarm")); metrics != 12 || n != 11 {
		t.Errorf("alarms on %d metrics, and %d alarms with a function URL", metrics, n)
	}
}
