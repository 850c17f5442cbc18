package infra_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
	"github.com/tickring/tickring/internal/testkit/golden"
)

const payroll = "arn:aws:lambda:us-east-1:123456789012:function:payroll"

// provider is an identity provider for the console.
var provider = &infra.Oidc{Issuer: "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_abc", ClientId: "c",
	SecretParameter: "/oidc/secret", Name: "Example", Scopes: []string{"openid", "profile"}, NameClaim: "cognito:username",
	RoleClaim: "cognito:groups", Roles: []string{"devs=shop:editor", "ops=admin"}}

// deployments have the props of deployments that differ from the default. The golden file of TestTemplates shows each difference.
var deployments = map[string]infra.Props{
	"HTTP API":      {HttpApi: true, AccountConcurrency: jsii.Number(1000)},
	"small account": {AccountConcurrency: jsii.Number(10)},
	"large account": {AccountConcurrency: jsii.Number(1000)},
	"concurrency":   {MaxConcurrency: jsii.Number(50), SlowConcurrency: jsii.Number(10)},
	"provisioned, and destroyed with the stack": {RecoverRuns: true, RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
		Provisioned: &infra.Provisioned{MinRead: 5, MaxRead: 50, MinWrite: 5, MaxWrite: 50}},
	"tables of an earlier stack": {Tables: &infra.Tables{Jobs: "Old-Jobs", Runs: "Old-Runs", State: "Old-State"}},
	// Resources of other owners can be used only if they are named, and only functions that answer requests for logs read logs.
	"executors": {Invoke: []string{payroll}, InvokeTag: &infra.Tag{Key: "tickring", Value: "yes"},
		Queues: []string{"arn:aws:sqs:us-east-1:123456789012:nightly"}, Topics: []string{"arn:aws:sns:us-east-1:123456789012:jobs"}},
	// A function that is named with an alias is called by the alias alone. It writes to the log of the function.
	"aliases": {Invoke: []string{payroll + ":live", payroll + ":$LATEST", payroll + ":7"}},
	"settings": {Memory: map[string]float64{"dispatch": 512}, LogLevel: "warn", MaxPartitions: jsii.Number(32), ReadToken: true,
		Allow: []string{"10.0.0.0/8"}, RunUrl: "https://jobs.example.com/runs/{run}", PublicUrl: "https://jobs.example.com/", Oidc: provider,
		InvocationsAlarm: jsii.Number(10), WriteUnitsAlarm: jsii.Number(20), XRay: true},
	"no token":            {NoToken: true, NoTokenPublic: true, PublicUrl: "https://jobs.example.com"},
	"replicas and budget": {Replicas: []string{"eu-west-1"}, Budget: &infra.Budget{Dollars: 50, Email: "ops@example.com"}},
	"no alarms":           {NoAlarms: true, NoCanary: true}, // an account without cloudwatch:PutMetricAlarm
}

// referring adds references to existing resources to the props of deployments.
var referring = map[string]func(stack awscdk.Stack, p *infra.Props){
	"alarm topic and dashboard": func(stack awscdk.Stack, p *infra.Props) {
		p.AlarmTopic, p.Dashboard = awssns.NewTopic(stack, jsii.String("Topic"), nil), true
	},
	"network, key and domain": func(stack awscdk.Stack, p *infra.Props) {
		p.Vpc, p.VpcEndpoints = awsec2.NewVpc(stack, jsii.String("Vpc"), &awsec2.VpcProps{MaxAzs: jsii.Number(2)}), true
		p.EncryptionKey, p.AccessLogs, p.Invoke = awskms.NewKey(stack, jsii.String("Key"), nil), true, []string{payroll}
		p.Domain = &infra.Domain{Name: "jobs.example.com",
			Certificate: awscertificatemanager.Certificate_FromCertificateArn(stack, jsii.String("Certificate"),
				jsii.String("arn:aws:acm:eu-central-1:123456789012:certificate/1")),
			Zone: awsroute53.HostedZone_FromHostedZoneAttributes(stack, jsii.String("Zone"),
				&awsroute53.HostedZoneAttributes{HostedZoneId: jsii.String("Z1"), ZoneName: jsii.String("example.com")})}
		p.PermissionsBoundary = awsiam.ManagedPolicy_FromManagedPolicyArn(stack, jsii.String("Boundary"),
			jsii.String("arn:aws:iam::123456789012:policy/boundary"))
	},
}

