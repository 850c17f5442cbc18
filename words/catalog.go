package words

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/chai2010/gettext-go/po"

	"github.com/tickring/tickring/core"
)

// files are the catalogs in gettext's format, one for each language but English.
//
//go:embed catalog/*.po
var files embed.FS

// Languages has English and the languages that have a translation catalog.
var Languages = append([]Language{English}, languages(files)...)

func languages(fsys fs.FS) (list []Language) {
	names, err := fs.Glob(fsys, "catalog/*.po")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, name := range names {
		list = append(list, Language(strings.TrimSuffix(path.Base(name), ".po")))
	}
	return list
}

// Known reports whether the package has texts in the language.
func Known(l Language) bool { return slices.Contains(Languages, l) }

// CheckLanguage returns an error if the package has no texts in the language. The empty language is allowed.
func CheckLanguage(l Language) error {
	if l != "" && !Known(l) {
		return core.Invalid("language", string(l), "allowed values: %s", core.JoinAllowed(Languages))
	}
	return nil
}

// Name returns the name of the language in this language, such as "中文".
func Name(l Language) string { return in(l, "language", "English") }

// An entry names a text of a catalog: its English, and for a value of a closed list its list.
type entry struct{ list, english string }

var catalogs = sync.OnceValue(func() map[Language]map[entry]string {
	all := map[Language]map[entry]string{}
	for _, l := range languages(files) {
		c, err := read(files, l)
		if err != nil {
			panic(err) // it is part of the program
		}
		all[l] = c
	}
	return all
})

// read reads the catalog of a language, without texts that are not translated.
func read(fsys fs.FS, l Language) (map[entry]string, error) {
	raw, err := fs.ReadFile(fsys, "catalog/"+string(l)+".po")
	if err != nil {
		return nil, fmt.Errorf("read the catalog of %s: %w", l, err)
	}
	file, err := po.Load(raw)
	if err != nil {
		return nil, fmt.Errorf("read the catalog of %s: %w", l, err)
	}
	c := map[entry]string{}
	for _, m := range file.Messages {
		if m.MsgStr != "" {
			c[entry{m.MsgContext, m.MsgId}] = m.MsgStr
		}
	}
	return c, nil
}

// translated is a text in a language other than English; false if its catalog does not have it.
func translated(l Language, list, english string) (string, bool) {
	if l == English || l == "" {
		return "", false
	}
	text, ok := catalogs()[l][entry{list, english}]
	return text, ok
}

// in is a text in a language, or in English if it is not translated.
func in(l Language, list, english string) string {
	if text, ok := translated(l, list, english); ok {
		return text
	}
	return english
}
