package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

// Machine is the replicated state and the rules that change it. It is a plain
// value: its caller lets one Apply run at a time, and no read beside it.
type Machine struct {
	head   header
	ledger ledger

	jobs    table[rota.JobID, jobRow, *jobRow]
	leases  table[string, leaseRow, *leaseRow]
	workers table[rota.WorkerID, workerRow, *workerRow]
	queues  table[rota.QueueName, queueRow, *queueRow]
	tombs   tombs
	nodes   table[rota.NodeID, nodeRow, *nodeRow]
	holds   table[rota.JobID, holdRow, *holdRow]
	tenants table[rota.TenantID, tenantRow, *tenantRow]
	meters  table[string, meterRow, *meterRow]
	domains table[string, domainRow, *domainRow]
	types   table[rota.JobType, typeRow, *typeRow]
	// workflows by id; vertices, their nodes, by vertexKey.
	workflows table[rota.WorkflowID, workflowRow, *workflowRow]
	vertices  table[string, vertexRow, *vertexRow]
	// deleted are ranges of numbers of ended jobs that no archive shows any more.
	deleted table[string, deletedRow, *deletedRow]
	// staged are terminal jobs in full, no part of the digest.
	staged staging

	// What follows is derived from the rows, rebuilt on restore, and walked by
	// Check (Invariant I4).
	registry registry
	timers   timers
	flows    flows

	// knows is the newest version of the rules that this binary knows.
	knows uint32

	// The entry that is being applied.
	at      rota.Index
	stamped bool
	walls   []int64
	events  []rota.Event
	spare   []rota.Event
	sweep   Sweep
	rounds  []roundDone
	// mute drops events: what is changed by no entry tells none. scratch is room
	// for encoding.
	mute    bool
	scratch []byte
	opener  opener
	specs   specs
	// payloads are texts of events, keys of leases; digest is room for an output's; items
	// and lives are room for jobs. answers are the outcomes that most verbs have, shared by
	// all that have them.
	payloads texts
	keys     texts
	digest   [32]byte
	items    []*sched.Item
	lives    []*jobLife
	answers  [2][rota.Cancelled + 1]*fsmpb.Outcome
}

// Applied is what an entry did.
type Applied struct {
	Index rota.Index
	// Outcomes answer the operations, one for each.
	Outcomes []*fsmpb.Outcome
	Events   []rota.Event
	// EventBytes are all its events as AppendEvents writes them, nil without any;
	// EventsBefore counts the events of all entries before, EventsChain is their
	// chain, Prior the digest before the entry.
	EventBytes   []byte
	EventsBefore uint64
	EventsChain  sched.Hash
	Prior        rota.Digest
	// Term and Clock after the entry; Stamped says that it was stamped in Term.
	Term    uint64
	Clock   rota.Clock
	Stamped bool
	// Rules are those in force after the entry.
	Rules uint32
	// Sweep tells what a sweep in the entry did.
	Sweep  Sweep
	Digest rota.Digest
}

// Sweep says how many timers an entry's sweep fired, and whether more are due, or
// workflows have work left for the next entry.
type Sweep struct {
	Fired int
	More  bool
}

// New gives the state before a cluster's first entry.
func New() *Machine { return NewKnowing(RulesVersion) }

