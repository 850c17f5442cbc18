package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/story"
	"github.com/tickring/tickring/wire"
)

// A stage is an executor with its server. Handlers: w waits for its end, which a step brings, or for the end of its context;
// again is w with RerunAfterCrash; deaf ignores its context; ok succeeds; init has Init and Destroy.
type stage struct {
	*story.Stage
	mux  *Mux
	o    Options // that differ from the usual ones
	f    *fake
	e    *Executor
	subs map[int64]*Submitted

	mu    sync.Mutex
	ends  map[int64]chan error // of handlers, by run
	inits chan error           // the result of each Init
}

func newStage(t *testing.T) *story.Stage {
	s := &stage{mux: NewMux(), f: newFake(), ends: map[int64]chan error{}, inits: make(chan error), subs: map[int64]*Submitted{}}
	s.o.Servers = []string{"http://one"}
	s.Stage = &story.Stage{T: t, See: s.see, Now: time.Now, Sleep: time.Sleep,
		Given: map[string]func(string){"with": func(args string) { s.Set(args, &s.o) }, "alone": func(string) { s.o.Servers = nil },
			"down": func(string) { s.f.set(atPath(wire.PathCallback, "")) }, "up": func(string) { s.f.set(nil) }},
		Do: map[string]func(string){"send": s.send, "submit": s.submit, "end": s.end, "ask": s.ask, "log": s.log, "stop": s.stop,
			"crash": s.crash, "init": func(text string) { s.inits <- errorOf(text) },
			"another": s.another,
			"start":   func(string) { s.Say("not started: %v", s.e.Start()) }}}
	s.mux.Register("w", s.handle)
	s.mux.Register("again", s.handle, RerunAfterCrash())
	s.mux.Register("ok", func(context.Context, *Run) error { return nil })
	s.mux.Register("deaf", func(_ context.Context, r *Run) error { return s.handle(context.Background(), r) })
	s.mux.Register("init", s.handle, Init(func(context.Context) error { return <-s.inits }),
		Destroy(func(context.Context) error { s.Say("destroy"); return errors.New("logged") }))
	return s.Stage
}

func (s *stage) executor() *Executor {
	if s.e == nil {
		s.e = start(s.T, s.mux, s.f, func(o *Options) {
			o.Servers, o.QueueSize, o.MaxUnreported, o.RememberMax = s.o.Servers, s.o.QueueSize, s.o.MaxUnreported, s.o.RememberMax
		})
	}
	return s.e
}

// crash continues with the executor that starts in the place of a dead one, and a new server.
func (s *stage) crash(string) {
	s.mu.Lock()
	s.ends = map[int64]chan error{}
	s.mu.Unlock()
	s.f, s.e = afterCrash(s.T, s.mux, s.executor())
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// ended returns the channel that ends the handler of a run.
func (s *stage) ended(run int64) chan error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[run] == nil {
		s.ends[run] = make(chan error)
	}
	return s.ends[run]
}

func (s *stage) handle(ctx context.Context, r *Run) error {
	s.Say("run %d begins%s", r.ID, map[bool]string{true: " again"}[r.Again])
	select {
	case err := <-s.ended(r.ID):
		return err
	case <-ctx.Done():
		s.Say("run %d is cancelled: %v", r.ID, context.Cause(ctx))
		return ctx.Err()
	}
}

// order reads a run: its job, its number, its handler, and other fields.
func (s *stage) order(args string) (run wire.Run) {
	var handler string
	_, err := fmt.Sscan(args, &run.JobID, &run.LogID, &handler)
	check.OK(s.T, err)
	run = order(run.JobID, run.LogID, handler)
	s.Set(strings.Join(strings.Fields(args)[3:], " "), &run)
	run.BlockStrategy = strings.ReplaceAll(run.BlockStrategy, " ", "_")
	return run
}

func (s *stage) answered(r wire.Reply) {
	if r.OK() {
		s.Say("accepted")
		return
	}
	s.Say("answered %d %s, verdict %d", r.Code, r.Msg, r.Verdict())
}

func (s *stage) send(args string) { s.answered(send(s.executor(), s.order(args))) }

func (s *stage) submit(args string) {
	run := s.order(args)
	var opts []SubmitOption
	if args, again := strings.CutPrefix(run.Params, "again"); again {
		run.Params, opts = args, []SubmitOption{Redelivered()}
	}
	sub, err := s.executor().Submit(s.T.Context(), wire.AppendOrder(nil, &run), opts...)
	if err != nil {
		s.Say("not accepted: %v", err)
		return
	}
	s.subs[run.LogID] = sub
}

func (s *stage) end(args string) {
	var run int64
	check.Call(s.T)(fmt.Sscan(args, &run))
	_, text, _ := strings.Cut(args, " ")
	select {
	case s.ended(run) <- errorOf(text):
	case <-time.After(time.Hour):
		s.T.Fatalf("run %d does not wait for its end", run)
	}
}

// ask sends a request about a job: "kill 1", "idle 1" or "beat".
func (s *stage) ask(args string) {
	var what string
	var job int32
	_, _ = fmt.Sscan(args, &what, &job) // a beat has no job
	switch what {
	case "kill":
		s.answered(post(s.executor(), wire.PathKill, wire.AppendKill(nil, wire.KillRequest{JobID: job})))
	case "idle":
		s.answered(post(s.executor(), wire.PathIdleBeat, wire.AppendIdleBeat(nil, wire.IdleBeatRequest{JobID: job})))
	default:
		s.answered(post(s.executor(), wire.PathBeat, nil))
	}
}

