package verbs

import (
	"context"
	"crypto/sha256"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/caller"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// WorkerVerbs are the operations on workers, for workers, guards and operators.
type WorkerVerbs struct {
	n    *Host
	logs *replica.Logs
	// beat sends a worker's sign of life to the leader.
	beat func(context.Context, peer.Beat) (peer.Beaten, error)
}

// NewWorkers returns the verbs on workers; beat sends a worker's sign of life to the leader.
func NewWorkers(h *Host, logs *replica.Logs, beat func(context.Context, peer.Beat) (peer.Beaten, error)) WorkerVerbs {
	return WorkerVerbs{n: h, logs: logs, beat: beat}
}

// DrainWorker stops assigning leases to a worker; the worker keeps its open leases.
func (wv *WorkerVerbs) DrainWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	return wv.setWorkerStatus(ctx, id, rota.WorkerDraining)
}

// SuspendWorker cancels a worker's leases and assigns none until it is resumed.
func (wv *WorkerVerbs) SuspendWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	return wv.setWorkerStatus(ctx, id, rota.WorkerSuspended)
}

// ResumeWorker makes a DRAINING, SUSPENDED or JAILED worker ACTIVE again.
func (wv *WorkerVerbs) ResumeWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	return wv.setWorkerStatus(ctx, id, rota.WorkerActive)
}

// RetireWorker retires a worker permanently; its leases are cancelled.
func (wv *WorkerVerbs) RetireWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	return wv.setWorkerStatus(ctx, id, rota.WorkerRetired)
}

func (wv *WorkerVerbs) setWorkerStatus(ctx context.Context, id rota.WorkerID,
	status rota.WorkerStatus) (rota.Worker, error) {
	if err := rota.CheckID("worker", id); err != nil {
		return rota.Worker{}, err
	}
	_, index, err := wv.n.ProposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetStatus{SetStatus: &fsmpb.SetStatus{
		Worker: string(id), Status: uint32(status)}}})
	if err != nil {
		return rota.Worker{}, err
	}
	w, _, err := wv.Worker(ctx, id, peer.ReadOptions{MinIndex: index})
	if err != nil {
		return rota.Worker{}, err
	}
	rd, err := wv.n.Replica.Reader(ctx)
	if err != nil {
		return rota.Worker{}, err
	}
	rd.Worker(&w)
	return w, nil
}

// WorkerGone processes a guard's report that a worker's process has died and that nothing of it is still running
// (SPEC §16.7).
func (wv *WorkerVerbs) WorkerGone(ctx context.Context, id rota.WorkerID, session rota.Session, secret []byte) error {
	hash := sha256.Sum256(secret)
	_, _, err := wv.n.ProposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_Gone{Gone: &fsmpb.Gone{
		Worker: string(id), Session: uint64(session), SecretHash: hash[:]}}})
	return err
}

// provenLease returns the lease that a report is about: the named one, otherwise the one that completed the job, or
// whose proof was rejected last, so that a repeated report gets the first one's answer.
func provenLease(job *rota.Job, named rota.LeaseID) (rota.LeaseID, error) {
	if !named.IsZero() {
		return named, nil
	}
	for i := len(job.Attempts) - 1; i >= 0; i-- {
		if a := &job.Attempts[i]; a.End == rota.ReasonDone || a.End == rota.ReasonProofInvalid {
			return a.Lease, nil
		}
	}
	if job.RecordDropped && job.State == rota.JobCompleted {
		return named, rota.Refusef(rota.KindInvalid, "lease",
			"the attempts of job %s are no longer kept: name the lease that completed it", job.ID)
	}
	return named, rota.Refusef(rota.KindConflict, "job",
		"job %s is %s: only the proof of a COMPLETED one can be reported", job.ID, job.State)
}

// checkReason rejects an operator's reason that is empty or too long.
func checkReason(reason string) error {
	if n := len(reason); n == 0 || n > limits.MaxReasonBytes {
		return rota.Refusef(rota.KindInvalid, "reason", "reason: got %d bytes, want 1 to %d", n, limits.MaxReasonBytes)
	}
	return nil
}

// Workers lists the registered workers.
func (wv *WorkerVerbs) Workers(ctx context.Context, opt peer.ReadOptions) ([]rota.Worker, rota.ReadAt, error) {
	return replica.Read(ctx, wv.n.Replica, opt, func(s *fsm.View) ([]rota.Worker, error) { return s.Workers(), nil })
}

