package awsengine

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/middleware"

	"github.com/tickring/tickring/core"
)

// Sure is an option of the clients that a Store is made of, where these ask again by
// themselves: a request that was throttled, after an attempt that had no answer, may
// have been done by that one. Its answer is not "nothing happened", but unknown.
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

// leftOpen reports that an attempt of a request before its last had no answer, or
// one that leaves open what became of it.
func leftOpen(meta middleware.Metadata) bool {
	attempts, _ := retry.GetAttemptResults(meta)
	for i := range len(attempts.Results) - 1 {
		var answered *awshttp.ResponseError // of status 0 where there was none
		if !errors.As(attempts.Results[i].Err, &answered) || answered.HTTPStatusCode() == 0 || answered.HTTPStatusCode() >= 500 {
			return true
		}
	}
	return false
}
