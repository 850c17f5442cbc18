package words

// zhConsoleActs is what panels say of acts.
var zhConsoleActs = map[string]string{
	"By the clock of %s": "按 %s 的时间",
	"so long ago: 90d, or a moment by the clock of %s":                                  "多久之前：90d，或按 %s 时区的时间",
	"By the clock of the zone below, UTC if that is empty: 2026-12-24 18:00, 06:00, 2h": "按下面时区的时间，留空则为 UTC：2026-12-24 18:00、06:00、2h",
}
