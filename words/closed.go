package words

import "github.com/tickring/tickring/core"

// State is what a run that stands so is said to be: "failed", "执行失败".
func State(l Language, s core.State) string { return of(l, states, s) }

// Reason says in a clause why a run ended as it did: "no executor took it".
func Reason(l Language, r core.Reason) string { return of(l, reasons, r) }

var states = map[string]word{
	string(core.Planned):   {"planned", "待调度"},
	string(core.Queued):    {"queued", "排队中"},
	string(core.Running):   {"running", "运行中"},
	string(core.Succeeded): {"succeeded", "执行成功"},
	string(core.Failed):    {"failed", "执行失败"},
	string(core.TimedOut):  {"timed out", "执行超时"},
	string(core.Killed):    {"killed", "已终止"},
	string(core.Lost):      {"lost", "结果丢失"},
	string(core.Skipped):   {"skipped", "已跳过"},
}

var reasons = map[string]word{
	string(core.ReasonNotAccepted):   {"no executor took it", "调度失败：没有执行器接收"},
	string(core.ReasonNoExecutor):    {"no executor was there", "执行器地址为空：没有可用的执行器"},
	string(core.ReasonHandler):       {"its handler said so", "任务处理器返回失败"},
	string(core.ReasonCrashed):       {"its executor ended under it", "执行过程中执行器退出"},
	string(core.ReasonShards):        {"its shards did not succeed", "分片广播中有分片未成功"},
	string(core.ReasonSnoozed):       {"its handler asked for a later time", "任务处理器要求稍后再执行"},
	string(core.ReasonTimeout):       {"its time was over", "超过任务超时时间"},
	string(core.ReasonPerson):        {"somebody killed it", "人工终止"},
	string(core.ReasonReplaced):      {"a newer run went in its place", "阻塞处理：被更新的一次运行覆盖"},
	string(core.ReasonGone):          {"its executor is no longer there", "执行器已下线"},
	string(core.ReasonForgotten):     {"its executor is idle and never reported its end", "执行器已空闲，但从未回调执行结果"},
	string(core.ReasonNoReport):      {"nothing was heard of it in time", "未在期限内收到执行结果回调"},
	string(core.ReasonMisfire):       {"it was late, and the misfire policy leaves such out", "调度过期：按过期策略忽略"},
	string(core.ReasonDeadline):      {"it was later than the deadline", "晚于截止时间"},
	string(core.ReasonOverlap):       {"another run was at work", "阻塞处理：已有运行未结束"},
	string(core.ReasonQueueFull):     {"as many waited as may", "阻塞处理：等待队列已满"},
	string(core.ReasonPaused):        {"the schedule was paused", "任务已暂停"},
	string(core.ReasonChanged):       {"the job was changed", "任务已修改"},
	string(core.ReasonDeleted):       {"the job was deleted", "任务已删除"},
	string(core.ReasonCancelled):     {"it was cancelled", "已取消"},
	string(core.ReasonUndeliverable): {"it could not be delivered", "无法投递"},
	string(core.ReasonJoin):          {"a job that it comes after did not end within its time", "上游任务未在期限内结束"},
}
