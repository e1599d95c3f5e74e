package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// withExpected returns the list with one setting added; 0 removes a type.
func withExpected(list []state.ExpectedTime, typ rota.JobType, ms int64) []state.ExpectedTime {
	at, found := slices.BinarySearchFunc(list, typ, state.CompareExpected)
	list = slices.Clone(list)
	switch {
	case found && ms == 0:
		return slices.Delete(list, at, at+1)
	case found:
		list[at].Ms = ms
	case ms != 0:
		list = slices.Insert(list, at, state.ExpectedTime{Typ: typ, Ms: ms})
	}
	return list
}

// typeStats holds statistics of each type from the ends of its jobs.
type typeStats struct {
	s         *state.State
	life      *lifecycle
	placement *placement
	types     state.Table[rota.JobType, state.TypeRow, *state.TypeRow]
	// estimates are the data that estimates are learned from, for queues that learn; order is derived: rows without a
	// new lesson for longest come first.
	estimates state.Table[string, estimateRow, *estimateRow]
	order     *btree.BTreeG[*estimateRow]
}

// declareType stores how long jobs of a type should take (SPEC §5.3): what the newest submission declares to an
// adaptive queue whose policy uses it.
func (ts *typeStats) declareType(spec *state.KeptSpec, q *state.QueueRow) {
	if q.Policy.Ranking != rota.RankAdaptive || q.Policy.Estimate != rota.EstimateByUser || spec.Expected <= 0 {
		return
	}
	if r := ts.types.Get(spec.Type); r != nil && r.ExpectedMs == spec.Expected.Milliseconds() {
		return
	}
	if r := ts.editType(spec.Type); r != nil {
		r.ExpectedMs = spec.Expected.Milliseconds()
	}
}

// countType counts an outcome in the statistics of the job's type, while its queue is adaptive (SPEC §5.3). An ack
// timeout, a decline, a cancellation and a late renewal do not count. An expired lease failed with an unknown duration;
// so did an attempt that timed out.
func (ts *typeStats) countType(l *state.LeaseRow, what outcome) {
	p := &ts.s.QueueTable.Get(l.Queue).Policy
	if p.Ranking != rota.RankAdaptive {
		return
	}
	us := int64(-1)
	switch what {
	case outcomeSuccess, outcomeFailure, outcomeProofInvalid:
		us = int64(ts.s.Header.Clock-l.Began()) * 1000
	case outcomeExpired, outcomeTimedOut:
	default:
		return
	}
	if r := ts.editType(l.Typ); r != nil {
		r.Set(r.Stats().Observe(us, what == outcomeSuccess, p.StatsWindow))
	}
}

// editType returns a type's row, a new one while there is room: beyond MaxTypes types nothing is recorded.
func (ts *typeStats) editType(typ rota.JobType) *state.TypeRow {
	if ts.types.Get(typ) == nil {
		if ts.types.Len() >= limits.MaxTypes {
			return nil
		}
		ts.types.Insert(typ, &state.TypeRow{Typ: typ})
	}
	return ts.types.Edit(typ)
}

// stats returns a type's stats for a queue's rounds: the cluster's statistics, and the expected time that the queue's
// policy uses.
func (ts *typeStats) stats(q *state.QueueRow, typ rota.JobType) (s sched.Stats) {
	declared := int64(0)
	if r := ts.types.Get(typ); r != nil {
		s, declared = r.Stats(), r.ExpectedMs
	}
	if s.ExpectedMs = q.Expects(typ); q.Policy.Estimate == rota.EstimateByUser && declared > 0 {
		s.ExpectedMs = declared
	}
	return s
}

// statsOf returns stats as a function for a queue's rounds, nil if they do not use it.
func (ts *typeStats) statsOf(q *state.QueueRow) func(rota.JobType) sched.Stats {
	if q.Policy.Ranking != rota.RankAdaptive {
		return nil
	}
	return func(typ rota.JobType) sched.Stats { return ts.stats(q, typ) }
}

// typesShown is the maximum number of types that a queue's view lists.
const typesShown = 1_000

