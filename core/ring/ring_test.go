package ring

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/golden"
)

const slot = core.Instant(1_800_000_000)

func fires(n int) Message {
	m := Message{Kind: KindFires, Slot: slot}
	for i := range n {
		m.Fires = append(m.Fires, core.Fire{Run: core.PlannedRun(core.JobID(i+1), slot), Rev: 7, At: slot, Slot: slot, Cause: core.CauseSchedule,
			Seq: 3})
	}
	return m
}

// someMessage draws a message as planning, dispatch and finish make them.
func someMessage(t *rapid.T) Message {
	job := rapid.Custom(func(t *rapid.T) core.JobID { return core.JobID(rapid.Int32Range(1, math.MaxInt32).Draw(t, "job")) })
	run := rapid.Custom(func(t *rapid.T) core.RunID {
		if rapid.Bool().Draw(t, "numbered") {
			return core.NumberedRun(job.Draw(t, "job"), rapid.Uint32Max(core.MaxNumber).Draw(t, "n"))
		}
		return core.PlannedRun(job.Draw(t, "job"), core.Instant(rapid.Int64Range(1577836800, int64(core.Horizon)).Draw(t, "at")))
	})
	m := Message{Slot: core.Instant(rapid.Int64Range(1, int64(core.Horizon)+86400).Draw(t, "slot")),
		Try: rapid.IntRange(0, 1<<20).Draw(t, "try"), Unread: rapid.IntRange(0, 1<<20).Draw(t, "unread")}
	if rapid.Bool().Draw(t, "fires") {
		m.Kind, m.Hint = KindFires, rapid.Bool().Draw(t, "hint")
		for range rapid.IntRange(1, MaxFires).Draw(t, "count") {
			f := core.Fire{Run: run.Draw(t, "run"), Rev: rapid.Int64().Draw(t, "rev"), Slot: m.Slot, Seq: rapid.Int64().Draw(t, "seq"),
				Cause: rapid.SampledFrom(core.Causes).Draw(t, "cause")}
			at, planned := f.Run.Planned()
			if !planned {
				at = core.Instant(rapid.Int64Range(0, int64(core.Horizon)).Draw(t, "at"))
			}
			f.At = at
			m.Fires = append(m.Fires, f)
		}
		return m
	}
	m.Kind = KindCheck
	m.Check = &Check{Idle: rapid.Bool().Draw(t, "idle"), App: rapid.SampledFrom([]string{"", "shop"}).Draw(t, "app"),
		After: core.JobID(rapid.Int32Min(0).Draw(t, "after")), Jobs: rapid.SampledFrom([][]core.JobID{nil, {7, 1}}).Draw(t, "jobs")}
	for range rapid.IntRange(0, 60).Draw(t, "runs") {
		m.Check.Runs = append(m.Check.Runs, run.Draw(t, "run"))
	}
	if rapid.Bool().Draw(t, "journal") {
		j := &core.Journal{V: rapid.Int().Draw(t, "v"), Key: core.JournalKey{Minute: rapid.Int64().Draw(t, "minute"),
			Suffix: rapid.IntRange(0, core.JournalSuffixes-1).Draw(t, "suffix"), Nonce: rapid.StringN(1, 30, -1).Draw(t, "nonce")}}
		for range rapid.IntRange(0, 60).Draw(t, "entries") {
			j.Entries = append(j.Entries, core.Entry{Run: run.Draw(t, "run"), Address: rapid.String().Draw(t, "address"),
				Outcome: core.Outcome(rapid.Uint8Range(1, uint8(core.Recorded)).Draw(t, "outcome"))})
		}
		m.Check.Journal = j
	}
	return m
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := someMessage(t)
		b := Encode(want)
		if len(b) > MaxBytes {
			t.Fatalf("%d bytes", len(b))
		}
		got, err := Decode(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n got %+v\nwant %+v", b, got, want)
		}
	})
}

