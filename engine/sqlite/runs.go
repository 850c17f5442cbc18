package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/store"
)

// The values of a run's fields are stored as their position in these lists, from 1. New values are only appended. An open
// state is at most 3.
var (
	states = []core.State{core.Planned, core.Queued, core.Running, core.Succeeded, core.Failed, core.TimedOut, core.Killed, core.Lost,
		core.Skipped}
	causes  = []core.Cause{core.CauseSchedule, core.CauseMisfire, core.CauseManual, core.CauseAPI, core.CauseParent, core.CauseRetry}
	reasons = []core.Reason{core.ReasonNotAccepted, core.ReasonNoExecutor, core.ReasonHandler, core.ReasonCrashed, core.ReasonTimeout,
		core.ReasonPerson, core.ReasonReplaced, core.ReasonGone, core.ReasonForgotten, core.ReasonNoReport, core.ReasonMisfire,
		core.ReasonDeadline, core.ReasonOverlap, core.ReasonQueueFull, core.ReasonPaused, core.ReasonChanged, core.ReasonDeleted,
		core.ReasonCancelled, core.ReasonUndeliverable, core.ReasonSnoozed, core.ReasonJoin, core.ReasonShards}
)

const (
	running = 3 // the last open one
	// owesChildren is core.Run.OwesChildren, the filter of an index, and owesAny core.Run.Owing;
	// 9 is skipped.
	owesChildren = "place IS NOT NULL AND state > 3 AND followed IS NULL AND (state <> 9 OR attempt > 1)"
	// owesPostRun is the condition of core.Run.OwesPostRun as the filter of an index; 4 is succeeded.
	owesPostRun = "(postrun IS NOT NULL OR keep_log = 'always' AND state = 4 AND sent > 0 AND address IS NOT NULL " +
		"AND substr(address, 1, 5) <> 'call:' AND substr(address, 1, 6) <> 'queue:')"
	owesAny = "(owes IS NOT NULL OR " + owesPostRun + " OR " + owesChildren + ")"
)

// bindWord binds a value by its position in a list, and an unknown one as text.
func bindWord[T ~string](st *sqlite.Stmt, at int, word T, list []T) {
	if word == "" {
		st.BindNull(at)
		return
	}
	for i, w := range list {
		if w == word {
			st.BindInt64(at, int64(i+1))
			return
		}
	}
	st.BindText(at, string(word))
}

func columnWord[T ~string](st *sqlite.Stmt, at int, list []T) T {
	if n := st.ColumnInt64(at); n > 0 && n <= int64(len(list)) {
		return list[n-1]
	}
	return T(columnText(st, at))
}

// bindText binds text, and NULL if it is empty.
func bindText(st *sqlite.Stmt, at int, text string) {
	if text == "" {
		st.BindNull(at)
	} else {
		st.BindText(at, text)
	}
}

func columnText(st *sqlite.Stmt, at int) string {
	if st.ColumnIsNull(at) {
		return ""
	}
	return st.ColumnText(at)
}

// bindInt binds a number, and NULL if it is 0.
func bindInt[T ~int | ~int64](st *sqlite.Stmt, at int, n T) {
	if n == 0 {
		st.BindNull(at)
	} else {
		st.BindInt64(at, int64(n))
	}
}

// bindJSON binds v as JSON, and NULL if it is empty.
func bindJSON(st *sqlite.Stmt, at int, v any, empty bool) error {
	if empty {
		st.BindNull(at)
		return nil
	}
	b, err := json.Marshal(v)
	if err == nil {
		st.BindText(at, string(b))
	}
	return err
}

func columnJSON(st *sqlite.Stmt, at int, into any) error {
	if st.ColumnIsNull(at) {
		return nil
	}
	return json.Unmarshal([]byte(st.ColumnText(at)), into)
}

// given holds fields that only few runs have.
type given struct {
	Params    *string    `json:"params,omitempty"`
	Addresses []string   `json:"addresses,omitempty"`
	Key       string     `json:"key,omitempty"`
	By        string     `json:"by,omitempty"`
	RerunOf   core.RunID `json:"rerunOf,omitempty"`
	Permit    string     `json:"permit,omitempty"`
	Pauses    bool       `json:"pauses,omitempty"`
	Parent    core.RunID `json:"parent,omitempty"`
	Shard     core.Shard `json:"shard,omitzero"`
	SentRev   int64      `json:"sentRev,omitempty"`
	Notice    bool       `json:"notice,omitempty"`
}

// The columns ended and code of an open run have placeholders of about their final length. So the end of the run does not
// make its row outgrow its page.
const (
	insertClaim = `INSERT INTO runs (key, state, made, app, cause, rev, at, slot, seq, owner, until, address, maybe, jkey, jnonce, sent, attempt, first, retries, fixed, n, ended, code)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?3, 200) ON CONFLICT (key) DO NOTHING`
	insertRun = `INSERT INTO runs (key, state, made, app, cause, rev, at, slot, seq, owner, until, address, maybe, jkey, jnonce, sent, attempt, first, retries, fixed, n,
ended, reason, code, message, owes, followed, late, tries, kill_by, kill_at, given, data, place, postrun, keep_log)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36) ON CONFLICT (key) DO NOTHING`
	runColumns = `key, state, app, cause, rev, at, slot, seq, owner, until, address, maybe, jkey, jnonce, sent, attempt, first, retries, fixed,
ended, reason, code, message, owes, followed, late, tries, kill_by, kill_at, given, made, data, place, postrun, keep_log`
)

