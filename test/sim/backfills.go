package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// wideQueue is a queue that backfills, beside the default one; workers have so many processors for its jobs.
const (
	wideQueue = "wide"
	wideCPU   = 4_000
)

// widener submits jobs that take some of a worker's processors and say how long they should take, which is not how long they do. What it
// does is drawn apart from the world's chance.
type widener struct {
	actor
	w      *World
	chance *rand.Rand
	n      int
}

func newWidener(w *World) *widener {
	x := &widener{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x2603))}
	x.name = "widener"
	if w.Wide {
		x.set("fifo", [2]string{"ranking", "fifo"}, [2]string{"backfill", w.wideWay()})
		w.on(&x.actor, 2_000, x.next)
	}
	return x
}

// wideWay is how the queue backfills: nothing or what delays nobody may overtake. Some lives come to keep room for all, once the rules know it.
func (w *World) wideWay() string {
	if w.Seed%3 == 0 {
		return rota.BackfillNone.String()
	}
	return rota.BackfillEasy.String()
}

func (x *widener) set(ranking string, settings ...[2]string) {
	set := &fsmpb.SetQueue{Name: wideQueue}
	for _, s := range append([][2]string{{"ranking", ranking}, {"fair_share", "off"}, {"oldest_every", "0"}, {"estimate", "user"}, {"lease_ms", fmt.Sprint(x.w.LeaseMs)}}, settings...) {
		set.Set = append(set.Set, &fsmpb.Label{Key: s[0], Value: s[1]})
	}
	x.ask(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: set}})
}

// next submits one job; it stops as the world heals.
func (x *widener) next() {
	w := x.w
	if w.now >= max(w.Heal, 20_000) {
		return
	}
	w.on(&x.actor, Time(200+x.chance.IntN(2_000)), x.next)
	if w.Seed%3 == 1 && x.chance.IntN(10) == 0 {
		x.set("fifo", [2]string{"backfill", "conservative"}) // refused by rules that do not know it
	}
	s := rota.NewJobSpec("work", []byte(fmt.Sprint(x.n)))
	s.ID, s.Tenant, s.Queue = rota.JobID(fmt.Sprint("w", x.n)), "t0", wideQueue
	s.CPUMilli, s.Expected = 1000*(1+x.chance.Int64N(4)), time.Duration(1+x.chance.IntN(20))*time.Second
	x.n++
	w.audit.wide.specs[s.ID] = &s
	x.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}})
}

// ask repeats an operation until it is answered.
func (x *widener) ask(op *fsmpb.Op) {
	w, answered := x.w, false
	var try func()
	try = func() {
		if answered {
			return
		}
		w.forward(w.nodes[x.chance.IntN(len(w.nodes))], &x.actor, true, op, func(*fsmpb.Outcome) { answered = true })
		w.on(&x.actor, 500, try)
	}
	try()
}

// wide is a model of backfilling: the jobs that wait, since which entry, and the leases that run, with their estimates.
type wide struct {
	specs map[rota.JobID]*rota.JobSpec
	since map[rota.JobID]rota.Index
	runs  map[rota.LeaseID]wideRun
	// heads are by index − 1: a round is decided some entries before it applies, and its dates are as the clock stood to them then.
	heads []rota.Moment
}

// wideRun is a lease, and until when it should run.
type wideRun struct {
	job    rota.JobID
	worker rota.WorkerID
	end    rota.Clock
}

func newWide() wide {
	return wide{specs: map[rota.JobID]*rota.JobSpec{}, since: map[rota.JobID]rota.Index{}, runs: map[rota.LeaseID]wideRun{}}
}

// backfilled holds an entry against SPEC §26.3: who starts before a job that came first, and waited as the round was decided, needs a
// reservation to stand for that job, and what runs by its estimate at its date leaves the room that is reserved.
func (a *auditor) backfilled(n *node, e *fsmpb.Entry, r *fsm.Applied) {
	head := n.machine.Head()
	a.wide.heads = append(a.wide.heads, rota.Moment{Clock: head.Clock, Date: head.Date})
	if len(a.wide.specs) == 0 {
		return
	}
	var reserved []*fsmpb.Reserved
	height, decided := rota.Index(0), a.wide.heads[r.Index-1]
	for _, op := range e.GetOps() {
		if round := op.GetRound(); round != nil {
			if reserved, height = append(reserved, round.GetReserved()...), rota.Index(round.GetHeight()); round.GetWith() == 0 && height <= r.Index {
				decided = a.wide.heads[height-1]
			}
		}
	}
	var started []rota.JobID
	for i := range r.Events {
		v := &r.Events[i]
		if s := a.wide.specs[v.Job]; s != nil && v.Kind == rota.EventJobAssigned {
			a.wide.runs[v.Lease] = wideRun{v.Job, v.Worker, v.Clock + rota.Clock(s.Expected.Milliseconds())}
			started = append(started, v.Job)
		}
	}
	for id := range a.wide.runs {
		if a.leases[id] == nil {
			delete(a.wide.runs, id)
		}
	}
	if len(started) > 0 {
		a.roomIsKept(reserved, started, decided)
		for _, id := range started {
			a.overtakes(n, id, reserved, height)
		}
	}
	for id := range a.wide.specs {
		if n.machine.JobState(id) != rota.JobQueued {
			delete(a.wide.since, id)
		} else if a.wide.since[id] == 0 {
			a.wide.since[id] = r.Index
		}
	}
}

// roomIsKept sums what should run at each reservation's date. What the entry started was decided to start somewhat earlier.
func (a *auditor) roomIsKept(reserved []*fsmpb.Reserved, started []rota.JobID, decided rota.Moment) {
	for _, k := range reserved {
		s := a.wide.specs[rota.JobID(k.GetJob())]
		if s == nil {
			continue
		}
		left, until := wideCPU-s.CPUMilli, decided.Clock+rota.Clock(rota.Date(k.GetUntilMs())-decided.Date)
		for _, run := range a.wide.runs {
			end := run.end
			if slices.Contains(started, run.job) {
				end -= a.clock - decided.Clock
			}
			if run.worker == rota.WorkerID(k.GetWorker()) && end > until && run.job != s.ID {
				left -= a.wide.specs[run.job].CPUMilli
			}
		}
		if left < 0 {
			a.failf("job %s, which came first, is delayed: from %d on %d millicores are missing at worker %s", s.ID, k.GetUntilMs(), -left, k.GetWorker())
		}
	}
}

// overtakes finds the first job that a started one left behind, by a search of all that wait.
func (a *auditor) overtakes(n *node, id rota.JobID, reserved []*fsmpb.Reserved, height rota.Index) {
	start, _ := n.machine.Job(id)
	var first rota.Job
	for other, since := range a.wide.since {
		if j, ok := n.machine.Job(other); ok && j.State == rota.JobQueued && since <= height && j.Enqueued.Clock < start.Enqueued.Clock &&
			(first.ID == "" || j.Enqueued.Clock < first.Enqueued.Clock) {
			first = j
		}
	}
	if first.ID == "" {
		return
	}
	a.Overtaken++
	if q, _ := n.machine.Queue(wideQueue); q.Policy.Backfill == rota.BackfillNone {
		a.failf("job %s started before job %s, which came first", id, first.ID)
	}
	for _, k := range reserved {
		if j, ok := n.machine.Job(rota.JobID(k.GetJob())); ok && j.Enqueued.Clock == first.Enqueued.Clock {
			return
		}
	}
	a.failf("job %s started before job %s, for which no room is kept", id, first.ID)
}
