package items

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/tickring/tickring/core"
)

// Sure is an option for AWS clients that retry by themselves. If an attempt gets no answer and a
// later attempt is throttled, the first attempt may have done the request: the result is unknown, not "nothing happened".
func Sure(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("tickringSure",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			middleware.FinalizeOutput, middleware.Metadata, error,
		) {
			out, meta, err := next.HandleFinalize(ctx, in)
			if err != nil && leftOpen(meta) && errors.Is(Answer("", err), core.ErrThrottled) {
				err = fmt.Errorf("an attempt had no answer, and a later one: %s", err.Error())
			}
			return out, meta, err
		}), (*retry.Attempt)(nil).ID(), middleware.Before)
}

// leftOpen reports whether an earlier attempt of a request had no answer or one that leaves its result open.
func leftOpen(meta middleware.Metadata) bool {
	attempts, _ := retry.GetAttemptResults(meta)
	for i := range len(attempts.Results) - 1 {
		var answered *awshttp.ResponseError // of status 0 if there was none
		if !errors.As(attempts.Results[i].Err, &answered) || answered.HTTPStatusCode() == 0 || answered.HTTPStatusCode() >= 500 {
			return true
		}
	}
	return false
}

// noRoom are the codes of requests that DynamoDB rejects because capacity is missing.
var noRoom = []string{"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
	"ProvisionedThroughputExceeded", "ThrottlingError"}

// Throttled is an option for AWS clients: it calls count for each attempt of a request that DynamoDB throttles,
// completely or in part.
func Throttled(count func()) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("tickringThrottled",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
				middleware.DeserializeOutput, middleware.Metadata, error,
			) {
				out, meta, err := next.HandleDeserialize(ctx, in)
				if throttledIn(out.Result, err) {
					count()
				}
				return out, meta, err
			}), middleware.Before)
	}
}

func throttledIn(result any, err error) bool {
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) {
		return slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
			return slices.Contains(noRoom, aws.ToString(r.Code))
		})
	}
	if api, is := errors.AsType[smithy.APIError](err); is {
		return slices.Contains(noRoom, api.ErrorCode())
	}
	switch out := result.(type) {
	case *dynamodb.BatchGetItemOutput:
		return len(out.UnprocessedKeys) > 0
	case *dynamodb.BatchWriteItemOutput:
		return len(out.UnprocessedItems) > 0
	case *dynamodb.BatchExecuteStatementOutput:
		return slices.ContainsFunc(out.Responses, func(r types.BatchStatementResponse) bool {
			return r.Error != nil && slices.Contains(noRoom, string(r.Error.Code))
		})
	}
	return false
}
