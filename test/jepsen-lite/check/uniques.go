package check

import (
	"cmp"
	"fmt"
	"slices"
)

// UniqueFacts describe a unique key and all that one user submitted with it; all of it is of one queue and one type. A
// job's payload contains its own id, so that its handler knows whose payload it got.
type UniqueFacts struct {
	Key  string        `json:"key"`
	Subs []UniqueAsked `json:"subs"`
}

// UniqueAsked is a submission, and the action it requests where another one holds its key.
type UniqueAsked struct {
	ID         string `json:"id"`
	OnConflict string `json:"on_conflict"`
}

// uniqueLife is the state of a key according to the events.
type uniqueLife struct {
	key string
	// asked are its submissions, holder is the job that holds it, pending reports whether that job waits.
	asked   map[string]string
	holder  string
	pending bool
	// payload names the job whose payload the holder has; given names it for each lease.
	payload string
	given   map[string]string
	jobs    []string
	// into maps each merged submission to its job.
	into   map[string]string
	faults []Anomaly
}

// checkUniques requires at most one live job of a unique key (SPEC §18), by the events and by the handlers' own times,
// every answer to name the job that held the key, and every handler to get the payload that was merged last while its
// job waited.
func checkUniques(v *view) (found []Anomaly) {
	if len(v.Uniques) == 0 {
		return nil
	}
	if len(v.Events) >= EventsRetained {
		v.undecided = append(v.undecided, "uniques: the oldest events are no longer retained")
		return nil
	}
	keys, of := make(map[string]*uniqueLife), make(map[string]*uniqueLife)
	var order []*uniqueLife
	for i := range v.Uniques {
		f := &v.Uniques[i]
		u := keys[f.Key]
		if u == nil {
			u = &uniqueLife{key: f.Key, asked: make(map[string]string), given: make(map[string]string),
				into: make(map[string]string)}
			keys[f.Key], order = u, append(order, u)
		}
		for _, s := range f.Subs {
			u.asked[s.ID], of[s.ID] = s.OnConflict, u
		}
	}
	for i := range v.Events {
		if e := &v.Events[i]; of[e.Job] != nil && !v.outlived(e) {
			of[e.Job].told(e)
		}
	}
	byJob := v.beliefs()
	jobs, merged, refused := 0, 0, 0
	for _, u := range order {
		jobs, merged = jobs+len(u.jobs), merged+len(u.into)
		refused += u.judgeAnswers(v)
		var all []keyedBelief
		for _, id := range u.jobs {
			for _, b := range byJob[id] {
				all = append(all, keyedBelief{belief: b})
			}
		}
		slices.SortFunc(all, func(a, b keyedBelief) int { return cmp.Compare(a.from, b.from) })
		_, faults := (&KeyFacts{Key: u.key, Most: 1}).crowded(all)
		found = append(append(found, u.faults...), faults...)
	}
	v.figures["unique_jobs"], v.figures["unique_merged"], v.figures["unique_refused"] = jobs, merged, refused
	return found
}

func (u *uniqueLife) say(id string, at int64, format string, args ...any) {
	u.faults = append(u.faults, Anomaly{IDs: []string{u.key, id}, At: at,
		Text: "unique key " + u.key + ": " + fmt.Sprintf(format, args...)})
}

// told processes the next event about a job that was submitted with the key, or into which such a submission was
// merged.
func (u *uniqueLife) told(e *SeenEvent) {
	switch e.Kind {
	case "jobMerged":
		u.merges(e)
	case "jobEnqueued", "jobDelayed", "jobRetryScheduled", "leaseCancelled", "leaseExpired", "leaseDeclined":
		if u.holder != e.Job {
			u.takes(e)
		}
		u.pending = true
	case "jobAssigned":
		u.pending, u.given[e.Lease] = false, u.payload
	case "jobCompleted", "jobDead", "jobExpired", "jobCancelled":
		if u.holder == e.Job {
			u.holder = ""
		}
	}
}

