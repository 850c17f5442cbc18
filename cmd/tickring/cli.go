package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	questions "github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/bulk"
	"github.com/tickring/tickring/internal/awsask"
	"github.com/tickring/tickring/internal/stack"
	"github.com/tickring/tickring/manifest"
	"github.com/tickring/tickring/words"
)

const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitSkipped  = 3
	exitNotFound = 4
	exitRefused  = 5
)

var exits = map[core.Code]int{
	core.CodeInvalid:      exitUsage,
	core.CodeTooLarge:     exitUsage,
	core.CodeNotFound:     exitNotFound,
	core.CodeConflict:     exitRefused,
	core.CodeUnauthorized: exitRefused,
	core.CodeForbidden:    exitRefused,
	core.CodeRefused:      exitRefused,
	core.CodeUnavailable:  exitFailed,
	core.CodeInternal:     exitFailed,
}

type Globals struct {
	Data     string           `help:"Data folder of a server on this machine (default: $$TICKRING_DATA, else the platform's state folder)." placeholder:"DIR" type:"path"`
	Endpoint string           `help:"URL of the server (default: $$TICKRING_ENDPOINT, else the one on this machine)." placeholder:"URL"`
	Context  string           `help:"A server and its token by name: tickring context --help (default: $$TICKRING_CONTEXT, else the one in use)." placeholder:"CONTEXT"`
	Stack    string           `help:"CloudFormation stack of a deployment on AWS, found and let in by AWS credentials (default: $$TICKRING_STACK)." placeholder:"NAME"`
	Region   string           `help:"AWS Region of --stack (default: that of the AWS configuration)." placeholder:"REGION"`
	Profile  string           `help:"Profile of the AWS configuration for --stack (default: $$AWS_PROFILE)." placeholder:"NAME"`
	Token    string           `help:"The admin token of the server, or its read token; not that of an app (default: $$TICKRING_TOKEN, else that in the data folder)." placeholder:"TOKEN"`
	UTC      bool             `name:"utc" help:"Times in UTC, not in the job's zone."`
	Color    string           `enum:"auto,always,never" default:"auto" help:"Colour states that failed or run, and what is late: auto is on a terminal, unless NO_COLOR is set; never in json."`
	Lang     string           `enum:",${languages}" default:"" help:"Language of errors, of schedules in words and of what doctor finds: ${languages} (default: that of $$LC_ALL, $$LC_MESSAGES or $$LANG)." placeholder:"LANGUAGE"`
	Output   string           `short:"o" enum:"text,json,yaml" default:"text" help:"text for people, json for programs; get knows yaml."`
	Version  kong.VersionFlag `hidden:"" help:"Print the version."`
}

