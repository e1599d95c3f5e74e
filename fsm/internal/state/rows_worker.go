package state

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// AddHealth adds by to the health as of now, in permille, and clamps the sum to 0…HealthFull. It reports whether the
// row changed.
func (r *WorkerRow) AddHealth(now rota.Clock, by int32) bool {
	before := r.Health
	r.SettleHealth(now)
	if r.Health >= HealthFull {
		if by >= 0 {
			return before != r.Health
		}
		r.HealthAt = now
	}
	r.Health = max(0, min(HealthFull, r.Health+by))
	if r.Health == HealthFull {
		r.HealthAt = 0
	}
	return true
}

// AttestationEnds returns the date on which fireAttestation is due; 0 for never.
func (r *WorkerRow) AttestationEnds() rota.Date {
	if r.Lapsed {
		return 0
	}
	return r.AttestedUntil
}

// Attested reports whether the worker's attestation is valid as of the last sweep.
func (r *WorkerRow) Attested() bool { return r.AttestedUntil != 0 && !r.Lapsed }

// BarredStatus returns SUSPENDED or JAILED if the worker is suspended or jailed, even if its current status differs,
// for example RETIRED. Otherwise it returns the given status.
func (r *WorkerRow) BarredStatus(otherwise rota.WorkerStatus) rota.WorkerStatus {
	switch {
	case r.Status == rota.WorkerSuspended || r.Status == rota.WorkerRetired && r.Before == rota.WorkerSuspended:
		return rota.WorkerSuspended
	case r.JailedUntil != 0:
		return rota.WorkerJailed
	default:
		return otherwise
	}
}

// Cools counts a failure or a decline of a type. A decline, or too many consecutive failures for the queue, bars the
// type. Cools reports whether it set a bar. Only a success resets the count, so each failure after a cooldown starts
// another one.
func (r *WorkerRow) Cools(typ rota.JobType, p *rota.QueuePolicy, now rota.Clock, cause rota.Reason) bool {
	if p.CoolAfter == 0 {
		return false
	}
	counted := Streak{typ, 1}
	list := make([]Streak, 0, len(r.Failing)+1) // older copies of the row share the old list
	for _, s := range r.Failing {
		if s.Typ == typ {
			counted.N = min(s.N+1, MaxStreak)
		} else {
			list = append(list, s)
		}
	}
	if len(list) >= limits.MaxTypesPerWorker {
		list = list[1:]
	}
	r.Failing = append(list, counted)
	if counted.N < p.CoolAfter && cause != rota.ReasonDeclined {
		return false
	}
	r.Cooling = Bar(r.Cooling, rota.TypeUntil{Type: typ, Until: rota.Moment{Clock: now + rota.Clock(p.CoolMs)},
		Cause: cause})
	return true
}

// Executes records that the worker completed a type and reports whether the list changed. A type in the newer half of
// the list stays in place, so that a worker with few types costs nothing. A type is forgotten after MaxTypesPerWorker/2
// others at the earliest.
func (r *WorkerRow) Executes(typ rota.JobType) bool {
	at := slices.Index(r.Executed, typ)
	if at >= max(0, len(r.Executed)-limits.MaxTypesPerWorker/2) {
		return false
	}
	list := make([]rota.JobType, 0, len(r.Executed)+1)
	for i, t := range r.Executed {
		if i != at && (at >= 0 || i > 0 || len(r.Executed) < limits.MaxTypesPerWorker) {
			list = append(list, t)
		}
	}
	r.Executed = append(list, typ)
	return true
}

// HealthNow returns the health as of now, in permille: the row's value plus one for each second since it was stored.
func (r *WorkerRow) HealthNow(now rota.Clock) int32 {
	if r.Health >= HealthFull || now <= r.HealthAt {
		return r.Health
	}
	return int32(min(HealthFull, rota.Clock(r.Health)+(now-r.HealthAt)/HealthStep))
}

