package words

// zhChanges is of where changes came from, and of what is found of them.
var zhChanges = map[string]string{
	"from %s":                  "来自 %s",
	"from %s, logged in":       "来自 %s，已登录",
	"from %s, by the token %s": "来自 %s，使用令牌 %s",
}
