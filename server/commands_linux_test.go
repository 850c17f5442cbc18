package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/internal/localexec"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/store"
)

// commanding starts a server that runs commands as the user of this test, in a folder.
func commanding(t *testing.T, o Options) (s *running, dir string) {
	t.Helper()
	if dir = os.Getenv("PWD"); o.Commands == nil {
		dir = realDir(t)
		o.Commands = allowed(t, dir)
	}
	s = start(t, o)
	check.Call(t)(s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "ops"}))
	return s, dir
}

func realDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check.OK(t, err)
	return dir
}

func allowed(t *testing.T, dir string) *localexec.Allowed {
	t.Helper()
	u, err := user.Current()
	check.OK(t, err)
	a, err := localexec.Allow([]string{u.Username}, []string{dir})
	check.OK(t, err)
	return a
}

// commandJob creates a job of app ops.
func commandJob(t *testing.T, s *running, name string, c core.Command, more ...func(*manage.JobSpec)) {
	t.Helper()
	spec := manage.JobSpec{Def: core.Def{App: "ops", Name: name, Command: &c}}
	for _, f := range more {
		f(&spec)
	}
	saveAll(t, s, spec)
}

// trigger starts a run of a job of app ops.
func trigger(t *testing.T, s *running, name string) core.RunID {
	t.Helper()
	return s.trigger(t, "ops/"+name)
}

func within(d time.Duration) func(*manage.JobSpec) {
	return func(j *manage.JobSpec) { j.Def.Timeout = d }
}

// waitFor waits until a command has written a whole line to a file, and returns the text.
func waitFor(t *testing.T, path string) (text string) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		b, err := os.ReadFile(path)
		if text = strings.TrimSpace(string(b)); err == nil && !strings.HasSuffix(string(b), "\n") {
			err = errors.New("not whole yet")
		}
		return err
	})
	return text
}

// absent fails the test if a command that may not start has written a file.
func absent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is there: its command was started", path)
	}
}

// gone waits until a process group has no processes left except zombies.
func gone(t *testing.T, group string) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		stats, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			return err
		}
		for _, path := range stats {
			b, _ := os.ReadFile(path)
			if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) > 2 && f[2] == group && f[0] != "Z" {
				return fmt.Errorf("%s is of group %s", path, group)
			}
		}
		return nil
	})
}

