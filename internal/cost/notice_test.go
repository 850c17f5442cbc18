package cost

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store/dynamo"
)

const channelTakes = 200 * time.Millisecond

// hearing is a channel that accepts messages, and an executor whose job fails while fails is set.
type hearing struct {
	*deployment
	fails atomic.Bool
	told  atomic.Int64
}

func (h *hearing) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	a := dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200, Took: executorTakes}
	if time.Sleep(executorTakes); h.fails.Load() {
		a.State, a.Code = core.Failed, 500
	}
	return a
}

func (h *hearing) Takes(context.Context, core.Channel) error { return nil }

func (h *hearing) Test(context.Context, core.Channel) error { return nil }

// channel receives notifications.
type channel struct{ *hearing }

func (c channel) Send(context.Context, core.Channel, core.Message) error {
	time.Sleep(channelTakes)
	c.told.Add(1)
	return nil
}

// Log returns nothing: a failing run has no log.
func (h *hearing) Log(context.Context, *core.App, *core.Run, int) (string, int, bool, error) {
	return "", 1, true, nil
}

// noticed measures two runs: the first fails, and the one an hour later succeeds. It includes their notifications to who,
// and everything that follows until a day later.
func noticed(t *testing.T, who core.Notify) (m measured, n int64) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		ctx, stop := context.WithCancel(t.Context())
		db, q := fakeaws.New(t.Errorf)
		db.Faults = func(context.Context, fakeaws.Call) fakeaws.Fault { return fakeaws.Fault{Wait: storeTakes} }
		s, err := dynamo.New(db, q, dynamo.Options{Names: fakeaws.Names})
		check.OK(t, err)
		h := &hearing{deployment: &deployment{t: t, e: s.Store, db: db, q: q, of: map[string]*invoked{}}}
		h.a = wiring.New(h.e, wiring.Options{Plan: plan.AWS(), Log: slog.New(slog.DiscardHandler)})
		h.fires = h.a.Dispatcher(h, dispatch.Options{})
		told := h.a.Notices(channel{h}, notification.Options{})
		lane := h.a.Lane(h, postrun.Options{Notices: told})
		people := h.a.People(nil, people.Options{Manage: manage.Options{Notifier: h}})
		must := func(err error) {
			t.Helper()
			check.OK(t, err)
		}
		_, err = people.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: core.Channel{Name: "a", Kind: core.ChannelWebhook,
			URL: "https://hooks.example/"}})
		must(err)
		_, err = people.SaveApp(ctx, ann, manage.AppSpec{Name: "orders", Executors: []string{"http://10.0.0.1:9999"}})
		must(err)
		spec := orders(1, "told-")
		spec[0].Def.Notify, spec[0].Def.Keep.Log = who, core.KeepLogNever
		job := people.Save(ctx, ann, spec)[0]
		must(job.Err)
		q.Purge(fakeaws.Names.Fires)
		fire := func() {
			at := core.InstantOf(time.Now()) + 2
			must(h.e.Queue.Enqueue(ctx, []ring.Out{{NotBefore: at.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: at,
				Fires: []core.Fire{{Run: core.PlannedRun(job.ID, at), Rev: job.Rev, At: at, Slot: at, Cause: core.CauseSchedule}}}}})[0])
		}
		h.take(0)
		var drivers sync.WaitGroup
		drivers.Go(func() { h.poll(ctx) })
		drivers.Go(func() { h.pollPostRun(ctx, lane) })
		drivers.Go(func() {
			every(ctx, time.Minute, 17*time.Second, func() {
				if _, err := told.Pass(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
		})
		h.fails.Store(true)
		fire()
		time.Sleep(time.Hour)
		h.fails.Store(false)
		fire()
		time.Sleep(24 * time.Hour)
		m, n = h.take(25*time.Hour), h.told.Load()
		stop()
		drivers.Wait()
	})
	return m, n
}

// pollPostRun does the work of the function post-run.
func (h *hearing) pollPostRun(ctx context.Context, lane *postrun.Worker) {
	for ctx.Err() == nil {
		out, err := h.q.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &fakeaws.Names.PostRun, MaxNumberOfMessages: 10,
			WaitTimeSeconds: 20, VisibilityTimeout: 120})
		if err != nil || len(out.Messages) == 0 {
			continue
		}
		var list []ring.Message
		for _, m := range out.Messages {
			msg, err := ring.Decode([]byte(*m.Body))
			check.NoError(h.t, err)
			list = append(list, msg)
		}
		h.invoke("postrun", func() {
			for _, err := range lane.Handle(ctx, list) {
				if err != nil && ctx.Err() == nil {
					h.t.Error(err)
				}
			}
		})
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &fakeaws.Names.PostRun}
		for i, m := range out.Messages {
			id := fmt.Sprint(i)
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: m.ReceiptHandle})
		}
		_, _ = h.q.DeleteMessageBatch(ctx, in)
	}
}

// TestNotice compares docs/reference/aws-cost.md with the usage of a notification and of the checks that follow it.
func TestNotice(t *testing.T) {
	plain, none := noticed(t, core.Notify{})
	of := func(want int64, on ...core.Event) (u Usage) {
		m, told := noticed(t, core.Notify{To: []string{"a"}, On: on})
		if none != 0 || told != want {
			t.Errorf("%d and %d notices, want none and %d", none, told, want)
		}
		takes := float64(m.of["postrun"].times)
		return Usage{WriteUnits: m.write - plain.write, ReadUnits: m.read - plain.read, Invocations: takes,
			QueueRequests: float64(m.queue["SendMessageBatch"]-plain.queue["SendMessageBatch"]) + 2*takes,
			GBSeconds:     m.of["postrun"].took.Seconds() * gb(Standard().MemoryMB.Dispatch)} // as the function post-run
	}
	one, two := of(1, core.EventFailed), of(2)
	cents := func(u Usage) string { return fmt.Sprintf("$%.3f", 1000*Sum(Virginia.Bill(u))) }
	page(t, "notices", fmt.Sprintf("| What | Write units | Read units | Messages | $ for 1,000 |\n|---|---|---|---|---|\n"+
		"| A notification; the channel responds in 0.2 s | %.0f | %.0f | %.0f | %s |\n"+
		"| A failure, its notification, checks for an hour, and the notification of the recovery | %.0f | %.0f | %.0f | %s |\n",
		one.WriteUnits, one.ReadUnits, one.QueueRequests/3, cents(one), two.WriteUnits, two.ReadUnits, two.QueueRequests/3, cents(two)))
}
