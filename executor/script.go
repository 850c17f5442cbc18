package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Kinds of scripts, as the wire names them.
const (
	Shell      = "GLUE_SHELL"
	Python     = "GLUE_PYTHON"
	NodeJS     = "GLUE_NODEJS"
	PHP        = "GLUE_PHP"
	PowerShell = "GLUE_POWERSHELL"
)

// Scripts allows jobs whose script comes with the run: whoever holds the token
// can have any command run under this process's user. A script gets params,
// shard index and shard total as arguments; what it writes goes into the run's
// log; exit code 0 is success. When its run is ended it is killed with all
// processes of its group (on Unix; elsewhere alone).
type Scripts struct {
	// Kinds that are allowed. Empty: none.
	Kinds []string
	// Dir is where scripts are kept and run. Empty: "scripts" in Options.Dir.
	Dir string
	// Env is the environment of scripts, as "NAME=value". nil: PATH, HOME and
	// LANG of this process, so that its secrets stay its own.
	Env []string
	// Commands are the programs to use instead of bash, python3, node, php and
	// pwsh, by kind.
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
		errs = append(errs, errors.New("option Scripts needs a Token: else whoever reaches the port can run commands"))
	}
	for _, k := range s.Kinds {
		if _, ok := languages[k]; !ok {
			errs = append(errs, fmt.Errorf("option Scripts: kind %q is not known", k))
		}
	}
	return errs
}

// handler gives what runs the script of a run; else why it is refused.
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
		file, err := placeScript(dir, r.JobID, updated, lang.suffix, source)
		if err != nil {
			return fmt.Errorf("place the script: %w", err)
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
	old, _ := filepath.Glob(filepath.Join(escapeGlob(dir), strconv.Itoa(int(job))+"_*"))
	for _, o := range old {
		os.Remove(o)
	}
	if err := os.WriteFile(file+".new", []byte(source), 0o600); err != nil {
		return "", err
	}
	return file, os.Rename(file+".new", file)
}

func (s *Scripts) run(ctx context.Context, r *Run, command, file string) error {
	cmd := exec.CommandContext(ctx, command, file, r.Params, strconv.Itoa(r.ShardIndex), strconv.Itoa(r.ShardTotal))
	cmd.Dir = filepath.Dir(file)
	if cmd.Env = s.Env; cmd.Env == nil {
		cmd.Env = []string{}
		for _, k := range []string{"PATH", "HOME", "LANG", "SystemRoot"} {
			if v, ok := os.LookupEnv(k); ok {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
		}
	}
	cmd.Stdout, cmd.Stderr = r.Output(), r.Output()
	cmd.WaitDelay = 2 * time.Second // for children that hold the output open
	ownGroup(cmd)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		return fmt.Errorf("script exit value(%d) is failed", exit.ExitCode())
	case errors.Is(err, exec.ErrWaitDelay):
		r.Printf("The script has ended; a process that it started holds its output open, and is not heard any more.")
		return nil
	case err != nil:
		return fmt.Errorf("run the script: %w", err)
	}
	return nil
}
