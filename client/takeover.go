package client

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// revoked handles a revocation. A lease that is not known here has no handler, because its outcome was answered or it
// never arrived: that is confirmed at once.
func (t *leaseTable) revoked(n *peer.LeaseEnd) {
	if n.Reason == rota.ReasonTakenOver && !closed(t.superseded) {
		close(t.superseded)
		t.drain()
		t.log.Warn("another process took over this worker's id")
	}
	if l := t.leases[n.Lease]; l != nil {
		t.revoke(l, n.Reason)
		return
	}
	l := &lease{assignment: &rota.Assignment{Lease: rota.Lease{ID: n.Lease, Job: n.Job}}, phase: waiting,
		received: t.worker.now()}
	t.leases[n.Lease] = l
	t.waiting++
	t.decline(l, "no handler runs under it here")
}

// yield ends a worker whose id was taken over. Its handlers' contexts have ended; it stays connected until all handlers
// have returned and are confirmed, or until silence ends their leases (SPEC §8.5). gone is left with one value to be
// read.
func (w *Worker) yield(t *leaseTable, gone chan error) error {
	silence := time.NewTimer(time.Duration(rota.SilenceEnds) * time.Millisecond)
	defer silence.Stop()
	over := rota.Refusef(rota.KindStale, "session", "another process took over the id of worker %s", w.spec.ID)
	select {
	case <-t.quiet:
		return over
	case err := <-gone:
		gone <- nil
		return w.over(t, err)
	case <-silence.C:
		return w.over(t, over)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
