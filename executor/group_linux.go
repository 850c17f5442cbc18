package executor

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithUs has the process killed when this one is, by whatever: what it
// started itself goes on, and is ended at the next start. The kernel minds the
// thread that started it: it must not end before.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }

// world is this boot of the machine and this container: in another one no
// process of ours is left.
func world() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}

// process is what /proc says of one.
type process struct {
	state          byte
	group, session int
	began          string // ticks since the machine began
}

func processOf(pid string) (process, bool) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name, in brackets, may hold anything.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return process{}, false
	}
	p := process{state: f[0][0], began: f[19]}
	var errs [2]error
	p.group, errs[0] = strconv.Atoi(f[2])
	p.session, errs[1] = strconv.Atoi(f[3])
	return p, errs[0] == nil && errs[1] == nil
}

// groupOf is the group that a process that was just started leads.
func groupOf(pid int) (group, bool) {
	p, ok := processOf(strconv.Itoa(pid))
	w := world()
	return group{pid: pid, session: p.session, mark: w + " " + p.began}, ok && w != ""
}

// kill kills the group; false: nobody of it is left. While a group has
// somebody no new process gets its number: if its first process is another one
// now, the group has ended. Where that is gone the others are known by number
// and session.
func (g group) kill() bool {
	began, here := strings.CutPrefix(g.mark, world()+" ")
	if !here {
		return false
	}
	if p, ok := processOf(strconv.Itoa(g.pid)); ok && p.began != began {
		return false
	}
	d, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return false
	}
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if p, ok := processOf(name); ok && p.group == g.pid && p.session == g.session && p.state != 'Z' && p.state != 'X' {
			_ = syscall.Kill(-g.pid, syscall.SIGKILL) // whether they ended is looked at
			return true
		}
	}
	return false
}
