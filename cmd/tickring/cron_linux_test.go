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
)

// TestCronPage: the commands of docs/cron.md make jobs of its crontab, and its units
// run them, quotes and percent signs as cron has them.
func TestCronPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/cron.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language, with string) string {
		for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```\n").FindAllStringSubmatch(string(page), -1) {
			if strings.Contains(m[1], with) {
				return m[1]
			}
		}
		t.Fatalf("the page has no %s with %q", language, with)
		return ""
	}
	// unit is what ExecStart of a unit gives tickring, with these in place of what it names.
	unit := func(with string, instead ...string) []string {
		_, line, _ := strings.Cut(block("ini", with), "\nExecStart=/usr/local/bin/tickring ")
		line, _, _ = strings.Cut(line, "\n")
		return strings.Fields(strings.NewReplacer(instead...).Replace(line))
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("TICKRING_APP_TOKEN", "the-token-of-the-crontab")
	t.Setenv("TICKRING_DATA", dir+"/data")
	start := func(args ...string) *exec.Cmd {
		t.Helper()
		cmd := command(t, "tickring-main", args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		return cmd
	}
	serve := start(append(unit("DynamicUser=", "/var/lib/tickring", dir+"/data"), "--listen", "127.0.0.1:0")...)
	out, err := serve.StdoutPipe()
	if err == nil {
		err = serve.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { serve.Process.Kill(); serve.Wait() }()
	said, _ := bufio.NewReader(out).ReadString('\n')
	url := regexp.MustCompile(`http://\S+`).FindString(said)

	for name, says := range map[string]string{"crontab": "cat '" + dir + "/crontab.txt'", "readlink": "echo /usr/share/zoneinfo/Europe/Berlin"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+says+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("crontab.txt", []byte(block("crontab", "MAILTO")), 0o600); err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "sh", "-c", block("sh", "awk"))
	script.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
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
	for opens := time.Now(); command(t, "tickring-main", "get").Run() != nil; {
		if time.Since(opens) > 20*time.Second {
			t.Fatal("it does not come up")
		}
	}
	if got := run("apply", "-f", "jobs.yaml"); !strings.Contains(got, "6 created") {
		t.Errorf("apply said %s", got)
	}
	executor := start(unit("User=deploy", "http://127.0.0.1:7700", url, "127.0.0.1:9999", "127.0.0.1:0", "/var/lib/tickring-cron", dir+"/journal")...)
	if err := executor.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { executor.Process.Signal(syscall.SIGTERM); executor.Wait() }()
	run("trigger", "cron/line-6", "--wait")
	if b, err := os.ReadFile("weekdays.txt"); err != nil || !regexp.MustCompile(`^\d{4}-\d\d-\d\d\n$`).Match(b) {
		t.Errorf("the job wrote %q %v", b, err)
	}
	run("trigger", "cron/line-7", "--wait") // there is no such program, and so it says
	if got := run("logs", "cron/line-7"); !strings.Contains(got, "\nno invoices\n") {
		t.Errorf("its log is %s", got)
	}
	for line, words := range map[string]string{"4": "every 10 minutes", "6": "Monday to Friday", "8": "at 00:00"} {
		if got := run("describe", "cron/line-"+line); !strings.Contains(got, words) || !strings.Contains(got, "Europe/Berlin") {
			t.Errorf("line %s: %s", line, got)
		}
	}
}
