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

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// Parse parses one manifest file with one YAML document, or with several documents separated by lines with ---. The
// parameter name is used only in messages. A returned error has the type Errors.
func Parse(name string, data []byte, o Options) (*Document, error) {
	l := &loader{o: o, seen: map[[2]string]Pos{}}
	l.file(name, data, o)
	return l.done()
}

// Load reads and joins manifests from files, directories, and stdin (the name "-"). In a directory, Load reads all
// *.yaml, *.yml and *.json files in sorted order, including subdirectories. It skips names that begin with a dot. All
// files together must have one set; files without a set get this set. Each app and each job may occur once. The
// `defaults` of a file apply only to this file. A returned error has the type Errors.
func Load(paths []string, stdin io.Reader, o Options) (*Document, error) {
	l := &loader{o: o, seen: map[[2]string]Pos{}}
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
	o     Options
	c     collector
	doc   Document
	setAt Pos
	seen  map[[2]string]Pos // positions of entries, by the text about a second one and their names
	parts []jobParts        // of doc.Jobs
	// notify is doc.Notify.
	notify core.Notify
	full   bool
}

// jobParts are the parts of a job that the rules across files concern.
type jobParts struct {
	def               *core.Def
	work, route, call fieldAt
	after             []fieldAt // each parent
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
	b := &builder{decoder: &decoder{file: name, o: o, c: &l.c, stands: found.stands, budget: o.aliased(), places: map[string]place{},
		hidden: map[string]bool{}}, told: map[string]object{}, earlier: len(l.c.errs)}
	root, _ := b.value(body, component("Manifest"), "").(object)
	b.top = b.places
	if set, ok := root["set"].(string); ok {
		if err := core.CheckSet("set", set); err != nil || set == "" {
			b.errorfAt("set", "%q: the name of a set must have 1 to %d printable ASCII characters", truncate(set), core.MaxSet)
		}
		l.joinSet(b, set)
	}
	if b.defaults, _ = root["defaults"].(object); b.defaults != nil {
		job, spec := b.job(object{}, "")
		l.addNotify(b, &job.Notify, spec.Def.Notify)
	}
	b.each(root["channels"], "channels", "ManifestChannel", l.addChannel)
	b.each(root["apps"], "apps", "ManifestApp", l.addApp)
	b.each(root["jobs"], "jobs", "ManifestJob", l.addJob)
}

// addNotify applies the notify of defaults to notifications without a job too, if it names recipients, or none: {}.
func (l *loader) addNotify(b *builder, form *client.Notify, n core.Notify) {
	said, is := b.defaults["notify"].(object)
	at := b.top["defaults.notify"].Pos
	switch {
	case !is, said["to"] == nil && len(said) > 0:
	case l.doc.Notify == nil:
		l.doc.Notify, l.doc.NotifyAt, l.notify = form, at, n
	case !l.notify.Equal(n):
		b.warnf(at, "defaults.notify", "applies only to the jobs of this document: notifications without a job go to the channels set at %s",
			l.doc.NotifyAt)
	}
}

func (b *builder) each(list any, path, of string, add func(b *builder, entry object, path string)) {
	nodes, _ := list.([]ast.Node)
	for i, n := range nodes {
		if b.c.full() {
			return
		}
		b.places = map[string]place{}
		path := fmt.Sprintf("%s[%d]", path, i)
		if entry, ok := b.value(n, component(of), path).(object); ok {
			add(b, entry, path)
		}
	}
}

// joinSet has all files agree on their set.
func (l *loader) joinSet(b *builder, set string) {
	at := b.top["set"].Pos
	if l.setAt.Line == 0 {
		l.doc.Set, l.setAt = set, at
	} else if l.doc.Set != set {
		b.errorf(at, "set", "the set is %q here, but %q at %s: files that are applied together must use one set",
			truncate(set), truncate(l.doc.Set), l.setAt)
	}
}

// String returns the text "file:line:column".
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// first reports whether an entry is the first of its name. Otherwise it reports an error with the text twice.
func (l *loader) first(b *builder, name, path, twice string) bool {
	key := [2]string{twice, name}
	if at, found := l.seen[key]; found {
		b.errorfAt(path+".name", twice, truncate(name), at)
		return false
	}
	l.seen[key] = b.places[path].Pos
	return true
}

func (l *loader) addChannel(b *builder, channel object, path string) {
	spec, at := b.channel(channel, path), b.places[path].Pos
	if spec.Name == "" || !l.first(b, spec.Name, path, "channel %q is already defined at %s") {
		return
	}
	l.doc.Channels, l.doc.ChannelsAt = append(l.doc.Channels, spec), append(l.doc.ChannelsAt, at)
	if len(l.doc.Channels) == core.MaxChannels+1 {
		b.errorf(at, path, "more than %d channels in one request", core.MaxChannels)
	}
}

