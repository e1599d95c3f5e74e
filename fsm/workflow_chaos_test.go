package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// TestWorkflowChaos applies every possible operation to a few small workflows at once, in any order. The work allowed
// per entry is reduced to a few vertices, so that passes and releases stop everywhere and operations meet them in any
// state. The machine is checked, restored and compared throughout; in the end all must finish.
func TestWorkflowChaos(t *testing.T) {
	t.Parallel()
	seeds := uint64(24)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		for _, steps := range []int{1, 3, limits.MaxFlowSteps} {
			b := newBench(reported{t, fmt.Sprintf("seed %d, %d steps an entry: ", seed, steps)})
			b.every = 2
			b.flows.flowIndex.steps, b.twin.flows.flowIndex.steps = steps, steps
			b.flows.flowIndex.looks, b.twin.flows.flowIndex.looks = steps, steps // one look per step: cursors stop anywhere
			c := chaos{bench: b, chance: rand.New(rand.NewPCG(seed, 3))}
			c.run()
		}
	}
}

// reported adds the run to each failure.
type reported struct {
	*testing.T
	run string
}

func (r reported) Fatal(a ...any) {
	r.Helper()
	r.T.Fatal(append([]any{r.run}, a...)...)
}

func (r reported) Fatalf(format string, a ...any) {
	r.Helper()
	r.T.Fatalf(r.run+format, a...)
}

// chaos is one run on a bench.
type chaos struct {
	*bench
	chance *rand.Rand
	dags   []*dag
}

// add submits a workflow, mostly complete, under an id that may be in use.
func (c *chaos) add() []*fsmpb.Op {
	r := c.chance
	parents := make([][]uint32, 1+r.IntN(14))
	for i := range parents {
		for p := range i {
			if r.IntN(4) == 0 {
				parents[i] = append(parents[i], uint32(p))
			}
		}
	}
	d := newDAG(fmt.Sprint("wf", r.IntN(5)), parents, func(d *dag) {
		d.OnFailure = rota.FailurePolicy(r.IntN(2))
		for i := range d.Nodes {
			c.node(&d.Nodes[i])
		}
	})
	c.dags = append(c.dags, d)
	ops := append([]*fsmpb.Op{d.open()}, d.add()...)
	if r.IntN(5) > 0 {
		ops = append(ops, d.commit())
	}
	return ops
}

func (c *chaos) node(x *rota.NodeSpec) {
	r := c.chance
	x.Priority = int32(r.IntN(11))
	x.Queue = []rota.QueueName{"", "q1"}[r.IntN(2)]
	x.CPUMilli = int64(r.IntN(3)) * 100
	if r.IntN(5) == 0 {
		x.TTL = millis.Duration(1 + int64(r.IntN(20000)))
	}
	if r.IntN(6) == 0 {
		x.Delay = millis.Duration(int64(r.IntN(3000)))
	}
	if r.IntN(6) == 0 {
		x.NotBefore = (c.Header.Date() + rota.Date(r.IntN(20000))).Time()
	}
	x.DataKeys = []string{"a", "b", "c"}[:r.IntN(4)]
	x.RetryOnInvalidProof = r.IntN(2) == 0
}

// op draws the next operations.
func (c *chaos) op() []*fsmpb.Op {
	r := c.chance
	d := c.dags[r.IntN(len(c.dags))]
	node := fmt.Sprint("n", r.IntN(len(d.Nodes)))
	job := string(rota.NodeJobID(d.ID, node))
	runs := int32(1)
	if w := c.flows.workflows.Get(d.ID); w != nil {
		runs = w.Runs
	}
	switch r.IntN(18) {
	case 0:
		return c.add()
	case 1:
		return []*fsmpb.Op{d.cancel()}
	case 2, 3:
		return []*fsmpb.Op{d.retry([]string{"", node}[r.IntN(2)], runs)}
	case 4:
		return []*fsmpb.Op{d.retry([]string{"", node}[r.IntN(2)], runs), d.cancel()}
	case 5:
		return []*fsmpb.Op{cancelOp(job)}
	case 6:
		return []*fsmpb.Op{c.server(fmt.Sprint("w", r.IntN(3)), int32(1+r.IntN(5)), fmt.Sprint(r.IntN(2)))}
	case 7:
		return []*fsmpb.Op{{Op: &fsmpb.Op_SetStatus{SetStatus: &fsmpb.SetStatus{Worker: fmt.Sprint("w", r.IntN(3)),
			Status: uint32(rota.WorkerActive) + uint32(r.IntN(5))}}}}
	case 8:
		return []*fsmpb.Op{modeOp(rota.ClusterMode(r.IntN(4)), "x"), modeOp(rota.ClusterMode(r.IntN(2)), "y")}
	case 9:
		return []*fsmpb.Op{queueOp("default", "paused", fmt.Sprint(r.IntN(2) == 0), "ttl_abs",
			fmt.Sprint(r.IntN(2)*5000), "ranking",
			[]string{"fifo", "aging", "adaptive"}[r.IntN(3)], "audit_window", "0", "gc_horizon",
			[]string{"1m", "1h", "7d"}[r.IntN(3)])}
	case 10:
		t := c.ended.tombs.Get(rota.JobID(job))
		if t == nil {
			return nil
		}
		return []*fsmpb.Op{{Op: &fsmpb.Op_ReportProof{ReportProof: &fsmpb.ReportProof{Job: job, Lease: t.Lease[:],
			Reason: "r"}}}}
	default:
		return c.verb()
	}
}

