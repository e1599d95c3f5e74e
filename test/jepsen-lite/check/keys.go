package check

import (
	"cmp"
	"fmt"
	"slices"
)

// KeyFacts describe a key, the rule for it, and the jobs with it that were acknowledged: one user submitted them, each
// after the answer to the one before it.
type KeyFacts struct {
	Key string `json:"key"`
	// Most is how many may run at once; Sequence means that they run in their order.
	Most     int      `json:"most"`
	Sequence bool     `json:"sequence,omitempty"`
	Jobs     []string `json:"jobs"`
}

// keyedBelief is a period in which a handler held a job of a key, and the job's place in the sequence.
type keyedBelief struct {
	belief
	place int
}

// checkKeys uses handlers' own times, as checkOverlap does: a handler that believes in a lease holds it. So at most as
// many handlers may believe at once as leases may be open (SPEC §19.2), and no job begins once one behind it in its
// sequence has begun (SPEC §19.3).
func checkKeys(v *view) (found []Anomaly) {
	jobs, attempts, together := 0, 0, 0
	byJob := v.beliefs()
	for i := range v.Keyed {
		f := &v.Keyed[i]
		var all []keyedBelief
		for place, id := range f.Jobs {
			for _, b := range byJob[id] {
				all = append(all, keyedBelief{b, place})
			}
		}
		slices.SortFunc(all, func(a, b keyedBelief) int { return cmp.Compare(a.from, b.from) })
		jobs, attempts = jobs+len(f.Jobs), attempts+len(all)
		most, faults := f.crowded(all)
		together = max(together, most)
		found = append(append(found, faults...), f.unordered(all)...)
	}
	if len(v.Keyed) > 0 {
		v.figures["keyed_jobs"], v.figures["keyed_attempts"], v.figures["keyed_together"] = jobs, attempts, together
	}
	return found
}

// crowded looks for moments at which more handlers believed in a lease than allowed, and returns the most at once.
func (f *KeyFacts) crowded(all []keyedBelief) (most int, found []Anomaly) {
	var open []keyedBelief
	for _, b := range all {
		open = slices.DeleteFunc(open, func(o keyedBelief) bool { return o.to <= b.from })
		open = append(open, b)
		if most = max(most, len(open)); len(open) <= f.Most {
			continue
		}
		ids := []string{f.Key}
		for _, o := range open {
			ids = append(ids, o.job+" ("+o.process+")")
		}
		found = append(found, Anomaly{IDs: ids, At: b.from,
			Text: fmt.Sprintf("%d jobs of key %s were held at %s, %d may be", len(open), f.Key,
				seconds(b.from), f.Most)})
	}
	return most, found
}

// unordered looks for jobs of a sequence that began after one behind them.
func (f *KeyFacts) unordered(all []keyedBelief) (found []Anomaly) {
	if !f.Sequence || len(all) == 0 {
		return nil
	}
	last := all[0]
	for _, b := range all {
		if b.place < last.place {
			found = append(found, Anomaly{IDs: []string{f.Key, b.job, last.job}, At: b.from, Text: fmt.Sprintf(
				"job %s of sequence %s was begun at %s by %s, after job %s, which comes behind it, at %s", b.job, f.Key,
				seconds(b.from), b.process, last.job, seconds(last.from))})
			continue
		}
		last = b
	}
	return found
}
