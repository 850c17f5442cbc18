package fakeaws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/tickring/tickring/store/dynamo"
)

// Bounds of SQS.
const (
	maxBatch   = 10
	maxMessage = 1 << 20
	maxDelay   = 900
	maxHidden  = 12 * 60 * 60
)

// SQS is an in-memory fake of SQS with the queues of dynamo. Set its fields before the first request.
type SQS struct {
	front
	// Observe is called for each message that is added to or removed from a queue, in this order. The fake holds
	// its lock during the call, so Observe must not call the fake.
	Observe func(queue string, m Message, gone bool)
	// Shuffle changes the order of the messages in a receive; if nil, the fake uses rand.Shuffle.
	Shuffle func(n int, swap func(i, j int))
	// MaxReceives is the number of receives after which a message moves to the dead-letter queue. The CDK app in
	// infra sets this number on its queues. (SQS developer guide, "Using dead-letter queues".)
	MaxReceives int

	mu     sync.Mutex
	queues map[string]*queue
	last   int64
}

var _ dynamo.SQS = (*SQS)(nil)

// Message is a message in a queue.
type Message struct {
	ID       int64
	Body     string
	Reason   string // the reason why the message is in a dead-letter queue
	Receives int
	Hidden   time.Time // the time until which no client can receive the message
}

type message struct {
	Message
	sent     time.Time
	handle   int  // of the last receipt
	inFlight bool // hidden by a receipt, not by its delay
}

type queue struct {
	list []*message
	next time.Time     // nothing is visible before it
	wake chan struct{} // closed when waiters must check again; nil without waiters
}

// shows records when a message is visible next.
func (q *queue) shows(at time.Time) {
	if at.Before(q.next) {
		q.next = at
	}
}

func (q *queue) rouse() {
	if q.wake != nil {
		close(q.wake)
		q.wake = nil
	}
}

// Messages returns the messages of a queue in the order in which they arrived.
func (q *SQS) Messages(url string) []Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []Message
	for _, m := range q.queues[url].list {
		list = append(list, m.Message)
	}
	return list
}

// Lose removes messages of a queue, in flight or not. A purge of an SQS queue has this effect.
func (q *SQS) Lose(url string, lost func(Message) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.queues[url]
	x.list = slices.DeleteFunc(x.list, func(m *message) bool { return lost(m.Message) })
}

func (q *SQS) queue(url *string) (*queue, error) {
	if x := q.queues[aws.ToString(url)]; x != nil {
		return x, nil
	}
	return nil, &types.QueueDoesNotExist{Message: aws.String("The specified queue does not exist.")}
}

