package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/sched"
)

// Applied is the result of an entry.
type Applied struct {
	Index rota.Index
	// Outcomes answer the operations, one each.
	Outcomes []*fsmpb.Outcome
	Events   []rota.Event
	// EventBytes are all its events as AppendEvents writes them, nil if there are none. EventsBefore is the number of
	// events of all earlier entries, EventsChain their chain, Prior the digest before the entry.
	EventBytes   []byte
	EventsBefore uint64
	EventsChain  sched.Hash
	Prior        rota.Digest
	// Term and Clock after the entry; Stamped reports that it was stamped in Term.
	Term    uint64
	Clock   rota.Clock
	Stamped bool
	// Rules is the rules version in force after the entry.
	Rules uint32
	// Offered reports that a worker now accepts leases that accepted none before: no event records it.
	Offered bool
	// Sweep reports what a sweep in the entry did.
	Sweep  state.Sweep
	Digest rota.Digest
}

// Apply applies one log entry; index and term are its position in the log. An error is a *entry.HaltError: the node
// must stop and apply nothing more.
func (m *Machine) Apply(index rota.Index, term uint64, data []byte) (Applied, error) {
	e, err := entry.Open(index, data, m.Knows, &m.decoder)
	if err != nil {
		return Applied{}, err
	}
	return ApplyOpened(m, index, term, e)
}

// ApplyOpened applies an entry that is already open, or that no log holds. The state keeps the bytes and lists in it,
// which must not change afterwards; the messages may be reused.
func ApplyOpened(m *Machine, index rota.Index, term uint64, e *fsmpb.Entry) (Applied, error) {
	for _, op := range e.GetOps() {
		if op.GetOp() == nil {
			return Applied{}, &entry.HaltError{Index: index, NewerRules: true,
				Reason: "it holds an operation that this binary does not know"}
		}
	}
	if err := m.haltAtSwitch(index, e, term); err != nil {
		return Applied{}, err
	}
	m.begin(index, e)
	m.Header.Operations += uint64(len(e.GetOps()))
	a := Applied{Index: index, Outcomes: make([]*fsmpb.Outcome, len(e.GetOps())), Prior: m.Ledger.Sum,
		EventsBefore: m.Header.Events, EventsChain: m.Header.Chain}
	if refusal := m.stamp(e, term); refusal != nil {
		for i := range a.Outcomes {
			a.Outcomes[i] = entry.Refused(refusal)
		}
	} else {
		for i, op := range e.GetOps() {
			a.Outcomes[i] = m.applyFor(op, term)
		}
		m.Journal.Caller, m.Journal.IfMatch = access.Caller{}, ""
		m.uniques.Settle()
		m.flows.settleFlows()
		m.schedules.Settle()
		m.batches.Settle()
		m.placement.settleTurns()
		m.admission.settleMode()
	}
	a.EventBytes = m.Journal.SettleChain()
	m.settleHeader()
	m.Ledger.Settle()
	m.JobTable.Recycle()
	m.leasing.leases.Recycle()
	m.fleet.workers.Recycle()
	m.uniques.Rows.Recycle()
	m.keyring.CountRows.Recycle()
	m.keyring.Charges.Recycle()
	m.budgets.AccountRows.Recycle()
	m.admission.tenants.Recycle() // queues are never dropped
	a.Events, a.Sweep, a.Rules, a.Offered = m.Journal.Events, m.Sweep, m.Header.Rules, m.fleet.offered
	a.Term, a.Clock, a.Stamped, a.Digest = m.Header.Term, m.Header.Clock, m.Stamped, m.Ledger.Sum
	return a, nil
}

// applyFor applies an operation for its caller, or refuses it if the caller lacks the right.
func (m *Machine) applyFor(op *fsmpb.Op, term uint64) *fsmpb.Outcome {
	m.Journal.Caller = state.CallerOf(op)
	m.Journal.IfMatch = op.GetIfMatch()
	if refusal := m.access.Judge(op); refusal != nil {
		return entry.Refused(refusal)
	}
	if err := state.Conditional(op); err != nil {
		return entry.Refused(err)
	}
	if err := entry.RefuseNewer(op, m.Header.Rules); err != nil {
		return entry.Refused(err)
	}
	return m.apply(op, term)
}

