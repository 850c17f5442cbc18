package finish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// WatchOptions are the options of a Watchdog. A field with its zero value gets the default in its comment.
type WatchOptions struct {
	// Behind is how long after the minute of a journal the watchdog first reads the journal. The delay before each further
	// read doubles, up to BehindMax.
	Behind, BehindMax time.Duration // defaults: 10 min and 240 min
	Expiry            time.Duration // how long after its last heartbeat an executor counts as live; default: 90 s
	IdleGap           time.Duration // interval between two checks of an executor that seems to be idle; default: 1 min
	TimeoutGrace      time.Duration // delay after the job's timeout before a run is checked; default: 5 s
	LostAfter         time.Duration // age at which a run of a deleted job counts as lost; default: 10 min

	// Window is the time span whose runs are read together, for a job that fires often. Window is in whole minutes. Window is
	// shorter than Behind, so that most of the runs have ended.
	Window time.Duration // default: four fifths of Behind

	// A pass first reads journals, in pages of PageJournals, for at most WalkFor, and stores its cursor. Then it acts on the
	// journals for at most ActFor: it queries up to Asked executors in parallel, each for at most 6 s. WalkFor and
	// ActFor together must fit into the 50 s of the AWS function functions/tick.
	WalkFor, ActFor time.Duration // defaults: 20 s each
	PageJournals    int           // default: 100
	Asked           int           // default: 200
}

// A Prober asks executors about their runs.
type Prober interface {
	// Beat returns nil if an address is available. An error with core.CodeUnavailable means that this process could not send
	// the check.
	Beat(ctx context.Context, app *core.App, address string) error
	// Idle reports whether the executor at an address has no running or queued run of the job. Idle returns an error if this
	// is unknown.
	Idle(ctx context.Context, app *core.App, address string, job core.JobID) (bool, error)
	// Kill asks the executor at an address to end all runs of the job. Kill returns nil if the executor accepts the request.
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
	// Limit returns the maximum duration of a run of the function at an address.
	Limit(ctx context.Context, address string) (time.Duration, error)
}

// A Watchdog checks runs some time after their claim. A Watchdog closes lost runs, decides about runs whose dispatcher died,
// and creates pending follow-ups.
type Watchdog struct {
	f     *Finish
	probe Prober
	o     WatchOptions
	ahead ahead
}

// NewWatchdog returns a Watchdog over the store of f.
func NewWatchdog(f *Finish, p Prober, o WatchOptions) *Watchdog {
	o.Behind = cmp.Or(o.Behind, 10*time.Minute)
	o.BehindMax = cmp.Or(o.BehindMax, 24*o.Behind)
	o.Window = cmp.Or(o.Window, o.Behind*4/5)
	o.Expiry = cmp.Or(o.Expiry, core.BeatExpiry)
	o.IdleGap = cmp.Or(o.IdleGap, time.Minute)
	o.TimeoutGrace = cmp.Or(o.TimeoutGrace, 5*time.Second)
	o.LostAfter = cmp.Or(o.LostAfter, 10*time.Minute)
	o.WalkFor = cmp.Or(o.WalkFor, 20*time.Second)
	o.ActFor = cmp.Or(o.ActFor, 20*time.Second)
	o.PageJournals = cmp.Or(o.PageJournals, 100)
	o.Asked = cmp.Or(o.Asked, 200)
	return &Watchdog{f: f, probe: p, o: o, ahead: ahead{over: map[core.RunID]bool{}, fired: map[core.JobID]int64{}}}
}

// Pass reads the journals of each minute since the last pass, and the journals that are scheduled to be read again. Then it
// acts on their runs. Slow actions do not stop the scan, because unfinished runs are checked again later. Pass returns the
// number of runs that it checked.
func (w *Watchdog) Pass(ctx context.Context) (looked int, err error) {
	end := w.f.o.Now().Add(-w.o.Behind).Unix()/60 - 1 // the last minute that ended at least Behind ago
	at, err := w.f.s.Cursor(ctx)
	if err != nil {
		return 0, fmt.Errorf("read cursor of the watchdog: %w", err)
	}
	if at == 0 {
		// A new store: nothing was claimed before its first minutes.
		if err := w.f.s.MoveCursor(ctx, 0, end-1); errors.Is(err, core.ErrRefused) {
			return 0, nil // another watchdog was first
		} else if err != nil {
			return 0, fmt.Errorf("set cursor of the watchdog: %w", err)
		}
		at = end - 1
	}
	if ahead := time.Duration(at-end) * time.Minute; ahead > w.o.Behind/2 {
		// The clock was set back, so new claims lie behind the cursor. A second scan of a minute
		// only repeats decisions that are still right.
		return 0, w.back(ctx, at, end)
	}
	found := &findings{minute: end}
	looked, err = w.walk(ctx, at, end, found)
	undone, _ := w.act(ctx, found, true)
	if again := w.revisit(ctx, undone, w.behind()); again != nil {
		w.f.o.Log.Warn("watchdog pass incomplete: the rest is checked later", "journals", len(undone), "err", again)
	}
	return looked, err
}