// NewKnowing is New for a binary that knows other rules: what tests of upgrades
// start nodes with.
func NewKnowing(version uint32) *Machine {
	m := &Machine{knows: version}
	m.head.rules = FirstRules
	m.jobs.tag, m.leases.tag, m.workers.tag = tagJob, tagLease, tagWorker
	m.queues.tag, m.nodes.tag = tagQueue, tagNode
	m.jobs.l, m.leases.l, m.workers.l = &m.ledger, &m.ledger, &m.ledger
	m.queues.l, m.tombs.l, m.nodes.l = &m.ledger, &m.ledger, &m.ledger
	m.holds.tag, m.tenants.tag, m.meters.tag, m.domains.tag, m.types.tag = tagHold, tagTenant, tagMeter, tagDomain, tagType
	m.holds.l, m.tenants.l, m.meters.l, m.domains.l, m.types.l = &m.ledger, &m.ledger, &m.ledger, &m.ledger, &m.ledger
	m.workflows.tag, m.workflows.l = tagWorkflow, &m.ledger
	m.vertices.tag, m.vertices.l = tagVertex, &m.ledger
	m.deleted.tag, m.deleted.l = tagDeleted, &m.ledger
	// The other tables change too seldom to matter. Where workers, queues or tenants are
	// many, each entry changes others of them, so that nearly every operation would copy a row.
	m.jobs.mutable, m.leases.mutable = true, true
	m.workers.mutable, m.queues.mutable, m.tenants.mutable = true, true, true
	m.jobs.empty = m.emptyJob
	m.queues.known = make(map[rota.QueueName]*queueRow)
	m.tombs.order, m.tombs.texts, m.staged.loose = newTombOrder(), make(map[rota.QueueName]*texts), newLooseRecords()
	m.registry.reset()
	m.timers.reset()
	m.flows.reset()
	return m
}

// Apply applies one log entry: index and term are its place in the log. An
// error is a *HaltError: the node must stop and apply nothing more.
func (m *Machine) Apply(index rota.Index, term uint64, data []byte) (Applied, error) {
	entry, err := open(index, data, m.knows, &m.opener)
	if err != nil {
		return Applied{}, err
	}
	for _, op := range entry.GetOps() {
		if op.GetOp() == nil {
			return Applied{}, &HaltError{Index: index, NewerRules: true, Reason: "it holds an operation that this binary does not know"}
		}
	}
	if err := m.haltAtSwitch(index, entry, term); err != nil {
		return Applied{}, err
	}
	m.begin(index, entry)
	m.head.operations += uint64(len(entry.GetOps()))
	a := Applied{Index: index, Outcomes: make([]*fsmpb.Outcome, len(entry.GetOps())), Prior: m.ledger.sum,
		EventsBefore: m.head.events, EventsChain: m.head.chain}
	if refusal := m.stamp(entry, term); refusal != nil {
		for i := range a.Outcomes {
			a.Outcomes[i] = refused(refusal)
		}
	} else {
		for i, op := range entry.GetOps() {
			a.Outcomes[i] = m.apply(op, term)
		}
		m.settleFlows()
		m.settleTurns()
		m.settleMode()
	}
	a.EventBytes = m.settleChain()
	m.settleHeader()
	m.ledger.settle()
	m.jobs.recycle()
	m.leases.recycle()
	m.workers.recycle()
	m.tenants.recycle() // queues are never dropped
	a.Events, a.Sweep, a.Rules = m.events, m.sweep, m.head.rules
	a.Term, a.Clock, a.Stamped, a.Digest = m.head.term, m.head.clock, m.stamped, m.ledger.sum
	return a, nil
}

