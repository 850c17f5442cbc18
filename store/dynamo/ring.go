package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// Bounds of SQS.
const (
	entriesPerBatch = 10
	bytesPerBatch   = 256 << 10 // a request is charged for each 64 KB: more in one would not be cheaper
	maxDelay        = 900 * time.Second
	maxVisibility   = 12 * time.Hour
)

func (s *Store) queueOf(k ring.Kind) (string, error) {
	n := &s.o.Names
	q := map[ring.Kind]string{ring.KindFires: n.Fires, ring.KindSlow: n.Slow, ring.KindCheck: n.Checks, ring.KindPostRun: n.PostRun}[k]
	if q == "" {
		return "", core.Errorf(core.CodeInvalid, "the delay queue has no messages of the kind %q", k)
	}
	return q, nil
}

// delay returns how long SQS must hold a message, in whole seconds, rounded down: dispatch holds a message that is
// slightly early, but cannot help a late one. SQS holds a message for at most 900 s; dispatch then requeues it.
func delay(notBefore, now time.Time) int32 {
	d := min(max(notBefore.Sub(now), 0), maxDelay)
	return int32(d / time.Second)
}

func (s *Store) Enqueue(ctx context.Context, out []ring.Out) []error {
	errs, queues, bodies := make([]error, len(out)), make([]string, len(out)), make([]string, len(out))
	now := s.o.Now()
	var batches [][]int
	last, size := map[string]int{}, map[string]int{} // last batch of a queue, and its bytes
	behind := map[core.Instant]time.Time{}
	for i := range out {
		q, err := s.queueOf(out[i].Message.Queue())
		if err != nil {
			errs[i] = err
			continue
		}
		body := ring.Encode(out[i].Message)
		if len(body) > ring.MaxBytes {
			errs[i] = core.Errorf(core.CodeTooLarge, "a message of %d bytes; at most %d are allowed", len(body), ring.MaxBytes)
			continue
		}
		if b, is := last[q]; !is || len(batches[b]) == entriesPerBatch || size[q]+len(body) > bytesPerBatch {
			last[q], size[q], batches = len(batches), 0, append(batches, nil)
		}
		b := last[q]
		batches[b], size[q] = append(batches[b], i), size[q]+len(body)
		queues[i], bodies[i] = q, string(body)
		if m := &out[i].Message; m.Kind == ring.KindFires && m.Slot.Time().Add(ring.PutBackAfter).Before(now) &&
			out[i].NotBefore.After(behind[m.Slot]) {
			behind[m.Slot] = out[i].NotBefore
		}
	}
	s.noteBehind(ctx, behind)
	s.entries(ctx, queues, batches, errs, func(queue *string, of []int) ([]sqstypes.BatchResultErrorEntry, error) {
		in := &sqs.SendMessageBatchInput{QueueUrl: queue}
		for _, i := range of {
			in.Entries = append(in.Entries, sqstypes.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &bodies[i],
				DelaySeconds: delay(out[i].NotBefore, s.o.Now())})
		}
		answered, err := s.sqs.SendMessageBatch(ctx, in)
		if err != nil {
			return nil, err
		}
		if len(answered.Successful)+len(answered.Failed) < len(of) { // sending twice is harmless, not sending loses a message
			return nil, errors.New("the queue did not confirm a message")
		}
		return answered.Failed, nil
	})
	return errs
}

func (s *Store) Bury(ctx context.Context, m ring.Message, reason string) error {
	return s.BuryRaw(ctx, string(ring.Encode(m)), reason)
}

// reasonAttribute is the message attribute with the reason of a dead-letter message.
const reasonAttribute = "reason"

// Limits of a dead-letter message: SQS counts its reason with it.
const (
	maxReason = 1000
	maxDead   = 1<<20 - 2*maxReason
)

// BuryRaw moves an unreadable message to the dead-letter queue, truncated if there is no room for its reason.
func (s *Store) BuryRaw(ctx context.Context, body, reason string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	if len(body) > maxDead {
		body = strings.ToValidUTF8(body[:maxDead], "")
	}
	_, err := s.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &s.o.Names.Dead, MessageBody: &body,
		MessageAttributes: map[string]sqstypes.MessageAttributeValue{reasonAttribute: {DataType: aws.String("String"),
			StringValue: aws.String(printable(reason))}}})
	return items.Answer("queue "+s.o.Names.Dead, err)
}

