package awsengine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// resealAtOnce is how many records one call reads.
const resealAtOnce = 100

// Reseal implements engine.Secrets. A place is a list and a key in it. Reseal skips a record that changes at the same
// time: its writer encrypts it with the newest key.
func (s *Store) Reseal(ctx context.Context, from string) (changed int, next string, err error) {
	lists := map[string]string{"app": "jobs/", "jobs": ""}
	if from == "" {
		from = "app/"
	}
	of, after, _ := strings.Cut(from, "/")
	next, is := lists[of]
	if !is {
		return 0, "", core.Invalid("after", from, "expected the value of next from the previous part")
	}
	e := equal("of", text(of))
	if after != "" {
		e.test("key", ">", text(after))
	}
	in := e.query(s.o.Names.State)
	in.Limit = aws.Int32(resealAtOnce)
	var items []item
	if err := s.query(ctx, in, func(it item) (bool, error) {
		items = append(items, it)
		return len(items) < resealAtOnce, nil
	}); err != nil {
		return 0, "", err
	}
	if len(items) == resealAtOnce {
		next = of + "/" + stringOf(items[len(items)-1], "key")
	}
	if of == "jobs" {
		if items, err = s.defItems(ctx, items); err != nil {
			return 0, "", err
		}
	}
	changes, errs := make([]bool, len(items)), make([]error, len(items))
	s.parallel(len(items), func(i int) {
		switch of {
		case "app":
			changes[i], errs[i] = reseal(ctx, s, s.o.Names.State, items[i], decodeApp,
				func(a core.App) (string, string) { return "body", stringOf(encodeApp(&a), "body") })
		default:
			changes[i], errs[i] = reseal(ctx, s, s.o.Names.Jobs, items[i],
				func(it item) (core.Def, error) { return decodeDef(stringOf(it, "def")) },
				func(d core.Def) (string, string) { return "def", jsonText(&d) })
		}
	})
	for _, is := range changes {
		if is {
			changed++
		}
	}
	return changed, next, errors.Join(errs...)
}

// Blank reports whether there is no app, and so no job, and no channel: then no secret is stored.
func (s *Store) Blank(ctx context.Context) (bool, error) {
	blank := true
	for _, of := range []string{"app", "channel"} {
		e := equal("of", text(of))
		in := e.query(s.o.Names.State)
		in.Limit = aws.Int32(1)
		err := s.query(ctx, in, func(item) (bool, error) {
			blank = false
			return false, nil
		})
		if err != nil || !blank {
			return false, err
		}
	}
	return true, nil
}

// defItems reads the definitions of jobs by their places in the list.
func (s *Store) defItems(ctx context.Context, listed []item) (items []item, err error) {
	keys := make([]item, len(listed))
	for i, it := range listed {
		id, err := jobOf(stringOf(it, "key"))
		if err != nil {
			return nil, err
		}
		keys[i] = defKey(id)
	}
	err = s.getAll(ctx, s.o.Names.Jobs, keys, func(it item) error {
		items = append(items, it)
		return nil
	})
	return items, err
}

// reseal writes an item with its secrets encrypted by the newest key, if it has not changed since it was read.
func reseal[T secretbox.Record[T]](ctx context.Context, s *Store, table string, it item, decode func(item) (T, error),
	encode func(T) (attribute, body string)) (bool, error) {
	r, err := decode(it)
	if err != nil { // damaged: other commands report it
		return false, nil
	}
	r, differs, err := secretbox.Reseal(s.o.Secrets, r)
	if err != nil || !differs {
		return false, err
	}
	attribute, body := encode(r)
	e := equal(attribute, it[attribute])
	e.set(attribute, text(body))
	key := stateKey(stringOf(it, "of"), stringOf(it, "key"))
	if table == s.o.Names.Jobs {
		key = item{"id": it["id"], "part": it["part"]}
	}
	if _, err = s.db.UpdateItem(ctx, e.alone(table, key)); err != nil {
		if err = answer("table "+table, err); errors.Is(err, core.ErrRefused) {
			return false, nil
		}
		return false, fmt.Errorf("write a record with its secrets: %w", err)
	}
	return true, nil
}