// grammar defines the commands and flags. The common case needs no flag.
type grammar struct {
	Globals

	Serve  ServeCmd     `cmd:"" help:"Run the server on this machine."`
	Bench  BenchCmd     `cmd:"" help:"Measure lateness and throughput here."`
	BenchX benchExecCmd `cmd:"" name:"bench-executor" hidden:""`

	Apply  applyCmd   `cmd:"" help:"Make jobs, apps and channels as files say." group:"Jobs"`
	Create createCmd  `cmd:"" help:"Make one job." group:"Jobs"`
	Get    getCmd     `cmd:"" help:"List jobs or channels, or show one; -o yaml prints a file for apply." group:"Jobs"`
	Desc   descCmd    `cmd:"" name:"describe" help:"All about a job, app, run or channel." group:"Jobs"`
	Delete deleteCmd  `cmd:"" help:"Delete jobs, apps without jobs, or channels; it asks." group:"Jobs"`
	EditJ  editJobCmd `cmd:"" name:"edit" help:"Change a job in an editor." group:"Jobs"`
	Script scriptCmd  `cmd:"" help:"The script of a job: its versions, and how they differ." group:"Jobs"`
	Give   giveCmd    `cmd:"" name:"give-back" help:"Let the code that declares a job make or change it again." group:"Jobs"`
	Pause  pauseCmd   `cmd:"" help:"Stop the schedule of jobs, of apps, or of everything." group:"Jobs"`
	Stop   stopCmd    `cmd:"" hidden:"" help:"Another name of pause; not that of the server."`
	Resume resumeCmd  `cmd:"" aliases:"start" help:"Go on; what passed is not run." group:"Jobs"`
	Home   homeCmd    `cmd:"" help:"What needs somebody now: failing, late, running long, without an executor; what comes." group:"Jobs"`
	Bulk   bulkCmd    `cmd:"" help:"Do one thing to many jobs as one act: pause, resume, trigger, kill, delete, label." group:"Jobs"`
	Execs  execsCmd   `cmd:"" name:"executors" help:"The executors of an app, or of all." group:"Jobs"`
	Notify notifyCmd  `cmd:"" help:"Try where notices go: tickring notify test CHANNEL." group:"Jobs"`
	Change changeCmd  `cmd:"" name:"changes" help:"Who changed what; a change of a job can be taken back." group:"Jobs"`
	Schema schemaCmd  `cmd:"" help:"The JSON Schema of the files that apply takes." group:"Jobs"`

	Trigger triggerCmd `cmd:"" help:"Run jobs now, or at a moment." group:"Runs"`
	Rerun   rerunCmd   `cmd:"" help:"Run again what has ended: a run, or those of a job or app that failed." group:"Runs"`
	Edit    editCmd    `cmd:"" name:"edit-trigger" help:"Give a trigger that waits another time, params or addresses." group:"Runs"`
	Kill    killCmd    `cmd:"" help:"End runs, or all runs of jobs; cancel what waits." group:"Runs"`
	Runs    runsCmd    `cmd:"" help:"What ran, newest first." group:"Runs"`
	Run     runCmd     `cmd:"" help:"One run: by ID, or as app/name@2026-11-20T02:30." group:"Runs"`
	Logs    logsCmd    `cmd:"" help:"The log of a run, or of a job's run at work, else its last." group:"Runs"`
	Upcome  upcomeCmd  `cmd:"" name:"upcoming" help:"What comes next." group:"Runs"`
	Clean   cleanCmd   `cmd:"" help:"Remove records of runs that ended long ago." group:"Runs"`
	Report  reportCmd  `cmd:"" help:"How many ran and how they ended, by day or hour, for years back." group:"Runs"`
	Shape   shapeCmd   `cmd:"" help:"How the runs of a span ended, bucket by bucket." group:"Runs"`
	Late    lateCmd    `cmd:"" name:"lateness" help:"How late runs were sent, bucket by bucket, of all or of each app or job." group:"Runs"`
	Audit   auditCmd   `cmd:"" help:"Does it all add up: what was due, what ran, what was skipped and why." group:"Runs"`
	Replan  replanCmd  `cmd:"" help:"Send again what an audit finds unaccounted for, with the same IDs." group:"Runs"`

	People peopleCmd `cmd:"" help:"People who may log in, and what they may." group:"People"`
	Tokens tokensCmd `cmd:"" help:"Tokens of yours, for programs." group:"People"`
	Views  viewsCmd  `cmd:"" help:"Pages of the console that you keep under names." group:"People"`
	Whoami whoamiCmd `cmd:"" help:"Who you are to the server, and what you may." group:"People"`

	Doctor   doctorCmd    `cmd:"" help:"What is wrong with a server or a deployment, and what to do." group:"System"`
	Backup   backupCmd    `cmd:"" help:"Copy the data of a server on this machine, while it works or not." group:"System"`
	Rotate   rotateKeyCmd `cmd:"" name:"rotate-key" help:"Encrypt the stored secrets with a new key." group:"System"`
	Redrive  redriveCmd   `cmd:"" help:"List what could not be handled, and send again what still may be sent." group:"System"`
	Fence    fenceCmd     `cmd:"" help:"Shut everybody out of the data of a deployment, until a restore or take-over." group:"System"`
	Restore  restoreCmd   `cmd:"" help:"Make data that was brought back to an earlier moment this deployment's, and send what has no run." group:"System"`
	Takeover takeoverCmd  `cmd:"" help:"The same with a replica of the data, in another Region." group:"System"`

	Context contextCmd `cmd:"" help:"Servers and their tokens by name." group:"Other"`

	Exec  execCmd       `cmd:"" help:"Make any program an executor: its runs are your program's." group:"Other"`
	Cron  cronCmd       `cmd:"" help:"What a cron expression means; needs no server." group:"Other"`
	Compl completionCmd `cmd:"" name:"completion" help:"TAB in bash, zsh and fish." group:"Other"`
	Words completeCmd   `cmd:"" name:"complete" hidden:""`
	Vers  versionCmd    `cmd:"" name:"version" help:"The version of this program." group:"Other"`
}

