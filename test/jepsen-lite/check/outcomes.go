package check

import (
	"fmt"
)

// checkOutcomes compares the acknowledged outcomes of handlers with the attempts that are shown and with the events
// (SPEC §20.3, §20.4).
func checkOutcomes(v *view) (found []Anomaly) {
	if len(v.Events) >= EventsRetained {
		v.undecided = append(v.undecided, "outcomes: the oldest events are no longer retained")
		return nil
	}
	said := make(map[string]*attempt)
	for _, a := range v.attempts {
		if a.end != nil && a.lost == nil && a.report != nil && a.report.Outcome == OK && a.report.Did == a.end.Did {
			said[a.lease] = a
		}
	}
	ended, waited := v.waits()
	count := make(map[string]int)
	for i := range v.Final {
		j := &v.Final[i]
		for k := range j.Attempts {
			at := &j.Attempts[k]
			a := said[at.Lease]
			if a == nil {
				continue
			}
			count[a.end.Did]++
			next := (*FinalAttempt)(nil)
			if k+1 < len(j.Attempts) {
				next = &j.Attempts[k+1]
			}
			text := v.outcomeFault(j, a, at, next)
			lease := leaseKeptOf(at.Lease)
			if until, again := waited[lease]; text == "" && again && until-ended[lease] < a.end.WaitMs {
				text = fmt.Sprintf("its next lease came %d ms after it: %d ms were asked for", until-ended[lease],
					a.end.WaitMs)
			}
			if text != "" {
				found = append(found, Anomaly{IDs: []string{j.ID, at.Lease}, At: a.end.Return,
					Text: fmt.Sprintf("job %s, attempt %d, which ended with %s: %s",
						j.ID, at.Number, a.end.Did, text)})
			}
		}
	}
	v.figures["outcomes_seen"] = count
	return found
}

// waits returns the clocks at which each lease ended, and at which the next one of its job came.
func (v *view) waits() (ended, next map[string]int64) {
	ended, next = make(map[string]int64), make(map[string]int64)
	last := make(map[string]string)
	for i := range v.Events {
		switch e := &v.Events[i]; e.Kind {
		case "leaseCancelled", "leaseDeclined", "leaseExpired":
			if !v.outlived(e) {
				ended[e.Lease], last[e.Job] = e.Clock, e.Lease
			}
		case "jobAssigned":
			if lease := last[e.Job]; lease != "" {
				next[lease] = e.Clock
				delete(last, e.Job)
			}
		case "jobCompleted", "jobDead", "jobExpired", "jobCancelled":
			delete(last, e.Job) // the next lease is of another life
		}
	}
	return ended, next
}

// outcomeFault describes the fault in a job's state after an attempt; next is nil for its last.
func (v *view) outcomeFault(j *FinalJob, a *attempt, at, next *FinalAttempt) string {
	counts := a.end.Did == DidFail || a.end.Did == DidLater
	limit := v.Queues[j.Queue].AttemptMax
	for _, op := range v.jobs[j.ID] {
		if op.Func == OpSubmit && op.Limit > 0 {
			limit = op.Limit
		}
	}
	switch {
	case v.planned[j.ID] || !counts && a.end.Did != DidSnooze: // a plan's retry starts over
		return ""
	case next == nil && counts && j.State == "DEAD" && int64(at.Number)+1 != limit:
		return fmt.Sprintf("the job is DEAD, and has %d attempts", limit)
	case next == nil:
		return ""
	case counts && int64(at.Number)+1 >= limit:
		return fmt.Sprintf("attempt %d follows, the job has %d", next.Number, limit)
	case counts && next.Number != at.Number+1:
		return fmt.Sprintf("it counts, and attempt %d follows", next.Number)
	case !counts && next.Number != at.Number:
		return fmt.Sprintf("it does not count, and attempt %d follows", next.Number)
	}
	return ""
}
