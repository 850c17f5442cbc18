// Package awssend sends runs to AWS: it invokes Lambda functions, and sends messages to SQS queues. Its results distinguish
// rejections, which prove that nothing started, from responses that prove nothing. The package never repeats a request, and
// disables the retries of the AWS SDK.
package awssend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/send"
)

type FunctionsClient interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
	GetFunctionConfiguration(context.Context, *lambda.GetFunctionConfigurationInput,
		...func(*lambda.Options)) (*lambda.GetFunctionConfigurationOutput, error)
}

type QueuesClient interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

var (
	_ send.Functions = (*Functions)(nil)
	_ send.Queues    = (*Queues)(nil)
)

// attempt records whether bytes of a request may have been sent.
type attempt struct{ wrote atomic.Bool }

func (a *attempt) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { a.wrote.Store(true) },
	})
}

// judge converts an error of a call into an answer. denied and missing are messages for users that replace the messages of AWS.
func (a *attempt) judge(ctx context.Context, err error, denied, missing string) dispatch.Answer {
	var api smithy.APIError
	var resp *smithyhttp.ResponseError
	status := 0
	if errors.As(err, &resp) {
		status = resp.HTTPStatusCode()
	}
	if !errors.As(err, &api) {
		switch {
		case a.wrote.Load():
			return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, Code: status, Message: "no answer: " + plain(err),
				TimedOut: errors.Is(err, context.DeadlineExceeded)}
		case ctx.Err() != nil:
			return dispatch.Answer{Kind: dispatch.AnswerBusy, Message: "no connection before the deadline"}
		case safedial.OwnWant(err):
			return dispatch.Answer{Kind: dispatch.AnswerBusy, Ours: true, Message: "nothing was sent: " + plain(err)}
		}
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: "nothing was sent: " + plain(err)}
	}
	code := api.ErrorCode()
	text := code + ": " + api.ErrorMessage()
	ans := dispatch.Answer{Kind: dispatch.AnswerRefused, Code: status, Message: text}
	switch {
	case status >= 500 || status == 0 || status == http.StatusRequestTimeout:
		ans.Kind = dispatch.AnswerUnconfirmed // it may have begun
	case status == http.StatusTooManyRequests, status == http.StatusConflict, strings.Contains(code, "Throttl"),
		code == "TooManyRequestsException",
		code == "OverLimit", code == "ExpiredTokenException", code == "ExpiredToken", code == "RequestExpired":
		ans.Kind = dispatch.AnswerBusy
	case strings.Contains(code, "AccessDenied"):
		ans.Message = denied + " (" + text + ")"
	case status == http.StatusNotFound, strings.Contains(code, "NonExistentQueue"), strings.Contains(code, "QueueDoesNotExist"):
		ans.Message = missing + " (" + text + ")"
	}
	return ans
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

// Functions invokes Lambda functions.
type Functions struct {
	client FunctionsClient
	logs   LogsClient
}

// NewFunctions returns Functions that use the given clients. Retries of c are disabled. If logs is nil, the logs of functions
// cannot be read.
func NewFunctions(c FunctionsClient, logs LogsClient) *Functions { return &Functions{c, logs} }

func once(o *lambda.Options) { o.Retryer = aws.NopRetryer{} }

// Invoke implements send.Functions. An accepted invocation is in the queue of Lambda, and may start later.
func (f *Functions) Invoke(ctx context.Context, function string, payload []byte) dispatch.Answer {
	var a attempt
	out, err := f.client.Invoke(a.watch(ctx), &lambda.InvokeInput{
		FunctionName: &function, InvocationType: lambdatypes.InvocationTypeEvent, Payload: payload,
	}, once)
	if err != nil {
		return a.judge(ctx, err, "this server has no permission to invoke the function "+function+": grant lambda:InvokeFunction",
			"the function does not exist: "+function)
	}
	if out.StatusCode != http.StatusAccepted {
		return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, Code: int(out.StatusCode),
			Message: fmt.Sprintf("Lambda answered an asynchronous invocation with %d, not 202", out.StatusCode)}
	}
	id, _ := awsmiddleware.GetRequestIDMetadata(out.ResultMetadata)
	return dispatch.Answer{Kind: dispatch.AnswerAccepted, Code: int(out.StatusCode), Request: id, Log: logGroup(function)}
}

// LongestFunction is the maximum timeout of a Lambda function.
const LongestFunction = 15 * time.Minute