// typeWords returns the types with statistics or an expected time by name, the first thousand of them. The statistics
// are the cluster's, not the queue's. The caller calculates their weights (sched.Scoring): this package uses no floats.
func (ts *typeStats) typeWords(q *state.QueueRow) []rota.TypeStats {
	list := make([]rota.TypeStats, 0, min(ts.types.Len()+len(q.Expected), typesShown))
	expected := q.Expected
	add := func(typ rota.JobType) bool {
		s := ts.stats(q, typ)
		list = append(list, rota.TypeStats{Type: typ, Success: s.Success, Fail: s.Fail, EMA: millis.Micros(s.EMAus),
			Expected: millis.Duration(s.ExpectedMs)})
		return len(list) < typesShown
	}
	before := func(typ rota.JobType, all bool) bool {
		for len(expected) > 0 && (all || expected[0].Typ < typ) {
			if !add(expected[0].Typ) {
				return false
			}
			expected = expected[1:]
		}
		if len(expected) > 0 && expected[0].Typ == typ {
			expected = expected[1:]
		}
		return true
	}
	full := false
	ts.types.Scan(func(typ rota.JobType, r *state.TypeRow) bool {
		full = !before(typ, false) || !add(typ)
		return !full
	})
	if !full {
		before("", true)
	}
	return list
}

// estimateRow holds how long the last jobs of a tenant and type took in a queue (SPEC §26.1).
type estimateRow struct {
	state.RowMeta
	// key is the estimateKey, the key of the row.
	key    string
	queue  rota.QueueName
	tenant rota.TenantID
	typ    rota.JobType
	// at is the entry in which the last of them ended.
	at rota.Index
	// A stored took never changes.
	took []sched.Took
}

func estimateKey(queue rota.QueueName, tenant rota.TenantID, typ rota.JobType) string {
	return string(queue) + "/" + string(tenant) + "/" + string(typ)
}

func (r *estimateRow) TreeKey() string { return r.key }

func (r *estimateRow) Canonical(e *state.Encoder) {
	e.Str(string(r.queue))
	e.Str(string(r.tenant))
	e.Str(string(r.typ))
	e.Uint(uint64(r.at))
	e.Uint(uint64(len(r.took)))
	for _, t := range r.took {
		e.Int(t.Ms)
		e.Int(t.Said)
	}
}

func decodeEstimate(d *state.Decoder) *estimateRow {
	r := &estimateRow{queue: rota.QueueName(d.Str()), tenant: rota.TenantID(d.Str()), typ: rota.JobType(d.Str()),
		at: rota.Index(d.Uint())}
	r.key = estimateKey(r.queue, r.tenant, r.typ)
	for range d.Count(sched.MaxTook) {
		r.took = append(r.took, sched.Took{Ms: d.Int(), Said: d.Int()})
	}
	return r
}

// newEstimateOrder orders rows by the entry in which they learned last, then by key.
func newEstimateOrder() *btree.BTreeG[*estimateRow] {
	return btree.NewBTreeGOptions(func(a, b *estimateRow) bool {
		return a.at < b.at || a.at == b.at && a.key < b.key
	}, btree.Options{NoLocks: true})
}

// learn records how long a completed attempt took, if the queue's estimates are learned. Beyond limits.MaxEstimates
// rows the one with the oldest lesson is dropped.
func (ts *typeStats) learn(l *state.LeaseRow, what outcome) {
	if what != outcomeSuccess || !ts.s.QueueTable.Get(l.Queue).Policy.Estimate.Learned() {
		return
	}
	key := estimateKey(l.Queue, l.Tenant, l.Typ)
	r := ts.estimates.Edit(key)
	if r == nil {
		if oldest, full := ts.order.Min(); full && ts.estimates.Len() >= limits.MaxEstimates {
			ts.forget(oldest)
		}
		r = &estimateRow{key: key, queue: l.Queue, tenant: l.Tenant, typ: l.Typ}
		ts.estimates.Insert(key, r)
	} else {
		ts.order.Delete(r)
	}
	said := ts.s.JobTable.Get(l.Job).Spec.Expected.Milliseconds()
	r.at, r.took = ts.s.At, sched.Learn(r.took, sched.Took{Ms: int64(ts.s.Header.Clock - l.Began()), Said: said})
	ts.order.Set(r)
}

