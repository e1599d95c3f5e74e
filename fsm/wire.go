package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/batches"
	"github.com/rotasched/rota/fsm/internal/budgets"
	"github.com/rotasched/rota/fsm/internal/hooks"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/plans"
	"github.com/rotasched/rota/fsm/internal/schedules"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/internal/unique"
)

// Machine is the replicated state and the rules that change it. It is a plain value: its caller must run one Apply at a
// time, without concurrent reads.
type Machine struct {
	View
	parts

	decoder entry.Decoder
	// alone reports that the entry being applied has one operation.
	alone bool
}

// parts are the tables and the data derived from them, without the verbs that change them: all that readers, the
// assertions and decisions use of a Machine. Each part owns its tables; its struct lists the other parts that it uses.
type parts struct {
	state.State
	fleet     fleet
	leasing   leasing
	placement placement
	admission admission
	typeStats learn.Stats
	flows     flows
	ended     ended
	access    authz.Authority
	uniques   unique.Keys
	keyring   keys.Keyring
	budgets   budgets.Budgets
	schedules schedules.Schedules
	batches   batches.Batches
	hooks     hooks.Hooks
	plans     plans.Plans
	lifecycle
}

// lifecycle moves a job from admission to its end, for every verb.
type lifecycle struct {
	s         *state.State
	access    *authz.Authority
	admission *admission
	batches   *batches.Batches
	budgets   *budgets.Budgets
	ended     *ended
	fleet     *fleet
	flows     *flows
	hooks     *hooks.Hooks
	keyring   *keys.Keyring
	leasing   *leasing
	placement *placement
	schedules *schedules.Schedules
	typeStats *learn.Stats
	uniques   *unique.Keys
}

// New returns the state before a cluster's first entry.
func New() *Machine { return NewKnowing(entry.RulesVersion) }

// NewUnlogged is New for a state whose entries no log holds: it keeps no digest, no chain of its events and no count of
// its bytes, as nothing compares them. It decides like any other, but never refuses an operation for its bytes.
func NewUnlogged() *Machine {
	m := New()
	m.Ledger.Unlogged = true
	return m
}

// NewKnowing is New for a binary that knows other rules, for tests of upgrades.
func NewKnowing(version uint32) *Machine {
	m := &Machine{parts: parts{State: state.State{Knows: version}}}
	m.Header.Rules, m.Header.Settings = entry.FirstRules, rota.DefaultClusterSettings()
	m.View.m = &m.parts
	m.wire()
	l := &m.Ledger
	l.Enc.Said = new(state.SaidPolicy)
	m.JobTable.Init(state.TagJob, l)
	m.QueueTable.Init(state.TagQueue, l)
	m.NodeTable.Init(state.TagNode, l)
	m.BackupTable.Init(state.TagBackup, l)
	m.ZoneTable.Init(state.TagTZData, l)
	m.fleet.workers.Init(state.TagWorker, l)
	m.leasing.leases.Init(state.TagLease, l)
	m.placement.holds.Init(state.TagHold, l)
	m.admission.tenants.Init(state.TagTenant, l)
	m.admission.limiters.Init(state.TagLimiter, l)
	m.admission.domains.Init(state.TagDomain, l)
	m.flows.workflows.Init(state.TagWorkflow, l)
	m.flows.vertices.Init(state.TagVertex, l)
	m.ended.deleted.Init(state.TagDeleted, l)
	m.ended.tombs.L = l
	// The other tables change too rarely to matter. With many workers, queues or tenants, each entry changes different
	// ones, so nearly every operation would copy a row.
	m.JobTable.Mutable, m.leasing.leases.Mutable = true, true
	m.fleet.workers.Mutable, m.QueueTable.Mutable, m.admission.tenants.Mutable = true, true, true
	m.JobTable.Empty = m.emptyJob
	m.QueueTable.Known = make(map[rota.QueueName]*state.QueueRow)
	m.JobTable.Filed = func(j *state.JobRow) { m.Numbers.Set(j.Seq, j) }
	m.JobTable.Left = func(j *state.JobRow) { m.Numbers.Delete(j.Seq) }
	m.ended.tombs.Order, m.ended.tombs.Texts, m.ended.staged.loose = state.NewTombOrder(), make(
		map[rota.QueueName]*entry.Texts), newLooseRecords()
	m.leasing.outlived = newOutlived()
	m.placement.registry.reset()
	m.Timers.Reset()
	m.flows.flowIndex.reset()
	return m
}

