package check

import (
	"fmt"

	"github.com/rotasched/rota"
)

// PlanFacts describe a plan that one user started over its own jobs, which no other user touches: it selects all of
// Jobs that its verb applies to. Plans over the same jobs follow each other.
type PlanFacts struct {
	ID   string `json:"id"`
	Verb string `json:"verb"`
	To   string `json:"to,omitempty"`
	Max  int64  `json:"max,omitempty"`
	// At is the time of the first request; Started means that the cluster acknowledged it.
	At      int64    `json:"at"`
	Started bool     `json:"started"`
	Jobs    []string `json:"jobs"`
	// Shown is the finished plan as its user saw it.
	Shown *rota.Plan `json:"shown,omitempty"`
}

// readPlans makes plans count as calls that may have cancelled or retried their jobs at any time.
func (v *view) readPlans() {
	v.planned = make(map[string]bool)
	as := map[string]string{"cancel": OpCancel, "retry": opRetry}
	for i := range v.Plans {
		f := &v.Plans[i]
		for _, job := range f.Jobs {
			v.planned[job] = true
			if what := as[f.Verb]; what != "" {
				v.jobs[job] = append(v.jobs[job], &Op{Process: f.ID, Func: what, Job: job, Invoke: f.At, Return: never,
					Outcome: Unknown})
			}
		}
	}
}

// plannedJob is the state of a job of plans according to the events.
type plannedJob struct {
	alive, leased bool
	// state is how it ended last, queue its queue after a move.
	state, queue string
	// plan is the plan whose turn it is in, and which applied to it when that plan started; turns counts the plan's
	// actions on it, and disturbed means that something else happened to it.
	plan      *planLife
	fitted    bool
	turns     int
	disturbed bool
	// astray are events that only a plan can have caused, while no plan was processing the job.
	astray []string
}

// planLife is the life of a plan according to the events.
type planLife struct {
	*PlanFacts
	started, finished int
	done              int64
	faults            []string
}

