// Package words says in Chinese and English what tickring tells people: in notices, in
// the answers of the API, in the CLI. It holds the tables, and knows nothing of whom it
// talks to: a caller brings the language (of a channel, an Accept-Language, a LANG).
//
// What is in a closed list of package core (states, reasons) is data: it stays as
// it is in the API, in files and in columns, in every language. Here is what it is called
// in a sentence.
//
// It refuses nothing: what has no word is said as it is, and a test finds it.
package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// Language is one that tickring speaks. The zero value is English.
type Language = core.Language

const (
	English = core.English
	Chinese = core.Chinese
)

var Languages = core.Languages

// Of is the language of a tag such as "zh", "zh-CN" or "zh_CN.UTF-8" (a LANG): Chinese
// where it begins so, else English.
func Of(tag string) Language {
	base := strings.FieldsFunc(tag, func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == '@' })
	if len(base) > 0 && strings.EqualFold(base[0], string(Chinese)) {
		return Chinese
	}
	return English
}

// Asked is the language of an Accept-Language header: that of Languages which it wants most,
// English where it names none.
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

// maxAsked bounds the languages of a header that are looked at.
const maxAsked = 20

// word is one word or sentence in each language: a line of every table here.
type word struct{ en, zh string }

func (w word) in(l Language) string {
	if l == Chinese {
		return w.zh
	}
	return w.en
}

// of looks a word up; one that no table has is said as it is.
func of[K ~string](l Language, table map[string]word, key K) string {
	if w, ok := table[string(key)]; ok {
		return w.in(l)
	}
	return string(key)
}

// Span is a duration, to the second: "1 h 30 min", "1 小时 30 分钟"; below a second "0 s".
func Span(l Language, d time.Duration) string {
	units := []struct {
		n time.Duration
		w word
	}{{24 * time.Hour, word{"d", "天"}}, {time.Hour, word{"h", "小时"}}, {time.Minute, word{"min", "分钟"}}, {time.Second, word{"s", "秒"}}}
	var parts []string
	for _, u := range units {
		if n := d / u.n; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.w.in(l)))
			d -= n * u.n
		}
	}
	if len(parts) == 0 {
		return "0 " + units[len(units)-1].w.in(l)
	}
	return strings.Join(parts, " ")
}