// apply is the only switch: a verb per line, with those on access separate.
func (m *Machine) apply(whole *fsmpb.Op, term uint64) *fsmpb.Outcome {
	switch op := whole.GetOp().(type) {
	case *fsmpb.Op_BeginTerm:
		return m.beginTerm(op.BeginTerm, term)
	case *fsmpb.Op_Submit:
		return m.submit(op.Submit)
	case *fsmpb.Op_Register:
		return m.fleet.register(op.Register)
	case *fsmpb.Op_SetStatus:
		return m.fleet.setStatus(op.SetStatus)
	case *fsmpb.Op_Reach:
		return m.fleet.reach(op.Reach)
	case *fsmpb.Op_Disconnect:
		return m.fleet.disconnect(op.Disconnect)
	case *fsmpb.Op_Offer:
		return m.fleet.offer(op.Offer)
	case *fsmpb.Op_Gone:
		return m.fleet.gone(op.Gone)
	case *fsmpb.Op_Round:
		return m.placement.round(op.Round)
	case *fsmpb.Op_Lease, *fsmpb.Op_KeepLog, *fsmpb.Op_InterruptJob, *fsmpb.Op_RunJobNow:
		return m.leasing.apply(whole)
	case *fsmpb.Op_Cancel:
		return m.cancel(op.Cancel)
	case *fsmpb.Op_Retry:
		return m.retry(op.Retry)
	case *fsmpb.Op_ChangeJob:
		return m.changeJob(op.ChangeJob)
	case *fsmpb.Op_DeleteJob:
		return m.ended.deleteJob(op.DeleteJob)
	case *fsmpb.Op_DropDeleted:
		return m.ended.dropDeleted(op.DropDeleted)
	case *fsmpb.Op_Sweep:
		return m.sweepDue()
	case *fsmpb.Op_SetQueue:
		return m.placement.setQueue(op.SetQueue)
	case *fsmpb.Op_SetNode:
		return m.setNode(op.SetNode)
	case *fsmpb.Op_WantVoters:
		return m.wantVoters(op.WantVoters)
	case *fsmpb.Op_SetMode:
		return m.admission.setMode(op.SetMode)
	case *fsmpb.Op_DeleteQueue:
		return m.placement.deleteQueue(op.DeleteQueue)
	case *fsmpb.Op_DeleteTenant:
		return m.admission.deleteTenant(op.DeleteTenant)
	case *fsmpb.Op_DeleteWorker:
		return m.fleet.deleteWorker(op.DeleteWorker)
	case *fsmpb.Op_SetTenant:
		return m.admission.setTenant(op.SetTenant)
	case *fsmpb.Op_SetCluster:
		return m.admission.setCluster(op.SetCluster)
	case *fsmpb.Op_ReportProof:
		return m.reportProof(op.ReportProof)
	case *fsmpb.Op_OpenWorkflow:
		return m.flows.openWorkflow(op.OpenWorkflow)
	case *fsmpb.Op_AddNodes:
		return m.flows.addNodes(op.AddNodes)
	case *fsmpb.Op_CommitWorkflow:
		return m.flows.commitWorkflow(op.CommitWorkflow)
	case *fsmpb.Op_CancelWorkflow:
		return m.flows.cancelWorkflow(op.CancelWorkflow)
	case *fsmpb.Op_RetryWorkflow:
		return m.flows.retryWorkflow(op.RetryWorkflow)
	case *fsmpb.Op_SignalWorkflow:
		return m.flows.signalWorkflow(op.SignalWorkflow)
	case *fsmpb.Op_SwitchRules:
		return m.switchRules(op.SwitchRules)
	case *fsmpb.Op_NodeDiffers:
		return m.nodeDiffers(op.NodeDiffers)
	case *fsmpb.Op_BackupStored:
		return m.storedBackup(op.BackupStored)
	case *fsmpb.Op_SetKeyRule, *fsmpb.Op_DeleteKeyRule, *fsmpb.Op_SkipKey, *fsmpb.Op_PauseKey:
		return m.keyring.Apply(whole)
	case *fsmpb.Op_SetBudget, *fsmpb.Op_DeleteBudget, *fsmpb.Op_GrantBudget, *fsmpb.Op_ResetBudget,
		*fsmpb.Op_TurnBudget:
		return m.budgets.Apply(whole)
	case *fsmpb.Op_SetSchedule, *fsmpb.Op_PauseSchedule, *fsmpb.Op_TriggerSchedule, *fsmpb.Op_BackfillSchedule,
		*fsmpb.Op_DeleteSchedule, *fsmpb.Op_Fire, *fsmpb.Op_SetTzdata:
		return m.schedules.Apply(whole)
	case *fsmpb.Op_StartPlan:
		return m.plans.Start(op.StartPlan)
	case *fsmpb.Op_CancelPlan:
		return m.plans.Cancel(op.CancelPlan)
	case *fsmpb.Op_PlanStep:
		return m.plans.Step(op.PlanStep, term, m.planOne)
	case *fsmpb.Op_OpenBatch:
		return m.batches.Open(op.OpenBatch)
	case *fsmpb.Op_SealBatch:
		return m.batches.SealOp(op.SealBatch)
	case *fsmpb.Op_SetWebhook, *fsmpb.Op_PauseWebhook, *fsmpb.Op_SkipWebhook, *fsmpb.Op_DeleteWebhook,
		*fsmpb.Op_AdvanceHook:
		return m.hooks.Apply(whole)
	case *fsmpb.Op_Barrier:
		return &fsmpb.Outcome{}
	default:
		return m.applyAccess(whole)
	}
}

