package sim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// auditor checks the promised guarantees against a naive model that it builds from events alone.
type auditor struct {
	w        *World
	fault    error
	digests  []rota.Digest // by index − 1
	accepted map[rota.JobID]bool
	// expires is the earliest moment at which a job with a time to live may expire.
	expires map[rota.JobID]rota.Clock
	jobs    map[rota.JobID]*auditJob
	leases  map[rota.LeaseID]*auditLease
	clock   rota.Clock
	steps   int
	// kind is the form of the fault's message; a shrunk life must show the same form.
	kind string
	// sessions holds the live sessions as registrations reported them; flows is the model of the workflows.
	sessions map[rota.WorkerID]rota.Session
	// revoked holds the tokens and sessions that must no longer appear in any event, and the date of their revocation.
	revoked map[string]rota.Date
	// roles holds the grants of the roles of worker pools.
	roles map[string][]rota.Grant
	signIns
	flows   map[rota.WorkflowID]*auditFlow
	flowIDs []rota.WorkflowID
	// uploaded is the cluster clock at which the last part of a workflow was accepted.
	uploaded rota.Clock
	// date is the date of the last event.
	date rota.Date
	// deleted holds the numbers of ended jobs that were deleted, completions the leases that completed a job.
	deleted     map[uint64]bool
	completions map[rota.LeaseID]bool
	places      places
	// edits is indexed by kind of object, in the order of editables.
	edits  []edits
	hooked hooked
	// keys holds the unique key of each job, holders the live job of each key.
	keys    map[rota.JobID]string
	holders map[string]rota.JobID
	// successors holds the job that follows each job.
	successors map[string]rota.JobID
	estate     estate
	keyed      keyed
	offers     offers
	// polled holds the sessions of workers that poll.
	polled map[rota.WorkerID]rota.Session
	turns  turns
	wide   wide
	ledger ledger
	bulks  bulks
	logs   map[rota.LeaseID]string
	dated
	// short is true time under leaderships that ended within 15 s (SPEC §3.11).
	short   Time
	readyAt Time
	figures
}

// figures counts how often each thing happened, for the tests.
type figures struct {
	// Keyed counts keys of jobs checked against a rule at assignment; KeysBlocked and KeysSkipped count the sequences
	// that stopped and those that were released.
	Keyed, KeysBlocked, KeysSkipped int
	// Weighed counts the assignments under rules that count a cost.
	Weighed int
	// KeysPaused and KeysOpened count the pauses of keys, and how often breakers opened.
	KeysPaused, KeysOpened int
	// BudgetsSpent and BudgetsTurned count the accounts that were spent, and the periods that began; BudgetsRefused
	// counts the refused submissions.
	BudgetsSpent, BudgetsTurned, BudgetsRefused int
	// With counts rounds in the entries of their submissions or completions, Beside those of them whose entry also has
	// other rounds, Refilled the entries whose rounds were replaced by rounds that know of more free capacity.
	With, Beside, Refilled int
	// Overtaken counts jobs that started before an earlier one, Foreseen those behind it for which room was planned
	// meanwhile.
	Overtaken, Foreseen int
	// Offered counts the leases of workers that poll.
	Offered int
	// Turned counts the assignments of keys that take turns.
	Turned                                                                                    int
	Granted, Expired, TimedOut, Completed, Leaderships, Promoted, Preempted, Outlived, Merged int
	// Ghosts counts ghost messages that were answered; Stale counts entries that arrived after the end of their term.
	Ghosts, Stale int
	// Disconnected counts the connections whose end was reported.
	Disconnected int
	Tokened      int
	// SignedIn counts the tokens that were issued in exchange for identity tokens.
	SignedIn int
	// Interrupted counts interrupted attempts, RunNow jobs that ran before their time.
	Interrupted, RunNow int
	// Deleted counts ended jobs that were deleted.
	Deleted int
	// Planned counts the jobs that plans had processed when the plans ended.
	Planned int
	// PlannedRetries, PlannedDeletions and PlannedMoves split Planned by action. LogsKept counts the logs that nodes
	// delivered of expired leases, LogsLate those of jobs that had ended.
	PlannedRetries, PlannedDeletions, PlannedMoves, LogsKept, LogsLate int
	// Dated counts the dates of schedules that became runs.
	Dated, DatesSkipped, DatesMissed int
	// Batched counts the batches that had their callbacks.
	Batched int
	// Removed counts deleted queues, tenants and workers; Moved counts the jobs that moved to another queue.
	Removed, Moved int
	// Owned counts the objects that owners received, Bounded the requests that their limits refused.
	Owned, Bounded int
	// Edited counts changes that named the version of an object, EditedLate those refused because the object had
	// another version.
	Edited, EditedLate int
	// Delivered counts the deliveries of a webhook, HooksSkipped how often it skipped some.
	Delivered, HooksSkipped int
	// Gone counts the guards that ended the leases of their workers.
	Gone int
	// Figures of workflows: runs started and how they ended, retries among them, skipped nodes, nodes added by others,
	// and uploads that were never committed.
	FlowsRun, FlowsCompleted, FlowsFailed, FlowsCancelled, FlowsRetried, Skipped, Lapsed, Grown int
}

