package state

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/tidwall/btree"
)

// Timers holds the due times, all derived from the rows. They fire only in sweeps (SPEC §3.6), in the order (due, id).
type Timers struct {
	Lease  TimerSet // by lease id: ack_by, deadline, or the worker's silence
	Expire TimerSet // by job: the earlier of its two times to live
	Wake   TimerSet // by job: backoff or delay, on the clock
	Dated  TimerSet // by job: not_before, on the date
	Forget TimerSet // by worker: when it leaves the state
	// Attest is by worker: when its attestation expires, on the date.
	Attest TimerSet
	// Offer is by worker: when its offer ends.
	Offer TimerSet
	// Reputation is by worker: when a cooldown, denial, jail or period ends, or health is full again; penalty by
	// tenant; limiter and domain by their rows' keys; promote by queue.
	Reputation, Penalty, Limiter, Domain, Promote TimerSet
	// Gate is by the vertexKey of a waiting gate: its timeout, on the date.
	Gate TimerSet
	// Key is by the count of a key: when its tokens are back.
	Key TimerSet
	// Upload is by OPEN workflow: when it lapses. ended is by workflow that is over: when it is forgotten, on the date.
	// oldest does not fire: among those that are over, the one that ended first is dropped for a new one.
	Upload, Ended, Oldest TimerSet
	// Token is by access token: when it expires, on the date; spent by the hash of an identity token, likewise.
	// disowned are the workers whose credential is no longer valid, due at once.
	Token, Spent, Disowned TimerSet
	// Unique is by the key of a completed job: when it is free, on the date. merged does not fire: among the merged
	// submissions, by their numbers, the first is dropped.
	Unique, Merged TimerSet
	// Waiting is by schedule: when a refused run is tried again.
	Waiting TimerSet
	// Batch is by batch: when it is sealed, its callback is tried again, or it is forgotten, on the date. over does not
	// fire: among those that have ended, the first is dropped.
	Batch, Over TimerSet
	// Mode has at most one timer: when an automatic DEGRADED stops holding jobs.
	Mode TimerSet
}

// Timer is one due time: on the cluster clock, or on the date in `dated`, `gate`, `attest`, `ended`, `token`, `spent`,
// `unique` and `batch`.
type Timer struct {
	Due int64
	ID  string
}

// TimerSet holds timers by due time, then id.
type TimerSet struct{ *btree.BTreeG[Timer] }

func newTimerSet() TimerSet {
	return TimerSet{btree.NewBTreeGOptions(func(a, b Timer) bool {
		if a.Due != b.Due {
			return a.Due < b.Due
		}
		return a.ID < b.ID
	}, btree.Options{NoLocks: true})}
}

// Reset empties all sets.
func (t *Timers) Reset() {
	*t = Timers{Lease: newTimerSet(), Expire: newTimerSet(), Wake: newTimerSet(), Dated: newTimerSet(),
		Forget: newTimerSet(),
		Attest: newTimerSet(), Offer: newTimerSet(), Reputation: newTimerSet(), Penalty: newTimerSet(),
		Limiter: newTimerSet(), Domain: newTimerSet(), Promote: newTimerSet(),
		Mode: newTimerSet(), Gate: newTimerSet(), Upload: newTimerSet(), Ended: newTimerSet(), Oldest: newTimerSet(),
		Token: newTimerSet(), Spent: newTimerSet(), Disowned: newTimerSet(),
		Unique: newTimerSet(), Merged: newTimerSet(), Key: newTimerSet(), Waiting: newTimerSet(), Batch: newTimerSet(),
		Over: newTimerSet()}
}

// Refile replaces a timer by one with another due time; a due of 0 means no timer.
func (s TimerSet) Refile(id string, old, due int64) {
	if old == due {
		return
	}
	if old != 0 {
		s.Delete(Timer{old, id})
	}
	if due != 0 {
		s.Set(Timer{due, id})
	}
}

