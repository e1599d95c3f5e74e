package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// floodAccount compares every decision of some runs with the state at its height: the events up to there determine
// which jobs were QUEUED, which leases open and which slots free. A decision is an entry of rounds, recognized by its
// first assignment; one is in flight at a time, so a job QUEUED while one is made is in the next. Each must obey:
//
//   - Room: where a quiet tenant's job stays QUEUED, no slot of a worker of its queue
//     stays free. So such a job is in the first decision that finds room.
//   - Fair share: while it stays, no tenant with more open leases in the queue than its own
//     tenant is given room, except by a turn of the oldest, and a worker accepts one of those in
//     oldest_every leases. So a slot that becomes free goes to the quiet tenant unless it has had its
//     share.
//   - max_concurrent: the flood never has more leases than that.
//
// No clock is read.
type floodAccount struct {
	t    *testing.T
	runs map[rota.QueueName]*floodRun
	// events are all events, in order; the first `told` of them are included in the fields below.
	events  []rota.ServedEvent
	told    int
	queues  map[rota.QueueName]*floodQueue
	leases  map[rota.JobID]floodLease
	working map[rota.WorkerID]bool
	faults  int
}

// floodLease is an open lease.
type floodLease struct {
	tenant rota.TenantID
	worker rota.WorkerID
}

// floodQueue is a queue at a height.
type floodQueue struct {
	waiting map[rota.JobID]rota.TenantID
	open    map[rota.TenantID]int
	taken   map[rota.WorkerID]int
	// turns and leases count the leases that each worker got by a turn of the oldest, and otherwise.
	turns, leases map[rota.WorkerID]int
	// contested counts the decisions that placed jobs while the flood and a quiet tenant had
	// some QUEUED.
	contested int
	// failed counts failures and declines, by the flood's types.
	failed map[rota.JobType]int
}

func newFloodAccount(t *testing.T, runs []*floodRun) *floodAccount {
	a := &floodAccount{t: t, runs: map[rota.QueueName]*floodRun{}, queues: map[rota.QueueName]*floodQueue{},
		leases: map[rota.JobID]floodLease{}, working: map[rota.WorkerID]bool{}}
	for _, r := range runs {
		a.runs[rota.QueueName(r.name)] = r
		a.queues[rota.QueueName(r.name)] = &floodQueue{waiting: map[rota.JobID]rota.TenantID{},
			open:  map[rota.TenantID]int{},
			taken: map[rota.WorkerID]int{}, turns: map[rota.WorkerID]int{}, leases: map[rota.WorkerID]int{},
			failed: map[rota.JobType]int{}}
	}
	return a
}

func (a *floodAccount) fault(format string, args ...any) {
	a.t.Helper()
	if a.faults++; a.faults <= 10 {
		a.t.Errorf(format, args...)
	}
}

// read parses the events.
func (a *floodAccount) read(text string) {
	a.t.Helper()
	for line := range strings.Lines(text) {
		var e rota.ServedEvent
		check(a.t, json.Unmarshal([]byte(line), &e))
		a.events = append(a.events, e)
	}
}

// judge checks all decisions against the events before them.
func (a *floodAccount) judge() {
	a.t.Helper()
	for i := 0; i < len(a.events); {
		end := i + 1
		for end < len(a.events) && a.events[end].ID.Index == a.events[i].ID.Index {
			end++
		}
		a.entry(a.events[i:end])
		i = end
	}
	for name, r := range a.runs {
		q := a.queues[name]
		a.t.Logf("%s: %d jobs of the flood, %d of quiet tenants; %d decisions between them; turns %v next to %v; failed %v",
			name, r.sent, len(r.quiet), q.contested, q.turns, q.leases, q.failed)
		if q.contested < len(r.quiet)/10 {
			a.fault("%s: the flood left quiet jobs alone: the test shows nothing", name)
		}
		for _, typ := range floodTypes[1:] {
			if q.failed[typ] < minFlood {
				a.fault("%s: of type %s %d leases failed or were declined: the test shows nothing", name, typ,
					q.failed[typ])
			}
		}
	}
	if a.faults > 10 {
		a.t.Errorf("and %d more", a.faults-10)
	}
}

