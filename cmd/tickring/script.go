package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/manifest"
)

type scriptCmd struct {
	Get      scriptGetCmd      `cmd:"" help:"Print the script of a job, byte for byte."`
	Versions scriptVersionsCmd `cmd:"" help:"List the stored versions of a script, newest first."`
	Diff     scriptDiffCmd     `cmd:"" help:"Compare two versions of a script."`
	Put      scriptPutCmd      `cmd:"" help:"Store a new version of a job's script."`
	Edit     scriptEditCmd     `cmd:"" help:"Edit a script in your editor: $$VISUAL, $$EDITOR or vi."`
	Restore  scriptRestoreCmd  `cmd:"" help:"Store an earlier version of a script as the new version."`
}

type (
	scriptGetCmd struct {
		Job    string `arg:"" placeholder:"JOB" help:"Job that runs the script."`
		Number int    `arg:"" optional:"" name:"version" placeholder:"VERSION" help:"Number of an earlier version (default: the current version)."`
	}
	scriptVersionsCmd struct {
		Job string `arg:"" placeholder:"JOB" help:"Job that runs the script."`
	}
	scriptDiffCmd struct {
		Job  string `arg:"" placeholder:"JOB" help:"Job that runs the script."`
		From int    `arg:"" optional:"" placeholder:"FROM" help:"Number of the first version (default: the previous version)."`
		To   int    `arg:"" optional:"" placeholder:"TO" help:"Number of the second version (default: the current version)."`
	}
	scriptPutCmd struct {
		Job  string `arg:"" placeholder:"JOB" help:"Job that runs the script."`
		File string `arg:"" placeholder:"FILE|-" help:"File with the source, or - for standard input."`
		Kind string `placeholder:"KIND" help:"Language of the script: ${scriptKinds} (default: unchanged)."`
		Note string `placeholder:"TEXT" help:"Description of this version."`
	}
	scriptEditCmd struct {
		Job  string `arg:"" placeholder:"JOB" help:"Job that runs the script."`
		Note string `placeholder:"TEXT" help:"Description of this version."`
	}
	scriptRestoreCmd struct {
		Job    string `arg:"" placeholder:"JOB" help:"Job that runs the script."`
		Number int    `arg:"" name:"version" placeholder:"VERSION" help:"Number of the earlier version; 'tickring script versions JOB' lists all versions."`
		Note   string `placeholder:"TEXT" help:"Description of the new version (default: 'same as version VERSION')."`
	}
)

func (c *scriptGetCmd) Run(e *conn) error {
	j, err := e.job(c.Job)
	if err != nil {
		return err
	}
	s, err := e.GetScript(e.Ctx, j.App, j.Name, fmt.Sprint(c.Number))
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(s)
	}
	_, err = io.WriteString(e.Stdout, s.Source)
	return err
}

func (c *scriptVersionsCmd) Run(e *conn) error {
	j, err := e.job(c.Job)
	if err != nil {
		return err
	}
	list, err := e.ListScripts(e.Ctx, j.App, j.Name)
	rows := [][]string{{"VERSION", "CREATED", "BY", "KIND", "BYTES", "SHA256", "NOTE"}}
	for _, v := range list.Versions {
		rows = append(rows, []string{fmt.Sprint(v.Version), e.full(v.At, j.Schedule.Timezone), v.By, v.Kind, fmt.Sprint(v.Size),
			shortHash(v.Hash), oneLine(v.Note)})
	}
	return e.list(list, err, fmt.Sprintf("%s/%s has no script", j.App, j.Name), rows)
}

// shortHash shortens a hash; the result is still unique among the versions of a job.
func shortHash(hash string) string { return hash[:min(len(hash), 12)] }

func scriptText(s *client.Script) string {
	return strings.TrimSpace(fmt.Sprintf("%s   version %d   %d bytes   sha256 %s   %s", s.Kind, s.Version, s.Size, shortHash(s.Hash),
		oneLine(s.Note)))
}

func (c *scriptDiffCmd) Run(e *conn) error {
	j, err := e.job(c.Job)
	if err != nil {
		return err
	}
	d, err := e.DiffScripts(e.Ctx, j.App, j.Name, fmt.Sprint(c.To), client.DiffScriptsParams{From: c.From})
	return e.show(d, err, func() {
		if d.Text == "" {
			e.printf("versions %d and %d have the same source\n", d.From, d.To)
		}
		for line := range strings.Lines(d.Text) {
			e.printf("%s\n", visible(strings.TrimSuffix(line, "\n")))
		}
	})
}

