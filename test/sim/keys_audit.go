package sim

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// keyed is the naive model of SPEC §19: the rules as events report them, the live jobs in order of submission, and
// every rule written out where it applies.
type keyed struct {
	specs map[rota.JobID]*rota.JobSpec
	rules map[string]*rota.KeyRule
	live  []*keyedJob
	seq   int
	// blocked holds, by count, the jobs that ended as the heads of sequences; taken holds the moments at which jobs of
	// a count were assigned.
	blocked map[string]keyedBlock
	taken   map[string][]rota.Clock
	// starts holds the attempts of counts that weigh them, in order; open is the latest of each job.
	starts map[string][]*weighedStart
	open   map[rota.JobID][]*weighedStart
	// told counts the events of blocks in an entry, made the blocks in the model.
	told, made int
	stops      stops
	spending   spending
}

type keyedJob struct {
	id    rota.JobID
	place int
}

type keyedBlock struct {
	job   rota.JobID
	place int
}

func newKeyed() keyed {
	return keyed{specs: map[rota.JobID]*rota.JobSpec{}, rules: map[string]*rota.KeyRule{},
		blocked: map[string]keyedBlock{},
		taken:   map[string][]rota.Clock{}, starts: map[string][]*weighedStart{},
		open: map[rota.JobID][]*weighedStart{}, stops: newStops(), spending: newSpending()}
}

// rule returns the rule of a value, or else that of its name.
func (m *keyed) rule(key string) *rota.KeyRule {
	name, _, _ := strings.Cut(key, ":")
	if r := m.rules[key]; r != nil {
		return r
	}
	return m.rules[name+":"]
}

// count names the count that a job's key belongs to, "" if no rule applies to it.
func (m *keyed) count(id rota.JobID, key string) string {
	switch r := m.rule(key); {
	case r == nil:
		return ""
	case r.Scope == rota.KeyOfCluster:
		return "/" + key
	}
	return string(m.specs[id].Tenant) + "/" + key
}

