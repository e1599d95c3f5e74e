package foresight

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

const (
	simQueue = "batch"
	simType  = "batch"
	simNode  = "sim"
	// epoch is where the virtual clock starts, in ms, unless the load has dates.
	epoch = 1_700_000_000_000
	// sweepEach is the number of ends after which a sweep deletes ended jobs.
	sweepEach = 512
	// ackTimeout is the queue's, in ms: a run of at least this length acknowledges its lease, a shorter one
	// acknowledges by its completion.
	ackTimeout = 3_600_000
)

// running is a running job: the events of the driver's clock.
type running struct {
	end, due   int64 // clock: when it ends, and when its estimate is over
	order, job int
	id         rota.JobID
	worker     int32
	lease      rota.LeaseID
}

// sooner defines the order of ends.
func (r *running) sooner(o *running) bool {
	return r.end < o.end || r.end == o.end && r.order < o.order
}

// driver simulates one life.
type driver struct {
	*Life
	m        *fsm.Machine
	index    rota.Index
	now      int64 // the cluster clock, in ms
	epoch    int64 // where the clock starts
	zero     int64 // the moment of the load at which it does
	sessions []uint64
	places   map[rota.WorkerID]int32
	busy     heap[*running]
	next     int // the next job to be submitted
	started  int
	ended    int // since the latest sweep that deletes
	over     int // of those jobs that ended or expired
	fates    []Fate
	// owed holds the workers' reports in the next entry of the same moment: acknowledgements, and confirmations that
	// revoked jobs have stopped.
	owed  []*fsmpb.Op
	ticks ticks
	// ending, ops and submission are reused buffers.
	ending     []*running
	ops        []*fsmpb.Op
	submission submission
}

// submission holds the submission of a job of processors only.
type submission struct {
	op     fsmpb.Op
	kind   fsmpb.Op_Submit
	submit fsmpb.Submit
}

// Simulate runs a life, and returns the fate of each job. Jobs that end at a moment as estimated are gone for any
// decision at that moment; submissions come next, then the other ends in the order of their starts, each with a
// decision, and the leader's ticks last.
func Simulate(ctx context.Context, l *Life) (fates []Fate, err error) {
	if len(l.Jobs) == 0 {
		return nil, nil
	}
	d := &driver{Life: l, m: fsm.NewUnlogged(), epoch: l.epoch(), zero: l.Jobs[0].Submit,
		fates: make([]Fate, len(l.Jobs)), places: make(map[rota.WorkerID]int32)}
	d.now = d.epoch
	if l.thorough {
		d.m = fsm.New()
	}
	d.ticks.place = d.place
	d.busy.less, d.ticks.moves.less = (*running).sooner, func(a, b int64) bool { return a < b }
	if err := d.ticks.set(l.Settings); err != nil {
		return nil, err
	}
	for i := range d.fates {
		d.fates[i].Start, d.fates[i].End, d.fates[i].Ready = -1, -1, l.Jobs[i].Submit
	}
	if err := d.begin(); err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return d.fates, err
		}
		at := d.event()
		sweep, match := d.tick()
		switch {
		case min(sweep, match) < at:
			err = d.strike(sweep, match)
		case at < never:
			err = d.moment(at)
		default:
			return d.fates, d.unended()
		}
		if errors.Is(err, errStuck) && d.Limits != nil {
			return d.fates, d.unended()
		}
		if err != nil {
			return d.fates, err
		}
	}
}

// event returns when the next job arrives or ends, never if there is none.
func (d *driver) event() int64 {
	at := int64(never)
	if d.next < len(d.Jobs) {
		at = d.clock(d.Jobs[d.next].Submit)
	}
	if len(d.busy.list) > 0 {
		at = min(at, d.busy.list[0].end)
	}
	return at
}

// clock converts a moment of the load to the cluster clock, moment converts back.
func (d *driver) clock(ms int64) int64 { return d.epoch + ms - d.zero }

func (d *driver) load(clock int64) int64 { return clock - d.epoch + d.zero }

// unended returns an error that names a job that neither ended nor expired. Jobs that limits hold for good are refused
// instead.
func (d *driver) unended() error {
	for i := range d.fates {
		if d.fates[i].End < 0 && d.Limits != nil && d.Flow == nil {
			d.fates[i].Refused = true
			d.end(i, d.now)
		} else if d.fates[i].End < 0 {
			return fmt.Errorf("job %d of the load never started", i+1)
		}
	}
	return nil
}

// moment does everything due at a moment except the ticks.
func (d *driver) moment(at int64) error {
	ending := d.endings(at)
	gone := d.ops[:0]
	for _, r := range ending {
		if r.due == at {
			gone = append(gone, d.completion(r))
		}
	}
	if len(gone) > 0 {
		if err := d.apply(at, gone); err != nil {
			return err
		}
	}
	if d.Flow != nil && d.next == 0 {
		if err := d.submitFlow(at); err != nil {
			return err
		}
	}
	for ; d.next < len(d.Jobs) && d.clock(d.Jobs[d.next].Submit) == at; d.next++ {
		if err := d.submit(at, d.next); err != nil {
			return err
		}
	}
	for _, r := range ending {
		if r.due != at {
			if err := d.apply(at, append(d.ops[:0], d.completion(r))); err != nil {
				return err
			}
		}
		if err := d.match(at); err != nil {
			return err
		}
	}
	return d.settle(at)
}

