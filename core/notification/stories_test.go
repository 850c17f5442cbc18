package notification_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/notificationtext"
	"github.com/tickring/tickring/internal/testkit/story"
)

// stage is a rig with channels whose answers the story sets.
type stage struct {
	*story.Data
	r     *rig
	mu    sync.Mutex
	down  map[string]*core.Undelivered // by channel; nil: it takes notifications
	asked map[string]int
}

func newStage(t *testing.T) *story.Stage {
	s := &stage{r: newStore(t), down: map[string]*core.Undelivered{}, asked: map[string]int{}}
	s.Data = story.NewData(&story.Stage{T: t, Now: time.Now, Sleep: time.Sleep}, s.r.e, "shop")
	s.Base = func(j *core.Job) { j.Def.Name, j.Def.Notify.To, j.Sched.RevAt = "nightly", []string{"a"}, time.Now() }
	s.r.sent, s.r.fail = s.sent, s.fail
	s.Add(map[string]func(string){"channel": s.channel, "remove": s.removes, "look": s.looks, "ends": s.ends, "damage": s.damages,
		"refuse": s.refuses, "before": s.before, "unread": s.unread})
	s.Do = map[string]func(string){"close": s.closes, "handle": s.handles, "note": s.notes, "minutes": s.minutes, "read": s.reads,
		"asked": s.asks}
	see := s.See
	s.See = func() map[string][]string {
		all := see()
		for name, now := range map[string][]string{"job 7": s.state(), "channel a": s.trouble("a"), "channel b": s.trouble("b")} {
			if delete(all, name); len(now) > 0 {
				all[name] = now
			}
		}
		return all
	}
	return s.Stage
}

// state returns the stored notifications of the job.
func (s *stage) state() (fields []string) {
	st := s.r.state()
	if st.Failing != nil {
		fields = append(fields, fmt.Sprintf("failing=%s failures=%d", story.Name(st.Failing.Run), st.Failures))
	}
	for _, told := range st.Told {
		if told.Count > 0 {
			fields = append(fields, fmt.Sprintf("counted-%s=%d", told.Event, told.Count))
		}
	}
	for _, p := range st.Pending {
		fields = append(fields, fmt.Sprintf("pending-%s-%s=%d", p.Channel, p.Event, p.Count))
	}
	return fields
}

func (s *stage) trouble(channel string) []string {
	if tr := s.r.trouble(channel); tr != nil {
		return []string{fmt.Sprintf("error=%q", tr.Error), fmt.Sprint("given-up=", tr.GivenUp)}
	}
	return nil
}

// ---- the channels

func (s *stage) fail(channel string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[channel]++
	if why := s.down[channel]; why != nil {
		return why
	}
	return nil
}

func (s *stage) sent(channel string, m core.Message) {
	s.Say("%s gets %s", channel, strings.Join(story.Fields(m, "id", "app", "job", "deployment", "link", "at", "since"), " "))
}

// channel sets the answer of a channel: "a answered_500", with the word permanent, or "a ok".
func (s *stage) channel(args string) {
	words := strings.Fields(args)
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.down, words[0]); words[1] != "ok" {
		s.down[words[0]] = &core.Undelivered{Reason: strings.ReplaceAll(words[1], "_", " "), Permanent: len(words) > 2}
	}
}

func (s *stage) removes(channel string) {
	check.OK(s.T, s.Store.DeleteChannel(s.T.Context(), 1, channel, core.Change{ID: 2}))
}

// asks reports whether the number of attempts, which have random delays, is between two numbers: "a 4 12". Then it counts from zero.
func (s *stage) asks(args string) {
	words := strings.Fields(args)
	least, _ := strconv.Atoi(words[1])
	most, _ := strconv.Atoi(words[2])
	if n := s.asked[words[0]]; n < least || n > most {
		s.Say("asked %d times", n)
	}
	s.asked[words[0]] = 0
}

// reads shows the last notification of a channel as users read it.
func (s *stage) reads(channel string) {
	got := s.r.got[channel]
	for _, l := range []core.Language{core.English, core.Chinese} {
		for i, line := range strings.Split(notificationtext.Text(s.T, l, got[len(got)-1]), "\n") {
			s.Say("%s %02d %s", l, i, line)
		}
	}
}

// ---- the runs

// ends stores runs that have just ended, a second apart: "failed:handler x3".
func (s *stage) ends(args string) {
	end, times, _ := strings.Cut(args, " x")
	n := 1
	if times != "" {
		n, _ = strconv.Atoi(times)
	}
	state, reason, _ := strings.Cut(end, ":")
	for range n {
		s.r.ends(core.State(state), core.Reason(reason))
		time.Sleep(time.Second)
	}
}

