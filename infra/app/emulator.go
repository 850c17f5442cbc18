package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
)

// emulate takes away what cannot be held to an emulator: it is asked over HTTP,
// which the policies of the queues refuse, and for batches it wants actions that
// AWS does not have, where AWS wants PartiQLInsert, PartiQLUpdate, SendMessage,
// DeleteMessage and ChangeMessageVisibility.
// All else of the roles is as in an account.
func emulate(s *infra.TickringStack) {
	for _, q := range []awssqs.Queue{s.Fires, s.Slow, s.Checks, s.Aside, s.Results, s.Dead} {
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
