package fsm

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// data returns where the outputs of a vertex's parents lie, once all have COMPLETED;
// nil for a root. It costs a look at each parent, once a job. What was found last is
// kept: of a thousand nodes that each wait for the same thousand, which are released
// in one entry, only the first pays. A completed vertex never changes, so what was
// found holds for as long as the workflow is there.
func (f *flow) data(v *vertexRow) *sched.Data {
	if len(v.parents) == 0 || f.waiting[v.number] > 0 {
		return nil
	}
	if f.outputs != nil && slices.Equal(f.outputsOf, v.parents) {
		return f.outputs
	}
	held := make(map[rota.WorkerID]int, min(16, len(v.parents)))
	data := make(sched.Data, 0, min(16, len(v.parents)))
	for _, p := range v.parents {
		w := f.rows[p].worker
		at, known := held[w]
		if !known {
			at = len(data)
			held[w] = at
			data = append(data, sched.HeldBy{Worker: w})
		}
		data[at].N++
	}
	slices.SortFunc(data, func(a, b sched.HeldBy) int { return cmp.Compare(a.Worker, b.Worker) })
	f.outputs, f.outputsOf = &data, v.parents
	return &data
}
