package words

// Choice is what a value is called that somebody chooses for a field of a job or an app, which is
// named by its path in a manifest: "round", "轮询 (round)". The value itself is what a manifest says.
func Choice(l Language, field, value string) string {
	c, ok := choices[field][value]
	if !ok || l != Chinese {
		return value
	}
	return c.zh + " (" + value + ")"
}

// Means says in a line what that comes to; empty where its name says all.
func Means(l Language, field, value string) string { return choices[field][value].means.in(l) }

// choice is the name of a value in Chinese, and what it comes to in both.
type choice struct {
	zh    string
	means word
}

// choices are those of each field that has a closed list.
var choices = map[string]map[string]choice{
	"route": {
		"first":  {"第一个", word{"the first of the list", "列表中的第一个执行器"}},
		"last":   {"最后一个", word{"the last of the list", "列表中的最后一个执行器"}},
		"round":  {"轮询", word{"each of them in turn", "各执行器依次轮流"}},
		"random": {"随机", word{"any of them, by chance", "随机选一个"}},
		"hash": {"一致性哈希", word{"always the same for one job, while the others come and go",
			"同一任务固定在同一执行器，其他执行器增减不影响"}},
		"lfu":       {"最不经常使用", word{"the one that this job used least", "该任务使用次数最少的"}},
		"lru":       {"最近最久未使用", word{"the one that this job did not use for longest", "该任务最久没有使用的"}},
		"failover":  {"故障转移", word{"the first that says it is there", "第一个应答心跳的"}},
		"busyover":  {"忙碌转移", word{"the first that runs nothing of this job", "第一个没有在运行该任务的"}},
		"broadcast": {"分片广播", word{"all of them, each with its shard", "发往全部执行器，各带一个分片"}},
	},
	"broadcast.fail": {
		"any": {"任一", word{"one of its shards did not succeed", "有一个分片未成功"}},
		"all": {"全部", word{"none of its shards succeeded", "没有一个分片成功"}},
	},
	"block": {
		"serial":        {"单机串行", word{"the new run waits there", "新的运行在那里排队"}},
		"discard-later": {"丢弃后续调度", word{"the new run is refused, and skipped", "新的运行被拒绝并跳过"}},
		"cover-early":   {"覆盖之前调度", word{"the one at work is ended for the new one", "终止正在进行的，执行新的"}},
	},
	"misfire": {
		"latest": {"只执行最新", word{"the newest of them is sent, if the next instant is still to come",
			"只发送最新的一次，且仅当下一次触发时间未到"}},
		"all":  {"全部执行", word{"each of them is sent", "每一次都发送"}},
		"skip": {"忽略", word{"none of them is sent", "都不发送"}},
	},
	"retry.backoff": {
		"constant":    {"固定", word{"always the same", "每次相同"}},
		"exponential": {"指数", word{"doubled each time", "每次加倍"}},
	},
	"retry.on": {
		"failed":    {"执行失败", word{}},
		"timed-out": {"执行超时", word{}},
		"lost":      {"结果丢失", word{}},
	},
	"overlap.full": {
		"queue": {"排队", word{"it waits", "等待空位"}},
		"skip":  {"跳过", word{"it is skipped", "不执行"}},
		"replace": {"顶替", word{"it takes the place of the one at work longest, which is killed",
			"取代运行最久的一个，后者被终止"}},
	},
	"notify.on": {
		"failed":      {"执行失败", word{}},
		"lost":        {"结果丢失", word{}},
		"no-executor": {"没有执行器", word{}},
		"recovered":   {"恢复正常", word{}},
		"skipped":     {"被跳过", word{}},
		"late":        {"调度延迟", word{}},
		"slow":        {"执行过慢", word{}},
		"paused":      {"自动暂停", word{}},
		"unplanned":   {"无法生成计划", word{}},
		"dead-letter": {"死信", word{}},
		"overdue":     {"逾期未成功", word{}},
		"mute":        {"通知未送达", word{}},
	},
	"after.when": {
		"succeeded": {"成功后", word{"when it succeeded", "执行成功后触发"}},
		"failed":    {"失败后", word{"when it failed", "执行失败后触发"}},
		"closed":    {"结束后", word{"when it ended, however", "无论结果如何，结束后触发"}},
	},
	"keep.log": {
		"on-failure": {"失败时", word{"of runs that failed, timed out or were lost", "执行失败、超时或结果丢失的运行"}},
		"never":      {"从不", word{"of none", "都不保留"}},
		"always":     {"总是", word{"of all", "全部保留"}},
	},
}
