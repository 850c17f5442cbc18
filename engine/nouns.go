package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/store"
)

// Nouns implements the ports of jobs and of everything that is stored as a record. Each engine embeds it.
type Nouns struct {
	Records  store.Records
	JobStore store.Jobs
	RunStore store.Runs
	Queue    store.Queue
	Box      *secretbox.Box
	Now      func() time.Time
	// Keep returns how long the run records of each job stay; 0 is forever.
	Keep func(ctx context.Context, jobs ...core.JobID) []time.Duration
	// KeepJournals is how long journals and revisits stay; 0: a sweep of the engine removes them.
	KeepJournals time.Duration
}

var (
	channels = store.Sealed(store.Table[core.Channel]{Kind: "channel",
		Name:    func(c *core.Channel) string { return c.Name },
		Version: func(c *core.Channel) int64 { return c.Rev }})
	accounts = store.Table[access.Account]{Kind: "user",
		Name:    func(a *access.Account) string { return a.Name },
		Version: func(a *access.Account) int64 { return a.Rev },
		Encode:  func(a *access.Account) ([]byte, error) { return a.JSON(), nil },
		Decode:  func(r *store.Record) (access.Account, error) { return access.Parse(r.Body) }}
)

// unread returns why a value could not be read.
func unread[T any](t store.Table[T], v *store.Value[T]) error {
	if err := v.Usable(); err != nil {
		return fmt.Errorf("read the %s %q: %w", t.Kind, v.Name, err)
	}
	return nil
}

// readAll reads every value of a table, in the order of names. A value that cannot be used fails the read.
func readAll[T any](ctx context.Context, n *Nouns, t store.Table[T]) (list []T, err error) {
	values, err := t.All(ctx, n.Records, n.Box)
	for i := range values {
		if err == nil {
			err = unread(t, &values[i])
		}
		list = append(list, values[i].Is)
	}
	return list, err
}

// readNamed reads values by name. A value that cannot be used fails the read.
func readNamed[T any](ctx context.Context, n *Nouns, t store.Table[T], names []string) (map[string]T, error) {
	values, err := t.Get(ctx, n.Records, n.Box, names...)
	found := make(map[string]T, len(values))
	for name, v := range values {
		if err == nil {
			err = unread(t, &v)
		}
		found[name] = v.Is
	}
	return found, err
}

// write writes one value and the audit log's entries about it.
func (n *Nouns) write(ctx context.Context, w store.Write, changes ...core.Change) error {
	return n.Records.Write(ctx, store.Group{Writes: []store.Write{w}, Changes: changes})[0]
}

// read reads one record; its version is 0 if it does not exist.
func (n *Nouns) read(ctx context.Context, k store.Key) (store.Record, error) {
	found, err := n.Records.Get(ctx, k)
	r := found[k]
	return r, cmp.Or(err, r.Err)
}

// writeFree writes or deletes records without a condition.
func (n *Nouns) writeFree(ctx context.Context, records []store.Record, drop bool) error {
	groups := make([]store.Group, len(records))
	for i := range records {
		groups[i].Writes = []store.Write{{Record: records[i], Was: store.Any, Delete: drop}}
	}
	return errors.Join(n.Records.Write(ctx, groups...)...)
}

// put writes a value on the condition that the stored version is seen; 0: that none is stored.
func put[T any](ctx context.Context, n *Nouns, t store.Table[T], seen int64, value T, changes ...core.Change) error {
	w, err := t.Put(n.Box, value, seen)
	if err != nil {
		return err
	}
	return n.write(ctx, w, changes...)
}

// putAll writes each value with the condition and the expiry that on returns for it.
func putAll[T any](ctx context.Context, n *Nouns, t store.Table[T], list []T, on func(*T) (was int64, expires time.Time)) []error {
	groups := make([]store.Group, len(list))
	for i := range list {
		was, expires := on(&list[i])
		w, err := t.Put(n.Box, list[i], was)
		if err != nil {
			return slices.Repeat([]error{err}, len(list))
		}
		w.Expires = expires
		groups[i].Writes = []store.Write{w}
	}
	return n.Records.Write(ctx, groups...)
}

func (n *Nouns) Channels(ctx context.Context, names []string) (map[string]core.Channel, error) {
	return readNamed(ctx, n, channels, names)
}

func (n *Nouns) ListChannels(ctx context.Context) ([]core.Channel, error) {
	return readAll(ctx, n, channels)
}

func (n *Nouns) PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error {
	ch.Created, ch.Tested = core.FromMillis(core.Millis(ch.Created)), core.FromMillis(core.Millis(ch.Tested))
	return put(ctx, n, channels, seen, ch, c)
}

func (n *Nouns) DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error {
	return n.write(ctx, channels.Delete(name, seen), c)
}

func (n *Nouns) Account(ctx context.Context, name string) (a access.Account, found bool, err error) {
	values, err := accounts.Get(ctx, n.Records, n.Box, name)
	if err != nil {
		return a, false, err
	}
	v, found := values[name]
	return v.Is, found, unread(accounts, &v)
}

func (n *Nouns) ListAccounts(ctx context.Context) ([]access.Account, error) {
	return readAll(ctx, n, accounts)
}

func (n *Nouns) PutAccount(ctx context.Context, seen int64, a access.Account, c *core.Change) error {
	if c == nil {
		return put(ctx, n, accounts, seen, a)
	}
	return put(ctx, n, accounts, seen, a, *c)
}

func (n *Nouns) DeleteAccount(ctx context.Context, seen int64, name string, c core.Change) error {
	return n.write(ctx, accounts.Delete(name, seen), c)
}

// resealAtOnce is how many records one call of Reseal reads.
const resealAtOnce = 100

// resealing re-encrypts apps, channels, and then jobs. A place is the kind of a record, a slash, and a name or a job ID.
type resealing struct {
	*Nouns
	jobs Definitions
}

// Resealing returns the Secrets of an engine.
func (n *Nouns) Resealing(jobs Definitions) Secrets { return resealing{n, jobs} }

func (r resealing) Reseal(ctx context.Context, from string) (changed int, next string, err error) {
	if from == "" {
		from = "app/"
	}
	kind, place, _ := strings.Cut(from, "/")
	then := "" // kind after this one
	switch kind {
	case "app":
		changed, next, err = store.Reseal(ctx, apps, r.Records, r.Box, place, resealAtOnce)
		then = "channel/"
	case "channel":
		changed, next, err = store.Reseal(ctx, channels, r.Records, r.Box, place, resealAtOnce)
		then = "job/"
	case "job":
		changed, next, err = r.resealJobs(ctx, r.jobs, place)
	default:
		err = core.Invalid("after", from, "expected the value of next from the previous part")
	}
	if next != "" {
		return changed, kind + "/" + next, err
	}
	return changed, then, err
}