// back moves the cursor from at back to end. A scan with a fast clock put revisits too far ahead,
// so back first copies them to earlier minutes, farthest first. The cursor goes back as far as
// the time allows.
func (w *Watchdog) back(ctx context.Context, at, end int64) error {
	reading, cancel := context.WithTimeout(ctx, w.o.WalkFor)
	defer cancel()
	reach := max(int64(w.o.BehindMax/time.Minute), 2*w.behind()) + 1 // how far ahead the scan of a minute puts revisits
	minute := at + reach
	for minute > end && (minute == at+reach || reading.Err() == nil) {
		if err := w.sooner(ctx, minute, end); err != nil {
			return err
		}
		minute--
	}
	err := w.f.s.MoveCursor(ctx, at, max(minute-reach, end))
	if err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("move cursor of the watchdog back: %w", err)
	}
	return nil
}

// sooner copies the revisits of a minute to the earlier minute that fits a cursor at end. The originals stay, because the
// clock may be corrected before the cursor is back at end. A journal that is read at both minutes is only judged twice.
func (w *Watchdog) sooner(ctx context.Context, minute, end int64) error {
	for keys, err := range w.revisits(ctx, minute) {
		if err != nil {
			return err
		}
		revisits := map[int64][]core.JournalKey{}
		for _, k := range keys {
			if m := w.next(min(k.Minute, end), end); m < minute {
				revisits[m] = append(revisits[m], k)
			}
		}
		if err := w.putRevisits(ctx, revisits); err != nil {
			return err
		}
	}
	return nil
}

// revisits reads the journals that are due again at a minute, page by page.
func (w *Watchdog) revisits(ctx context.Context, minute int64) iter.Seq2[[]core.JournalKey, error] {
	return func(yield func([]core.JournalKey, error) bool) {
		var after core.JournalKey
		for page := w.o.PageJournals; page == w.o.PageJournals; {
			keys, err := w.f.s.Revisits(ctx, minute, after, w.o.PageJournals)
			if err != nil {
				yield(nil, fmt.Errorf("read journals to be read again: %w", err))
				return
			}
			if page = len(keys); page == 0 || !yield(keys, nil) {
				return
			}
			after = keys[page-1]
		}
	}
}

// minutesAPass is the maximum number of minutes that one pass scans.
const minutesAPass = 120

// walk reads the minutes after at, at least one and as many as the time allows. It stores its
// cursor and adds to found.
func (w *Watchdog) walk(ctx context.Context, at, end int64, found *findings) (looked int, err error) {
	reading, cancel := context.WithTimeout(ctx, w.o.WalkFor)
	defer cancel()
	another, enough := context.WithTimeout(reading, w.o.WalkFor/2)
	defer enough()
	for n := 0; at < end && n < minutesAPass && (n == 0 || another.Err() == nil); n++ {
		runs, again, err := w.minute(ctx, reading, at+1, found)
		looked += runs
		if err != nil {
			return looked, err
		}
		if err := w.f.s.MoveCursor(ctx, at, at+1); err != nil {
			if errors.Is(err, core.ErrRefused) {
				return looked, nil // another watchdog scans too
			}
			return looked, fmt.Errorf("move cursor of the watchdog: %w", err)
		}
		at++
		if again {
			if err := w.f.s.DropRevisits(ctx, at); err != nil {
				return looked, fmt.Errorf("delete entries of reread journals: %w", err)
			}
		}
	}
	if at < end {
		w.f.o.Log.Warn("watchdog delayed", "minutes", end-at)
	}
	return looked, nil
}

// minute reads the journals of a minute of claims and the journals due again in it, page by page.
// Journals that cannot be read in time, or at all, get a revisit, so the scan always goes on.
func (w *Watchdog) minute(ctx, reading context.Context, minute int64, found *findings) (looked int, again bool, err error) {
	for keys, err := range w.revisits(ctx, minute) {
		if err != nil {
			return looked, again, err
		}
		again = true
		var list []core.Journal
		journals, err := w.f.s.Journals(reading, keys)
		for _, k := range keys {
			if j, ok := journals[k]; ok {
				list = append(list, j)
			} else if err != nil { // without an error, the journal is deleted
				list = append(list, core.Journal{Key: k})
			}
		}
		if err := w.page(ctx, reading, minute, list, found, err); err != nil {
			return looked, again, err
		}
		looked += len(subjectsOf(list))
	}
	var after core.JournalKey
	for page := w.o.PageJournals; page == w.o.PageJournals; {
		list, err := w.f.s.JournalsAt(ctx, minute, after, w.o.PageJournals)
		if err != nil {
			return looked, again, fmt.Errorf("read journals: %w", err)
		}
		if page = len(list); page == 0 {
			break
		}
		after = list[page-1].Key
		if err := w.page(ctx, reading, minute, list, found, nil); err != nil {
			return looked, again, err
		}
		looked += len(subjectsOf(list))
	}
	return looked, again, nil
}

