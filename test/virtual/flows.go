package virtual

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/peer"
)

// flowRecord is the users' knowledge of one workflow.
type flowRecord struct {
	// parents of each node, by its job.
	parents map[rota.JobID][]rota.JobID
	// accepted means that it was definitely accepted. cancelled counts the requests to cancel.
	accepted  bool
	cancelled int
}

// submitFlow submits a small graph under an id of its own, until it has a definite
// answer, and sometimes cancels it.
func (u *user) submitFlow() {
	u.minted++
	spec := rota.WorkflowSpec{ID: rota.WorkflowID(fmt.Sprintf("%s-f%d", u.host, u.minted)), Queue: queueName}
	if u.random.IntN(2) == 0 {
		spec.OnFailure = rota.FailureContinue
	}
	rec := &flowRecord{parents: make(map[rota.JobID][]rota.JobID)}
	for i := range 2 + u.random.IntN(5) {
		t := drawTask(u.random)
		t.takes = min(t.takes, 4*time.Second)
		t.forGood = u.random.IntN(25) == 0
		n := rota.NodeSpec{ID: fmt.Sprintf("n%d", i), JobSpec: rota.NewJobSpec("flow", t.payload())}
		job := rota.NodeJobID(spec.ID, n.ID)
		rec.parents[job] = nil
		for p := range i {
			if u.random.IntN(2) == 0 {
				parent := fmt.Sprintf("n%d", p)
				n.Parents = append(n.Parents, parent)
				rec.parents[job] = append(rec.parents[job], rota.NodeJobID(spec.ID, parent))
			}
		}
		n.Queue = ""
		spec.Nodes = append(spec.Nodes, n)
	}
	u.life.ledger.submitsFlow(spec.ID, rec)
	for u.life.ctx.Err() == nil {
		_, err := callElsewhere(u, func(ctx context.Context, c *client.Client) (rota.WorkflowSubmitted, error) {
			return c.SubmitWorkflow(ctx, spec)
		})
		kind := rota.KindOf(err)
		if err != nil && (kind == rota.KindUnavailable || kind == rota.KindTimeout) {
			u.life.ledger.count(func(c *ledgerCounts) { c.unknown++ })
			continue
		}
		if err != nil {
			u.life.violate("a sound workflow is accepted", "%s: %v", spec.ID, err)
			return
		}
		break
	}
	u.life.ledger.changeFlow(spec.ID, func(r *flowRecord) { r.accepted = true })
	if u.random.IntN(8) == 0 {
		u.life.ledger.changeFlow(spec.ID, func(r *flowRecord) { r.cancelled++ })
		_, _ = callElsewhere(u, func(ctx context.Context, c *client.Client) (rota.Workflow, error) {
			return c.CancelWorkflow(ctx, spec.ID)
		})
	}
}

func (l *ledger) submitsFlow(id rota.WorkflowID, rec *flowRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flows[id] = rec
	for job := range rec.parents {
		l.record(job).flow = id
	}
}

func (l *ledger) changeFlow(id rota.WorkflowID, f func(*flowRecord)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.flows[id])
}

// isPlain reports whether a workflow is one that is checked here.
func (l *ledger) isPlain(run string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flows[rota.WorkflowID(run)] != nil
}

// begins checks a node's job against its parents: each was done before. The caller holds the lock.
func (l *ledger) begins(job rota.JobID, rec *jobRecord) {
	if rec.flow == "" {
		return
	}
	for _, p := range l.flows[rec.flow].parents[job] {
		if len(l.record(p).ran) == 0 {
			l.violate("a node runs after its parents", "job %s began, and no handler of %s has come to an end", job, p)
		}
	}
}

// hears compares the parents' outputs that a node's job receives with the real ones.
func (l *ledger) hears(job rota.JobID, outputs []rota.ParentOutput) {
	l.mu.Lock()
	defer l.mu.Unlock()
	flow := l.flows[l.record(job).flow]
	if flow == nil {
		return // one with gates, which pieces.go checks
	}
	want := flow.parents[job]
	if len(outputs) != len(want) {
		l.violate("a node sees its parents' outputs", "job %s gets %d parents, and has %d", job, len(outputs),
			len(want))
		return
	}
	for _, o := range outputs {
		var by rota.LeaseID
		if !slices.Contains(want, o.Job) || by.UnmarshalText(o.Output) != nil || !l.record(o.Job).ran[by] {
			l.violate("a node sees its parents' outputs", "job %s gets another output of %s: %q", job, o.Job, o.Output)
		}
	}
}

// flowsOf reads every workflow from one node, and checks it.
func (l *life) flowsOf(ctx context.Context, s *server) {
	l.ledger.mu.Lock()
	ids := make([]rota.WorkflowID, 0, len(l.ledger.flows))
	for id := range l.ledger.flows {
		ids = append(ids, id)
	}
	l.ledger.mu.Unlock()
	slices.Sort(ids)
	for _, id := range ids {
		flow, _, err := s.node().Workflow(ctx, id, true, peer.ReadOptions{Stale: true})
		switch {
		case rota.KindOf(err) == rota.KindNotFound:
			l.ledger.judgeFlow(id, nil)
		case err != nil:
			l.violate("a workflow can be read", "%s on %s: %v", id, s.id(), err)
		default:
			l.ledger.judgeFlow(id, &flow)
		}
	}
}

// judgeFlow compares a workflow at the end with its acknowledgements (SPEC §11.3).
func (l *ledger) judgeFlow(id rota.WorkflowID, flow *rota.Workflow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := l.flows[id]
	switch {
	case flow == nil && rec.accepted:
		l.violate("an accepted workflow is never lost", "workflow %s is not known", id)
		return
	case flow == nil:
		return
	case !flow.State.Terminal():
		l.violate("a drained cluster has no open workflow", "%s is %s", id, flow.State)
		return
	case len(flow.Nodes) != len(rec.parents):
		l.violate("a workflow is accepted whole", "%s has %d of %d nodes", id, len(flow.Nodes), len(rec.parents))
		return
	}
	states, done, failed := make(map[rota.JobID]rota.NodeState), 0, 0
	for _, n := range flow.Nodes {
		states[n.Job] = n.State
		switch n.State {
		case rota.NodeState(rota.JobCompleted):
			done++
		case rota.NodeState(rota.JobDead):
			failed++
		}
	}
	for job, state := range states {
		lacks := slices.ContainsFunc(rec.parents[job],
			func(p rota.JobID) bool { return states[p] != rota.NodeState(rota.JobCompleted) })
		if state == rota.NodeState(rota.JobCompleted) && lacks {
			l.violate("a node runs after its parents", "job %s is COMPLETED, and not all of its parents", job)
		}
		if state == rota.NodeSkipped && !lacks {
			l.violate("only descendants of what failed are skipped",
				"job %s is SKIPPED, and all of its parents COMPLETED", job)
		}
	}
	want := rota.WorkflowCompleted
	switch {
	case done == len(states):
	case failed > 0 && flow.State == rota.WorkflowFailed:
		want = rota.WorkflowFailed
	case rec.cancelled > 0:
		want = rota.WorkflowCancelled
	case failed > 0:
		want = rota.WorkflowFailed
	}
	if flow.State != want {
		l.violate("a workflow ends as its nodes did", "%s is %s: %d of %d nodes COMPLETED, %d DEAD, %d times cancelled",
			id, flow.State, done, len(states), failed, rec.cancelled)
	}
}
