package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/plans"
	"github.com/rotasched/rota/fsm/internal/schedules"
	"github.com/rotasched/rota/internal/filter"
)

// ScheduleOf returns a schedule in its present state.
func ScheduleOf(vw *View, name rota.ScheduleName) (rota.Schedule, bool) {
	return vw.m.schedules.Schedule(name)
}

// SchedulesOf lists the schedules in the order of their names.
func SchedulesOf(vw *View) []rota.Schedule { return vw.m.schedules.List() }

// DueSchedule is what a leader needs of an active schedule.
type DueSchedule = schedules.Due

// ActiveOf lists the active schedules for a leader, in the order of their names.
func ActiveOf(vw *View) []DueSchedule { return vw.m.schedules.Active() }

// DueOf returns what a Fire of a schedule must be calculated from.
func DueOf(vw *View, name rota.ScheduleName) (DueSchedule, bool) { return vw.m.schedules.Due(name) }

// InstalledTZData returns the installed release of the time zone database and its packed zones, which never change;
// false if none is installed and each node uses the release in its binary.
func InstalledTZData(vw *View) (t rota.TZData, data []byte, ok bool) {
	r := vw.m.ZoneTable.Get("")
	if r == nil {
		return t, nil, false
	}
	return r.Words(), r.Data, true
}

// BatchOf returns a batch in its present state.
func BatchOf(vw *View, id rota.BatchID) (rota.Batch, bool) { return vw.m.batches.Batch(id) }

// EachBatch calls yield for the batches after an id, in the order of their ids, until it returns false.
func EachBatch(vw *View, after rota.BatchID, yield func(rota.Batch) bool) {
	vw.m.batches.Each(after, yield)
}

// BatchTotals is the number of batches by state.
type BatchTotals [rota.BatchFinished + 1]int64

// BatchTotalsOf returns how many batches there are, without reading any of them.
func BatchTotalsOf(vw *View) BatchTotals { return vw.m.batches.Totals() }

// WebhookOf returns a webhook in its present state.
func WebhookOf(vw *View, name rota.WebhookName) (rota.Webhook, bool) { return vw.m.hooks.Hook(name) }

// WebhooksOf lists the webhooks in the order of their names.
func WebhooksOf(vw *View) []rota.Webhook { return vw.m.hooks.List() }

// PlanOf returns a plan in its present state.
func PlanOf(vw *View, id rota.PlanID) (rota.Plan, bool) { return vw.m.plans.Plan(id) }

// PlansOf lists the plans in the order of their ids.
func PlansOf(vw *View) []rota.Plan { return vw.m.plans.List() }

// PlanWork is what a leader needs of a running plan.
type PlanWork = plans.Work

// RunningPlans lists the running plans for a leader, in the order of their ids.
func RunningPlans(vw *View) []PlanWork { return vw.m.plans.Running() }

// PreviewOf returns the plan that would result if it started now.
func PreviewOf(vw *View, spec rota.PlanSpec) PlanWork { return vw.m.plans.Preview(spec) }

// ReadPlan parses the filter of a plan, and refuses a plan without effect: one without a term, and one whose verb
// applies to none of the states that it selects.
func ReadPlan(p *rota.PlanSpec) (filter.Filter, error) { return plans.Read(p) }
