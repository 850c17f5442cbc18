package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tickring/tickring/wire"
)

// Kinds of scripts. Their values are the glue types of the xxl-job protocol.
const (
	Shell      = wire.GlueShell
	Python     = wire.GluePython
	NodeJS     = wire.GlueNodeJS
	PHP        = wire.GluePHP
	PowerShell = wire.GluePowerShell
)

// Scripts allows jobs whose script comes with the run. Everyone with the app's token can then run any command as this
// process's user. A script's arguments are params, shard index and shard total. Its output goes to the run's log, and exit
// code 0 means success.
//
// When its run is ended, the script is killed with all processes of its process group. On systems other than Unix, only the
// script itself is killed. [Program] explains what happens if the executor's process is killed.
type Scripts struct {
	// Kinds are the allowed kinds of scripts. Empty: none.
	Kinds []string
	// Dir is the directory where scripts are stored and executed. Empty: "scripts" in Options.Dir.
	Dir string
	// Env is the environment of scripts, as "NAME=value". nil: only PATH, HOME and LANG of this process, so that scripts
	// cannot read its secrets.
	Env []string
	// Commands are the interpreters by kind. A missing kind has its default: bash, python3, node, php or pwsh.
	Commands map[string]string
}

type language struct{ command, suffix string }

var languages = map[string]language{
	Shell:      {"bash", ".sh"},
	Python:     {"python3", ".py"},
	NodeJS:     {"node", ".js"},
	PHP:        {"php", ".php"},
	PowerShell: {"pwsh", ".ps1"},
}

func (s *Scripts) check(token string) []error {
	if s == nil || len(s.Kinds) == 0 {
		return nil
	}
	var errs []error
	if token == "" {
		errs = append(errs, errors.New("option Scripts requires a Token: without a token, every client that reaches the port can run commands"))
	}
	for _, k := range s.Kinds {
		if _, ok := languages[k]; !ok {
			errs = append(errs, fmt.Errorf("option Scripts: kind %q is not known", k))
		}
	}
	return errs
}

// handler returns the handler for the script of a run; if the script is rejected, the text explains why.
func (s *Scripts) handler(run *incoming, dir string) (*registered, string) {
	lang, ok := languages[run.GlueType]
	switch {
	case !ok:
		return nil, fmt.Sprintf("glueType[%s] is not valid.", oneLine(run.GlueType, 100))
	case s == nil || !slices.Contains(s.Kinds, run.GlueType):
		return nil, fmt.Sprintf("glueType[%s] is disabled on this executor.", run.GlueType)
	}
	if c := s.Commands[run.GlueType]; c != "" {
		lang.command = c
	}
	if s.Dir != "" {
		dir = s.Dir
	} else {
		dir = filepath.Join(dir, "scripts")
	}
	source, updated := run.GlueSource, run.GlueUpdated
	return &registered{name: run.GlueType, handle: func(ctx context.Context, r *Run) error {
		var file string
		err := withRoom(ctx, r, func() (err error) {
			file, err = placeScript(dir, r.JobID, updated, lang.suffix, source)
			return err
		})
		if err != nil {
			return fmt.Errorf("store the script: %w", err)
		}
		return s.run(ctx, r, lang.command, file)
	}}, ""
}

// placeScript writes a script once for each of its versions, and removes the
// older versions.
func placeScript(dir string, job int32, updated int64, suffix, source string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, fmt.Sprintf("%d_%d%s", job, updated, suffix))
	if b, err := os.ReadFile(file); err == nil && string(b) == source {
		return file, nil
	}
	old, _ := os.ReadDir(dir)
	for _, o := range old {
		if strings.HasPrefix(o.Name(), strconv.Itoa(int(job))+"_") {
			os.Remove(filepath.Join(dir, o.Name()))
		}
	}
	if err := os.WriteFile(file+".new", []byte(source), 0o600); err != nil {
		return "", err
	}
	return file, os.Rename(file+".new", file)
}

