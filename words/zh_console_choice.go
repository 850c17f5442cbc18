package words

// zhConsoleChoice is what the forms of a job say of what may be chosen in them.
var zhConsoleChoice = map[string]string{
	"%s – %s":                                         "%s：%s",
	"From one attempt to the next":                    "从一次尝试到下一次",
	"None marked: as the app says":                    "都不选：按应用设置",
	"None marked: failed and timed-out":               "都不选：执行失败和执行超时",
	"Those that are not sent are recorded as skipped": "不发送的记录为已跳过",
	"What becomes of it":                              "如何处理",
	"Where its route is broadcast":                    "路由策略为分片广播时",
	"Which of the executors gets it":                  "发往哪个执行器",
}
