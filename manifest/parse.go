package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tickring/tickring/core"
)

// Parse reads one file: one YAML document, or several between lines ---. Its
// error is Errors; the name is only for messages.
func Parse(name string, data []byte, o Options) (*Document, error) {
	l := &loader{o: o}
	l.file(name, data, o)
	return l.done()
}

// Load reads files, folders (their *.yaml, *.yml and *.json, sorted, folders
// inside too; what begins with a dot is left out) and "-", which is stdin, and
// joins them: one set (files that name none take that of the others), and each
// app and job once. `defaults` count for their own file. Its error is Errors.
func Load(paths []string, stdin io.Reader, o Options) (*Document, error) {
	l := &loader{o: o}
	used := map[string]bool{}
	for _, path := range paths {
		if path == "-" {
			if !used[path] {
				used[path] = true
				l.read("stdin", stdin, o)
			}
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			l.c.add(&Error{File: path, Message: plain(err).Error()})
			continue
		}
		files := []string{path}
		if info.IsDir() {
			files = l.folder(path)
		}
		for _, file := range files {
			if used[filepath.Clean(file)] {
				continue // given twice
			}
			used[filepath.Clean(file)] = true
			l.open(file)
		}
	}
	return l.done()
}

// loader joins documents.
type loader struct {
	o        Options
	c        collector
	doc      Document
	setAt    Pos
	apps     map[string]int // index in doc.Apps
	jobs     map[string]int
	handlers []fieldAt // of doc.Jobs
	routes   []fieldAt
	full     bool
}

// fieldAt is where a field of a job stands.
type fieldAt struct {
	Pos
	path string
}

// folder lists the manifests of a folder.
func (l *loader) folder(root string) []string {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			l.c.add(&Error{File: path, Message: plain(err).Error()})
			return nil
		}
		if path != root && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch strings.ToLower(filepath.Ext(path)) {
		case ".yaml", ".yml", ".json":
			if !d.IsDir() {
				files = append(files, path)
			}
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		l.c.add(&Error{File: root, Message: "no manifest in this folder; *.yaml, *.yml and *.json are read"})
	}
	slices.Sort(files)
	return files
}

func (l *loader) open(path string) {
	f, err := os.Open(path)
	if err != nil {
		l.c.add(&Error{File: path, Message: plain(err).Error()})
		return
	}
	defer f.Close()
	o := l.o
	if read := o.ReadFile; read != nil {
		o.ReadFile = func(name string) ([]byte, error) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(path), name)
			}
			return read(name)
		}
	}
	l.read(path, f, o)
}

func (l *loader) read(name string, r io.Reader, o Options) {
	if r == nil {
		l.c.add(&Error{File: name, Message: "nothing to read"})
		return
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		l.c.add(&Error{File: name, Message: plain(err).Error()})
		return
	}
	l.file(name, data, o)
}

// file reads one file into the document.
func (l *loader) file(name string, data []byte, o Options) {
	if l.c.full() {
		return
	}
	if err := readable(data); err != nil {
		err.File = name
		l.c.add(err)
		return
	}
	docs := documents(data)
	if len(docs) == 0 {
		l.c.add(&Error{File: name, Message: "empty; a manifest begins with version: 1"})
	}
	for _, doc := range docs {
		l.document(name, doc, o)
	}
}

// document reads one YAML document.
func (l *loader) document(name string, doc piece, o Options) {
	d := &decoder{file: name, o: o, c: &l.c, anchors: map[string]anchor{}, budget: maxAliased}
	root := &value{field: &field{kind: kObject, obj: fileObject}, line: doc.line + 1, col: 1}
	root.fields = make([]*value, len(fileObject.fields))
	parts := cutJobs(doc)
	seen := map[string]Pos{}
	broken := false
	parseAll(parts.around, func(t tree) {
		d.lines = t.line
		if t.err != nil {
			t.err.File = name
			l.c.add(t.err)
			broken = true
			return
		}
		if len(parts.items) > 0 && t.line+1 > parts.jobs {
			seen["jobs"] = Pos{Line: parts.jobs, Column: 1}
		}
		if t.body != nil {
			d.top(t, root, seen)
		}
	})
	if !broken {
		d.required(root)
	}
	b := &builder{file: name, c: &l.c, set: text(root.get("set")), defaults: root.get("defaults")}
	if v := root.get("set"); v != nil {
		if err := core.CheckSet("set", v.text); err != nil || v.text == "" {
			b.report(v, "%q; the name of a set is 1 to %d printable ASCII characters", cutText(v.text), core.MaxSet)
		}
		l.joinSet(b, v)
	}
	b.checkDefaults()
	if list := root.get("apps"); list != nil {
		for _, v := range list.items {
			l.addApp(b, v)
		}
	}
	if list := root.get("jobs"); list != nil {
		for _, v := range list.items {
			l.addJob(b, v)
		}
	}
	if len(parts.items) == 0 {
		return
	}
	jobsField := fileObject.fields[fileObject.index["jobs"]]
	list := &value{field: jobsField, parent: root, line: parts.jobs, col: 1}
	index := 0
	parseAll(parts.items, func(t tree) {
		d.lines = t.line
		if t.err != nil {
			t.err.File = name
			l.c.add(t.err)
			return
		}
		if t.body == nil || l.c.full() {
			return
		}
		d.inside(t.body, list, func(n ast.Node) {
			for _, n := range d.entries(n, list) {
				if v := d.value(n, &value{field: jobsField.item, parent: list, index: index}); v != nil {
					l.addJob(b, v)
				}
				index++
			}
		})
	})
}

