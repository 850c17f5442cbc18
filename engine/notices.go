package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tickring/tickring/core/notification"
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