// Env is the environment of a command: flags, streams and variables.
type Env struct {
	*Globals
	Ctx    context.Context
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(name string) (string, bool)

	found     *client.Client // set once the server is found
	endpoint  string         // the server's URL
	tokenFrom core.Text      // the source of its token, for messages
	aws       *awsask.Client // set for a stack
	outputs   stack.Outputs  // set for a stack
	context   string         // name of the context in use; target has its settings
	target    target
	most      int64 // bytes to read of an answer; 0: the client's limit
	still     bool  // times are shown without their distance from now, which changes all the time
}

// exitError is an error with its own exit code. If err is nil, no message is printed, because the command has already printed one.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exitWith(code int) error {
	if code == exitDone {
		return nil
	}
	return &exitError{code: code}
}

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func exitOf(err error) int {
	if err == nil {
		return exitDone
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return exitOfCode(e.Code)
	}
	if errors.Is(err, client.ErrUnproven) {
		return exitRefused
	}
	if e, ok := errors.AsType[*core.Error](err); ok {
		return exitOfCode(string(e.Code))
	}
	if _, ok := errors.AsType[manifest.Errors](err); ok {
		return exitUsage
	}
	return exitFailed
}

func exitOfCode(code string) int {
	if n, ok := exits[core.Code(code)]; ok {
		return n
	}
	return exitFailed
}

// helped ends a parse that has printed its help.
type helped int

func newParser(g *grammar, stdout, stderr io.Writer) (*kong.Kong, error) {
	return kong.New(g, kong.Name("tickring"),
		kong.Description("A job scheduler that loses nothing. Start with: tickring serve --demo"),
		kong.UsageOnError(), kong.Writers(stdout, stderr), kong.Vars{"version": version(), "routes": core.Words(core.Routes),
			"languages": core.Words(words.Languages), "states": core.Words(core.States), "causes": core.Words(core.Causes),
			"standings": core.Words(questions.Standings), "bulkVerbs": core.Words(bulk.Verbs), "scriptKinds": core.Words(core.ScriptKinds),
			"label": "The jobs with this label, or with a key whatever its value; those of the apps that are named, or of all."},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Exit(func(code int) { panic(helped(code)) }))
}

func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) (string, bool)) (code int) {
	var g grammar
	defer func() {
		if p := recover(); p != nil {
			if h, ok := p.(helped); ok {
				code = int(h)
				return
			}
			panic(p)
		}
	}()
	parser, err := newParser(&g, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "tickring:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if args[0] == "help" {
		args = append(args[1:], "--help")
	}
	command, err := parser.Parse(args)
	if err != nil {
		see := "tickring"
		if p, ok := errors.AsType[*kong.ParseError](err); ok {
			err, see = errors.New(wrongLine(p)), strings.TrimSpace("tickring "+commandPath(nodeOf(p)))
		}
		fmt.Fprintf(stderr, "tickring: %s\nsee: %s --help\n", visible(err.Error()), see)
		return exitUsage
	}
	e := &Env{Globals: &g.Globals, Ctx: ctx, Stdin: stdin, Stdout: stdout, Stderr: stderr, Getenv: getenv}
	if g.Output == "yaml" && command.Selected().Name != "get" {
		fmt.Fprintln(stderr, "tickring: --output: only get prints yaml; allowed are text, json")
		return exitUsage
	}
	if err := command.BindToProvider(e.connect); err != nil {
		fmt.Fprintln(stderr, "tickring:", err)
		return exitFailed
	}
	err = command.Run(e)
	if text := e.errorText(err); text != "" {
		fmt.Fprintln(stderr, "tickring:", visible(text))
	}
	return exitOf(err)
}

