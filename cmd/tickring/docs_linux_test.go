package main

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// A docPage is how the commands of a page of the documentation run.
type docPage struct {
	skip    string   // why they are only parsed
	serve   []string // more flags of the server
	jobs    string   // jobs that the page assumes, each with one run
	setup   string   // script before the commands
	replace []string // pairs: text of the page, text to run
	fails   []string // beginnings of commands that fail here
}

const (
	onAWS     = "needs a deployment on AWS"
	docSecret = "secret-of-the-documentation"
	docData   = "~/.local/state/tickring"
)

// docPages are the pages that need more than a new server, or no server.
var docPages = map[string]docPage{
	"README.md": {serve: []string{"--demo"}, setup: "for i in $(seq 300); do tickring get ops/backup && break; sleep 0.1; done",
		replace: []string{"web/ping", "site/ping"},         // web is an app of the demo
		fails:   []string{"tickring run site/ping@10:00"}}, // the job is new
	"examples/README.md": {skip: "examples.TestExamples runs them"},

	"docs/explanation/reports.md": {jobs: "reports/nightly pay/salaries"},

	"docs/how-to/back-up-and-restore.md":       {replace: []string{"$DIR", docData, "/tmp/drill", docData}},
	"docs/how-to/call-http-endpoints.md":       {setup: "export WEB_TOKEN=" + docSecret},
	"docs/how-to/connect-xxl-job-executors.md": {fails: []string{"tickring executors java --test"}}, // no executor
	"docs/how-to/lambda.md":                    {skip: onAWS},
	"docs/how-to/manage-users.md": {setup: "echo first-password >first-password.txt",
		fails: []string{"tickring tokens"}}, // the admin token is no user's
	"docs/how-to/queues.md":             {setup: "export REPORTS_TOKEN=" + docSecret, replace: []string{" --wait", ""}}, // no consumer
	"docs/how-to/recover-on-aws.md":     {skip: onAWS},
	"docs/how-to/rerun-and-clean-up.md": {jobs: "reports/nightly"},
	"docs/how-to/run-in-an-emulator.md": {skip: onAWS},
	"docs/how-to/run-scripts.md": {setup: "export OPS_TOKEN=" + docSecret + "; echo echo one >cleanup.sh",
		replace: []string{"tickring script put", "echo echo two >>cleanup.sh; tickring script put"}},
	"docs/how-to/run-a-server.md":        {replace: []string{"/var/lib", "~/.local/state"}},
	"docs/how-to/run-shell-commands.md":  {replace: []string{"--user deploy", `--user "$ME"`, "/srv/jobs", "~"}},
	"docs/how-to/send-notifications.md":  {setup: "export HOOK_SECRET=" + docSecret, fails: []string{"tickring channels test"}}, // no network
	"docs/how-to/troubleshoot.md":        {jobs: "shop/nightly", fails: []string{"tickring run shop/nightly@02:30"}},
	"docs/how-to/update-a-deployment.md": {skip: onAWS},
	"docs/how-to/upgrade.md":             {replace: []string{"/var/lib", "~/.local/state", "/root", "~"}},
	"docs/how-to/use-the-cli.md": {setup: "tickring create web/report --command true --label tier=batch",
		replace: []string{"use prod", "use prod && tickring context use --none"}},

	"docs/reference/manifest.md": {skip: "TestManifestPage runs them"},

	"docs/tutorial/deploy-to-aws.md":     {skip: onAWS},
	"docs/tutorial/getting-started.md":   {replace: []string{"tickring delete", "tickring delete --yes"}},
	"docs/tutorial/move-from-xxl-job.md": {fails: []string{"tickring executors billing-executor --test"}}, // no executor
	"docs/tutorial/replace-a-crontab.md": {skip: "TestCronPage runs them"},
}

var (
	// onlyParsed matches commands that run until they are stopped, or need another server.
	onlyParsed = regexp.MustCompile(`^tickring (serve|exec)\b|--watch|--context cloud|^export TICKRING_(ENDPOINT|TOKEN)=`)
	docBlock   = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	docCommand = regexp.MustCompile(`(?m)^ *([$#] )?((?:tickring |export [A-Z_]+=).*)$`)
	inSentence = regexp.MustCompile("`(tickring ([a-z][a-z-]*)[^`\n]*)`")
	aNumber    = regexp.MustCompile(`\b(RUN|ID|CHANGE|\d{10,11})\b`)
)

