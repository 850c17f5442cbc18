package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bulk"
	questions "github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/awsclient"
	"github.com/tickring/tickring/internal/cfnoutputs"
	"github.com/tickring/tickring/manifest"
	"github.com/tickring/tickring/store"
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

// exits are the exit codes of other errors than exitFailed.
var exits = map[core.Code]int{
	core.CodeInvalid:      exitUsage,
	core.CodeTooLarge:     exitUsage,
	core.CodeNotFound:     exitNotFound,
	core.CodeConflict:     exitRefused,
	core.CodeUnauthorized: exitRefused,
	core.CodeForbidden:    exitRefused,
	core.CodeRefused:      exitRefused,
}

type Globals struct {
	Data     string           `help:"Data directory of a server on this machine (default: $$TICKRING_DATA, else the platform's state directory)." placeholder:"DIR" type:"path"`
	Endpoint string           `help:"URL of the server (default: $$TICKRING_ENDPOINT, else the server on this machine)." placeholder:"URL"`
	Context  string           `help:"Saved server and its token; see 'tickring context --help' (default: $$TICKRING_CONTEXT, else the context in use)." placeholder:"CONTEXT"`
	Stack    string           `help:"CloudFormation stack of a deployment on AWS; requests are signed with AWS credentials (default: $$TICKRING_STACK)." placeholder:"NAME"`
	Region   string           `help:"AWS Region of --stack (default: the Region of the AWS configuration)." placeholder:"REGION"`
	Profile  string           `help:"AWS profile to use with --stack (default: $$AWS_PROFILE)." placeholder:"NAME"`
	Token    string           `help:"Admin token, read token or user token, not an app's token (default: $$TICKRING_TOKEN, else the token in the data directory)." placeholder:"TOKEN"`
	UTC      bool             `name:"utc" help:"Show times in UTC instead of the job's time zone."`
	Color    string           `enum:"auto,always,never" default:"auto" help:"When to color failed and running states and late runs: always, never, or auto (on a terminal, unless NO_COLOR is set). JSON is never colored."`
	Lang     string           `enum:",${languages}" default:"" help:"Language of errors, schedule descriptions and doctor findings: ${languages} (default: the language of $$LC_ALL, $$LC_MESSAGES or $$LANG)." placeholder:"LANGUAGE"`
	Output   string           `short:"o" enum:"text,json,yaml" default:"text" help:"Output format: text, json for programs, or yaml (only for 'tickring get')."`
	Version  kong.VersionFlag `hidden:"" help:"Print the version."`
}

