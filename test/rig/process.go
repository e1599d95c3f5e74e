package rig

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is one run of a program. Its methods are safe for concurrent use.
type Process struct {
	// Name is its name in errors.
	Name string
	// Stdout and Stderr are its output, unless that goes elsewhere.
	Stdout, Stderr *Output

	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// Start starts a command, which ends with this program however this one ends. If log is not empty, the output is
// appended to that file; otherwise it is kept in Stdout and Stderr. Outputs and attributes already set in the command
// are left as they are.
func Start(name string, cmd *exec.Cmd, log string) (*Process, error) {
	p := &Process{Name: name, Stdout: &Output{}, Stderr: &Output{}, cmd: cmd, log: log, ended: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = Attributes()
	}
	var stdout, stderr io.Writer = p.Stdout, p.Stderr
	if log != "" {
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close() // the process has its own
		stdout, stderr = f, f
	}
	if cmd.Stdout == nil {
		cmd.Stdout = stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = stderr
	}
	// Children that it leaves may hold its output open.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID returns its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended returns a channel that is closed once it has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// State returns how it ended; nil while it runs.
func (p *Process) State() *os.ProcessState {
	if p.Running() {
		return nil
	}
	return p.cmd.ProcessState
}

// ExitCode returns its exit code, -1 while it runs and after a signal.
func (p *Process) ExitCode() int {
	if p.Running() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Running reports whether it has not ended; a paused process counts as running.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal, unless it has ended.
func (p *Process) Signal(s syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	return p.cmd.Process.Signal(s)
}

// Kill sends SIGKILL and waits for the end; a paused process dies too.
func (p *Process) Kill() {
	if p.Running() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// KillAll kills the process and those that it started, as servers do that are scripts or have workers of their own.
func (p *Process) KillAll() {
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // Attributes gives it a group
	p.Kill()
}

// Pause stops the process with SIGSTOP.
func (p *Process) Pause() { _ = p.Signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (p *Process) Resume() { _ = p.Signal(syscall.SIGCONT) }

// Wait waits for the end and reports whether it came in time.
func (p *Process) Wait(most time.Duration) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-p.ended:
		return true
	case <-late.C:
		return !p.Running()
	}
}

// Stop sends SIGTERM and waits for the end, which must be clean. A process that does not end in time is killed.
func (p *Process) Stop(most time.Duration) error {
	if !p.Running() {
		return p.endedWell()
	}
	_ = p.Signal(syscall.SIGTERM)
	if !p.Wait(most) {
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM: %s", p.Name, most, p.LastWords(lastLines))
	}
	return p.endedWell()
}

func (p *Process) endedWell() error {
	if p.ExitCode() != 0 {
		return fmt.Errorf("%s ended with %s: %s", p.Name, p.State(), p.LastWords(lastLines))
	}
	return nil
}

// lastLines is how many lines of its log an error includes.
const lastLines = 10

// LastWords returns the last lines that it wrote to its log, or to Stderr.
func (p *Process) LastWords(lines int) string {
	text := p.Stderr.String()
	if p.log != "" {
		b, _ := os.ReadFile(p.log)
		text = string(b)
	}
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
