package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tickring/tickring/internal/testkit/check"
)

// hostile draws strings with what breaks encoders: control characters, quotes,
// separators that JavaScript minds, surrogates, invalid UTF-8.
func hostile() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"\x00", "\x1f", "\x7f", "\"", "\\", "/", "\u2028", "\u2029", "\ufffd", "\U0001f600", "</script>", "\xff",
			"\xed\xa0\x80", "\xc0\xaf", "\xe2\x80", "\n\r\t\b\f"}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 6), func(p []string) string { return strings.Join(p, "") })
}

// asJSON returns s after a round trip through encoding/json.
func asJSON(t testing.TB, s string) string {
	b, err := json.Marshal(s)
	check.OK(t, err)
	var out string
	check.OK(t, json.Unmarshal(b, &out))
	return out
}

func TestRunRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := Run{
			JobID:          rapid.Int32Min(1).Draw(rt, "jobId"),
			Handler:        hostile().Draw(rt, "handler"),
			Params:         hostile().Draw(rt, "params"),
			BlockStrategy:  hostile().Draw(rt, "block"),
			Timeout:        rapid.Int32().Draw(rt, "timeout"),
			LogID:          rapid.Int64Min(1).Draw(rt, "logId"),
			LogTime:        rapid.Int64().Draw(rt, "logTime"),
			GlueType:       hostile().Draw(rt, "glueType"),
			GlueSource:     hostile().Draw(rt, "glueSource"),
			GlueUpdated:    rapid.Int64().Draw(rt, "glueUpdated"),
			BroadcastIndex: rapid.Int32().Draw(rt, "index"),
			BroadcastTotal: rapid.Int32().Draw(rt, "total"),
		}
		b := AppendRun(nil, &r)
		got, err := DecodeRun(b)
		for _, s := range []*string{&r.Handler, &r.Params, &r.BlockStrategy, &r.GlueType, &r.GlueSource} {
			*s = asJSON(t, *s)
		}
		if err != nil || got != r || !json.Valid(b) || !utf8.Valid(b) {
			rt.Fatalf("%q: %+v came back as %+v, %v", b, r, got, err)
		}
	})
}

func TestAppendRunBytes(t *testing.T) {
	r := Run{JobID: 1, Handler: "demo", BlockStrategy: BlockSerial, LogID: 7, LogTime: 1586629003729, GlueType: GlueBean,
		GlueUpdated: 1586629003727, BroadcastTotal: 1}
	want := `{"jobId":1,"executorHandler":"demo","executorParams":"","executorBlockStrategy":"SERIAL_EXECUTION","executorTimeout":0,"logId":7,"logDateTime":1586629003729,"glueType":"BEAN","glueSource":"","glueUpdatetime":1586629003727,"broadcastIndex":0,"broadcastTotal":1}`
	check.Equal(t, string(AppendRun(nil, &r)), want, "got")
	back, err := DecodeRun([]byte(want))
	if err != nil || back != r {
		t.Errorf("back: %+v, %v", back, err)
	}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = AppendRun(buf[:0], &r) }); n != 0 {
		t.Errorf("%v allocations with room in dst, want none", n)
	}
}

func TestSmallRequests(t *testing.T) {
	check.Equal(t, string(AppendKill(nil, KillRequest{3})), `{"jobId":3}`)
	check.Equal(t, string(AppendIdleBeat(nil, IdleBeatRequest{math.MaxInt32})), `{"jobId":2147483647}`)
	check.Equal(t, string(AppendLogRequest(nil, LogRequest{LogID: 7, LogTime: 9, FromLine: 1})),
		`{"logId":7,"logDateTim":9,"logDateTime":9,"fromLineNum":1}`)
	check.Equal(t, string(AppendReply(nil, CodeFailure, "")), `{"code":500,"msg":null,"content":null,"data":null}`)
	for _, times := range []string{`"logDateTim":9`, `"logDateTime":9`, `"logDateTime":9,"logDateTim":0`} {
		q, err := DecodeLogRequest([]byte(`{"logId":7,` + times + `,"fromLineNum":2}`))
		check.OK(t, err)
		check.Equal(t, q, LogRequest{7, 9, 2}, "%s", times)
	}
	for _, bad := range []string{`{}`, `{"jobId":0}`, `{"jobId":-1}`, `{"jobId":2147483648}`, `{"jobId":"x"}`, `[]`, ``, `{"jobId":1}x`} {
		k, errKill := DecodeKill([]byte(bad))
		b, errBeat := DecodeIdleBeat([]byte(bad))
		if errKill == nil || errBeat == nil {
			t.Errorf("%s: %v, %v, want errors", bad, k, b)
		}
	}
}

