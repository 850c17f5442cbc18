package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	sdk "github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
	"github.com/tickring/tickring/wire"
)

// The matrix: each behavior that jobs can rely on, for each executor. If an executor lacks one, instead holds the behavior seen in
// its place. A test fails if neither occurs, so the printed table is true.

// A subject is an executor of the matrix.
type subject struct {
	name string
	// command starts the executor, for an app, in a directory that outlives it.
	command func(dir, admin, port, app string) *exec.Cmd
	// instead holds, by behavior, a part of the different result, if this executor differs; empty if that changes from run to run.
	instead map[string]string
	// again is the maximum time until a failed report is repeated.
	again time.Duration
}

func self(kind, admin, port, app, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GO_EXECUTOR="+kind, "ADMIN="+admin, "ACCESS_TOKEN=executors-token", "APP="+app, "PORT="+port, "DIR="+dir)
	return cmd
}

// subjects are the executors. Executors in Java and Python are included if test/executors/fetch.sh has fetched them.
var subjects = append([]subject{
	{
		name:    "tickring/executor",
		command: func(dir, admin, port, app string) *exec.Cmd { return self("sdk", admin, port, app, dir) },
		instead: map[string]string{"forgotten": "failed crashed", "script in Groovy": "glueType[GLUE_GROOVY] is not valid."},
	},
	{
		name: "tickring exec",
		command: func(dir, admin, port, app string) *exec.Cmd {
			script := filepath.Join(dir, "program.sh")
			const source = `echo "log line one"
echo "log line two of $TICKRING_HANDLER"
case $TICKRING_HANDLER in
hello) exit 0 ;;
shard) echo "shard $TICKRING_SHARD_INDEX of $TICKRING_SHARD_TOTAL" ;;
fails | panics)
	echo "told: $TICKRING_ATTEMPT $TICKRING_SCHEDULED_AT $TICKRING_CAUSE"
	echo "no luck"
	exit 3 ;;
waits) while [ ! -e "$PWD/go-$TICKRING_RUN" ]; do sleep 0.05; done ;;
esac
`
			if err := os.WriteFile(script, []byte(source), 0o600); err != nil {
				panic(err)
			}
			cmd := exec.Command(bin, "exec", "--app", app, "--handler", "hello", "--handler", "shard", "--handler", "fails", "--handler",
				"panics", "--handler",
				"waits",
				"--server", admin, "--listen", "127.0.0.1:"+port, "--dir", filepath.Join(dir, "data"), "--grace", "1s", "--", "sh", script)
			cmd.Env = append(os.Environ(), "TICKRING_APP_TOKEN=executors-token")
			cmd.Dir = dir
			return cmd
		},
		instead: map[string]string{
			"message": "", "data": "data []", "panic": "exit code 3", "failure": "exit code 3", "forgotten": "failed crashed",
			"script": "glueType[GLUE_SHELL] is disabled on this executor.", "script in Groovy": "glueType[GLUE_GROOVY] is not valid.",
		},
	},
	{
		name:    "xxl-job-executor-go",
		command: func(dir, admin, port, app string) *exec.Cmd { return self("xxl", admin, port, app, dir) },
		instead: map[string]string{
			"log":     "log of run",
			"serial":  "skipped overlap",
			"failure": "no luck", // only a panic is a failure
			"unknown": "not registered",
			"script":  "not registered", "script in Groovy": "not registered",
			"timeout":     "failed handler",
			"cover early": "", // one of the two is lost or fails, as the race in it goes
			"crash":       "running",
			"server away": "running",
			"told":        "untold",
			"data":        "data []",
		},
	},
	fake("xxl 3.4"),
	fake("xxl 3.5"),
}, fetched(os.Getenv("TICKRING_TEST_EXECUTORS"))...)

// fake speaks as a version does that no repository has.
func fake(kind string) subject {
	return subject{
		name:    strings.Replace(kind, "xxl", "the dialect of", 1),
		command: func(dir, admin, port, app string) *exec.Cmd { return self(kind, admin, port, app, dir) },
		instead: map[string]string{"crash": "running", "told": "untold", "data": "data []",
			"script in Groovy": "glueType[GLUE_GROOVY] is not valid."},
	}
}

