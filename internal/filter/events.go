package filter

import (
	"slices"

	"github.com/rotasched/rota"
)

// ofEvents are the terms that select events: those for properties of a job that its events contain.
var ofEvents = []string{"queue", "tenant", "id", "schedule", "workflow"}

// Events reads a line that selects events: fewer terms of the same grammar.
func Events(line string) (Filter, error) {
	f, err := Parse(line)
	if err != nil {
		return f, err
	}
	for _, t := range f.terms {
		if !slices.Contains(ofEvents, t.name) {
			return Filter{}, rota.Refusef(rota.KindInvalid, "filter",
				"events have no %s: filter events by queue, tenant, id, schedule or workflow", t.name)
		}
	}
	return f, nil
}

// Event reports whether an event passes, as its job would. One of a workflow itself is as its nodes' are.
func (f *Filter) Event(e *rota.Event) bool {
	if len(f.terms) == 0 {
		return true
	}
	j := rota.Job{JobSpec: rota.JobSpec{ID: e.Job, Queue: e.Queue, Tenant: e.Tenant}}
	if e.Job == "" && e.Run != "" {
		j.ID = rota.NodeJobID(rota.WorkflowID(e.Run), "")
	}
	return f.Early(&j) && f.Late(&j, 0)
}
