package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// stamp moves the clock and the date by an entry's stamp (SPEC §3.2, §3.8). An entry of another term moves neither, but
// its client operations still apply. The same holds for one that reached the log in a later term than its stamp, even
// before that term's BeginTerm. An entry stamped too far ahead is refused as a whole.
func (m *Machine) stamp(e *fsmpb.Entry, logTerm uint64) *rota.Error {
	h := &m.Header
	m.Stamped = e.GetTerm() == h.Term && logTerm == h.Term && h.Term != 0 || planted.expiryWithoutEpoch() &&
		e.GetTerm() < h.Term
	if !m.Stamped {
		return nil
	}
	now := rota.Clock(e.GetNowMs())
	if now > h.Clock+h.Leap && !planted.uncappedTick() {
		m.Journal.Emit(rota.Event{Kind: rota.EventEntryRefused, Text: "stamped too far ahead of the clock"})
		return rota.Refusef(rota.KindUnavailable, "now_ms",
			"entry is stamped %d ms ahead of the cluster clock: at most %d are taken", now-h.Clock, h.Leap)
	}
	m.advance(now)
	m.setDate(m.Walls)
	return nil
}

// advance moves the clock forward, never back, and reduces the lead of a date that is ahead at half speed.
func (m *Machine) advance(now rota.Clock) {
	h := &m.Header
	if now <= h.Clock {
		return
	}
	passed := int64(now - h.Clock)
	h.Clock = now
	if h.Ahead > 0 {
		h.Half += passed
		slow := min(h.Half/2, h.Ahead)
		h.Half %= 2
		h.Offset -= slow
		h.Ahead -= slow
	}
}

// setDate applies the wall clocks of a majority of voters: the date moves forward to their median at once, never back.
func (m *Machine) setDate(walls []int64) {
	if len(walls) == 0 || len(walls) > 64 {
		return
	}
	sorted := slices.Sorted(slices.Values(walls))
	median := sorted[(len(sorted)-1)/2]
	if median < 0 || median > 1<<46 {
		return
	}
	h := &m.Header
	date := int64(h.Date())
	if median >= date {
		h.Offset += median - date
		h.Ahead = 0
		return
	}
	h.Ahead = date - median
}

// beginTerm starts a leadership (SPEC §3.4). It moves no clock; a cluster's very first one chooses the cluster's id and
// where its clock starts. It counts only if it was proposed in the same term in which the log holds it.
func (m *Machine) beginTerm(op *fsmpb.BeginTerm, term uint64) *fsmpb.Outcome {
	switch {
	case op.GetTerm() != term || term <= m.Header.Term:
		return entry.Refused(rota.Refusef(rota.KindStale, "term",
			"term %d is over: the log is in term %d, the state in term %d", op.GetTerm(), term, m.Header.Term))
	case len(op.GetRandom()) != 32:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "random", "random: got %d bytes, want 32",
			len(op.GetRandom())))
	}
	h := &m.Header
	if h.Cluster == "" {
		if o := m.found(op); o != nil {
			return o
		}
	}
	h.Term, h.Leader = term, rota.NodeID(op.GetNode())
	h.Beacon = nextBeacon(h.Beacon, op.GetRandom())
	m.Stamped = true
	m.setDate(m.Walls)
	m.Journal.Emit(rota.Event{Kind: rota.EventLeadershipBegan, Text: op.GetNode()})
	return &fsmpb.Outcome{}
}

