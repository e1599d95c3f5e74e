package sim

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/rotasched/rota"
)

// weighedStart is an attempt under a rule that counts a cost: its estimate, and, once it has ended, what it spent.
type weighedStart struct {
	at                    rota.Clock
	estimate, final       int64
	rate, period, largest int64
	acked, ended          bool
}

// weigh notes a start.
func (m *keyed) weigh(id rota.JobID, count string, r *rota.KeyRule, at rota.Clock) {
	estimate, known := m.specs[id].Costs[r.Unit]
	if !known {
		estimate = int64(r.DefaultCost)
	}
	s := &weighedStart{at: at, estimate: estimate, rate: r.Rate * rota.CostUnit, period: r.PeriodMs,
		largest: max(r.Burst*rota.CostUnit, estimate)}
	m.starts[count] = append(m.starts[count], s)
	m.open[id] = append(m.open[id], s)
}

// spent follows the ends of attempts: by their report, or else their estimate, or nothing if none began.
func (m *keyed) spent(e *rota.Event) {
	open := m.open[e.Job]
	var payload struct {
		Spent *rota.Costs `json:"spent"`
	}
	switch e.Kind {
	case rota.EventJobCompleted, rota.EventLeaseCancelled, rota.EventLeaseExpired, rota.EventLeaseDeclined,
		rota.EventJobDead, rota.EventJobCancelled:
		_ = json.Unmarshal([]byte(e.Payload), &payload)
	default:
		return
	}
	if len(open) == 0 || e.Kind == rota.EventJobCancelled && e.Lease.IsZero() {
		return // a job that is cancelled may leave its lease open
	}
	for _, s := range open {
		s.ended = true
		switch {
		case payload.Spent != nil:
			s.final = (*payload.Spent)["u"]
		case s.acked || e.Kind == rota.EventJobDead || e.Kind == rota.EventJobCancelled ||
			e.Kind == rota.EventLeaseCancelled && (e.Reason == rota.ReasonProviderFail ||
				e.Reason == rota.ReasonTimedOut || e.Reason == rota.ReasonSnoozed): // or it failed without an ack
			s.final = s.estimate
		}
	}
	delete(m.open, e.Job)
}

// weighedFinal checks the promise of SPEC §30.2 in every window that begins and ends with a start. An attempt whose end
// no event reports counts as nothing.
func (a *auditor) weighedFinal() {
	for _, count := range slices.Sorted(maps.Keys(a.keyed.starts)) {
		starts := a.keyed.starts[count]
		for i, first := range starts {
			sum, over, largest := int64(0), int64(0), int64(0)
			for _, s := range starts[i:] {
				sum, over, largest = sum+s.final, over+max(0, s.final-s.estimate), max(largest, s.largest)
				if allowed := first.rate*int64(s.at-first.at)/first.period + largest + over; sum > allowed {
					a.failf("key %s spent %s in %d ms from %d on, %s may be", count, rota.Cost(sum), s.at-first.at,
						first.at, rota.Cost(allowed))
					return
				}
			}
		}
	}
}