// sharing lists the live jobs of a count.
func (m *keyed) sharing(count string) (jobs []*keyedJob) {
	for _, j := range m.live {
		for _, key := range m.specs[j.id].Keys {
			if m.count(j.id, key) == count {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// place returns a job's position in a sequence: a job that blocks it keeps its position.
func (m *keyed) place(j *keyedJob, count string) int {
	if b, ok := m.blocked[count]; ok && b.job == j.id {
		return b.place
	}
	return j.place
}

// head returns the job whose turn it is, nil if there is none.
func (m *keyed) head(count string) (first *keyedJob) {
	for _, j := range m.sharing(count) {
		if first == nil || m.place(j, count) < m.place(first, count) {
			first = j
		}
	}
	if b, ok := m.blocked[count]; ok && first != nil && first.id != b.job && m.place(first, count) > b.place {
		return nil
	}
	return first
}

func (m *keyed) find(id rota.JobID) *keyedJob {
	for _, j := range m.live {
		if j.id == id {
			return j
		}
	}
	return nil
}

// keysOf follows the events of jobs with keys.
func (a *auditor) keysOf(e *rota.Event, at rota.Clock) {
	m := &a.keyed
	switch e.Kind {
	case rota.EventKeyRuleChanged:
		a.keyRule(e)
	case rota.EventKeyPaused, rota.EventKeyResumed, rota.EventKeyOpened, rota.EventKeyClosed:
		a.stopEvent(e)
	case rota.EventBudgetChanged, rota.EventBudgetWarned, rota.EventBudgetSpent, rota.EventBudgetGranted,
		rota.EventBudgetReset:
		a.budgetEvent(e)
	case rota.EventKeyBlocked:
		m.told++
	case rota.EventKeyPassed:
		var moved struct {
			Key string `json:"key"`
		}
		if err := json.Unmarshal([]byte(e.Payload), &moved); err != nil {
			a.failf("event %s has the payload %s: %v", e.ID, e.Payload, err)
		}
		if e.Text == "SKIPPED" {
			a.KeysSkipped++
			delete(m.blocked, string(e.Tenant)+"/"+moved.Key)
		}
	}
	if m.specs[e.Job] == nil {
		return
	}
	m.spent(e)
	lease := e.Lease
	if e.Kind == rota.EventJobDead {
		lease = a.jobs[e.Job].lease
	}
	m.stops.ended(e, lease)
	m.spending.ended(e, lease)
	switch e.Kind {
	case rota.EventJobEnqueued, rota.EventJobDelayed:
		if m.find(e.Job) == nil {
			m.seq++
			m.live = append(m.live, &keyedJob{e.Job, m.seq})
			a.jobs[e.Job].terminal = false // it may be retried
		}
	case rota.EventJobAssigned:
		a.keysAllow(e, at)
		m.spending.starts(a, e, m.specs[e.Job])
	case rota.EventLeaseAcked:
		for _, s := range m.spending.open[e.Lease] {
			s.acked = true
		}
		for _, s := range m.open[e.Job] {
			s.acked = true
		}
	case rota.EventJobCompleted, rota.EventJobCancelled, rota.EventJobDead, rota.EventJobExpired:
		m.ends(e.Job, e.Kind == rota.EventJobDead || e.Kind == rota.EventJobExpired)
	case rota.EventJobDeleted:
		for count, b := range m.blocked {
			if b.job == e.Job {
				delete(m.blocked, count)
			}
		}
	}
}

func (a *auditor) keyRule(e *rota.Event) {
	m := &a.keyed
	r := &rota.KeyRule{}
	if err := json.Unmarshal([]byte(e.Payload), r); err != nil {
		a.failf("event %s has the payload %s: %v", e.ID, e.Payload, err)
	}
	id := r.Name + ":" + r.Value
	if e.Text == "set" {
		m.rules[id] = r
		a.ruled(r)
		return
	}
	delete(m.rules, id)
	m.stops.forget(func(key string) bool { return m.rule(key) == nil })
	for count := range m.blocked {
		if _, key, _ := strings.Cut(count, "/"); m.rule(key) == nil {
			delete(m.blocked, count)
		}
	}
}

// keysAllow checks an assignment against each rule that applies to it.
func (a *auditor) keysAllow(e *rota.Event, at rota.Clock) {
	m := &a.keyed
	for _, key := range m.specs[e.Job].Keys {
		count := m.count(e.Job, key)
		if count == "" {
			continue
		}
		a.Keyed++
		r, open := m.rule(key), int64(0)
		for _, o := range m.sharing(count) {
			if o.id != e.Job && !a.jobs[o.id].lease.IsZero() {
				open++
			}
		}
		for _, l := range a.leases { // a slot is in use until the worker has stopped
			if s := m.specs[l.job]; l.outlives && s != nil &&
				slices.ContainsFunc(s.Keys, func(k string) bool { return m.count(l.job, k) == count }) {
				open++
			}
		}
		if r.Concurrency > 0 && open >= r.Concurrency {
			a.failf("job %s was assigned while %d leases of its key %s are open, %d may be", e.Job, open, key,
				r.Concurrency)
		}
		if r.Sequence != rota.SequenceNone {
			a.inTurn(e.Job, key, count, open)
		}
		a.stopsAllow(e, key, count, r, at)
		switch {
		case r.Unit != "":
			m.weigh(e.Job, count, r, at)
			a.Weighed++
		case r.Rate > 0:
			m.taken[count] = append(m.taken[count], at)
			within := int64(0)
			for _, t := range m.taken[count] {
				if t > at-rota.Clock(r.PeriodMs) {
					within++
				}
			}
			if within > r.Rate+r.Burst {
				a.failf("job %s is the %d. of its key %s in %d ms, %d may be", e.Job, within, key, r.PeriodMs,
					r.Rate+r.Burst)
			}
		}
	}
}

// inTurn checks that a job is the one whose turn it is.
func (a *auditor) inTurn(id rota.JobID, key, count string, open int64) {
	switch h := a.keyed.head(count); {
	case h == nil:
		a.failf("job %s was assigned behind job %s, which blocks its key %s", id, a.keyed.blocked[count].job, key)
	case h.id != id:
		a.failf("job %s was assigned before job %s, which comes before it in key %s", id, h.id, key)
	case open > 0:
		a.failf("job %s was assigned next to %d others of its sequence %s", id, open, key)
	}
}

// ends removes a job. A job that ends badly as the head of a sequence blocks it.
func (m *keyed) ends(id rota.JobID, badly bool) {
	for _, key := range m.specs[id].Keys {
		count := m.count(id, key)
		if count == "" || m.rule(key).Sequence != rota.SequenceBlock {
			continue
		}
		switch h := m.head(count); {
		case badly && h != nil && h.id == id:
			m.blocked[count] = keyedBlock{id, m.place(h, count)}
			m.made++
		case !badly && m.blocked[count].job == id:
			delete(m.blocked, count)
		}
	}
	for i, j := range m.live {
		if j.id == id {
			m.live = append(m.live[:i:i], m.live[i+1:]...)
			return
		}
	}
}

// keysSettled checks that an entry's events report each block and no other.
func (a *auditor) keysSettled(n *node, r *fsm.Applied) {
	m := &a.keyed
	if m.told != m.made {
		a.failf("entry %d reports %d blocked keys, want %d as in the model", r.Index, m.told, m.made)
	}
	m.stops.settled(a, r.Index)
	m.spending.settled(a, n, r)
	a.KeysBlocked += m.made
	m.told, m.made = 0, 0
}

// keysFinal checks that no job is left that waits for a key.
func (a *auditor) keysFinal() {
	a.weighedFinal()
	for _, j := range a.keyed.live {
		a.failf("job %s of keys %v never ended", j.id, a.keyed.specs[j.id].Keys)
	}
}
