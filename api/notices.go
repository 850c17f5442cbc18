package api

import (
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notice"
)

// Notices reads what is known of notices: of jobs, and of how channels fare. One that is not
// stored is not in the answer.
type Notices interface {
	Notices(ctx context.Context, names []string) (map[string]notice.State, error)
}

// Troubles tells which of some channels do not take notices, by name.
func Troubles(ctx context.Context, of Notices, channels []core.Channel) (map[string]*client.ChannelTrouble, error) {
	if of == nil || len(channels) == 0 {
		return nil, nil
	}
	names := make([]string, len(channels))
	for i := range channels {
		names[i] = notice.ChannelName(channels[i].Name)
	}
	found, err := of.Notices(ctx, names)
	if err != nil {
		return nil, core.Passing(err)
	}
	list := map[string]*client.ChannelTrouble{}
	for i := range channels {
		c := &channels[i]
		t := found[names[i]].Trouble
		if t == nil || t.Last.Before(c.Created) { // that of an older one of the name
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

// noticeState is what is known of the notices of a job.
func noticeState(ctx context.Context, of Notices, job core.JobID) (st notice.State, err error) {
	if of == nil {
		return st, nil
	}
	name := notice.JobName(job)
	found, err := of.Notices(ctx, []string{name})
	if err != nil {
		return st, core.Passing(err)
	}
	return found[name], nil
}

// noticeOf is what became of the notice of a run; nil: there is none.
func noticeOf(ctx context.Context, of Notices, r *core.Run) (*client.RunNotice, error) {
	if core.EndEvent(r) == "" || !r.Notice { // it is not read for what ended well
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
	out := &client.RunNotice{Event: string(n.Event), Stand: string(n.Stand), At: n.At}
	for i := range n.Waiting {
		out.Waiting = append(out.Waiting, waitingOf(&n.Waiting[i]))
	}
	for _, g := range n.GivenUp {
		out.GivenUp = append(out.GivenUp, client.UntakenNotice{Channel: g.Channel, At: g.When, Error: g.Error})
	}
	return out, nil
}

func waitingOf(p *notice.Pending) client.WaitingNotice {
	return client.WaitingNotice{Channel: p.Channel, Event: string(p.Event), Count: p.Count, MadeAt: p.Made, Tries: p.Tries, NextAt: p.Next,
		Error: p.Error}
}

// noticesOf is what is known of the notices of a job; nil is nothing.
func noticesOf(ctx context.Context, of Notices, job core.JobID) (*client.JobNotices, error) {
	st, err := noticeState(ctx, of, job)
	if err != nil || len(st.Told)+len(st.Pending) == 0 {
		return nil, err
	}
	out := &client.JobNotices{}
	for _, t := range st.Told {
		out.Told = append(out.Told, client.ToldEvent{Event: string(t.Event), At: t.Sent, QuietUntil: t.Quiet, Count: t.Count})
	}
	for i := range st.Pending {
		out.Waiting = append(out.Waiting, waitingOf(&st.Pending[i]))
	}
	slices.SortStableFunc(out.Told, func(a, b client.ToldEvent) int { return b.At.Compare(a.At) })
	return out, nil
}
