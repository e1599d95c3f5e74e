package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/sched"
)

// expects is what the queue's owner set for a type, 0 for nothing.
func (r *queueRow) expects(typ rota.JobType) int64 {
	if at, found := slices.BinarySearchFunc(r.expected, typ, compareExpected); found {
		return r.expected[at].ms
	}
	return 0
}

// expectsOf is expects, nil where nothing is set.
func (r *queueRow) expectsOf() func(rota.JobType) int64 {
	if len(r.expected) == 0 {
		return nil
	}
	return r.expects
}

// estimate is how long an attempt of a job of the queue should take (SPEC §26.1).
func (r *queueRow) estimate(spec *rota.JobSpec) int64 {
	return sched.RunEstimate(&r.policy, spec, r.expects(spec.Type))
}

// withExpected is the list with one more setting in it: 0 takes a type out.
func withExpected(list []expectedTime, typ rota.JobType, ms int64) []expectedTime {
	at, found := slices.BinarySearchFunc(list, typ, compareExpected)
	list = slices.Clone(list)
	switch {
	case found && ms == 0:
		return slices.Delete(list, at, at+1)
	case found:
		list[at].ms = ms
	case ms != 0:
		list = slices.Insert(list, at, expectedTime{typ, ms})
	}
	return list
}

// typeStats holds what the ends of its jobs say of each type.
type typeStats struct {
	m     *Machine
	types table[rota.JobType, typeRow, *typeRow]
}

// declareType keeps how long jobs of a type should take (SPEC §5.3): what the newest
// submission declares to an adaptive queue whose policy goes by it.
func (ts *typeStats) declareType(spec *keptSpec, q *queueRow) {
	if q.policy.Ranking != rota.RankAdaptive || q.policy.Estimate != rota.EstimateByUser || spec.Expected <= 0 {
		return
	}
	if r := ts.types.get(spec.Type); r != nil && r.expectedMs == spec.Expected.Milliseconds() {
		return
	}
	if r := ts.editType(spec.Type); r != nil {
		r.expectedMs = spec.Expected.Milliseconds()
	}
}

// countType counts an outcome in the statistics of the job's type, while its
// queue is adaptive (SPEC §5.3). An ack timeout, a decline, a cancellation and a
// late renewal say nothing of the type; an expired lease failed, and nobody knows
// how long it took; nor how long an attempt that timed out would have taken.
func (ts *typeStats) countType(l *leaseRow, what outcome) {
	p := &ts.m.queues.get(l.queue).policy
	if p.Ranking != rota.RankAdaptive {
		return
	}
	us := int64(-1)
	switch what {
	case outcomeSuccess, outcomeFailure, outcomeProofInvalid:
		us = int64(ts.m.head.clock-l.began()) * 1000
	case outcomeExpired, outcomeTimedOut:
	default:
		return
	}
	if r := ts.editType(l.typ); r != nil {
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

// editType returns a type's row, a new one while there is room: of more than
// MaxTypes types nothing is known.
func (ts *typeStats) editType(typ rota.JobType) *typeRow {
	if ts.types.get(typ) == nil {
		if ts.types.len() >= limits.MaxTypes {
			return nil
		}
		ts.types.insert(typ, &typeRow{typ: typ})
	}
	return ts.types.edit(typ)
}

func (r *typeRow) stats() sched.Stats {
	return sched.Stats{Success: r.success, Fail: r.fail, EMAus: r.emaUs, Sampled: r.sampled}
}

func (r *typeRow) set(s sched.Stats) {
	r.success, r.fail, r.emaUs, r.sampled = s.Success, s.Fail, s.EMAus, s.Sampled
}

// stats is what a queue's rounds know of a type: the cluster's statistics, and the
// expected time that the queue's policy goes by.
func (ts *typeStats) stats(q *queueRow, typ rota.JobType) (s sched.Stats) {
	declared := int64(0)
	if r := ts.types.get(typ); r != nil {
		s, declared = r.stats(), r.expectedMs
	}
	if s.ExpectedMs = q.expects(typ); q.policy.Estimate == rota.EstimateByUser && declared > 0 {
		s.ExpectedMs = declared
	}
	return s
}

// statsOf is stats for a queue's rounds, nil where they do not ask.
func (ts *typeStats) statsOf(q *queueRow) func(rota.JobType) sched.Stats {
	if q.policy.Ranking != rota.RankAdaptive {
		return nil
	}
	return func(typ rota.JobType) sched.Stats { return ts.stats(q, typ) }
}

// typesShown bounds the types that a queue's view lists.
const typesShown = 1_000

// typeWords lists the types with statistics or an expected time by name, the first
// thousand of them. The statistics are the cluster's, not the queue's; their weights are
// the caller's to compute (sched.Scoring): there is no float in this package.
func (ts *typeStats) typeWords(q *queueRow) []rota.TypeStats {
	list := make([]rota.TypeStats, 0, min(ts.types.len()+len(q.expected), typesShown))
	expected := q.expected
	add := func(typ rota.JobType) bool {
		s := ts.stats(q, typ)
		list = append(list, rota.TypeStats{Type: typ, Success: s.Success, Fail: s.Fail, EMA: millis.Micros(s.EMAus),
			Expected: millis.Duration(s.ExpectedMs)})
		return len(list) < typesShown
	}
	before := func(typ rota.JobType, all bool) bool {
		for len(expected) > 0 && (all || expected[0].typ < typ) {
			if !add(expected[0].typ) {
				return false
			}
			expected = expected[1:]
		}
		if len(expected) > 0 && expected[0].typ == typ {
			expected = expected[1:]
		}
		return true
	}
	full := false
	ts.types.scan(func(typ rota.JobType, r *typeRow) bool {
		full = !before(typ, false) || !add(typ)
		return !full
	})
	if !full {
		before("", true)
	}
	return list
}

// types checks that statistics are such as outcomes give.
func (c *checker) types() {
	m := c.m
	if n := m.typeStats.types.len(); n > limits.MaxTypes {
		c.fault("I9: %d types have statistics, %d may have", n, limits.MaxTypes)
	}
	m.typeStats.types.scan(func(typ rota.JobType, r *typeRow) bool {
		if r.typ != typ || r.success < 0 || r.fail < 0 || r.emaUs < 0 || r.expectedMs < 0 || !r.sampled && r.emaUs != 0 {
			c.fault("I9: the statistics of type %s are %s", typ, fmt.Sprint(r.stats()))
		}
		return true
	})
}
