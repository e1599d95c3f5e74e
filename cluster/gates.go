package cluster

import (
	"context"
	"errors"
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

// propose puts operations of the leader's own chores into the log and waits for the result.
func (l *leadership) propose(ctx context.Context, ops []*fsmpb.Op, urgent bool) reply {
	b, err := encode(ops)
	if err != nil {
		return reply{err: err}
	}
	return l.admit(ctx, b, urgent, false)
}

// Propose is propose for chores of other packages.
func (l *leadership) Propose(ctx context.Context, ops []*fsmpb.Op, urgent bool) ([]*fsmpb.Outcome, error) {
	r := l.propose(ctx, ops, urgent)
	return r.outcomes, r.err
}

// All proposes operations entry by entry; each must be accepted or be stale.
func (l *leadership) All(ctx context.Context, ops []*fsmpb.Op) error {
	b, err := encode(ops)
	if err != nil {
		return err
	}
	for at := 0; at < len(ops); {
		k := b.chunk(at)
		r := l.admit(ctx, b.part(at, at+k), true, false)
		if errors.Is(r.err, errNotLeader) {
			return fault.NotLeader()
		}
		if r.err != nil {
			return r.err
		}
		for _, o := range r.outcomes {
			if e := entry.OutcomeError(o); e != nil && e.Kind != rota.KindStale { // its session ended meanwhile
				return e
			}
		}
		at += k
	}
	return nil
}