func (f *figures) add(o figures) {
	for _, x := range []struct {
		to   *int
		from int
	}{{&f.Keyed, o.Keyed}, {&f.Weighed, o.Weighed}, {&f.KeysPaused, o.KeysPaused}, {&f.KeysOpened, o.KeysOpened}, {&f.BudgetsSpent, o.BudgetsSpent}, {&f.BudgetsTurned, o.BudgetsTurned}, {&f.BudgetsRefused, o.BudgetsRefused}, {&f.KeysBlocked, o.KeysBlocked}, {&f.KeysSkipped, o.KeysSkipped}, {&f.Turned, o.Turned}, {&f.Overtaken, o.Overtaken}, {&f.Foreseen, o.Foreseen}, {&f.Offered, o.Offered}, {&f.Granted, o.Granted}, {&f.Expired, o.Expired}, {&f.TimedOut, o.TimedOut}, {&f.Completed, o.Completed}, {&f.Leaderships, o.Leaderships},
		{&f.Promoted, o.Promoted}, {&f.Preempted, o.Preempted}, {&f.Outlived, o.Outlived}, {&f.Merged, o.Merged}, {&f.Ghosts, o.Ghosts}, {&f.Stale, o.Stale}, {&f.Gone, o.Gone}, {&f.Interrupted, o.Interrupted}, {&f.RunNow, o.RunNow}, {&f.Deleted, o.Deleted}, {&f.Removed, o.Removed}, {&f.Planned, o.Planned}, {&f.PlannedRetries, o.PlannedRetries}, {&f.PlannedDeletions, o.PlannedDeletions}, {&f.PlannedMoves, o.PlannedMoves}, {&f.LogsKept, o.LogsKept}, {&f.LogsLate, o.LogsLate}, {&f.Batched, o.Batched}, {&f.Dated, o.Dated}, {&f.DatesSkipped, o.DatesSkipped}, {&f.DatesMissed, o.DatesMissed}, {&f.Moved, o.Moved}, {&f.Disconnected, o.Disconnected}, {&f.Tokened, o.Tokened}, {&f.SignedIn, o.SignedIn}, {&f.With, o.With}, {&f.Beside, o.Beside}, {&f.Refilled, o.Refilled}, {&f.Owned, o.Owned}, {&f.Bounded, o.Bounded}, {&f.Edited, o.Edited}, {&f.EditedLate, o.EditedLate}, {&f.Delivered, o.Delivered}, {&f.HooksSkipped, o.HooksSkipped}, {&f.FlowsRun, o.FlowsRun},
		{&f.FlowsCompleted, o.FlowsCompleted}, {&f.FlowsFailed, o.FlowsFailed}, {&f.FlowsCancelled, o.FlowsCancelled},
		{&f.FlowsRetried, o.FlowsRetried}, {&f.Skipped, o.Skipped}, {&f.Lapsed, o.Lapsed}, {&f.Grown, o.Grown}} {
		*x.to += x.from
	}
}