// isPlain reports whether a run has only the fields of a claim.
func isPlain(r *core.Run) bool {
	return r.State.Open() && r.EndedAt.IsZero() && r.Reason == "" && r.Code == 0 && r.Message == "" && r.Data == "" && len(r.Owes) == 0 &&
		r.Then == 0 && r.Place == 0 && r.Late == nil && r.PostRun == core.PostRun{} && r.KeepLog == "" &&
		len(r.Tries) == 0 && r.KillBy == "" && r.KillAt.IsZero() && !hasGiven(r)
}

func hasGiven(r *core.Run) bool {
	return r.Params != nil || len(r.Addresses) > 0 || r.Key != "" || r.By != "" || r.Permit != "" || r.RerunOf != 0 || r.PauseAfter ||
		r.Parent != 0 || r.Shard != core.Shard{} || r.SentRev != 0 || r.Notice
}

// bindJournal binds a journal's key; a nonce that is the owner's is left out.
func bindJournal(st *sqlite.Stmt, at int, k core.JournalKey, owner string) {
	if k.IsZero() {
		st.BindNull(at)
		st.BindNull(at + 1)
		return
	}
	st.BindInt64(at, k.Minute*core.JournalSuffixes+int64(k.Suffix))
	if k.Nonce == owner {
		st.BindNull(at + 1)
	} else {
		st.BindText(at+1, k.Nonce)
	}
}

func bindRun(st *sqlite.Stmt, r *core.Run, app, made, n int64, plain bool) error {
	st.BindInt64(1, key(r.ID))
	bindWord(st, 2, r.State, states)
	st.BindInt64(3, made)
	st.BindInt64(4, app)
	bindWord(st, 5, r.Cause, causes)
	st.BindInt64(6, r.Rev)
	st.BindInt64(7, int64(r.At))
	st.BindInt64(8, int64(r.Slot))
	st.BindInt64(9, r.Seq)
	bindText(st, 10, r.Owner)
	st.BindInt64(11, core.Millis(r.Until))
	bindText(st, 12, r.Address)
	st.BindBool(13, r.MaybeSent)
	bindJournal(st, 14, r.Journal, r.Owner)
	st.BindInt64(16, core.Millis(r.SentAt))
	st.BindInt64(17, int64(r.Attempt))
	if r.First == r.ID {
		st.BindNull(18)
	} else {
		st.BindInt64(18, int64(r.First))
	}
	st.BindInt64(19, int64(r.Retries))
	st.BindBool(20, r.FixedDelay)
	st.BindInt64(21, n)
	if plain {
		return nil
	}
	st.BindInt64(22, core.Millis(r.EndedAt))
	bindWord(st, 23, r.Reason, reasons)
	st.BindInt64(24, int64(r.Code))
	bindText(st, 25, r.Message)
	bindInt(st, 27, r.Then)
	bindText(st, 30, r.KillBy)
	bindInt(st, 31, core.Millis(r.KillAt))
	bindText(st, 33, r.Data)
	bindInt(st, 34, r.Place)
	bindText(st, 36, string(r.KeepLog))
	return errors.Join(
		bindJSON(st, 26, r.Owes, len(r.Owes) == 0),
		bindJSON(st, 28, r.Late, r.Late == nil),
		bindJSON(st, 29, r.Tries, len(r.Tries) == 0),
		bindJSON(st, 35, r.PostRun, r.PostRun == core.PostRun{}),
		bindGiven(st, 32, r))
}

func bindGiven(st *sqlite.Stmt, at int, r *core.Run) error {
	return bindJSON(st, at, given{r.Params, r.Addresses, r.Key, r.By, r.RerunOf, r.Permit, r.PauseAfter, r.Parent, r.Shard, r.SentRev,
		r.Notice},
		!hasGiven(r))
}

// scanRun reads a row of runColumns.
func (s *Store) scanRun(st *sqlite.Stmt, r *core.Run) error {
	r.ID = runOf(st.ColumnInt64(0))
	r.State = columnWord(st, 1, states)
	r.App = s.names.of(st.ColumnInt64(2))
	r.Cause = columnWord(st, 3, causes)
	r.Rev = st.ColumnInt64(4)
	r.At = core.Instant(st.ColumnInt64(5))
	r.Slot = core.Instant(st.ColumnInt64(6))
	r.Seq = st.ColumnInt64(7)
	r.Owner = columnText(st, 8)
	r.Until = core.FromMillis(st.ColumnInt64(9))
	r.Address = columnText(st, 10)
	r.MaybeSent = st.ColumnInt64(11) != 0
	if !st.ColumnIsNull(12) {
		k := st.ColumnInt64(12)
		r.Journal = core.JournalKey{Minute: k / core.JournalSuffixes, Suffix: int(k % core.JournalSuffixes), Nonce: r.Owner}
		if !st.ColumnIsNull(13) {
			r.Journal.Nonce = st.ColumnText(13)
		}
	}
	r.SentAt = core.FromMillis(st.ColumnInt64(14))
	r.Attempt = st.ColumnInt(15)
	r.First = r.ID
	if !st.ColumnIsNull(16) {
		r.First = core.RunID(st.ColumnInt64(16))
	}
	r.Retries = st.ColumnInt(17)
	r.FixedDelay = st.ColumnInt64(18) != 0
	if !r.State.Open() {
		r.EndedAt = core.FromMillis(st.ColumnInt64(19))
		r.Code = st.ColumnInt(21)
	}
	if !st.ColumnIsNull(20) {
		r.Reason = columnWord(st, 20, reasons)
	}
	r.Message = columnText(st, 22)
	r.Then = core.RunID(st.ColumnInt64(24))
	r.KillBy = columnText(st, 27)
	r.KillAt = core.FromMillis(st.ColumnInt64(28))
	r.Data = columnText(st, 31)
	r.Place = st.ColumnInt64(32)
	r.KeepLog = core.KeepLog(columnText(st, 34))
	err := errors.Join(columnJSON(st, 23, &r.Owes), columnJSON(st, 26, &r.Tries), columnJSON(st, 33, &r.PostRun))
	if !st.ColumnIsNull(25) {
		r.Late = new(core.LateResult)
		err = errors.Join(err, columnJSON(st, 25, r.Late))
	}
	if !st.ColumnIsNull(29) {
		var g given
		err = errors.Join(err, columnJSON(st, 29, &g))
		r.Params, r.Addresses, r.Key, r.By, r.RerunOf, r.Permit = g.Params, g.Addresses, g.Key, g.By, g.RerunOf, g.Permit
		r.PauseAfter, r.Parent, r.Shard, r.SentRev, r.Notice = g.Pauses, g.Parent, g.Shard, g.SentRev, g.Notice
	}
	if err != nil {
		return fmt.Errorf("run %d: %w", r.ID, err)
	}
	return nil
}

