package eta

import (
	"container/heap"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// finer merges events: those within one part in finer of the time since the present count as one moment. The future
	// is not known more exactly, and a queue of any length then takes a few thousand moments.
	finer = 200
	// maxSteps bounds the moments of a course, and so the work of an answer.
	maxSteps = 20_000
	// maxIdle is the number of ticks without any running or due job after which a job counts as one that never starts.
	maxIdle = 80
	// sweepEvery is limits.SweepEvery in ms.
	sweepEvery = 250
	// horizon is how far a course goes, in ms: a year.
	horizon = 365 * 24 * 3_600_000
	never   = math.MaxInt64
)

// errSteps ends a course that takes more steps than an answer may.
var errSteps = errors.New("more happens until then than an answer may run through")

// run is a lease that is open in the course.
type run struct {
	end     int64
	order   int
	lease   rota.LeaseID
	job     rota.JobID
	worker  rota.WorkerID
	session rota.Session
	tenant  rota.TenantID
	queue   rota.QueueName
	digest  rota.Hex
	// present means that it is open at the present; place is its index in the heap, -1 once it is over.
	present bool
	place   int
}

type runs []*run

func (r runs) Len() int { return len(r) }
func (r runs) Less(i, j int) bool {
	return r[i].end < r[j].end || r[i].end == r[j].end && r[i].order < r[j].order
}
func (r runs) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}
func (r *runs) Push(x any) {
	x.(*run).place = len(*r)
	*r = append(*r, x.(*run))
}
func (r *runs) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r, x.place = (*r)[:last], -1
	return x
}

// begun is a job that started in a course.
type begun struct {
	job    rota.JobID
	queue  rota.QueueName
	tenant rota.TenantID
	worker rota.WorkerID
	at     int64
}

// course is one possible future.
type course struct {
	m    *fsm.Machine
	past *Past
	// number distinguishes the courses of an answer.
	number uint64
	of     rota.JobID
	// crowd are the jobs whose pace is that of the job, if its own place is beyond the sketch; wanted is how many are
	// to start, 0 if the job is in the sketch.
	queue  rota.QueueName
	tenant rota.TenantID
	wanted int

	from, now int64
	busy      runs
	open      map[rota.LeaseID]*run
	orders    int
	owed      []*fsmpb.Op
	asked     bool
	more      bool
	swept     int64
	ticked    int64
	// guessed counts unknown run times that were assumed.
	guessed map[Place]int64
	// serving are the workers that serve the queue of the job.
	serving map[rota.WorkerID]bool

	started []begun
	// paces are when jobs of the crowd started.
	paces []int64
	// at is when the job starts, -1 for never, on worker; over means that it ended before it started.
	at     int64
	worker rota.WorkerID
	over   bool
	// ended are runs of the present that reached their end, in this order.
	ended []*run
}

// begin adds the leases of the present.
func (c *course) begin() {
	head := c.m.Head()
	c.from, c.now, c.at, c.asked = int64(head.Clock), int64(head.Clock), -1, true
	c.swept = c.now
	c.open, c.guessed, c.serving = make(map[rota.LeaseID]*run), make(map[Place]int64), make(map[rota.WorkerID]bool)
	queue := c.queue
	if queue == "" { // the job is in the sketch itself
		_, queue, _ = c.m.PlaceOfJob(c.of)
	}
	for _, w := range c.m.Workers() {
		c.serving[w.ID] = slices.Contains(w.Queues, queue)
		silent := !w.SilentSince.IsZero() || !w.DisconnectedSince.IsZero()
		for _, a := range c.m.Assignments(w.ID, w.Session) {
			began := int64(a.Lease.Started.Clock)
			if !a.Lease.Acked.IsZero() {
				began = int64(a.Lease.Acked.Clock)
			}
			c.take(&run{lease: a.Lease.ID, job: a.Lease.Job, worker: w.ID, session: a.Lease.Session, present: true},
				began, silent)
		}
	}
}

// take opens a lease that ends when its job has run for as long as jobs like it.
func (c *course) take(r *run, began int64, silent bool) {
	j, _ := c.m.Job(r.job)
	ms, known := c.past.draw(rand.New(rand.NewPCG(seed(r.job), c.number)), &j, c.now-began)
	if !known {
		c.guessed[Place{j.Tenant, j.Queue}]++
	}
	c.orders++
	r.end, r.order, r.tenant, r.queue, r.digest, r.place = began+ms, c.orders, j.Tenant, j.Queue, j.ExpectedDigest, -1
	c.open[r.lease] = r
	if !silent { // a silent worker reports nothing: its leases run out
		heap.Push(&c.busy, r)
	}
}

// done reports whether the course has its result.
func (c *course) done() bool {
	if c.wanted > 0 {
		return len(c.paces) >= c.wanted
	}
	return c.at >= 0 || c.over
}

// run continues until the job starts, or until nothing can happen that would start it.
func (c *course) run() error {
	c.begin()
	if err := c.match(); err != nil {
		return err
	}
	idle := 0
	for steps := 0; !c.done(); steps++ {
		if steps == maxSteps {
			return errSteps
		}
		at := c.due()
		if at-c.from > horizon || idle > maxIdle {
			return nil
		}
		if idle++; len(c.busy) > 0 {
			idle = 0
		}
		if err := c.step(at); err != nil {
			return err
		}
	}
	return nil
}

