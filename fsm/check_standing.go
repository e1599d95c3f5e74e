package fsm

import (
	"slices"

	"github.com/rotasched/rota"
)

// standing checks the ranges of the workers' standing, and that all of it that
// ends by itself is timed. Invariant I3.
func (c *checker) standing() {
	m, now := c.m, c.m.head.clock
	m.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		switch {
		case w.health < 0 || w.health > healthFull || w.healthAt < 0 || w.healthAt > now ||
			(w.health == healthFull) != (w.healthAt == 0):
			c.fault("I3: worker %s has health %d since %d", id, w.health, w.healthAt)
		case w.slashed < 0 || w.invalidProofs < 0 || w.badInRow < 0:
			c.fault("I3: worker %s was slashed by %d for %d invalid proofs, %d bad in a row", id, w.slashed,
				w.invalidProofs, w.badInRow)
		case w.jailedUntil < 0 || w.jailedUntil > now+rota.JailMs || w.coolingUntil < 0 ||
			w.coolingUntil > now+rota.CooldownMs:
			c.fault("I6: worker %s is jailed until %d and cools down until %d", id, w.jailedUntil, w.coolingUntil)
		case w.lapsed && (w.attestedUntil == 0 || w.attestedUntil > m.head.date()) || w.attestedUntil < 0:
			c.fault("I3: worker %s is attested until %d, lapsed: %v", id, w.attestedUntil, w.lapsed)
		}
		for _, list := range [][]rota.TypeUntil{w.cooling, w.denied} {
			for _, t := range list {
				if t.Until <= 0 || t.Until > now+max(rota.CooldownMs, rota.DenyMs) {
					c.fault("I6: worker %s gets none of type %s until %d", id, t.Type, t.Until)
				}
			}
		}
		for i, u := range w.units {
			if u.Used < 0 || u.Since < 0 || u.Since > now || u.Since%rota.UnitsPeriod != 0 ||
				i > 0 && w.units[i-1].Queue >= u.Queue {
				c.fault("I9: worker %s used %d units of queue %s since %d", id, u.Used, u.Queue, u.Since)
			}
		}
		if told := m.registry.supply.Data(id); !slices.Equal(told, w.held) {
			c.fault("I4: supply has worker %s hold the data %q, its row says %q", id, told, w.held)
		}
		if due, ends := m.standingAt(w), w.attestationEnds(); w.standingDue != due || w.attestDue != ends {
			c.fault("I4: worker %s stands in the timers at %d and on %d: at %d and on %d is right", id, w.standingDue,
				w.attestDue, due, ends)
		}
		return true
	})
}
