package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// hostilePlan starts plans, ends them, and advances them: often like a leader, often not.
func hostilePlan(b *bench, d *dice) *fsmpb.Op {
	id := d.id("plan")
	switch d.roll(4) {
	case 0:
		p := rota.PlanSpec{ID: rota.PlanID(id), Verb: rota.PlanVerb(d.roll(7)),
			Filter: d.of("id=*", "state=QUEUED", "-queue=q1", "id=j*", d.text()),
			Max:    []int64{0, 0, 3, d.number()}[d.roll(4)]}
		if p.Verb == rota.PlanMove || d.roll(8) == 0 {
			p.To = rota.QueueName(d.queue())
		}
		if p.Verb == rota.PlanReprioritise || d.roll(8) == 0 {
			n := int32(d.roll(12))
			p.Priority = &n
		}
		return by(rota.Principal(d.of("local", string(actorNamed("a")))), StartPlanOp(&p))
	case 1:
		if d.roll(4) == 0 {
			return endPlanOp(id)
		}
	}
	for _, w := range RunningPlans(&b.View) {
		if d.roll(2) == 0 {
			continue
		}
		members, _ := b.View.Jobs().Members(&w, 1+d.roll(9), nil)
		step := StepOf(&w, &members)
		if d.roll(3) == 0 {
			step.To, step.From, step.End = d.id("j"), d.of(step.GetFrom(), d.text()), d.roll(2) == 0
			step.Items = append(step.Items, &fsmpb.PlanItem{Job: d.id("j"), Number: uint64(d.number()),
				Retry: retryOp(d.id("j")).GetRetry()})
		}
		return &fsmpb.Op{Op: &fsmpb.Op_PlanStep{PlanStep: step}}
	}
	return &fsmpb.Op{Op: &fsmpb.Op_PlanStep{PlanStep: &fsmpb.PlanStep{Plan: id, From: d.text(), To: d.text()}}}
}

// naivePlan is a second implementation of a plan: its jobs are written down in order when it starts, and each is looked
// at when it comes.
type naivePlan struct {
	verb                  rota.PlanVerb
	state                 rota.PlanState
	most                  int
	members               []rota.JobID
	done, refused, passed int
}

// naiveJob is the model's state of a job.
type naiveJob struct {
	state    rota.JobState
	queue    rota.QueueName
	priority int32
	// born counts the submissions and retries, ended the ends, of all jobs.
	born, ended int
}

type naivePlans struct {
	jobs        map[rota.JobID]*naiveJob
	born, ended int
	plans       map[string]*naivePlan
}

func (n *naivePlans) submit(id rota.JobID) {
	if n.jobs[id] == nil {
		n.born++
		n.jobs[id] = &naiveJob{state: rota.JobQueued, queue: "default", priority: 5, born: n.born}
	}
}

func (n *naivePlans) cancel(id rota.JobID) {
	if j := n.jobs[id]; j != nil && j.state == rota.JobQueued {
		n.ended++
		j.state, j.ended = rota.JobCancelled, n.ended
	}
}

func (n *naivePlans) retry(id rota.JobID) {
	if j := n.jobs[id]; j != nil && j.state == rota.JobCancelled {
		n.born++
		j.state, j.born = rota.JobQueued, n.born
	}
}

// start begins a plan for the jobs of the queue default whose ids begin with a.
func (n *naivePlans) start(id string, verb rota.PlanVerb, most int) {
	if n.plans[id] != nil {
		return
	}
	p := &naivePlan{verb: verb, most: most}
	for job := range n.jobs {
		p.members = append(p.members, job)
	}
	slices.Sort(p.members)
	n.plans[id] = p
}

// selects reports whether a job in its present state belongs to a plan.
func (p *naivePlan) selects(j *naiveJob, id rota.JobID, born, ended int) bool {
	if j == nil || !strings.HasPrefix(string(id), "a") || j.queue != "default" {
		return false
	}
	if p.verb.Ended() {
		return j.state == rota.JobCancelled && j.ended <= ended
	}
	return j.state == rota.JobQueued && j.born <= born
}

