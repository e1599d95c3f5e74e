package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/peer"
)

// phase is where a lease stands at the worker.
type phase uint8

const (
	// waiting for a slot, or for a first view of time.
	waiting phase = iota
	// running: its handler has been started and has not returned.
	running
	// reporting: its outcome is settled and waits for the cluster's answer.
	reporting
)

// lease is one lease that the worker holds. The table's lock guards it.
type lease struct {
	assignment *rota.Assignment // as it came first; never changed
	job        Job              // what its handler sees
	context    jobContext       // the handler's
	phase      phase
	received   time.Duration
	// acked: an ack or a renewal is known to be committed; ackRefused is why an ack was
	// not.
	acked      bool
	ackRefused *rota.Error
	deadline   rota.Clock
	renewals   int32
	// renewNext is the earliest local time of the next renewal; renewOver says
	// that the cluster takes no more.
	renewNext time.Duration
	renewOver bool
	cancel    context.CancelCauseFunc
	// lost is why the lease is believed in no more, nil while it is; declines
	// says that it must still be given back when the handler has returned.
	lost     *LostError
	declines bool
	// ack, renew, progress and outcome are the commands under way, nil if none.
	ack, renew, progress, outcome *command
	// progressNext is the earliest local time of the next report, progressHeld
	// the report that waits for it.
	progressNext time.Duration
	progressHeld *peer.LeaseCommand
	// reported is the newest report, sent or not; it goes with the outcome.
	reported *peer.LeaseCommand
	// log is what its handler logged; nil while that is nothing. It has a lock of its own.
	log atomic.Pointer[joblog.Writer]
	// logSent is how many bytes of it this connection's node was sent.
	logSent uint64
}

// logged returns the encoding of what the handler logged.
func (l *lease) logged() []byte {
	if w := l.log.Load(); w != nil {
		return w.Close()
	}
	return nil
}

// recent remembers the newest leases that ended, as many as it was made for and no more
// than twice as many.
type recent struct {
	most  int
	young map[rota.LeaseID]struct{}
	old   map[rota.LeaseID]struct{}
}

func newRecent(most int) recent {
	return recent{most: most, young: make(map[rota.LeaseID]struct{}), old: make(map[rota.LeaseID]struct{})}
}

func (r *recent) has(id rota.LeaseID) bool {
	if _, ok := r.young[id]; ok {
		return true
	}
	_, ok := r.old[id]
	return ok
}

func (r *recent) add(id rota.LeaseID) {
	if len(r.young) >= r.most {
		clear(r.old)
		r.young, r.old = r.old, r.young
	}
	r.young[id] = struct{}{}
}