// TestTemplates compares the template of the default deployment with the golden file, and also the changes that each other
// deployment makes to it.
func TestTemplates(t *testing.T) {
	texts := golden.New(t)
	templateOf := func(p infra.Props, refer func(awscdk.Stack, *infra.Props)) []string {
		p.Functions = functions
		app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
		props := &infra.StackProps{Props: p, Refer: refer}
		props.Env = &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-central-1")}
		tmpl := read(t, infra.NewTickringStack(app, "Tickring", props).Stack)
		for id, r := range tmpl.Resources {
			if refer == nil && (strings.HasPrefix(r.Type, "Custom::") || strings.HasPrefix(r.Type, "AWS::CloudFormation::")) {
				t.Errorf("%s is a %s, which only some CloudFormations have", id, r.Type)
			}
		}
		for _, w := range wild(&tmpl, t) {
			t.Error(w) // a role may do everything of a kind, or something to everything
		}
		return tmpl.lines(t)
	}
	standard := templateOf(infra.Props{}, nil)
	texts.Equal(t, "default", strings.Join(standard, "\n"))
	for name, p := range deployments {
		texts.Equal(t, name, changed(standard, templateOf(p, nil)))
	}
	for name, refer := range referring {
		texts.Equal(t, name, changed(standard, templateOf(infra.Props{}, refer)))
	}
}

// lines returns a line for each property of the resources of tickring, for each statement of their roles, and for each output.
func (tmpl *template) lines(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, s := range tmpl.statements(t) {
		if strings.HasPrefix(s.role, "Tickring") {
			line := fmt.Sprintf("%s: %s %s on %s", s.role, s.Effect, plain(s.Action), plain(s.Resource))
			if s.Condition != nil {
				line += " if " + plain(s.Condition)
			}
			all = append(all, line)
		}
	}
	for id, r := range tmpl.Resources {
		if !strings.HasPrefix(id, "Tickring") {
			continue // created by the user or the CDK
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s: %s %s", id, r.Type, r.DeletionPolicy)))
		for _, other := range []string{"Policies", "PolicyDocument", "Code", "DashboardBody"} {
			if other != "PolicyDocument" || strings.HasPrefix(r.Type, "AWS::IAM::") {
				delete(r.Properties, other) // statements are above; the others are long and vary
			}
		}
		all = flatten(all, id, r.Properties)
	}
	for name, o := range tmpl.Outputs {
		all = append(all, "output "+name+": "+plain(at(o, "Value")))
	}
	slices.Sort(all)
	return all
}

// flatten appends a line for each value in v. Each item of a list has its own line.
func flatten(to []string, path string, v any) []string {
	if m, is := v.(map[string]any); is && reference(m) == "" {
		for key, x := range m {
			to = flatten(to, path+"."+key, x)
		}
		return to
	}
	for _, x := range list(v) {
		to = append(to, path+": "+plain(x))
	}
	return to
}

// plain returns the text of a value, in which a name in angle brackets stands for a reference.
func plain(v any) string {
	switch v := v.(type) {
	case map[string]any:
		if text := reference(v); text != "" {
			return text
		}
		var fields []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, key+": "+plain(v[key]))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case []any:
		var items []string
		for _, x := range v {
			items = append(items, plain(x))
		}
		return strings.Join(items, ", ")
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strings.ReplaceAll(fmt.Sprint(v), "\n", " ")
}

// reference returns the text of an expression of CloudFormation; empty if m is none.
func reference(m map[string]any) string {
	parts, _ := at(m, "Fn::Join.1").([]any)
	if id := refers(m); id != "" {
		if part, is := at(m, "Fn::GetAtt.1").(string); is {
			id += "." + part
		}
		return "<" + id + ">"
	}
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(plain(part))
	}
	return text.String()
}

// changed returns the lines that only one of two templates has. A resource that is gone has one line.
func changed(before, after []string) string {
	var all []string
	gone := map[string]bool{}
	for _, line := range before {
		id, about, _ := strings.Cut(line, ": ")
		gone[id] = strings.HasPrefix(about, "AWS::") && !slices.Contains(after, line)
	}
	for _, line := range before {
		id, _, _ := strings.Cut(line, ": ")
		of, _, isProperty := strings.Cut(id, ".")
		if !slices.Contains(after, line) && (!isProperty || !gone[of]) {
			all = append(all, "- "+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			all = append(all, "+ "+line)
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(a[2:], b[2:]) })
	return strings.Join(all, "\n")
}
