package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ByDefault is whether a worker has a guard unless configured otherwise.
const ByDefault = true

// workerFD is the worker's end of the pipe: the first file after the standard ones.
const workerFD = 3

// Run runs the same command again as a child, the worker, and watches it: when the worker dies it kills all remaining
// processes, waits until they have ended, and reports to the cluster, which then need not wait for the worker's silence
// (SPEC §16.7). It returns the worker's exit code, in the form of a shell; the worker has reported its error itself.
// ran is false if this system has no means for a guard: then the worker runs without one.
//
// The guard is the subreaper of all processes that the worker starts: any of them that loses its parent, including a
// daemon, becomes the guard's child, and none is left once wait4 knows of no child.
func (g *Guard) Run(ctx context.Context) (code int, ran bool, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		g.Talk("no guard: this process cannot take in what a worker leaves: %v", err)
		return 0, false, nil
	}
	ours, theirs, err := pipes()
	if err != nil {
		return 0, true, fmt.Errorf("make a pipe to the worker: %w", err)
	}
	defer ours.Close()
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) { // as SIGHUP is under nohup: the worker ignores it too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	// Ctrl-Z would stop the guard alone, and a stopped worker would lose its leases.
	stops := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(stops, syscall.SIGTSTP)
	}
	defer signal.Stop(stops)
	worker, err := startAgain(&os.ProcAttr{
		Env:   append(os.Environ(), env+"="+strconv.Itoa(workerFD)),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs},
		// A group of its own: a signal from the terminal arrives once, through the guard.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	_ = theirs.Close()
	if err != nil {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		g.Talk("no guard: the worker cannot be started as its child: %v", err)
		return 0, false, nil
	}
	who, pid := learn(ours), worker.Pid
	reaped := reap()
	asked := false // a caller waits for the end of all processes
	for {
		select {
		case s := <-signals:
			asked = true
			_ = worker.Signal(s)
		case <-stops:
			g.Talk("guard: the worker continues, as it would lose its leases if stopped; Ctrl-C drains it")
		case child := <-reaped:
			if child.pid != pid {
				continue // an orphan of a command that has ended
			}
			g.clear(context.WithoutCancel(ctx), child.status, reaped, who, signals, asked)
			return child.exit(), true, nil
		}
	}
}

// startAgain starts this program with its own arguments: by its path, so that people find the process by its name, or,
// if that path no longer exists, from the running image.
func startAgain(attr *os.ProcAttr) (*os.Process, error) {
	if path, err := os.Executable(); err == nil {
		if p, err := os.StartProcess(path, os.Args, attr); err == nil {
			return p, nil
		}
	}
	return os.StartProcess("/proc/self/exe", os.Args, attr)
}

// reapedChild is a child that has ended, and how.
type reapedChild struct {
	pid    int
	status syscall.WaitStatus
}

// exit returns the worker's exit code, in the form of a shell.
func (c reapedChild) exit() int {
	if c.status.Signaled() {
		return 128 + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// reap waits for children, its own and inherited ones, until there are none; then it closes the channel.
func reap() <-chan reapedChild {
	ended := make(chan reapedChild)
	go func() {
		defer close(ended)
		for {
			var c reapedChild
			var err error
			if c.pid, err = syscall.Wait4(-1, &c.status, 0, nil); err == nil {
				ended <- c
			} else if !errors.Is(err, syscall.EINTR) {
				return // ECHILD: nothing is left
			}
		}
	}()
	return ended
}

// clear ends the processes that a dead worker left, then reports to the cluster. A worker that ended well has given
// back all its leases, and may have left processes running on purpose. For a worker that was asked to end, and gave up
// on the cluster, the guard tries for a shorter time.
func (g *Guard) clear(ctx context.Context, status syscall.WaitStatus, reaped <-chan reapedChild, l *learned,
	signals <-chan os.Signal,
	asked bool,
) {
	if status.Exited() && status.ExitStatus() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxGone)
	defer cancel()
	killed, err := killAll(ctx, reaped)
	if err != nil {
		g.Talk("guard: the worker has ended (%s), but not all that it left: %v: its leases end by its silence",
			ended(status), err)
		return
	}
	<-l.done // the last process that had the other end has ended
	if l.last.Session == 0 {
		return // it was never a worker of the cluster
	}
	g.Talk("guard: the worker has ended (%s); ended %d processes that it left", ended(status), killed)
	go func() { // a second signal ends the wait
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	if asked && status.Exited() {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, goneAsked)
		defer done()
	}
	g.Gone(ctx, l.last)
}

func ended(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// killAll kills every descendant, waits for its end, and counts them. A process changes parents before its old parent
// is reaped, so a search after each reaping finds it.
func killAll(ctx context.Context, reaped <-chan reapedChild) (killed int, err error) {
	for {
		left, err := descendants(os.Getpid())
		if err != nil {
			return killed, err
		}
		for _, pid := range left {
			// A process that it may not kill, such as one under sudo, is waited for.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case _, more := <-reaped:
			if !more {
				return killed, nil
			}
			killed++
		case <-ctx.Done():
			return killed, fmt.Errorf("processes %v do not end", left)
		}
	}
}

// pipes returns both ends of a pipe that is readable and writable at each end, so that each side notices the other's
// end.
func pipes() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "pipe to the worker"), os.NewFile(uintptr(fds[1]), "pipe to the guard"), nil
}

// take opens the worker's end from its guard and hides it from its children.
func take(fd int) (io.ReadWriteCloser, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errors.New("it is not a pipe to a guard")
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "pipe to the guard"), nil
}
