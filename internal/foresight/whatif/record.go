package whatif

import (
	"crypto/sha256"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// run is an attempt that reached its own end in the record: when its worker acknowledged it, -1 if it did not, and when
// it ended, in ms after its lease.
type run struct {
	ack, end int64
	after    int64
	// acked and at are the entries of both.
	acked, at rota.Index
	verb      rota.LeaseVerb
	fail      uint32
	// op has the other data of its end, nil for none.
	op *fsmpb.LeaseOp
}

// record is the data in a log on the runs of its jobs.
type record struct {
	course
	m     *fsm.Machine
	taken map[rota.JobID]*taken
	runs  [][]run
	// busy are entries in which jobs could have been assigned, and were not: the leader had another entry in progress.
	busy map[rota.Index]bool
	// filled are entries that assigned the room of their own completions again.
	filled map[rota.Index]bool
	// cut is the maximum run time of a job that reached no end of its own.
	cut map[int32]int64
	// specs are the workers that the log has.
	specs map[rota.WorkerID]rota.WorkerSpec
	// sessions are those that a worker's registrations got, 0 for a refused one.
	sessions map[rota.WorkerID][]uint64
	// median is how long runs of a type took, usual those of all, ack the time until acknowledgement.
	median     map[int32]int64
	usual, ack int64
}

// taken is an open lease of the record.
type taken struct {
	lease      rota.LeaseID
	start, ack int64
	acked      rota.Index
	revoked    bool
}

func newRecord(js *jobs, m *fsm.Machine) (*record, error) {
	r := &record{course: course{jobs: js}, m: m, taken: make(map[rota.JobID]*taken), cut: make(map[int32]int64),
		busy: make(map[rota.Index]bool), filled: make(map[rota.Index]bool),
		specs:    make(map[rota.WorkerID]rota.WorkerSpec),
		sessions: make(map[rota.WorkerID][]uint64)}
	for _, w := range m.Workers() {
		r.specs[w.ID] = w.WorkerSpec
		for _, a := range m.Assignments(w.ID, w.Session) {
			t := &taken{lease: a.Lease.ID, start: int64(a.Lease.Started.Clock), ack: -1}
			if !a.Lease.Acked.IsZero() {
				t.ack = int64(a.Lease.Acked.Clock) - t.start
			}
			r.taken[a.Lease.Job] = t
		}
	}
	err := r.begin(m)
	return r, err
}

// entry records the effects of an entry.
func (r *record) entry(e *fsmpb.Entry, a *fsm.Applied) error {
	r.pass(a.Clock, len(r.taken))
	for i, op := range e.GetOps() {
		if register := op.GetRegister(); register != nil {
			id := rota.WorkerID(register.GetSpec().GetId())
			r.sessions[id] = append(r.sessions[id], a.Outcomes[i].GetSession())
		}
		if entry.OutcomeError(a.Outcomes[i]) != nil {
			continue
		}
		switch o := op.GetOp().(type) {
		case *fsmpb.Op_Lease:
			if err := r.verb(o.Lease, a); err != nil {
				return err
			}
		case *fsmpb.Op_Register:
			spec := entry.WorkerWords(o.Register.GetSpec())
			r.specs[spec.ID] = *spec
		}
	}
	for i := range a.Events {
		if err := r.course.follow(r.m, &a.Events[i]); err != nil {
			return err
		}
		r.lease(&a.Events[i])
	}
	return nil
}

// before records the facts about an entry that are needed before it is applied.
func (r *record) before(i rota.Index, e *fsmpb.Entry) {
	submits, rounds, with := false, false, false
	for _, op := range e.GetOps() {
		submits, rounds = submits || op.GetSubmit() != nil, rounds || op.GetRound() != nil
		with = with || op.GetRound().GetWith() > 0
	}
	switch {
	case with && !submits:
		r.filled[i] = true
	case submits && !rounds && !r.m.Waiting():
		r.busy[i] = true
	}
}

// verb records the end of a run.
func (r *record) verb(op *fsmpb.LeaseOp, a *fsm.Applied) error {
	t := r.taken[rota.JobID(op.GetJob())]
	verb := rota.LeaseVerb(op.GetVerb())
	if t == nil || t.revoked || string(t.lease[:]) != string(op.GetLease()) ||
		verb != rota.VerbComplete && verb != rota.VerbFail && verb != rota.VerbDecline {
		return nil
	}
	i, err := r.of(r.m, rota.JobID(op.GetJob()))
	if err != nil {
		return err
	}
	for int(i) >= len(r.runs) {
		r.runs = append(r.runs, nil)
	}
	r.runs[i] = append(r.runs[i], run{ack: t.ack, acked: t.acked, end: int64(a.Clock) - t.start, at: a.Index,
		verb: verb, fail: op.GetFail(), after: op.GetAfterMs(),
		op: brought(op)})
	delete(r.taken, rota.JobID(op.GetJob()))
	return nil
}

// brought keeps the parts of a verb that affect decisions, not outputs and logs.
func brought(op *fsmpb.LeaseOp) *fsmpb.LeaseOp {
	digest := op.GetOutputDigest()
	if len(op.GetOutput()) > 0 && len(digest) == 0 {
		sum := sha256.Sum256(op.GetOutput())
		digest = sum[:]
	}
	if len(digest) == 0 && len(op.GetChildren()) == 0 && len(op.GetCosts()) == 0 {
		return nil
	}
	return &fsmpb.LeaseOp{OutputDigest: slices.Clone(digest), Children: slices.Clone(op.GetChildren()),
		Costs: entry.CostOps(entry.CostWords(op.GetCosts()))}
}

// lease tracks the open leases.
func (r *record) lease(e *rota.Event) {
	switch t := r.taken[e.Job]; {
	case e.Kind == rota.EventJobAssigned:
		r.taken[e.Job] = &taken{lease: e.Lease, start: int64(e.Clock), ack: -1}
	case t == nil:
	case e.Kind == rota.EventLeaseAcked:
		t.ack, t.acked = int64(e.Clock)-t.start, e.ID.Index
	case e.Kind == rota.EventLeaseRevoked:
		t.revoked = true
	case closes(e.Kind):
		r.cutShort(e.Job, t, int64(e.Clock))
		delete(r.taken, e.Job)
	}
}

// closes reports whether an event about a job means that none of its leases is open any longer.
func closes(kind rota.EventKind) bool {
	switch kind {
	case rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseDeclined, rota.EventJobCompleted,
		rota.EventJobDead, rota.EventJobExpired,
		rota.EventJobCancelled, rota.EventJobRetryScheduled, rota.EventJobDelayed, rota.EventJobEnqueued:
		return true
	}
	return false
}

func (r *record) cutShort(id rota.JobID, t *taken, now int64) {
	if i, ok := r.places[id]; ok {
		r.cut[i] = max(r.cut[i], now-t.start)
	}
}

// close calculates the usual times.
func (r *record) close() {
	for id, t := range r.taken { // each its own job's: in any order
		r.cutShort(id, t, int64(r.now))
	}
	byType := make(map[int32][]int64)
	var all, acks []int64
	for i, runs := range r.runs {
		for k := range runs {
			if runs[k].verb != rota.VerbComplete {
				continue
			}
			ms := runs[k].end - max(runs[k].ack, 0)
			byType[r.list[i].typ] = append(byType[r.list[i].typ], ms)
			all = append(all, ms)
			if runs[k].ack >= 0 {
				acks = append(acks, runs[k].ack)
			}
		}
	}
	r.median = make(map[int32]int64, len(byType))
	for typ, list := range byType {
		r.median[typ] = median(list, 0)
	}
	r.usual, r.ack = median(all, 1_000), median(acks, 0)
}

// median returns the middle of a list, or none if it is empty.
func median(list []int64, none int64) int64 {
	if len(list) == 0 {
		return none
	}
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

// next returns a job's run after the first used that reached their own end, or a substitute if the log has none left.
func (r *record) next(i int32, used int) (x run, filled bool) {
	if int(i) < len(r.runs) && used < len(r.runs[i]) {
		return r.runs[i][used], false
	}
	ms, ok := r.median[r.list[i].typ]
	if !ok {
		ms = r.usual
	}
	return run{ack: r.ack, end: max(r.ack+ms, r.cut[i]), verb: rota.VerbComplete}, true
}

// used returns how many runs of a job had reached their own end at an index.
func (r *record) used(i int32, at rota.Index) (n int) {
	if int(i) >= len(r.runs) {
		return 0
	}
	for n < len(r.runs[i]) && r.runs[i][n].at <= at {
		n++
	}
	return n
}
