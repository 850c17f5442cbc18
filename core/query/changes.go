package query

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
)

// ChangeFilter selects change records. The zero value selects all change records.
type ChangeFilter struct {
	Job  string   // app/name or number; for a deleted job, app/name works while the app's change records are kept
	App  string   // selects changes of the app and its jobs; used if Job is empty
	Apps []string // used if Job and App are empty: changes of these apps; nil: all changes, including changes without an app
	// Channel selects changes of the channel with this name. Person selects changes of the user with this name.
	Channel, Person string
	NoPeople        bool // excludes changes of user accounts
	By, Verb, Act   string
	From, To        time.Time
	Limit           int    // maximum number of records, at most 1000; 0: 100
	After           string // value of Next from the previous page
}

// ChangePage is one page of change records, newest first.
type ChangePage struct {
	Changes []core.Change
	Next    string // value of After for the next page; empty: this is the last page
	// LookedTo is the time back to which the page has searched; zero if the page is full or the last one.
	LookedTo time.Time
}

// maxSought is the longest search text; change records contain no longer values.
const maxSought = 128

func (f *ChangeFilter) check() (limit int, err error) {
	if f.Verb != "" && !slices.Contains(core.Verbs, f.Verb) {
		return 0, core.Invalid("verb", f.Verb, "allowed values: %s", core.JoinAllowed(core.Verbs))
	}
	for _, sought := range []struct{ name, is string }{{"by", f.By}, {"operation", f.Act}, {"channel", f.Channel}, {"user", f.Person}} {
		if len(sought.is) > maxSought {
			return 0, core.Invalid(sought.name, sought.is, "at most %d bytes are allowed", maxSought)
		}
	}
	if err := checkPeriod(f.From, f.To); err != nil {
		return 0, err
	}
	return limitOf(f.Limit)
}

func (f *ChangeFilter) takes(c *core.Change) bool {
	ofNone := c.App == "" && c.Job == 0
	if f.NoPeople && ofNone && strings.HasPrefix(c.Name, core.OfPerson) {
		return false
	}
	return (f.By == "" || c.By == f.By) && (f.Verb == "" || c.Verb == f.Verb) && (f.Act == "" || c.Act == f.Act) &&
		(f.Channel == "" || ofNone && c.Name == f.Channel) && (f.Person == "" || ofNone && c.Name == core.OfPerson+f.Person) &&
		(f.From.IsZero() || !c.At.Before(f.From)) && (f.To.IsZero() || !c.At.After(f.To))
}

// mark is a position in a list of change records: after the record with this ID and hash.
type mark struct {
	id   int64
	says uint64
}

func markOf(c *core.Change) mark {
	says := fnv.New64a()
	fmt.Fprintf(says, "%s %d %s", c.App, c.Job, c.Says())
	return mark{c.ID, max(says.Sum64(), 1)}
}

func (m mark) String() string { return fmt.Sprintf("%d-%x", m.id, m.says) }

func parseMark(text string) (m mark, err error) {
	id, says, _ := strings.Cut(text, "-")
	var err2 error
	m.id, err = strconv.ParseInt(id, 10, 64)
	if m.says, err2 = strconv.ParseUint(says, 16, 64); err != nil || err2 != nil || m.id < 0 {
		return m, core.Invalid("after", core.Truncate(text), "not the value of `next` from a page of these changes")
	}
	return m, nil
}

// passed returns how many records of list are before the mark. If the marked record was deleted, all records with its
// ID count.
func (m mark) passed(list []core.Change) int {
	for i := range list {
		if m.says == 0 || list[i].ID != m.id {
			return i
		}
		if markOf(&list[i]) == m {
			return i + 1
		}
	}
	return len(list)
}

