package awsengine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/secretbox"
)

func text(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func number[N ~int | ~int32 | ~int64 | ~uint32](v N) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(v), 10)}
}

func millis(t time.Time) int64      { return core.Millis(t) }
func fromMillis(ms int64) time.Time { return core.FromMillis(ms) }

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("our own types are JSON: %v", err)) // no channel, no function is in them
	}
	return string(b)
}

// Keys of the jobs table: id and part.

func defKey(id core.JobID) item { return item{"id": text("job#" + id.String()), "part": text("def")} }
func schedKey(id core.JobID) item {
	return item{"id": text("job#" + id.String()), "part": text("sched")}
}

func entryKey(d core.DueItem) item {
	return item{"id": text("entry#" + d.Job.String()), "part": text(planKey(d) + "#" + strconv.Itoa(d.Partition))}
}

// planKey is the sort key of the due index: the text orders as DueItem.Less.
func planKey(d core.DueItem) string { return fmt.Sprintf("%010d#%010d#%019d", d.PlanAt, d.Job, d.Run) }

func parsePlanKey(k string, partition int) (core.DueItem, error) {
	parts := strings.Split(k, "#")
	if len(parts) < 3 {
		return core.DueItem{}, fmt.Errorf("%q is no key of the due index", k)
	}
	var n [3]int64
	for i := range n {
		v, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil {
			return core.DueItem{}, fmt.Errorf("%q is no key of the due index: %w", k, err)
		}
		n[i] = v
	}
	return core.DueItem{PlanAt: core.Instant(n[0]), Job: core.JobID(n[1]), Run: core.RunID(n[2]), Partition: partition}, nil
}

// schedItem is the part of a job that planning reads and writes: under 600
// bytes, and the only one in the due index.
type schedItem struct {
	ID         string `dynamodbav:"id"`
	Part       string `dynamodbav:"part"`
	App        string `dynamodbav:"app"`
	State      string `dynamodbav:"state"`
	Rev        int64  `dynamodbav:"rev"`
	RevAt      int64  `dynamodbav:"revAt"`
	Schedule   string `dynamodbav:"schedule"`
	Misfire    string `dynamodbav:"misfire,omitempty"`
	Grace      int64  `dynamodbav:"grace,omitempty"`
	Deadline   int64  `dynamodbav:"deadline,omitempty"`
	Next       int64  `dynamodbav:"next"`
	PlanAt     string `dynamodbav:"planAt,omitempty"`
	Partition  int    `dynamodbav:"partition"`
	Seq        int64  `dynamodbav:"seq"`
	Tail       int64  `dynamodbav:"tail"`
	PauseUntil int64  `dynamodbav:"pauseUntil,omitempty"`
	PauseBy    string `dynamodbav:"pauseBy,omitempty"`
	PauseWhy   string `dynamodbav:"pauseWhy,omitempty"`
	PlanError  string `dynamodbav:"planError,omitempty"`
	Compared   int64  `dynamodbav:"compared,omitempty"`
	DefRev     int64  `dynamodbav:"defRev,omitempty"` // the revision of its def item
}

// never is the planAt of a job without a next time. It is later than all times, so the due index still lists every job.
const never core.Instant = 9_999_999_999

// schedKeyAt returns the key in the due index of a job that must be planned at a time, or never (0).
func schedKeyAt(at core.Instant, job core.JobID) string {
	return planKey(core.DueItem{PlanAt: cmp.Or(at, never), Job: job})
}

func encodeSched(s *core.Sched, defRev int64) (item, error) {
	it := schedItem{ID: "job#" + s.ID.String(), Part: "sched", App: s.App, State: string(s.State), Rev: s.Rev, RevAt: millis(s.RevAt),
		Schedule: jsonText(s.Schedule), Misfire: string(s.Misfire), Grace: int64(s.Grace), Deadline: int64(s.Deadline), Next: int64(s.Next),
		Partition: s.Partition, Seq: s.Seq, Tail: int64(s.Tail), PauseUntil: int64(s.PauseUntil), PauseBy: s.PauseBy, PauseWhy: s.PauseWhy,
		PlanError: s.PlanError,
		Compared:  int64(s.Compared), DefRev: defRev}
	it.PlanAt = schedKeyAt(s.PlanAt, s.ID)
	return attributevalue.MarshalMap(it)
}

