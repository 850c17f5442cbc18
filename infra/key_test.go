package infra_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
)

// TestKeyIsLimited: the roles with access to a table, a queue or a parameter are the ones that can use its key, and only through
// its service. Each function can decrypt only its own environment.
func TestKeyIsLimited(t *testing.T) {
	for form, p := range map[string]infra.Props{"HTTP API": {HttpApi: true}, "function URL": {},
		"queues": {Queues: []string{"arn:aws:sqs:eu-central-1:123456789012:nightly"}}} {
		stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Mine"), &awscdk.StackProps{
			Env: &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-central-1")}})
		p.EncryptionKey, p.Functions = awskms.NewKey(stack, jsii.String("Key"), nil), functions
		infra.NewScheduler(stack, "Tickring", &p)
		tmpl := read(t, stack)
		thing := regexp.MustCompile(`Tickring(Jobs|Runs|State|Fires|Slow|Checks|Results|Dead)"|admin-token|report-key|secret-key`)
		got, want := map[string]bool{}, map[string]bool{}
		for _, s := range tmpl.statements(t) {
			add := func(to map[string]bool, v any, actions ...string) {
				b, _ := json.Marshal(v)
				for _, of := range thing.FindAllString(string(b), -1) {
					for _, a := range actions {
						to[s.role+" "+a+" "+strings.Trim(of, `"`)] = true
					}
				}
			}
			for _, raw := range list(s.Action) {
				action := raw.(string)
				switch {
				case strings.HasPrefix(action, "dynamodb:"):
					add(want, s.Resource, "dynamodb kms:Decrypt", "dynamodb kms:Encrypt", "dynamodb kms:GenerateDataKey")
				case action == "sqs:SendMessage":
					add(want, s.Resource, "sqs kms:Decrypt", "sqs kms:GenerateDataKey")
				case action == "sqs:ReceiveMessage":
					add(want, s.Resource, "sqs kms:Decrypt")
				case action == "ssm:GetParameter":
					add(want, s.Resource, "ssm kms:Decrypt")
				case action == "ssm:PutParameter":
					add(want, s.Resource, "ssm kms:Encrypt", "ssm kms:GenerateDataKey")
				case strings.HasPrefix(action, "kms:"):
					equal, _ := at(s.Condition, "StringEquals").(map[string]any)
					via, _ := equal["kms:ViaService"].(string)
					service := strings.TrimSuffix(via, ".eu-central-1.amazonaws.com")
					context := map[string]string{"dynamodb": "aws:dynamodb:tableName", "sqs": "aws:sqs:arn", "ssm": "PARAMETER_ARN"}[service]
					of := equal["kms:EncryptionContext:"+context]
					own := refers(equal["kms:EncryptionContext:aws:lambda:FunctionArn"])
					sends := strings.HasPrefix(s.role, "TickringDispatch") || strings.HasPrefix(s.role, "TickringSlow")
					switch {
					case refers(s.Resource) == "":
						t.Errorf("%s: %s may do %s on %v", form, s.role, action, s.Resource)
					case of != nil:
						add(got, of, service+" "+action)
					case own != "":
						if action != "kms:Decrypt" || refers(tmpl.Resources[own].Properties["Role"]) != s.role {
							t.Errorf("%s: %s may do %s with the environment of %s", form, s.role, action, own)
						}
						got[s.role+" environment"] = true
					case action == "kms:DescribeKey" && service == "dynamodb": // has no context
					case form == "queues" && sends && service == "sqs":
						got[s.role+" queues of others"] = true
					default:
						t.Errorf("%s: %s may do %s with anything: %v", form, s.role, action, s.Condition)
					}
				}
			}
		}
		for _, id := range tmpl.of(t, "AWS::Lambda::Function") {
			fn := tmpl.Resources[id].Properties
			if at(fn, "Environment.Variables") != nil {
				want[refers(fn["Role"])+" environment"] = true
			}
			if form == "queues" && (strings.HasPrefix(id, "TickringDispatch") || strings.HasPrefix(id, "TickringSlow")) {
				want[refers(fn["Role"])+" queues of others"] = true
			}
		}
		if same(t, got, want, form); len(want) < 60 {
			t.Errorf("%s: only %d uses of the key: %v", form, len(want), want)
		}
	}
}
