package manage_test

import (
	"testing"

	"github.com/tickring/tickring/internal/testkit/story"
)

// TestSaves: a change is a later revision, and plans the runs that are due soon.
func TestSaves(t *testing.T) {
	story.Play(t, map[string]string{
		// A revision is later than the one before, even if the clock stands still.
		"revisions":       "save sweep every=10s; save sweep every=10s; save sweep every=10s params=day",
		"planned at once": "save sweep every=1s",
		"no caller":       "by; save b every=1m; by run 858; save b every=1m", // reserved for a run that replaces another
		// An edit, and a pause and resume, of a fixed delay keep its open chain. Its run is sent again with its ID under the new
		// revision, unless it is on its way.
		"fixed delay": `save poll delay=1s; +1s; save poll delay=1s params=x; pause shop/poll; +1m; resume shop/poll
			run 1@1s running fixeddelay; save poll delay=1s params=y`,
	}, newStage)
}

// TestPauses: a pause ends at its time, and what passed is not run.
func TestPauses(t *testing.T) {
	story.Play(t, map[string]string{
		"of a job": `save sweep every=10s; pause shop/sweep until=+1h why=db; pause shop/sweep until=+1h why=db; pause shop/sweep; +30m
			resume shop/sweep; resume shop/sweep`,
		"rejected": "job sweep every=10s; pause; pause shop/sweep until=0s; pause shop/none; pause shop/sweep why=$long",
		// A pause ends before the job's last change. Its end does not set the revision back, so runs expected before that change
		// stay decided.
		"ended by a clock set back": "save sweep every=1m; -1h; pause shop/sweep until=-50m; +15m; resume shop/sweep",
	}, newStage)
}

// TestDeletions: a deleted object is gone, and its waiting triggers are skipped.
func TestDeletions(t *testing.T) {
	const jobs = "app old set=ours; job a every=1h set=ours; job b every=1h set=ours; job c every=1h set=theirs; "
	story.Play(t, map[string]string{
		"prune": jobs + `trigger shop/b; permits row/2 limit=100 holders=1@1s:0s; prune ours shop/a dryrun; prune ours shop/a
			remove-app shop; remove a; remove a; prune`,
	}, newStage)
}

// TestDeclarations: code creates and changes its declared job. It never overrides a user's change or deletion of any age, since
// the state does not depend on change records.
func TestDeclarations(t *testing.T) {
	const taken = "declared clean every=1h params=one; save clean every=2h params=one; "
	story.Play(t, map[string]string{
		"code's own": "declare clean every=1h params=one; declare clean every=1h params=one; declare clean every=1h params=two",
		// A pause is not a change, and neither is saving an equal job. A new schedule alone is one.
		"equal": `declared clean every=1h params=one; pause shop/clean; save clean every=1h params=one; declare clean every=1h params=two
			save clean every=2h params=two; declare clean every=1h params=three`,
		"given back": taken + "declare clean every=1h params=two; give-back clean; give-back clean; declare clean every=1h params=two",
		// A deleted job stays deleted, also if a user changed it before, or created and deleted a job with this name.
		"deleted": taken + `remove clean; declare clean every=1h; save clean every=2h; declare clean every=1h; remove clean; declare clean every=1h
			app title=The_shop; declare clean every=1h; give-back clean; declare clean every=1h`,
		// Code declares no more jobs of an app than the maximum. Jobs of users do not count, and a deleted job makes room.
		"maximum": `save hers every=1h; declare a every=1h mostdeclared=2; declare b every=1h mostdeclared=2
			declare c every=1h mostdeclared=2; declare d every=1h; by code-of-shop; remove a; remove b; +1m
			declare e every=1h mostdeclared=2; declare f every=1h mostdeclared=2`,
		// A user's job is given to code on request; a job of a manifest is not. The deletion of a job that no code declared is not
		// suppressed.
		"a user's": `save clean every=1m; declare clean every=1h; give-back clean; declare clean every=1h; save other every=1m; remove other
			give-back other; save listed every=1m set=prod; give-back listed`,
	}, newStage)
}
