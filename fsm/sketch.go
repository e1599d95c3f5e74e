package fsm

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/sched"
)

// Sketch is what of a state decides when the jobs that wait in it start (SPEC §29.2): machines made of it run
// ahead of the present. It has nothing of what has ended, and where more jobs wait than it has room for, the
// first ones of each queue.
type Sketch struct {
	frozen *Frozen
	jobs   [][]byte
	leases [][]byte
	// Cut counts the jobs that are left out. Where the job that it was made for comes after some of them in its
	// queue, or of its tenant where the queue shares by tenant, Beyond is set, and Ahead counts these; Kept
	// counts the jobs before them, all of Queue and, unless it is "", of Tenant.
	Cut, Ahead, Kept int64
	Beyond           bool
	Queue            rota.QueueName
	Tenant           rota.TenantID
}

// Rows counts what a machine of it has to go through: jobs that wait and leases.
func (s *Sketch) Rows() int { return len(s.jobs) }

// waits is a job that waits, and where.
type waits struct {
	row   *jobRow
	order int64
	early rota.Clock
}

// Sketch makes one for a job, with at most so many jobs that wait.
func (f *Frozen) Sketch(of rota.JobID, most int) (*Sketch, error) {
	s := &Sketch{frozen: f}
	plain, err := s.load(nil)
	if err != nil {
		return nil, err
	}
	crowds := make(map[share][]waits)
	var keep []*jobRow
	waiting := 0
	f.jobs.Scan(func(id rota.JobID, j *jobRow) bool {
		_, holds := f.holds.Get(id)
		if j.state.Leased() || id == of || holds {
			keep = append(keep, j)
		}
		if holds || j.state != rota.JobQueued && j.state != rota.JobDelayed && j.state != rota.JobBlocked {
			return true
		}
		waiting++
		w := waits{row: j, order: int64(j.due), early: j.enqueued}
		q := plain.queues.get(j.spec.Queue)
		crowd := share{queue: q.name}
		if q.policy.FairShare {
			crowd.tenant = j.spec.Tenant
		}
		if j.state == rota.JobQueued {
			w.order = plain.placement.orderOf(j, q)
		}
		crowds[crowd] = append(crowds[crowd], w)
		return true
	})
	s.choose(&keep, crowds, of, waiting, most)
	slices.SortFunc(keep, func(a, b *jobRow) int { return strings.Compare(string(a.spec.ID), string(b.spec.ID)) })
	var e encoder
	for _, j := range keep {
		e.b = nil
		encodeSpec(&e, j.spec)
		j.canonical(&e)
		s.jobs = append(s.jobs, e.b)
	}
	f.leases.Scan(func(_ string, r *leaseRow) bool {
		e.b = nil
		r.canonical(&e)
		s.leases = append(s.leases, e.b)
		return true
	})
	return s, nil
}

// choose keeps jobs that wait: all, or as many of each crowd as there is room for, those with few first.
func (s *Sketch) choose(keep *[]*jobRow, crowds map[share][]waits, of rota.JobID, waiting, most int) {
	names := slices.SortedFunc(maps.Keys(crowds), func(a, b share) int {
		return cmp.Or(cmp.Compare(len(crowds[a]), len(crowds[b])), cmp.Compare(a.queue, b.queue), cmp.Compare(a.tenant, b.tenant))
	})
	for i, name := range names {
		crowd := crowds[name]
		room := len(crowd)
		if waiting > most {
			room = min(room, most/(len(names)-i))
			slices.SortFunc(crowd, compareWaits)
		}
		most -= room
		s.Cut += int64(len(crowd) - room)
		for k, w := range crowd {
			switch {
			case w.row.spec.ID == of: // it is kept already
				if k >= room {
					s.Cut--
					s.Beyond, s.Ahead, s.Kept, s.Queue, s.Tenant = true, int64(k-room), int64(room), name.queue, name.tenant
				}
			case k < room:
				*keep = append(*keep, w.row)
			}
		}
	}
}

// compareWaits is the order in which jobs of a queue are placed, as far as it does not change: those that are delayed
// come last.
func compareWaits(a, b waits) int {
	queued := func(w waits) int {
		if w.row.state == rota.JobQueued {
			return 0
		}
		return 1
	}
	return cmp.Or(queued(a)-queued(b), cmp.Compare(a.order, b.order), cmp.Compare(a.early, b.early), cmp.Compare(a.row.seq, b.row.seq))
}

// orderOf is what jobs of a queue are ordered by, as far as the frozen row says it.
func (pl *placement) orderOf(j *jobRow, q *queueRow) int64 {
	switch q.policy.Ranking {
	case rota.RankAdaptive:
		return int64(j.tier)
	case rota.RankShortest, rota.RankSmallest:
		return sched.RankKey(&q.policy, j.spec.Priority, j.spec.Fee, 0, 0, j.enqueued, q.rankEstimate(j))
	default:
		return sched.RankKey(&q.policy, j.spec.Priority, j.spec.Fee, effectiveSize(j.spec), pl.admission.limitsOf(j.spec.Tenant).Tier, j.enqueued, 0)
	}
}

// load makes a machine without jobs, then has more be added; nothing is derived yet.
func (s *Sketch) load(more func(*Loader) error) (*Machine, error) {
	f := *s.frozen
	f.Archived()
	f.jobs, f.leases = &tree.Tree[rota.JobID, *jobRow]{}, &tree.Tree[string, *leaseRow]{}
	f.tombs, f.deleted, f.spent = &tree.Tree[rota.JobID, tomb]{}, &tree.Tree[string, *deletedRow]{}, &tree.Tree[string, *spentRow]{}
	l, err := NewLoaderKnowing(f.Info(), f.knows)
	if err != nil {
		return nil, err
	}
	l.m.ledger.unlogged = true
	if err := f.Records(l.Add); err != nil || more == nil {
		return l.m, err
	}
	return l.m, more(l)
}

// Machine makes a machine that goes on from the state. What its workers have goes on until they end it: leases of workers that are
// heard last, and one that polls takes what its slots hold. Its clock may take large steps.
func (s *Sketch) Machine() (*Machine, error) {
	m, err := s.load(func(l *Loader) error {
		for _, rec := range s.jobs {
			if err := l.Add(tagJob, rec); err != nil {
				return err
			}
		}
		for _, rec := range s.leases {
			if err := l.Add(tagLease, rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	lasting := rota.MaxDuration.Milliseconds()
	m.head.leap = rota.Clock(lasting)
	m.queues.scan(func(_ rota.QueueName, q *queueRow) bool {
		q.delayed, q.queued, q.assigned, q.running = 0, 0, 0, 0
		q.policy.LeaseMs, q.policy.AckTimeoutMs = lasting, lasting
		return true
	})
	m.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		if j.state != rota.JobBlocked { // it is counted with the nodes of workflows, which stay
			m.queues.get(j.spec.Queue).count(j.state, 1)
		}
		return true
	})
	m.fleet.workers.scan(func(_ rota.WorkerID, w *workerRow) bool {
		w.polls, w.free, w.offersUntil = false, 0, 0
		return true
	})
	m.leasing.leases.scan(func(_ string, r *leaseRow) bool {
		if w := m.fleet.workers.get(r.Worker); w != nil && w.silentSince.IsZero() && w.disconnected.IsZero() && r.silentSince == 0 {
			r.Deadline.Clock += rota.Clock(lasting)
			r.AckBy.Clock += rota.Clock(lasting)
		}
		return true
	})
	if err := m.derive(); err != nil {
		return nil, err
	}
	m.leasing.releaseAll()
	return m, nil
}