func (l *loader) addApp(b *builder, app object, path string) {
	spec, at := b.app(app, path), b.places[path].Pos
	if spec.Name == "" || !l.first(b, spec.Name, path, "app %q is already defined at %s") {
		return
	}
	l.doc.Apps, l.doc.AppsAt = append(l.doc.Apps, spec), append(l.doc.AppsAt, at)
	if len(l.doc.Apps) == MaxApps+1 {
		b.errorf(at, path, "more than %d apps in one request", MaxApps)
	}
}

func (l *loader) addJob(b *builder, own object, path string) {
	job, spec := b.job(own, path)
	at := b.places[path].Pos
	if job.App != "" && job.Name != "" && !l.first(b, job.App+"/"+job.Name, path, "job %q is already defined at %s") {
		return
	}
	if len(l.doc.Jobs) == MaxJobs {
		if !l.full {
			l.full = true
			b.errorf(at, path, "more than %d jobs in one request", MaxJobs)
		}
		return
	}
	l.doc.Jobs, l.doc.JobsAt = append(l.doc.Jobs, job), append(l.doc.JobsAt, at)
	place := func(field string) fieldAt {
		below := join(path, field)
		return fieldAt{cmp.Or(b.places[below].Pos, at), below}
	}
	work, parents := "handler", "after[%d].job"
	if spec.Def.Script != nil {
		work = "script"
	}
	if spec.Def.Within > 0 {
		parents = "after.all[%d].job"
	}
	parts := jobParts{def: &spec.Def, work: place(work), route: place("route"), call: place("call")}
	for i := range spec.Def.After {
		parts.after = append(parts.after, place(fmt.Sprintf(parents, i)))
	}
	l.parts = append(l.parts, parts)
}

func (l *loader) errorAt(at fieldAt, why core.Text) {
	l.c.add(&Error{File: at.File, Line: at.Line, Column: at.Column, Path: at.path, Reason: why})
}

// done checks the rules that apply across files.
func (l *loader) done() (*Document, error) {
	apps := map[string]core.App{}
	for i := range l.doc.Apps {
		a := &l.doc.Apps[i]
		a.Set = l.doc.Set
		apps[a.Name] = core.App{Name: a.Name, Executors: a.Executors}
	}
	for i := range l.doc.Channels {
		l.doc.Channels[i].Set = l.doc.Set
	}
	for i := range l.doc.Jobs {
		l.doc.Jobs[i].Set = l.doc.Set
		d, at := l.parts[i].def, &l.parts[i]
		app, ok := apps[d.App]
		if !ok || d.Handler == "" && d.Command == nil && d.Script == nil {
			continue
		}
		for _, c := range []struct {
			at  fieldAt
			err error
		}{{at.work, app.CheckWork(d)}, {at.route, app.CheckRoute(d.Route)}, {at.call, app.CheckCall(d.Call)}} {
			if e, ok := errors.AsType[*core.Error](c.err); ok {
				l.errorAt(c.at, message(e))
			}
		}
	}
	l.inOrder()
	if err := l.c.result(); err != nil {
		return nil, err
	}
	l.doc.Warnings = l.c.warnings
	return &l.doc, nil
}

// inOrder sorts the jobs so that each follows its parents in the document. If that is impossible, it reports each position in a
// cycle.
func (l *loader) inOrder() {
	names, at := make([]string, len(l.doc.Jobs)), map[string]int{}
	for i := range l.doc.Jobs {
		names[i] = l.doc.Jobs[i].App + "/" + l.doc.Jobs[i].Name
		at[names[i]] = i
	}
	parents := func(name string) []client.Parent { return l.doc.Jobs[at[name]].After }
	order, circle := core.InOrder(names, func(name string) (list []string) {
		for _, p := range parents(name) {
			list = append(list, p.Job)
		}
		return list
	})
	for k, name := range circle {
		for n, p := range parents(name) {
			if p.Job == circle[(k+1)%len(circle)] {
				l.errorAt(l.parts[at[name]].after[n], core.Say("%q: the parent jobs form a cycle of %d jobs", truncate(p.Job), len(circle)))
			}
		}
	}
	jobs, jobsAt := make([]client.JobSpec, len(order)), make([]Pos, len(order)) // without a cycle, all of them
	for k, name := range order {
		jobs[k], jobsAt[k] = l.doc.Jobs[at[name]], l.doc.JobsAt[at[name]]
	}
	l.doc.Jobs, l.doc.JobsAt = jobs, jobsAt
}
