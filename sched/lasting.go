package sched

import (
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Attested is the status of a worker's attestation (SPEC §6.5).
type Attested uint8

// The attestation was never given, has expired, or is valid.
const (
	AttestedNever Attested = iota
	AttestedExpired
	AttestedNow
)

// BarredType is a job type that a worker currently does not get, because the worker cools down for the type or has it
// on its denylist (SPEC §16.1). Each queue's policy determines whether the reason applies there.
type BarredType struct {
	Type rota.JobType
	Why  Unfit // CoolingDown or TypeDenylisted
}

// lasting holds the parts of a worker's eligibility that do not come from its spec: the reasons that the end of a lease
// does not remove.
type lasting struct {
	repute
	barred []BarredType
}

// repute applies to all types.
type repute struct {
	active, retired, disconnected bool
	attested                      Attested
	stake, health                 int64
}

// passes reports whether a queue's rules admit the worker for any type.
func (l *repute) passes(r *Rules) bool {
	return l.active && !l.disconnected && (l.attested == AttestedNow || !r.RequireAttestation) &&
		l.stake >= r.MinStake && l.health >= r.MinHealth
}

// fault returns the first rule that keeps the worker from a type of a queue's jobs, whatever else the class requires.
func (l *lasting) fault(typ rota.JobType, r *Rules) Unfit {
	switch {
	case !l.active:
		return NotActive
	case l.disconnected:
		return Disconnected
	case r.RequireAttestation && l.attested == AttestedNever:
		return AttestationMissing
	case r.RequireAttestation && l.attested == AttestedExpired:
		return AttestationExpired
	case l.stake < r.MinStake:
		return StakeTooLow
	}
	if why := l.barring(typ, r); why != Fit {
		return why
	}
	if l.health < r.MinHealth {
		return HealthTooLow
	}
	return Fit
}

// barring returns why the worker gets none of a type of a queue's jobs, Fit if it does. A reason that the queue does
// not apply bars nothing there.
func (l *lasting) barring(typ rota.JobType, r *Rules) Unfit {
	if len(l.barred) == 0 {
		return Fit
	}
	at, _ := slices.BinarySearchFunc(l.barred, typ, func(b BarredType, typ rota.JobType) int {
		return strings.Compare(string(b.Type), string(typ))
	})
	why := Fit
	for ; at < len(l.barred) && l.barred[at].Type == typ; at++ {
		if w := l.barred[at].Why; r.applies(w) && (why == Fit || w < why) {
			why = w
		}
	}
	return why
}

// WorkerState is everything that a Supply holds about a worker, except its data.
type WorkerState struct {
	WorkerEntry
	Endless  int32
	Held     bool
	Isolated bool
	Runs     []Run
}

// State returns a worker's state; zero if the worker is unknown.
func (s *Supply) State(id rota.WorkerID) (w WorkerState) {
	slot, known := s.slotOf[id]
	if !known {
		return w
	}
	spec, l := s.specs[slot], &s.lasting[slot]
	w.WorkerEntry = WorkerEntry{Spec: spec, Active: l.active, Retired: l.retired, Open: s.open[slot],
		CPUTaken: spec.CPUMilli - s.loadFree[slot].CPU, MemoryTaken: spec.MemoryBytes - s.loadFree[slot].Memory,
		IOTaken:  spec.IOBytesPerS - s.loadFree[slot].IO,
		Received: s.received[slot], Stake: l.stake, Health: l.health, Attested: l.attested,
		Disconnected: l.disconnected, Polls: s.offers[slot] != noOffer, Barred: l.barred,
		Units: slices.Clone(s.units[slot]), Executed: slices.Clone(s.executed.of(slot)),
		Grants: s.grants[slot]}
	if w.Polls {
		w.Free = s.offers[slot] - w.Open
	}
	w.Endless, w.Held, w.Isolated, w.Runs = s.endless[slot], s.held.has(int(slot)), s.isolated.has(int(
		slot)), slices.Clone(s.runs[slot])
	return w
}

// Equal reports whether two states are the same. It ignores when a period of units began.
func (w *WorkerState) Equal(o *WorkerState) bool {
	return w.Spec == o.Spec && w.Active == o.Active && w.Retired == o.Retired && w.Open == o.Open &&
		w.CPUTaken == o.CPUTaken &&
		w.MemoryTaken == o.MemoryTaken && w.IOTaken == o.IOTaken && w.Received == o.Received && w.Stake == o.Stake &&
		w.Health == o.Health &&
		w.Attested == o.Attested && w.Disconnected == o.Disconnected && w.Polls == o.Polls && w.Free == o.Free &&
		w.Endless == o.Endless && w.Held == o.Held && w.Isolated == o.Isolated &&
		slices.Equal(w.Barred, o.Barred) && sameUnits(w.Units, o.Units) && slices.Equal(w.Executed, o.Executed) &&
		w.Grants.Equal(o.Grants) && slices.Equal(w.Runs, o.Runs)
}
