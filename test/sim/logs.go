package sim

import (
	"math/rand/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// logKeeper is the part of nodes that delivers their logs of leases that ended without their worker's verb (SPEC
// §22.4): late, sometimes twice, and sometimes for another worker. It draws from a random source of its own, separate
// from the world's.
type logKeeper struct {
	actor
	w      *World
	chance *rand.Rand
}

func newLogKeeper(w *World) *logKeeper {
	k := &logKeeper{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x2204))}
	k.name = "logs"
	return k
}

// hears records the end of a lease as a node sees it.
func (k *logKeeper) hears(n *node, e *rota.Event) {
	if !k.w.Logs || e.Kind != rota.EventLeaseExpired && e.Kind != rota.EventLeaseCancelled || k.chance.IntN(4) > 0 {
		return
	}
	worker := e.Worker
	if k.chance.IntN(20) == 0 {
		worker = "nobody"
	}
	op := fsm.KeepLogOp(e.Job, e.Lease, worker, []byte("late log of "+e.Lease.String()))
	for range 1 + k.chance.IntN(2) {
		k.w.on(&k.actor, Time(k.chance.IntN(90_000)), func() {
			k.w.forward(n, &k.actor, !n.down, op, func(*fsmpb.Outcome) {})
		})
	}
}

// logsOf checks the kept logs of attempts: one of each lease, which stays as it was first kept.
func (a *auditor) logsOf(n *node, e *fsmpb.Entry, r *fsm.Applied) {
	for i, op := range e.GetOps() {
		var id rota.LeaseID
		late := op.GetKeepLog()
		if c := op.GetLease(); c != nil && len(c.GetLog()) > 0 {
			copy(id[:], c.GetLease())
		} else if late != nil {
			copy(id[:], late.GetLease())
		} else {
			continue
		}
		staged, kept := n.machine.StagedJob(peer.LogID(id))
		text := ""
		if kept {
			text = string(staged.Ended().Job.Output)
		}
		before, had := a.logs[id]
		switch o := r.Outcomes[i]; {
		case had && text != before:
			a.failf("the log of lease %s was %q, and is %q", id, before, text)
		case late == nil && kept && OutcomeOK(o) &&
			!o.GetExisted(): // a repetition keeps nothing, but a late log of this entry may
			a.logs[id] = text
		case late == nil:
		case OutcomeOK(o) && o.GetExisted() != had:
			a.failf("a late log of lease %s was answered as kept before: %t, and one was: %t", id, o.GetExisted(), had)
		case OutcomeOK(o) && (!kept || text != string(late.GetLog()) && !had):
			a.failf("the late log of lease %s was accepted, and %q is kept", id, text)
		case OutcomeOK(o) && !had:
			a.logs[id] = text
			a.LogsKept++
			if t, _, _ := n.machine.Tombstone(rota.JobID(late.GetJob())); t > 0 {
				a.LogsLate++
			}
		case OutcomeOK(o):
		case late.GetWorker() == "nobody":
		case rota.Kind(o.GetKind()) == rota.KindNotFound && a.jobs[rota.JobID(late.GetJob())] != nil &&
			!a.jobs[rota.JobID(late.GetJob())].deleted && !had && a.recent(n, late):
			a.failf("the late log of lease %s is refused: %v", id, entry.OutcomeError(o))
		}
	}
}

// recent reports whether the lease of a log is among the attempts that a node shows of a job; of an ended job, the last
// one or one that no verb of its worker ended.
func (a *auditor) recent(n *node, late *fsmpb.KeepLog) bool {
	j, ok := n.machine.Job(rota.JobID(late.GetJob()))
	for i := range j.Attempts {
		at := &j.Attempts[i]
		if string(at.Lease[:]) != string(late.GetLease()) {
			continue
		}
		byVerb := at.End == rota.ReasonProviderFail || at.End == rota.ReasonDeclined || at.End == rota.ReasonSnoozed ||
			at.End == rota.ReasonProofInvalid
		return ok && (!j.State.Terminal() || i == len(j.Attempts)-1 || !byVerb)
	}
	return false
}