func decodeSched(it item) (core.Sched, error) {
	var v schedItem
	if err := attributevalue.UnmarshalMap(it, &v); err != nil {
		return core.Sched{}, fmt.Errorf("read a sched item: %w", err)
	}
	id, err := jobOf(v.ID)
	if err != nil {
		return core.Sched{}, err
	}
	s := core.Sched{ID: id, App: v.App, State: core.JobState(v.State), Rev: v.Rev, RevAt: fromMillis(v.RevAt),
		Misfire: core.Misfire(v.Misfire),
		Grace:   time.Duration(v.Grace), Deadline: time.Duration(v.Deadline), Next: core.Instant(v.Next), Partition: v.Partition, Seq: v.Seq,
		Tail: core.RunID(v.Tail), PauseUntil: core.Instant(v.PauseUntil), PauseBy: v.PauseBy, PauseWhy: v.PauseWhy, PlanError: v.PlanError,
		Compared: core.Instant(v.Compared)}
	if v.PlanAt != "" {
		d, err := parsePlanKey(v.PlanAt, 0)
		if err != nil {
			return core.Sched{}, err
		}
		if s.PlanAt = d.PlanAt; d.PlanAt == never {
			s.PlanAt = 0
		}
	}
	if err := json.Unmarshal([]byte(v.Schedule), &s.Schedule); err != nil {
		return core.Sched{}, fmt.Errorf("read the schedule of job %d: %w", id, err)
	}
	return s, nil
}

func jobOf(id string) (core.JobID, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(id, "job#"), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no key of a job", id)
	}
	return core.JobID(n), nil
}

// encodeDef encodes a definition with its revision. The two items of a job are read at different moments; a sched item
// with another revision means that one was read before a change and one after it.
func (s *Store) encodeDef(d *core.Def, rev int64) (item, error) {
	sealed, err := secretbox.Seal(s.o.Secrets, *d)
	if err != nil {
		return nil, err
	}
	it := defKey(d.ID)
	it["rev"] = number(rev)
	it["def"] = text(jsonText(&sealed))
	return it, nil
}

func decodeDef(text string) (core.Def, error) {
	var d core.Def
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return d, fmt.Errorf("read a job's definition: %w", err)
	}
	return d, nil
}

// Keys of the runs table: job and run. The long texts of a run are stored under the negative of its ID, so that a claim
// and a close write one unit.

func runKey(id core.RunID) item  { return item{"job": number(id.Job()), "run": number(id)} }
func restKey(id core.RunID) item { return item{"job": number(id.Job()), "run": number(-id)} }

// inline is how many bytes of a text stay on the run's own item.
const inline = 300

