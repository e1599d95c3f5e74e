package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, log, script string) *Process {
		t.Helper()
		p, err := Start("it", exec.Command("sh", "-c", script), log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	said := func(t *testing.T, p *Process, want string) {
		t.Helper()
		if err := Within(20*time.Second, func() error {
			if !strings.Contains(p.LastWords(10), want) {
				return errors.New(p.LastWords(10))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("ends_well", func(t *testing.T) {
		t.Parallel()
		p := start(t, "", `trap 'exit 0' TERM; echo ready >&2; while :; do sleep 0.01; done`)
		said(t, p, "ready")
		if err := p.Stop(20 * time.Second); err != nil || p.Running() || p.ExitCode() != 0 {
			t.Errorf("%v, exit code %d", err, p.ExitCode())
		}
	})
	t.Run("ends_otherwise", func(t *testing.T) {
		t.Parallel()
		log := filepath.Join(t.TempDir(), "log")
		p := start(t, log, `echo out; echo err >&2; exit 7`)
		if !p.Wait(20*time.Second) || p.ExitCode() != 7 || p.LastWords(2) != "out\nerr" {
			t.Errorf("exit code %d, last words %q", p.ExitCode(), p.LastWords(2))
		}
		if err := p.Stop(time.Second); err == nil || !strings.Contains(err.Error(), "exit status 7") {
			t.Errorf("stopped: %v", err)
		}
	})
	t.Run("its_children", func(t *testing.T) {
		t.Parallel()
		p := start(t, "", `(while :; do sleep 0.01; done) & echo "child $!" >&2; wait`)
		said(t, p, "child ")
		child, err := strconv.Atoi(strings.TrimPrefix(p.LastWords(1), "child "))
		if err != nil {
			t.Fatal(err)
		}
		p.KillAll()
		if err := Within(20*time.Second, func() error {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
			if err == nil && !strings.Contains(string(stat), ") Z ") { // its new parent may reap it late
				return fmt.Errorf("process %d runs on: %s", child, stat)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("does_not_end", func(t *testing.T) {
		t.Parallel()
		p := start(t, "", `trap '' TERM; echo ready >&2; while :; do sleep 0.01; done`)
		said(t, p, "ready")
		if err := p.Stop(time.Millisecond); err == nil || p.Running() {
			t.Errorf("%v, it runs: %v", err, p.Running())
		}
		if s := p.State().Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %s", p.State())
		}
	})
	t.Run("is_paused", func(t *testing.T) {
		t.Parallel()
		p := start(t, "", `while :; do sleep 0.01; done`)
		p.Pause()
		p.Kill()
		if p.Running() || p.Signal(syscall.SIGTERM) != nil {
			t.Error("a paused process does not die")
		}
	})
}

func TestFreeAddrs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 20 {
		a, err := FreeAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range []string{a.API, a.Raft, a.Admin, a.Gossip} {
			if seen[addr] {
				t.Errorf("%s occurs twice", addr)
			}
			seen[addr] = true
		}
	}
}

func TestUntil(t *testing.T) {
	t.Parallel()
	no, tries := errors.New("no"), 0
	if err := Until(t.Context(), func() error {
		if tries++; tries < 3 {
			return no
		}
		return nil
	}); err != nil || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
	if err := Until(t.Context(), func() error { return Final(no) }); err != no {
		t.Errorf("a final error is returned as %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Until(ended, func() error { return no }); !errors.Is(err, no) || !errors.Is(err, context.Canceled) {
		t.Errorf("late: %v", err)
	}
}

// A node that ends before it is ready gives the reason at once.
func TestNode_endsBeforeItServes(t *testing.T) {
	t.Parallel()
	n, err := NewNode("n1", t.TempDir(), "sh", "-c", "echo broken >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.AwaitReady(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
	if err := n.Start(); err != nil {
		t.Errorf("it does not start again: %v", err)
	}
	n.Kill()
}

func TestLedger(t *testing.T) {
	t.Parallel()
	l, tries := NewLedger(), 0
	l.Answered(t.Context(), time.Minute, func(context.Context) error {
		switch tries++; tries {
		case 1:
			return rota.Refusef(rota.KindUnavailable, "", "no leader")
		case 2:
			return rota.Refusef(rota.KindConflict, "", "other")
		}
		return nil
	}, "a", "b")
	if l.Count() != 2 || len(l.Refused()) != 1 || len(l.Accepted()) != 2 || l.Accepted()[1] != "b" {
		t.Errorf("%d accepted, %v refused", l.Count(), l.Refused())
	}
	l.Allow(func(err error) bool { return rota.KindOf(err) == rota.KindConflict })
	l.Refuse(rota.Refusef(rota.KindConflict, "", "other"))
	if len(l.Refused()) != 1 {
		t.Errorf("an allowed refusal is kept: %v", l.Refused())
	}
	if gap := l.Gap(time.Now()); gap != 0 {
		t.Errorf("nothing was accepted since, with a gap of %s", gap)
	}
}
