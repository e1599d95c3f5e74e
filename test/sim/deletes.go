package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// deleter deletes jobs (SPEC §21.3): ended ones, until the cluster confirms it, and sometimes jobs that have not ended,
// nodes of workflows, unknown ids, and other jobs' ends. It reuses some freed ids for other jobs. It draws from a
// random source of its own, separate from the world's.
type deleter struct {
	actor
	w      *World
	chance *rand.Rand
	// open counts the deletions and submissions without an answer.
	open int
}

func newDeleter(w *World) *deleter {
	d := &deleter{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0xde1e))}
	d.name = "deleter"
	if w.Deletes {
		w.on(&d.actor, 5_000, d.next)
	}
	return d
}

// next deletes one job, and cancels some before; it stops as the world heals.
func (d *deleter) next() {
	w := d.w
	if w.now >= max(w.Heal, 20_000) {
		return
	}
	w.on(&d.actor, Time(d.chance.IntN(2_500)), d.next)
	id := d.job()
	switch {
	case len(w.flows.all) > 0 && d.chance.IntN(10) == 0:
		f := w.flows.all[d.chance.IntN(len(w.flows.all))]
		id = rota.NodeJobID(f.spec.ID, f.spec.Nodes[d.chance.IntN(len(f.spec.Nodes))].ID)
	case d.chance.IntN(20) == 0:
		id = "nobody's"
	case !w.audit.accepted[id]:
		return // its client would repeat it forever, under an id that may be another job's
	}
	if d.chance.IntN(4) == 0 { // so that its worker may not know of its end yet
		d.ask(&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(id)}}},
			func(*fsmpb.Outcome) { d.forget(id) })
		return
	}
	d.forget(id)
}

// job draws a submitted job.
func (d *deleter) job() rota.JobID {
	return rota.JobID(fmt.Sprint("j", d.chance.IntN(max(1, d.w.client.next))))
}

// forget deletes a job by the number of its end as some node has it; that node may lag.
func (d *deleter) forget(id rota.JobID) {
	w := d.w
	m := w.nodes[d.chance.IntN(len(w.nodes))].machine
	seq, _, _ := m.Tombstone(id)
	if d.chance.IntN(12) == 0 { // another job's number, or an unused one
		seq, _, _ = m.Tombstone(d.job())
	}
	d.ask(fsm.DeleteJobOp(id, seq), func(o *fsmpb.Outcome) {
		if OutcomeOK(o) && d.chance.IntN(2) == 0 {
			s := rota.NewJobSpec("work", []byte("of another life"))
			s.ID, s.Tenant, s.Headers = id, "t0", headersOf(id)
			d.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}},
				func(*fsmpb.Outcome) {})
		}
	})
}

// ask repeats an operation until it is answered.
func (d *deleter) ask(op *fsmpb.Op, reply func(*fsmpb.Outcome)) {
	w, answered := d.w, false
	d.open++
	var try func()
	try = func() {
		if answered {
			return
		}
		n := w.nodes[d.chance.IntN(len(w.nodes))]
		w.forward(n, &d.actor, !n.down, op, func(o *fsmpb.Outcome) {
			if !answered {
				answered = true
				d.open--
				reply(o)
			}
		})
		w.on(&d.actor, 500, try)
	}
	try()
}

