package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// pageBlocks returns a function that lists the code blocks of a language in a page of docs.
func pageBlocks(t *testing.T, name string) func(language string) []string {
	page, err := os.ReadFile("../../docs/" + name)
	check.OK(t, err)
	return func(language string) (out []string) {
		for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```\n").FindAllStringSubmatch(string(page), -1) {
			out = append(out, m[1])
		}
		return out
	}
}

// serveHere starts a server with data directory TICKRING_DATA, and returns the URL that it prints once it is ready.
func serveHere(t *testing.T, args ...string) (url string) {
	serve := command(t, "tickring-main", append(args, "--listen", "127.0.0.1:0")...)
	out, err := serve.StdoutPipe()
	if err == nil {
		err = serve.Start()
	}
	check.OK(t, err)
	t.Cleanup(func() { serve.Process.Kill(); serve.Wait() })
	said, _ := bufio.NewReader(out).ReadString('\n')
	return regexp.MustCompile(`http://\S+`).FindString(said)
}

// TestAPIPage: the commands of docs/how-to/use-the-api.md work as pasted, and the only refusals are those it shows.
func TestAPIPage(t *testing.T) {
	blocks := pageBlocks(t, "how-to/use-the-api.md")
	t.Setenv("TICKRING_DATA", t.TempDir())
	serveHere(t, "serve")
	const log = `ask "$url/v1/runs/$run/log"`
	script := strings.Join(blocks("sh"), "")
	if !strings.Contains(script, log) {
		t.Fatalf("the page does not ask for a log by %s", log)
	}
	// A user pastes more slowly than the run takes, a shell can be faster.
	script = strings.Replace(script, log, `for i in $(seq 300); do ask "$url/v1/runs/$run" | grep -q '"endedAt"' && break; sleep 0.1; done`+"\n"+log, 1)
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said := string(out)
	refusals := blocks("json")
	for _, want := range refusals {
		check.Equal(t, strings.Count(said, want), 1, "it does not say once %s: %s", want, said)
	}
	if len(refusals) != 1 || strings.Count(said, `{"error":`) != len(refusals) {
		t.Errorf("the page shows %d refusals, and there are others: %s", len(refusals), said)
	}
	for _, part := range []string{`"existing":false`, `"existing":true`, `"change":"created"`, `"change":"deleted"`,
		`{"runs":[{`, `"text":"`} {
		if !strings.Contains(said, part) {
			t.Errorf("nothing says %s: %s", part, said)
		}
	}
}

// TestCronPage: the commands of docs/tutorial/replace-a-crontab.md make jobs of its crontab. Its unit and
// packaging/tickring.service run them, quotes and percent signs as cron has them.
func TestCronPage(t *testing.T) {
	texts, page := golden.New(t), pageBlocks(t, "tutorial/replace-a-crontab.md")
	server, err := os.ReadFile("../../packaging/tickring.service")
	check.OK(t, err)
	block := func(language, with string) string {
		for _, b := range append(page(language), strings.ReplaceAll(string(server), "/usr/bin/", "/usr/local/bin/")) {
			if strings.Contains(b, with) {
				return b
			}
		}
		t.Fatalf("the pages have no %s with %q", language, with)
		return ""
	}
	// unit returns the arguments of tickring in the unit's ExecStart, with the given replacements.
	unit := func(with string, instead ...string) []string {
		_, line, _ := strings.Cut(block("ini", with), "\nExecStart=/usr/local/bin/tickring ")
		line, _, _ = strings.Cut(line, "\n")
		return strings.Fields(strings.NewReplacer(instead...).Replace(line))
	}
	convert, err := filepath.Abs("../../examples/crontab/convert.sh")
	check.OK(t, err)
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("TICKRING_APP_TOKEN", "the-token-of-the-crontab")
	t.Setenv("TICKRING_DATA", dir+"/data")
	if err := os.Mkdir(dir+"/data-key", 0o700); err != nil { // a StateDirectory of the unit
		t.Fatal(err)
	}
	url := serveHere(t, unit("DynamicUser=", "/var/lib/tickring", dir+"/data", "$TICKRING_FLAGS", "")...)

	// script runs the script of the page, which writes jobs.yaml.
	script := func() (said string, err error) {
		cmd := exec.CommandContext(t.Context(), "sh", convert, "deploy")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// made runs the script for a crontab and returns their messages, with localtime as target of /etc/localtime.
	made := func(crontab, localtime string) string {
		t.Helper()
		for name, says := range map[string]string{"crontab": "cat '" + dir + "/crontab.txt'", "readlink": "echo " + localtime} {
			check.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+says+"\n"), 0o700))
		}
		check.OK(t, os.WriteFile("crontab.txt", []byte(crontab), 0o600))
		said, _ := script()
		return said
	}
	const berlin = "/usr/share/zoneinfo/Europe/Berlin"
	crontab := block("crontab", "MAILTO")
	texts.Equal(t, "CRON_TZ", made(strings.Replace(crontab, "MAILTO", "CRON_TZ", 1), berlin))
	texts.Equal(t, "input after a percent sign", made(strings.Replace(crontab, `\%F`, "%F", 1), berlin))
	texts.Equal(t, "a zone that is no link", made(crontab, "/etc/localtime"))
	if b, err := os.ReadFile("jobs.yaml"); err == nil && len(b) > 0 {
		t.Errorf("of the failing line it made %s", b)
	}
	check.OK(t, os.WriteFile("jobs.yaml", []byte("of an earlier crontab"), 0o600))
	if err := os.Remove("crontab.txt"); err != nil { // crontab -l fails
		t.Fatal(err)
	}
	said, err := script()
	if err == nil {
		t.Error("without a crontab it does not fail")
	}
	texts.Equal(t, "no crontab", said[strings.LastIndex(strings.TrimSpace(said), "\n")+1:]) // after the line of cat
	if b, err := os.ReadFile("jobs.yaml"); err == nil {
		t.Errorf("without a crontab it leaves %s", b)
	}
	for _, name := range []string{"S3_BUCKET2", "SHELL", " HOME ", "MAILTO"} {
		texts.Equal(t, strings.TrimSpace(name), made(strings.Replace(crontab, "MAILTO", name, 1), berlin))
	}
	if kept, err := os.ReadFile("deploy.crontab"); err != nil || string(kept) != crontab {
		t.Errorf("the copy of the crontab is %q %v", kept, err)
	}
	run := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		cmd := command(t, "tickring-main", args...)
		cmd.Stdout = &out
		defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
		if err := cmd.Run(); err != nil {
			jobs, _ := os.ReadFile("jobs.yaml")
			t.Fatalf("%v: %v\n%s%s", args, err, &out, jobs)
		}
		return out.String()
	}
	check.Contains(t, run("apply", "-f", "jobs.yaml"), "6 created", "apply said")
	executor := command(t, "tickring-main", unit("User=deploy", "http://127.0.0.1:7700", url, "127.0.0.1:9999", "127.0.0.1:0",
		"/var/lib/tickring-cron", dir+"/journal")...)
	check.OK(t, executor.Start())
	defer func() { executor.Process.Signal(syscall.SIGTERM); executor.Wait() }()
	run("trigger", "cron/line-6", "--wait")
	if b, err := os.ReadFile("weekdays.txt"); err != nil || !regexp.MustCompile(`^\d{4}-\d\d-\d\d\n$`).Match(b) {
		t.Errorf("the job wrote %q %v", b, err)
	}
	run("trigger", "cron/line-7", "--wait") // the program does not exist, and the log reports that
	check.Contains(t, run("logs", "cron/line-7"), "\nno invoices\n", "its log")
	for line, words := range map[string]string{"4": "every 10 minutes", "6": "Monday to Friday", "8": "at 00:00"} {
		if got := run("describe", "cron/line-"+line); !strings.Contains(got, words) || !strings.Contains(got, "Europe/Berlin") {
			t.Errorf("line %s: %s", line, got)
		}
	}
}
