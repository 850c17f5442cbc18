package words

// zhChanges is of where changes came from, what is found of them, and of clocks of executors.
var zhChanges = map[string]string{
	"No change fits so far.":       "到此为止没有符合条件的变更。",
	"began an act on many jobs":    "开始批量操作",
	"Clock":                        "时钟",
	"same":                         "一致",
	"%s ahead":                     "快 %s",
	"%s behind":                    "慢 %s",
	"it was not asked yet":         "尚未探测",
	"%s; its clock is the same":    "%s；时钟一致",
	"%s; its clock is %s ahead":    "%s；其时钟快 %s",
	"%s; its clock is %s behind":   "%s；其时钟慢 %s",
	"%s; it does not say the time": "%s；它没有给出时间",
	"it does not say the time when it registers or answers":                              "它在注册或应答时没有给出时间",
	"its logs may not be found, and what it is late with is judged wrongly":              "可能找不到它的日志，对延迟的判断也会出错",
	"Clocks are by the Date of an answer or a registration; executors in Java say none.": "时钟按应答或注册的 Date 得出；Java 执行器不提供。",
	"a number of a job is expected":                                                      "应为任务编号",
	"its act":                                                                            "所属批量操作",
	"not the next of a page of these changes":                                            "不是这些变更下一页的位置",
	"from %s":                  "来自 %s",
	"from %s, logged in":       "来自 %s，已登录",
	"from %s, by the token %s": "来自 %s，使用令牌 %s",
}
