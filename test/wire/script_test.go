package wire_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
)

// stoodIn are the programs that this machine does not have.
var stoodIn []string

// standIns puts replacements for missing interpreters of scripts on the PATH: python for python3, and, because Debian has no
// PowerShell, a shell for PowerShell and PHP, which runs the script's replacement. It returns the names of the replaced ones.
func standIns(dir string) (names []string, err error) {
	put := func(name, text string) {
		if _, e := exec.LookPath(name); e == nil || err != nil {
			return
		}
		names = append(names, name)
		err = os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700)
	}
	for _, name := range []string{"powershell", "pwsh", "php"} {
		put(name, `exec sh "$@"`)
	}
	put("python", `exec python3 "$@"`)
	if err == nil {
		err = os.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+dir)
	}
	return names, err
}

// said returns a script of a kind that prints its arguments, for the program on this machine.
func said(kind string) string {
	shell := "echo \"script " + kind + " $1 $2 $3\"\n"
	php := "<?php array_shift($argv); echo \"script php \", implode(\" \", $argv), \"\\n\";\n"
	if slices.Contains(stoodIn, "php") {
		php = shell
	}
	return map[string]string{
		"shell": shell, "powershell": shell, "php": php,
		"python": "import sys\nprint(\"script python\", *sys.argv[1:])\n",
		"nodejs": "console.log(\"script nodejs\", ...process.argv.slice(2))\n",
	}[kind]
}

// groovy is a handler in Java's dialect of scripts, which runs inside the executor.
func groovy(sub, text string) string {
	if strings.HasSuffix(sub, " 2.2.0") {
		return "import com.xxl.job.core.biz.model.ReturnT\nimport com.xxl.job.core.handler.IJobHandler\n" +
			"import com.xxl.job.core.log.XxlJobLogger\n" +
			"class Say extends IJobHandler {\n  ReturnT<String> execute(String param) throws Exception {\n    XxlJobLogger.log(\"" + text +
			" \" + param)\n    return ReturnT.SUCCESS\n  }\n}\n"
	}
	return "import com.xxl.job.core.context.XxlJobHelper\nimport com.xxl.job.core.handler.IJobHandler\n" +
		"class Say extends IJobHandler {\n  void execute() throws Exception {\n    XxlJobHelper.log(\"" + text +
		" \" + XxlJobHelper.getJobParam())\n  }\n}\n"
}

// script creates a job of a script, or stores another version.
func (b *stand) script(kind, source string) string {
	b.Helper()
	job := map[string]any{"app": "golang", "name": "script-" + kind, "params": "a b", "retry": map[string]any{"max": 1, "delay": "1s"},
		"script": map[string]any{"kind": kind, "source": source}}
	text, err := json.Marshal(map[string]any{"version": 1, "jobs": []any{job}})
	check.OK(b, err)
	b.s.OK(b.T, string(text), "apply", "-f", "-")
	return "golang/script-" + kind
}

// says runs a job, and returns the problem unless it succeeds with line in its log.
func (b *stand) says(job, line string) string {
	b.Helper()
	r, end := b.ends(b.s.Trigger(b.T, job), 20*time.Second) // the first Groovy script takes a while
	if end == "failed not-accepted" {
		b.triedTwice(job)
	}
	if end != "succeeded" {
		return r.Message
	}
	log := ""
	if err := waiting.For(5*time.Second, func() error {
		if log = b.s.OK(b.T, "", "logs", r.ID); !strings.Contains(log, line) {
			return fmt.Errorf("its log lacks %q", line)
		}
		return nil
	}); err != nil {
		return log
	}
	return ""
}

// triedTwice waits for the end of the second attempt of a failed run: it is retried as its job is configured, and not forever.
// Until that end, the attempt, which has the newest version, would end a run of an older one at the executor.
func (b *stand) triedTwice(job string) {
	b.Helper()
	check.NoError(b, waiting.For(time.Minute, func() error {
		if n := strings.Count(b.s.OK(b.T, "", "runs", job, "-o", "json"), `"failed"`); n != 2 {
			return fmt.Errorf("%d attempts, want 2", n)
		}
		return nil
	}))
}

// scripts: each kind that a program runs gets its arguments, and its exit code decides the result of the run. The next run has the
// new version, and a running one keeps its version.
func scripts(b *stand) (string, bool) {
	for _, kind := range []string{"shell", "python", "nodejs", "php", "powershell"} {
		if wrong := b.says(b.script(kind, said(kind)), "script "+kind+" a b 0 1"); wrong != "" {
			return wrong, false
		}
	}
	job := b.script("shell", "echo \"it goes wrong\"\nexit 3\n")
	r, end := b.ends(b.s.Trigger(b.T, job))
	if end != "failed handler" || !strings.Contains(r.Message, "script exit value(3) is failed") {
		return fmt.Sprint(end, " ", r.Message), false
	}
	b.triedTwice(job)
	b.script("shell", fmt.Sprintf("while [ ! -e '%s/go-'* ]; do sleep 0.05; done\necho \"version three\"\n", filepath.Join(b.dir, "scripts")))
	id := b.running(job)
	b.script("shell", "echo \"version four\"\r\n") // the line of Windows is one of the script
	go_ := filepath.Join(b.dir, "scripts")
	check.OK(b, os.MkdirAll(go_, 0o700))
	check.OK(b, os.WriteFile(filepath.Join(go_, "go-on"), nil, 0o600))
	if r, end = b.ends(id); end != "succeeded" || !strings.Contains(b.s.OK(b.T, "", "logs", id), "version three") {
		return fmt.Sprint("changed while it ran: ", end, " ", r.Message), false
	}
	if out := b.s.OK(b.T, "", "run", id); !strings.Contains(out, "shell   version 3 ") {
		return out, false
	}
	if wrong := b.says(job, "version four\r"); wrong != "" && !strings.Contains(wrong, "version four") {
		return wrong, false
	}
	return "", true
}

// groovies: a script that runs inside the executor, and another version of it.
func groovies(b *stand) (string, bool) {
	for _, text := range []string{"groovy one", "groovy two"} {
		if wrong := b.says(b.script("groovy", groovy(b.sub.name, text)), text+" a b"); wrong != "" {
			return wrong, false
		}
	}
	return "", true
}
