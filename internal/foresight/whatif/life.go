package whatif

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// life is a history being made: first in parallel with the record, whose entries it applies with decisions of its own,
// then, once it has diverged, alone.
type life struct {
	*window
	course
	m      *fsm.Machine
	change *Change
	left   left
	rec    *record
	// pending are changes of queues that do not exist yet.
	pending []QueueChange
	// limits are changes of budgets that do not exist yet, or that the log has set since.
	limits []BudgetLimit
	begun  bool
	// decided and with are rounds of this state, by the height at which the leaders decided.
	decided, withs map[rota.Index][]*fsmpb.Round

	leases map[rota.JobID]*lease
	starts uint64
	// theirs are the open leases of the record, while it is replayed in parallel; sessions are those of workers here,
	// by the record's, if they differ.
	theirs   map[rota.JobID]rota.LeaseID
	sessions map[uint64]uint64
	// registers counts the registrations of a worker so far.
	registers map[rota.WorkerID]int
	// parted is the entry after which the life continues alone, 0 until then. The following fields are of that part.
	parted rota.Index
	agenda agenda
	used   map[int32]int
	// dark are workers that are not heard, with the reports they would send.
	dark   map[rota.WorkerID]bool
	silent map[rota.WorkerID][]*lease
	// leaving are the Byes of workers that still have leases here, in order.
	leaving []*fsmpb.Op
	// asked means that something changed since rounds were decided, at asking; matched is when they were.
	asked           bool
	asking, matched int64
	more            bool
	// stamp is the moment of the present log entry, at is the entry up to which workers are heard at it.
	stamp int64
	at    rota.Index
	// walls are the readings of wall clocks from a log entry, until an entry here has them, at wallsAt.
	walls   []int64
	wallsAt int64
}

// lease is an open lease, and its worker's next action on it.
type lease struct {
	id              rota.LeaseID
	job             rota.JobID
	place           int32
	worker          rota.WorkerID
	session         rota.Session
	start, deadline int64
	acked, revoked  bool
	renewals        int32
	// settled means that it can no longer be renewed, gone that it is over.
	settled, gone bool
	order         uint64

	run    run
	filled bool
	due    int64
	verb   rota.LeaseVerb
}

func newLife(w *window, js *jobs, c *Change, rec *record) (*life, error) {
	m, err := w.thaw()
	if err != nil {
		return nil, err
	}
	l := &life{window: w, course: course{jobs: js}, m: m, change: c, rec: rec, pending: slices.Clone(c.Queues),
		limits:  slices.Clone(c.Budgets),
		left:    left{tenant: string(c.Without), workflows: make(map[string]bool), schedules: make(map[string]bool)},
		decided: make(map[rota.Index][]*fsmpb.Round), withs: make(map[rota.Index][]*fsmpb.Round),
		leases: make(map[rota.JobID]*lease), theirs: make(map[rota.JobID]rota.LeaseID),
		sessions: make(map[uint64]uint64), registers: make(map[rota.WorkerID]int),
		used: make(map[int32]int), dark: make(map[rota.WorkerID]bool), silent: make(map[rota.WorkerID][]*lease)}
	if err := l.course.begin(m); err != nil {
		return nil, err
	}
	for _, worker := range m.Workers() {
		l.dark[worker.ID] = !worker.SilentSince.IsZero() || !worker.DisconnectedSince.IsZero()
		for _, a := range m.Assignments(worker.ID, worker.Session) {
			i, err := l.of(m, a.Lease.Job)
			if err != nil {
				return nil, err
			}
			l.starts++
			l.theirs[a.Lease.Job] = a.Lease.ID
			l.leases[a.Lease.Job] = &lease{id: a.Lease.ID, job: a.Lease.Job, place: i, worker: worker.ID,
				session: a.Lease.Session,
				start:   int64(a.Lease.Started.Clock), deadline: int64(a.Lease.Deadline.Clock),
				acked:   !a.Lease.Acked.IsZero(),
				revoked: a.Lease.Revoked != rota.ReasonNone, renewals: a.Lease.Renewals, order: l.starts}
		}
	}
	return l, nil
}

// put applies an entry, which becomes the log's entry of that index.
func (l *life) put(index rota.Index, term uint64, e *fsmpb.Entry) (fsm.Applied, error) {
	data, err := entry.Seal(e, max(l.m.Head().Rules, entry.FirstRules))
	if err != nil {
		return fsm.Applied{}, err
	}
	return l.take(index, term, data, e)
}

