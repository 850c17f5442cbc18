package awssend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// ErrNotConfigured means that no AWS Region is configured on this machine.
var ErrNotConfigured = errors.New("no AWS Region is configured")

// kept is how many connections to one host stay open while they are idle: all
// functions are at one, and a burst of sends pays for no new ones.
const kept = 128

// Environment returns senders with the AWS settings in the environment and in the user's files. Without a Region, it returns
// ErrNotConfigured and sends no request. If there are no credentials, it returns an error after at most 3 s.
func Environment(ctx context.Context) (*Functions, *Queues, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, kept })
	sdk, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
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