// TestCommandsOfDocs runs the tickring commands of README.md and of the pages in docs, each page in a shell with a server and a home
// directory of its own. A trigger may end with the result of its run, because most jobs have no executor here. Commands in sentences
// are only parsed.
func TestCommandsOfDocs(t *testing.T) {
	check.Long(t)
	t.Setenv("TMPDIR", t.TempDir()) // shellRuns leaves directories
	names := []string{"README.md", "examples/README.md"}
	err := fs.WalkDir(os.DirFS("../.."), "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") && name != "docs/reference/cli.md" {
			names = append(names, name)
		}
		return err
	})
	check.OK(t, err)
	known := commands(newParser(&grammar{}, io.Discard, io.Discard).Model.Node)
	for name := range docPages {
		if !slices.Contains(names, name) {
			t.Errorf("%s does not exist", name)
		}
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("../..", name))
		check.OK(t, err)
		for _, m := range inSentence.FindAllStringSubmatch(docBlock.ReplaceAllString(string(text), ""), -1) {
			switch {
			case !slices.Contains(known, m[2]):
				t.Errorf("%s names %s, which is no command", name, m[1])
			case strings.HasSuffix(m[1], " --help"):
			case strings.Contains(m[1], " -"), strings.Contains(m[1], "/"): // else it is a name, such as tickring apply
				shellRuns(t, name, aNumber.ReplaceAllString(m[1], "17179869185"))
			}
		}
		page := docPages[name]
		if script := page.script(t, name, string(text)); script != "" {
			t.Run(name, func(t *testing.T) { page.run(t, script) })
		}
	}
}

// script returns the commands of a page as a script that prints the exit codes of failed commands. It parses the others.
func (p docPage) script(t *testing.T, name, text string) string {
	var script strings.Builder
	manifest, nowhere := "", "http://127.0.0.1:9"
	replace := strings.NewReplacer(append(slices.Clone(p.replace), "…", docSecret,
		"https://example.com", nowhere, "https://hooks.example.com", nowhere)...)
	for _, block := range docBlock.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(block[2], "version: 1\n") && manifest == "" {
			manifest = replace.Replace(block[2])
		}
		for _, m := range docCommand.FindAllStringSubmatch(strings.ReplaceAll(block[2], "\\\n", " "), -1) {
			if m[1] == "" && block[1] != "sh" { // output, or a diagram
				continue
			}
			line := replace.Replace(m[2])
			if p.skip != "" || onlyParsed.MatchString(line) {
				if strings.HasPrefix(line, "tickring ") {
					shellRuns(t, name, line)
				}
				continue
			}
			if file := regexp.MustCompile(`^tickring apply -f (\S+)`).FindStringSubmatch(line); file != nil && manifest != "" {
				script.WriteString("cat >" + file[1] + " <<'END'\n" + manifest + "END\n")
				manifest = ""
			}
			codes, run := "0", "$$(run)"
			switch {
			case slices.ContainsFunc(p.fails, func(f string) bool { return strings.HasPrefix(line, f) }):
				codes = "[01345]"
			case strings.HasPrefix(line, "tickring trigger "):
				codes = "[013]"
			case strings.HasPrefix(line, "tickring doctor"), strings.HasPrefix(line, "tickring audit"): // findings, on a busy machine
				codes = "[01]"
			case strings.HasPrefix(line, "tickring rerun "): // a scheduled run may be running, and a failed one may have a retry
				run = "$$(run --state succeeded)"
			case strings.HasPrefix(line, "tickring logs "): // a run that was not sent has none
				codes = "[04]"
			}
			script.WriteString(aNumber.ReplaceAllString(line, run) + "\ncode=$?\ncase $code in " + codes +
				") ;; *) echo \"FAILED with $code: \"'" + strings.ReplaceAll(line, "'", `'\''`) + "' ;; esac\n")
		}
	}
	return script.String()
}