// grammar defines the commands and flags. The common case needs no flag.
type grammar struct {
	Globals

	Serve ServeCmd `cmd:"" help:"Run a server on this machine."`

	Apply    applyCmd    `cmd:"" help:"Create or update jobs, apps and channels from files." group:"Jobs"`
	Create   createCmd   `cmd:"" help:"Create a job." group:"Jobs"`
	Get      getCmd      `cmd:"" help:"List jobs or channels, or export them as YAML." group:"Jobs"`
	Desc     descCmd     `cmd:"" name:"describe" help:"Show details of a job, app, run or channel." group:"Jobs"`
	Delete   deleteCmd   `cmd:"" help:"Delete jobs, channels, or apps without jobs." group:"Jobs"`
	EditJ    editJobCmd  `cmd:"" name:"edit" help:"Edit a job in your editor." group:"Jobs"`
	Script   scriptCmd   `cmd:"" help:"Show, edit and restore a job's script." group:"Jobs"`
	Return   returnCmd   `cmd:"" name:"return-to-code" help:"Let code manage a job again after a user changed or deleted it." group:"Jobs"`
	Pause    pauseCmd    `cmd:"" help:"Pause jobs, apps or everything." group:"Jobs"`
	Stop     stopCmd     `cmd:"" hidden:"" help:"Alias of 'tickring pause'. The command does not stop the server."`
	Resume   resumeCmd   `cmd:"" aliases:"start" help:"Resume paused jobs. Runs missed during a pause do not run later." group:"Jobs"`
	Overview overviewCmd `cmd:"" help:"Show failing jobs, late jobs and apps without executors." group:"Jobs"`
	Bulk     bulkCmd     `cmd:"" help:"Pause, resume, trigger, kill, delete or label many jobs." group:"Jobs"`
	Execs    execsCmd    `cmd:"" name:"executors" help:"List executors, or remove stopped ones." group:"Jobs"`
	Channels channelsCmd `cmd:"" help:"Send a test notification." group:"Jobs"`
	Change   changeCmd   `cmd:"" name:"changes" help:"Show the audit log and undo changes." group:"Jobs"`
	Schema   schemaCmd   `cmd:"" help:"Print the JSON Schema of the manifest." group:"Jobs"`

	Trigger   triggerCmd   `cmd:"" help:"Run jobs now or at a later time." group:"Runs"`
	Rerun     rerunCmd     `cmd:"" help:"Rerun finished runs." group:"Runs"`
	Edit      editCmd      `cmd:"" name:"edit-trigger" help:"Change the time, params or address of a waiting run." group:"Runs"`
	Kill      killCmd      `cmd:"" help:"Kill running runs and cancel waiting runs." group:"Runs"`
	Runs      runsCmd      `cmd:"" help:"List runs, newest first." group:"Runs"`
	Run       runCmd       `cmd:"" help:"Show one run." group:"Runs"`
	Logs      logsCmd      `cmd:"" help:"Show the log of a run." group:"Runs"`
	Upcome    upcomeCmd    `cmd:"" name:"upcoming" help:"List upcoming runs." group:"Runs"`
	Clean     cleanCmd     `cmd:"" help:"Delete old run records." group:"Runs"`
	Report    reportCmd    `cmd:"" help:"Show run statistics by day or hour." group:"Runs"`
	Histogram histogramCmd `cmd:"" help:"Show run results over time." group:"Runs"`
	Late      lateCmd      `cmd:"" name:"lateness" help:"Show how late runs were sent." group:"Runs"`
	Audit     auditCmd     `cmd:"" help:"Verify that every scheduled time has a run or a recorded skip." group:"Runs"`
	Replan    replanCmd    `cmd:"" help:"Send the runs that an audit reports as unaccounted for." group:"Runs"`

	Users  usersCmd  `cmd:"" help:"Manage users and roles." group:"Users"`
	Tokens tokensCmd `cmd:"" help:"Manage your API tokens." group:"Users"`
	Views  viewsCmd  `cmd:"" help:"Manage saved console views." group:"Users"`
	Whoami whoamiCmd `cmd:"" help:"Show your user and permissions." group:"Users"`

	Health   healthCmd    `cmd:"" help:"Check that a server is reachable and plans runs." group:"System"`
	Doctor   doctorCmd    `cmd:"" help:"Diagnose a server or deployment." group:"System"`
	Backup   backupCmd    `cmd:"" help:"Back up the data of a local server." group:"System"`
	Rotate   rotateKeyCmd `cmd:"" name:"rotate-key" help:"Encrypt the stored secrets with a new key." group:"System"`
	Redrive  redriveCmd   `cmd:"" help:"List and resend dead-letter messages." group:"System"`
	Fence    fenceCmd     `cmd:"" help:"Stop a deployment from planning and sending runs until a restore or takeover." group:"System"`
	Restore  restoreCmd   `cmd:"" help:"Start a deployment on restored DynamoDB tables." group:"System"`
	Takeover takeoverCmd  `cmd:"" help:"Start a deployment on replicated DynamoDB tables in another Region." group:"System"`

	Servers contextCmd `cmd:"" name:"context" help:"Manage named servers." group:"Other"`

	Exec  execCmd       `cmd:"" help:"Run any program as an executor." group:"Other"`
	Cron  cronCmd       `cmd:"" help:"Explain a cron expression." group:"Other"`
	Compl completionCmd `cmd:"" name:"completion" help:"Print a shell completion script." group:"Other"`
	Words completeCmd   `cmd:"" name:"complete" hidden:""`
	Man   manCmd        `cmd:"" hidden:"" help:"Write the man pages into a directory."`
	Vers  versionCmd    `cmd:"" name:"version" help:"Print the version." group:"Other"`
}

