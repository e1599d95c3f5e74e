package cluster

import (
	"context"

	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// refuseNewer refuses operations that need newer rules than those in force: voters
// that do not know them would stop.
func (pr *proposer) refuseNewer(ops []*fsmpb.Op, answers []*fsmpb.Outcome) error {
	in, version := pr.n.replica.rulesInForce(), entry.Needs
	if pr.n.cfg.needs != nil {
		version = pr.n.cfg.needs
	}
	for i, op := range ops {
		if answers != nil && answers[i] != nil {
			continue
		}
		if needs := version(op); needs > in {
			return errNewer(needs, in)
		}
	}
	return nil
}

func (pr *proposer) gateRules(_ context.Context, _ *leadership, ops []*fsmpb.Op, answers []*fsmpb.Outcome) ([]*fsmpb.Outcome, error) {
	return answers, pr.refuseNewer(ops, answers)
}