// String lists all figures.
func (f figures) String() string {
	return fmt.Sprintf("%d leaderships, %d leases, %d of them by polls, %d rounds in the entries of their submissions (%d next to others' rounds), %d expired, %d timed out, %d preempted, %d outlived their jobs, %d jobs completed, %d promotions, "+
		"%d merged, %d commands of ghosts, %d entries of deposed leaders, %d guards heard, %d attempts interrupted, %d jobs run before their time, %d jobs deleted, %d queues, tenants and workers deleted, %d jobs moved, %d connections considered broken, %d events of tokens' holders, %d tokens of signed-in users, %d objects owned, %d refused by limits, %d edits (%d of another version), %d deliveries of a webhook (%d times some were skipped); %d runs of workflows (%d retries): %d COMPLETED, %d FAILED, "+
		"%d CANCELLED, %d nodes skipped, %d added by others, %d never committed; %d jobs passed one for which room was kept (%d plans for others), %d assignments under rules of keys (%d weighed; keys paused %d times, opened %d times; budgets spent %d times in %d periods, refused %d submissions), %d of keys in turn, %d sequences blocked, %d skipped, %d jobs of plans (%d retries, %d deletions, %d moves), %d logs brought late (%d after the job's end), %d batches; %d dates of schedules became runs, %d were skipped, %d missed", f.Leaderships, f.Granted, f.Offered, f.With, f.Beside, f.Expired, f.TimedOut, f.Preempted, f.Outlived, f.Completed, f.Promoted,
		f.Merged, f.Ghosts, f.Stale, f.Gone, f.Interrupted, f.RunNow, f.Deleted, f.Removed, f.Moved, f.Disconnected, f.Tokened, f.SignedIn, f.Owned, f.Bounded, f.Edited, f.EditedLate, f.Delivered, f.HooksSkipped, f.FlowsRun, f.FlowsRetried, f.FlowsCompleted, f.FlowsFailed, f.FlowsCancelled, f.Skipped, f.Grown, f.Lapsed, f.Overtaken, f.Foreseen, f.Keyed, f.Weighed, f.KeysPaused, f.KeysOpened, f.BudgetsSpent, f.BudgetsTurned, f.BudgetsRefused, f.Turned, f.KeysBlocked, f.KeysSkipped, f.Planned, f.PlannedRetries, f.PlannedDeletions, f.PlannedMoves, f.LogsKept, f.LogsLate, f.Batched, f.Dated, f.DatesSkipped, f.DatesMissed)
}

type auditJob struct {
	token     rota.Token
	lease     rota.LeaseID
	completed int
	terminal  bool
	told      bool
	// done is the lease that completed it; ended is the number of its end, over its date. held means that a lease of it
	// was cancelled, so the job stays known for the rest of that lease's time.
	done  rota.LeaseID
	ended uint64
	over  rota.Date
	held  bool
	// deleted means that it was deleted and the id is free.
	deleted bool
	// alone means that it runs alone on a worker.
	alone bool
}

type auditLease struct {
	job      rota.JobID
	worker   *worker
	granted  Time
	deadline rota.Clock
	// timesOut is when its max_runtime is over, 0 for never.
	timesOut rota.Clock
	acked    bool
	// outlives means that its job ends, or ended, before it: its worker has not confirmed.
	outlives bool
	// alone means that its job, which ended, ran alone.
	alone bool
	// repeated is set if its worker learned of it only from the answer to a beat, later than a worker that beats every
	// 2 s.
	repeated bool
	// abandonedAt and the following fields describe a lease whose worker died.
	abandonedAt Time
	bound       Time
	// takenOver is how long after that another process took over the id, 0 for never.
	takenOver Time
	outage    Time
	short     Time
	clock     rota.Clock
}

