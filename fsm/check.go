package fsm

import (
	"maps"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/plans"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// Digest returns the incremental multiset hash of the state (SPEC §2.5).
func (vw *View) Digest() rota.Digest { return vw.m.Ledger.Sum }

// Check checks the invariants and returns every fault that it finds, at most a hundred; nil means a sound state. It
// costs a pass over all rows.
//
//   - I1: a job is ASSIGNED or RUNNING exactly when one open lease names it.
//   - I2: tokens only grow, no two leases share one.
//   - I3: a worker's open leases, cpu, memory and I/O never exceed its caps.
//   - I4: every index and counter equals the rows.
//   - I5: a BLOCKED job has an unfinished parent, and no workflow has a cycle.
//   - I6: the clock never runs back, and nothing is stamped after it.
//   - I7: a terminal state is left only by an operator's retry.
//   - I8: every accepted job is live, remembered as ended, or counted as dropped by retention.
//   - I9: a tenant's and a domain's counters equal its rows.
//   - I10: the incremental digest equals a full recount.
//   - I11: counts, charges and pauses of keys equal the rows (SPEC §19.5, 30.2, 30.4).
//   - I12: reserved amounts of budgets are those of the open attempts (SPEC §30.5).
func (m *Machine) Check() []string {
	c := &checker{m: &m.parts, view: &m.View, tokens: make(map[rota.Token]rota.LeaseID),
		open: make(map[rota.QueueName]int64), lingers: make(map[rota.QueueName]int64),
		shares: make(map[share]int64)}
	c.jobs()
	c.lives()
	c.leases()
	c.outlived()
	c.workers()
	c.queues()
	c.drains()
	c.terminal()
	c.deleted()
	c.holds()
	c.reputation()
	c.tenants()
	c.limiters()
	c.domains()
	c.m.typeStats.CheckTypes(c.fault)
	c.m.typeStats.CheckEstimates(c.fault)
	c.tiers()
	c.going()
	c.accused()
	c.flows()
	c.liveNodes()
	c.rules()
	c.settings()
	c.m.uniques.Check(c.fault)
	c.m.access.Check(c.fault)
	c.backups()
	keys.Check(&c.m.keyring, &c.m.leasing.leases, c.fault)
	c.m.budgets.Check(c.fault)
	c.m.schedules.Check(c.fault)
	c.m.schedules.CheckZones(c.fault)
	c.m.batches.Check(c.fault)
	c.m.hooks.Check(c.fault)
	c.m.plans.Check(c.fault)
	c.timers()
	c.bytes()
	c.digest()
	return c.faults
}

func (c *checker) jobs() {
	m := c.m
	if h := &m.Header; h.Cluster != "" && (h.Leap < limits.ClockLeapMax || h.Leap > limits.VirtualLeapMax) {
		c.fault("I6: entries may be %d ms ahead of the clock", h.Leap)
	}
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		c.filed(j)
		if j.State.Terminal() || j.State == rota.JobNone {
			c.fault("I7: live job %s is %s", id, j.State)
		}
		l := m.leasing.leases.Get(string(j.Lease[:]))
		if j.State.Leased() != (l != nil) || l == nil && !j.Lease.IsZero() {
			c.fault("I1: job %s is %s with lease %q", id, j.State, j.Lease)
		}
		if l != nil && l.Job != id {
			c.fault("I1: lease %s of job %s names job %s", l.ID, id, l.Job)
		}
		if (j.State == rota.JobDelayed) != (j.Due != 0 || j.DueDate != 0) {
			c.fault("I4: job %s is %s and wakes at %d or on %d", id, j.State, j.Due, j.DueDate)
		}
		if j.Seq > m.Header.JobSeq {
			c.fault("I8: job %s has number %d, the counter is at %d", id, j.Seq, m.Header.JobSeq)
		}
		if at, _ := m.Numbers.Get(j.Seq); at != j {
			c.fault("I4: job %s is not found by its number %d", id, j.Seq)
		}
		if j.Submitted > m.Header.Clock || j.Enqueued > m.Header.Clock || j.QueuedAt > m.Header.Clock ||
			j.FirstLease.Clock > m.Header.Clock {
			c.fault("I6: job %s is stamped after the clock", id)
		}
		if h := j.History(); h.Estimate < 0 || h.Part < 0 || h.Part > 1_000_000 {
			c.fault("I9: job %s should take %d ms and takes %d millionths", id, h.Estimate, h.Part)
		}
		if m.ended.tombs.Get(id) != nil {
			c.fault("I8: job %s is live and has a tombstone", id)
		}
		return true
	})
}