// sweepDue fires due timers; only sweeps do (SPEC §3.6). The order is by kind, then by due time, then by id, with at
// most MaxFiringsPerSweep per entry.
func (m *Machine) sweepDue() *fsmpb.Outcome {
	if o := m.Internal(); o != nil {
		return o
	}
	left := limits.MaxFiringsPerSweep - m.Sweep.Fired
	now, date := int64(m.Header.Clock), int64(m.Header.Date())
	fired := 0
	fire := func(s state.TimerSet, moment int64, f func(id string)) {
		for fired < left {
			t, due := s.First(moment)
			if !due {
				return
			}
			f(t.ID)
			fired++
		}
	}
	fire(m.Timers.Lease, now, m.leasing.fireLease)
	fire(m.Timers.Expire, now+int64(planted.ttlOffset(&m.State)), m.fireTTL)
	fire(m.Timers.Gate, date, m.flows.fireGate)
	fire(m.Timers.Wake, now, m.leasing.fireWake)
	fire(m.Timers.Dated, date, func(id string) { m.wakeOrDate(m.JobTable.Edit(rota.JobID(id))) })
	fire(m.Timers.Reputation, now, m.fleet.fireReputation)
	fire(m.Timers.Attest, date, m.fleet.fireAttestation)
	fire(m.Timers.Offer, now, m.fleet.fireOffer)
	fire(m.Timers.Mode, now, m.admission.fireMode)
	fire(m.Timers.Penalty, now, m.admission.firePenalty)
	fire(m.Timers.Limiter, now, m.admission.fireLimiter)
	fire(m.Timers.Domain, now, m.admission.fireDomain)
	fire(m.Timers.Key, now, m.keyring.Fire)
	fire(m.Timers.Promote, now, m.placement.firePromote)
	fire(m.Timers.Forget, now, m.fleet.fireForget)
	fire(m.Timers.Upload, now, m.flows.fireUpload)
	fire(m.Timers.Ended, date, m.flows.fireEnded)
	fire(m.Timers.Token, date, m.access.FireToken)
	fire(m.Timers.Spent, date, m.access.FireSpent)
	fire(m.Timers.Unique, date, m.uniques.Fire)
	fire(m.Timers.Disowned, now, m.fleet.fireDisowned)
	fire(m.Timers.Waiting, now, m.schedules.FireWaiting)
	fire(m.Timers.Batch, date, m.batches.Fire)
	for fired < left {
		seq, t, ok := m.ended.tombs.Order.Earliest()
		if !ok || int64(t.Due) > date {
			break
		}
		m.ended.dropTomb(t.ID, seq)
		m.Header.DroppedTombs++
		fired++
	}
	m.Sweep.Fired += fired
	m.Sweep.More = fired == left
	return &fsmpb.Outcome{}
}

// fireTTL ends a job whose time to live has elapsed, or that had to start by now (SPEC §9.3).
func (m *Machine) fireTTL(id string) {
	j := m.JobTable.Edit(rota.JobID(id))
	m.expel(j, rota.JobExpired, j.Expiry())
}

// AtRest reports whether the state itself needs no sweep: no lease is open, nothing waits for a time on the clock (SPEC
// §3.6), and no workflow has work left for the next entry. The leader tracks connected workers.
func (vw *View) AtRest() bool {
	t := &vw.m.Timers
	return vw.m.leasing.leases.Len() == 0 && t.Wake.Len() == 0 && vw.m.placement.registry.busy.Len() == 0 &&
		t.Reputation.Len() == 0 &&
		t.Mode.Len() == 0 && t.Penalty.Len() == 0 && t.Limiter.Len() == 0 && t.Domain.Len() == 0 &&
		t.Promote.Len() == 0 && t.Key.Len() == 0 &&
		t.Upload.Len() == 0 && t.Offer.Len() == 0 && t.Disowned.Len() == 0 && t.Waiting.Len() == 0 &&
		!vw.m.flows.flowIndex.pending()
}

// Going reports whether anything is in progress whose next step has no timer: a lease, a workflow with work left, a
// plan.
func Going(vw *View) bool {
	return vw.m.leasing.leases.Len() > 0 || vw.m.flows.flowIndex.pending() || len(RunningPlans(vw)) > 0
}

// NextClock returns when the first timer on the clock is due; ok is false if there is none.
func NextClock(vw *View) (clock rota.Clock, ok bool) {
	t := &vw.m.Timers
	var first state.Timer
	for _, s := range []state.TimerSet{t.Lease, t.Expire, t.Wake, t.Reputation, t.Mode, t.Penalty, t.Limiter, t.Domain,
		t.Key, t.Promote, t.Forget,
		t.Upload, t.Disowned, t.Waiting} {
		if m, some := s.Min(); some && (!ok || m.Due < first.Due) {
			first, ok = m, true
		}
	}
	return rota.Clock(first.Due), ok
}

// NextDate returns the first date that something waits for; ok is false if nothing does.
func (vw *View) NextDate() (date rota.Date, ok bool) {
	var first state.Timer
	for _, s := range []state.TimerSet{vw.m.Timers.Dated, vw.m.Timers.Gate, vw.m.Timers.Attest, vw.m.Timers.Unique,
		vw.m.Timers.Batch} {
		if t, some := s.Min(); some && (!ok || t.Due < first.Due) {
			first, ok = t, true
		}
	}
	return rota.Date(first.Due), ok
}
