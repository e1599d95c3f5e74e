package sched

import (
	"slices"

	"github.com/rotasched/rota"
)

// SetData tells what data a worker holds, by key, each once, wholesale. An unknown
// worker is left alone; Remove forgets its data, Put does not.
func (s *Supply) SetData(id rota.WorkerID, keys []string) {
	if slot, known := s.slotOf[id]; known {
		s.data.set(slot, keys)
	}
}

// Data returns the keys that SetData set for a worker.
func (s *Supply) Data(id rota.WorkerID) []string {
	if slot, known := s.slotOf[id]; known {
		return slices.Clone(s.data.of(slot))
	}
	return nil
}

// keyed files workers by keys that they have, such as data that they hold.
type keyed[K ~string] struct {
	// at holds the slot numbers of those that have a key, ascending.
	at map[K][]int32
	// keys are what a slot has, as SetData set it.
	keys [][]K
	// filed counts all that at holds.
	filed int
}

// of returns the keys of a slot.
func (f *keyed[K]) of(slot int32) []K {
	if int(slot) < len(f.keys) {
		return f.keys[slot]
	}
	return nil
}

// set states the keys of a slot, each once. It is O(keys), and costs more only for
// the keys that are new, gone, or have changed their place.
func (f *keyed[K]) set(slot int32, keys []K) {
	old := f.of(slot)
	if slices.Equal(old, keys) {
		return
	}
	if f.at == nil {
		f.at = map[K][]int32{}
	}
	for len(f.keys) <= int(slot) {
		f.keys = append(f.keys, nil)
	}
	f.keys[slot] = slices.Clone(keys)
	stay := 0 // how many of the new ones stand in both lists, in the same order
	for _, key := range old {
		if stay < len(keys) && keys[stay] == key {
			stay++
		} else {
			f.drop(key, slot)
		}
	}
	for _, key := range keys[stay:] {
		f.add(key, slot)
	}
}

func (f *keyed[K]) add(key K, slot int32) {
	list := f.at[key]
	at, _ := slices.BinarySearch(list, slot)
	f.at[key] = slices.Insert(list, at, slot)
	f.filed++
}

func (f *keyed[K]) drop(key K, slot int32) {
	list := f.at[key]
	f.filed--
	if len(list) == 1 {
		delete(f.at, key)
		return
	}
	at, _ := slices.BinarySearch(list, slot)
	f.at[key] = slices.Delete(list, at, at+1)
}

// check reports whether exactly these keys of a slot are filed; counted sums the
// keys found.
func (f *keyed[K]) check(slot int32, counted *int) bool {
	keys := sortedSet(f.of(slot))
	*counted += len(keys)
	for _, k := range keys {
		if _, found := slices.BinarySearch(f.at[k], slot); !found {
			return false
		}
	}
	return true
}
