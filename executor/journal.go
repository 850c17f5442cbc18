package executor

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/wire"
)

// A journal keeps on disk the accepted runs that have not ended, and the results that no server took.
//
// It is a sequence of files journal-<n>. Each begins with everything that was open when the file was created, so that
// earlier files can be deleted. A record is its length, its checksum, its kind and its payload. One goroutine writes;
// records that arrive during a write go with the next one.
type journal struct {
	dir    string // empty: the journal keeps nothing
	nosync bool
	log    *slog.Logger
	past   func() []remembered // the IDs to reject, for the head of a file
	most   int64               // size at which a new file starts, if half of the current one is new

	kick chan struct{} // write now
	soon chan struct{} // write within gather
	quit chan struct{}
	done chan struct{}
	lock *os.File

	mu    sync.Mutex
	buf   []byte
	next  *flush
	live  map[int64]*entry
	unrep int   // results in live
	bytes int64 // of these
	came  int64 // number of entries so far

	// Only the writer uses these.
	f      *os.File
	size   int64
	head   int64 // bytes of size that the file was created with
	seq    int64
	spare  []byte
	failed error
	tried  time.Time
}

// An entry is a run that is open, or with a result that no server has.
type entry struct {
	run    *incoming          // nil once there is a result
	result *wire.CallbackItem // nil while the run is open
	at     int64              // of the result, ms
	order  int64
	// It came by Submit: without servers only the caller of Submit needs its result.
	submitted bool
}

// A flush is one write to disk. err may be read once done is closed.
type flush struct {
	done chan struct{}
	err  error
}

// A remembered run has ended; At is when, in ms.
type remembered struct {
	ID, At int64
}

// found is the content of a journal when it was opened.
type found struct {
	open    []*incoming
	results []wire.CallbackItem
	past    []remembered
}

const (
	recAccept = 'A' // a run
	recSubmit = 'S' // a run that was submitted
	recGroup  = 'G' // a program that a run has started
	recEnd    = 'E' // a result
	recTaken  = 'D' // IDs whose results a server took
	recPast   = 'P' // IDs that ended, each with its time
)

// endRecord is the record of a result.
type endRecord struct {
	wire.CallbackItem
	At int64
}

// openJournal reads the files in dir and starts the writer. An error means that another process uses the directory. An
// unusable directory is not an error: the journal rejects records until it can store them.
func openJournal(dir string, nosync bool, most int64, log *slog.Logger) (*journal, found, error) {
	j := &journal{dir: dir, nosync: nosync, most: most, log: log,
		kick: make(chan struct{}, 1), soon: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		next: &flush{done: make(chan struct{})}, live: map[int64]*entry{}, past: func() []remembered { return nil }}
	var was found
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err == nil {
			f, err := lockFolder(filepath.Join(dir, "lock"))
			if errors.Is(err, errLocked) {
				return nil, was, fmt.Errorf("lock journal %s: %w", dir, err)
			}
			j.lock = f
		}
		was.past = j.replay()
		for _, e := range j.sorted() {
			if e.run != nil {
				was.open = append(was.open, e.run)
			} else {
				was.results = append(was.results, *e.result)
			}
		}
	}
	return j, was, nil
}

// forgetSubmitted removes submitted runs from the journal and from was: they are submitted again, and no server takes
// their results. Call it before start.
func (j *journal) forgetSubmitted(was *found) {
	theirs := map[int64]bool{}
	for id, e := range j.live {
		if e.submitted {
			theirs[id] = true
			j.forget(id)
		}
	}
	was.open = slices.DeleteFunc(was.open, func(run *incoming) bool { return theirs[run.LogID] })
	was.results = slices.DeleteFunc(was.results, func(it wire.CallbackItem) bool { return theirs[it.LogID] })
}

// start starts the writer. past returns the IDs to keep.
func (j *journal) start(past func() []remembered) {
	j.past = past
	if j.dir != "" {
		if err := j.store(nil); err != nil {
			j.log.Error("journal not writable: runs are rejected until a write succeeds", "folder", j.dir, "error", err)
		}
	}
	go j.loop()
}

func (j *journal) loop() {
	defer close(j.done)
	var gathered <-chan time.Time // nil: nothing gathers
	for {
		var retry <-chan time.Time
		if j.failed != nil {
			retry = time.After(time.Second)
		}
		select {
		case <-j.kick:
			j.write()
			gathered = nil
		case <-j.soon:
			if gathered == nil {
				gathered = time.After(gather)
			}
		case <-gathered:
			j.write()
			gathered = nil
		case <-retry:
			j.write()
		case <-j.quit:
			j.write()
			if j.f != nil {
				j.f.Close()
			}
			if j.lock != nil {
				unlockFolder(j.lock)
			}
			return
		}
	}
}

func (j *journal) close() {
	close(j.quit)
	<-j.done
}

