package foresight

import (
	"errors"
	"math"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// ticks are the leader's clocks. A sweep runs every limits.SweepEvery; rounds are decided when supply or demand
// changed, and dispatch_interval after the latest decision while any job is pending. The simulation skips ticks at
// which nothing can fire and at which the decision cannot differ from the previous one: between two events only a hold
// that falls due or is over changes it (SPEC §7.8), and an estimate that a job outlives (SPEC §26.3).
type ticks struct {
	// asked means that supply or demand changed; matched is when rounds were decided last, on a state whose clock was
	// seen.
	asked         bool
	matched, seen int64
	// swept is the latest sweep; more means that it left something due; forget requests the next one.
	swept        int64
	more, forget bool
	// holdAfter and holdMax are the queue's; backfills means that the queue reserves room for its first job.
	holdAfter, holdMax int64
	backfills          bool
	// learns means that estimates are learned.
	learns bool
	// waits are the jobs that may be granted a hold, in the order in which they have waited long enough; moves is when
	// holds are over.
	waits []waiting
	moves heap[int64]
	// place returns the index of a job.
	place func(rota.JobID) int
	// idle counts the ticks since a job started.
	idle int
}

// sweepEvery is limits.SweepEvery in ms.
const sweepEvery = int64(limits.SweepEvery / time.Millisecond)

type waiting struct {
	due int64
	job int
}

// maxIdle is the number of ticks without a start after which a life is given up if nothing runs and no job is to come.
const maxIdle = 100_000

var errStuck = errors.New("jobs wait, workers are idle, and no decision brings them together")

// set reads the settings of the queue that the ticks need.
func (t *ticks) set(settings []rota.Setting) error {
	p := rota.StandardPolicy()
	for _, s := range settings {
		if err := p.Set(s); err != nil {
			return err
		}
	}
	t.holdAfter, t.holdMax, t.backfills = p.HoldAfterMs, p.HoldMaxMs, p.Backfill != rota.BackfillFree
	t.learns = p.Estimate.Learned()
	return nil
}

// follow updates the ticks for an event.
func (t *ticks) follow(e *rota.Event, now int64) {
	switch e.Kind {
	case rota.EventJobEnqueued:
		t.asked = true
		t.wait(e.Job, now)
	case rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseDeclined, rota.EventJobCompleted,
		rota.EventJobDead, rota.EventJobExpired,
		rota.EventJobCancelled, rota.EventJobChanged, rota.EventDomainRecovered:
		t.asked = true
	case rota.EventWorkerHeld:
		if e.Text == "ENDED HOLD_MAX" {
			t.wait(e.Job, now)
		}
		t.moves.push(now + t.holdMax)
		if t.holdMax < int64(rota.SilenceEnds) { // a hold by preemption
			t.moves.push(now + int64(rota.SilenceEnds))
		}
	}
}

// wait records that a job is pending from now on.
func (t *ticks) wait(job rota.JobID, now int64) {
	if t.holdAfter < longest && !t.backfills {
		t.waits = append(t.waits, waiting{now + t.holdAfter, t.place(job)})
	}
}

// outlive records when a job that starts now will have outlived its estimate, and each estimate that replaces it.
func (t *ticks) outlive(r *running, now int64) {
	if !t.backfills || r.due >= r.end {
		return
	}
	t.moves.push(r.due)
	for after := 2 * (r.due - now); t.learns && after > 0 && now+after < r.end; after *= 2 {
		t.moves.push(now + after)
	}
}

// expectedEnd returns when the estimate of a job that starts now is over.
func (d *driver) expectedEnd(i int, id rota.JobID) int64 {
	if d.ticks.learns {
		return int64(d.m.ExpectedEnd(id))
	}
	return d.due(i, d.now)
}

// never is after all moments.
const never = math.MaxInt64

// tick returns the times of the leader's next ticks that can have an effect.
func (d *driver) tick() (sweep, match int64) {
	if d.over == len(d.Jobs) {
		return never, never
	}
	t := &d.ticks
	sweep, match = d.sweepDue(), never
	if due := d.matchDue(); due < never {
		if due = up(due, d.epoch, sweepEvery); due > d.now { // a decision uses the clock of the latest entry
			sweep = min(sweep, due)
		}
		match = up(max(due, t.matched+1), t.matched, d.m.DispatchMs())
	}
	if sweep < never {
		sweep = up(max(sweep, t.swept+1), d.epoch, sweepEvery)
	}
	return sweep, match
}

// sweepDue returns when a sweep has something to do.
func (d *driver) sweepDue() int64 {
	if d.thorough || d.ticks.forget {
		return d.now
	}
	due := d.turnDue()
	if clock, ok := fsm.NextClock(&d.m.View); ok {
		due = min(due, int64(clock))
	}
	return due
}

// matchDue returns when the decision may differ from the latest one.
func (d *driver) matchDue() int64 {
	t := &d.ticks
	switch {
	case !d.m.Waiting():
		return never
	case d.thorough:
		return d.now
	}
	for len(t.waits) > 0 && (t.waits[0].due <= t.seen || d.fates[t.waits[0].job].Start >= 0) {
		t.waits = t.waits[1:]
	}
	for len(t.moves.list) > 0 && t.moves.list[0] <= t.seen {
		t.moves.take(0)
	}
	due := int64(never)
	if len(t.waits) > 0 {
		due = t.waits[0].due
	}
	if len(t.moves.list) > 0 {
		due = min(due, t.moves.list[0])
	}
	return due
}

// up returns the first multiple of a step from an origin on that is not before a moment.
func up(at, origin, step int64) int64 {
	return origin + (at-origin+step-1)/step*step
}

// strike does what the leader does at a tick: a sweep, if one is due, then rounds.
func (d *driver) strike(sweep, match int64) error {
	t, at := &d.ticks, min(sweep, match)
	if t.idle++; t.idle > d.maxIdle() && d.next == len(d.Jobs) && len(d.busy.list) == 0 {
		return errStuck
	}
	if sweep == at {
		if err := d.sweep(at); err != nil {
			return err
		}
	}
	if err := d.turnBudgets(at); err != nil {
		return err
	}
	t.asked = t.asked || match == at || d.Limits != nil // a key or a budget may have room again
	if err := d.match(at); err != nil {
		return err
	}
	return d.settle(at)
}

// sweep fires everything due. Ended jobs are deleted: nothing here is archived.
func (d *driver) sweep(at int64) error {
	d.ticks.swept, d.ticks.forget = at, false
	for {
		staged := d.m.Staged(sweepEach, 1<<20)
		if len(staged) == 0 {
			break
		}
		seqs := make([]uint64, len(staged))
		for i := range staged {
			seqs[i] = staged[i].Seq
		}
		d.m.Archived(seqs)
	}
	for {
		if err := d.apply(at, []*fsmpb.Op{{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}}); err != nil {
			return err
		}
		if !d.ticks.more {
			return nil
		}
	}
}

// match decides, if requested, entry by entry until nothing is left to decide, as the leader does.
func (d *driver) match(at int64) error {
	if !d.ticks.asked || !d.m.Waiting() {
		return nil
	}
	var last []*fsmpb.Round
	for d.m.Waiting() {
		d.ticks.asked, d.ticks.matched, d.ticks.seen = false, at, d.now
		rounds := d.m.Decide(limits.MaxDecide)
		if len(rounds) == 0 || samePair(last, rounds) {
			break
		}
		ops := d.ops[:0]
		for _, r := range rounds {
			ops = append(ops, roundOp(r))
		}
		if err := d.apply(at, ops); err != nil {
			return err
		}
		last = rounds
	}
	return nil
}

// samePair reports whether two entries of rounds begin with the same pair or preemption: what the state drops is not
// proposed again at once.
func samePair(a, b []*fsmpb.Round) bool {
	x, y := firstPair(a), firstPair(b)
	return x != "" && x == y
}

func firstPair(rounds []*fsmpb.Round) string {
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
