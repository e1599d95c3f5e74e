package check

import (
	"cmp"
	"fmt"
	"slices"
)

// afterPause is how long a worker may take after a pause to see that a deadline has passed meanwhile: during that time
// it does not count as believing. A worker that still believes after it is caught.
const afterPause = int64(1e9)

// belief is a stretch in which a worker's handler considered a job its own.
type belief struct {
	span
	*attempt
}

// checkOverlap uses handlers' own times, on the host's single clock: from their first action to their last, or to their
// process's end, or to the moment from which their worker may have been suspended (SPEC §3.11).
func checkOverlap(v *view) (found []Anomaly) {
	byJob := v.beliefs()
	for _, id := range v.ids {
		latest := belief{}
		for i, b := range byJob[id] {
			if i > 0 && b.from < latest.to && b.attempt != latest.attempt {
				found = append(found, overlapping(id, latest, b))
			}
			if i == 0 || b.to > latest.to {
				latest = b
			}
		}
	}
	return found
}

// beliefs returns the beliefs for each job, ordered by their beginnings.
func (v *view) beliefs() map[string][]belief {
	byJob := make(map[string][]belief)
	count := 0
	for _, a := range v.attempts {
		if a.start == nil {
			continue
		}
		count++
		until := v.downAfter(a.hand, a.start.Invoke)
		if a.end != nil {
			until = a.end.Return
		}
		until = min(until, max(a.start.Invoke, v.trustedUntil(a.job, a.lease, a.start.Token)))
		for _, s := range without(span{a.start.Invoke, until}, v.paused(a.hand)) {
			byJob[a.job] = append(byJob[a.job], belief{s, a})
		}
	}
	v.figures["attempts"] = count
	for _, all := range byJob {
		slices.SortFunc(all, func(a, b belief) int { return cmp.Compare(a.from, b.from) })
	}
	return byJob
}

func overlapping(id string, a, b belief) Anomaly {
	return Anomaly{IDs: []string{id, a.lease, b.lease}, At: b.from, Text: fmt.Sprintf(
		"job %s was held by %s (token %s) from %s to %s and by %s (token %s) from %s: %d ms together", id,
		a.process, a.start.Token, seconds(a.from), seconds(a.to), b.process, b.start.Token, seconds(b.from),
		(min(a.to, b.to)-b.from)/1e6)}
}

// without removes pauses, and a moment after each, from a stretch.
func without(s span, pauses []span) (left []span) {
	for _, p := range pauses {
		if p.to < s.from || p.from > s.to {
			continue
		}
		if p.from > s.from {
			left = append(left, span{s.from, p.from})
		}
		s.from = max(s.from, min(p.to, never-afterPause)+afterPause)
	}
	if s.from < s.to {
		left = append(left, s)
	}
	return left
}
