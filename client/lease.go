package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/peer"
)

// phase is the state of a lease at the worker.
type phase uint8

const (
	// waiting for a slot, or for a first view of time.
	waiting phase = iota
	// running: its handler has been started and has not returned.
	running
	// reporting: its outcome is settled and awaits the cluster's answer.
	reporting
)

// lease is one lease that the worker holds. The table's lock guards it.
type lease struct {
	assignment *rota.Assignment // as first received; never changed
	job        Job              // the job that its handler sees
	context    jobContext       // the handler's
	phase      phase
	received   time.Duration
	// acked: an ack or a renewal is known to be committed; ackRefused is why an ack was refused.
	acked      bool
	ackRefused *rota.Error
	deadline   rota.Clock
	renewals   int32
	// renewNext is the earliest local time of the next renewal; renewOver means that the cluster refuses further
	// renewals.
	renewNext time.Duration
	renewOver bool
	cancel    context.CancelCauseFunc
	// lost is why the lease was given up, nil while it is valid; declines means that it must still be declined when the
	// handler has returned.
	lost     *LostError
	declines bool
	// ack, renew, progress and outcome are the commands in progress, nil if none.
	ack, renew, progress, outcome *command
	// progressNext is the earliest local time of the next progress report, progressHeld the report held until then.
	progressNext time.Duration
	progressHeld *peer.LeaseCommand
	table        *leaseTable
	// costs are the newest totals that its handler reported, sent or not; they go with every report.
	costs rota.Costs
	// reported is the newest progress report, sent or not; it goes with the outcome.
	reported *peer.LeaseCommand
	// log is what its handler logged; nil if nothing. It has a lock of its own.
	log atomic.Pointer[joblog.Writer]
	// logSent is how many bytes of the log were sent on this connection.
	logSent uint64
}

// logged returns the encoded log.
func (l *lease) logged() []byte {
	if w := l.log.Load(); w != nil {
		return w.Close()
	}
	return nil
}

// recent remembers the newest ended leases: at least as many as its size, at most twice as many.
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
