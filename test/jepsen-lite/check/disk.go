package check

import (
	"fmt"
	"slices"
)

// checkDisk requires a leader whose disk hangs to have a successor in time, unless another fault keeps the others from
// it.
func checkDisk(v *view) (found []Anomaly) {
	handovers, longest := 0, int64(0)
	for i := range v.Faults {
		f := &v.Faults[i]
		old := v.leaderAt(f.From)
		if f.Nemesis != "hung-fsync" || f.To-f.From < int64(MaxHung) || !slices.Contains(f.Targets, old) {
			continue
		}
		took := v.succeeded(f, old)
		if took <= int64(MaxHung) {
			handovers, longest = handovers+1, max(longest, took)
			continue
		}
		if v.besides(f) {
			continue
		}
		found = append(found, Anomaly{IDs: []string{old}, At: f.From, Text: fmt.Sprintf(
			"the disk of leader %s hung from %s to %s, and no other led within %s", old, seconds(f.From), seconds(f.To),
			MaxHung)})
	}
	if handovers > 0 {
		v.figures["hung_leaders_succeeded"], v.figures["hung_leader_succeeded_ms_most"] = handovers, longest/1e6
	}
	return found
}

// besides reports whether a fault of other nodes was active during the time allowed for f's successor, or shortly
// before: then there may have been no majority.
func (v *view) besides(f *Fault) bool {
	return slices.ContainsFunc(v.Faults, func(g Fault) bool {
		return g.From < f.From+int64(MaxHung) && f.From < g.To+int64(maxFailStop) && !slices.Equal(g.Targets, f.Targets)
	})
}

// leaderAt returns the node that was last seen to lead before a moment.
func (v *view) leaderAt(at int64) (leader string) {
	for _, s := range v.Samples {
		if s.At <= at && s.Leader != "" {
			leader = s.Leader
		}
	}
	return leader
}

// succeeded returns how long it took from f until another node was seen to lead; never if none was.
func (v *view) succeeded(f *Fault, old string) int64 {
	for _, s := range v.Samples {
		if s.At > f.From && s.Leader != "" && s.Leader != old {
			return s.At - f.From
		}
	}
	return never
}
