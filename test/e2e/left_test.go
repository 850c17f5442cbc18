package e2e_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tickring/tickring/internal/testkit/check"
)

// left are the existing resources of the stack, and how many are to stay when
// it is removed.
type left struct {
	left []string
	want int
}

// resources lists the resources of the stack that keep data or cost money.
func (s *stack) resources(t *testing.T) map[string]left {
	t.Helper()
	ctx := t.Context()
	all := map[string]left{}
	tables, err := dynamodb.NewFromConfig(s.sdk).ListTables(ctx, &dynamodb.ListTablesInput{})
	check.OK(t, err)
	slices.Sort(tables.TableNames)
	all["tables"] = left{slices.Compact(tables.TableNames), 3} // LocalStack lists a global table twice
	queues, err := sqs.NewFromConfig(s.sdk).ListQueues(ctx, &sqs.ListQueuesInput{})
	check.OK(t, err)
	all["queues"] = left{queues.QueueUrls, 0}
	functions, err := lambda.NewFromConfig(s.sdk).ListFunctions(ctx, &lambda.ListFunctionsInput{})
	check.OK(t, err)
	var names []string
	for _, f := range functions.Functions {
		names = append(names, *f.FunctionName)
	}
	all["functions"] = left{names, 0}
	names = nil
	params, err := ssm.NewFromConfig(s.sdk).GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: new("/tickring"),
		Recursive: new(true)})
	check.OK(t, err)
	for _, p := range params.Parameters {
		names = append(names, *p.Name)
	}
	all["secrets"] = left{names, 3} // functions created them
	return all
}
