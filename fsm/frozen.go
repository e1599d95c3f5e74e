package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/tidwall/btree"
)

// Frozen is the whole state at one index. Taking it costs about a microsecond;
// it may be read while the machine goes on (SPEC §13.5).
type Frozen struct {
	head     header
	knows    uint32
	digest   rota.Digest
	jobs     *tree.Tree[rota.JobID, *jobRow]
	leases   *tree.Tree[string, *leaseRow]
	workers  *tree.Tree[rota.WorkerID, *workerRow]
	queues   *tree.Tree[rota.QueueName, *queueRow]
	tombs    *tree.Tree[rota.JobID, tomb]
	nodes    *tree.Tree[rota.NodeID, *nodeRow]
	holds    *tree.Tree[rota.JobID, *holdRow]
	tenants  *tree.Tree[rota.TenantID, *tenantRow]
	limiters *tree.Tree[string, *limiterRow]
	domains  *tree.Tree[string, *domainRow]
	types    *tree.Tree[rota.JobType, *typeRow]
	staged   *btree.Map[uint64, *record]

	workflows *tree.Tree[rota.WorkflowID, *workflowRow]
	vertices  *tree.Tree[string, *vertexRow]
	deleted   *tree.Tree[string, *deletedRow]

	roles  *tree.Tree[roleName, *roleRow]
	tokens *tree.Tree[tokenID, *tokenRow]
	blocks *tree.Tree[blockKey, *blockRow]

	issuers *tree.Tree[string, *issuerRow]
	spent   *tree.Tree[string, *spentRow]
	backups *tree.Tree[string, *backupRow]
	tzdata  *tree.Tree[string, *tzdataRow]

	uniques   *tree.Tree[string, *uniqueRow]
	merged    *tree.Tree[rota.JobID, *mergedRow]
	keyRules  *tree.Tree[string, *keyRuleRow]
	keyCounts *tree.Tree[string, *keyCountRow]
	schedules *tree.Tree[rota.ScheduleName, *scheduleRow]
	batches   *tree.Tree[rota.BatchID, *batchRow]
	hooks     *tree.Tree[rota.WebhookName, *hookRow]
	plans     *tree.Tree[rota.PlanID, *planRow]
	estimates *tree.Tree[string, *estimateRow]
}

// Freeze takes the state as the last applied entry left it.
func (m *Machine) Freeze() *Frozen {
	return &Frozen{head: m.head, knows: m.knows, digest: m.ledger.sum, jobs: m.jobs.freeze(), leases: m.leasing.leases.freeze(),
		workers: m.fleet.workers.freeze(), queues: m.queues.freeze(), tombs: m.ended.tombs.freeze(), nodes: m.nodes.freeze(),
		holds: m.placement.holds.freeze(), tenants: m.admission.tenants.freeze(), limiters: m.admission.limiters.freeze(), domains: m.admission.domains.freeze(),
		types: m.typeStats.types.freeze(), staged: m.ended.staged.records.Copy(), workflows: m.flows.workflows.freeze(),
		vertices: m.flows.vertices.freeze(), deleted: m.ended.deleted.freeze(),
		roles: m.access.roles.freeze(), tokens: m.access.tokens.freeze(), blocks: m.access.blocks.freeze(),
		issuers: m.access.issuers.freeze(), spent: m.access.spent.freeze(), backups: m.backups.freeze(), tzdata: m.tzdata.freeze(),
		uniques: m.uniques.rows.freeze(), merged: m.uniques.merged.freeze(),
		keyRules: m.keyring.rules.freeze(), keyCounts: m.keyring.counts.freeze(), schedules: m.schedules.rows.freeze(),
		plans: m.plans.rows.freeze(), batches: m.batches.rows.freeze(), hooks: m.hooks.rows.freeze(), estimates: m.typeStats.estimates.freeze()}
}

// Archived leaves the staged records out: they are on disk, so that a snapshot need
// not carry them.
func (f *Frozen) Archived() { f.staged = &btree.Map[uint64, *record]{} }

// Rows counts the rows that grow with the load: jobs, leases, tombstones, nodes of
// workflows, ranges of deleted jobs.
func (f *Frozen) Rows() int {
	return f.jobs.Len() + f.leases.Len() + f.tombs.Len() + f.vertices.Len() + f.deleted.Len()
}

