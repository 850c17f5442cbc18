package words

// zhPages is what filters, empty pages and the frame say.
var zhPages = map[string]string{
	"name or title":        "名称或标题",
	"name":                 "名称",
	"of %d":                "（共 %d）",
	"Role":                 "角色",
	"role: any":            "角色：全部",
	"ended %s":             "结束于 %s",
	"run %s":               "调度日志 %s",
	"this month":           "本月",
	"last month":           "上月",
	"its jobs":             "任务",
	"No app is called so.": "没有这个名称的应用。",
	"Nobody is like that.": "没有符合条件的用户。",
	"apps: %d; of the %d on this page, executors live: %d":                                                     "应用：%d；本页 %d 个，在线执行器：%d",
	"Nobody has a log-in of his own yet. Give each a name, a role and a password to begin with, here or with:": "还没有人有自己的账号。请在这里为每个人设置名称、角色和初始密码，或使用命令：",
}
