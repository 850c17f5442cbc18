package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53targets"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// endpoints creates the VPC endpoints that functions in the VPC need: without them, or a way to the internet, they reach neither
// tables nor queues. Lambda writes the functions' own logs and metrics from outside the VPC; the logs endpoint is for the logs of
// executors.
func (s *Scheduler) endpoints(p *Props) {
	scope := constructs.NewConstruct(s.Construct, jsii.String("Endpoint"))
	awsec2.NewGatewayVpcEndpoint(scope, jsii.String("DynamoDB"),
		&awsec2.GatewayVpcEndpointProps{Vpc: p.Vpc, Service: awsec2.GatewayVpcEndpointAwsService_DYNAMODB()})
	type endpoint struct {
		id      string
		service awsec2.InterfaceVpcEndpointAwsService
		callers []string
	}
	list := []endpoint{
		{"Sqs", awsec2.InterfaceVpcEndpointAwsService_SQS(), []string{"tick", "dispatch", "slow", "postrun", "api"}},       // the delay queue
		{"Ssm", awsec2.InterfaceVpcEndpointAwsService_SSM(), []string{"tick", "dispatch", "slow", "postrun", "api"}},       // secrets
		{"Lambda", awsec2.InterfaceVpcEndpointAwsService_LAMBDA(), []string{"tick", "dispatch", "slow", "postrun", "api"}}, // executors, ticks
	}
	if len(s.logs(p)) > 0 {
		list = append(list, endpoint{"Logs", awsec2.InterfaceVpcEndpointAwsService_CLOUDWATCH_LOGS(), []string{"api", "postrun"}})
	}
	for _, of := range list {
		e := awsec2.NewInterfaceVpcEndpoint(scope, &of.id, &awsec2.InterfaceVpcEndpointProps{Vpc: p.Vpc, Service: of.service, Subnets: p.Subnets,
			Open: jsii.Bool(false)})
		for _, name := range of.callers {
			e.Connections().AllowDefaultPortFrom(s.Functions[name], jsii.String("tickring's "+name))
		}
	}
}

// domainName puts a name in front of the HTTP API, which then answers by it alone.
func (s *Scheduler) domainName(d *Domain) {
	scope := constructs.NewConstruct(s.Construct, jsii.String("Domain"))
	name := awsapigatewayv2.NewDomainName(scope, jsii.String("Name"), &awsapigatewayv2.DomainNameProps{
		DomainName: &d.Name, Certificate: d.Certificate, SecurityPolicy: awsapigatewayv2.SecurityPolicy_TLS_1_2,
	})
	awsapigatewayv2.NewApiMapping(scope, jsii.String("Mapping"), &awsapigatewayv2.ApiMappingProps{Api: s.api, DomainName: name,
		Stage: s.api.DefaultStage()})
	if d.Zone != nil {
		target := awsroute53.RecordTarget_FromAlias(awsroute53targets.NewApiGatewayv2DomainProperties(name.RegionalDomainName(),
			name.RegionalHostedZoneId()))
		awsroute53.NewARecord(scope, jsii.String("Ipv4"), &awsroute53.ARecordProps{Zone: d.Zone, RecordName: jsii.String(d.Name + "."),
			Target: target})
		awsroute53.NewAaaaRecord(scope, jsii.String("Ipv6"), &awsroute53.AaaaRecordProps{Zone: d.Zone, RecordName: jsii.String(d.Name + "."),
			Target: target})
	}
	s.Url = jsii.String("https://" + d.Name)
}

// accessLogs makes the HTTP API log a line for each request: client, path, duration and status, without the content.
func (s *Scheduler) accessLogs(p *Props, stage awsapigatewayv2.CfnStage) {
	if !p.AccessLogs {
		excuse(stage, "AwsSolutions-APIG1",
			"Off by default, because a line for each callback would cost more than the callback. The prop AccessLogs turns it on.")
		return
	}
	logs := awslogs.NewLogGroup(s.Construct, jsii.String("AccessLog"), &awslogs.LogGroupProps{Retention: p.retention(),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY, EncryptionKey: p.EncryptionKey})
	stage.SetAccessLogSettings(&awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
		DestinationArn: logs.LogGroupArn(),
		Format: jsii.String(`{"time":"$context.requestTime","ip":"$context.identity.sourceIp","request":"$context.requestId","method":"$context.httpMethod",` +
			`"path":"$context.path","status":"$context.status","bytes":"$context.responseLength","ms":"$context.responseLatency","error":"$context.integrationErrorMessage"}`),
	})
}

// excuse records for cdk-nag why a finding is intended.
func excuse(c awscdk.CfnResource, rule, reason string) {
	c.AddMetadata(jsii.String("cdk_nag"), map[string]any{"rules_to_suppress": []map[string]any{{"id": rule, "reason": reason}}})
}
