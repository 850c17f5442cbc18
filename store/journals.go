package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// KindJournals is the kind of the journals of an hour. A journal has the version of its record, less 1.
func KindJournals(minute int64) string { return "journal#" + strconv.FormatInt(minute/60, 10) }

// JournalName writes a key as "minute.suffix.nonce"; suffixes and nonces sort within their minute.
func JournalName(k core.JournalKey) string {
	return strconv.FormatInt(k.Minute, 10) + "." + fmt.Sprintf("%02d", k.Suffix) + "." + k.Nonce
}

// ParseJournalName returns the key of a name.
func ParseJournalName(name string) (core.JournalKey, error) {
	minute, rest, ok := strings.Cut(name, ".")
	suffix, nonce, ok2 := strings.Cut(rest, ".")
	m, err := strconv.ParseInt(minute, 10, 64)
	n, err2 := strconv.Atoi(suffix)
	if !ok || !ok2 || err != nil || err2 != nil {
		return core.JournalKey{}, fmt.Errorf("%q is no key of a journal", name)
	}
	return core.JournalKey{Minute: m, Suffix: n, Nonce: nonce}, nil
}

// JournalKey identifies the record of a journal.
func JournalKey(k core.JournalKey) Key {
	return Key{Kind: KindJournals(k.Minute), Name: JournalName(k)}
}

// DecodeJournal returns the journal of a record.
func DecodeJournal(r *Record) (j core.Journal, err error) {
	if err = r.Err; err == nil {
		j.Key, err = ParseJournalName(r.Name)
	}
	if err == nil {
		j.Entries, err = core.DecodeEntries(r.Body)
	}
	if j.V = int(r.V - 1); err != nil {
		err = fmt.Errorf("read the journal %s: %w", r.Name, err)
	}
	return j, err
}

func (s *Store) PutJournal(ctx context.Context, j core.Journal) error {
	return s.Write(ctx, Write{Was: Lower, Record: Record{Key: JournalKey(j.Key), V: int64(j.V) + 1,
		Body: core.EncodeEntries(j.Entries), Expires: expires(s.Now(), s.KeepJournals)}})
}

// Journals returns the journals that exist. If one cannot be read, it returns an error and the others.
func (s *Store) Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error) {
	names := each(keys, func(k *core.JournalKey) Key { return JournalKey(*k) })
	records, err := s.Records.Get(ctx, names...)
	found := make(map[core.JournalKey]core.Journal, len(records))
	for i, k := range keys {
		if r, is := records[names[i]]; is {
			j, e := DecodeJournal(&r)
			if err = cmp.Or(err, e); e == nil {
				found[k] = j
			}
		}
	}
	return found, err
}

// JournalsAt reads the journals of a minute after a key, in the order of suffixes and nonces.
func (s *Store) JournalsAt(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.Journal, error) {
	begin := strconv.FormatInt(minute, 10)
	from := begin + "."
	if !after.IsZero() {
		from = JournalName(after)
	}
	return decoded(DecodeJournal)(s.Records.List(ctx, KindJournals(minute), from, begin+"/", limit))
}

// kindRevisits is the kind of the journals that the watchdog reads again at a minute. Such a record is only its name.
func kindRevisits(minute int64) string { return "revisit#" + strconv.FormatInt(minute, 10) }

func (s *Store) PutRevisits(ctx context.Context, minute int64, keys []core.JournalKey) error {
	until := expires(s.Now(), s.KeepJournals)
	if err := s.extendJournals(ctx, minute, keys, until); err != nil {
		return err
	}
	return s.WriteAny(ctx, each(keys, func(k *core.JournalKey) Record {
		return Record{Key: Key{Kind: kindRevisits(minute), Name: JournalName(*k)}, V: 1, Expires: until}
	}), false)
}

// extendJournals extends the life of journals that have less than half of it left at a minute.
func (s *Store) extendJournals(ctx context.Context, minute int64, keys []core.JournalKey, until time.Time) error {
	var old []Key
	for _, k := range keys {
		if s.KeepJournals > 0 && time.Duration(minute-k.Minute)*time.Minute >= s.KeepJournals/2 {
			old = append(old, JournalKey(k))
		}
	}
	if len(old) == 0 {
		return nil
	}
	found, err := s.Records.Get(ctx, old...)
	var groups []Group
	for _, r := range found {
		if err = cmp.Or(err, r.Err); r.Expires.Before(time.Unix(60*minute, 0).Add(s.KeepJournals / 2)) {
			r.Expires = until
			groups = append(groups, Group{Writes: []Write{{Record: r, Was: r.V}}})
		}
	}
	if err != nil {
		return err
	}
	errs := s.Records.Write(ctx, groups...)
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, core.ErrRefused) })...) // written or removed since
}

func (s *Store) Revisits(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.JournalKey, error) {
	from := ""
	if !after.IsZero() {
		from = JournalName(after)
	}
	name := func(r *Record) (core.JournalKey, error) { return ParseJournalName(r.Name) }
	return decoded(name)(s.Records.List(ctx, kindRevisits(minute), from, "", limit))
}

func (s *Store) DropRevisits(ctx context.Context, minute int64) error {
	page, err := s.Records.List(ctx, kindRevisits(minute), "", "", math.MaxInt32)
	if err != nil {
		return err
	}
	return s.WriteAny(ctx, page, true)
}
