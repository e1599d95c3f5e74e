package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// stamp moves the clock and the date by an entry's stamp (SPEC §3.2, §3.8).
// An entry of another term moves neither; its client operations still apply.
// So does one that waited until the log was in a later term than its stamp, even
// before that term's BeginTerm. One from too far ahead is refused whole.
func (m *Machine) stamp(e *fsmpb.Entry, logTerm uint64) *rota.Error {
	h := &m.head
	m.stamped = e.GetTerm() == h.term && logTerm == h.term && h.term != 0 || planted.expiryWithoutEpoch() && e.GetTerm() < h.term
	if !m.stamped {
		return nil
	}
	now := rota.Clock(e.GetNowMs())
	if now > h.clock+h.leap && !planted.uncappedTick() {
		m.journal.emit(rota.Event{Kind: rota.EventEntryRefused, Text: "stamped too far ahead of the clock"})
		return rota.Refusef(rota.KindUnavailable, "now_ms",
			"entry is stamped %d ms ahead of the cluster clock: at most %d are taken", now-h.clock, h.leap)
	}
	m.advance(now)
	m.setDate(m.walls)
	return nil
}

// advance moves the clock forward, never back, and works off a date that is
// ahead at half speed.
func (m *Machine) advance(now rota.Clock) {
	h := &m.head
	if now <= h.clock {
		return
	}
	passed := int64(now - h.clock)
	h.clock = now
	if h.ahead > 0 {
		h.half += passed
		slow := min(h.half/2, h.ahead)
		h.half %= 2
		h.offset -= slow
		h.ahead -= slow
	}
}

// setDate takes the wall clocks of a majority of voters: forward to their
// median at once, never back.
func (m *Machine) setDate(walls []int64) {
	if len(walls) == 0 || len(walls) > 64 {
		return
	}
	sorted := slices.Sorted(slices.Values(walls))
	median := sorted[(len(sorted)-1)/2]
	if median < 0 || median > 1<<46 {
		return
	}
	h := &m.head
	date := int64(h.date())
	if median >= date {
		h.offset += median - date
		h.ahead = 0
		return
	}
	h.ahead = date - median
}

// beginTerm starts a leadership (SPEC §3.4). It moves no clock; the very first
// of a cluster chooses the cluster's id and where its clock starts. It counts
// only when it was proposed in the very term that the log holds it in.
func (m *Machine) beginTerm(op *fsmpb.BeginTerm, term uint64) *fsmpb.Outcome {
	switch {
	case op.GetTerm() != term || term <= m.head.term:
		return entry.Refused(rota.Refusef(rota.KindStale, "term", "term %d is over: the log is in term %d, the state in term %d",
			op.GetTerm(), term, m.head.term))
	case len(op.GetRandom()) != 32:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "random", "random has %d bytes: 32 are wanted", len(op.GetRandom())))
	}
	h := &m.head
	if h.cluster == "" {
		if o := m.found(op); o != nil {
			return o
		}
	}
	h.term, h.leader = term, rota.NodeID(op.GetNode())
	h.beacon = nextBeacon(h.beacon, op.GetRandom())
	m.stamped = true
	m.setDate(m.walls)
	m.journal.emit(rota.Event{Kind: rota.EventLeadershipBegan, Text: op.GetNode()})
	return &fsmpb.Outcome{}
}

