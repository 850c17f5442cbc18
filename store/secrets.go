package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// JobDefs is the table of the definitions of jobs in an engine that stores them as records. The engine sets their versions.
var JobDefs = Sealed(Table[core.Def]{Kind: "def", Spread: true,
	Name:    func(d *core.Def) string { return d.ID.String() },
	Version: func(*core.Def) int64 { return 0 },
	Decode: func(r *Record) (d core.Def, err error) {
		if err = json.Unmarshal(r.Body, &d); err != nil {
			err = fmt.Errorf("read a job's definition: %w", err)
		}
		return d, err
	}})

// Blank reports whether the store has no app (and so no job) and no channel, and thus no secret.
func (s *Store) Blank(ctx context.Context) (bool, error) {
	for _, kind := range []string{apps.Kind, channels.Kind} {
		if found, err := s.Records.List(ctx, kind, "", "", 1); err != nil || len(found) > 0 {
			return false, err
		}
	}
	return true, nil
}

// Definitions are the stored definitions of jobs, with their secrets encrypted. Jobs.Put cannot encrypt them again: an
// update also replaces the planning data, which a core.Advance can change between the read and the write.
type Definitions interface {
	// ListDefinitions reads the definitions of the next jobs after a job. next is the job to continue after; 0 means the end.
	ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []Record, next core.JobID, err error)
	// Replace replaces each definition on the condition that it is unchanged.
	Replace(ctx context.Context, list []Replacement) []error
}

// Replacement is a stored record, and the record that replaces it.
type Replacement struct{ Old, New Record }

// Replace replaces each record on the condition that the stored one has the version of the old one.
func (s *Store) Replace(ctx context.Context, list []Replacement) []error {
	groups := each(list, func(r *Replacement) Group { return Group{Writes: []Write{{Record: r.New, Was: r.Old.V}}} })
	return s.Records.Write(ctx, groups...)
}

// reseal encrypts the secrets of records with the newest key, and returns how many it changed. A record that another writer
// changes at the same time is skipped: that writer uses the newest key.
func reseal[T secretbox.Record[T]](s *Store, t Table[T], page []Record, replace func([]Replacement) []error) (changed int, err error) {
	t.Seal, t.Open = nil, nil
	var list []Replacement
	for i := range page {
		v := t.Value(&page[i], s.Box)
		if v.Err != nil { // damaged: other commands report it
			continue
		}
		resealed, differs, err := secretbox.Reseal(s.Box, v.Is)
		if err != nil {
			return 0, err
		}
		if differs {
			w, err := t.Put(s.Box, resealed, v.V)
			if err != nil {
				return 0, err
			}
			now := page[i]
			now.Body = w.Body
			list = append(list, Replacement{page[i], now})
		}
	}
	for _, err := range replace(list) {
		switch {
		case err == nil:
			changed++
		case !errors.Is(err, core.ErrRefused):
			return changed, fmt.Errorf("write a record of kind %s with its secrets: %w", t.Kind, err)
		}
	}
	return changed, nil
}

// resealTable encrypts the secrets of the next values after a name. It returns the name to continue after; empty is the end.
func resealTable[T secretbox.Record[T]](ctx context.Context, s *Store, t Table[T], after string) (changed int, next string, err error) {
	page, err := s.Records.List(ctx, t.Kind, after, "", resealAtOnce)
	if err != nil {
		return 0, "", err
	}
	changed, err = reseal(s, t, page, func(list []Replacement) []error { return s.Replace(ctx, list) })
	if len(page) == resealAtOnce {
		next = page[len(page)-1].Name
	}
	return changed, next, err
}

// resealJobs encrypts the secrets of the next jobs.
func (s *Store) resealJobs(ctx context.Context, place string) (changed int, next string, err error) {
	var after core.JobID
	if place != "" {
		if _, err := fmt.Sscanf(place, "%d", &after); err != nil {
			return 0, "", core.Invalid("after", place, "expected the value of next from the previous part")
		}
	}
	page, behind, err := s.Defs.ListDefinitions(ctx, after, resealAtOnce)
	if err != nil {
		return 0, "", err
	}
	changed, err = reseal(s, JobDefs, page, func(list []Replacement) []error { return s.Defs.Replace(ctx, list) })
	if behind != 0 {
		next = behind.String()
	}
	return changed, next, err
}

// resealAtOnce is how many records one call of Reseal reads.
const resealAtOnce = 100

// Reseal encrypts secrets that use an older key with the newest key: of apps, channels, and then jobs. It starts at a place (empty:
// the first), which is the kind of a record, a slash, and a name or a job ID. It returns how many records it changed and the place to
// continue at; empty is the end.
func (s *Store) Reseal(ctx context.Context, from string) (changed int, next string, err error) {
	kind, place, _ := strings.Cut(cmp.Or(from, "app/"), "/")
	switch kind {
	case "app":
		changed, next, err = resealTable(ctx, s, apps, place)
	case "channel":
		changed, next, err = resealTable(ctx, s, channels, place)
	case "job":
		changed, next, err = s.resealJobs(ctx, place)
	default:
		err = core.Invalid("after", from, "expected the value of next from the previous part")
	}
	if next != "" {
		return changed, kind + "/" + next, err
	}
	return changed, map[string]string{"app": "channel/", "channel": "job/"}[kind], err
}
