package dynamo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// item is a stored item or its key.
type item = items.Item

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("our own types are JSON: %v", err)) // no channel, no function is in them
	}
	return string(b)
}

// Keys of the jobs table: id and part.

func schedKey(id core.JobID) item {
	return item{"id": items.Text("job#" + id.String()), "part": items.Text("sched")}
}

func entryKey(d core.DueItem) item {
	return item{"id": items.Text("entry#" + d.Job.String()), "part": items.Text(planKey(d) + "#" + strconv.Itoa(d.Partition))}
}

// planKey is the sort key of the due index: the text orders as DueItem.Less.
func planKey(d core.DueItem) string { return fmt.Sprintf("%010d#%010d#%019d", d.PlanAt, d.Job, d.Run) }

func parsePlanKey(k string, partition int) (core.DueItem, error) {
	d := core.DueItem{Partition: partition}
	if _, err := fmt.Sscanf(k, "%d#%d#%d", &d.PlanAt, &d.Job, &d.Run); err != nil {
		return core.DueItem{}, fmt.Errorf("%q is no key of the due index: %w", k, err)
	}
	return d, nil
}

// fields returns the fields of a struct under their names, without zero fields. Times are in milliseconds.
func fields(v any) item {
	it, err := attributevalue.MarshalMapWithOptions(v, func(o *attributevalue.EncoderOptions) {
		o.EncodeTime = func(t time.Time) (types.AttributeValue, error) { return items.Number(core.Millis(t)), nil }
	})
	if err != nil {
		panic(fmt.Sprintf("our own types are items: %v", err)) // texts, numbers and truths are in them
	}
	maps.DeleteFunc(it, func(_ string, v types.AttributeValue) bool {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			return v.Value == ""
		case *types.AttributeValueMemberN:
			return v.Value == "0"
		case *types.AttributeValueMemberBOOL:
			return !v.Value
		}
		return true
	})
	return it
}

// readFields sets the fields of a struct to the attributes of an item.
func readFields(it item, into any) error {
	return attributevalue.UnmarshalMapWithOptions(it, into, func(o *attributevalue.DecoderOptions) {
		o.DecodeTime.N = func(text string) (time.Time, error) {
			ms, err := strconv.ParseInt(text, 10, 64)
			return core.FromMillis(ms), err
		}
	})
}

// attr returns a value, or nil if it is zero: the attribute is missing.
func attr[T string | int64 | core.Instant | core.RunID | core.JobState](v T) types.AttributeValue {
	return fields(struct{ V T }{v})["V"]
}

// schedItem is the part of a job that planning reads and writes: under 600 bytes, and in the due index.
type schedItem struct {
	Key       string `dynamodbav:"id"`
	PlanKey   string `dynamodbav:"planAt"`
	Partition int    `dynamodbav:"partition"`
	core.Sched
	Schedule string // JSON
	DefRev   int64  // the version of the record of its definition
}

// never is the planAt of a job without a next time. It is later than all times, so the due index still lists every job.
const never core.Instant = 9_999_999_999

// schedKeyAt returns the key in the due index of a job that must be planned at a time, or never (0).
func schedKeyAt(at core.Instant, job core.JobID) string {
	return planKey(core.DueItem{PlanAt: cmp.Or(at, never), Job: job})
}

func encodeSched(s *core.Sched, defRev int64) item {
	v := schedItem{Sched: *s, PlanKey: schedKeyAt(s.PlanAt, s.ID), Schedule: jsonText(s.Schedule), DefRev: defRev}
	v.Sched.Partition = 0
	it := fields(v)
	maps.Copy(it, schedKey(s.ID))
	it["partition"] = items.Number(s.Partition)
	return it
}

func decodeSched(it item) storedJob {
	var v schedItem
	if err := readFields(it, &v); err != nil {
		return unreadJob(0, fmt.Errorf("read a sched item: %w", err))
	}
	v.Sched.Partition = v.Partition
	if err := json.Unmarshal([]byte(v.Schedule), &v.Sched.Schedule); err != nil {
		return unreadJob(0, fmt.Errorf("read the schedule of job %d: %w", v.ID, err))
	}
	return storedJob{gotJob{Is: &core.Job{Sched: v.Sched}}, v.DefRev}
}

func jobOf(id string) (core.JobID, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(id, "job#"), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no key of a job", id)
	}
	return core.JobID(n), nil
}

// Definitions are records: see store.JobDefs.

func defKey(id core.JobID) store.Key { return store.JobDefs.Key(id.String()) }

// writeDef returns the write of a definition with its revision. The two items of a job are read at different moments; a sched
// item with another revision means that one was read before a change and one after it.
func (s *Store) writeDef(d *core.Def, rev, was int64) (store.Write, error) {
	w, err := store.JobDefs.Put(s.o.Secrets, *d, was)
	w.V = rev
	return w, err
}

// Keys of the runs table: job and run. The long texts of a run are stored under the negative of its ID, so that a claim
// and a close write one unit.

func runKey(id core.RunID) item { return item{"job": items.Number(id.Job()), "run": items.Number(id)} }
func restKey(id core.RunID) item {
	return item{"job": items.Number(id.Job()), "run": items.Number(-id)}
}

