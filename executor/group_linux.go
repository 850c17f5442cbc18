package executor

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithUs makes the kernel kill the process when this one dies for any reason. Processes that the program started
// continue, and are ended at the next start. The kernel watches the thread that started the program, so that thread must
// stay.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }

// world identifies this boot of the machine and this container: in another one no process of ours is left.
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

// process is the state of a process in /proc.
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
	// The name, in brackets, may contain any characters.
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
	return group{Pid: pid, Session: p.session, Mark: w + " " + p.began}, ok && w != ""
}

// kill kills the group and returns false if no process of it is left. While a group has processes, no new process gets its
// number: if the first process is another one now, the group has ended. If the first process is gone, number and session
// identify the others.
func (g group) kill() bool {
	began, here := strings.CutPrefix(g.Mark, world()+" ")
	if !here {
		return false
	}
	if p, ok := processOf(strconv.Itoa(g.Pid)); ok && p.began != began {
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
		if p, ok := processOf(name); ok && p.group == g.Pid && p.session == g.Session && p.state != 'Z' && p.state != 'X' {
			_ = syscall.Kill(-g.Pid, syscall.SIGKILL) // endGroups checks whether they ended
			return true
		}
	}
	return false
}
