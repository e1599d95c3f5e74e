package schedules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

// Schedule returns a schedule in its present state.
func (sc *Schedules) Schedule(name rota.ScheduleName) (rota.Schedule, bool) {
	r := sc.Rows.Get(name)
	if r == nil {
		return rota.Schedule{}, false
	}
	return r.Words(), true
}

// List lists the schedules in the order of their names.
func (sc *Schedules) List() []rota.Schedule {
	list := make([]rota.Schedule, 0, sc.Rows.Len())
	sc.Rows.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		list = append(list, r.Words())
		return true
	})
	return list
}

// Due is what a leader needs of an active schedule.
type Due struct {
	Name    rota.ScheduleName
	Times   *rota.ScheduleTimes
	Version uint64
	// Set is the start of periods if they have no start of their own.
	Set, Through rota.Date
	State        rota.ScheduleState
}

func dueOf(r *state.ScheduleRow) Due {
	return Due{r.Spec.Name, &r.Spec.ScheduleTimes, r.Version, r.Set, r.Through, r.State()}
}

// Active lists the active schedules for a leader, in the order of their names.
func (sc *Schedules) Active() (list []Due) {
	sc.Rows.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		if r.State() == rota.ScheduleActive {
			list = append(list, dueOf(r))
		}
		return true
	})
	return list
}

// Due returns what a Fire of a schedule must be calculated from.
func (sc *Schedules) Due(name rota.ScheduleName) (Due, bool) {
	r := sc.Rows.Get(name)
	if r == nil {
		return Due{}, false
	}
	return dueOf(r), true
}

// runsShown is the maximum number of live runs that an explanation names.
const runsShown = 10

// WhyWaits explains what a run waits for that a schedule has queued because of overlap, and reports whether it is
// such a run and rd may read it.
func (sc *Schedules) WhyWaits(x *rota.Explanation, rd *access.Reader) bool {
	name, run := rota.SplitRunID(x.Job)
	r := sc.Rows.Get(name)
	if !run || r == nil || !rd.Reads(r.Kept.Tenant, r.Kept.Queue) {
		return false
	}
	before := slices.Index(r.Waiting, x.Job)
	if before < 0 {
		return false
	}
	x.State = rota.JobBlocked
	w := rota.Why{Reason: "WAITING_FOR_RUN"}
	switch {
	case r.Paused:
		w.Reason, w.Detail = "SCHEDULE_PAUSED", fmt.Sprintf("schedule %s is paused: %s", name, r.Why)
		x.WouldRun = append(x.WouldRun, fmt.Sprintf("the schedule is resumed (rota schedule resume %s)", name))
	case len(r.Live) > 0:
		shown := r.Live[:min(len(r.Live), runsShown)]
		var names []string
		for _, id := range shown {
			if j := sc.s.JobTable.Get(id); rd.Reads(j.Spec.Tenant,
				j.Spec.Queue) { // the schedule may have changed since
				names = append(names, fmt.Sprintf("%s (%s)", id, j.State))
			}
		}
		w.Detail = fmt.Sprintf("%d runs of schedule %s live, whose overlap is %s: %s", len(r.Live), name,
			r.Spec.Overlap, strings.Join(names, ", "))
		if more := len(r.Live) - len(names); more > 0 {
			w.Detail += fmt.Sprintf(" and %d more", more)
		}
		x.WouldRun = append(x.WouldRun, "the last of them has ended")
	default:
		w.Reason, w.Detail = "RUN_REFUSED", fmt.Sprintf("it is tried again each second: %s", r.Why)
	}
	x.Reasons = append(x.Reasons, w)
	if before > 0 {
		x.Reasons = append(x.Reasons, rota.Why{Reason: "BEHIND_EARLIER_DATES",
			Detail: fmt.Sprintf("%d dates wait before it, the first is %s", before, r.Waiting[0])})
		x.WouldRun = append(x.WouldRun, "the runs of the dates before it have ended")
	}
	return true
}
