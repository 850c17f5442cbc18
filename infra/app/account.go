package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/internal/awsclient"
)

// account answers the app's requests to AWS before it creates the stack.
type account interface {
	// Concurrency returns the maximum number of concurrent function invocations in the account and Region.
	Concurrency(ctx context.Context) (float64, error)
	// Outputs returns the outputs of a CloudFormation stack; empty if the stack does not exist.
	Outputs(ctx context.Context, name string) (map[string]string, error)
	// Lacks reports the features that an AWS emulator does not have.
	Lacks(ctx context.Context) (httpAPIs, permissions bool, err error)
}

type asking struct{ *awsclient.Client }

func (a asking) Concurrency(ctx context.Context) (float64, error) {
	var out struct {
		AccountLimit struct{ ConcurrentExecutions float64 }
	}
	err := a.Get(ctx, "lambda", "/2016-08-19/account-settings/", &out)
	if err == nil && out.AccountLimit.ConcurrentExecutions < 1 {
		err = fmt.Errorf("lambda answered a limit of %v", out.AccountLimit.ConcurrentExecutions)
	}
	return out.AccountLimit.ConcurrentExecutions, err
}

func (a asking) Outputs(ctx context.Context, name string) (map[string]string, error) {
	outputs, err := a.Client.Outputs(ctx, name)
	if errors.Is(err, awsclient.ErrNoStack) {
		return nil, nil
	}
	return outputs, err
}

const (
	// fewConcurrent is the concurrency of an account below which a burst of runs waits: new accounts have 10.
	fewConcurrent = 50
	// mayReserve is the concurrency from which a function URL can be bounded by a reservation.
	mayReserve = 200
)

// choose decides between a function URL and an HTTP API if the user did not, and returns what to warn of. A function URL has no
// throttle, so it needs reserved concurrency and the account's limit. An existing stack keeps its kind, and so its URL. If cdk
// deploys and choose cannot read whether the stack exists, it returns an error.
func (s *settings) choose(ctx context.Context, open func(context.Context) (account, error)) (warnings []string, err error) {
	if s.emulator {
		if s.props.EndpointConcurrency == nil {
			s.props.EndpointConcurrency = new(0.0)
		}
		return s.emulated(ctx, open)
	}
	a, err := open(ctx)
	outputs, unread := map[string]string{}, err
	if a != nil {
		outputs, unread = a.Outputs(ctx, s.name)
	}
	if unread != nil && os.Getenv("CDK_DEFAULT_ACCOUNT") != "" && !s.httpApiSet && s.domain == "" {
		return nil, fmt.Errorf("stack %s: its outputs cannot be read (%w): if the stack exists, this deployment could change the Url that "+
			"executors use: set AWS_PROFILE to the credentials of cdk, or set %shttpApi in cdk.json (true: an HTTP API, false: a function "+
			"URL)", s.name, unread, prefix)
	}
	if err == nil && s.props.AccountConcurrency == nil {
		var limit float64
		if limit, err = a.Concurrency(ctx); err == nil {
			s.props.AccountConcurrency = &limit
		}
	}
	limit := s.props.AccountConcurrency
	if limit != nil && *limit < fewConcurrent {
		warnings = append(warnings, fmt.Sprintf("the account can run only %v functions at a time, like a new account, so a burst of runs waits. "+
			"Request 1,000 (Service Quotas: AWS Lambda, concurrent executions)", *limit))
	}
	if s.httpApiSet || s.domain != "" {
		return warnings, nil
	}
	if outputs["Url"] != "" {
		_, s.props.HttpApi = outputs["HttpApi"]
		return warnings, nil
	}
	if s.props.EndpointConcurrency != nil {
		return warnings, nil
	}
	const keep = "To choose yourself, set %shttpApi in cdk.json"
	switch {
	case limit == nil:
		s.props.HttpApi = true
		warnings = append(warnings, fmt.Sprintf("the stack gets an HTTP API ($1 a million requests) in place of a function URL, because the "+
			"concurrency limit of the account cannot be read (%v). Set AWS_PROFILE for credentials with lambda:GetAccountSettings, or "+
			"%saccountConcurrency. "+keep, err, prefix, prefix))
	case *limit < mayReserve:
		s.props.HttpApi = true
		warnings = append(warnings, fmt.Sprintf("the stack gets an HTTP API ($1 a million requests) in place of a function URL, because the "+
			"account's concurrency limit of %v is too low to reserve concurrency for a function URL (minimum: %d). "+
			keep, *limit, mayReserve, prefix))
	}
	return warnings, nil
}

// emulated warns of features that the emulator lacks. If the stack needs one of them, emulated returns an error.
func (s *settings) emulated(ctx context.Context, open func(context.Context) (account, error)) (warnings []string, err error) {
	a, err := open(ctx)
	if err != nil {
		return nil, nil // cdk deploys nothing without the emulator
	}
	httpAPIs, permissions, err := a.Lacks(ctx)
	if err != nil {
		return []string{fmt.Sprintf("the features of the emulator cannot be read: %v", err)}, nil
	}
	if httpAPIs {
		if s.props.HttpApi || s.domain != "" {
			return nil, fmt.Errorf("%shttpApi and %[1]sdomain cannot be used: this emulator has no HTTP APIs (API Gateway v2). Without these "+
				"settings, the stack gets a function URL", prefix)
		}
		warnings = append(warnings, "this emulator has no HTTP APIs (API Gateway v2): "+prefix+"httpApi and "+prefix+"domain cannot be used")
	}
	if permissions {
		warnings = append(warnings, "this emulator does not check permissions (IAM): a missing permission causes errors only "+
			"in an AWS account")
	}
	return warnings, nil
}

// openAccount uses the credentials that the app finds, in the Region of the stack.
func openAccount(ctx context.Context) (account, error) {
	c, err := awsclient.New(ctx, awsclient.Options{Region: os.Getenv("CDK_DEFAULT_REGION")})
	if err != nil {
		return nil, err
	}
	var who struct {
		Account string `xml:"GetCallerIdentityResult>Account"`
	}
	if err := c.Query(ctx, "sts", "2011-06-15", "GetCallerIdentity", url.Values{}, &who); err != nil {
		return nil, fmt.Errorf("read the account of the credentials: %w", err)
	}
	if to := os.Getenv("CDK_DEFAULT_ACCOUNT"); to != "" && to != who.Account {
		return nil, fmt.Errorf("the credentials of this process belong to the account %s, cdk deploys to %s", who.Account, to)
	}
	return asking{c}, nil
}

// askWithin bounds all questions: the app also runs for commands that deploy nothing.
const askWithin = 10 * time.Second

// warn has cdk print the warnings.
func warn(stack awscdk.Stack, warnings []string) {
	for i, text := range warnings {
		awscdk.Annotations_Of(stack).AddWarningV2(jsii.String(fmt.Sprintf("tickring:account%d", i)), jsii.String(text))
	}
}