// Changes lists the selected change records, newest first. It searches at most budget.Looked records for one page.
func (q *Queries) Changes(ctx context.Context, f ChangeFilter) (res ChangePage, err error) {
	p := q.Page()
	limit, err := f.check()
	if err != nil {
		return res, err
	}
	app, id, gone, err := q.changed(ctx, &f)
	if err != nil {
		return res, err
	}
	at, oldest := mark{id: math.MaxInt64}, int64(0)
	if !f.To.IsZero() { // if a clock is set back, later records have IDs ahead of their time
		at.id = core.Millis(f.To.Add(apart))
	}
	if !f.From.IsZero() { // an ID is never before its time
		oldest = core.Millis(f.From)
	}
	if f.After != "" {
		if at, err = parseMark(f.After); err != nil {
			return res, err
		}
	}
	// A part of the list cannot prove that the job never existed.
	seen := gone == nil || f.After != "" || !f.From.IsZero() || !f.To.IsZero()
	for looked, n := 0, limit+1; ; n = min(4*n, MaxPage) {
		list, end, err := q.changesBehind(ctx, f.Apps, app, id, at, n)
		if err == nil && gone != nil {
			err = q.nameJobs(ctx, list)
		}
		if err != nil {
			return ChangePage{}, err
		}
		for i := range list {
			c := &list[i]
			if c.ID < oldest {
				end = true
				break
			}
			fits := f.takes(c)
			if gone != nil {
				named := c.Job != 0 && c.App+"/"+c.Name == f.Job
				seen, fits = seen || named, fits && named
			}
			if len(res.Changes) == limit || looked == budget.Looked || fits && !p.Takes(c) {
				return res, q.endChanges(ctx, &res, at, limit)
			}
			if fits {
				res.Changes = append(res.Changes, *c)
			}
			at = markOf(c)
			looked++
		}
		switch {
		case end && !seen:
			return res, gone
		case end:
			return res, q.nameJobs(ctx, res.Changes)
		case p.Over():
			return res, q.endChanges(ctx, &res, at, limit)
		}
	}
}

// endChanges ends a page before the end of the list.
func (q *Queries) endChanges(ctx context.Context, res *ChangePage, at mark, limit int) error {
	if res.Next = at.String(); len(res.Changes) < limit {
		res.LookedTo = core.FromMillis(at.id)
	}
	return q.nameJobs(ctx, res.Changes)
}

// changed returns the app and job of the filter. A deleted job has no stored name, but the changes of its app contain
// it. Then gone is the error to return if no change matches.
func (q *Queries) changed(ctx context.Context, f *ChangeFilter) (app string, id core.JobID, gone, err error) {
	if f.Job == "" {
		if f.App != "" {
			err = core.CheckAppName("app", f.App)
		}
		return f.App, 0, nil, err
	}
	s, err := q.subject(ctx, f.Job)
	app, _, named := strings.Cut(f.Job, "/")
	if named && core.CodeOf(err) == core.CodeNotFound {
		return app, 0, err, nil
	}
	return s.app, s.id, nil, err
}

// changesBehind reads at least n change records after a mark; end is true if no more follow.
func (q *Queries) changesBehind(ctx context.Context, apps []string, app string, id core.JobID, at mark, n int) (
	list []core.Change, end bool, err error,
) {
	if app != "" || id != 0 || apps == nil {
		apps = []string{app}
	}
	for n++; ; n *= 2 { // many records can have one ID
		list = nil
		for _, app := range apps {
			some, err := q.store.Changes(ctx, app, id, at.id, n)
			if err != nil {
				return nil, false, core.Retryable(err)
			}
			list = append(list, some...)
		}
		if len(apps) > 1 {
			slices.SortStableFunc(list, func(a, b core.Change) int { return cmp.Compare(b.ID, a.ID) })
		}
		list, end = list[:min(len(list), n)], len(list) < n
		if i := at.passed(list); i < len(list) || end {
			return list[i:], end, nil
		}
	}
}

// nameJobs adds job names to change records that have only the number, because such a record looks like a change of
// the app. The automatic end of a pause writes them.
func (q *Queries) nameJobs(ctx context.Context, changes []core.Change) error {
	var jobs []core.JobID
	for i := range changes {
		if c := &changes[i]; c.Job != 0 && c.Name == "" && !slices.Contains(jobs, c.Job) {
			jobs = append(jobs, c.Job)
		}
	}
	names, err := q.Names(ctx, jobs)
	for i := range changes {
		if c := &changes[i]; c.Job != 0 && c.Name == "" {
			_, c.Name, _ = strings.Cut(names[c.Job], "/")
		}
	}
	return err
}