// entry judges an entry's events if they belong to a decision.
func (a *floodAccount) entry(events []rota.ServedEvent) {
	a.t.Helper()
	first := slices.IndexFunc(events, func(e rota.ServedEvent) bool { return e.Kind == rota.EventJobAssigned })
	if first < 0 {
		return
	}
	height := a.placing(&events[first]).Height
	for ; a.told < len(a.events) && a.events[a.told].ID.Index <= height; a.told++ {
		a.tell(&a.events[a.told])
	}
	for name := range a.runs {
		a.decision(name, events)
	}
}

// floodPlacing is the payload of jobAssigned.
type floodPlacing struct {
	Height    rota.Index
	Reasoning struct{ Rule string }
}

func (a *floodAccount) placing(e *rota.ServedEvent) (p floodPlacing) {
	a.t.Helper()
	check(a.t, json.Unmarshal([]byte(e.Payload), &p))
	if p.Height == 0 || p.Height >= e.ID.Index || p.Reasoning.Rule == "" {
		a.t.Fatalf("event %s has payload %s", e.ID, e.Payload)
	}
	return p
}

// tell applies an event to the state.
func (a *floodAccount) tell(e *rota.ServedEvent) {
	switch e.Kind {
	case rota.EventProviderRegistered:
		a.working[e.Worker] = true
	case rota.EventProviderStatusChanged:
		a.working[e.Worker] = e.Status == rota.WorkerActive
	}
	q := a.queues[e.Queue]
	if q == nil || e.Job == "" {
		return
	}
	switch e.Kind {
	case rota.EventJobEnqueued:
		a.ends(q, e)
		q.waiting[e.Job] = e.Tenant
	case rota.EventJobAssigned:
		delete(q.waiting, e.Job)
		a.leases[e.Job] = floodLease{e.Tenant, e.Worker}
		q.open[e.Tenant]++
		q.taken[e.Worker]++
	case rota.EventJobRetryScheduled, rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired,
		rota.EventJobCancelled, rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseDeclined:
		delete(q.waiting, e.Job)
		a.ends(q, e)
		if e.Kind == rota.EventLeaseCancelled || e.Kind == rota.EventLeaseDeclined {
			q.fails(e)
		}
	}
}

// fails counts a lease that ended badly, by the type that its job's id names.
func (q *floodQueue) fails(e *rota.ServedEvent) {
	for _, typ := range floodTypes {
		if strings.HasPrefix(string(e.Job), string(e.Queue)+"-"+string(typ)+"-") {
			q.failed[typ]++
		}
	}
}

// ends closes a job's lease, if it has one.
func (a *floodAccount) ends(q *floodQueue, e *rota.ServedEvent) {
	if l, held := a.leases[e.Job]; held {
		delete(a.leases, e.Job)
		q.open[l.tenant]--
		q.taken[l.worker]--
	}
}