// TestCommands: the run reports how each kind of command ends, and no command affects anything else.
func TestCommands(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	s, dir := commanding(t, Options{})
	check.OK(t, os.Symlink("/", filepath.Join(dir, "out")))
	type is struct {
		state  core.State
		reason core.Reason
		code   int
	}
	failed := func(code int) is { return is{core.Failed, core.ReasonHandler, code} }
	succeeded := is{core.Succeeded, "", 0}
	for name, c := range map[string]struct {
		command core.Command
		timeout time.Duration
		want    is
		says    []string // in the message; none: the golden file has the message
	}{
		"succeeds": {core.Command{Line: "echo one; echo two >&2"}, 0, succeeded, nil},
		"environment": {core.Command{Line: `echo "$A-$HOME-$TICKRING_CAUSE-$PWD-$TICKRING_ADMIN_TOKEN."`, Env: map[string]string{"A": "b", "HOME": "h"}},
			0, succeeded, []string{"b-h-manual-" + dir + "-."}},
		"fails":            {core.Command{Line: "echo why; exit 3"}, 0, failed(3), nil},
		"exit-200":         {core.Command{Line: "exit 200"}, 0, failed(200), nil},
		"not-found":        {core.Command{Line: "there-is-no-such-program"}, 0, failed(127), []string{"exit code 127", "not found"}},
		"signal":           {core.Command{Line: "kill -KILL $$"}, 0, failed(137), nil},
		"snoozes":          {core.Command{Line: "exit 75"}, 0, is{core.Failed, core.ReasonSnoozed, 75}, nil},
		"cancels":          {core.Command{Line: "exit 65"}, 0, is{core.Failed, core.ReasonCancelled, 65}, nil},
		"folder-gone":      {core.Command{Line: "true", Dir: dir + "/gone"}, 0, failed(0), nil},
		"folder-leads-out": {core.Command{Line: "true", Dir: dir + "/out"}, 0, failed(0), nil},
		// Its output is not mistaken for a message of an executor.
		"pretends": {core.Command{Line: "echo 'container destroy [job running, killed]'; exit 65"}, 0,
			is{core.Failed, core.ReasonCancelled, 65}, nil},
		"ignores-term": {core.Command{Line: "trap '' TERM INT HUP; echo $$ > ignores; while :; do sleep 1000; done"}, 5 * time.Second,
			is{core.TimedOut, core.ReasonTimeout, 0}, nil},
		"leaves": {core.Command{Line: "(setsid sleep 1000 & echo $! > left); sleep 1000 & echo $! >> left; echo gone"}, 20 * time.Second,
			succeeded, nil},
		"writes-much": {core.Command{Line: "head -c 30000000 /dev/zero | tr '\\0' 'x'; echo; echo the end", MaxOutput: 4096}, 0, succeeded,
			[]string{"29995913", "the end"}},
		"writes-without-end": {core.Command{Line: "yes", MaxOutput: 1024}, 5 * time.Second,
			is{core.TimedOut, core.ReasonTimeout, 0}, []string{"---- cut"}},
		"endless-line": {core.Command{Line: "yes | tr -d '\\n'", MaxOutput: 1024}, 5 * time.Second, is{core.TimedOut, core.ReasonTimeout, 0},
			[]string{"---- cut"}},
		"binary": {core.Command{Line: "head -c 100000 /dev/urandom; exit 1"}, 0, failed(1), []string{"exit code 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			commandJob(t, s, name, c.command, within(c.timeout))
			run := s.until(t, trigger(t, s, name))
			if got := (is{run.State, run.Reason, run.Code}); got != c.want {
				t.Errorf("it is %+v, want %+v: %s", got, c.want, run.Message)
			}
			if c.says == nil {
				texts.Equal(t, name, steady(run.Message), dir, "DIR", ", but is still running", "")
			}
			for _, text := range c.says {
				if !strings.Contains(run.Message, text) {
					t.Errorf("its message has no %q: %s", text, run.Message)
				}
			}
			if !utf8.ValidString(run.Message) || len(run.Message) > core.MessageMax {
				t.Errorf("its message has %d bytes", len(run.Message))
			}
			switch name {
			case "ignores-term":
				gone(t, waitFor(t, filepath.Join(dir, "ignores")))
			case "leaves": // under cron it goes on, too
				for _, pid := range strings.Fields(waitFor(t, filepath.Join(dir, "left"))) {
					n, err := strconv.Atoi(pid)
					if err == nil {
						err = syscall.Kill(n, syscall.SIGKILL)
					}
					if err != nil {
						t.Errorf("its output is missing: %v", err)
					}
				}
			}
		})
	}
	t.Cleanup(func() {
		err := filepath.WalkDir(filepath.Join(s.o.Dir, "commands", "logs"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if i, err := d.Info(); err != nil || i.Size() > 200_000 {
				t.Errorf("log %s has %d bytes, %v", path, i.Size(), err)
			}
			return nil
		})
		check.NoError(t, err)
	})
}