// endings removes and returns the runs that end at a moment, in the order of their starts.
func (d *driver) endings(at int64) []*running {
	clear(d.ending)
	d.ending = d.ending[:0]
	for len(d.busy.list) > 0 && d.busy.list[0].end == at {
		d.ending = append(d.ending, d.busy.take(0)) // those of one moment come in that order
	}
	return d.ending
}

// settle applies the workers' owed reports, and decides on the resulting changes.
func (d *driver) settle(at int64) error {
	for len(d.owed) > 0 {
		if err := d.apply(at, nil); err != nil {
			return err
		}
		if err := d.match(at); err != nil {
			return err
		}
	}
	return nil
}

// begin creates the cluster, sets the queue, and registers the workers.
func (d *driver) begin() error {
	random := sha256.Sum256([]byte("foresight"))
	ops := []*fsmpb.Op{{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: simNode, Random: random[:],
		ClusterId: "sim",
		StartMs:   d.epoch, LeapMs: int64(limits.VirtualLeapMax)}}},
		{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: entry.RulesVersion}}}}
	if err := d.apply(d.epoch, ops); err != nil {
		return err
	}
	set := &fsmpb.SetQueue{Name: simQueue}
	for _, s := range d.Settings {
		set.Set = append(set.Set, &fsmpb.Label{Key: s.Key, Value: s.Value})
	}
	if err := d.apply(d.epoch, []*fsmpb.Op{{Op: &fsmpb.Op_SetQueue{SetQueue: set}}}); err != nil {
		return err
	}
	for i := range d.Workers {
		spec := d.Workers[i]
		spec.Queues = []rota.QueueName{simQueue}
		secret := sha256.Sum256([]byte(spec.ID))
		outcomes, err := d.entry(d.epoch,
			[]*fsmpb.Op{{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{SecretHash: secret[:],
				Spec: entry.WorkerOp(&spec)}}}})
		if err != nil {
			return err
		}
		d.places[spec.ID] = int32(i)
		d.sessions = append(d.sessions, outcomes[0].GetSession())
	}
	return d.limit()
}

// apply applies an entry; it fails if any of its operations is refused.
func (d *driver) apply(at int64, ops []*fsmpb.Op) error {
	_, err := d.entry(at, ops)
	for err == nil && d.Flow != nil && d.ticks.more { // a job that ended may release more nodes than one entry can
		_, err = d.entry(at, []*fsmpb.Op{{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}})
	}
	return err
}

// entry applies an entry at a moment. In a gap of the load the clock advances by the largest steps that it accepts.
func (d *driver) entry(at int64, ops []*fsmpb.Op) ([]*fsmpb.Outcome, error) {
	for d.now+int64(limits.VirtualLeapMax) < at {
		d.now += int64(limits.VirtualLeapMax)
		if _, err := d.log([]*fsmpb.Op{{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}}); err != nil {
			return nil, err
		}
	}
	d.now = at
	if len(d.owed) > 0 {
		ops = append(ops, d.owed...)
		d.owed = nil
	}
	return d.log(ops)
}

// log appends an entry and applies it.
func (d *driver) log(ops []*fsmpb.Op) ([]*fsmpb.Outcome, error) {
	d.index++
	a, err := d.applied(&fsmpb.Entry{Term: 1, NowMs: d.now, Ops: ops})
	if err != nil {
		return nil, err
	}
	for i := range a.Events {
		d.follow(&a.Events[i])
	}
	d.ticks.more = a.Sweep.More
	d.m.Recycle(a.Events)
	clear(ops)
	d.ops = ops[:0]
	for _, o := range a.Outcomes {
		if err := entry.OutcomeError(o); err != nil {
			return nil, err
		}
	}
	return a.Outcomes, nil
}

// applied applies an entry. No log keeps it: only a thorough life encodes and decodes it.
func (d *driver) applied(e *fsmpb.Entry) (fsm.Applied, error) {
	if !d.thorough {
		return fsm.ApplyOpened(d.m, d.index, e.Term, e)
	}
	data, err := entry.Seal(e, d.m.Head().Rules)
	if err != nil {
		return fsm.Applied{}, err
	}
	return d.m.Apply(d.index, e.Term, data)
}

