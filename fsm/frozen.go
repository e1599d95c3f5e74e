package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/plans"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/tidwall/btree"
)

// Frozen is the whole state at one index. Taking it costs about a microsecond; it may be read while the machine
// continues (SPEC §13.5).
type Frozen struct {
	head     state.Header
	knows    uint32
	digest   rota.Digest
	jobs     *tree.Tree[rota.JobID, *state.JobRow]
	leases   *tree.Tree[string, *state.LeaseRow]
	workers  *tree.Tree[rota.WorkerID, *state.WorkerRow]
	queues   *tree.Tree[rota.QueueName, *state.QueueRow]
	tombs    *tree.Tree[rota.JobID, state.Tomb]
	nodes    *tree.Tree[rota.NodeID, *state.NodeRow]
	holds    *tree.Tree[rota.JobID, *state.HoldRow]
	tenants  *tree.Tree[rota.TenantID, *state.TenantRow]
	limiters *tree.Tree[string, *state.LimiterRow]
	domains  *tree.Tree[string, *state.DomainRow]
	types    *tree.Tree[rota.JobType, *state.TypeRow]
	staged   *btree.Map[uint64, *state.Record]

	workflows *tree.Tree[rota.WorkflowID, *state.WorkflowRow]
	vertices  *tree.Tree[string, *state.VertexRow]
	deleted   *tree.Tree[string, *state.DeletedRow]

	roles  *tree.Tree[state.RoleName, *state.RoleRow]
	tokens *tree.Tree[state.TokenID, *state.TokenRow]
	blocks *tree.Tree[state.BlockKey, *state.BlockRow]

	issuers *tree.Tree[string, *state.IssuerRow]
	spent   *tree.Tree[string, *state.SpentRow]
	backups *tree.Tree[string, *state.BackupRow]
	tzdata  *tree.Tree[string, *state.TzdataRow]

	uniques   *tree.Tree[string, *state.UniqueRow]
	merged    *tree.Tree[rota.JobID, *state.MergedRow]
	keyRules  *tree.Tree[string, *state.KeyRuleRow]
	keyCounts *tree.Tree[string, *state.KeyCountRow]
	charges   *tree.Tree[string, *state.ChargeRow]
	budgets   *tree.Tree[rota.BudgetName, *state.BudgetRow]
	accounts  *tree.Tree[string, *state.AccountRow]
	schedules *tree.Tree[rota.ScheduleName, *state.ScheduleRow]
	batches   *tree.Tree[rota.BatchID, *state.BatchRow]
	hooks     *tree.Tree[rota.WebhookName, *state.HookRow]
	plans     *tree.Tree[rota.PlanID, *plans.Row]
	estimates *tree.Tree[string, *learn.EstimateRow]
}

// Freeze returns the state after the last applied entry.
func (m *Machine) Freeze() *Frozen {
	return &Frozen{head: m.Header, knows: m.Knows, digest: m.Ledger.Sum, jobs: m.JobTable.Freeze(),
		leases:  m.leasing.leases.Freeze(),
		workers: m.fleet.workers.Freeze(), queues: m.QueueTable.Freeze(), tombs: m.ended.tombs.Freeze(),
		nodes: m.NodeTable.Freeze(),
		holds: m.placement.holds.Freeze(), tenants: m.admission.tenants.Freeze(),
		limiters: m.admission.limiters.Freeze(), domains: m.admission.domains.Freeze(),
		types: m.typeStats.Types.Freeze(), staged: m.ended.staged.records.Copy(), workflows: m.flows.workflows.Freeze(),
		vertices: m.flows.vertices.Freeze(), deleted: m.ended.deleted.Freeze(),
		roles: m.access.Roles.Freeze(), tokens: m.access.Tokens.Freeze(), blocks: m.access.Blocks.Freeze(),
		issuers: m.access.Issuers.Freeze(), spent: m.access.Spent.Freeze(), backups: m.BackupTable.Freeze(),
		tzdata: m.ZoneTable.Freeze(), uniques: m.uniques.Rows.Freeze(), merged: m.uniques.Merged.Freeze(),
		keyRules: m.keyring.Rules.Freeze(), keyCounts: m.keyring.CountRows.Freeze(),
		charges: m.keyring.Charges.Freeze(),
		budgets: m.budgets.Rows.Freeze(), accounts: m.budgets.AccountRows.Freeze(),
		schedules: m.schedules.Rows.Freeze(),
		plans:     m.plans.Rows.Freeze(), batches: m.batches.Rows.Freeze(), hooks: m.hooks.Rows.Freeze(),
		estimates: m.typeStats.Estimates.Freeze()}
}

