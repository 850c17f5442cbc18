package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Facts are what the sentence of a notice can name. Each event names those that its line
// in the table does; what it does not name may be left out.
type Facts struct {
	Job     string        // app/name; of a dead letter without a job empty
	Due     string        // the instant, written in the zone and the way of the notice; of overdue by when it was to succeed
	Took    time.Duration // late: how late; slow: for how long it is at work; overdue: for how long without a success
	Times   int           // failed: attempts; recovered and paused: failures before; skipped: instants; dead-letter: fires in it
	Channel string        // mute: the channel that did not take a notice
	Why     string        // why, in the language of the notice: Reason, or a sentence of Say
}

func Subject[E ~string](l Language, event E, f Facts) string {
	return oneLine(fill(sentences[string(event)].subject, l, f))
}

// Sentence says what happened, in one sentence that stands alone.
func Sentence[E ~string](l Language, event E, f Facts) string {
	s, ok := sentences[string(event)]
	if !ok {
		return string(event)
	}
	english := s.one
	if f.Times != 1 && s.many != "" {
		english = s.many
	}
	text := fill(english, l, f)
	if f.Why != "" {
		end := in(l, "notice", ".")
		text = strings.TrimSuffix(text, end) + in(l, "notice", ": ") + strings.TrimSuffix(f.Why, end) + end
	}
	return text
}

// Others says after a sentence how many more notifications of its kind it stands for: " 2 more like it since 02:30."; empty for none.
func Others(l Language, more int, since string) string {
	if more <= 0 {
		return ""
	}
	return fmt.Sprintf(in(l, "notice", others), more, since)
}

// Test is the subject and the sentence of a notification that only tries a channel.
func Test(l Language, channel string) (subject, sentence string) {
	return oneLine(fmt.Sprintf(in(l, "notice", testSubject), channel)), fmt.Sprintf(in(l, "notice", testSentence), channel)
}

func fill(sentence string, l Language, f Facts) string {
	return strings.NewReplacer("{job}", cmp.Or(f.Job, "tickring"), "{due}", f.Due, "{took}", Span(l, f.Took), "{times}", fmt.Sprint(f.Times),
		"{channel}", f.Channel).Replace(in(l, "notice", sentence))
}

// oneLine leaves no way to begin another header of a mail.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

// Label is the name of a field of a notification.
func Label(l Language, label string) string { return in(l, "notice", label) }

const (
	LabelApp     = "app"
	LabelJob     = "job"
	LabelTitle   = "title"
	LabelRun     = "run"
	LabelInstant = "instant"
	LabelDue     = "due"
	LabelState   = "state"
	LabelReason  = "reason"
	LabelMessage = "message"
	LabelCount   = "count"
	LabelLines   = "last lines"
	LabelOpen    = "open"
)

// A notification is how a notice of an event is written. many is where Times is not 1.
type notification struct{ subject, one, many string }

var sentences = map[string]notification{
	"failed": {
		subject: "{job} failed",
		one:     "{job}, due {due}, failed, and is not tried again.",
		many:    "{job}, due {due}, failed after {times} attempts, and is not tried again.",
	},
	"lost": {
		subject: "{job}: a run was lost",
		one:     "Nobody knows how the run of {job}, due {due}, ended: it is closed as lost.",
	},
	"late": {
		subject: "{job} is late",
		one:     "{job}, due {due}, was sent {took} late.",
	},
	"skipped": {
		subject: "{job} was skipped",
		one:     "{job}, due {due}, was not run.",
		many:    "{job} was not run at {times} instants, the first due {due}.",
	},
	"slow": {
		subject: "{job} is slow",
		one:     "{job}, due {due}, is at work for {took} and has not ended.",
	},
	"recovered": {
		subject: "{job} succeeds again",
		one:     "{job}, due {due}, succeeded after a failure.",
		many:    "{job}, due {due}, succeeded after {times} failures.",
	},
	"no-executor": {
		subject: "{job} has no executor",
		one:     "{job}, due {due}, failed: no executor was there to run it.",
	},
	"paused": {
		subject: "{job} was paused",
		one:     "{job} was paused after a failure: its schedule counts no more until somebody resumes it.",
		many:    "{job} was paused after {times} failures in a row: its schedule counts no more until somebody resumes it.",
	},
	"unplanned": {
		subject: "{job} cannot be planned",
		one:     "The schedule of {job} cannot be planned: it does not fire.",
	},
	"dead-letter": {
		subject: "{job}: a message could not be handled",
		one:     "A message of {job} could not be handled and is with the dead letters.",
		many:    "A message with {times} fires of {job} could not be handled and is with the dead letters.",
	},
	"overdue": {
		subject: "{job} has not succeeded in time",
		one:     "{job} was to succeed by {due}, and has not.",
	},
	"mute": {
		subject: "{job}: a notice did not reach {channel}",
		one:     "A notice of {job} did not reach the channel {channel} and is given up.",
	},
}

const (
	others       = " %d more like it since %s."
	testSubject  = "tickring: a test of the channel %s"
	testSentence = "This is a test of the channel %s: what you read arrived."
)