func judged(c *sqlite.Conn) error {
	if c.Changes() == 0 {
		return core.ErrRefused
	}
	return nil
}

// eachRow runs one conditional statement per item; Stmt.Step of a statement
// without rows leaves it ready after Reset.
func eachRow[T any](tx *tx, q string, items []T, answers []error, bind func(*sqlite.Stmt, *T) error) error {
	st, err := tx.Prepare(q)
	if err != nil {
		return err
	}
	for i := range items {
		if err := bind(st, &items[i]); err != nil {
			return err
		}
		if err := rows(st, nil); err != nil {
			return err
		}
		answers[i] = judged(tx.Conn)
	}
	return nil
}

func (s *Store) Runs(ctx context.Context, ids []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	found := make(map[core.RunID]core.Run, len(ids))
	err := s.read(ctx, func(c *sqlite.Conn) error {
		st, err := c.Prepare("SELECT " + runColumns + " FROM runs WHERE key = ?")
		if err != nil {
			return err
		}
		for _, id := range ids {
			st.BindInt64(1, key(id))
			if err := rows(st, func(st *sqlite.Stmt) error {
				var r core.Run
				err := s.scanRun(st, &r)
				found[r.ID] = r
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read runs: %w", err)
	}
	return found, nil, nil
}

func (s *Store) Create(ctx context.Context, runs []core.Run) []error {
	return batch(ctx, s, true, runs, create)
}

func create(tx *tx, runs []core.Run, answers []error) error {
	var plain, full *sqlite.Stmt
	for i := range runs {
		r := &runs[i]
		app, err := tx.s.names.number(tx, r.App)
		if err != nil {
			return err
		}
		is, q, st := isPlain(r), insertRun, &full
		if is {
			q, st = insertClaim, &plain
		}
		if *st == nil {
			if *st, err = tx.Prepare(q); err != nil {
				return err
			}
		}
		tx.s.lastRow++
		if err := bindRun(*st, r, app, tx.made, tx.s.lastRow, is); err != nil {
			return err
		}
		if err := rows(*st, nil); err != nil {
			return err
		}
		if answers[i] = judged(tx.Conn); answers[i] == nil {
			tx.rows = append(tx.rows, madeRow{tx.s.lastRow, r.ID, r.State.Open()})
		}
	}
	return nil
}

func (s *Store) PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error {
	var answer [1]error
	err := s.write(ctx, true, 2, func(tx *tx) error {
		if err := create(tx, []core.Run{run}, answer[:]); err != nil || answer[0] != nil {
			return err
		}
		return changeDue(tx, enter, &entry)
	})
	return cmp.Or(err, answer[0])
}

func (s *Store) ChangeTriggered(ctx context.Context, c operate.Triggered) error {
	var answer [1]error
	err := s.write(ctx, false, 4, func(tx *tx) error {
		if err := putRuns(tx, []core.RunPut{c.Put}, answer[:]); err != nil || answer[0] != nil {
			return err
		}
		for i := range c.Drop {
			if err := changeDue(tx, leave, &c.Drop[i]); err != nil {
				return err
			}
		}
		if err := changeDue(tx, enter, &c.Entry); err != nil {
			return err
		}
		return putChange(tx, &c.Change)
	})
	return cmp.Or(err, answer[0])
}

// runFields lists the columns of each field of a run, in the order of core.RunFields, and how to bind them. If a column is
// set twice, both values are equal, and SQLite takes the last.
var runFields = [...]struct {
	columns []string
	bind    func(tx *tx, st *sqlite.Stmt, at int, r *core.Run) error
}{
	{[]string{"state"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error { bindWord(st, at, r.State, states); return nil }},
	{[]string{"owner"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error { bindText(st, at, r.Owner); return nil }},
	{[]string{"until"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		st.BindInt64(at, core.Millis(r.Until))
		return nil
	}},
	{[]string{"jkey", "jnonce"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		bindJournal(st, at, r.Journal, r.Owner)
		return nil
	}},
	{[]string{"address"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error { bindText(st, at, r.Address); return nil }},
	{[]string{"maybe"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error { st.BindBool(at, r.MaybeSent); return nil }},
	{[]string{"sent"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		st.BindInt64(at, core.Millis(r.SentAt))
		return nil
	}},
	{[]string{"tries"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		return bindJSON(st, at, r.Tries, len(r.Tries) == 0)
	}},
	{[]string{"ended", "reason", "code", "message", "data", "followed"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		st.BindInt64(at, core.Millis(r.EndedAt))
		bindWord(st, at+1, r.Reason, reasons)
		st.BindInt64(at+2, int64(r.Code))
		bindText(st, at+3, r.Message)
		bindText(st, at+4, r.Data)
		bindInt(st, at+5, r.Then)
		return nil
	}},
	{[]string{"owes"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		return bindJSON(st, at, r.Owes, len(r.Owes) == 0)
	}},
	{[]string{"kill_by", "kill_at"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		bindText(st, at, r.KillBy)
		bindInt(st, at+1, core.Millis(r.KillAt))
		return nil
	}},
	{[]string{"late"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		return bindJSON(st, at, r.Late, r.Late == nil)
	}},
	{[]string{"at", "slot"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		st.BindInt64(at, int64(r.At))
		st.BindInt64(at+1, int64(r.Slot))
		return nil
	}},
	{[]string{"given"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error { return bindGiven(st, at, r) }},
	{[]string{"app"}, func(tx *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		app, err := tx.s.names.number(tx, r.App)
		st.BindInt64(at, app)
		return err
	}},
	{[]string{"place"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error { bindInt(st, at, r.Place); return nil }},
	{[]string{"given"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error { return bindGiven(st, at, r) }},
	{[]string{"given"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error { return bindGiven(st, at, r) }},
	{[]string{"postrun", "keep_log"}, func(_ *tx, st *sqlite.Stmt, at int, r *core.Run) error {
		bindText(st, at+1, string(r.KeepLog))
		return bindJSON(st, at, r.PostRun, r.PostRun == core.PostRun{})
	}},
}

// putText is the statement of puts that set and compare the same fields.
type putText struct {
	open, had bool
	set, cond core.RunFields
}

func (k putText) String() string {
	var sets, conds []string
	each := func(of core.RunFields, list *[]string, is string) {
		for i := range runFields {
			for _, c := range runFields[i].columns {
				if of&(1<<i) != 0 {
					*list = append(*list, c+is)
				}
			}
		}
	}
	each(k.set, &sets, " = ?")
	each(k.cond, &conds, " IS ?")
	if k.set&core.RunOwner != 0 && k.set&core.RunJournal == 0 {
		sets = append(sets, "jnonce = coalesce(jnonce, owner)") // it was left out as the owner's
	}
	if k.open {
		conds = append(conds, "state <= 3")
	}
	if k.had {
		conds = append(conds, "(owner IS NOT NULL OR maybe)")
	}
	return "UPDATE runs SET " + strings.Join(sets, ", ") + " WHERE " + strings.Join(append(conds, "key = ?"), " AND ")
}

func (s *Store) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	claims := false
	for i := range puts {
		claims = claims || puts[i].Set&(core.RunOwner|core.RunAddress) != 0
	}
	errs := batch(ctx, s, claims, puts, putRuns)
	var unseen []core.RunID
	for i := range puts {
		if errs[i] == nil && puts[i].Ends() && puts[i].Seen == nil {
			unseen = append(unseen, puts[i].ID)
		}
	}
	if len(unseen) == 0 {
		return errs
	}
	found, _, err := s.Runs(ctx, unseen)
	for i := range puts {
		if r, is := found[puts[i].ID]; err == nil && is && errs[i] == nil && puts[i].Seen == nil {
			puts[i].Seen = &r
		}
	}
	return errs
}

func putRuns(tx *tx, puts []core.RunPut, answers []error) error {
	var st *sqlite.Stmt
	var kind putText
	for i := range puts {
		p := &puts[i]
		if k := (putText{p.Open, p.Had, p.Set, p.If}); st == nil || k != kind {
			if kind = k; tx.s.putTexts[k] == "" {
				tx.s.putTexts[k] = k.String()
			}
			var err error
			if st, err = tx.Prepare(tx.s.putTexts[k]); err != nil {
				return err
			}
		}
		at := 1
		for _, side := range [2]struct {
			fields core.RunFields
			r      *core.Run
		}{{p.Set, &p.To}, {p.If, &p.Was}} {
			for n := range runFields {
				if f := &runFields[n]; side.fields&(1<<n) != 0 {
					if err := f.bind(tx, st, at, side.r); err != nil {
						return err
					}
					at += len(f.columns)
				}
			}
		}
		st.BindInt64(at, key(p.ID))
		if err := rows(st, nil); err != nil {
			return err
		}
		if answers[i] = judged(tx.Conn); answers[i] == nil && p.Ends() {
			tx.closed = append(tx.closed, p.ID)
		}
	}
	return nil
}

func (s *Store) RunsByID(ctx context.Context, first, last core.RunID, limit int) (list []core.Run, err error) {
	lo, hi, order := first, last, "id"
	if last < first {
		lo, hi, order = last, first, "id DESC"
	}
	young := s.recent.span(lo, hi) // first: it may enter the history during the read
	err = s.read(ctx, func(c *sqlite.Conn) error {
		st, err := c.Prepare("SELECT " + runColumns + " FROM runs WHERE key = ?")
		if err != nil {
			return err
		}
		for len(list) < limit { // the history may name removed runs
			ids := make([]core.RunID, 0, limit)
			if err := execute(c, "SELECT id FROM history WHERE id BETWEEN ? AND ? ORDER BY "+order+" LIMIT ?", func(st *sqlite.Stmt) {
				st.BindInt64(1, int64(lo))
				st.BindInt64(2, int64(hi))
				st.BindInt64(3, int64(limit))
			}, func(st *sqlite.Stmt) error {
				ids = append(ids, core.RunID(st.ColumnInt64(0)))
				return nil
			}); err != nil {
				return err
			}
			end := len(ids) < limit
			for _, id := range young {
				if lo <= id && id <= hi {
					ids = append(ids, id)
				}
			}
			slices.Sort(ids)
			ids = slices.Compact(ids)
			if last < first {
				slices.Reverse(ids)
			}
			end = end && len(ids) <= limit
			ids = ids[:min(len(ids), limit)]
			for _, id := range ids {
				if len(list) == limit {
					break
				}
				st.BindInt64(1, key(id))
				if err := rows(st, func(st *sqlite.Stmt) error {
					list = append(list, core.Run{})
					return s.scanRun(st, &list[len(list)-1])
				}); err != nil {
					return err
				}
			}
			if end || len(ids) == 0 {
				break
			}
			if last < first {
				hi = ids[len(ids)-1] - 1
			} else {
				lo = ids[len(ids)-1] + 1
			}
		}
		return nil
	})
	return list, err
}

// span is the rows behind lo up to hi.
type span struct{ lo, hi int64 }

// spans returns the rows that were made from one millisecond on and before another, in order. They form one span, or one
// more for each time the clock was set back.
func spans(c *sqlite.Conn, from, to int64) (list []span, err error) {
	var ends []int64
	for _, q := range []string{"SELECT n FROM steps ORDER BY n", "SELECT n FROM runs ORDER BY n DESC LIMIT 1"} {
		if err := execute(c, q, nil, func(st *sqlite.Stmt) error {
			ends = append(ends, st.ColumnInt64(0))
			return nil
		}); err != nil {
			return nil, err
		}
	}
	lo := int64(0)
	if err := execute(c, "SELECT n - 1 FROM runs ORDER BY n LIMIT 1", nil, func(st *sqlite.Stmt) error {
		lo = st.ColumnInt64(0)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, end := range ends {
		first, err := lastBefore(c, span{lo, end}, from)
		if err != nil {
			return nil, err
		}
		last, err := lastBefore(c, span{first, end}, to)
		if err != nil {
			return nil, err
		}
		if last > first {
			list = append(list, span{first, last})
		}
		lo = max(lo, end)
	}
	return list, nil
}

// lastBefore returns the last row of a span, in which times grow, that was made before a millisecond.
func lastBefore(c *sqlite.Conn, in span, before int64) (row int64, err error) {
	lo, hi := in.lo, in.hi
	for lo < hi { // the result is between lo and hi
		mid := lo + (hi-lo+1)/2
		made, at := int64(math.MinInt64), mid
		if err := execute(c, "SELECT n, made FROM runs WHERE n <= ? AND n > ? ORDER BY n DESC LIMIT 1", values(mid, in.lo),
			func(st *sqlite.Stmt) error {
				at, made = st.ColumnInt64(0), st.ColumnInt64(1)
				return nil
			}); err != nil {
			return 0, err
		}
		if made < before {
			lo = mid
		} else {
			hi = min(at, mid) - 1
		}
	}
	return lo, nil
}

func (s *Store) Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) ([]core.Run, error) {
	list, _, err := s.open(ctx, job, below-1, 0, limit, func(r *core.Run) bool { return r.Owner == "" })
	return list, err
}

func (s *Store) OpenRuns(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, core.RunID, error) {
	return s.open(ctx, first.Job(), first, last, limit, func(*core.Run) bool { return true })
}

// open reads the open runs of a job with first >= ID >= last that fit, downward, and returns where to continue; 0 is the
// end.
func (s *Store) open(ctx context.Context, job core.JobID, first, last core.RunID, limit int, fits func(*core.Run) bool) (
	list []core.Run, next core.RunID, err error,
) {
	ids := slices.DeleteFunc(s.recent.openOf(job), func(id core.RunID) bool { return id > first || id < last })
	slices.SortFunc(ids, func(a, b core.RunID) int { return cmp.Compare(b, a) })
	for len(ids) > 0 && len(list) < limit { // some may have ended: read until the page is full or no run is left
		some := ids[:min(len(ids), limit-len(list))]
		ids = ids[len(some):]
		found, _, err := s.Runs(ctx, some)
		if err != nil {
			return nil, 0, err
		}
		for _, id := range some {
			if r, is := found[id]; is && r.State.Open() && fits(&r) {
				list = append(list, r)
			}
		}
	}
	if len(ids) > 0 {
		next = ids[0]
	}
	return list, next, nil
}

func columnBytes(st *sqlite.Stmt, at int) []byte {
	b := make([]byte, st.ColumnLen(at))
	return b[:st.ColumnBytes(at, b)]
}

// sweepSlice is how many runs one step of a sweep reads, and sweepSlices how many steps one call takes.
const (
	sweepSlice  = 1000
	sweepSlices = 50
)

// Sweep implements engine.Maintenance. Age counts from when a record was stored (runs: their end, journals: their minute,
// tombstones: RevAt). One call reads at most 50,000 runs; the next call continues there, and restarts after the end. So a
// call that removes nothing does not mean that nothing is left.
func (s *Store) Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	defer s.dropSlots()
	if err := s.noteSlots(ctx); err != nil {
		return 0, err
	}
	cursor, err := s.Cursor(ctx)
	for i := 0; i < sweepSlices && removed < limit && err == nil; i++ {
		var n int
		more := false
		err = s.write(ctx, false, sweepSlice, func(tx *tx) (err error) {
			n, more, err = s.sweepRuns(tx, now, runs, min(limit-removed, sweepSlice))
			return err
		})
		removed += n
		if !more {
			break
		}
	}
	if removed > 0 && err == nil {
		err = s.write(ctx, false, sweepSlice, func(tx *tx) error { return cmp.Or(s.sweepSteps(tx), s.sweepHistory(tx)) })
	}
	old := core.Millis(now.Add(-journals))
	upTo := min(old/60000-1, cursor) // minute of a journal that may be removed because of its age
	for _, d := range []struct {
		table, where string
		before       any
	}{
		// The watchdog may be reading the cursor's own minute.
		{"records", "kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER) < ?1", cursor},
		{"records", "kind > 'journal#' AND kind <= ?3 AND CAST(name AS INTEGER) <= ?1 AND name NOT IN (SELECT name FROM records " +
			"WHERE kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER) > ?4)", upTo},
		{"records", "expires < ?1", now.Unix()},
		{"records", fmt.Sprintf("kind = ?1 AND name > (SELECT name FROM records WHERE kind = ?1 ORDER BY name LIMIT 1 OFFSET %d)",
			engine.KeepDead-1), engine.KindLetter},
	} {
		if removed >= limit || err != nil {
			break
		}
		bound := []any{d.before, min(limit-removed, sweepSlice), engine.KindJournals(upTo), cursor}
		if !strings.Contains(d.where, "?3") {
			bound = bound[:2]
		}
		err = s.write(ctx, false, sweepSlice, func(tx *tx) error {
			if err := execute(tx.Conn, "DELETE FROM "+d.table+" WHERE rowid IN (SELECT rowid FROM "+d.table+" WHERE "+d.where+" LIMIT ?2)",
				values(bound...), nil); err != nil {
				return err
			}
			n := tx.Changes()
			tx.after = append(tx.after, func() { removed += n })
			return nil
		})
	}
	if removed < limit && err == nil {
		var n int
		n, err = s.sweepJournals(ctx, cursor, limit-removed)
		removed += n
	}
	if removed < limit && err == nil {
		var n int
		n, err = s.sweepTombs(ctx, old, min(limit-removed, sweepSlice))
		removed += n
	}
	if removed > 0 && err == nil { // some pages at a time, so that other writes wait only briefly
		err = s.write(ctx, false, sweepSlice, func(tx *tx) error { return execute(tx.Conn, "PRAGMA incremental_vacuum(500)", nil, nil) })
	}
	return removed, err
}

// sweepRuns reads the next slice of runs and removes expired ones.
func (s *Store) sweepRuns(tx *tx, now time.Time, keep time.Duration, limit int) (removed int, more bool, err error) {
	shortest := keep
	type of struct {
		keep time.Duration
		next core.Instant
		tail core.RunID
	}
	jobs := map[core.JobID]of{}
	jobOf := func(job core.JobID) (of, error) {
		if o, ok := jobs[job]; ok {
			return o, nil
		}
		o := of{keep: core.Keep{}.For()}
		err := execute(tx.Conn, "SELECT keep, next, tail FROM sched WHERE id = ?", func(st *sqlite.Stmt) { st.BindInt64(1, int64(job)) },
			func(st *sqlite.Stmt) error {
				o.keep = core.Keep{Days: st.ColumnInt(0)}.For()
				o.next, o.tail = core.Instant(st.ColumnInt64(1)), core.RunID(st.ColumnInt64(2))
				return nil
			})
		if keep > 0 {
			o.keep = keep
		}
		jobs[job] = o
		return o, err
	}
	if keep <= 0 {
		shortest = 24 * time.Hour
	}
	broadcasts, err := openBroadcasts(tx.Conn)
	if err != nil {
		return 0, false, err
	}
	var gone []int64
	from, seen := s.sweepFrom, 0
	next, young := int64(0), int64(0) // from the start again
	errEnough := errors.New("enough")
	err = execute(tx.Conn, "SELECT n, key, made, state, slot, first, followed, "+owesAny+", ended FROM runs WHERE n > ? ORDER BY n LIMIT ?",
		func(st *sqlite.Stmt) {
			st.BindInt64(1, from)
			st.BindInt64(2, sweepSlice)
		}, func(st *sqlite.Stmt) error {
			if now.Sub(core.FromMillis(st.ColumnInt64(2))) <= shortest {
				young = st.ColumnInt64(0) // as are later rows, up to where the clock was set back
				return errEnough
			}
			if len(gone) >= limit {
				more = true
				return errEnough
			}
			next = st.ColumnInt64(0)
			if seen++; seen == sweepSlice {
				more = true
			}
			if st.ColumnInt64(3) <= running || st.ColumnInt64(7) != 0 {
				return nil
			}
			id := runOf(st.ColumnInt64(1))
			o, err := jobOf(id.Job())
			age, first := now.Sub(core.FromMillis(max(st.ColumnInt64(2), st.ColumnInt64(8)))), cmp.Or(core.RunID(st.ColumnInt64(5)), id)
			if err != nil || age <= o.keep || broadcasts.have(first) || engine.Asks(o.next, o.tail, id, first) ||
				s.onRingAt(core.Instant(st.ColumnInt64(4))) {
				return err
			}
			goesOn, err := chainGoesOn(tx, core.RunID(st.ColumnInt64(6)))
			if err == nil && !goesOn {
				gone = append(gone, next)
			}
			return err
		})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, false, err
	}
	if young > 0 && s.steps > 0 {
		if more, err = nextStep(tx.Conn, young, &next); err != nil {
			return 0, false, err
		}
	}
	if !more {
		next = 0
	}
	for _, n := range gone {
		if err := removeRun(tx, n); err != nil {
			return 0, false, err
		}
	}
	tx.after = append(tx.after, func() { s.sweepFrom = next })
	return len(gone), more, nil
}

// nextStep sets n to the last row, from a row on, before the clock was set back; false if it was not set back.
func nextStep(c *sqlite.Conn, from int64, n *int64) (is bool, err error) {
	err = execute(c, "SELECT n FROM steps WHERE n >= ? ORDER BY n LIMIT 1", values(from), func(st *sqlite.Stmt) error {
		*n, is = st.ColumnInt64(0), true
		return nil
	})
	return is, err
}

// sweepSteps removes the steps before the first remaining row.
func (s *Store) sweepSteps(tx *tx) error {
	if s.steps == 0 {
		return nil
	}
	if err := execute(tx.Conn, "DELETE FROM steps WHERE n < (SELECT min(n) FROM runs)", nil, nil); err != nil {
		return err
	}
	n := tx.Changes()
	tx.after = append(tx.after, func() { s.steps -= n })
	return nil
}

// spreads are the shards of broadcasts, by job and in the order of their IDs.
type spreads map[core.JobID][]core.Shard

// openBroadcasts returns the shards of broadcasts that are open or have a pending follow-up.
func openBroadcasts(c *sqlite.Conn) (spreads, error) {
	of := spreads{}
	err := execute(c, `SELECT key, json_extract(given, '$.shard.first'), json_extract(given, '$.shard.total') FROM runs INDEXED BY runs_broadcast
WHERE given IS NOT NULL AND instr(given, '"first":') > 0 AND (state <= 3 OR owes IS NOT NULL OR place IS NOT NULL)`, nil,
		func(st *sqlite.Stmt) error {
			job := runOf(st.ColumnInt64(0)).Job()
			of[job] = append(of[job], core.Shard{First: core.RunID(st.ColumnInt64(1)), Total: st.ColumnInt(2)})
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read open broadcasts: %w", err)
	}
	for _, list := range of {
		slices.SortFunc(list, func(a, b core.Shard) int { return cmp.Compare(a.First, b.First) })
	}
	return of, nil
}

// have reports whether one of the broadcasts has a shard whose first attempt is this run.
func (of spreads) have(first core.RunID) bool {
	_, is := slices.BinarySearchFunc(of[first.Job()], first, func(s core.Shard, id core.RunID) int {
		switch {
		case id < s.First:
			return 1
		case id >= s.First+core.RunID(s.Total):
			return -1
		}
		return 0
	})
	return is
}

// anyOf reports whether one of some runs is an attempt of a shard of theirs.
func (of spreads) anyOf(c *sqlite.Conn, runs []core.RunID) (is bool, err error) {
	for _, id := range runs {
		if _, numbered := id.Number(); !numbered || of[id.Job()] == nil {
			continue
		}
		if err := execute(c, "SELECT coalesce(first, 0) FROM runs WHERE key = ?", values(key(id)), func(st *sqlite.Stmt) error {
			is = is || of.have(cmp.Or(core.RunID(st.ColumnInt64(0)), id))
			return nil
		}); err != nil || is {
			return is, err
		}
	}
	return false, nil
}

// chainGoesOn reports whether the attempt id or a later one is open or has a pending follow-up.
func chainGoesOn(tx *tx, id core.RunID) (goesOn bool, err error) {
	for id != 0 && !goesOn && err == nil {
		then := core.RunID(0)
		err = execute(tx.Conn, "SELECT state <= 3 OR "+owesAny+", followed FROM runs WHERE key = ?",
			func(st *sqlite.Stmt) { st.BindInt64(1, key(id)) }, func(st *sqlite.Stmt) error {
				goesOn, then = st.ColumnInt64(0) != 0, core.RunID(st.ColumnInt64(1))
				return nil
			})
		id = then
	}
	return goesOn, err
}

// sweepJournals reads the next journals and removes journals that no reader needs any longer. It reads beside the writer.
// The order makes that safe: a journal is stored after the claims of its runs, a closed run has stored its follow-ups, and
// a closed run without follow-ups stays so. A journal that was written again since is kept.
func (s *Store) sweepJournals(ctx context.Context, cursor int64, limit int) (removed int, err error) {
	type row struct {
		store.Key
		v int64
	}
	type candidate struct {
		row
		runs []core.RunID
	}
	again := map[string]bool{} // names of journals that the watchdog reads again
	if err := s.query(ctx, "SELECT name FROM records WHERE kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER) > ?",
		values(cursor), func(st *sqlite.Stmt) error {
			again[st.ColumnText(0)] = true
			return nil
		}); err != nil {
		return 0, fmt.Errorf("read revisits: %w", err)
	}
	var list []candidate
	from, next, seen, entries := s.sweepJournal, store.Key{}, 0, 0
	from.Kind = max(from.Kind, "journal#")
	errEnough := errors.New("enough")
	err = s.query(ctx, "SELECT kind, name, v, body FROM records WHERE (kind, name) > (?, ?) AND kind < 'journal$' ORDER BY kind, name",
		values(from.Kind, from.Name), func(st *sqlite.Stmt) error {
			if len(list) == limit || seen == sweepSlice || entries > 50*sweepSlice {
				next = from
				return errEnough
			}
			from = store.Key{Kind: st.ColumnText(0), Name: st.ColumnText(1)}
			seen++
			j, err := engine.DecodeJournal(&store.Record{Key: from, V: st.ColumnInt64(2), Body: columnBytes(st, 3)})
			if err != nil {
				return nil // its age will remove it
			}
			entries += len(j.Entries)
			if (j.Key.Minute > cursor || again[from.Name]) && j.HasLeft() || s.recent.someOpen(j.Entries) {
				return nil
			}
			x := candidate{row: row{from, int64(j.V) + 1}}
			for _, e := range j.Entries {
				x.runs = append(x.runs, e.Run)
			}
			list = append(list, x)
			return nil
		})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, fmt.Errorf("read journals: %w", err)
	}
	owing := map[core.RunID]bool{}
	if len(list) > 0 {
		if err := s.query(ctx, "SELECT key FROM runs INDEXED BY runs_owes WHERE owes IS NOT NULL "+
			"UNION ALL SELECT key FROM runs INDEXED BY runs_place WHERE "+owesChildren+
			" UNION ALL SELECT key FROM runs INDEXED BY runs_postrun WHERE "+owesPostRun, nil, func(st *sqlite.Stmt) error {
			owing[runOf(st.ColumnInt64(0))] = true
			return nil
		}); err != nil {
			return 0, fmt.Errorf("read runs with pending follow-ups: %w", err)
		}
	}
	var gone []row
	if len(list) > 0 {
		if err := s.read(ctx, func(c *sqlite.Conn) error {
			open, err := openBroadcasts(c)
			for i := 0; i < len(list) && err == nil; i++ {
				is := slices.ContainsFunc(list[i].runs, func(id core.RunID) bool { return owing[id] })
				if !is {
					is, err = open.anyOf(c, list[i].runs)
				}
				if !is {
					gone = append(gone, list[i].row)
				}
			}
			return err
		}); err != nil {
			return 0, fmt.Errorf("read runs of journals: %w", err)
		}
	}
	answers := make([]error, len(gone))
	if len(gone) > 0 {
		if err := s.write(ctx, false, len(gone), func(tx *tx) error {
			return eachRow(tx, "DELETE FROM records WHERE kind = ? AND name = ? AND v = ?", gone, answers, func(st *sqlite.Stmt, r *row) error {
				st.BindText(1, r.Kind)
				st.BindText(2, r.Name)
				st.BindInt64(3, r.v)
				return nil
			})
		}); err != nil {
			return 0, fmt.Errorf("remove journals: %w", err)
		}
	}
	s.sweepJournal = next
	for _, err := range answers {
		if err == nil {
			removed++
		}
	}
	return removed, nil
}

// sweepTombs removes tombstones older than a millisecond that no entry and no run needs. It may read all runs of a job
// once, beside the writer: a deleted job gets new runs only from its existing ones.
func (s *Store) sweepTombs(ctx context.Context, before int64, limit int) (removed int, err error) {
	var old, gone []core.JobID
	if err := s.query(ctx, `SELECT id >> 32 FROM (SELECT CAST(name AS INTEGER) << 32 AS id FROM records WHERE kind = ? AND v < ?)
WHERE NOT EXISTS (SELECT 1 FROM entries WHERE run BETWEEN id AND id + 4294967295)`, values(engine.KindTombstone, before),
		func(st *sqlite.Stmt) error {
			if job := core.JobID(st.ColumnInt64(0)); len(s.recent.openOf(job)) == 0 {
				old = append(old, job)
			}
			return nil
		}); err != nil {
		return 0, err
	}
	named, err := s.jobsOnRing(ctx, len(old) > 0)
	if err != nil {
		return 0, err
	}
	for _, job := range old {
		if len(gone) == limit {
			break
		}
		if named[job] {
			continue
		}
		owes, err := s.owing(ctx, job)
		if err != nil {
			return 0, err
		}
		if !owes {
			gone = append(gone, job)
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	return len(gone), s.write(ctx, false, len(gone), func(tx *tx) error {
		for _, job := range gone { // its runs get no numbers and send no scripts
			for _, d := range []struct {
				where string
				is    any
			}{{"records WHERE kind = '" + engine.KindTombstone + "' AND name", engine.JobName(job)}, {"counters WHERE job", job},
				{"records WHERE kind", engine.ScriptKind(job)}} {
				if err := execute(tx.Conn, "DELETE FROM "+d.where+" = ?", values(d.is), nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// owing reports whether a run of a job has a pending follow-up.
func (s *Store) owing(ctx context.Context, job core.JobID) (owes bool, err error) {
	lo := core.RunID(int64(job) << 32)
	hi := lo + 1<<32 - 1
	young := s.recent.span(lo, hi) // first: it may enter the history during the read
	found := func(*sqlite.Stmt) error {
		owes = true
		return nil
	}
	err = s.read(ctx, func(c *sqlite.Conn) error {
		err := execute(c, "SELECT 1 FROM history JOIN runs ON runs.n = history.n WHERE history.id BETWEEN ? AND ? AND "+owesAny+" LIMIT 1",
			func(st *sqlite.Stmt) {
				st.BindInt64(1, int64(lo))
				st.BindInt64(2, int64(hi))
			}, found)
		for i := 0; i < len(young) && !owes && err == nil; i++ {
			err = execute(c, "SELECT 1 FROM runs WHERE key = ? AND "+owesAny, func(st *sqlite.Stmt) { st.BindInt64(1, key(young[i])) }, found)
		}
		return err
	})
	return owes, err
}

// sweepHistory removes entries of removed runs from the next slice of the history. A full round takes as many calls as the
// history has slices.
func (s *Store) sweepHistory(tx *tx) error {
	from, next, n := s.sweepID, int64(0), 0
	var gone []int64
	if err := execute(tx.Conn, "SELECT id, EXISTS (SELECT 1 FROM runs WHERE runs.n = history.n) FROM history WHERE id > ? ORDER BY id LIMIT ?",
		func(st *sqlite.Stmt) {
			st.BindInt64(1, from)
			st.BindInt64(2, 10*sweepSlice)
		}, func(st *sqlite.Stmt) error {
			if n++; n == 10*sweepSlice {
				next = st.ColumnInt64(0)
			}
			if st.ColumnInt64(1) == 0 {
				gone = append(gone, st.ColumnInt64(0))
			}
			return nil
		}); err != nil {
		return err
	}
	st, err := tx.Prepare("DELETE FROM history WHERE id = ?")
	if err != nil {
		return err
	}
	for _, id := range gone {
		st.BindInt64(1, id)
		if err := rows(st, nil); err != nil {
			return err
		}
	}
	tx.after = append(tx.after, func() { s.sweepID = next })
	return nil
}

// getState reads a number of the state table; 0 if it is missing.
func getState(c *sqlite.Conn, name string) (v int64, err error) {
	err = execute(c, "SELECT value FROM state WHERE name = ?", func(st *sqlite.Stmt) { st.BindText(1, name) }, func(st *sqlite.Stmt) error {
		v = st.ColumnInt64(0)
		return nil
	})
	return v, err
}

func setState(c *sqlite.Conn, name string, v int64) error {
	return execute(c, "INSERT INTO state (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		func(st *sqlite.Stmt) {
			st.BindText(1, name)
			st.BindInt64(2, v)
		}, nil)
}