func (j *journal) write() {
	j.mu.Lock()
	buf, b := j.buf, j.next
	j.buf, j.next = j.spare[:0], &flush{done: make(chan struct{})}
	j.mu.Unlock()
	if j.dir != "" {
		b.err = j.store(buf)
	}
	if j.spare = buf; cap(buf) > 4<<20 {
		j.spare = nil
	}
	close(b.done)
}

// store writes buf, or a new file that holds its effect already.
func (j *journal) store(buf []byte) error {
	if j.failed != nil && time.Since(j.tried) < time.Second/2 {
		return j.failed
	}
	err := j.tryStore(buf)
	switch {
	case err != nil && j.failed == nil:
		j.log.Error("journal not writable", "folder", j.dir, "error", err)
	case err == nil && j.failed != nil:
		j.log.Info("journal writable again", "folder", j.dir)
	}
	if j.failed, j.tried = err, time.Now(); err != nil && j.f != nil {
		// Remove as much as possible of a partial write; the next attempt starts a new file.
		_ = j.f.Truncate(j.size)
		j.f.Close()
		j.f = nil
	}
	return err
}

func (j *journal) tryStore(buf []byte) error {
	// The head of a file alone may be larger than most: start the next file only after the same amount was added.
	if j.f == nil || j.size > max(j.most, 2*j.head) {
		return j.begin()
	}
	if len(buf) == 0 {
		return nil
	}
	if _, err := j.f.Write(buf); err != nil {
		return err
	}
	if !j.nosync {
		if err := j.f.Sync(); err != nil {
			return err
		}
	}
	j.size += int64(len(buf))
	return nil
}

// begin starts a new file with everything that is open, and removes the older ones.
func (j *journal) begin() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	if j.lock == nil {
		f, err := lockFolder(filepath.Join(j.dir, "lock"))
		if err != nil {
			return err
		}
		j.lock = f
	}
	past := j.past()
	var head []byte
	for chunk := range slices.Chunk(past, 10_000) {
		head = frameJSON(head, recPast, chunk)
	}
	j.mu.Lock()
	for _, e := range j.sorted() {
		if e.run != nil {
			head = frameRun(head, e.run, e.submitted)
			for _, g := range e.run.groups {
				head = frameJSON(head, recGroup, groupRecord{e.run.LogID, g})
			}
		} else {
			head = frameJSON(head, recEnd, endRecord{*e.result, e.at})
		}
	}
	j.mu.Unlock()

	old := j.files()
	seq := j.seq + 1
	if n := len(old); n > 0 {
		seq = max(seq, number(old[n-1])+1)
	}
	name := filepath.Join(j.dir, fmt.Sprintf("journal-%016d", seq))
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(head)
	if err == nil && !j.nosync {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err == nil && !j.nosync {
		err = syncFolder(j.dir)
	}
	if err != nil {
		f.Close()
		os.Remove(name + ".new")
		return err
	}
	if j.f != nil {
		j.f.Close()
	}
	j.f, j.size, j.head, j.seq = f, int64(len(head)), int64(len(head)), seq
	for _, o := range old {
		os.Remove(o)
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, os.ErrInvalid) {
		return err
	}
	return nil
}

// files returns the journal's files, oldest first.
func (j *journal) files() []string {
	all, _ := os.ReadDir(j.dir)
	var names []string
	for _, f := range all {
		if number(f.Name()) >= 0 {
			names = append(names, filepath.Join(j.dir, f.Name()))
		}
	}
	return names
}

// number returns the number of a journal file; -1 for other files.
func number(name string) int64 {
	rest, is := strings.CutPrefix(filepath.Base(name), "journal-")
	n, err := strconv.ParseUint(rest, 10, 63)
	if !is || len(rest) != 16 || err != nil {
		return -1
	}
	return int64(n)
}

// accept records a run. The caller waits for the flush.
func (j *journal) accept(run *incoming) *flush {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.put(run, run.sub != nil)
	if j.dir != "" {
		j.buf = frameRun(j.buf, run, run.sub != nil)
	}
	nudge(j.kick)
	return j.next
}

// started records a program of a run that is open.
func (j *journal) started(run int64, g group) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.join(run, g) {
		return
	}
	if j.dir != "" {
		j.buf = frameJSON(j.buf, recGroup, groupRecord{run, g})
	}
	nudge(j.kick)
}

// join adds a group to an open run; it returns false if the run is not open.
func (j *journal) join(run int64, g group) bool {
	e := j.live[run]
	if e == nil || e.run == nil {
		return false
	}
	e.run.groups = noted(e.run.groups, g)
	return true
}

func (j *journal) put(run *incoming, submitted bool) {
	if j.live[run.LogID] == nil {
		j.live[run.LogID] = &entry{run: run, order: j.order(), submitted: submitted}
	}
}

