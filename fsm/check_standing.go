package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// standing checks the ranges of the workers' standing, and that all of it that
// ends by itself is timed. Invariant I3.
func (c *checker) standing() {
	m, now := c.m, c.m.head.clock
	m.fleet.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		switch {
		case w.health < 0 || w.health > healthFull || w.healthAt < 0 || w.healthAt > now ||
			(w.health == healthFull) != (w.healthAt == 0):
			c.fault("I3: worker %s has health %d since %d", id, w.health, w.healthAt)
		case w.disconnected.Clock < 0 || w.disconnected.Clock > now || w.connection == 0 && (w.grace || !w.disconnected.IsZero()):
			c.fault("I6: worker %s has connection %d, broken since %d", id, w.connection, w.disconnected.Clock)
		case w.attestedStake < 0 || w.attestedStake > rota.MaxFee:
			c.fault("I3: worker %s has an attested stake of %d", id, w.attestedStake)
		case w.slashed < 0 || w.invalidProofs < 0:
			c.fault("I3: worker %s was slashed by %d for %d invalid proofs", id, w.slashed, w.invalidProofs)
		case w.jailedUntil < 0 || w.jailedUntil > now+limits.JailMs:
			c.fault("I6: worker %s is jailed until %d", id, w.jailedUntil)
		case w.lapsed && (w.attestedUntil == 0 || w.attestedUntil > m.head.date()) || w.attestedUntil < 0:
			c.fault("I3: worker %s is attested until %d, lapsed: %v", id, w.attestedUntil, w.lapsed)
		}
		c.bars(w)
		for i, u := range w.units {
			if u.Used < 0 || u.Since.Clock < 0 || u.Since.Clock > now || u.Until.Clock <= u.Since.Clock ||
				u.Since.Clock%(u.Until.Clock-u.Since.Clock) != 0 ||
				i > 0 && w.units[i-1].Queue >= u.Queue {
				c.fault("I9: worker %s used %d units of queue %s since %d until %d", id, u.Used, u.Queue, u.Since.Clock, u.Until.Clock)
			}
		}
		if told := m.placement.registry.supply.Data(id); !slices.Equal(told, w.held) {
			c.fault("I4: supply has worker %s hold the data %q, its row says %q", id, told, w.held)
		}
		if due, ends := m.fleet.standingAt(w), w.attestationEnds(); w.standingDue != due || w.attestDue != ends || w.forgetDue != w.forgetAt() {
			c.fault("I4: worker %s stands in the timers at %d and on %d: at %d and on %d is right", id, w.standingDue,
				w.attestDue, due, ends)
		}
		return true
	})
}

// bars checks the bounded lists of types of a worker.
func (c *checker) bars(w *workerRow) {
	now, longest := c.m.head.clock, rota.Clock(rota.MaxDuration.Milliseconds())
	for _, list := range [][]rota.TypeUntil{w.cooling, w.denied} {
		types := map[rota.JobType]bool{}
		for _, t := range list {
			if t.Until.Clock <= 0 || t.Until.Clock > now+longest || t.Cause == rota.ReasonNone || types[t.Type] {
				c.fault("I6: worker %s gets none of type %s until %d for %s", w.spec.ID, t.Type, t.Until.Clock, t.Cause)
			}
			types[t.Type] = true
		}
	}
	types := map[rota.JobType]bool{}
	for _, s := range w.failing {
		if s.n <= 0 || s.n > maxStreak || types[s.typ] {
			c.fault("I6: worker %s failed %d times in a row of type %s", w.spec.ID, s.n, s.typ)
		}
		types[s.typ] = true
	}
	if len(w.cooling) > limits.MaxTypesPerWorker || len(w.denied) > limits.MaxTypesPerWorker ||
		len(w.failing) > limits.MaxTypesPerWorker {
		c.fault("I6: worker %s has %d types cooling, %d denied, %d failing", w.spec.ID, len(w.cooling), len(w.denied), len(w.failing))
	}
}
