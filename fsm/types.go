package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// declareType keeps how long jobs of a type should take (SPEC §5.3): what the
// newest submission to an adaptive queue declares.
func (m *Machine) declareType(spec *keptSpec, q *queueRow) {
	if q.policy.Ranking != rota.RankAdaptive || spec.ExpectedMs <= 0 {
		return
	}
	if r := m.types.get(spec.Type); r != nil && r.expectedMs == spec.ExpectedMs {
		return
	}
	if r := m.editType(spec.Type); r != nil {
		r.expectedMs = spec.ExpectedMs
	}
}

// countType counts an outcome in the statistics of the job's type, while its
// queue is adaptive (SPEC §5.3). An ack timeout, a decline, a cancellation and a
// late renewal say nothing of the type; an expired lease failed, and nobody knows
// how long it took; nor how long an attempt that timed out would have taken.
func (m *Machine) countType(l *leaseRow, what outcome) {
	p := &m.queues.get(l.queue).policy
	if p.Ranking != rota.RankAdaptive {
		return
	}
	us := int64(-1)
	switch what {
	case outcomeSuccess, outcomeFailure, outcomeProofInvalid:
		us = int64(m.head.clock-l.began()) * 1000
	case outcomeExpired, outcomeTimedOut:
	default:
		return
	}
	if r := m.editType(l.typ); r != nil {
		r.set(r.stats().Observe(us, what == outcomeSuccess, p.StatsWindow))
	}
}

// began is since when the job ran, as far as anybody knows: since the
// acknowledgement, or since the assignment where only the completion told of it.
func (r *leaseRow) began() rota.Clock {
	if r.Acked.IsZero() || r.implied {
		return r.Started.Clock
	}
	return r.Acked.Clock
}

// editType gives a type's row, a new one while there is room: of more than
// MaxTypes types nothing is known.
func (m *Machine) editType(typ rota.JobType) *typeRow {
	if m.types.get(typ) == nil {
		if m.types.len() >= rota.MaxTypes {
			return nil
		}
		m.types.insert(typ, &typeRow{typ: typ})
	}
	return m.types.edit(typ)
}

func (r *typeRow) stats() sched.Stats {
	return sched.Stats{Success: r.success, Fail: r.fail, EMAus: r.emaUs, ExpectedMs: r.expectedMs, Sampled: r.sampled}
}

func (r *typeRow) set(s sched.Stats) {
	r.success, r.fail, r.emaUs, r.sampled = s.Success, s.Fail, s.EMAus, s.Sampled
}

// stats is what rounds know of a type.
func (m *Machine) stats(typ rota.JobType) sched.Stats {
	if r := m.types.get(typ); r != nil {
		return r.stats()
	}
	return sched.Stats{}
}

// typesShown bounds the types that a queue's view lists.
const typesShown = 1_000

// typeWords lists the types with statistics by name, the first thousand of them. The
// statistics are the cluster's, not a queue's; their weights are the caller's to
// compute (sched.AdaptiveWeight): there is no float in this package.
func (m *Machine) typeWords() []rota.TypeStats {
	list := make([]rota.TypeStats, 0, min(m.types.len(), typesShown))
	m.types.scan(func(_ rota.JobType, r *typeRow) bool {
		list = append(list, rota.TypeStats{Type: r.typ, Success: r.success, Fail: r.fail, EMAus: r.emaUs,
			ExpectedMs: r.expectedMs})
		return len(list) < typesShown
	})
	return list
}

// types checks that statistics are such as outcomes give.
func (c *checker) types() {
	m := c.m
	if n := m.types.len(); n > rota.MaxTypes {
		c.fault("I9: %d types have statistics, %d may have", n, rota.MaxTypes)
	}
	m.types.scan(func(typ rota.JobType, r *typeRow) bool {
		if r.typ != typ || r.success < 0 || r.fail < 0 || r.emaUs < 0 || r.expectedMs < 0 || !r.sampled && r.emaUs != 0 {
			c.fault("I9: the statistics of type %s are %s", typ, fmt.Sprint(r.stats()))
		}
		return true
	})
}