func (e *Env) errorText(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, client.ErrNoAnswer) {
		return e.said("%s\nis the server running? start one on this machine with: %s", err.Error()+e.on(), "tickring serve")
	}
	if errors.Is(err, client.ErrUnproven) {
		unproven := core.Phrase("it does not prove to be the server of the token, which was not sent")
		host, why, _ := strings.Cut(err.Error(), unproven.String())
		return e.said("%s%s%s: the token from %s belongs to another server, or %s is an unknown server or forwards to another one: %s; "+
			"behind a proxy or a mapped port, use the host and port of the server's --report-url",
			host, unproven, why, e.tokenFrom, e.endpoint, e.tokenHint())
	}
	if r, ok := errors.AsType[*client.Error](err); ok && r.Code == string(core.CodeUnauthorized) {
		return e.said("the server at %s rejects the token from %s: %s", e.endpoint, e.tokenFrom, e.tokenHint())
	}
	if _, ok := errors.AsType[*client.Error](err); ok {
		return err.Error() + e.nameHint(err) + e.on()
	}
	if wrong, ok := errors.AsType[manifest.Errors](err); ok {
		return strings.Replace(err.Error(), wrong.Error(), wrong.In(e.lang()), 1)
	}
	if own, ok := errors.AsType[*core.Error](err); ok {
		return strings.Replace(err.Error(), own.Error(), words.Error(e.lang(), own), 1)
	}
	return err.Error()
}

// said translates a text of core into the user's language.
func (e *Env) said(code string, args ...any) string {
	return words.Say(e.lang(), core.Say(code, args...))
}

func (e *Env) lang() words.Language {
	if e.Lang != "" {
		return words.Of(e.Lang)
	}
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if tag, _ := e.Getenv(name); tag != "" {
			return words.Of(tag)
		}
	}
	return words.English
}

func (e *Env) tokenHint() core.Text {
	if e.context == "" {
		return core.Say("set TICKRING_TOKEN to the token of the server, or --data to the data directory of a server on this machine")
	}
	return core.Say("set the token of the server: %s", e.setHint())
}

// setHint returns the command that changes the context's token.
func (e *Env) setHint() string {
	return fmt.Sprintf("tickring context set %s --endpoint %s --token-file FILE", e.context, e.target.Endpoint)
}

func (e *Env) json() bool { return e.Output == "json" }

func (e *Env) printf(format string, args ...any) {
	io.WriteString(e.Stdout, visible(fmt.Sprintf(format, args...)))
}

// show prints v as JSON, or calls say to print text for people. If err is set, show prints nothing and returns err.
func (e *Env) show(v any, err error, say func()) error {
	switch {
	case err != nil:
		return err
	case e.json():
		return e.printJSON(v)
	}
	say()
	return nil
}

// notef prints a message for people to stderr, so programs that read stdout do not see it.
func (e *Env) notef(format string, args ...any) {
	io.WriteString(e.Stderr, visible(fmt.Sprintf(format, args...)))
}

// printJSON prints one JSON value, indented. Characters that could control the terminal occur only in strings, and are escaped
// there.
func (e *Env) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(e.Stdout, visible(b.String()))
	return err
}

// terminal reports whether f is a terminal.
func terminal(f any) bool {
	file, ok := f.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// wait waits d, and answers false when the command was interrupted.
func (e *Env) wait(d time.Duration) bool {
	select {
	case <-e.Ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