// Unstaged returns the numbers of the terminal jobs that have a tombstone and no
// staged record, in order: an archive must account for each.
func (f *Frozen) Unstaged() []uint64 {
	seqs := make([]uint64, 0, f.tombs.Len())
	scanTombs(f.tombs, "", func(_ rota.JobID, t *tombRow) bool {
		if _, staged := f.staged.Get(t.seq); !staged {
			seqs = append(seqs, t.seq)
		}
		return true
	})
	slices.Sort(seqs)
	return seqs
}

// Thaw makes a machine of the state, beside the one that it was taken of. It takes
// that one's time and memory once more; the digest is verified.
func (f *Frozen) Thaw() (*Machine, error) {
	l, err := NewLoaderKnowing(f.Info(), f.knows)
	if err != nil {
		return nil, err
	}
	if err := f.Records(l.Add); err != nil {
		return nil, err
	}
	return l.Finish()
}

// Ended is the number of the newest terminal job.
func (f *Frozen) Ended() uint64 { return f.head.tombSeq }

// Info describes the state as a snapshot's header does.
func (f *Frozen) Info() rota.SnapshotInfo {
	return rota.SnapshotInfo{ClusterID: f.head.cluster, Incarnation: f.head.incarnation, Index: f.head.index,
		Term: f.head.term, Clock: f.head.clock, Date: f.head.date(), Digest: f.digest, RulesVersion: f.head.rules}
}

// Operations counts all operations applied up to this state.
func (f *Frozen) Operations() uint64 { return f.head.operations }

// Records yields every record in the one order in which they are written: the
// header, then table by table in key order. A record is valid until the next.
func (f *Frozen) Records(yield func(kind byte, rec []byte) error) error {
	var e encoder
	var err error
	put := func(kind byte, encode func()) bool { // nothing after an error
		if err != nil {
			return false
		}
		e.b = e.b[:0]
		encode()
		err = yield(kind, e.b)
		return err == nil
	}
	put(tagHeader, func() { f.head.canonical(&e) })
	f.queues.Scan(func(_ rota.QueueName, r *queueRow) bool { return put(tagQueue, func() { r.canonical(&e) }) })
	f.nodes.Scan(func(_ rota.NodeID, r *nodeRow) bool { return put(tagNode, func() { r.canonical(&e) }) })
	f.workers.Scan(func(_ rota.WorkerID, r *workerRow) bool { return put(tagWorker, func() { r.canonical(&e) }) })
	f.jobs.Scan(func(_ rota.JobID, r *jobRow) bool {
		return put(tagJob, func() { encodeSpec(&e, r.spec); r.canonical(&e) })
	})
	f.leases.Scan(func(_ string, r *leaseRow) bool { return put(tagLease, func() { r.canonical(&e) }) })
	f.holds.Scan(func(_ rota.JobID, r *holdRow) bool { return put(tagHold, func() { r.canonical(&e) }) })
	f.tenants.Scan(func(_ rota.TenantID, r *tenantRow) bool { return put(tagTenant, func() { r.canonical(&e) }) })
	f.limiters.Scan(func(_ string, r *limiterRow) bool { return put(tagLimiter, func() { r.canonical(&e) }) })
	f.domains.Scan(func(_ string, r *domainRow) bool { return put(tagDomain, func() { r.canonical(&e) }) })
	f.types.Scan(func(_ rota.JobType, r *typeRow) bool { return put(tagType, func() { r.canonical(&e) }) })
	f.workflows.Scan(func(_ rota.WorkflowID, r *workflowRow) bool { return put(tagWorkflow, func() { r.canonical(&e) }) })
	f.vertices.Scan(func(_ string, r *vertexRow) bool {
		return put(tagVertex, func() { encodeShape(&e, r.spec, r.parents, r.run, r.gate.own()); r.canonical(&e) })
	})
	f.deleted.Scan(func(_ string, r *deletedRow) bool { return put(tagDeleted, func() { r.canonical(&e) }) })
	f.roles.Scan(func(_ roleName, r *roleRow) bool { return put(tagRole, func() { r.canonical(&e) }) })
	f.tokens.Scan(func(_ tokenID, r *tokenRow) bool { return put(tagToken, func() { r.canonical(&e) }) })
	f.blocks.Scan(func(_ blockKey, r *blockRow) bool { return put(tagBlock, func() { r.canonical(&e) }) })
	f.issuers.Scan(func(_ string, r *issuerRow) bool { return put(tagIssuer, func() { r.canonical(&e) }) })
	f.spent.Scan(func(_ string, r *spentRow) bool { return put(tagSpent, func() { r.canonical(&e) }) })
	f.backups.Scan(func(_ string, r *backupRow) bool { return put(tagBackup, func() { r.canonical(&e) }) })
	f.uniques.Scan(func(_ string, r *uniqueRow) bool { return put(tagUnique, func() { r.canonical(&e) }) })
	f.merged.Scan(func(_ rota.JobID, r *mergedRow) bool { return put(tagMerged, func() { r.canonical(&e) }) })
	f.keyRules.Scan(func(_ string, r *keyRuleRow) bool { return put(tagKeyRule, func() { r.canonical(&e) }) })
	f.keyCounts.Scan(func(_ string, r *keyCountRow) bool { return put(tagKeyCount, func() { r.canonical(&e) }) })
	f.schedules.Scan(func(_ rota.ScheduleName, r *scheduleRow) bool { return put(tagSchedule, func() { r.canonical(&e) }) })
	f.plans.Scan(func(_ rota.PlanID, r *planRow) bool { return put(tagPlan, func() { r.canonical(&e) }) })
	f.batches.Scan(func(_ rota.BatchID, r *batchRow) bool { return put(tagBatch, func() { r.canonical(&e) }) })
	f.hooks.Scan(func(_ rota.WebhookName, r *hookRow) bool { return put(tagWebhook, func() { r.canonical(&e) }) })
	f.tzdata.Scan(func(_ string, r *tzdataRow) bool { return put(tagTZData, func() { r.canonical(&e) }) })
	f.estimates.Scan(func(_ string, r *estimateRow) bool { return put(tagEstimate, func() { r.canonical(&e) }) })
	if !plantedGround.dedupeNotInSnapshot() {
		f.tombs.Scan(func(_ rota.JobID, t tomb) bool { return put(tagTomb, func() { e.b = append(e.b, t...) }) })
	}
	f.staged.Scan(func(_ uint64, r *record) bool { return put(tagRecord, func() { encodeEnded(&e, r) }) })
	return err
}

