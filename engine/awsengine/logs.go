package awsengine

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/tickring/tickring/core"
)

// logItem is the end of a run's log: an item of its own, of a write unit a kilobyte.
type logItem struct {
	Of      string `dynamodbav:"of"`
	Key     string `dynamodbav:"key"`
	At      int64  `dynamodbav:"at"`
	Text    []byte `dynamodbav:"text,omitempty"`
	From    int    `dynamodbav:"from,omitempty"`
	Cut     int64  `dynamodbav:"cut,omitempty"`
	More    bool   `dynamodbav:"more,omitempty"`
	Why     string `dynamodbav:"why,omitempty"`
	Expires int64  `dynamodbav:"expires,omitempty"`
}

func logsOf(run core.RunID) string { return "log#" + run.Job().String() }

// chainLasts is the additional time for which the log of an attempt stays if another attempt follows: the run itself stays
// until the retry chain ends.
const chainLasts = 31 * 24 * time.Hour

func (s *Store) PutLog(ctx context.Context, run *core.Run, k core.KeptLog) error {
	v := logItem{Of: logsOf(run.ID), Key: run.ID.String(), At: millis(k.At), Text: k.Text, From: k.From, Cut: k.Cut, More: k.More, Why: k.Why,
		Expires: s.expiry(ctx, run.ID.Job())}
	if v.Expires > 0 && run.Then != 0 {
		v.Expires += int64(chainLasts / time.Second)
	}
	it, err := attributevalue.MarshalMap(v)
	if err != nil {
		return err
	}
	if len(k.Text) > 0 {
		return s.putIf(ctx, it, nil)
	}
	return s.putIf(ctx, it, none("key"))
}

func (s *Store) KeptLog(ctx context.Context, run core.RunID) (core.KeptLog, bool, error) {
	it, err := s.one(ctx, stateKey(logsOf(run), run.String()))
	if err != nil || it == nil {
		return core.KeptLog{}, false, err
	}
	var v logItem
	if err := attributevalue.UnmarshalMap(it, &v); err != nil {
		return core.KeptLog{}, false, err
	}
	return core.KeptLog{Run: run, At: fromMillis(v.At), Text: v.Text, From: v.From, Cut: v.Cut, More: v.More, Why: v.Why}, true, nil
}
