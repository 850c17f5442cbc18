package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Bounds of SQS.
const (
	entriesPerBatch = 10
	bytesPerBatch   = 256 << 10 // a request is charged for each 64 KB: more in one would not be cheaper
	maxDelay        = 900 * time.Second
	maxVisibility   = 12 * time.Hour
	longPoll        = 20 * time.Second
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
	errs := make([]error, len(out))
	now := s.o.Now()
	type entry struct {
		i    int
		body string
	}
	type batch struct {
		queue   string
		entries []entry
		size    int
	}
	var batches []*batch
	last := map[string]*batch{} // by queue
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
		b := last[q]
		if b == nil || len(b.entries) == entriesPerBatch || b.size+len(body) > bytesPerBatch {
			b = &batch{queue: q}
			last[q], batches = b, append(batches, b)
		}
		b.entries, b.size = append(b.entries, entry{i, string(body)}), b.size+len(body)
		if m := &out[i].Message; m.Kind == ring.KindFires && m.Slot.Time().Add(ring.PutBackAfter).Before(now) &&
			out[i].NotBefore.After(behind[m.Slot]) {
			behind[m.Slot] = out[i].NotBefore
		}
	}
	s.noteBehind(ctx, behind)
	store.AtOnce(len(batches), func(k int) {
		b := batches[k]
		for n, err := range s.entries(ctx, b.queue, len(b.entries), func(of []int) ([]sqstypes.BatchResultErrorEntry, error) {
			in := &sqs.SendMessageBatchInput{QueueUrl: &b.queue}
			for _, n := range of {
				e := &b.entries[n]
				in.Entries = append(in.Entries, sqstypes.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(n)), MessageBody: &e.body,
					DelaySeconds: delay(out[e.i].NotBefore, s.o.Now())})
			}
			answered, err := s.sqs.SendMessageBatch(ctx, in)
			if err != nil {
				return nil, err
			}
			return append(answered.Failed, unanswered(in.Entries, answered)...), nil
		}) {
			errs[b.entries[n].i] = err
		}
	})
	return errs
}

// unanswered returns the entries that an answer omits. They count as rejected: sending a message twice is harmless, and
// not sending it loses it.
func unanswered(entries []sqstypes.SendMessageBatchRequestEntry, answered *sqs.SendMessageBatchOutput) []sqstypes.BatchResultErrorEntry {
	named := map[string]bool{}
	for _, e := range answered.Successful {
		named[aws.ToString(e.Id)] = true
	}
	for _, e := range answered.Failed {
		named[aws.ToString(e.Id)] = true
	}
	var list []sqstypes.BatchResultErrorEntry
	for _, e := range entries {
		if !named[aws.ToString(e.Id)] {
			list = append(list, sqstypes.BatchResultErrorEntry{Id: e.Id, Code: aws.String("NoAnswer"),
				Message: aws.String("the queue did not confirm a message")})
		}
	}
	return list
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
	return answer("queue "+s.o.Names.Dead, err)
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
		return 0, answer("queue "+s.o.Names.Dead, err)
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

// receipts holds the handles of messages that this process received and neither acked nor released.
type receipts struct {
	mu   sync.Mutex
	last int64
	of   map[int64]receipt
	swep time.Time
}

type receipt struct {
	kind   ring.Kind
	handle string
	until  time.Time
}

func (r *receipts) put(x receipt, now time.Time) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swep) > time.Minute { // receipts that were neither acked nor released
		for id, old := range r.of {
			if old.until.Before(now) {
				delete(r.of, id)
			}
		}
		r.swep = now
	}
	r.last++
	r.of[r.last] = x
	return r.last
}

func (r *receipts) take(id int64) (receipt, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok := r.of[id]
	delete(r.of, id)
	return x, ok
}

// Receive implements store.Queue, for dispatch outside Lambda. SQS returns at most ten messages, in no order. An
// unreadable message moves to the dead-letter queue; a message in a newer format stays.
func (s *Store) Receive(ctx context.Context, kind ring.Kind, limit int) ([]store.Delivery, error) {
	q, err := s.queueOf(kind)
	if err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		wait := longPoll
		if end, ok := ctx.Deadline(); ok {
			wait = min(wait, time.Until(end))
		}
		out, err := s.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &q, MaxNumberOfMessages: int32(min(limit, entriesPerBatch)),
			WaitTimeSeconds: int32(max(wait, 0) / time.Second), VisibilityTimeout: int32(s.o.Visibility / time.Second),
			MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameApproximateReceiveCount}})
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, answer("queue "+q, err)
		}
		var list []store.Delivery
		var again []ring.Message
		for _, m := range out.Messages {
			body := aws.ToString(m.Body)
			id := s.receipts.put(receipt{kind, aws.ToString(m.ReceiptHandle), s.o.Now().Add(2 * s.o.Visibility)}, s.o.Now())
			msg, err := ring.Decode([]byte(body))
			msg.Slow = kind == ring.KindSlow
			if err == nil && msg.Queue() != kind {
				err = fmt.Errorf("a message of the kind %q on the queue of %q", msg.Kind, kind)
			}
			switch {
			case errors.Is(err, ring.ErrNewer):
				s.Release(ctx, []store.Delivery{{ID: id}}, s.o.Now().Add(time.Minute))
			case err != nil:
				if s.BuryRaw(ctx, body, err.Error()) == nil {
					s.Ack(ctx, []store.Delivery{{ID: id}})
				}
			default:
				n, _ := strconv.Atoi(m.Attributes[string(sqstypes.MessageSystemAttributeNameApproximateReceiveCount)])
				list = append(list, store.Delivery{ID: id, Receives: max(n, 1), Message: msg})
				if n > 1 {
					again = append(again, msg)
				}
			}
		}
		s.Returned(ctx, again)
		if len(list) > 0 {
			return list, nil
		}
		if wait < time.Second && !pause(ctx, shortPoll) {
			return nil, ctx.Err()
		}
	}
}

