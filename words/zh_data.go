package words

// zhData is what lists of many, and acts on many, say.
var zhData = map[string]string{
	"a span of time that is not negative is expected":    "应为非负的时长",
	"not the cursor of a page of these jobs":             "不是这些任务某一页的游标",
	"such a list goes on with cursor":                    "这样的列表以 cursor 继续",
	"nothing takes longer than this and shorter than %s": "没有既长于此值又短于 %s 的运行",
}
