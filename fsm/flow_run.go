package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// A node runs on success, which is usual, on failure or always (SPEC §11.8). The last two wait until each of their
// parents is settled: it has ended, and so have the joining vertices that it grew. They outlive a workflow that is
// ending.

// runRules is the first rules version under which nodes may do so.
const runRules = 2

// outliving returns the vertices in work that outlive the end of their workflow.
func (f *flow) outliving(r *state.WorkflowRow) (numbers []uint32) {
	if !f.conditional {
		return nil
	}
	f.work.Scan(func(number uint32) bool {
		if f.rows[number].Outlives(r.Ending) {
			numbers = append(numbers, number)
		}
		return true
	})
	return numbers
}

// settled reports whether a vertex has ended and all joining vertices that it grew are settled.
func (f *flow) settled(number uint32) bool {
	s := f.sprouts[number]
	return f.rows[number].Over() && (s == nil || s.unsettled == 0)
}

// settle calls wait for each vertex that waits for the given one, or for another that is settled once it is.
func (f *flow) settle(number uint32, wait func(child uint32)) {
	for f.settled(number) {
		for _, c := range f.children[number] {
			wait(c)
		}
		v := f.rows[number]
		if !v.Joins() {
			return
		}
		number, _ = v.GrownBy()
		f.sprouts[number].unsettled--
	}
}

// unsettle undoes settle for a vertex that has no longer ended.
func (f *flow) unsettle(number uint32, wait func(child uint32)) {
	for {
		for _, c := range f.children[number] {
			wait(c)
		}
		v := f.rows[number]
		if !v.Joins() {
			return
		}
		number, _ = v.GrownBy()
		s := f.sprouts[number]
		if s.unsettled++; s.unsettled > 1 {
			return
		}
	}
}

// skips returns why a due vertex does not run; ReasonNone if it runs. A vertex that waits for one that was not needed
// is not needed either.
func (f *flow) skips(v *state.VertexRow) rota.Reason {
	switch {
	case v.Run == rota.RunAlways:
		return rota.ReasonNone
	case !f.conditional:
		return rota.ReasonParentFailed
	}
	failed := false
	for _, p := range f.sources(v) {
		parent := f.rows[p]
		failed = failed || parent.Lost() && !parent.Unneeded()
	}
	switch {
	case v.Run == rota.RunOnFailure && failed:
		return rota.ReasonNone
	case v.Run == rota.RunOnFailure || !failed:
		return rota.ReasonNotNeeded
	default:
		return rota.ReasonParentFailed
	}
}
