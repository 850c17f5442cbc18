package words

// zhOIDC is what logging in by a provider says.
var zhOIDC = map[string]string{
	"%s did not let you in": "%s 未允许您登录",
	"%s does not answer as it should: try again, or log in with a password": "%s 没有正常应答：请重试，或用密码登录",
	"Log in with %s":                 "使用 %s 登录",
	"Log in with %s, in another tab": "在另一个标签页中使用 %s 登录",
	"Then go on here":                "然后在此继续",
	"a URL is expected that begins with https://, or is on this machine": "应为以 https:// 开头或位于本机的 URL",
	"at most %d are taken":                                  "最多 %d 个",
	"at most %d characters are taken":                       "最多 %d 个字符",
	"it is needed, as the provider gave it to this console": "必须给出，即身份提供方分配给此控制台的标识",
	"more than %d bytes are not taken":                      "最多 %d 字节",
	"say by which URL browsers reach this server, or give it as --report-url: the provider sends them back there":               "请说明浏览器访问此服务器的 URL，或以 --report-url 给出：身份提供方会将浏览器送回该处",
	"the URL by which browsers reach this console is expected: it begins with https://, or is on this machine, and has no path": "应为浏览器访问此控制台的 URL：以 https:// 开头或位于本机，且不带路径",
	"the claim that has the roles and what its values are good for are said together":                                           "含有角色的声明与其值对应的角色须同时给出",
	"this log-in was not begun in this browser, or too long ago: begin it again":                                                "此次登录不是在此浏览器中开始的，或开始得太久：请重新登录",
	"what %s says of you could not be verified; the server's log says why":                                                      "无法验证 %s 所提供的您的身份；原因见服务器日志",
}