// decision checks the decision of an entry of rounds for a queue.
func (a *floodAccount) decision(name rota.QueueName, events []rota.ServedEvent) {
	a.t.Helper()
	q, r := a.queues[name], a.runs[name]
	flood := r.tenant(0)
	placed, drawn, used := map[rota.JobID]bool{}, map[rota.TenantID]int{}, map[rota.WorkerID]int{}
	for _, e := range events {
		if e.Queue == name && (e.Kind == rota.EventJobAssigned || e.Kind == rota.EventAssignmentDropped) {
			placed[e.Job] = true
			used[e.Worker]++
		}
	}
	ended := a.endedBefore(name, events)
	stays := map[rota.TenantID]rota.JobID{} // one job that is not placed, for each quiet tenant
	flooding, quiet := false, false
	for job, tenant := range q.waiting {
		flooding = flooding || tenant == flood
		quiet = quiet || tenant != flood
		if tenant != flood && !placed[job] {
			stays[tenant] = job
		}
	}
	if flooding && quiet && len(placed) > 0 {
		q.contested++
	}
	for _, e := range events {
		if e.Queue != name || e.Kind != rota.EventJobAssigned {
			continue
		}
		a.draw(q, r, &e, drawn[e.Tenant], ended, func(tenant rota.TenantID) (rota.JobID, int) {
			return stays[tenant], drawn[tenant]
		})
		drawn[e.Tenant]++
	}
	for i := range floodWorkers {
		w := r.worker(i)
		if free := floodSlots - q.taken[w] - used[w]; a.working[w] && free > 0 {
			for tenant, job := range stays {
				a.fault("the decision at %s leaves job %s of %s QUEUED and %d slots of worker %s free", events[0].ID,
					job, tenant, free, w)
			}
		}
	}
}

// endedBefore counts the leases of a queue's tenants that an entry ends before its first assignment. A round may be
// decided with such ends or without them (SPEC §2.3); events do not show this.
func (a *floodAccount) endedBefore(name rota.QueueName, events []rota.ServedEvent) map[rota.TenantID]int {
	ended := map[rota.TenantID]int{}
	seen := map[rota.JobID]bool{}
	for _, e := range events {
		if e.Kind == rota.EventJobAssigned {
			break
		}
		if l, held := a.leases[e.Job]; held && e.Queue == name && !seen[e.Job] && endsLease(e.Kind) {
			seen[e.Job] = true
			ended[l.tenant]++
		}
	}
	return ended
}

// endsLease reports whether an event ends its job's lease, if there is one.
func endsLease(kind rota.EventKind) bool {
	switch kind {
	case rota.EventJobEnqueued, rota.EventJobRetryScheduled, rota.EventJobCompleted, rota.EventJobDead,
		rota.EventJobExpired, rota.EventJobCancelled, rota.EventLeaseExpired, rota.EventLeaseCancelled,
		rota.EventLeaseDeclined:
		return true
	}
	return false
}

// draw judges one assignment: ended is the number of leases that its entry ended before, drawn is the number of its tenant's assignments before it in the entry, stays returns
// which job of a tenant the entry leaves QUEUED, and how many the tenant drew before.
func (a *floodAccount) draw(q *floodQueue, r *floodRun, e *rota.ServedEvent, drawn int, ended map[rota.TenantID]int,
	stays func(rota.TenantID) (rota.JobID, int)) {
	a.t.Helper()
	open := q.open[e.Tenant] + drawn
	if r.limit > 0 {
		if e.Tenant == r.tenant(0) && open >= r.limit {
			a.fault("at %s tenant %s is given its lease %d, %d is its max_concurrent", e.ID, e.Tenant, open+1, r.limit)
		}
		return
	}
	if a.placing(e).Reasoning.Rule == "TurnOfTheOldest" {
		q.turns[e.Worker]++
		if every := int(rota.StandardPolicy().OldestEvery); len(r.set) > 0 ||
			q.turns[e.Worker]*(every-1) > q.leases[e.Worker] {
			a.fault("at %s worker %s takes turn %d of the oldest, after %d other leases", e.ID, e.Worker,
				q.turns[e.Worker], q.leases[e.Worker])
		}
		return
	}
	q.leases[e.Worker]++
	for n := 1; n < 3; n++ {
		quiet := r.tenant(n)
		if job, before := stays(quiet); job != "" && quiet != e.Tenant && open > q.open[quiet]+before &&
			open-ended[e.Tenant] > q.open[quiet]+before-ended[quiet] {
			a.fault("at %s tenant %s with %d leases is given another; job %s of %s, which has %d, stays QUEUED", e.ID,
				e.Tenant, open, job, quiet, q.open[quiet]+before)
		}
	}
}