// apply is the one switch: a verb a line.
func (m *Machine) apply(op *fsmpb.Op, term uint64) *fsmpb.Outcome {
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_BeginTerm:
		return m.beginTerm(op.BeginTerm, term)
	case *fsmpb.Op_Submit:
		return m.submit(op.Submit)
	case *fsmpb.Op_Register:
		return m.register(op.Register)
	case *fsmpb.Op_SetStatus:
		return m.setStatus(op.SetStatus)
	case *fsmpb.Op_Reach:
		return m.reach(op.Reach)
	case *fsmpb.Op_Disconnect:
		return m.disconnect(op.Disconnect)
	case *fsmpb.Op_Gone:
		return m.gone(op.Gone)
	case *fsmpb.Op_Round:
		return m.round(op.Round)
	case *fsmpb.Op_Lease:
		return m.leaseOp(op.Lease)
	case *fsmpb.Op_Cancel:
		return m.cancel(op.Cancel)
	case *fsmpb.Op_Retry:
		return m.retry(op.Retry)
	case *fsmpb.Op_ChangeJob:
		return m.changeJob(op.ChangeJob)
	case *fsmpb.Op_DeleteJob:
		return m.deleteJob(op.DeleteJob)
	case *fsmpb.Op_DropDeleted:
		return m.dropDeleted(op.DropDeleted)
	case *fsmpb.Op_Sweep:
		return m.sweepDue()
	case *fsmpb.Op_SetQueue:
		return m.setQueue(op.SetQueue)
	case *fsmpb.Op_SetNode:
		return m.setNode(op.SetNode)
	case *fsmpb.Op_SetMode:
		return m.setMode(op.SetMode)
	case *fsmpb.Op_SetTenant:
		return m.setTenant(op.SetTenant)
	case *fsmpb.Op_ReportProof:
		return m.reportProof(op.ReportProof)
	case *fsmpb.Op_OpenWorkflow:
		return m.openWorkflow(op.OpenWorkflow)
	case *fsmpb.Op_AddNodes:
		return m.addNodes(op.AddNodes)
	case *fsmpb.Op_CommitWorkflow:
		return m.commitWorkflow(op.CommitWorkflow)
	case *fsmpb.Op_CancelWorkflow:
		return m.cancelWorkflow(op.CancelWorkflow)
	case *fsmpb.Op_RetryWorkflow:
		return m.retryWorkflow(op.RetryWorkflow)
	case *fsmpb.Op_SwitchRules:
		return m.switchRules(op.SwitchRules)
	case *fsmpb.Op_NodeDiffers:
		return m.nodeDiffers(op.NodeDiffers)
	case *fsmpb.Op_Barrier:
		return &fsmpb.Outcome{}
	default:
		panic("fsm: Apply lets no unknown operation pass")
	}
}

// eventsKept is the greatest room for events that is kept for the next entry.
const eventsKept = 1 << 13

// Recycle gives back an entry's events, which nobody holds any more, as room for those
// of the next. Without it each entry has its own.
func (m *Machine) Recycle(events []rota.Event) {
	if cap(events) > eventsKept {
		return
	}
	clear(events)
	m.spare = events[:0]
}

func (m *Machine) begin(index rota.Index, entry *fsmpb.Entry) {
	m.at = index
	m.ledger.gen++
	events := len(entry.GetOps()) + 2
	for _, op := range entry.GetOps() {
		events += len(op.GetRound().GetPairs())
		switch rota.LeaseVerb(op.GetLease().GetVerb()) {
		case rota.VerbAck:
			events++ // leaseAcked and jobRunning
		case rota.VerbComplete:
			events += 2 // those too, where it acknowledges
		}
	}
	m.events, m.spare = m.spare, nil
	if cap(m.events) < events {
		m.events = make([]rota.Event, 0, events)
	}
	m.walls, m.sweep, m.rounds = entry.GetWallMs(), Sweep{}, m.rounds[:0]
	m.flows.spent = 0
}

// internal refuses an internal operation in an entry of another term: it was
// decided by a leadership that is over (SPEC §3.2).
func (m *Machine) internal() *fsmpb.Outcome {
	if m.stamped {
		return nil
	}
	return refused(rota.Refusef(rota.Stale, "term", "decided in a term that is over"))
}

// Head is the header in words, for whoever must know without reading rows.
type Head struct {
	ClusterID   rota.ClusterID
	Incarnation uint64
	Index       rota.Index
	Term        uint64
	Leader      rota.NodeID
	Clock       rota.Clock
	Date        rota.Date
	Mode        rota.ClusterMode
	Epoch       uint64
	Beacon      sched.Hash
	Digest      rota.Digest
	// Events counts all events ever, Chain is the head of the chain over them.
	Events uint64
	Chain  sched.Hash
	// Operations counts all that were ever applied.
	Operations uint64
	// Rules is the version of the rules in force.
	Rules uint32
}

// Head tells the header as the last applied entry left it.
func (m *Machine) Head() Head {
	h := &m.head
	return Head{ClusterID: h.cluster, Incarnation: h.incarnation, Index: h.index, Term: h.term, Leader: h.leader,
		Clock: h.clock, Date: h.date(), Mode: h.mode, Epoch: h.epoch, Beacon: h.beacon, Digest: m.ledger.sum,
		Events: h.events, Chain: h.chain, Operations: h.operations, Rules: h.rules}
}
