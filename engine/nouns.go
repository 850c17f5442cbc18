package engine

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/store"
)

// Nouns implements the ports of use cases that do not take a *store.Store yet.
type Nouns struct{ *store.Store }

var accounts = store.Table[access.Account]{Kind: "user",
	Name:    func(a *access.Account) string { return a.Name },
	Version: func(a *access.Account) int64 { return a.Rev },
	Encode:  func(a *access.Account) ([]byte, error) { return a.JSON(), nil },
	Decode:  func(r *store.Record) (access.Account, error) { return access.Parse(r.Body) }}

func (n *Nouns) Account(ctx context.Context, name string) (a access.Account, found bool, err error) {
	values, err := accounts.Get(ctx, n.Store, name)
	if err != nil {
		return a, false, err
	}
	v, found := values[name]
	return v.Is, found, v.Usable()
}

func (n *Nouns) ListAccounts(ctx context.Context) ([]access.Account, error) {
	return accounts.ReadAll(ctx, n.Store)
}

func (n *Nouns) PutAccount(ctx context.Context, seen int64, a access.Account, c *core.Change) error {
	if c == nil {
		return accounts.Save(ctx, n.Store, seen, a)
	}
	return accounts.Save(ctx, n.Store, seen, a, *c)
}

func (n *Nouns) DeleteAccount(ctx context.Context, seen int64, name string, c core.Change) error {
	return n.Write(ctx, accounts.Delete(name, seen), c)
}
