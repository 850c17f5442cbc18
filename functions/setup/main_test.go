package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// store is SSM in memory.
type store struct {
	values map[string]string
	keys   map[string]string
	err    error
}

func (s *store) PutParameter(_ context.Context, in *ssm.PutParameterInput, _ ...func(*ssm.Options)) (*ssm.PutParameterOutput, error) {
	switch _, there := s.values[*in.Name]; {
	case s.err != nil:
		return nil, s.err
	case there && (in.Overwrite == nil || !*in.Overwrite):
		return nil, &types.ParameterAlreadyExists{}
	case in.Type != types.ParameterTypeSecureString:
		return nil, errors.New("that would not be secret")
	}
	s.values[*in.Name] = *in.Value
	if in.KeyId != nil {
		s.keys[*in.Name] = *in.KeyId
	}
	return &ssm.PutParameterOutput{}, nil
}

func (s *store) GetParameter(_ context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	v, there := s.values[*in.Name]
	if !there || !*in.WithDecryption {
		return nil, &types.ParameterNotFound{}
	}
	return &ssm.GetParameterOutput{Parameter: &types.Parameter{Name: in.Name, Value: &v}}, nil
}

func (s *store) DeleteParameter(_ context.Context, in *ssm.DeleteParameterInput, _ ...func(*ssm.Options)) (*ssm.DeleteParameterOutput,
	error) {
	if s.err != nil {
		return nil, s.err
	}
	if _, there := s.values[*in.Name]; !there {
		return nil, &types.ParameterNotFound{}
	}
	delete(s.values, *in.Name)
	return &ssm.DeleteParameterOutput{}, nil
}

// The life of a deployment: its secrets are made once, stay through its
// updates, under one identifier, and go with it.
func TestLife(t *testing.T) {
	s := &store{values: map[string]string{}, keys: map[string]string{}}
	h := wire(s, nil, slog.New(slog.DiscardHandler))
	properties := map[string]any{"ServiceToken": "arn", "Secrets": []any{"/tickring/x/admin-token", "/tickring/x/report-key"}}
	id, _, err := h(t.Context(), cfn.Event{ResourceType: kindSecrets, RequestType: cfn.RequestCreate, ResourceProperties: properties})
	if err != nil || id == "" || len(s.values) != 2 {
		t.Fatalf("%q, %v, %d secrets", id, err, len(s.values))
	}
	first := s.values["/tickring/x/admin-token"]
	if first == s.values["/tickring/x/report-key"] || len(first) < 32 || strings.ContainsAny(first, " \n") {
		t.Errorf("the secrets are %q", s.values)
	}
	properties["KeyId"], properties["Secrets"] = "key", append(properties["Secrets"].([]any), "/tickring/x/new")
	again, _, err := h(t.Context(), cfn.Event{ResourceType: kindSecrets, RequestType: cfn.RequestUpdate, PhysicalResourceID: id,
		ResourceProperties: properties})
	if err != nil || again != id {
		t.Errorf("%q after %q, %v", again, id, err)
	}
	if s.values["/tickring/x/admin-token"] != first {
		t.Error("an update made another token: all that have the old one are locked out")
	}
	if s.keys["/tickring/x/new"] != "key" {
		t.Errorf("the new secret is encrypted by %q", s.keys["/tickring/x/new"])
	}
	properties["Kept"] = []any{"/tickring/x/new"}
	for range 2 { // the answer to the first may be lost
		if _, _, err := h(t.Context(), cfn.Event{ResourceType: kindSecrets, RequestType: cfn.RequestDelete, PhysicalResourceID: id,
			ResourceProperties: properties}); err != nil {
			t.Error(err)
		}
	}
	if len(s.values) != 1 || s.values["/tickring/x/new"] == "" {
		t.Errorf("%d secrets are left: expected the one that is kept", len(s.values))
	}
}

// api is the function that is asked, in process.
type api struct {
	events []events.APIGatewayV2HTTPRequest
	status int
	body   string
	fault  *string
}

