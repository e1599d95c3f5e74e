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
	if now > h.clock+limits.ClockLeapMax && !planted.uncappedTick() {
		m.journal.emit(rota.Event{Kind: rota.EventEntryRefused, Text: "stamped more than a second ahead of the clock"})
		return rota.Refusef(rota.KindUnavailable, "now_ms",
			"entry is stamped %d ms ahead of the cluster clock: at most %d are taken", now-h.clock, limits.ClockLeapMax)
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
