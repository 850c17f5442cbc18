package words

// zhData is what lists of many, and acts on many, say.
var zhData = map[string]string{
	"a span of time that is not negative is expected":                           "应为非负的时长",
	"not the cursor of a page of these jobs":                                    "不是这些任务某一页的游标",
	"such a list goes on with cursor":                                           "这样的列表以 cursor 继续",
	"too many jobs cannot be read: tickring doctor names them":                  "无法读取的任务太多：tickring doctor 会列出它们",
	"it cannot be read: %v":                                                     "无法读取：%v",
	"there are too many jobs: name an app":                                      "任务太多：请指定一个应用",
	"name jobs, or a filter, or with resume the act to be undone: one of these": "请指定任务、筛选条件，或用 resume 指定要撤销的操作：三者取一",
	"only a pause is undone: by the verb resume":                                "只能撤销暂停：使用动作 resume",
	"nothing here sends to executors":                                           "此处没有向执行器发送请求的功能",
	"app %s has no executor there":                                              "应用 %s 在该地址没有执行器",
	"it did not answer within %s":                                               "它在 %s 内没有应答",
	"nothing takes longer than this and shorter than %s":                        "没有既长于此值又短于 %s 的运行",
	"allowed are 1s to 7d":                                                      "允许的范围：1s 到 7d",
}