func (ts *typeStats) forget(r *estimateRow) {
	ts.order.Delete(r)
	ts.estimates.Drop(r.key)
}

// forgetQueue drops the estimates of a deleted queue; forgetTenant drops those of a tenant.
func (ts *typeStats) forgetQueue(name rota.QueueName) {
	for _, key := range keysUnder(&ts.estimates, string(name)+"/") {
		ts.forget(ts.estimates.Get(key))
	}
}

func (ts *typeStats) forgetTenant(id rota.TenantID) {
	var gone []*estimateRow
	ts.estimates.Scan(func(_ string, r *estimateRow) bool {
		if r.tenant == id {
			gone = append(gone, r)
		}
		return true
	})
	for _, r := range gone {
		ts.forget(r)
	}
}

// foretell returns what a job that becomes QUEUED stores: its learned duration in ms, and the part of all workers that
// it uses, if its queue's policy uses them; otherwise 0.
func (ts *typeStats) foretell(spec *state.KeptSpec, p *rota.QueuePolicy) (estimate, part int64) {
	if p.Estimate.Learned() {
		if r := ts.estimates.Get(estimateKey(spec.Queue, spec.Tenant, spec.Type)); r != nil {
			estimate = sched.Foretell(p.Estimate, r.took, spec.Expected.Milliseconds())
		}
	}
	if p.Ranking == rota.RankSmallest {
		part = ts.placement.registry.supply.PartOf(sched.Load{CPU: spec.CPUMilli, Memory: spec.MemoryBytes,
			IO: spec.IOBytesPerS})
	}
	return estimate, part
}

// foresee stores the result of foretell in a job that becomes QUEUED; j is editable.
func (ts *typeStats) foresee(j *state.JobRow, q *state.QueueRow) {
	estimate, part := ts.foretell(j.Spec, &q.Policy)
	was := j.History()
	if estimate == was.Estimate && part == was.Part {
		return
	}
	past := *was
	past.Content, past.Estimate, past.Part = j.FirstContent(), estimate, part
	ts.life.own(j)
	j.Past = &past
}

// foreseeAll is foresee for the jobs that are QUEUED when their queue's policy changes.
func (ts *typeStats) foreseeAll(q *state.QueueRow) {
	var ids []rota.JobID
	ts.s.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued && j.Spec.Queue == q.Name {
			ids = append(ids, id)
		}
		return true
	})
	for _, id := range ids {
		ts.foresee(ts.s.JobTable.Edit(id), q)
	}
}

// estimates checks the learned data.
func (c *checker) estimates() {
	ts := &c.m.typeStats
	if n := ts.estimates.Len(); n > limits.MaxEstimates || n != ts.order.Len() {
		c.fault("I9: %d tenants and types have estimates, %d in order, %d may have", n, ts.order.Len(),
			limits.MaxEstimates)
	}
	ts.estimates.Scan(func(key string, r *estimateRow) bool {
		in, _ := ts.order.Get(r)
		bad := func(t sched.Took) bool { return t.Ms < 1 || t.Said < 0 }
		if r.key != key || r.key != estimateKey(r.queue, r.tenant, r.typ) || in != r || r.at > c.m.Header.Index ||
			c.m.QueueTable.Get(r.queue) == nil ||
			len(r.took) == 0 || len(r.took) > sched.MaxTook || slices.ContainsFunc(r.took, bad) {
			c.fault("I9: what estimates of %s are learned from is %v, of entry %d", key, r.took, r.at)
		}
		return true
	})
}

// types checks that statistics are possible results of outcomes.
func (c *checker) types() {
	m := c.m
	if n := m.typeStats.types.Len(); n > limits.MaxTypes {
		c.fault("I9: %d types have statistics, %d may have", n, limits.MaxTypes)
	}
	m.typeStats.types.Scan(func(typ rota.JobType, r *state.TypeRow) bool {
		if r.Typ != typ || r.Success < 0 || r.Fail < 0 || r.EmaUs < 0 || r.ExpectedMs < 0 || !r.Sampled &&
			r.EmaUs != 0 {
			c.fault("I9: the statistics of type %s are %s", typ, fmt.Sprint(r.Stats()))
		}
		return true
	})
}
