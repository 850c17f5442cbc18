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
)

// TestContradictions: contradictory props are rejected when the app is synthesized.
func TestContradictions(t *testing.T) {
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Tickring"), nil)
	vpc := awsec2.Vpc_FromVpcAttributes(stack, jsii.String("Bare"), &awsec2.VpcAttributes{VpcId: jsii.String("vpc-1"),
		AvailabilityZones: jsii.Strings("a")})
	group := awsec2.SecurityGroup_FromSecurityGroupId(stack, jsii.String("Group"), jsii.String("sg-1"), nil)
	topic := awssns.Topic_FromTopicArn(stack, jsii.String("Topic"), jsii.String("arn:aws:sns:us-east-1:123456789012:topic"))
	for name, c := range map[string]struct {
		p    infra.Props
		want string
	}{
		"two collectors": {infra.Props{XRay: true, Environment: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c"}},
			"XRay is set with OTEL_EXPORTER_OTLP_"},
		"a budget without an address": {infra.Props{Budget: &infra.Budget{Dollars: 50}},
			`Budget is 50 dollars for "": 1 to 1000000 dollars and an email address are allowed`},
		"a replica that is no Region": {infra.Props{Replicas: []string{"Frankfurt"}}, `Replicas has "Frankfurt": each is a Region`},
		"a Region twice":              {infra.Props{Replicas: []string{"eu-west-1", "eu-west-1"}}, "named once"},
		"replicas with a key": {infra.Props{Replicas: []string{"eu-west-1"}, EncryptionKey: awskms.NewKey(stack, jsii.String("Key"), nil)},
			"Replicas and EncryptionKey are both set"},
		"a threshold without alarms": {infra.Props{NoAlarms: true, WriteUnitsAlarm: jsii.Number(5)}, "is set with NoAlarms"},
		"no partition": {infra.Props{MaxPartitions: jsii.Number(0)},
			"MaxPartitions is 0: a whole number from 1 to 256 is allowed"},
		"half a partition":      {infra.Props{MaxPartitions: jsii.Number(1.5)}, "MaxPartitions is 1.5"},
		"too many partitions":   {infra.Props{MaxPartitions: jsii.Number(257)}, "MaxPartitions is 257"},
		"one at a time":         {infra.Props{MaxConcurrency: jsii.Number(1)}, "MaxConcurrency is 1: a whole number from 2 to 1000"},
		"no retention":          {infra.Props{LogRetentionDays: jsii.Number(0)}, "LogRetentionDays is 0: logs are kept for 1 3 5 7"},
		"an odd retention":      {infra.Props{LogRetentionDays: jsii.Number(10)}, "LogRetentionDays is 10"},
		"an address":            {infra.Props{Allow: []string{"10.0.0.1"}}, `Allow has "10.0.0.1": it takes networks such as 10.0.0.0/8`},
		"a network with a host": {infra.Props{Allow: []string{"10.1.2.3/8"}}, `Allow has "10.1.2.3/8": as a network that is 10.0.0.0/8`},
		"a name":                {infra.Props{Allow: []string{"executors"}}, `Allow has "executors"`},
		"no memory": {infra.Props{Memory: map[string]float64{"tick": 64}},
			"Memory of tick is 64: a whole number from 128 to 10240"},
		"memory of no function": {infra.Props{Memory: map[string]float64{"tack": 128}},
			`Memory names the function "tack": there are tick, dispatch`},
		"no run in its URL": {infra.Props{RunUrl: "https://jobs.example.com/runs"}, "the URL must contain {run}"},
		"a zone":            {infra.Props{ReportZone: "Mars/Base"}, `ReportZone is "Mars/Base"`},
		"a level":           {infra.Props{LogLevel: "loud"}, `LogLevel is "loud"`},
		"capacity upside down": {infra.Props{Provisioned: &infra.Provisioned{MinRead: 5, MaxRead: 4, MinWrite: 1, MaxWrite: 1}},
			"Provisioned read capacity is from 5 to 4"},
		"no capacity": {infra.Props{Provisioned: &infra.Provisioned{MinRead: 1, MaxRead: 1}},
			"Provisioned write capacity is from 0 to 0"},
		"cold throughput": {infra.Props{WarmThroughput: &infra.Throughput{Read: 12000}},
			"WarmThroughput is 12000 reads and 0 writes"},
		"protected and destroyed": {infra.Props{RemovalPolicy: awscdk.RemovalPolicy_DESTROY, DeletionProtection: jsii.Bool(true)},
			"RemovalPolicy is DESTROY with DeletionProtection"},
		"a snapshot": {infra.Props{RemovalPolicy: awscdk.RemovalPolicy_SNAPSHOT}, "RemovalPolicy is SNAPSHOT"},
		"a table without a name": {infra.Props{Tables: &infra.Tables{Jobs: "jobs", Runs: "runs"}},
			`Tables has "": it takes the names of all three tables`},
		"one table for two": {infra.Props{Tables: &infra.Tables{Jobs: "jobs", Runs: "runs", State: "runs"}},
			"Tables names a table twice: jobs, runs, runs"},
		"settings of named tables": {infra.Props{RecoverRuns: true, Tables: &infra.Tables{Jobs: "jobs", Runs: "runs", State: "state"}},
			"which keep their settings"},
		"a function's name": {infra.Props{Invoke: []string{"payroll"}}, `Invoke has "payroll": it takes ARNs`},
		"any function":      {infra.Props{Invoke: []string{"arn:aws:lambda:us-east-1:123456789012:function:*"}}, "without *"},
		"a FIFO topic": {infra.Props{Topics: []string{"arn:aws:sns:us-east-1:123456789012:jobs.fifo"}},
			"it takes ARNs of standard SNS topics"},
		"a tag without value": {infra.Props{InvokeTag: &infra.Tag{Key: "tickring"}}, `InvokeTag is "tickring" = ""`},
		"any tag":             {infra.Props{InvokeTag: &infra.Tag{Key: "tickring", Value: "*"}}, "InvokeTag is"},
		"groups without a VPC": {infra.Props{SecurityGroups: []awsec2.ISecurityGroup{group}},
			"Subnets or SecurityGroups are given without a Vpc"},
		"subnets without a VPC":   {infra.Props{Subnets: &awsec2.SubnetSelection{}}, "Subnets or SecurityGroups are given without a Vpc"},
		"endpoints without a VPC": {infra.Props{VpcEndpoints: true}, "VpcEndpoints are asked for without a Vpc"},
		"a VPC without subnets":   {infra.Props{Vpc: vpc}, "the prop Vpc has no subnets that match Subnets"},
		"an API that its domain closes": {infra.Props{Domain: &infra.Domain{Name: "jobs.example.com"}, PublicUrl: "http://localhost/{api}"},
			"Domain jobs.example.com is set with {api}"},
		"no token, in public": {infra.Props{NoToken: true},
			"NoToken is set, and the URL is public: any client that finds it can take the runs of apps without a token. NoTokenPublic"},
		"no token behind an HTTP API": {infra.Props{NoToken: true, HttpApi: true, PublicUrl: "https://jobs.example.com"},
			"NoTokenPublic confirms this"},
		"a provider, and no way back": {infra.Props{Oidc: &infra.Oidc{Issuer: "https://id.example.com", ClientId: "c"}}, "Oidc has no Url"},
		"a URL with an unknown name": {infra.Props{PublicUrl: "https://{api}.example.com",
			Oidc: &infra.Oidc{Issuer: "https://id.example.com", ClientId: "c"}}, "Oidc has no Url"},
		"a provider in clear": {infra.Props{Oidc: &infra.Oidc{Issuer: "http://id.example.com", ClientId: "c", Url: "https://j.example.com"}},
			"Oidc cannot be: oidc-issuer"},
		"a secret by itself": {infra.Props{Oidc: &infra.Oidc{Issuer: "https://id.example.com", ClientId: "c", Url: "https://j.example.com",
			SecretParameter: "s3cret"}}, `SecretParameter "s3cret"`},
		"a yes to nothing":             {infra.Props{NoTokenPublic: true}, "NoTokenPublic is set without NoToken"},
		"a throttle of a function URL": {infra.Props{Throttle: &infra.Throttle{Rate: 1, Burst: 1}}, "Throttle is set without HttpApi"},
		"a closed throttle":            {infra.Props{Throttle: &infra.Throttle{Burst: 1}}, "Throttle.Rate is 0: a whole number from 1 to 10000"},
		"a throttle at once":           {infra.Props{Throttle: &infra.Throttle{Rate: 1, Burst: 5001}}, "Throttle.Burst is 5001"},
		"places that AWS keeps": {infra.Props{HttpApi: true, DoorConcurrency: jsii.Number(31), AccountConcurrency: jsii.Number(190)},
			"DoorConcurrency is 31 for each of api, callback, registry: with AccountConcurrency 190 that leaves others less than 100"},
		"places of a new account": {infra.Props{DoorConcurrency: jsii.Number(1), AccountConcurrency: jsii.Number(10)},
			"DoorConcurrency is 1 for each of api:"},
		"logs of a function URL":   {infra.Props{AccessLogs: true}, "AccessLogs is set without HttpApi"},
		"an API of a function URL": {infra.Props{PublicUrl: "http://localhost/{api}"}, "PublicUrl has {api} without HttpApi"},
		"a domain without its papers": {infra.Props{Domain: &infra.Domain{Name: "jobs.example.com"}},
			"Domain jobs.example.com has no Certificate"},
		"no domain":            {infra.Props{Domain: &infra.Domain{Name: "https://jobs.example.com"}}, "that is no domain name"},
		"no URL":               {infra.Props{PublicUrl: "jobs.example.com"}, `PublicUrl is "jobs.example.com"`},
		"topic without alarms": {infra.Props{NoAlarms: true, AlarmTopic: topic}, "NoAlarms is set with an AlarmTopic"},
		"a variable of ours": {infra.Props{Environment: map[string]string{"TICKRING_ADMIN_TOKEN": "0"}},
			"Environment has TICKRING_ADMIN_TOKEN"},
		"a token in clear": {infra.Props{Environment: map[string]string{"TICKRING_READ_TOKEN": "0"}},
			"Environment has TICKRING_READ_TOKEN:"},
		"another place of the token": {infra.Props{Environment: map[string]string{"TICKRING_READ_TOKEN_PARAM": "0"}},
			"Environment has TICKRING_READ_TOKEN_PARAM"},
		"two places of functions": {infra.Props{Source: ".."}, "Functions and Source are both given"},
	} {
		t.Run(name, func(t *testing.T) {
			c.p.Functions = functions
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "the scheduler Tickring cannot be: ") || !strings.Contains(got, c.want) {
					t.Errorf("%s; want %s", got, c.want)
				}
			}()
			infra.NewScheduler(awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Tickring"), nil), "Tickring", &c.p)
		})
	}
}

// TestAllContradictions: all errors are reported at once.
func TestAllContradictions(t *testing.T) {
	err := (&infra.Props{MaxPartitions: jsii.Number(0), Allow: []string{"x"}, LogRetentionDays: jsii.Number(0)}).Check()
	if got := strings.Count(fmt.Sprint(err), "\n"); got != 2 {
		t.Errorf("%v", err)
	}
}

// TestFunctionsAreThere: missing functions and a missing source are reported.
func TestFunctionsAreThere(t *testing.T) {
	for name, c := range map[string]struct {
		p    infra.Props
		want string
	}{
		"elsewhere":      {infra.Props{Functions: t.TempDir()}, "but tick/bootstrap is missing"},
		"another source": {infra.Props{Source: t.TempDir()}, "the module github.com/tickring/tickring is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.want) {
					t.Errorf("%s; want %s", got, c.want)
				}
			}()
			infra.NewScheduler(awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Tickring"), nil), "Tickring", &c.p)
		})
	}
}