// Archived drops the staged records: they are on disk, so a snapshot need not carry them.
func (f *Frozen) Archived() { f.staged = &btree.Map[uint64, *state.Record]{} }

// Rows returns the number of rows that grow with the load: jobs, leases, tombstones, workflow nodes, ranges of deleted
// jobs.
func (f *Frozen) Rows() int {
	return f.jobs.Len() + f.leases.Len() + f.tombs.Len() + f.vertices.Len() + f.deleted.Len()
}

// Unstaged returns the numbers of the terminal jobs with a tombstone and without a staged record, in order: an archive
// must have each of them.
func (f *Frozen) Unstaged() []uint64 {
	seqs := make([]uint64, 0, f.tombs.Len())
	state.ScanTombs(f.tombs, "", func(_ rota.JobID, t *state.TombRow) bool {
		if _, staged := f.staged.Get(t.Seq); !staged {
			seqs = append(seqs, t.Seq)
		}
		return true
	})
	slices.Sort(seqs)
	return seqs
}

// Thaw makes a second machine from the state, next to the original. It takes the time and memory of a machine again;
// the digest is verified.
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

// Ended returns the number of the newest terminal job.
func (f *Frozen) Ended() uint64 { return f.head.TombSeq }

// Info describes the state as a snapshot's header does.
func (f *Frozen) Info() rota.SnapshotInfo {
	return rota.SnapshotInfo{ClusterID: f.head.Cluster, Incarnation: f.head.Incarnation, Index: f.head.Index,
		Term: f.head.Term, Clock: f.head.Clock, Date: f.head.Date(), Digest: f.digest, RulesVersion: f.head.Rules}
}

// Operations returns the number of operations applied up to this state.
func (f *Frozen) Operations() uint64 { return f.head.Operations }

