package schedule

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tickring/tickring/core"
)

// abbreviations maps abbreviations and Windows names, in lower case, to the zones that they may mean.
// Source: Unicode CLDR, windowsZones.
var abbreviations = map[string]string{
	"cst": "America/Chicago, Asia/Shanghai, America/Havana", "cdt": "America/Chicago", "edt": "America/New_York",
	"mdt": "America/Denver", "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "brt": "America/Sao_Paulo",
	"ist": "Asia/Kolkata, Europe/Dublin, Asia/Jerusalem", "bst": "Europe/London, Asia/Dhaka", "cest": "Europe/Berlin",
	"eest": "Europe/Athens", "msk": "Europe/Moscow", "jst": "Asia/Tokyo", "kst": "Asia/Seoul", "hkt": "Asia/Hong_Kong",
	"sgt": "Asia/Singapore", "aest": "Australia/Sydney", "aedt": "Australia/Sydney", "nzst": "Pacific/Auckland",
	"china standard time": "Asia/Shanghai", "taipei standard time": "Asia/Taipei", "tokyo standard time": "Asia/Tokyo",
	"korea standard time": "Asia/Seoul", "singapore standard time": "Asia/Singapore", "india standard time": "Asia/Kolkata",
	"se asia standard time": "Asia/Bangkok", "arabian standard time": "Asia/Dubai", "russian standard time": "Europe/Moscow",
	"turkey standard time": "Europe/Istanbul", "israel standard time": "Asia/Jerusalem", "gmt standard time": "Europe/London",
	"w. europe standard time": "Europe/Berlin", "romance standard time": "Europe/Paris",
	"central europe standard time": "Europe/Budapest", "central european standard time": "Europe/Warsaw",
	"eastern standard time": "America/New_York", "central standard time": "America/Chicago",
	"mountain standard time": "America/Denver", "pacific standard time": "America/Los_Angeles",
	"e. south america standard time": "America/Sao_Paulo", "aus eastern standard time": "Australia/Sydney",
	"new zealand standard time": "Pacific/Auckland", "beijing": "Asia/Shanghai", "asia/beijing": "Asia/Shanghai",
}

// fixedZones are IANA names that look like the zone of a city, and have no daylight saving time.
var fixedZones = map[string]string{"EST": "America/New_York", "MST": "America/Denver"}

var offsetName = regexp.MustCompile(`(?i)^(?:GMT|UTC)? *([+-]) *0?(\d{1,2})(?::?00)?$`)

// CheckZone returns an error unless name is the name of a time zone; an empty name is UTC. The error is a *core.Error for the
// given field. The error suggests a similar name if one exists.
func CheckZone(field, name string) error {
	if _, err := loadZone(name); err == nil {
		return nil
	}
	if name == "Local" {
		return core.Invalid(field, name, "the host's zone is never used; write one such as Europe/Berlin, or leave the field out for UTC")
	}
	typed := strings.TrimSpace(name)
	if m := offsetName.FindStringSubmatch(typed); m != nil {
		sign := map[string]string{"+": "-", "-": "+"}[m[1]]
		if n, _ := strconv.Atoi(m[2]); n <= 12 || n <= 14 && m[1] == "+" {
			return core.Invalid(field, name, "not an IANA time zone; write %s (the sign is reversed by definition), or a city such as Asia/Shanghai",
				"Etc/GMT"+sign+strconv.Itoa(n))
		}
	}
	if near := nearZone(typed); near != "" {
		return core.Invalid(field, name, "not an IANA time zone; did you mean %s?", near)
	}
	return core.Invalid(field, name, "not an IANA time zone; write one such as Europe/Berlin, or leave the field out for UTC")
}

// nearZone returns the name that is probably meant, or several of them; empty if none is near.
func nearZone(typed string) string {
	if len(typed) > 40 { // the longest name has 32 bytes
		return ""
	}
	if meant := abbreviations[strings.ToLower(typed)]; meant != "" {
		return meant
	}
	spelled := capitals(strings.ReplaceAll(typed, " ", "_"))
	for _, name := range []string{typed, spelled, strings.ToUpper(typed), strings.Replace(spelled, "Gmt", "GMT", 1)} {
		if _, err := loadZone(name); err == nil && name != "" {
			return name
		}
	}
	if len(spelled) < 4 {
		return ""
	}
	return oneEditAway(spelled)
}

// capitals writes a name with the capitals that IANA uses: Asia/Ho_Chi_Minh.
func capitals(name string) string {
	b := []byte(strings.ToLower(name))
	for i := range b {
		if (i == 0 || strings.IndexByte("/_-", b[i-1]) >= 0) && b[i] >= 'a' && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	return strings.NewReplacer("_Of_", "_of_", "_Es_", "_es_", "-Au-", "-au-", "-In-", "-in-").Replace(string(b))
}

// oneEditAway returns a zone whose name differs by one letter that is missing, doubled, wrong, or
// swapped with the next; empty if there is none.
func oneEditAway(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz_"
	exists := func(parts ...string) string {
		changed := capitals(strings.Join(parts, ""))
		if _, err := loadZone(changed); err != nil {
			return ""
		}
		return changed
	}
	for i := 1; i <= len(name); i++ {
		before, rest := name[:i], name[i:]
		for _, l := range letters {
			if z := exists(before, string(l), rest); z != "" {
				return z
			}
		}
		if rest == "" {
			break
		}
		if z := exists(before, rest[1:]); z != "" {
			return z
		}
		for _, l := range letters {
			if z := exists(before, string(l), rest[1:]); z != "" {
				return z
			}
		}
		if len(rest) > 1 {
			if z := exists(before, rest[1:2], rest[:1], rest[2:]); z != "" {
				return z
			}
		}
	}
	return ""
}
