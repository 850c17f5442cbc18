package words

// zhData is what lists of many, and acts on many, say.
var zhData = map[string]string{
	"a span of time that is not negative is expected":    "应为非负的时长",
	"nothing takes longer than this and shorter than %s": "没有既长于此值又短于 %s 的运行",
}
