// Package words translates the texts that users read: notifications, answers of the API, the CLI and the console. The
// English text in the source code is the key of its translation in catalog/LANGUAGE.po. A new file in this directory
// adds a language. The caller chooses the language: of a channel, of an Accept-Language header, or of the variable
// LANG.
//
// The values of closed lists in package core, such as states and reasons, are data. They are equal in every language,
// and this package has descriptions of these values.
//
// A text without a translation is shown in English, and a test reports it.
package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// Language is a language of texts, such as "zh". The zero value is English.
type Language = core.Language

const (
	English = core.English
	Chinese = core.Chinese
)

// Of returns the language of a language tag such as "zh", "zh-CN" or, in LANG, "zh_CN.UTF-8". If the package has no
// texts in this language, Of returns English.
func Of(tag string) Language {
	base := strings.FieldsFunc(tag, func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == '@' })
	if len(base) > 0 && Known(Language(strings.ToLower(base[0]))) {
		return Language(strings.ToLower(base[0]))
	}
	return English
}

// Asked returns the language that an Accept-Language header requests: the supported language with the highest weight,
// or English if the header has no supported language.
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

// Span returns a duration as text, rounded to seconds, such as "1 h 30 min" or "1 小时 30 分钟". A duration below one
// second is "0 s".
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
