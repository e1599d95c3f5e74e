package fsm

import (
	"maps"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// Digest is the incremental multiset hash of the state (SPEC §2.5).
func (vw *View) Digest() rota.Digest { return vw.m.ledger.sum }

// Check walks the invariants I1…I11 and tells every fault that it finds, at
// most a hundred; nil is a sound state. It costs a pass over all rows.
func (m *Machine) Check() []string {
	c := &checker{m: m, tokens: make(map[rota.Token]rota.LeaseID), open: make(map[rota.QueueName]int64), lingers: make(map[rota.QueueName]int64),
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
	c.types()
	c.estimates()
	c.tiers()
	c.going()
	c.accused()
	c.flows()
	c.liveNodes()
	c.rules()
	c.settings()
	c.uniques()
	c.access()
	c.holdings()
	c.backups()
	c.keys()
	c.schedules()
	c.tzdata()
	c.batches()
	c.hooks()
	c.plans()
	c.timers()
	c.bytes()
	c.digest()
	return c.faults
}

func (c *checker) jobs() {
	m := c.m
	if h := &m.head; h.cluster != "" && (h.leap < limits.ClockLeapMax || h.leap > limits.VirtualLeapMax) {
		c.fault("I6: entries may be %d ms ahead of the clock", h.leap)
	}
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		c.filed(j)
		if j.state.Terminal() || j.state == rota.JobNone {
			c.fault("I7: live job %s is %s", id, j.state)
		}
		l := m.leasing.leases.get(string(j.lease[:]))
		if j.state.Leased() != (l != nil) || l == nil && !j.lease.IsZero() {
			c.fault("I1: job %s is %s with lease %q", id, j.state, j.lease)
		}
		if l != nil && l.Job != id {
			c.fault("I1: lease %s of job %s names job %s", l.ID, id, l.Job)
		}
		if (j.state == rota.JobDelayed) != (j.due != 0 || j.dueDate != 0) {
			c.fault("I4: job %s is %s and wakes at %d or on %d", id, j.state, j.due, j.dueDate)
		}
		if j.seq > m.head.jobSeq {
			c.fault("I8: job %s has number %d, the counter is at %d", id, j.seq, m.head.jobSeq)
		}
		if at, _ := m.numbers.Get(j.seq); at != j {
			c.fault("I4: job %s is not found by its number %d", id, j.seq)
		}
		if j.submitted > m.head.clock || j.enqueued > m.head.clock || j.queuedAt > m.head.clock || j.firstLease.Clock > m.head.clock {
			c.fault("I6: job %s is stamped after the clock", id)
		}
		if h := j.history(); h.estimate < 0 || h.part < 0 || h.part > 1_000_000 {
			c.fault("I9: job %s should take %d ms and takes %d millionths", id, h.estimate, h.part)
		}
		if m.ended.tombs.get(id) != nil {
			c.fault("I8: job %s is live and has a tombstone", id)
		}
		return true
	})
}

// lives checks that nobody wrote to what all jobs share that have nothing of their own.
func (c *checker) lives() {
	if !noLife.empty() {
		c.fault("I4: a job of no life of its own was written to: %+v", noLife)
	}
}

// filed checks that a QUEUED job, and no other, stands in a lane as its row says.
func (c *checker) filed(j *jobRow) {
	if (j.state == rota.JobQueued) != (j.item != nil) {
		c.fault("I4: job %s is %s, filed in a lane: %v", j.spec.ID, j.state, j.item != nil)
		return
	}
	q := c.m.queues.get(j.spec.Queue)
	if j.item == nil || q == nil {
		return
	}
	is, of := *j.item, c.m.placement.itemOf(j, q)
	same := (is.TierPlace == nil) == (of.TierPlace == nil) && (is.TierPlace == nil || *is.TierPlace == *of.TierPlace)
	is.TierPlace, of.TierPlace = nil, nil
	if !same || is != of {
		c.fault("I4: job %s is filed otherwise than its row says", j.spec.ID)
	}
}