func fetched(dir string) []subject {
	if dir == "" {
		return nil
	}
	as := func(cmd *exec.Cmd, admin, port, app, of string) *exec.Cmd {
		cmd.Env = append(os.Environ(), "ADMIN="+admin, "ACCESS_TOKEN=executors-token", "APP="+app, "PORT="+port, "DIR="+of)
		cmd.Dir = of
		return cmd
	}
	source, err := filepath.Abs("../executors/executor.py")
	if err != nil {
		panic(err)
	}
	subs := []subject{{
		name: "pyxxl 0.4.8",
		command: func(of, admin, port, app string) *exec.Cmd {
			return as(exec.Command(filepath.Join(dir, "python", "bin", "python"), source), admin, port, app, of)
		},
		instead: map[string]string{
			"discard later": "failed not-accepted", // its message has another text
			"unknown":       "handler nobody-knows-it not found.",
			"script":        "handler  not found.", "script in Groovy": "handler  not found.",
			"timeout":     "failed handler",
			"cover early": "failed handler, then succeeded",
			"crash":       "running",
			"told":        "untold",
			"data":        "data []",
		},
		again: 15 * time.Second,
	}}
	for _, v := range []string{"xxl-3.3.2", "xxl-2.4.2", "xxl-2.3.1", "xxl-2.2.0"} {
		of, class := filepath.Join(dir, v), "Executor"
		if v == "xxl-2.2.0" {
			class = "Executor22"
		}
		subs = append(subs, subject{
			name: strings.Replace(v, "xxl-", "xxl-job-core ", 1),
			command: func(own, admin, port, app string) *exec.Cmd {
				return as(exec.Command("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(of, "classes")+":"+filepath.Join(of, "*"),
					class), admin, port, app, own)
			},
			instead: map[string]string{
				"crash": "running",
				"told":  "untold",
				"data":  "data []",
			},
			again: 40 * time.Second, // it retries failed reports every 30 s
		})
	}
	return subs
}