func newAuditor(w *World) *auditor {
	return &auditor{w: w, keys: map[rota.JobID]string{}, holders: map[string]rota.JobID{}, successors: map[string]rota.JobID{}, accepted: map[rota.JobID]bool{}, expires: map[rota.JobID]rota.Clock{},
		jobs: map[rota.JobID]*auditJob{}, leases: map[rota.LeaseID]*auditLease{},
		sessions: map[rota.WorkerID]rota.Session{}, flows: map[rota.WorkflowID]*auditFlow{},
		deleted: map[uint64]bool{}, completions: map[rota.LeaseID]bool{}, revoked: map[string]rota.Date{}, roles: map[string][]rota.Grant{}, places: newPlaces(),
		edits:   newEdits(),
		hooked:  hooked{due: map[rota.EventID]bool{}},
		keyed:   newKeyed(),
		offers:  offers{},
		polled:  map[rota.WorkerID]rota.Session{},
		dated:   newDated(),
		turns:   newTurns(),
		wide:    newWide(),
		ledger:  newLedger(),
		bulks:   bulks{started: make(map[string]bool)},
		logs:    make(map[rota.LeaseID]string),
		estate:  estate{of: map[owned]rota.Principal{}},
		signIns: signIns{shown: map[string]uint32{}, exchanged: map[uint32]bool{}}}
}

func (a *auditor) failf(format string, args ...any) {
	if a.fault == nil {
		a.fault, a.kind = fmt.Errorf("at %d ms: %s", a.w.now, fmt.Sprintf(format, args...)), format
	}
}

// ready and deposed follow leaderships.
func (a *auditor) ready(*leadership) {
	a.Leaderships++
	a.readyAt = a.w.now
}

func (a *auditor) deposed(l *leadership) {
	if !l.ready {
		return
	}
	if length := a.w.now - a.readyAt; length < 15_000 {
		a.short += length
	}
}

// outageNow returns all true time that the cluster clock did not count: there was no leader, or the leader could not
// commit.
func (a *auditor) outageNow() Time {
	return a.w.now - Time(max(a.clock-startClock, 0))
}

// applied checks every entry on every node: the first node to apply it updates the model, the others must have the same
// digest.
func (a *auditor) applied(n *node, r *fsm.Applied) {
	i := int(r.Index) - 1
	if i < len(a.digests) {
		if a.digests[i] != r.Digest {
			a.failf("node %s has digest %s at index %d, another node has %s", n.name, r.Digest, r.Index, a.digests[i])
		}
	} else {
		a.digests = append(a.digests, r.Digest)
		a.entry(n, r)
	}
	if a.steps++; a.steps%200 == 0 {
		if faults := n.machine.Check(); len(faults) > 0 {
			a.failf("node %s at index %d: %q", n.name, r.Index, faults)
		}
	}
}

