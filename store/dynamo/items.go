package dynamo

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
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/store"
)

func text(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func number[N ~int | ~int32 | ~int64 | ~uint32](v N) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(v), 10)}
}

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
	d := core.DueItem{Partition: partition}
	if _, err := fmt.Sscanf(k, "%d#%d#%d", &d.PlanAt, &d.Job, &d.Run); err != nil {
		return core.DueItem{}, fmt.Errorf("%q is no key of the due index: %w", k, err)
	}
	return d, nil
}

// schedItem is the part of a job that planning reads and writes: under 600
// bytes, and the only one in the due index.
type schedItem struct {
	ID         string        `dynamodbav:"id"`
	Part       string        `dynamodbav:"part"`
	App        string        `dynamodbav:"app"`
	State      core.JobState `dynamodbav:"state"`
	Rev        int64         `dynamodbav:"rev"`
	RevAt      int64         `dynamodbav:"revAt"`
	Schedule   string        `dynamodbav:"schedule"`
	Misfire    core.Misfire  `dynamodbav:"misfire,omitempty"`
	Grace      time.Duration `dynamodbav:"grace,omitempty"`
	Deadline   time.Duration `dynamodbav:"deadline,omitempty"`
	Next       core.Instant  `dynamodbav:"next"`
	PlanAt     string        `dynamodbav:"planAt"`
	Partition  int           `dynamodbav:"partition"`
	Seq        int64         `dynamodbav:"seq"`
	Tail       core.RunID    `dynamodbav:"tail"`
	PauseUntil core.Instant  `dynamodbav:"pauseUntil,omitempty"`
	PauseBy    string        `dynamodbav:"pauseBy,omitempty"`
	PauseWhy   string        `dynamodbav:"pauseWhy,omitempty"`
	PlanError  string        `dynamodbav:"planError,omitempty"`
	Compared   core.Instant  `dynamodbav:"compared,omitempty"`
	DefRev     int64         `dynamodbav:"defRev,omitempty"` // the revision of its def item
}

// never is the planAt of a job without a next time. It is later than all times, so the due index still lists every job.
const never core.Instant = 9_999_999_999

// schedKeyAt returns the key in the due index of a job that must be planned at a time, or never (0).
func schedKeyAt(at core.Instant, job core.JobID) string {
	return planKey(core.DueItem{PlanAt: cmp.Or(at, never), Job: job})
}

func encodeSched(s *core.Sched, defRev int64) item {
	it := schedItem{ID: "job#" + s.ID.String(), Part: "sched", App: s.App, State: s.State, Rev: s.Rev, RevAt: core.Millis(s.RevAt),
		Schedule: jsonText(s.Schedule), Misfire: s.Misfire, Grace: s.Grace, Deadline: s.Deadline, Next: s.Next,
		PlanAt: schedKeyAt(s.PlanAt, s.ID), Partition: s.Partition, Seq: s.Seq, Tail: s.Tail, PauseUntil: s.PauseUntil,
		PauseBy: s.PauseBy, PauseWhy: s.PauseWhy, PlanError: s.PlanError, Compared: s.Compared, DefRev: defRev}
	encoded, _ := attributevalue.MarshalMap(it) // of texts and numbers: no error
	return encoded
}

