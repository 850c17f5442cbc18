package operate

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
)

// Reports returns the progress of the reports.
type Reports interface {
	// Counted returns a time. Runs that ended earlier are finally counted in the reports.
	Counted(ctx context.Context) (core.Instant, error)
}

// A Finisher ends runs that were not sent. *finish.Finish implements it.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
	// SkipShards records shards of a broadcast that no dispatcher has claimed as cancelled.
	SkipShards(ctx context.Context, whole *core.Run, ids []core.RunID, message string) error
	// Mend closes a broadcast if all its shards have ended.
	Mend(ctx context.Context, whole *core.Run) error
}

// A Killer asks executors to end runs.
type Killer interface {
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
}
