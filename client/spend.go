package client

import (
	"maps"
	"math"
	"sync"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// spending holds what an attempt has reported that it used. The map never changes, but is replaced.
type spending struct {
	mu    sync.Mutex
	costs rota.Costs
}

// millionths returns an amount in millionths, and whether a cost can have it.
func millionths(units float64) (int64, bool) {
	ok := units >= 0 && units <= rota.MaxCost/rota.CostUnit
	return int64(math.Round(units * rota.CostUnit)), ok
}

// add replaces a total.
func (s *spending) add(name string, units float64) error {
	total, ok := millionths(units)
	if !ok {
		return rota.Refusef(rota.KindInvalid, "costs", "costs: %.80s must be between 0 and %d, got %g", name,
			int64(rota.MaxCost/rota.CostUnit), units)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.costs[name]; total < before {
		return rota.Refusef(rota.KindInvalid, "costs",
			"costs: got %s=%s after %s; report the total of the attempt, which only grows", name,
			rota.Cost(total), rota.Cost(before))
	}
	costs := rota.Costs{name: total}
	for other, amount := range s.costs {
		if other != name {
			costs[other] = amount
		}
	}
	if err := costs.Check("costs"); err != nil {
		return err
	}
	s.costs = costs
	return nil
}

func (s *spending) totals() rota.Costs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.costs)
}

// spend sends an attempt's totals with its next report of progress. It reads them under the table's lock: of calls at
// the same time the last one to come here has them all.
func (t *leaseTable) spend(l *lease) {
	t.mu.Lock()
	defer t.unlock()
	if l.phase != running {
		return
	}
	if l.costs = l.job.spent.totals(); l.lost != nil {
		return // they go with the confirmation
	}
	if l.progressHeld == nil {
		held := peer.LeaseCommand{Verb: rota.VerbProgress}
		if l.reported != nil {
			held = *l.reported
		}
		l.progressHeld = &held
	}
	t.sendProgress(l)
}