// sweepDue fires what is due, and only a sweep does (SPEC §3.6): by kind, then
// by due time, then by id; at most MaxFiringsPerSweep an entry.
func (m *Machine) sweepDue() *fsmpb.Outcome {
	if o := m.internal(); o != nil {
		return o
	}
	left := limits.MaxFiringsPerSweep - m.sweep.Fired
	now, date := int64(m.head.clock), int64(m.head.date())
	fired := 0
	fire := func(s timerSet, moment int64, f func(id string)) {
		for fired < left {
			t, due := s.first(moment)
			if !due {
				return
			}
			f(t.id)
			fired++
		}
	}
	fire(m.timers.lease, now, m.leasing.fireLease)
	fire(m.timers.expire, now+int64(planted.ttlOffset(&m.state)), m.fireTTL)
	fire(m.timers.gate, date, m.flows.fireGate)
	fire(m.timers.wake, now, m.leasing.fireWake)
	fire(m.timers.dated, date, func(id string) { m.wakeOrDate(m.jobs.edit(rota.JobID(id))) })
	fire(m.timers.reputation, now, m.fleet.fireReputation)
	fire(m.timers.attest, date, m.fleet.fireAttestation)
	fire(m.timers.offer, now, m.fleet.fireOffer)
	fire(m.timers.mode, now, m.admission.fireMode)
	fire(m.timers.penalty, now, m.admission.firePenalty)
	fire(m.timers.limiter, now, m.admission.fireLimiter)
	fire(m.timers.domain, now, m.admission.fireDomain)
	fire(m.timers.key, now, m.keyring.fire)
	fire(m.timers.promote, now, m.placement.firePromote)
	fire(m.timers.forget, now, m.fleet.fireForget)
	fire(m.timers.upload, now, m.flows.fireUpload)
	fire(m.timers.ended, date, m.flows.fireEnded)
	fire(m.timers.token, date, m.access.fireToken)
	fire(m.timers.spent, date, m.access.fireSpent)
	fire(m.timers.unique, date, m.uniques.fire)
	fire(m.timers.disowned, now, m.fleet.fireDisowned)
	fire(m.timers.waiting, now, m.schedules.fireWaiting)
	fire(m.timers.batch, date, m.batches.fire)
	for fired < left {
		seq, t, ok := m.ended.tombs.order.earliest()
		if !ok || int64(t.due) > date {
			break
		}
		m.ended.dropTomb(t.id, seq)
		m.head.droppedTombs++
		fired++
	}
	m.sweep.Fired += fired
	m.sweep.More = fired == left
	return &fsmpb.Outcome{}
}

// fireTTL ends a job whose time to live has elapsed, or that had to start by now (SPEC §9.3).
func (m *Machine) fireTTL(id string) {
	j := m.jobs.edit(rota.JobID(id))
	m.expel(j, rota.JobExpired, j.expiry())
}

// AtRest reports whether no sweep is needed for the state's own sake: no lease is
// open, nothing waits for a moment on the clock (SPEC §3.6), and no workflow has
// work left for the next entry. Connected workers are the leader's to know.
func (vw *View) AtRest() bool {
	t := &vw.m.timers
	return vw.m.leasing.leases.len() == 0 && t.wake.Len() == 0 && vw.m.placement.registry.busy.Len() == 0 && t.reputation.Len() == 0 &&
		t.mode.Len() == 0 && t.penalty.Len() == 0 && t.limiter.Len() == 0 && t.domain.Len() == 0 && t.promote.Len() == 0 && t.key.Len() == 0 &&
		t.upload.Len() == 0 && t.offer.Len() == 0 && t.disowned.Len() == 0 && t.waiting.Len() == 0 && !vw.m.flows.flowIndex.pending()
}

// Going reports whether anything goes on whose next step no timer tells: a lease, a workflow with
// work left, a plan.
func Going(vw *View) bool {
	return vw.m.leasing.leases.len() > 0 || vw.m.flows.flowIndex.pending() || len(RunningPlans(vw)) > 0
}

// NextClock is when the first timer on the clock is due; ok is false if there is none.
func NextClock(vw *View) (clock rota.Clock, ok bool) {
	t := &vw.m.timers
	var first timer
	for _, s := range []timerSet{t.lease, t.expire, t.wake, t.reputation, t.mode, t.penalty, t.limiter, t.domain, t.key, t.promote, t.forget,
		t.upload, t.disowned, t.waiting} {
		if m, some := s.Min(); some && (!ok || m.due < first.due) {
			first, ok = m, true
		}
	}
	return rota.Clock(first.due), ok
}

// NextDate is when something waits for a date; ok is false if nothing does.
func (vw *View) NextDate() (date rota.Date, ok bool) {
	var first timer
	for _, s := range []timerSet{vw.m.timers.dated, vw.m.timers.gate, vw.m.timers.attest, vw.m.timers.unique, vw.m.timers.batch} {
		if t, some := s.Min(); some && (!ok || t.due < first.due) {
			first, ok = t, true
		}
	}
	return rota.Date(first.due), ok
}
