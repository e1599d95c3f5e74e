package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
)

// Machine is the replicated state and the rules that change it. It is a plain
// value: its caller lets one Apply run at a time, and no read beside it.
type Machine struct {
	View
	state
	// Each part owns its tables and what it derives from them. Its struct lists the other parts that it uses.
	fleet     fleet
	leasing   leasing
	placement placement
	admission admission
	typeStats typeStats
	flows     flows
	ended     ended
	access    authority
	uniques   uniques
	keyring   keyring
	schedules schedules
	batches   batches
	hooks     hooks
	plans     plans
	lifecycle

	decoder entry.Decoder
	// alone says that the entry that is being applied has one operation.
	alone bool
}

// lifecycle moves a job from admission to its end, for every verb.
type lifecycle struct {
	s         *state
	access    *authority
	admission *admission
	batches   *batches
	ended     *ended
	fleet     *fleet
	flows     *flows
	hooks     *hooks
	keyring   *keyring
	leasing   *leasing
	placement *placement
	schedules *schedules
	typeStats *typeStats
	uniques   *uniques
}

// New returns the state before a cluster's first entry.
func New() *Machine { return NewKnowing(entry.RulesVersion) }

// NewUnlogged is New for a state whose entries no log holds: it keeps no digest, no chain of its events and no count of its
// bytes, which nothing compares. It decides as any other, and admits what bytes alone would refuse.
func NewUnlogged() *Machine {
	m := New()
	m.ledger.unlogged = true
	return m
}

// NewKnowing is New for a binary that knows other rules: what tests of upgrades
// start nodes with.
func NewKnowing(version uint32) *Machine {
	m := &Machine{state: state{knows: version}}
	m.head.rules, m.head.settings = entry.FirstRules, rota.DefaultClusterSettings()
	m.View.m = m
	m.wire()
	l := &m.ledger
	l.enc.said = new(saidPolicy)
	m.jobs.init(tagJob, l)
	m.queues.init(tagQueue, l)
	m.nodes.init(tagNode, l)
	m.backups.init(tagBackup, l)
	m.tzdata.init(tagTZData, l)
	m.fleet.workers.init(tagWorker, l)
	m.leasing.leases.init(tagLease, l)
	m.placement.holds.init(tagHold, l)
	m.admission.tenants.init(tagTenant, l)
	m.admission.limiters.init(tagLimiter, l)
	m.admission.domains.init(tagDomain, l)
	m.typeStats.types.init(tagType, l)
	m.typeStats.estimates.init(tagEstimate, l)
	m.typeStats.order = newEstimateOrder()
	m.flows.workflows.init(tagWorkflow, l)
	m.flows.vertices.init(tagVertex, l)
	m.ended.deleted.init(tagDeleted, l)
	m.access.roles.init(tagRole, l)
	m.access.tokens.init(tagToken, l)
	m.access.blocks.init(tagBlock, l)
	m.access.issuers.init(tagIssuer, l)
	m.access.spent.init(tagSpent, l)
	m.uniques.rows.init(tagUnique, l)
	m.uniques.merged.init(tagMerged, l)
	m.keyring.rules.init(tagKeyRule, l)
	m.keyring.counts.init(tagKeyCount, l)
	m.schedules.rows.init(tagSchedule, l)
	m.batches.rows.init(tagBatch, l)
	m.hooks.rows.init(tagWebhook, l)
	m.plans.rows.init(tagPlan, l)
	m.ended.tombs.l = l
	// The other tables change too rarely to matter. Where workers, queues or tenants are
	// many, each entry changes others of them, so that nearly every operation would copy a row.
	m.jobs.mutable, m.leasing.leases.mutable = true, true
	m.fleet.workers.mutable, m.queues.mutable, m.admission.tenants.mutable = true, true, true
	m.uniques.rows.mutable, m.keyring.counts.mutable = true, true
	m.jobs.empty = m.emptyJob
	m.queues.known, m.keyring.counts.known = make(map[rota.QueueName]*queueRow), make(map[string]*keyCountRow)
	m.jobs.filed = func(j *jobRow) { m.numbers.Set(j.seq, j) }
	m.jobs.left = func(j *jobRow) { m.numbers.Delete(j.seq) }
	m.ended.tombs.order, m.ended.tombs.texts, m.ended.staged.loose = newTombOrder(), make(map[rota.QueueName]*entry.Texts), newLooseRecords()
	m.keyring.reset()
	m.leasing.outlived = newOutlived()
	m.placement.registry.reset()
	m.timers.reset()
	m.flows.flowIndex.reset()
	return m
}