func (a *auditor) entry(n *node, r *fsm.Applied) {
	if r.Clock < a.clock {
		a.failf("the clock ran back from %d to %d", a.clock, r.Clock)
	}
	e := a.w.entries[&a.w.log[r.Index-1].data[0]]
	a.stale(e, r)
	a.clock = r.Clock
	a.flowOps(e, r)
	a.judged(e, r)
	a.datedOps(n, e, r)
	a.turns.rounds(e)
	a.offered(e, r)
	for i := range r.Events {
		e := &r.Events[i]
		j := a.jobs[e.Job]
		if j == nil && e.Job != "" {
			j = &auditJob{}
			a.jobs[e.Job] = j
		}
		if e.Run != "" {
			a.flowEvent(r, e)
		}
		a.lives(n, e, j)
		a.livesAgain(e, j)
		a.retriedByPlan(e, j)
		a.rights(e)
		a.hookEvent(e)
		a.placed(e)
		a.unique(e)
		a.keysOf(e, r.Clock)
		a.inTurns(r, e)
		j.runsAlone(a, e)
		a.planned(e)
		a.datedEvent(e)
		switch e.Kind {
		case rota.EventProviderRegistered:
			a.sessions[e.Worker] = e.Session
		case rota.EventJobAssigned:
			a.assigned(r, e, j)
		case rota.EventLeaseAcked, rota.EventLeaseRenewed:
			if l := a.leases[e.Lease]; l != nil {
				l.acked = true
				l.deadline = max(l.deadline, e.Deadline.Clock)
				if l.abandonedAt != 0 {
					a.remains(l) // it was in progress when its worker died
				}
			}
		case rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseDeclined:
			a.ended(e, j)
		case rota.EventJobCompleted:
			a.Completed++
			if j.completed++; j.completed > 1 || j.terminal {
				a.failf("job %s was completed twice", e.Job)
			}
			j.terminal, j.done = true, e.Lease
			if !a.isGate(e) {
				a.ended(e, j)
				a.completions[e.Lease] = true
			}
		case rota.EventJobDeleted:
			a.jobDeleted(n, e, j)
		case rota.EventJobPromoted:
			a.Promoted++
		case rota.EventLeaseRevoked:
			askedBack(a, e, j)
		case rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
			if j.terminal {
				a.failf("job %s ended twice", e.Job)
			}
			if e.Kind == rota.EventJobExpired && r.Clock < a.expires[e.Job] {
				a.failf("job %s expired %d ms before its time to live was over", e.Job, a.expires[e.Job]-r.Clock)
			}
			j.terminal = true
			if !j.lease.IsZero() { // a permanent failure reports no end of the lease
				if l := a.leases[j.lease]; l != nil && !l.outlives {
					a.late(l)
					delete(a.leases, j.lease)
				}
				j.lease = rota.LeaseID{}
			}
		}
	}
	a.flowsSettled(r)
	a.backfilled(n, e, r)
	a.batched(n, e, r)
	a.overruns(r, e)
	a.deletions(e, r)
	ordered(a, e, r)
	a.logsOf(n, e, r)
	a.drained(e, r)
	a.edited(e, r)
	a.estates(e, r)
	a.keysSettled(n, r)
	a.plansSettled()
	a.datedSettled(n)
}

// askedBack follows a lease that its worker must give back.
func askedBack(a *auditor, e *rota.Event, j *auditJob) {
	if e.Reason == rota.ReasonPreempted {
		a.Preempted++
	}
	l := a.leases[e.Lease]
	if l == nil {
		return
	}
	if e.Reason.EndsJob() {
		l.outlives, l.alone = true, j.alone
		a.Outlived++
	}
	if l.abandonedAt != 0 && e.Reason == rota.ReasonTakenOver {
		l.takenOver = a.w.now - l.abandonedAt
		a.remains(l)
	}
}

// stale checks an entry of an ended leadership against SPEC §3.2: it moves no clock and decides nothing by itself,
// however late it arrives; the client requests in it still count. So do their consequences: a completion releases the
// nodes that waited for it, at once or, for many nodes, with later entries; a released job whose time to live is over
// by the current clock ends there, without any timer. A guard's report that its worker is gone ends that worker's
// leases whenever it arrives (SPEC §16.7).
func (a *auditor) stale(entry *fsmpb.Entry, r *fsm.Applied) {
	if term := a.w.log[r.Index-1].term; entry.GetTerm() == term && term == r.Term {
		return
	}
	a.Stale++
	if r.Clock != a.clock {
		a.failf("an entry of term %d moved the clock from %d to %d in term %d", entry.GetTerm(), a.clock, r.Clock, r.Term)
	}
	for i := range r.Events {
		switch e := &r.Events[i]; e.Kind {
		case rota.EventJobAssigned, rota.EventLeaseExpired, rota.EventJobExpired, rota.EventJobPromoted:
			if e.Kind == rota.EventJobExpired && e.Run != "" || e.Kind == rota.EventLeaseExpired && saysGone(entry, e.Worker) {
				continue
			}
			a.failf("an entry of term %d brought %s of job %s in term %d", entry.GetTerm(), e.Kind, e.Job, r.Term)
		}
	}
}