func (p docPage) run(t *testing.T, script string) {
	me, err := user.Current()
	check.OK(t, err)
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "TICKRING_DATA": "",
		"ME": me.Username, "EDITOR": "true", "GORACE": "atexit_sleep_ms=0"} {
		t.Setenv(name, value)
	}
	serveHere(t, append([]string{"serve", "--commands-user", me.Username, "--commands-dir", home}, p.serve...)...)
	jobs := p.jobs
	if jobs == "" && strings.Contains(script, "$(run") {
		jobs = "some/job"
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", `
run() { tickring runs --limit 1 "$@" -o json | sed -n 's/.*"id": "\([0-9]*\)".*/\1/p' | head -n 1; }
for job in `+jobs+`; do
	tickring create $job --command 'echo done' && tickring trigger $job --wait || exit
done
`+p.setup+"\n"+script)
	sh.Dir = home
	out, err := sh.CombinedOutput()
	if err != nil || strings.Contains(string(out), "FAILED with ") {
		t.Errorf("%v\n%s", err, out)
	}
}

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
		check.Contains(t, said, part)
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

// TestPageExamplesApply applies each YAML example of the pages about jobs: a whole file as it is, a field of a
// job below the file with which docs/reference/job-settings.md begins.
func TestPageExamplesApply(t *testing.T) {
	t.Setenv("TICKRING_DATA", t.TempDir())
	t.Setenv("LEDGER_TOKEN", "secret-of-the-ledger")
	t.Setenv("REPORTS_TOKEN", "secret-of-the-reports")
	me, err := user.Current()
	check.OK(t, err)
	serveHere(t, "serve", "--commands-user", me.Username, "--commands-dir", t.TempDir())
	apply := func(text string) {
		t.Helper()
		cmd := command(t, "tickring-main", "apply", "-f", "-")
		cmd.Stdin, cmd.Stderr = strings.NewReader(text), nil
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, text)
		}
	}
	above := pageBlocks(t, "reference/job-settings.md")("yaml")[0]
	for _, page := range []string{"reference/job-settings.md", "reference/manifest.md", "reference/schedules.md",
		"how-to/limit-concurrency.md", "how-to/chain-jobs.md"} {
		examples := pageBlocks(t, page)("yaml")
		if len(examples) < 2 {
			t.Errorf("%s has %d examples", page, len(examples))
		}
		for _, example := range examples {
			if !strings.HasPrefix(example, "version: 1\n") {
				example = above + "    " + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n    ") + "\n"
			}
			apply(example)
		}
	}
}

// TestJobSettingsPageIsComplete compares docs/reference/job-settings.md with the JSON Schema: a heading for each
// field of a job, and a row for each field of one that is a map.
func TestJobSettingsPageIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/job-settings.md")
	check.OK(t, err)
	out, err := command(t, "tickring-main", "schema").Output()
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Ref string `json:"$ref"`
			}
		} `json:"$defs"`
	}
	if err == nil {
		err = json.Unmarshal(out, &schema)
	}
	check.OK(t, err)
	job := schema.Defs["job"].Properties
	if len(job) == 0 {
		t.Fatalf("the schema has no fields of a job: %s", out)
	}
	for name, field := range job {
		check.Contains(t, string(page), "\n### "+name+"\n", "no heading for %s", name)
		for below := range schema.Defs[strings.TrimPrefix(field.Ref, "#/$defs/")].Properties {
			check.Contains(t, string(page), "\n| `"+name+"."+below+"` |", "no row for %s.%s", name, below)
		}
	}
}

// TestManifestPage: the commands of docs/reference/manifest.md work as pasted, and print the output on the page.
func TestManifestPage(t *testing.T) {
	blocks := pageBlocks(t, "reference/manifest.md")
	t.Setenv("TICKRING_DATA", t.TempDir())
	serveHere(t, "serve")
	dir := t.TempDir()
	scripts, shown := blocks("sh"), blocks("text")
	if len(scripts) != 3 || len(shown) != len(scripts) {
		t.Fatalf("%d scripts, %d answers", len(scripts), len(shown))
	}
	for i := range scripts {
		sh := exec.CommandContext(t.Context(), "sh", "-ec", scripts[i])
		sh.Dir = dir
		if out, err := sh.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), shown[i]) {
			t.Errorf("%s%v: %s", scripts[i], err, out)
		}
	}
	// A set of another file stays, and an export of both can be applied.
	other := exec.CommandContext(t.Context(), "sh", "-ec", `printf 'version: 1\nset: pay\napps: [{name: pay}]\n' >pay.yaml; tickring apply -f pay.yaml
		tickring apply -f shop.yaml --prune --yes; tickring get -o yaml >all.yaml; tickring apply -f all.yaml; cat all.yaml`)
	other.Dir = dir
	out, err := other.CombinedOutput()
	if said := string(out); err != nil || !strings.Contains(said, "\n2 unchanged\n3 unchanged\n# Several sets: ") ||
		!strings.Contains(said, "    # set: pay\n") {
		t.Errorf("%v: %s", err, out)
	}
}
