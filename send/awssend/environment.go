package awssend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// ErrNotConfigured says that nothing on this machine names a Region of AWS.
var ErrNotConfigured = errors.New("no Region of AWS is configured")

// Environment makes both on what the SDK finds in the environment and in the
// user's files. Without a Region it answers ErrNotConfigured at once and asks
// nobody; any other error says why there are no credentials, after 3 s at most.
func Environment(ctx context.Context) (*Functions, *Queues, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	sdk, err := config.LoadDefaultConfig(ctx)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("load the AWS configuration: %w", err)
	case sdk.Region == "":
		return nil, nil, ErrNotConfigured
	}
	if _, err := sdk.Credentials.Retrieve(ctx); err != nil {
		return nil, nil, fmt.Errorf("find AWS credentials: %w", err)
	}
	return NewFunctions(lambda.NewFromConfig(sdk), cloudwatchlogs.NewFromConfig(sdk)), NewQueues(sqs.NewFromConfig(sdk), sdk.Region), nil
}