// take applies an entry unchanged, and records its effects.
func (l *life) take(index rota.Index, term uint64, data []byte, e *fsmpb.Entry) (fsm.Applied, error) {
	a, err := l.m.Apply(index, term, data)
	if err != nil {
		return a, err
	}
	l.pass(a.Clock, len(l.leases))
	l.more = a.Sweep.More
	for i, op := range e.GetOps() {
		l.hear(op, a.Outcomes[i])
	}
	for i := range a.Events {
		if err := l.follow(&a.Events[i]); err != nil {
			return a, err
		}
	}
	forget(l.m)
	return a, nil
}

// hear records which workers are heard.
func (l *life) hear(op *fsmpb.Op, o *fsmpb.Outcome) {
	l.registered(op, o)
	if entry.OutcomeError(o) != nil {
		return
	}
	var id string
	dark := false
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_Reach:
		id, dark = op.Reach.GetWorker(), !op.Reach.GetReachable()
	case *fsmpb.Op_Disconnect:
		id, dark = op.Disconnect.GetWorker(), true
	case *fsmpb.Op_Gone:
		id, dark = op.Gone.GetWorker(), true
	case *fsmpb.Op_Register:
		id = op.Register.GetSpec().GetId()
	case *fsmpb.Op_Offer:
		id = op.Offer.GetWorker()
	default:
		return
	}
	worker := rota.WorkerID(id)
	if l.dark[worker] = dark; dark {
		return
	}
	for _, s := range l.silent[worker] {
		l.next(s, int64(l.now))
	}
	delete(l.silent, worker)
}

// follow tracks the open leases, and the tasks that an event gives the leader.
func (l *life) follow(e *rota.Event) error {
	if err := l.course.follow(l.m, e); err != nil {
		return err
	}
	o := l.leases[e.Job]
	switch {
	case e.Kind == rota.EventJobAssigned:
		return l.assigned(e)
	case e.Kind == rota.EventLeaseAcked:
		if o != nil {
			o.acked = true
		}
		return nil
	case e.Kind == rota.EventLeaseRenewed:
		if o != nil {
			o.acked, o.deadline = true, int64(e.Deadline.Clock)
			o.renewals++
		}
		return nil
	case e.Kind == rota.EventJobRunning, e.Kind == rota.EventJobProgress:
		return nil
	case e.Kind == rota.EventLeaseRevoked:
		if o != nil && o.id == e.Lease {
			o.revoked = true
			l.next(o, int64(l.now)) // its worker ends it at once, and reports it
		}
	case o != nil && o.revoked && closes(e.Kind) && e.Lease != o.id: // until its worker has confirmed
	case o != nil && closes(e.Kind):
		o.gone = true
		delete(l.leases, e.Job)
	}
	if !l.asked {
		l.asked, l.asking = true, int64(l.now)
	}
	return nil
}

func (l *life) assigned(e *rota.Event) error {
	i, err := l.of(l.m, e.Job)
	if err != nil {
		return err
	}
	if old := l.leases[e.Job]; old != nil {
		old.gone = true
	}
	l.starts++
	own := l.list[i].id
	o := &lease{id: e.Lease, job: own, place: i, worker: e.Worker, session: e.Session, start: int64(e.Clock),
		deadline: int64(e.Deadline.Clock), order: l.starts}
	l.leases[own] = o
	l.script(o)
	return nil
}

// begin makes the changes, once the cluster exists: in an entry without an index, so that entries of the log keep
// theirs.
func (l *life) begin() error {
	if l.begun || l.m.Head().Term == 0 {
		return nil
	}
	l.begun = true
	ops, err := l.change.evictions(l.m)
	if err != nil {
		return err
	}
	added, err := l.change.registrations(l.rec.specs)
	if err != nil {
		return err
	}
	for _, s := range fsm.SchedulesOf(&l.m.View) {
		l.left.schedules[string(s.Name)] = s.Job.Tenant == l.change.Without && l.change.Without != ""
	}
	for part := range slices.Chunk(slices.Concat(ops, added), cancelsAtOnce) {
		if err := l.aside(part); err != nil {
			return err
		}
	}
	return nil
}

