package whatif

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// renamed returns an operation with the lease and the session here that correspond to the record's: added workers use
// sessions, too.
func (l *life) renamed(op *fsmpb.Op) *fsmpb.Op {
	switch o := op.GetOp().(type) {
	case *fsmpb.Op_Lease:
		own, theirs := l.leases[rota.JobID(o.Lease.GetJob())], l.theirs[rota.JobID(o.Lease.GetJob())]
		session, lease := l.session(o.Lease.GetSession()), o.Lease.GetLease()
		if own != nil && string(theirs[:]) == string(lease) {
			lease = own.id[:]
		}
		if session == o.Lease.GetSession() && string(lease) == string(o.Lease.GetLease()) {
			return op
		}
		return spoken(op, &fsmpb.Op{Op: &fsmpb.Op_Lease{Lease: &fsmpb.LeaseOp{Verb: o.Lease.GetVerb(), Lease: lease,
			Job: o.Lease.GetJob(), Worker: o.Lease.GetWorker(),
			Session: session, Ordinal: o.Lease.GetOrdinal(), Output: o.Lease.GetOutput(),
			OutputDigest: o.Lease.GetOutputDigest(), Text: o.Lease.GetText(),
			Progress: o.Lease.GetProgress(), Fail: o.Lease.GetFail(), AfterMs: o.Lease.GetAfterMs(),
			Meta: o.Lease.GetMeta(), Children: o.Lease.GetChildren()}}})
	case *fsmpb.Op_SetStatus:
		if session := l.session(o.SetStatus.GetSession()); session != o.SetStatus.GetSession() {
			return spoken(
				op, &fsmpb.Op{Op: &fsmpb.Op_SetStatus{SetStatus: &fsmpb.SetStatus{Worker: o.SetStatus.GetWorker(),
					Status: o.SetStatus.GetStatus(), Session: session}}})
		}
	case *fsmpb.Op_Gone:
		if session := l.session(o.Gone.GetSession()); session != o.Gone.GetSession() {
			return spoken(op, &fsmpb.Op{Op: &fsmpb.Op_Gone{Gone: &fsmpb.Gone{Worker: o.Gone.GetWorker(),
				Session: session, SecretHash: o.Gone.GetSecretHash()}}})
		}
	case *fsmpb.Op_Disconnect:
		if session := l.session(o.Disconnect.GetSession()); session != o.Disconnect.GetSession() {
			return spoken(
				op, &fsmpb.Op{Op: &fsmpb.Op_Disconnect{Disconnect: &fsmpb.Disconnect{Worker: o.Disconnect.GetWorker(),
					Session:    session,
					Connection: o.Disconnect.GetConnection()}}})
		}
	case *fsmpb.Op_Reach:
		if session := l.session(o.Reach.GetSession()); session != o.Reach.GetSession() {
			return spoken(op, &fsmpb.Op{Op: &fsmpb.Op_Reach{Reach: &fsmpb.Reach{Worker: o.Reach.GetWorker(),
				Session: session, Reachable: o.Reach.GetReachable(), LastSignMs: o.Reach.GetLastSignMs()}}})
		}
	case *fsmpb.Op_Offer:
		if session := l.session(o.Offer.GetSession()); session != o.Offer.GetSession() {
			return spoken(op, &fsmpb.Op{Op: &fsmpb.Op_Offer{Offer: &fsmpb.Offer{Worker: o.Offer.GetWorker(),
				Session: session, Poll: o.Offer.GetPoll(), Free: o.Offer.GetFree(), UntilMs: o.Offer.GetUntilMs()}}})
		}
	}
	return op
}

// spoken returns an operation with the caller of another one.
func spoken(by, op *fsmpb.Op) *fsmpb.Op {
	op.Actor, op.Via, op.Request, op.IfMatch = by.GetActor(), by.GetVia(), by.GetRequest(), by.GetIfMatch()
	return op
}

// session returns a worker's session here.
func (l *life) session(theirs uint64) uint64 {
	if own, ok := l.sessions[theirs]; ok {
		return own
	}
	return theirs
}

// registered records which session a registration of the log got here.
func (l *life) registered(op *fsmpb.Op, o *fsmpb.Outcome) {
	r := op.GetRegister()
	if r == nil {
		return
	}
	id := rota.WorkerID(r.GetSpec().GetId())
	n := l.registers[id]
	l.registers[id]++
	if theirs := l.rec.sessions[id]; n < len(theirs) && theirs[n] != o.GetSession() && o.GetSession() != 0 {
		l.sessions[theirs[n]] = o.GetSession()
	}
}
