package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

func parsed(name string, body []byte) (access.Account, error) {
	a, err := access.Parse(body)
	if err != nil {
		err = fmt.Errorf("read person %q: %w", name, err)
	}
	return a, err
}

// Account implements access.Store.
func (s *Store) Account(ctx context.Context, name string) (a access.Account, found bool, err error) {
	err = s.one(ctx, func() (err error) {
		body, ok := s.people[name]
		if found = ok; ok {
			a, err = parsed(name, body)
		}
		return err
	})
	return a, found, err
}

// ListAccounts implements access.Store, in the order of names.
func (s *Store) ListAccounts(ctx context.Context) (list []access.Account, err error) {
	err = s.one(ctx, func() error {
		for _, name := range slices.Sorted(maps.Keys(s.people)) {
			a, err := parsed(name, s.people[name])
			if err != nil {
				return err
			}
			list = append(list, a)
		}
		return nil
	})
	return list, err
}

// personAt returns an error if the user is not at the seen revision. The caller holds mu.
func (s *Store) personAt(name string, seen int64) error {
	body, ok := s.people[name]
	if !ok {
		if seen != 0 {
			return core.ErrRefused
		}
		return nil
	}
	a, err := parsed(name, body)
	if err == nil && a.Rev != seen {
		err = core.ErrRefused
	}
	return err
}

// PutAccount implements access.Store.
func (s *Store) PutAccount(ctx context.Context, seen int64, a access.Account, c *core.Change) error {
	return s.one(ctx, func() error {
		if err := s.personAt(a.Name, seen); err != nil {
			return err
		}
		s.people[a.Name] = a.JSON()
		if c != nil {
			s.change(*c)
		}
		return nil
	})
}

// DeleteAccount implements access.Store.
func (s *Store) DeleteAccount(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.one(ctx, func() error {
		if _, ok := s.people[name]; !ok {
			return core.ErrRefused
		}
		if err := s.personAt(name, seen); err != nil {
			return err
		}
		delete(s.people, name)
		s.change(c)
		return nil
	})
}
