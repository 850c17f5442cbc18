package boot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// fakeParams is SSM in memory.
type fakeParams struct {
	values map[string]string
	err    error
	asked  []string
}

func (f *fakeParams) GetParameter(_ context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	f.asked = append(f.asked, *in.Name)
	v, there := f.values[*in.Name]
	switch {
	case f.err != nil:
		return nil, f.err
	case !there:
		return nil, &types.ParameterNotFound{}
	case !aws.ToBool(in.WithDecryption):
		v = "AQICAHh="
	}
	return &ssm.GetParameterOutput{Parameter: &types.Parameter{Name: in.Name, Value: &v}}, nil
}

// A function asks for the secrets that it is told of and for no others.
func TestSecrets(t *testing.T) {
	params := &fakeParams{values: map[string]string{"/t/admin-token": "the-admin-token", "/t/report-key": "the-report-key"}}
	sender, err := Read(with("TICKRING_REPORT_KEY_PARAM", "/t/report-key"), Needs{})
	if err != nil {
		t.Fatal(err)
	}
	if sender.Signs() {
		t.Error("signs before it has a key")
	}
	if err := sender.readSecrets(t.Context(), params); err != nil || !slices.Equal(params.asked, []string{"/t/report-key"}) || sender.AdminToken != "" || !sender.Signs() {
		t.Errorf("asked for %q, %v, has the token %q", params.asked, err, sender.AdminToken)
	}
	all, err := Read(with("TICKRING_REPORT_KEY_PARAM", "/t/report-key", "TICKRING_ADMIN_TOKEN_PARAM", "/t/admin-token"), Needs{AdminToken: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := all.readSecrets(t.Context(), params); err != nil || all.AdminToken != "the-admin-token" {
		t.Errorf("token %q, %v", all.AdminToken, err)
	}
	// Whoever takes a report has to know the key of whoever asked for it.
	if string(all.ReportKey()) != string(sender.ReportKey()) {
		t.Error("two functions with one report key sign differently")
	}
	other := Config{AdminToken: "the-admin-token"}
	if string(all.ReportKey()) == string(other.ReportKey()) {
		t.Error("reports are signed with the admin token, though there is a key for them")
	}
}

func TestSecretsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		params fakeParams
		want   string
	}{
		"not there":   {fakeParams{}, "the parameter /t/admin-token does not exist"},
		"short":       {fakeParams{values: map[string]string{"/t/admin-token": "x"}}, "the parameter /t/admin-token: a token is 8 to 512 characters"},
		"not allowed": {fakeParams{err: errors.New("AccessDenied")}, "read the parameter /t/admin-token: AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Params: Params{AdminToken: "/t/admin-token"}}
			if err := cfg.readSecrets(t.Context(), &c.params); !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}
