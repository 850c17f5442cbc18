package cron

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
)

// foreign are the forms that other schedulers accept and tickring rejects. The first
// submatch is where the form begins, and reason gets all submatches.
var foreign = []struct {
	form   string // a regular expression, compiled when a text is rejected
	reason func(m []string) core.Text
}{
	{`^\s*((?:CRON_)?TZ=(\S*))`, func(m []string) core.Text {
		return core.Say("the time zone is a separate field: set `timezone` to %s, and remove %s from the schedule", m[2], quote(m[1]))
	}},
	{`(?i)^\s*(@every\s+(\S+))`, func(m []string) core.Text {
		return core.Say("use the field `every` for an interval: set `every` to %s", m[2])
	}},
	{`(?i)^\s*(rate\((\d+) +(second|minute|hour|day)s?\))`, func(m []string) core.Text {
		return core.Say("use the field `every` for an interval: set `every` to %s", m[2]+strings.ToLower(m[3][:1]))
	}},
	{`(?i)^\s*(cron\(([^)]*)\))`, func(m []string) core.Text {
		return core.Say("an Amazon EventBridge expression needs seconds as the first field, and no cron( ): set cron to %q",
			"0 "+strings.TrimSpace(m[2]))
	}},
	{`(?i)^\s*(@reboot)\b`, func([]string) core.Text {
		return core.Say("a job cannot run at machine startup: use the service manager of the machine, such as systemd")
	}},
	{`\s(#(?:[\s\pL].*|$))`, func(m []string) core.Text {
		return core.Say("comments are not allowed in a schedule: remove %s", quote(m[1]))
	}},
	{`(?:^|[\s,])(\d*~\d*)`, func(m []string) core.Text {
		return core.Say("random values such as %s are not supported: write one value, and set `jitter` to delay each run "+
			"randomly", quote(m[1]))
	}},
	{`(?:^|[\s,])(H(?:[(/]\S*)?)(?:[\s,]|$)`, func(m []string) core.Text {
		return core.Say("%s is Jenkins syntax for a hashed value: write one value; jobs with 'every' get different offsets "+
			"automatically", quote(m[1]))
	}},
	{`(?:^|\s)(\S+,\s+[\dA-Za-z]\S*|\S+\s+,\S+)`, func(m []string) core.Text {
		return core.Say("spaces are not allowed in a list: write %s", quote(strings.Join(strings.Fields(m[1]), "")))
	}},
}

// foreignForm is the error of a rejected text that another scheduler would accept; it
// is err if the text has none of the known forms.
func foreignForm(text string, err error) error {
	if len(text) > MaxText {
		return err
	}
	for _, f := range foreign {
		form := regexp.MustCompile(f.form)
		if at := form.FindStringSubmatchIndex(text); at != nil {
			return &ParseError{text, at[2], "", f.reason(form.FindStringSubmatch(text))}
		}
	}
	return err
}

// bothDays is the error of a Quartz text that sets both day fields. If one of them is *,
// as in Spring, it gives the text that is right here.
func bothDays(text string, words []word, dom, dow []item) error {
	e := &ParseError{text, dow[0].pos, daysOfWeek.String(), core.Say("day-of-month and day-of-week are both set; exactly one must be ?")}
	isStar := func(list []item) bool { return list[0].text == "*" && len(list) == 1 }
	fixed := make([]string, len(words))
	for i, w := range words {
		fixed[i] = w.text
	}
	switch {
	case isStar(dow):
		fixed[daysOfWeek] = "?"
	case isStar(dom):
		fixed[daysOfMonth], fixed[daysOfWeek] = "?", cmp.Or(springDays(dow), fixed[daysOfWeek])
	default:
		return e
	}
	e.Reason = core.Say("day-of-month and day-of-week are both set; exactly one must be ?: write %q", strings.Join(fixed, " "))
	if fixed[daysOfWeek] != words[daysOfWeek].text && !isStar(dow) {
		e.Reason = core.Say("%s if the expression comes from Spring or crontab, where 1 is Monday; in tickring 1 is Sunday", e.Reason)
	}
	return e
}

// springDays writes days of the week by name that stand as numbers of Spring or crontab,
// where 0 and 7 are Sunday; empty if one of them is not a number.
func springDays(list []item) string {
	names := []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"}
	days := make([]string, len(list))
	for i, it := range list {
		switch {
		case it.named || it.form != formValue && (it.form != formRange || it.step != 1):
			return ""
		case it.form == formValue:
			days[i] = names[it.lo]
		default:
			days[i] = names[it.lo] + "-" + names[it.hi]
		}
	}
	return strings.Join(slices.Compact(days), ",")
}
