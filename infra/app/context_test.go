package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tickring/tickring/infra"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestContext: each setting is read, and the error for an unknown one lists the known ones.
func TestContext(t *testing.T) {
	s, err := readContext(map[string]any{
		"tickring:name": "Jobs", "tickring:allow": "10.0.0.0/8, 192.168.0.0/16", "tickring:memory": "dispatch=512,api=256",
		"tickring:provisioned": "5,100,5,400", "tickring:throttle": "20,40", "tickring:endpointConcurrency": 30, "tickring:noToken": true,
		"tickring:noTokenPublic": "true", "tickring:readToken": "true",
		"tickring:oidcIssuer": "https://id.example.com", "tickring:oidcRoles": "devs=shop:editor;ops=admin",
		"tickring:alarms": "false", "tickring:dashboard": true, "tickring:maxConcurrency": 50, "tickring:invokeTag": "tickring=yes",
		"tickring:removalPolicy": "destroy", "tickring:tags": "team=payments,env=prod", "tickring:budget": "50,ops@example.com",
		"tickring:replicas": "eu-west-1", "tickring:invocationsAlarm": "100", "tickring:writeUnitsAlarm": "200",
		"tickring:environment": "A=1,B=x=y", "tickring:deletionProtection": "false", "tickring:tables": "a-jobs,a-runs,a-state",
		"@aws-cdk/core:target-partitions": []any{"aws"},
	})
	check.OK(t, err)
	p := s.props
	if s.name != "Jobs" || len(p.Allow) != 2 || p.Memory["dispatch"] != 512 || p.Provisioned.MaxWrite != 400 || !p.NoAlarms || p.NoCanary ||
		!p.Dashboard || *p.MaxConcurrency != 50 ||
		p.InvokeTag.Value != "yes" || p.RemovalPolicy != "DESTROY" || p.Environment["B"] != "x=y" || *p.DeletionProtection ||
		p.Tables.State != "a-state" || *p.Throttle != (infra.Throttle{Rate: 20, Burst: 40}) || *p.EndpointConcurrency != 30 || !p.NoToken ||
		!p.NoTokenPublic || !p.ReadToken ||
		p.Oidc.Issuer != "https://id.example.com" || len(p.Oidc.Roles) != 2 || s.tags["env"] != "prod" || *p.Budget != (infra.Budget{Dollars: 50,
		Email: "ops@example.com"}) || len(p.Replicas) != 1 || *p.InvocationsAlarm != 100 || *p.WriteUnitsAlarm != 200 {
		t.Errorf("%+v", p)
	}
	texts, long := golden.New(t), []string{strings.Repeat("k", 129), "(129 times k)", strings.Repeat("v", 257), "(257 times v)",
		manyTags(50), "(50 tags)"}
	for _, v := range []string{"color=red", "memory=512", "provisioned=5,100", "throttle=20", "architecture=mips", "tables=jobs,runs",
		"budget=50", "tags=team", "alarms=perhaps", "environment=A", "subnets=subnet-1", "zone=Z1", "tags=team=", "tags=" + long[0] + "=v",
		"tags=k=" + long[2], "tags=team=pay&go", "tags=AWS:team=payments", "tags=team=aws:payments", "tags=tickring=yes",
		"tags=" + long[4]} {
		key, value, _ := strings.Cut(v, "=")
		_, err := readContext(map[string]any{prefix + key: value})
		if err == nil {
			t.Errorf("%s is accepted", v)
		}
		texts.Equal(t, strings.NewReplacer(long...).Replace(v), fmt.Sprint(err), long...)
	}
}

// TestTagsAtTheirBounds: tags at AWS's limits of number and length, in letters of any language, are accepted.
func TestTagsAtTheirBounds(t *testing.T) {
	for _, v := range []string{manyTags(49), strings.Repeat("é", 128) + "=" + strings.Repeat("団", 256), "a_.:/+-@b=c_.:/=+-@d"} {
		if _, err := readContext(map[string]any{prefix + "tags": v}); err != nil {
			t.Error(err)
		}
	}
}

// TestTutorialNamesSettings: each setting in the deployment tutorial exists, and the tutorial names the one for an account that
// cannot create alarms.
func TestTutorialNamesSettings(t *testing.T) {
	b, err := os.ReadFile("../../docs/tutorial/deploy-to-aws.md")
	check.OK(t, err)
	if !regexp.MustCompile(`\n\| .cloudwatch:PutMetricAlarm. \|.*-c tickring:alarms=false`).Match(b) {
		t.Error("cloudwatch:PutMetricAlarm has no line with the setting")
	}
	for _, m := range regexp.MustCompile(`-c (tickring:\w+)=([^\s\x60]+)`).FindAllStringSubmatch(string(b), -1) {
		if _, err := readContext(map[string]any{m[1]: m[2]}); err != nil {
			t.Error(err)
		}
	}
}

func manyTags(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("k%d=v", i)
	}
	return strings.Join(list, ",")
}

// TestDocumented compares docs/reference/aws-settings.md with the settings.
func TestDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/aws-settings.md")
	check.OK(t, err)
	for _, o := range all {
		check.Contains(t, string(b), fmt.Sprintf("| `%s` | %s | ", o.key, o.takes), "docs/reference/aws-settings.md has no line")
	}
}