// Env is the environment of a command: global flags, input and output streams, and environment variables.
type Env struct {
	*Globals
	Ctx    context.Context
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(name string) (string, bool)

	found     *client.Client     // set once the server is found
	endpoint  string             // the server's URL
	tokenFrom core.Text          // the source of its token, for messages
	aws       *awsclient.Client  // set for a stack
	outputs   cfnoutputs.Outputs // set for a stack
	context   string             // name of the context in use; target has its settings
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

func exitOfCode(code string) int { return cmp.Or(exits[core.Code(code)], exitFailed) }

// helped ends a parse that has printed its help.
type helped int

func newParser(g *grammar, stdout, stderr io.Writer, more ...kong.Option) *kong.Kong {
	return kong.Must(g, append(more, kong.Name("tickring"),
		kong.Description("A job scheduler that loses no runs. To start: tickring serve --demo"),
		kong.UsageOnError(), kong.Writers(stdout, stderr), kong.Vars{"version": version(), "routes": core.JoinAllowed(core.Routes),
			"languages": core.JoinAllowed(words.Languages), "states": core.JoinAllowed(core.States), "causes": core.JoinAllowed(core.Causes),
			"standings": core.JoinAllowed(questions.Standings), "bulkVerbs": core.JoinAllowed(bulk.Verbs),
			"scriptKinds": core.JoinAllowed(core.ScriptKinds),
			"label":       "Only jobs with this label (KEY=VALUE, or KEY for any value), in the named apps, or in all apps if none is named."},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Exit(func(code int) { panic(helped(code)) }))...)
}

// parsed parses a command line. Building the parser of all commands takes most of the time of a short command, so parsed first builds
// the parser of the command that the line begins with. Messages about a wrong line need the parser of all commands.
func parsed(g *grammar, args []string, stdout, stderr io.Writer) (*kong.Context, error) {
	var others []string
	all := reflect.TypeFor[grammar]()
	for i := 1; i < all.NumField(); i++ { // the first field has the flags of all commands
		if f := all.Field(i); cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)) != args[0] {
			others = append(others, f.Name)
		}
	}
	if len(others) < all.NumField()-1 {
		only := newParser(g, stdout, stderr, kong.IgnoreFields(`^grammar\.(`+strings.Join(others, "|")+`)$`))
		if command, err := only.Parse(args); err == nil {
			return command, nil
		}
	}
	return newParser(g, stdout, stderr).Parse(args)
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
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if args[0] == "help" {
		args = append(args[1:], "--help")
	}
	command, err := parsed(&g, args, stdout, stderr)
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
		fmt.Fprintln(stderr, "tickring: --output: only get prints yaml; allowed values: text, json")
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
		return e.said("%s\nis the server running? to start a server on this machine: %s", err.Error()+e.on(), "tickring serve")
	}
	if errors.Is(err, client.ErrUnproven) {
		unproven := core.Phrase("the server did not prove that it knows the token, so the token was not sent")
		host, why, _ := strings.Cut(err.Error(), unproven.String())
		return e.said("%s%s%s: the token from %s belongs to another server, or %s is an unknown server or forwards to another server: %s; "+
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

// show prints v as JSON or as text. If err is set, show prints nothing and returns err.
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

// result is show for a command that fails unless ok is set.
func (e *Env) result(ok bool, v any, err error, say func()) error {
	if err := e.show(v, err, say); err != nil || ok {
		return err
	}
	return exitWith(exitFailed)
}

// list shows v as JSON, or its rows below their heading as a table; without rows it prints none.
func (e *Env) list(v any, err error, none string, rows [][]string) error {
	return e.show(v, err, func() {
		if len(rows) == 1 {
			e.printf("%s\n", none)
			return
		}
		table(e.Stdout, rows)
	})
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
func (e *Env) wait(d time.Duration) bool { return store.Sleep(e.Ctx, d) }