// order counts entries. Call it with mu held, or before start.
func (j *journal) order() int64 {
	j.came++
	return j.came
}

// end records a result, which stays until a server took it.
func (j *journal) end(it *wire.CallbackItem, at int64) *flush {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.result(it, at)
	if j.dir != "" {
		j.buf = frameJSON(j.buf, recEnd, endRecord{*it, at})
	}
	nudge(j.soon)
	return j.next
}

func (j *journal) result(it *wire.CallbackItem, at int64) {
	e := j.live[it.LogID]
	if e == nil {
		e = &entry{order: j.order()}
		j.live[it.LogID] = e
	}
	if e.result == nil {
		j.unrep++
	} else {
		j.bytes -= sizeOf(e.result)
	}
	j.bytes += sizeOf(it)
	e.run, e.result, e.at = nil, it, at
}

// sizeOf returns the approximate size of a result in bytes.
func sizeOf(it *wire.CallbackItem) int64 { return int64(200 + len(it.Msg) + len(it.Data)) }

// taken removes runs whose results a server has, or that were rejected after all.
func (j *journal) taken(ids ...int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		j.forget(id)
	}
	if j.dir != "" {
		j.buf = frameJSON(j.buf, recTaken, ids)
	}
	nudge(j.soon)
}

func (j *journal) forget(id int64) {
	if e := j.live[id]; e != nil {
		if e.result != nil {
			j.unrep--
			j.bytes -= sizeOf(e.result)
		}
		delete(j.live, id)
	}
}

// has reports whether a run is open or its result is not taken.
func (j *journal) has(id int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.live[id] != nil
}

// full reports whether the results that wait for a server have reached the maximum number or size.
func (j *journal) full(most int, bytes int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unrep >= most || j.bytes >= bytes
}

// unreported returns how many results wait for a server.
func (j *journal) unreported() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unrep
}

// gather is how long a result may wait to be written together with others: no caller waits for its answer.
const gather = 2 * time.Millisecond

// sorted returns the entries in the order of their arrival.
func (j *journal) sorted() []*entry {
	all := make([]*entry, 0, len(j.live))
	for _, e := range j.live {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return int(a.order - b.order) })
	return all
}

// replay reads all files. It reads a file up to the first unreadable record: that record was being written when the
// process died, so no caller got an answer for it.
func (j *journal) replay() (past []remembered) {
	for _, name := range j.files() {
		f, err := os.Open(name)
		if err != nil {
			j.log.Error("journal file not read", "file", name, "error", err)
			continue
		}
		j.seq = max(j.seq, number(name))
		r := bufio.NewReaderSize(f, 1<<16)
		for {
			kind, rec, err := readFrame(r)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					j.log.Warn("journal ends in an incomplete record", "file", name, "error", err)
				}
				break
			}
			past = j.apply(past, kind, rec)
		}
		f.Close()
	}
	return past
}

func (j *journal) apply(past []remembered, kind byte, rec []byte) []remembered {
	switch kind {
	case recAccept, recSubmit:
		if run, err := decodeRun(rec); err == nil {
			j.put(run, kind == recSubmit)
		}
	case recGroup:
		var g groupRecord
		if json.Unmarshal(rec, &g) == nil && g.Pid > 1 && g.Mark != "" {
			j.join(g.Run, g.group)
		}
	case recEnd:
		var r endRecord
		if json.Unmarshal(rec, &r) == nil {
			j.result(&r.CallbackItem, r.At)
			past = append(past, remembered{r.LogID, r.At})
		}
	case recTaken:
		var ids []int64
		if json.Unmarshal(rec, &ids) == nil {
			for _, id := range ids {
				j.forget(id)
			}
		}
	case recPast:
		var ended []remembered
		if json.Unmarshal(rec, &ended) == nil {
			past = append(past, ended...)
		}
	}
	return past
}

const headLen = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func frame(dst []byte, kind byte, payload []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, headLen)...)
	dst = append(append(dst, kind), payload...)
	rec := dst[at+headLen:]
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(rec)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(rec, castagnoli))
	return dst
}

func frameRun(dst []byte, run *incoming, submitted bool) []byte {
	kind := byte(recAccept)
	if submitted {
		kind = recSubmit
	}
	return frame(dst, kind, wire.AppendOrder(nil, &run.Run))
}

func frameJSON(dst []byte, kind byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and texts always can be encoded
	}
	return frame(dst, kind, b)
}

func readFrame(r *bufio.Reader) (kind byte, payload []byte, err error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > 64<<20 {
		return 0, nil, fmt.Errorf("the length of a record is invalid: %d bytes", n)
	}
	// The length is believed no further than there are bytes.
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return 0, nil, err
	}
	if len(b) != int(n) {
		return 0, nil, io.ErrUnexpectedEOF
	}
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return 0, nil, errors.New("the checksum of a record is wrong")
	}
	return b[0], b[1:], nil
}
