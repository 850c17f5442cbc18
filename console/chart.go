package console

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/words"
)

// kinds are the groups of states that charts count, from the bottom of a bar to its top.
var kinds = []struct {
	class  string
	text   core.Text
	states []core.State
}{
	{"ok", core.Say("succeeded"), []core.State{core.Succeeded}},
	{"run", core.Say("not ended"), []core.State{core.Planned, core.Queued, core.Running}},
	{"skip", core.Say("skipped"), []core.State{core.Skipped}},
	{"stop", core.Say("killed"), []core.State{core.Killed}},
	{"fail", core.Say("failed"), []core.State{core.Failed, core.TimedOut, core.Lost}},
}

// counts has the number of runs of each of kinds.
type counts [5]int64

func (c counts) All() (n int64) {
	for _, one := range c {
		n += one
	}
	return n
}

func (c counts) Failed() int64 { return c[len(c)-1] }

func (c *counts) add(more counts) {
	for k, n := range more {
		c[k] += n
	}
}

type stretch struct {
	From, To time.Time
	N        counts
	Late     int64 // number of late runs of all results
}

func sumOf(list []stretch) (sum counts) {
	for i := range list {
		sum.add(list[i].N)
	}
	return sum
}

// chart draws a bar for each stretch, split by the results of its runs. The bar links to the URL that to returns. The
// script lets users select a range of bars.
func (a *ask) chart(list []stretch, to func(*stretch) string) template.HTML {
	const high = 56.0
	if len(list) == 0 {
		return ""
	}
	most := int64(1)
	for i := range list {
		most = max(most, list[i].N.All())
	}
	step := list[0].To.Sub(list[0].From)
	var b markup
	b.add(`<svg class="chart" viewBox="0 0 %d %d" preserveAspectRatio="none" role="group" aria-label="%s" data-from="%d" data-step="%d">`,
		len(list)*8, int(high)+4, a.Say("runs over time: at most %d runs in %s", most, a.Span(step)), list[0].From.UnixMilli(),
		step.Milliseconds())
	for i := range list {
		s := &list[i]
		var said []string
		y, bars := high+2, ""
		for k, n := range s.N {
			if n == 0 {
				continue
			}
			h := max(2, (high-4)*float64(n)/float64(most)) // so that one failure among many runs is visible
			y -= h
			bars += fmt.Sprintf(`<rect class="b-%s" x="%d" y="%.1f" width="6" height="%.1f"/>`, kinds[k].class, i*8+1, max(0, y), h)
			said = append(said, fmt.Sprintf("%d %s", n, words.Say(a.Lang, kinds[k].text)))
		}
		if s.Late > 0 {
			bars += fmt.Sprintf(`<rect class="b-late" x="%d" y="%.1f" width="6" height="2"/>`, i*8+1, high+2)
			said = append(said, a.Say("%d late", s.Late))
		}
		if len(said) == 0 {
			continue
		}
		title := a.Moment(s.From, "") + ": " + strings.Join(said, ", ")
		b.add(`<a href="%s" tabindex="-1" aria-label="%s"><title>%s</title><rect class="hole" x="%d" y="0" width="8" height="60"/>%s</a>`,
			to(s), title, title, i*8, template.HTML(bars))
	}
	b.add(`<rect class="brush" x="0" y="0" width="0" height="60" hidden="hidden"/></svg>`)
	return html(`%s%s`, b.html(), a.axis(list[0].From, list[len(list)-1].To))
}

// Spark returns a small chart without text. It fits into a table row.
func (a *ask) Spark(list []stretch) template.HTML {
	most := int64(1)
	for i := range list {
		most = max(most, list[i].N.All())
	}
	var b markup
	b.add(`<svg class="bars" viewBox="0 0 %d 20" preserveAspectRatio="none" aria-hidden="true">`, len(list)*4)
	for i := range list {
		y := 20.0
		for k, n := range list[i].N {
			if n == 0 {
				continue
			}
			h := max(1.5, 18*float64(n)/float64(most))
			y -= h
			b.add(`<rect class="b-%s" x="%d" y="%.1f" width="3" height="%.1f"/>`, kinds[k].class, i*4, max(0, y), h)
		}
	}
	b.add(`</svg>`)
	return b.html()
}

// axis returns evenly spaced times below a chart.
func (a *ask) axis(from, to time.Time) template.HTML {
	const marks = 5
	loc := a.In("")
	form := "15:04"
	switch d := to.Sub(from); {
	case d > 3*24*time.Hour:
		form = "01-02"
	case d > 26*time.Hour:
		form = "01-02 15:04"
	case d < 10*time.Minute:
		form = "15:04:05"
	}
	var b markup
	b.add(`<div class=ticks aria-hidden=true>`)
	for i := range marks {
		at := from.Add(to.Sub(from) * time.Duration(i) / (marks - 1)).In(loc)
		text := at.Format(form)
		if i == marks-1 {
			text += " " + City(loc)
		}
		b.add(`<span>%s</span>`, text)
	}
	b.add(`</div>`)
	return b.html()
}