// list returns the contents of a callback: its dialect, its items, and the positions of unusable items.
func list(c Callback) string {
	var bad []int
	for _, b := range c.Bad {
		bad = append(bad, b.Index)
	}
	return fmt.Sprint(c.Dialect, " ", c.Items, " ", bad)
}

func TestDecodeCallback(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"A", `[{"logId":7,"logDateTim":5,"executeResult":{"code":200,"msg":null}}]`, "A [{7 5 200   0}] []"},
		{"B and C", `[{"logId":7,"logDateTim":5,"handleCode":500,"handleMsg":"no"}]`, "B [{7 5 500 no  0}] []"},
		{"D", `{"callbackList":[{"logId":7,"logDateTime":5,"handleCode":502,"handleMsg":"job execute timeout "}]}`,
			"D [{7 5 502 job execute timeout   0}] []"},
		{"Go", `[{"logId":7,"logDateTim":5,"executeResult":{"code":200,"msg":"a"},"handleCode":200,"handleMsg":"b"}]`, "Go [{7 5 200 b  0}] []"},
		{"handleCode 0", `[{"logId":7,"handleCode":0,"handleMsg":"b","executeResult":{"code":500,"msg":"a"}}]`, "Go [{7 0 500 a  0}] []"},
		{"null result beside handleCode", `[{"logId":7,"executeResult":null,"handleCode":200}]`, "B [{7 0 200   0}] []"},
		{"msg an object", `[{"logId":7,"executeResult":{"code":200,"msg":{"a": [1]}}}]`, `A [{7 0 200 {"a": [1]}  0}] []`},
		{"msg a number", `[{"logId":7,"handleCode":200,"handleMsg":1.5}]`, "B [{7 0 200 1.5  0}] []"},
		{"twice the same", `[{"logId":7,"handleCode":200},{"logId":7,"handleCode":200}]`, "B [{7 0 200   0} {7 0 200   0}] []"},
		{"numbers as Gson reads them", ` [ {"logId" : "7", "logDateTim":1586629003729.0,"handleCode":2e2} ] `, "B [{7 1586629003729 200   0}] []"},
		{"time unreadable", `[{"logId":7,"logDateTime":"yesterday","handleCode":200}]`, "B [{7 0 200   0}] []"},
		{"largest id", `[{"logId":9223372036854775807,"handleCode":200}]`, "B [{9223372036854775807 0 200   0}] []"},
		{"escaped key and text", `[{"log\u0049d":7,"handleCode":200,"handleMsg":"\ud83d\ude00\ud800\u2028\/"}]`,
			"B [{7 0 200 \U0001f600\ufffd\u2028/  0}] []"},
		{"some unusable", `[{"handleCode":200},{"logId":0,"handleCode":200},{"logId":-3,"handleCode":200},{"logId":1.5,"handleCode":200},{"logId":9223372036854775808,"handleCode":200},{"logId":null,"handleCode":200},{"logId":8,"handleCode":200},null,[],{"logId":9},{"logId":9,"executeResult":{"code":"x"}}]`,
			"B [{8 0 200   0}] [0 1 2 3 4 5 7 8 9 10]"},
		{"data", `[{"logId":7,"handleCode":200,"tickringData":"d\u00e9"},{"logId":8,"handleCode":200,"tickringData":null},{"logId":9,"handleCode":200,"tickringData":{"a":1}}]`,
			`B [{7 0 200  dé 0} {8 0 200   0} {9 0 200  {"a":1} 0}] []`},
		{"a word on the retry", `[{"logId":7,"handleCode":500,"tickringRetryAfter":300},{"logId":8,"handleCode":500,"tickringRetryAfter":-7},{"logId":9,"handleCode":500,"tickringRetryAfter":"soon"},{"logId":10,"handleCode":500,"tickringRetryAfter":9223372036854775807}]`,
			"B [{7 0 500   300} {8 0 500   -1} {9 0 500   0} {10 0 500   2147483647}] []"},
		{"empty array", `[]`, "unknown [] []"},
		{"empty D", `{"callbackList":[]}`, "D [] []"},
		{"D with more", `{"x":{"callbackList":[]},"callbackList":[{"logId":7,"handleCode":200}],"y":null}`, "D [{7 0 200   0}] []"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeCallback([]byte(c.body), 0)
			check.OK(t, err)
			check.Equal(t, list(got), c.want)
		})
	}
}

