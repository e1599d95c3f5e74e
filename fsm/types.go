package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

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
	s         *state
	life      *lifecycle
	placement *placement
	types     table[rota.JobType, typeRow, *typeRow]
	// estimates are what estimates are learned from, of the queues that learn; order is derived: those
	// that learned nothing for longest first.
	estimates table[string, estimateRow, *estimateRow]
	order     *btree.BTreeG[*estimateRow]
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
	p := &ts.s.queues.get(l.queue).policy
	if p.Ranking != rota.RankAdaptive {
		return
	}
	us := int64(-1)
	switch what {
	case outcomeSuccess, outcomeFailure, outcomeProofInvalid:
		us = int64(ts.s.head.clock-l.began()) * 1000
	case outcomeExpired, outcomeTimedOut:
	default:
		return
	}
	if r := ts.editType(l.typ); r != nil {
		r.set(r.stats().Observe(us, what == outcomeSuccess, p.StatsWindow))
	}
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

// estimateRow is how long the last jobs of a tenant and type took in a queue (SPEC §26.1).
type estimateRow struct {
	rowMeta
	// key is the estimateKey, by which the row is found.
	key    string
	queue  rota.QueueName
	tenant rota.TenantID
	typ    rota.JobType
	// at is the entry in which the last of them ended.
	at rota.Index
	// took never changes once it stands here.
	took []sched.Took
}

func estimateKey(queue rota.QueueName, tenant rota.TenantID, typ rota.JobType) string {
	return string(queue) + "/" + string(tenant) + "/" + string(typ)
}

func (r *estimateRow) TreeKey() string { return r.key }

func (r *estimateRow) canonical(e *encoder) {
	e.str(string(r.queue))
	e.str(string(r.tenant))
	e.str(string(r.typ))
	e.uint(uint64(r.at))
	e.uint(uint64(len(r.took)))
	for _, t := range r.took {
		e.int(t.Ms)
		e.int(t.Said)
	}
}

func decodeEstimate(d *decoder) *estimateRow {
	r := &estimateRow{queue: rota.QueueName(d.str()), tenant: rota.TenantID(d.str()), typ: rota.JobType(d.str()), at: rota.Index(d.uint())}
	r.key = estimateKey(r.queue, r.tenant, r.typ)
	for range d.count(sched.TookMost) {
		r.took = append(r.took, sched.Took{Ms: d.int(), Said: d.int()})
	}
	return r
}

// newEstimateOrder orders rows by the entry in which they learned last, then by key.
func newEstimateOrder() *btree.BTreeG[*estimateRow] {
	return btree.NewBTreeGOptions(func(a, b *estimateRow) bool {
		return a.at < b.at || a.at == b.at && a.key < b.key
	}, btree.Options{NoLocks: true})
}

// learn remembers how long a completed attempt took, where the queue's estimates are learned. Of limits.MaxEstimates
// rows the one whose last lesson is oldest gives way.
func (ts *typeStats) learn(l *leaseRow, what outcome) {
	if what != outcomeSuccess || !ts.s.queues.get(l.queue).policy.Estimate.Learned() {
		return
	}
	key := estimateKey(l.queue, l.tenant, l.typ)
	r := ts.estimates.edit(key)
	if r == nil {
		if oldest, full := ts.order.Min(); full && ts.estimates.len() >= limits.MaxEstimates {
			ts.forget(oldest)
		}
		r = &estimateRow{key: key, queue: l.queue, tenant: l.tenant, typ: l.typ}
		ts.estimates.insert(key, r)
	} else {
		ts.order.Delete(r)
	}
	said := ts.s.jobs.get(l.Job).spec.Expected.Milliseconds()
	r.at, r.took = ts.s.at, sched.Learn(r.took, sched.Took{Ms: int64(ts.s.head.clock - l.began()), Said: said})
	ts.order.Set(r)
}

func (ts *typeStats) forget(r *estimateRow) {
	ts.order.Delete(r)
	ts.estimates.drop(r.key)
}

// forgetQueue forgets what was learned in a queue that is deleted, forgetTenant what was of a tenant.
func (ts *typeStats) forgetQueue(name rota.QueueName) {
	for _, key := range keysUnder(&ts.estimates, string(name)+"/") {
		ts.forget(ts.estimates.get(key))
	}
}

func (ts *typeStats) forgetTenant(id rota.TenantID) {
	var gone []*estimateRow
	ts.estimates.scan(func(_ string, r *estimateRow) bool {
		if r.tenant == id {
			gone = append(gone, r)
		}
		return true
	})
	for _, r := range gone {
		ts.forget(r)
	}
}

// foretell is what a job that becomes QUEUED keeps: how long it should take by what was learned, and the part of all
// workers that it takes, where its queue's policy asks for them; 0 elsewhere.
func (ts *typeStats) foretell(spec *keptSpec, p *rota.QueuePolicy) (estimate, part int64) {
	if p.Estimate.Learned() {
		if r := ts.estimates.get(estimateKey(spec.Queue, spec.Tenant, spec.Type)); r != nil {
			estimate = sched.Foretell(p.Estimate, r.took, spec.Expected.Milliseconds())
		}
	}
	if p.Ranking == rota.RankSmallest {
		part = ts.placement.registry.supply.PartOf(sched.Load{CPU: spec.CPUMilli, Memory: spec.MemoryBytes, IO: spec.IOBytesPerS})
	}
	return estimate, part
}

// foresee has a job that becomes QUEUED keep what foretell says; j is editable.
func (ts *typeStats) foresee(j *jobRow, q *queueRow) {
	estimate, part := ts.foretell(j.spec, &q.policy)
	was := j.history()
	if estimate == was.estimate && part == was.part {
		return
	}
	past := *was
	past.content, past.estimate, past.part = j.firstContent(), estimate, part
	ts.life.own(j)
	j.past = &past
}

// foreseeAll is foresee for the jobs that are QUEUED as their queue's policy changes.
func (ts *typeStats) foreseeAll(q *queueRow) {
	var ids []rota.JobID
	ts.s.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		if j.state == rota.JobQueued && j.spec.Queue == q.name {
			ids = append(ids, id)
		}
		return true
	})
	for _, id := range ids {
		ts.foresee(ts.s.jobs.edit(id), q)
	}
}

// estimates checks what was learned.
func (c *checker) estimates() {
	ts := &c.m.typeStats
	if n := ts.estimates.len(); n > limits.MaxEstimates || n != ts.order.Len() {
		c.fault("I9: %d tenants and types have estimates, %d in order, %d may have", n, ts.order.Len(), limits.MaxEstimates)
	}
	ts.estimates.scan(func(key string, r *estimateRow) bool {
		in, _ := ts.order.Get(r)
		bad := func(t sched.Took) bool { return t.Ms < 1 || t.Said < 0 }
		if r.key != key || r.key != estimateKey(r.queue, r.tenant, r.typ) || in != r || r.at > c.m.head.index || c.m.queues.get(r.queue) == nil ||
			len(r.took) == 0 || len(r.took) > sched.TookMost || slices.ContainsFunc(r.took, bad) {
			c.fault("I9: what estimates of %s are learned from is %v, of entry %d", key, r.took, r.at)
		}
		return true
	})
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