func (s *Scripts) run(ctx context.Context, r *Run, command, file string) error {
	env := s.Env
	if env == nil {
		env = []string{}
		for _, k := range []string{"PATH", "HOME", "LANG", "SystemRoot"} {
			if v, ok := os.LookupEnv(k); ok {
				env = append(env, k+"="+v)
			}
		}
	}
	return runCommand(ctx, r, func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, command, file, r.Params, strconv.Itoa(r.ShardIndex), strconv.Itoa(r.ShardTotal))
		cmd.Dir, cmd.Env = filepath.Dir(file), env
		return cmd
	}, nil, "script exit value(%d) is failed", "run the script")
}

// A Program is a [Handler] that executes another program. Its output goes to the run's log, and exit code 0 means success.
// With the exit codes [ExitSnooze] and [ExitCancel], it decides about the retry. For other exit codes, the error of the run
// has a method ExitCode. If a signal killed the program, the error wraps an [exec.ExitError].
//
// When its run is ended, the program is killed with all processes of its process group. On systems other than Unix, only the
// program itself is killed.
//
// If the executor's process is killed, Linux also kills the program. Other processes of its group, and the program itself on
// other Unix systems, keep running. The next executor process with the same directory kills the group before it reports or
// reruns the run. On Unix systems other than Linux, it can do this only if the first process of the group still exists.
//
// Processes that left the group, and programs on systems other than Unix, keep running. With [Options].InMemory, all these
// processes keep running, except the program itself on Linux.
//
// The run's params are the last argument of the program, unless they are empty. Its environment has TICKRING_RUN,
// TICKRING_JOB, TICKRING_HANDLER, TICKRING_PARAMS, TICKRING_SHARD_INDEX and TICKRING_SHARD_TOTAL.
//
// The environment also has TICKRING_ATTEMPT, TICKRING_SCHEDULED_AT (RFC 3339), TICKRING_CAUSE, TICKRING_TIMEOUT (seconds) and
// TRACEPARENT, if the scheduler sends their values. OpenTelemetry tools read TRACEPARENT to join the run's trace.
// TICKRING_AGAIN=1 means that the run may have started before in another process.
type Program struct {
	// Path is the program's path. A path without a slash is searched in PATH.
	Path string
	Args []string
	// Dir is the working directory of the program. Empty: the working directory of this process.
	Dir string
	// Env is the environment of the program, as "NAME=value", in addition to the variables above. nil: the environment of this
	// process, except variables named TICKRING_TOKEN or TICKRING_…_TOKEN. Other users can read a program's output, so it must
	// not have these tokens.
	Env []string
	// Snooze is the delay before a run that exited with [ExitSnooze] is retried. 0: 1 minute.
	Snooze time.Duration
	// Prepare may change how the program is started, for example its user or its output. Prepare is called before each attempt
	// to start the program. nil: no change.
	Prepare func(*exec.Cmd)
}

// Exit codes with which a [Program] decides about its retry. sysexits.h defines them for temporary failures and for invalid
// input.
const (
	ExitSnooze = 75 // EX_TEMPFAIL: the run is postponed, see [Snooze]
	ExitCancel = 65 // EX_DATAERR: the run fails without a retry, see [Cancel]
)