// Records yields every record in the only order in which they are written: the header, then table by table in key
// order. A record is valid until the next.
func (f *Frozen) Records(yield func(kind byte, rec []byte) error) error {
	var e state.Encoder
	var err error
	put := func(kind byte, encode func()) bool { // does nothing after an error
		if err != nil {
			return false
		}
		e.B = e.B[:0]
		encode()
		err = yield(kind, e.B)
		return err == nil
	}
	put(state.TagHeader, func() { f.head.Canonical(&e) })
	f.queues.Scan(func(_ rota.QueueName, r *state.QueueRow) bool {
		return put(state.TagQueue, func() { r.Canonical(&e) })
	})
	f.nodes.Scan(func(_ rota.NodeID, r *state.NodeRow) bool { return put(state.TagNode, func() { r.Canonical(&e) }) })
	f.workers.Scan(func(_ rota.WorkerID, r *state.WorkerRow) bool {
		return put(state.TagWorker, func() { r.Canonical(&e) })
	})
	f.jobs.Scan(func(_ rota.JobID, r *state.JobRow) bool {
		return put(state.TagJob, func() { state.EncodeSpec(&e, r.Spec); r.Canonical(&e) })
	})
	f.leases.Scan(func(_ string, r *state.LeaseRow) bool { return put(state.TagLease, func() { r.Canonical(&e) }) })
	f.holds.Scan(func(_ rota.JobID, r *state.HoldRow) bool { return put(state.TagHold, func() { r.Canonical(&e) }) })
	f.tenants.Scan(func(_ rota.TenantID, r *state.TenantRow) bool {
		return put(state.TagTenant, func() { r.Canonical(&e) })
	})
	f.limiters.Scan(func(_ string, r *state.LimiterRow) bool {
		return put(state.TagLimiter, func() { r.Canonical(&e) })
	})
	f.domains.Scan(func(_ string, r *state.DomainRow) bool { return put(state.TagDomain, func() { r.Canonical(&e) }) })
	f.types.Scan(func(_ rota.JobType, r *state.TypeRow) bool { return put(state.TagType, func() { r.Canonical(&e) }) })
	f.workflows.Scan(func(_ rota.WorkflowID, r *state.WorkflowRow) bool {
		return put(state.TagWorkflow, func() { r.Canonical(&e) })
	})
	f.vertices.Scan(func(_ string, r *state.VertexRow) bool {
		return put(state.TagVertex, func() {
			state.EncodeShape(&e, r.Spec, r.Parents, r.Run, r.Gate.Own())
			r.Canonical(&e)
		})
	})
	f.deleted.Scan(func(_ string, r *state.DeletedRow) bool {
		return put(state.TagDeleted, func() { r.Canonical(&e) })
	})
	f.roles.Scan(func(_ state.RoleName, r *state.RoleRow) bool {
		return put(state.TagRole, func() { r.Canonical(&e) })
	})
	f.tokens.Scan(func(_ state.TokenID, r *state.TokenRow) bool {
		return put(state.TagToken, func() { r.Canonical(&e) })
	})
	f.blocks.Scan(func(_ state.BlockKey, r *state.BlockRow) bool {
		return put(state.TagBlock, func() { r.Canonical(&e) })
	})
	f.issuers.Scan(func(_ string, r *state.IssuerRow) bool { return put(state.TagIssuer, func() { r.Canonical(&e) }) })
	f.spent.Scan(func(_ string, r *state.SpentRow) bool { return put(state.TagSpent, func() { r.Canonical(&e) }) })
	f.backups.Scan(func(_ string, r *state.BackupRow) bool { return put(state.TagBackup, func() { r.Canonical(&e) }) })
	f.uniques.Scan(func(_ string, r *state.UniqueRow) bool { return put(state.TagUnique, func() { r.Canonical(&e) }) })
	f.merged.Scan(func(_ rota.JobID, r *state.MergedRow) bool {
		return put(state.TagMerged, func() { r.Canonical(&e) })
	})
	f.keyRules.Scan(func(_ string, r *state.KeyRuleRow) bool {
		return put(state.TagKeyRule, func() { r.Canonical(&e) })
	})
	f.keyCounts.Scan(func(_ string, r *state.KeyCountRow) bool {
		return put(state.TagKeyCount, func() { r.Canonical(&e) })
	})
	f.charges.Scan(func(_ string, r *state.ChargeRow) bool {
		return put(state.TagKeyCharge, func() { r.Canonical(&e) })
	})
	f.budgets.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool {
		return put(state.TagBudget, func() { r.Canonical(&e) })
	})
	f.accounts.Scan(func(_ string, r *state.AccountRow) bool {
		return put(state.TagAccount, func() { r.Canonical(&e) })
	})
	f.schedules.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		return put(state.TagSchedule, func() { r.Canonical(&e) })
	})
	f.plans.Scan(func(_ rota.PlanID, r *plans.Row) bool { return put(state.TagPlan, func() { r.Canonical(&e) }) })
	f.batches.Scan(func(_ rota.BatchID, r *state.BatchRow) bool {
		return put(state.TagBatch, func() { r.Canonical(&e) })
	})
	f.hooks.Scan(func(_ rota.WebhookName, r *state.HookRow) bool {
		return put(state.TagWebhook, func() { r.Canonical(&e) })
	})
	f.tzdata.Scan(func(_ string, r *state.TzdataRow) bool { return put(state.TagTZData, func() { r.Canonical(&e) }) })
	f.estimates.Scan(func(_ string, r *learn.EstimateRow) bool {
		return put(state.TagEstimate,
			func() { r.Canonical(&e) })
	})
	if !state.Planted.DedupeNotInSnapshot() {
		f.tombs.Scan(func(_ rota.JobID, t state.Tomb) bool {
			return put(state.TagTomb, func() { e.B = append(e.B, t...) })
		})
	}
	f.staged.Scan(func(_ uint64, r *state.Record) bool { return put(state.TagRecord, func() { encodeEnded(&e, r) }) })
	return err
}

