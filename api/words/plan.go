package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// PlanSpecToWire converts the specification of a plan.
func PlanSpecToWire(p *rota.PlanSpec) *rotav1.PlanSpec {
	return &rotav1.PlanSpec{Id: string(p.ID), Verb: p.Verb.String(), Filter: clean(p.Filter), To: string(p.To),
		Priority: p.Priority, Max: p.Max}
}

// PlanSpecFromWire is the inverse of PlanSpecToWire.
func PlanSpecFromWire(w *rotav1.PlanSpec) (rota.PlanSpec, error) {
	verb, err := planVerbs.value(w.GetVerb())
	p := rota.PlanSpec{ID: rota.PlanID(w.GetId()), Verb: verb, Filter: w.GetFilter(), To: rota.QueueName(w.GetTo()),
		Max: w.GetMax()}
	if w != nil {
		p.Priority = w.Priority
	}
	return p, err
}

// PlanToWire converts a plan's current state.
func PlanToWire(p *rota.Plan) *rotav1.Plan {
	w := &rotav1.Plan{Spec: PlanSpecToWire(&p.PlanSpec), State: p.State.String(), Why: clean(p.Why),
		StartedMs:      int64(p.Started.Date),
		StartedClockMs: int64(p.Started.Clock), EndedMs: int64(p.Ended.Date), EndedClockMs: int64(p.Ended.Clock),
		Cursor: string(p.Cursor), Done: p.Done, Refused: p.Refused, Passed: p.Passed, By: string(p.By)}
	for _, r := range p.Refusals {
		w.Refusals = append(w.Refusals, &rotav1.PlanRefusal{Job: string(r.Job), Text: clean(r.Text)})
	}
	return w
}

// PlanFromWire is the inverse of PlanToWire.
func PlanFromWire(w *rotav1.Plan) (rota.Plan, error) {
	spec, err := PlanSpecFromWire(w.GetSpec())
	if err != nil {
		return rota.Plan{}, err
	}
	state, err := planStates.value(w.GetState())
	p := rota.Plan{PlanSpec: spec, State: state, Why: w.GetWhy(),
		Started: moment(w.GetStartedMs(), w.GetStartedClockMs()),
		Ended:   moment(w.GetEndedMs(), w.GetEndedClockMs()), Cursor: rota.JobID(w.GetCursor()), Done: w.GetDone(),
		Refused: w.GetRefused(), Passed: w.GetPassed(), By: rota.Principal(w.GetBy())}
	for _, r := range w.GetRefusals() {
		p.Refusals = append(p.Refusals, rota.PlanRefusal{Job: rota.JobID(r.GetJob()), Text: r.GetText()})
	}
	return p, err
}

// PlansFromWire converts a list of plans.
func PlansFromWire(w []*rotav1.Plan) ([]rota.Plan, error) { return tryEach(w, PlanFromWire) }

// PlanPreviewToWire converts a preview.
func PlanPreviewToWire(p *rota.PlanPreview) *rotav1.PlanPreview {
	w := &rotav1.PlanPreview{Count: p.Count, Complete: p.Complete}
	for _, id := range p.Jobs {
		w.Jobs = append(w.Jobs, string(id))
	}
	return w
}

// PlanPreviewFromWire is the inverse of PlanPreviewToWire.
func PlanPreviewFromWire(w *rotav1.PlanPreview) (rota.PlanPreview, error) {
	p := rota.PlanPreview{Count: w.GetCount(), Jobs: []rota.JobID{}, Complete: w.GetComplete()}
	for _, id := range w.GetJobs() {
		p.Jobs = append(p.Jobs, rota.JobID(id))
	}
	return p, nil
}
