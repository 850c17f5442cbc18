package infra_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
	"github.com/tickring/tickring/internal/iampolicy"
	"github.com/tickring/tickring/internal/testkit/check"
)

// A statement of a policy, with its role.
type statement struct {
	role      string // logical ID
	Effect    string
	Action    any
	Resource  any
	Condition any
}

func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

// statements returns the statements of all roles, inline or in attached policies.
func (tmpl *template) statements(t *testing.T) []statement {
	t.Helper()
	var all []statement
	add := func(role string, doc any) {
		for _, raw := range list(at(doc, "Statement")) {
			b, err := json.Marshal(raw)
			check.OK(t, err)
			s := statement{role: role}
			check.OK(t, json.Unmarshal(b, &s))
			all = append(all, s)
		}
	}
	for id, r := range tmpl.Resources {
		switch r.Type {
		case "AWS::IAM::Role":
			if managed := r.Properties["ManagedPolicyArns"]; managed != nil {
				t.Errorf("%s has policies of others: %v", id, managed)
			}
			for _, p := range list(r.Properties["Policies"]) {
				if p != nil {
					add(id, at(p, "PolicyDocument"))
				}
			}
		case "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy":
			for _, role := range r.Properties["Roles"].([]any) {
				add(refers(role), r.Properties["PolicyDocument"])
			}
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d statements are found", len(all))
	}
	return all
}

// A grant is an action that a role may do on a resource.
type grant struct {
	role     string // of which function: "Dispatch"
	action   string
	resource string // the text, or JSON of an expression
}

// grants returns the grants of all roles of a template.
func (tmpl *template) grants(t *testing.T) []grant {
	t.Helper()
	var all []grant
	for _, s := range tmpl.statements(t) {
		role := strings.TrimPrefix(strings.SplitN(s.role, "Role", 2)[0], "Tickring")
		for _, a := range list(s.Action) {
			for _, r := range list(s.Resource) {
				text, is := r.(string)
				if !is {
					b, _ := json.Marshal(r)
					text = string(b)
				}
				all = append(all, grant{role, a.(string), text})
			}
		}
	}
	return all
}

// same fails the test for each item that only one of the sets has.
func same(t *testing.T, got, want map[string]bool, of string) {
	t.Helper()
	for what := range want {
		if !got[what] {
			t.Errorf("%s does not allow %s", of, what)
		}
	}
	for what := range got {
		if !want[what] {
			t.Errorf("%s allows %s", of, what)
		}
	}
}

// A wildcard is one that cannot be narrower, with the reason.
type wildcard struct {
	action   func(string) bool
	resource string // as it begins, in words
	why      string
}

var wildcards = []wildcard{
	{is("logs:CreateLogStream", "logs:PutLogEvents"), "the log group of the function", "streams are named by Lambda when it starts a process"},
	{is("logs:FilterLogEvents"), "the log group of an executor", "streams are named by Lambda when it starts a process"},
	{is("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
		"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"),
		"*", "Lambda checks for just this, before it knows the interfaces that it makes"},
	{is("xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:PutSpans", "xray:PutSpansForIndexing"), "*",
		"these actions take no resource"},
	{is("lambda:InvokeFunction", "lambda:GetFunctionConfiguration"), "functions by tag", "the tag is in the condition"},
}

func is(names ...string) func(string) bool {
	return func(a string) bool { return slices.Contains(names, a) }
}

// inWords returns the wildcard part of a resource; empty if there is none.
func inWords(s statement, resource any) string {
	if resource == "*" {
		return "*"
	}
	b, _ := json.Marshal(resource)
	text := string(b)
	if !strings.ContainsAny(text, "*?") {
		// CloudFormation's ARN of a log group ends with ":*".
		if get, ok := at(resource, "Fn::GetAtt").([]any); ok && strings.Contains(fmt.Sprint(get[0]), "Log") {
			return "the log group of the function"
		}
		return ""
	}
	if strings.Contains(text, ":log-group:/aws/lambda/payroll") && strings.HasSuffix(text, `:*"`) {
		return "the log group of an executor"
	}
	if strings.Contains(text, ":function:*") && strings.Contains(fmt.Sprint(s.Condition), "aws:ResourceTag/") {
		return "functions by tag"
	}
	return text
}

// wild names the wildcards of a template that no reason is listed for.
func wild(tmpl *template, t *testing.T) []string {
	t.Helper()
	var found []string
	for _, s := range tmpl.statements(t) {
		if s.Effect != "Allow" {
			continue
		}
		for _, a := range list(s.Action) {
			action := a.(string)
			if strings.ContainsAny(action, "*?") {
				found = append(found, fmt.Sprintf("%s may do %s", s.role, action))
				continue
			}
			for _, r := range list(s.Resource) {
				what := inWords(s, r)
				if what == "" {
					continue
				}
				if !slices.ContainsFunc(wildcards, func(w wildcard) bool { return w.action(action) && w.resource == what }) {
					found = append(found, fmt.Sprintf("%s may do %s on %s", s.role, action, what))
				}
			}
		}
	}
	return found
}

func allForms() map[string]infra.Props {
	return map[string]infra.Props{
		"HTTP API":     {HttpApi: true},
		"function URL": {AccountConcurrency: jsii.Number(1000)},
		"executors": {AccountConcurrency: jsii.Number(1000), Invoke: []string{"arn:aws:lambda:us-east-1:123456789012:function:payroll"},
			InvokeTag: &infra.Tag{Key: "tickring", Value: "yes"},
			Queues:    []string{"arn:aws:sqs:us-east-1:123456789012:nightly"},
			Topics:    []string{"arn:aws:sns:us-east-1:123456789012:jobs"}},
	}
}

// TestSecretsOfRoles: functions that unknown clients call can read only the key of reports, and only the API can read the token of
// the API.
func TestSecretsOfRoles(t *testing.T) {
	forms := allForms()
	forms["read token"] = infra.Props{ReadToken: true}
	forms["provider"] = infra.Props{Oidc: provider, PublicUrl: "https://jobs.example.com"}
	for form, p := range forms {
		tmpl := synth(t, p)
		readers := map[string][]string{}
		for _, g := range tmpl.grants(t) {
			if service, _, _ := strings.Cut(g.action, ":"); !slices.Contains([]string{"ssm", "secretsmanager", "kms"}, service) {
				continue
			}
			for _, secret := range []string{"admin-token", "read-token", "report-key", "secret-key", "oidc/secret"} {
				if strings.Contains(g.resource, "/"+secret) {
					readers[secret+" "+g.action] = append(readers[secret+" "+g.action], g.role)
				}
			}
		}
		want := map[string]string{
			"admin-token ssm:GetParameter": "Api", "report-key ssm:GetParameter": "Callback Dispatch Slow",
			"admin-token ssm:PutParameter": "Api Tick", "report-key ssm:PutParameter": "Api Tick", "secret-key ssm:PutParameter": "Api Tick",
			"secret-key ssm:GetParameter": "Api Callback Dispatch PostRun Registry Slow Tick",
		}
		if !p.HttpApi {
			want["report-key ssm:GetParameter"] = "Api Callback Dispatch Slow"
			want["secret-key ssm:GetParameter"] = "Api Callback Dispatch PostRun Slow Tick"
		}
		if p.Oidc != nil {
			want["oidc/secret ssm:GetParameter"] = "Api"
		}
		if p.ReadToken {
			want["read-token ssm:GetParameter"], want["read-token ssm:PutParameter"] = "Api", "Api Tick"
		}
		for what, who := range readers {
			slices.Sort(who)
			check.Equal(t, strings.Join(who, " "), want[what], "%s: %s is allowed to %q, want", form, what, who)
		}
		check.Equal(t, len(readers), len(want), "%s: %v, want %v", form, readers, want)
	}
}

// TestRolesAreThoseOfTheSimulation: the roles of the template equal the roles by which the simulation checks each request.
func TestRolesAreThoseOfTheSimulation(t *testing.T) {
	tmpl := synth(t, infra.Props{HttpApi: true})
	got := map[string]bool{}
	for _, g := range tmpl.grants(t) {
		service, action, _ := strings.Cut(g.action, ":")
		if service != "dynamodb" && service != "sqs" {
			continue
		}
		on := "?"
		for _, name := range []string{"jobs", "runs", "state", iampolicy.Fires, iampolicy.Slow, iampolicy.Checks, iampolicy.PostRuns,
			iampolicy.Results, iampolicy.Dead} {
			if strings.Contains(g.resource, `"Tickring`+title(name)+`"`) {
				on = name
			}
		}
		if strings.Contains(g.resource, "/index/due") {
			on += "/due"
		}
		got[g.role+" "+action+" "+on] = true
	}
	want := map[string]bool{}
	for name, r := range map[string]iampolicy.Role{"Tick": iampolicy.Tick, "Dispatch": iampolicy.Dispatch,
		"Slow": iampolicy.SlowLane, "PostRun": iampolicy.PostRun,
		"Callback": iampolicy.Callback, "Registry": iampolicy.Registry, "Api": iampolicy.Api} {
		for on, actions := range map[string][]string{"jobs": r.Jobs, "jobs/due": r.Due, "runs": r.Runs, "state": r.State} {
			for _, a := range actions {
				want[name+" "+a+" "+on] = true
			}
		}
		for _, q := range []string{iampolicy.Fires, iampolicy.Slow, iampolicy.Checks, iampolicy.PostRuns, iampolicy.Results, iampolicy.Dead} {
			for _, a := range []string{"SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes"} {
				if r.Allows(a, q) {
					want[name+" "+a+" "+q] = true
				}
			}
		}
	}
	same(t, got, want, "the template")
}

// rendered is about as long as a value is in an account, without white space, as
// IAM counts: references are of names that CloudFormation makes up.
func rendered(v any) int {
	switch d := v.(type) {
	case map[string]any:
		if d["Ref"] != nil || d["Fn::GetAtt"] != nil {
			return 150
		}
		if parts, ok := d["Fn::Join"].([]any); ok {
			n := 0
			for _, p := range list(parts[1]) {
				n += rendered(p)
			}
			return n
		}
		n := 2
		for k, x := range d {
			n += len(k) + len(`"":,`) + rendered(x)
		}
		return n
	case []any:
		n := 2
		for _, x := range d {
			n += 1 + rendered(x)
		}
		return n
	}
	b, _ := json.Marshal(v)
	return len(b)
}

// IAM takes 10,240 characters in all for the policies in a role, 6,144 for each
// that is attached, and ten of those: as many functions and queues as the props
// allow, with the longest names, are still allowed each of them, and no more.
func TestPoliciesFit(t *testing.T) {
	p := infra.Props{InvokeTag: &infra.Tag{Key: "tickring", Value: "yes"}}
	for i := range 100 {
		p.Invoke = append(p.Invoke, fmt.Sprintf("arn:aws-us-gov:lambda:ap-southeast-4:123456789012:function:%s%03d:%s", strings.Repeat("f", 61),
			i, strings.Repeat("a", 32)))
		p.Queues = append(p.Queues, fmt.Sprintf("arn:aws-us-gov:sqs:ap-southeast-4:123456789012:%s%03d", strings.Repeat("q", 77), i))
	}
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Mine"), &awscdk.StackProps{
		Env: &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("us-gov-west-1")}})
	p.EncryptionKey, p.Functions = awskms.NewKey(stack, jsii.String("Key"), nil), functions
	infra.NewScheduler(stack, "Tickring", &p)
	tmpl := read(t, stack)
	inRole, attached := map[string]int{}, map[string]int{}
	for id, r := range tmpl.Resources {
		switch r.Type {
		case "AWS::IAM::Role":
			for _, policy := range list(r.Properties["Policies"]) {
				inRole[id] += rendered(at(policy, "PolicyDocument"))
			}
		case "AWS::IAM::Policy":
			for _, role := range list(r.Properties["Roles"]) {
				inRole[refers(role)] += rendered(r.Properties["PolicyDocument"])
			}
		case "AWS::IAM::ManagedPolicy":
			if n := rendered(r.Properties["PolicyDocument"]); n > 6144 {
				t.Errorf("%s has %d characters; IAM takes 6144", id, n)
			}
			for _, role := range list(r.Properties["Roles"]) {
				attached[refers(role)]++
			}
		}
	}
	for role, n := range inRole {
		if n > 10240 || attached[role] > 10 {
			t.Errorf("%s has %d characters and %d policies beside; IAM takes 10240 and 10", role, n, attached[role])
		}
	}
	if len(attached) == 0 {
		t.Error("nothing is attached: is anything counted?")
	}
	may := map[string]int{}
	for _, g := range tmpl.grants(t) {
		if strings.Contains(g.resource, strings.Repeat("f", 61)) || strings.Contains(g.resource, strings.Repeat("q", 77)) {
			may[g.role+" "+g.action]++
		}
	}
	for _, what := range []string{"Dispatch lambda:InvokeFunction", "Slow lambda:InvokeFunction", "Dispatch sqs:SendMessage",
		"Slow sqs:SendMessage",
		"Tick lambda:GetFunctionConfiguration", "Tick sqs:GetQueueAttributes", "Api logs:FilterLogEvents",
		"Api lambda:GetFunctionConfiguration"} {
		check.Equal(t, may[what], 100, "%s: of N want 100", what)
	}
	if may["Tick lambda:InvokeFunction"]+may["Tick sqs:SendMessage"] > 0 {
		t.Errorf("tick sends: %v", may)
	}
	// A function is attached to before it runs.
	for _, name := range []string{"tick", "dispatch", "slow", "api"} {
		fn := tmpl.Resources[tmpl.function(t, name)]
		if !slices.ContainsFunc(list(fn.DependsOn), func(d any) bool { return tmpl.Resources[fmt.Sprint(d)].Type == "AWS::IAM::ManagedPolicy" }) {
			t.Errorf("%s is made before its policies: %v", name, fn.DependsOn)
		}
	}
}

// TestLoops: a function that can put messages on the queues can also receive them, directly or through an executor; Lambda
// stops none of these functions as a runaway loop.
func TestLoops(t *testing.T) {
	for form, p := range allForms() {
		tmpl := synth(t, p)
		for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
			fn := tmpl.Resources[id].Properties
			puts := slices.ContainsFunc(tmpl.statements(t), func(s statement) bool {
				b, _ := json.Marshal(s.Resource)
				return s.role == refers(fn["Role"]) && slices.Contains(list(s.Action), any("sqs:SendMessage")) &&
					regexp.MustCompile("Tickring(Fires|Checks|PostRun)").Match(b)
			})
			check.Equal(t, fn["RecursiveLoop"] == "Allow", puts, "%s: %s puts on the ring and may be in a loop", form, id)
		}
	}
}