// Loader builds a machine from a snapshot's records. Nothing of it is visible
// until Finish found the digest right: nothing is ever half-restored.
type Loader struct {
	m    *Machine
	want rota.SnapshotInfo
}

// NewLoader starts a fresh state for a snapshot of the given description.
// One of rules that this binary does not know is refused (SPEC §2.6).
func NewLoader(info rota.SnapshotInfo) (*Loader, error) {
	return NewLoaderKnowing(info, entry.RulesVersion)
}

// NewLoaderKnowing is NewLoader for a binary that knows other rules; see NewKnowing.
func NewLoaderKnowing(info rota.SnapshotInfo, version uint32) (*Loader, error) {
	if info.RulesVersion > version {
		return nil, &rota.Error{Kind: rota.KindConflict, Subject: SubjectRules, Text: fmt.Sprintf("the snapshot is of a cluster whose "+
			"rules have version %d, this binary knows %d: start a newer binary", info.RulesVersion, version)}
	}
	return &Loader{m: NewKnowing(version), want: info}, nil
}

// Add takes one record.
func (l *Loader) Add(kind byte, rec []byte) error {
	m, d := l.m, &decoder{b: rec, specs: &l.m.specs}
	fresh := true
	switch kind {
	case tagHeader:
		h := decodeHeader(d)
		fresh = m.head.index == 0 && m.head.cluster == ""
		m.head = h
	case tagQueue:
		r := decodeQueue(d)
		fresh = m.queues.load(r.name, r)
	case tagNode:
		r := decodeNode(d)
		fresh = m.nodes.load(r.id, r)
	case tagWorker:
		r := decodeWorker(d)
		fresh = m.fleet.workers.load(r.spec.ID, r)
	case tagJob:
		r := decodeJob(d)
		fresh = m.jobs.load(r.spec.ID, r)
	case tagLease:
		r := decodeLease(d)
		fresh = m.leasing.leases.load(r.key, r)
	case tagHold:
		r := decodeHold(d)
		fresh = m.placement.holds.load(r.job, r)
	case tagTenant:
		r := decodeTenant(d)
		fresh = m.admission.tenants.load(r.id, r)
	case tagLimiter:
		r := decodeLimiter(d)
		fresh = m.admission.limiters.load(r.key, r)
	case tagDomain:
		r := decodeDomain(d)
		fresh = m.admission.domains.load(r.key, r)
	case tagType:
		r := decodeType(d)
		fresh = m.typeStats.types.load(r.typ, r)
	case tagEstimate:
		r := decodeEstimate(d)
		fresh = m.typeStats.estimates.load(r.key, r)
		m.typeStats.order.Set(r)
	case tagWorkflow:
		r := decodeWorkflow(d)
		fresh = m.flows.workflows.load(r.id, r)
	case tagVertex:
		r := decodeVertex(d)
		fresh = m.flows.vertices.load(r.key, r)
	case tagDeleted:
		r := decodeDeleted(d)
		fresh = m.ended.deleted.load(deletedKey(r.to), r)
	case tagRole, tagToken, tagBlock, tagIssuer, tagSpent:
		fresh = m.access.load(kind, d)
	case tagBackup:
		fresh = m.backups.load("", decodeBackup(d))
	case tagTZData:
		fresh = m.tzdata.load("", decodeTZData(d))
	case tagUnique:
		r := decodeUniqueRow(d)
		fresh = m.uniques.rows.load(r.key, r)
	case tagMerged:
		r := decodeMerged(d)
		fresh = m.uniques.merged.load(r.id, r)
	case tagKeyRule:
		r := decodeKeyRule(d)
		fresh = m.keyring.rules.load(r.key, r)
	case tagKeyCount:
		r := decodeKeyCount(d)
		fresh = m.keyring.counts.load(r.key, r)
	case tagSchedule:
		r := decodeSchedule(d)
		fresh = m.schedules.rows.load(r.spec.Name, r)
	case tagBatch:
		r := decodeBatch(d)
		fresh = m.batches.rows.load(r.id, r)
	case tagWebhook:
		r := decodeHook(d)
		fresh = m.hooks.rows.load(r.spec.Name, r)
	case tagPlan:
		r := decodePlan(d)
		fresh = m.plans.rows.load(r.spec.ID, r)
	case tagTomb:
		fresh = m.ended.tombs.load(decodeTomb(d))
	case tagRecord:
		fresh = m.ended.staged.load(decodeEnded(d))
	default:
		return rota.Refusef(rota.KindConflict, "record", "record kind %d is unknown: start a newer binary", kind)
	}
	if err := d.done(); err != nil {
		return fmt.Errorf("record of kind %d: %w", kind, err)
	}
	if !fresh {
		return fmt.Errorf("record of kind %d stands twice", kind)
	}
	return nil
}