// decodeSched also returns the revision of the definition.
func decodeSched(it item) (s core.Sched, defRev int64, err error) {
	var v schedItem
	if err := attributevalue.UnmarshalMap(it, &v); err != nil {
		return s, 0, fmt.Errorf("read a sched item: %w", err)
	}
	id, err := jobOf(v.ID)
	if err != nil {
		return core.Sched{}, 0, err
	}
	s = core.Sched{ID: id, App: v.App, State: v.State, Rev: v.Rev, RevAt: core.FromMillis(v.RevAt), Misfire: v.Misfire,
		Grace: v.Grace, Deadline: v.Deadline, Next: v.Next, Partition: v.Partition, Seq: v.Seq, Tail: v.Tail, PauseUntil: v.PauseUntil,
		PauseBy: v.PauseBy, PauseWhy: v.PauseWhy, PlanError: v.PlanError, Compared: v.Compared}
	d, err := parsePlanKey(v.PlanAt, 0)
	if err != nil {
		return core.Sched{}, 0, err
	}
	if d.PlanAt != never {
		s.PlanAt = d.PlanAt
	}
	if err := json.Unmarshal([]byte(v.Schedule), &s.Schedule); err != nil {
		return core.Sched{}, 0, fmt.Errorf("read the schedule of job %d: %w", id, err)
	}
	return s, v.DefRev, nil
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

// runAttribute is an attribute of a run, beside its key, rest and expires.
type runAttribute struct {
	name  string
	in    core.RunFields                         // the fields of an update that the attribute is part of
	value func(r *core.Run) types.AttributeValue // nil: the attribute is missing
	read  func(r *core.Run, v types.AttributeValue) error
	long  func(r *core.Run) bool // reports whether the value is stored beside the run; nil: never
}

var runAttributes = []runAttribute{
	attribute("app", core.RunApp, func(r *core.Run) *string { return &r.App }),
	attribute("state", core.RunState, func(r *core.Run) *core.State { return &r.State }),
	attribute("cause", 0, func(r *core.Run) *core.Cause { return &r.Cause }),
	attribute("rev", 0, func(r *core.Run) *int64 { return &r.Rev }),
	attribute("at", core.RunTime, func(r *core.Run) *core.Instant { return &r.At }),
	attribute("slot", core.RunTime, func(r *core.Run) *core.Instant { return &r.Slot }),
	attribute("seq", 0, func(r *core.Run) *int64 { return &r.Seq }),
	attribute("owner", core.RunOwner, func(r *core.Run) *string { return &r.Owner }),
	timeAttribute("until", core.RunUntil, func(r *core.Run) *time.Time { return &r.Until }),
	attribute("address", core.RunAddress, func(r *core.Run) *string { return &r.Address }),
	attribute("maybeSent", core.RunMaybeSent, func(r *core.Run) *bool { return &r.MaybeSent }),
	converted("journal", core.RunJournal, func(r *core.Run) string {
		if r.Journal.IsZero() {
			return ""
		}
		return store.JournalName(r.Journal)
	}, func(r *core.Run, name string) (err error) {
		r.Journal, err = store.ParseJournalName(name)
		return err
	}),
	timeAttribute("sentAt", core.RunSentAt, func(r *core.Run) *time.Time { return &r.SentAt }),
	attribute("sentRev", core.RunUnder, func(r *core.Run) *int64 { return &r.SentRev }),
	attribute("attempt", 0, func(r *core.Run) *int { return &r.Attempt }),
	attribute("first", 0, func(r *core.Run) *core.RunID { return &r.First }),
	attribute("retries", 0, func(r *core.Run) *int { return &r.Retries }),
	attribute("fixedDelay", 0, func(r *core.Run) *bool { return &r.FixedDelay }),
	attribute("params", core.RunGiven, func(r *core.Run) **string { return &r.Params }).ifLong(hasLongParams),
	jsonAttribute("addresses", core.RunGiven, func(r *core.Run) (*[]string, bool) { return &r.Addresses, len(r.Addresses) == 0 }),
	attribute("key", 0, func(r *core.Run) *string { return &r.Key }),
	attribute("by", 0, func(r *core.Run) *string { return &r.By }),
	attribute("permit", core.RunGiven|core.RunPermit, func(r *core.Run) *string { return &r.Permit }),
	attribute("pauseAfter", 0, func(r *core.Run) *bool { return &r.PauseAfter }),
	attribute("notice", core.RunUnder, func(r *core.Run) *bool { return &r.Notice }),
	attribute("rerunOf", 0, func(r *core.Run) *core.RunID { return &r.RerunOf }),
	attribute("killBy", core.RunKill, func(r *core.Run) *string { return &r.KillBy }),
	timeAttribute("killAt", core.RunKill, func(r *core.Run) *time.Time { return &r.KillAt }),
	timeAttribute("endedAt", core.RunEnd, func(r *core.Run) *time.Time { return &r.EndedAt }),
	attribute("reason", core.RunEnd, func(r *core.Run) *core.Reason { return &r.Reason }),
	attribute("code", core.RunEnd, func(r *core.Run) *int { return &r.Code }),
	attribute("message", core.RunEnd, func(r *core.Run) *string { return &r.Message }).ifLong(hasLongEnd),
	attribute("data", core.RunEnd, func(r *core.Run) *string { return &r.Data }).ifLong(hasLongEnd),
	jsonAttribute("owes", core.RunOwes, func(r *core.Run) (*[]core.Owed, bool) { return &r.Owes, len(r.Owes) == 0 }),
	attribute("then", core.RunEnd, func(r *core.Run) *core.RunID { return &r.Then }),
	jsonAttribute("late", core.RunLate, func(r *core.Run) (**core.LateResult, bool) { return &r.Late, r.Late == nil }),
	jsonAttribute("tries", core.RunTries, func(r *core.Run) (*[]core.Try, bool) { return &r.Tries, len(r.Tries) == 0 }).ifLong(hasLongTries),
	attribute("parent", 0, func(r *core.Run) *core.RunID { return &r.Parent }),
	attribute("place", core.RunPlace, func(r *core.Run) *int64 { return &r.Place }),
	jsonAttribute("shard", core.RunGiven, func(r *core.Run) (*core.Shard, bool) { return &r.Shard, r.Shard == core.Shard{} }),
	jsonAttribute("postrun", core.RunPostRun, func(r *core.Run) (*core.PostRun, bool) { return &r.PostRun, r.PostRun == core.PostRun{} }),
	attribute("keepLog", core.RunPostRun, func(r *core.Run) *core.KeepLog { return &r.KeepLog }),
}

func hasLongParams(r *core.Run) bool { return r.Params != nil && len(*r.Params) > inline }
func hasLongEnd(r *core.Run) bool    { return len(r.Message)+len(r.Data) > inline }
func hasLongTries(r *core.Run) bool  { return len(r.Tries) > 0 && len(jsonText(r.Tries)) > inline }
func hasRest(r *core.Run) bool       { return hasLongParams(r) || hasLongEnd(r) || hasLongTries(r) }

func (a runAttribute) ifLong(long func(*core.Run) bool) runAttribute { a.long = long; return a }

// converted is an attribute in another form than the field. It is missing if the form is zero.
func converted[T comparable](name string, in core.RunFields, get func(*core.Run) T, set func(*core.Run, T) error) runAttribute {
	var zero T
	return runAttribute{name: name, in: in, value: func(r *core.Run) types.AttributeValue {
		is := get(r)
		if is == zero {
			return nil
		}
		v, _ := attributevalue.Marshal(is) // of texts, numbers and truths: no error
		return v
	}, read: func(r *core.Run, v types.AttributeValue) error {
		var is T
		if err := attributevalue.Unmarshal(v, &is); err != nil {
			return err
		}
		return set(r, is)
	}}
}

func attribute[T comparable](name string, in core.RunFields, of func(*core.Run) *T) runAttribute {
	return converted(name, in, func(r *core.Run) T { return *of(r) }, func(r *core.Run, is T) error { *of(r) = is; return nil })
}

func timeAttribute(name string, in core.RunFields, of func(*core.Run) *time.Time) runAttribute {
	return converted(name, in, func(r *core.Run) int64 { return core.Millis(*of(r)) },
		func(r *core.Run, ms int64) error { *of(r) = core.FromMillis(ms); return nil })
}

func jsonAttribute[T any](name string, in core.RunFields, of func(*core.Run) (is *T, empty bool)) runAttribute {
	return converted(name, in, func(r *core.Run) string {
		is, empty := of(r)
		if empty {
			return ""
		}
		return jsonText(is)
	}, func(r *core.Run, text string) error {
		is, _ := of(r)
		return json.Unmarshal([]byte(text), is)
	})
}

// encodeRun returns the items of a run; rest is nil if it has no long texts.
func encodeRun(r *core.Run, expires int64) (it, rest item) {
	it = runKey(r.ID)
	for i := range runAttributes {
		a := &runAttributes[i]
		switch v := a.value(r); {
		case v == nil:
		case a.long != nil && a.long(r):
			if rest == nil {
				rest, it["rest"] = restKey(r.ID), &types.AttributeValueMemberBOOL{Value: true}
			}
			rest[a.name] = v
		default:
			it[a.name] = v
		}
	}
	if expires != 0 {
		it["expires"] = number(expires)
		if rest != nil {
			rest["expires"] = number(expires)
		}
	}
	return it, rest
}

// decodeRun decodes a run; rest reports that decodeRest must add its long texts. If only the ID can be read, r has it.
func decodeRun(it item) (r core.Run, rest bool, err error) {
	id, err := intOf(it, "run")
	r.ID = core.RunID(id)
	for i := range runAttributes {
		a := &runAttributes[i]
		if it[a.name] != nil && err == nil {
			err = a.read(&r, it[a.name])
		}
	}
	if err != nil {
		return core.Run{ID: r.ID}, false, fmt.Errorf("read run %d: %w", id, err)
	}
	return r, it["rest"] != nil, nil
}

// decodeRest adds the long texts that the run itself does not have.
func decodeRest(it item, r *core.Run) error {
	for i := range runAttributes {
		a := &runAttributes[i]
		if it[a.name] != nil && a.long != nil && a.value(r) == nil {
			if err := a.read(r, it[a.name]); err != nil {
				return fmt.Errorf("read the long part of run %d: %w", r.ID, err)
			}
		}
	}
	return nil
}

// Keys of the state table: of (the list) and key.

func stateKey(of, key string) item { return item{"of": text(of), "key": text(key)} }