// Limit implements send.Functions. Limit returns the timeout of the function. If the function is deleted, or the permission to
// read its configuration is missing, it returns LongestFunction.
func (f *Functions) Limit(ctx context.Context, function string) (time.Duration, error) {
	out, err := f.client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &function})
	var api smithy.APIError
	switch {
	case err == nil && out.Timeout != nil:
		return time.Duration(*out.Timeout) * time.Second, nil
	case err == nil, errors.As(err, &api) && strings.Contains(api.ErrorCode(), "AccessDenied"):
		return LongestFunction, nil
	case errors.As(err, &api) && api.ErrorCode() == "ResourceNotFoundException":
		return LongestFunction, nil // invocations of a deleted function can still be running
	}
	return 0, fmt.Errorf("read the timeout of function %s: %w", function, err)
}

// Queues sends runs to SQS queues.
type Queues struct {
	client QueuesClient
	region string

	mu   sync.Mutex
	urls map[string]string
}

// NewQueues returns Queues that use the client c for the given AWS Region.
func NewQueues(c QueuesClient, region string) *Queues {
	return &Queues{client: c, region: region, urls: map[string]string{}}
}

func onceSQS(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }

// maxURLs limits the cache of URLs, because queue names come from outside.
const maxURLs = 10000

// url returns the URL of a queue, or the answer that explains why nothing was sent.
func (q *Queues) url(ctx context.Context, queue string) (string, *dispatch.Answer) {
	refuse := func(text string) (string, *dispatch.Answer) {
		return "", &dispatch.Answer{Kind: dispatch.AnswerRefused, Message: text}
	}
	in := &sqs.GetQueueUrlInput{QueueName: &queue}
	if arn, ok := core.ParseARN(queue); ok {
		if arn.Region != q.region {
			return refuse(fmt.Sprintf("the queue is in %s and this scheduler in %s: only queues in the scheduler's Region can be used", arn.Region,
				q.region))
		}
		in.QueueName, in.QueueOwnerAWSAccountId = &arn.Name, &arn.Account
	}
	q.mu.Lock()
	u, ok := q.urls[queue]
	q.mu.Unlock()
	if ok {
		return u, nil
	}
	var a attempt
	out, err := q.client.GetQueueUrl(ctx, in)
	switch {
	case err != nil:
		ans := a.judge(ctx, err, denied(queue), q.missing(queue))
		if ans.Kind == dispatch.AnswerUnconfirmed || ctx.Err() != nil {
			ans.Kind = dispatch.AnswerBusy // only a query: nothing was put into a queue
		}
		return "", &ans
	case aws.ToString(out.QueueUrl) == "":
		return refuse(q.missing(queue))
	}
	q.mu.Lock()
	if len(q.urls) >= maxURLs {
		clear(q.urls)
	}
	q.urls[queue] = *out.QueueUrl
	q.mu.Unlock()
	return *out.QueueUrl, nil
}

func (q *Queues) forget(queue string) {
	q.mu.Lock()
	delete(q.urls, queue)
	q.mu.Unlock()
}

func denied(queue string) string {
	return "this server has no permission to send to the queue " + queue + ": grant sqs:SendMessage and sqs:GetQueueUrl"
}

func (q *Queues) missing(queue string) string {
	return "the queue does not exist: " + queue + " in " + q.region
}

func (q *Queues) Put(ctx context.Context, _ *core.App, queue string, _ core.RunID, payload []byte) dispatch.Answer {
	url, why := q.url(ctx, queue)
	if why != nil {
		return *why
	}
	var a attempt
	body := string(payload)
	_, err := q.client.SendMessage(a.watch(ctx), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}, onceSQS)
	if err == nil {
		return dispatch.Answer{Kind: dispatch.AnswerAccepted}
	}
	ans := a.judge(ctx, err, denied(queue), q.missing(queue))
	if ans.Kind == dispatch.AnswerRefused {
		q.forget(queue) // a recreated queue can have another URL
	}
	return ans
}

// Polled implements send.Queues. SQS does not report consumers, so Polled only checks that the queue exists.
func (q *Queues) Polled(ctx context.Context, _ *core.App, queue string) error {
	if _, why := q.url(ctx, queue); why != nil && why.Kind == dispatch.AnswerRefused {
		return errors.New(why.Message)
	}
	return nil
}

// counts are the attributes for the numbers of waiting, in-flight and delayed messages.
var counts = []sqstypes.QueueAttributeName{
	sqstypes.QueueAttributeNameApproximateNumberOfMessages,
	sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	sqstypes.QueueAttributeNameApproximateNumberOfMessagesDelayed,
}

// Idle implements send.Queues. Idle returns true if the queue is empty.
func (q *Queues) Idle(ctx context.Context, _ *core.App, queue string, _ core.JobID) (bool, error) {
	url, why := q.url(ctx, queue)
	if why != nil {
		return false, errors.New(why.Message)
	}
	out, err := q.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: counts})
	if err != nil {
		return false, fmt.Errorf("count the messages of queue %s: %w", queue, err)
	}
	for _, name := range counts {
		if n, ok := out.Attributes[string(name)]; !ok || n != "0" {
			return false, nil
		}
	}
	return true, nil
}
