package infra

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/internal/iampolicy"
)

// Scheduler is the construct for one deployment of tickring.
type Scheduler struct {
	constructs.Construct
	// The DynamoDB tables and the SQS queues of the deployment.
	Jobs, Runs, State   awsdynamodb.ITableV2
	Fires, Slow, Checks awssqs.Queue
	PostRun             awssqs.Queue // the post-run queue
	Results, Dead       awssqs.Queue
	// Functions maps the name of each function to the function.
	Functions map[string]awslambda.Function
	// Url is the base URL of the deployment's API, console and endpoints for executors.
	Url *string
	// TokenParameter is the name of the SSM parameter with the token of the API. ReadTokenParameter is the name
	// of the parameter with the read-only token; nil if the deployment has no read-only token.
	TokenParameter, ReadTokenParameter *string

	wakes       awsevents.Rule
	functionUrl *string // nil: there is an HTTP API
	reportKey   *string
	secretKey   *string // encrypts the secrets of apps, jobs and channels
	api         awsapigatewayv2.HttpApi
}

// NewScheduler creates a Scheduler. It panics if Props.Check returns an error, or if the functions cannot be built. A
// stack can have several Schedulers with different values of id.
func NewScheduler(scope constructs.Construct, id string, props *Props) *Scheduler {
	p := Props{}
	if props != nil {
		p = *props
	}
	if err := p.Check(); err != nil {
		panic(fmt.Errorf("the props of the scheduler %s are invalid: %w", id, err))
	}
	s := &Scheduler{Construct: constructs.NewConstruct(scope, &id), Functions: map[string]awslambda.Function{}}
	names := []string{"tick", "dispatch", "postrun", "api", "callback"}
	if !p.NoCanary {
		names = append(names, "canary")
	}
	if p.httpApi() {
		names = append(names, "registry")
	}
	dir, err := build(&p, names)
	if err != nil {
		panic(fmt.Errorf("the props of the scheduler %s are invalid: %w", id, err))
	}
	if p.PermissionsBoundary != nil {
		awsiam.PermissionsBoundary_Of(s.Construct).Apply(p.PermissionsBoundary)
	}
	s.tables(id, &p)
	s.queues(id, &p)
	s.secrets(&p)
	s.doors(&p, dir)
	s.workers(&p, dir)
	if p.VpcEndpoints {
		s.endpoints(&p)
	}
	if !p.NoAlarms {
		s.alarms(&p)
	}
	tag := awscdk.Stack_Of(s.Construct).StackName()
	awscdk.Tags_Of(s.Construct).Add(jsii.String("tickring"), tag, nil)
	if p.Budget != nil {
		s.budget(p.Budget, tag)
	}
	if p.Dashboard {
		s.dashboard()
	}
	return s
}

func (s *Scheduler) arn(service, resource string) *string {
	return awscdk.Stack_Of(s.Construct).FormatArn(&awscdk.ArnComponents{Service: &service, Resource: &resource})
}

// secrets names the parameters, which CloudFormation cannot create encrypted: the functions api and tick create the missing ones
// when they start. They stay when the stack is deleted.
func (s *Scheduler) secrets(p *Props) {
	prefix := "/tickring/" + *s.name()
	s.TokenParameter, s.reportKey = jsii.String(prefix+"/admin-token"), jsii.String(prefix+"/report-key")
	s.secretKey = jsii.String(prefix + "/secret-key")
	if p.ReadToken {
		s.ReadTokenParameter = jsii.String(prefix + "/read-token")
	}
}

// creates returns the variables and permissions that a function needs to create the parameters.
func (s *Scheduler) creates(p *Props) (env map[string]*string, may []awsiam.PolicyStatement) {
	var names []string
	for _, n := range []*string{s.reportKey, s.TokenParameter, s.ReadTokenParameter, s.secretKey} { // the secret key is created last
		if n != nil {
			names = append(names, *n)
		}
	}
	env = map[string]*string{"TICKRING_CREATE_PARAMS": jsii.String(strings.Join(names, ","))}
	all := s.parameters(*jsii.Strings(names...))
	may = []awsiam.PolicyStatement{allow([]string{"ssm:PutParameter"}, all...)}
	if p.EncryptionKey != nil { // the second action where parameters are of the advanced tier
		env["TICKRING_SECRET_KEY_KMS"] = p.EncryptionKey.KeyArn()
		may = append(may, s.via(p, "ssm", "PARAMETER_ARN", all, "kms:Encrypt", "kms:GenerateDataKey"))
	}
	return env, may
}

// parameters returns the ARNs of the parameters that exist.
func (s *Scheduler) parameters(names []*string) (list []*string) {
	for _, n := range names {
		if n != nil {
			list = append(list, s.arn("ssm", "parameter"+*n))
		}
	}
	return list
}

func (s *Scheduler) mayRead(p *Props, names ...*string) []awsiam.PolicyStatement {
	list := s.parameters(names)
	may := []awsiam.PolicyStatement{allow([]string{"ssm:GetParameter"}, list...)}
	if p.EncryptionKey != nil {
		may = append(may, s.via(p, "ssm", "PARAMETER_ARN", list, "kms:Decrypt"))
	}
	return may
}

