package whatif

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

const (
	never = math.MaxInt64
	// leap is the most by which an entry may be ahead of the clock, in ms.
	leap = int64(limits.ClockLeapMax) - 100
)

// agenda are the leases by when their workers act next; an item is stale if its lease has a different time by now.
type agenda []item

type item struct {
	due int64
	// index is the entry of the log that has it, 0 for none.
	index rota.Index
	order uint64
	*lease
}

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].due, a[j].due), cmp.Compare(a[i].index, a[j].index),
		cmp.Compare(a[i].order, a[j].order)) < 0
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(item)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// part makes the life continue alone after an entry: it plans the workers' reports on the open leases.
func (l *life) part(after rota.Index) {
	l.parted = after
	l.refused, l.filled = 0, 0
	l.asked, l.asking, l.matched = true, int64(l.now), int64(l.now)
	open := make([]*lease, 0, len(l.leases))
	for _, o := range l.leases {
		open = append(open, o)
	}
	slices.SortFunc(open, func(a, b *lease) int { return cmp.Compare(a.order, b.order) })
	for _, o := range open {
		l.script(o)
	}
}

// script plans the course of a lease: the run that the record has for it.
func (l *life) script(o *lease) {
	if l.parted == 0 {
		return
	}
	used, ok := l.used[o.place]
	if !ok {
		used = l.rec.used(o.place, l.parted)
		l.used[o.place] = used
	}
	if o.run, o.filled = l.rec.next(o.place, used); o.filled {
		l.filled++
	}
	l.next(o, int64(l.now))
}

// next plans a worker's next action on a lease.
func (l *life) next(o *lease, now int64) {
	if l.parted == 0 || o.gone {
		return
	}
	end, index := o.start+o.run.end, rota.Index(0)
	switch {
	case o.revoked:
		o.verb, o.due = rota.VerbDecline, now
	case !o.acked && o.run.ack >= 0 && o.run.ack < o.run.end:
		o.verb, o.due, index = rota.VerbAck, o.start+o.run.ack, o.run.acked
	case end > o.deadline && !o.settled:
		o.verb, o.due = rota.VerbRenew, max(now+1, now+(o.deadline-now)/2)
	default:
		o.verb, o.due, index = o.run.verb, end, o.run.at
	}
	o.due = max(o.due, now)
	heap.Push(&l.agenda, item{o.due, index, o.order, o})
}

// alone continues to the end of the window.
func (l *life) alone() error {
	for i := l.parted + 1; i <= l.last; i++ {
		e, term, _, err := l.entry(i)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		head := l.m.Head()
		at := int64(head.Clock)
		if e.GetTerm() == head.Term && term == head.Term {
			at = max(at, e.GetNowMs())
		}
		l.walls, l.wallsAt = e.GetWallMs(), at
		l.stamp, l.at = at, i
		if slices.ContainsFunc(e.GetOps(), foreign) { // the workers' reports in this entry go with it
			l.at--
		}
		for due := l.due(); due <= at; due = l.due() {
			if err := l.moment(due); err != nil {
				return err
			}
		}
		if err := l.outside(i, at, term, e); err != nil {
			return err
		}
	}
	return nil
}

// due returns when a worker reports something, or the leader decides, next.
func (l *life) due() int64 {
	for len(l.agenda) > 0 && (l.agenda[0].gone || l.agenda[0].due != l.agenda[0].lease.due) {
		heap.Pop(&l.agenda)
	}
	at := int64(never)
	if l.ready() {
		at = l.agenda[0].due
	}
	return max(min(at, l.decides()), int64(l.now))
}

// ready reports whether the next report of a worker comes before the present entry of the log; those of one moment are
// in the order of the log.
func (l *life) ready() bool {
	return len(l.agenda) > 0 && (l.agenda[0].due < l.stamp || l.agenda[0].due == l.stamp && l.agenda[0].index <= l.at)
}

// decides returns when the leader's next rounds are logged.
func (l *life) decides() int64 {
	switch {
	case !l.m.Waiting():
		return never
	case l.asked:
		return l.asking + l.lag
	default:
		return l.matched + max(l.m.DispatchMs(), 1)
	}
}

// moment does everything due by a moment.
func (l *life) moment(at int64) error {
	ops, said, of := l.words(at)
	if len(ops) > 0 {
		if l.rec.filled[of] {
			ops = l.decideWith(at, ops)
		}
		if err := l.say(at, ops, said); err != nil {
			return err
		}
	}
	if l.decides() > at {
		return nil
	}
	return l.match(at)
}

// words returns the workers' reports by a moment, of one entry of the log.
func (l *life) words(at int64) (ops []*fsmpb.Op, said []*lease, of rota.Index) {
	for l.due() <= at && l.ready() && l.agenda[0].due <= at && len(ops) < limits.MaxEntryOps/2 {
		if len(said) > 0 && l.agenda[0].index != of {
			break // of another entry
		}
		of = l.agenda[0].index
		o := heap.Pop(&l.agenda).(item).lease
		if o.due = -1; l.dark[o.worker] {
			l.silent[o.worker] = append(l.silent[o.worker], o)
			continue
		}
		ops, said = append(ops, l.word(o)), append(said, o)
	}
	return ops, said, of
}

// decideWith adds the rounds that are decided with operations to them.
func (l *life) decideWith(at int64, ops []*fsmpb.Op) []*fsmpb.Op {
	return append(ops, roundOps(l.m.DecideWith(&fsm.Arrivals{Ops: ops, Now: rota.Clock(at)}, limits.MaxDecide))...)
}