// TestBytes checks the encoding of messages of earlier versions.
func TestBytes(t *testing.T) {
	const text = `{"v":1,"kind":"fires","slot":1800000000,"try":2,"fires":[` +
		`{"run":30286934225,"rev":5,"at":-47,"cause":"schedule","seq":12},{"run":19327352833,"rev":6,"cause":"retry"}]}`
	want := Message{Kind: KindFires, Slot: slot, Try: 2, Fires: []core.Fire{
		{Run: core.PlannedRun(7, slot-47), Rev: 5, At: slot - 47, Slot: slot, Cause: core.CauseSchedule, Seq: 12},
		{Run: core.NumberedRun(4, 1), Rev: 6, At: slot, Slot: slot, Cause: core.CauseRetry},
	}}
	if got := string(Encode(want)); got != text {
		t.Errorf("encoded: %s\n    want: %s", got, text)
	}
	if got, err := Decode([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, %v", got, err)
	}
	// The handwritten encoder writes the same as encoding/json.
	w := wireMessage{V: Version, Kind: want.Kind, Slot: int64(want.Slot), Try: want.Try}
	for _, f := range want.Fires {
		w.Fires = append(w.Fires, wireFire{Run: int64(f.Run), Rev: f.Rev, At: int64(f.At - want.Slot), Cause: f.Cause, Seq: f.Seq})
	}
	if b, err := json.Marshal(w); err != nil || string(b) != text {
		t.Errorf("encoding/json: %s, %v", b, err)
	}
}

func TestBounds(t *testing.T) {
	for _, n := range []int{1, MaxFires} {
		if m, err := Decode(Encode(fires(n))); err != nil || len(m.Fires) != n {
			t.Errorf("%d fires: %v", n, err)
		}
	}
	// A full message with the longest runs is well below the limit.
	full := Message{Kind: KindFires, Slot: core.Horizon, Try: 1 << 20}
	for range MaxFires {
		full.Fires = append(full.Fires, core.Fire{Run: core.NumberedRun(math.MaxInt32, core.MaxNumber), Rev: math.MinInt64, At: 1,
			Slot:  core.Horizon,
			Cause: core.CauseSchedule, Seq: math.MinInt64})
	}
	if n := len(Encode(full)); n > MaxBytes/8 {
		t.Errorf("a full message has %d bytes", n)
	}
	ok := string(Encode(fires(1)))
	with := func(old, new string) string {
		if !strings.Contains(ok, old) {
			t.Fatalf("%s has no %s", ok, old)
		}
		return strings.Replace(ok, old, new, 1)
	}
	check := func(inner string) string {
		return `{"v":1,"kind":"check","slot":1800000000,"try":0,"check":` + inner + `}`
	}
	run := fmt.Sprint(int64(core.PlannedRun(1, slot)))
	many := strings.TrimSuffix(strings.Repeat(run+",", 10001), ",")
	// The maximum size, and one byte more.
	if _, err := Decode([]byte(ok + strings.Repeat(" ", MaxBytes-len(ok)))); err != nil {
		t.Errorf("%d bytes: %v", MaxBytes, err)
	}
	texts := golden.New(t)
	for _, c := range []struct{ name, text string }{
		{"too large", ok + strings.Repeat(" ", MaxBytes+1-len(ok))},
		{"empty", ""},
		{"no JSON", "fires"},
		{"two messages", ok + ok},
		{"version of another type", with(`"v":1`, `"v":"1"`)},
		{"no version", with(`"v":1,`, ``)},
		{"version 0", with(`"v":1`, `"v":0`)},
		{"version below", with(`"v":1`, `"v":-1`)},
		{"other shape", with(`"fires":[`, `"fires":[[],`)},
		{"unknown kind", with(`"kind":"fires"`, `"kind":"notice"`)},
		{"no kind", with(`"kind":"fires",`, ``)},
		{"no fires", string(Encode(fires(0)))},
		{"too many fires", string(Encode(fires(MaxFires + 1)))},
		{"no slot", with(`"slot":1800000000`, `"slot":0`)},
		{"slot before 1970", with(`"slot":1800000000`, `"slot":-5`)},
		{"slot too far", with(`"slot":1800000000`, fmt.Sprintf(`"slot":%d`, int64(core.Horizon)+86401))},
		{"try below", with(`"try":0`, `"try":-1`)},
		{"try above", with(`"try":0`, `"try":1048577`)},
		{"unread below", with(`"try":0`, `"try":0,"unread":-1`)},
		{"unread above", with(`"try":0`, `"try":0,"unread":1048577`)},
		{"run 0", with(`"run":`+run, `"run":0`)},
		{"run below", with(`"run":`+run, `"run":-`+run)},
		{"run without a job", with(`"run":`+run, `"run":4294967295`)},
		{"run of another instant", with(`"cause"`, `"at":-1,"cause"`)},
		{"unknown cause", with(`"schedule"`, `"whim"`)},
		{"check of nothing", `{"v":1,"kind":"check","slot":1800000000,"try":0}`},
		{"check of no run", check(`{"runs":[0]}`)},
		{"check of no job", check(`{"jobs":[7,0]}`)},
		{"check of too many jobs", check(`{"jobs":[` + strings.Repeat("7,", MaxJobs) + `7]}`)},
		{"check of too many", check(`{"runs":[` + many + `]}`)},
		{"journal without a nonce", check(`{"journal":{"minute":1,"suffix":0,"v":1,"entries":[]}}`)},
		{"journal of no suffix", check(`{"journal":{"minute":1,"suffix":16,"nonce":"n","v":1,"entries":[]}}`)},
		{"journal suffix below", check(`{"journal":{"minute":1,"suffix":-1,"nonce":"n","v":1,"entries":[]}}`)},
		{"journal of no run", check(`{"journal":{"minute":1,"suffix":0,"nonce":"n","v":1,"entries":[{"run":0,"outcome":1}]}}`)},
		{"journal without an outcome", check(`{"journal":{"minute":1,"suffix":0,"nonce":"n","v":1,"entries":[{"run":` + run +
			`,"outcome":0}]}}`)},
		{"journal of an unknown outcome", check(`{"journal":{"minute":1,"suffix":0,"nonce":"n","v":1,"entries":[{"run":` + run +
			`,"outcome":7}]}}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Decode([]byte(c.text))
			poison, ok := errors.AsType[*PoisonError](err)
			if !ok {
				t.Fatalf("got %v, want a PoisonError", err)
			}
			texts.Equal(t, c.name, jsonError.ReplaceAllString(poison.Reason, "$1: ERROR"))
			if !reflect.DeepEqual(m, Message{}) {
				t.Errorf("beside the error it answers %+v", m)
			}
		})
	}
}

// jsonError matches a reason that ends with the words of encoding/json, which depend on the version of Go.
var jsonError = regexp.MustCompile(`^(not a JSON message): .+$`)

// TestNewerIsReturned checks that a message of a newer version is never poison, whatever else it contains,
// because poison is moved to the dead-letter queue.
func TestNewerIsReturned(t *testing.T) {
	for _, text := range []string{
		`{"v":2,"kind":"fires","slot":1800000000,"fires":[]}`,
		`{"v":2,"kind":"song","slot":"soon","fires":{"packed":"AAAA"}}`,
		`{"v":1000000}`,
	} {
		_, err := Decode([]byte(text))
		if _, poison := errors.AsType[*PoisonError](err); poison || !errors.Is(err, ErrNewer) {
			t.Errorf("%s: got %v, want ErrNewer", text, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(fires(2)))
	f.Add(Encode(Message{Kind: KindFires, Slot: slot, Try: 3,
		Fires: []core.Fire{{Run: core.NumberedRun(1, 2), At: slot - 5, Slot: slot, Cause: core.CauseManual}}}))
	f.Add(Encode(Message{Kind: KindCheck, Slot: slot, Check: &Check{Idle: true, Runs: []core.RunID{core.PlannedRun(3, slot)}}}))
	f.Add(Encode(Message{Kind: KindCheck, Slot: slot, Check: &Check{Journal: &core.Journal{Key: core.JournalKey{Minute: 5, Nonce: "n"}, V: 1,
		Entries: []core.Entry{{Run: core.PlannedRun(3, slot), Address: "http://a", Outcome: core.Begun}}}}}))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"kind":"fires","slot":1,"try":0,"fires":[{"run":4294967296,"at":9223372036854775807,"cause":"schedule"}]}`))
	f.Add([]byte(`{"V":1,"KIND":"check","slot":1e3,"check":{"runs":null,"journal":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		salvaged, _ := Salvage(b)
		for _, fire := range salvaged {
			if !fire.Run.Valid() {
				t.Fatalf("salvaged %+v", fire)
			}
		}
		if err != nil {
			if _, ok := errors.AsType[*PoisonError](err); !ok && !errors.Is(err, ErrNewer) {
				t.Fatalf("an error that no queue knows what to do with: %v", err)
			}
			return
		}
		switch m.Kind {
		case KindFires:
			if m.Check != nil || len(m.Fires) == 0 || len(m.Fires) > MaxFires {
				t.Fatalf("fires: %+v", m)
			}
		case KindCheck:
			if m.Check == nil || m.Fires != nil {
				t.Fatalf("a check: %+v", m)
			}
		default:
			t.Fatalf("kind %q", m.Kind)
		}
		for _, fire := range m.Fires {
			if !fire.Run.Valid() || fire.Slot != m.Slot {
				t.Fatalf("fire %+v of slot %d", fire, m.Slot)
			}
		}
		again, err := Decode(Encode(m))
		if err != nil {
			if len(Encode(m)) > MaxBytes {
				return // escapes can make the text longer than the input
			}
			t.Fatalf("%s cannot be read again: %v", Encode(m), err)
		}
		if !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v came back as %+v", m, again)
		}
	})
}

func TestSalvage(t *testing.T) {
	good := fires(3)
	whole := string(Encode(good))
	twice := good
	twice.Fires = append(slices.Clone(good.Fires), good.Fires[0])
	many := Message{Kind: KindFires, Slot: slot}
	for i := range 60 {
		many.Fires = append(many.Fires, core.Fire{Run: core.NumberedRun(1, uint32(i)), At: slot, Slot: slot, Cause: core.CauseAPI})
	}
	for name, c := range map[string]struct {
		body   string
		want   []core.Fire
		unread int
	}{
		"a whole one":          {whole, good.Fires, 0},
		"one twice":            {string(Encode(twice)), good.Fires, 0},
		"too many":             {string(Encode(many)), many.Fires, 0},
		"a cause that is none": {strings.Replace(whole, `"cause":"schedule"`, `"cause":"boredom"`, 1), good.Fires[1:], 1},
		"a fire that is none":  {strings.Replace(whole, `"fires":[`, `"fires":[7,null,{"run":-1},`, 1), good.Fires, 3},
		"a newer version":      {strings.Replace(whole, `"v":1`, `"v":2`, 1), nil, 0},
		"another kind":         {strings.Replace(whole, `"fires"`, `"herd"`, 1), nil, 0},
		"no slot":              {strings.Replace(whole, `"slot":`, `"slat":`, 1), nil, 0},
		"cut":                  {whole[:len(whole)-3], nil, 0},
		"nothing":              {"", nil, 0},
	} {
		if got, unread := Salvage([]byte(c.body)); !slices.Equal(got, c.want) || unread != c.unread {
			t.Errorf("%s: %+v and %d unread\nwant %+v and %d", name, got, unread, c.want, c.unread)
		}
	}
}