func (c *checker) leases() {
	m := c.m
	m.leasing.leases.scan(func(_ string, l *leaseRow) bool {
		if j := m.jobs.get(l.Job); l.ended != nil {
			if c.lingers[l.queue]++; j != nil && j.lease == l.ID {
				c.fault("I1: lease %s has outlived job %s, which names it", l.ID, l.Job)
			}
		} else if j == nil || j.lease != l.ID {
			c.fault("I1: lease %s is open but job %s does not name it", l.ID, l.Job)
		} else if j.spec.Queue != l.queue || j.spec.Tenant != l.tenant || j.attempt != l.Attempt ||
			j.spec.CPUMilli != l.cpu || j.spec.MemoryBytes != l.memory || j.spec.IOBytesPerS != l.io {
			c.fault("I1: lease %s and its job %s tell different stories", l.ID, l.Job)
		}
		if other, had := c.tokens[l.Token]; had {
			c.fault("I2: leases %s and %s share token %s", l.ID, other, l.Token)
		}
		c.tokens[l.Token] = l.ID
		if l.Token.Incarnation > m.head.incarnation || l.Token.Counter > m.head.tokens {
			c.fault("I2: lease %s has token %s, the counter is at %d.%d", l.ID, l.Token, m.head.incarnation, m.head.tokens)
		}
		c.share(l)
		if l.Started.Clock > m.head.clock || l.Acked.Clock > m.head.clock {
			c.fault("I6: lease %s is stamped after the clock", l.ID)
		}
		listed := false
		if w := m.fleet.workers.get(l.Worker); w != nil {
			_, listed = w.leases[string(l.ID[:])]
		}
		if !listed {
			c.fault("I4: lease %s is not among worker %s's", l.ID, l.Worker)
		}
		return true
	})
}

func (c *checker) workers() {
	m := c.m
	m.fleet.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		var cpu, memory, io int64
		for _, key := range w.openLeases() {
			if l := m.leasing.leases.get(key); l != nil {
				cpu, memory, io = cpu+l.cpu, memory+l.memory, io+l.io
			}
		}
		if int(w.open) != len(w.leases) || w.cpu != cpu || w.memory != memory || w.io != io {
			c.fault("I3: worker %s counts %d leases, %d cpu, %d memory, %d io; its leases are %d, %d, %d, %d", id, w.open, w.cpu,
				w.memory, w.io, len(w.leases), cpu, memory, io)
		}
		if w.session == 0 || uint64(w.session) > m.head.sessions {
			c.fault("I3: worker %s has session %d, the counter is at %d", id, w.session, m.head.sessions)
		}
		if !w.mayReturn() {
			c.fault("I3: worker %s is %s and goes back to %s", id, w.status, w.before)
		}
		if w.cpu < 0 || w.memory < 0 || w.io < 0 || w.open < 0 {
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
	counts := make(map[rota.QueueName]*queueRow)
	m.queues.scan(func(name rota.QueueName, _ *queueRow) bool {
		counts[name] = &queueRow{}
		return true
	})
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		if q := counts[j.spec.Queue]; q != nil {
			q.count(j.state, 1)
		} else {
			c.fault("I4: job %s is of unknown queue %s", id, j.spec.Queue)
		}
		return true
	})
	c.blocked(counts)
	busy, sharing := 0, 0
	if n := len(m.queues.known); n != m.queues.len() {
		c.fault("I4: %d queues are found by name, %d are there", n, m.queues.len())
	}
	m.queues.scan(func(name rota.QueueName, q *queueRow) bool {
		if m.queues.known[name] != q {
			c.fault("I4: queue %s is not found by its name", name)
		}
		n, i := counts[name], m.placement.registry.queues[name]
		if n.blocked != q.blocked || n.delayed != q.delayed || n.queued != q.queued || n.assigned != q.assigned ||
			n.running != q.running {
			c.fault("I4: queue %s counts %d/%d/%d/%d/%d jobs blocked/delayed/queued/assigned/running, its rows are %d/%d/%d/%d/%d",
				name, q.blocked, q.delayed, q.queued, q.assigned, q.running, n.blocked, n.delayed, n.queued, n.assigned, n.running)
		}
		if open, ended := c.open[name], c.lingers[name]; open != q.assigned+q.running+ended {
			c.fault("I9: queue %s has %d leases open, %d of ended jobs, %d jobs leased", name, open, ended, q.assigned+q.running)
		}
		if i == nil {
			c.fault("I4: queue %s has no lanes at all", name)
			return true
		}
		if int64(i.pending.Len()) != q.queued {
			c.fault("I4: queue %s has %d jobs in its lanes, %d are QUEUED", name, i.pending.Len(), q.queued)
		}
		if err := i.pending.Check(); err != nil {
			c.fault("I4: queue %s: %v", name, err)
		}
		c.turns(name, i)
		want := turn{}
		if q.queued > 0 {
			want = turn{q.turn, uint64(q.policy.Weight), name}
			busy++
		}
		if _, stands := m.placement.registry.busy.Get(i.turn); i.turn != want || stands != (q.queued > 0) {
			c.fault("I4: queue %s with %d QUEUED jobs stands in the order of queues at %v (%v)", name, q.queued, i.turn, stands)
		}
		sharing += len(i.open.whole())
		return true
	})
	if busy != m.placement.registry.busy.Len() || sharing != len(c.shares) {
		c.fault("I4: %d queues are busy, %d stand in their order; %d tenants hold leases, %d are counted", busy,
			m.placement.registry.busy.Len(), len(c.shares), sharing)
	}
}

