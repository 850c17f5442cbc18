package registry

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
)

// A Store stores executors.
type Store interface {
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	// PutExecutor stores an executor. PutExecutor replaces an executor with this app and address.
	PutExecutor(ctx context.Context, e core.Executor) error
	// RemoveExecutor removes the executor with this app and address. A missing executor is not an error. If seen is not zero,
	// the condition is that the stored heartbeat equals seen; otherwise RemoveExecutor returns core.ErrRefused.
	RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error
	Global(ctx context.Context) (core.Global, error)
}