func (p *planLife) say(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// checkPlans requires each plan to finish, whichever node leads, every job that it selects to have its turn once, and
// its counts to match the events (SPEC §21.7).
func checkPlans(v *view) (found []Anomaly) {
	if len(v.Plans) == 0 {
		return nil
	}
	if len(v.Events) >= EventsRetained {
		v.undecided = append(v.undecided, "plans: the oldest events are no longer retained")
		return nil
	}
	plans, jobs := make(map[string]*planLife), make(map[string]*plannedJob)
	for i := range v.Plans {
		p := &planLife{PlanFacts: &v.Plans[i]}
		plans[p.ID] = p
		for _, job := range p.Jobs {
			jobs[job] = &plannedJob{}
		}
	}
	for i := range v.Events {
		e := &v.Events[i]
		switch p := plans[e.Of]; {
		case p != nil && e.Kind == "planStarted":
			p.begins(jobs)
		case p != nil && e.Kind == "planFinished":
			p.ends(v, e, jobs)
		case jobs[e.Job] != nil:
			jobs[e.Job].told(e)
		}
	}
	done := int64(0)
	for i := range v.Plans {
		p := plans[v.Plans[i].ID]
		p.judge(v)
		for _, text := range p.faults {
			found = append(found, Anomaly{IDs: []string{p.ID}, At: p.At,
				Text: fmt.Sprintf("plan %s (%s): %s", p.ID, p.Verb, text)})
		}
		done += p.done
		for _, job := range p.Jobs {
			for _, text := range jobs[job].astray {
				found = append(found, Anomaly{IDs: []string{job}, Text: "job " + job + " of plans: " + text})
			}
			jobs[job].astray = nil
		}
	}
	v.figures["plans"], v.figures["plan_jobs_done"] = len(v.Plans), done
	return found
}

func (p *planLife) begins(jobs map[string]*plannedJob) {
	p.started++
	for _, id := range p.Jobs {
		j := jobs[id]
		j.plan, j.turns, j.disturbed, j.fitted = p, 0, false, j.fits(p)
	}
}

// fits reports whether a plan's verb applies to the job in its current state.
func (j *plannedJob) fits(p *planLife) bool {
	switch p.Verb {
	case "cancel":
		return j.alive
	case "retry":
		return !j.alive && (j.state == "jobDead" || j.state == "jobCancelled")
	case "move":
		return j.alive && !j.leased && j.queue != p.To
	default:
		return j.alive && !j.leased
	}
}

// told processes the next event about the job: it is its plan's turn, or unrelated to its plan.
func (j *plannedJob) told(e *SeenEvent) {
	turn := false
	switch e.Kind {
	case "jobEnqueued", "jobDelayed":
		again := !j.alive && j.state != ""
		j.alive, j.leased = true, false
		if turn = again && j.plan != nil && j.plan.Verb == "retry"; again && !turn {
			j.strays(e)
		}
	case "jobRetryScheduled", "leaseCancelled", "leaseExpired", "leaseDeclined":
		j.leased = false
	case "jobAssigned":
		j.leased = true
	case "jobCompleted", "jobDead", "jobExpired", "jobCancelled":
		turn = e.Kind == "jobCancelled" && e.Reason == "CANCELLED" && j.plan != nil && j.plan.Verb == "cancel"
		if e.Kind == "jobCancelled" && e.Reason == "CANCELLED" && !turn {
			j.strays(e)
		}
		j.alive, j.leased, j.state = false, false, e.Kind
	case "jobChanged":
		if turn = j.plan != nil && (j.plan.Verb == "reprioritise" && e.Of == "" || j.plan.Verb == "move" &&
			e.Of == j.plan.To); !turn {
			j.strays(e)
		}
		if e.Of != "" {
			j.queue = e.Of
		}
	}
	if j.plan == nil {
		return
	}
	if !turn {
		// A lease's end, or its revocation, that accompanies the cancelling is part of it.
		j.disturbed = j.disturbed || e.Kind != "leaseCancelled" && (e.Kind != "leaseRevoked" || e.Reason != "CANCELLED")
	} else if j.turns++; j.turns > 1 {
		j.plan.say("event %s (%s) is job %s's turn number %d", e.ID, e.Kind, e.Job, j.turns)
	}
}

func (j *plannedJob) strays(e *SeenEvent) {
	j.astray = append(j.astray, fmt.Sprintf("event %s (%s) changes it, and no plan that is for it runs", e.ID, e.Kind))
}

func (p *planLife) ends(v *view, e *SeenEvent, jobs map[string]*plannedJob) {
	if p.finished++; p.started == 0 {
		p.say("event %s ends it, and none began it", e.ID)
	}
	p.done = int64(e.Count)
	turns := int64(0)
	whole := p.Max == 0 && e.State == "DONE" && e.Refused == 0
	for _, id := range p.Jobs {
		j := jobs[id]
		if turns += int64(j.turns); whole && j.fitted && !j.disturbed && j.turns == 0 {
			p.say("job %s fitted it as it began, nothing else happened to it, and it never had its turn", id)
		}
		j.plan = nil
	}
	if turns != p.done {
		p.say("event %s reports that it did %d jobs, the events of jobs report %d", e.ID, p.done, turns)
	}
	if p.Max > 0 && p.done > p.Max {
		p.say("it did %d jobs, of %d at most", p.done, p.Max)
	}
}

func (p *planLife) judge(v *view) {
	if p.started > 1 || p.finished > 1 {
		p.say("it began %d times and ended %d times", p.started, p.finished)
	}
	if p.Started && p.started == 0 {
		p.say("it was acknowledged, but has no event")
	}
	if p.started > 0 && p.finished == 0 && v.Liveness.DrainMs >= 0 {
		p.say("it has not come to its end")
	}
	switch s := p.Shown; {
	case s == nil || p.finished == 0:
	case s.State != rota.PlanDone || s.Done != p.done:
		p.say("it is shown %s (%s) with %d jobs done, its end has %d", s.State, s.Why, s.Done, p.done)
	case s.Done+s.Refused+s.Passed > int64(len(p.Jobs)):
		p.say("it counts %d jobs done, %d refused and %d passed: %d were there", s.Done, s.Refused, s.Passed,
			len(p.Jobs))
	}
}
