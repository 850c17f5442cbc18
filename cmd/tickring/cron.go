package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/words"
)

type cronCmd struct {
	Expr    string `arg:"" placeholder:"EXPR" help:"Quartz expression with 6 or 7 fields. With -, the command reads a JSON object {\"expr\",\"tz\",\"from\",\"count\"} from each input line (\"from\" is in epoch milliseconds) and writes a line {\"next\":[…]} or {\"error\":…}."`
	TZ      string `name:"tz" aliases:"timezone" placeholder:"ZONE" help:"Time zone of the expression, such as Europe/Berlin (default: UTC)."`
	From    string `placeholder:"TIME" help:"Start of the list of scheduled times (default: now)."`
	Count   int    `default:"5" help:"Number of scheduled times to show."`
	Crontab bool   `help:"Read the expression as a Unix crontab expression with 5 fields."`
}

const maxInstants = 10_000

func (c *cronCmd) Run(e *Env) error {
	if c.Expr == "-" {
		return cronLines(e.Stdin, e.Stdout)
	}
	if expr, command, ok := cron.Line(c.Expr); ok {
		return usagef("%q is a command, which is not part of a schedule: to explain the schedule: tickring cron --crontab '%s'   to create "+
			"a job: %s",
			command, expr, commandJob("box", "NAME", "box/NAME", expr, command))
	}
	loc, now := e.zone(c.TZ), time.Now()
	from := now
	if c.From != "" {
		var err error
		if from, err = parseTime("from", c.From, loc, now, false); err != nil {
			return err
		}
	}
	after := core.InstantOf(from)
	q := cronQuestion{Expr: c.Expr, TZ: c.TZ, Count: &c.Count, Crontab: c.Crontab}
	s, next, err := q.instants(locations{}, after)
	if err != nil {
		if err, ok := errors.AsType[*core.Error](err); ok {
			err.Field = strings.TrimPrefix(err.Field, "schedule.")
			if !c.Crontab && err.Field != "count" && len(strings.Fields(c.Expr)) == 5 {
				err.Reason = core.Say("%s (use --crontab)", err.Reason)
			}
		}
		return err
	}
	times := make([]time.Time, len(next))
	for i, at := range next {
		times[i] = at.Time()
	}
	traps := []string{}
	for _, trap := range s.Traps(after) {
		traps = append(traps, words.Say(e.lang(), trap))
	}
	about := words.Say(e.lang(), s.Describe())
	if e.json() {
		return e.printJSON(map[string]any{"description": about, "next": times, "warnings": traps})
	}
	e.printf("%s\n", about)
	rows := [][]string{}
	for _, at := range times {
		away := ""
		if c.From == "" {
			away = "in " + span(max(0, at.Sub(now)))
		}
		rows = append(rows, []string{"  " + at.In(loc).Format("Mon "+fullForm), away})
	}
	table(e.Stdout, rows)
	switch {
	case len(next) == 0 && c.Count > 0:
		e.printf("no scheduled time after %s\n", from.In(loc).Format(fullForm))
	case len(next) < c.Count:
		e.printf("no later scheduled time\n")
	}
	for _, trap := range traps {
		e.printf("note: %s\n", trap)
	}
	if n := len(next); n > 0 && next[n-1] > core.Horizon {
		e.printf("note: schedules end at %s\n", core.Horizon)
	}
	if len(next) == 0 && c.Count > 0 {
		return exitWith(exitFailed)
	}
	return nil
}

// instants returns the next count scheduled times. Jobs fire until core.Horizon; explaining an expression continues after it, with
// today's rules of the zone.
func instants(s *schedule.Schedule, w core.When, loc *time.Location, after core.Instant, count int) []core.Instant {
	next := make([]core.Instant, 0, min(count, 64))
	at, ok := s.Next(after)
	for ; ok && len(next) < count; at, ok = s.Next(at) {
		next = append(next, at)
		after = at
	}
	if ok || len(next) == count {
		return next
	}
	parse := cron.ParseQuartz
	if w.Kind == core.KindCrontab {
		parse = cron.ParseCrontab
	}
	expr, err := parse(w.Expr)
	if err != nil {
		return next
	}
	after = max(after, core.Horizon)
	_, offset := after.Time().In(loc).Zone()
	for wall := cron.Wall(int64(after) + int64(offset)); len(next) < count; {
		if wall, ok = expr.Next(wall); !ok {
			break
		}
		u := time.Unix(int64(wall), 0).UTC()
		t := time.Date(u.Year(), u.Month(), u.Day(), u.Hour(), u.Minute(), u.Second(), 0, loc)
		if at := core.InstantOf(t); at > after {
			next = append(next, at)
			after = at
		}
	}
	return next
}

type cronQuestion struct {
	Expr    string `json:"expr"`
	TZ      string `json:"tz"`
	From    *int64 `json:"from"` // start time in milliseconds since 1970; default: the current time
	Count   *int   `json:"count"`
	Crontab bool   `json:"crontab"`
}

// cronLines answers each line of r with one line.
func cronLines(r io.Reader, w io.Writer) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), 1<<20)
	out := json.NewEncoder(w) // which does not hold back an answer: a caller can wait for it
	loader := locations{}
	for in.Scan() {
		line := bytes.TrimSpace(in.Bytes())
		if len(line) == 0 {
			continue
		}
		next, err := loader.answer(line)
		var answer any = map[string][]int64{"next": next}
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return nil
}

// locations caches zones: loading one takes longer than the rest of an answer.
type locations map[string]*time.Location

func (l locations) load(name string) (*time.Location, error) {
	if loc, ok := l[name]; ok {
		return loc, nil
	}
	loc, err := time.LoadLocation(name)
	if err == nil {
		l[name] = loc
	}
	return loc, err
}

func (loader locations) answer(line []byte) ([]int64, error) {
	var q cronQuestion
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		return nil, errors.New(`expected lines like {"expr":"0 0 9 * * ?","tz":"UTC","from":1700000000000,"count":5}`)
	}
	from := time.Now()
	if q.From != nil {
		from = time.UnixMilli(*q.From)
	}
	_, list, err := q.instants(loader, core.InstantOf(from))
	next := make([]int64, len(list))
	for i, at := range list {
		next[i] = int64(at) * 1000
	}
	return next, err
}

// instants answers a question with the schedule of its expression, and its scheduled times.
func (q *cronQuestion) instants(zones locations, after core.Instant) (*schedule.Schedule, []core.Instant, error) {
	count := 5
	if q.Count != nil {
		count = *q.Count
	}
	if count < 0 || count > maxInstants {
		return nil, nil, core.Invalid("count", fmt.Sprint(count), "allowed values: 0 to %d", maxInstants)
	}
	when := core.When{Kind: core.KindCron, Expr: q.Expr}
	if q.Crontab {
		when.Kind = core.KindCrontab
	}
	s, err := schedule.Compile(core.Schedule{Any: []core.When{when}, Timezone: q.TZ}, 1)
	if err != nil {
		return nil, nil, err
	}
	zone, err := zones.load(q.TZ)
	if err != nil {
		return nil, nil, err
	}
	return s, instants(s, when, zone, after, count), nil
}
