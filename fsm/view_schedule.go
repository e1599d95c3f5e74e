package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// ScheduleOf returns a schedule as it stands.
func ScheduleOf(vw *View, name rota.ScheduleName) (rota.Schedule, bool) {
	r := vw.m.schedules.rows.get(name)
	if r == nil {
		return rota.Schedule{}, false
	}
	return r.words(), true
}

func (r *scheduleRow) words() rota.Schedule {
	return rota.Schedule{ScheduleSpec: *r.spec, State: r.state(), Why: r.why, Version: r.version, ETag: r.etag(), Set: r.set, Through: r.through,
		Live: slices.Clone(r.live), Waiting: slices.Clone(r.waiting), Runs: r.runs, Skipped: r.skipped, Missed: r.missed, Failed: r.failed,
		Decisions: slices.Clone(r.decisions), By: r.by}
}

// SchedulesOf lists the schedules in the order of their names.
func SchedulesOf(vw *View) []rota.Schedule {
	list := make([]rota.Schedule, 0, vw.m.schedules.rows.len())
	vw.m.schedules.rows.scan(func(_ rota.ScheduleName, r *scheduleRow) bool {
		list = append(list, r.words())
		return true
	})
	return list
}

// DueSchedule is what a leader must know of an active schedule.
type DueSchedule struct {
	Name    rota.ScheduleName
	Times   *rota.ScheduleTimes
	Version uint64
	// Set is what periods count from where they have no start.
	Set, Through rota.Date
	State        rota.ScheduleState
}

func (r *scheduleRow) due() DueSchedule {
	return DueSchedule{r.spec.Name, &r.spec.ScheduleTimes, r.version, r.set, r.through, r.state()}
}

// ActiveOf lists the active schedules for a leader, in the order of their names.
func ActiveOf(vw *View) (list []DueSchedule) {
	vw.m.schedules.rows.scan(func(_ rota.ScheduleName, r *scheduleRow) bool {
		if r.state() == rota.ScheduleActive {
			list = append(list, r.due())
		}
		return true
	})
	return list
}

// DueOf returns what a Fire of a schedule must be reckoned by.
func DueOf(vw *View, name rota.ScheduleName) (DueSchedule, bool) {
	r := vw.m.schedules.rows.get(name)
	if r == nil {
		return DueSchedule{}, false
	}
	return r.due(), true
}

// whyRunWaits tells what a run waits for that a schedule has queued, as it overlaps with others, and
// reports whether it is one that somebody may read.
func whyRunWaits(vw *View, x *rota.Explanation, rd *access.Reader) bool {
	name, run := rota.SplitRunID(x.Job)
	r := vw.m.schedules.rows.get(name)
	if !run || r == nil || !rd.Reads(r.kept.Tenant, r.kept.Queue) {
		return false
	}
	before := slices.Index(r.waiting, x.Job)
	if before < 0 {
		return false
	}
	x.State = rota.JobBlocked
	w := rota.Why{Reason: "WAITING_FOR_RUN"}
	switch {
	case r.paused:
		w.Reason, w.Detail = "SCHEDULE_PAUSED", fmt.Sprintf("schedule %s is paused: %s", name, r.why)
		x.WouldRun = append(x.WouldRun, fmt.Sprintf("the schedule is resumed (rota schedule resume %s)", name))
	case len(r.live) > 0:
		shown := r.live[:min(len(r.live), parentsShown)]
		var names []string
		for _, id := range shown {
			if j := vw.m.jobs.get(id); rd.Reads(j.spec.Tenant, j.spec.Queue) { // the schedule may have been set to others since
				names = append(names, fmt.Sprintf("%s (%s)", id, j.state))
			}
		}
		w.Detail = fmt.Sprintf("%d runs of schedule %s live, whose overlap is %s: %s", len(r.live), name, r.spec.Overlap, strings.Join(names, ", "))
		if more := len(r.live) - len(names); more > 0 {
			w.Detail += fmt.Sprintf(" and %d more", more)
		}
		x.WouldRun = append(x.WouldRun, "the last of them has ended")
	default:
		w.Reason, w.Detail = "RUN_REFUSED", fmt.Sprintf("it is tried again each second: %s", r.why)
	}
	x.Reasons = append(x.Reasons, w)
	if before > 0 {
		x.Reasons = append(x.Reasons, rota.Why{Reason: "BEHIND_EARLIER_DATES", Detail: fmt.Sprintf("%d dates wait before it, the first is %s", before, r.waiting[0])})
		x.WouldRun = append(x.WouldRun, "the runs of the dates before it have ended")
	}
	return true
}

// BatchOf returns a batch as it stands.
func BatchOf(vw *View, id rota.BatchID) (rota.Batch, bool) {
	r := vw.m.batches.rows.get(id)
	if r == nil {
		return rota.Batch{}, false
	}
	return r.words(), true
}

func (r *batchRow) words() rota.Batch {
	b := rota.Batch{ID: r.id, State: r.state(), Tenant: r.tenant, Queue: r.queue, Type: r.typ, Size: r.size, BatchCounts: r.counts, Opened: r.opened,
		Sealed: r.sealed, Finished: r.finished, Why: r.why, By: r.by}
	switch b.State {
	case rota.BatchOpen:
		b.SealsAt = r.seals()
	case rota.BatchFinished:
		b.Callback = rota.CallbackID(r.id)
	case rota.BatchSealed:
	}
	return b
}

// EachBatch calls yield for the batches behind an id, in the order of their ids, until that
// returns false.
func EachBatch(vw *View, after rota.BatchID, yield func(rota.Batch) bool) {
	vw.m.batches.rows.tree.Ascend(after, func(id rota.BatchID, r *batchRow) bool {
		return id == after || yield(r.words())
	})
}

// BatchTotals counts the batches by state.
type BatchTotals [rota.BatchFinished + 1]int64

// BatchTotalsOf returns how many batches there are, without a look at any of them.
func BatchTotalsOf(vw *View) (t BatchTotals) {
	b := &vw.m.batches
	t[rota.BatchOpen], t[rota.BatchSealed] = b.toCome.n-b.toCome.sealed, b.toCome.sealed
	t[rota.BatchFinished] = int64(b.rows.len()) - b.toCome.n
	return t
}

// WebhookOf returns a webhook as it stands.
func WebhookOf(vw *View, name rota.WebhookName) (rota.Webhook, bool) {
	r := vw.m.hooks.rows.get(name)
	if r == nil {
		return rota.Webhook{}, false
	}
	return r.words(), true
}

func (r *hookRow) words() rota.Webhook {
	w := rota.Webhook{WebhookSpec: r.spec, Why: r.why, Version: r.version, ETag: r.etag(), Began: r.began, Cursor: r.cursor, Pending: r.pending,
		Delivered: r.delivered, Failed: r.failed, Gaps: r.gaps, Sees: slices.Clone(r.sees), Rotated: r.rotated, Set: r.set, By: r.by}
	w.Kinds = slices.Clone(w.Kinds)
	if r.disabled {
		w.State = rota.WebhookDisabled
	}
	if r.gaps > 0 {
		w.Gap = &rota.WebhookGap{After: r.gapFrom, Before: r.gapUntil}
	}
	return w
}

// WebhooksOf lists the webhooks in the order of their names.
func WebhooksOf(vw *View) []rota.Webhook {
	list := make([]rota.Webhook, 0, vw.m.hooks.rows.len())
	vw.m.hooks.rows.scan(func(_ rota.WebhookName, r *hookRow) bool {
		list = append(list, r.words())
		return true
	})
	return list
}
