package words

// zhConsoleChoice is what the forms of a job say of what may be chosen in them.
var zhConsoleChoice = map[string]string{
	"Go on in the form":   "转到表单继续",
	"Go on as a manifest": "转到清单继续",
	"From a manifest":     "从清单创建",
	"In the form":         "用表单创建",
	"A file as the command apply takes it, with one job. This one is an example, to be changed.": "与命令 apply 使用的文件相同，含一个任务。这里是示例，请修改。",
	"%s (failed)":                "%s（执行失败）",
	"%s (closed)":                "%s（无论结果）",
	"Common schedules":           "常用调度",
	"Take it":                    "采用",
	"The version that is stored": "运行已保存的版本",
	"One more job":               "再加一个任务",
	"Each of their ends that counts makes a run":      "它们每次符合条件的结束都触发一次运行",
	"Begin with its template":                         "使用其模板",
	"they begin as JSON, and are none: %s":            "开头像 JSON，但不是合法的 JSON：%s",
	"keep them as they are":                           "按原样保存",
	"%s – %s":                                         "%s：%s",
	"From one attempt to the next":                    "从一次尝试到下一次",
	"None marked: as the app says":                    "都不选：按应用设置",
	"None marked: failed and timed-out":               "都不选：执行失败和执行超时",
	"Those that are not sent are recorded as skipped": "不发送的记录为已跳过",
	"What becomes of it":                              "如何处理",
	"Where its route is broadcast":                    "路由策略为分片广播时",
	"Which of the executors gets it":                  "发往哪个执行器",
}
