package localexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/executor"
)

// handle runs the command of a run.
func (c *Commands) handle(ctx context.Context, r *executor.Run) error {
	c.at.Add(1)
	defer c.at.Done()
	cmd, is := c.spec(r.ID)
	if !is {
		return errors.New("the command of the run is unknown")
	}
	as, err := c.o.Allowed.begin(&cmd)
	if err != nil {
		return err
	}
	most := cmd.MaxOutput
	if most == 0 {
		most = core.DefaultMaxOutput
	}
	out := &bounded{w: r.Output(), left: most}
	err = executor.Program{Path: "/bin/sh", Args: []string{"-c", cmd.Line, "sh"}, Dir: as.dir, Env: as.environment(cmd.Env),
		Prepare: func(x *exec.Cmd) {
			x.Stdout, x.Stderr = out, out
			as.become(x)
		}}.Handle(ctx, r)
	out.tell(r, most)
	return outcome(r, err)
}

// outcome has the run end with the exit code or the signal of its command.
func outcome(r *executor.Run, err error) error {
	var code interface{ ExitCode() int }
	var signal *exec.ExitError
	switch {
	case errors.As(err, &signal):
		if n, name := signalOf(signal.ProcessState); n > 0 {
			r.SetResult(executor.Outcome(bySignal+n), fmt.Sprintf("ended by signal %d (%s)", n, name))
			return nil
		}
	case errors.As(err, &code) && code.ExitCode() != executor.ExitSnooze && code.ExitCode() != executor.ExitCancel:
		n := executor.Outcome(code.ExitCode())
		if n == executor.Success {
			n = exit200
		}
		r.SetResult(n, fmt.Sprintf("exit code %d", code.ExitCode()))
		return nil
	}
	return err
}

// bounded passes on a number of bytes, and keeps the last of the others. It accepts all writes:
// a log must not end a command.
type bounded struct {
	mu   sync.Mutex
	w    io.Writer
	left int64
	over int64  // bytes that were not handed on
	last []byte // of those
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(b.left, int64(len(p)))
	if n > 0 {
		b.left -= n
		if _, err := b.w.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	if rest := p[n:]; len(rest) > 0 {
		b.over += int64(len(rest))
		if b.last = append(b.last, rest[max(0, len(rest)-tail/2):]...); len(b.last) > tail {
			b.last = append(b.last[:0], b.last[len(b.last)-tail/2:]...)
		}
	}
	return len(p), nil
}

// tell writes to the log how many bytes it lacks, and the last of them.
func (b *bounded) tell(r *executor.Run, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over == 0 {
		return
	}
	last := b.last[max(0, len(b.last)-tail/2):]
	_, _ = io.WriteString(b.w, "\n")
	r.Printf("---- cut: maxOutput is %d bytes, and the command wrote %d more; the last lines:", most, b.over)
	_, _ = b.w.Write(append(last, '\n'))
}
