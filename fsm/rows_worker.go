package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// addHealth changes the present health, and says whether the row changed.
func (r *workerRow) addHealth(now rota.Clock, by int32) bool {
	before := r.health
	r.settleHealth(now)
	if r.health >= healthFull {
		if by >= 0 {
			return before != r.health
		}
		r.healthAt = now
	}
	r.health = max(0, min(healthFull, r.health+by))
	if r.health == healthFull {
		r.healthAt = 0
	}
	return true
}

// attestationEnds is when fireAttestation is due, on the date; 0 for never.
func (r *workerRow) attestationEnds() rota.Date {
	if r.lapsed {
		return 0
	}
	return r.attestedUntil
}

// attested reports whether the worker's attestation holds, as of the last sweep.
func (r *workerRow) attested() bool { return r.attestedUntil != 0 && !r.lapsed }

// barredStatus is SUSPENDED or JAILED where the worker is that beneath all else,
// and otherwise what is asked for.
func (r *workerRow) barredStatus(otherwise rota.WorkerStatus) rota.WorkerStatus {
	switch {
	case r.status == rota.WorkerSuspended || r.status == rota.WorkerRetired && r.before == rota.WorkerSuspended:
		return rota.WorkerSuspended
	case r.jailedUntil != 0:
		return rota.WorkerJailed
	default:
		return otherwise
	}
}

// cools counts a failure or a decline of a type, and bars the type where that is too
// many in a row for the queue, or a decline. It says whether a bar was set. Only a
// success begins the count anew: each failure after a cooldown cools down again.
func (r *workerRow) cools(typ rota.JobType, p *rota.QueuePolicy, now rota.Clock, cause rota.Reason) bool {
	if p.CoolAfter == 0 {
		return false
	}
	counted := streak{typ, 1}
	list := make([]streak, 0, len(r.failing)+1) // older copies of the row share the old one
	for _, s := range r.failing {
		if s.typ == typ {
			counted.n = min(s.n+1, maxStreak)
		} else {
			list = append(list, s)
		}
	}
	if len(list) >= limits.MaxTypesPerWorker {
		list = list[1:]
	}
	r.failing = append(list, counted)
	if counted.n < p.CoolAfter && cause != rota.ReasonDeclined {
		return false
	}
	r.cooling = bar(r.cooling, rota.TypeUntil{Type: typ, Until: rota.Moment{Clock: now + rota.Clock(p.CoolMs)}, Cause: cause})
	return true
}

// executes remembers that the worker completed a type, and says whether the list
// changed. One in its newer half stays where it is, so that a worker of few types
// pays nothing for it: a type is forgotten after MaxTypesPerWorker/2 others at the
// earliest.
func (r *workerRow) executes(typ rota.JobType) bool {
	at := slices.Index(r.executed, typ)
	if at >= max(0, len(r.executed)-limits.MaxTypesPerWorker/2) {
		return false
	}
	list := make([]rota.JobType, 0, len(r.executed)+1)
	for i, t := range r.executed {
		if i != at && (at >= 0 || i > 0 || len(r.executed) < limits.MaxTypesPerWorker) {
			list = append(list, t)
		}
	}
	r.executed = append(list, typ)
	return true
}

// healthNow is the present health: what the row holds, and one more for each
// second since.
func (r *workerRow) healthNow(now rota.Clock) int32 {
	if r.health >= healthFull || now <= r.healthAt {
		return r.health
	}
	return int32(min(healthFull, rota.Clock(r.health)+(now-r.healthAt)/healthStep))
}

// holdsData remembers the data keys of a job that the worker completed, and says
// whether the list changed. As with types, a key in its newer half stays where it
// is: a key is forgotten after MaxDataHeld/2 others at the earliest.
func (r *workerRow) holdsData(keys []string) (changed bool) {
	for _, key := range keys {
		at := slices.Index(r.held, key)
		if at >= max(0, len(r.held)-limits.MaxDataHeld/2) {
			continue
		}
		if !changed { // older copies of the row share the list
			r.held, changed = append(make([]string, 0, len(r.held)+len(keys)), r.held...), true
		}
		if at >= 0 || len(r.held) >= limits.MaxDataHeld {
			r.held = slices.Delete(r.held, max(at, 0), max(at, 0)+1)
		}
		r.held = append(r.held, key)
	}
	return changed
}

// knows reports whether a hash is that of the worker's secret.
func (r *workerRow) knows(hash []byte) bool { return string(hash) == string(r.secretHash[:]) }

// live reports whether the id is somebody's: only RETIRED workers, and UNREACHABLE
// ones without a lease, give it up to another secret.
func (r *workerRow) live() bool {
	switch r.status {
	case rota.WorkerRetired:
		return false
	case rota.WorkerUnreachable:
		return r.open > 0
	default:
		return true
	}
}

// mayReturn reports whether the row's way back is one that there is. Invariant I3.
func (r *workerRow) mayReturn() bool {
	up := r.before == rota.WorkerActive || r.before == rota.WorkerDraining
	switch r.status {
	case rota.WorkerUnreachable:
		return up && r.jailedUntil == 0
	case rota.WorkerJailed:
		return up && r.jailedUntil != 0
	case rota.WorkerSuspended:
		return r.before == rota.WorkerNone
	case rota.WorkerRetired:
		return r.before == rota.WorkerNone || r.before == rota.WorkerSuspended
	default:
		return r.before == rota.WorkerNone && r.jailedUntil == 0
	}
}

// outdated reports whether a registration is not of the worker's newest connection: it was
// long on its way, and a later one has been there.
func (r *workerRow) outdated(op *fsmpb.Register) bool {
	return op.GetConnection() != 0 && op.GetConnection() < r.connection
}

// settleHealth writes the present health back. The part of a second that is left
// over stays in healthAt; full health needs no moment.
func (r *workerRow) settleHealth(now rota.Clock) {
	if r.health >= healthFull {
		return
	}
	health := r.healthNow(now)
	r.healthAt += rota.Clock(health-r.health) * healthStep
	if r.health = health; health == healthFull {
		r.healthAt = 0
	}
}

// stakeLeft is the stake that was attested last without what was slashed.
func (r *workerRow) stakeLeft() int64 { return max(0, r.attestedStake-r.slashed) }

// stakeNow is what counts for min_stake: what is left, while the attestation holds.
// What a worker declares of itself counts for nothing.
func (r *workerRow) stakeNow() int64 {
	if !r.attested() {
		return 0
	}
	return r.stakeLeft()
}

// succeeds begins the count of a type's failures anew.
func (r *workerRow) succeeds(typ rota.JobType) {
	at := slices.IndexFunc(r.failing, func(s streak) bool { return s.typ == typ })
	if at >= 0 {
		r.failing = slices.Delete(slices.Clone(r.failing), at, at+1)
	}
}

// maxStreak is where a streak stops counting: no cool_after is beyond it.
const maxStreak = 1 << 30

// bar puts a type at the end of a list, until a moment; the oldest gives way. What
// bars the type already bars it no shorter. The list is a new one: older copies of
// the row share the old one.
func bar(list []rota.TypeUntil, b rota.TypeUntil) []rota.TypeUntil {
	barred := make([]rota.TypeUntil, 0, len(list)+1)
	for _, t := range list {
		switch {
		case t.Type != b.Type:
			barred = append(barred, t)
		case t.Until.Clock > b.Until.Clock:
			b = t
		}
	}
	if len(barred) >= limits.MaxTypesPerWorker {
		barred = barred[1:]
	}
	return append(barred, b)
}
