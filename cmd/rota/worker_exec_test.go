package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli/worker"
	"github.com/rotasched/rota/internal/limits"
)

func executing(command, payload string) (*worker.Execution, *bytes.Buffer) {
	stderr := &bytes.Buffer{}
	return &worker.Execution{Log: io.Discard, Command: command, Job: "j1", Typ: "t1", Attempt: 2,
		Token: rota.Token{Incarnation: 1,
			Counter: 9},
		Payload: []byte(payload), Stderr: stderr}, stderr
}

func TestExecution(t *testing.T) {
	t.Parallel()
	t.Run("payload_in_output_out", func(t *testing.T) {
		t.Parallel()
		e, _ := executing(`cat; echo " $ROTA_JOB_ID $ROTA_JOB_TYPE $ROTA_ATTEMPT $ROTA_LEASE_TOKEN"`, "hello")
		output, err := e.Run(t.Context())
		if err != nil || string(output) != "hello j1 t1 2 1.9\n" {
			t.Errorf("%q, %v", output, err)
		}
	})
	t.Run("75_declines", func(t *testing.T) {
		t.Parallel()
		e, _ := executing("echo not mine >&2; exit 75", "")
		_, err := e.Run(t.Context())
		if !errors.Is(err, worker.ErrDeclined) || !strings.Contains(err.Error(), "not mine") {
			t.Errorf("%v", err)
		}
	})
	t.Run("else_fails_with_the_last_of_stderr", func(t *testing.T) {
		t.Parallel()
		e, stderr := executing("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 3", "")
		_, err := e.Run(t.Context())
		if err == nil || errors.Is(err, worker.ErrDeclined) || !strings.Contains(err.Error(), "exit status 3") ||
			!strings.HasSuffix(err.Error(), "line 1999") || len(err.Error()) > limits.MaxErrorBytes {
			t.Errorf("%v", err)
		}
		if !strings.Contains(stderr.String(), "line 0\n") {
			t.Error("stderr is not passed on")
		}
	})
	t.Run("output_is_bounded", func(t *testing.T) {
		t.Parallel()
		e, _ := executing("head -c 300000 /dev/zero", "")
		if _, err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "262144") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a_command_that_reads_nothing", func(t *testing.T) {
		t.Parallel()
		e, _ := executing("true", strings.Repeat("x", rota.MaxPayloadBytes))
		if _, err := e.Run(t.Context()); err != nil {
			t.Errorf("%v", err)
		}
	})
}

// TestExecution_lost_lease ends the whole process group, the shell's children
// included.
func TestExecution_lost_lease(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(pidFile, 0o600); err != nil {
		t.Fatal(err)
	}
	e, _ := executing("sleep 300 & echo $! > "+pidFile+"; wait", "")
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("the lease is lost")
	done := make(chan error, 1)
	go func() {
		_, err := e.Run(ctx)
		done <- err
	}()
	text, err := os.ReadFile(pidFile) // waits for the command to write
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	cancel(lost)
	if err := <-done; !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > worker.ExecGrace { // SIGKILL comes then, and not before
		t.Errorf("it took %s to end a command that obeys SIGTERM", took)
	}
	if err := syscall.Kill(child, 0); err == nil {
		t.Error("the shell's child is still alive")
	}
}
