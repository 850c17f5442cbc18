package memory

import (
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// milli is t as every engine keeps it: UTC, whole milliseconds.
func milli(t time.Time) time.Time { return core.FromMillis(core.Millis(t)) }

func copyJob(j *core.Job) core.Job {
	c := *j
	c.Def.Labels = maps.Clone(j.Def.Labels)
	c.Def.Retry.On = slices.Clone(j.Def.Retry.On)
	c.Def.After, c.Def.Children = slices.Clone(j.Def.After), slices.Clone(j.Def.Children)
	if j.Def.Script != nil {
		script := *j.Def.Script
		c.Def.Script = &script
	}
	c.Def.Created = milli(j.Def.Created)
	c.Sched = copySched(j)
	return c
}

func copySched(j *core.Job) core.Sched {
	c := j.Sched
	c.Schedule.Any = slices.Clone(c.Schedule.Any)
	c.RevAt = milli(c.RevAt)
	return c
}

func copyTombstone(t core.Tombstone) core.Tombstone {
	t.RevAt = milli(t.RevAt)
	return t
}

func copyRun(r *core.Run) core.Run {
	c := *r
	c.Until, c.SentAt, c.KillAt, c.EndedAt = milli(r.Until), milli(r.SentAt), milli(r.KillAt), milli(r.EndedAt)
	if r.Params != nil {
		p := *r.Params
		c.Params = &p
	}
	c.Addresses = slices.Clone(r.Addresses)
	c.Owes = slices.Clone(r.Owes)
	c.Tries = slices.Clone(r.Tries)
	if r.Late != nil {
		l := *r.Late
		l.At = milli(l.At)
		c.Late = &l
	}
	return c
}

func copyJournal(j core.Journal) core.Journal {
	j.Entries = slices.Clone(j.Entries)
	return j
}

func copyMessage(m ring.Message) ring.Message {
	m.Fires = slices.Clone(m.Fires)
	if m.Check != nil {
		c := ring.Check{Runs: slices.Clone(m.Check.Runs), Idle: m.Check.Idle}
		if m.Check.Journal != nil {
			j := copyJournal(*m.Check.Journal)
			c.Journal = &j
		}
		m.Check = &c
	}
	if m.PostRun != nil {
		a := *m.PostRun
		m.PostRun = &a
	}
	return m
}
