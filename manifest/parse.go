package manifest

import (
	"cmp"
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

// Parse parses one manifest file with one YAML document, or with several documents separated by lines with ---. The
// parameter name is used only in messages. A returned error has the type Errors.
func Parse(name string, data []byte, o Options) (*Document, error) {
	l := &loader{o: o, channels: map[string]int{}, apps: map[string]int{}, jobs: map[string]int{}}
	l.file(name, data, o)
	return l.done()
}

// Load reads and joins manifests from files, directories, and stdin (the name "-"). In a directory, Load reads all
// *.yaml, *.yml and *.json files in sorted order, including subdirectories. It skips names that begin with a dot. All
// files together must have one set; files without a set get this set. Each app and each job may occur once. The
// `defaults` of a file apply only to this file. A returned error has the type Errors.
func Load(paths []string, stdin io.Reader, o Options) (*Document, error) {
	l := &loader{o: o, channels: map[string]int{}, apps: map[string]int{}, jobs: map[string]int{}}
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
			l.c.add(&Error{File: path, Reason: said(err)})
			continue
		}
		files := []string{path}
		if info.IsDir() {
			files = l.folder(path)
		}
		for _, file := range files {
			if used[filepath.Clean(file)] {
				continue // named twice
			}
			used[filepath.Clean(file)] = true
			l.open(file)
		}
	}
	return l.done()
}

type loader struct {
	o        Options
	c        collector
	doc      Document
	setAt    Pos
	channels map[string]int // index in doc.Channels
	apps     map[string]int // index in doc.Apps
	jobs     map[string]int
	handlers []fieldAt // of doc.Jobs
	routes   []fieldAt
	calls    []fieldAt
	after    [][]fieldAt // positions of each job's parents
	full     bool
}

type fieldAt struct {
	Pos
	path string
}

func (l *loader) folder(root string) []string {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			l.c.add(&Error{File: path, Reason: said(err)})
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
		l.c.add(&Error{File: root, Reason: core.Say("no manifest in this directory: *.yaml, *.yml and *.json files are read")})
	}
	slices.Sort(files)
	return files
}

func (l *loader) open(path string) {
	f, err := os.Open(path)
	if err != nil {
		l.c.add(&Error{File: path, Reason: said(err)})
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
		l.c.add(&Error{File: name, Reason: core.Say("nothing to read")})
		return
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		l.c.add(&Error{File: name, Reason: said(err)})
		return
	}
	l.file(name, data, o)
}

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
		l.c.add(&Error{File: name, Reason: core.Say("the manifest is empty: start it with version: 1")})
	}
	for _, doc := range docs {
		if !l.c.full() {
			body, err := parse(doc, o.Small)
			l.document(name, body, err, o)
		}
	}
}

func (l *loader) document(name string, body ast.Node, err *Error, o Options) {
	if err != nil {
		err.File = name
		l.c.add(err)
	}
	if body == nil {
		return
	}
	found := &anchors{map[string]ast.Node{}, map[*ast.AliasNode]ast.Node{}}
	ast.Walk(found, body)
	b := &builder{decoder: &decoder{file: name, o: o, c: &l.c, stands: found.stands, budget: o.aliased(), places: map[string]Pos{},
		hidden: map[string]bool{}}, earlier: len(l.c.errs)}
	top, _ := b.value(body, component("Manifest"), "")
	root, _ := top.(object)
	b.top = b.places
	if set, ok := root["set"].(string); ok {
		if err := core.CheckSet("set", set); err != nil || set == "" {
			b.errorf(b.top["set"], "set", "%q: the name of a set must have 1 to %d printable ASCII characters", truncate(set), core.MaxSet)
		}
		l.joinSet(b, set)
	}
	if b.defaults, _ = root["defaults"].(object); b.defaults != nil {
		l.addNotify(b, b.job(object{}, "").Def.Notify)
	}
	b.each(root["channels"], "channels", "ManifestChannel", l.addChannel)
	b.each(root["apps"], "apps", "ManifestApp", l.addApp)
	b.each(root["jobs"], "jobs", "ManifestJob", l.addJob)
}

// addNotify applies the notify of defaults to notifications without a job too, if it names recipients, or none: {}.
func (l *loader) addNotify(b *builder, n core.Notify) {
	said, is := b.defaults["notify"].(object)
	at := b.top["defaults.notify"]
	switch {
	case !is, said["to"] == nil && len(said) > 0:
	case l.doc.Notify == nil:
		l.doc.Notify, l.doc.NotifyAt = &n, at
	case !l.doc.Notify.Equal(n):
		l.c.warnings = append(l.c.warnings, &Error{File: b.file, Line: at.Line, Column: at.Column, Path: "defaults.notify",
			Reason: core.Say("applies only to the jobs of this document: notifications without a job go to the channels set at %s", l.doc.NotifyAt)})
	}
}

func (b *builder) each(list any, path, of string, add func(b *builder, entry object, path string)) {
	nodes, _ := list.([]ast.Node)
	for i, n := range nodes {
		if b.c.full() {
			return
		}
		b.places = map[string]Pos{}
		path := fmt.Sprintf("%s[%d]", path, i)
		if v, ok := b.value(n, component(of), path); ok {
			add(b, v.(object), path)
		}
	}
}