// Loader builds a machine from a snapshot's records. Nothing of it is visible until Finish has verified the digest, so
// a state is never partly restored.
type Loader struct {
	m    *Machine
	want rota.SnapshotInfo
}

// NewLoader starts an empty state for a snapshot with this description. It refuses rules that this binary does not know
// (SPEC §2.6).
func NewLoader(info rota.SnapshotInfo) (*Loader, error) {
	return NewLoaderKnowing(info, entry.RulesVersion)
}

// NewLoaderKnowing is NewLoader for a binary that knows other rules; see NewKnowing.
func NewLoaderKnowing(info rota.SnapshotInfo, version uint32) (*Loader, error) {
	if info.RulesVersion > version {
		return nil, &rota.Error{Kind: rota.KindConflict, Subject: SubjectRules,
			Text: fmt.Sprintf("the snapshot is of a cluster whose "+
				"rules have version %d, this binary knows %d: start a newer binary", info.RulesVersion, version)}
	}
	return &Loader{m: NewKnowing(version), want: info}, nil
}

// Add loads one record.
func (l *Loader) Add(kind byte, rec []byte) error {
	m, d := l.m, &state.Decoder{B: rec, Specs: &l.m.Specs}
	fresh := true
	switch kind {
	case state.TagHeader:
		h := state.DecodeHeader(d)
		fresh = m.Header.Index == 0 && m.Header.Cluster == ""
		m.Header = h
	case state.TagQueue:
		r := state.DecodeQueue(d)
		fresh = m.QueueTable.Load(r.Name, r)
	case state.TagNode:
		r := state.DecodeNode(d)
		fresh = m.NodeTable.Load(r.ID, r)
	case state.TagWorker:
		r := state.DecodeWorker(d)
		fresh = m.fleet.workers.Load(r.Spec.ID, r)
	case state.TagJob:
		r := state.DecodeJob(d)
		fresh = m.JobTable.Load(r.Spec.ID, r)
	case state.TagLease:
		r := state.DecodeLease(d)
		fresh = m.leasing.leases.Load(r.Key, r)
	case state.TagHold:
		r := decodeHold(d)
		fresh = m.placement.holds.Load(r.Job, r)
	case state.TagTenant:
		r := state.DecodeTenant(d)
		fresh = m.admission.tenants.Load(r.ID, r)
	case state.TagLimiter:
		r := state.DecodeLimiter(d)
		fresh = m.admission.limiters.Load(r.Key, r)
	case state.TagDomain:
		r := state.DecodeDomain(d)
		fresh = m.admission.domains.Load(r.Key, r)
	case state.TagType:
		r := state.DecodeType(d)
		fresh = m.typeStats.Types.Load(r.Typ, r)
	case state.TagEstimate:
		fresh = m.typeStats.Load(d)
	case state.TagWorkflow:
		r := state.DecodeWorkflow(d)
		fresh = m.flows.workflows.Load(r.ID, r)
	case state.TagVertex:
		r := state.DecodeVertex(d)
		fresh = m.flows.vertices.Load(r.Key, r)
	case state.TagDeleted:
		r := decodeDeleted(d)
		fresh = m.ended.deleted.Load(state.DeletedKey(r.To), r)
	case state.TagRole, state.TagToken, state.TagBlock, state.TagIssuer, state.TagSpent:
		fresh = m.access.Load(kind, d)
	case state.TagBackup:
		fresh = m.BackupTable.Load("", state.DecodeBackup(d))
	case state.TagTZData:
		fresh = m.ZoneTable.Load("", state.DecodeTZData(d))
	case state.TagUnique:
		r := state.DecodeUniqueRow(d)
		fresh = m.uniques.Rows.Load(r.Key, r)
	case state.TagMerged:
		r := state.DecodeMerged(d)
		fresh = m.uniques.Merged.Load(r.ID, r)
	case state.TagKeyRule, state.TagKeyCount, state.TagKeyCharge, state.TagBudget, state.TagAccount:
		fresh = m.loadLimit(kind, d)
	case state.TagSchedule:
		r := state.DecodeSchedule(d)
		fresh = m.schedules.Rows.Load(r.Spec.Name, r)
	case state.TagBatch:
		r := state.DecodeBatch(d)
		fresh = m.batches.Rows.Load(r.ID, r)
	case state.TagWebhook:
		r := state.DecodeHook(d)
		fresh = m.hooks.Rows.Load(r.Spec.Name, r)
	case state.TagPlan:
		fresh = m.plans.Load(d)
	case state.TagTomb:
		fresh = m.ended.tombs.Load(state.DecodeTomb(d))
	case state.TagRecord:
		fresh = m.ended.staged.load(decodeEnded(d))
	default:
		return rota.Refusef(rota.KindConflict, "record", "record kind %d is unknown: start a newer binary", kind)
	}
	if err := d.Done(); err != nil {
		return fmt.Errorf("record of kind %d: %w", kind, err)
	}
	if !fresh {
		return fmt.Errorf("duplicate record of kind %d", kind)
	}
	return nil
}