// movedByQueue is the reason of a dead-letter message that its queue moved.
const movedByQueue = "the message was received the maximum number of times and never acknowledged"

// TakeLetters receives up to ten messages of the dead-letter queue and returns how many. It stores each, passes it to
// record and then deletes it from the queue. A message that was not recorded is delivered again and delays no other.
func (s *Store) TakeLetters(ctx context.Context, record func(context.Context, *core.Letter) error) (n int, err error) {
	out, err := s.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &s.o.Names.Dead, MaxNumberOfMessages: entriesPerBatch,
		VisibilityTimeout: int32(s.o.Visibility / time.Second), MessageAttributeNames: []string{reasonAttribute},
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp}})
	if err != nil {
		return 0, items.Answer("queue "+s.o.Names.Dead, err)
	}
	errs := make([]error, len(out.Messages))
	store.AtOnce(len(errs), func(i int) { errs[i] = s.takeLetter(ctx, &out.Messages[i], record) })
	return len(out.Messages), errors.Join(errs...)
}

func (s *Store) takeLetter(ctx context.Context, m *sqstypes.Message, record func(context.Context, *core.Letter) error) error {
	ms, _ := strconv.ParseInt(m.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	at := time.UnixMilli(ms).UTC()
	l := core.Letter{ID: store.LetterID(at, aws.ToString(m.MessageId)), At: at,
		Reason: cmp.Or(aws.ToString(m.MessageAttributes[reasonAttribute].StringValue), movedByQueue), Body: aws.ToString(m.Body)}
	if err := s.KeepLetter(ctx, l); err != nil {
		return err
	}
	if err := record(ctx, &l); err != nil {
		return fmt.Errorf("record the dead letter %s: %w", l.ID, err)
	}
	return s.remove(ctx, s.o.Names.Dead, []string{aws.ToString(m.ReceiptHandle)})[0]
}

// printable replaces characters that SQS does not accept in an attribute.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFD' {
			return '?'
		}
		return r
	}, text)
}

// Again describes when to redeliver a message that Lambda received.
type Again struct {
	Receipt string
	At      time.Time
	Slot    core.Instant // due time of its runs; 0: it has none
}

// ComeAgain makes messages that Lambda received visible again at the given time, without an ack. queue is the end of a queue's
// URL, as events name it.
func (s *Store) ComeAgain(ctx context.Context, queue string, list []Again) []error {
	slots := map[core.Instant]time.Time{}
	for _, a := range list { // others are recorded when they are received again
		if a.Slot > 0 && a.At.After(s.o.Now().Add(s.o.Visibility)) && a.At.After(a.Slot.Time().Add(ring.PutBackAfter)) &&
			a.At.After(slots[a.Slot]) {
			slots[a.Slot] = a.At
		}
	}
	s.noteBehind(ctx, slots)
	url, err := s.named(queue)
	if err != nil {
		return slices.Repeat([]error{err}, len(list))
	}
	return s.eachHandle(ctx, url, len(list), func(queue *string, of []int) ([]sqstypes.BatchResultErrorEntry, error) {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: queue}
		for _, k := range of {
			d := min(max(list[k].At.Sub(s.o.Now()), 0), maxVisibility) + time.Second - 1 // rounded up: before its time a message has no work
			in.Entries = append(in.Entries, sqstypes.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(k)),
				ReceiptHandle: &list[k].Receipt, VisibilityTimeout: int32(d / time.Second)})
		}
		out, err := s.sqs.ChangeMessageVisibilityBatch(ctx, in)
		if err != nil {
			return nil, err
		}
		return out.Failed, nil
	})
}

// Done removes messages that Lambda received and does not ack, because the batch as a whole is reported as failed.
func (s *Store) Done(ctx context.Context, queue string, receipts []string) []error {
	url, err := s.named(queue)
	if err != nil {
		return slices.Repeat([]error{err}, len(receipts))
	}
	return s.remove(ctx, url, receipts)
}

// named returns the URL of the queue with the given name.
func (s *Store) named(queue string) (string, error) {
	urls := []string{s.o.Names.Fires, s.o.Names.Slow, s.o.Names.Checks, s.o.Names.PostRun}
	i := slices.IndexFunc(urls, func(url string) bool { return path.Base(url) == queue })
	if i < 0 {
		return "", fmt.Errorf("no queue of this deployment is named %q", queue)
	}
	return urls[i], nil
}

