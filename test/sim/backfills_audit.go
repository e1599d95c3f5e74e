package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// wide is a model of a queue that backfills: its pending jobs and running leases as they were after each entry, because
// a round is decided some entries before it applies.
type wide struct {
	specs map[rota.JobID]*rota.JobSpec
	// numbers holds the order in which jobs were submitted; fresh holds those of the latest entry.
	numbers map[rota.JobID]int
	fresh   []rota.JobID
	waits   map[rota.JobID]wideJob
	runs    map[rota.LeaseID]wideRun
	// past is indexed by index − 1.
	past []wideView
}

// wideJob is a pending job. It uses the whole worker if it runs alone (SPEC §9.7).
type wideJob struct {
	*rota.JobSpec
	enqueued rota.Clock
	alone    bool
}

func (j *wideJob) cpu() int64 {
	if j.alone {
		return wideCPU
	}
	return j.CPUMilli
}

// endless is the end of a run of another queue, which the model does not know.
const endless rota.Clock = math.MaxInt64 / 2

// wideRun is the part of a worker that a job uses, for its expected run time.
type wideRun struct {
	lease    rota.LeaseID
	worker   rota.WorkerID
	from, to rota.Clock
	cpu      int64
}

// wideView is the queue after an entry.
type wideView struct {
	at       rota.Moment
	backfill rota.Backfill
	// jobs holds the pending jobs in the order of the queue.
	jobs []wideJob
	runs []wideRun
	// able holds the workers that accept its jobs, by id.
	able []rota.WorkerID
}

func newWide() wide {
	return wide{specs: map[rota.JobID]*rota.JobSpec{}, numbers: map[rota.JobID]int{}, waits: map[rota.JobID]wideJob{},
		runs: map[rota.LeaseID]wideRun{}}
}

// wideRound is the part of an entry's rounds that concerns the queue.
type wideRound struct {
	pairs map[rota.JobID]rota.WorkerID
	// kept is the room reserved for first jobs of any queue.
	kept   []*fsmpb.Reserved
	height rota.Index
	// with means that it was decided with the entry's operations, beside that it was decided without them.
	with, beside bool
	// ended holds the leases that the entry ends, according to its rounds if they were decided with its operations.
	ended []rota.LeaseID
}

func wideRoundOf(e *fsmpb.Entry) wideRound {
	r := wideRound{pairs: map[rota.JobID]rota.WorkerID{}}
	for _, op := range e.GetOps() {
		round := op.GetRound()
		r.kept = append(r.kept, round.GetReserved()...)
		if round.GetQueue() != wideQueue {
			continue
		}
		r.height = rota.Index(round.GetHeight())
		r.with, r.beside = r.with || round.GetWith() > 0, r.beside || round.GetWith() == 0
		for _, p := range round.GetPairs() {
			r.pairs[rota.JobID(p.GetJob())] = rota.WorkerID(p.GetWorker())
		}
	}
	return r
}

// backfilled checks an entry against SPEC §26.3: if a job starts before an earlier one that was pending when the round
// was decided, room must be reserved for the earlier one and left free; conservative backfilling leaves the room of all
// earlier jobs free.
func (a *auditor) backfilled(n *node, e *fsmpb.Entry, r *fsm.Applied) {
	if !a.w.Wide {
		return
	}
	m, started, unseen, ended := &a.wide, false, false, []rota.LeaseID(nil)
	m.fresh = m.fresh[:0]
	for i := range r.Events {
		v := &r.Events[i]
		if v.Kind == rota.EventJobCompleted {
			ended = append(ended, v.Lease)
		}
		s := m.specs[v.Job]
		if s == nil {
			// A job of another queue got a whole worker in this entry; whether before or after the round is unknown.
			unseen = unseen || v.Kind == rota.EventJobAssigned && a.jobs[v.Job].alone
			continue
		}
		if _, known := m.numbers[v.Job]; !known {
			m.numbers[v.Job] = len(m.numbers)
			m.fresh = append(m.fresh, v.Job)
		}
		if v.Kind == rota.EventJobAssigned {
			job := wideJob{JobSpec: s, alone: a.jobs[v.Job].alone}
			m.runs[v.Lease] = wideRun{v.Lease, v.Worker, v.Clock, v.Clock + rota.Clock(s.Expected.Milliseconds()),
				job.cpu()}
			started = true
		}
	}
	round := wideRoundOf(e)
	if round.with {
		round.ended = ended
	}
	if started && !unseen && round.height > 0 && round.with != round.beside {
		a.passed(&round, r.Clock)
	}
	maps.DeleteFunc(m.runs, func(id rota.LeaseID, _ wideRun) bool { return a.leases[id] == nil })
	m.view(a, n)
}

// view records the queue as it is at a node.
func (m *wide) view(a *auditor, n *node) {
	head := n.machine.Head()
	v := wideView{at: rota.Moment{Clock: head.Clock, Date: head.Date}}
	if q, ok := n.machine.Queue(wideQueue); ok {
		v.backfill = q.Policy.Backfill
	}
	for id := range m.numbers {
		if n.machine.JobState(id) != rota.JobQueued {
			delete(m.waits, id)
		} else if _, waits := m.waits[id]; !waits {
			j, _ := n.machine.Job(id)
			m.waits[id] = wideJob{m.specs[id], j.Enqueued.Clock, j.Isolated}
		}
	}
	for id, j := range m.waits {
		if j.alone && !a.jobs[id].alone { // it was cleared
			j.alone = false
			m.waits[id] = j
		}
	}
	for id, run := range m.runs {
		if l := a.leases[id]; !isAlone(a, l) {
			run.cpu = m.specs[l.job].CPUMilli
			m.runs[id] = run
		}
	}
	v.jobs = slices.SortedFunc(maps.Values(m.waits), func(a, b wideJob) int {
		return cmp.Or(cmp.Compare(a.enqueued, b.enqueued), cmp.Compare(m.numbers[a.ID], m.numbers[b.ID]))
	})
	v.runs = slices.Collect(maps.Values(m.runs))
	for id, l := range a.leases {
		if _, ours := m.runs[id]; !ours && isAlone(a, l) { // how long another queue's job runs alone is unknown
			v.runs = append(v.runs, wideRun{id, l.worker.id, v.at.Clock, endless, wideCPU})
		}
	}
	for _, k := range n.machine.Workers() {
		if k.Status == rota.WorkerActive && k.DisconnectedSince.IsZero() && slices.Contains(k.Queues, wideQueue) {
			v.able = append(v.able, k.ID)
		}
	}
	m.past = append(m.past, v)
}

