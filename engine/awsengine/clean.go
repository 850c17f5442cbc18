package awsengine

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
)

// DropRuns implements operate.Store. It deletes the run first, then its long texts and its log without a condition.
func (s *Store) DropRuns(ctx context.Context, runs []core.Run) []error {
	errs := make([]error, len(runs))
	s.parallel(len(runs), func(i int) {
		if errs[i] = ctx.Err(); errs[i] != nil {
			return
		}
		r := &runs[i]
		if r.State.Open() || r.Owing() {
			errs[i] = core.ErrRefused
			return
		}
		// Delete it only if it is unchanged: a new follow-up comes with another state or place.
		e := none("run")
		e.conds = []string{e.conds[0] + " OR (" + e.name("state") + " = " + e.value("state", text(string(r.State))) +
			" AND attribute_not_exists(" + e.name("owes") + ") AND attribute_not_exists(" + e.name("postrun") + ") AND " + placeIs(e, r.Place) + ")"}
		_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.o.Names.Runs, Key: runKey(r.ID),
			ConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values})
		if errs[i] = answer("table "+s.o.Names.Runs, err); errs[i] != nil {
			return
		}
		_, err = s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.o.Names.Runs, Key: restKey(r.ID)})
		_, err2 := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.o.Names.State, Key: recordKey(engine.LogKey(r.ID))})
		errs[i] = errors.Join(answer("table "+s.o.Names.Runs, err), answer("table "+s.o.Names.State, err2))
	})
	return errs
}

func placeIs(e *expr, place int64) string {
	if place == 0 {
		return "attribute_not_exists(" + e.name("place") + ")"
	}
	return e.name("place") + " = " + e.value("place", number(place))
}
