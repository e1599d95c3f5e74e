package e2e

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// TestWhyOverTheWire is `rota job why` on three processes: its exit codes, its
// JSON, every kind of reason, and the past, the same from each node.
func TestWhyOverTheWire(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	cl := c.dial(t)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes, *client.Client)
	}{
		{"no_worker", whyNoWorker}, {"capability_missing_on_some", whyCapability}, {"tenant_at_its_limit", whyTenant},
		{"behind_higher_rank", whyRank}, {"held_for_another_job", whyHeld}, {"not_yet_due", whyDue},
		{"placed_among_others_and_terminal", whyPlaced}, {"the_past_from_every_node", whyPast},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(t, c, cl) })
	}
	c.rota(t, "job", "why", "no-such-job").want(t, 3)
	c.rota(t, "job", "why", "no-such-job", "--at", "2").want(t, 3)
	c.rota(t, "job", "why").want(t, 2)
	c.rota(t, "job", "why", "/b").want(t, 2)
	c.rota(t, "job", "why", "x", "--at", "-1").want(t, 2)
	future := c.rota(t, "job", "why", "lonely", "--at", "99999999").want(t, 1)
	contains(t, "the refusal", future.stderr, "99999999", "newest")

	// A mode holds every job that it would refuse: last, as it applies to the whole cluster.
	c.policyQueue(t, "moody", "standard")
	c.rota(t, "job", "submit", "--queue", "moody", "--type", "x", "--id", "moody", "--priority", "6").want(t, 0)
	c.rota(t, "mode", "set", "DEGRADED", "--reason", "hot").want(t, 0)
	x := c.why(t, "moody")
	whyNames(t, x, "MODE_HOLDS", 0)
	c.rota(t, "queue", "pause", "moody").want(t, 0)
	x = c.why(t, "moody")
	whyNames(t, x, "MODE_HOLDS", 0) // all reasons, not only the first
	whyNames(t, x, "QUEUE_PAUSED", 0)
	c.verified(t, 3)
}

// why returns the output of the command, after a check of its fields.
func (c *nodes) why(t testing.TB, id string, more ...string) rota.Explanation {
	t.Helper()
	return decode[rota.Explanation](t, c.rota(t, append([]string{"job", "why", id, "-o", "json"}, more...)...))
}

// whyNames requires a reason that the given number of workers have.
func whyNames(t testing.TB, x rota.Explanation, reason string, workers int64) {
	t.Helper()
	if !slices.ContainsFunc(x.Reasons, func(w rota.Why) bool { return w.Reason == reason && w.Workers == workers }) {
		t.Errorf("job %s, which is %s, is explained by %+v, want %s of %d workers", x.Job, x.State, x.Reasons, reason,
			workers)
	}
	if len(x.WouldRun) == 0 {
		t.Errorf("job %s: no change would let it run", x.Job)
	}
}

func whyNoWorker(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "lonely", "standard")
	submitAll(t, cl, policyJob("lonely", q))
	r := c.rota(t, "job", "why", "lonely", "-o", "json")
	fields(t, "the explanation", object(t, r), "job", "state", "index", "clock_ms", "date_ms", "date_at", "reasons",
		"rank", "before", "score", "would_run_if")
	fields(t, "the reason", list(t, object(t, r), "reasons")[0], "reason", "workers", "detail?")
	x := c.why(t, "lonely")
	if whyNames(t, x, "NO_WORKER_REGISTERED", 0); x.Rank != 0 || x.Before != 0 || x.State != rota.JobQueued {
		t.Errorf("it is explained as %+v", x)
	}
	contains(t, "the table", c.rota(t, "job", "why", "lonely").want(t, 0).stdout, "NO_WORKER_REGISTERED",
		"it would run if",
		"rota worker run")
}

func whyCapability(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "capable", "standard")
	having := func(labels ...string) func(*rota.WorkerSpec) {
		return func(w *rota.WorkerSpec) { w.Capabilities = labels }
	}
	c.puppet(t, "cap-none", q, 1)
	c.puppet(t, "cap-other", q, 1, having("cpu"))
	able := c.puppet(t, "cap-gpu", q, 1, having("gpu"))
	submitAll(t, cl, policyJob("gpu-1", q, func(s *rota.JobSpec) { s.Requires = []string{"gpu"} }))
	able.serves("gpu-1")
	submitAll(t, cl, policyJob("gpu-2", q, func(s *rota.JobSpec) { s.Requires = []string{"gpu"} }))
	x := c.why(t, "gpu-2")
	whyNames(t, x, "CAPABILITY_MISSING", 2)
	whyNames(t, x, "NO_FREE_SLOT", 1)
	contains(t, "the detail", fmt.Sprint(x.Reasons), "requires gpu")
	able.ends("gpu-1", nil)
	able.serves("gpu-2")
	able.ends("gpu-2", nil)
}

