package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Facts has the values for the sentence of a notification. Each event uses the values in its line of the table; the
// other values can be empty.
type Facts struct {
	Job string // the job as app/name; empty for a dead-letter message without a job
	// Due is the scheduled time, in the time zone and format of the notification. For overdue: the time limit of the
	// success.
	Due string
	// Took is a duration. For late: the lateness. For slow: the time since the run began. For overdue: the time
	// without a success.
	Took time.Duration
	// Times is a number. For failed: attempts. For recovered and paused: failures before the event. For skipped:
	// runs. For dead-letter: runs in the message.
	Times   int
	Channel string // for mute: the channel that rejected a notification
	Why     string // the reason in the language of the notification, from Reason or Say
}

func Subject[E ~string](l Language, event E, f Facts) string {
	return oneLine(fill(sentences[string(event)].subject, l, f))
}

// Sentence returns one complete sentence that describes an event.
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

// Others returns the number of further notifications of one kind as text, such as " 2 more like it since 02:30.";
// empty for none.
func Others(l Language, more int, since string) string {
	if more <= 0 {
		return ""
	}
	return fmt.Sprintf(in(l, "notice", others), more, since)
}

// Test returns the subject and the sentence of a notification that tests a channel.
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

// Label returns the display name of a field of a notification.
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
		one:     "{job}, scheduled for {due}, failed and will not be retried.",
		many:    "{job}, scheduled for {due}, failed after {times} attempts and will not be retried.",
	},
	"lost": {
		subject: "{job}: a run was lost",
		one:     "The result of {job}, scheduled for {due}, is unknown. The run was closed as lost.",
	},
	"late": {
		subject: "{job} is late",
		one:     "{job}, scheduled for {due}, was sent {took} late.",
	},
	"skipped": {
		subject: "{job} was skipped",
		one:     "{job}, scheduled for {due}, was skipped.",
		many:    "{times} runs of {job} were skipped, the first scheduled for {due}.",
	},
	"slow": {
		subject: "{job} is slow",
		one:     "{job}, scheduled for {due}, has been running for {took}.",
	},
	"recovered": {
		subject: "{job} succeeds again",
		one:     "{job}, scheduled for {due}, succeeded after a failure.",
		many:    "{job}, scheduled for {due}, succeeded after {times} failures.",
	},
	"no-executor": {
		subject: "{job} has no available executor",
		one:     "{job}, scheduled for {due}, failed: no executor was available.",
	},
	"paused": {
		subject: "{job} was paused",
		one:     "{job} was paused after a failure and stays paused until a user resumes it.",
		many:    "{job} was paused after {times} failures in a row and stays paused until a user resumes it.",
	},
	"unplanned": {
		subject: "{job} has an invalid schedule",
		one:     "{job} has a schedule that cannot be computed. The job will not run.",
	},
	"dead-letter": {
		subject: "{job}: a message is in the dead-letter queue",
		one:     "A message for {job} could not be processed and is in the dead-letter queue.",
		many:    "A message with {times} runs of {job} could not be processed and is in the dead-letter queue.",
	},
	"overdue": {
		subject: "{job} has not succeeded in time",
		one:     "{job} should have succeeded by {due} but has not.",
	},
	"mute": {
		subject: "{job}: a notification to {channel} failed",
		one:     "A notification for {job} could not be delivered to channel {channel}.",
	},
}

const (
	others       = " %d more events of this kind since %s."
	testSubject  = "tickring: test message for channel %s"
	testSentence = "This is a test message for channel %s."
)