// passed walks through the queue as it was when a round was decided, in its order, and places what each job uses: those
// that start from now on, those with reserved room from its start on.
func (a *auditor) passed(round *wideRound, clock rota.Clock) {
	v := a.wide.past[round.height-1]
	now, jobs := v.at.Clock, v.jobs
	if round.with && len(a.wide.fresh) > 0 { // a refill uses the clock of the state
		now = clock
		for _, id := range a.wide.fresh {
			jobs = append(jobs[:len(jobs):len(jobs)], wideJob{JobSpec: a.wide.specs[id], enqueued: now})
		}
	}
	yard, left := wideYard(slices.Clone(v.runs)), len(round.pairs)
	yard = slices.DeleteFunc(yard, func(x wideRun) bool { return slices.Contains(round.ended, x.lease) })
	kept := rota.JobID("") // the first that does not start
	for _, j := range jobs {
		long := rota.Clock(j.Expected.Milliseconds())
		worker, starts := round.pairs[j.ID]
		at := now
		switch k := round.keptFor(j.ID); {
		case left == 0:
			return
		case starts:
			left--
			if kept == "" {
				break
			}
			a.Overtaken++
			if v.backfill == rota.BackfillNone {
				a.failf("job %s started before job %s, which came first", j.ID, kept)
			}
			if !yard.fits(worker, now, now+long, j.cpu()) {
				a.failf("job %s starts at worker %s and takes room that is kept there for one that came first", j.ID,
					worker)
			}
		case k != nil:
			worker, at = rota.WorkerID(k.GetWorker()), v.at.Clock+rota.Clock(rota.Date(k.GetUntilMs())-v.at.Date)
			known := yard
			if at > now { // by then it may be over
				known = slices.DeleteFunc(slices.Clone(yard), func(r wideRun) bool { return r.to == endless })
			}
			if !known.fits(worker, at, at+long, j.cpu()) {
				a.failf("room for job %s is reserved at worker %s from %d on, but is in use", j.ID, worker,
					k.GetUntilMs())
			}
		case kept == "":
			a.failf("jobs start behind job %s, for which no room is kept", j.ID)
		case v.backfill == rota.BackfillConservative && j.alone:
			return // its room also depends on the leases of other queues
		case v.backfill == rota.BackfillConservative:
			a.Foreseen++
			worker, at = yard.soonest(v.able, now, j)
		}
		if !starts && kept == "" {
			kept = j.ID
		}
		if starts || kept == j.ID || v.backfill == rota.BackfillConservative {
			yard = append(yard, wideRun{worker: worker, from: at, to: at + long, cpu: j.cpu()})
		}
	}
}

// keptFor returns the room reserved for a job, nil if there is none.
func (r *wideRound) keptFor(id rota.JobID) *fsmpb.Reserved {
	for _, k := range r.kept {
		if k.GetJob() == string(id) {
			return k
		}
	}
	return nil
}

// wideYard holds the used parts of workers. An overdue lease may end at any moment.
type wideYard []wideRun

// fits reports whether a worker has this much CPU free between two moments.
func (y wideYard) fits(worker rota.WorkerID, from, to rota.Clock, cpu int64) bool {
	moments := []rota.Clock{from}
	for _, t := range y {
		if t.worker == worker && from < t.from && t.from < to {
			moments = append(moments, t.from)
		}
	}
	for _, at := range moments {
		free := int64(wideCPU)
		for _, t := range y {
			if t.worker == worker && t.from <= at && at < t.to {
				free -= t.cpu
			}
		}
		if free < cpu {
			return false
		}
	}
	return true
}

// soonest returns the worker and the moment at which a job first has room for its expected run time: now, or when
// something ends.
func (y wideYard) soonest(able []rota.WorkerID, now rota.Clock, j wideJob) (worker rota.WorkerID, at rota.Clock) {
	for _, id := range able {
		for _, from := range append([]rota.Clock{now}, y.ends(id, now)...) {
			if y.fits(id, from, from+rota.Clock(j.Expected.Milliseconds()), j.cpu()) {
				if worker == "" || from < at {
					worker, at = id, from
				}
				break
			}
		}
	}
	return worker, at
}

// ends returns the moments at which used parts of a worker become free, in order.
func (y wideYard) ends(worker rota.WorkerID, now rota.Clock) (ends []rota.Clock) {
	for _, t := range y {
		if t.worker == worker && t.to > now {
			ends = append(ends, t.to)
		}
	}
	slices.Sort(ends)
	return ends
}

// wideFinal checks that all jobs of the queue had their turn.
func (a *auditor) wideFinal(m *fsm.Machine) {
	for _, id := range slices.Sorted(maps.Keys(a.wide.numbers)) {
		if s := m.JobState(id); s != rota.JobNone && !s.Terminal() {
			a.failf("wide job %s is %s at the end", id, s)
		}
	}
}
