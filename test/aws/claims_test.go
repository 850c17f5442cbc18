package aws_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/test/load"
)

// cpu returns the CPU time of this process: the client's share, not the store's.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	check.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkClaims compares the client's cost of claims: 25 in one request, and one put each.
func BenchmarkClaims(b *testing.B) {
	db, queues := clients(b)
	names, err := load.CreateLocal(b.Context(), db, queues, "claims")
	check.OK(b, err)
	s, err := dynamo.New(db, queues, dynamo.Options{Names: names})
	check.OK(b, err)
	job := core.JobID(time.Now().Unix() & 0xffffff)
	number := uint32(0)
	claim := func() core.Run {
		number++
		now := time.Now()
		id := core.NumberedRun(job, number)
		return core.Run{ID: id, App: "shop", State: core.Running, Cause: core.CauseSchedule, Rev: now.UnixMilli(), At: core.InstantOf(now),
			Slot:  core.InstantOf(now),
			Owner: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Until: now.Add(time.Minute), Address: "http://10.0.0.1:9999/", SentAt: now, Attempt: 1, First: id,
			Journal: core.JournalKey{Minute: now.Unix() / 60, Suffix: 3, Nonce: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}}
	}
	const batch = 25
	b.Run("batch of 25", func(b *testing.B) {
		began := cpu(b)
		for range b.N {
			runs := make([]core.Run, batch)
			for i := range runs {
				runs[i] = claim()
			}
			for _, err := range s.CreateRuns(b.Context(), runs) {
				check.OK(b, err)
			}
		}
		b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N*batch), "cpu-µs/claim")
	})
	b.Run("single puts", func(b *testing.B) {
		began := cpu(b)
		for range b.N {
			for range batch {
				r := claim()
				it, err := attributevalue.MarshalMap(map[string]any{"job": int64(job), "run": int64(r.ID), "app": r.App, "state": string(r.State),
					"cause": string(r.Cause), "rev": r.Rev,
					"at": int64(r.At), "slot": int64(r.Slot), "owner": r.Owner, "until": r.Until.UnixMilli(), "address": r.Address,
					"sentAt":  r.SentAt.UnixMilli(),
					"attempt": r.Attempt, "first": int64(r.First), "journal": r.Journal.String(), "expires": time.Now().Unix()})
				check.OK(b, err)
				check.Call(b)(db.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: &names.Runs, Item: it,
					ConditionExpression:      aws.String("attribute_not_exists(#run)"),
					ExpressionAttributeNames: map[string]string{"#run": "run"}}))
			}
		}
		b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N*batch), "cpu-µs/claim")
	})
}
