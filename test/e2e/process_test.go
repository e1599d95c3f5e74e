package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// environment is what every process gets: nothing of ours but where things are.
func environment(more ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "TMPDIR=" + os.TempDir()}
	return append(env, more...)
}

// transcript is what a process wrote, safe to read while it writes.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// process is a long-lived process of this test.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdout transcript
	stderr transcript
	exited chan struct{}
	code   int // valid once exited is closed; -1 after a signal
}

// launch starts the binary and sees to its end with the test.
func launch(t testing.TB, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{name: name, exited: make(chan struct{})}
	p.cmd = exec.Command(rotaBinary, args...)
	p.cmd.Env = environment(env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = goesWithUs()
	// Children of --exec may hold the pipes open beyond the process.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s (rota %s), exit code %d\nstdout: %s\nstderr: %s", name, strings.Join(args, " "), p.code,
				clip(p.stdout.String()), clip(p.stderr.String()))
		}
	})
	return p
}

// signal sends a signal, unless the process is gone already.
func (p *process) signal(sig syscall.Signal) {
	if p.running() {
		_ = p.cmd.Process.Signal(sig)
	}
}

// kill is SIGKILL and the wait for it; a stopped process dies of it too.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

func (p *process) pause()  { p.signal(syscall.SIGSTOP) }
func (p *process) resume() { p.signal(syscall.SIGCONT) }

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// end waits for the process to end by itself and gives its exit code.
func (p *process) end(t testing.TB, most time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(most):
		t.Fatalf("%s has not ended within %s", p.name, most)
	}
	return p.code
}

// stop is SIGTERM and the wait for the end, which must be a proper one.
func (p *process) stop(t testing.TB, most time.Duration) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.end(t, most); code != 0 {
		t.Errorf("%s ended with exit code %d after SIGTERM, 0 is wanted", p.name, code)
	}
}

// says waits for a text on stderr.
func (p *process) says(t testing.TB, most time.Duration, text string) {
	t.Helper()
	eventually(t, most, p.name+" says "+text, func() error {
		if strings.Contains(p.stderr.String(), text) {
			return nil
		}
		return errors.New("it does not")
	})
}

// result is a command that ended.
type result struct {
	args           []string
	code           int
	stdout, stderr string
	took           time.Duration
}

// hung bounds every command: beyond it the product hangs.
const hung = 100 * time.Second

// command runs the binary to its end.
func command(t testing.TB, env []string, stdin string, args ...string) *result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, rotaBinary, args...)
	cmd.Env = environment(env...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = goesWithUs()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("rota %s: %v (%v)", strings.Join(args, " "), err, ctx.Err())
	}
	return &result{args, cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
}

// want fails the test where the exit code is another one.
func (r *result) want(t testing.TB, code int) *result {
	t.Helper()
	if r.code != code {
		t.Fatalf("rota %s: exit code %d, %d is wanted\nstdout: %s\nstderr: %s", clip(strings.Join(r.args, " ")),
			r.code, code, clip(r.stdout), clip(r.stderr))
	}
	return r
}
