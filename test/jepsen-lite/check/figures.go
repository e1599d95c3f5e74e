package check

import (
	"slices"
)

// figures returns the numbers of a run that people ask for first.
func figures(v *view) map[string]any {
	f := v.figures
	outcomes := make(map[string]map[Outcome]int)
	var latencies []int64
	for i := range v.Ops {
		op := &v.Ops[i]
		switch op.Func {
		case OpSubmit, OpGet, OpGetMin, OpCancel, OpReport, OpWait, OpForge, OpRepeat:
			if outcomes[op.Func] == nil {
				outcomes[op.Func] = make(map[Outcome]int)
			}
			outcomes[op.Func][op.Outcome]++
		}
		if op.Func == OpSubmit && op.Outcome == OK {
			latencies = append(latencies, op.Return-op.Invoke)
		}
	}
	f["outcomes"] = outcomes
	slices.Sort(latencies)
	if n := len(latencies); n > 0 {
		f["submit_p50_ms"], f["submit_p99_ms"] = latencies[n/2]/1e6, latencies[n*99/100]/1e6
	}
	struck, met, n := make(map[string]int), pairs(v.Faults), len(kinds(v.History))
	for _, fault := range v.Faults {
		struck[fault.Nemesis]++
	}
	f["faults_by_kind"], f["fault_pairs"], f["fault_pairs_all"] = struck, len(met), n*(n+1)/2
	f["fault_pairs_struck"], f["judge_ms"] = pairNames(met), v.took
	f["terms"], f["leaders"] = terms(v.Samples)
	f["jobs"] = len(v.Final)
	f["leader_ms"], f["write_ms"] = v.Liveness.LeaderMs, v.Liveness.WriteMs
	f["nodes_ms"], f["drain_ms"] = v.Liveness.NodesMs, v.Liveness.DrainMs
	if len(v.BadLinks) > 0 {
		f["bad_links"] = v.badLinkFigures()
	}
	f["seconds"] = v.End / 1e9
	return f
}

// terms counts leaderships that were seen, and the nodes that had one.
func terms(samples []Sample) (seen, leaders int) {
	byTerm, byNode := make(map[uint64]bool), make(map[string]bool)
	for _, s := range samples {
		if s.Leader != "" {
			byTerm[s.Term], byNode[s.Leader] = true, true
		}
	}
	return len(byTerm), len(byNode)
}
