package manage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
)

// A ChannelSpec is a request to create or change a channel. The fields Rev, Tested and Created of Channel are
// ignored. The value core.AsStored keeps the stored secret.
type ChannelSpec struct {
	Channel core.Channel
	IfRev   *int64
}

type ChannelResult struct {
	Name     string
	Rev      int64
	Change   string       // Created, Updated, Unchanged
	Old, New core.Channel // the channel before and after an update
}

// SaveChannel creates or changes a channel. If the channel is already as wanted, SaveChannel writes nothing.
func (m *Manage) SaveChannel(ctx context.Context, actor core.Actor, spec ChannelSpec) (ChannelResult, error) {
	if err := actor.Validate(); err != nil {
		return ChannelResult{}, err
	}
	return m.saveChannel(ctx, actor, spec, true)
}

// CheckChannel returns the result that SaveChannel would return, and changes nothing.
func (m *Manage) CheckChannel(ctx context.Context, spec ChannelSpec) (ChannelResult, error) {
	return m.saveChannel(ctx, core.Actor{}, spec, false)
}

func (m *Manage) saveChannel(ctx context.Context, actor core.Actor, spec ChannelSpec, write bool) (ChannelResult, error) {
	want := spec.Channel.Normal()
	if err := want.Validate(); err != nil {
		return ChannelResult{}, err
	}
	var attempts []core.Channel
	res := ChannelResult{Name: want.Name}
	unclear := core.Say("could not confirm that channel %s was stored: reload the channel and try again", want.Name)
	err := budget.UpdateWithRetry(ctx, unclear, func() (bool, error) {
		old, found, err := m.ask.FindChannel(ctx, want.Name)
		if err != nil {
			return false, err
		}
		res.Rev = old.Rev
		for i := range attempts {
			if found && attempts[i].Rev == old.Rev && attempts[i].Equal(old) {
				res.Change = changeOf(core.Millis(old.Created) == old.Rev)
				return true, nil
			}
		}
		if err := expect("channel "+want.Name, spec.IfRev, found, old.Rev, want.Set, old.Set); err != nil {
			return false, err
		}
		next, err := want.Kept(old)
		if err != nil {
			return false, err
		}
		verb := core.VerbCreated
		if found {
			verb = core.VerbUpdated
			next.Set, next.Created, next.Tested, next.Rev = cmp.Or(next.Set, old.Set), old.Created, old.Tested, old.Rev
		}
		res.Old, res.New = old, next
		if res.Change = changeOf(!found); found && next.Equal(old) {
			res.Change = Unchanged
			return true, nil
		}
		if err := m.takes(ctx, next); err != nil {
			return false, err
		}
		if err := m.roomForChannel(ctx, found); err != nil || !write {
			return true, err
		}
		done, err := budget.WriteResult(m.putChannel(ctx, old, &next, actor, verb))
		res.Rev, attempts = next.Rev, append(attempts, next)
		return done, err
	})
	if err != nil {
		return ChannelResult{}, err
	}
	return res, nil
}

// takes rejects a channel that this server cannot send to.
func (m *Manage) takes(ctx context.Context, c core.Channel) error {
	if m.o.Notifier == nil {
		return core.Errorf(core.CodeRefused, "this server does not send notifications")
	}
	if err := m.o.Notifier.Takes(ctx, c); err != nil {
		return &core.Error{Code: core.CodeRefused, Field: string(c.Kind), Value: c.To(), Reason: core.Say("%v", err), Err: err}
	}
	return nil
}

// roomForChannel rejects a new channel if about the maximum number exists.
func (m *Manage) roomForChannel(ctx context.Context, there bool) error {
	if there {
		return nil
	}
	list, err := m.ask.Channels(ctx)
	if err == nil && len(list) >= core.MaxChannels {
		err = core.Errorf(core.CodeTooLarge, "the maximum of %d channels is reached", len(list))
	}
	return err
}

func (m *Manage) putChannel(ctx context.Context, old core.Channel, next *core.Channel, actor core.Actor, verb string) error {
	c := m.change(actor, verb, old.Rev)
	next.Rev = c.ID
	if old.Name == "" {
		next.Created = c.At
	} else {
		c.Old = old.String()
	}
	c.Name, c.New = next.Name, next.String()
	return m.store.PutChannel(ctx, old.Rev, *next, c)
}

// DeleteChannel deletes a channel. Pending notifications to the channel are dropped.
func (m *Manage) DeleteChannel(ctx context.Context, actor core.Actor, name string) error {
	if err := actor.Validate(); err != nil {
		return err
	}
	tried := false
	return budget.UpdateWithRetry(ctx, core.Say("could not confirm that channel %s was deleted: try again", name), func() (bool, error) {
		old, err := m.ask.Channel(ctx, name)
		if err != nil {
			return gone(err, tried)
		}
		if err := m.namedBy(ctx, name, asStored); err != nil {
			return false, err
		}
		tried = true
		c := m.change(actor, core.VerbDeleted, old.Rev)
		c.Name, c.Old = name, old.String()
		return budget.WriteResult(m.store.DeleteChannel(ctx, old.Rev, name, c))
	})
}

type ChannelTest struct {
	Sent bool
	// Why is the reason for a failure, for users. Permanent is true if a retry would fail too. After is the minimum
	// delay before a retry.
	Why       string
	Permanent bool
	After     time.Duration
	Took      time.Duration
}

// testEvery is the minimum time between two tests of one channel.
const testEvery = 10 * time.Second

// TestChannel sends one test message to a channel. It returns an error if a user tested the channel less than testEvery ago.
func (m *Manage) TestChannel(ctx context.Context, actor core.Actor, name string) (ChannelTest, error) {
	if err := actor.Validate(); err != nil {
		return ChannelTest{}, err
	}
	ch, err := m.beginTest(ctx, actor, name)
	if err != nil {
		return ChannelTest{}, err
	}
	started := m.ask.Now()
	err = m.o.Notifier.Test(ctx, ch)
	res := ChannelTest{Sent: err == nil, Took: m.ask.Now().Sub(started)}
	if err != nil {
		res.Why = err.Error()
	}
	if u, ok := errors.AsType[*core.Undelivered](err); ok {
		res.Permanent, res.After = u.Permanent, u.After
	}
	return res, nil
}

// beginTest records the test on the channel, so that one of two concurrent tests is rejected.
func (m *Manage) beginTest(ctx context.Context, actor core.Actor, name string) (ch core.Channel, err error) {
	var attempts []int64
	unclear := core.Say("could not confirm that the test of channel %s was recorded, so no message was sent: try again", name)
	err = budget.UpdateWithRetry(ctx, unclear, func() (bool, error) {
		old, err := m.ask.Channel(ctx, name)
		if err != nil {
			return false, err
		}
		if err := m.takes(ctx, old); err != nil {
			return false, err
		}
		if slices.Contains(attempts, old.Rev) {
			ch = old
			return true, nil
		}
		now := m.ask.Stamp()
		if wait := old.Tested.Add(testEvery).Sub(now); !old.Tested.IsZero() && wait > 0 && wait <= testEvery {
			return false, core.Errorf(core.CodeRefused, "channel %s was tested a moment ago: try again in %d s", name, int(wait/time.Second)+1)
		}
		next := old
		next.Tested = now
		err = m.putChannel(ctx, old, &next, actor, core.VerbTested)
		if !errors.Is(err, core.ErrRefused) { // after a conflict, another test may have this revision
			attempts = append(attempts, next.Rev)
		}
		ch = next
		return budget.WriteResult(err)
	})
	return ch, err
}