// settings makes the changes of queues that exist by now.
func (l *life) settings() error {
	for i := 0; i < len(l.pending); i++ {
		if _, ok := l.m.Queue(l.pending[i].Queue); !ok {
			continue
		}
		if err := l.aside([]*fsmpb.Op{l.pending[i].setQueue()}); err != nil {
			return err
		}
		l.pending = slices.Delete(l.pending, i, i+1)
		i--
	}
	for i := 0; i < len(l.limits); i++ {
		state, ok := fsm.BudgetOf(&l.m.View, l.limits[i].Name)
		if !ok {
			continue
		}
		b := state.Budget
		b.Limit, b.ETag = l.limits[i].Limit, ""
		if err := l.aside([]*fsmpb.Op{fsm.SetBudgetOp(&b)}); err != nil {
			return err
		}
		l.limits = slices.Delete(l.limits, i, i+1)
		i--
	}
	return nil
}

// again repeats the change of a queue, or of a budget, after the log has set it.
func (l *life) again(e *fsmpb.Entry) {
	for _, op := range e.GetOps() {
		name := rota.QueueName(op.GetSetQueue().GetName())
		for _, q := range l.change.Queues {
			if q.Queue == name && !slices.ContainsFunc(l.pending, func(p QueueChange) bool { return p.Queue == name }) {
				l.pending = append(l.pending, q)
			}
		}
		set := rota.BudgetName(op.GetSetBudget().GetName())
		for _, b := range l.change.Budgets {
			if b.Name == set && !slices.Contains(l.limits, b) {
				l.limits = append(l.limits, b)
			}
		}
	}
}

// aside applies operations that are in no entry of the log.
func (l *life) aside(ops []*fsmpb.Op) error {
	head := l.m.Head()
	a, err := l.put(head.Index, head.Term, &fsmpb.Entry{Term: head.Term, NowMs: int64(head.Clock), Ops: ops})
	if err != nil {
		return err
	}
	for i := range a.Outcomes {
		if err := entry.OutcomeError(a.Outcomes[i]); err != nil && ops[i].GetCancel() == nil &&
			ops[i].GetCancelWorkflow() == nil {
			return err
		}
	}
	l.m.Recycle(a.Events)
	return nil
}

// changes makes the changes that are due.
func (l *life) changes() error {
	if err := l.begin(); err != nil || !l.begun {
		return err
	}
	return l.settings()
}

// prepare decides at a height at which the leaders did.
func (l *life) prepare() error {
	height := l.m.Head().Index
	if l.heights[height] {
		l.decided[height] = l.m.Decide(limits.MaxDecide)
	}
	at, ok := l.with[height]
	if !ok {
		return nil
	}
	_, data, err := l.log.Entry(at)
	if err != nil {
		return err
	}
	e, err := entry.Open(at, data, entry.RulesVersion, nil)
	if err != nil {
		return err
	}
	l.withs[height] = l.m.DecideWith(&fsm.Arrivals{Ops: l.redecided(e, true), Now: rota.Clock(e.GetNowMs())},
		limits.MaxDecide)
	return nil
}

// redecided returns the operations of an entry with the rounds of this state instead of its own; if before is set, only
// those before the round that was decided with them.
func (l *life) redecided(e *fsmpb.Entry, before bool) []*fsmpb.Op {
	ops := make([]*fsmpb.Op, 0, len(e.GetOps()))
	plain, with := false, false
	for _, op := range e.GetOps() {
		switch o := op.GetOp().(type) {
		case *fsmpb.Op_Round:
			from, placed := l.decided, &plain
			if o.Round.GetWith() > 0 {
				from, placed = l.withs, &with
			}
			if before && o.Round.GetWith() > 0 {
				return ops
			}
			if *placed { // all are there already
				continue
			}
			*placed = true
			height := rota.Index(o.Round.GetHeight())
			ops = append(ops, roundOps(from[height])...)
			if !before {
				delete(from, height)
			}
		default:
			if !l.left.drops(op) {
				ops = append(ops, l.renamed(op))
			}
		}
	}
	return ops
}

func roundOps(rounds []*fsmpb.Round) []*fsmpb.Op {
	ops := make([]*fsmpb.Op, len(rounds))
	for i, r := range rounds {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}}
	}
	return ops
}
