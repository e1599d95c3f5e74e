package sched

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
)

// ties holds the links between the workers of one round and jobs, for the strategy affinity and for prefer_locality
// (SPEC §7.6).
type ties struct {
	*rooms
	loads *loads // nil except under affinity and least_loaded
	// data, executed and zones are sets of positions, each computed on first use; data only contains keys that many
	// workers hold.
	data     map[string]bitset
	executed map[rota.JobType]bitset
	zones    map[string]bitset
	// sums is a bit-sliced counter of one job's data per position: sums[i] holds bit i of every position's count.
	sums []bitset
	// outputs is the parents' outputs that outputSums counts, without any keys. Nodes that wait for the same parents
	// share it and follow each other.
	outputs    *Data
	outputSums []bitset
	// best holds the remaining able workers.
	best bitset
}

func newTies(r *rooms, l *loads) *ties {
	return &ties{rooms: r, loads: l, data: map[string]bitset{}, executed: map[rota.JobType]bitset{},
		zones: map[string]bitset{}, best: r.newSet()}
}

// pick chooses one of the n able workers: those that hold the most of the job's data; among them those that executed
// its type, if any; among them those in its zone, if any; among them the least loaded. This equals the first worker in
// the order of all four criteria. The rule returned is the first that holds for the chosen worker, whether or not it
// separated that worker from others.
func (t *ties) pick(able bitset, n int, it *Item) (pos int, why rota.Reasoning) {
	left := able
	if most := t.mostData(able, it.DataKeys, it.Data); most > 0 {
		left, why = t.best, rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: most}
	}
	if set := found(t.rooms, t.executed, it.Type, t.supply.executed.at); left.meets(set) {
		left = t.prefer(left, set, &why, rota.ReasoningByPreviouslyExecuted)
	}
	if it.Zone != "" {
		if set := found(t.rooms, t.zones, it.Zone, t.supply.zones.at); left.meets(set) {
			left = t.prefer(left, set, &why, rota.ReasoningBySameZone)
		}
	}
	if why.Rule != rota.ReasoningNone {
		n = left.count()
	}
	pos = t.loads.least(left, n)
	if why.Rule == rota.ReasoningNone {
		why = rota.Reasoning{Rule: rota.ReasoningByLeastLoaded, N: int64(t.now.open[t.slots[pos]])}
	}
	return pos, why
}

// prefer narrows the remaining workers to those in a set and records the rule.
func (t *ties) prefer(left, set bitset, why *rota.Reasoning, rule rota.ReasoningRule) bitset {
	for i := range t.best {
		t.best[i] = left[i] & set[i]
	}
	if why.Rule == rota.ReasoningNone {
		why.Rule = rule
	}
	return t.best
}

// mostData finds the largest number of the keys and parents' outputs that an able worker holds. It leaves the workers
// with that number in best.
func (t *ties) mostData(able bitset, keys []string, outputs *Data) (most int64) {
	if len(keys) == 0 && outputs == nil {
		return 0
	}
	t.countOutputs(outputs)
	for i, key := range keys {
		if slices.Contains(keys[:i], key) {
			continue
		}
		if at := t.supply.data.at[key]; len(at) > t.words {
			for word, w := range found(t.rooms, t.data, key, t.supply.data.at) {
				t.add(word, w&able[word], 0)
			}
		} else {
			for _, slot := range at {
				if pos, in := t.position(slot); in && able.has(pos) {
					t.add(pos>>6, 1<<(pos&63), 0)
				}
			}
		}
	}
	copy(t.best, able)
	for i := len(t.sums) - 1; i >= 0; i-- {
		if !t.best.meets(t.sums[i]) {
			continue
		}
		most |= 1 << i
		for word := range t.best {
			t.best[word] &= t.sums[i][word]
		}
	}
	return most
}

// countOutputs starts the sums with the outputs of a job's parents that each position holds, bit by bit.
func (t *ties) countOutputs(outputs *Data) {
	for i, sum := range t.sums {
		clear(sum)
		if outputs != nil && outputs == t.outputs {
			copy(sum, t.outputSums[i])
		}
	}
	if outputs == nil || outputs == t.outputs {
		return
	}
	for _, held := range *outputs {
		slot, known := t.supply.slotOf[held.Worker]
		if !known {
			continue
		}
		if pos, in := t.position(slot); in {
			for rest := uint64(held.N); rest != 0; rest &= rest - 1 {
				t.add(pos>>6, 1<<(pos&63), bits.TrailingZeros64(rest))
			}
		}
	}
	t.outputs = outputs
	for i, sum := range t.sums {
		copy(t.outputSums[i], sum)
	}
}

// add adds 2^bit to the count of each member of one word.
func (t *ties) add(word int, carry uint64, bit int) {
	for ; carry != 0; bit++ {
		for bit >= len(t.sums) {
			t.sums, t.outputSums = append(t.sums, t.newSet()), append(t.outputSums, t.newSet())
		}
		sum := &t.sums[bit][word]
		*sum, carry = *sum^carry, *sum&carry
	}
}

// position returns a worker's position in the round; ok is false if it is not in the round.
func (r *rooms) position(slot int32) (int, bool) {
	pos := int(r.posOf[slot])
	return pos, r.slots[pos] == slot
}

// found returns the positions of the workers that have a key.
func found[K ~string](r *rooms, sets map[K]bitset, key K, at map[K][]int32) bitset {
	set, known := sets[key]
	if !known {
		set = r.newSet()
		for _, slot := range at[key] {
			if pos, in := r.position(slot); in {
				set.set(pos)
			}
		}
		sets[key] = set
	}
	return set
}
