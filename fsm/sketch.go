package fsm

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/sched"
)

// Sketch is the part of a state that determines when its pending jobs start (SPEC §29.2): machines made from it run
// ahead of the present. It contains nothing that has ended, and if there are more pending jobs than it has room for,
// only the first ones of each queue.
type Sketch struct {
	frozen *Frozen
	jobs   [][]byte
	leases [][]byte
	// Cut counts the jobs that are left out. If the job that the sketch was made for comes after some of them in its
	// queue, or in its tenant if the queue shares by tenant, Beyond is set, and Ahead counts these. Kept counts the
	// included jobs before them, all of Queue and, unless it is "", of Tenant.
	Cut, Ahead, Kept int64
	Beyond           bool
	Queue            rota.QueueName
	Tenant           rota.TenantID
}

// Rows returns the number of rows that a machine made from it has to process: pending jobs and leases.
func (s *Sketch) Rows() int { return len(s.jobs) }

// waits is a pending job and its place.
type waits struct {
	row   *state.JobRow
	order int64
	early rota.Clock
}

// Sketch makes a sketch for a job, with at most `most` pending jobs.
func (f *Frozen) Sketch(of rota.JobID, most int) (*Sketch, error) {
	s := &Sketch{frozen: f}
	plain, err := s.load(nil)
	if err != nil {
		return nil, err
	}
	crowds := make(map[share][]waits)
	var keep []*state.JobRow
	waiting := 0
	f.jobs.Scan(func(id rota.JobID, j *state.JobRow) bool {
		_, holds := f.holds.Get(id)
		if j.State.Leased() || id == of || holds {
			keep = append(keep, j)
		}
		if holds || j.State != rota.JobQueued && j.State != rota.JobDelayed && j.State != rota.JobBlocked {
			return true
		}
		waiting++
		w := waits{row: j, order: int64(j.Due), early: j.Enqueued}
		q := plain.QueueTable.Get(j.Spec.Queue)
		crowd := share{queue: q.Name}
		if q.Policy.FairShare {
			crowd.tenant = j.Spec.Tenant
		}
		if j.State == rota.JobQueued {
			w.order = plain.placement.orderOf(j, q)
		}
		crowds[crowd] = append(crowds[crowd], w)
		return true
	})
	s.choose(&keep, crowds, of, waiting, most)
	slices.SortFunc(keep, func(a, b *state.JobRow) int { return strings.Compare(string(a.Spec.ID), string(b.Spec.ID)) })
	var e state.Encoder
	for _, j := range keep {
		e.B = nil
		state.EncodeSpec(&e, j.Spec)
		j.Canonical(&e)
		s.jobs = append(s.jobs, e.B)
	}
	f.leases.Scan(func(_ string, r *state.LeaseRow) bool {
		e.B = nil
		r.Canonical(&e)
		s.leases = append(s.leases, e.B)
		return true
	})
	return s, nil
}

// choose keeps pending jobs: all, or as many of each crowd as there is room for, small crowds first.
func (s *Sketch) choose(keep *[]*state.JobRow, crowds map[share][]waits, of rota.JobID, waiting, most int) {
	names := slices.SortedFunc(maps.Keys(crowds), func(a, b share) int {
		return cmp.Or(cmp.Compare(len(crowds[a]), len(crowds[b])), cmp.Compare(a.queue, b.queue),
			cmp.Compare(a.tenant, b.tenant))
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
			case w.row.Spec.ID == of: // it is kept already
				if k >= room {
					s.Cut--
					s.Beyond, s.Ahead, s.Kept, s.Queue, s.Tenant = true, int64(k-room), int64(
						room), name.queue, name.tenant
				}
			case k < room:
				*keep = append(*keep, w.row)
			}
		}
	}
}

// compareWaits orders the jobs of a queue by their order of placement, as far as it does not change: delayed jobs come
// last.
func compareWaits(a, b waits) int {
	queued := func(w waits) int {
		if w.row.State == rota.JobQueued {
			return 0
		}
		return 1
	}
	return cmp.Or(queued(a)-queued(b), cmp.Compare(a.order, b.order), cmp.Compare(a.early, b.early),
		cmp.Compare(a.row.Seq, b.row.Seq))
}

// orderOf returns the value that jobs of a queue are ordered by, as far as the frozen row contains it.
func (pl *placement) orderOf(j *state.JobRow, q *state.QueueRow) int64 {
	switch q.Policy.Ranking {
	case rota.RankAdaptive:
		return int64(j.Tier)
	case rota.RankShortest, rota.RankSmallest:
		return sched.RankKey(&q.Policy, j.Spec.Priority, j.Spec.Fee, 0, 0, j.Enqueued, q.RankEstimate(j))
	default:
		return sched.RankKey(&q.Policy, j.Spec.Priority, j.Spec.Fee, effectiveSize(j.Spec),
			pl.admission.limitsOf(j.Spec.Tenant).Tier, j.Enqueued, 0)
	}
}

// load makes a machine without jobs, then calls more to add rows; nothing is derived yet.
func (s *Sketch) load(more func(*Loader) error) (*Machine, error) {
	f := *s.frozen
	f.Archived()
	f.jobs, f.leases = &tree.Tree[rota.JobID, *state.JobRow]{}, &tree.Tree[string, *state.LeaseRow]{}
	f.tombs, f.deleted, f.spent = &tree.Tree[rota.JobID, state.Tomb]{}, &tree.Tree[string,
		*state.DeletedRow]{}, &tree.Tree[string, *state.SpentRow]{}
	l, err := NewLoaderKnowing(f.Info(), f.knows)
	if err != nil {
		return nil, err
	}
	l.m.Ledger.Unlogged = true
	if err := f.Records(l.Add); err != nil || more == nil {
		return l.m, err
	}
	return l.m, more(l)
}

// Machine returns a machine that continues from the state. Leases continue until their workers end them: those of
// reachable workers do not expire, and a polling worker accepts what its slots hold. Its clock may take large steps.
func (s *Sketch) Machine() (*Machine, error) {
	m, err := s.load(func(l *Loader) error {
		for _, rec := range s.jobs {
			if err := l.Add(state.TagJob, rec); err != nil {
				return err
			}
		}
		for _, rec := range s.leases {
			if err := l.Add(state.TagLease, rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	lasting := rota.MaxDuration.Milliseconds()
	m.Header.Leap = rota.Clock(lasting)
	m.QueueTable.Scan(func(_ rota.QueueName, q *state.QueueRow) bool {
		q.Delayed, q.Queued, q.Assigned, q.Running = 0, 0, 0, 0
		q.Policy.LeaseMs, q.Policy.AckTimeoutMs = lasting, lasting
		return true
	})
	m.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State != rota.JobBlocked { // it is counted with the nodes of workflows, which stay
			m.QueueTable.Get(j.Spec.Queue).Count(j.State, 1)
		}
		return true
	})
	m.fleet.workers.Scan(func(_ rota.WorkerID, w *state.WorkerRow) bool {
		w.Polls, w.Free, w.OffersUntil = false, 0, 0
		return true
	})
	m.leasing.leases.Scan(func(_ string, r *state.LeaseRow) bool {
		if w := m.fleet.workers.Get(r.Worker); w != nil && w.SilentSince.IsZero() && w.Disconnected.IsZero() &&
			r.SilentSince == 0 {
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