func (c *chaos) server(id string, slots int32, session string) *fsmpb.Op {
	return registerOp(id, slots, session, true, func(w *rota.WorkerSpec) {
		w.Queues, w.CPUMilli = append(w.Queues, "q1"), 100_000
	})
}

// verb sends a worker's verb on a lease, mostly a completion.
func (c *chaos) verb() []*fsmpb.Op {
	if c.leasing.leases.Len() == 0 {
		return []*fsmpb.Op{sweepOp()}
	}
	l := rowAt(&c.leasing.leases, c.chance.IntN(c.leasing.leases.Len()))
	verbs := []rota.LeaseVerb{rota.VerbAck, rota.VerbComplete, rota.VerbComplete, rota.VerbComplete, rota.VerbFail,
		rota.VerbDecline}
	return []*fsmpb.Op{verb(verbs[c.chance.IntN(len(verbs))], l.Lease,
		func(x *peer.LeaseCommand) { x.Fail, x.After = failAs(c.chance.IntN(10)) })}
}

func (c *chaos) run() {
	r := c.chance
	c.ok(queueOp("default", "attempt_max", "3", "backoff_base", "500", "preempt", "true"))
	c.ok(queueOp("q1", "strategy", "affinity", "ranking", "adaptive"))
	c.bench.entry(c.add()...)
	for range 150 {
		c.now = c.Header.Clock + []rota.Clock{0, 10, 250, 900}[r.IntN(4)]
		if r.IntN(3) == 0 && c.rounds() {
			continue
		}
		var ops []*fsmpb.Op
		for range 1 + r.IntN(4) {
			ops = append(ops, c.op()...)
		}
		if r.IntN(30) == 0 {
			c.walls = []int64{int64(c.Header.Date()) + int64(r.IntN(4))*int64(sevenDays)/3}
		}
		if len(ops) > 0 {
			c.bench.entry(ops...)
		}
		c.walls = nil
	}
	c.settles()
}

// rounds lets the leader decide.
func (c *chaos) rounds() bool {
	rounds := c.View.Decide(50)
	if len(rounds) > 0 {
		c.bench.entry(opsOf(rounds)...)
	}
	return len(rounds) > 0
}

// settles completes everything that runs: every workflow ends.
func (c *chaos) settles() {
	c.bench.entry(modeOp(rota.ModeNormal, "end"), queueOp("default", "paused", "false"), c.server("wend", 100, "s"))
	for range 3000 {
		c.now = c.Header.Clock + 250
		c.bench.entry(sweepOp())
		c.rounds()
		var ops []*fsmpb.Op
		c.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
			ops = append(ops, verb(rota.VerbComplete, l.Lease))
			return true
		})
		if len(ops) > 0 {
			c.bench.entry(ops...)
		}
		if c.allOver() {
			for _, q := range c.View.Queues() {
				if q.Blocked != 0 || q.Pending != 0 {
					c.t.Fatalf("queue %s has %d jobs pending, %d of them BLOCKED", q.Name, q.Pending, q.Blocked)
				}
			}
			return
		}
	}
	stands := ""
	c.flows.workflows.Scan(func(id rota.WorkflowID, w *state.WorkflowRow) bool {
		stands += fmt.Sprintf("\n%s %s ending %v, at %d, leaving %v", id, c.progress(id), w.Ending, w.Cursor, w.Leaving)
		return true
	})
	c.t.Fatalf("not all workflows end, work left %v:%s", c.flows.flowIndex.pending(), stands)
}

func (c *chaos) allOver() bool {
	over := !c.flows.flowIndex.pending()
	c.flows.workflows.Scan(func(_ rota.WorkflowID, w *state.WorkflowRow) bool {
		over = over && w.State.Terminal()
		return over
	})
	return over
}
