package words

// zhJobs is what the list of jobs says.
var zhJobs = map[string]string{
	"Escape lets go":            "按 Escape 取消选择",
	"job %d cannot be read: %s": "任务 %d 无法读取：%s",
	"all of them":               "全部显示",
	"All on this page":          "选择本页全部",
	"still counting":            "统计中",
	", or with:":                "，或使用命令：",
	"picked":                    "已选",
	"All":                       "全部",
	"Paused":                    "已暂停",
	"label=value":               "标签=值",
	"failing since %s, %d times in a row: %s": "自 %s 起连续失败 %d 次：%s",
	"Show all":                "显示全部",
	"Make one here":           "在这里新建",
	"%d runs":                 "最近 %d 次",
	"name, title, handler …":  "名称、标题、处理器……",
	"Text":                    "文本",
	"Failing now":             "正在失败",
	"Never ran":               "从未运行",
	"%d, of which %d fail":    "共 %d 个，其中 %d 个失败",
	"New job":                 "新建任务",
	"There is no job yet.":    "还没有任务。",
	"%d, none of which fails": "共 %d 个，没有失败",
	"Label":                   "标签",
	"No job is like that.":    "没有符合条件的任务。",
}
