package report

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

const (
	// groupJobs is the number of jobs whose rows of an hour or a day are stored together. The records of a job are then
	// consecutive, and short enough to be read for each hour of a month.
	groupJobs = 16
	// mostOpen limits the open runs of a job and hour that are checked again; further ones are only counted as open.
	mostOpen = 10_000
	// writesAtOnce is how many records one write has.
	writesAtOnce = 25
)

// sheet is the rows of a list that begin at one time. A sheet is stored as one record, which is written and removed
// independently.
type sheet struct {
	list string
	at   core.Instant
	Rows []Row    `json:",omitempty"` // by job and app
	Jobs []string `json:",omitempty"` // in a list of all: the lists of jobs with rows
	// To is the end of the day, in a list of all. It remains if the zone of the reports changes.
	To core.Instant `json:",omitempty"`
}

// settle counts the ends of open runs. Runs that do not exist are not counted, and runs that could not be read stay open.
func (s *sheet) settle(found map[core.RunID]store.Got[*core.Run]) (changed bool) {
	for i := range s.Rows {
		r := &s.Rows[i]
		r.Unsettled = slices.DeleteFunc(r.Unsettled, func(id core.RunID) bool {
			run, is := found[id]
			if is && (run.Err != nil || run.Is.State.Open()) {
				return false
			}
			changed = true
			if r.Open--; is {
				r.count(run.Is)
			}
			return true
		})
	}
	return changed
}

func (s *sheet) key() store.Key { return store.Key{Kind: recordKind(s.list), Name: recordName(s.at)} }

func recordKind(list string) string { return "report#" + list }

func recordName(at core.Instant) string { return fmt.Sprintf("%010d", max(at, 0)) }

// read reads the sheets of a list at or after from and before to, by time.
func (r *Reports) read(ctx context.Context, list string, from, to core.Instant) ([]sheet, error) {
	page, err := r.s.Records.List(ctx, recordKind(list), recordName(from-1), recordName(to), math.MaxInt32)
	sheets := make([]sheet, len(page))
	for i := range page {
		at, bad := strconv.ParseInt(page[i].Name, 10, 64)
		if bad == nil {
			bad = sheets[i].decode(page[i].Body)
		}
		if bad != nil {
			return nil, fmt.Errorf("read the report %s at %s: %w", list, page[i].Name, bad)
		}
		s := &sheets[i]
		s.list, s.at = list, core.Instant(at)
		for k := range s.Rows {
			s.Rows[k].At = s.at
		}
	}
	return sheets, err
}

// jobs returns the lists of jobs that have rows in a span.
func (r *Reports) jobs(ctx context.Context, form string, from, to core.Instant) (lists []string, err error) {
	all, err := r.read(ctx, form+ofAll, from, to)
	for _, s := range all {
		lists = append(lists, s.Jobs...)
	}
	slices.Sort(lists)
	return slices.Compact(lists), err
}

// each calls do for the sheets of some lists in a span. It reads only some lists at a time, which saves memory.
func (r *Reports) each(ctx context.Context, form string, lists []string, from, to core.Instant, do func(*sheet) error) error {
	for some := range slices.Chunk(lists, writesAtOnce) {
		found, errs := make([][]sheet, len(some)), make([]error, len(some))
		store.AtOnce(len(some), func(i int) { found[i], errs[i] = r.read(ctx, form+some[i], from, to) })
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for _, s := range slices.Concat(found...) {
			if err := do(&s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reports) write(ctx context.Context, sheets ...sheet) error {
	for some := range slices.Chunk(sheets, writesAtOnce) {
		records := make([]store.Record, len(some))
		for i := range some {
			body, err := some[i].encode()
			if err != nil {
				return err
			}
			records[i] = store.Record{Key: some[i].key(), V: 1, Body: body}
			if strings.HasPrefix(some[i].list, hours) {
				records[i].Expires = r.expiry(some[i].at)
			}
		}
		if err := r.s.WriteAny(ctx, records, false); err != nil {
			return err
		}
	}
	return nil
}

// mostRaw limits the bytes of a sheet, so that damaged data takes no memory.
const mostRaw = 64 << 20

// writers are reused, because a new one takes 600 KB.
var writers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.DefaultCompression) // this level is valid
	return w
}}

// encode returns the stored form of a sheet: JSON, compressed.
func (s *sheet) encode() ([]byte, error) {
	var out bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&out)
	err := errors.Join(json.NewEncoder(w).Encode(s), w.Close())
	return out.Bytes(), err
}

func (s *sheet) decode(body []byte) error {
	return json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(body)), mostRaw)).Decode(s)
}
