package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// TestMain plays the other roles: nodes' networks and workers are this program again, in the test's binary as well as
// in the real one.
func TestMain(m *testing.M) {
	if os.Getenv(fault.RoleKey) != "" || os.Getenv("ROTA_CHAOS_MAIN") != "" {
		_ = os.Unsetenv("ROTA_CHAOS_MAIN")
		os.Exit(program(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// TestChaos is a real run, as long as ROTA_CHAOS specifies (such as 60s), with the seed ROTA_CHAOS_SEED. Without
// ROTA_CHAOS it is not run. With an odd seed the cluster is locked.
func TestChaos(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("ROTA_CHAOS"))
	if err != nil {
		t.Skip("ROTA_CHAOS must be a duration such as 60s")
	}
	torments(t, duration, fmt.Sprintf("--locked=%t", seed(t)%2 == 1), "--recover")
}

// TestContainers is a run in containers, as long as ROTA_CHAOS_DOCKER specifies.
func TestContainers(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("ROTA_CHAOS_DOCKER"))
	if err != nil {
		t.Skip("ROTA_CHAOS_DOCKER must be a duration such as 60s")
	}
	if _, err := fault.CanUseContainers(); err != nil {
		t.Skipf("nothing was run in containers: %v", err)
	}
	torments(t, duration, "--via", fault.ViaDocker)
}

// seed returns ROTA_CHAOS_SEED, 1 if that is not set.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("ROTA_CHAOS_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("ROTA_CHAOS_SEED: %v", err)
	}
	return seed
}

// torments makes a run and fails with its findings.
func torments(t *testing.T, duration time.Duration, options ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(options, "--duration", duration.String(), "--seed", strconv.FormatUint(seed(t), 10), "-o", "json")
	if binary := os.Getenv("ROTA_CHAOS_BINARY"); binary != "" {
		args = append(args, "--rota", binary)
	}
	var out, talk bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "ROTA_CHAOS_MAIN=1")
	cmd.Stdout, cmd.Stderr = &out, &talk
	failed := cmd.Run()
	var verdict check.Verdict
	if err := json.Unmarshal(out.Bytes(), &verdict); err != nil {
		t.Fatalf("no verdict: %v; %v: %s", err, failed, talk.String())
	}
	t.Logf("seed %d: %d operations, %d faults, network %s, report %s", verdict.Seed, verdict.Operations,
		verdict.Faults, verdict.Network, verdict.Report)
	for _, a := range verdict.Anomalies {
		t.Errorf("%s: %s %v", a.Checker, a.Text, a.IDs)
	}
	if failed != nil && verdict.Violations == 0 {
		t.Errorf("the run failed: %v: %s", failed, talk.String())
	}
}
