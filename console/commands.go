package console

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Pages show the command with the same effect. In a panel it is the command when the panel opens, and fields without a
// value have an example, or ….

// Flags returns words of a command. They are given as pairs of the name of a flag and its value: a text, a number, a
// time, a list of texts, or a bool for a flag without a value. Without a name, the value is an argument. A zero value
// gives no word. Each word has a space before it, and is quoted for a shell if needed.
func (a *ask) Flags(pairs ...any) (line string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		flag := strings.TrimSuffix(fmt.Sprint(" --", pairs[i]), " --")
		switch v := pairs[i+1].(type) {
		case bool:
			if v {
				line += flag
			}
		case int:
			if v != 0 {
				line += flag + " " + strconv.Itoa(v)
			}
		case time.Time:
			if !v.IsZero() {
				line += flag + " " + rfc(v)
			}
		case []string:
			for _, one := range v {
				line += a.Flags(pairs[i], one)
			}
		case string:
			if v != "" {
				line += flag + " " + shellWord(v)
			}
		}
	}
	return line
}

func (a *ask) PersonCommand(f url.Values) string {
	if f.Get("rev") == "" {
		return "tickring users set lina --role shop:editor"
	}
	roles, disabled := strings.Fields(f.Get("roles")), f.Get("disabled") != ""
	command := "tickring users set" + a.Flags("", f.Get("name"), "role", roles, "no-role", len(roles) == 0)
	if issuer := f.Get("issuer"); issuer != "" {
		command += a.Flags("issuer", issuer) + " --subject " + shellWord(f.Get("subject"))
	}
	return command + a.Flags("disable", disabled, "enable", !disabled)
}
