package client

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// minRenew is the minimum pause between two renewals of a lease whose renew_by has passed by the view, for
	// example a lease shorter than the margin.
	minRenew = 50 * time.Millisecond
	// farAway bounds differences of clocks that a faulty node could send.
	farAway = rota.Clock(100 * 365 * 24 * 3_600_000)
)

// viewpoint is an answered beat: the local time when the beat was sent, and the cluster clock after an entry that was
// stamped later than that. So the cluster clock reaches D no sooner than sent + (D − clock), however long the answer
// took. H28 is a worker that counts from the receipt instead.
type viewpoint struct {
	known bool
	sent  time.Duration
	clock rota.Clock
	// heard is when the last beat that a node received was sent, whatever happened to its connection. Leases with a
	// grace are judged by it (SPEC §16.7).
	heard time.Duration
}

// of returns the local time at which the worker considers the deadline passed (SPEC §3.9): never later than the cluster
// does.
func (p viewpoint) of(deadline rota.Clock) time.Duration {
	left := max(-farAway, min(deadline-p.clock, farAway))
	return p.sent + time.Duration(left)*time.Millisecond - limits.ViewMargin
}

// lost returns the local time at which silence ends every handler (SPEC §3.9).
func (p viewpoint) lost() time.Duration { return p.sent + limits.BeatLost }

// newer returns the viewpoint whose beat was sent later, whatever the order of the answers.
func (p viewpoint) newer(q viewpoint) viewpoint {
	q.heard = max(p.heard, q.heard)
	if p.known && q.sent <= p.sent {
		q.known, q.sent, q.clock = p.known, p.sent, p.clock
	}
	return q
}

// end returns the local time at which the worker gives the lease up. Until its ack or a renewal is known to be
// committed, ack_by counts (SPEC §3.9).
func (l *lease) end(p viewpoint) time.Duration {
	deadline := l.deadline
	if !l.acked {
		deadline = min(l.assignment.Lease.AckBy.Clock, deadline)
	}
	end := min(p.of(deadline), p.lost())
	if l.assignment.Grace > 0 {
		end = min(end, l.broken(p))
	}
	return end
}

// broken returns the local time at which the worker gives up a lease with a grace if no other beat is received (SPEC
// §16.7). A node whose stream has ended receives none, and reports that no sooner than 2 s later: the cluster counts
// the grace from there.
func (l *lease) broken(p viewpoint) time.Duration {
	return p.heard + l.assignment.Grace - limits.GraceMargin
}

// timedOut reports whether max_runtime is over by the view (SPEC §20.2).
func (l *lease) timedOut(p viewpoint, now time.Duration) bool {
	at := l.assignment.TimesOut()
	return at != 0 && now >= p.of(at)
}

// tooLate returns the local time from which a lease waiting for a slot is declined rather than kept until its
// max_runtime is over: a decline after that would count as an attempt that never ran (SPEC §20.2).
func (l *lease) tooLate(p viewpoint) time.Duration {
	at := l.assignment.TimesOut()
	if at == 0 || l.phase != waiting {
		return farFuture
	}
	return p.of(at - limits.DeclineTimesOut)
}

// renewAt returns the local time at which the renewal window α·T_lease, and with it the margin before renew_by, has
// passed by the view (SPEC §8.1).
func (l *lease) renewAt(p viewpoint) time.Duration {
	a := l.assignment
	renewBy := l.deadline - rota.Clock(a.LeaseFor.Milliseconds()-a.RenewEvery.Milliseconds())
	return max(p.of(renewBy), l.renewNext)
}

// renewable reports whether another renewal may be requested and none is in progress.
func (l *lease) renewable() bool {
	a := l.assignment
	if at := a.TimesOut(); at != 0 && l.deadline >= at {
		return false // it ends there, renewed or not
	}
	return l.phase != reporting && l.lost == nil && !l.renewOver && l.renew == nil && a.RenewEvery > 0 &&
		(a.RenewalsMax < 0 || l.renewals < a.RenewalsMax)
}
