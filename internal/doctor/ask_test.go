package doctor

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/cfnoutputs"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// silent is an AWS that never answers.
type silent struct{}

var errSilent = errors.New("no answer")

func (silent) JSON(context.Context, string, string, string, any, any) error { return errSilent }
func (silent) Get(context.Context, string, string, any) error               { return errSilent }
func (silent) Query(context.Context, string, string, string, url.Values, any) error {
	return errSilent
}
func (silent) Lacks(context.Context) (httpAPIs, permissions bool, err error) {
	return false, false, errSilent
}
func (silent) Clock(context.Context) (time.Time, error) { return time.Time{}, errSilent }

// TestAskOfAnAWSThatIsSilent: facts that could not be read are named, and nothing else is reported about them.
func TestAskOfAnAWSThatIsSilent(t *testing.T) {
	o := cfnoutputs.Outputs{}
	for _, key := range []string{cfnoutputs.JobsTable, cfnoutputs.RunsTable, cfnoutputs.StateTable, cfnoutputs.FiresQueue,
		cfnoutputs.ChecksQueue, cfnoutputs.DeadQueue,
		cfnoutputs.TickFunction, cfnoutputs.DispatchFunction} {
		o[key] = key
	}
	c := Ask(t.Context(), silent{}, o, now)
	var unread []string
	for _, u := range c.Unread {
		unread = append(unread, u.What.String()+": "+u.Why.String())
	}
	slices.Sort(unread)
	golden.New(t).Equal(t, "unread", strings.Join(unread, "\n"))
	list := Judge(&Facts{Now: now, Cloud: c})
	for _, x := range list[1:] { // the first: the deployment itself does not answer
		if x.Level != Unknown {
			t.Errorf("%+v", x)
		}
	}
	if len(list) != 1+len(c.Unread) {
		t.Errorf("%+v", list)
	}
}

func TestQueueSaysWhenItWasMade(t *testing.T) {
	q := Queue{}
	a := map[string]string{"VisibilityTimeout": "25", "MessageRetentionPeriod": "60", "ApproximateNumberOfMessages": "0",
		"ApproximateNumberOfMessagesDelayed": "0", "ApproximateNumberOfMessagesNotVisible": "0", "CreatedTimestamp": "1795000000"}
	if err := q.read(a); err != nil || !q.Made.Equal(time.Unix(1795000000, 0)) {
		t.Errorf("%v, %v", q.Made, err)
	}
}