func (s *Store) remove(ctx context.Context, queue string, handles []string) []error {
	return s.eachHandle(ctx, queue, len(handles), func(queue *string, of []int) ([]sqstypes.BatchResultErrorEntry, error) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: queue}
		for _, k := range of {
			in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(k)), ReceiptHandle: &handles[k]})
		}
		out, err := s.sqs.DeleteMessageBatch(ctx, in)
		if err != nil {
			return nil, err
		}
		return out.Failed, nil
	})
}

// eachHandle calls send for parts of n messages of a queue.
func (s *Store) eachHandle(ctx context.Context, queue string, n int,
	send func(queue *string, of []int) ([]sqstypes.BatchResultErrorEntry, error)) []error {
	errs, all := make([]error, n), make([]int, n)
	for i := range all {
		all[i] = i
	}
	s.entries(ctx, slices.Repeat([]string{queue}, n), slices.Collect(slices.Chunk(all, entriesPerBatch)), errs, send)
	return errs
}

// entries sends entries to their queues, and repeats an entry that failed through no fault of its own. send gets the indices
// to send to a queue, which are also the names of the entries, and returns the rejected entries.
func (s *Store) entries(ctx context.Context, queues []string, batches [][]int, errs []error,
	send func(queue *string, of []int) ([]sqstypes.BatchResultErrorEntry, error)) {
	s.db.Batches(ctx, batches, errs, func(batch []int) (left []int) {
		what := "queue " + queues[batch[0]]
		failed, err := send(&queues[batch[0]], batch)
		items.Fill(errs, batch, items.Answer(what, err))
		for k := range failed {
			f := &failed[k]
			i, err := strconv.Atoi(aws.ToString(f.Id))
			if err != nil || i < 0 || i >= len(errs) {
				continue
			}
			code, message := aws.ToString(f.Code), aws.ToString(f.Message)
			errs[i] = items.Outcome(what, code, message, fmt.Errorf("%s: %s", code, message))
			if !f.SenderFault || errors.Is(errs[i], core.ErrThrottled) {
				left = append(left, i)
			}
		}
		return left
	})
}

// Depth implements store.Queue; SQS counts approximately.
func (s *Store) Depth(ctx context.Context, kind ring.Kind) (due, waiting, inFlight int, err error) {
	q, err := s.queueOf(kind)
	if err != nil {
		return 0, 0, 0, err
	}
	names := []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameApproximateNumberOfMessages,
		sqstypes.QueueAttributeNameApproximateNumberOfMessagesDelayed, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible}
	out, err := s.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &q, AttributeNames: names})
	if err != nil {
		return 0, 0, 0, items.Answer("queue "+q, err)
	}
	for i, n := range []*int{&due, &waiting, &inFlight} {
		if *n, err = strconv.Atoi(out.Attributes[string(names[i])]); err != nil {
			return 0, 0, 0, fmt.Errorf("queue %s counts %q %s", q, out.Attributes[string(names[i])], names[i])
		}
	}
	return due, waiting, inFlight, nil
}

// behindOf lists the due times of runs that were requeued or received again, by the time until which they may be on the
// delay queue. Oldest skips records that are over.
const behindOf = "behind"

// behindFrom returns the start of the keys of records that end at until or up to five minutes earlier. So a due time has
// few records, however often it is requeued.
func behindFrom(until time.Time) string { return fmt.Sprintf("%010d#", until.Unix()/300) }

// noteBehind records the due times of requeued messages until they are delivered again. If it cannot store a record, only
// the age of the delay queue is less exact. The later of two records of a due time stays.
func (s *Store) noteBehind(ctx context.Context, slots map[core.Instant]time.Time) {
	var groups []store.Group
	for slot, at := range slots {
		if now := s.o.Now(); at.Before(now) {
			at = now
		}
		until := at.Add(2 * s.o.Visibility)
		note := store.Record{Key: store.Key{Kind: behindOf, Name: behindFrom(until) + fmt.Sprintf("%010d", slot)}, V: core.Millis(until),
			Expires: until.Add(keepBehind)}
		groups = append(groups, store.Group{Writes: []store.Write{{Record: note, Was: store.Lower}}})
	}
	_ = s.Write(ctx, groups...)
}

