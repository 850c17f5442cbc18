package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
)

// emulate removes restrictions that an emulator cannot meet. It is called over HTTP, which the policies of the queues reject. For
// batches it requires actions that do not exist on AWS, which requires PartiQLInsert, PartiQLUpdate, SendMessage, DeleteMessage and
// ChangeMessageVisibility. All other parts of the roles are as in an account.
func emulate(s *infra.TickringStack) {
	for _, q := range []awssqs.Queue{s.Fires, s.Slow, s.Checks, s.PostRun, s.Results, s.Dead} {
		q.Node().TryRemoveChild(jsii.String("Policy"))
	}
	for name, fn := range s.Functions {
		if name == "canary" || name == "registry" {
			continue
		}
		fn.Role().AddToPrincipalPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings("dynamodb:BatchExecuteStatement", "sqs:SendMessageBatch", "sqs:DeleteMessageBatch",
				"sqs:ChangeMessageVisibilityBatch"), Resources: jsii.Strings("*"),
		}))
	}
}
