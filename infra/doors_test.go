package infra_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestDoorsAreBounded: unknown clients can use up neither the requests nor the concurrency of the account. A deployment into an
// account of unknown or small concurrency reserves none, which AWS would reject; behind a function URL it warns, unless the user
// accepts that.
func TestDoorsAreBounded(t *testing.T) {
	number := jsii.Number[float64]
	for name, c := range map[string]struct {
		p           infra.Props
		rate, burst any
		places      any // of each endpoint function
	}{
		"nothing said":      {infra.Props{HttpApi: true}, 1000.0, 2000.0, nil},
		"a new account":     {infra.Props{HttpApi: true, AccountConcurrency: number(10)}, 1000.0, 2000.0, nil},
		"just too small":    {infra.Props{HttpApi: true, AccountConcurrency: number(199)}, 1000.0, 2000.0, nil},
		"just large enough": {infra.Props{HttpApi: true, AccountConcurrency: number(200)}, 1000.0, 2000.0, 10.0},
		"an account":        {infra.Props{HttpApi: true, AccountConcurrency: number(1000)}, 1000.0, 2000.0, 50.0},
		"a large one":       {infra.Props{HttpApi: true, AccountConcurrency: number(50_000)}, 10_000.0, 5000.0, 2500.0},
		"as said": {infra.Props{HttpApi: true, AccountConcurrency: number(1000), EndpointConcurrency: number(300),
			Throttle: &infra.Throttle{Rate: 5, Burst: 7}}, 5.0, 7.0, 300.0},
		"set for an unknown account": {infra.Props{HttpApi: true, EndpointConcurrency: number(3)}, 1000.0, 2000.0, 3.0},
		"no places": {infra.Props{HttpApi: true, AccountConcurrency: number(1000), EndpointConcurrency: number(0)}, 1000.0, 2000.0,
			nil},
		"function URL":                {infra.Props{AccountConcurrency: number(1000)}, nil, nil, 150.0},
		"function URL, small account": {infra.Props{AccountConcurrency: number(199)}, nil, nil, nil},
		"function URL, nothing set":   {infra.Props{}, nil, nil, nil},
		"function URL, accepted":      {infra.Props{EndpointConcurrency: number(0)}, nil, nil, nil},
	} {
		c.p.Functions = functions
		stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Mine"), nil)
		infra.NewScheduler(stack, "Tickring", &c.p)
		tmpl := read(t, stack)
		found := assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"),
			assertions.Match_StringLikeRegexp(jsii.String(".*the function URL has no limit.*")))
		if warns := !c.p.HttpApi && c.places == nil && c.p.EndpointConcurrency == nil; (len(*found) == 1) != warns {
			t.Errorf("%s: %d warnings", name, len(*found))
		}
		doors, sum := []string{"api", "callback", "registry"}, 0.0
		if !c.p.HttpApi {
			doors = doors[:1]
		} else {
			stage := tmpl.Resources[tmpl.of(t, "AWS::ApiGatewayV2::Stage")[0]].Properties
			if rate, burst := at(stage, "DefaultRouteSettings.ThrottlingRateLimit"), at(stage, "DefaultRouteSettings.ThrottlingBurstLimit"); rate !=
				c.rate || burst != c.burst {
				t.Errorf("%s: %v requests a second and %v at once, want %v and %v", name, rate, burst, c.rate, c.burst)
			}
		}
		for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
			got, want := tmpl.Resources[id].Properties["ReservedConcurrentExecutions"], c.places
			if !slices.ContainsFunc(doors, func(d string) bool { return tmpl.function(t, d) == id }) {
				want = nil
			}
			check.Equal(t, got, want, "%s: %s has N places", name, id)
			if n, ok := got.(float64); ok {
				sum += n
			}
		}
		if a := c.p.AccountConcurrency; a != nil && sum > 0 && sum+100 > *a {
			t.Errorf("%s: %v of %v places are reserved, and AWS keeps 100", name, sum, *a)
		}
	}
}

// TestTokensInClear: an http PublicUrl on another machine causes a warning, because executors send tokens in clear.
func TestTokensInClear(t *testing.T) {
	for text, want := range map[string]int{"http://jobs.example.com": 1, "http://10.0.0.8:8080/x": 1, "HTTP://jobs.example.com": 1,
		"https://jobs.example.com": 0, "http://127.0.0.1:4566/_aws/{api}": 0, "http://[::1]:4566": 0, "http://localhost": 0, "": 0} {
		stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Mine"), nil)
		infra.NewScheduler(stack, "Tickring", &infra.Props{Functions: functions, HttpApi: true, PublicUrl: text})
		found := assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"),
			assertions.Match_StringLikeRegexp(jsii.String(".*in clear.*")))
		check.Equal(t, len(*found), want, "%q N warnings", text)
	}
}
