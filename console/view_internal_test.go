package console

import (
	"html/template"
	"testing"

	"github.com/tickring/tickring/words"
)

// TestMarkIsFilledOnce: what is put into a sentence is no place for the rest of it, though it
// looks like one.
func TestMarkIsFilledOnce(t *testing.T) {
	a := &ask{Lang: words.English}
	got := a.Mark("%s: %s", html(`<b title="%s">x</b>`, "\uE0001\uE000"), html(`<i class="c">%s</i>`, "<y>"))
	want := template.HTML("<b title=\"\uE0001\uE000\">x</b>: <i class=\"c\">&lt;y&gt;</i>")
	if got != want {
		t.Errorf("%s", got)
	}
}

// TestTellEscapesWhatIsNoMarkup: of whatever type.
func TestTellEscapesWhatIsNoMarkup(t *testing.T) {
	type name string
	a := &ask{Lang: words.English}
	if got := a.Tell("%s: %s", name("<b>"), html("<i>%d</i>", 1)); got != "&lt;b&gt;: <i>1</i>" {
		t.Errorf("%s", got)
	}
}