func TestDecodeCallbackRefuses(t *testing.T) {
	for _, body := range []string{``, ` `, `null`, `7`, `"x"`, `{}`, `{"callbackList":{}}`, `{"callbackList":null}`, `[`, `[{]`,
		`[{"logId":7,}]`, `[{"logId":7}] x`,
		`[{"logId":07}]`, "[{\"a\":\"\n\"}]", `[{"a":"\x"}]`, `[{"a":"\u12"}]`, `{"callbackList":[]`, strings.Repeat("[", 5000)} {
		if got, err := DecodeCallback([]byte(body), 0); err == nil {
			t.Errorf("%.40q was taken: %+v", body, got)
		}
	}
	_, err := DecodeCallback([]byte(`[{"logId":1,"handleCode":200},{"logId":2,"handleCode":200},{"logId":3,"handleCode":200}]`), 2)
	if !errors.Is(err, ErrTooManyItems) {
		t.Errorf("three items of two: %v", err)
	}
	var syntax *SyntaxError
	if _, err := DecodeCallback([]byte(`[{"logId":x}]`), 0); !errors.As(err, &syntax) || syntax.Offset != 10 {
		t.Errorf("syntax error: %v", err)
	}
}

func TestCallbackRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.SampledFrom([]Dialect{DialectA, DialectB, DialectC, DialectD, DialectGo}).Draw(rt, "dialect")
		items := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) CallbackItem {
			return CallbackItem{
				LogID:   rapid.Int64Min(1).Draw(rt, "id"),
				LogTime: rapid.Int64Min(0).Draw(rt, "time"),
				Code:    int(rapid.Int32Min(1).Draw(rt, "code")),
				Msg:     hostile().Draw(rt, "msg"),
			}
		}), 1, 5).Draw(rt, "items")
		b := AppendCallback(nil, d, items)
		if !json.Valid(b) {
			rt.Fatalf("not JSON: %q", b)
		}
		for i := range items {
			items[i].Msg = asJSON(t, items[i].Msg)
		}
		got, err := DecodeCallback(b, 0)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		if diff := cmp.Diff(items, got.Items); diff != "" || len(got.Bad) > 0 {
			rt.Fatalf("bad %v, items:\n%s", got.Bad, diff)
		}
		want := d
		if d == DialectC {
			want = DialectB
		}
		if got.Dialect != want {
			rt.Fatalf("dialect %v, want %v", got.Dialect, want)
		}
	})
}

