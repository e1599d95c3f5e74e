package cluster

import (
	"context"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// gates are the checks that operations pass on the leader before the log, in this order. Operations that the log would
// only repeat or reject are answered here, without writes to three disks. The machine decides again on everything that
// passes.
var gates = [...]gate{
	{(*proposer).refuseDenied, true},  // operations that the actor has no right to: below
	{(*proposer).answerKnown, true},   // a job that only the archive knows: gate_archive.go
	{(*proposer).gateRules, false},    // an operation unknown to the rules in force: below
	{(*proposer).refuseFull, false},   // more work than the voters' disks have room for: gate_disk.go
	{(*proposer).refuseQueued, false}, // a job for a full queue: gate_queue.go
}

// gate is one of the checks.
type gate struct {
	// pass answers operations at their places and ignores those already answered; answers is nil until there is one. An
	// error rejects them all.
	pass func(pr *proposer, ctx context.Context, l *leadership, ops []*fsmpb.Op, answers []*fsmpb.Outcome) (
		[]*fsmpb.Outcome, error)
	// callers limits the gate to operations of callers, excluding the leader's own chores.
	callers bool
}

// admit passes a batch through the gates, and puts the operations that they leave unanswered into the log; caller
// reports that the batch is a caller's, not one of the leader's own chores.
func (l *leadership) admit(ctx context.Context, b batch, urgent, caller bool) reply {
	defer l.disk.spend(len(b.encoded))()
	var answers []*fsmpb.Outcome
	if caller {
		var err error
		if b, answers, err = l.n.proposer.attested(b); err != nil {
			return reply{err: err}
		}
	}
	for i := range gates {
		if gates[i].callers && !caller {
			continue
		}
		var err error
		if answers, err = gates[i].pass(&l.n.proposer, ctx, l, b.ops, answers); err != nil {
			return reply{err: err}
		}
		if answers != nil && !slices.Contains(answers, nil) {
			return reply{outcomes: answers, index: rota.Index(l.n.replica.Applied.Load())}
		}
	}
	if answers == nil {
		return l.enqueue(ctx, b, urgent)
	}
	return l.admitRest(ctx, b.ops, answers, urgent)
}

// admitRest puts the operations that the gates left unanswered into the log.
func (l *leadership) admitRest(ctx context.Context, ops []*fsmpb.Op, answers []*fsmpb.Outcome, urgent bool) reply {
	var rest []*fsmpb.Op
	for i, op := range ops {
		if answers[i] == nil {
			rest = append(rest, op)
		}
	}
	b, err := encode(rest)
	if err != nil {
		return reply{err: err}
	}
	r := l.enqueue(ctx, b, urgent)
	if r.err != nil {
		return r
	}
	logged := r.outcomes
	r.outcomes = answers
	for i := range answers {
		if answers[i] == nil {
			r.outcomes[i], logged = logged[0], logged[1:]
		}
	}
	return r
}

// refuseDenied rejects operations that applying would reject for a missing right: an unauthorized request must not cost
// a write on three disks.
func (pr *proposer) refuseDenied(_ context.Context, _ *leadership, ops []*fsmpb.Op,
	answers []*fsmpb.Outcome) ([]*fsmpb.Outcome, error) {
	pr.n.replica.Look(func(s *fsm.View) {
		for i, o := range s.Denied(ops) {
			if o != nil {
				answers = answer(answers, ops, i, o)
			}
		}
	})
	return answers, nil
}

// answer records an outcome at its place.
func answer(answers []*fsmpb.Outcome, ops []*fsmpb.Op, at int, o *fsmpb.Outcome) []*fsmpb.Outcome {
	if answers == nil {
		answers = make([]*fsmpb.Outcome, len(ops))
	}
	answers[at] = o
	return answers
}

// refuseNewer rejects operations that need newer rules than those in force: voters that do not support them would stop.
func (pr *proposer) refuseNewer(ops []*fsmpb.Op, answers []*fsmpb.Outcome) error {
	in, version := pr.n.replica.RulesInForce(), entry.Needs
	if pr.n.cfg.needs != nil {
		version = pr.n.cfg.needs
	}
	for i, op := range ops {
		if answers != nil && answers[i] != nil {
			continue
		}
		if needs := version(op); needs > in {
			return fault.Newer(needs, in)
		}
	}
	return nil
}

func (pr *proposer) gateRules(_ context.Context, _ *leadership, ops []*fsmpb.Op,
	answers []*fsmpb.Outcome) ([]*fsmpb.Outcome, error) {
	return answers, pr.refuseNewer(ops, answers)
}