// First returns the earliest timer that is due by now.
func (s TimerSet) First(now int64) (Timer, bool) {
	if Planted.mapRange() {
		return Planted.anyDue(s, now)
	}
	t, ok := s.Min()
	return t, ok && t.Due <= now
}

// LeaseDue returns when a lease ends if nothing happens: unacknowledged at ack_by, at its deadline, 40 s after the last
// sign of life of a silent worker or of the session that a takeover ended (SPEC §3.10, §8), or its grace after its
// worker's stream broke (SPEC §16.7).
func LeaseDue(l *LeaseRow, w *WorkerRow) rota.Clock {
	due := UnbrokenDue(l, w)
	if l.Grace != 0 && w != nil && !w.Disconnected.IsZero() && l.Session == w.Session {
		due = min(due, w.Disconnected.Clock+rota.Clock(l.Grace))
	}
	return due
}

// UnbrokenDue is LeaseDue for a worker that may reconnect, which stops the grace of its leases.
func UnbrokenDue(l *LeaseRow, w *WorkerRow) rota.Clock {
	due := l.Deadline.Clock
	if l.Acked.IsZero() {
		due = min(due, l.AckBy.Clock)
	}
	switch {
	case l.SilentSince != 0:
		due = min(due, l.SilentSince+rota.SilenceEnds)
	case w != nil && w.Status == rota.WorkerUnreachable && !Planted.silenceForgotten():
		due = min(due, w.SilentSince.Clock+rota.SilenceEnds)
	}
	return due
}

// Expires returns when a job becomes EXPIRED, 0 for never: the earliest of its times to live and the deadline for its
// start.
func (j *JobRow) Expires() rota.Clock { return Sooner(Sooner(j.ExpireAbs, j.ExpireRel), j.startsBy()) }

// startsBy returns when a job becomes EXPIRED if it has had no lease by then, 0 for never.
func (j *JobRow) startsBy() rota.Clock {
	if j.Spec.StartBy == 0 || !j.FirstLease.IsZero() {
		return 0
	}
	h := j.History()
	return max(j.Submitted, h.Since, h.Retried.Clock) + rota.Clock(j.Spec.StartBy.Milliseconds())
}

// Expiry returns the reason of a job's end once Expires has passed.
func (j *JobRow) Expiry() rota.Reason {
	switch j.Expires() {
	case j.ExpireAbs:
		return rota.ReasonTTLAbsolute
	case j.ExpireRel:
		return rota.ReasonTTLRelative
	default:
		return rota.ReasonStartBy
	}
}

// ForgetAt returns when a worker without leases that is RETIRED or UNREACHABLE leaves the state; 0 for never. Its
// penalties are over by then, so that staying away avoids none; a suspension or a slashed stake is kept the longest.
func (r *WorkerRow) ForgetAt() int64 {
	if r.Open > 0 || (r.Status != rota.WorkerRetired && r.Status != rota.WorkerUnreachable) {
		return 0
	}
	least, most := r.Since.Clock+limits.WorkerForgotten, r.Since.Clock+limits.PenaltyForgotten
	if r.Status == rota.WorkerUnreachable && r.Assigned == 0 {
		least = r.Since.Clock + limits.GhostForgotten
	}
	if r.Slashed > 0 || r.Before == rota.WorkerSuspended {
		return int64(most)
	}
	return int64(max(least, min(most, r.barredUntil())))
}

// barredUntil returns when the last temporary bar of a worker ends.
func (r *WorkerRow) barredUntil() rota.Clock {
	until := r.JailedUntil
	if r.Health < HealthFull {
		until = max(until, r.HealthAt+rota.Clock(HealthFull-r.Health)*HealthStep)
	}
	for _, t := range r.Cooling {
		until = max(until, t.Until.Clock)
	}
	for _, t := range r.Denied {
		until = max(until, t.Until.Clock)
	}
	return until
}

// HealthFull is the health, in permille, of a worker without recorded faults.
const HealthFull = 1_000

// HealthStep is the clock time in which health grows by one permille.
const HealthStep rota.Clock = 1_000
