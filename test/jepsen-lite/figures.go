package main

import (
	"slices"
)

// figures are the numbers of a run that people ask for first.
func figures(v *view) map[string]any {
	f := v.figures
	outcomes := make(map[string]map[Outcome]int)
	var latencies []int64
	for i := range v.Ops {
		op := &v.Ops[i]
		switch op.Func {
		case opSubmit, opGet, opGetMin, opCancel, opReport, opWait, opForge, opRepeat:
			if outcomes[op.Func] == nil {
				outcomes[op.Func] = make(map[Outcome]int)
			}
			outcomes[op.Func][op.Outcome]++
		}
		if op.Func == opSubmit && op.Outcome == OK {
			latencies = append(latencies, op.Return-op.Invoke)
		}
	}
	f["outcomes"] = outcomes
	slices.Sort(latencies)
	if n := len(latencies); n > 0 {
		f["submit_p50_ms"], f["submit_p99_ms"] = latencies[n/2]/1e6, latencies[n*99/100]/1e6
	}
	kinds := make(map[string]int)
	for _, fault := range v.Faults {
		kinds[fault.Nemesis]++
	}
	f["faults_by_kind"], f["fault_pairs"] = kinds, len(pairs(v.Faults))
	f["terms"], f["leaders"] = terms(v.Samples)
	f["jobs"] = len(v.Final)
	f["leader_ms"], f["write_ms"] = v.Liveness.LeaderMs, v.Liveness.WriteMs
	f["nodes_ms"], f["drain_ms"] = v.Liveness.NodesMs, v.Liveness.DrainMs
	f["seconds"] = v.End / 1e9
	return f
}

// pairs are the kinds of nemeses that were at work at the same time.
func pairs(faults []Fault) map[string]int {
	met := make(map[string]int)
	for i, a := range faults {
		for _, b := range faults[i+1:] {
			if a.Lane != b.Lane && a.From < b.To && b.From < a.To {
				met[min(a.Nemesis, b.Nemesis)+" + "+max(a.Nemesis, b.Nemesis)]++
			}
		}
	}
	return met
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
