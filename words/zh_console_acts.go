package words

// zhConsoleActs is what panels say of acts.
var zhConsoleActs = map[string]string{
	"Other addresses":                                                   "其他地址",
	"Stopped here: the rest is as it was.":                              "已在此停止：其余保持原样。",
	"those that each was sent with":                                     "每次运行发送时的参数",
	"Each with its own instant, at once, also while its job is paused.": "每个都用自己的触发时刻，立即运行，任务暂停时也一样。",
	"All sessions and views of the person go, and %d tokens: what uses them is let in no more. Changes keep the name.": "该人员的所有会话和视图以及 %d 个令牌都会删除：使用它们的程序不再能进入。变更记录保留其名字。",
	"By the clock of %s": "按 %s 的时间",
	"so long ago: 90d, or a moment by the clock of %s":                                  "多久之前：90d，或按 %s 时区的时间",
	"By the clock of the zone below, UTC if that is empty: 2026-12-24 18:00, 06:00, 2h": "按下面时区的时间，留空则为 UTC：2026-12-24 18:00、06:00、2h",
}