// TestCommandLog: a log can be read while its command runs, and afterwards.
func TestCommandLog(t *testing.T) {
	t.Parallel()
	s, dir := commanding(t, Options{})
	commandJob(t, s, "log", core.Command{Line: "echo begun; echo > begun; until [ -e go ]; do sleep 0.01; done; echo over"})
	id := trigger(t, s, "log")
	waitFor(t, filepath.Join(dir, "begun"))
	read := func() (string, bool) {
		run := s.run(t, id)
		text, _, end, err := s.parts.Load().sender.Log(t.Context(), &core.App{Name: "ops"}, &run, 1)
		check.NoError(t, err)
		return text, end
	}
	eventually(t, time.Minute, func() error { // the output is still passing through a pipe
		if text, end := read(); !strings.Contains(text, "\nbegun\n") || end {
			return fmt.Errorf("while running its log is %q, its end %t", text, end)
		}
		return nil
	})
	check.OK(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	s.until(t, id)
	defer func() { // without the file, the log kept with the run is shown
		check.NoError(t, os.RemoveAll(filepath.Join(s.o.Dir, "commands", "logs")))
		run := s.run(t, id)
		text, next, end, err := s.parts.Load().sender.Log(t.Context(), &core.App{Name: "ops"}, &run, 1)
		if err != nil || next != 1 || !end || text != run.Message+"\n" {
			t.Errorf("once it is gone its log is %q, next %d, its end %t, %v", text, next, end, err)
		}
	}()
	if text, end := read(); !strings.Contains(text, "\nover\n") || !strings.Contains(text, "---- end: code 200") || !end {
		t.Errorf("its log is %q, its end %t", text, end)
	}
}

// TestCommandsWait: at most CommandsMost commands run at once, and the commands of one job one after another. Waiting commands do not
// delay other sends.
func TestCommandsWait(t *testing.T) {
	t.Parallel()
	s, dir := commanding(t, Options{CommandsMost: 2})
	const secret = "password-of-a-command-that-waits"
	work := core.Command{Line: `[ "$PASSWORD" = ` + secret[:8] + `"-of-a-command-that-waits" ] || exit 3
echo "$TICKRING_RUN $TICKRING_JOB" >> began; until [ -e go ]; do sleep 0.01; done`,
		Env: map[string]string{"PASSWORD": secret}, Hidden: []string{"PASSWORD"}}
	want := map[string][]string{}
	var all []core.RunID
	for _, job := range []string{"a", "b", "c"} {
		commandJob(t, s, job, work)
	}
	for _, job := range []string{"a", "b", "c"} {
		for range 3 {
			id := trigger(t, s, job)
			all, want[job] = append(all, id), append(want[job], id.String())
			s.until(t, id, core.Running)
		}
	}
	began := func() []string {
		b, _ := os.ReadFile(filepath.Join(dir, "began"))
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	eventually(t, time.Minute, func() error {
		if n := len(began()); n != 2 {
			return fmt.Errorf("%d began", n)
		}
		return nil
	})
	for _, name := range []string{"tickring.db", "tickring.db-wal"} { // also while it waits in the queue
		if b, err := os.ReadFile(filepath.Join(s.o.Dir, name)); err != nil || strings.Contains(string(b), secret) {
			t.Errorf("%s has the secret of a command: %v", name, err)
		}
	}
	if first := began(); !strings.HasPrefix(first[0], want["a"][0]) || !strings.HasPrefix(first[1], want["b"][0]) {
		t.Errorf("first began %v, of %v", first, want)
	}
	web := secondly("web", "beat") // runs of another job stay punctual during that time
	web.Def.Handler = "GET /"
	endpoint := serve(t, func(http.ResponseWriter, *http.Request) {})
	s.app(t, "web", "call:"+endpoint.URL)
	saveAll(t, s, web)
	for _, r := range s.succeeded(t, "web/beat", 2, 40*time.Second) {
		if r.Lateness() > 10*time.Second { // waiting runs would wait forever
			t.Errorf("run %s was sent %s late", r.ID, r.Lateness())
		}
	}
	check.Equal(t, len(began()), 2, "are running at once")
	check.OK(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	for _, id := range all {
		s.ended(t, id, core.Succeeded, "")
	}
	got := map[string][]string{}
	for _, line := range began() {
		id, job, _ := strings.Cut(line, " ")
		n, _ := strconv.Atoi(job)
		name := string(rune('a' + n - 1))
		got[name] = append(got[name], id)
	}
	for job, ids := range want {
		if !slices.Equal(got[job], ids) {
			t.Errorf("of %s began %v, want %v", job, got[job], ids)
		}
	}
}

// TestCommandAfterItsDeadline: a command whose turn comes after its deadline does not start.
func TestCommandAfterItsDeadline(t *testing.T) {
	t.Parallel()
	s, dir := commanding(t, Options{CommandsMost: 1})
	commandJob(t, s, "long", core.Command{Line: "echo > begun; until [ -e go ]; do sleep 0.01; done"})
	long := trigger(t, s, "long")
	waitFor(t, filepath.Join(dir, "begun"))
	at := core.InstantOf(time.Now()) + 3
	commandJob(t, s, "late", core.Command{Line: "echo > late"}, func(j *manage.JobSpec) {
		j.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindAt, At: at}}}
		j.Deadline = 5 * time.Second
	})
	late := core.PlannedRun(core.JobID(2), at)
	eventually(t, time.Minute, func() error {
		v, err := s.Manage().Run(t.Context(), late.String())
		if err == nil && v.Run.State != core.Running || time.Now().Before(at.Time().Add(5200*time.Millisecond)) {
			err = fmt.Errorf("it is %s", v.Run.State)
		}
		return err
	})
	check.OK(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	s.until(t, long)
	r := s.ended(t, late, core.Skipped, core.ReasonDeadline)
	golden.New(t).Equal(t, "message", steady(r.Message))
	absent(t, filepath.Join(dir, "late"))
}

// TestCommandKilled: a kill ends a running command and its whole process group, and the next waiting run starts. A waiting run that
// is killed never starts.
func TestCommandKilled(t *testing.T) {
	t.Parallel()
	s, dir := commanding(t, Options{})
	commandJob(t, s, "k", core.Command{Line: `echo $$ > at-$TICKRING_RUN; sleep 1000 & wait`})
	var ids []core.RunID
	for range 3 {
		ids = append(ids, trigger(t, s, "k"))
		s.until(t, ids[len(ids)-1], core.Running)
	}
	kill := func(id core.RunID) {
		t.Helper()
		if res, err := s.Manage().KillRun(t.Context(), actor, id.String(), ""); err != nil || len(res.Sent) != 1 || res.Sent[0].Err != nil {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	first := waitFor(t, filepath.Join(dir, "at-"+ids[0].String()))
	kill(ids[1])
	if r := s.run(t, ids[0]); r.State != core.Running {
		t.Errorf("the first was %s with the second", r.State)
	}
	kill(ids[0])
	third := waitFor(t, filepath.Join(dir, "at-"+ids[2].String()))
	for _, id := range ids[:2] {
		s.ended(t, id, core.Killed, core.ReasonPerson)
	}
	gone(t, first)
	absent(t, filepath.Join(dir, "at-"+ids[1].String()))
	kill(ids[2])
	gone(t, third)
}

// TestCommandsStop: a stop ends running commands, and their runs are lost. Waiting commands start under the next process.
func TestCommandsStop(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), realDir(t)
	o := Options{Dir: data, CommandsMost: 1, Commands: allowed(t, dir), Drain: 6 * time.Second} // half of it is left to report how they ended
	s, _ := commanding(t, o)
	commandJob(t, s, "a", core.Command{Line: `echo $$ > at-$TICKRING_RUN; [ -e go ] || sleep 1000`},
		func(j *manage.JobSpec) { j.Def.Retry.Max = 2 })
	one := trigger(t, s, "a")
	group := waitFor(t, filepath.Join(dir, "at-"+one.String()))
	two := trigger(t, s, "a")
	s.until(t, two, core.Running)
	check.OK(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	s.stop()
	gone(t, group)
	absent(t, filepath.Join(dir, "at-"+two.String()))
	s = start(t, o)
	r := s.ended(t, one, core.Lost, core.ReasonGone)
	check.Equal(t, r.Then, 0, "the run after the interrupted one")
	golden.New(t).Equal(t, "interrupted run", r.Message)
	s.ended(t, two, core.Succeeded, "")
}

// TestCommandThatMayHaveBegun: if a process takes a command from the queue and dies before it records the start, the command is not
// started again; its run is lost.
func TestCommandThatMayHaveBegun(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), realDir(t)
	o := Options{Dir: data, CommandsMost: 1, Commands: allowed(t, dir), Drain: 2 * time.Second}
	s, _ := commanding(t, o)
	commandJob(t, s, "long", core.Command{Line: "echo > begun; until [ -e go ]; do sleep 0.01; done"})
	commandJob(t, s, "taken", core.Command{Line: "echo > taken"})
	trigger(t, s, "long")
	waitFor(t, filepath.Join(dir, "begun"))
	id := trigger(t, s, "taken")
	q := store.PullQueue{Name: "commands/2"}
	eventually(t, time.Minute, func() error {
		now := time.Now()
		held, _, err := s.parts.Load().store.Pull.TakePulled(t.Context(), q, now, now, 1)
		if err == nil && len(held) != 1 {
			err = errors.New("it is not in its queue")
		}
		return err
	})
	s.stop()
	s = start(t, o)
	golden.New(t).Equal(t, "message", s.ended(t, id, core.Lost, core.ReasonGone).Message)
	absent(t, filepath.Join(dir, "taken"))
}

// TestCommandsRefused: commands that are not allowed are rejected when they are saved, and again when they are sent.
func TestCommandsRefused(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	u, err := user.Current()
	check.OK(t, err)
	data, dir := t.TempDir(), realDir(t)
	s, _ := commanding(t, Options{Dir: data, Commands: allowed(t, dir)})
	refused := func(s *running, spec manage.JobSpec, field, key string) {
		t.Helper()
		spec.Def.App, spec.Def.Name = "ops", "x"
		r := s.Manage().Save(t.Context(), actor, []manage.JobSpec{spec})[0]
		e, ok := errors.AsType[*core.Error](r.Err)
		if !ok || e.Field != field {
			t.Fatalf("%+v: %v", spec.Def.Command, r.Err)
		}
		texts.Equal(t, key, e.Reason.String(), dir, "DIR", u.Username, "USER")
	}
	of := func(c core.Command) manage.JobSpec { return manage.JobSpec{Def: core.Def{Command: &c}} }
	refused(s, of(core.Command{Line: "true", User: "daemon"}), "command.user", "user")
	refused(s, of(core.Command{Line: "true", Dir: "/etc"}), "command.dir", "directory")
	refused(s, of(core.Command{Line: "true", Dir: dir + "x"}), "command.dir", "directory")
	declared := of(core.Command{Line: "true"})
	declared.Declared = true
	refused(s, declared, "", "declared")
	commandJob(t, s, "was", core.Command{Line: "echo > was", Dir: dir})
	elsewhere := operate.TriggerRequest{Job: "ops/was", Addresses: []string{"http://10.0.0.1:1"}}
	_, err = s.Manage().Trigger(t.Context(), actor, elsewhere)
	texts.Equal(t, "trigger with an address", fmt.Sprint(err))
	s.stop()

	s = start(t, Options{Dir: data})
	refused(s, of(core.Command{Line: "true"}), "command", "no commands")
	r := s.ended(t, trigger(t, s, "was"), core.Failed, core.ReasonNotAccepted)
	texts.Equal(t, "run of no commands", r.Message)
	s.stop()

	other := realDir(t)
	s = start(t, Options{Dir: data, Commands: allowed(t, other)})
	r = s.ended(t, trigger(t, s, "was"), core.Failed, core.ReasonNotAccepted)
	texts.Equal(t, "run in another directory", r.Message, dir, "DIR", other, "OTHER")
	absent(t, filepath.Join(dir, "was"))
}