// load takes one record of access; false where the row is there already.
func (ac *authority) load(kind byte, d *decoder) bool {
	switch kind {
	case tagRole:
		r := decodeRole(d)
		return ac.roles.load(roleName(r.Name), r)
	case tagToken:
		r := decodeToken(d)
		return ac.tokens.load(tokenID(r.ID), r)
	case tagBlock:
		r := decodeBlock(d)
		return ac.blocks.load(r.key, r)
	case tagIssuer:
		r := decodeIssuer(d)
		return ac.issuers.load(r.URL, r)
	case tagSpent:
		r := decodeSpent(d)
		return ac.spent.load(string(r.hash[:]), r)
	default:
		panic("fsm: Add names the kinds of access")
	}
}

// Finish derives what is derived, walks the invariants, compares the digest,
// and only then gives the machine away.
func (l *Loader) Finish() (*Machine, error) {
	m := l.m
	if m.head.index != 0 { // before the first entry nothing is hashed
		m.head.hash = hashRow(&m.ledger.enc, tagHeader, &m.head)
		m.ledger.add(m.head.hash)
	}
	if m.ledger.sum != l.want.Digest {
		return nil, rota.Refusef(rota.KindConflict, "digest", "state has digest %s, the snapshot says %s: it is damaged",
			m.ledger.sum, l.want.Digest)
	}
	if m.head.index != l.want.Index || m.head.cluster != l.want.ClusterID {
		return nil, rota.Refusef(rota.KindConflict, "index", "state is of cluster %q at index %d, the snapshot says %q at %d",
			m.head.cluster, m.head.index, l.want.ClusterID, l.want.Index)
	}
	if m.head.rules != l.want.RulesVersion {
		return nil, rota.Refusef(rota.KindConflict, "state", "state is of rules version %d, the snapshot says %d: it is damaged",
			m.head.rules, l.want.RulesVersion)
	}
	if err := m.derive(); err != nil {
		return nil, err
	}
	if faults := m.Check(); len(faults) > 0 {
		return nil, rota.Refusef(rota.KindConflict, "state", "state contradicts itself in %d places, the first: %s", len(faults),
			faults[0])
	}
	return m, nil
}