// share compares a tenant's open leases in a queue with what is counted.
func (c *checker) share(l *leaseRow) {
	c.open[l.queue]++
	at := share{l.queue, l.tenant}
	c.shares[at]++
	if i := c.m.placement.registry.queues[l.queue]; i == nil || i.open.get(l.tenant) < c.shares[at] {
		c.fault("I9: tenant %s has more leases open in queue %s than are counted", l.tenant, l.queue)
	}
}

func (c *checker) terminal() {
	m := c.m
	if n, most := m.ended.tombs.order.n, m.ended.tombs.order.blocks.Len(); m.ended.tombs.len() != n || most != m.ended.tombs.order.byDue.Len() {
		c.fault("I4: %d tombstones in an order of %d, in %d blocks, %d by date", m.ended.tombs.len(), n, most, m.ended.tombs.order.byDue.Len())
	}
	if n, ends := m.numbers.Len(), m.ended.tombs.ends.Len(); n != m.jobs.len() || ends != m.ended.tombs.len() {
		c.fault("I4: %d live jobs and %d tombstones are %d and %d numbers", m.jobs.len(), m.ended.tombs.len(), n, ends)
	}
	// Every life of a job is under way, or ended under a number of its own.
	if live := uint64(m.jobs.len()); m.head.jobSeq+m.head.logs != live+m.head.tombSeq {
		c.fault("I8: %d submissions and retries became %d live jobs and %d ended ones, with %d logs among them", m.head.jobSeq, live,
			m.head.tombSeq, m.head.logs)
	}
	m.ended.tombs.scan(func(id rota.JobID, t *tombRow) bool {
		if !t.state.Terminal() {
			c.fault("I7: tombstone %s is %s", id, t.state)
		}
		if r, staged := m.ended.staged.records.Get(t.seq); staged && r.ended.TreeKey() != id {
			c.fault("I8: tombstone %s has the number of the record of %s", id, r.ended.TreeKey())
		}
		if at, _ := m.ended.tombs.ends.Get(t.number); at != t.seq || t.number > m.head.jobSeq {
			c.fault("I4: tombstone %s, end %d of number %d, is found as end %d", id, t.seq, t.number, at)
		}
		if t.seq > m.head.tombSeq || t.finished.Clock > m.head.clock {
			c.fault("I6: tombstone %s is of the future", id)
		}
		if t.due < t.finished.Date+rota.GCHorizonLeast {
			c.fault("I6: tombstone %s leaves on %d, after its end on %d", id, t.due, t.finished.Date)
		}
		if e, _ := m.ended.tombs.order.at(t.seq); e != (tombEntry{t.due, id}) {
			c.fault("I4: tombstone %s is due on %d, number %d is %s's in the order, due on %d", id, t.due, t.seq, e.id, e.due)
		}
		return true
	})
	var bytes int64
	loose := 0
	m.ended.staged.records.Scan(func(seq uint64, r *record) bool {
		bytes += r.bytes()
		if t := r.ended.row(); seq != t.seq || seq > m.head.tombSeq || r.spec.ID != t.id {
			c.fault("I8: staged record %d is that of job %s, ended as number %d", seq, r.spec.ID, t.seq)
		}
		if _, kept := m.ended.tombs.order.at(seq); !kept {
			if _, ok := m.ended.staged.loose.Get(looseRecord{r.spec.ID, seq}); !ok {
				c.fault("I4: staged record %d of job %s has no tombstone, and is not found without", seq, r.spec.ID)
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
		got, want timerSet
	}{{"lease", m.timers.lease, t.lease}, {"expire", m.timers.expire, t.expire}, {"wake", m.timers.wake, t.wake},
		{"dated", m.timers.dated, t.dated}, {"forget", m.timers.forget, t.forget}, {"reputation", m.timers.reputation, t.reputation},
		{"attest", m.timers.attest, t.attest}, {"offer", m.timers.offer, t.offer},
		{"mode", m.timers.mode, t.mode}, {"gate", m.timers.gate, t.gate}, {"upload", m.timers.upload, t.upload}, {"ended", m.timers.ended, t.ended}, {"oldest", m.timers.oldest, t.oldest}, {"penalty", m.timers.penalty, t.penalty}, {"limiter", m.timers.limiter, t.limiter}, {"domain", m.timers.domain, t.domain},
		{"promote", m.timers.promote, t.promote}, {"token", m.timers.token, t.token}, {"disowned", m.timers.disowned, t.disowned}, {"spent", m.timers.spent, t.spent},
		{"unique", m.timers.unique, t.unique}, {"merged", m.timers.merged, t.merged}, {"key", m.timers.key, t.key}, {"waiting", m.timers.waiting, t.waiting}} {
		if s.got.Len() != s.want.Len() {
			c.fault("I4: %d %s timers run, %d should", s.got.Len(), s.name, s.want.Len())
		}
		s.want.Scan(func(x timer) bool {
			if _, ok := s.got.Get(x); !ok {
				c.fault("I4: %s timer of %q at %d does not run", s.name, x.id, x.due)
			}
			return true
		})
	}
}

// newMachineTimers computes from the rows alone what timers should run.
func newMachineTimers(m *Machine) *timers {
	t := &timers{}
	t.reset()
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		t.wake.set(string(id), 0, int64(j.due))
		t.dated.set(string(id), 0, int64(j.dueDate))
		t.expire.set(string(id), 0, int64(j.expires()))
		return true
	})
	m.leasing.leases.scan(func(key string, l *leaseRow) bool {
		t.lease.set(key, 0, int64(leaseDue(l, m.fleet.workers.get(l.Worker))))
		return true
	})
	m.fleet.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		t.forget.set(string(id), 0, w.forgetAt())
		t.reputation.set(string(id), 0, int64(m.fleet.reputationAt(w)))
		t.attest.set(string(id), 0, int64(w.attestationEnds()))
		t.offer.set(string(id), 0, int64(w.offersUntil))
		return true
	})
	m.flows.workflows.scan(func(id rota.WorkflowID, r *workflowRow) bool {
		t.upload.set(string(id), 0, r.lapses())
		if r.endures() {
			t.ended.set(string(id), 0, int64(r.due))
			t.oldest.set(string(id), 0, int64(r.finished.Clock))
		}
		return true
	})
	m.uniques.times(t)
	m.flows.vertices.scan(func(key string, v *vertexRow) bool {
		t.gate.set(key, 0, v.gateDue())
		return true
	})
	m.keyring.counts.scan(func(key string, c *keyCountRow) bool {
		if r := m.keyring.ruleOf(c); r != nil {
			t.key.set(key, 0, int64(m.keyring.due(c, r)))
		}
		return true
	})
	m.access.spent.scan(func(hash string, r *spentRow) bool {
		t.spent.set(hash, 0, int64(r.until))
		return true
	})
	m.access.tokens.scan(func(id tokenID, r *tokenRow) bool {
		t.token.set(string(id), 0, int64(r.Expires))
		return true
	})
	m.fleet.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		t.disowned.set(string(id), 0, m.access.disownedAt(w))
		return true
	})
	m.schedules.rows.scan(func(name rota.ScheduleName, r *scheduleRow) bool {
		t.waiting.set(string(name), 0, int64(r.retry))
		return true
	})
	m.batches.times(t)
	m.View.promotions(t)
	m.admission.timeLimits(t)
	return t
}

