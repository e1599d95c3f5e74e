package replica

import (
	"context"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// Standing returns the session's status. Kind Stale means that it has ended.
func (s *WorkerSession) Standing(ctx context.Context, opt peer.ReadOptions) (peer.Standing, error) {
	st, _, err := Read(ctx, s.rp, opt, func(m *fsm.View) (st peer.Standing, err error) {
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
		until = s.rp.Head().Clock + min(rota.Clock(wait.Milliseconds())+offerSpare, limits.MaxOffer)
	}
	index, err := s.rp.proposeOne(ctx,
		&fsmpb.Op{Op: &fsmpb.Op_Offer{Offer: &fsmpb.Offer{Worker: string(s.worker),
			Session: uint64(s.session), Poll: poll, Free: free, UntilMs: int64(until)}}})
	if err != nil {
		return err
	}
	return s.rp.WaitApplied(ctx, index)
}

// offerSpare is how much longer than its poll an offer lasts, in milliseconds of the clock in this node's replica,
// which is behind the leader's.
const offerSpare rota.Clock = 1_000