// inline is how many bytes of a text stay on the run's own item.
const inline = 300

// runItem is a run as it is stored, beside its key, rest and expires.
type runItem struct {
	core.Run
	Journal                                      string // its name
	Addresses, Owes, PostRun, Late, Tries, Shard string // JSON
}

// texts returns the fields that are stored as JSON.
func (v *runItem) texts() map[*string]any {
	r := &v.Run
	return map[*string]any{&v.Addresses: &r.Addresses, &v.Owes: &r.Owes, &v.PostRun: &r.PostRun, &v.Late: &r.Late, &v.Tries: &r.Tries,
		&v.Shard: &r.Shard}
}

// runFields lists the attributes of each part of a run that a change can have.
var runFields = []struct {
	in    core.RunFields
	names []string
}{
	{core.RunState, []string{"State"}}, {core.RunOwner, []string{"Owner"}}, {core.RunUntil, []string{"Until"}},
	{core.RunJournal, []string{"Journal"}}, {core.RunAddress, []string{"Address"}}, {core.RunMaybeSent, []string{"MaybeSent"}},
	{core.RunSentAt, []string{"SentAt"}}, {core.RunTries, []string{"Tries"}},
	{core.RunEnd, []string{"EndedAt", "Reason", "Code", "Message", "Data", "Then"}}, {core.RunOwes, []string{"Owes"}},
	{core.RunKill, []string{"KillBy", "KillAt"}}, {core.RunLate, []string{"Late"}}, {core.RunTime, []string{"At", "Slot"}},
	{core.RunGiven, []string{"Params", "Addresses", "Key", "By", "RerunOf", "Shard", "Permit"}}, {core.RunApp, []string{"App"}},
	{core.RunPlace, []string{"Place"}}, {core.RunPermit, []string{"Permit"}}, {core.RunUnder, []string{"SentRev", "Notice"}},
	{core.RunPostRun, []string{"PostRun", "KeepLog"}},
}

func hasLongParams(r *core.Run) bool { return r.Params != nil && len(*r.Params) > inline }
func hasLongEnd(r *core.Run) bool    { return len(r.Message)+len(r.Data) > inline }
func hasLongTries(r *core.Run) bool  { return len(r.Tries) > 0 && len(jsonText(r.Tries)) > inline }
func hasRest(r *core.Run) bool       { return hasLongParams(r) || hasLongEnd(r) || hasLongTries(r) }

// attributes returns the attributes of a run without its key.
func attributes(r *core.Run) item {
	v := runItem{Run: *r}
	v.ID = 0
	if !r.Journal.IsZero() {
		v.Journal = store.JournalName(r.Journal)
	}
	for text, field := range v.texts() {
		if *text = jsonText(field); slices.Contains([]string{"null", "[]", "{}"}, *text) {
			*text = ""
		}
	}
	it := fields(v)
	if r.Params != nil {
		it["Params"] = items.Text(*r.Params) // an empty text replaces the params of the job
	}
	return it
}

// encodeRun returns the items of a run; rest is nil if it has no long texts.
func encodeRun(r *core.Run, expires int64) (it, rest item) {
	it = attributes(r)
	maps.Copy(it, runKey(r.ID))
	for name, long := range map[string]bool{"Params": hasLongParams(r), "Message": hasLongEnd(r), "Data": hasLongEnd(r),
		"Tries": hasLongTries(r)} {
		if v := it[name]; long && v != nil {
			if rest == nil {
				rest, it["rest"] = restKey(r.ID), &types.AttributeValueMemberBOOL{Value: true}
			}
			rest[name] = v
			delete(it, name)
		}
	}
	if expires != 0 {
		it["expires"] = items.Number(expires)
		if rest != nil {
			rest["expires"] = items.Number(expires)
		}
	}
	return it, rest
}

// decodeRun decodes a run; rest reports that decodeRest must add its long texts. If only the ID can be read, r has it.
func decodeRun(it item) (r core.Run, rest bool, err error) {
	id, err := items.IntOf(it, "run")
	v := runItem{}
	if err == nil {
		err = v.read(it)
	}
	if err != nil {
		return core.Run{ID: core.RunID(id)}, false, fmt.Errorf("read run %d: %w", id, err)
	}
	v.ID = core.RunID(id)
	return v.Run, it["rest"] != nil, nil
}

func (v *runItem) read(it item) (err error) {
	if err = readFields(it, v); err == nil && v.Journal != "" {
		v.Run.Journal, err = store.ParseJournalName(v.Journal)
	}
	for text, field := range v.texts() {
		if *text != "" && err == nil {
			err = json.Unmarshal([]byte(*text), field)
		}
	}
	return err
}

// decodeRest adds the long texts that the run itself does not have.
func decodeRest(it item, r *core.Run) error {
	it = maps.Clone(it)
	maps.Copy(it, attributes(r))
	v := runItem{}
	if err := v.read(it); err != nil {
		return fmt.Errorf("read the long part of run %d: %w", r.ID, err)
	}
	v.ID = r.ID
	*r = v.Run
	return nil
}

// Keys of the state table: of (the list) and key.

func stateKey(of, key string) item { return item{"of": items.Text(of), "key": items.Text(key)} }
