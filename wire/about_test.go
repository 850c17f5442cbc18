package wire

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/internal/testkit/check"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestParseAbout: missing and malformed values and those over a limit are ignored.
func TestParseAbout(t *testing.T) {
	least := "00-00000000000000000000000000000001-0000000000000001-00"
	for _, c := range []struct {
		attempt, instant, cause, traceparent string
		want                                 About
	}{
		{},
		{"3", "2026-01-02T03:04:05+01:00", "schedule", parent, About{3, 1767319445, "schedule", parent}},
		{"1000000", "9999-12-31T23:59:59Z", "a-b", least, About{1_000_000, maxInstant, "a-b", least}},
		{"0", "1970-01-01T00:00:00Z", "", parent + "-x", About{}},
		{"-1", "1969-12-31T00:00:00Z", "Schedule", parent[:54], About{}},
		{"1000001", "none", "two words", strings.ToUpper(parent), About{}},
		{"9999999999999999999999", strings.Repeat("2", 10_000), strings.Repeat("c", maxCause+1), "01" + parent[2:], About{}},
		{"1 ", "2026-01-02", "x\r\ny", parent[:53] + "0\n", About{}},
		{"2", "garbage", "retry", parent[:35] + "_" + parent[36:], About{Attempt: 2, Cause: "retry"}},
		{traceparent: parent[:20] + "-" + parent[21:]},
		{traceparent: "00-00000000000000000000000000000000-00f067aa0ba902b7-01"},
		{traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"},
	} {
		header := map[string]string{HeaderAttempt: c.attempt, HeaderScheduledAt: c.instant, HeaderCause: c.cause,
			HeaderTraceparent: c.traceparent}
		if got := ParseAbout(func(name string) string { return header[name] }); got != c.want {
			t.Errorf("%.40q: %+v, want %+v", header, got, c.want)
		}
	}
}

// TestAboutTravels: headers and member carry an About completely, and no value can end a header.
func TestAboutTravels(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := Run{JobID: 1, LogID: 7, Params: `{"tickring":{"attempt":9}}`, About: About{
			Attempt: rapid.IntRange(-1, 1_000_001).Draw(rt, "attempt"), Instant: rapid.Int64Range(-1, maxInstant+1).Draw(rt, "instant"),
			Cause:       rapid.StringMatching(`[a-z-]{0,33}|[ -~\r\n]{0,5}`).Draw(rt, "cause"),
			Traceparent: rapid.StringMatching(`00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|[ -~\r\n]{0,60}`).Draw(rt, "traceparent")}}
		said := map[string]string{}
		r.About.Headers(func(name, value string) {
			if strings.ContainsAny(value, "\r\n") {
				rt.Fatalf("%s: %q", name, value)
			}
			said[name] = value
		})
		a := ParseAbout(func(name string) string { return said[name] })
		for _, field := range []struct{ got, want any }{{a.Attempt, r.About.Attempt}, {a.Instant, r.About.Instant}, {a.Cause, r.About.Cause},
			{a.Traceparent, r.About.Traceparent}} {
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

// TestBodyIsXXLJobs: other executors can reject a body with a member that xxl-job's body lacks.
func TestBodyIsXXLJobs(t *testing.T) {
	r := Run{JobID: 1, LogID: 7}
	plain := string(AppendRun(nil, &r))
	r.About = About{Attempt: 2, Instant: 1767319445, Cause: "retry", Traceparent: parent}
	check.Equal(t, string(AppendRun(nil, &r)), plain, "the body contains the About")
	want := strings.TrimSuffix(plain, "}") + `,"tickring":{"attempt":2,"scheduledAt":"2026-01-02T02:04:05Z","cause":"retry","traceparent":"` + parent + `"}}`
	check.Equal(t, string(AppendOrder(nil, &r)), want, "got")
}

func TestMemberOfAnOrder(t *testing.T) {
	for member, want := range map[string]About{
		`{"attempt":3,"scheduledAt":"2026-01-02T03:04:05+01:00","later":{}}`: {Attempt: 3, Instant: 1767319445},
		`{"traceparent":"` + parent + `"}`:                                   {Traceparent: parent},
		`{"traceparent":7}`:                                                  {},
		`{"attempt":"x","cause":7,"scheduledAt":[]}`:                         {},
		`"garbage"`: {}, `null`: {}, `[]`: {}, `{}`: {},
	} {
		r, err := DecodeRun([]byte(`{"jobId":1,"logId":7,"tickring":` + member + `}`))
		if err != nil || r.About != want {
			t.Errorf("%s: %+v, %v", member, r.About, err)
		}
	}
}
