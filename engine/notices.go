package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// keepNotices is how long a state stays at least after its last write. After it expired, its version begins at 1 again.
const keepNotices = 48 * time.Hour

var notices = store.Table[notification.State]{Kind: "notice",
	Name:    func(s *notification.State) string { return s.Name },
	Version: func(s *notification.State) int64 { return s.V },
	Decode: func(r *store.Record) (v notification.State, err error) {
		err = json.Unmarshal(r.Body, &v)
		v.Name, v.V = r.Name, r.V
		return v, err
	}}

func (n *Nouns) Notices(ctx context.Context, names []string) (map[string]notification.State, error) {
	return notices.Read(ctx, n.Store, names...)
}

func (n *Nouns) PutNotices(ctx context.Context, list []notification.State) []error {
	return notices.SaveAll(ctx, n.Store, list, func(s *notification.State) (was int64, expires time.Time) {
		if expires = s.Keep(); !expires.IsZero() && expires.Before(n.Now().Add(keepNotices)) {
			expires = n.Now().Add(keepNotices)
		}
		return s.V - 1, expires
	})
}

// lookKind lists the times at which notifications must be checked. Such a record is only its name.
const lookKind = "look"

func (n *Nouns) writeLooks(ctx context.Context, looks []ring.CheckRequest, drop bool) error {
	records := make([]store.Record, len(looks))
	for i, l := range looks {
		records[i] = store.Record{Key: store.Key{Kind: lookKind, Name: fmt.Sprintf("%010d#%d", l.At, l.Job)}, V: 1}
	}
	return n.WriteAny(ctx, records, drop)
}

func (n *Nouns) PutLooks(ctx context.Context, looks []ring.CheckRequest) error {
	return n.writeLooks(ctx, looks, false)
}

func (n *Nouns) DropLooks(ctx context.Context, looks []ring.CheckRequest) error {
	return n.writeLooks(ctx, looks, true)
}

func (n *Nouns) DueLooks(ctx context.Context, upTo core.Instant, limit int) ([]ring.CheckRequest, error) {
	page, err := n.Records.List(ctx, lookKind, "", fmt.Sprintf("%010d", upTo+1), limit)
	list := make([]ring.CheckRequest, len(page))
	for i := range page {
		if _, bad := fmt.Sscanf(page[i].Name, "%d#%d", &list[i].At, &list[i].Job); bad != nil {
			return nil, fmt.Errorf("read the time of a check from %q: %w", page[i].Name, bad)
		}
	}
	return list, err
}