// word returns a worker's report on a lease.
func (l *life) word(o *lease) *fsmpb.Op {
	op := &fsmpb.LeaseOp{Verb: uint32(o.verb), Lease: o.id[:], Job: string(o.job), Worker: string(o.worker),
		Session: uint64(o.session)}
	switch {
	case o.verb == rota.VerbRenew:
		op.Ordinal = o.renewals + 1
	case o.verb == rota.VerbAck || o.revoked:
	default:
		op.Fail, op.AfterMs = o.run.fail, o.run.after
		if o.run.op != nil {
			op.OutputDigest, op.Children, op.Costs = o.run.op.GetOutputDigest(), o.run.op.GetChildren(), o.run.op.GetCosts()
		}
		if o.filled {
			j, _ := l.m.Job(o.job)
			op.OutputDigest = j.ExpectedDigest
		}
	}
	return &fsmpb.Op{Op: &fsmpb.Op_Lease{Lease: op}}
}

// say logs workers' reports, and plans their next ones.
func (l *life) say(at int64, ops []*fsmpb.Op, said []*lease) error {
	a, err := l.own(at, ops)
	if err != nil {
		return err
	}
	l.planReports(at, said, a.Outcomes)
	return l.depart(at)
}

// planReports plans workers' next reports, after they were answered.
func (l *life) planReports(at int64, said []*lease, outcomes []*fsmpb.Outcome) {
	for i, o := range said {
		refused := entry.OutcomeError(outcomes[i]) != nil
		switch {
		case refused && o.verb == rota.VerbRenew:
			o.settled = true
		case refused && o.verb == rota.VerbAck:
			o.run.ack = -1
		case refused: // its lease runs out
			l.refused++
			continue
		case o.verb != rota.VerbAck && o.verb != rota.VerbRenew:
			if !o.filled && !o.revoked {
				l.used[o.place]++
			}
			continue
		}
		l.next(o, at)
	}
}

// own logs an entry of the life's own.
func (l *life) own(at int64, ops []*fsmpb.Op) (fsm.Applied, error) {
	for {
		head := l.m.Head()
		if at-int64(head.Clock) <= leap {
			own := &fsmpb.Entry{Term: head.Term, NowMs: max(at, int64(head.Clock)), Ops: ops}
			if own.NowMs == l.wallsAt {
				own.WallMs, l.walls = l.walls, nil
			}
			a, err := l.put(head.Index+1, head.Term, own)
			if err == nil {
				l.m.Recycle(a.Events)
			}
			return a, err
		}
		step := &fsmpb.Entry{Term: head.Term, NowMs: int64(head.Clock) + leap,
			Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}}}
		if _, err := l.put(head.Index+1, head.Term, step); err != nil {
			return fsm.Applied{}, err
		}
	}
}

// match decides entry by entry until nothing is left to decide, as the leader does.
func (l *life) match(at int64) error {
	var last string
	for l.m.Waiting() {
		l.asked, l.matched = false, at
		rounds := l.m.Decide(limits.MaxDecide)
		first := firstOf(rounds)
		if len(rounds) == 0 || first != "" && first == last {
			return nil
		}
		last = first
		if _, err := l.own(at, roundOps(rounds)); err != nil {
			return err
		}
	}
	l.asked = false
	return nil
}

// firstOf names the first pair or preemption of rounds: what the state drops is not proposed again at once.
func firstOf(rounds []*fsmpb.Round) string {
	for _, r := range rounds {
		if len(r.GetPairs()) > 0 {
			return r.GetPairs()[0].GetJob() + " " + r.GetPairs()[0].GetWorker()
		}
	}
	for _, r := range rounds {
		if len(r.GetPreempts()) > 0 {
			return r.GetPreempts()[0].GetJob() + " " + r.GetPreempts()[0].GetWorker()
		}
	}
	return ""
}

// outside applies the operations of a log entry that come from outside, and decides.
func (l *life) outside(i rota.Index, at int64, term uint64, e *fsmpb.Entry) error {
	l.at = i
	ops, said, _ := l.words(at)
	for _, op := range e.GetOps() {
		if foreign(op) && !l.left.drops(op) {
			ops = append(ops, l.staying(l.renamed(op))...)
		}
	}
	if len(ops) == 0 && len(l.walls) == 0 {
		return nil
	}
	if len(ops) == 0 {
		ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}})
	}
	l.wallsAt = never
	submitted := len(ops)
	if e.GetTerm() == term && (!l.m.Waiting() && !l.rec.busy[i] || l.rec.filled[i]) {
		ops = l.decideWith(at, ops)
	}
	a, err := l.put(l.m.Head().Index+1, term, &fsmpb.Entry{Term: e.GetTerm(), NowMs: e.GetNowMs(), WallMs: l.walls,
		Ops: ops})
	if err != nil {
		return err
	}
	l.planReports(at, said, a.Outcomes)
	for _, o := range a.Outcomes[len(said):submitted] {
		if entry.OutcomeError(o) != nil {
			l.refused++
		}
	}
	l.m.Recycle(a.Events)
	for l.more {
		if _, err := l.own(at, []*fsmpb.Op{{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}}); err != nil {
			return err
		}
	}
	if err := l.depart(at); err != nil {
		return err
	}
	l.again(e)
	return l.changes()
}

// foreign reports whether an operation comes from outside or advances time: what the cluster and the workers do because
// of its decisions does not.
func foreign(op *fsmpb.Op) bool {
	switch op.GetOp().(type) {
	case *fsmpb.Op_Round, *fsmpb.Op_Lease, *fsmpb.Op_KeepLog, *fsmpb.Op_AdvanceHook, *fsmpb.Op_ReportProof:
		return false
	}
	return true
}