// closes stores runs that have just ended, and handles the message of each.
func (s *stage) closes(args string) {
	before := s.r.runs
	s.ends(args)
	for n := before + 1; n <= s.r.runs; n++ {
		s.handles(fmt.Sprintf("7#%d", n))
	}
}

// handles handles messages of runs together.
func (s *stage) handles(args string) {
	var list []ring.Message
	for _, id := range s.Runs(args) {
		list = append(list, ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(time.Now()), PostRun: &ring.PostRun{Run: id}})
	}
	s.messages(list)
}

func (s *stage) messages(list []ring.Message) {
	before := s.r.e.Messages(ring.KindPostRun)
	for i, err := range s.r.messages(s.r.n, list...) {
		if err != nil {
			s.Say("message %d comes again: %v", i+1, err)
		}
	}
	if n := s.r.e.Messages(ring.KindPostRun) - before; n > 0 {
		s.Say("requeued=%d", n)
	}
}

// notes handles a note of the job: "unplanned 7#9 why=no_such_zone when=0s", perhaps together with the message of a run: with=7#1.
func (s *stage) notes(args string) {
	words := strings.SplitN(args, " ", 3)
	n := ring.Note{Job: 7, Event: core.Event(words[0]), Run: s.Run(words[1]), When: time.Now()}
	var end struct{ With core.RunID }
	s.Set(words[2], &n, &end)
	list := []ring.Message{ring.Noted([]ring.Note{n}, time.Now())[0].Message}
	if end.With != 0 {
		list = append(list, ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(time.Now()), PostRun: &ring.PostRun{Run: end.With}})
	}
	s.messages(list)
}

func (s *stage) looks(in string) {
	d, err := time.ParseDuration(in)
	check.OK(s.T, err)
	s.r.putLook(d)
}

func (s *stage) minutes(n string) {
	count, err := strconv.Atoi(n)
	check.OK(s.T, err)
	s.r.minutes(count)
}

func (s *stage) damages(run string) { s.r.bad = s.Run(run) }

// refuses lets changes of runs fail, or not with the word no.
func (s *stage) refuses(no string) {
	if s.r.refuse = core.ErrThrottled; no != "" {
		s.r.refuse = nil
	}
}

// unread makes the job unreadable, or readable without a reason.
func (s *stage) unread(why string) {
	s.r.unread = func(kind, _ string) error {
		if why != "" && kind == "job" {
			return errors.New(why)
		}
		return nil
	}
}

// before plays steps once, after runs were read and before the result is used.
func (s *stage) before(steps string) { s.r.meanwhile = func() { s.Steps(steps) } }