// loadLimit loads one record of keys or budgets; false if the row exists already.
func (m *parts) loadLimit(kind byte, d *state.Decoder) bool {
	switch kind {
	case state.TagKeyRule:
		r := state.DecodeKeyRule(d)
		return m.keyring.Rules.Load(r.Key, r)
	case state.TagKeyCount:
		r := state.DecodeKeyCount(d)
		return m.keyring.CountRows.Load(r.Key, r)
	case state.TagKeyCharge:
		r := state.DecodeCharge(d)
		return m.keyring.Charges.Load(r.Key, r)
	case state.TagBudget:
		r := state.DecodeBudget(d)
		return m.budgets.Rows.Load(r.Spec.Name, r)
	default:
		r := state.DecodeAccount(d)
		return m.budgets.AccountRows.Load(r.Key, r)
	}
}

// Finish rebuilds the derived data, checks the invariants, compares the digest, and only then returns the machine.
func (l *Loader) Finish() (*Machine, error) {
	m := l.m
	if m.Header.Index != 0 { // nothing is hashed before the first entry
		m.Header.Hash = state.HashRow(&m.Ledger.Enc, state.TagHeader, &m.Header)
		m.Ledger.Add(m.Header.Hash)
	}
	if m.Ledger.Sum != l.want.Digest {
		return nil, rota.Refusef(rota.KindConflict, "digest",
			"state has digest %s, but the snapshot has %s: it is damaged", m.Ledger.Sum, l.want.Digest)
	}
	if m.Header.Index != l.want.Index || m.Header.Cluster != l.want.ClusterID {
		return nil, rota.Refusef(rota.KindConflict, "index",
			"state is of cluster %q at index %d, but the snapshot is of %q at %d",
			m.Header.Cluster, m.Header.Index, l.want.ClusterID, l.want.Index)
	}
	if m.Header.Rules != l.want.RulesVersion {
		return nil, rota.Refusef(rota.KindConflict, "state",
			"state has rules version %d, but the snapshot has %d: it is damaged",
			m.Header.Rules, l.want.RulesVersion)
	}
	if err := m.derive(); err != nil {
		return nil, err
	}
	if faults := m.Check(); len(faults) > 0 {
		return nil, rota.Refusef(rota.KindConflict, "state", "state contradicts itself in %d places, the first: %s",
			len(faults),
			faults[0])
	}
	return m, nil
}

