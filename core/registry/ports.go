package registry

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
)

// Store is what registration reads and writes.
type Store interface {
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	// PutExecutor stores one; the same (App, Address) is replaced.
	PutExecutor(ctx context.Context, e core.Executor) error
	// RemoveExecutor removes exactly that (app, address), whatever its beat is if
	// seen is zero, and otherwise only if it is still that one: ErrRefused if not.
	// Not there is well.
	RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error
	Global(ctx context.Context) (core.Global, error)
}
