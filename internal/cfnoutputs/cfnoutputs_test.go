package cfnoutputs

import (
	"maps"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

func TestOutputs(t *testing.T) {
	o := Outputs{Url: "https://x", TokenParameter: "/t", JobsTable: "j", FiresQueue: "https://sqs/1/f", TickFunction: "t",
		"ResultsQueueArn": "arn:aws:sqs:eu-central-1:111111111111:r", "HttpApi": "a"}
	check.NoError(t, o.Check("prod"))
	for _, c := range []struct{ got, want map[string]string }{
		{o.Tables(), map[string]string{"jobs": "j"}}, {o.Queues(), map[string]string{"fires": "https://sqs/1/f"}},
		{o.Functions(), map[string]string{"tick": "t"}},
	} {
		if !maps.Equal(c.got, c.want) {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	if o.Emulated() || !(Outputs{ResultsQueueArn: "arn:aws:sqs:us-east-1:000000000000:r"}).Emulated() {
		t.Error("an emulator is not distinguished from an account")
	}
	delete(o, TokenParameter)
	if err := o.Check("prod"); err == nil || !strings.Contains(err.Error(), "no output TokenParameter") {
		t.Error(err)
	}
}

func TestValidName(t *testing.T) {
	for text, want := range map[string]bool{
		"Tickring": true, "prod-2": true, "arn:aws:cloudformation:eu-central-1:1:stack/prod/1-2": true,
		"": false, "2prod": false, "-x": false, "a b": false, "a/b": false, "arn:a b": false, strings.Repeat("a", 129): false,
		strings.Repeat("a", 128): true,
	} {
		if ValidName(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