// Returned records messages that were received before: their receiver died or released them for a short time. Until they
// are done, they may be delivered again and again.
func (s *Store) Returned(ctx context.Context, list []ring.Message) {
	now := s.o.Now()
	slots := map[core.Instant]time.Time{}
	for i := range list {
		if m := &list[i]; m.Kind == ring.KindFires && m.Slot.Time().Add(ring.PutBackAfter).Before(now) {
			slots[m.Slot] = now
		}
	}
	s.noteBehind(ctx, slots)
}

// keepBehind is how long the record of a requeued message survives while no process receives.
const keepBehind = 24 * time.Hour

// uncounted is the longest delay after which SQS counts a change.
const uncounted = time.Minute

// longestKept is the maximum time that SQS keeps a message.
const longestKept = 14 * 24 * time.Hour

// hung is how long a message may be in flight before later messages are compared without it. Otherwise a message that is
// always in flight would stop the comparison. Messages that are received again are recorded until then.
func (s *Store) hung() time.Duration { return max(4*time.Minute, 2*s.o.Visibility+uncounted) }

// Oldest implements store.Queue. SQS does not report the age of messages, so the
// result is a safe bound. Back has the due times of requeued or redelivered messages that may still be in the queue. Due is
// set while messages are due or in flight: it is the last time at which there were none. Even if no message is due, a
// message in flight may be older than all others, because its receivers keep dying.
func (s *Store) Oldest(ctx context.Context) (oldest ring.Oldest, err error) {
	now := s.o.Now()
	due, inFlight := 0, 0
	for _, kind := range []ring.Kind{ring.KindFires, ring.KindSlow} {
		d, _, flying, err := s.Depth(ctx, kind)
		if err != nil {
			return ring.Oldest{}, err
		}
		due, inFlight = due+d, inFlight+flying
	}
	clear, from := due+inFlight == 0, now
	if !clear {
		if from, err = s.wasClear(ctx, now, due == 0); err != nil {
			return ring.Oldest{}, err
		}
		oldest.Due = from
	}
	noted, err := s.List(ctx, behindOf, behindFrom(from), "", math.MaxInt32)
	if err != nil {
		return ring.Oldest{}, err
	}
	for i := range noted {
		if core.FromMillis(noted[i].V).Before(from) {
			continue
		}
		_, key, _ := strings.Cut(noted[i].Name, "#")
		slot, err := strconv.ParseInt(key, 10, 64)
		if err = cmp.Or(err, noted[i].Err); err != nil {
			return ring.Oldest{}, err
		}
		oldest.Back = append(oldest.Back, core.Instant(slot))
	}
	oldest.Sort()
	if clear {
		err = s.noteClear(ctx, now.Add(-uncounted), now)
	}
	return oldest, err
}

// clearKey identifies the record of when no message was seen to be due (its version), and of a time before which no message on
// the delay queue was due.
var clearKey = store.Key{Kind: "ring", Name: "clear"}

func (s *Store) noteClear(ctx context.Context, at, idle time.Time) error {
	body := strconv.AppendInt(nil, core.Millis(at), 10)
	return s.Store.Write(ctx, store.Write{Record: store.Record{Key: clearKey, V: core.Millis(idle), Body: body}, Was: store.Any})
}

// wasClear returns a time before which no message that is still on the delay queue was due. If none is due (idle), and
// none was due a while ago, all messages due before that were received by then, and are done or recorded.
func (s *Store) wasClear(ctx context.Context, now time.Time, idle bool) (time.Time, error) {
	r, err := s.Read(ctx, clearKey)
	if err != nil {
		return time.Time{}, err
	}
	at, seen := now.Add(-longestKept), now
	if r.V != 0 {
		ms, err := strconv.ParseInt(string(r.Body), 10, 64)
		if err != nil {
			return time.Time{}, err
		}
		at, seen = core.FromMillis(ms), core.FromMillis(r.V)
	}
	switch {
	case !idle || seen.Before(now) && now.Sub(seen) < s.hung():
		return at, nil
	case seen.Before(now):
		if before := seen.Add(-uncounted); before.After(at) {
			at = before
		}
	}
	return at, s.noteClear(ctx, at, now)
}