func (a *api) Invoke(_ context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	var e events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(in.Payload, &e); err != nil {
		return nil, err
	}
	a.events = append(a.events, e)
	b, err := json.Marshal(events.APIGatewayV2HTTPResponse{StatusCode: a.status, Body: a.body})
	return &lambda.InvokeOutput{Payload: b, FunctionError: a.fault}, err
}

// The canary is made by the API, as people make jobs, and goes by it.
func TestCanary(t *testing.T) {
	s := &store{values: map[string]string{"/tickring/x/admin-token": "the-admin-token"}}
	a := &api{status: 200, body: `{"applied":true,"apps":[],"jobs":[]}`}
	h := wire(s, a, slog.New(slog.DiscardHandler))
	e := cfn.Event{ResourceType: kindCanary, RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{
		"Api": "the-api", "TokenParameter": "/tickring/x/admin-token", "Address": "lambda:the-canary"}}
	id, _, err := h(t.Context(), e)
	if err != nil || id != "tickring-canary/alive" || len(a.events) != 1 {
		t.Fatalf("%q, %v, %d requests", id, err, len(a.events))
	}
	ask := a.events[0]
	if ask.Headers["authorization"] != "Bearer the-admin-token" || ask.RawPath != "/v1/apply" ||
		!strings.Contains(ask.Body, `"lambda:the-canary"`) || !strings.Contains(ask.Body, `"every":"1m"`) {
		t.Errorf("%+v", ask)
	}
	e.RequestType = cfn.RequestDelete
	if _, _, err := h(t.Context(), e); err != nil || a.events[1].RequestContext.HTTP.Method != "DELETE" ||
		a.events[1].RawPath != "/v1/jobs/tickring-canary/alive" {
		t.Errorf("%v, %+v", err, a.events[1:])
	}
	a.status = 404 // it was deleted by hand
	if _, _, err := h(t.Context(), e); err != nil {
		t.Error(err)
	}
	fault := "Unhandled"
	for name, broken := range map[string]struct {
		a    api
		vals map[string]string
		want string
	}{
		"refused":     {api{status: 200, body: `{"applied":false,"jobs":[{"error":"no such zone"}]}`}, s.values, "no such zone"},
		"not allowed": {api{status: 401, body: `{"code":"unauthorized"}`}, s.values, "401"},
		"broken":      {api{status: 200, fault: &fault}, s.values, "Unhandled"},
		"no token":    {api{status: 200}, nil, "read the parameter /tickring/x/admin-token"},
	} {
		t.Run(name, func(t *testing.T) {
			e.RequestType = cfn.RequestUpdate
			_, _, err := wire(&store{values: broken.vals}, &broken.a, slog.New(slog.DiscardHandler))(t.Context(), e)
			if err == nil || !strings.Contains(err.Error(), broken.want) || strings.Contains(err.Error(), "the-admin-token") {
				t.Errorf("%v; want %s", err, broken.want)
			}
		})
	}
	if _, _, err := h(t.Context(), cfn.Event{ResourceType: "Custom::Other"}); err == nil {
		t.Error("sets up what it does not know")
	}
}

// What cannot be set up fails the deployment with the reason, and no secret in it.
func TestFails(t *testing.T) {
	many := slices.Repeat([]any{"/a"}, maxSecrets+1)
	for name, c := range map[string]struct {
		list any
		err  error
		want string
	}{
		"no list":     {nil, nil, "Secrets is no list of 1 to 10 names"},
		"a text":      {"/tickring", nil, "Secrets is no list"},
		"empty":       {[]any{}, nil, "Secrets is no list"},
		"many":        {many, nil, "Secrets is no list"},
		"a number":    {[]any{1.0}, nil, "Secrets has 1, which is no name"},
		"no path":     {[]any{"token"}, nil, "Secrets has token, which is no name"},
		"not allowed": {[]any{"/tickring/token"}, errors.New("AccessDenied"), "make the parameter /tickring/token: AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			h := wire(&store{values: map[string]string{}, err: c.err}, nil, slog.New(slog.DiscardHandler))
			_, _, err := h(t.Context(), cfn.Event{ResourceType: kindSecrets, RequestType: cfn.RequestCreate,
				ResourceProperties: map[string]any{"Secrets": c.list}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}
