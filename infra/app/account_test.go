package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

type fakeAccount struct {
	limit   float64
	outputs map[string]string
	free    bool // the free LocalStack
}

func (f fakeAccount) Concurrency(context.Context) (float64, error) {
	if f.limit == 0 {
		return 0, errors.New("AccessDenied")
	}
	return f.limit, nil
}

func (f fakeAccount) Outputs(context.Context, string) (map[string]string, error) {
	if f.outputs["unread"] != "" {
		return nil, errors.New(f.outputs["unread"])
	}
	return f.outputs, nil
}

func (f fakeAccount) Lacks(context.Context) (httpAPIs, permissions bool, err error) {
	return f.free, f.free, nil
}

// said holds the values that a user sets with -c.
type said map[string]any

func (s said) all() map[string]any {
	m := map[string]any{}
	for k, v := range s {
		m[prefix+k] = v
	}
	return m
}

// A function URL is the default if concurrency can be reserved for its function. A new or unreadable account gets an HTTP API
// and a warning, an existing stack keeps its kind, and the user's choice is respected.
func TestChoosesFunctionUrlOrHttpApi(t *testing.T) {
	url, api := map[string]string{"Url": "https://x"}, fakeAccount{limit: 1000, outputs: map[string]string{"Url": "https://x", "HttpApi": "x"}}
	denied := map[string]string{"unread": "Denied"}
	texts, free := golden.New(t), fakeAccount{free: true}
	for name, c := range map[string]struct {
		context said
		account account // nil: no credentials
		httpApi bool
		limit   float64
		warns   int    // number of warnings
		to      string // the account that cdk deploys to
		rejects bool
	}{
		"an account":                        {account: fakeAccount{limit: 1000}, limit: 1000},
		"just large enough":                 {account: fakeAccount{limit: 200}, limit: 200},
		"too small":                         {account: fakeAccount{limit: 199}, httpApi: true, limit: 199, warns: 1},
		"a new account":                     {account: fakeAccount{limit: 10}, httpApi: true, limit: 10, warns: 2},
		"no permission":                     {account: fakeAccount{}, httpApi: true, warns: 1},
		"no credentials":                    {httpApi: true, warns: 1},
		"no credentials, to an account":     {to: "111111111111", rejects: true},
		"no stacks read, to an account":     {to: "111111111111", account: fakeAccount{limit: 1000, outputs: denied}, rejects: true},
		"chosen, to an account":             {to: "111111111111", context: said{"httpApi": true}, httpApi: true},
		"no credentials, the limit set":     {context: said{"accountConcurrency": 500}, limit: 500},
		"no permission to read stacks":      {account: fakeAccount{limit: 1000, outputs: denied}, limit: 1000},
		"function URL chosen":               {context: said{"httpApi": false}, account: fakeAccount{limit: 10}, limit: 10, warns: 1},
		"HTTP API chosen":                   {context: said{"httpApi": true}, account: fakeAccount{limit: 1000}, httpApi: true, limit: 1000},
		"a bound":                           {context: said{"endpointConcurrency": 5}, account: fakeAccount{limit: 150}, limit: 150},
		"a stack with an HTTP API":          {account: api, httpApi: true, limit: 1000},
		"a stack with an HTTP API, a bound": {context: said{"endpointConcurrency": 5}, account: api, httpApi: true, limit: 1000},
		"a stack with a function URL":       {account: fakeAccount{outputs: url}},
		"an emulator":                       {context: said{"emulator": true}, account: fakeAccount{limit: 10}},
		"no emulator":                       {context: said{"emulator": true}},
		"an emulator without HTTP APIs":     {context: said{"emulator": true}, account: free, warns: 2},
		"an emulator, HTTP API":             {context: said{"emulator": true, "httpApi": true}, account: fakeAccount{}, httpApi: true},
		"without HTTP APIs, HTTP API":       {context: said{"emulator": true, "httpApi": true}, account: free, httpApi: true, rejects: true},
		"without HTTP APIs, a domain":       {context: said{"emulator": true, "domain": "x.example"}, account: free, rejects: true},
	} {
		s, err := readContext(c.context.all())
		check.OK(t, err)
		t.Setenv("CDK_DEFAULT_ACCOUNT", c.to)
		warnings, err := s.choose(t.Context(), func(context.Context) (account, error) {
			if c.account == nil {
				return nil, errors.New("no AWS credentials")
			}
			return c.account, nil
		})
		limit := 0.0
		if s.props.AccountConcurrency != nil {
			limit = *s.props.AccountConcurrency
		}
		if s.props.HttpApi != c.httpApi || limit != c.limit || len(warnings) != c.warns || (err != nil) != c.rejects {
			t.Errorf("%s: HTTP API %t, a limit of %v, %q, %v", name, s.props.HttpApi, limit, warnings, err)
		}
		if err != nil {
			warnings = append(warnings, err.Error())
		}
		if len(warnings) > 0 {
			texts.Equal(t, name, strings.Join(warnings, "\n"))
		}
		if d := s.props.EndpointConcurrency; s.emulator && (d == nil || *d != 0) {
			t.Errorf("%s: concurrency is reserved: %v", name, d)
		}
	}
}
