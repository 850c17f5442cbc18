package console

import (
	"html/template"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/words"
)

// TestMarkIsFilledOnce: inserted text is not treated as a placeholder, even if it looks like one.
func TestMarkIsFilledOnce(t *testing.T) {
	a := &ask{Lang: words.English}
	got := a.Mark("%s: %s", html(`<b title="%s">x</b>`, "\uE0001\uE000"), html(`<i class="c">%s</i>`, "<y>"))
	want := template.HTML("<b title=\"\uE0001\uE000\">x</b>: <i class=\"c\">&lt;y&gt;</i>")
	check.Equal(t, got, want)
}

// TestWhatIsNoMarkupIsEscaped: this holds for every type.
func TestWhatIsNoMarkupIsEscaped(t *testing.T) {
	type name string
	check.Equal(t, html("%s: %s", name("<b>"), html("<i>%d</i>", 1)), "&lt;b&gt;: <i>1</i>")
}

// TestNoLineIsTakenForTheHead: lines that look like the header of a difference are shown like any other.
func TestNoLineIsTakenForTheHead(t *testing.T) {
	list := diffOf("a\n-- old\nb\n", "a\n++ new\nb\n")
	want := []diffLine{{"at", "@@ -1,3 +1,3 @@"}, {"", " a"}, {"del", "--- old"}, {"add", "+++ new"}, {"", " b"}}
	if !slices.Equal(list, want) {
		t.Errorf("%q", list)
	}
}

// TestAgain: expensive pages are polled less often, by their build time or by their read units. A page costs at most
// two units a second.
func TestAgain(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 4 * time.Second, 300 * time.Millisecond: 4 * time.Second,
		500 * time.Millisecond: 10 * time.Second, 1500 * time.Millisecond: time.Minute, time.Hour: time.Minute} {
		check.Equal(t, again(took, 0), want, "after %s", took)
	}
	for units, want := range map[float64]time.Duration{1: 10500 * time.Millisecond, 60: 40 * time.Second, 1600: 810 * time.Second} {
		check.Equal(t, again(time.Millisecond, units), want, "after %v units", units)
	}
}
