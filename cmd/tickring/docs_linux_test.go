package main

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
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
	if testing.Short() {
		t.Skip("each of 150 commands is a process")
	}
	t.Setenv("TMPDIR", t.TempDir()) // shellRuns leaves directories
	names := []string{"README.md", "examples/README.md"}
	err := fs.WalkDir(os.DirFS("../.."), "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") && name != "docs/reference/cli.md" {
			names = append(names, name)
		}
		return err
	})
	check.OK(t, err)
	parser, err := newParser(&grammar{}, io.Discard, io.Discard)
	check.OK(t, err)
	known := commands(parser.Model.Node)
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
			case strings.HasPrefix(line, "tickring rerun "): // a scheduled run may be running
				run = "$$(run --state succeeded,failed)"
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
