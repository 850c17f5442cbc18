// Package words translates what users read: notifications, answers of the API, the CLI and
// the console. The English text in the source is the key of its translation, which is in
// catalog/LANGUAGE.po. A new file there adds a language. The caller chooses the language
// (of a channel, an Accept-Language header or LANG).
//
// The values of closed lists of package core (states, reasons) are data and stay the same in
// every language. This package has their descriptions.
//
// A text that is not translated is shown in English. The tests report it.
package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// Language is a language of texts. The zero value is English.
type Language = core.Language

const (
	English = core.English
	Chinese = core.Chinese
)

// Of returns the language of a tag such as "zh", "zh-CN" or "zh_CN.UTF-8" (as in LANG), and English if that language has no texts.
func Of(tag string) Language {
	base := strings.FieldsFunc(tag, func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == '@' })
	if len(base) > 0 && Known(Language(strings.ToLower(base[0]))) {
		return Language(strings.ToLower(base[0]))
	}
	return English
}

// Asked returns the language of an Accept-Language header: the one in Languages with the highest weight, or English if it names
// none.
func Asked(header string) Language {
	best, want := English, 0.0
	for i, part := range strings.SplitN(header, ",", maxAsked+1) {
		tag, params, _ := strings.Cut(part, ";")
		tag = strings.ToLower(strings.TrimSpace(tag))
		q := 1.0
		if text, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			var err error
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		known := tag == "*" || slices.ContainsFunc(Languages, func(l Language) bool {
			return tag == string(l) || strings.HasPrefix(tag, string(l)+"-")
		})
		if known && q > want && q <= 1 && i < maxAsked {
			best, want = Of(tag), q
		}
	}
	return best
}

// maxAsked is the maximum number of languages of a header to read.
const maxAsked = 20

// Span returns a duration as text, to the second: "1 h 30 min", "1 小时 30 分钟"; below a second "0 s".
func Span(l Language, d time.Duration) string {
	units := []struct {
		n    time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	var parts []string
	for _, u := range units {
		if n := d / u.n; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, in(l, "unit", u.name)))
			d -= n * u.n
		}
	}
	if len(parts) == 0 {
		return "0 " + in(l, "unit", "s")
	}
	return strings.Join(parts, " ")
}
