package wire

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is not said, malformed or beyond its bound is not believed.
func TestParseAbout(t *testing.T) {
	for _, c := range []struct {
		attempt, instant, cause string
		want                    About
	}{
		{},
		{"3", "2026-01-02T03:04:05+01:00", "schedule", About{3, 1767319445, "schedule"}},
		{"1000000", "9999-12-31T23:59:59Z", "a-b", About{1_000_000, maxInstant, "a-b"}},
		{"0", "1970-01-01T00:00:00Z", "", About{}},
		{"-1", "1969-12-31T00:00:00Z", "Schedule", About{}},
		{"1000001", "none", "two words", About{}},
		{"9999999999999999999999", strings.Repeat("2", 10_000), strings.Repeat("c", maxCause+1), About{}},
		{"1 ", "2026-01-02", "x\r\ny", About{}},
		{"2", "garbage", "retry", About{Attempt: 2, Cause: "retry"}},
	} {
		if got := ParseAbout(c.attempt, c.instant, c.cause); got != c.want {
			t.Errorf("%.40q %.40q %.40q: %+v, want %+v", c.attempt, c.instant, c.cause, got, c.want)
		}
	}
}

// Headers and member bring an About over whole, and never what ends a header.
func TestAboutTravels(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := Run{JobID: 1, LogID: 7, Params: `{"tickring":{"attempt":9}}`, About: About{
			Attempt: rapid.IntRange(-1, 1_000_001).Draw(rt, "attempt"), Instant: rapid.Int64Range(-1, maxInstant+1).Draw(rt, "instant"),
			Cause: rapid.StringMatching(`[a-z-]{0,33}|[ -~\r\n]{0,5}`).Draw(rt, "cause")}}
		var said [3]string
		r.About.Headers(func(name, value string) {
			if strings.ContainsAny(value, "\r\n") {
				rt.Fatalf("%s: %q", name, value)
			}
			said[map[string]int{HeaderAttempt: 0, HeaderInstant: 1, HeaderCause: 2}[name]] = value
		})
		a := ParseAbout(said[0], said[1], said[2])
		for _, field := range []struct{ got, want any }{{a.Attempt, r.About.Attempt}, {a.Instant, r.About.Instant}, {a.Cause, r.About.Cause}} {
			if field.got != field.want && field.got != 0 && field.got != int64(0) && field.got != "" {
				rt.Fatalf("%+v came back as %+v", r.About, a)
			}
		}
		back, err := DecodeRun(AppendOrder(nil, &r))
		if err != nil || back.About != a || back.Params != r.Params {
			rt.Fatalf("%+v came back as %+v, %v; the headers say %+v", r, back, err, a)
		}
		if r.About.Attempt > 0 && r.About.Attempt <= maxAttempt && a.Attempt != r.About.Attempt {
			rt.Fatalf("an attempt was lost: %+v", r.About)
		}
	})
}

// Others may refuse a body with a member that xxl-job's has not.
func TestBodyIsXXLJobs(t *testing.T) {
	r := Run{JobID: 1, LogID: 7}
	plain := string(AppendRun(nil, &r))
	r.About = About{Attempt: 2, Instant: 1767319445, Cause: "retry"}
	if got := string(AppendRun(nil, &r)); got != plain {
		t.Errorf("the body tells the About: %s", got)
	}
	want := strings.TrimSuffix(plain, "}") + `,"tickring":{"attempt":2,"scheduledAt":"2026-01-02T02:04:05Z","cause":"retry"}}`
	if got := string(AppendOrder(nil, &r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMemberOfAnOrder(t *testing.T) {
	for member, want := range map[string]About{
		`{"attempt":3,"scheduledAt":"2026-01-02T03:04:05+01:00","later":{}}`: {Attempt: 3, Instant: 1767319445},
		`{"attempt":"x","cause":7,"scheduledAt":[]}`:                         {},
		`"garbage"`: {}, `null`: {}, `[]`: {}, `{}`: {},
	} {
		r, err := DecodeRun([]byte(`{"jobId":1,"logId":7,"tickring":` + member + `}`))
		if err != nil || r.About != want {
			t.Errorf("%s: %+v, %v", member, r.About, err)
		}
	}
}
