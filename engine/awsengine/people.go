package awsengine

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

// personOf lists the users, one item each.
const personOf = "person"

func decodeAccount(it item) (access.Account, error) {
	a, err := access.Parse([]byte(stringOf(it, "body")))
	if err != nil {
		return a, fmt.Errorf("read user %q: %w", stringOf(it, "key"), err)
	}
	return a, nil
}

func (s *Store) Account(ctx context.Context, name string) (a access.Account, found bool, err error) {
	err = s.getAll(ctx, s.o.Names.State, []item{stateKey(personOf, name)}, func(it item) (err error) {
		a, err = decodeAccount(it)
		found = true
		return err
	})
	return a, found, err
}

func (s *Store) ListAccounts(ctx context.Context) (list []access.Account, err error) {
	err = s.all(ctx, personOf, func(it item) error {
		a, err := decodeAccount(it)
		list = append(list, a)
		return err
	})
	return list, err
}

func (s *Store) PutAccount(ctx context.Context, seen int64, a access.Account, c *core.Change) error {
	it := stateKey(personOf, a.Name)
	it["rev"], it["body"] = number(a.Rev), text(string(a.JSON()))
	put := was("rev", seen).put(s.o.Names.State, it)
	if c == nil {
		return s.transact(ctx, []types.TransactWriteItem{put})
	}
	return s.transact(ctx, append(s.changeActions(c), put))
}

func (s *Store) DeleteAccount(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.transact(ctx, append(s.changeActions(&c), was("rev", seen).delete(s.o.Names.State, stateKey(personOf, name))))
}