// lives checks that the jobLife shared by all jobs without their own is unchanged.
func (c *checker) lives() {
	if !state.NoLife.Empty() {
		c.fault("I4: a job of no life of its own was written to: %+v", state.NoLife)
	}
}

// filed checks that a QUEUED job, and no other, is in the lane that its row requires.
func (c *checker) filed(j *state.JobRow) {
	if (j.State == rota.JobQueued) != (j.Item != nil) {
		c.fault("I4: job %s is %s, filed in a lane: %v", j.Spec.ID, j.State, j.Item != nil)
		return
	}
	q := c.m.QueueTable.Get(j.Spec.Queue)
	if j.Item == nil || q == nil {
		return
	}
	is, of := *j.Item, c.m.placement.itemOf(j, q)
	same := (is.TierPlace == nil) == (of.TierPlace == nil) && (is.TierPlace == nil || *is.TierPlace == *of.TierPlace)
	is.TierPlace, of.TierPlace = nil, nil
	if !same || is != of {
		c.fault("I4: job %s is filed otherwise than its row says", j.Spec.ID)
	}
}

func (c *checker) leases() {
	m := c.m
	m.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		if j := m.JobTable.Get(l.Job); l.Ended != nil {
			if c.lingers[l.Queue]++; j != nil && j.Lease == l.ID {
				c.fault("I1: lease %s has outlived job %s, which names it", l.ID, l.Job)
			}
		} else if j == nil || j.Lease != l.ID {
			c.fault("I1: lease %s is open but job %s does not name it", l.ID, l.Job)
		} else if j.Spec.Queue != l.Queue || j.Spec.Tenant != l.Tenant || j.Attempt != l.Attempt ||
			j.Spec.CPUMilli != l.CPU || j.Spec.MemoryBytes != l.Memory || j.Spec.IOBytesPerS != l.IO {
			c.fault("I1: lease %s and its job %s tell different stories", l.ID, l.Job)
		}
		if other, had := c.tokens[l.Token]; had {
			c.fault("I2: leases %s and %s share token %s", l.ID, other, l.Token)
		}
		c.tokens[l.Token] = l.ID
		if l.Token.Incarnation > m.Header.Incarnation || l.Token.Counter > m.Header.Tokens {
			c.fault("I2: lease %s has token %s, the counter is at %d.%d", l.ID, l.Token, m.Header.Incarnation,
				m.Header.Tokens)
		}
		c.share(l)
		if l.Started.Clock > m.Header.Clock || l.Acked.Clock > m.Header.Clock {
			c.fault("I6: lease %s is stamped after the clock", l.ID)
		}
		listed := false
		if w := m.fleet.workers.Get(l.Worker); w != nil {
			_, listed = w.Leases[string(l.ID[:])]
		}
		if !listed {
			c.fault("I4: lease %s is not among worker %s's", l.ID, l.Worker)
		}
		return true
	})
}

func (c *checker) workers() {
	m := c.m
	m.fleet.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		var cpu, memory, io int64
		for _, key := range w.OpenLeases() {
			if l := m.leasing.leases.Get(key); l != nil {
				cpu, memory, io = cpu+l.CPU, memory+l.Memory, io+l.IO
			}
		}
		if int(w.Open) != len(w.Leases) || w.CPU != cpu || w.Memory != memory || w.IO != io {
			c.fault("I3: worker %s counts %d leases, %d cpu, %d memory, %d io; its leases are %d, %d, %d, %d", id,
				w.Open, w.CPU, w.Memory, w.IO, len(w.Leases), cpu, memory, io)
		}
		if w.Session == 0 || uint64(w.Session) > m.Header.Sessions {
			c.fault("I3: worker %s has session %d, the counter is at %d", id, w.Session, m.Header.Sessions)
		}
		if !w.MayReturn() {
			c.fault("I3: worker %s is %s and goes back to %s", id, w.Status, w.Before)
		}
		if w.CPU < 0 || w.Memory < 0 || w.IO < 0 || w.Open < 0 {
			c.fault("I3: worker %s has taken less than nothing", id)
		}
		return true
	})
	if err := m.placement.registry.supply.Check(); err != nil {
		c.fault("I4: supply: %v", err)
	}
}