type runItem struct {
	Job        int64    `dynamodbav:"job"`
	Run        int64    `dynamodbav:"run"`
	App        string   `dynamodbav:"app"`
	State      string   `dynamodbav:"state"`
	Cause      string   `dynamodbav:"cause"`
	Rev        int64    `dynamodbav:"rev,omitempty"`
	At         int64    `dynamodbav:"at,omitempty"`
	Slot       int64    `dynamodbav:"slot,omitempty"`
	Seq        int64    `dynamodbav:"seq,omitempty"`
	Owner      string   `dynamodbav:"owner,omitempty"`
	Until      int64    `dynamodbav:"until,omitempty"`
	Address    string   `dynamodbav:"address,omitempty"`
	MaybeSent  bool     `dynamodbav:"maybeSent,omitempty"`
	Journal    string   `dynamodbav:"journal,omitempty"`
	SentAt     int64    `dynamodbav:"sentAt,omitempty"`
	SentRev    int64    `dynamodbav:"sentRev,omitempty"`
	Attempt    int      `dynamodbav:"attempt,omitempty"`
	First      int64    `dynamodbav:"first,omitempty"`
	Retries    int      `dynamodbav:"retries,omitempty"`
	FixedDelay bool     `dynamodbav:"fixedDelay,omitempty"`
	Params     *string  `dynamodbav:"params,omitempty"`
	Addresses  []string `dynamodbav:"addresses,omitempty"`
	Key        string   `dynamodbav:"key,omitempty"`
	By         string   `dynamodbav:"by,omitempty"`
	Permit     string   `dynamodbav:"permit,omitempty"`
	PauseAfter bool     `dynamodbav:"pauseAfter,omitempty"`
	Notice     bool     `dynamodbav:"notice,omitempty"`
	RerunOf    int64    `dynamodbav:"rerunOf,omitempty"`
	Parent     int64    `dynamodbav:"parent,omitempty"`
	Place      int64    `dynamodbav:"place,omitempty"`
	Shard      string   `dynamodbav:"shard,omitempty"`
	KillBy     string   `dynamodbav:"killBy,omitempty"`
	KillAt     int64    `dynamodbav:"killAt,omitempty"`
	EndedAt    int64    `dynamodbav:"endedAt,omitempty"`
	Reason     string   `dynamodbav:"reason,omitempty"`
	Code       int      `dynamodbav:"code,omitempty"`
	Message    string   `dynamodbav:"message,omitempty"`
	Data       string   `dynamodbav:"data,omitempty"`
	Owes       string   `dynamodbav:"owes,omitempty"`
	Then       int64    `dynamodbav:"then,omitempty"`
	Late       string   `dynamodbav:"late,omitempty"`
	Tries      string   `dynamodbav:"tries,omitempty"`
	// PostRun is separate from Owes, because older code would create a run for an item of Owes.
	PostRun string `dynamodbav:"postrun,omitempty"`
	KeepLog string `dynamodbav:"keepLog,omitempty"`
	Rest    bool   `dynamodbav:"rest,omitempty"` // there is an item beside it
	Expires int64  `dynamodbav:"expires,omitempty"`
}

// restItem holds the long texts of a run: each text is either here or on the run itself.
type restItem struct {
	Job     int64   `dynamodbav:"job"`
	Run     int64   `dynamodbav:"run"`
	Params  *string `dynamodbav:"params,omitempty"`
	Message string  `dynamodbav:"message,omitempty"`
	Data    string  `dynamodbav:"data,omitempty"`
	Tries   string  `dynamodbav:"tries,omitempty"`
	Expires int64   `dynamodbav:"expires,omitempty"`
}

func triesText(tries []core.Try) string {
	if len(tries) == 0 {
		return ""
	}
	return jsonText(tries)
}

func hasRest(r *core.Run) bool {
	return r.Params != nil && len(*r.Params) > inline || len(r.Message)+len(r.Data) > inline || len(triesText(r.Tries)) > inline
}

// encodeRun returns the items of a run; rest is nil if it has no long texts.
func encodeRun(r *core.Run, expires int64) (it, rest item, err error) {
	v := runItem{Job: int64(r.ID.Job()), Run: int64(r.ID), App: r.App, State: string(r.State), Cause: string(r.Cause), Rev: r.Rev,
		At: int64(r.At), Slot: int64(r.Slot), Seq: r.Seq,
		Owner: r.Owner, Until: millis(r.Until), Address: r.Address, MaybeSent: r.MaybeSent, SentAt: millis(r.SentAt),
		SentRev: r.SentRev,
		Attempt: r.Attempt, First: int64(r.First), Retries: r.Retries, FixedDelay: r.FixedDelay, Addresses: r.Addresses, Key: r.Key, By: r.By,
		Permit: r.Permit, PauseAfter: r.PauseAfter, Notice: r.Notice, RerunOf: int64(r.RerunOf), Parent: int64(r.Parent), Place: r.Place,
		KillBy: r.KillBy, KillAt: millis(r.KillAt), EndedAt: millis(r.EndedAt), Reason: string(r.Reason), Code: r.Code, Then: int64(r.Then),
		KeepLog: string(r.KeepLog), Expires: expires}
	if !r.Journal.IsZero() {
		v.Journal = engine.JournalName(r.Journal)
	}
	if len(r.Owes) > 0 {
		v.Owes = jsonText(r.Owes)
	}
	if r.PostRun != (core.PostRun{}) {
		v.PostRun = jsonText(r.PostRun)
	}
	if r.Shard != (core.Shard{}) {
		v.Shard = jsonText(r.Shard)
	}
	if r.Late != nil {
		v.Late = jsonText(r.Late)
	}
	w := restItem{Job: v.Job, Run: -v.Run, Expires: expires}
	if r.Params != nil && len(*r.Params) > inline {
		w.Params, v.Rest = r.Params, true
	} else {
		v.Params = r.Params
	}
	if len(r.Message)+len(r.Data) > inline {
		w.Message, w.Data, v.Rest = r.Message, r.Data, true
	} else {
		v.Message, v.Data = r.Message, r.Data
	}
	if t := triesText(r.Tries); len(t) > inline {
		w.Tries, v.Rest = t, true
	} else {
		v.Tries = t
	}
	if it, err = attributevalue.MarshalMap(v); err != nil || !v.Rest {
		return it, nil, err
	}
	rest, err = attributevalue.MarshalMap(w)
	return it, rest, err
}