// TestNotices: which events are notified, when, and to whom.
func TestNotices(t *testing.T) {
	const fails = "job 7; close failed:handler"
	story.Play(t, map[string]string{
		// The first event is notified at once and the others together after the quiet period. Copies of a message do not count.
		"quiet": `job 7 notify.to=a,b notify.quiet=10m notify.on=failed,lost; ends failed:handler; handle 7#1 7#1; handle 7#1
			close timed-out:timeout x5; ends lost:gone; ends skipped:overlap; ends killed:person; handle 7#7 7#8 7#9; minutes 8; minutes 3
			minutes 60; close failed:handler`,
		// A notification waits a day for an unreadable definition, as during a rolling deployment. Then it goes to the last channels.
		"unreadable job": fmt.Sprint("job 7; ends failed; unread newer; handle 7#1; unread; handle 7#1; ends failed; unread damaged; +",
			budget.NoticeFor-2*time.Second, "; handle 7#2; +1s; handle 7#2; ends failed; +48h; handle 7#3"),
		// A notification does not wait if the unreadable definition can be its cause. Counted events go to the last channels.
		"unplanned, unreadable": "global notify.to=a; job 7; unread damaged; note unplanned 7#9 why=damaged; note dead-letter 7#8 why=damaged",
		"unplanned, with an end": `global notify.to=a; job 7; ends failed; unread damaged; note unplanned 7#9 with=7#1
			note dead-letter 7#8 with=7#1`,
		// Counted events of a deleted job go to the last channels of it or its app.
		"counted, deleted": `global notify.to=b; app notify.to=a; job 7 notify.to=; close failed:handler x3; delete 7; close failed
			minutes 65`,
		"counted, unreadable": "job 7; close failed:handler x3; minutes 50; unread damaged; minutes 20; unread; ends succeeded; minutes 11",
		"unreadable run":      "job 7; ends failed x2; damage 7#1; handle 7#1 7#2",
		// The first success after a failure is notified once. A job whose last run failed has not recovered, even if the note of
		// that failure has not arrived.
		"recovered": fails + `; minutes 30; ends succeeded; ends failed:handler; minutes 5; handle 7#3; minutes 5; ends succeeded x2
			minutes 3; minutes 10; ends succeeded; minutes 30`,
		// Each failure before a success counts once, in any order of notes. A failure after the success counts for the next one.
		"recovered, counted": `job 7 notify.quiet=1m; ends failed:handler x4; handle 7#4 7#3 7#2 7#1 7#4 7#3 7#2 7#1; handle 7#4 7#3 7#2 7#1
			minutes 2; ends succeeded; minutes 4; read a; close failed:handler; ends succeeded; before close failed:handler; minutes 4
			ends succeeded; minutes 4; read a`,
		// A channel that fails for a day is asked less and less, then it is given up, and the other channel and the users see that.
		"down": `job 7 notify.to=a,b; channel a answered_500; close failed:handler; minutes 60; asked a 4 12; minutes 1560; asked a 0 60
			read b; channel a ok; +2h; close failed:handler`,
		// A channel that works again receives all that it missed.
		"down, and back": "job 7 notify.quiet=1m; channel a answered_500; repeat 10 close failed:handler & minutes 2; channel a ok; minutes 20",
		// No notification of a failed delivery is repeated if all channels fail.
		"all mute": `job 7 notify.to=a,b; channel a no_such_address permanent; channel b no_such_address permanent; close failed:handler
			minutes 180; asked a 1 9; asked b 1 9; minutes 600; asked a 0 0; asked b 0 0`,
		"permanent":       "job 7; channel a no_such_address permanent; close failed:handler; minutes 180; asked a 1 1",
		"deleted channel": "job 7 notify.to=a,b; channel a answered_500; close failed:handler; remove a; minutes 5; read b",
		// Nothing is sent to a channel for half a minute after it did not answer.
		"rest": "job 7; channel a answered_500; close failed:handler; +28s; close lost:gone; asked a 1 1; channel a ok; +2s; " +
			"close failed:no-executor; minutes 5",
		"channel taken out": "job 7; channel a answered_500; close failed:handler; edit 7 notify.to=b; channel a ok; minutes 5",
		"not cleared":       "job 7; refuse; close failed:handler; refuse no; handle 7#1; minutes 120",
		"why of the note":   "job 7; ends succeeded; note dead-letter 7#1 why=it_cannot_be_read",
		// A cause that returns after a day is notified again. A late copy of its note is not.
		"cause again": `job 7; note unplanned 7#12345 why=no_such_zone; minutes 120; note unplanned 7#12345 why=no_such_zone; minutes 120
			minutes 1440; note unplanned 7#12345 why=no_such_zone when=0s; minutes 120; note unplanned 7#12345 why=no_such_zone`,
		"overdue, unreadable":    "job 7 notify.overdue.within=3h; look 2m; unread damaged; minutes 400; unread; minutes 11",
		"overdue, channel later": "job 7 notify.to= notify.overdue.within=3h; look 2m; minutes 600; app notify.to=a; minutes 62",
		// A period without success is notified once, with any number of checks, and again after each further period. A success
		// restarts the period.
		"overdue within": `job 7 notify.overdue.within=26h; look 1m; minutes 1200; ends succeeded; minutes 1558; minutes 4
			repeat 52 minutes 30 & look 0s; ends succeeded; minutes 1500`,
	}, newStage)
}

// TestOverdueBy: a job without a success by its time of day is notified, unless it succeeded, was paused, or was not expected
// to run. The story begins at eight o'clock on a Friday.
func TestOverdueBy(t *testing.T) {
	const job = "job 7 cron=0_30_10_*_*_? notify.overdue.by=14:00 revat=-1h"
	const day = "; look 1m; minutes 180; %s; minutes 179; minutes 3; minutes 600"
	stories := map[string]string{}
	for name, c := range map[string][2]string{
		"it did not run":               {"", ""},
		"it failed":                    {"", "ends failed:not-accepted"},
		"it succeeded":                 {"", "ends succeeded"},
		"it is paused":                 {"edit 7 state=paused revat=-1h", ""},
		"its pause ended a moment ago": {"edit 7 revat=+5h", ""},
		"its app is paused":            {"app pause.from=+1h", ""},
		"the pause of its app ended":   {"app pause.from=+1h pause.to=+5h", ""},
		"the pause of all ended":       {"global pause.from=+1h pause.to=+5h", ""},
	} {
		stories[name] = job + "; " + c[0] + fmt.Sprintf(day, c[1])
	}
	stories["not on that day"] = "job 7 cron=0_30_10_?_*_MON notify.overdue.by=14:00 revat=-1h" + fmt.Sprintf(day, "")
	stories["without a schedule"] = "job 7 notify.overdue.by=14:00 revat=-1h" + fmt.Sprintf(day, "")
	story.Play(t, stories, newStage)
}
