package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/meter"
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

// Life ends with the leadership.
func (l *leadership) Life() context.Context { return l.ctx }

// CommitLatency returns the median latency of the latest commits, 0 without any.
func (l *leadership) CommitLatency() time.Duration { return l.commits.Median(l.n.sinceBoot()) }

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

// beatWait is answered with the clock once an entry stamped after it was applied.
type beatWait struct {
	seq  uint64
	done chan rota.Clock
}

// launched is one entry in progress in the log.
type launched struct {
	proposals []*proposal
	future    raft.ApplyFuture
	seq       uint64
	started   time.Time
}

// queueGate rejects submissions to full queues before they reach the log (SPEC §4.4, §4.6). Rejecting through the log
// would cost three nodes as much as a job does, exactly when no capacity is left. The machine decides, on the state
// that this leader has applied. It is asked only after an entry of this leadership was rejected for this reason. So an
// ordinary submission costs nothing, and the machine knows every job that was ever acknowledged.
//
// The simpler way, to ask always, was rejected: each proposal would wait for the machine's lock, and miss the entry
// that is sent meanwhile.
type queueGate struct{ seen atomic.Bool }

// median returns the median of values, which must not be empty; the lower one of an even count.
func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// afterNext returns the clock after the first entry that is stamped from now on and was applied. A closed channel means
// that the leadership ended first.
func (l *leadership) afterNext() <-chan rota.Clock {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := make(chan rota.Clock, 1)
	if l.ctx.Err() != nil {
		close(done)
		return done
	}
	l.beatWaits = append(l.beatWaits, beatWait{l.stampedSeq + 1, done})
	return done
}