// joinSet has all files agree on their set.
func (l *loader) joinSet(b *builder, set string) {
	at := b.top["set"]
	if l.setAt.Line == 0 {
		l.doc.Set, l.setAt = set, at
	} else if l.doc.Set != set {
		b.errorf(at, "set", "the set is %q here, but %q at %s: files that are applied together must use one set",
			truncate(set), truncate(l.doc.Set), l.setAt)
	}
}

// String returns the text "file:line:column".
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

func (l *loader) addChannel(b *builder, channel object, path string) {
	spec, at := b.channel(channel, path), b.places[path]
	name := spec.Channel.Name
	if name == "" {
		return
	}
	if i, twice := l.channels[name]; twice {
		b.errorf(b.places[path+".name"], path+".name", "channel %q is already defined at %s", truncate(name), l.doc.Channels[i].Pos)
		return
	}
	l.channels[name] = len(l.doc.Channels)
	if l.doc.Channels = append(l.doc.Channels, Channel{spec, at}); len(l.doc.Channels) == core.MaxChannels+1 {
		b.errorf(at, path, "more than %d channels in one request", core.MaxChannels)
	}
}

func (l *loader) addApp(b *builder, app object, path string) {
	spec, at := b.app(app, path), b.places[path]
	if spec.Name == "" {
		return
	}
	if i, twice := l.apps[spec.Name]; twice {
		b.errorf(b.places[path+".name"], path+".name", "app %q is already defined at %s", truncate(spec.Name), l.doc.Apps[i].Pos)
		return
	}
	l.apps[spec.Name] = len(l.doc.Apps)
	if l.doc.Apps = append(l.doc.Apps, App{spec, at}); len(l.doc.Apps) == MaxApps+1 {
		b.errorf(at, path, "more than %d apps in one request", MaxApps)
	}
}

func (l *loader) addJob(b *builder, job object, path string) {
	spec, at := b.job(job, path), b.places[path]
	if spec.Def.App != "" && spec.Def.Name != "" {
		name := spec.Def.App + "/" + spec.Def.Name
		if i, twice := l.jobs[name]; twice {
			b.errorf(b.places[path+".name"], path+".name", "job %q is already defined at %s", truncate(name), l.doc.Jobs[i].Pos)
			return
		}
		l.jobs[name] = len(l.doc.Jobs)
	}
	if len(l.doc.Jobs) == MaxJobs {
		if !l.full {
			l.full = true
			b.errorf(at, path, "more than %d jobs in one request", MaxJobs)
		}
		return
	}
	l.doc.Jobs = append(l.doc.Jobs, Job{spec, at})
	place := func(field string) fieldAt {
		below := join(path, field)
		return fieldAt{cmp.Or(b.places[below], at), below}
	}
	work := place("handler")
	if spec.Def.Script != nil {
		work = place("script")
	}
	l.handlers, l.routes = append(l.handlers, work), append(l.routes, place("route"))
	l.calls = append(l.calls, place("call"))
	parents := make([]fieldAt, len(spec.Def.After))
	for i := range parents {
		list := "after"
		if spec.Def.Within > 0 {
			list = "after.all"
		}
		parents[i] = place(fmt.Sprintf("%s[%d].job", list, i))
	}
	l.after = append(l.after, parents)
}

// done checks the rules that apply across files.
func (l *loader) done() (*Document, error) {
	for i := range l.doc.Jobs {
		d := &l.doc.Jobs[i].Spec.Def
		a, ok := l.apps[d.App]
		if !ok || d.Handler == "" && d.Command == nil && d.Script == nil {
			continue
		}
		app := core.App{Name: d.App, Executors: l.doc.Apps[a].Spec.Executors}
		for k, err := range []error{app.CheckWork(d), app.CheckRoute(d.Route), app.CheckCall(d.Call)} {
			if e, ok := errors.AsType[*core.Error](err); ok {
				at := [...]fieldAt{l.handlers[i], l.routes[i], l.calls[i]}[k]
				l.c.add(&Error{File: at.File, Line: at.Line, Column: at.Column, Path: at.path, Reason: message(e)})
			}
		}
	}
	l.inOrder()
	if err := l.c.result(); err != nil {
		return nil, err
	}
	for i := range l.doc.Channels {
		l.doc.Channels[i].Spec.Channel.Set = l.doc.Set
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

// inOrder sorts the jobs so that each follows its parents in the document. If that is impossible, it reports each position in a
// cycle.
func (l *loader) inOrder() {
	names := make([]int, len(l.doc.Jobs))
	some := false
	for i := range l.doc.Jobs {
		names[i] = i
		some = some || len(l.doc.Jobs[i].Spec.Def.After) > 0
	}
	if !some || l.full {
		return
	}
	order, circle := core.InOrder(names, func(i int) (list []int) {
		for _, p := range l.doc.Jobs[i].Spec.Def.After {
			if at, is := l.jobs[p.Job]; is {
				list = append(list, at)
			}
		}
		return list
	})
	for k, i := range circle {
		next := circle[(k+1)%len(circle)]
		for n, p := range l.doc.Jobs[i].Spec.Def.After {
			if at, is := l.jobs[p.Job]; is && at == next {
				at := l.after[i][n]
				l.c.add(&Error{File: at.File, Line: at.Line, Column: at.Column, Path: at.path,
					Reason: core.Say("%q: the parent jobs form a cycle of %d jobs", truncate(p.Job), len(circle))})
			}
		}
	}
	if circle != nil {
		return
	}
	jobs := make([]Job, len(order))
	for k, i := range order {
		jobs[k] = l.doc.Jobs[i]
	}
	l.doc.Jobs = jobs
}
