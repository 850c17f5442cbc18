// Package awsnotify publishes notifications to SNS topics, each in the topic's AWS Region. Its errors distinguish permanent
// failures from temporary ones. A failure is permanent if the topic does not exist or publishing is not allowed.
package awsnotify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/notify"
)

type Client interface {
	Publish(context.Context, *sns.PublishInput, ...func(*sns.Options)) (*sns.PublishOutput, error)
}

// Topics publishes to SNS topics with the credentials of an AWS configuration.
type Topics struct {
	load func(context.Context) (aws.Config, error)

	mu     sync.Mutex
	client Client // set once created
	who    aws.CredentialsProvider
}

var _ notify.Topics = (*Topics)(nil)

// New returns Topics that use the AWS settings in the environment and in the user's files. The settings are loaded at the
// first use of a topic.
func New() *Topics {
	return &Topics{load: func(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }}
}

func Of(c Client, who aws.CredentialsProvider) *Topics { return &Topics{client: c, who: who} }

func (t *Topics) made(ctx context.Context) (Client, aws.CredentialsProvider, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == nil {
		c, err := t.load(ctx)
		if err != nil {
			return nil, nil, err
		}
		t.client, t.who = sns.NewFromConfig(c), c.Credentials
	}
	return t.client, t.who, nil
}

// Ready implements notify.Topics. Ready returns an error if there are no AWS credentials.
func (t *Topics) Ready(ctx context.Context) error {
	_, who, err := t.made(ctx)
	if err == nil && who != nil {
		_, err = who.Retrieve(ctx)
	}
	if err != nil {
		return fmt.Errorf("SNS is not available on this server: %s", plain(err))
	}
	return nil
}

func (t *Topics) Publish(ctx context.Context, arn, subject, text string) error {
	client, _, err := t.made(ctx)
	if err != nil {
		return &core.Undelivered{Reason: "SNS: no AWS configuration: " + plain(err), Err: err}
	}
	topic, ok := core.ParseARN(arn)
	if !ok {
		return &core.Undelivered{Permanent: true, Reason: "SNS: " + arn + " is not an ARN"}
	}
	_, err = client.Publish(ctx, &sns.PublishInput{TopicArn: &arn, Subject: &subject, Message: &text}, func(o *sns.Options) {
		o.Region, o.Retryer = topic.Region, aws.NopRetryer{} // the caller retries
	})
	if err == nil {
		return nil
	}
	return undelivered(arn, err)
}

func undelivered(arn string, err error) error {
	u := &core.Undelivered{Reason: "SNS: " + plain(err), Err: err}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return u
	}
	status := 0
	var resp *smithyhttp.ResponseError
	if errors.As(err, &resp) {
		status = resp.HTTPStatusCode()
	}
	code := api.ErrorCode()
	ofKey := strings.HasPrefix(code, "KMS") // of the key of an encrypted topic, not of the topic
	u.Reason = "SNS: " + code + ": " + api.ErrorMessage()
	switch {
	case strings.Contains(code, "Throttl"), status == http.StatusTooManyRequests,
		strings.HasPrefix(code, "ExpiredToken"), code == "RequestExpired":
	case !ofKey && (strings.Contains(code, "AuthorizationError") || strings.Contains(code, "AccessDenied")):
		u.Permanent, u.Reason = true, "SNS: this server has no permission to publish to "+arn+": grant sns:Publish ("+code+")"
	case !ofKey && strings.Contains(code, "NotFound"):
		u.Permanent, u.Reason = true, "SNS: the topic does not exist: "+arn
	default:
		u.Permanent = status >= 400 && status < 500 && status != http.StatusRequestTimeout
	}
	return u
}

// plain returns an error without the wrapping of the SDK, whose texts contain request and endpoint.
func plain(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
