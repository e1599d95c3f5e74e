package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/peer"
)

// keyModel is the naive second implementation of SPEC §19: a list of jobs, with every rule written out where it
// applies.
type keyModel struct {
	rules []rota.KeyRule
	jobs  []*keyedJob
	// blocked are the ended jobs that block a sequence, by the rule's key and its scope.
	blocked map[string]*keyedJob
	// taken are the times of assignments, by the same keys.
	taken map[string][]rota.Clock
	now   rota.Clock
	seq   int
}

type keyedJob struct {
	id     rota.JobID
	tenant rota.TenantID
	keys   []string
	place  map[string]int
	seq    int
	open   bool
}

func (m *keyModel) ruleOf(key string) *rota.KeyRule {
	name, value, _ := strings.Cut(key, ":")
	var found *rota.KeyRule
	for i := range m.rules {
		if r := &m.rules[i]; r.Name == name && (r.Value == value || r.Value == "" && found == nil) {
			found = r
		}
	}
	return found
}

func (m *keyModel) countOf(j *keyedJob, key string) string {
	if m.ruleOf(key).Scope == rota.KeyOfCluster {
		return "/" + key
	}
	return string(j.tenant) + "/" + key
}

// sharing returns the jobs that share a count with j.
func (m *keyModel) sharing(j *keyedJob, key string) (others []*keyedJob) {
	for _, o := range m.jobs {
		for _, k := range o.keys {
			if k == key && m.countOf(o, k) == m.countOf(j, key) {
				others = append(others, o)
			}
		}
	}
	return others
}

func (m *keyModel) placeOf(j *keyedJob, count string) int {
	if p, kept := j.place[count]; kept {
		return p
	}
	return j.seq
}

// held returns why a job may not be assigned now.
func (m *keyModel) held(j *keyedJob) string {
	for _, key := range j.keys {
		r := m.ruleOf(key)
		if r == nil {
			continue
		}
		count, open, first := m.countOf(j, key), int64(0), j
		for _, o := range m.sharing(j, key) {
			if o.open {
				open++
			}
			if m.placeOf(o, count) < m.placeOf(first, count) {
				first = o
			}
		}
		switch b := m.blocked[count]; {
		case r.Concurrency > 0 && open >= r.Concurrency:
			return "KEY_AT_LIMIT"
		case r.Sequence != 0 && b != nil && b.id != j.id:
			return "SEQUENCE_BLOCKED"
		case r.Sequence != 0 && (first != j || open > 0):
			return "WAITING_IN_SEQUENCE"
		case r.Rate > 0 && m.rateFull(r, count):
			return "KEY_RATE"
		}
	}
	return ""
}

// rateFull calculates the bucket from all assignments ever, in nanoseconds.
func (m *keyModel) rateFull(r *rota.KeyRule, count string) bool {
	every, tat := r.PeriodMs*1_000_000/r.Rate, int64(0)
	for _, at := range m.taken[count] {
		tat = max(tat, int64(at)*1_000_000) + every
	}
	return max(tat-int64(m.now)*1_000_000, 0) > (max(r.Burst, 1)-1)*every
}

func (m *keyModel) assigned(id rota.JobID) error {
	j := m.job(id)
	if why := m.held(j); why != "" {
		return fmt.Errorf("job %s was assigned: %s", id, why)
	}
	j.open = true
	for _, key := range j.keys {
		if m.ruleOf(key) != nil {
			m.taken[m.countOf(j, key)] = append(m.taken[m.countOf(j, key)], m.now)
		}
	}
	return nil
}

