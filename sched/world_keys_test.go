package sched

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// someKeys are the keys of jobs: those of "p" are parties that take turns if the queue is set to do so.
var someKeys = []string{"c:1", "c:2", "p:a", "p:b", "p:c", "p:d"}

// partyOf returns the party of a job, "" for jobs that name none.
func partyOf(it *Item) string {
	for _, key := range it.Keys {
		if strings.HasPrefix(key, "p:") {
			return key
		}
	}
	return ""
}

// worldRing is the key state of a world's rows. It records the turns that the lanes query.
type worldRing struct {
	full, waits map[string]bool // by key, and by id
	turn        map[string]int64
	last        int64
	// restoring: jobs are filed at their previous places.
	restoring bool
}

func newWorldRing() *worldRing {
	return &worldRing{full: map[string]bool{}, waits: map[string]bool{}, turn: map[string]int64{}}
}

func (r *worldRing) Counts(it *Item, room []string) ([]string, bool) {
	return append(room, it.Keys...), !r.waits[string(it.ID)]
}
func (r *worldRing) Party(it *Item) string  { return partyOf(it) }
func (r *worldRing) Full(count string) bool { return r.full[count] }

func (r *worldRing) Turn(it *Item, least int64, others bool) int64 {
	party := partyOf(it)
	if r.restoring {
		return r.turn[party]
	}
	if !others {
		least = r.last
	}
	r.turn[party] = max(r.turn[party], least)
	return r.turn[party]
}

// restored returns a copy with the same rows.
func (r *worldRing) restored() *worldRing {
	if r == nil {
		return nil
	}
	return &worldRing{maps.Clone(r.full), maps.Clone(r.waits), maps.Clone(r.turn), r.last, true}
}

// drawKeys gives keys to half of the worlds, and lets parties take turns in half of those.
func (w *world) drawKeys(t *dice) {
	if t.between(0, 1) == 0 {
		return
	}
	w.ring = newWorldRing()
	w.grouped = !w.tiered && !w.fair && t.between(0, 2) > 0
	w.turns = turnModel{turn: map[string]int64{}, waited: map[string]bool{}}
}

// keysOfJob draws the keys of a job; few jobs wait for their turn in a sequence.
func (w *world) keysOfJob(t *dice, id rota.JobID) []string {
	if w.ring == nil {
		return nil
	}
	keys := slices.DeleteFunc([]string{pick(t, someKeys[:2]), pick(t, someKeys[2:])},
		func(string) bool { return t.between(0, 2) == 0 })
	if len(keys) > 0 && t.between(0, 7) == 0 {
		w.ring.waits[string(id)] = true
	}
	return slices.Clip(keys)
}

// keyOp fills a key, or gives it room again, or advances the turn of a job in its sequence.
func (w *world) keyOp(t *dice) {
	if w.ring == nil {
		return
	}
	for _, it := range w.items {
		if w.ring.waits[string(it.ID)] && t.between(0, 3) == 0 {
			w.pending.Remove(it)
			delete(w.ring.waits, string(it.ID))
			w.pending.Add(it)
			return
		}
	}
	key := pick(t, someKeys)
	w.ring.full[key] = !w.ring.full[key]
	w.keys.SetFull(key, w.ring.full[key])
}

// hadTurn counts an assignment of a party in rows and lanes.
func (w *world) hadTurn(it *Item) {
	if !w.grouped {
		return
	}
	party := partyOf(it)
	w.ring.last = w.ring.turn[party]
	w.ring.turn[party]++
	w.pending.SetTurn(party, w.ring.turn[party])
	w.turns.last = w.turns.turn[party]
	w.turns.turn[party]++
}

// turnModel is the naive model of turns: which parties waited before a step, and how many turns each had.
type turnModel struct {
	turn   map[string]int64
	last   int64
	waited map[string]bool
}

// follow starts the parties that wait since the last step at the least turn of those that waited before and still do,
// or at the last turn used, and compares rows and lanes with that.
func (w *world) follow(t *dice) {
	if !w.grouped {
		return
	}
	m, waits := &w.turns, map[string]bool{}
	for _, it := range w.unblocked() {
		waits[partyOf(it)] = true
	}
	least, others := m.last, false
	for party := range waits {
		if m.waited[party] && (!others || m.turn[party] < least) {
			least, others = m.turn[party], true
		}
	}
	for party := range waits {
		if !m.waited[party] {
			m.turn[party] = max(m.turn[party], least)
		}
	}
	m.waited = waits
	for party := range waits {
		if g := w.pending.parties[party]; g == nil || g.open != m.turn[party] || w.ring.turn[party] != m.turn[party] {
			t.Fatalf("party %q had %d turns by the rows, %d by the model, its group is %+v", party, w.ring.turn[party],
				m.turn[party], g)
		}
	}
}

// sharer returns what a job shares by: its tenant under fair share, its party if parties take turns.
func (n *naive) sharer(it *Item) string {
	if n.grouped {
		return partyOf(it)
	}
	return fmt.Sprint("t:", it.Tenant)
}