// Handle runs the program for r. Handle is a [Handler].
func (p Program) Handle(ctx context.Context, r *Run) error {
	args := slices.Clone(p.Args)
	if r.Params != "" {
		args = append(args, r.Params)
	}
	env := slices.Clone(p.Env)
	if p.Env == nil {
		env = slices.DeleteFunc(os.Environ(), isToken)
	}
	set := func(name, value string) { env = append(env, "TICKRING_"+name+"="+value) }
	set("RUN", strconv.FormatInt(r.ID, 10))
	set("JOB", strconv.Itoa(int(r.JobID)))
	set("HANDLER", r.Handler)
	if !strings.Contains(r.Params, "\x00") { // else it cannot be started at all
		set("PARAMS", r.Params)
	}
	set("SHARD_INDEX", strconv.Itoa(r.ShardIndex))
	set("SHARD_TOTAL", strconv.Itoa(r.ShardTotal))
	if r.Attempt > 0 {
		set("ATTEMPT", strconv.Itoa(r.Attempt))
	}
	if !r.ScheduledAt.IsZero() {
		set("SCHEDULED_AT", r.ScheduledAt.Format(time.RFC3339))
	}
	if r.Cause != "" {
		set("CAUSE", r.Cause)
	}
	if r.Traceparent != "" {
		env = append(env, "TRACEPARENT="+r.Traceparent)
	}
	if r.Timeout > 0 {
		set("TIMEOUT", strconv.Itoa(int(r.Timeout/time.Second)))
	}
	if r.Again {
		set("AGAIN", "1")
	}
	err := runCommand(ctx, r, func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, p.Path, args...)
		cmd.Dir, cmd.Env = p.Dir, env
		return cmd
	}, p.Prepare, "exit code %d", "run "+p.Path)
	if code, ok := errors.AsType[exitCode](err); ok {
		switch code.code {
		case ExitSnooze:
			return Snooze(cmp.Or(p.Snooze, time.Minute))
		case ExitCancel:
			return Cancel(err)
		}
	}
	return err
}

// exitCode is how a program ended by itself.
type exitCode struct {
	text string // format with a verb for the code
	code int
}

func (e exitCode) Error() string { return fmt.Sprintf(e.text, e.code) }

// ExitCode returns the exit code of the program.
func (e exitCode) ExitCode() int { return e.code }

// isToken reports whether a variable, as NAME=value, is a token of the scheduler.
func isToken(v string) bool {
	name, _, _ := strings.Cut(v, "=")
	return strings.HasPrefix(name, "TICKRING_") && strings.HasSuffix(name, "_TOKEN")
}

// startFor is how long to retry the start of a program for which this process or machine lacks resources: other runs may
// end in that time.
const startFor = 30 * time.Second

// scarce reports whether a program was not started because this machine lacks descriptors, processes or memory. That is not
// a fault of the program.
func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM)
}

// withRoom calls do, and retries it for startFor while resources are lacking.
func withRoom(ctx context.Context, r *Run, do func() error) error {
	began := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := do()
		if !scarce(err) {
			return err
		}
		if time.Since(began)+wait > startFor {
			return fmt.Errorf("this executor had too few file descriptors, processes or memory for %s to start the program: "+
				"raise its limits (ulimit -n, ulimit -u, LimitNOFILE= and TasksMax= of systemd), or send fewer runs: "+
				"%w", startFor, err)
		}
		if wait == 50*time.Millisecond {
			r.Printf("The program cannot start for lack of resources. The executor retries the start for %s: %v", startFor, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// runCommand runs the result of command, which it calls for each attempt to start; prepare may be nil.
func runCommand(ctx context.Context, r *Run, command func() *exec.Cmd, prepare func(*exec.Cmd), code, doing string) error {
	runtime.LockOSThread() // dieWithUs
	defer runtime.UnlockOSThread()
	var cmd *exec.Cmd
	err := withRoom(ctx, r, func() error {
		cmd = command()
		cmd.Stdout, cmd.Stderr = r.Output(), r.Output()
		cmd.WaitDelay = 2 * time.Second // for children that hold the output open
		ownGroup(cmd)
		if prepare != nil {
			prepare(cmd)
		}
		return cmd.Start()
	})
	if err == nil {
		if r.journal != nil {
			if g, ok := groupOf(cmd.Process.Pid); ok {
				r.journal.started(r.ID, g)
			}
		}
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return fmt.Errorf("%s: %w", doing, exit) // by a signal that is not ours
	case errors.As(err, &exit):
		return exitCode{code, exit.ExitCode()}
	case errors.Is(err, exec.ErrWaitDelay):
		r.Printf("The program ended, but a process that it started keeps the output open. Further output is not logged.")
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
