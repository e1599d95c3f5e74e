package fsm

import (
	"maps"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
)

// costsOf returns the costs that an operation carries, or why they are invalid.
func costsOf(ops []*fsmpb.Limit) (rota.Costs, error) {
	costs := entry.CostWords(ops)
	return costs, costs.Check("costs")
}

// costs returns what a verb reports that its attempt has used so far, or why the report is refused. Totals only grow.
// A name that is left out keeps its total.
func (lg *leasing) costs(l *state.LeaseRow, op *fsmpb.LeaseOp) (rota.Costs, error) {
	costs, err := costsOf(op.GetCosts())
	if err != nil {
		return nil, err
	}
	if len(l.Spent) == 0 {
		return costs, nil
	}
	for _, name := range costs.Names() {
		if before := l.Spent[name]; costs[name] < before {
			return nil, rota.Refusef(rota.KindInvalid, "costs",
				"costs: got %s=%s after %s; report the total of the attempt, which only grows", name,
				rota.Cost(costs[name]), rota.Cost(before))
		}
	}
	all := maps.Clone(l.Spent)
	maps.Copy(all, costs)
	if len(all) > rota.MaxCosts {
		return nil, rota.TooMany("costs", len(all), rota.MaxCosts)
	}
	return all, nil
}

// spend keeps what an attempt has reported, and returns the lease, which it may have replaced by a copy.
func (lg *leasing) spend(l *state.LeaseRow, costs rota.Costs) *state.LeaseRow {
	if maps.Equal(l.Spent, costs) {
		return l
	}
	l = lg.leases.Edit(l.Key)
	before := l.Spent
	l.Spent = costs
	spec := lg.specOf(l)
	lg.keyring.Report(l, spec)
	lg.budgets.Report(l, spec, before)
	return l
}

// specOf returns the spec of a lease's job; what is kept of it if the job has ended.
func (lg *leasing) specOf(l *state.LeaseRow) *rota.JobSpec {
	if l.Ended != nil {
		return &l.Ended.Spec
	}
	return &lg.s.JobTable.Get(l.Job).Spec.JobSpec
}

// noteSpent adds what an attempt that ends has spent to its job; j is editable.
func (lg *leasing) noteSpent(l *state.LeaseRow, j *state.JobRow) {
	if len(l.Spent) == 0 {
		return
	}
	past := *j.History()
	past.Content, past.Spent = j.FirstContent(), state.AddCosts(past.Spent, l.Spent)
	j.Past = &past
}
