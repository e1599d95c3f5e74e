package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

func (vw *View) whyDelayed(x *rota.Explanation, j *state.JobRow, rd *access.Reader) {
	w := rota.Why{Reason: "NOT_YET_DUE", Detail: dueText(vw.m.Header.Now(), j.Due)}
	if l := vw.m.leasing.bar(j); j.Ready != 0 && l != nil {
		x.Reasons = append(x.Reasons, vw.whyLingers(l, 0, "", rd))
		if j.Ready <= vw.m.Header.Clock {
			return
		}
		w.Detail = dueText(vw.m.Header.Now(), j.Ready)
	}
	switch {
	case j.DueDate != 0:
		w.Detail = fmt.Sprintf("not before %s, in %d ms", j.DueDate, j.DueDate-vw.m.Header.Date())
	case j.Revived() || vw.m.flows.unheard(j):
		w.Detail = "the worker of its cancelled lease may not have heard of it; " + w.Detail
	case j.LastReason == rota.ReasonSnoozed:
		w.Reason = "SNOOZED"
		w.Detail = fmt.Sprintf("try %d was put off by its handler %d times; %s", j.Attempt+1, j.Snoozes, w.Detail)
	case j.LastReason == rota.ReasonWorkerLost:
		w.Reason = "BACKING_OFF"
		w.Detail = fmt.Sprintf("%s; %s", lossesText(j), w.Detail)
	case j.Declines > 0:
		w.Reason = "BACKING_OFF"
		w.Detail = fmt.Sprintf("try %d was declined %d times; %s", j.Attempt+1, j.Declines, w.Detail)
	case j.Attempt > 0:
		w.Reason = "BACKING_OFF"
		w.Detail = fmt.Sprintf("try %d ended with %s; %s", j.Attempt, j.LastReason, w.Detail)
	}
	x.Reasons = append(x.Reasons, w)
}

// whyLingers names the worker that may not have stopped yet, as it has a lease that has outlived its job. The explained
// job waits for the end of that lease; if key is given, for a slot of that key. others is how many more such leases are
// open.
func (vw *View) whyLingers(l *state.LeaseRow, others int, key string, rd *access.Reader) rota.Why {
	worker, job := "a worker", "another job"
	w := rota.Why{Reason: "WORKER_NOT_STOPPED", Workers: 1}
	if rd.Has(rota.RightStatus, access.Everything, access.Everything) {
		worker, w.WorkerIDs = fmt.Sprintf("worker %s", l.Worker), []rota.WorkerID{l.Worker}
	}
	if rd.Reads(l.Tenant, l.Queue) {
		job = fmt.Sprintf("job %s", l.Job)
	}
	w.Detail = fmt.Sprintf(
		"%s has not confirmed that it stopped work on %s, which ended (%s): its lease ends at %s at the latest, in %d ms",
		worker, job, l.Revoked, vw.m.Header.Now().At(l.Due).Date, max(0, l.Due-vw.m.Header.Clock))
	if key != "" {
		w.Detail = fmt.Sprintf("a slot of key %s: %s", key, w.Detail)
	}
	if others > 0 {
		w.Detail += fmt.Sprintf("; %d more such leases are open", others)
	}
	return w
}

// whyKeysLinger explains which slots of full keys are used by leases whose jobs have ended.
func (vw *View) whyKeysLinger(x *rota.Explanation, j *state.JobRow, rd *access.Reader) {
	keys.EachLingering(&vw.m.keyring, j, func(key string, one *state.LeaseRow, n int) {
		x.Reasons = append(x.Reasons, vw.whyLingers(one, n-1, key, rd))
	})
}

// dueText returns when a job is due, by date. A job that is already due waits for a sweep.
func dueText(now rota.Moment, c rota.Clock) string {
	if c <= now.Clock {
		return fmt.Sprintf("due since %s, the next sweep takes it", now.At(c).Date)
	}
	return fmt.Sprintf("due at %s, in %d ms", now.At(c).Date, c-now.Clock)
}

// lossesText returns what lost workers mean for a job.
func lossesText(j *state.JobRow) string {
	n := len(j.History().Losses)
	text := "its worker was lost while it ran"
	if n > 1 {
		text = fmt.Sprintf("%d workers were lost while they ran it", n)
	}
	if j.Isolated() {
		text += ": it runs alone on a worker, to tell whether it is the cause"
	}
	return text
}