func (c *scriptPutCmd) Run(e *conn) error {
	source, err := c.read(e)
	if err != nil {
		return err
	}
	j, err := e.job(c.Job)
	if err != nil {
		return err
	}
	return e.putScript(&j, client.ScriptChange{Kind: c.Kind, Note: c.Note, Source: source, IfRev: &j.Rev})
}

func (c *scriptPutCmd) read(e *conn) (string, error) {
	in := e.Stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return "", usagef("%s: %v", c.File, errors.Unwrap(err))
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, core.MaxScript+1))
	if err != nil {
		return "", fmt.Errorf("read the script: %w", err)
	}
	return string(text), core.CheckSource(c.File, string(text))
}

// putScript stores another version of a job's script and prints its hash.
func (e *conn) putScript(j *client.Job, change client.ScriptChange) error {
	res, err := e.PutScript(e.Ctx, j.App, j.Name, change)
	if err != nil {
		return err
	}
	now, err := e.GetJob(e.Ctx, j.App, j.Name)
	return e.show(now.Script, err, func() {
		if res.Change == "unchanged" {
			e.printf("%s/%s is unchanged: %s\n", j.App, j.Name, scriptText(&now.Script))
			return
		}
		e.printf("%s/%s   %s\n", j.App, j.Name, scriptText(&now.Script))
	})
}

func (c *scriptEditCmd) Run(e *conn) error {
	j, err := e.job(c.Job)
	if err != nil {
		return err
	}
	s, err := e.GetScript(e.Ctx, j.App, j.Name, "0")
	if err != nil {
		return err
	}
	path, edited, err := e.editor([]byte(s.Source), suffixes[core.ScriptKind(s.Kind)])
	if err != nil {
		return err
	}
	if bytes.Equal(edited, []byte(s.Source)) {
		e.printf("no changes were made\n")
		return os.Remove(path)
	}
	err = core.CheckSource("script", string(edited))
	if err == nil {
		err = e.putScript(&j, client.ScriptChange{Note: c.Note, Source: string(edited), IfRev: &j.Rev})
	}
	if err != nil {
		return &exitError{exitOf(err), fmt.Errorf("%w\nyour text was kept; to store it: tickring script put %s/%s %s", err, j.App, j.Name, path)}
	}
	return os.Remove(path)
}

// suffixes are those by which editors know a language.
var suffixes = map[core.ScriptKind]string{core.ScriptShell: ".sh", core.ScriptPython: ".py", core.ScriptNodeJS: ".js",
	core.ScriptPHP:        ".php",
	core.ScriptPowerShell: ".ps1", core.ScriptGroovy: ".groovy"}

func (c *scriptRestoreCmd) Run(e *conn) error {
	j, err := e.job(c.Job)
	if err != nil {
		return err
	}
	note := cmp.Or(c.Note, fmt.Sprintf("same as version %d", c.Number))
	return e.putScript(&j, client.ScriptChange{Version: c.Number, Note: note, IfRev: &j.Rev})
}

// asFile writes a job as a manifest.
func (e *conn) asFile(j client.Job) ([]byte, error) {
	list := []client.Job{j}
	if err := e.sources(list); err != nil {
		return nil, err
	}
	return manifest.Export(nil, list)
}

// sources reads the sources of the scripts of jobs, so that they can be written as a file.
func (e *conn) sources(jobs []client.Job) error {
	for i := range jobs {
		j := &jobs[i]
		if j.Script.Kind == "" {
			continue
		}
		s, err := e.GetScript(e.Ctx, j.App, j.Name, fmt.Sprint(j.Script.Version))
		if err == nil && s.Hash != j.Script.Hash {
			err = core.Errorf(core.CodeNotFound, "version %d belongs to another job", j.Script.Version)
		}
		if exitOf(err) == exitNotFound {
			return &exitError{exitNotFound, fmt.Errorf("version %d of the script of %s/%s is not stored: the job was deleted, or %d newer "+
				"versions replaced it; store another script with tickring apply or tickring script put",
				j.Script.Version, j.App, j.Name, core.KeepVersions)}
		}
		if err != nil {
			return fmt.Errorf("the script of %s/%s: %w", j.App, j.Name, err)
		}
		j.Script.Source = s.Source
	}
	return nil
}