// derive rebuilds everything that is no row. What the rows contradict is
// refused rather than repaired.
func (m *Machine) derive() error {
	m.keyring.deriveRules()
	defer func() { m.keyring.restoring = false }()
	m.queues.scan(func(_ rota.QueueName, q *queueRow) bool {
		m.admission.initLanes(q, m.placement.addIndex(q))
		return true
	})
	m.fleet.workers.scan(func(_ rota.WorkerID, w *workerRow) bool {
		w.grants = m.access.work(w.by, w.spec.Queues)
		m.placement.supplyOf(w)
		m.fleet.timeReputation(w)
		m.timers.offer.set(string(w.spec.ID), 0, int64(w.offersUntil))
		return true
	})
	m.ended.staged.records.Scan(func(seq uint64, r *record) bool {
		if _, kept := m.ended.tombs.order.at(seq); !kept {
			m.ended.staged.loose.Set(looseRecord{r.spec.ID, seq})
		}
		return true
	})
	err := m.flows.deriveFlows()
	if err != nil {
		return err
	}
	m.keyring.derive()
	m.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		err = m.deriveJob(j)
		return err == nil
	})
	if err != nil {
		return err
	}
	m.queues.scan(func(name rota.QueueName, q *queueRow) bool {
		m.placement.timePromotion(q, m.placement.registry.queues[name])
		return true
	})
	m.leasing.leases.scan(func(key string, r *leaseRow) bool {
		w, j := m.fleet.workers.get(r.Worker), m.jobs.get(r.Job)
		if w == nil || j == nil && r.ended == nil || m.placement.registry.queues[r.queue] == nil {
			err = fmt.Errorf("lease %s is of no known worker, job or queue", r.ID)
			return false
		}
		w.leases[key] = struct{}{}
		m.leasing.timeLease(r)
		m.placement.noteGoing(r)
		m.placement.share(r.queue, r.tenant, 1)
		m.placement.countEndless(r, &m.queues.get(r.queue).policy, 1)
		m.placement.registry.supply.Began(r.Worker, m.placement.runOf(r))
		if m.leasing.runsAlone(r) {
			m.placement.registry.supply.Isolate(r.Worker, true)
		}
		return true
	})
	if err != nil {
		return err
	}
	m.leasing.deriveOutlived()
	m.placement.holds.scan(func(_ rota.JobID, h *holdRow) bool {
		m.placement.registry.heldFor[h.worker] = h.job
		if h.preempted {
			m.placement.registry.preempting++
		}
		m.placement.registry.supply.Hold(h.worker, true)
		return true
	})
	m.access.derive()
	m.uniques.times(&m.timers)
	m.schedules.derive()
	m.batches.derive()
	return m.admission.deriveLimits()
}

func (m *Machine) deriveJob(j *jobRow) error {
	q := m.queues.get(j.spec.Queue)
	if q == nil {
		return fmt.Errorf("job %s is of unknown queue %q", j.spec.ID, j.spec.Queue)
	}
	if err := m.flows.deriveNodeJob(j); err != nil {
		return err
	}
	m.placement.registry.moveNode(j, rota.JobNone, j.state)
	id := string(j.spec.ID)
	m.placement.classify(j)
	m.placement.accuse(j)
	m.timers.wake.set(id, 0, int64(j.due))
	m.timers.dated.set(id, 0, int64(j.dueDate))
	m.timers.expire.set(id, 0, int64(j.expires()))
	if j.state != rota.JobQueued {
		return nil
	}
	i := m.placement.registry.queues[q.name]
	item := m.placement.itemOf(j, q)
	j.item = &item
	m.admission.syncLanes(i, q, j.spec.Tenant)
	i.pending.Add(j.item)
	i.countTier(j, &q.policy, 1)
	if i.turn.name == "" {
		i.turn = turn{q.turn, uint64(q.policy.Weight), q.name}
		m.placement.registry.busy.Set(i.turn)
	}
	return nil
}