func sender(code, format string, args ...any) error {
	return &smithy.GenericAPIError{Code: code, Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

// body rejects text that SQS does not accept as a message.
func body(text string) error {
	if text == "" {
		return sender("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	if len(text) > maxMessage {
		return sender("InvalidParameterValue", "One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", maxMessage)
	}
	if bad := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFD' }); bad >= 0 {
		return sender("InvalidMessageContents", "Invalid binary character at %d.", bad)
	}
	return nil
}

func delayed(seconds int32) error {
	if seconds < 0 || seconds > maxDelay {
		return sender("InvalidParameterValue", "Value %d for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
			seconds)
	}
	return nil
}

// put adds a message. Callers hold mu.
func (q *SQS) put(url string, x *queue, text, reason string, delay int32) int64 {
	q.last++
	m := &message{sent: time.Now(), Message: Message{ID: q.last, Body: text, Reason: reason,
		Hidden: time.Now().Add(time.Duration(delay) * time.Second)}}
	x.list = append(x.list, m)
	x.shows(m.Hidden)
	x.rouse()
	if q.Observe != nil {
		q.Observe(url, m.Message, false)
	}
	return m.ID
}

// SendMessage implements dynamo.SQS.
func (q *SQS) SendMessage(ctx context.Context, in *sqs.SendMessageInput, _ ...func(*sqs.Options)) (out *sqs.SendMessageOutput, err error) {
	err = q.call(ctx, Call{"SendMessage", aws.ToString(in.QueueUrl), 1, true}, func(*Fault) error {
		if err := understood(in, "QueueUrl", "MessageBody", "MessageAttributes"); err != nil {
			return err
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		x, err := q.queue(in.QueueUrl)
		if err != nil {
			return err
		}
		size := len(aws.ToString(in.MessageBody))
		reason := ""
		for name, a := range in.MessageAttributes {
			if name != "reason" || aws.ToString(a.DataType) != "String" {
				return strange("the attribute %s", name)
			}
			reason = aws.ToString(a.StringValue)
			if err := body(reason); err != nil {
				return err
			}
			size += len(name) + len("String") + len(reason)
		}
		if err := body(aws.ToString(in.MessageBody)); err != nil {
			return err
		}
		if size > maxMessage {
			return sender("InvalidParameterValue", "Message must be shorter than %d bytes.", maxMessage)
		}
		id := q.put(*in.QueueUrl, x, *in.MessageBody, reason, 0)
		out = &sqs.SendMessageOutput{MessageId: aws.String(strconv.FormatInt(id, 10))}
		return nil
	})
	return answered(out, err)
}

// batch is a request of many entries, each with its Id: do makes the entry at an index. It returns the failed entries.
// bad is the answer to a request that is wrong as a whole.
func batch[E any](ctx context.Context, q *SQS, op string, in any, bad error, url *string, entries []E, id func(*E) *string,
	do func(f *Fault, x *queue, i int) error,
) (failed []types.BatchResultErrorEntry, err error) {
	err = q.call(ctx, Call{op, aws.ToString(url), len(entries), true}, func(f *Fault) error {
		if err := cmp.Or(understood(in, "QueueUrl", "Entries"), bad); err != nil {
			return err
		}
		if len(entries) == 0 {
			return &types.EmptyBatchRequest{}
		}
		if len(entries) > maxBatch {
			return &types.TooManyEntriesInBatchRequest{}
		}
		seen := map[string]bool{}
		for i := range entries {
			name := aws.ToString(id(&entries[i]))
			if name == "" || len(name) > 80 {
				return &types.InvalidBatchEntryId{}
			}
			if seen[name] {
				return &types.BatchEntryIdsNotDistinct{}
			}
			seen[name] = true
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		x, err := q.queue(url)
		if err != nil {
			return err
		}
		for i := range entries {
			err := errors.New("internal failure")
			if f.Part == nil || !f.Part(i) {
				err = do(f, x, i)
			}
			if err != nil {
				failed = append(failed, failedEntry(id(&entries[i]), err))
			}
		}
		return nil
	})
	return failed, err
}

func failedEntry(id *string, err error) types.BatchResultErrorEntry {
	e := types.BatchResultErrorEntry{Id: id, Code: aws.String("InternalError"), Message: aws.String(err.Error())}
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Code, e.Message, e.SenderFault = aws.String(api.ErrorCode()), aws.String(api.ErrorMessage()), api.ErrorFault() == smithy.FaultClient
	}
	return e
}

// SendMessageBatch implements dynamo.SQS.
func (q *SQS) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput,
	_ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	out := &sqs.SendMessageBatchOutput{}
	var bad error
	size := 0
	for i := range in.Entries {
		bad = errors.Join(bad, understood(&in.Entries[i], "Id", "MessageBody", "DelaySeconds"))
		size += len(aws.ToString(in.Entries[i].MessageBody))
	}
	if bad == nil && size > maxMessage {
		bad = &types.BatchRequestTooLong{}
	}
	id := func(e *types.SendMessageBatchRequestEntry) *string { return e.Id }
	failed, err := batch(ctx, q, "SendMessageBatch", in, bad, in.QueueUrl, in.Entries, id, func(_ *Fault, x *queue, i int) error {
		e := &in.Entries[i]
		if err := errors.Join(body(aws.ToString(e.MessageBody)), delayed(e.DelaySeconds)); err != nil {
			return err
		}
		id := q.put(*in.QueueUrl, x, *e.MessageBody, "", e.DelaySeconds)
		out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id, MessageId: aws.String(strconv.FormatInt(id, 10))})
		return nil
	})
	out.Failed = failed
	return answered(out, err)
}

