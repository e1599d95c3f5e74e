package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli/worker"
)

// The outcome that a command writes to $ROTA_OUTCOME decides on its job, if the command fails.
func TestWorker_outcomes(t *testing.T) {
	t.Parallel()
	cluster := running(t, "dev", "--nodes", "1", "--data", t.TempDir())
	if !cluster.Scan() || !strings.HasPrefix(cluster.Text(), "ready addr=") {
		t.Fatalf("the cluster's first line is %q", cluster.Text())
	}
	addr := strings.TrimPrefix(cluster.Text(), "ready addr=")
	c, err := client.Dial(strings.Split(addr, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.SetQueue(t.Context(), "q", "", []rota.Setting{{Key: "attempt_max", Value: "2"},
		{Key: "backoff_base_ms", Value: "0"}}); err != nil {
		t.Fatal(err)
	}
	running(t, "worker", "run", "--addr", addr, "--queues", "q", "--slots", "4", "--guard=false", "--exec",
		`cat >"$ROTA_OUTCOME"; echo said >&2; exit $((ROTA_ATTEMPT + 1))`)
	spends := rota.NewJobSpec("work", []byte("cost model 7312\ncost usd 0.25\ncost model 7313\nno-retry\n"))
	spends.ID, spends.Queue = "spends", "q"
	if _, err := c.Submit(t.Context(), spends); err != nil {
		t.Fatal(err)
	}
	for j, err := range c.Wait(t.Context(), "spends") {
		if err != nil || j.Spent.String() != "model=7313,usd=0.25" || j.State != rota.JobDead {
			t.Errorf("%v: %s spent %s", err, j.State, j.Spent)
		}
	}
	for id, want := range map[rota.JobID]struct {
		says  string
		state rota.JobState
		end   rota.Reason
		text  string
		tries int
	}{
		"nothing":  {"", rota.JobDead, rota.ReasonProviderFail, "command: exit status 2: said", 2},
		"for-good": {"no-retry\n", rota.JobDead, rota.ReasonProviderFail, "command: exit status 1: said", 1},
		"enough":   {"cancel", rota.JobCancelled, rota.ReasonCancelledByHandler, "command: exit status 1: said", 1},
		"later":    {"retry-after 1ms", rota.JobDead, rota.ReasonProviderFail, "command: exit status 2: said", 2},
		"unknown":  {"later, perhaps", rota.JobDead, rota.ReasonProviderFail, "use retry-after", 2},
	} {
		spec := rota.NewJobSpec("work", []byte(want.says))
		spec.ID, spec.Queue = id, "q"
		if _, err := c.Submit(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		for j, err := range c.Wait(t.Context(), id) {
			if err != nil || j.State != want.state || j.Reason != want.end || !strings.Contains(j.Error, want.text) ||
				len(j.Attempts) != want.tries {
				t.Errorf("%s: %v: %s %s %q after %d attempts", id, err, j.State, j.Reason, j.Error, len(j.Attempts))
			}
		}
	}
}

// Each line requests one outcome; output without a request leaves the failure as it is.
func TestAsking(t *testing.T) {
	t.Parallel()
	failed := errors.New("exit status 9")
	for line, want := range map[string]string{
		"": "exit status 9", "no-retry": "exit status 9", "cancel": "exit status 9", "retry-after 5m": "exit status 9",
		"snooze 30s": "exit status 9: put off",
		"snooze":     `exit status 9; $ROTA_OUTCOME has "snooze": `, "snooze -1s": `has "snooze -1s"`,
		"retry-after soon": `has "retry-after soon"`,
		"no-retry 5m":      `has "no-retry 5m"`, "maybe": `has "maybe"`, strings.Repeat("x", 300): `has "xxx`,
	} {
		if err := worker.Asking(line, failed); !errors.Is(err, failed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", line, err)
		}
	}
}