func TestDecodeRegistration(t *testing.T) {
	want := Registration{Group: GroupExecutor, App: "demo", Address: "http://10.0.0.1:9999/"}
	got, err := DecodeRegistration(AppendRegistration(nil, want))
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for body, names := range map[string]string{
		``:   "empty",
		`[]`: "byte 0",
		`{}`: "registryGroup",
		`{"registryGroup":"EXECUTOR","registryValue":"http://x:1"}`:                                                     "registryKey",
		`{"registryGroup":"EXECUTOR","registryKey":" \t","registryValue":"http://x:1"}`:                                 "registryKey",
		`{"registryGroup":"EXECUTOR","registryKey":"a","registryValue":null}`:                                           "registryValue",
		`{"registryGroup":"EXECUTOR","registryKey":7,"registryValue":"http://x:1"}`:                                     "registryKey",
		`{"registryGroup":"EXECUTOR","registryKey":"` + strings.Repeat("a", MaxApp+1) + `","registryValue":"http://x"}`: "registryKey",
	} {
		if _, err := DecodeRegistration([]byte(body)); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%.60s: error %v, want one that names %s", body, err, names)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		body string
		want Verdict
		msg  string
	}{
		{`{"code":200}`, VerdictAccepted, ""},
		{`{"code":200,"msg":null}`, VerdictAccepted, ""},
		{`{"code":200,"msg":"Success","data":null}`, VerdictAccepted, "Success"},
		{`{"code":200,"msg":"","content":"x"}`, VerdictAccepted, ""},
		{`{"code":500,"msg":"repeate trigger job, logId:7"}`, VerdictRepeatTrigger, "repeate trigger job, logId:7"},
		{`{"code":500,"msg":"block strategy effect：Discard Later"}`, VerdictBlockStrategy, "block strategy effect：Discard Later"},
		{`{"code":500,"msg":"job handler [x] not found."}`, VerdictRefused, "job handler [x] not found."},
		{`{"code":500,"msg":{"a":1}}`, VerdictRefused, `{"a":1}`},
		{`{"code":401,"msg":"no"}`, VerdictRefused, "no"},
		{`{"code":429,"msg":"queue full: 100 waiting"}`, VerdictQueueFull, "queue full: 100 waiting"},
		{`{"code":500,"msg":"queue full"}`, VerdictQueueFull, "queue full"},
		{`[{"logId":7,"logDateTim":1,"executeResult":{"code":500,"msg":"Task not registered"},"handleCode":500,"handleMsg":"Task not registered"}]`, VerdictRefused, "Task not registered"},
		{`[{"logId":7,"logDateTim":1,"executeResult":{"code":500,"msg":"There are tasks running"},"handleCode":500,"handleMsg":"There are tasks running"}]`, VerdictBlockStrategy, "There are tasks running"},
		{`[{"logId":7,"executeResult":{"code":200,"msg":""}}]`, VerdictGarbage, ""},
		{`[]`, VerdictGarbage, ""},
		{`[1]`, VerdictGarbage, ""},
		{`{}`, VerdictGarbage, ""},
		{`{"code":null}`, VerdictGarbage, ""},
		{`{"code":"ok"}`, VerdictGarbage, ""},
		{`{"timestamp":1,"status":500,"error":"Internal Server Error"}`, VerdictGarbage, ""},
		{`<html>200</html>`, VerdictGarbage, ""},
		{``, VerdictGarbage, ""},
		{`{"code":200`, VerdictGarbage, ""},
		{`200`, VerdictGarbage, ""},
		{`{"Code":200}`, VerdictGarbage, ""}, // keys are matched exactly, and the last of equal keys counts
		{`{"code":500,"c\u006fde":200,"Code":500}`, VerdictAccepted, ""},
	} {
		r, err := DecodeReply([]byte(c.body))
		if got := r.Verdict(); got != c.want || r.Msg != c.msg {
			t.Errorf("%s: %v %q, want %v %q", c.body, got, r.Msg, c.want, c.msg)
		}
		if (err != nil) != (c.want == VerdictGarbage) {
			t.Errorf("%s: error %v", c.body, err)
		}
	}
	r, err := DecodeReply([]byte(`{"code":500,"msg":"invalid request, uri-mapping(/trigger) not found."}`))
	if err != nil || !r.NoMapping(PathTrigger) || r.NoMapping(PathRun) {
		t.Errorf("mapping: %+v, %v", r, err)
	}
}

