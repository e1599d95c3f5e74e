package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
)

// batcher opens batches, submits jobs to them, seals them, and cancels, retries and deletes jobs and callbacks (SPEC
// §24). It draws from a random source of its own, separate from the world's.
type batcher struct {
	actor
	w             *World
	chance        *rand.Rand
	jobs, batches int
	specs         map[rota.JobID]*rota.JobSpec
}

func newBatcher(w *World) *batcher {
	b := &batcher{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x2401)), specs: map[rota.JobID]*rota.JobSpec{}}
	b.name = "batcher"
	if w.Batches {
		w.on(&b.actor, 2_000, b.next)
	}
	return b
}

// next performs one action. While the world heals it only seals, so that all batches end.
func (b *batcher) next() {
	w := b.w
	if w.now >= max(w.Heal, 20_000) {
		w.on(&b.actor, 30_000, b.next)
		for i := range b.batches {
			b.ask(entry.SealOp(batchID(i)))
		}
		return
	}
	w.on(&b.actor, Time(b.chance.IntN(1_500)), b.next)
	switch c := b.chance.IntN(16); {
	case c < 3:
		b.open()
	case c < 10:
		b.submit()
	case c < 12:
		b.ask(entry.SealOp(b.batch()))
	case c == 12:
		b.ask(&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(b.job())}}})
	case c < 15:
		b.again()
	default:
		id := b.job()
		if seq, _, ok := b.machine().Tombstone(id); ok {
			b.ask(fsm.DeleteJobOp(id, seq))
		}
	}
}

func batchID(i int) rota.BatchID { return rota.BatchID(fmt.Sprint("bt", i)) }

// batch draws one of the last batches opened, or one that was not opened.
func (b *batcher) batch() rota.BatchID { return batchID(max(0, b.batches-b.chance.IntN(5))) }

// machine returns the state of a random node, which may lag.
func (b *batcher) machine() *fsm.Machine { return b.w.nodes[b.chance.IntN(len(b.w.nodes))].machine }

// job draws a submitted job or a callback.
func (b *batcher) job() rota.JobID {
	if b.chance.IntN(5) == 0 {
		return rota.CallbackID(b.batch())
	}
	return rota.JobID(fmt.Sprint("m", max(0, b.jobs-1-b.chance.IntN(20))))
}

// open opens a batch; some batches are opened a second time with another size.
func (b *batcher) open() {
	s := rota.BatchSpec{ID: batchID(b.batches), Callback: rota.NewJobSpec("work", []byte("callback"))}
	s.Callback.Tenant, s.Callback.Labels = "t0", map[string]string{"of": string(s.ID)}
	if b.chance.IntN(3) == 0 {
		s.Size = int64(1 + b.chance.IntN(5))
	}
	if b.batches > 0 && b.chance.IntN(6) == 0 {
		s.ID = b.batch()
	}
	b.batches++
	b.ask(entry.BatchOp(&s))
}

func (b *batcher) submit() {
	s := rota.NewJobSpec("work", []byte(fmt.Sprint(b.jobs)))
	s.ID, s.Tenant, s.Batch = rota.JobID(fmt.Sprint("m", b.jobs)), "t0", b.batch()
	s.Retry = rota.RetryPolicy{Attempts: 2, Base: millis.Duration(500)}
	if b.chance.IntN(4) == 0 {
		s.Delay = millis.Duration(int64(b.chance.IntN(4_000)))
	}
	if b.chance.IntN(6) == 0 {
		s.TTL = millis.Duration(int64(4_000 + b.chance.IntN(20_000)))
	}
	b.jobs++
	b.specs[s.ID] = &s
	b.w.audit.expires[s.ID] = b.w.audit.clock + rota.Clock(s.TTL.Milliseconds())
	b.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}})
}

// again retries a job that did not complete, before or after its batch has ended.
func (b *batcher) again() {
	m, id := b.machine(), b.job()
	j, ok := m.Job(id)
	if s := b.specs[id]; s != nil && ok && j.State.Terminal() && j.State != rota.JobCompleted {
		b.w.audit.expires[id] = 0 // its time to live starts again, at an unknown moment
		b.ask(&fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: string(id), Life: j.Life, Spec: entry.SpecOp(s)}}})
	}
}