// digest recounts the whole digest. Invariant I10.
func (c *checker) digest() {
	m := c.m
	var l ledger
	add := func(tag byte, r row) { l.add(hashRow(&l.enc, tag, r)) }
	add(tagHeader, &m.head)
	m.jobs.scan(func(_ rota.JobID, r *jobRow) bool { add(tagJob, r); return true })
	m.leasing.leases.scan(func(_ string, r *leaseRow) bool { add(tagLease, r); return true })
	m.fleet.workers.scan(func(_ rota.WorkerID, r *workerRow) bool { add(tagWorker, r); return true })
	m.queues.scan(func(_ rota.QueueName, r *queueRow) bool { add(tagQueue, r); return true })
	m.ended.tombs.tree.Scan(func(_ rota.JobID, t tomb) bool { l.add(l.hashTomb(t)); return true })
	m.nodes.scan(func(_ rota.NodeID, r *nodeRow) bool { add(tagNode, r); return true })
	m.placement.holds.scan(func(_ rota.JobID, r *holdRow) bool { add(tagHold, r); return true })
	m.admission.tenants.scan(func(_ rota.TenantID, r *tenantRow) bool { add(tagTenant, r); return true })
	m.admission.limiters.scan(func(_ string, r *limiterRow) bool { add(tagLimiter, r); return true })
	m.admission.domains.scan(func(_ string, r *domainRow) bool { add(tagDomain, r); return true })
	m.typeStats.types.scan(func(_ rota.JobType, r *typeRow) bool { add(tagType, r); return true })
	m.typeStats.estimates.scan(func(_ string, r *estimateRow) bool { add(tagEstimate, r); return true })
	m.flows.workflows.scan(func(_ rota.WorkflowID, r *workflowRow) bool { add(tagWorkflow, r); return true })
	m.flows.vertices.scan(func(_ string, r *vertexRow) bool { add(tagVertex, r); return true })
	m.ended.deleted.scan(func(_ string, r *deletedRow) bool { add(tagDeleted, r); return true })
	m.access.roles.scan(func(_ roleName, r *roleRow) bool { add(tagRole, r); return true })
	m.access.tokens.scan(func(_ tokenID, r *tokenRow) bool { add(tagToken, r); return true })
	m.access.blocks.scan(func(_ blockKey, r *blockRow) bool { add(tagBlock, r); return true })
	m.access.issuers.scan(func(_ string, r *issuerRow) bool { add(tagIssuer, r); return true })
	m.access.spent.scan(func(_ string, r *spentRow) bool { add(tagSpent, r); return true })
	m.backups.scan(func(_ string, r *backupRow) bool { add(tagBackup, r); return true })
	m.tzdata.scan(func(_ string, r *tzdataRow) bool { add(tagTZData, r); return true })
	m.uniques.rows.scan(func(_ string, r *uniqueRow) bool { add(tagUnique, r); return true })
	m.uniques.merged.scan(func(_ rota.JobID, r *mergedRow) bool { add(tagMerged, r); return true })
	m.keyring.rules.scan(func(_ string, r *keyRuleRow) bool { add(tagKeyRule, r); return true })
	m.keyring.counts.scan(func(_ string, r *keyCountRow) bool { add(tagKeyCount, r); return true })
	m.schedules.rows.scan(func(_ rota.ScheduleName, r *scheduleRow) bool { add(tagSchedule, r); return true })
	m.batches.rows.scan(func(_ rota.BatchID, r *batchRow) bool { add(tagBatch, r); return true })
	m.hooks.rows.scan(func(_ rota.WebhookName, r *hookRow) bool { add(tagWebhook, r); return true })
	m.plans.rows.scan(func(_ rota.PlanID, r *planRow) bool { add(tagPlan, r); return true })
	if m.head.hash == (rota.Digest{}) && m.head.index == 0 {
		return // before the first entry nothing is hashed
	}
	if l.sum != m.ledger.sum {
		c.fault("I10: the digest is %s, a recount gives %s", m.ledger.sum, l.sum)
	}
}