// doors creates the functions behind HTTP, with one base URL.
func (s *Scheduler) doors(p *Props, dir string) {
	admin, creates := s.creates(p)
	admin["TICKRING_ADMIN_TOKEN_PARAM"] = s.TokenParameter
	if p.PublicUrl != "" && !strings.Contains(p.PublicUrl, "{api}") { // a proxy sends another host name to a function URL
		admin["TICKRING_REPORT_URL"] = &p.PublicUrl
	}
	if s.ReadTokenParameter != nil {
		admin["TICKRING_READ_TOKEN_PARAM"] = s.ReadTokenParameter
	}
	var provider *string // the parameter with its secret
	if o := p.Oidc; o != nil {
		of := o.settings(p)
		for name, v := range map[string]string{"ISSUER": of.Issuer, "CLIENT_ID": of.ClientID, "URL": of.URL, "NAME": of.Name,
			"NAME_CLAIM": of.NameClaim, "ROLE_CLAIM": of.RoleClaim, "CLIENT_SECRET_PARAM": o.SecretParameter,
			"SCOPES": strings.Join(of.Scopes, " "), "ROLES": strings.Join(of.Roles, ";")} {
			if v != "" {
				admin["TICKRING_OIDC_"+name] = &v
			}
		}
		if o.SecretParameter != "" {
			provider = &o.SecretParameter
		}
	}
	if !p.httpApi() {
		admin["TICKRING_REPORT_KEY_PARAM"] = s.reportKey
		admin["TICKRING_ENDPOINTS"] = jsii.String("all")
		all := s.function(p, dir, function{name: "api", about: "jobs, runs, executors and their results", memory: 256, timeout: doorTimeout,
			calls: true, env: admin, reads: []*string{s.TokenParameter, s.ReadTokenParameter, provider, s.reportKey},
			role: iampolicy.Api}, slices.Concat(s.logs(p), s.topics(p), creates)...)
		s.callback(p, dir)
		if p.EndpointConcurrency == nil && p.places() == nil {
			awscdk.Annotations_Of(s.Construct).AddWarningV2(jsii.String("tickring:unbounded"), jsii.String("the function URL has no limit: "+
				"unknown clients could use the concurrency of the whole account. Set AccountConcurrency (200 or more) or EndpointConcurrency, "+
				"or HttpApi, which has a throttle; EndpointConcurrency 0 accepts it"))
		}
		s.functionUrl = functionUrl(all)
		s.Url = s.functionUrl
		return
	}
	api := s.function(p, dir, function{name: "api", about: "jobs, apps, runs", memory: 256, timeout: doorTimeout, calls: true, env: admin,
		reads: []*string{s.TokenParameter, s.ReadTokenParameter, provider},
		role:  iampolicy.Api}, slices.Concat(s.logs(p), s.topics(p), creates)...)
	callback := s.callback(p, dir)
	registry := s.function(p, dir, function{name: "registry", about: "takes the heartbeats of executors", memory: 128, timeout: doorTimeout,
		role: iampolicy.Registry})

	s.api = awsapigatewayv2.NewHttpApi(s.Construct, jsii.String("Http"), &awsapigatewayv2.HttpApiProps{
		Description:               jsii.String("tickring"),
		DefaultIntegration:        awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Api"), api, nil),
		DisableExecuteApiEndpoint: jsii.Bool(p.Domain != nil), // else it is a way around whatever guards the domain
	})
	route := func(id string, fn awslambda.Function, paths ...string) {
		to := awsapigatewayv2integrations.NewHttpLambdaIntegration(&id, fn, nil)
		for _, path := range paths {
			s.api.AddRoutes(&awsapigatewayv2.AddRoutesOptions{Path: &path, Methods: &[]awsapigatewayv2.HttpMethod{awsapigatewayv2.HttpMethod_POST},
				Integration: to})
		}
	}
	route("Registry", registry, "/api/registry", "/api/registryRemove", "/xxl-job-admin/api/registry", "/xxl-job-admin/api/registryRemove")
	route("Callback", callback, "/api/callback", "/xxl-job-admin/api/callback", "/v1/report/{run}")
	for _, c := range *s.api.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if r, ok := c.(awsapigatewayv2.CfnRoute); ok {
			excuse(r, "AwsSolutions-APIG4",
				"Executors send the token of their app, users a token of the API, and reports a key in their URL. The functions compare them in "+
					"constant time, and return nothing to unknown clients.")
		}
	}
	stage := s.api.DefaultStage().Node().DefaultChild().(awsapigatewayv2.CfnStage)
	throttle := p.throttle()
	stage.SetDefaultRouteSettings(&awsapigatewayv2.CfnStage_RouteSettingsProperty{ThrottlingRateLimit: &throttle.Rate,
		ThrottlingBurstLimit: &throttle.Burst})
	s.accessLogs(p, stage)
	if p.Domain != nil {
		s.domainName(p.Domain)
	} else {
		s.Url = s.api.ApiEndpoint()
	}
}

