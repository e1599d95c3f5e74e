package e2e

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// process is a long-lived process of this test.
type process struct{ *rig.Process }

// launch starts the binary and ends it with the test.
func launch(t testing.TB, name string, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(rotaBinary, args...)
	cmd.Env = rig.Bare(env...)
	started, err := rig.Start(name, cmd, "")
	check(t, err)
	return watched(t, started, args)
}

// watched ends a process with the test.
func watched(t testing.TB, started *rig.Process, args []string) *process {
	t.Helper()
	t.Cleanup(func() {
		started.Kill()
		if t.Failed() {
			t.Logf("%s (rota %s), exit code %d\nstdout: %s\nstderr: %s", started.Name, strings.Join(args, " "),
				started.ExitCode(), clip(started.Stdout.String()), clip(started.Stderr.String()))
		}
	})
	return &process{started}
}

// end waits for the process to end by itself and returns its exit code.
func (p *process) end(t testing.TB, most time.Duration) int {
	t.Helper()
	if !p.Wait(most) {
		t.Fatalf("%s has not ended within %s", p.Name, most)
	}
	return p.ExitCode()
}

// stop sends SIGTERM and waits for the end, which must be a proper one.
func (p *process) stop(t testing.TB, most time.Duration) {
	t.Helper()
	if err := p.Stop(most); err != nil {
		t.Error(err)
	}
}

// says waits for a text on stderr.
func (p *process) says(t testing.TB, most time.Duration, text string) {
	t.Helper()
	eventually(t, most, p.Name+" prints "+text, func() error {
		if strings.Contains(p.Stderr.String(), text) {
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
	cmd.Env = rig.Bare(env...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = rig.Attributes()
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

// want fails the test if the exit code differs.
func (r *result) want(t testing.TB, code int) *result {
	t.Helper()
	if r.code != code {
		t.Fatalf("rota %s: exit code %d, want %d\nstdout: %s\nstderr: %s", clip(strings.Join(r.args, " ")),
			r.code, code, clip(r.stdout), clip(r.stderr))
	}
	return r
}
