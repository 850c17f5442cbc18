package sim

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// says records the retry result of a handler that failed, in seconds. A handler that had a run twice may give two.
func (t *truth) says(id core.RunID, word int64) {
	t.mu.Lock()
	t.words[id] = append(t.words[id], word)
	t.mu.Unlock()
}

// heeded asserts that retries follow the handlers' results, and only them.
func (w *World) heeded(r *core.Run, byID map[core.RunID]*core.Run) {
	t := w.truth
	words := t.words[r.ID]
	said := func(is func(int64) bool) bool { return slices.ContainsFunc(words, is) }
	switch r.Reason {
	case core.ReasonCancelled:
		w.count("the handler cancelled the run", 1)
		if r.Then != 0 || !said(func(n int64) bool { return n < 0 }) {
			t.fail(r.ID, "run %d is failed: %s, followed by %d, and its handler reported %v", r.ID, r.Reason, r.Then, words)
		}
	case core.ReasonSnoozed:
		w.count("snoozed", 1)
		next := byID[r.Then]
		if next == nil {
			t.fail(r.ID, "run %d snoozes, and nothing follows", r.ID)
			return
		}
		// A clock that is set or drifts between the report and its close is in the one and not in the other.
		if !w.cfg.Machine && !w.cfg.Skew && !said(func(n int64) bool {
			return n > 0 && !next.Slot.Time().Before(r.EndedAt.Add(time.Duration(n)*time.Second))
		}) {
			t.fail(r.ID, "run %d ended at %s and its handler reported %v, its next attempt is due at %s", r.ID, r.EndedAt, words, next.Slot)
		}
	case core.ReasonHandler:
		if len(words) > 0 && !said(func(n int64) bool { return n == 0 }) && r.Attempt+r.Retries <= core.MaxRetries {
			t.fail(r.ID, "run %d is failed: %s, and its handler reported %v", r.ID, r.Reason, words)
		}
	}
}
