package words

// zhChanges is of where changes came from, and of what is found of them.
var zhChanges = map[string]string{
	"No change fits so far.":                  "到此为止没有符合条件的变更。",
	"began an act on many jobs":               "开始批量操作",
	"its act":                                 "所属批量操作",
	"not the next of a page of these changes": "不是这些变更下一页的位置",
	"from %s":                                 "来自 %s",
	"from %s, logged in":                      "来自 %s，已登录",
	"from %s, by the token %s":                "来自 %s，使用令牌 %s",
}
