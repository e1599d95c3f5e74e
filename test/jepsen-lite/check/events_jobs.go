package check

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
)

// endKinds are the events that end a job, by the resulting state.
var endKinds = map[string]string{"COMPLETED": "jobCompleted", "DEAD": "jobDead", "EXPIRED": "jobExpired",
	"CANCELLED": "jobCancelled"}

// jobEvents are the events about one job, in order.
type jobEvents struct {
	all []*SeenEvent
	// last is the last one except for assignments dropped, as a round was decided before the end of the job was
	// applied, and for the ends of leases that outlived the job.
	last *SeenEvent
	// ends are those that end it; assigned and ended are of its leases.
	ends            []*SeenEvent
	assigned, ended map[string]*SeenEvent
}

func (v *view) eventsByJob() map[string]*jobEvents {
	jobs := make(map[string]*jobEvents)
	for i := range v.Events {
		e := &v.Events[i]
		if e.Job == "" || e.Schedule != "" || e.isOfBatch() { // schedules and batches report the job that they start
			continue
		}
		j := jobs[e.Job]
		if j == nil {
			j = &jobEvents{assigned: make(map[string]*SeenEvent), ended: make(map[string]*SeenEvent)}
			jobs[e.Job] = j
		}
		j.all = append(j.all, e)
		if e.Kind != "assignmentDropped" && !v.outlived(e) {
			j.last = e
		}
		switch e.Kind {
		case "jobAssigned":
			j.assigned[e.Lease] = e
		case "jobCompleted":
			j.ends = append(j.ends, e)
			j.ended[e.Lease] = e
		case "leaseCancelled", "leaseExpired", "leaseDeclined":
			j.ended[e.Lease] = e
		case "leaseRevoked":
			if l := v.leases.all[e.Lease]; l != nil && l.outlives != nil { // it is shown as ended, for this reason
				j.ended[e.Lease] = e
			}
		case "jobDead", "jobExpired", "jobCancelled":
			j.ends = append(j.ends, e)
			if e.Kind == "jobCancelled" && e.Lease != "" &&
				j.ended[e.Lease] == nil { // by its handler: that ends its lease, too
				j.ended[e.Lease] = e
			}
		}
	}
	return jobs
}

// checkJobEvents compares the events with the observations of producers, workers and readers of the jobs.
func checkJobEvents(v *view) (found []Anomaly) {
	jobs := v.eventsByJob()
	for _, id := range v.ids {
		for _, text := range eventsOfJob(v, id, jobs[id]) {
			found = append(found, Anomaly{IDs: []string{id}, Text: "events of job " + id + ": " + text})
		}
	}
	preempted, cut := 0, 0
	for i := range v.Events {
		e := &v.Events[i]
		switch {
		case e.Kind == "leaseRevoked" && e.Reason == "PREEMPTED":
			preempted++
		case e.Kind == "leaseRevoked" && e.Reason == "QUOTA_CUT":
			cut++
		}
		if e.Kind == "leaseCancelled" && e.Reason == "WORKER_SUSPENDED" && len(v.suspensions[e.Worker]) == 0 {
			found = append(found, Anomaly{IDs: []string{e.Job, e.Lease}, Text: fmt.Sprintf(
				"event %s: a lease was cancelled since %s is SUSPENDED, which was never suspended", e.ID, e.Worker)})
		}
	}
	v.figures["leases_suspended"], v.figures["leases_preempted"] = len(v.suspended), preempted
	v.figures["leases_cut"] = cut
	return found
}

func eventsOfJob(v *view, id string, j *jobEvents) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	asked, accepted := false, false
	for _, op := range v.jobs[id] {
		asked = asked || op.Func == OpSubmit && op.Outcome != Refused
		accepted = accepted || op.Func == OpSubmit && op.Outcome == OK
	}
	if _, _, node := rota.SplitNodeJobID(rota.JobID(id)); node && j != nil && asked {
		return eventsOfWork(v.jobs[id], j) // checkWorkflows judges its life
	}
	switch {
	case j == nil && accepted:
		return []string{"there are none, though its submission was acknowledged"}
	case j == nil:
		return nil
	case !asked:
		return []string{fmt.Sprintf("there are %d, though it was never submitted, or refused", len(j.all))}
	case j.all[0].Kind != "jobEnqueued" && j.all[0].Kind != "jobDelayed":
		say("the first is %s", j.all[0].Kind)
	}
	if v.planned[id] { // plans end and revive it, which checkPlans judges
		j.ends = j.ends[max(0, len(j.ends)-1):]
		if len(j.ends) > 0 && j.last != j.ends[0] {
			j.ends = nil
		}
	}
	if len(j.ends) > 1 {
		say("it ended twice, by %s (%s) and by %s (%s)", j.ends[0].ID, j.ends[0].Kind, j.ends[1].ID, j.ends[1].Kind)
	}
	if n := len(j.ends); n > 0 && j.last != j.ends[n-1] {
		say("%s (%s) comes after its end", j.last.ID, j.last.Kind)
	}
	if final := v.final[id]; final != nil {
		kind := endKinds[final.State]
		if kind != "" && (len(j.ends) != 1 || j.ends[0].Kind != kind) || kind == "" && len(j.ends) > 0 {
			say("%d of them end it, and at the end it is %s", len(j.ends), final.State)
		}
		faults = append(faults, eventsOfAttempts(final, j)...)
	}
	return append(faults, eventsOfWork(v.jobs[id], j)...)
}

// eventsOfAttempts requires an assignment for each lease that is shown, by the same worker, and its end for the same
// reason.
func eventsOfAttempts(final *FinalJob, j *jobEvents) (faults []string) {
	for i := range final.Attempts {
		a := &final.Attempts[i]
		lease := leaseKeptOf(a.Lease)
		assigned, ended := j.assigned[lease], j.ended[lease]
		switch {
		case assigned == nil:
			faults = append(faults, fmt.Sprintf("no event has lease %s, which is shown", lease))
		case assigned.Worker != a.Worker:
			faults = append(faults, fmt.Sprintf("lease %s went to %s, and %s is shown", lease, assigned.Worker,
				a.Worker))
		case ended == nil && !slices.Contains([]string{"", "PROVIDER_FAIL"},
			a.End): // a permanent failure is jobDead alone
			faults = append(faults, fmt.Sprintf("no event has the end of lease %s: %s", lease, a.End))
		case ended != nil && a.End != "" && ended.Reason != a.End:
			faults = append(faults, fmt.Sprintf("lease %s ended by %s, and %s is shown", lease, ended.Reason, a.End))
		}
	}
	return faults
}

// eventsOfWork requires an assignment for each lease that a worker had, and the completion of the one that was
// accepted.
func eventsOfWork(ops []*Op, j *jobEvents) (faults []string) {
	for _, op := range ops {
		lease := leaseKeptOf(op.Lease)
		switch {
		case (op.Func == OpStart || op.Func == OpGrant) && j.assigned[lease] == nil:
			faults = append(faults, fmt.Sprintf("no event has lease %s, which %s had", lease, op.Process))
		case op.Func == OpReport && op.Did == DidComplete && op.Outcome == OK &&
			(j.ended[lease] == nil || j.ended[lease].Kind != "jobCompleted"):
			faults = append(faults, fmt.Sprintf("no event has the completion of lease %s, which was acknowledged to %s",
				lease, op.Process))
		}
	}
	return faults
}