func (c *checker) queues() {
	m := c.m
	counts := make(map[rota.QueueName]*state.QueueRow)
	m.QueueTable.Scan(func(name rota.QueueName, _ *state.QueueRow) bool {
		counts[name] = &state.QueueRow{}
		return true
	})
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if q := counts[j.Spec.Queue]; q != nil {
			q.Count(j.State, 1)
		} else {
			c.fault("I4: job %s is of unknown queue %s", id, j.Spec.Queue)
		}
		return true
	})
	c.blocked(counts)
	busy, sharing := 0, 0
	if n := len(m.QueueTable.Known); n != m.QueueTable.Len() {
		c.fault("I4: %d queues are found by name, %d are there", n, m.QueueTable.Len())
	}
	m.QueueTable.Scan(func(name rota.QueueName, q *state.QueueRow) bool {
		if m.QueueTable.Known[name] != q {
			c.fault("I4: queue %s is not found by its name", name)
		}
		n, i := counts[name], m.placement.registry.queues[name]
		if n.Blocked != q.Blocked || n.Delayed != q.Delayed || n.Queued != q.Queued || n.Assigned != q.Assigned ||
			n.Running != q.Running {
			c.fault("I4: queue %s counts %d/%d/%d/%d/%d jobs blocked/delayed/queued/assigned/running, its rows are %d/%d/%d/%d/%d",
				name, q.Blocked, q.Delayed, q.Queued, q.Assigned, q.Running, n.Blocked, n.Delayed, n.Queued, n.Assigned,
				n.Running)
		}
		if open, ended := c.open[name], c.lingers[name]; open != q.Assigned+q.Running+ended {
			c.fault("I9: queue %s has %d leases open, %d of ended jobs, %d jobs leased", name, open, ended,
				q.Assigned+q.Running)
		}
		if i == nil {
			c.fault("I4: queue %s has no lanes at all", name)
			return true
		}
		if int64(i.pending.Len()) != q.Queued {
			c.fault("I4: queue %s has %d jobs in its lanes, %d are QUEUED", name, i.pending.Len(), q.Queued)
		}
		if err := i.pending.Check(); err != nil {
			c.fault("I4: queue %s: %v", name, err)
		}
		keys.CheckTurns(&c.m.keyring, name, i.pending, c.fault)
		want := turn{}
		if q.Queued > 0 {
			want = turn{q.Turn, uint64(q.Policy.Weight), name}
			busy++
		}
		if _, stands := m.placement.registry.busy.Get(i.turn); i.turn != want || stands != (q.Queued > 0) {
			c.fault("I4: queue %s with %d QUEUED jobs stands in the order of queues at %v (%v)", name, q.Queued, i.turn,
				stands)
		}
		sharing += len(i.open.Whole())
		return true
	})
	if busy != m.placement.registry.busy.Len() || sharing != len(c.shares) {
		c.fault("I4: %d queues are busy, %d stand in their order; %d tenants hold leases, %d are counted", busy,
			m.placement.registry.busy.Len(), len(c.shares), sharing)
	}
}

// share compares a tenant's open leases in a queue with the counter.
func (c *checker) share(l *state.LeaseRow) {
	c.open[l.Queue]++
	at := share{l.Queue, l.Tenant}
	c.shares[at]++
	if i := c.m.placement.registry.queues[l.Queue]; i == nil || i.open.Get(l.Tenant) < c.shares[at] {
		c.fault("I9: tenant %s has more leases open in queue %s than are counted", l.Tenant, l.Queue)
	}
}

