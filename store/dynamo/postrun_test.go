package dynamo_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store/dynamo"
)

// owedBefore is a follow-up as the release before the post-run queue reads it: one without a pause is a run to create.
type owedBefore struct {
	Run   core.RunID   `json:"run,omitempty"`
	Kind  core.Cause   `json:"kind,omitempty"`
	Slot  core.Instant `json:"slot,omitempty"`
	Pause bool         `json:"pause,omitempty"`
}

// TestReleaseBefore: post-run work is stored in attributes that the release before neither reads nor writes, so that
// release does nothing with it and clears nothing.
func TestReleaseBefore(t *testing.T) {
	db, queues := fakeaws.New(t.Errorf)
	s, err := dynamo.New(db, queues, dynamo.Options{Names: fakeaws.Names})
	check.OK(t, err)
	ctx := t.Context()
	then := core.NumberedRun(1, 2)
	r := core.Run{ID: core.NumberedRun(1, 1), App: "a", State: core.Failed, Reason: core.ReasonHandler, Address: "http://10.0.0.1:9999/",
		SentAt: time.Unix(1, 0).UTC(), EndedAt: time.Unix(2, 0).UTC(), Attempt: 1, First: core.NumberedRun(1, 1), Then: then,
		Owes: []core.Owed{{Run: then, Kind: core.CauseRetry, Slot: 9}}, PostRun: core.PostRun{Log: true}, KeepLog: core.KeepLogAlways}
	check.OK(t, s.CreateRuns(ctx, []core.Run{r})[0])
	stored, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &fakeaws.Names.Runs, ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{
			"job": &types.AttributeValueMemberN{Value: r.ID.Job().String()}, "run": &types.AttributeValueMemberN{Value: r.ID.String()}}})
	check.OK(t, err)
	// As that release reads it: its item has all fields except these two.
	var before struct {
		Owes string `dynamodbav:"owes"`
	}
	check.OK(t, attributevalue.UnmarshalMap(stored.Item, &before))
	var owed []owedBefore
	check.OK(t, json.Unmarshal([]byte(before.Owes), &owed))
	for _, o := range owed {
		if o.Run == 0 && !o.Pause {
			t.Errorf("it would make a run of %+v", o)
		}
	}
	if want := []owedBefore{{Run: then, Kind: core.CauseRetry, Slot: 9}}; !slices.Equal(owed, want) {
		t.Errorf("it reads %+v", owed)
	}
	for field := range reflect.TypeFor[core.PostRun]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if strings.Contains(before.Owes, `"`+name+`"`) {
			t.Errorf("owes names %q: %s", name, before.Owes)
		}
	}
	// The clear of that release names only state and owes.
	clear := r.ClearOwed()
	if clear.If|clear.Set != core.RunState|core.RunOwes {
		t.Fatalf("F4 goes by %b", clear.If|clear.Set)
	}
	check.OK(t, s.ChangeRuns(ctx, []core.RunPut{clear})[0])
	found, _, err := getRuns(ctx, s, []core.RunID{r.ID})
	check.OK(t, err)
	if is := found[r.ID]; is.OwesPostRun() != r.PostRun || is.KeepLog != r.KeepLog || len(is.Owes) > 0 {
		t.Errorf("after its F4: %+v", is)
	}
	// Functions of the release before read only the queues that they know, so post-run work has a queue of its own.
	m := ring.Message{Kind: ring.KindPostRun, Slot: 9, PostRun: &ring.PostRun{Run: r.ID, PostRun: r.PostRun}}
	check.OK(t, s.Enqueue(ctx, []ring.Out{{NotBefore: time.Now(), Message: m}})[0])
	for _, q := range []string{fakeaws.Names.Fires, fakeaws.Names.Slow, fakeaws.Names.Checks, fakeaws.Names.Dead} {
		if n := len(queues.Messages(q)); n > 0 {
			t.Errorf("%d messages on %s", n, q)
		}
	}
	if n := len(queues.Messages(fakeaws.Names.PostRun)); n != 1 {
		t.Errorf("%d messages on the postrun queue", n)
	}
}
