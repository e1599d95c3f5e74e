package meter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
)

// statsRing holds a node's latest samples, one per step, the newest last. Its size is fixed.
type statsRing struct {
	step time.Duration
	ring []peer.Sample
	next int
	full bool
}

func newStatsRing(step time.Duration, n int) statsRing {
	return statsRing{step: step, ring: make([]peer.Sample, n)}
}

func (r *statsRing) put(s peer.Sample) {
	r.ring[r.next] = s
	if r.next++; r.next == len(r.ring) {
		r.next, r.full = 0, true
	}
}

// all returns the samples, oldest first.
func (r *statsRing) all() []peer.Sample {
	var list []peer.Sample
	if r.full {
		list = append(list, r.ring[r.next:]...)
	}
	return append(list, r.ring[:r.next]...)
}

const (
	// Step is the interval of the fine ring. It covers a quarter of an hour, the coarse one a day: 2,340 samples of 14
	// numbers, 260 KiB.
	Step = time.Second
	// FineKept is how many samples the fine ring keeps.
	FineKept               = 900
	coarseStep, coarseKept = time.Minute, 1_440
)

// Stats samples this node every second.
type Stats struct {
	recent *Recent
	peek   Peek
	wall   func() time.Time
	commit func() time.Duration
	// kinds counts the events that this node applied, by kind; fresh counts those that are the first of their job.
	kinds [256]atomic.Int64
	// outlived counts leases revoked because their jobs ended: those are not lost attempts.
	outlived atomic.Int64
	fresh    atomic.Int64

	mu           sync.Mutex
	fine, coarse statsRing
	// before holds the counts of the last sample, minute the sums since the last coarse one.
	before, minute peer.Sample
	seconds        int
}

// NewStats returns an empty sampler. commit returns the median latency of this node's commits, 0 while it does not
// lead.
func NewStats(r *Recent, peek Peek, wall func() time.Time, commit func() time.Duration) *Stats {
	return &Stats{recent: r, peek: peek, wall: wall, commit: commit, fine: newStatsRing(Step, FineKept),
		coarse: newStatsRing(coarseStep, coarseKept)}
}

// Count counts the events of an entry.
func (st *Stats) Count(events []rota.Event) {
	for i := range events {
		e := &events[i]
		st.kinds[e.Kind].Add(1)
		if e.Kind == rota.EventLeaseRevoked && e.Reason.EndsJob() {
			st.outlived.Add(1)
		}
		if (e.Kind == rota.EventJobEnqueued || e.Kind == rota.EventJobDelayed) && e.Parent.IsZero() {
			st.fresh.Add(1)
		}
	}
}

// Run samples at each tick, which comes every Step, until ctx ends.
func (st *Stats) Run(ctx context.Context, tick <-chan time.Time) {
	for seconds := 0; ; seconds++ {
		select {
		case <-tick:
			st.Sample()
			if seconds%int(coarseStep/Step) == 0 {
				st.sampleWaits()
			}
		case <-ctx.Done():
			return
		}
	}
}

// counts returns the counts since the start.
func (st *Stats) counts() peer.Sample {
	of := func(kinds ...rota.EventKind) (n int64) {
		for _, k := range kinds {
			n += st.kinds[k].Load()
		}
		return n
	}
	return peer.Sample{Submitted: st.fresh.Load(), Started: of(rota.EventJobAssigned),
		Completed: of(rota.EventJobCompleted), Dead: of(rota.EventJobDead),
		Expired: of(rota.EventJobExpired), Cancelled: of(rota.EventJobCancelled),
		Retried:    of(rota.EventJobRetryScheduled),
		LeasesLost: of(rota.EventLeaseExpired, rota.EventLeaseRevoked) - st.outlived.Load()}
}

// Sample takes one sample; if applying stalls, it keeps the previous gauges.
func (st *Stats) Sample() {
	now := st.counts()
	s := now.Less(&st.before)
	s.Date = rota.DateOf(st.wall())
	s.Gauges = st.gauges()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.before = now
	st.fine.put(s)
	st.minute.Add(&s)
	if st.seconds++; st.seconds == int(coarseStep/Step) {
		st.minute.Date, st.minute.Gauges = s.Date, s.Gauges
		st.coarse.put(st.minute)
		st.minute, st.seconds = peer.Sample{}, 0
	}
}

// gauges reads the current values.
func (st *Stats) gauges() (g peer.Gauges) {
	st.peek(func(s *fsm.View) {
		c := s.Counts()
		g.Pending, g.Running, g.Workers, g.StateBytes = c.Blocked+c.Delayed+c.Queued, c.Assigned+c.Running, s.WorkerCount(), s.StateBytes()
		g.Index = s.Head().Index
	})
	g.Commit = st.commit()
	return g
}

// sampleWaits samples the waits of this node's queues.
func (st *Stats) sampleWaits() {
	var queues []rota.Queue
	st.peek(func(s *fsm.View) { queues = s.Queues() })
	st.recent.sample(queues, rota.DateOf(st.wall()))
}

// Samples returns the samples of the last quarter of an hour or, with coarse, of the last day.
func (st *Stats) Samples(coarse bool) peer.Stats {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := &st.fine
	if coarse {
		r = &st.coarse
	}
	return peer.Stats{Step: r.step, Samples: r.all()}
}
