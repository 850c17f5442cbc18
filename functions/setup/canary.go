package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/stack"
)

// functions is what setup calls of Lambda.
type functions interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// setCanary makes that job, as people make theirs: it asks the function of the
// API, with the token, and by no address, for that may not be known to the world yet.
func setCanary(ctx context.Context, params parameters, functions functions, e *cfn.Event) (id string, err error) {
	id = stack.CanaryApp + "/" + stack.CanaryJob
	var p struct{ Api, TokenParameter, Address string }
	b, err := json.Marshal(e.ResourceProperties)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || p.Api == "" || p.TokenParameter == "" || p.Address == "" {
		return id, fmt.Errorf("Api, TokenParameter and Address are needed: %w", errors.Join(err, errors.New("something is missing")))
	}
	out, err := params.GetParameter(ctx, &ssm.GetParameterInput{Name: &p.TokenParameter, WithDecryption: aws.Bool(true)})
	if err != nil || out.Parameter == nil {
		return id, fmt.Errorf("read the parameter %s: %w", p.TokenParameter, err)
	}
	a := asking{functions: functions, api: p.Api, token: aws.ToString(out.Parameter.Value)}
	if e.RequestType == cfn.RequestDelete {
		status, body, err := a.ask(ctx, http.MethodDelete, "/v1/jobs/"+id, nil)
		if err == nil && status != http.StatusNotFound && status/100 != 2 {
			err = fmt.Errorf("delete the canary: %d: %.500s", status, body)
		}
		return id, err
	}
	status, body, err := a.ask(ctx, http.MethodPost, "/v1/apply", client.ApplyRequest{
		Apps: []client.AppSpec{{Name: stack.CanaryApp, Title: "The deployment's own: it shows that fires arrive and results come back",
			Executors: []string{p.Address}}},
		Jobs: []client.JobSpec{{App: stack.CanaryApp, Name: stack.CanaryJob, Handler: "alive", Schedule: client.Schedule{Every: "1m"}}},
	})
	if err != nil {
		return id, err
	}
	var res struct{ Applied bool }
	if status != http.StatusOK || json.Unmarshal([]byte(body), &res) != nil || !res.Applied {
		return id, fmt.Errorf("make the canary: %d: %.500s", status, body)
	}
	return id, nil
}

// asking is a caller of the API's function.
type asking struct {
	functions  functions
	api, token string
}

// ask sends one request, in the form in which it would come over HTTP.
func (a *asking) ask(ctx context.Context, method, path string, in any) (status int, body string, err error) {
	e := events.APIGatewayV2HTTPRequest{Version: "2.0", RawPath: path,
		Headers: map[string]string{"authorization": "Bearer " + a.token, "content-type": "application/json"}}
	e.RequestContext.HTTP.Method, e.RequestContext.HTTP.SourceIP = method, "127.0.0.1"
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, "", fmt.Errorf("%s %s: %w", method, path, err)
		}
		e.Body = string(b)
	}
	payload, err := json.Marshal(e)
	if err != nil {
		return 0, "", fmt.Errorf("%s %s: %w", method, path, err)
	}
	out, err := a.functions.Invoke(ctx, &lambda.InvokeInput{FunctionName: &a.api, Payload: payload})
	if err != nil {
		return 0, "", fmt.Errorf("%s %s: invoke %s: %w", method, path, a.api, err)
	}
	if out.FunctionError != nil {
		return 0, "", fmt.Errorf("%s %s: the function %s failed: %s: %.500s", method, path, a.api, *out.FunctionError, out.Payload)
	}
	var res events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(out.Payload, &res); err != nil {
		return 0, "", fmt.Errorf("%s %s: the answer of %s: %w", method, path, a.api, err)
	}
	return res.StatusCode, res.Body, nil
}