// callback creates the function that receives results: over HTTP, if there are several endpoint functions, and from the queue to
// which Lambda sends the results of functions without the SDK.
func (s *Scheduler) callback(p *Props, dir string) awslambda.Function {
	fn := s.function(p, dir, function{name: "callback", about: "takes the results of runs", memory: 128, timeout: doorTimeout,
		env:   map[string]*string{"TICKRING_REPORT_KEY_PARAM": s.reportKey},
		reads: []*string{s.reportKey}, role: iampolicy.Callback})
	if len(p.Invoke) > 0 || p.InvokeTag != nil { // a mapping polls its queue even if it is empty
		takes(fn, "Results", s.Results, 10, nil)
	}
	return fn
}

// functionUrl adds a public URL to a function.
func functionUrl(fn awslambda.Function) *string {
	url := fn.AddFunctionUrl(&awslambda.FunctionUrlOptions{AuthType: awslambda.FunctionUrlAuthType_NONE}).Url()
	// It ends with a slash, and is known only when it is deployed.
	return awscdk.Fn_Join(jsii.String(""),
		&[]*string{jsii.String("https://"), awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), url, nil))})
}

// workers creates the functions that plan, send, and process the follow-ups.
func (s *Scheduler) workers(p *Props, dir string) {
	if p.PublicUrl != "" {
		if p.inClear() {
			awscdk.Annotations_Of(s.Construct).AddWarningV2(jsii.String("tickring:clear"), jsii.String("PublicUrl is "+p.PublicUrl+
				": tokens of executors and keys of reports go there in clear; https is meant"))
		}
		s.Url = &p.PublicUrl
		if s.api != nil {
			s.Url = jsii.String(strings.ReplaceAll(p.PublicUrl, "{api}", *s.api.ApiId()))
		}
		s.Url = jsii.String(strings.TrimSuffix(*s.Url, "/"))
	}
	env, creates := s.creates(p)
	if !p.NoCanary {
		canary := s.function(p, dir, function{name: "canary", about: "the executor of its own job", memory: 128, timeout: 15, plain: true,
			once: true})
		env["TICKRING_CANARY"] = awscdk.Fn_Join(jsii.String(""), &[]*string{jsii.String("lambda:"), canary.FunctionName()})
	}
	tick := s.function(p, dir, function{name: "tick", about: "plans due runs, once a minute", memory: 256, timeout: tickTimeout,
		calls: true, once: true, env: env, role: iampolicy.Tick}, append(creates, s.executors(p, false)...)...)
	// Not in its role: the function would wait for a role that waits for it.
	awsiam.NewPolicy(s.Construct, jsii.String("TickAgain"), &awsiam.PolicyProps{
		Roles:      &[]awsiam.IRole{tick.Role()},
		Statements: &[]awsiam.PolicyStatement{allow([]string{"lambda:InvokeFunction"}, tick.FunctionArn())},
	})
	// The same code runs as two functions, so slow executors do not use up the capacity of the others.
	sends := func(name, about string, role iampolicy.Role) awslambda.Function {
		var may []awsiam.PolicyStatement
		if p.EncryptionKey != nil && len(p.Queues) > 0 { // without names, because a role has no room for a hundred queue names twice
			may = append(may, s.via(p, "sqs", "", nil, "kms:GenerateDataKey", "kms:Decrypt"))
		}
		return s.function(p, dir, function{name: name, code: "dispatch", about: about, memory: 256, timeout: sendTimeout, calls: true,
			env:   map[string]*string{"TICKRING_REPORT_KEY_PARAM": s.reportKey, "TICKRING_REPORT_URL": s.Url},
			reads: []*string{s.reportKey}, role: role}, append(s.executors(p, true), may...)...)
	}
	dispatch := sends("dispatch", "sends runs to executors", iampolicy.Dispatch)
	takes(dispatch, "Fires", s.Fires, firesBatch, p.MaxConcurrency)
	takes(dispatch, "Checks", s.Checks, 10, p.MaxConcurrency)
	takes(sends("slow", "sends runs to slow executors", iampolicy.SlowLane), "Slow", s.Slow, 10, p.slow())
	postRun := s.function(p, dir, function{name: "postrun", about: "archives logs and sends notifications, without delaying runs",
		memory: 256, timeout: postRunTimeout, calls: true, role: iampolicy.PostRun}, slices.Concat(s.logs(p), s.topics(p))...)
	takes(postRun, "PostRun", s.PostRun, 10, p.slow())
	s.wake(tick)
}

// wake has tick invoked each minute. A failed invocation is not repeated: the next minute brings one.
func (s *Scheduler) wake(tick awslambda.Function) {
	s.wakes = awsevents.NewRule(s.Construct, jsii.String("Wake"), &awsevents.RuleProps{
		Description: jsii.String("Wakes tickring's tick each minute"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(1))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(tick, &awseventstargets.LambdaFunctionProps{
			RetryAttempts: jsii.Number(0), MaxEventAge: awscdk.Duration_Minutes(jsii.Number(1)),
		})},
	})
}
