package learn

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

// WithExpected returns the list with one setting added; 0 removes a type.
func WithExpected(list []state.ExpectedTime, typ rota.JobType, ms int64) []state.ExpectedTime {
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

// Stats holds statistics of each type from the ends of its jobs.
type Stats struct {
	s     *state.State
	ports Ports
	Types state.Table[rota.JobType, state.TypeRow, *state.TypeRow]
	// Estimates are the data that estimates are learned from, for queues that learn; Order is derived: rows without a
	// new lesson for longest come first.
	Estimates state.Table[string, EstimateRow, *EstimateRow]
	Order     *btree.BTreeG[*EstimateRow]
}

// Ports is what the statistics use of other parts.
type Ports struct {
	// Own gives a job a JobLife of its own.
	Own func(*state.JobRow)
	// PartOf returns the part of all workers that a load uses, in millionths.
	PartOf func(sched.Load) int64
}

// Init connects the statistics to the state and the parts that they use.
func (ts *Stats) Init(s *state.State, ports Ports) {
	ts.s, ts.ports = s, ports
	ts.Types.Init(state.TagType, &s.Ledger)
	ts.Estimates.Init(state.TagEstimate, &s.Ledger)
	ts.Order = newEstimateOrder()
}

// Load adds a row of learned estimates from a snapshot; false if it is there already.
func (ts *Stats) Load(d *state.Decoder) (fresh bool) {
	r := decodeEstimate(d)
	fresh = ts.Estimates.Load(r.Key, r)
	ts.Order.Set(r)
	return fresh
}

// DeclareType stores how long jobs of a type should take (SPEC §5.3): what the newest submission declares to an
// adaptive queue whose policy uses it.
func (ts *Stats) DeclareType(spec *state.KeptSpec, q *state.QueueRow) {
	if q.Policy.Ranking != rota.RankAdaptive || q.Policy.Estimate != rota.EstimateByUser || spec.Expected <= 0 {
		return
	}
	if r := ts.Types.Get(spec.Type); r != nil && r.ExpectedMs == spec.Expected.Milliseconds() {
		return
	}
	if r := ts.editType(spec.Type); r != nil {
		r.ExpectedMs = spec.Expected.Milliseconds()
	}
}

// CountType counts an outcome in the statistics of the job's type, while its queue is adaptive (SPEC §5.3). An ack
// timeout, a decline, a cancellation and a late renewal do not count. An expired lease failed with an unknown duration;
// so did an attempt that timed out.
func (ts *Stats) CountType(l *state.LeaseRow, what state.Outcome) {
	p := &ts.s.QueueTable.Get(l.Queue).Policy
	if p.Ranking != rota.RankAdaptive {
		return
	}
	us := int64(-1)
	switch what {
	case state.OutcomeSuccess, state.OutcomeFailure, state.OutcomeProofInvalid:
		us = int64(ts.s.Header.Clock-l.Began()) * 1000
	case state.OutcomeExpired, state.OutcomeTimedOut:
	default:
		return
	}
	if r := ts.editType(l.Typ); r != nil {
		r.Set(r.Stats().Observe(us, what == state.OutcomeSuccess, p.StatsWindow))
	}
}

// editType returns a type's row, a new one while there is room: beyond MaxTypes types nothing is recorded.
func (ts *Stats) editType(typ rota.JobType) *state.TypeRow {
	if ts.Types.Get(typ) == nil {
		if ts.Types.Len() >= limits.MaxTypes {
			return nil
		}
		ts.Types.Insert(typ, &state.TypeRow{Typ: typ})
	}
	return ts.Types.Edit(typ)
}

// Stats returns a type's stats for a queue's rounds: the cluster's statistics, and the expected time that the queue's
// policy uses.
func (ts *Stats) Stats(q *state.QueueRow, typ rota.JobType) (s sched.Stats) {
	declared := int64(0)
	if r := ts.Types.Get(typ); r != nil {
		s, declared = r.Stats(), r.ExpectedMs
	}
	if s.ExpectedMs = q.Expects(typ); q.Policy.Estimate == rota.EstimateByUser && declared > 0 {
		s.ExpectedMs = declared
	}
	return s
}

// StatsOf returns stats as a function for a queue's rounds, nil if they do not use it.
func (ts *Stats) StatsOf(q *state.QueueRow) func(rota.JobType) sched.Stats {
	if q.Policy.Ranking != rota.RankAdaptive {
		return nil
	}
	return func(typ rota.JobType) sched.Stats { return ts.Stats(q, typ) }
}

// TypesShown is the maximum number of types that a queue's view lists.
const TypesShown = 1_000

// TypeWords returns the types with statistics or an expected time by name, the first thousand of them. The statistics
// are the cluster's, not the queue's. The caller calculates their weights (sched.Scoring): this package uses no floats.
func (ts *Stats) TypeWords(q *state.QueueRow) []rota.TypeStats {
	list := make([]rota.TypeStats, 0, min(ts.Types.Len()+len(q.Expected), TypesShown))
	expected := q.Expected
	add := func(typ rota.JobType) bool {
		s := ts.Stats(q, typ)
		list = append(list, rota.TypeStats{Type: typ, Success: s.Success, Fail: s.Fail, EMA: millis.Micros(s.EMAus),
			Expected: millis.Duration(s.ExpectedMs)})
		return len(list) < TypesShown
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
	ts.Types.Scan(func(typ rota.JobType, r *state.TypeRow) bool {
		full = !before(typ, false) || !add(typ)
		return !full
	})
	if !full {
		before("", true)
	}
	return list
}

// EstimateRow holds how long the last jobs of a tenant and type took in a queue (SPEC §26.1).
type EstimateRow struct {
	state.RowMeta
	// Key is the estimateKey, the key of the row.
	Key    string
	Queue  rota.QueueName
	Tenant rota.TenantID
	Typ    rota.JobType
	// At is the entry in which the last of them ended.
	At rota.Index
	// A stored took never changes.
	Took []sched.Took
}

// EstimateKey returns the key of an EstimateRow.
func EstimateKey(queue rota.QueueName, tenant rota.TenantID, typ rota.JobType) string {
	return string(queue) + "/" + string(tenant) + "/" + string(typ)
}

// TreeKey returns the EstimateKey.
func (r *EstimateRow) TreeKey() string { return r.Key }

// Canonical appends the row's canonical form.
func (r *EstimateRow) Canonical(e *state.Encoder) {
	e.Str(string(r.Queue))
	e.Str(string(r.Tenant))
	e.Str(string(r.Typ))
	e.Uint(uint64(r.At))
	e.Uint(uint64(len(r.Took)))
	for _, t := range r.Took {
		e.Int(t.Ms)
		e.Int(t.Said)
	}
}

func decodeEstimate(d *state.Decoder) *EstimateRow {
	r := &EstimateRow{Queue: rota.QueueName(d.Str()), Tenant: rota.TenantID(d.Str()), Typ: rota.JobType(d.Str()),
		At: rota.Index(d.Uint())}
	r.Key = EstimateKey(r.Queue, r.Tenant, r.Typ)
	for range d.Count(sched.MaxTook) {
		r.Took = append(r.Took, sched.Took{Ms: d.Int(), Said: d.Int()})
	}
	return r
}

// newEstimateOrder orders rows by the entry in which they learned last, then by key.
func newEstimateOrder() *btree.BTreeG[*EstimateRow] {
	return btree.NewBTreeGOptions(func(a, b *EstimateRow) bool {
		return a.At < b.At || a.At == b.At && a.Key < b.Key
	}, btree.Options{NoLocks: true})
}

// Learn records how long a completed attempt took, if the queue's estimates are learned. Beyond limits.MaxEstimates
// rows the one with the oldest lesson is dropped.
func (ts *Stats) Learn(l *state.LeaseRow, what state.Outcome) {
	if what != state.OutcomeSuccess || !ts.s.QueueTable.Get(l.Queue).Policy.Estimate.Learned() {
		return
	}
	key := EstimateKey(l.Queue, l.Tenant, l.Typ)
	r := ts.Estimates.Edit(key)
	if r == nil {
		if oldest, full := ts.Order.Min(); full && ts.Estimates.Len() >= limits.MaxEstimates {
			ts.forget(oldest)
		}
		r = &EstimateRow{Key: key, Queue: l.Queue, Tenant: l.Tenant, Typ: l.Typ}
		ts.Estimates.Insert(key, r)
	} else {
		ts.Order.Delete(r)
	}
	said := ts.s.JobTable.Get(l.Job).Spec.Expected.Milliseconds()
	r.At, r.Took = ts.s.At, sched.Learn(r.Took, sched.Took{Ms: int64(ts.s.Header.Clock - l.Began()), Said: said})
	ts.Order.Set(r)
}

func (ts *Stats) forget(r *EstimateRow) {
	ts.Order.Delete(r)
	ts.Estimates.Drop(r.Key)
}

// ForgetQueue drops the estimates of a deleted queue; ForgetTenant drops those of a tenant.
func (ts *Stats) ForgetQueue(name rota.QueueName) {
	for _, key := range state.KeysUnder(&ts.Estimates, string(name)+"/") {
		ts.forget(ts.Estimates.Get(key))
	}
}

// ForgetTenant drops the estimates of a tenant.
func (ts *Stats) ForgetTenant(id rota.TenantID) {
	var gone []*EstimateRow
	ts.Estimates.Scan(func(_ string, r *EstimateRow) bool {
		if r.Tenant == id {
			gone = append(gone, r)
		}
		return true
	})
	for _, r := range gone {
		ts.forget(r)
	}
}

// Foretell returns what a job that becomes QUEUED stores: its learned duration in ms, and the part of all workers that
// it uses, if its queue's policy uses them; otherwise 0.
func (ts *Stats) Foretell(spec *state.KeptSpec, p *rota.QueuePolicy) (estimate, part int64) {
	if p.Estimate.Learned() {
		if r := ts.Estimates.Get(EstimateKey(spec.Queue, spec.Tenant, spec.Type)); r != nil {
			estimate = sched.Foretell(p.Estimate, r.Took, spec.Expected.Milliseconds())
		}
	}
	if p.Ranking == rota.RankSmallest {
		part = ts.ports.PartOf(sched.Load{CPU: spec.CPUMilli, Memory: spec.MemoryBytes,
			IO: spec.IOBytesPerS})
	}
	return estimate, part
}

// Foresee stores the result of foretell in a job that becomes QUEUED; j is editable.
func (ts *Stats) Foresee(j *state.JobRow, q *state.QueueRow) {
	estimate, part := ts.Foretell(j.Spec, &q.Policy)
	was := j.History()
	if estimate == was.Estimate && part == was.Part {
		return
	}
	past := *was
	past.Content, past.Estimate, past.Part = j.FirstContent(), estimate, part
	ts.ports.Own(j)
	j.Past = &past
}

// ForeseeAll is foresee for the jobs that are QUEUED when their queue's policy changes.
func (ts *Stats) ForeseeAll(q *state.QueueRow) {
	var ids []rota.JobID
	ts.s.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued && j.Spec.Queue == q.Name {
			ids = append(ids, id)
		}
		return true
	})
	for _, id := range ids {
		ts.Foresee(ts.s.JobTable.Edit(id), q)
	}
}

