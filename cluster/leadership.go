package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// leadership is one term of this node as leader, from its own applied BeginTerm to its end. It stamps entries
// (SPEC §3.3), batches proposals into them, and keeps a bounded number in flight. Its pending decisions are discarded
// at its end.
type leadership struct {
	n    *base
	disk *diskGate
	term uint64
	ctx  context.Context
	end  context.CancelFunc

	// urgent proposals (those that end or keep leases, sweeps, rounds) go before submissions, so that no renewal
	// starves behind them.
	urgent, normal chan *proposal
	inFlight       chan *launched
	slots          chan struct{}
	// freed is notified whenever an entry releases its slot.
	freed chan struct{}
	// filling reports that an entry holds operations and has not been sent.
	filling atomic.Bool
	queues  queueGate
	turn    roundTurn
	// landed is closed once every entry of this leadership was answered.
	landed chan struct{}

	mu sync.Mutex
	// began is the clock after BeginTerm.
	began rota.Clock
	// lastStamp was given at lastAt; c is the clock after the latest own applied entry.
	lastStamp rota.Clock
	lastAt    time.Duration
	c         rota.Clock
	// stampedSeq numbers own entries, appliedSeq those that were applied.
	stampedSeq, appliedSeq uint64
	beatWaits              []beatWait
	// walls were read at wallsAt; wallsSent is when an entry last carried some.
	walls              []int64
	wallsAt, wallsSent time.Duration
	// heard is each worker's last beat in this leadership, workers how many are neither RETIRED nor UNREACHABLE.
	heard   map[rota.WorkerID]beatHeard
	workers int
	// silencing holds workers whose UNREACHABLE is in progress in the log; silenced is closed when it was applied. nil
	// if there is none.
	silencing map[rota.WorkerID]bool
	silenced  chan struct{}
	// commits holds the latest entries' latencies.
	commits meter.Latencies
	// present reports that some worker is neither RETIRED nor UNREACHABLE, so that the clock must advance.
	present bool
}

type beatHeard struct {
	session rota.Session
	clock   rota.Clock
	// next is the time until the next beat is expected.
	next time.Duration
}

// silentFrom returns the clock from which the worker counts as silent without another beat.
func (h beatHeard) silentFrom() rota.Clock {
	return h.clock + rota.Clock(max(h.next, limits.BeatEvery).Milliseconds()) + limits.SilenceBeyond
}

// newLeadership opens the leadership of a term that began at a clock.
func (tm *terms) newLeadership(term uint64, clock rota.Clock) *leadership {
	ctx, end := context.WithCancel(context.Background())
	return &leadership{n: tm.n, disk: tm.disk, term: term, ctx: ctx, end: end, began: clock, lastStamp: clock,
		lastAt: tm.n.sinceBoot(), c: clock,
		urgent: make(chan *proposal, proposalQueue), normal: make(chan *proposal, proposalQueue),
		inFlight: make(chan *launched, entriesInFlight), slots: make(chan struct{}, entriesInFlight),
		freed: make(chan struct{}, 1),
		turn:  newRoundTurn(), landed: make(chan struct{}), heard: make(map[rota.WorkerID]beatHeard), present: true}
}

// propose puts operations of the leader's own chores into the log and waits for the result.
func (l *leadership) propose(ctx context.Context, ops []*fsmpb.Op, urgent bool) reply {
	b, err := encode(ops)
	if err != nil {
		return reply{err: err}
	}
	return l.admit(ctx, b, urgent, false)
}

// Life ends with the leadership.
func (l *leadership) Life() context.Context { return l.ctx }

// Propose is propose for chores of other packages.
func (l *leadership) Propose(ctx context.Context, ops []*fsmpb.Op, urgent bool) ([]*fsmpb.Outcome, error) {
	r := l.propose(ctx, ops, urgent)
	return r.outcomes, r.err
}

// CommitLatency returns the median latency of the latest commits, 0 without any.
func (l *leadership) CommitLatency() time.Duration { return l.commits.Median(l.n.sinceBoot()) }

// All proposes operations entry by entry; each must be accepted or be stale.
func (l *leadership) All(ctx context.Context, ops []*fsmpb.Op) error {
	b, err := encode(ops)
	if err != nil {
		return err
	}
	for at := 0; at < len(ops); {
		k := b.chunk(at)
		r := l.admit(ctx, b.part(at, at+k), true, false)
		if errors.Is(r.err, errNotLeader) {
			return fault.NotLeader()
		}
		if r.err != nil {
			return r.err
		}
		for _, o := range r.outcomes {
			if e := entry.OutcomeError(o); e != nil && e.Kind != rota.KindStale { // its session ended meanwhile
				return e
			}
		}
		at += k
	}
	return nil
}

// WallNow returns the median of the voters' wall clocks; 0 if unknown.
func (l *leadership) WallNow() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.walls) == 0 {
		return 0
	}
	return median(l.walls) + int64((l.n.sinceBoot()-l.wallsAt)/time.Millisecond)
}

func (l *leadership) workersPresent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.present
}

// setWalls sets the leadership's wall clocks to fresh ones of a majority of voters; the next entry carries them, at
// most once a second.
func (l *leadership) setWalls(walls []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.walls, l.wallsAt = walls, l.n.sinceBoot()
}