// HoldsData records the data keys of a job that the worker completed and reports whether the list changed. As with
// types, a key in the newer half stays in place: a key is forgotten after MaxDataHeld/2 others at the earliest.
func (r *WorkerRow) HoldsData(keys []string) (changed bool) {
	for _, key := range keys {
		at := slices.Index(r.Held, key)
		if at >= max(0, len(r.Held)-limits.MaxDataHeld/2) {
			continue
		}
		if !changed { // older copies of the row share the list
			r.Held, changed = append(make([]string, 0, len(r.Held)+len(keys)), r.Held...), true
		}
		if at >= 0 || len(r.Held) >= limits.MaxDataHeld {
			r.Held = slices.Delete(r.Held, max(at, 0), max(at, 0)+1)
		}
		r.Held = append(r.Held, key)
	}
	return changed
}

// Knows reports whether a hash is that of the worker's secret.
func (r *WorkerRow) Knows(hash []byte) bool { return string(hash) == string(r.SecretHash[:]) }

// Live reports whether the id is in use. A process with another secret can register the id only if the worker is
// RETIRED, or UNREACHABLE without a lease.
func (r *WorkerRow) Live() bool {
	switch r.Status {
	case rota.WorkerRetired:
		return false
	case rota.WorkerUnreachable:
		return r.Open > 0
	default:
		return true
	}
}

// MayReturn reports whether the status that the worker will return to is valid (invariant I3).
func (r *WorkerRow) MayReturn() bool {
	up := r.Before == rota.WorkerActive || r.Before == rota.WorkerDraining
	switch r.Status {
	case rota.WorkerUnreachable:
		return up && r.JailedUntil == 0
	case rota.WorkerJailed:
		return up && r.JailedUntil != 0
	case rota.WorkerSuspended:
		return r.Before == rota.WorkerNone
	case rota.WorkerRetired:
		return r.Before == rota.WorkerNone || r.Before == rota.WorkerSuspended
	default:
		return r.Before == rota.WorkerNone && r.JailedUntil == 0
	}
}

// Outdated reports whether a registration belongs to an older connection of the worker: it was delayed, and that of a
// newer connection has arrived already.
func (r *WorkerRow) Outdated(op *fsmpb.Register) bool {
	return op.GetConnection() != 0 && op.GetConnection() < r.Connection
}

// SettleHealth stores the health as of now in the row. HealthAt keeps the fraction of a second; it is 0 at full health.
func (r *WorkerRow) SettleHealth(now rota.Clock) {
	if r.Health >= HealthFull {
		return
	}
	health := r.HealthNow(now)
	r.HealthAt += rota.Clock(health-r.Health) * HealthStep
	if r.Health = health; health == HealthFull {
		r.HealthAt = 0
	}
}

// StakeLeft returns the last attested stake minus the amount that was slashed.
func (r *WorkerRow) StakeLeft() int64 { return max(0, r.AttestedStake-r.Slashed) }

// StakeNow returns the stake that counts for min_stake: StakeLeft while the attestation is valid. A stake that a worker
// declares itself counts for nothing.
func (r *WorkerRow) StakeNow() int64 {
	if !r.Attested() {
		return 0
	}
	return r.StakeLeft()
}

// Succeeds resets the number of consecutive failures of a type.
func (r *WorkerRow) Succeeds(typ rota.JobType) {
	at := slices.IndexFunc(r.Failing, func(s Streak) bool { return s.Typ == typ })
	if at >= 0 {
		r.Failing = slices.Delete(slices.Clone(r.Failing), at, at+1)
	}
}

// MaxStreak is the maximum length of a streak that is counted. No cool_after is greater.
const MaxStreak = 1 << 30

// Bar returns a copy of the list with a bar of a type, which ends at b.Until, at its end. If the list is full, the
// oldest entry is dropped. An existing bar of the type is never shortened. Older copies of the row share the old list.
func Bar(list []rota.TypeUntil, b rota.TypeUntil) []rota.TypeUntil {
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
