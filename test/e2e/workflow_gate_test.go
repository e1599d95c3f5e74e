package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// killLeader kills the leader and returns its node.
func (c *nodes) killLeader(t testing.TB) *node {
	t.Helper()
	leader := c.leader(t)
	leader.Kill()
	return leader
}

// TestWorkflowGatesLeaderKilled signals gates, early, twice and with other payloads, while leaders die: one signal
// counts, and the nodes after it run once.
func TestWorkflowGatesLeaderKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	flowQueue(t, c, "gates")
	const gated = `
nodes:
  - {id: build, type: hold, payload: HOLD}
  - {id: ok, parents: [build], gate: {}}
  - {id: after, type: print, parents: [ok]}`
	hold := filepath.Join(t.TempDir(), "hold")
	c.worker(t, "--queues", "gates", "--slots", "8", "--exec", `case $ROTA_JOB_TYPE in
		hold) f=$(cat); [ -z "$f" ] || until [ -e "$f" ]; do sleep 0.1; done;;
		*) cat "$ROTA_PARENTS"/*;; esac`)
	signal := func(id string, code int, more ...string) {
		t.Helper()
		c.rota(t, append([]string{"workflow", "signal", id, "ok", "--timeout", "60s"}, more...)...).want(t, code)
	}
	back := func(n *node) {
		t.Helper()
		n.start(t)
		c.awaitReady()
	}
	// Early: the signal counts before build has completed, whichever leader sees that.
	c.submitFlow(t, "gates", "early", strings.ReplaceAll(gated, "HOLD", hold)).want(t, 0)
	signal("early", 0, "--id", "s1", "--payload", "yes")
	dead := c.killLeader(t)
	signal("early", 0, "--id", "s1", "--payload", "yes") // the same once more
	signal("early", 4, "--id", "s1", "--payload", "no")  // the id with another payload
	signal("early", 4, "--id", "s2", "--payload", "yes") // another signal
	signal("early", 4, "--refuse")
	check(t, os.WriteFile(hold, nil, 0o600))
	_, nodes := c.awaitFlow(t, "early", 0)
	states(t, nodes, "build:COMPLETED ok:COMPLETED after:COMPLETED")
	if out := string(c.job(t, "early/after").Output); out != "yes" {
		t.Errorf("the node after the gate saw %q", out)
	}
	back(dead)
	// The leader dies between the signal and the release of the next nodes.
	for i := range 3 {
		id := fmt.Sprint("kill-", i)
		c.submitFlow(t, "gates", id, strings.ReplaceAll(gated, "HOLD", `""`)).want(t, 0)
		c.awaitGate(t, id+"/ok")
		leader := c.leader(t)
		signal(id, 0, "--id", "s", "--payload", id)
		leader.Kill()
		_, nodes := c.awaitFlow(t, id, 0)
		if n := nodes["after"]; n.Attempt != 0 || string(c.job(t, id+"/after").Output) != id {
			t.Errorf("%s: %+v", id, n)
		}
		signal(id, 0, "--id", "s", "--payload", id) // its end does not change that
		signal(id, 4, "--id", "t")
		back(leader)
	}
	// A refusal survives its leader.
	c.submitFlow(t, "gates", "refused", strings.ReplaceAll(gated, "HOLD", `""`)).want(t, 0)
	signal("refused", 0, "--refuse", "--id", "s", "--payload", "not on a Friday")
	dead = c.killLeader(t)
	w, nodes := c.awaitFlow(t, "refused", 6)
	states(t, nodes, "build:COMPLETED ok:DEAD after:CANCELLED")
	if job := c.job(t, "refused/ok"); w.FailedNode != "ok" || job.Reason != rota.ReasonGateRefused ||
		job.Error != "not on a Friday" {
		t.Errorf("%q failed: %s %q", w.FailedNode, job.Reason, job.Error)
	}
	signal("refused", 4, "--id", "t") // it is over
	signal("refused", 2, "--id", "t/u")
	c.rota(t, "workflow", "signal", "refused", "build").want(t, 2)
	c.rota(t, "workflow", "signal", "refused", "nowhere").want(t, 3)
	c.rota(t, "workflow", "signal", "nowhere", "ok").want(t, 3)
	back(dead)
	if told := c.rota(t, "events", "tail", "--kind", "gateSignalled", "-o", "jsonl").want(t,
		0).stdout; strings.Count(told, "\n") != 5 {
		t.Errorf("five signals counted, the events are:\n%s", told)
	}
	c.verified(t, 3)
}

// awaitGate waits until a gate waits for its signal.
func (c *nodes) awaitGate(t *testing.T, id string) {
	t.Helper()
	eventually(t, 30*time.Second, id+" waits for its signal", func() error {
		if r := c.rota(t, "job", "why", id); !strings.Contains(r.stdout, "WAITING_FOR_SIGNAL") {
			return fmt.Errorf("%s%s", r.stdout, r.stderr)
		}
		return nil
	})
}

// TestWorkflowGateTimeoutLeaderDead lets the date of gates pass while there is no leader, and while no node runs at
// all.
func TestWorkflowGateTimeoutLeaderDead(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	flowQueue(t, c, "late")
	const text = `{"nodes": [{"id": "ok", "gate": {"timeout_ms": %d, "on_timeout": %q}}, {"id": "after", "type": "x", "parents": ["ok"]}]}`
	submit := func(id, becomes string) {
		c.submitFlow(t, "late", id, fmt.Sprintf(text, 4000, becomes)).want(t, 0)
		c.awaitGate(t, id+"/ok")
	}
	submit("expires", "expire")
	dead := c.killLeader(t)
	w, nodes := c.awaitFlow(t, "expires", 6)
	states(t, nodes, "ok:EXPIRED after:CANCELLED")
	if w.Reason != rota.ReasonGateTimeout || w.FailedNode != "ok" {
		t.Errorf("%s, %q", w.Reason, w.FailedNode)
	}
	dead.start(t)
	c.awaitReady()
	submit("completes", "complete")
	for _, n := range c.all {
		n.Kill()
	}
	time.Sleep(5 * time.Second) // beyond the date
	for _, n := range c.all {
		n.start(t)
	}
	c.awaitReady()
	job := c.awaitState(t, c.dial(t), "completes/ok", 60*time.Second, rota.JobCompleted)
	if job.Reason != rota.ReasonGateTimeout || len(job.Output) != 0 {
		t.Errorf("%s, output %q", job.Reason, job.Output)
	}
	c.awaitState(t, c.dial(t), "completes/after", 30*time.Second, rota.JobQueued)
	c.rota(t, "workflow", "signal", "completes", "ok").want(t, 4)
	c.verified(t, 3)
}