// follow applies the consequences of an event for workers and the leader.
func (d *driver) follow(e *rota.Event) {
	d.ticks.follow(e, d.now)
	switch e.Kind {
	case rota.EventJobEnqueued:
		if d.Flow != nil {
			d.fates[d.place(e.Job)].Ready = d.load(d.now)
		}
	case rota.EventJobAssigned:
		d.start(e)
	case rota.EventLeaseRevoked: // its worker ends it at once, and reports it
		if r, ok := d.stop(e.Lease); ok {
			d.owed = append(d.owed, d.verb(rota.VerbDecline, r))
			if !e.Reason.EndsJob() {
				d.fates[r.job].Preempted++
			}
		}
	case rota.EventLeaseExpired, rota.EventLeaseCancelled:
		d.stop(e.Lease)
	case rota.EventJobExpired, rota.EventJobDead, rota.EventJobCancelled:
		d.fates[d.place(e.Job)].Expired = true
		d.end(d.place(e.Job), d.now)
	}
}

// end records that a job is over.
func (d *driver) end(i int, clock int64) {
	d.fates[i].End = d.load(clock)
	d.over++
	if d.ended++; d.ended == sweepEach {
		d.ended, d.ticks.forget = 0, true
		if d.Progress != nil {
			d.Progress(d.over)
		}
	}
}

// start records that a job runs from now on.
func (d *driver) start(e *rota.Event) {
	i := d.place(e.Job)
	r := &running{end: d.now + d.Jobs[i].Run, due: d.expectedEnd(i, e.Job), order: d.started, job: i, id: e.Job,
		worker: d.places[e.Worker], lease: e.Lease}
	d.busy.push(r)
	d.ticks.outlive(r, d.now)
	d.started++
	d.ticks.idle = 0
	d.fates[i].Start, d.fates[i].Worker = d.load(d.now), r.worker
	if d.Jobs[i].Run >= ackTimeout || d.thorough || d.Limits != nil {
		d.owed = append(d.owed, d.verb(rota.VerbAck, r))
	}
}

// stop ends a run before its time.
func (d *driver) stop(lease rota.LeaseID) (r *running, ok bool) {
	i := slices.IndexFunc(d.busy.list, func(r *running) bool { return r.lease == lease })
	if i < 0 {
		return nil, false
	}
	r = d.busy.take(i)
	d.fates[r.job].Start = -1
	return r, true
}

func (d *driver) verb(verb rota.LeaseVerb, r *running) *fsmpb.Op {
	room := new(struct {
		op    fsmpb.Op
		kind  fsmpb.Op_Lease
		lease fsmpb.LeaseOp
	})
	room.lease.Verb, room.lease.Lease, room.lease.Job = uint32(verb), r.lease[:], string(r.id)
	room.lease.Worker, room.lease.Session = string(d.Workers[r.worker].ID), d.sessions[r.worker]
	room.kind.Lease, room.op.Op = &room.lease, &room.kind
	return &room.op
}

// completion ends a run as its worker does.
func (d *driver) completion(r *running) *fsmpb.Op {
	d.end(r.job, r.end)
	op := d.verb(rota.VerbComplete, r)
	if spent := d.Jobs[r.job].Spent; len(spent) > 0 {
		op.GetLease().Costs = entry.CostOps(spent)
	}
	return op
}

func jobID(i int) rota.JobID { return rota.JobID("j" + strconv.Itoa(i)) }

// placeOf returns the index of the job with an id made by jobID.
func placeOf(id rota.JobID) int {
	i, _ := strconv.Atoi(string(id[1:]))
	return i
}

// submit submits a job, together with the rounds that the leader decides for the same entry, and decides.
func (d *driver) submit(at int64, i int) error {
	if err := d.refused(i, d.apply(at, d.with(at, append(d.ops[:0], d.submits(i))))); err != nil {
		return err
	}
	if err := d.match(at); err != nil || d.Submitted == nil {
		return err
	}
	return d.Submitted(d.m, i, d.fates)
}

// submits returns the operation that submits a job. The buffers of a job of processors only are reused.
func (d *driver) submits(i int) *fsmpb.Op {
	j, s := &d.Jobs[i], &d.submission
	if j.Spec != nil {
		return &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(d.spec(i))}}}
	}
	if s.submit.Spec == nil {
		s.submit.Spec = entry.SpecOp(d.spec(i))
		s.kind.Submit, s.op.Op = &s.submit, &s.kind
	}
	p := s.submit.Spec
	p.Id, p.Tenant, p.CpuMilli, p.ExpectedMs = string(jobID(i)), string(cmp.Or(j.Tenant,
		rota.DefaultTenant)), j.CPUMilli, d.expected(i)
	return &s.op
}

// with adds the rounds that are decided together with an entry: none if other jobs are pending.
func (d *driver) with(at int64, ops []*fsmpb.Op) []*fsmpb.Op {
	if d.m.Waiting() || len(d.owed) > 0 {
		return ops
	}
	for _, r := range d.m.DecideWith(&fsm.Arrivals{Ops: ops, Now: rota.Clock(at)}, limits.MaxDecide) {
		ops = append(ops, roundOp(r))
	}
	return ops
}

func roundOp(r *fsmpb.Round) *fsmpb.Op {
	room := new(struct {
		op   fsmpb.Op
		kind fsmpb.Op_Round
	})
	room.kind.Round, room.op.Op = r, &room.kind
	return &room.op
}
