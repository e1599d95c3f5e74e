package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/tidwall/btree"
)

// timers hold what is due when; all of it is derived from the rows. They fire
// in sweeps only (SPEC §3.6), in the order (due, id).
type timers struct {
	lease  timerSet // by lease id: ack_by, deadline, or the worker's silence
	expire timerSet // by job: the earlier of its two times to live
	wake   timerSet // by job: backoff or delay, on the clock
	dated  timerSet // by job: not_before, on the date
	forget timerSet // by worker: when it leaves the state
	// attest is by worker: when its attestation expires, on the date.
	attest timerSet
	// offer is by worker: when what it offers is over.
	offer timerSet
	// reputation is by worker: when a cooldown, denial, jail or period ends, or health
	// is back; penalty by tenant; limiter and domain by their rows' keys; promote by
	// queue.
	reputation, penalty, limiter, domain, promote timerSet
	// gate is by vertexKey of a gate that waits: its timeout, on the date.
	gate timerSet
	// key is by the count of a key: when its tokens are back.
	key timerSet
	// upload is by workflow that is OPEN: when it lapses; ended by one that is over: when
	// it is forgotten, on the date. oldest does not fire: of those that are over, the one
	// that ended first gives way to a new one.
	upload, ended, oldest timerSet
	// token is by access token: when it expires, on the date; spent by the hash of an identity
	// token, likewise. disowned are the workers whose
	// credential counts no more, due at once.
	token, spent, disowned timerSet
	// unique is by the key of a completed job: when it is free, on the date. merged does not
	// fire: of the submissions that were merged, by their numbers, the first gives way.
	unique, merged timerSet
	// waiting is by schedule: when a run that was refused is tried again.
	waiting timerSet
	// batch is by batch: when it is sealed, its callback tried again, or it is forgotten, on the
	// date. over does not fire: of those that have ended, the first gives way.
	batch, over timerSet
	// mode has one timer at most: when an automatic DEGRADED ceases to hold.
	mode timerSet
}

// timer is one moment: on the cluster clock, or on the date in `dated`, `gate`, `attest`, `ended`,
// `token`, `spent`, `unique` and `batch`.
type timer struct {
	due int64
	id  string
}

type timerSet struct{ *btree.BTreeG[timer] }

func newTimerSet() timerSet {
	return timerSet{btree.NewBTreeGOptions(func(a, b timer) bool {
		if a.due != b.due {
			return a.due < b.due
		}
		return a.id < b.id
	}, btree.Options{NoLocks: true})}
}

func (t *timers) reset() {
	*t = timers{lease: newTimerSet(), expire: newTimerSet(), wake: newTimerSet(), dated: newTimerSet(), forget: newTimerSet(),
		attest: newTimerSet(), offer: newTimerSet(), reputation: newTimerSet(), penalty: newTimerSet(), limiter: newTimerSet(), domain: newTimerSet(), promote: newTimerSet(),
		mode: newTimerSet(), gate: newTimerSet(), upload: newTimerSet(), ended: newTimerSet(), oldest: newTimerSet(), token: newTimerSet(), spent: newTimerSet(), disowned: newTimerSet(),
		unique: newTimerSet(), merged: newTimerSet(), key: newTimerSet(), waiting: newTimerSet(), batch: newTimerSet(), over: newTimerSet()}
}

// set puts a timer in the place of another; a due of 0 is none.
func (s timerSet) set(id string, old, due int64) {
	if old == due {
		return
	}
	if old != 0 {
		s.Delete(timer{old, id})
	}
	if due != 0 {
		s.Set(timer{due, id})
	}
}

// first returns the earliest timer that is due by now.
func (s timerSet) first(now int64) (timer, bool) {
	if plantedGround.mapRange() {
		return plantedGround.anyDue(s, now)
	}
	t, ok := s.Min()
	return t, ok && t.due <= now
}

// leaseDue is when a lease ends if nothing happens: unacknowledged at ack_by,
// at its deadline, 40 s after the last sign of a silent worker, or of the session that
// a takeover ended (SPEC §3.10, §8), or so long after its worker's stream broke as its
// grace says (SPEC §16.7).
func leaseDue(l *leaseRow, w *workerRow) rota.Clock {
	due := unbrokenDue(l, w)
	if l.grace != 0 && w != nil && !w.disconnected.IsZero() && l.Session == w.session {
		due = min(due, w.disconnected.Clock+rota.Clock(l.grace))
	}
	return due
}

// unbrokenDue is leaseDue of a worker that may connect again, which ends the counting of
// its leases' grace.
func unbrokenDue(l *leaseRow, w *workerRow) rota.Clock {
	due := l.Deadline.Clock
	if l.Acked.IsZero() {
		due = min(due, l.AckBy.Clock)
	}
	switch {
	case l.silentSince != 0:
		due = min(due, l.silentSince+rota.SilenceEnds)
	case w != nil && w.status == rota.WorkerUnreachable && !plantedGround.silenceForgotten():
		due = min(due, w.silentSince.Clock+rota.SilenceEnds)
	}
	return due
}

// expires is when a job is EXPIRED, 0 for never: by the earliest of its times to live and the deadline for its start.
func (j *jobRow) expires() rota.Clock { return sooner(sooner(j.expireAbs, j.expireRel), j.startsBy()) }

// startsBy is when a job is EXPIRED that has had no lease by then, 0 for never.
func (j *jobRow) startsBy() rota.Clock {
	if j.spec.StartBy == 0 || !j.firstLease.IsZero() {
		return 0
	}
	h := j.history()
	return max(j.submitted, h.since, h.retried.Clock) + rota.Clock(j.spec.StartBy.Milliseconds())
}

// expiry is the reason of a job's end when expires is over.
func (j *jobRow) expiry() rota.Reason {
	switch j.expires() {
	case j.expireAbs:
		return rota.ReasonTTLAbsolute
	case j.expireRel:
		return rota.ReasonTTLRelative
	default:
		return rota.ReasonStartBy
	}
}

// forgetAt is when a worker without leases that is RETIRED or UNREACHABLE leaves the
// state; 0 for never. What its id brought upon itself is over by then, so that nobody
// loses it by staying away: a suspension, or a part of its stake, is kept the longest.
func (r *workerRow) forgetAt() int64 {
	if r.open > 0 || (r.status != rota.WorkerRetired && r.status != rota.WorkerUnreachable) {
		return 0
	}
	least, most := r.since.Clock+limits.WorkerForgotten, r.since.Clock+limits.PenaltyForgotten
	if r.status == rota.WorkerUnreachable && r.assigned == 0 {
		least = r.since.Clock + limits.GhostForgotten
	}
	if r.slashed > 0 || r.before == rota.WorkerSuspended {
		return int64(most)
	}
	return int64(max(least, min(most, r.barredUntil())))
}

// barredUntil is when the last of what bars a worker for a time is over.
func (r *workerRow) barredUntil() rota.Clock {
	until := r.jailedUntil
	if r.health < healthFull {
		until = max(until, r.healthAt+rota.Clock(healthFull-r.health)*healthStep)
	}
	for _, t := range r.cooling {
		until = max(until, t.Until.Clock)
	}
	for _, t := range r.denied {
		until = max(until, t.Until.Clock)
	}
	return until
}

// healthFull is that of a worker of which nothing bad is known, in permille.
const healthFull = 1_000

// healthStep is in how much clock health grows by one permille.
const healthStep rota.Clock = 1_000
