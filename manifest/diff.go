package manifest

import (
	"fmt"

	"github.com/tickring/tickring/core"
)

// FieldChange is one difference, in the notation of the manifest: the values as
// YAML on one line. Old or New is empty where there is none.
type FieldChange struct{ Path, Old, New string }

// Diff is how new differs from old, by fields in the order of the manifest.
// Defaults are written out. A nil job is none: all that the other writes, but
// for defaults, is listed.
func Diff(old, new *core.Job) []FieldChange {
	w := newWriter(old != nil && new != nil)
	tree := func(j *core.Job) []FieldChange {
		if j == nil {
			return nil
		}
		c := *j
		c.Normalize()
		return flatten(set(w.job(&c), c.Def.Set), "", nil)
	}
	return compare(tree(old), tree(new))
}

// DiffApp is Diff for apps. Of a token it says only that it changed.
func DiffApp(old, new *core.App) []FieldChange {
	w := newWriter(old != nil && new != nil)
	tree := func(a, other *core.App) []FieldChange {
		if a == nil {
			return nil
		}
		n := w.app(a)
		switch {
		case other == nil && a.Token != "":
			n.kids = append(n.kids, &node{key: "token", text: "(set)"})
		case other != nil && other.Token != a.Token && a == new:
			n.kids = append(n.kids, &node{key: "token", text: "(changed)"})
		}
		return flatten(set(n, a.Set), "", nil)
	}
	return compare(tree(old, new), tree(new, old))
}

// set adds the set of which an app or a job is.
func set(n *node, name string) *node {
	if n == nil {
		n = &node{}
	}
	if name != "" {
		n.kids = append(n.kids, &node{key: "set", text: quote(name)})
	}
	return n
}

// flatten lists the leaves of a tree, their texts as New.
func flatten(n *node, path string, out []FieldChange) []FieldChange {
	if n == nil {
		return out
	}
	if n.kids == nil {
		return append(out, FieldChange{Path: path, New: n.text})
	}
	for i, kid := range n.kids {
		if n.list {
			out = flatten(kid, fmt.Sprintf("%s[%d]", path, i), out)
		} else {
			out = flatten(kid, join(path, kid.key), out)
		}
	}
	return out
}

// compare joins two lists of leaves in their order.
func compare(old, new []FieldChange) []FieldChange {
	was := make(map[string]string, len(old))
	for _, c := range old {
		was[c.Path] = c.New
	}
	is := make(map[string]string, len(new))
	for _, c := range new {
		is[c.Path] = c.New
	}
	var out []FieldChange
	i := 0
	gone := func(until string) { // what stands in old only, up to a path of both
		for ; i < len(old) && old[i].Path != until; i++ {
			if _, ok := is[old[i].Path]; !ok {
				out = append(out, FieldChange{Path: old[i].Path, Old: old[i].New})
			}
		}
	}
	for _, c := range new {
		before, ok := was[c.Path]
		if ok {
			gone(c.Path)
			i++
		}
		if !ok || before != c.New {
			out = append(out, FieldChange{c.Path, before, c.New})
		}
	}
	gone("")
	return out
}
