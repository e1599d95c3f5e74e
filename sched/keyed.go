package sched

import (
	"slices"

	"github.com/rotasched/rota"
)

// SetData replaces the keys of the data that a worker holds; each key once. An unknown worker is ignored. Remove
// forgets a worker's data, Put does not.
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

// keyed files workers by their keys, such as those of data that they hold.
type keyed[K ~string] struct {
	// at maps a key to the slot numbers that have it, ascending.
	at map[K][]int32
	// keys are a slot's keys, as SetData set them.
	keys [][]K
	// filed is the number of entries in at.
	filed int
}

// of returns the keys of a slot.
func (f *keyed[K]) of(slot int32) []K {
	if int(slot) < len(f.keys) {
		return f.keys[slot]
	}
	return nil
}

// set replaces the keys of a slot, each once. It is O(keys), plus a cost for each key that is new, gone, or has changed
// its position.
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
	stay := 0 // how many of the first new keys are in the old list, in the same order
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

// check reports whether exactly these keys of a slot are filed; it adds the number found to counted.
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