func (c *checker) terminal() {
	m := c.m
	if n, most := m.ended.tombs.Order.N, m.ended.tombs.Order.Blocks.Len(); m.ended.tombs.Len() != n ||
		most != m.ended.tombs.Order.ByDue.Len() {
		c.fault("I4: %d tombstones in an order of %d, in %d blocks, %d by date", m.ended.tombs.Len(), n, most,
			m.ended.tombs.Order.ByDue.Len())
	}
	if n, ends := m.Numbers.Len(), m.ended.tombs.Ends.Len(); n != m.JobTable.Len() || ends != m.ended.tombs.Len() {
		c.fault("I4: %d live jobs and %d tombstones are %d and %d numbers", m.JobTable.Len(), m.ended.tombs.Len(), n,
			ends)
	}
	// Every life of a job is in progress, or ended under its own number.
	if live := uint64(m.JobTable.Len()); m.Header.JobSeq+m.Header.Logs != live+m.Header.TombSeq {
		c.fault("I8: %d submissions and retries became %d live jobs and %d ended ones, with %d logs among them",
			m.Header.JobSeq, live, m.Header.TombSeq, m.Header.Logs)
	}
	m.ended.tombs.Scan(func(id rota.JobID, t *state.TombRow) bool {
		if !t.State.Terminal() {
			c.fault("I7: tombstone %s is %s", id, t.State)
		}
		if r, staged := m.ended.staged.records.Get(t.Seq); staged && r.Ended.TreeKey() != id {
			c.fault("I8: tombstone %s has the number of the record of %s", id, r.Ended.TreeKey())
		}
		if at, _ := m.ended.tombs.Ends.Get(t.Number); at != t.Seq || t.Number > m.Header.JobSeq {
			c.fault("I4: tombstone %s, end %d of number %d, is found as end %d", id, t.Seq, t.Number, at)
		}
		if t.Seq > m.Header.TombSeq || t.Finished.Clock > m.Header.Clock {
			c.fault("I6: tombstone %s is of the future", id)
		}
		if t.Due < t.Finished.Date+rota.GCHorizonLeast {
			c.fault("I6: tombstone %s leaves on %d, after its end on %d", id, t.Due, t.Finished.Date)
		}
		if e, _ := m.ended.tombs.Order.At(t.Seq); e != (state.TombEntry{Due: t.Due, ID: id}) {
			c.fault("I4: tombstone %s is due on %d, number %d is %s's in the order, due on %d", id, t.Due, t.Seq, e.ID,
				e.Due)
		}
		return true
	})
	var bytes int64
	loose := 0
	m.ended.staged.records.Scan(func(seq uint64, r *state.Record) bool {
		bytes += r.Bytes()
		if t := r.Ended.Row(); seq != t.Seq || seq > m.Header.TombSeq || r.Spec.ID != t.ID {
			c.fault("I8: staged record %d is that of job %s, ended as number %d", seq, r.Spec.ID, t.Seq)
		}
		if _, kept := m.ended.tombs.Order.At(seq); !kept {
			if _, ok := m.ended.staged.loose.Get(looseRecord{r.Spec.ID, seq}); !ok {
				c.fault("I4: staged record %d of job %s has no tombstone, and is not found without", seq, r.Spec.ID)
			}
			loose++
		}
		return true
	})
	if n := m.ended.staged.loose.Len(); n != loose {
		c.fault("I4: %d staged records are without a tombstone, %d are counted", loose, n)
	}
	if bytes != m.ended.staged.bytes {
		c.fault("I4: staged records hold %d bytes, %d are counted", bytes, m.ended.staged.bytes)
	}
}

