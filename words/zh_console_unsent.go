package words

// zhConsoleUnsent is what is said of a form whose session ended before it was sent.
var zhConsoleUnsent = map[string]string{
	"Logged in":         "已登录",
	"You are logged in": "您已登录",
	"You were logged out meanwhile. What you typed is kept: log in, and send it.":                                                   "您在此期间已退出登录。输入的内容已保留：登录后即可提交。",
	"What you had typed was not sent before. It is all here:":                                                                       "您之前输入的内容尚未提交，全部保留在这里：",
	"the server takes in as many long forms as it can hold just now: go back, where what you typed still stands, and send it again": "服务器目前接收的长表单已达上限：请返回上一页（输入的内容仍在），再次提交",
	"Send it":        "提交",
	"Logged in from": "登录地址",
}
