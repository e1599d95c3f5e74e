package serve

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/rotasched/rota/internal/cli"
	"github.com/spf13/pflag"
)

// inBackground runs `dev` with the same flags as a process of its own and returns once
// that serves. Its log goes to a file: a pipe would break when this process ends.
func (a DevCommands) inBackground(ctx context.Context, given *pflag.FlagSet) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.CreateTemp("", "rota-dev-*.log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, "dev")
	given.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "background" {
			cmd.Args = append(cmd.Args, "--"+f.Name+"="+f.Value.String())
		}
	})
	// What the environment or a file set is among the flags.
	cmd.Env = withoutPrefix(a.Environ, cli.EnvPrefix)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	line := make(chan string, 1)
	go func() {
		var text bytes.Buffer
		one := make([]byte, 256)
		for !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
			n, err := out.Read(one)
			text.Write(one[:n])
			if err != nil {
				break
			}
		}
		line <- text.String()
	}()
	select {
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		return ctx.Err()
	case said := <-line:
		addrs, ready := strings.CutPrefix(strings.TrimSpace(said), "ready addr=")
		if !ready {
			return a.notInBackground(cmd, log.Name())
		}
		a.relayMoves(log.Name())
		first, _, _ := strings.Cut(addrs, ",")
		a.Talk("console: http://%s/ui/", first)
		a.Talk("a cluster in process %d, its log in %s; end it with: kill %d", cmd.Process.Pid, log.Name(),
			cmd.Process.Pid)
		_, err := fmt.Fprintf(a.Stdout, "export ROTA_ADDR=%s ROTA_DEV_PID=%d\n", addrs, cmd.Process.Pid)
		return err
	}
}

// relayMoves says here what the cluster told its log of addresses that were taken: a
// command in another shell would look for it there.
func (a DevCommands) relayMoves(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return // the cluster serves, and says where
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, takenText) {
			a.Talk("%s", strings.TrimSpace(line))
		}
	}
}

// notInBackground reports a cluster that ended before it served, in its own words.
func (a DevCommands) notInBackground(cmd *exec.Cmd, path string) error {
	_ = cmd.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_ = os.Remove(path)
	said := strings.TrimPrefix(strings.TrimSpace(string(text)), "rota: ")
	return &cli.CodedError{Code: max(cmd.ProcessState.ExitCode(), cli.ExitFailed), Err: fmt.Errorf("%s", said)}
}

// withoutPrefix leaves out variables whose names begin so.
func withoutPrefix(environ []string, prefix string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, prefix) {
			kept = append(kept, v)
		}
	}
	return kept
}
