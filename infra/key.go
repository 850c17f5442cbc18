package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/internal/iampolicy"
)

// via allows uses of the key through a service for a role, and, with a context, only for the named resources, because the key can
// encrypt other data too.
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
func (s *Scheduler) byKey(p *Props, r iampolicy.Role) []awsiam.PolicyStatement {
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

// readsEnvironment lets a function decrypt its own environment, and no other function's. The permission is not part of its role,
// which would have to wait for the function. Until the policy exists, the grant suffices that Lambda creates with the function.
func (s *Scheduler) readsEnvironment(p *Props, scope constructs.Construct, role awsiam.IRole, fn awslambda.Function) {
	awsiam.NewPolicy(scope, jsii.String("Environment"), &awsiam.PolicyProps{Roles: &[]awsiam.IRole{role},
		Statements: &[]awsiam.PolicyStatement{limited(p, map[string]any{"kms:EncryptionContext:aws:lambda:FunctionArn": fn.FunctionArn()},
			"kms:Decrypt")}})
}