func (m *keyModel) job(id rota.JobID) *keyedJob {
	for _, j := range m.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// ended removes a job, which blocks its sequences if it ended as their head without completing.
func (m *keyModel) ended(id rota.JobID, well bool) {
	j := m.job(id)
	for _, key := range j.keys {
		r := m.ruleOf(key)
		if r == nil || r.Sequence == 0 {
			continue
		}
		count := m.countOf(j, key)
		head, b := true, m.blocked[count]
		for _, o := range m.sharing(j, key) {
			head = head && m.placeOf(o, count) >= m.placeOf(j, count)
		}
		switch {
		case well && b != nil && b.id == id:
			delete(m.blocked, count)
		case !well && head && r.Sequence == rota.SequenceBlock && (b == nil || b.id == id):
			m.blocked[count] = &keyedJob{id: id, seq: m.placeOf(j, count)}
		}
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(o *keyedJob) bool { return o.id == id })
}

func (m *keyModel) add(id rota.JobID, tenant rota.TenantID, keys []string) {
	m.seq++
	j := &keyedJob{id: id, tenant: tenant, keys: keys, place: map[string]int{}, seq: m.seq}
	m.jobs = append(m.jobs, j)
	for count, b := range m.blocked {
		if b.id == id {
			j.place[count] = b.seq
		}
	}
}

// TestKeysModel compares random lives of jobs with keys with the model, on a worker with room for all: jobs blocked by
// the model are never assigned, and all others start.
func TestKeysModel(t *testing.T) {
	t.Parallel()
	long(t)
	for seed := range uint64(60) {
		r := &keyRace{t: t, b: newBench(t), d: rand.New(rand.NewPCG(seed, 19)), specs: map[rota.JobID]*keyedJob{}}
		r.b.every = 7
		r.m = &keyModel{blocked: map[string]*keyedJob{}, taken: map[string][]rota.Clock{}}
		ranking := []string{"aging", "fifo", "adaptive", "market"}[seed%4]
		r.b.ok(queueOp("default", "attempt_max", "2", "backoff_base", "0", "ack_timeout_ms", "900000", "lease_ms",
			"900000", "ranking", ranking, "fair_share", []string{"on", "off"}[seed%2],
			"hold_after", "600s", "oldest_every", "3"))
		r.b.ok(registerOp("w", 10_000, "x", false))
		r.rules()
		for range 150 {
			r.step()
		}
		r.b.sound()
	}
}

type keyRace struct {
	t     *testing.T
	b     *bench
	m     *keyModel
	d     *rand.Rand
	n     int
	over  []rota.JobID
	specs map[rota.JobID]*keyedJob
}

func (r *keyRace) of(list ...string) string { return list[r.d.IntN(len(list))] }

// rules sets the rules before the first job; TestPolicyMix changes them while jobs run.
func (r *keyRace) rules() {
	for _, name := range []string{"a", "b", "c"} {
		for _, value := range []string{"", "1"} {
			rule := rota.KeyRule{Name: name, Value: value, Concurrency: int64(r.d.IntN(4)),
				Scope: rota.KeyScope(r.d.IntN(2)), Sequence: rota.KeySequence(max(0, r.d.IntN(5)-2))}
			if r.d.IntN(3) == 0 {
				rule.Rate, rule.PeriodMs, rule.Burst = 1+int64(r.d.IntN(3)), 1000, int64(r.d.IntN(3))
			}
			if r.d.IntN(2) == 0 {
				rule.Queue = "default"
			}
			if r.d.IntN(3) == 0 || rule.Check() != nil || value != "" && r.m.ruleOf(name+":") != nil &&
				r.m.ruleOf(name+":").Queue != rule.Queue {
				continue
			}
			r.b.ok(SetKeyRuleOp(&rule))
			r.m.rules = append(r.m.rules, rule)
		}
	}
}

func (r *keyRace) step() {
	r.m.now = r.b.now
	switch k := r.d.IntN(12); {
	case k < 5:
		r.n++
		j := &keyedJob{id: rota.JobID(fmt.Sprint("j", r.n)), tenant: rota.TenantID(r.of("t1", "t2"))}
		for _, name := range []string{"a", "b", "c"} {
			if r.d.IntN(2) == 0 {
				j.keys = append(j.keys, name+":"+r.of("1", "2", "3"))
			}
		}
		r.specs[j.id] = j
		r.b.ok(submitOp(jobSpec(string(j.id), func(s *rota.JobSpec) {
			s.Tenant, s.Keys, s.Priority = j.tenant, j.keys, int32(r.d.IntN(11))
		})))
		r.m.add(j.id, j.tenant, j.keys)
	case k < 8:
		r.finish()
	case k == 8 && len(r.m.jobs) > 0:
		j := r.m.jobs[r.d.IntN(len(r.m.jobs))]
		r.b.ok(cancelOp(string(j.id)))
		r.m.ended(j.id, true)
		r.over = append(r.over, j.id)
	case k == 9 && len(r.over) > 0:
		id := r.over[r.d.IntN(len(r.over))]
		r.b.ok(retryOp(string(id)))
		r.m.add(id, r.specs[id].tenant, r.specs[id].keys)
		r.over = slices.DeleteFunc(r.over, func(o rota.JobID) bool { return o == id })
	case k == 10:
		r.skip()
	default:
		r.b.now += rota.Clock(r.d.IntN(1000))
		r.b.entry(sweepOp())
	}
	r.match()
}

// finish ends an open lease, successfully or not.
func (r *keyRace) finish() {
	if r.b.leasing.leases.Len() == 0 {
		return
	}
	l := rowAt(&r.b.leasing.leases, r.d.IntN(r.b.leasing.leases.Len())).Lease
	v, how := rota.VerbComplete, peer.FailRetry
	if r.d.IntN(2) == 0 {
		how = peer.FailNoRetry
	}
	if r.d.IntN(3) == 0 {
		v = rota.VerbFail
	}
	r.b.entry(verb(v, l, func(c *peer.LeaseCommand) { c.Fail = how }))
	if j := r.b.JobTable.Get(l.Job); j != nil {
		r.m.job(l.Job).open = false
		return
	}
	r.m.ended(l.Job, v == rota.VerbComplete)
	if v == rota.VerbFail {
		r.over = append(r.over, l.Job)
	}
}

func (r *keyRace) skip() {
	r.b.keyring.CountRows.Scan(func(_ string, c *state.KeyCountRow) bool {
		count := string(c.Tenant) + "/" + c.Text
		if c.Blocker == "" {
			return true
		}
		if b := r.m.blocked[count]; b == nil || b.id != c.Blocker {
			r.t.Fatalf("key %s is blocked by %s, want %v as in the model", count, c.Blocker, b)
		}
		r.b.ok(&fsmpb.Op{Op: &fsmpb.Op_SkipKey{SkipKey: &fsmpb.SkipKey{Queue: string(c.Queue), Tenant: string(c.Tenant),
			Key: c.Text, Job: string(c.Blocker)}}})
		if j := r.m.job(r.m.blocked[count].id); j != nil {
			delete(j.place, count)
		}
		delete(r.m.blocked, count)
		return false
	})
}

// match applies rounds until nothing is placed, and compares which jobs wait.
func (r *keyRace) match() {
	r.m.now = r.b.now
	for {
		leases := inOrder(r.b.match())
		for _, l := range leases {
			if err := r.m.assigned(l.Job); err != nil {
				r.t.Fatal(err)
			}
		}
		if len(leases) == 0 {
			break
		}
	}
	for _, j := range r.m.jobs {
		row := r.b.JobTable.Get(j.id)
		if row == nil {
			r.t.Fatalf("job %s is gone", j.id)
		}
		if why := r.m.held(j); row.State == rota.JobQueued && why == "" {
			r.t.Fatalf("job %s has no reason to wait: %s", j.id,
				r.b.admission.blocked(row, r.b.QueueTable.Get("default"), false))
		}
	}
}