func TestLogReply(t *testing.T) {
	want := LogResult{FromLine: 1, ToLine: 3, Content: "a\nb\n\"c\"", End: true}
	for _, d := range []Dialect{DialectA, DialectB, DialectC, DialectD, DialectGo} {
		r, err := DecodeReply(AppendLogReply(nil, d, CodeSuccess, "", want))
		if err != nil || !r.OK() || r.PayloadKey != d.PayloadKey() {
			t.Errorf("%v: %+v, %v", d, r, err)
		}
		if got, err := r.LogResult(); err != nil || got != want {
			t.Errorf("%v: %+v, %v", d, got, err)
		}
	}
	r, _ := DecodeReply([]byte(`{"code":200,"msg":null,"content":null,"data":{"fromLineNum":1,"toLineNum":0,"logContent":null,"isEnd":false}}`))
	if got, err := r.LogResult(); err != nil || got != (LogResult{FromLine: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := (Reply{}).LogResult(); err == nil {
		t.Error("a reply without payload has a log")
	}
}

func TestCutMessage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"short", "short"},
		{"a\xff\xfeb", "a\ufffdb"},
		{strings.Repeat("a", MaxMessage), strings.Repeat("a", MaxMessage)},
		{strings.Repeat("a", MaxMessage+1), strings.Repeat("a", MaxMessage)},
		{strings.Repeat("中", MaxMessage), strings.Repeat("中", MaxMessage)},
		{strings.Repeat("中", MaxMessage+5), strings.Repeat("中", MaxMessage)},
		{strings.Repeat("\U0001f600", MaxMessage) + "x", strings.Repeat("\U0001f600", MaxMessage)},
	} {
		if got := TruncateMessage(c.in); got != c.want {
			t.Errorf("%.20q (%d bytes): %d bytes, want %d", c.in, len(c.in), len(got), len(c.want))
		}
	}
}

func TestDialect(t *testing.T) {
	for d := DialectUnknown; d <= DialectGo; d++ {
		if got := ParseDialect(d.String()); got != d {
			t.Errorf("%v came back as %v", d, got)
		}
	}
	if ParseDialect("E") != DialectUnknown || DialectOfHeader("demo") != DialectD || DialectOfHeader("") != DialectUnknown {
		t.Error("unknown or header")
	}
	if DialectD.RunPath() != "/trigger" || DialectUnknown.RunPath() != "/run" {
		t.Error("path")
	}
}

func batch(n int) []CallbackItem {
	items := make([]CallbackItem, n)
	for i := range items {
		items[i] = CallbackItem{LogID: int64(i+1)<<32 | 12345678, LogTime: 1586629003729, Code: 200, Msg: "processed 1200 rows in 3.2 s"}
	}
	return items
}

func BenchmarkAppendRun(b *testing.B) {
	r := Run{JobID: 1, Handler: "demoJobHandler", Params: `{"day":"2026-01-01","shard":"a"}`, BlockStrategy: BlockSerial, LogID: 1<<32 | 7,
		LogTime: 1586629003729, GlueType: GlueBean, GlueUpdated: 1586629003727, BroadcastTotal: 1}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendRun(buf[:0], &r)
	}
}

func BenchmarkDecodeCallback(b *testing.B) {
	for n, d := range map[int]Dialect{1: DialectGo, 50: DialectB, 5000: DialectA} {
		body := AppendCallback(nil, d, batch(n))
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				check.Call(b)(DecodeCallback(body, 0))
			}
		})
	}
}

func BenchmarkDecodeReply(b *testing.B) {
	body := []byte(`{"code":200,"msg":"","content":null}`)
	b.ReportAllocs()
	for b.Loop() {
		check.Call(b)(DecodeReply(body))
	}
}