func (c *checker) timers() {
	m := c.m
	t := newMachineTimers(m)
	for _, s := range []struct {
		name      string
		got, want state.TimerSet
	}{{"lease", m.Timers.Lease, t.Lease}, {"expire", m.Timers.Expire, t.Expire}, {"wake", m.Timers.Wake, t.Wake},
		{"dated", m.Timers.Dated, t.Dated}, {"forget", m.Timers.Forget, t.Forget},
		{"reputation", m.Timers.Reputation, t.Reputation},
		{"attest", m.Timers.Attest, t.Attest}, {"offer", m.Timers.Offer, t.Offer},
		{"mode", m.Timers.Mode, t.Mode}, {"gate", m.Timers.Gate, t.Gate}, {"upload", m.Timers.Upload, t.Upload},
		{"ended", m.Timers.Ended, t.Ended}, {"oldest", m.Timers.Oldest, t.Oldest},
		{"penalty", m.Timers.Penalty, t.Penalty}, {"limiter", m.Timers.Limiter, t.Limiter},
		{"domain", m.Timers.Domain, t.Domain},
		{"promote", m.Timers.Promote, t.Promote}, {"token", m.Timers.Token, t.Token},
		{"disowned", m.Timers.Disowned, t.Disowned}, {"spent", m.Timers.Spent, t.Spent},
		{"unique", m.Timers.Unique, t.Unique}, {"merged", m.Timers.Merged, t.Merged}, {"key", m.Timers.Key, t.Key},
		{"waiting", m.Timers.Waiting, t.Waiting}} {
		if s.got.Len() != s.want.Len() {
			c.fault("I4: %d %s timers run, %d should", s.got.Len(), s.name, s.want.Len())
		}
		s.want.Scan(func(x state.Timer) bool {
			if _, ok := s.got.Get(x); !ok {
				c.fault("I4: %s timer of %q at %d does not run", s.name, x.ID, x.Due)
			}
			return true
		})
	}
}

// newMachineTimers calculates from the rows alone which timers should run.
func newMachineTimers(m *parts) *state.Timers {
	t := &state.Timers{}
	t.Reset()
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		t.Wake.Refile(string(id), 0, int64(j.Due))
		t.Dated.Refile(string(id), 0, int64(j.DueDate))
		t.Expire.Refile(string(id), 0, int64(j.Expires()))
		return true
	})
	m.leasing.leases.Scan(func(key string, l *state.LeaseRow) bool {
		t.Lease.Refile(key, 0, int64(state.LeaseDue(l, m.fleet.workers.Get(l.Worker))))
		return true
	})
	m.fleet.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		t.Forget.Refile(string(id), 0, w.ForgetAt())
		t.Reputation.Refile(string(id), 0, int64(m.fleet.reputationAt(w)))
		t.Attest.Refile(string(id), 0, int64(w.AttestationEnds()))
		t.Offer.Refile(string(id), 0, int64(w.OffersUntil))
		return true
	})
	m.flows.workflows.Scan(func(id rota.WorkflowID, r *state.WorkflowRow) bool {
		t.Upload.Refile(string(id), 0, r.Lapses())
		if r.Endures() {
			t.Ended.Refile(string(id), 0, int64(r.Due))
			t.Oldest.Refile(string(id), 0, int64(r.Finished.Clock))
		}
		return true
	})
	m.uniques.Times(t)
	m.flows.vertices.Scan(func(key string, v *state.VertexRow) bool {
		t.Gate.Refile(key, 0, v.GateDue())
		return true
	})
	m.keyring.CountRows.Scan(func(key string, c *state.KeyCountRow) bool {
		if r := m.keyring.RuleOf(c); r != nil {
			t.Key.Refile(key, 0, int64(m.keyring.Due(c, r)))
		}
		return true
	})
	m.access.Spent.Scan(func(hash string, r *state.SpentRow) bool {
		t.Spent.Refile(hash, 0, int64(r.Until))
		return true
	})
	m.access.Tokens.Scan(func(id state.TokenID, r *state.TokenRow) bool {
		t.Token.Refile(string(id), 0, int64(r.Expires))
		return true
	})
	m.fleet.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		t.Disowned.Refile(string(id), 0, m.access.DisownedAt(w))
		return true
	})
	m.schedules.Rows.Scan(func(name rota.ScheduleName, r *state.ScheduleRow) bool {
		t.Waiting.Refile(string(name), 0, int64(r.Retry))
		return true
	})
	m.batches.Times(t)
	(&View{m}).promotions(t)
	m.admission.timeLimits(t)
	return t
}