func (m *Machine) applyAccess(op *fsmpb.Op) *fsmpb.Outcome {
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_SetRole:
		return m.access.SetRole(op.SetRole)
	case *fsmpb.Op_DeleteRole:
		return m.access.DeleteRole(op.DeleteRole)
	case *fsmpb.Op_CreateToken:
		return m.access.CreateToken(op.CreateToken)
	case *fsmpb.Op_RevokeToken:
		return m.access.RevokeToken(op.RevokeToken)
	case *fsmpb.Op_SetBlock:
		return m.access.SetBlock(op.SetBlock)
	case *fsmpb.Op_SetAnonymous:
		return m.access.SetAnonymous(op.SetAnonymous)
	case *fsmpb.Op_SetIssuer:
		return m.access.SetIssuer(op.SetIssuer)
	case *fsmpb.Op_DeleteIssuer:
		return m.access.DeleteIssuer(op.DeleteIssuer)
	case *fsmpb.Op_Exchange:
		return m.access.Exchange(op.Exchange)
	case *fsmpb.Op_OpenSession:
		return m.access.OpenSession(op.OpenSession)
	case *fsmpb.Op_ClaimSession:
		return m.access.ClaimSession(op.ClaimSession)
	case *fsmpb.Op_EndSession:
		return m.access.EndSession(op.EndSession)
	case *fsmpb.Op_ReadSnapshot:
		return m.Journal.ReadSnapshot(op.ReadSnapshot)
	case *fsmpb.Op_InitAuth:
		return m.access.InitAuth(op.InitAuth)
	default:
		panic("fsm: Apply lets no unknown operation pass")
	}
}

// eventsKept is the maximum capacity for events that is kept for the next entry.
const eventsKept = 1 << 13

// Recycle returns an entry's events, which must no longer be in use, as room for those of the next. Without it each
// entry allocates its own.
func (m *Machine) Recycle(events []rota.Event) {
	if cap(events) > eventsKept {
		return
	}
	clear(events)
	m.Journal.Spare = events[:0]
}

func (m *Machine) begin(index rota.Index, e *fsmpb.Entry) {
	m.At, m.alone = index, len(e.GetOps()) == 1
	m.Ledger.Gen++
	m.fleet.offered = false
	events := len(e.GetOps()) + 2
	for _, op := range e.GetOps() {
		events += len(op.GetRound().GetPairs())
		switch rota.LeaseVerb(op.GetLease().GetVerb()) {
		case rota.VerbAck:
			events++ // leaseAcked and jobRunning
		case rota.VerbComplete:
			events += 2 // also those, if it acknowledges
		}
	}
	m.Journal.Events, m.Journal.Spare = m.Journal.Spare, nil
	if cap(m.Journal.Events) < events {
		m.Journal.Events = make([]rota.Event, 0, events)
	}
	m.Walls, m.Sweep, m.placement.rounds = e.GetWallMs(), state.Sweep{}, m.placement.rounds[:0]
	m.flows.flowIndex.spent = 0
}

// Head is the header in its public form, for callers that read no rows.
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
	// Events is the number of all events ever, Chain the head of the chain over them.
	Events uint64
	Chain  sched.Hash
	// Operations is the number of all operations ever applied.
	Operations uint64
	// Rules is the version of the rules in force.
	Rules uint32
}

// Head returns the header after the last applied entry.
func (vw *View) Head() Head {
	h := &vw.m.Header
	return Head{ClusterID: h.Cluster, Incarnation: h.Incarnation, Index: h.Index, Term: h.Term, Leader: h.Leader,
		Clock: h.Clock, Date: h.Date(), Mode: h.Mode, Epoch: h.Epoch, Beacon: h.Beacon, Digest: vw.m.Ledger.Sum,
		Events: h.Events, Chain: h.Chain, Operations: h.Operations, Rules: h.Rules}
}