// saysGone reports whether entry has a guard's report that worker is gone.
func saysGone(entry *fsmpb.Entry, worker rota.WorkerID) bool {
	return slices.ContainsFunc(entry.GetOps(), func(op *fsmpb.Op) bool {
		gone := op.GetGone()
		return gone != nil && gone.GetWorker() == string(worker)
	})
}

func (a *auditor) assigned(r *fsm.Applied, e *rota.Event, j *auditJob) {
	a.Granted++
	if !j.lease.IsZero() || j.terminal {
		a.failf("job %s was leased while lease %s is open (or it ended)", e.Job, j.lease)
	}
	for id, l := range a.leases {
		if key, unique := a.keys[e.Job]; l.outlives && (l.job == e.Job || unique && a.keys[l.job] == key) {
			a.failf("job %s was leased while the worker of lease %s of job %s, which ended, has not confirmed that it stopped", e.Job, id, l.job)
		}
	}
	j.lease = e.Lease
	timesOut := rota.Clock(0)
	for _, n := range a.w.nodes {
		given, ok := n.machine.Assignment(e.Lease)
		if !ok {
			continue
		}
		if j.token.Compare(given.Lease.Token) >= 0 {
			a.failf("job %s: token %s after %s", e.Job, given.Lease.Token, j.token)
		}
		delivered(a, r, e, &given)
		j.token, timesOut = given.Lease.Token, given.TimesOut()
	}
	for _, k := range a.w.workers {
		if k.id == e.Worker {
			a.leases[e.Lease] = &auditLease{job: e.Job, worker: k, granted: a.w.now, deadline: e.Deadline.Clock, timesOut: timesOut}
		}
	}
}

// delivered checks what a lease's worker receives with it: the job or, if the job ended in the same entry, the revoked
// lease with the job's names and costs, and nothing to start with (SPEC §8.8).
func delivered(a *auditor, r *fsm.Applied, e *rota.Event, given *rota.Assignment) {
	over := rota.ReasonNone
	for i := range r.Events {
		if x := &r.Events[i]; x.Kind == rota.EventLeaseRevoked && x.Lease == e.Lease && x.Reason.EndsJob() {
			over = x.Reason
		}
	}
	spec := &given.Spec
	if want := headersOf(e.Job); over == rota.ReasonNone && !maps.Equal(spec.Headers, want) {
		a.failf("the worker of job %s gets the headers %v, want %v", e.Job, spec.Headers, want)
	}
	if over == rota.ReasonNone {
		return
	}
	bare := rota.JobSpec{ID: e.Job, Queue: e.Queue, Tenant: e.Tenant, Type: spec.Type, Keys: spec.Keys, Costs: spec.Costs}
	if given.Lease.Revoked != over || !reflect.DeepEqual(spec, &bare) {
		a.failf("job %s ended (%s) as it was leased, and its worker gets the lease revoked by %s with %+v", e.Job, over, given.Lease.Revoked, *spec)
	}
}

