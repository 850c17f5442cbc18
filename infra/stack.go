package infra

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// StackProps has the settings of a TickringStack.
type StackProps struct {
	awscdk.StackProps
	Props
	// Refer, if not nil, adds references to existing AWS resources to the props. Such a reference can only be
	// created after the stack, which Refer gets as an argument.
	Refer func(awscdk.Stack, *Props)
}

// TickringStack is a CloudFormation stack with one Scheduler.
type TickringStack struct {
	awscdk.Stack
	*Scheduler
}

// NewTickringStack creates a stack with a Scheduler. It panics if the props are invalid or the functions cannot be
// built. The CLI finds the deployment through the outputs of the stack.
func NewTickringStack(scope constructs.Construct, id string, props *StackProps) *TickringStack {
	if props == nil {
		props = &StackProps{}
	}
	stack := awscdk.NewStack(scope, &id, &props.StackProps)
	p := props.Props
	if props.Refer != nil {
		props.Refer(stack, &p)
	}
	s := NewScheduler(stack, "Tickring", &p)
	out := func(name string, value *string, about string) {
		awscdk.NewCfnOutput(stack, &name, &awscdk.CfnOutputProps{Value: value, Description: &about})
	}
	out("Url", s.Url, "The address of the scheduler, for executors and for tickring --endpoint")
	out("TokenParameter", s.TokenParameter, "The SSM parameter with the token of the API")
	out("Console", jsii.String(*s.Url+"/console/"), "The web console; log in with the admin token")
	read := "aws ssm get-parameter --with-decryption --query Parameter.Value --output text --region"
	out("AdminTokenCommand", awscdk.Fn_Join(jsii.String(" "), &[]*string{&read, stack.Region(), jsii.String("--name"), s.TokenParameter}),
		"Prints the admin token")
	if s.ReadTokenParameter != nil {
		out("ReadTokenParameter", s.ReadTokenParameter, "The SSM parameter with the token that may only read")
	}
	out("JobsTable", s.Jobs.TableName(), "Table of jobs")
	out("RunsTable", s.Runs.TableName(), "Table of runs")
	out("StateTable", s.State.TableName(), "Table of all else")
	out("FiresQueue", s.Fires.QueueUrl(), "Queue of runs")
	out("SlowQueue", s.Slow.QueueUrl(), "Queue of runs for slow executors")
	out("ChecksQueue", s.Checks.QueueUrl(), "Queue of checks")
	out("PostRunQueue", s.PostRun.QueueUrl(), "Post-run queue: logs to archive, and notifications")
	out("ResultsQueue", s.Results.QueueUrl(), "Queue of the results of Lambda functions")
	out("ResultsQueueArn", s.Results.QueueArn(), "Destination of Lambda functions that are executors without tickring code")
	out("DeadQueue", s.Dead.QueueUrl(), "Dead-letter queue")
	for _, name := range slices.Sorted(maps.Keys(s.Functions)) {
		title := constructID(name)
		out(title+"Function", s.Functions[name].FunctionName(), "Function "+name)
	}
	out("WakeRule", s.wakes.RuleName(), "EventBridge rule that wakes tick")
	if s.api != nil {
		out("HttpApi", s.api.ApiId(), "Identifier of the HTTP API")
	} else {
		out("FunctionUrl", s.functionUrl, "The function URL itself, which Url is unless there is a public URL")
	}
	return &TickringStack{stack, s}
}
