package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
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
			if err != nil && leftOpen(meta) && errors.Is(answer("", err), core.ErrThrottled) {
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