// wire gives each part the state and the other parts that it uses.
func (m *Machine) wire() {
	s := &m.state
	m.journal.s = s
	m.lifecycle = lifecycle{s: s, access: &m.access, admission: &m.admission, batches: &m.batches,
		ended: &m.ended, fleet: &m.fleet, flows: &m.flows, hooks: &m.hooks, keyring: &m.keyring,
		leasing: &m.leasing, placement: &m.placement, schedules: &m.schedules, typeStats: &m.typeStats,
		uniques: &m.uniques}
	m.access = authority{s: s, batches: &m.batches, ended: &m.ended, fleet: &m.fleet, flows: &m.flows,
		hooks: &m.hooks, keyring: &m.keyring, leasing: &m.leasing, life: &m.lifecycle, plans: &m.plans,
		schedules: &m.schedules}
	m.admission = admission{s: s, access: &m.access, flows: &m.flows, keyring: &m.keyring, leasing: &m.leasing,
		placement: &m.placement, typeStats: &m.typeStats}
	m.batches = batches{s: s, access: &m.access, admission: &m.admission, ended: &m.ended, keyring: &m.keyring,
		life: &m.lifecycle}
	m.ended = ended{s: s, flows: &m.flows, keyring: &m.keyring, leasing: &m.leasing, uniques: &m.uniques, view: &m.View}
	m.fleet = fleet{s: s, access: &m.access, admission: &m.admission, leasing: &m.leasing,
		placement: &m.placement, typeStats: &m.typeStats}
	m.flows = flows{s: s, access: &m.access, admission: &m.admission, ended: &m.ended, keyring: &m.keyring,
		leasing: &m.leasing, life: &m.lifecycle, placement: &m.placement, typeStats: &m.typeStats,
		view: &m.View}
	m.hooks = hooks{s: s, access: &m.access, ended: &m.ended, life: &m.lifecycle, placement: &m.placement}
	m.keyring = keyring{s: s, admission: &m.admission, ended: &m.ended, leasing: &m.leasing, placement: &m.placement}
	m.leasing = leasing{s: s, admission: &m.admission, ended: &m.ended, fleet: &m.fleet, flows: &m.flows,
		keyring: &m.keyring, life: &m.lifecycle, placement: &m.placement, schedules: &m.schedules,
		uniques: &m.uniques, view: &m.View}
	m.placement = placement{s: s, access: &m.access, admission: &m.admission, batches: &m.batches,
		fleet: &m.fleet, hooks: &m.hooks, keyring: &m.keyring, leasing: &m.leasing, life: &m.lifecycle,
		schedules: &m.schedules, typeStats: &m.typeStats, uniques: &m.uniques}
	m.plans = plans{s: s, access: &m.access}
	m.schedules = schedules{s: s, access: &m.access, admission: &m.admission, ended: &m.ended, life: &m.lifecycle}
	m.typeStats = typeStats{s: s, life: &m.lifecycle, placement: &m.placement}
	m.uniques = uniques{s: s, ended: &m.ended, life: &m.lifecycle, placement: &m.placement}
}

// View is the reading side of a Machine: nothing of it changes the state. It is valid as
// long as no entry is applied.
type View struct{ m *Machine }

// JobState returns a job's state alone, JobNone where nothing is known.
func (vw *View) JobState(id rota.JobID) rota.JobState {
	if j := vw.m.jobs.get(id); j != nil {
		return j.state
	}
	if _, v := vw.m.flows.waitingNode(id); v != nil {
		return rota.JobBlocked
	}
	if t := vw.m.ended.tombs.get(id); t != nil {
		return t.state
	}
	return rota.JobNone
}

type checker struct {
	m      *Machine
	faults []string
	tokens map[rota.Token]rota.LeaseID
	// open counts the leases of a queue; shares those of a tenant in a queue.
	open   map[rota.QueueName]int64
	shares map[share]int64
	// lingers counts those of a queue that have outlived their jobs.
	lingers map[rota.QueueName]int64
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < 100 {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

type share struct {
	queue  rota.QueueName
	tenant rota.TenantID
}

// settleHeader puts the header's new hash in the place of its old one.
func (m *Machine) settleHeader() {
	m.head.index = m.at
	if m.ledger.unlogged {
		return
	}
	m.ledger.sub(m.head.hash)
	m.head.hash = hashRow(&m.ledger.enc, tagHeader, &m.head)
	m.ledger.add(m.head.hash)
}