func whyTenant(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "limited", "standard")
	c.rota(t, "tenant", "set", "why-tenant", "--max-concurrent", "1", "--penalty", "0s").want(t, 0)
	w := c.puppet(t, "limited-w", q, 4)
	of := func(s *rota.JobSpec) { s.Tenant = "why-tenant" }
	submitAll(t, cl, policyJob("limited-1", q, of))
	w.serves("limited-1")
	submitAll(t, cl, policyJob("limited-2", q, of))
	whyNames(t, c.why(t, "limited-2"), "TENANT_AT_LIMIT", 0)
	w.ends("limited-1", nil)
	w.serves("limited-2")
	w.ends("limited-2", nil)
}

// A job behind others may have room and no place: on the exact state on which a round was decided.
func whyRank(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "ranked", "standard", "paused=true", "fair_share=off")
	submitAll(t, cl, policyJob("rank-low", q, priority(9)), policyJob("rank-mid", q, priority(5)),
		policyJob("rank-high", q, priority(1)))
	for id, before := range map[string]int64{"rank-high": 0, "rank-mid": 1, "rank-low": 2} {
		if x := c.why(t, id); x.Rank != before || x.Before != before {
			t.Errorf("job %s is of rank %d, behind %d, want %d", id, x.Rank, x.Before, before)
		}
	}
	w := c.puppet(t, "ranked-w", q, 1)
	last := submitted(t, c, "rank-last", q)
	c.rota(t, "queue", "resume", string(q)).want(t, 0)
	w.serves("rank-high")
	// The entry before the assignment: one slot is free, the jobs behind need it too.
	height := jobOf(t, cl, "rank-high").Lease.Decision.Height
	if height < last {
		t.Fatalf("decided at %d, before %d", height, last)
	}
	x := c.why(t, "rank-low", "--at", fmt.Sprint(height))
	whyNames(t, x, "BEHIND_HIGHER_RANK", 0)
	if x.Before != 3 || x.State != rota.JobQueued || x.Index != height {
		t.Errorf("it is explained as %+v", x)
	}
	first := c.why(t, "rank-high", "--at", fmt.Sprint(height))
	contains(t, "the remedy", fmt.Sprint(first.WouldRun), "the next round", "ranked-w")
	whyNames(t, c.why(t, "rank-low"), "NO_FREE_SLOT", 1)
	for _, id := range []rota.JobID{"rank-high", "rank-mid", "rank-last", "rank-low"} {
		if id != "rank-high" {
			w.serves(id)
		}
		w.ends(id, nil)
	}
}

// submitted submits a job and returns the index of its entry.
func submitted(t *testing.T, c *nodes, id string, q rota.QueueName) rota.Index {
	t.Helper()
	return submitAll(t, c.dial(t), policyJob(id, q))[0].Index
}

func whyHeld(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "held", "standard", "hold_after=0")
	cpu := func(milli int64) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.CPUMilli = milli } }
	w := c.puppet(t, "held-w", q, 4, func(w *rota.WorkerSpec) { w.CPUMilli = 1000 })
	submitAll(t, cl, policyJob("half", q, cpu(500)))
	w.serves("half")
	submitAll(t, cl, policyJob("whole", q, cpu(1000)))
	x := eventuallyWhy(t, cl, "whole", "CPU_FULL", 1)
	eventually(t, 20*time.Second, "the worker is kept for it", func() error {
		if x = c.why(t, "whole"); !slices.ContainsFunc(x.WouldRun, func(s string) bool {
			return len(s) > 12 && s[:13] == "worker held-w"
		}) {
			return fmt.Errorf("%+v", x.WouldRun)
		}
		return nil
	})
	submitAll(t, cl, policyJob("other-half", q, cpu(500), priority(0)))
	whyNames(t, c.why(t, "other-half"), "HELD_FOR_ANOTHER_JOB", 1)
	w.ends("half", nil)
	w.serves("whole")
	w.ends("whole", nil)
	w.serves("other-half")
	w.ends("other-half", nil)
}

