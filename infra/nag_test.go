package infra_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/tickring/tickring/infra"
)

// Nothing that the checks of AwsSolutions find is left without a reason why it
// is as it is.
func TestNag(t *testing.T) {
	excused := 0
	for form, p := range allForms() {
		p.Functions = functions
		app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
		stack := infra.NewTickringStack(app, "Tickring", &infra.StackProps{Props: p})
		awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
		found := assertions.Annotations_FromStack(stack.Stack)
		any := assertions.Match_StringLikeRegexp(jsii.String(".*"))
		for _, m := range append(*found.FindError(jsii.String("*"), any), *found.FindWarning(jsii.String("*"), any)...) {
			t.Errorf("%s: %s: %v", form, *m.Id, m.Entry.Data) //nolint:staticcheck // that is what FindError answers
		}
		for id, r := range read(t, stack.Stack).Resources {
			for _, rule := range list(at(r.Metadata, "cdk_nag.rules_to_suppress")) {
				if rule == nil {
					continue
				}
				excused++
				if reason, _ := at(rule, "reason").(string); len(reason) < 30 || !strings.Contains(reason, " ") {
					b, _ := json.Marshal(rule)
					t.Errorf("%s: %s is excused without a reason: %s", form, id, b)
				}
			}
		}
	}
	if excused == 0 {
		t.Error("nothing is excused: is anything checked?")
	}
}
