package main

import (
	"fmt"
	"io"
	"strings"
)

// verdict is the result for one promise.
type verdict struct {
	promise, found string
	held           bool
}

// report is the result for people.
type report struct {
	fires    []*tally
	verdicts []verdict
	unshown  []string // promises that this proof did not test
	rang     map[string]bool
	measured usage
	foreseen usage
	priced   string // the span of both
	billed   []billed
}

func (r *report) says(promise string, held bool, format string, args ...any) {
	r.verdicts = append(r.verdicts, verdict{promise, fmt.Sprintf(format, args...), held})
}

// fails is a verdict that could not be reached.
func (r *report) fails(promise string, err error) { r.says(promise, false, "%s", oneLine(err.Error())) }

// because formats an error as the end of a finding.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + oneLine(err.Error())
}

// oneLine shortens a text to fit in a table.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "), "|", "/")
	return text[:min(len(text), 600)]
}

func (r *report) held() bool {
	for _, v := range r.verdicts {
		if !v.held {
			return false
		}
	}
	for _, t := range r.fires {
		if t.wrong() > 0 {
			return false
		}
	}
	return len(r.fires) > 0
}

func (r *report) print(w io.Writer) {
	if len(r.fires) > 0 {
		fmt.Fprint(w, "\n## Results of the runs, counted from outside\n\n")
		table(w, r.fires)
	}
	if len(r.verdicts) > 0 {
		fmt.Fprint(w, "\n## Verdicts\n\n| | promise | found |\n|---|---|---|\n")
		for _, v := range r.verdicts {
			word := "held"
			if !v.held {
				word = "BROKEN"
			}
			fmt.Fprintf(w, "| %s | %s | %s |\n", word, v.promise, v.found)
		}
	}
	for _, what := range r.unshown {
		fmt.Fprintf(w, "| not shown here | %s | |\n", what)
	}
	if len(r.billed) > 0 {
		fmt.Fprintf(w, "\n## Billed milliseconds, %s\n\n", r.priced)
		fmt.Fprint(w, "| function | invocations | billed ms each | a run |\n|---|---|---|---|\n")
	}
	for _, b := range r.billed {
		fmt.Fprintf(w, "| %s | %d | %.1f | %.2f |\n", b.function, b.calls, b.ms/max(1, float64(b.calls)),
			b.ms/max(1, r.foreseen.runs))
	}
	if r.priced != "" {
		fmt.Fprintf(w, "\n## The bill's own metrics, %s\n\n", r.priced)
		fmt.Fprint(w, "| what | measured | foreseen | dollars | foreseen |\n|---|---|---|---|---|\n")
		foreseen := r.foreseen.bill()
		for i, l := range r.measured.bill() {
			f := foreseen[i]
			if l.amount > 0 {
				fmt.Fprintf(w, "| %s | %.0f %s | %.0f | %.4f | %.4f |\n", l.what, l.amount, l.unit, f.amount, l.dollars, f.dollars)
			}
		}
		fmt.Fprintf(w, "| in all | | | %.4f | %.4f |\n", r.measured.dollars(), r.foreseen.dollars())
		if r.measured.runs > 0 {
			million := r.measured.dollars() / r.measured.runs * 1e6
			fmt.Fprintf(w, "\nThat is %s a million fires, with all that goes on without them.\n", dollars(million))
		}
	}
}
