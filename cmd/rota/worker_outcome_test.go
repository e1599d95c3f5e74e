package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
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
	sumsCosts(t, c, addr)
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

// sumsCosts runs jobs that report costs, some of them thousands of times, and sums them by `rota cost`.
func sumsCosts(t *testing.T, c *client.Client, addr string) {
	t.Helper()
	spends := rota.NewJobSpec("work", []byte("cost model 7312\ncost usd 0.25\ncost model 7313\nno-retry\n"))
	spends.ID, spends.Queue, spends.Keys = "spends", "q", []string{"model:opus", "host:a"}
	usd := rota.Budget{Name: "usd", Key: "model", Unit: "usd", Limit: rota.CostUnit, Each: rota.EachKey}
	if _, err := c.Budgets().Set(t.Context(), usd); err != nil {
		t.Fatal(err)
	}
	all := rota.Budget{Name: "all", Queue: "q", Unit: "model", Limit: rota.MaxCost}
	if _, err := c.Budgets().Set(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(t.Context(), spends); err != nil {
		t.Fatal(err)
	}
	for j, err := range c.Wait(t.Context(), "spends") {
		if err != nil || j.Spent.String() != "model=7313,usd=0.25" || j.State != rota.JobDead {
			t.Errorf("%v: %s spent %s", err, j.State, j.Spent)
		}
	}
	var long strings.Builder
	for i := range 4_000 {
		fmt.Fprintf(&long, "cost model %d\n", i)
	}
	spends = rota.NewJobSpec("other", []byte(long.String()+"no-retry"))
	spends.ID, spends.Queue, spends.Labels = "spends-long", "q", map[string]string{"team": "a"}
	if _, err := c.Submit(t.Context(), spends); err != nil {
		t.Fatal(err)
	}
	for j, err := range c.Wait(t.Context(), "spends-long") {
		if err != nil || j.Spent.String() != "model=3999" || j.State != rota.JobDead {
			t.Errorf("%v: %s spent %s: %s", err, j.State, j.Spent, j.Error)
		}
	}
	for line, want := range map[string]string{
		"cost --by type":                         "other,model,3999,1 work,model,7313,1 work,usd,0.25,1",
		"cost --by label.team,state":             ",DEAD,model,7313,1 a,DEAD,model,3999,1 ,DEAD,usd,0.25,1",
		"cost --filter type=work":                "model,7313,1 usd,0.25,1",
		"cost --since 1ms":                       "",
		"cost --by key --filter type=work":       "model:opus,host:a,model,7313,1 model:opus,host:a,usd,0.25,1",
		"budget show usd --by key,type":          "model:opus,work,usd,0.25,1",
		"budget show usd --by type --of model:x": "",
		"budget show all --by type":              "other,model,3999,1 work,model,7313,1",
		"budget show all --by state --jobs 1":    "DEAD,model,3999,1",
		"cost --by day --filter label.team=none": "",
	} {
		var out strings.Builder
		a := &cli.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard}
		root := rootCommand(a)
		root.SetArgs(append(strings.Fields(line), "--addr", addr, "-o", "json"))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var got struct{ Costs []cli.CostSum }
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
			t.Fatal(err, out.String())
		}
		var sums []string
		for _, s := range got.Costs {
			sums = append(sums, strings.Join(append(s.Group, s.Name, s.Spent.String(), fmt.Sprint(s.Jobs)), ","))
		}
		if text := strings.Join(sums, " "); text != want {
			t.Errorf("%s: %s, want %s", line, text, want)
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
