package api

import (
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/store"
)

// Troubles returns the delivery problems of the channels that do not accept notifications, sorted by channel name.
func Troubles(ctx context.Context, of *store.Store, channels []core.Channel) (map[string]*client.ChannelTrouble, error) {
	if of == nil || len(channels) == 0 {
		return nil, nil
	}
	names := make([]string, len(channels))
	for i := range channels {
		names[i] = notification.ChannelName(channels[i].Name)
	}
	found, err := notification.States(ctx, of, names...)
	if err != nil {
		return nil, core.Retryable(err)
	}
	list := map[string]*client.ChannelTrouble{}
	for i := range channels {
		c := &channels[i]
		t := found[names[i]].Trouble
		if t == nil || t.Last.Before(c.Created) { // it is from a deleted channel of this name
			continue
		}
		list[c.Name] = &client.ChannelTrouble{Channel: c.Name, Since: later(t.Since, c.Created), LastAt: t.Last, Error: t.Error,
			GivenUp: t.GivenUp}
	}
	return list, nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// noticeState returns the notification state of a job.
func noticeState(ctx context.Context, of *store.Store, job core.JobID) (st notification.State, err error) {
	if of == nil {
		return st, nil
	}
	name := notification.JobName(job)
	found, err := notification.States(ctx, of, name)
	if err != nil {
		return st, core.Retryable(err)
	}
	return found[name], nil
}

// noticeOf returns the status of the notification of a run; nil means that there is none.
func noticeOf(ctx context.Context, of *store.Store, r *core.Run) (*client.RunNotification, error) {
	if core.EndEvent(r) == "" || !r.Notice { // saves a read for successful runs
		return nil, nil
	}
	st, err := noticeState(ctx, of, r.ID.Job())
	if err != nil {
		return nil, err
	}
	n, is := st.Run(r)
	if !is {
		return nil, nil
	}
	out := &client.RunNotification{Event: string(n.Event), Status: string(n.Stand), At: n.At}
	out.Waiting = each(n.Waiting, waitingOf)
	for _, g := range n.GivenUp {
		out.GivenUp = append(out.GivenUp, client.UndeliveredNotification{Channel: g.Channel, At: g.When, Error: g.Error})
	}
	return out, nil
}

func waitingOf(p *notification.Pending) client.WaitingNotification {
	return client.WaitingNotification{Channel: p.Channel, Event: string(p.Event), Count: p.Count, MadeAt: p.Made, Tries: p.Tries,
		NextAt: p.Next, Error: p.Error}
}

// noticesOf returns the notifications of a job; nil means none.
func noticesOf(ctx context.Context, of *store.Store, job core.JobID) (*client.JobNotifications, error) {
	st, err := noticeState(ctx, of, job)
	if err != nil || len(st.Told)+len(st.Pending) == 0 {
		return nil, err
	}
	out := &client.JobNotifications{Waiting: each(st.Pending, waitingOf)}
	for _, t := range st.Told {
		out.Sent = append(out.Sent, client.SentNotification{Event: string(t.Event), At: t.Sent, QuietUntil: t.Quiet, Count: t.Count})
	}
	slices.SortStableFunc(out.Sent, func(a, b client.SentNotification) int { return b.At.Compare(a.At) })
	return out, nil
}
