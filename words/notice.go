package words

import (
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
	s := sentences[string(event)]
	if f.Job == "" {
		f.Job = someJob.in(l)
	}
	return oneLine(fill(s.subject.in(l), l, f))
}

// Sentence says what happened, in one sentence that stands alone.
func Sentence[E ~string](l Language, event E, f Facts) string {
	s, ok := sentences[string(event)]
	if !ok {
		return string(event)
	}
	if f.Job == "" {
		f.Job = someJob.in(l)
	}
	w := s.one
	if f.Times != 1 && s.many.en != "" {
		w = s.many
	}
	text := fill(w.in(l), l, f)
	if f.Why != "" {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "."), "。") + word{": ", "："}.in(l) + f.Why
		if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "。") {
			text += word{".", "。"}.in(l)
		}
	}
	return text
}

// Others says after a sentence that a notice stands for more of its kind: " 2 more like it since 02:30."; empty for none.
func Others(l Language, more int, since string) string {
	if more <= 0 {
		return ""
	}
	return fmt.Sprintf(others.in(l), more, since)
}

// Test is the subject and the sentence of a notice that only tries a channel.
func Test(l Language, channel string) (subject, sentence string) {
	return oneLine(fmt.Sprintf(testSubject.in(l), channel)), fmt.Sprintf(testSentence.in(l), channel)
}

func fill(sentence string, l Language, f Facts) string {
	return strings.NewReplacer("{job}", f.Job, "{due}", f.Due, "{took}", Span(l, f.Took), "{times}", fmt.Sprint(f.Times),
		"{channel}", f.Channel).Replace(sentence)
}

// oneLine leaves no way to begin another header of a mail.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

func Label[K ~string](l Language, label K) string { return of(l, labels, label) }

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

var labels = map[string]word{
	LabelApp:     {"app", "应用"},
	LabelJob:     {"job", "任务"},
	LabelTitle:   {"title", "任务描述"},
	LabelRun:     {"run", "运行 ID"},
	LabelInstant: {"instant", "计划时间"},
	LabelDue:     {"due", "应执行时间"},
	LabelState:   {"state", "状态"},
	LabelReason:  {"reason", "原因"},
	LabelMessage: {"message", "执行备注"},
	LabelCount:   {"count", "次数"},
	LabelLines:   {"last lines", "最后几行日志"},
	LabelOpen:    {"open", "查看详情"},
}

// said is how a notice of an event is written. many is where Times is not 1.
type said struct{ subject, one, many word }

var sentences = map[string]said{
	"failed": {
		subject: word{"{job} failed", "任务 {job} 执行失败"},
		one:     word{"{job}, due {due}, failed, and is not tried again.", "任务 {job} 计划于 {due} 的运行执行失败，不再重试。"},
		many: word{"{job}, due {due}, failed after {times} attempts, and is not tried again.",
			"任务 {job} 计划于 {due} 的运行尝试 {times} 次后仍然失败，不再重试。"},
	},
	"lost": {
		subject: word{"{job}: a run was lost", "任务 {job} 的运行结果丢失"},
		one: word{"Nobody knows how the run of {job}, due {due}, ended: it is closed as lost.",
			"任务 {job} 计划于 {due} 的运行结果未知，已标记为结果丢失。"},
	},
	"late": {
		subject: word{"{job} is late", "任务 {job} 调度延迟"},
		one:     word{"{job}, due {due}, was sent {took} late.", "任务 {job} 计划于 {due} 的调度延迟了 {took}。"},
	},
	"skipped": {
		subject: word{"{job} was skipped", "任务 {job} 的调度被跳过"},
		one:     word{"{job}, due {due}, was not run.", "任务 {job} 计划于 {due} 的调度被跳过，没有执行。"},
		many:    word{"{job} was not run at {times} instants, the first due {due}.", "任务 {job} 有 {times} 次调度被跳过，没有执行，第一次计划于 {due}。"},
	},
	"slow": {
		subject: word{"{job} is slow", "任务 {job} 执行过慢"},
		one:     word{"{job}, due {due}, is at work for {took} and has not ended.", "任务 {job} 计划于 {due} 的运行已执行 {took}，尚未结束。"},
	},
	"recovered": {
		subject: word{"{job} succeeds again", "任务 {job} 恢复正常"},
		one:     word{"{job}, due {due}, succeeded after a failure.", "任务 {job} 计划于 {due} 的运行执行成功，此前失败过。"},
		many:    word{"{job}, due {due}, succeeded after {times} failures.", "任务 {job} 计划于 {due} 的运行执行成功，此前失败过 {times} 次。"},
	},
	"no-executor": {
		subject: word{"{job} has no executor", "任务 {job} 没有可用的执行器"},
		one:     word{"{job}, due {due}, failed: no executor was there to run it.", "任务 {job} 计划于 {due} 的运行失败：没有可用的执行器。"},
	},
	"paused": {
		subject: word{"{job} was paused", "任务 {job} 已自动暂停"},
		one: word{"{job} was paused after a failure: its schedule counts no more until somebody resumes it.",
			"任务 {job} 失败后已自动暂停，需人工恢复后才会继续调度。"},
		many: word{"{job} was paused after {times} failures in a row: its schedule counts no more until somebody resumes it.",
			"任务 {job} 连续失败 {times} 次后已自动暂停，需人工恢复后才会继续调度。"},
	},
	"unplanned": {
		subject: word{"{job} cannot be planned", "任务 {job} 无法生成调度计划"},
		one:     word{"The schedule of {job} cannot be planned: it does not fire.", "任务 {job} 无法生成调度计划，不会被触发。"},
	},
	"dead-letter": {
		subject: word{"{job}: a message could not be handled", "{job}：有消息进入死信队列"},
		one:     word{"A message of {job} could not be handled and is with the dead letters.", "{job} 的一条消息无法处理，已进入死信队列。"},
		many: word{"A message with {times} fires of {job} could not be handled and is with the dead letters.",
			"{job} 的一条消息（含 {times} 次触发）无法处理，已进入死信队列。"},
	},
	"overdue": {
		subject: word{"{job} has not succeeded in time", "任务 {job} 逾期未成功"},
		one:     word{"{job} was to succeed by {due}, and has not.", "任务 {job} 应在 {due} 之前执行成功，但至今没有成功。"},
	},
	"mute": {
		subject: word{"{job}: a notice did not reach {channel}", "{job} 的通知未能送达渠道 {channel}"},
		one:     word{"A notice of {job} did not reach the channel {channel} and is given up.", "{job} 的一条通知未能送达渠道 {channel}，已放弃。"},
	},
}

var (
	someJob      = word{"tickring", "tickring"}
	others       = word{" %d more like it since %s.", "自 %[2]s 起另有 %[1]d 次同类情况。"}
	testSubject  = word{"tickring: a test of the channel %s", "tickring：测试通知渠道 %s"}
	testSentence = word{"This is a test of the channel %s: what you read arrived.", "这是通知渠道 %s 的测试消息：您看到它，说明渠道可用。"}
)