// derive rebuilds everything outside the rows. Contradictory rows are refused rather than repaired.
func (m *Machine) derive() error {
	m.keyring.DeriveRules()
	defer func() { m.keyring.Restoring = false }()
	m.QueueTable.Scan(func(_ rota.QueueName, q *state.QueueRow) bool {
		m.admission.initLanes(q, m.placement.addIndex(q))
		return true
	})
	m.fleet.workers.Scan(func(_ rota.WorkerID, w *state.WorkerRow) bool {
		w.Grants = m.access.Work(w.By, w.Spec.Queues)
		m.placement.supplyOf(w)
		m.fleet.timeReputation(w)
		m.Timers.Offer.Refile(string(w.Spec.ID), 0, int64(w.OffersUntil))
		return true
	})
	m.ended.staged.records.Scan(func(seq uint64, r *state.Record) bool {
		if _, kept := m.ended.tombs.Order.At(seq); !kept {
			m.ended.staged.loose.Set(looseRecord{r.Spec.ID, seq})
		}
		return true
	})
	err := m.flows.deriveFlows()
	if err != nil {
		return err
	}
	m.keyring.Derive()
	m.budgets.Derive()
	m.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		err = m.deriveJob(j)
		return err == nil
	})
	if err != nil {
		return err
	}
	m.QueueTable.Scan(func(name rota.QueueName, q *state.QueueRow) bool {
		m.placement.timePromotion(q, m.placement.registry.queues[name])
		return true
	})
	m.leasing.leases.Scan(func(key string, r *state.LeaseRow) bool {
		w, j := m.fleet.workers.Get(r.Worker), m.JobTable.Get(r.Job)
		if w == nil || j == nil && r.Ended == nil || m.placement.registry.queues[r.Queue] == nil {
			err = fmt.Errorf("lease %s has no known worker, job or queue", r.ID)
			return false
		}
		w.Leases[key] = struct{}{}
		m.leasing.timeLease(r)
		m.placement.noteGoing(r)
		m.placement.share(r.Queue, r.Tenant, 1)
		m.placement.countEndless(r, &m.QueueTable.Get(r.Queue).Policy, 1)
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
	m.placement.holds.Scan(func(_ rota.JobID, h *state.HoldRow) bool {
		m.placement.registry.heldFor[h.Worker] = h.Job
		if h.Preempted {
			m.placement.registry.preempting++
		}
		m.placement.registry.supply.Hold(h.Worker, true)
		return true
	})
	m.access.Derive()
	m.uniques.Times(&m.Timers)
	m.schedules.Derive()
	m.batches.Derive()
	return m.admission.deriveLimits()
}

func (m *Machine) deriveJob(j *state.JobRow) error {
	q := m.QueueTable.Get(j.Spec.Queue)
	if q == nil {
		return fmt.Errorf("job %s is of unknown queue %q", j.Spec.ID, j.Spec.Queue)
	}
	if err := m.flows.deriveNodeJob(j); err != nil {
		return err
	}
	m.placement.registry.moveNode(j, rota.JobNone, j.State)
	id := string(j.Spec.ID)
	m.placement.classify(j)
	m.placement.accuse(j)
	m.Timers.Wake.Refile(id, 0, int64(j.Due))
	m.Timers.Dated.Refile(id, 0, int64(j.DueDate))
	m.Timers.Expire.Refile(id, 0, int64(j.Expires()))
	if j.State != rota.JobQueued {
		return nil
	}
	i := m.placement.registry.queues[q.Name]
	item := m.placement.itemOf(j, q)
	j.Item = &item
	m.admission.syncLanes(i, q, j.Spec.Tenant)
	i.pending.Add(j.Item)
	i.countTier(j, &q.Policy, 1)
	if i.turn.name == "" {
		i.turn = turn{q.Turn, uint64(q.Policy.Weight), q.Name}
		m.placement.registry.busy.Set(i.turn)
	}
	return nil
}