// digest recounts the whole digest. Invariant I10.
func (c *checker) digest() {
	m := c.m
	var l state.Ledger
	add := func(tag byte, r state.Row) { l.Add(state.HashRow(&l.Enc, tag, r)) }
	add(state.TagHeader, &m.Header)
	m.JobTable.Scan(func(_ rota.JobID, r *state.JobRow) bool { add(state.TagJob, r); return true })
	m.leasing.leases.Scan(func(_ string, r *state.LeaseRow) bool { add(state.TagLease, r); return true })
	m.fleet.workers.Scan(func(_ rota.WorkerID, r *state.WorkerRow) bool { add(state.TagWorker, r); return true })
	m.QueueTable.Scan(func(_ rota.QueueName, r *state.QueueRow) bool { add(state.TagQueue, r); return true })
	m.ended.tombs.Tree.Scan(func(_ rota.JobID, t state.Tomb) bool { l.Add(l.HashTomb(t)); return true })
	m.NodeTable.Scan(func(_ rota.NodeID, r *state.NodeRow) bool { add(state.TagNode, r); return true })
	m.placement.holds.Scan(func(_ rota.JobID, r *state.HoldRow) bool { add(state.TagHold, r); return true })
	m.admission.tenants.Scan(func(_ rota.TenantID, r *state.TenantRow) bool { add(state.TagTenant, r); return true })
	m.admission.limiters.Scan(func(_ string, r *state.LimiterRow) bool { add(state.TagLimiter, r); return true })
	m.admission.domains.Scan(func(_ string, r *state.DomainRow) bool { add(state.TagDomain, r); return true })
	m.typeStats.Types.Scan(func(_ rota.JobType, r *state.TypeRow) bool { add(state.TagType, r); return true })
	m.typeStats.Estimates.Scan(func(_ string, r *learn.EstimateRow) bool { add(state.TagEstimate, r); return true })
	m.flows.workflows.Scan(func(_ rota.WorkflowID, r *state.WorkflowRow) bool {
		add(state.TagWorkflow, r)
		return true
	})
	m.flows.vertices.Scan(func(_ string, r *state.VertexRow) bool { add(state.TagVertex, r); return true })
	m.ended.deleted.Scan(func(_ string, r *state.DeletedRow) bool { add(state.TagDeleted, r); return true })
	m.access.Roles.Scan(func(_ state.RoleName, r *state.RoleRow) bool { add(state.TagRole, r); return true })
	m.access.Tokens.Scan(func(_ state.TokenID, r *state.TokenRow) bool { add(state.TagToken, r); return true })
	m.access.Blocks.Scan(func(_ state.BlockKey, r *state.BlockRow) bool { add(state.TagBlock, r); return true })
	m.access.Issuers.Scan(func(_ string, r *state.IssuerRow) bool { add(state.TagIssuer, r); return true })
	m.access.Spent.Scan(func(_ string, r *state.SpentRow) bool { add(state.TagSpent, r); return true })
	m.BackupTable.Scan(func(_ string, r *state.BackupRow) bool { add(state.TagBackup, r); return true })
	m.ZoneTable.Scan(func(_ string, r *state.TzdataRow) bool { add(state.TagTZData, r); return true })
	m.uniques.Rows.Scan(func(_ string, r *state.UniqueRow) bool { add(state.TagUnique, r); return true })
	m.uniques.Merged.Scan(func(_ rota.JobID, r *state.MergedRow) bool { add(state.TagMerged, r); return true })
	m.keyring.Rules.Scan(func(_ string, r *state.KeyRuleRow) bool { add(state.TagKeyRule, r); return true })
	m.keyring.CountRows.Scan(func(_ string, r *state.KeyCountRow) bool { add(state.TagKeyCount, r); return true })
	m.keyring.Charges.Scan(func(_ string, r *state.ChargeRow) bool { add(state.TagKeyCharge, r); return true })
	m.budgets.Rows.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool { add(state.TagBudget, r); return true })
	m.budgets.AccountRows.Scan(func(_ string, r *state.AccountRow) bool { add(state.TagAccount, r); return true })
	m.schedules.Rows.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		add(state.TagSchedule, r)
		return true
	})
	m.batches.Rows.Scan(func(_ rota.BatchID, r *state.BatchRow) bool { add(state.TagBatch, r); return true })
	m.hooks.Rows.Scan(func(_ rota.WebhookName, r *state.HookRow) bool { add(state.TagWebhook, r); return true })
	m.plans.Rows.Scan(func(_ rota.PlanID, r *plans.Row) bool { add(state.TagPlan, r); return true })
	if m.Header.Hash == (rota.Digest{}) && m.Header.Index == 0 {
		return // nothing is hashed before the first entry
	}
	if l.Sum != m.Ledger.Sum {
		c.fault("I10: the digest is %s, a recount gives %s", m.Ledger.Sum, l.Sum)
	}
}