func whyDue(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "dues", "standard")
	submitAll(t, cl, policyJob("later", q, func(s *rota.JobSpec) { s.Delay = time.Hour }))
	if x := c.why(t, "later"); x.State != rota.JobDelayed {
		t.Errorf("it is %s", x.State)
	} else {
		whyNames(t, x, "NOT_YET_DUE", 0)
	}
}

func whyPlaced(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "placed", "standard", "strategy=least_loaded")
	for _, id := range []string{"placed-a", "placed-b", "placed-c"} {
		c.puppet(t, id, q, 1)
	}
	c.rota(t, "worker", "drain", "placed-c").want(t, 0)
	submitAll(t, cl, policyJob("placed", q))
	c.awaitState(t, cl, "placed", 20*time.Second, rota.JobRunning)
	r := c.rota(t, "job", "why", "placed", "-o", "json").want(t, 0)
	decision, ok := object(t, r)["decision"].(map[string]any)
	if !ok {
		t.Fatalf("there is no decision: %s", r.stdout)
	}
	fields(t, "the decision", decision, "epoch", "height", "seed", "score", "rank", "worker", "attempt", "reasoning",
		"others", "note?")
	x := parse[rota.Explanation](t, r)
	d := x.Decision
	job := jobOf(t, cl, "placed")
	if d.Worker != job.Lease.Worker || d.Height == 0 || len(d.Seed) != 32 ||
		d.Reasoning.Rule != rota.ReasoningByLeastLoaded || d.Note != "" {
		t.Errorf("the decision is %+v, the lease %+v", d, job.Lease)
	}
	others := map[rota.WorkerID]string{}
	for _, o := range d.Others {
		others[o.Worker] = o.Reason
	}
	for _, id := range []rota.WorkerID{"placed-a", "placed-b", "placed-c"} {
		if why, told := others[id]; id == d.Worker && told || id != d.Worker && (!told || why == "") {
			t.Errorf("the others are explained by %v, %s was chosen", d.Others, d.Worker)
		}
	}
	if others["placed-c"] != "NOT_ACTIVE" {
		t.Errorf("the drained worker was left out for %q", others["placed-c"])
	}
	c.rota(t, "job", "cancel", "placed").want(t, 0)
	over := c.why(t, "placed")
	if over.State != rota.JobCancelled || len(over.Reasons) != 1 || over.Reasons[0].Reason != "CANCELLED" ||
		over.Decision == nil ||
		over.Decision.Worker != d.Worker || len(over.Decisions) != 1 || over.Clock == 0 || over.Date == 0 {
		t.Errorf("after its end it is explained as %+v", over)
	}
}

// The past is the same from each node, regardless of the leader then, and after a change of leadership.
func whyPast(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "past", "standard")
	born := submitted(t, c, "past", q)
	w := c.puppet(t, "past-w", q, 1)
	w.serves("past")
	placed := jobOf(t, cl, "past").Lease.Decision.Height + 1 // or a little later: a sweep may come between
	for clockAt(t, cl, "past", placed).State == rota.JobQueued {
		placed++
	}
	w.ends("past", nil)
	c.rota(t, "operator", "raft", "transfer-leadership").want(t, 0)
	moments := []rota.Index{born, placed - 1, placed, submitted(t, c, "past-after", q)}
	want := []rota.JobState{rota.JobQueued, rota.JobQueued, rota.JobAssigned, rota.JobCompleted}
	for i, at := range moments {
		var first rota.Explanation
		for k, n := range c.all {
			var x rota.Explanation
			eventually(t, 20*time.Second, n.ID+" has the past", func() error {
				r := n.at(t, "job", "why", "past", "--at", fmt.Sprint(at), "-o", "json")
				if r.code != 0 {
					return errors.New(r.stderr)
				}
				x = parse[rota.Explanation](t, r)
				return nil
			})
			if k == 0 {
				first = x
			}
			if x.Index != at || x.State != want[i] || !reflect.DeepEqual(x, first) {
				t.Errorf("at index %d node %s returns %+v, the first returned %+v; want %s", at, n.ID, x, first,
					want[i])
			}
		}
	}
	before := c.rota(t, "job", "why", "past", "--at", fmt.Sprint(born-1)).want(t, 3)
	contains(t, "the refusal", before.stderr, "past", fmt.Sprint(born-1))
}
