package cluster

import (
	"context"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// refusedAt returns the level from which an operation is rejected, 0 for never. Operations that a worker needs to
// finish its work always pass: connecting again, acknowledging and renewing. If they were rejected, leases would expire
// and cause more writes.
func refusedAt(op *fsmpb.Op) diskLevel {
	switch o := op.GetOp().(type) {
	case *fsmpb.Op_Submit, *fsmpb.Op_OpenWorkflow, *fsmpb.Op_OpenBatch:
		return diskLow
	case *fsmpb.Op_Fire, *fsmpb.Op_TriggerSchedule, *fsmpb.Op_BackfillSchedule: // a date waits, and is decided late
		return diskLow
	case *fsmpb.Op_AddNodes, *fsmpb.Op_CommitWorkflow: // an upload that has begun may finish
		return diskCritical
	case *fsmpb.Op_Round, *fsmpb.Op_Retry, *fsmpb.Op_RetryWorkflow, *fsmpb.Op_SignalWorkflow, *fsmpb.Op_ReportProof:
		return diskCritical
	case *fsmpb.Op_Lease:
		if rota.LeaseVerb(o.Lease.GetVerb()) == rota.VerbProgress {
			return diskCritical
		}
	}
	return diskRoomy
}

// refuseFull rejects operations because of a full disk. A repeated submission is not a new one (SPEC §4.1): its answer
// may be lost, and rejecting it would suggest that nothing had been done.
func (pr *proposer) refuseFull(_ context.Context, _ *leadership, ops []*fsmpb.Op,
	answers []*fsmpb.Outcome) ([]*fsmpb.Outcome, error) {
	level, from := pr.disk.inForce()
	if level == diskRoomy {
		return answers, nil
	}
	for i, op := range ops {
		at := refusedAt(op)
		if answers != nil && answers[i] != nil || at == diskRoomy || at > level || pr.knows(op) {
			continue
		}
		answers = answer(answers, ops, i, pr.fullOutcome(level, from))
	}
	return answers, nil
}

// knows reports whether an operation repeats one that this node has applied.
func (pr *proposer) knows(op *fsmpb.Op) (known bool) {
	pr.n.replica.Look(func(s *fsm.View) { known = repeats(s, op) })
	return known
}

func repeats(s *fsm.View, op *fsmpb.Op) bool {
	flow := func(id string) bool {
		_, known := s.Workflow(rota.WorkflowID(id))
		return known
	}
	switch o := op.GetOp().(type) {
	case *fsmpb.Op_Submit:
		id := rota.JobID(o.Submit.GetSpec().GetId())
		_, _, tomb := s.Tombstone(id)
		return tomb || s.JobState(id) != rota.JobNone
	case *fsmpb.Op_OpenWorkflow:
		return flow(o.OpenWorkflow.GetId())
	case *fsmpb.Op_OpenBatch:
		_, known := fsm.BatchOf(s, rota.BatchID(o.OpenBatch.GetId()))
		return known
	case *fsmpb.Op_AddNodes:
		return flow(o.AddNodes.GetWorkflow())
	case *fsmpb.Op_CommitWorkflow:
		return flow(o.CommitWorkflow.GetId())
	default:
		return false
	}
}

func (pr *proposer) fullOutcome(level diskLevel, from []rota.NodeID) *fsmpb.Outcome {
	where := pr.disk.text(pr.n.cfg.Node)
	if !slices.Contains(from, pr.n.cfg.Node) {
		names := make([]string, len(from))
		for i, id := range from {
			names[i] = string(id)
		}
		where = "the disks of nodes " + strings.Join(names, ", ") + " fill up (details: rota cluster status)."
	}
	pr.disk.mu.Lock()
	pr.disk.refused++
	pr.disk.mu.Unlock()
	return &fsmpb.Outcome{Kind: uint32(rota.KindExhausted), Subject: "disk", Text: where + " " + diskEffect(level),
		RetryAfterMs: diskRetry.Milliseconds()}
}
