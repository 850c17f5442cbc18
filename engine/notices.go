package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

var notices = store.Table[notification.State]{Kind: "notice",
	Name:    func(s *notification.State) string { return s.Name },
	Version: func(s *notification.State) int64 { return s.V }}

func (n *Nouns) Notices(ctx context.Context, names []string) (map[string]notification.State, error) {
	values, err := notices.Get(ctx, n.Records, n.Box, names...)
	found := make(map[string]notification.State, len(values))
	for name, v := range values {
		err = cmp.Or(err, v.Err)
		v.Is.Name, v.Is.V = name, v.V
		found[name] = v.Is
	}
	return found, err
}

func (n *Nouns) PutNotices(ctx context.Context, list []notification.State) []error {
	groups := make([]store.Group, len(list))
	for i := range list {
		w, err := notices.Put(n.Box, list[i], list[i].V-1)
		if err != nil {
			return all(err, len(list))
		}
		w.Expires = list[i].Keep()
		groups[i].Writes = []store.Write{w}
	}
	return n.Records.Write(ctx, groups...)
}

// lookKind lists the times at which notifications must be checked. Such a record is only its name.
const lookKind = "look"

func (n *Nouns) writeLooks(ctx context.Context, looks []ring.CheckRequest, drop bool) error {
	records := make([]store.Record, len(looks))
	for i, l := range looks {
		records[i] = store.Record{Key: store.Key{Kind: lookKind, Name: fmt.Sprintf("%010d#%d", l.At, l.Job)}, V: 1}
	}
	return n.writeFree(ctx, records, drop)
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