// CheckEstimates checks the learned data.
func (ts *Stats) CheckEstimates(fault func(format string, args ...any)) {
	if n := ts.Estimates.Len(); n > limits.MaxEstimates || n != ts.Order.Len() {
		fault("I9: %d tenants and types have estimates, %d in order, %d may have", n, ts.Order.Len(),
			limits.MaxEstimates)
	}
	ts.Estimates.Scan(func(key string, r *EstimateRow) bool {
		in, _ := ts.Order.Get(r)
		bad := func(t sched.Took) bool { return t.Ms < 1 || t.Said < 0 }
		if r.Key != key || r.Key != EstimateKey(r.Queue, r.Tenant, r.Typ) || in != r || r.At > ts.s.Header.Index ||
			ts.s.QueueTable.Get(r.Queue) == nil ||
			len(r.Took) == 0 || len(r.Took) > sched.MaxTook || slices.ContainsFunc(r.Took, bad) {
			fault("I9: what estimates of %s are learned from is %v, of entry %d", key, r.Took, r.At)
		}
		return true
	})
}

// CheckTypes checks that statistics are possible results of outcomes.
func (ts *Stats) CheckTypes(fault func(format string, args ...any)) {
	if n := ts.Types.Len(); n > limits.MaxTypes {
		fault("I9: %d types have statistics, %d may have", n, limits.MaxTypes)
	}
	ts.Types.Scan(func(typ rota.JobType, r *state.TypeRow) bool {
		if r.Typ != typ || r.Success < 0 || r.Fail < 0 || r.EmaUs < 0 || r.ExpectedMs < 0 || !r.Sampled &&
			r.EmaUs != 0 {
			fault("I9: the statistics of type %s are %s", typ, fmt.Sprint(r.Stats()))
		}
		return true
	})
}
