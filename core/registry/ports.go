package registry

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
)

// Store stores executors.
type Store interface {
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	// PutExecutor stores an executor and replaces one with the same (App, Address).
	PutExecutor(ctx context.Context, e core.Executor) error
	// RemoveExecutor removes the registration of exactly that app and address. If seen is not zero and the stored heartbeat
	// differs, it returns ErrRefused. A missing registration is not an error.
	RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error
	Global(ctx context.Context) (core.Global, error)
}