// Rebirth describes the fresh cluster that a state becomes part of.
type Rebirth struct {
	Cluster rota.ClusterID
	// Incarnation is the minimum of the new incarnation; it is greater than the state's own in any case.
	Incarnation uint64
	// Pause is how long the jobs of void leases wait, as their workers may still be working; 0 for no wait.
	Pause rota.Clock
	// Survivor is the only member that continues, under a new identity: the ids of all others, including Lost, never
	// come back. Without a survivor the state has no nodes.
	Survivor rota.NodeID
	Lost     []rota.NodeID
	// VoidTokens revokes every access token.
	VoidTokens bool
}

// Reincarnate turns a state into that of a fresh cluster (SPEC §13.5, §8.6): another cluster id, a greater incarnation,
// no leadership. Every open lease is void, uncounted, and its job QUEUED again or DELAYED by the pause; every worker is
// RETIRED. The index stays. It runs offline, before any node serves the state; its changes are not a log entry and emit
// no events.
func (m *Machine) Reincarnate(as Rebirth) error {
	if err := rota.CheckID("cluster_id", as.Cluster); err != nil {
		return err
	}
	h := &m.Header
	if h.Cluster == "" || h.Cluster == as.Cluster {
		return rota.Refusef(rota.KindConflict, "cluster_id", "a state of cluster %q cannot become one of cluster %q",
			h.Cluster, as.Cluster)
	}
	m.At, m.Journal.Mute = h.Index, true
	m.Ledger.Gen++
	m.leasing.voidAll(as.Pause)
	m.fleet.retireAll()
	m.bury(as)
	m.schedules.PauseAll()
	m.hooks.DisableAll("the cluster was restored", authz.Anybody)
	m.batches.Settle()
	m.plans.CancelAll("the cluster was restored")
	if m.BackupTable.Get("") != nil {
		m.BackupTable.Drop("") // of another cluster
	}
	if as.VoidTokens {
		m.access.RevokeAll()
	}
	h.Cluster, h.Incarnation, h.Term, h.Leader = as.Cluster, max(h.Incarnation+1, as.Incarnation), 0, ""
	h.Beacon = sched.FirstBeacon(as.Cluster)
	h.Settings.VotersWanted = rota.LeastVotersWanted // the previous voters are gone
	m.Journal.Events, m.Journal.Mute = nil, false
	m.settleHeader()
	m.Ledger.Settle()
	if faults := m.Check(); len(faults) > 0 {
		return fmt.Errorf("the reborn state contradicts itself: %s", faults[0])
	}
	return nil
}

// voidAll ends every open lease.
func (lg *leasing) voidAll(pause rota.Clock) {
	var leases []*state.LeaseRow
	lg.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		leases = append(leases, l)
		return true
	})
	for _, l := range leases {
		if l.Ended != nil {
			lg.void(l, pause)
			continue
		}
		if pause == 0 {
			lg.endLease(l, rota.ReasonRestored, "")
			continue
		}
		j := lg.s.JobTable.Edit(l.Job)
		lg.closeLease(l, j, rota.ReasonRestored, "")
		if !lg.flows.endsWith(j) {
			lg.backOff(j, pause, rota.ReasonRestored)
		}
	}
}

func (fl *fleet) retireAll() {
	var workers []rota.WorkerID
	fl.workers.Scan(func(id rota.WorkerID, _ *state.WorkerRow) bool {
		workers = append(workers, id)
		return true
	})
	for _, id := range workers {
		fl.enter(fl.workers.Edit(id), rota.WorkerRetired)
	}
}

// bury removes the nodes, or all but their ids if one of them survives.
func (m *Machine) bury(as Rebirth) {
	var nodes []rota.NodeID
	m.NodeTable.Scan(func(id rota.NodeID, _ *state.NodeRow) bool {
		nodes = append(nodes, id)
		return true
	})
	for _, id := range nodes {
		if as.Survivor == "" || id == as.Survivor {
			m.NodeTable.Drop(id)
		} else {
			m.NodeTable.Edit(id).Removed = true
		}
	}
	for _, id := range as.Lost {
		if id != as.Survivor && m.NodeTable.Get(id) == nil {
			m.NodeTable.Insert(id, &state.NodeRow{ID: id, Removed: true})
		}
	}
}