// decodeRun decodes a run; rest reports that decodeRest must add its long texts.
func decodeRun(it item) (r core.Run, rest bool, err error) {
	var v runItem
	if err := attributevalue.UnmarshalMap(it, &v); err != nil {
		return r, false, fmt.Errorf("read a run: %w", err)
	}
	r = core.Run{ID: core.RunID(v.Run), App: v.App, State: core.State(v.State), Cause: core.Cause(v.Cause), Rev: v.Rev, At: core.Instant(v.At),
		Slot: core.Instant(v.Slot), Seq: v.Seq,
		Owner: v.Owner, Until: fromMillis(v.Until), Address: v.Address, MaybeSent: v.MaybeSent, SentAt: fromMillis(v.SentAt),
		SentRev: v.SentRev,
		Attempt: v.Attempt, First: core.RunID(v.First), Retries: v.Retries, FixedDelay: v.FixedDelay, Params: v.Params, Addresses: v.Addresses,
		Key: v.Key, By: v.By, Permit: v.Permit, PauseAfter: v.PauseAfter, Notice: v.Notice, RerunOf: core.RunID(v.RerunOf),
		Parent: core.RunID(v.Parent), Place: v.Place,
		KillBy: v.KillBy, KillAt: fromMillis(v.KillAt), EndedAt: fromMillis(v.EndedAt), Reason: core.Reason(v.Reason), Code: v.Code,
		Message: v.Message, Data: v.Data, Then: core.RunID(v.Then), KeepLog: core.KeepLog(v.KeepLog)}
	if v.Journal != "" {
		if r.Journal, err = engine.ParseJournalName(v.Journal); err != nil {
			return r, false, err
		}
	}
	for _, part := range []struct {
		text string
		into any
	}{{v.Owes, &r.Owes}, {v.Late, &r.Late}, {v.Tries, &r.Tries}, {v.Shard, &r.Shard}, {v.PostRun, &r.PostRun}} {
		if part.text != "" {
			if err := json.Unmarshal([]byte(part.text), part.into); err != nil {
				return r, false, fmt.Errorf("read run %d: %w", v.Run, err)
			}
		}
	}
	return r, v.Rest, nil
}

func decodeRest(it item, r *core.Run) error {
	var v restItem
	if err := attributevalue.UnmarshalMap(it, &v); err != nil {
		return fmt.Errorf("read the long part of run %d: %w", r.ID, err)
	}
	if v.Params != nil && r.Params == nil {
		r.Params = v.Params
	}
	if v.Message != "" && r.Message == "" {
		r.Message = v.Message
	}
	if v.Data != "" && r.Data == "" {
		r.Data = v.Data
	}
	if v.Tries != "" && len(r.Tries) == 0 {
		if err := json.Unmarshal([]byte(v.Tries), &r.Tries); err != nil {
			return fmt.Errorf("read the tries of run %d: %w", r.ID, err)
		}
	}
	return nil
}

// Keys of the state table: of (the list) and key.

func stateKey(of, key string) item { return item{"of": text(of), "key": text(key)} }