// sdkExecutor is our own executor, or one that speaks as a version of xxl-job does.
func sdkExecutor(kind string) {
	dir := os.Getenv("DIR")
	mux := sdk.NewMux()
	mux.Register("hello", func(_ context.Context, r *sdk.Run) error {
		r.Printf("log line one")
		r.Logger().Info("log line two of hello")
		r.SetResult(sdk.Success, "hello "+r.Params)
		return r.SetData(`{"for": "children"}`)
	})
	mux.Register("shard", func(_ context.Context, r *sdk.Run) error {
		r.SetResult(sdk.Success, fmt.Sprintf("shard %d of %d", r.ShardIndex, r.ShardTotal))
		return nil
	})
	mux.Register("fails", func(_ context.Context, r *sdk.Run) error {
		if r.Attempt > 0 {
			r.Printf("told: %d %s %s", r.Attempt, r.ScheduledAt.Format(time.RFC3339), r.Cause)
		}
		return errors.New("no luck")
	})
	mux.Register("panics", func(context.Context, *sdk.Run) error { panic("no luck") })
	mux.Register("waits", func(ctx context.Context, r *sdk.Run) error {
		if !goes(ctx, dir, r.ID) {
			return context.Cause(ctx)
		}
		return nil
	})
	all := &sdk.Scripts{Kinds: []string{sdk.Shell, sdk.Python, sdk.NodeJS, sdk.PHP, sdk.PowerShell}}
	o := sdk.Options{Scripts: all, App: os.Getenv("APP"), Servers: []string{os.Getenv("ADMIN")}, Token: os.Getenv("ACCESS_TOKEN"),
		Listen: "127.0.0.1:" + os.Getenv("PORT"), Dir: filepath.Join(dir, "data"), StopGrace: time.Second, CallbackRetry: time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	serve := func() error {
		e, err := sdk.New(mux, o)
		if err != nil {
			return err
		}
		return e.ListenAndServe(ctx)
	}
	switch kind {
	case "xxl 3.4":
		serve = func() error { return (&dialect{Dialect: wire.DialectC}).serve(ctx, mux, o) }
	case "xxl 3.5":
		serve = func() error { return (&dialect{Dialect: wire.DialectD}).serve(ctx, mux, o) }
	}
	if err := serve(); err != nil {
		panic(err)
	}
}

const matrixManifest = `
version: 1
set: golang
apps:
  - name: golang
    token: executors-token
  - name: lost
    token: executors-token
jobs:
  - {app: lost, name: waits, handler: waits, lostAfter: 1m}
  - {app: golang, name: hello, handler: hello, params: world}
  - {app: golang, name: shard, handler: shard, route: broadcast}
  - {app: golang, name: fails, handler: fails, retry: {max: 1, delay: 1s}}
  - {app: golang, name: panics, handler: panics}
  - {app: golang, name: unknown, handler: nobody-knows-it}
  - {app: golang, name: waits, handler: waits}
  - {app: golang, name: serial, handler: waits}
  - {app: golang, name: cover, handler: waits, block: cover-early}
  - {app: golang, name: discard, handler: waits, block: discard-later}
  - {app: golang, name: away, handler: waits}
  - {app: golang, name: crash, handler: waits, lostAfter: 1m}
  - {app: golang, name: limited, handler: waits, timeout: 1s}
`

// Most beat every 30 s: one beat may fail.
var tunes = []string{"--tune", "expiry=70s", "--tune", "beatWrite=1s", "--tune", "behind=10s", "--tune", "idleGap=2s"}

// A stand is one subject with one server.
type stand struct {
	*testing.T
	sub  subject
	s    *harness.Server
	dir  string // of the subject
	port string
	app  string
	cmd  *exec.Cmd
	lost string // a run of the app lost, whose only executor died during it
	left string // the run during which the executor died before it returned
	both string // the result of a broadcast to two of the subject
}

func (b *stand) start(token ...string) {
	b.cmd = b.sub.command(b.dir, b.s.URL, b.port, b.app)
	if len(token) > 0 { // the last one of a name counts
		b.cmd.Env = append(b.cmd.Env, "ACCESS_TOKEN="+token[0], "TICKRING_APP_TOKEN="+token[0])
	}
	log, err := os.OpenFile(filepath.Join(b.dir, "said"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check.OK(b, err)
	defer log.Close()
	b.cmd.Stdout, b.cmd.Stderr = log, log
	check.OK(b, b.cmd.Start())
	cmd := b.cmd
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// listening waits until an executor accepts connections. Before that, a server with its address, from this or an earlier
// registration, could not reach it.
func listening(t *testing.T, port string) {
	t.Helper()
	check.OK(t, waiting.For(time.Minute, func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			err = c.Close()
		}
		return err
	}))
}

func (b *stand) live(want int) { waitExecutors(b.T, b.s, b.app, want) }

// letGo has a waiting run end.
func (b *stand) letGo(id string) {
	check.OK(b, os.WriteFile(filepath.Join(b.dir, "go-"+id), nil, 0o600))
}

// running triggers a job and waits until its run is running.
func (b *stand) running(job string) string {
	id := b.s.Trigger(b.T, job)
	b.s.WaitState(b.T, id, "running", time.Minute)
	return id
}

// ends waits for the end of a run and returns its "state reason", or "running" if it does not end.
func (b *stand) ends(id string, within ...time.Duration) (r client.Run, saw string) {
	_ = waiting.For(append(within, 10*time.Second)[0], func() error {
		if r = b.s.GetRun(b.T, id); r.State == "running" || r.State == "planned" || r.State == "queued" {
			return fmt.Errorf("run %s is %s", id, r.State)
		}
		return nil
	})
	return r, strings.TrimSpace(r.State + " " + r.Reason)
}

// limit returns how long to wait for a behavior: short if the executor is known to lack it.
func (b *stand) limit(behavior string, short time.Duration) time.Duration {
	if _, other := b.sub.instead[behavior]; other {
		return short
	}
	return max(b.sub.again, 45*time.Second)
}

// behaviors are the tests of each executor. Each returns the result seen; ok reports whether it is the expected one.
var behaviors = []struct {
	name string
	run  func(b *stand) (saw string, ok bool)
}{
	// The process dies during a run and returns: the run is reported.
	{"crash", func(b *stand) (string, bool) {
		id := b.running("golang/crash")
		b.left = id
		b.cmd.Process.Kill()
		b.cmd.Wait()
		b.start()
		listening(b.T, b.port)
		// A run that only the new process can have ended.
		after, _ := b.ends(b.s.Trigger(b.T, "golang/hello"))
		check.Equal(b, after.State, "succeeded", "after the restart: %+v", after)
		r, end := b.ends(id, b.limit("crash", 3*time.Second))
		return end, r.State == "failed" && strings.Contains(r.Message, "process ended under the run")
	}},
	{"message", func(b *stand) (string, bool) {
		r, end := b.ends(b.s.Trigger(b.T, "golang/hello", "--params", "中文 \"quoted\""))
		if end != "succeeded" || r.Code != 200 || strings.TrimSuffix(r.Address, "/") != "http://127.0.0.1:"+b.port {
			b.Errorf("%+v", r)
		}
		return r.Message, r.Message == `hello 中文 "quoted"`
	}},
	// The text that a child job would get as {{parent.data}}.
	{"data", func(b *stand) (string, bool) {
		r, _ := b.ends(b.s.Trigger(b.T, "golang/hello"))
		out := b.s.OK(b.T, "", "run", r.ID)
		if !strings.Contains(out, r.Data) || r.Data == "" && strings.Contains(out, "  data ") {
			b.Errorf("%+v is shown as\n%s", r, out)
		}
		return "data [" + r.Data + "]", r.Data == `{"for": "children"}`
	}},
	{"log", func(b *stand) (string, bool) {
		r, _ := b.ends(b.s.Trigger(b.T, "golang/hello"))
		log := b.s.OK(b.T, "", "logs", r.ID)
		return log, strings.Contains(log, "log line one") && strings.Contains(log, "log line two of hello")
	}},
	{"failure", func(b *stand) (string, bool) {
		r, end := b.ends(b.s.Trigger(b.T, "golang/fails"))
		check.Equal(b, end, "failed handler", "%+v", r)
		b.triedTwice("golang/fails")
		return r.Message, r.Message == "no luck"
	}},
	// Facts without a field in xxl-job's order.
	{"told", func(b *stand) (string, bool) {
		b.ends(b.s.Trigger(b.T, "golang/fails"))
		var runs []client.Run
		check.OK(b, waiting.For(time.Minute, func() error {
			runs = b.s.Runs(b.T, "golang/fails")
			if len(runs) < 2 || runs[0].State != "failed" || runs[0].Attempt != 2 || runs[1].State != "failed" {
				return fmt.Errorf("%+v", runs)
			}
			return nil
		}))
		said := 0
		for _, r := range runs[:2] {
			log, _ := b.s.CLI(b.T, "", "logs", r.ID)
			if strings.Contains(log, fmt.Sprintf("told: %d %s %s\n", r.Attempt, r.ScheduledAt.Format(time.RFC3339), r.Cause)) {
				said += r.Attempt
			} else if strings.Contains(log, "told: ") {
				b.Errorf("%+v: %s", r, log)
			}
		}
		if said == 0 {
			return "untold", false
		}
		return fmt.Sprint(said), said == 1+2
	}},
	{"panic", func(b *stand) (string, bool) {
		r, end := b.ends(b.s.Trigger(b.T, "golang/panics"))
		check.Equal(b, end, "failed handler", "%+v", r)
		return r.Message, strings.Contains(r.Message, "no luck")
	}},
	{"unknown", func(b *stand) (string, bool) {
		r, end := b.ends(b.s.Trigger(b.T, "golang/unknown"))
		check.Equal(b, end, "failed not-accepted", "%+v", r)
		return r.Message, strings.Contains(r.Message, "job handler [nobody-knows-it] not found.")
	}},
	{"script", scripts},
	{"script in Groovy", groovies},
	{"serial", func(b *stand) (string, bool) {
		first := b.running("golang/serial")
		second := b.s.Trigger(b.T, "golang/serial")
		r := b.s.GetRun(b.T, second)
		check.NoError(b, waiting.For(time.Minute, func() error {
			if r = b.s.GetRun(b.T, second); r.State != "running" && r.State != "skipped" {
				return fmt.Errorf("%+v", r)
			}
			return nil
		}))
		saw := strings.TrimSpace(r.State + " " + r.Reason)
		b.letGo(first)
		b.letGo(second)
		_, end := b.ends(first)
		check.Equal(b, end, "succeeded", "the first")
		if r.State == "running" {
			_, saw = b.ends(second)
		}
		return saw, saw == "succeeded"
	}},
	{"discard later", func(b *stand) (string, bool) {
		first := b.running("golang/discard")
		_, two := b.ends(b.s.Trigger(b.T, "golang/discard"))
		b.letGo(first)
		_, one := b.ends(first)
		saw := one + ", then " + two
		return saw, saw == "succeeded, then skipped overlap"
	}},
	{"cover early", func(b *stand) (string, bool) {
		first := b.running("golang/cover")
		second := b.s.Trigger(b.T, "golang/cover")
		b.letGo(second)
		_, one := b.ends(first)
		_, two := b.ends(second)
		saw := one + ", then " + two
		return saw, saw == "killed replaced, then succeeded"
	}},
	{"kill", func(b *stand) (string, bool) {
		id := b.running("golang/waits")
		b.s.OK(b.T, "", "kill", id)
		_, end := b.ends(id)
		return end, end == "killed person"
	}},
	{"timeout", func(b *stand) (string, bool) {
		_, end := b.ends(b.s.Trigger(b.T, "golang/limited"))
		return end, strings.HasPrefix(end, "timed-out")
	}},
	// A run ends while the server is away: its result comes when that is back.
	{"server away", func(b *stand) (string, bool) {
		id := b.running("golang/away")
		addr := strings.TrimPrefix(b.s.URL, "http://")
		b.s.Kill()
		b.letGo(id)
		if err := waiting.For(10*time.Second, func() error { return b.ended(id) }); err != nil {
			b.Logf("its log does not show its end: %v", err)
		}
		s, err := harness.Launch(bin, b.s.Dir, append(tunes, "--listen", addr)...)
		check.OK(b, err)
		b.s = s
		b.Cleanup(s.Kill)
		check.OK(b, s.WaitReady(time.Minute))
		_, end := b.ends(id, b.limit("server away", 6*time.Second))
		return end, end == "succeeded"
	}},
	// The run during which it died: an executor that returns without knowing a run has lost it.
	{"forgotten", func(b *stand) (string, bool) {
		r, end := b.ends(b.left, 3*time.Minute)
		return end, end == "lost forgotten" && r.Code == 0
	}},
	// Each of two executors gets one run, with its index and the total.
	{"broadcast", func(b *stand) (string, bool) { return b.both, b.both == "succeeded: shard 0 of 2, shard 1 of 2" }},
	{"goodbye", func(b *stand) (string, bool) {
		b.live(1)
		b.cmd.Process.Signal(syscall.SIGTERM)
		err := b.cmd.Wait()
		began := time.Now()
		b.live(0)
		return fmt.Sprint(time.Since(began).Round(time.Second), err), time.Since(began) < 15*time.Second // it would expire much later
	}},
	// One with a wrong token is not among the executors, and is named as refused.
	{"wrong token", func(b *stand) (string, bool) {
		b.start("a-wrong-token")
		var list client.ExecutorList
		err := waiting.For(time.Minute, func() error {
			if list = harness.JSON[client.ExecutorList](b.T, b.s, "executors", "golang"); len(list.Executors) == 0 && len(list.Refused) == 0 {
				return errors.New("no executor has registered")
			}
			return nil
		})
		return fmt.Sprint(list, err), len(list.Executors) == 0 && len(list.Refused) == 1 &&
			strings.TrimSuffix(list.Refused[0].Address, "/") == "http://127.0.0.1:"+b.port
	}},
	// The only executor of its app died without deregistering, and did not return.
	{"lost", func(b *stand) (string, bool) {
		_, end := b.ends(b.lost, 3*time.Minute)
		return end, end == "lost gone"
	}},
}

// dies starts another executor of the subject, the only one of the app lost, and kills it during a run. The run's end takes
// minutes.
func (b *stand) dies() {
	other := &stand{T: b.T, sub: b.sub, s: b.s, dir: b.TempDir(), port: freeport.Free(b.T), app: "lost"}
	other.start()
	other.live(1)
	b.lost = other.running("lost/waits")
	other.cmd.Process.Kill()
	other.cmd.Wait()
}

// broadcast adds another executor of the subject for a while, and returns the results of a run at each of the two.
func (b *stand) broadcast() string {
	other := &stand{T: b.T, sub: b.sub, s: b.s, dir: b.TempDir(), port: freeport.Free(b.T), app: b.app}
	other.start()
	b.live(2)
	defer func() {
		other.cmd.Process.Signal(syscall.SIGTERM)
		other.cmd.Wait()
		b.live(1)
	}()
	id := b.s.Trigger(b.T, "golang/shard")
	_, end := b.ends(id)
	whole := harness.JSON[client.Run](b.T, b.s, "run", id)
	saw, at := make([]string, len(whole.Shards)), map[string]bool{}
	for i, s := range whole.Shards {
		at[strings.TrimSuffix(s.Address, "/")] = true
		saw[i] = b.s.GetRun(b.T, s.ID).Message
		if want := fmt.Sprintf("shard %d of %d", i, len(saw)); saw[i] != want && strings.Contains(b.s.OK(b.T, "", "logs", s.ID), want) {
			saw[i] = want // a program's is in its log
		}
	}
	if !at["http://127.0.0.1:"+b.port] || !at["http://127.0.0.1:"+other.port] {
		b.Errorf("the shards of %s went to %v", id, at)
	}
	return end + ": " + strings.Join(saw, ", ")
}

// ended returns nil if the subject's handler, or the log of our own executor, shows the end of a run.
func (b *stand) ended(id string) error {
	said, err := os.ReadFile(filepath.Join(b.dir, "said"))
	if err == nil && strings.Contains(string(said), "ended "+id) {
		return nil
	}
	names, _ := filepath.Glob(filepath.Join(b.dir, "data", "logs", "*", id+".log"))
	for _, n := range names {
		if text, err := os.ReadFile(n); err == nil && strings.Contains(string(text), "---- end: code 200") {
			return nil
		}
	}
	return errors.New("it has not ended")
}

func TestMatrix(t *testing.T) {
	table := make([]map[string]string, len(subjects))
	t.Run("of", func(t *testing.T) {
		for i, sub := range subjects {
			table[i] = map[string]string{}
			t.Run(sub.name, func(t *testing.T) {
				t.Parallel() // they wait for most of their time
				row(t, sub, table[i])
			})
		}
	})
	var out strings.Builder
	fmt.Fprintf(&out, "| behavior |")
	for _, s := range subjects {
		fmt.Fprintf(&out, " %s |", s.name)
	}
	for _, bh := range behaviors {
		fmt.Fprintf(&out, "\n| %s |", bh.name)
		for i := range subjects {
			fmt.Fprintf(&out, " %s |", table[i][bh.name])
		}
	}
	t.Logf("\n%s", out.String())
	t.Logf("substitutes for script interpreters: %s", strings.Join(stoodIn, ", "))
}

// row asks one subject for each behavior.
func row(t *testing.T, sub subject, saw map[string]string) {
	b := &stand{T: t, sub: sub, dir: t.TempDir(), port: freeport.Free(t), app: "golang",
		s: harness.Start(t, bin, t.TempDir(), append(tunes, "--listen", "127.0.0.1:"+freeport.Free(t))...)}
	b.s.OK(t, matrixManifest, "apply", "-f", "-")
	b.start()
	b.live(1)
	b.both = b.broadcast()
	b.dies()
	for _, bh := range behaviors {
		failed := t.Failed()
		is, ok := bh.run(b)
		want, other := sub.instead[bh.name]
		switch {
		case ok && other:
			t.Errorf("%s: it does as the others now: strike it from the list", bh.name)
		case ok:
			saw[bh.name] = "yes"
		case other && strings.Contains(is, want):
			saw[bh.name] = strings.TrimSpace("no: " + firstLine(is))
		default:
			t.Errorf("%s: saw %q", bh.name, is)
		}
		if t.Failed() && !failed {
			saw[bh.name] = "FAILED"
		}
	}
	b.s.Audit(t)
	said, _ := os.ReadFile(filepath.Join(b.dir, "said"))
	if strings.Contains(string(said), "uri-mapping") {
		t.Error("it was called at another address, although it had registered its dialect")
	}
	if t.Failed() {
		server, _ := os.ReadFile(filepath.Join(b.s.Dir, "serve.log"))
		t.Logf("output of the executor:\n%s\noutput of the server:\n%s", said, server)
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// TestDeclaredJob: a job declared in code is created on the real server, follows its declaration, and keeps a user's changes.
func TestDeclaredJob(t *testing.T) {
	s := harness.Start(t, bin, t.TempDir())
	s.OK(t, "version: 1\nset: golang\napps:\n  - {name: golang, token: executors-token}\n", "apply", "-f", "-")
	dir := t.TempDir()
	// declare runs an executor that declares jobs, until the server has the named one as wanted.
	declare := func(name string, until func(spec string) error, jobs ...sdk.Job) {
		t.Helper()
		mux := sdk.NewMux()
		mux.Register("nightly", func(context.Context, *sdk.Run) error { return nil })
		for _, job := range jobs {
			mux.Declare(job)
		}
		e, err := sdk.New(mux, sdk.Options{App: "golang", Servers: []string{s.URL + "/xxl-job-admin"}, Token: "executors-token",
			Listen: "127.0.0.1:0", Dir: dir})
		check.OK(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.ListenAndServe(ctx) }()
		err = waiting.For(time.Minute, func() error {
			out, _ := s.CLI(t, "", "get", name, "-o", "json")
			return until(out)
		})
		check.NoError(t, err)
		stop()
		check.NoError(t, <-ended)
	}
	holds := func(texts ...string) func(string) error {
		return func(spec string) error {
			for _, text := range texts {
				if !strings.Contains(spec, text) {
					return fmt.Errorf("it lacks %s: %s", text, spec)
				}
			}
			return nil
		}
	}
	job := sdk.Job{Name: "nightly", Schedule: sdk.Cron("0 30 2 * * ?", "Europe/Berlin"), Params: "one", Timeout: time.Minute, Retries: 2,
		RetryDelay: 5 * time.Second, Block: "discard-later", Misfire: "skip", Title: "Reports", Author: "lina"}
	declare("golang/nightly", holds("0 30 2 * * ?", "Europe/Berlin", "one", "discard-later", "Reports", "lina"), job)
	s.OK(t, "", "pause", "golang/nightly")
	job.Params = "two"
	declare("golang/nightly", holds("two", "paused"), job)
	s.OK(t, "version: 1\njobs:\n  - {app: golang, name: nightly, handler: nightly, params: by-hand, schedule: {every: 1h}}\n", "apply",
		"-f", "-")
	job.Params = "three"
	other := job
	other.Name, other.Handler = "second", "nightly"
	// Jobs are dealt with in order: once the second is there the first was judged.
	declare("golang/second", holds(`"second"`), job, other)
	check.NoError(t, holds("by-hand")(s.OK(t, "", "get", "golang/nightly", "-o", "json")))
}