// deletions compares the deletions that an entry requested with their outcomes.
func (a *auditor) deletions(e *fsmpb.Entry, r *fsm.Applied) {
	told, ended := map[rota.JobID]bool{}, map[rota.JobID]bool{}
	for i := range r.Events {
		switch x := &r.Events[i]; x.Kind {
		case rota.EventJobDeleted:
			told[x.Job] = !isBulk(x.Job) // requested by a plan
		case rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
			ended[x.Job] = true
		}
	}
	for i, op := range e.GetOps() {
		c := op.GetDeleteJob()
		if c == nil {
			continue
		}
		id, seq, o := rota.JobID(c.GetJob()), c.GetSeq(), r.Outcomes[i]
		switch {
		case OutcomeOK(o) && o.GetExisted():
			if !a.deleted[seq] {
				a.failf("deleting job %s was answered as done before, but end %d was never deleted", id, seq)
			}
		case OutcomeOK(o):
			if !told[id] || !a.deleted[seq] {
				a.failf("job %s was deleted by its end %d, but has no event", id, seq)
			}
			delete(told, id)
		default:
			_, _, vertex := rota.SplitNodeJobID(id)
			if j := a.jobs[id]; j != nil && j.terminal && j.ended == seq && !j.held && !vertex && !ended[id] {
				a.failf("job %s has ended, and deleting it is refused: %v", id, entry.OutcomeError(o))
			}
		}
	}
	maps.DeleteFunc(told, func(_ rota.JobID, asked bool) bool { return !asked })
	if len(told) > 0 {
		a.failf("%d jobs were deleted without a request", len(told))
	}
}

// jobDeleted checks that a deleted job had ended, that no worker works on it, and that the node keeps nothing of it.
func (a *auditor) jobDeleted(n *node, e *rota.Event, j *auditJob) {
	a.Deleted++
	_, _, vertex := rota.SplitNodeJobID(e.Job)
	if !j.terminal || !j.lease.IsZero() || j.deleted || vertex {
		a.failf("job %s was deleted: ended %v, deleted before %v, leased %v, a node of a workflow %v", e.Job,
			j.terminal, j.deleted, !j.lease.IsZero(), vertex)
	}
	for _, k := range a.w.workers {
		if k.down || k.pausedUntil > a.w.now {
			continue
		}
		for _, t := range k.order {
			if t.given.Lease.Job == e.Job && k.believes(t) {
				a.failf("job %s was deleted while worker %s believes that it holds it", e.Job, k.id)
			}
		}
	}
	if _, staged := n.machine.StagedJob(e.Job); staged && n.machine.JobState(e.Job) == rota.JobNone {
		a.failf("node %s shows job %s after it was deleted", n.name, e.Job)
	}
	a.deleted[j.ended] = true
	*j = auditJob{token: j.token, deleted: true}
}

// lives follows the lives of an id: submitting a deleted or faded id again starts another life.
func (a *auditor) lives(n *node, e *rota.Event, j *auditJob) {
	a.date = e.Date
	switch e.Kind {
	case rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
		j.ended, _, _ = n.machine.Tombstone(e.Job) // logs of attempts take numbers too, and no event reports those
		j.over = e.Date
	case rota.EventLeaseCancelled, rota.EventLeaseRevoked:
		j.held = true
	}
	if j == nil {
		return
	}
	if (e.Kind == rota.EventJobEnqueued || e.Kind == rota.EventJobDelayed) && a.mayFade(e.Job) {
		*j = auditJob{token: j.token} // its repetition came late, from a deposed leader
	}
	if !j.deleted || e.Kind == rota.EventJobDeleted ||
		e.Kind == rota.EventAssignmentDropped { // of a round decided earlier
		return
	}
	if e.Kind != rota.EventJobEnqueued && e.Kind != rota.EventJobDelayed {
		a.failf("%s of job %s, which was deleted", e.Kind, e.Job)
	}
	j.deleted = false
}

// forgotten counts the ranges of the numbers of deleted jobs.
func (a *auditor) forgotten() (ranges int) {
	for seq := range a.deleted {
		if !a.deleted[seq-1] {
			ranges++
		}
	}
	return ranges
}

// listed checks that a node lists exactly the jobs of the model, each once.
func (a *auditor) listed(n *node) {
	var got, want []rota.JobID
	page, err := n.machine.Jobs().Page(rota.JobFilter{Limit: limits.MaxPage}, nil)
	if err != nil {
		a.failf("node %s lists no jobs: %v", n.name, err)
		return
	}
	for _, j := range page.Jobs {
		got = append(got, j.ID)
	}
	for id, j := range a.jobs {
		if !j.deleted {
			want = append(want, id)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		a.failf("node %s lists jobs %v, the model has %v", n.name, got, want)
	}
}