// Worker reads one worker with its open leases.
func (wv *WorkerVerbs) Worker(ctx context.Context, id rota.WorkerID,
	opt peer.ReadOptions) (rota.Worker, rota.ReadAt, error) {
	return replica.Read(ctx, wv.n.Replica, opt, func(s *fsm.View) (rota.Worker, error) {
		w, ok := s.Worker(id)
		if !ok {
			return w, rota.Refusef(rota.KindNotFound, "worker", "worker %q is not registered", id)
		}
		return w, nil
	})
}

// OpenWorker registers a worker, or resumes its live session, and serves it from this node (SPEC §6.4). The leader
// verifies its attestation, nil for none, before the log: an invalid one registers nothing (SPEC §6.5).
func (wv *WorkerVerbs) OpenWorker(ctx context.Context, spec rota.WorkerSpec, secret []byte, takeover bool,
	attestation *rota.Attestation, link peer.WorkerLink) (*replica.WorkerSession, error) {
	if err := spec.CheckShape(); err != nil {
		return nil, err
	}
	if len(secret) < 16 || len(secret) > 64 {
		return nil, rota.Refusef(rota.KindInvalid, "secret", "secret: got %d bytes, want 16 to 64", len(secret))
	}
	if err := wv.n.Replica.RefuseRebuilding(); err != nil {
		return nil, err
	}
	if attestation != nil {
		if err := attestation.CheckShape(); err != nil {
			return nil, err
		}
	}
	hash := sha256.Sum256(secret)
	register := &fsmpb.Register{Spec: entry.WorkerOp(&spec), SecretHash: hash[:], Takeover: takeover,
		Connection: link.Connection, Grace: link.Grace, Polls: link.Polls}
	if len(link.OldSecret) > 0 {
		old := sha256.Sum256(link.OldSecret)
		register.OldSecretHash = old[:]
	}
	if a := attestation; a != nil {
		register.Attestation = &fsmpb.Attestation{Cluster: string(a.Cluster), Worker: string(a.Worker),
			ExpiresMs: int64(a.Expires), Stake: a.Stake, Key: a.Key, Signature: a.Signature}
	}
	if s := wv.attached(ctx, register); s != nil {
		s.Resume()
		return s, nil
	}
	outcome, index, err := wv.n.ProposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_Register{Register: register}})
	if err != nil {
		return nil, err
	}
	if err := wv.n.Replica.WaitApplied(ctx, index); err != nil {
		return nil, err
	}
	s := replica.NewSession(wv.n.Replica, wv.logs, wv.beat, spec.ID, rota.Session(outcome.GetSession()), caller.Of(ctx))
	s.Serve(link)
	return s, nil
}

// AttachWorker resumes the live session of a worker that has no stream, for one call. It is checked against this node's
// own replica, without an entry (SPEC §13.17). A session unknown to the replica may just not have arrived yet.
func (wv *WorkerVerbs) AttachWorker(ctx context.Context, id rota.WorkerID,
	secret []byte) (*replica.WorkerSession, error) {
	if err := wv.n.Replica.RefuseRebuilding(); err != nil {
		return nil, err
	}
	hash, by := sha256.Sum256(secret), caller.Of(ctx)
	var session rota.Session
	var refused *rota.Error
	wv.n.Replica.Look(func(m *fsm.View) { session, refused = fsm.Attach(m, id, hash, by) })
	if refused != nil {
		var err error
		session, _, err = replica.Read(ctx, wv.n.Replica, peer.ReadOptions{}, func(m *fsm.View) (rota.Session, error) {
			s, refused := fsm.Attach(m, id, hash, by)
			if refused != nil {
				return 0, refused
			}
			return s, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return replica.NewSession(wv.n.Replica, wv.logs, wv.beat, id, session, by), nil
}

// attached returns the session that a registration would resume unchanged; nil if the registration must be proposed.
func (wv *WorkerVerbs) attached(ctx context.Context, register *fsmpb.Register) (s *replica.WorkerSession) {
	if !register.GetPolls() {
		return nil
	}
	id, by := rota.WorkerID(register.GetSpec().GetId()), caller.Of(ctx)
	wv.n.Replica.Look(func(m *fsm.View) {
		if session, refused := fsm.Attach(m, id, [32]byte(register.GetSecretHash()), by); refused == nil &&
			fsm.Registered(m, register) {
			s = replica.NewSession(wv.n.Replica, wv.logs, wv.beat, id, session, by)
		}
	})
	return s
}