// wire gives each part the state and the other parts that it uses.
func (m *Machine) wire() {
	s := &m.State
	m.Journal.S = s
	m.lifecycle = lifecycle{s: s, access: &m.access, admission: &m.admission, batches: &m.batches,
		budgets: &m.budgets, ended: &m.ended, fleet: &m.fleet, flows: &m.flows, hooks: &m.hooks, keyring: &m.keyring,
		leasing: &m.leasing, placement: &m.placement, schedules: &m.schedules, typeStats: &m.typeStats,
		uniques: &m.uniques}
	m.admission = admission{s: s, access: &m.access, budgets: &m.budgets, flows: &m.flows, keyring: &m.keyring, leasing: &m.leasing,
		placement: &m.placement, typeStats: &m.typeStats}
	m.ended = ended{s: s, flows: &m.flows, keyring: &m.keyring, leasing: &m.leasing, uniques: &m.uniques, view: &m.View}
	m.fleet = fleet{s: s, access: &m.access, admission: &m.admission, leasing: &m.leasing,
		placement: &m.placement, typeStats: &m.typeStats}
	m.flows = flows{s: s, access: &m.access, admission: &m.admission, budgets: &m.budgets, ended: &m.ended, keyring: &m.keyring,
		leasing: &m.leasing, life: &m.lifecycle, placement: &m.placement, typeStats: &m.typeStats,
		view: &m.View}
	m.keyring.Init(s, keys.Ports{AdmitBytes: m.admission.admitBytes, Tombs: &m.ended.tombs, Lanes: m.placement.lanesOf,
		Refile: m.placement.refileAll, Outlived: m.leasing.eachOutlived,
		Budgets: keys.BudgetPorts{Counts: m.budgets.Counts, Full: m.budgets.ClassFull, Holds: m.budgets.Holds}})
	m.budgets.Init(s, budgets.Ports{Lanes: m.keyring.Lanes, Pending: m.keyring.Pending, Leases: &m.leasing.leases,
		SpecOf: m.leasing.specOf, Revoke: m.fleet.revoke, AdmitBytes: m.admission.admitBytes, FlowLives: m.flows.lives,
		SameZones: m.schedules.SameZones})
	m.access.Init(s, authz.Ports{Disown: m.fleet.disown, Regrant: m.fleet.regrant,
		DisableHooks: m.hooks.DisableAll, EachHeld: m.eachHeld},
		authz.Places{Tombs: &m.ended.tombs, Workers: &m.fleet.workers, Leases: &m.leasing.leases,
			Schedules: &m.schedules.Rows, Batches: &m.batches.Rows, Hooks: &m.hooks.Rows, Budgets: &m.budgets.Rows,
			Workflows: &m.flows.workflows, KeyRule: m.keyring.RuleNamed, PlanStarter: m.plans.Starter,
			Node: m.flows.node, QueuesOf: m.flows.queuesOf, NewQueues: m.flows.newQueues})
	m.plans.Init(s, plans.Ports{RightsOf: m.access.RightsOf, Tombs: &m.ended.tombs,
		LiveJob:  func(j *state.JobRow) rota.Job { return liveJob(j, nil, s.Header.Now()) },
		DeadJob:  func(t *state.TombRow) rota.Job { return deadJob(t, nil) },
		Workflow: m.flows.workflows.Get, Wait: ManyAtOnce})
	m.batches.Init(s, batches.Ports{AdmitBytes: m.admission.admitBytes, AdmitKeys: m.keyring.Admit,
		AdmitClass: m.admitClass, MayHold: m.access.MayHold, Hold: m.access.Hold, Tombs: &m.ended.tombs,
		Remembered: m.ended.remembered, CallerReads: m.access.CallerReads, Placed: m.placed, Insert: m.insert,
		Start: m.lifecycle.start})
	m.hooks.Init(s, hooks.Ports{RightsOf: m.access.RightsOf, MayHold: m.access.MayHold, Hold: m.access.Hold,
		Tombs: &m.ended.tombs, AdmitRun: m.admitRun, Insert: m.insert, Start: m.lifecycle.start,
		AddQueue: m.placement.addQueue})
	m.schedules.Init(s, schedules.Ports{AdmitBytes: m.admission.admitBytes, MayHold: m.access.MayHold,
		Hold: m.access.Hold, Tombs: &m.ended.tombs, FreeAt: &m.ended.freeAt, AdmitRun: m.admitRun, Insert: m.insert,
		StartAfter: m.startAfter, Expel: m.expel})
	m.uniques.Init(s, unique.Ports{Tombs: &m.ended.tombs, CallerReads: m.access.CallerReads, Known: againOutcome,
		Start: m.lifecycle.start, Move: m.placement.move, Own: m.own, Respec: m.respec, EmitDelayed: m.emitDelayed})
	m.typeStats.Init(s, learn.Ports{Own: m.own, PartOf: m.placement.partOf})
	m.leasing = leasing{s: s, admission: &m.admission, budgets: &m.budgets, ended: &m.ended, fleet: &m.fleet, flows: &m.flows,
		keyring: &m.keyring, life: &m.lifecycle, placement: &m.placement, schedules: &m.schedules,
		uniques: &m.uniques, view: &m.View}
	m.placement = placement{s: s, access: &m.access, admission: &m.admission, batches: &m.batches, budgets: &m.budgets,
		fleet: &m.fleet, hooks: &m.hooks, keyring: &m.keyring, leasing: &m.leasing, life: &m.lifecycle,
		schedules: &m.schedules, typeStats: &m.typeStats, uniques: &m.uniques}
}

// View is the read-only interface of a Machine. It is valid until the next entry is applied.
type View struct{ m *parts }

// JobState returns only a job's state, JobNone if the job is unknown.
func (vw *View) JobState(id rota.JobID) rota.JobState {
	if j := vw.m.JobTable.Get(id); j != nil {
		return j.State
	}
	if _, v := vw.m.flows.waitingNode(id); v != nil {
		return rota.JobBlocked
	}
	if t := vw.m.ended.tombs.Get(id); t != nil {
		return t.State
	}
	return rota.JobNone
}

type checker struct {
	m      *parts
	view   *View
	faults []string
	tokens map[rota.Token]rota.LeaseID
	// open counts the leases of a queue; shares those of a tenant in a queue.
	open   map[rota.QueueName]int64
	shares map[share]int64
	// lingers counts the leases of a queue that have outlived their jobs.
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

// settleHeader replaces the header's old hash by the new one.
func (m *Machine) settleHeader() {
	m.Header.Index = m.At
	if m.Ledger.Unlogged {
		return
	}
	m.Ledger.Sub(m.Header.Hash)
	m.Header.Hash = state.HashRow(&m.Ledger.Enc, state.TagHeader, &m.Header)
	m.Ledger.Add(m.Header.Hash)
}