func (u *uniqueLife) takes(e *SeenEvent) {
	if u.holder != "" {
		u.say(e.Job, 0, "event %s (%s) is of job %s, while job %s lives and holds it", e.ID, e.Kind, e.Job, u.holder)
	}
	if into := u.into[e.Job]; into != "" {
		u.say(e.Job, 0, "event %s (%s) is of %s, which was merged into job %s", e.ID, e.Kind, e.Job, into)
	}
	u.holder, u.payload = e.Job, e.Job
	u.jobs = append(u.jobs, e.Job)
}

func (u *uniqueLife) merges(e *SeenEvent) {
	how, ours := u.asked[e.Of]
	switch {
	case !ours || how == "refuse":
		u.say(e.Of, 0, "event %s merges %s (%s) into job %s", e.ID, e.Of, how, e.Job)
	case u.into[e.Of] != "":
		u.say(e.Of, 0, "event %s merges %s into job %s, and before it was merged into job %s", e.ID, e.Of, e.Job,
			u.into[e.Of])
	case e.Job != u.holder:
		u.say(e.Of, 0, "event %s merges %s into job %s, and %q holds the key", e.ID, e.Of, e.Job, u.holder)
	}
	if u.into[e.Of] = e.Job; how != "existing" && u.pending {
		u.payload = e.Of
	}
}

// judgeAnswers compares the answers to users and handlers with the events, and counts the refusals.
func (u *uniqueLife) judgeAnswers(v *view) (refused int) {
	for id, how := range u.asked {
		for _, op := range v.jobs[id] {
			switch {
			case op.Func == OpMerge && op.Outcome == OK && u.into[id] != op.Output:
				u.say(id, op.Return, "%s was answered by job %s, and the events say that it was merged into %q", id,
					op.Output, u.into[id])
			case op.Func == OpSubmit && op.Outcome == OK && u.into[id] != "":
				u.say(id, op.Return, "%s was answered as a job of its own, and was merged into job %s", id, u.into[id])
			case op.Func == OpSubmit && op.Outcome == Refused && op.Output != "":
				refused++
				if how != "refuse" {
					u.say(id, op.Return, "%s was refused, though it asks for %s", id, how)
				}
				u.judgeHolder(v, op)
			case op.Func == OpStart:
				if given, known := u.given[leaseKeptOf(op.Lease)]; known && op.Output != given {
					u.say(id, op.Invoke, "the handler of job %s got the payload of %q with lease %.16s: the last that was merged while it waited is %q",
						id, op.Output, op.Lease, given)
				}
			}
		}
	}
	return refused
}

// judgeHolder requires a job that a refusal names to have the key, and to have lived at some moment of the call.
func (u *uniqueLife) judgeHolder(v *view, op *Op) {
	if _, ours := u.asked[op.Output]; !ours || u.into[op.Output] != "" {
		u.say(op.Job, op.Return, "%s was refused for job %s, which never held it", op.Job, op.Output)
		return
	}
	first := never // a call without an answer may have submitted it before the one that has one
	for _, of := range v.jobs[op.Output] {
		final := of.Func == OpCancel || of.Func == OpReport &&
			(of.Did == DidComplete || of.Did == DidNoRetry || of.Did == DidCancel)
		if final && of.Outcome == OK && of.Return < op.Invoke {
			u.say(op.Job, op.Return, "%s was refused at %s for job %s, which had ended by %s (%s %s)", op.Job,
				seconds(op.Invoke), op.Output, seconds(of.Return), of.Func, of.Did)
		}
		if of.Func == OpSubmit && of.Outcome != Refused {
			first = min(first, of.Invoke)
		}
	}
	if first > op.Return {
		u.say(op.Job, op.Return, "%s was refused at %s for job %s, which was submitted later", op.Job,
			seconds(op.Return), op.Output)
	}
}