// TestCallbackThatIsNotJSON: a callback with unescaped messages is read completely: the message, and the items before and after it.
func TestCallbackThatIsNotJSON(t *testing.T) {
	const before, behind = `{"logId":1,"logDateTim":1,"handleCode":200,"handleMsg":"ok"}`, `{"logId":3,"handleCode":200,"handleMsg":"ok"}`
	item := func(msg string) string {
		return `{"logId":2,"logDateTim":1,"handleCode":500,"handleMsg":"` + msg + `"}`
	}
	for name, c := range map[string]struct{ item, want string }{
		"newline":           {item("line one\nline\ttwo"), "line one\nline\ttwo"},
		"quotes":            {item(`he said "no", "never"`), `he said "no", "never"`},
		"quote at the ends": {item(`"no"`), `"no"`},
		"path":              {item(`C:\dir\new is "gone"`), `C:\dir\new is "gone"`},
		"backslash at last": {item(`no such folder: C:\dir\`), `no such folder: C:\dir\`},
		"escaped, and not":  {item("said \\\"no\\\"\\n\nand left"), "said \"no\"\n\nand left"},
		"JSON":              {item(`got {"a":"b","c":["d"]} of [{"logId":"5"}]`), `got {"a":"b","c":["d"]} of [{"logId":"5"}]`},
		"an envelope":       {item(`got {"msg":"x","code":200}`), `got {"msg":"x","code":200}`},
		"invalid UTF-8":     {item("\xff\""), "\ufffd\""},
		"dialect A":         {`{"logId":2,"logDateTim":1,"executeResult":{"code":500,"msg":"a "b""}}`, `a "b"`},
		"an envelope in A":  {`{"logId":2,"executeResult":{"code":500,"msg":"got {"msg":"x","code":200}"}}`, `got {"msg":"x","code":200}`},
		"Go":                {`{"logId":2,"executeResult":{"code":500,"msg":"a "b""},"handleCode":500,"handleMsg":"a "b""}`, `a "b"`},
		"message first":     {`{"handleMsg":"a "b"","logId":2,"handleCode":500}`, `a "b"`},
		"a key of others":   {`{"logId":2,"handleCode":500,"handleMsg":"a "b"","host":"h"}`, `a "b"","host":"h`},
	} {
		for _, form := range []string{"[%s]", `{"callbackList":[%s]}`, " [ %s ] ", `[` + before + `,%s]`, `[` + before + " ,\n%s , " + behind + "]"} {
			body := fmt.Sprintf(form, c.item)
			got, err := DecodeCallback([]byte(body), 0)
			if err != nil || got.Broken == nil || len(got.Bad) > 0 {
				t.Errorf("%s: %s: %+v, %v", name, body, got, err)
				continue
			}
			want := map[int64]string{1: "ok", 2: c.want, 3: "ok"}
			for i, it := range got.Items {
				if i > 0 && it.LogID != got.Items[i-1].LogID+1 || it.Msg != want[it.LogID] || (it.LogID == 2) != (it.Code == 500) {
					t.Errorf("%s: %s: %+v", name, body, it)
				}
			}
			check.Equal(t, len(got.Items), 1+strings.Count(body, before)+strings.Count(body, behind), "%s: %s: %+v", name, body, got.Items)
		}
	}
	for body, want := range map[string]string{
		`[` + before + `,{"logId":2,"handleCode":500,"handleMsg":"cut o`: "B [{1 1 200 ok  0} {2 0 500 cut o  0}] []",
		`[` + before + `,{"logId":2,"handleCode":50`:                     "B [{1 1 200 ok  0}] [1]",
		`[` + before + `] trailing`:                                      "B [{1 1 200 ok  0}] []",
		`[` + before + ` trailing`:                                       `B [{1 1 200 ok"} trailing  0}] []`,
		`{"callbackList":[` + before + `],`:                              "D [{1 1 200 ok  0}] []",
		`[{"logId":1,"handleCode":200} trailing`:                         "B [{1 0 200   0}] []",
		`[{"logId":1,"handleCode":200},{"logId":2,"handleC`:              "B [{1 0 200   0}] [1]",
		// A part between two messages is not JSON: the rest is the first one.
		`[{"logId":1,"executeResult":{"code":500,"msg":"a"},"x":'',"handleCode":500,"handleMsg":"a"}]`: `A [{1 0 500 a"},"x":'',"handleCode":500,"handleMsg":"a  0}] []`,
	} {
		got, err := DecodeCallback([]byte(body), 0)
		if text := list(got); err != nil || got.Broken == nil || text != want {
			t.Errorf("%s: %s, %v, want %s", body, text, err, want)
		}
	}
}