// shortPoll is how often a queue is asked when there is less time left than the
// whole second that it can wait.
const shortPoll = 200 * time.Millisecond

// pause waits; false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// eachQueue groups the receipts of deliveries by queue, and makes one call for each queue.
func (s *Store) eachQueue(ctx context.Context, list []store.Delivery, tell func(queue string, handles []string) []error) []error {
	errs := make([]error, len(list))
	handles, queues := map[string][]string{}, map[string][]int{}
	for i := range list {
		x, ok := s.receipts.take(list[i].ID)
		if !ok {
			continue // acked or released before, or long visible again: there is nothing to do
		}
		q, err := s.queueOf(x.kind)
		if err != nil {
			errs[i] = err
			continue
		}
		handles[q], queues[q] = append(handles[q], x.handle), append(queues[q], i)
	}
	for q, of := range queues {
		for k, err := range tell(q, handles[q]) {
			errs[of[k]] = err
		}
	}
	return errs
}

func (s *Store) Ack(ctx context.Context, done []store.Delivery) []error {
	return s.eachQueue(ctx, done, func(q string, handles []string) []error { return s.remove(ctx, q, handles) })
}

func (s *Store) Release(ctx context.Context, back []store.Delivery, at time.Time) []error {
	slots := map[core.Instant]time.Time{}
	for i := range back {
		if back[i].Message.Kind != ring.KindPostRun {
			s.willWait(slots, back[i].Message.Slot, at)
		}
	}
	s.noteBehind(ctx, slots)
	return s.eachQueue(ctx, back, func(q string, handles []string) []error {
		return s.hide(ctx, q, handles, func(int) time.Time { return at })
	})
}

// Again describes when to redeliver a message that Lambda received.
type Again struct {
	Receipt string
	At      time.Time
	Slot    core.Instant // due time of its runs; 0: it has none
}

// ComeAgain is Release for messages that Lambda received and must not ack. queue is the end of a queue's URL, as events
// name it.
func (s *Store) ComeAgain(ctx context.Context, queue string, list []Again) []error {
	slots := map[core.Instant]time.Time{}
	for i := range list {
		s.willWait(slots, list[i].Slot, list[i].At)
	}
	s.noteBehind(ctx, slots)
	url, err := s.named(queue)
	if err != nil {
		return slices.Repeat([]error{err}, len(list))
	}
	receipts := make([]string, len(list))
	for i := range list {
		receipts[i] = list[i].Receipt
	}
	return s.hide(ctx, url, receipts, func(k int) time.Time { return list[k].At })
}

// Done removes messages that Lambda received and does not ack, because the batch as a whole is reported as failed.
func (s *Store) Done(ctx context.Context, queue string, receipts []string) []error {
	url, err := s.named(queue)
	if err != nil {
		return slices.Repeat([]error{err}, len(receipts))
	}
	return s.remove(ctx, url, receipts)
}

// named is the URL of a queue that is named by the end of it.
func (s *Store) named(queue string) (string, error) {
	urls := []string{s.o.Names.Fires, s.o.Names.Slow, s.o.Names.Checks, s.o.Names.PostRun}
	i := slices.IndexFunc(urls, func(url string) bool { return path.Base(url) == queue })
	if i < 0 {
		return "", fmt.Errorf("no queue of this deployment is named %q", queue)
	}
	return urls[i], nil
}

func (s *Store) remove(ctx context.Context, queue string, handles []string) []error {
	return s.entries(ctx, queue, len(handles), func(of []int) ([]sqstypes.BatchResultErrorEntry, error) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &queue}
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

// hide delays the redelivery of messages by whole seconds, rounded up: before its time a message has no work.
func (s *Store) hide(ctx context.Context, queue string, handles []string, at func(k int) time.Time) []error {
	return s.entries(ctx, queue, len(handles), func(of []int) ([]sqstypes.BatchResultErrorEntry, error) {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &queue}
		for _, k := range of {
			d := min(max(at(k).Sub(s.o.Now()), 0), maxVisibility)
			in.Entries = append(in.Entries, sqstypes.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(k)),
				ReceiptHandle:     &handles[k],
				VisibilityTimeout: int32((d + time.Second - 1) / time.Second)})
		}
		out, err := s.sqs.ChangeMessageVisibilityBatch(ctx, in)
		if err != nil {
			return nil, err
		}
		return out.Failed, nil
	})
}

