package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/tickring/tickring/internal/paging"
	"github.com/tickring/tickring/manifest"
)

type editJobCmd struct {
	Job string `arg:"" placeholder:"JOB" help:"Job to edit. The command opens its manifest in $$VISUAL, $$EDITOR or vi."`
}

func (c *editJobCmd) Run(e *conn) error {
	j, err := e.job(c.Job)
	if err != nil {
		return err
	}
	text, err := e.asFile(j)
	if err != nil {
		return err
	}
	path, edited, err := e.editor(text, ".yaml")
	if err != nil {
		return err
	}
	if bytes.Equal(text, edited) {
		e.printf("no changes were made\n")
		return os.Remove(path)
	}
	name := j.App + "/" + j.Name
	err = e.applyText(path, edited, func(doc *manifest.Document) error {
		if len(doc.Apps) != 0 || len(doc.Jobs) != 1 || doc.Jobs[0].App+"/"+doc.Jobs[0].Name != name {
			return usagef("edit changes one job and keeps its app and name: %s", name)
		}
		doc.Jobs[0].IfRev = &j.Rev // another user can have changed it during the edit
		return nil
	})
	if err != nil {
		text := "your text was kept; fix the text, then: tickring apply -f " + path
		if why := e.errorText(err); why != "" {
			text = why + "\n" + text
		}
		return &exitError{exitOf(err), errors.New(text)}
	}
	return os.Remove(path)
}

// editor has a text edited, in a file that is left to the caller.
func (e *Env) editor(text []byte, suffix string) (path string, edited []byte, err error) {
	editor := strings.Fields(cmp.Or(e.env("VISUAL"), e.env("EDITOR"), "vi"))
	if len(editor) == 0 {
		return "", nil, usagef("no editor found: set VISUAL or EDITOR")
	}
	f, err := os.CreateTemp("", "tickring-*"+suffix)
	if err != nil {
		return "", nil, fmt.Errorf("create a file for the editor: %w", err)
	}
	path = f.Name()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, fmt.Errorf("write the file for the editor: %w", err)
	}
	cmd := exec.CommandContext(e.Ctx, editor[0], append(editor[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	if err := cmd.Run(); err != nil {
		return "", nil, &exitError{exitFailed, fmt.Errorf("editor %q failed: %w: set EDITOR to another editor   your text is in %s",
			strings.Join(editor, " "), err, path)}
	}
	edited, err = os.ReadFile(path)
	return path, edited, err
}

// applyText applies a generated manifest, if check is nil or accepts it, and prints the changes.
func (e *conn) applyText(name string, text []byte, check func(*manifest.Document) error) error {
	doc, err := manifest.Parse(name, text, manifest.Options{Getenv: e.Getenv, Parameter: e.parameter})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if check != nil {
		if err := check(doc); err != nil {
			return err
		}
	}
	res, err := paging.Apply(e.Ctx, e.Client, doc, paging.Options{Say: func(int, int, string) {}})
	if err != nil {
		return err
	}
	return e.showApplied(doc, &res, false)
}
