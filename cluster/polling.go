package cluster

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// AttachWorker resumes the live session of a worker that has no stream, for one call. It is checked against this node's
// own replica, without an entry (SPEC §13.17). A session unknown to the replica may just not have arrived yet.
func (wv *workerVerbs) AttachWorker(ctx context.Context, id rota.WorkerID, secret []byte) (*WorkerSession, error) {
	if err := wv.n.replica.refuseRebuilding(); err != nil {
		return nil, err
	}
	hash, by := sha256.Sum256(secret), callerOf(ctx)
	var session rota.Session
	var refused *rota.Error
	wv.n.replica.look(func(m *fsm.View) { session, refused = fsm.Attach(m, id, hash, by) })
	if refused != nil {
		var err error
		session, _, err = read(ctx, &wv.n.replica, peer.ReadOptions{}, func(m *fsm.View) (rota.Session, error) {
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
	return wv.session(id, session, by), nil
}

func callerOf(ctx context.Context) rota.Principal {
	c, _ := ctx.Value(access.CallerKey{}).(access.Caller)
	return c.Actor
}

// session returns a session that this node does not serve yet.
func (wv *workerVerbs) session(id rota.WorkerID, session rota.Session, by rota.Principal) *WorkerSession {
	return &WorkerSession{n: wv.n, logs: wv.logs, beats: wv.beats, worker: id, session: session, by: by.Owner(),
		notify: make(chan struct{}, 1), all: true}
}

// attached returns the session that a registration would resume unchanged; nil if the registration must be proposed.
func (wv *workerVerbs) attached(ctx context.Context, register *fsmpb.Register) (s *WorkerSession) {
	if !register.GetPolls() {
		return nil
	}
	id, by := rota.WorkerID(register.GetSpec().GetId()), callerOf(ctx)
	wv.n.replica.look(func(m *fsm.View) {
		if session, refused := fsm.Attach(m, id, [32]byte(register.GetSecretHash()), by); refused == nil &&
			fsm.Registered(m, register) {
			s = wv.session(id, session, by)
		}
	})
	return s
}

// Standing returns the session's status. Kind Stale means that it has ended.
func (s *WorkerSession) Standing(ctx context.Context, opt peer.ReadOptions) (peer.Standing, error) {
	st, _, err := read(ctx, &s.n.replica, opt, func(m *fsm.View) (st peer.Standing, err error) {
		session, status := m.Session(s.worker)
		if session != s.session || status == rota.WorkerRetired {
			return st, rota.Refusef(rota.KindStale, "session",
				"session %d of worker %s is over: it was retired or taken over", s.session, s.worker)
		}
		leases, ours := fsm.Deliverable(m, s.worker, s.session, s.by)
		if !ours {
			return st, errMoved(s.worker)
		}
		st.Status, st.Leases = status, leases
		st.Poll, st.Offered = fsm.NewestPoll(m, s.worker)
		return st, nil
	})
	slices.SortFunc(st.Leases, func(a, b rota.Assignment) int { return a.Lease.Token.Compare(b.Lease.Token) })
	return st, err
}

// Offer announces that the session's worker accepts free more leases while a poll waits; 0 withdraws the offer. It
// returns once this node's replica has it.
func (s *WorkerSession) Offer(ctx context.Context, poll uint64, free int32, wait time.Duration) error {
	until := rota.Clock(0)
	if free > 0 {
		until = s.n.replica.head().Clock + min(rota.Clock(wait.Milliseconds())+offerSpare, limits.MaxOffer)
	}
	_, index, err := s.n.proposer.proposeOne(ctx,
		&fsmpb.Op{Op: &fsmpb.Op_Offer{Offer: &fsmpb.Offer{Worker: string(s.worker),
			Session: uint64(s.session), Poll: poll, Free: free, UntilMs: int64(until)}}})
	if err != nil {
		return err
	}
	return s.n.replica.waitApplied(ctx, index)
}

// offerSpare is how much longer than its poll an offer lasts, in milliseconds of the clock in this node's replica,
// which is behind the leader's.
const offerSpare rota.Clock = 1_000