// page decides about the runs of journals and schedules a revisit of each unfinished journal. The
// delay grows with the journal's age, and is short if a run was not decided. unread is the error
// that kept the journals from being read, or nil.
func (w *Watchdog) page(ctx, reading context.Context, minute int64, list []core.Journal, found *findings, unread error) error {
	looks, err := map[core.JournalKey]look{}, unread
	if err == nil {
		subjects, read := w.unjudged(reading, minute, subjectsOf(list))
		looks, err = w.look(reading, subjects, read, found)
		w.remember(read, subjects)
	}
	if err != nil {
		w.f.o.Log.Warn("journals not evaluated: they are read again", "minute", minute, "journals", len(list), "err", err)
	}
	revisits := map[int64][]core.JournalKey{}
	for i := range list {
		k := list[i].Key
		switch {
		case err != nil || looks[k] == missed:
			// Spread over several minutes, since one minute may again be too much. None is so
			// near that another watchdog may have passed it.
			m := minute + w.behind() + int64(k.Suffix)%w.behind()
			revisits[m] = append(revisits[m], k)
		case looks[k] == undecided:
			m := w.next(k.Minute, minute)
			revisits[m] = append(revisits[m], k)
		}
	}
	return w.putRevisits(ctx, revisits)
}

func (w *Watchdog) putRevisits(ctx context.Context, of map[int64][]core.JournalKey) error {
	for m, keys := range of {
		if err := w.f.s.PutRevisits(ctx, m, keys); err != nil {
			return fmt.Errorf("schedule journals to be read again: %w", err)
		}
	}
	return nil
}

func (w *Watchdog) behind() int64 { return max(int64(w.o.Behind/time.Minute), 1) }

// next returns the cursor minute at which a journal is read again. The cursor lags by Behind, so
// the journal's age at that time is the difference plus Behind.
func (w *Watchdog) next(claimed, cursor int64) int64 {
	age := cursor - claimed + w.behind()
	return cursor + max(min(age, int64(w.o.BehindMax/time.Minute)), 1)
}

// Check checks the runs of a check message. If the message has a journal, Check stores the journal first. If it returns an
// error, the message must be delivered again.
func (w *Watchdog) Check(ctx context.Context, c *ring.Check) error {
	if c.App != "" || len(c.Jobs) > 0 {
		return w.f.wakeAll(ctx, c)
	}
	var subjects []subject
	for _, id := range c.Runs {
		subjects = append(subjects, subject{run: id, idle: c.Idle})
	}
	if c.Journal != nil {
		if err := w.f.s.PutJournal(ctx, *c.Journal); err != nil && !errors.Is(err, core.ErrRefused) {
			return fmt.Errorf("store journal of a check: %w", err)
		}
		// The scan finds the stored journal, unless it is past that minute. So check now as well.
		subjects = subjectsOf([]core.Journal{*c.Journal})
	}
	found := &findings{minute: w.f.o.Now().Unix() / 60}
	looks, err := w.look(ctx, subjects, nil, found)
	if err != nil {
		return err
	}
	if c.Journal != nil && looks[c.Journal.Key] != decided {
		if err := w.revisit(ctx, []core.JournalKey{c.Journal.Key}, 2); err != nil {
			return err
		}
	}
	_, err = w.act(ctx, found, false)
	return err
}

// revisit schedules journals to be read again, ahead minutes or more after the cursor. A scan
// that catches up may pass that minute during the write; then revisit doubles the distance.
func (w *Watchdog) revisit(ctx context.Context, keys []core.JournalKey, ahead int64) error {
	if len(keys) == 0 {
		return nil
	}
	var newest int64
	for _, k := range keys {
		newest = max(newest, k.Minute)
	}
	for ; ; ahead = max(2*ahead, 2) {
		at, err := w.f.s.Cursor(ctx)
		if err != nil {
			return fmt.Errorf("read cursor of the watchdog: %w", err)
		}
		minute := max(at, min(newest, w.f.o.Now().Unix()/60)) + ahead // a claim is in the future if the claimer's clock is fast
		if err := w.f.s.PutRevisits(ctx, minute, keys); err != nil {
			return fmt.Errorf("schedule journals to be read again: %w", err)
		}
		switch at, err = w.f.s.Cursor(ctx); {
		case err != nil:
			return fmt.Errorf("read cursor of the watchdog: %w", err)
		case at < minute-1: // a reader may have begun at minute-1
			return nil
		}
	}
}