// Depth implements store.Queue; SQS counts approximately.
func (s *Store) Depth(ctx context.Context, kind ring.Kind) (due, waiting, inFlight int, err error) {
	q, err := s.queueOf(kind)
	if err != nil {
		return 0, 0, 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, 0, err
	}
	out, err := s.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &q, AttributeNames: []sqstypes.QueueAttributeName{
		sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameApproximateNumberOfMessagesDelayed,
		sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible}})
	if err != nil {
		return 0, 0, 0, answer("queue "+q, err)
	}
	for name, into := range map[sqstypes.QueueAttributeName]*int{
		sqstypes.QueueAttributeNameApproximateNumberOfMessages: &due, sqstypes.QueueAttributeNameApproximateNumberOfMessagesDelayed: &waiting,
		sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible: &inFlight,
	} {
		n, err := strconv.Atoi(out.Attributes[string(name)])
		if err != nil {
			return 0, 0, 0, fmt.Errorf("queue %s counts %q %s", q, out.Attributes[string(name)], name)
		}
		*into = n
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
	list := slices.Collect(maps.Keys(slots))
	store.AtOnce(len(list), func(i int) {
		slot, at := list[i], slots[list[i]]
		if now := s.o.Now(); at.Before(now) {
			at = now
		}
		until := at.Add(2 * s.o.Visibility)
		it := stateKey(behindOf, behindFrom(until)+fmt.Sprintf("%010d", slot))
		it["until"], it["expires"] = number(millis(until)), number(until.Add(keepBehind).Unix())
		_ = s.putIf(ctx, it, noneOr("until", "<", it["until"]))
	})
}

// willWait adds a message to slots if it is requeued for longer than its visibility. Other messages are recorded when they
// are received again.
func (s *Store) willWait(slots map[core.Instant]time.Time, slot core.Instant, at time.Time) {
	if slot > 0 && at.After(s.o.Now().Add(s.o.Visibility)) && at.After(slot.Time().Add(ring.PutBackAfter)) && at.After(slots[slot]) {
		slots[slot] = at
	}
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
	due, _, inFlight, err := s.Depth(ctx, ring.KindFires)
	if err != nil {
		return ring.Oldest{}, err
	}
	slowDue, _, slowInFlight, err := s.Depth(ctx, ring.KindSlow)
	if err != nil {
		return ring.Oldest{}, err
	}
	due, inFlight = due+slowDue, inFlight+slowInFlight
	clear, from := due+inFlight == 0, now
	if !clear {
		if from, err = s.wasClear(ctx, now, due == 0); err != nil {
			return ring.Oldest{}, err
		}
		oldest.Due = from
	}
	noted := equal("of", text(behindOf))
	noted.test("key", ">=", text(behindFrom(from)))
	err = s.query(ctx, noted.query(s.o.Names.State), func(it item) (bool, error) {
		until, err := intOf(it, "until")
		if err != nil || fromMillis(until).Before(from) {
			return true, err
		}
		_, key, _ := strings.Cut(stringOf(it, "key"), "#")
		slot, err := strconv.ParseInt(key, 10, 64)
		oldest.Back = append(oldest.Back, core.Instant(slot))
		return true, err
	})
	if err != nil {
		return ring.Oldest{}, err
	}
	oldest.Sort()
	if clear {
		err = s.noteClear(ctx, now.Add(-uncounted), now)
	}
	return oldest, err
}

// noteClear records that no message on the delay queue was due before a time, and when no message was seen to be due.
func (s *Store) noteClear(ctx context.Context, at, idle time.Time) error {
	it := stateKey("ring", "clear")
	it["at"], it["idle"] = number(millis(at)), number(millis(idle))
	return s.putIf(ctx, it, nil)
}

// wasClear returns a time before which no message that is still on the delay queue was due. If none is due (idle), and
// none was due a while ago, all messages due before that were received by then, and are done or recorded.
func (s *Store) wasClear(ctx context.Context, now time.Time, idle bool) (time.Time, error) {
	it, err := s.one(ctx, stateKey("ring", "clear"))
	if err != nil {
		return time.Time{}, err
	}
	at, seen := now.Add(-longestKept), now
	if it != nil {
		ms, err := intOf(it, "at")
		if err != nil {
			return time.Time{}, err
		}
		at = fromMillis(ms)
		if _, ok := it["idle"]; ok {
			if ms, err = intOf(it, "idle"); err != nil {
				return time.Time{}, err
			}
			seen = fromMillis(ms)
		}
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