func (a *auditor) ended(e *rota.Event, j *auditJob) {
	l := a.leases[e.Lease]
	if l != nil && l.outlives && e.Kind == rota.EventLeaseCancelled {
		delete(a.leases, e.Lease)
		a.late(l)
		return
	}
	if l == nil || j.lease != e.Lease {
		a.failf("lease %s of job %s ended but was not open", e.Lease, e.Job)
		return
	}
	delete(a.leases, e.Lease)
	j.lease = rota.LeaseID{}
	if e.Reason == rota.ReasonTimedOut {
		a.TimedOut++
	}
	if l.abandonedAt == 0 && e.Kind == rota.EventLeaseExpired && l.acked {
		a.Expired++
		if k := l.worker; !k.down && !l.repeated && k.soundSince <= l.granted && k.session == e.Session {
			a.failf("lease %s of worker %s, alive and connected since %d, expired", e.Lease, k.id, k.soundSince)
		}
	}
	a.late(l)
}

// overruns checks that a sweep leaves no attempt open whose max_runtime is over (SPEC §20.2). Between sweeps the clock
// may advance: entries of clients move it too.
func (a *auditor) overruns(r *fsm.Applied, e *fsmpb.Entry) {
	swept := slices.ContainsFunc(e.GetOps(), func(op *fsmpb.Op) bool { return op.GetSweep() != nil })
	if !swept || !r.Stamped || r.Sweep.More {
		return
	}
	var open []rota.JobID
	for _, l := range a.leases {
		if l.timesOut != 0 && l.timesOut <= r.Clock {
			open = append(open, l.job)
		}
	}
	if len(open) > 0 {
		a.failf("job %s's attempt is open after its max_runtime and a sweep", slices.Min(open))
	}
}

// late checks the limit on how long the leases of a dead worker last (SPEC §3.11).
func (a *auditor) late(l *auditLease) {
	if l.abandonedAt == 0 {
		return
	}
	if took := a.w.now - l.abandonedAt; took > l.bound+(a.short-l.short)+3*(a.outageNow()-l.outage)+10_000 {
		a.failf("job %s's lease ended %d ms after worker %s died: within %d, outage %d", l.job, took, l.worker.id, l.bound,
			a.outageNow()-l.outage)
	}
}

// abandoned records the leases of a dying worker.
func (a *auditor) abandoned(k *worker) {
	for _, l := range a.leases {
		if l.worker == k && l.abandonedAt == 0 {
			l.abandonedAt, l.outage, l.short, l.clock = a.w.now, a.outageNow(), a.short, a.clock
			a.remains(l)
		}
	}
}

// remains bounds the remaining time of an abandoned lease, counted from its worker's death. Its silence counts again
// from a takeover, because the previous process might have reported until then.
func (a *auditor) remains(l *auditLease) {
	l.bound = min(max(Time(l.deadline-l.clock), 0), l.takenOver+40_000)
}

// holds and believed look for a second worker that believes in the same job.
func (a *auditor) holds(k *worker, t *task) {
	for _, other := range a.w.workers {
		if other.down || other.pausedUntil > a.w.now { // a sleeping worker does nothing
			continue
		}
		for _, u := range other.order {
			if u != t && u.given.Lease.Job == t.given.Lease.Job && u.given.Lease.ID != t.given.Lease.ID && (other.believes(u) || other.dying(u)) && k.believes(t) {
				a.failf("workers %s and %s both believe that they hold job %s", k.id, other.id, t.given.Lease.Job)
			}
			if u != t && a.beside(u.given.Lease.Job, t.given.Lease.Job) && (other.believes(u) || other.dying(u)) && k.believes(t) {
				a.failf("workers %s and %s both believe that they hold a run of one schedule: %s and %s", k.id, other.id, t.given.Lease.Job, u.given.Lease.Job)
			}
		}
	}
}

func (a *auditor) believed(k *worker) {
	for _, t := range k.order {
		if k.believes(t) {
			a.holds(k, t)
		}
	}
}

// told records that a worker learned that its lease completed its job.
func (a *auditor) told(l *rota.Lease) {
	if !a.completions[l.ID] {
		a.failf("job %s: its worker learned that it is COMPLETED by lease %s, which is wrong", l.Job, l.ID)
	}
	if j := a.jobs[l.Job]; j.done == l.ID { // and no later life of the id
		j.told = true
	}
}
