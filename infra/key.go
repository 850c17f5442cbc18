package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/internal/roles"
)

// via allows uses of the key when a service asks for a role, and where a context is
// named only for what it names: the key may hold much that is none of ours.
func (s *Scheduler) via(p *Props, service, context string, of []*string, actions ...string) awsiam.PolicyStatement {
	equal := map[string]any{"kms:ViaService": service + "." + *awscdk.Stack_Of(s.Construct).Region() + ".amazonaws.com"}
	if context != "" {
		equal["kms:EncryptionContext:"+context] = of
	}
	return limited(p, equal, actions...)
}

func limited(p *Props, equal map[string]any, actions ...string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Actions: jsii.Strings(actions...),
		Resources: &[]*string{p.EncryptionKey.KeyArn()}, Conditions: &map[string]any{"StringEquals": equal}})
}

// byKey are the uses of the key that go with a role: for its tables and its queues.
func (s *Scheduler) byKey(p *Props, r roles.Role) []awsiam.PolicyStatement {
	if p.EncryptionKey == nil {
		return nil
	}
	var list []awsiam.PolicyStatement
	var tables []*string
	for _, t := range []struct {
		uses bool
		name *string
	}{{len(r.Jobs)+len(r.Due) > 0, s.Jobs.TableName()}, {len(r.Runs) > 0, s.Runs.TableName()}, {len(r.State) > 0, s.State.TableName()}} {
		if t.uses {
			tables = append(tables, t.name)
		}
	}
	if len(tables) > 0 {
		list = append(list, s.via(p, "dynamodb", "aws:dynamodb:tableName", tables, "kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"),
			s.via(p, "dynamodb", "", nil, "kms:DescribeKey")) // which has no context
	}
	if len(r.Sends) > 0 {
		list = append(list, s.via(p, "sqs", "aws:sqs:arn", s.arns(r.Sends), "kms:Decrypt", "kms:GenerateDataKey"))
	}
	if len(r.Takes) > 0 {
		list = append(list, s.via(p, "sqs", "aws:sqs:arn", s.arns(r.Takes), "kms:Decrypt"))
	}
	return list
}

// readsEnvironment lets a function have its own environment decrypted, and none of
// another function's. Not in its role, which would wait for the function; until it is
// there the grant does that Lambda makes when it makes the function.
func (s *Scheduler) readsEnvironment(p *Props, scope constructs.Construct, role awsiam.IRole, fn awslambda.Function) {
	awsiam.NewPolicy(scope, jsii.String("Environment"), &awsiam.PolicyProps{Roles: &[]awsiam.IRole{role},
		Statements: &[]awsiam.PolicyStatement{limited(p, map[string]any{"kms:EncryptionContext:aws:lambda:FunctionArn": fn.FunctionArn()},
			"kms:Decrypt")}})
}