// ReceiveMessage implements dynamo.SQS.
func (q *SQS) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (out *sqs.ReceiveMessageOutput,
	err error) {
	err = q.call(ctx, Call{Op: "ReceiveMessage", On: aws.ToString(in.QueueUrl), N: int(in.MaxNumberOfMessages)}, func(f *Fault) error {
		if err := understood(in, "QueueUrl", "MaxNumberOfMessages", "WaitTimeSeconds", "VisibilityTimeout", "MessageSystemAttributeNames",
			"MessageAttributeNames"); err != nil {
			return err
		}
		if in.MaxNumberOfMessages < 1 || in.MaxNumberOfMessages > maxBatch || in.WaitTimeSeconds < 0 || in.WaitTimeSeconds > 20 ||
			in.VisibilityTimeout < 1 || in.VisibilityTimeout > maxHidden {
			return sender("InvalidParameterValue", "%d messages, wait %d s, visibility %d s", in.MaxNumberOfMessages, in.WaitTimeSeconds,
				in.VisibilityTimeout)
		}
		for _, n := range in.MessageAttributeNames {
			if n != "reason" {
				return strange("the attribute %s", n)
			}
		}
		for _, n := range in.MessageSystemAttributeNames {
			if n != types.MessageSystemAttributeNameApproximateReceiveCount && n != types.MessageSystemAttributeNameSentTimestamp {
				return strange("the system attribute %s", n)
			}
		}
		until := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
		for {
			got, next, wake, err := q.receive(in, f)
			if err != nil {
				return err
			}
			left := time.Until(until)
			if len(got) > 0 || left <= 0 {
				out = &sqs.ReceiveMessageOutput{Messages: got}
				return nil
			}
			timer := time.NewTimer(min(left, next))
			select {
			case <-timer.C:
			case <-wake:
			case <-ctx.Done():
			}
			timer.Stop()
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	})
	return answered(out, err)
}

// redrive makes a dead letter of a message, which keeps its ID and when it was sent. Callers hold mu.
func (q *SQS) redrive(url string, m *message) {
	dead := &message{sent: m.sent, Message: Message{ID: m.ID, Body: m.Body, Reason: m.Reason}}
	x := q.queues[Names.Dead]
	x.list = append(x.list, dead)
	x.shows(dead.Hidden)
	x.rouse()
	if q.Observe != nil {
		q.Observe(url, m.Message, true)
		q.Observe(Names.Dead, dead.Message, false)
	}
}

// receive takes some of the visible messages, in no order; or returns when to check again.
func (q *SQS) receive(in *sqs.ReceiveMessageInput, f *Fault) (got []types.Message, next time.Duration, wake chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, 0, nil, err
	}
	now := time.Now()
	if x.wake == nil {
		x.wake = make(chan struct{})
	}
	if x.next.After(now) {
		return nil, x.next.Sub(now), x.wake, nil
	}
	x.next = now.Add(time.Hour)
	var visible []*message
	x.list = slices.DeleteFunc(x.list, func(m *message) bool {
		if m.Hidden.After(now) {
			x.shows(m.Hidden)
			return false
		}
		if *in.QueueUrl != Names.Dead && m.Receives >= q.MaxReceives {
			q.redrive(*in.QueueUrl, m)
			return true
		}
		visible = append(visible, m)
		return false
	})
	shuffle := q.Shuffle
	if shuffle == nil {
		shuffle = rand.Shuffle
	}
	shuffle(len(visible), func(i, j int) { visible[i], visible[j] = visible[j], visible[i] })
	hide := func(m *message) {
		m.Hidden, m.inFlight = now.Add(time.Duration(in.VisibilityTimeout)*time.Second), true
		x.shows(m.Hidden)
	}
	if f.Spent != nil && len(visible) > 0 {
		left := visible[:0]
		for _, m := range visible {
			if !f.Spent(m.Message) {
				left = append(left, m)
				continue
			}
			m.Receives++
			m.handle++
			hide(m)
		}
		visible, f.Spent = left, nil
	}
	most := int(in.MaxNumberOfMessages)
	if f.Short > 0 {
		most = min(most, f.Short)
	}
	if len(visible) > most {
		x.next = now
	}
	for i, m := range visible[:min(len(visible), most)] {
		m.Receives++
		m.handle++
		if f.Again == nil || !f.Again(i) {
			hide(m)
		} else {
			x.next = now
		}
		one := types.Message{MessageId: aws.String(strconv.FormatInt(m.ID, 10)), Body: aws.String(m.Body),
			ReceiptHandle: aws.String(fmt.Sprintf("%d/%d", m.ID, m.handle)), Attributes: map[string]string{}}
		for _, n := range in.MessageSystemAttributeNames {
			if n == types.MessageSystemAttributeNameSentTimestamp {
				one.Attributes[string(n)] = strconv.FormatInt(m.sent.UnixMilli(), 10)
			} else {
				one.Attributes[string(n)] = strconv.Itoa(m.Receives)
			}
		}
		if m.Reason != "" && len(in.MessageAttributeNames) > 0 {
			one.MessageAttributes = map[string]types.MessageAttributeValue{"reason": {DataType: aws.String("String"),
				StringValue: aws.String(m.Reason)}}
		}
		got = append(got, one)
	}
	return got, max(x.next.Sub(now), time.Microsecond), x.wake, nil
}

