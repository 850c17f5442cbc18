package fakeaws

import (
	"cmp"
	"context"
	"errors"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// Lambda is the queue of a store on AWS with a receiver. It receives messages as Lambda does, and makes the calls that the
// functions make.
type Lambda struct {
	*dynamo.Store
	sqs dynamo.SQS
	o   dynamo.Options

	mu       sync.Mutex
	last     int64
	received map[int64]receipt
}

type receipt struct{ queue, handle string }

// Receive lets the queue of a store receive messages. o are the options of the store.
func Receive(s *dynamo.Store, queues dynamo.SQS, o dynamo.Options) {
	o.Visibility = cmp.Or(o.Visibility, 25*time.Second)
	s.Store.Queue = &Lambda{Store: s, sqs: queues, o: o, received: map[int64]receipt{}}
}

// Receive moves an unreadable message to the dead-letter queue. A message in a newer format stays for a minute.
func (l *Lambda) Receive(ctx context.Context, kind ring.Kind, limit int) ([]store.Delivery, error) {
	n := &l.o.Names
	url := map[ring.Kind]string{ring.KindFires: n.Fires, ring.KindSlow: n.Slow, ring.KindCheck: n.Checks, ring.KindPostRun: n.PostRun}[kind]
	const receives = types.MessageSystemAttributeNameApproximateReceiveCount
	for ctx.Err() == nil {
		wait := 20 * time.Second
		if end, ok := ctx.Deadline(); ok {
			wait = min(wait, time.Until(end))
		}
		out, err := l.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: int32(min(limit, 10)),
			WaitTimeSeconds: int32(max(wait, 0) / time.Second), VisibilityTimeout: int32(l.o.Visibility / time.Second),
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{receives}})
		if err != nil {
			return nil, cmp.Or(ctx.Err(), err)
		}
		var list []store.Delivery
		var again []ring.Message
		for _, m := range out.Messages {
			d := store.Delivery{ID: l.take(receipt{path.Base(url), aws.ToString(m.ReceiptHandle)})}
			if d.Message, err = ring.Decode([]byte(aws.ToString(m.Body))); errors.Is(err, ring.ErrNewer) {
				l.Release(ctx, []store.Delivery{d}, time.Now().Add(time.Minute))
				continue
			} else if err != nil {
				if l.BuryRaw(ctx, aws.ToString(m.Body), err.Error()) == nil {
					l.Ack(ctx, []store.Delivery{d})
				}
				continue
			}
			d.Message.Slow = kind == ring.KindSlow
			d.Receives, _ = strconv.Atoi(m.Attributes[string(receives)])
			if list = append(list, d); d.Receives > 1 {
				again = append(again, d.Message)
			}
		}
		l.Returned(ctx, again)
		if len(list) > 0 {
			return list, nil
		}
		if wait < time.Second { // it does not wait for a part of a second
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	return nil, ctx.Err()
}

func (l *Lambda) take(r receipt) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.received[l.last] = r
	return l.last
}

// eachQueue makes one call for the deliveries of each queue that were neither acked nor released before.
func (l *Lambda) eachQueue(list []store.Delivery, call func(queue string, of []dynamo.Again) []error) []error {
	errs, receipts, index := make([]error, len(list)), map[string][]dynamo.Again{}, map[string][]int{}
	l.mu.Lock()
	for i := range list {
		r, is := l.received[list[i].ID]
		if !is {
			continue
		}
		delete(l.received, list[i].ID)
		a := dynamo.Again{Receipt: r.handle}
		if m := &list[i].Message; m.Kind == ring.KindFires {
			a.Slot = m.Slot
		}
		receipts[r.queue], index[r.queue] = append(receipts[r.queue], a), append(index[r.queue], i)
	}
	l.mu.Unlock()
	for queue, of := range receipts {
		for k, err := range call(queue, of) {
			errs[index[queue][k]] = err
		}
	}
	return errs
}

func (l *Lambda) Ack(ctx context.Context, done []store.Delivery) []error {
	return l.eachQueue(done, func(queue string, of []dynamo.Again) []error {
		handles := make([]string, len(of))
		for i := range of {
			handles[i] = of[i].Receipt
		}
		return l.Done(ctx, queue, handles)
	})
}

func (l *Lambda) Release(ctx context.Context, back []store.Delivery, at time.Time) []error {
	return l.eachQueue(back, func(queue string, of []dynamo.Again) []error {
		for i := range of {
			of[i].At = at
		}
		return l.ComeAgain(ctx, queue, of)
	})
}
