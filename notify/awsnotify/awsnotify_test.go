package awsnotify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

const topic = "arn:aws:sns:eu-central-1:123456789012:jobs"

// client answers every publish with err, and records the last input.
type client struct {
	err     error
	in      *sns.PublishInput
	options sns.Options
}

func (c *client) Publish(_ context.Context, in *sns.PublishInput, with ...func(*sns.Options)) (*sns.PublishOutput, error) {
	c.in, c.options = in, sns.Options{Region: "us-east-1"}
	for _, f := range with {
		f(&c.options)
	}
	return &sns.PublishOutput{}, c.err
}

// answered is an error as the SDK has it when SNS answered.
func answered(status int, api error) error {
	resp := &smithyhttp.Response{Response: &http.Response{StatusCode: status}}
	return &smithy.OperationError{ServiceID: "SNS", OperationName: "Publish", Err: &smithyhttp.ResponseError{Response: resp, Err: api}}
}

func named(code string) error { return &smithy.GenericAPIError{Code: code, Message: "so it is"} }

// TestPublish: it goes to the topic, in the topic's Region whatever the client's is, and once.
func TestPublish(t *testing.T) {
	c := &client{}
	check.OK(t, Of(c, nil).Publish(t.Context(), topic, "subject", "text"))
	if *c.in.TopicArn != topic || *c.in.Subject != "subject" || *c.in.Message != "text" || c.options.Region != "eu-central-1" {
		t.Errorf("%+v in %s", c.in, c.options.Region)
	}
	if c.options.Retryer == nil || c.options.Retryer.MaxAttempts() != 1 {
		t.Errorf("tried again by %T", c.options.Retryer)
	}
	c.in = nil
	u, ok := Of(c, nil).Publish(t.Context(), "jobs", "subject", "text").(*core.Undelivered)
	if !ok || !u.Permanent || c.in != nil {
		t.Errorf("no ARN: %+v", u)
	}
}

// TestErrors: a missing or forbidden topic and a rejected text are permanent errors. Load, failures of SNS and expired credentials
// are temporary. Problems with a topic's key are not reported as problems of the topic.
func TestErrors(t *testing.T) {
	const again, never = false, true
	reasons := ""
	for _, c := range []struct {
		err       error
		permanent bool
	}{
		{answered(404, &types.NotFoundException{Message: aws.String("Topic does not exist")}), never},
		{answered(403, &types.AuthorizationErrorException{Message: aws.String("User: arn:aws:iam::1:user/x is not authorized")}), never},
		{answered(403, named("AccessDeniedException")), never},
		{answered(400, &types.InvalidParameterException{Message: aws.String("Subject")}), never},
		{answered(400, &types.KMSAccessDeniedException{Message: aws.String("kms:Decrypt")}), never},
		{answered(400, &types.KMSNotFoundException{Message: aws.String("no such key")}), never},
		{answered(400, &types.KMSThrottlingException{Message: aws.String("slower")}), again},
		{answered(429, &types.ThrottledException{Message: aws.String("Rate exceeded")}), again},
		{answered(400, named("ThrottlingException")), again},
		{answered(403, named("ExpiredToken")), again},
		{answered(400, named("RequestExpired")), again},
		{answered(408, named("RequestTimeout")), again},
		{answered(500, &types.InternalErrorException{Message: aws.String("oh")}), again},
		{answered(503, named("ServiceUnavailable")), again},
		{&smithy.OperationError{ServiceID: "SNS", OperationName: "Publish", Err: context.DeadlineExceeded}, again},
		{&smithy.OperationError{ServiceID: "SNS", OperationName: "Publish", Err: errors.New("no route to host")}, again},
	} {
		u, ok := Of(&client{err: c.err}, nil).Publish(t.Context(), topic, "subject", "text").(*core.Undelivered)
		if !ok || u.Permanent != c.permanent || !errors.Is(u, c.err) {
			t.Fatalf("%v: %+v", c.err, u)
		}
		reasons += u.Reason + "\n"
	}
	golden.New(t).Equal(t, "reasons", reasons)
}

// TestReady: without credentials nothing can be published, and Ready returns why.
func TestReady(t *testing.T) {
	check.NoError(t, Of(&client{}, credentials.NewStaticCredentialsProvider("AKIA", "secret", "")).Ready(t.Context()))
	none := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, &smithy.OperationError{ServiceID: "ec2imds", OperationName: "GetMetadata", Err: errors.New("no role")}
	})
	texts := golden.New(t)
	texts.Equal(t, "no credentials", fmt.Sprint(Of(&client{}, none).Ready(t.Context())))
	broken := &Topics{load: func(context.Context) (aws.Config, error) { return aws.Config{}, errors.New("no such profile") }}
	texts.Equal(t, "no configuration", fmt.Sprint(broken.Ready(t.Context())))
	u, ok := broken.Publish(t.Context(), topic, "subject", "text").(*core.Undelivered)
	if !ok || u.Permanent {
		t.Fatalf("%+v", u)
	}
	texts.Equal(t, "not published", u.Reason)
}
