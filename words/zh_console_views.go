package words

// zhConsoleViews is what is said of views.
var zhConsoleViews = map[string]string{
	"Delete the view %s":                       "删除视图 %s",
	"Name of this list, as it is filtered now": "当前筛选列表的名称",
	"Save the view":                            "保存视图",
	"Save this view…":                          "保存此视图…",
	"Views":                                    "视图",
	"Views…":                                   "视图…",
	"everybody sees it":                        "所有人可见",
	"shared by %s":                             "由 %s 共享",
	"the view %s is deleted":                   "视图 %s 已删除",
	"the view %s is kept":                      "视图 %s 已保存",
}
