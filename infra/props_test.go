package infra_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestContradictions: contradictory props are rejected when the app is synthesized.
func TestContradictions(t *testing.T) {
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Tickring"), nil)
	vpc := awsec2.Vpc_FromVpcAttributes(stack, jsii.String("Bare"), &awsec2.VpcAttributes{VpcId: jsii.String("vpc-1"),
		AvailabilityZones: jsii.Strings("a")})
	group := awsec2.SecurityGroup_FromSecurityGroupId(stack, jsii.String("Group"), jsii.String("sg-1"), nil)
	topic := awssns.Topic_FromTopicArn(stack, jsii.String("Topic"), jsii.String("arn:aws:sns:us-east-1:123456789012:topic"))
	texts := golden.New(t)
	for name, p := range map[string]infra.Props{
		"two collectors":                {XRay: true, Environment: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c"}},
		"a budget without an address":   {Budget: &infra.Budget{Dollars: 50}},
		"a replica that is no Region":   {Replicas: []string{"Frankfurt"}},
		"a Region twice":                {Replicas: []string{"eu-west-1", "eu-west-1"}},
		"replicas with a key":           {Replicas: []string{"eu-west-1"}, EncryptionKey: awskms.NewKey(stack, jsii.String("Key"), nil)},
		"a threshold without alarms":    {NoAlarms: true, WriteUnitsAlarm: jsii.Number(5)},
		"no partition":                  {MaxPartitions: jsii.Number(0)},
		"half a partition":              {MaxPartitions: jsii.Number(1.5)},
		"too many partitions":           {MaxPartitions: jsii.Number(257)},
		"one at a time":                 {MaxConcurrency: jsii.Number(1)},
		"no retention":                  {LogRetentionDays: jsii.Number(0)},
		"an odd retention":              {LogRetentionDays: jsii.Number(10)},
		"an address":                    {Allow: []string{"10.0.0.1"}},
		"a network with a host":         {Allow: []string{"10.1.2.3/8"}},
		"a name":                        {Allow: []string{"executors"}},
		"no memory":                     {Memory: map[string]float64{"tick": 64}},
		"memory of no function":         {Memory: map[string]float64{"tack": 128}},
		"no run in its URL":             {RunUrl: "https://jobs.example.com/runs"},
		"a zone":                        {ReportZone: "Mars/Base"},
		"a level":                       {LogLevel: "loud"},
		"capacity upside down":          {Provisioned: &infra.Provisioned{MinRead: 5, MaxRead: 4, MinWrite: 1, MaxWrite: 1}},
		"no capacity":                   {Provisioned: &infra.Provisioned{MinRead: 1, MaxRead: 1}},
		"cold throughput":               {WarmThroughput: &infra.Throughput{Read: 12000}},
		"protected and destroyed":       {RemovalPolicy: awscdk.RemovalPolicy_DESTROY, DeletionProtection: jsii.Bool(true)},
		"a snapshot":                    {RemovalPolicy: awscdk.RemovalPolicy_SNAPSHOT},
		"a table without a name":        {Tables: &infra.Tables{Jobs: "jobs", Runs: "runs"}},
		"one table for two":             {Tables: &infra.Tables{Jobs: "jobs", Runs: "runs", State: "runs"}},
		"settings of named tables":      {RecoverRuns: true, Tables: &infra.Tables{Jobs: "jobs", Runs: "runs", State: "state"}},
		"a function's name":             {Invoke: []string{"payroll"}},
		"any function":                  {Invoke: []string{"arn:aws:lambda:us-east-1:123456789012:function:*"}},
		"a FIFO topic":                  {Topics: []string{"arn:aws:sns:us-east-1:123456789012:jobs.fifo"}},
		"a tag without value":           {InvokeTag: &infra.Tag{Key: "tickring"}},
		"any tag":                       {InvokeTag: &infra.Tag{Key: "tickring", Value: "*"}},
		"groups without a VPC":          {SecurityGroups: []awsec2.ISecurityGroup{group}},
		"subnets without a VPC":         {Subnets: &awsec2.SubnetSelection{}},
		"endpoints without a VPC":       {VpcEndpoints: true},
		"a VPC without subnets":         {Vpc: vpc},
		"an API that its domain closes": {Domain: &infra.Domain{Name: "jobs.example.com"}, PublicUrl: "http://localhost/{api}"},
		"no token, in public":           {NoToken: true},
		"no token behind an HTTP API":   {NoToken: true, HttpApi: true, PublicUrl: "https://jobs.example.com"},
		"a provider, and no way back":   {Oidc: &infra.Oidc{Issuer: "https://id.example.com", ClientId: "c"}},
		"a URL with an unknown name": {PublicUrl: "https://{api}.example.com",
			Oidc: &infra.Oidc{Issuer: "https://id.example.com", ClientId: "c"}},
		"a provider in clear": {Oidc: &infra.Oidc{Issuer: "http://id.example.com", ClientId: "c", Url: "https://j.example.com"}},
		"a secret by itself": {Oidc: &infra.Oidc{Issuer: "https://id.example.com", ClientId: "c", Url: "https://j.example.com",
			SecretParameter: "s3cret"}},
		"a yes to nothing":             {NoTokenPublic: true},
		"a throttle of a function URL": {Throttle: &infra.Throttle{Rate: 1, Burst: 1}},
		"a closed throttle":            {Throttle: &infra.Throttle{Burst: 1}},
		"a throttle at once":           {Throttle: &infra.Throttle{Rate: 1, Burst: 5001}},
		"places that AWS keeps":        {HttpApi: true, EndpointConcurrency: jsii.Number(31), AccountConcurrency: jsii.Number(190)},
		"places of a new account":      {EndpointConcurrency: jsii.Number(1), AccountConcurrency: jsii.Number(10)},
		"logs of a function URL":       {AccessLogs: true},
		"an API of a function URL":     {PublicUrl: "http://localhost/{api}"},
		"a domain without its papers":  {Domain: &infra.Domain{Name: "jobs.example.com"}},
		"no domain":                    {Domain: &infra.Domain{Name: "https://jobs.example.com"}},
		"no URL":                       {PublicUrl: "jobs.example.com"},
		"topic without alarms":         {NoAlarms: true, AlarmTopic: topic},
		"a variable of ours":           {Environment: map[string]string{"TICKRING_ADMIN_TOKEN": "0"}},
		"a token in clear":             {Environment: map[string]string{"TICKRING_READ_TOKEN": "0"}},
		"another place of the token":   {Environment: map[string]string{"TICKRING_READ_TOKEN_PARAM": "0"}},
		"two places of functions":      {Source: ".."},
	} {
		t.Run(name, func(t *testing.T) {
			p.Functions = functions
			texts.Equal(t, name, rejection(t, &p))
		})
	}
}

// TestAllContradictions: all errors are reported at once.
func TestAllContradictions(t *testing.T) {
	err := (&infra.Props{MaxPartitions: jsii.Number(0), Allow: []string{"x"}, LogRetentionDays: jsii.Number(0)}).Check()
	check.Equal(t, strings.Count(fmt.Sprint(err), "\n"), 2, "%v", err)
}

// TestFunctionsAreThere: missing functions and a missing source are reported.
func TestFunctionsAreThere(t *testing.T) {
	texts, dir := golden.New(t), t.TempDir()
	texts.Equal(t, "elsewhere", rejection(t, &infra.Props{Functions: dir}), dir, "DIR")
	texts.Equal(t, "another source", rejection(t, &infra.Props{Source: dir}), dir, "DIR")
}

// rejection fails t if a scheduler with props p can be synthesized, and returns the error.
func rejection(t *testing.T, p *infra.Props) (message string) {
	t.Helper()
	defer func() {
		err, is := recover().(error)
		if !is {
			t.Error("the props are accepted")
		}
		message = strings.TrimSpace(fmt.Sprint(err))
	}()
	infra.NewScheduler(awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Tickring"), nil), "Tickring", p)
	return ""
}