// grain returns the time within which events count as one moment by now.
func (c *course) grain() int64 { return (c.now - c.from) / finer }

// due returns the time of the next event.
func (c *course) due() int64 {
	at := int64(never)
	if len(c.busy) > 0 {
		at = max(c.busy[0].end, c.now)
	}
	if due := c.timer(); due < never {
		at = min(at, max(due, c.swept+max(sweepEvery, c.grain()), c.now))
	}
	if c.m.Waiting() { // time alone may change the decision: a hold falls due, an estimate is over
		at = min(at, max(c.ticked+max(c.m.DispatchMs(), 1_000, finer/10*c.grain()), c.now))
	}
	return at
}

// timer returns when the state has something due.
func (c *course) timer() int64 {
	at := int64(never)
	if clock, ok := fsm.NextClock(&c.m.View); ok {
		at = int64(clock)
	}
	if date, ok := c.m.NextDate(); ok {
		head := c.m.Head()
		at = min(at, int64(date)-int64(head.Date)+int64(head.Clock))
	}
	return at
}

// step does everything due at a moment.
func (c *course) step(at int64) error {
	var ops []*fsmpb.Op
	for until := at + c.grain(); len(c.busy) > 0 && c.busy[0].end <= until && len(ops) < limits.MaxEntryOps/2; {
		r := heap.Pop(&c.busy).(*run)
		at = max(at, r.end)
		ops = append(ops, c.verb(rota.VerbComplete, r))
		if r.present {
			c.ended = append(c.ended, r)
		}
	}
	if len(ops) > 0 {
		if err := c.put(at, ops); err != nil {
			return err
		}
	}
	for sweep := c.timer() <= at; sweep; sweep = c.more {
		c.swept = at
		if err := c.put(at, []*fsmpb.Op{{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}}); err != nil {
			return err
		}
	}
	if err := c.put(at, nil); err != nil { // the clock has arrived there
		return err
	}
	return c.match()
}

// match decides until nothing is left to decide, as the leader does.
func (c *course) match() error {
	c.ticked = c.now
	for last := ""; c.m.Waiting(); {
		rounds := c.m.Decide(limits.MaxDecide)
		first := firstOf(rounds)
		if len(rounds) == 0 || first != "" && first == last {
			return nil
		}
		last = first
		ops := make([]*fsmpb.Op, len(rounds))
		for i, r := range rounds {
			ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}}
		}
		if err := c.put(c.now, ops); err != nil {
			return err
		}
		for len(c.owed) > 0 {
			if err := c.put(c.now, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// put applies an entry at a moment.
func (c *course) put(at int64, ops []*fsmpb.Op) error {
	if ops = append(ops, c.owed...); len(ops) == 0 {
		if c.now >= at {
			return nil
		}
		ops = []*fsmpb.Op{{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}}
	}
	c.owed = nil
	c.now = max(c.now, at)
	return c.entry(ops)
}

func (c *course) entry(ops []*fsmpb.Op) error {
	head := c.m.Head()
	a, err := fsm.ApplyOpened(c.m, head.Index+1, head.Term, &fsmpb.Entry{Term: head.Term, NowMs: c.now, Ops: ops})
	if err != nil {
		return err
	}
	c.more = a.Sweep.More
	for i := range a.Events {
		c.follow(&a.Events[i])
	}
	c.m.Recycle(a.Events)
	return nil
}

// follow updates the course for an event.
func (c *course) follow(e *rota.Event) {
	switch e.Kind {
	case rota.EventJobAssigned:
		c.take(&run{lease: e.Lease, job: e.Job, worker: e.Worker, session: e.Session}, c.now, false)
		c.started = append(c.started, begun{e.Job, e.Queue, e.Tenant, e.Worker, c.now - c.from})
		switch {
		case e.Job == c.of:
			if c.at < 0 {
				c.at, c.worker = c.now-c.from, e.Worker
			}
		case e.Queue == c.queue && (c.tenant == "" || e.Tenant == c.tenant):
			c.paces = append(c.paces, c.now-c.from)
		}
	case rota.EventLeaseRevoked: // its worker ends it at once, and reports it
		if r := c.drop(e.Lease); r != nil {
			c.owed = append(c.owed, c.verb(rota.VerbDecline, r))
		}
	case rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventJobCompleted, rota.EventLeaseDeclined:
		c.drop(e.Lease)
	case rota.EventJobExpired, rota.EventJobDead, rota.EventJobCancelled:
		c.over = c.over || e.Job == c.of
	}
}

// drop removes a lease that is over.
func (c *course) drop(lease rota.LeaseID) *run {
	r := c.open[lease]
	if r == nil {
		return nil
	}
	delete(c.open, lease)
	if r.place >= 0 {
		heap.Remove(&c.busy, r.place)
	}
	return r
}

func (c *course) verb(verb rota.LeaseVerb, r *run) *fsmpb.Op {
	op := &fsmpb.LeaseOp{Verb: uint32(verb), Lease: slices.Clone(r.lease[:]), Job: string(r.job),
		Worker: string(r.worker), Session: uint64(r.session)}
	if verb == rota.VerbComplete {
		op.OutputDigest = r.digest
	}
	return &fsmpb.Op{Op: &fsmpb.Op_Lease{Lease: op}}
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