// of finds the message of a handle: nil if it is gone, old if it was received again since.
func (x *queue) of(handle *string) (at int, m *message, old bool, err error) {
	id, n, ok := strings.Cut(aws.ToString(handle), "/")
	i, err1 := strconv.ParseInt(id, 10, 64)
	k, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil {
		return 0, nil, false, sender("ReceiptHandleIsInvalid", "The input receipt handle %q is not valid.", aws.ToString(handle))
	}
	for at, m := range x.list {
		if m.ID == i {
			return at, m, m.handle != k, nil
		}
	}
	return 0, nil, false, nil
}

// DeleteMessageBatch implements dynamo.SQS. A delete with the receipt handle of an earlier receive succeeds and
// does not delete the message.
func (q *SQS) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput,
	_ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	out := &sqs.DeleteMessageBatchOutput{}
	id := func(e *types.DeleteMessageBatchRequestEntry) *string { return e.Id }
	failed, err := batch(ctx, q, "DeleteMessageBatch", in, nil, in.QueueUrl, in.Entries, id, func(f *Fault, x *queue, i int) error {
		at, m, old, err := x.of(in.Entries[i].ReceiptHandle)
		if err != nil {
			return err
		}
		if m != nil && !old && (f.Again == nil || !f.Again(i)) {
			x.list = slices.Delete(x.list, at, at+1)
			if q.Observe != nil {
				q.Observe(*in.QueueUrl, m.Message, true)
			}
		}
		out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: in.Entries[i].Id})
		return nil
	})
	out.Failed = failed
	return answered(out, err)
}

// ChangeMessageVisibilityBatch implements dynamo.SQS.
func (q *SQS) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput,
	_ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	out := &sqs.ChangeMessageVisibilityBatchOutput{}
	id := func(e *types.ChangeMessageVisibilityBatchRequestEntry) *string { return e.Id }
	failed, err := batch(ctx, q, "ChangeMessageVisibilityBatch", in, nil, in.QueueUrl, in.Entries, id, func(_ *Fault, x *queue, i int) error {
		e, now := &in.Entries[i], time.Now()
		_, m, old, err := x.of(e.ReceiptHandle)
		switch {
		case err != nil:
			return err
		case e.VisibilityTimeout < 0 || e.VisibilityTimeout > maxHidden:
			return sender("InvalidParameterValue", "VisibilityTimeout %d", e.VisibilityTimeout)
		case m == nil || !m.inFlight || !m.Hidden.After(now):
			return sender("InvalidParameterValue", "Reason: Message does not exist or is not available for visibility timeout change.")
		case !old:
			m.Hidden = now.Add(time.Duration(e.VisibilityTimeout) * time.Second)
			x.shows(m.Hidden)
			x.rouse()
		}
		out.Successful = append(out.Successful, types.ChangeMessageVisibilityBatchResultEntry{Id: e.Id})
		return nil
	})
	out.Failed = failed
	return answered(out, err)
}

// GetQueueAttributes implements dynamo.SQS.
func (q *SQS) GetQueueAttributes(ctx context.Context, in *sqs.GetQueueAttributesInput,
	_ ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	out := &sqs.GetQueueAttributesOutput{Attributes: map[string]string{}}
	err := q.call(ctx, Call{Op: "GetQueueAttributes", On: aws.ToString(in.QueueUrl), N: 1}, func(*Fault) error {
		if err := understood(in, "QueueUrl", "AttributeNames"); err != nil {
			return err
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		x, err := q.queue(in.QueueUrl)
		if err != nil {
			return err
		}
		const visible, delayed, inFlight = types.QueueAttributeNameApproximateNumberOfMessages,
			types.QueueAttributeNameApproximateNumberOfMessagesDelayed, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible
		counts := map[types.QueueAttributeName]int{visible: 0, delayed: 0, inFlight: 0}
		for _, m := range x.list {
			switch {
			case !m.Hidden.After(time.Now()):
				counts[visible]++
			case m.inFlight:
				counts[inFlight]++
			default:
				counts[delayed]++
			}
		}
		for _, n := range in.AttributeNames {
			count, known := counts[n]
			if !known {
				return strange("the attribute %s", n)
			}
			out.Attributes[string(n)] = strconv.Itoa(count)
		}
		return nil
	})
	return answered(out, err)
}
