package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rotasched/rota"
)

// BatchFacts describe a batch as its user made it, and as it is shown at the end.
type BatchFacts struct {
	ID   string `json:"id"`
	Size int64  `json:"size,omitempty"`
	// At is the time of the first request; Opened and Sealed mean that the cluster acknowledged it.
	At     int64 `json:"at"`
	Opened bool  `json:"opened"`
	Sealed bool  `json:"sealed"`
	// Jobs were submitted with it, regardless of the answer.
	Jobs []string `json:"jobs"`
	// Shown is nil if no node knows it at the end; Labels are those of its callback.
	Shown  *rota.Batch       `json:"shown,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// readCallbacks makes the callbacks of batches count as jobs that may have been submitted at any time since the request
// for their batch.
func (v *view) readCallbacks() {
	for i := range v.Batches {
		f := &v.Batches[i]
		job := string(rota.CallbackID(rota.BatchID(f.ID)))
		v.jobs[job] = append(v.jobs[job], &Op{Process: "batch", Func: OpSubmit, Job: job, Invoke: f.At, Return: never,
			Outcome: Unknown})
	}
}

// batchLife is the life of a batch according to the events.
type batchLife struct {
	*BatchFacts
	opened, sealed, finished int
	// sealedAt is the entry that sealed it.
	sealedAt rota.Index
	counts   rota.BatchCounts
	live     map[string]bool
	faults   []string
}

func (b *batchLife) say(format string, args ...any) {
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

// checkBatches compares each batch's events with its jobs' (SPEC §24): it ends once, after all of them, and its
// callback counts them by how they ended.
func checkBatches(v *view) (found []Anomaly) {
	if len(v.Batches) == 0 {
		return nil
	}
	if len(v.Events) >= EventsRetained {
		v.undecided = append(v.undecided, "batches: the oldest events are no longer retained")
		return nil
	}
	lives, of := make(map[string]*batchLife), make(map[string]*batchLife)
	for i := range v.Batches {
		b := &batchLife{BatchFacts: &v.Batches[i], live: make(map[string]bool)}
		lives[b.ID] = b
		for _, job := range b.Jobs {
			of[job] = b
		}
	}
	for i := range v.Events {
		e := &v.Events[i]
		if b := lives[e.Of]; b != nil && e.isOfBatch() {
			b.told(e)
		} else if b := of[e.Job]; b != nil {
			b.toldOfJob(e)
		}
	}
	jobs, finished := int64(0), 0
	for i := range v.Batches {
		b := lives[v.Batches[i].ID]
		b.judge(v)
		for _, text := range b.faults {
			found = append(found, Anomaly{IDs: []string{b.ID}, At: b.At, Text: "batch " + b.ID + ": " + text})
		}
		jobs, finished = jobs+b.counts.Total, finished+b.finished
	}
	v.figures["batches"], v.figures["batch_jobs"], v.figures["batches_finished"] = len(v.Batches), jobs, finished
	return found
}

func (b *batchLife) told(e *SeenEvent) {
	switch e.Kind {
	case "batchOpened":
		b.opened++
	case "batchSealed":
		b.sealed, b.sealedAt = b.sealed+1, e.ID.Index
	case "batchFinished":
		if b.finished++; b.sealed == 0 || len(b.live) > 0 {
			b.say("event %s submits its callback, sealed: %t, jobs that have not ended: %v", e.ID, b.sealed > 0,
				slices.Sorted(maps.Keys(b.live)))
		}
	}
}

func (b *batchLife) toldOfJob(e *SeenEvent) {
	switch e.Kind {
	case "jobEnqueued", "jobDelayed":
		if b.live[e.Job] {
			return
		}
		if b.sealed > 0 && e.ID.Index > b.sealedAt {
			b.say("event %s is of job %s, which it took after it was sealed", e.ID, e.Job)
		}
		b.live[e.Job] = true
		b.counts.Total++
	case "jobCompleted":
		b.ended(e, &b.counts.Completed)
	case "jobDead":
		b.ended(e, &b.counts.Dead)
	case "jobExpired":
		b.ended(e, &b.counts.Expired)
	case "jobCancelled":
		b.ended(e, &b.counts.Cancelled)
	}
}

func (b *batchLife) ended(e *SeenEvent, as *int64) {
	delete(b.live, e.Job)
	*as++
}

// judge compares the events with the answers and with the final state.
func (b *batchLife) judge(v *view) {
	if b.opened > 1 || b.sealed > 1 || b.finished > 1 {
		b.say("it was opened %d times, sealed %d times and its callback submitted %d times", b.opened, b.sealed,
			b.finished)
	}
	if b.Opened && b.opened == 0 || b.Sealed && b.sealed == 0 {
		b.say("it was acknowledged (opened: %t, sealed: %t), but has no event", b.Opened, b.Sealed)
	}
	if b.Size > 0 && b.counts.Total > b.Size {
		b.say("it took %d jobs, its size is %d", b.counts.Total, b.Size)
	}
	if b.sealed > 0 && len(b.live) == 0 && b.finished == 0 {
		b.say("it is sealed and all its %d jobs have ended, and its callback was never submitted", b.counts.Total)
	}
	id := string(rota.CallbackID(rota.BatchID(b.ID)))
	callback := v.final[id]
	if v.Liveness.Listed {
		b.judgeShown(v, callback)
	}
	if begun := v.firstStart(id); begun < never {
		for _, a := range v.attempts {
			j := v.final[a.job]
			if j != nil && j.State == "COMPLETED" && slices.Contains(b.Jobs, a.job) && a.end != nil &&
				a.report != nil && a.report.Did == DidComplete &&
				a.report.Outcome == OK && a.end.Return > begun {
				b.say("its callback was begun with at %s, and %s was at work on job %s until %s", seconds(begun),
					a.process, a.job, seconds(a.end.Return))
			}
		}
	}
}

func (b *batchLife) judgeShown(v *view, callback *FinalJob) {
	switch {
	case (callback != nil) != (b.finished > 0):
		b.say("its callback was submitted %d times, and it is there: %t", b.finished, callback != nil)
	case b.Shown == nil && b.opened > 0:
		b.say("it was opened, and is not known at the end")
	}
	if b.Shown == nil {
		return
	}
	b.counts.Live = int64(len(b.live))
	if b.Shown.BatchCounts != b.counts {
		b.say("it counts %+v, its jobs' events say %+v", b.Shown.BatchCounts, b.counts)
	}
	if is := b.Shown.State == rota.BatchFinished; is != (b.finished > 0) {
		b.say("it is %s, and its callback was submitted %d times", b.Shown.State, b.finished)
	}
	if want := b.counts.Labels(nil); callback != nil && !maps.Equal(b.Labels, want) {
		b.say("its callback has the labels %v, want %v", b.Labels, want)
	}
	there := make(map[string]int64)
	for _, job := range b.Jobs {
		if j := v.final[job]; j != nil {
			there[j.State]++
		}
	}
	if c := &b.counts; there["COMPLETED"] != c.Completed || there["DEAD"] != c.Dead || there["EXPIRED"] != c.Expired ||
		there["CANCELLED"] != c.Cancelled {
		b.say("its events say %+v, its jobs are %v", b.counts, there)
	}
}

// firstStart returns when a handler first began a job.
func (v *view) firstStart(job string) int64 {
	first := never
	for _, op := range v.jobs[job] {
		if op.Func == OpStart {
			first = min(first, op.Invoke)
		}
	}
	return first
}
