package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
)

// bulker submits jobs that stay pending for longer than the world lasts, and lets plans process them (SPEC §21.7). No
// other actor touches them, except that workers run those that a plan retries, which wait for nothing. It draws from a
// random source of its own, separate from the world's.
type bulker struct {
	actor
	w           *World
	chance      *rand.Rand
	jobs, plans int
}

func newBulker(w *World) *bulker {
	b := &bulker{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x2107))}
	b.name = "bulker"
	if w.Plans {
		b.ask(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: bulkQueue}}})
		w.on(&b.actor, 2_000, b.next)
	}
	return b
}

// next performs one action. As the world heals, one last plan ends all of its jobs.
func (b *bulker) next() {
	w := b.w
	if w.now >= max(w.Heal, 20_000) {
		w.on(&b.actor, 20_000, b.next)
		b.start(rota.PlanCancel, "id=bulk*", 0)
		return
	}
	w.on(&b.actor, Time(b.chance.IntN(1_000)), b.next)
	if b.chance.IntN(4) > 0 {
		s := rota.NewJobSpec("work", nil)
		s.ID, s.Tenant, s.Delay = rota.JobID(fmt.Sprintf("bulk%d-%d", b.chance.IntN(4),
			b.jobs)), "t0", millis.Duration(3_600_000)
		b.jobs++
		b.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}})
		return
	}
	verb := bulkVerbs[b.chance.IntN(len(bulkVerbs))]
	b.start(verb, fmt.Sprintf("id=bulk%d* priority>=%d", b.chance.IntN(4), b.chance.IntN(5)),
		int64(b.chance.IntN(2)*b.chance.IntN(9)))
}

// bulkQueue is the queue to which plans move jobs.
const bulkQueue = "bulks"

// bulkVerbs are drawn: verbs that leave jobs for other plans occur more often.
var bulkVerbs = []rota.PlanVerb{rota.PlanCancel, rota.PlanCancel, rota.PlanReprioritise, rota.PlanRetry, rota.PlanRetry,
	rota.PlanDelete, rota.PlanMove}

func (b *bulker) start(verb rota.PlanVerb, line string, most int64) {
	p := rota.PlanSpec{ID: rota.PlanID(fmt.Sprint("plan", b.plans)), Verb: verb, Filter: line, Max: most}
	if verb == rota.PlanReprioritise {
		urgency := int32(b.chance.IntN(11))
		p.Priority = &urgency
	}
	if verb == rota.PlanMove {
		p.To = bulkQueue
	}
	b.plans++
	b.ask(fsm.StartPlanOp(&p))
	if b.chance.IntN(8) == 0 {
		b.ask(&fsmpb.Op{Op: &fsmpb.Op_CancelPlan{CancelPlan: &fsmpb.CancelPlan{Id: string(p.ID), Reason: "drawn"}}})
	}
}

// ask repeats an operation until it is answered.
func (b *bulker) ask(op *fsmpb.Op) {
	w, answered := b.w, false
	var try func()
	try = func() {
		if answered {
			return
		}
		n := w.nodes[b.chance.IntN(len(w.nodes))]
		w.forward(n, &b.actor, !n.down, op, func(*fsmpb.Outcome) { answered = true })
		w.on(&b.actor, 500, try)
	}
	try()
}

// planStep proposes a step of each running plan, of three jobs at most: also before the last one has been answered, so
// that it may be stale.
func (l *leadership) planStep(m *fsm.Machine) {
	for _, p := range fsm.RunningPlans(&m.View) {
		most := 3
		if p.Spec.Max > 0 {
			most = int(min(3, p.Spec.Max-p.Done))
		}
		next, err := m.Jobs().Members(&p, most, nil)
		if err != nil {
			l.w.audit.failf("plan %s has no members: %v", p.Spec.ID, err)
			return
		}
		l.propose(&fsmpb.Op{Op: &fsmpb.Op_PlanStep{PlanStep: fsm.StepOf(&p, &next)}}, nil)
	}
}

// bulks is the auditor's model of plans.
type bulks struct {
	// started holds the plans, and whether each still runs.
	started map[string]bool
	// moved counts actions on the bulker's jobs according to events, counted according to plans.
	moved, counted int64
}

// isBulk reports whether a job is one that only plans process.
func isBulk(id rota.JobID) bool { return strings.HasPrefix(string(id), "bulk") }

// retriedByPlan follows an ended job that is pending again: only a plan retries it.
func (a *auditor) retriedByPlan(e *rota.Event, j *auditJob) {
	if (e.Kind == rota.EventJobDelayed || e.Kind == rota.EventJobEnqueued) && isBulk(e.Job) && j.terminal {
		j.terminal = false
		a.bulks.moved++
		a.PlannedRetries++
	}
}

// planned follows the plans and their jobs: each action on a job is counted by one plan.
func (a *auditor) planned(e *rota.Event) {
	var p struct {
		Plan string `json:"plan"`
		Done int64  `json:"done"`
	}
	switch e.Kind {
	case rota.EventJobCancelled, rota.EventJobChanged, rota.EventJobDeleted:
		if isBulk(e.Job) && e.Reason != rota.ReasonCancelledByHandler {
			a.bulks.moved++
			switch {
			case e.Kind == rota.EventJobDeleted:
				a.PlannedDeletions++
			case e.Kind == rota.EventJobChanged && e.Queue == bulkQueue && strings.Contains(e.Payload, `"queue"`):
				a.PlannedMoves++
			}
		}
	case rota.EventPlanStarted, rota.EventPlanFinished:
		if err := json.Unmarshal([]byte(e.Payload), &p); err != nil {
			a.failf("%s has payload %q: %v", e.Kind, e.Payload, err)
			return
		}
		running, known := a.bulks.started[p.Plan]
		if starts := e.Kind == rota.EventPlanStarted; starts == known || !starts && !running {
			a.failf("%s of plan %s, which is known: %v, and runs: %v", e.Kind, p.Plan, known, running)
		}
		a.bulks.started[p.Plan] = e.Kind == rota.EventPlanStarted
		if e.Kind == rota.EventPlanFinished {
			a.bulks.counted += p.Done
			a.Planned += int(p.Done)
		}
	}
}

// plansSettled checks, whenever no plan runs, that the actions on jobs equal the counts of the plans.
func (a *auditor) plansSettled() {
	for _, runs := range a.bulks.started {
		if runs {
			return
		}
	}
	if a.bulks.moved != a.bulks.counted {
		a.failf("plans have counted %d jobs, and %d were changed or cancelled", a.bulks.counted, a.bulks.moved)
	}
}