// ask repeats an operation until it is answered.
func (b *batcher) ask(op *fsmpb.Op) {
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

// ledger is the naive model of batches: the jobs each accepted according to outcomes, and how those ended according to
// events. Everything is counted again each time.
type ledger struct {
	batches map[rota.BatchID]*ledgerBatch
	// open holds the batches without a callback, in the order of their opening.
	open []rota.BatchID
	// member holds the last job of an id that a batch accepted.
	member map[rota.JobID]*ledgerJob
}

type ledgerBatch struct {
	size           int64
	jobs           []*ledgerJob
	sealed, called bool
}

// ledgerJob is a job as its batch counts it: how it ended, JobNone while it is alive.
type ledgerJob struct{ end rota.JobState }

func newLedger() ledger {
	return ledger{batches: map[rota.BatchID]*ledgerBatch{}, member: map[rota.JobID]*ledgerJob{}}
}

func (b *ledgerBatch) counts() (n rota.BatchCounts) {
	n.Total = int64(len(b.jobs))
	for _, j := range b.jobs {
		if of := n.Of(j.end); of != nil {
			*of++
		} else {
			n.Live++
		}
	}
	return n
}

// batchEnds maps an event to the end of a job that it reports.
var batchEnds = map[rota.EventKind]rota.JobState{rota.EventJobCompleted: rota.JobCompleted,
	rota.EventJobDead: rota.JobDead, rota.EventJobExpired: rota.JobExpired, rota.EventJobCancelled: rota.JobCancelled}

// batched follows the batches through an entry. It checks that each has its callback in exactly the entry in which it
// is sealed and its last job has ended.
func (a *auditor) batched(n *node, e *fsmpb.Entry, r *fsm.Applied) {
	if !a.w.Batches {
		return
	}
	for i, op := range e.GetOps() {
		a.batchOp(op, r.Outcomes[i])
	}
	called := map[rota.BatchID]rota.BatchCounts{}
	for i := range r.Events {
		x := &r.Events[i]
		if j := a.ledger.member[x.Job]; j != nil {
			switch end, ends := batchEnds[x.Kind]; {
			case ends:
				j.end = end
			case x.Kind == rota.EventJobEnqueued || x.Kind == rota.EventJobDelayed:
				j.end = rota.JobNone
			case x.Kind == rota.EventJobDeleted:
				delete(a.ledger.member, x.Job) // it stays counted as ended
			}
		}
		if x.Kind == rota.EventBatchFinished {
			var told struct {
				Batch rota.BatchID `json:"batch"`
				rota.BatchCounts
			}
			if err := json.Unmarshal([]byte(x.Payload), &told); err != nil {
				a.failf("%s has payload %q: %v", x.Kind, x.Payload, err)
			}
			_, again := called[told.Batch]
			if b := a.ledger.batches[told.Batch]; b == nil || b.called || again {
				a.failf("batch %s has its callback twice, or was never opened", told.Batch)
			}
			called[told.Batch] = told.BatchCounts
		}
	}
	rest := a.ledger.open[:0]
	for _, id := range a.ledger.open {
		b := a.ledger.batches[id]
		counts, told := b.counts(), called[id]
		_, now := called[id]
		switch due := b.sealed && !b.called && counts.Live == 0; {
		case now && !due:
			a.failf("batch %s, sealed: %v, has its callback while %d of its jobs live", id, b.sealed, counts.Live)
		case due && !now:
			a.failf("batch %s is sealed and all of its %d jobs have ended, and it has no callback", id, counts.Total)
		case !now:
			rest = append(rest, id)
			continue
		}
		b.called = true
		a.Batched++
		done, known := n.machine.Job(rota.CallbackID(id))
		if told != counts || !known || !maps.Equal(done.Labels,
			counts.Labels(map[string]string{"of": done.Labels["of"]})) {
			a.failf("the callback of batch %s counts %+v, with labels %v; want %+v as in the model", id, told,
				done.Labels, counts)
		}
	}
	a.ledger.open = rest
}

// batchOp records the batches and jobs that an operation opened, accepted or sealed.
func (a *auditor) batchOp(op *fsmpb.Op, o *fsmpb.Outcome) {
	ok, l := OutcomeOK(o) && !o.GetExisted(), &a.ledger
	switch {
	case op.GetOpenBatch() != nil && ok:
		id := rota.BatchID(op.GetOpenBatch().GetId())
		if l.batches[id] != nil {
			a.failf("batch %s was opened twice", id)
		}
		l.batches[id], l.open = &ledgerBatch{size: op.GetOpenBatch().GetSize()}, append(l.open, id)
	case op.GetSealBatch() != nil && OutcomeOK(o):
		l.batches[rota.BatchID(op.GetSealBatch().GetId())].sealed = true
	case op.GetSubmit().GetSpec().GetBatch() != "":
		id, b := op.GetSubmit().GetSpec().GetId(), l.batches[rota.BatchID(op.GetSubmit().GetSpec().GetBatch())]
		switch refused := rota.ErrorOf(entry.OutcomeError(o)); {
		case ok && (b == nil || b.sealed):
			a.failf("job %s was accepted by batch %s, which is sealed or was never opened", id,
				op.GetSubmit().GetSpec().GetBatch())
		case ok:
			j := &ledgerJob{}
			b.jobs, l.member[rota.JobID(id)] = append(b.jobs, j), j
			b.sealed = b.sealed || int64(len(b.jobs)) == b.size
		case !OutcomeOK(o) && b != nil && !b.sealed:
			a.failf("job %s was refused by its batch, which is open: %v", id, refused)
		}
	}
}

// livesAgain marks a retried job of a batch as not ended.
func (a *auditor) livesAgain(e *rota.Event, j *auditJob) {
	if a.ledger.member[e.Job] != nil && (e.Kind == rota.EventJobEnqueued || e.Kind == rota.EventJobDelayed) {
		j.terminal = false
	}
}

// batchesFinal checks that each batch had its callback and that each node has the right counts.
func (a *auditor) batchesFinal() {
	for i := range a.w.batcher.batches {
		id := batchID(i)
		b := a.ledger.batches[id]
		if b == nil {
			continue
		}
		if !b.called {
			a.failf("batch %s never had its callback: sealed %v, %+v", id, b.sealed, b.counts())
		}
		for _, n := range a.w.nodes {
			if got, ok := fsm.BatchOf(&n.machine.View, id); !ok || got.BatchCounts != b.counts() ||
				got.State != rota.BatchFinished {
				a.failf("node %s has batch %s as %+v, the model counts %+v", n.name, id, got, b.counts())
			}
		}
	}
}
