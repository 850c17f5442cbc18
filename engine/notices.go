package engine

import (
	"cmp"
	"context"

	"github.com/tickring/tickring/core/notification"
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