// log shows the log of a run without its times.
func (s *stage) log(args string) {
	run := s.order(args)
	run.LogTime = 0
	for line := range strings.Lines(readLog(s.T, s.e, run)) {
		_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		s.Say("%s", text)
	}
}

// stop stops the executor: in order, or with a context that ends after a time.
func (s *stage) stop(within string) {
	ctx, e := s.T.Context(), s.executor()
	if d, err := time.ParseDuration(within); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		s.T.Cleanup(cancel)
	}
	go func() {
		if err := e.Stop(ctx); err != nil {
			s.Say("stopped: %v", err)
		} else {
			s.Say("stopped")
		}
	}()
}

// another starts another executor in the same directory.
func (s *stage) another(string) {
	two, err := New(s.mux, Options{App: "demo", Dir: s.e.o.Dir, Log: quiet})
	check.OK(s.T, err)
	s.Say("not started: %s", strings.ReplaceAll(two.Start().Error(), s.e.o.Dir, "DIR"))
}

func (s *stage) see() map[string][]string {
	pass(gather)
	synctest.Wait()
	all := map[string][]string{}
	if s.e == nil {
		return all
	}
	s.f.locked(func() {
		for _, it := range s.f.items {
			name := fmt.Sprintf("result of run %d", it.LogID)
			all[name] = append(story.Fields(it, "logid", "logtime"), all[name]...)
		}
		reports := 0
		for _, call := range s.f.calls {
			if reports += strings.Count(call, wire.PathCallback); strings.HasSuffix(call, wire.PathRegistryRemove) {
				all["the address"] = []string{fmt.Sprintf("removed=after %d reports", reports)}
			}
		}
	})
	for id, sub := range s.subs {
		select {
		case <-sub.Ended():
			all[fmt.Sprintf("submitted run %d", id)] = story.Fields(sub.Result(), "runid")
		default:
		}
	}
	s.e.mu.Lock()
	workers := len(s.e.workers)
	s.e.mu.Unlock()
	all["the executor"] = strings.Fields(fmt.Sprintf("workers=%d unreported=%d strays=%d", workers, s.e.Unreported(), s.e.Strays()))
	return all
}

// TestStories: the life of runs, as the server and the caller see it.
func TestStories(t *testing.T) {
	story.Play(t, map[string]string{
		// Serial and unknown strategies queue the run; another job has a worker of its own. If a run is replaced, the running one is
		// cancelled, waiting ones are not executed, and the new one starts after the old one has ended. An idle job accepts every run.
		"block strategies": `with queuesize=2; send 1 1 w
			send 1 2 w; send 1 3 w blockstrategy=WHATEVER; send 1 4 w; send 1 5 w blockstrategy=DISCARD_LATER; send 2 6 w; end 6; end 1
			send 1 7 w blockstrategy=COVER_EARLY; end 7
			send 1 8 w blockstrategy=DISCARD_LATER; end 8`,
		// A run that had ended keeps its result.
		"a kill": `ask kill 1; ask idle 1; ask beat; send 1 1 w; send 1 2 w; ask idle 1; ask kill 1; ask idle 1
			send 1 3 w; end 3; ask kill 1`,
		"a timeout":              "send 1 1 w timeout=3; +2900ms; +100ms",
		"a handler that is deaf": "send 2 2 deaf timeout=3; send 2 3 deaf; +3s; +10s; end 2; end 3; log 2 2 deaf",
		"a repeat": `send 1 1 w; send 1 2 w; send 1 1 w; send 1 2 w; end 1; send 1 1 w; +59m; send 1 1 w; +2m; send 1 1 w
			end 2; end 1`,
		"another handler": "send 1 1 w; send 1 2 w; send 1 3 ok",
		"init and destroy": `send 1 1 init; init no database; send 1 2 init; init; send 1 3 init; end 2; end 3; +89s; +2s
			send 1 4 init; init; end 4`,
		"a stop":                   `send 1 1 w; send 1 2 w; send 2 3 w; stop; send 3 4 w; ask beat; ask idle 9; end 1; +29900ms; +100ms; start`,
		"a stop of a deaf handler": "send 1 1 deaf; stop; +30s; +11s; end 1",
		"a stop during init":       "submit 1 1 init; stop 10ms; +2s; init",
		// The next process reports the open runs and the results that were not taken; the third one only knows their IDs.
		"a crash": `down; send 1 1 w; send 1 2 w; send 2 3 again; send 3 4 ok; another
			crash; end 3; send 9 1 ok; send 9 4 ok
			crash; send 9 3 ok; send 9 4 ok`,
		// A run with an unreported result is not accepted again, however long the result waits; the memory has room for one.
		"no server": "with remembermax=1; down; send 1 1 ok; send 1 2 ok; submit 1 2 ok; +2h; send 1 1 ok; submit 1 1 ok; up; +1m",
		// Without servers only the caller of Submit needs a result: any number of such runs end.
		"submitted for nobody else": `alone; with maxunreported=3; send 2 101 ok; send 2 102 ok; send 2 103 ok; send 2 104 ok
			submit 1 1 ok; submit 1 2 ok; submit 1 3 ok; submit 1 4 ok; submit 1 1 ok; crash; submit 1 1 ok`,
		// A submitted run that a crash interrupted belongs to its caller, also after a second crash.
		"submitted again": "alone; submit 1 7 w; send 2 8 w; crash; +1s; crash; submit 1 7 w params=again; end 7",
	}, newStage)
}