// TestPlanModel compares random lives of plans with the naive model: steps of any size, of leaders that repeat each
// other's, with jobs that come, end and run again meanwhile.
func TestPlanModel(t *testing.T) {
	t.Parallel()
	long(t)
	verbs := []rota.PlanVerb{rota.PlanCancel, rota.PlanRetry, rota.PlanDelete, rota.PlanMove, rota.PlanReprioritise}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 21))
		b := newBench(t)
		b.every = 11
		b.ok(queueOp("other"))
		n := &naivePlans{jobs: make(map[rota.JobID]*naiveJob), plans: make(map[string]*naivePlan)}
		started := make(map[string][2]int)
		for range 150 {
			id := rota.JobID(fmt.Sprintf("%c%02d", "ab"[r.IntN(2)], r.IntN(20)))
			switch r.IntN(8) {
			case 0, 1, 2:
				if j := n.jobs[id]; j == nil {
					b.submit(string(id))
					n.submit(id)
				}
			case 3:
				b.entry(cancelOp(string(id)))
				n.cancel(id)
			case 4:
				b.entry(retryOp(string(id)))
				n.retry(id)
			case 5:
				name := fmt.Sprint("p", len(n.plans))
				verb := verbs[r.IntN(len(verbs))]
				op := planOp(name, verb, "id=a* queue=default")
				op.GetStartPlan().Max = int64(r.IntN(3) * 4)
				if verb == rota.PlanMove {
					op.GetStartPlan().To = "other"
				}
				if urgent := int32(r.IntN(3)); verb == rota.PlanReprioritise {
					op.GetStartPlan().Priority = &urgent
				}
				if running, _, _ := b.plans.Count(); running < 3 {
					b.ok(op)
					n.start(name, verb, int(op.GetStartPlan().GetMax()))
					started[name] = [2]int{n.born, n.ended}
				}
			default:
				running := RunningPlans(&b.View)
				if len(running) == 0 {
					continue
				}
				w := running[r.IntN(len(running))]
				step := b.stepOf(string(w.Spec.ID), 1+r.IntN(6))
				at := started[string(w.Spec.ID)]
				if r.IntN(4) == 0 { // something happens before it is applied
					b.entry(cancelOp(string(id)))
					n.cancel(id)
				}
				n.step(string(w.Spec.ID), step.GetPlanStep(), &w.Spec, at)
				b.entry(step)
				if r.IntN(2) == 0 {
					b.lead()
					b.entry(step)
				}
			}
			n.compare(t, b, seed)
		}
		b.restored()
	}
}

// step processes the plan's members up to the end of a step.
func (n *naivePlans) step(name string, step *fsmpb.PlanStep, spec *rota.PlanSpec, at [2]int) {
	p := n.plans[name]
	meant := make(map[string]uint64)
	for _, item := range step.GetItems() {
		meant[item.GetJob()] = item.GetNumber()
	}
	turn := 0
	for _, id := range p.members {
		if string(id) > step.GetTo() && !step.GetEnd() {
			break
		}
		turn++
		j := n.jobs[id]
		_, listed := meant[string(id)]
		fits := p.selects(j, id, at[0], at[1])
		if fits && (!listed || !p.numbered(j, meant[string(id)])) {
			panic(fmt.Sprintf("%s: %s is left out", name, id))
		}
		if !listed {
			continue
		}
		switch {
		case !fits:
			p.passed++
		case p.verb == rota.PlanReprioritise && j.priority == *spec.Priority:
			p.passed++
		default:
			p.done++
			n.do(p.verb, id, j, spec)
		}
	}
	p.members = p.members[turn:]
	if step.GetEnd() || p.most > 0 && p.done == p.most {
		p.state = rota.PlanDone
	}
}

// numbered reports whether a step names a job by its own number.
func (p *naivePlan) numbered(j *naiveJob, number uint64) bool {
	if p.verb.Ended() {
		return number == uint64(j.ended)
	}
	return number == uint64(j.born)
}

func (n *naivePlans) do(verb rota.PlanVerb, id rota.JobID, j *naiveJob, spec *rota.PlanSpec) {
	switch verb {
	case rota.PlanCancel:
		n.cancel(id)
	case rota.PlanRetry:
		n.retry(id)
	case rota.PlanDelete:
		delete(n.jobs, id)
	case rota.PlanMove:
		j.queue = spec.To
	default:
		j.priority = *spec.Priority
	}
}

func (n *naivePlans) compare(t *testing.T, b *bench, seed uint64) {
	t.Helper()
	for name, p := range n.plans {
		got, want := b.plan(name), fmt.Sprint(p.state, p.done, p.refused, p.passed)
		if counts(got) != want {
			t.Fatalf("seed %d: plan %s to %s is %s, want %s as in the model", seed, name, p.verb, counts(got), want)
		}
	}
	live := 0
	for id, j := range n.jobs {
		got, ok := b.View.Job(id)
		if !ok || got.State != j.state || j.state == rota.JobQueued &&
			(got.Queue != j.queue || got.Priority != j.priority) {
			t.Fatalf("seed %d: job %s is %s in %s with %d, want %+v as in the model", seed, id, got.State, got.Queue,
				got.Priority, j)
		}
		live++
	}
	if have := b.JobTable.Len() + b.ended.tombs.Len(); have != live {
		t.Fatalf("seed %d: %d jobs are known, the model has %d", seed, have, live)
	}
}
