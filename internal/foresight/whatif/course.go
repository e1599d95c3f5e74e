package whatif

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// maxJobs bounds the jobs of a window, and so the memory that a run takes.
const maxJobs = 1_000_000

// jobs numbers the jobs of all histories.
type jobs struct {
	places map[rota.JobID]int32
	list   []job
	// groups are the pairs of a queue and a tenant.
	groups map[group]int32
	names  []group
	types  map[rota.JobType]int32
	// workers numbers the workers of all histories.
	workers map[rota.WorkerID]int32
}

func (js *jobs) worker(id rota.WorkerID) int32 {
	n, ok := js.workers[id]
	if !ok {
		n = int32(len(js.workers))
		js.workers[rota.WorkerID(strings.Clone(string(id)))] = n
	}
	return n
}

type job struct {
	id         rota.JobID
	group, typ int32
	// dated means that it has a time to live.
	dated bool
}

type group struct {
	queue  rota.QueueName
	tenant rota.TenantID
}

func newJobs() *jobs {
	return &jobs{places: make(map[rota.JobID]int32), groups: make(map[group]int32), types: make(map[rota.JobType]int32),
		workers: make(map[rota.WorkerID]int32)}
}

// of returns the number of a job that is in a state.
func (js *jobs) of(m *fsm.Machine, id rota.JobID) (int32, error) {
	if i, ok := js.places[id]; ok {
		return i, nil
	}
	if len(js.list) == maxJobs {
		return 0, rota.Refusef(rota.KindExhausted, "jobs",
			"the window has more than %d jobs: narrow it by --since and --until", maxJobs)
	}
	j, _ := m.Job(id)
	q, _ := m.Queue(j.Queue)
	g := group{j.Queue, j.Tenant}
	if _, ok := js.groups[g]; !ok {
		js.groups[g] = int32(len(js.names))
		js.names = append(js.names, g)
	}
	if _, ok := js.types[j.Type]; !ok {
		js.types[j.Type] = int32(len(js.types))
	}
	i := int32(len(js.list))
	own := rota.JobID(strings.Clone(string(id)))
	js.places[own] = i
	js.list = append(js.list, job{own, js.groups[g], js.types[j.Type], j.TTL > 0 || j.StartBy > 0 ||
		q.Policy.TTLAbsMs > 0 || q.Policy.TTLRelMaxMs > 0})
	return i, nil
}

// fate is the result for a job in a history; times are of the cluster's clock, 0 for none.
type fate struct {
	enqueued, started, ended rota.Clock
	state                    rota.JobState
	// old means that it ran before the window began: it has no wait in the window.
	old bool
}

// assignment is the number of a job, and of its worker.
type assignment struct{ job, worker int32 }

// course has the results for the jobs in a history.
type course struct {
	*jobs
	fates []fate
	// slots are those of workers that may have leases; busy and room are slots times ms that were leased, and that were
	// available.
	slots      map[rota.WorkerID]int64
	all        int64
	busy, room int64
	now        rota.Clock
	// order are the assignments in the order they were made.
	order   []assignment
	refused int64
	filled  int64
}

// begin records the pending jobs and the running ones when the window begins.
func (c *course) begin(m *fsm.Machine) error {
	c.slots, c.now = make(map[rota.WorkerID]int64), m.Head().Clock
	for _, w := range m.Workers() {
		c.offers(&w)
	}
	var full error
	err := eachLive(m, rota.JobFilter{}, func(j *rota.Job) {
		if j.State != rota.JobQueued && j.FirstLease.IsZero() {
			return
		}
		i, err := c.of(m, j.ID)
		if err != nil {
			full = err
			return
		}
		f := c.fate(i)
		f.old = !j.FirstLease.IsZero()
		if f.enqueued = j.Enqueued.Clock; f.old {
			f.started = j.FirstLease.Clock
		}
	})
	if err == nil {
		err = full
	}
	return err
}

func (c *course) fate(i int32) *fate {
	for int(i) >= len(c.fates) {
		c.fates = append(c.fates, fate{})
	}
	return &c.fates[i]
}

// offers records the slots of a worker.
func (c *course) offers(w *rota.Worker) {
	c.all -= c.slots[w.ID]
	delete(c.slots, w.ID)
	if w.Status == rota.WorkerActive || w.Status == rota.WorkerDraining {
		c.slots[w.ID] = int64(w.Slots)
		c.all += int64(w.Slots)
	}
}

// pass advances the clock, while open leases were open.
func (c *course) pass(now rota.Clock, open int) {
	if now > c.now {
		c.busy += int64(now-c.now) * min(int64(open), c.all)
		c.room += int64(now-c.now) * c.all
		c.now = now
	}
}

// follow records the effect of an event on its job, or on its worker.
func (c *course) follow(m *fsm.Machine, e *rota.Event) error {
	switch e.Kind {
	case rota.EventProviderRegistered, rota.EventProviderStatusChanged, rota.EventWorkerDeleted:
		w, _ := m.Worker(e.Worker)
		w.ID = e.Worker
		c.offers(&w)
		return nil
	case rota.EventJobEnqueued, rota.EventJobAssigned, rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired,
		rota.EventJobCancelled:
	default:
		return nil
	}
	i, err := c.of(m, e.Job)
	if err != nil {
		return err
	}
	f := c.fate(i)
	switch e.Kind {
	case rota.EventJobEnqueued:
		if f.enqueued == 0 {
			f.enqueued = e.Clock
		}
		f.ended, f.state = 0, rota.JobNone // a retry
	case rota.EventJobAssigned:
		if f.started == 0 {
			f.started = e.Clock
		}
		c.order = append(c.order, assignment{i, c.worker(e.Worker)})
	default:
		f.ended, f.state = e.Clock, endOf(e.Kind)
	}
	return nil
}

func endOf(kind rota.EventKind) rota.JobState {
	switch kind {
	case rota.EventJobCompleted:
		return rota.JobCompleted
	case rota.EventJobDead:
		return rota.JobDead
	case rota.EventJobExpired:
		return rota.JobExpired
	default:
		return rota.JobCancelled
	}
}

// wait returns how long a job was QUEUED before its first lease, or has been by now; ok is false if it never was within
// the window.
func (c *course) wait(i int32) (ms int64, ok bool) {
	if int(i) >= len(c.fates) {
		return 0, false
	}
	f := &c.fates[i]
	if f.old || f.enqueued == 0 {
		return 0, false
	}
	until := c.now
	if f.started != 0 {
		until = f.started
	} else if f.ended != 0 {
		until = f.ended
	}
	return int64(until - f.enqueued), true
}

// common returns how many assignments two histories have in common from the start, in the same order: jobs with their
// workers.
func (c *course) common(o *course) (n int64) {
	for int(n) < min(len(c.order), len(o.order)) && c.order[n] == o.order[n] {
		n++
	}
	return n
}