// bytes checks the tally against the rows. Invariant I4.
func (c *checker) bytes() {
	m, l := c.m, state.Ledger{}
	weigh := func(tag byte, r state.Weighed) {
		n := int64(len(state.EncodeRow(&l.Enc, tag, r))-1) + r.Besides()
		l.Tally.Add(r, n)
	}
	m.JobTable.Scan(func(_ rota.JobID, r *state.JobRow) bool {
		l.Enc.B = l.Enc.B[:0]
		if state.EncodeSpec(&l.Enc, r.Spec); int64(len(l.Enc.B)) != r.Spec.Bytes() {
			c.fault("I4: the spec of job %s has %d bytes, %d are counted", r.Spec.ID, len(l.Enc.B), r.Spec.Bytes())
		}
		weigh(state.TagJob, r)
		return true
	})
	m.flows.vertices.Scan(func(_ string, r *state.VertexRow) bool {
		if state.HashShape(&l.Enc, r.Spec, r.Parents, r.Run, r.Gate.Own()); len(l.Enc.B) != int(r.ShapeBytes) {
			c.fault("I4: node %s has %d bytes of shape, %d are counted", r.Spec.ID, len(l.Enc.B), r.ShapeBytes)
		}
		weigh(state.TagVertex, r)
		return true
	})
	m.flows.workflows.Scan(func(_ rota.WorkflowID, r *state.WorkflowRow) bool {
		weigh(state.TagWorkflow, r)
		return true
	})
	m.fleet.workers.Scan(func(_ rota.WorkerID, r *state.WorkerRow) bool { weigh(state.TagWorker, r); return true })
	m.QueueTable.Scan(func(_ rota.QueueName, r *state.QueueRow) bool { weigh(state.TagQueue, r); return true })
	m.uniques.Rows.Scan(func(_ string, r *state.UniqueRow) bool { weigh(state.TagUnique, r); return true })
	m.uniques.Merged.Scan(func(_ rota.JobID, r *state.MergedRow) bool { weigh(state.TagMerged, r); return true })
	m.admission.tenants.Scan(func(_ rota.TenantID, r *state.TenantRow) bool { weigh(state.TagTenant, r); return true })
	m.keyring.Rules.Scan(func(_ string, r *state.KeyRuleRow) bool { weigh(state.TagKeyRule, r); return true })
	m.keyring.CountRows.Scan(func(_ string, r *state.KeyCountRow) bool { weigh(state.TagKeyCount, r); return true })
	m.keyring.Charges.Scan(func(_ string, r *state.ChargeRow) bool { weigh(state.TagKeyCharge, r); return true })
	m.budgets.Rows.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool { weigh(state.TagBudget, r); return true })
	m.budgets.AccountRows.Scan(func(_ string, r *state.AccountRow) bool { weigh(state.TagAccount, r); return true })
	m.schedules.Rows.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		weigh(state.TagSchedule, r)
		return true
	})
	m.batches.Rows.Scan(func(_ rota.BatchID, r *state.BatchRow) bool { weigh(state.TagBatch, r); return true })
	got, want := &m.Ledger.Tally, &l.Tally
	queues, tenants := got.Queues.Whole(), got.Tenants.Whole()
	if got.All != want.All || !maps.Equal(queues, want.Queues.Whole()) || !maps.Equal(tenants, want.Tenants.Whole()) {
		c.fault("I4: %d bytes are counted, of %d queues and %d tenants; the rows have %d, of %d and %d", got.All,
			len(queues), len(tenants), want.All, len(want.Queues.Whole()), len(want.Tenants.Whole()))
	}
}