// bytes checks the tally against the rows. Invariant I4.
func (c *checker) bytes() {
	m, l := c.m, ledger{}
	weigh := func(tag byte, r weighed) {
		n := int64(len(encodeRow(&l.enc, tag, r))-1) + r.besides()
		l.tally.add(r, n)
	}
	m.jobs.scan(func(_ rota.JobID, r *jobRow) bool {
		l.enc.b = l.enc.b[:0]
		if encodeSpec(&l.enc, r.spec); int64(len(l.enc.b)) != r.spec.bytes() {
			c.fault("I4: the spec of job %s has %d bytes, %d are counted", r.spec.ID, len(l.enc.b), r.spec.bytes())
		}
		weigh(tagJob, r)
		return true
	})
	m.flows.vertices.scan(func(_ string, r *vertexRow) bool {
		if hashShape(&l.enc, r.spec, r.parents, r.run, r.gate.own()); len(l.enc.b) != int(r.shapeBytes) {
			c.fault("I4: node %s has %d bytes of shape, %d are counted", r.spec.ID, len(l.enc.b), r.shapeBytes)
		}
		weigh(tagVertex, r)
		return true
	})
	m.flows.workflows.scan(func(_ rota.WorkflowID, r *workflowRow) bool { weigh(tagWorkflow, r); return true })
	m.fleet.workers.scan(func(_ rota.WorkerID, r *workerRow) bool { weigh(tagWorker, r); return true })
	m.queues.scan(func(_ rota.QueueName, r *queueRow) bool { weigh(tagQueue, r); return true })
	m.uniques.rows.scan(func(_ string, r *uniqueRow) bool { weigh(tagUnique, r); return true })
	m.uniques.merged.scan(func(_ rota.JobID, r *mergedRow) bool { weigh(tagMerged, r); return true })
	m.admission.tenants.scan(func(_ rota.TenantID, r *tenantRow) bool { weigh(tagTenant, r); return true })
	m.keyring.rules.scan(func(_ string, r *keyRuleRow) bool { weigh(tagKeyRule, r); return true })
	m.keyring.counts.scan(func(_ string, r *keyCountRow) bool { weigh(tagKeyCount, r); return true })
	m.schedules.rows.scan(func(_ rota.ScheduleName, r *scheduleRow) bool { weigh(tagSchedule, r); return true })
	m.batches.rows.scan(func(_ rota.BatchID, r *batchRow) bool { weigh(tagBatch, r); return true })
	got, want := &m.ledger.tally, &l.tally
	queues, tenants := got.queues.whole(), got.tenants.whole()
	if got.all != want.all || !maps.Equal(queues, want.queues.whole()) || !maps.Equal(tenants, want.tenants.whole()) {
		c.fault("I4: %d bytes are counted, of %d queues and %d tenants; the rows have %d, of %d and %d", got.all, len(queues),
			len(tenants), want.all, len(want.queues.whole()), len(want.tenants.whole()))
	}
}

// holdings recounts what principals have. Invariant I4.
func (c *checker) holdings() {
	count := authority{}
	c.m.eachHeld(func(by rota.Principal, what access.Owned) { count.hold(by, what, 1) })
	if !maps.Equal(count.held, c.m.access.held) {
		c.fault("I4: what principals own is counted otherwise than it is: %d counts, not %d", len(c.m.access.held), len(count.held))
	}
}