// joinSet has all files agree on their set.
func (l *loader) joinSet(b *builder, v *value) {
	if l.setAt.Line == 0 {
		l.doc.Set, l.setAt = v.text, Pos{b.file, v.line, v.col}
	} else if l.doc.Set != v.text {
		b.report(v, "%q, but %q at %s; files that are applied together have one set", cutText(v.text), cutText(l.doc.Set), l.setAt)
	}
}

// String is file:line:column.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

func (l *loader) addApp(b *builder, v *value) {
	spec, ok := b.app(v)
	if spec.Name != "" {
		if l.apps == nil {
			l.apps = map[string]int{}
		}
		if i, twice := l.apps[spec.Name]; twice {
			b.report(v.get("name"), "app %q is there already, at %s", cutText(spec.Name), l.doc.Apps[i].Pos)
			return
		}
		l.apps[spec.Name] = len(l.doc.Apps)
	}
	if ok || spec.Name != "" {
		l.doc.Apps = append(l.doc.Apps, App{spec, Pos{b.file, v.line, v.col}})
	}
	if len(l.doc.Apps) > MaxApps && !l.full {
		l.full = true
		b.report(v, "more than %d apps at once", MaxApps)
	}
}

func (l *loader) addJob(b *builder, v *value) {
	spec := b.job(v)
	name := spec.Def.App + "/" + spec.Def.Name
	if spec.Def.App != "" && spec.Def.Name != "" {
		if l.jobs == nil {
			l.jobs = map[string]int{}
		}
		if i, twice := l.jobs[name]; twice {
			b.report(v.get("name"), "job %q is there already, at %s", cutText(name), l.doc.Jobs[i].Pos)
			return
		}
		l.jobs[name] = len(l.doc.Jobs)
	}
	at := Pos{b.file, v.line, v.col}
	if len(l.doc.Jobs) >= MaxJobs {
		if !l.full {
			l.full = true
			b.report(v, "more than %d jobs at once", MaxJobs)
		}
		return
	}
	l.doc.Jobs = append(l.doc.Jobs, Job{spec, at})
	place := func(field string) fieldAt {
		f := fieldAt{at, join(v.path(), field)}
		if h := v.get(field); h != nil {
			f.Line, f.Column = h.line, h.col
		}
		return f
	}
	l.handlers, l.routes = append(l.handlers, place("handler")), append(l.routes, place("route"))
}

// done judges what several files may say together.
func (l *loader) done() (*Document, error) {
	for i := range l.doc.Jobs {
		d := &l.doc.Jobs[i].Spec.Def
		a, ok := l.apps[d.App]
		if !ok || d.Handler == "" {
			continue
		}
		app := core.App{Executors: l.doc.Apps[a].Spec.Executors}
		if e, ok := errors.AsType[*core.Error](app.CheckHandler(d.Handler)); ok {
			at := l.handlers[i]
			l.c.add(&Error{File: at.File, Line: at.Line, Column: at.Column, Path: at.path, Message: fmt.Sprintf("%q: %s", e.Value, e.Reason)})
		}
		if e, ok := errors.AsType[*core.Error](app.CheckRoute(d.Route)); ok {
			at := l.routes[i]
			l.c.add(&Error{File: at.File, Line: at.Line, Column: at.Column, Path: at.path, Message: fmt.Sprintf("%q: %s", e.Value, e.Reason)})
		}
	}
	if err := l.c.result(); err != nil {
		return nil, err
	}
	for i := range l.doc.Apps {
		l.doc.Apps[i].Spec.Set = l.doc.Set
	}
	for i := range l.doc.Jobs {
		l.doc.Jobs[i].Spec.Def.Set = l.doc.Set
	}
	l.doc.Warnings = l.c.warnings
	return &l.doc, nil
}
