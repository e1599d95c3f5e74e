package replica

import (
	"testing"

	"github.com/rotasched/rota/internal/peer"
)

// TestDo_waitsWhereItHelps: an answer waits for a lease only on a busy node, on a stream, one at a time, and only if no
// notice is pending and a lease may come.
func TestDo_waitsWhereItHelps(t *testing.T) {
	t.Parallel()
	rp := &Replica{Hub: NewHub()}
	of := func(change func(s *WorkerSession)) *WorkerSession {
		s := &WorkerSession{rp: rp, notify: make(chan struct{}, 1),
			leaseReady: make(chan struct{}, 1)}
		s.leaseReady <- struct{}{} // from an earlier wait
		change(s)
		return s
	}
	for what, c := range map[string]struct {
		s        *WorkerSession
		deciding int64
		want     bool
	}{
		"a busy node":         {of(func(*WorkerSession) {}), BusyBatches, true},
		"little to do":        {of(func(*WorkerSession) {}), BusyBatches - 1, false},
		"something to say":    {of(func(s *WorkerSession) { s.Push(peer.Notice{Draining: true}) }), BusyBatches, false},
		"all to say":          {of(func(s *WorkerSession) { s.resync() }), BusyBatches, false},
		"another that waits":  {of(func(s *WorkerSession) { s.answerWaits = true }), BusyBatches, false},
		"a session over":      {of(func(s *WorkerSession) { s.end() }), BusyBatches, false},
		"a worker that polls": {of(func(s *WorkerSession) { s.leaseReady = nil }), BusyBatches, false},
	} {
		rp.Hub.Deciding.Store(c.deciding)
		if got := c.s.startWait(); got != c.want {
			t.Errorf("%s: an answer waits: got %v, want %v", what, got, c.want)
		}
		if c.want && len(c.s.leaseReady) > 0 {
			t.Errorf("%s: the end of an earlier wait ends this one", what)
		}
	}
}
