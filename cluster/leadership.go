package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/internal/limits"
)

// leadership is one term of this node as leader, from its own applied BeginTerm
// to its end. It stamps entries (SPEC §3.3), batches proposals into them, and
// keeps a bounded number in flight. What it decides dies with it.
type leadership struct {
	n    *Node
	term uint64
	ctx  context.Context
	end  context.CancelFunc

	// urgent proposals (what ends or keeps leases, sweeps, rounds) overtake
	// submissions, so that no renewal starves behind them.
	urgent, normal chan *proposal
	inFlight       chan *launched
	slots          chan struct{}
	// freed is notified whenever an entry gave its slot back.
	freed chan struct{}
	// filling says that an entry holds something and has not gone out.
	filling atomic.Bool
	queues  queueGate
	turn    roundTurn
	// landed is closed once every entry of this leadership was answered.
	landed chan struct{}

	mu sync.Mutex
	// began is the clock that BeginTerm left.
	began rota.Clock
	// lastStamp was given at lastAt; c is the clock as the latest own entry left
	// it when applied.
	lastStamp rota.Clock
	lastAt    time.Duration
	c         rota.Clock
	// stampedSeq numbers own entries, appliedSeq those that have applied.
	stampedSeq, appliedSeq uint64
	beatWaits              []beatWait
	// walls were read at wallsAt; wallsSent is when an entry last carried some.
	walls              []int64
	wallsAt, wallsSent time.Duration
	// heard is the clock of each worker's last beat in this leadership.
	heard map[rota.WorkerID]beatHeard
	// silencing are workers whose UNREACHABLE is on its way through the log;
	// silenced is closed when it has arrived. Nil while there is none.
	silencing map[rota.WorkerID]bool
	silenced  chan struct{}
	// commits are the latest entries' latencies.
	commits latencies
	// present says that some worker is neither RETIRED nor UNREACHABLE, so that
	// the clock has to run on.
	present bool
}

type beatHeard struct {
	session rota.Session
	clock   rota.Clock
}

// beatWait is answered with the clock once an entry stamped after it applied.
type beatWait struct {
	seq  uint64
	done chan rota.Clock
}

// proposal is a batch of one caller; its operations stay together in one entry.
type proposal struct {
	ops     []*fsmpb.Op
	encoded []byte
	size    int
	reply   chan reply
}

type reply struct {
	outcomes []*fsmpb.Outcome
	index    rota.Index
	sweep    fsm.Sweep
	err      error
}

// rounds reports whether these are decisions of the match loop.
func (p *proposal) rounds() bool { return p.ops[0].GetRound() != nil }

// launched is one entry on its way through the log.
type launched struct {
	proposals []*proposal
	future    raft.ApplyFuture
	seq       uint64
	started   time.Time
}

func newLeadership(n *Node, term uint64, clock rota.Clock) *leadership {
	ctx, end := context.WithCancel(context.Background())
	return &leadership{n: n, term: term, ctx: ctx, end: end, began: clock, lastStamp: clock, lastAt: n.sinceBoot(), c: clock,
		urgent: make(chan *proposal, proposalQueue), normal: make(chan *proposal, proposalQueue),
		inFlight: make(chan *launched, entriesInFlight), slots: make(chan struct{}, entriesInFlight), freed: make(chan struct{}, 1),
		turn: newRoundTurn(), landed: make(chan struct{}), heard: make(map[rota.WorkerID]beatHeard), present: true}
}

// propose puts operations into the log and waits for what became of them. Where
// the queue is full it waits for a place.
func (l *leadership) propose(ctx context.Context, ops []*fsmpb.Op, urgent bool) reply {
	b, err := encode(ops)
	if err != nil {
		return reply{err: err}
	}
	return l.admit(ctx, b, urgent, false)
}

func (l *leadership) enqueue(ctx context.Context, b batch, urgent bool) reply {
	p := &proposal{ops: b.ops, encoded: b.encoded, size: len(b.encoded), reply: make(chan reply, 1)}
	queue := l.normal
	if urgent {
		queue = l.urgent
	}
	select {
	case queue <- p:
	case <-l.ctx.Done():
		return reply{err: errNotLeader}
	case <-ctx.Done():
		return reply{err: ctxError(ctx, "waiting for a place in the log")}
	}
	if p.rounds() {
		l.turn.queued()
	}
	select {
	case r := <-p.reply:
		return r
	case <-l.landed:
	case <-ctx.Done():
		return reply{err: errUnknown(ctx.Err())}
	}
	select {
	case r := <-p.reply:
		return r
	default:
		return reply{err: errNotLeader} // it stands in a queue that nobody empties any more
	}
}

// launch stamps an entry and hands it to raft.
func (l *leadership) launch(batch []*proposal, ops int) {
	head, encoded := &fsmpb.Entry{Term: l.term}, make([][]byte, len(batch))
	for i, p := range batch {
		encoded[i] = p.encoded
	}
	f := &launched{proposals: batch, started: time.Now()}
	l.n.measures.entryOps.Observe(float64(ops))
	f.seq = l.stamp(head)
	data, err := entry.SealCommands(head, encoded, l.n.replica.rulesInForce())
	if err != nil {
		for _, p := range batch {
			p.reply <- reply{err: rota.Refusef(rota.KindInternal, "entry", "entry cannot be encoded: %v", err)}
		}
		l.free()
		return
	}
	f.future = l.n.raft.Apply(data, raftTimeout)
	l.inFlight <- f
}

// stamp sets the entry's time, that of SPEC §3.3: its previous stamp plus the time
// since it, never far ahead of what has applied, never below it.
func (l *leadership) stamp(e *fsmpb.Entry) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.n.sinceBoot()
	now := l.lastStamp + rota.Clock((at-l.lastAt)/time.Millisecond)
	if now > l.lastStamp {
		// Whole milliseconds are counted, the rest is carried on.
		l.lastAt += time.Duration(now-l.lastStamp) * time.Millisecond
	}
	if limit := l.c + limits.StampLeadMax; now > limit && !planted.uncappedTick() {
		now, l.lastAt = limit, at
	}
	now = max(now, l.c)
	l.lastStamp = now
	e.NowMs = int64(now)
	if l.walls != nil && (l.wallsSent == 0 || at-l.wallsSent >= time.Second) && at-l.wallsAt < 5*time.Second {
		late := int64((at - l.wallsAt) / time.Millisecond)
		for _, w := range l.walls {
			e.WallMs = append(e.WallMs, w+late)
		}
		l.wallsSent = at
	}
	l.stampedSeq++
	return l.stampedSeq
}

// land waits for entries in the order they were proposed and answers them.
func (l *leadership) land() {
	for f := range l.inFlight {
		if planted.ackBeforeCommit(f) {
			l.free()
			continue
		}
		err := l.n.settled(f.future)
		if slices.ContainsFunc(f.proposals, (*proposal).rounds) {
			l.turn.landed()
		}
		l.free()
		if err != nil {
			if err = classify(err); err != errNotLeader {
				l.n.measures.unknown.Inc()
			}
			for _, p := range f.proposals {
				p.reply <- reply{err: err}
			}
			continue
		}
		a, ok := f.future.Response().(*fsm.Applied)
		if !ok {
			a = &fsm.Applied{} // the node halts; nobody gets a success
		}
		failpoint.Pass("commit-before-answer")
		l.settle(f.seq, a)
		took := time.Since(f.started)
		l.n.measures.commit.Observe(took.Seconds())
		l.commits.note(l.n.sinceBoot(), took)
		at := 0
		for _, p := range f.proposals {
			r := reply{index: a.Index, sweep: a.Sweep}
			if at+len(p.ops) > len(a.Outcomes) {
				r.err = errUnknown(nil)
			} else {
				r.outcomes = a.Outcomes[at : at+len(p.ops)]
				l.queues.note(p.ops, r.outcomes)
			}
			at += len(p.ops)
			p.reply <- r
		}
	}
	close(l.landed)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.beatWaits {
		close(w.done)
	}
	l.beatWaits = nil
}

// settle notes that an own entry has applied and answers beats that waited.
func (l *leadership) settle(seq uint64, a *fsm.Applied) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.Stamped || a.Term != l.term {
		return
	}
	l.c, l.appliedSeq = a.Clock, seq
	l.beatWaits = slices.DeleteFunc(l.beatWaits, func(w beatWait) bool {
		if w.seq <= seq {
			w.done <- a.Clock
			return true
		}
		return false
	})
}

// afterNext returns the clock after the first entry that is stamped from now on
// and has applied. A closed channel means that the leadership ended first.
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

// all proposes operations, entry by entry, of which each must be taken or be
// stale.
func (l *leadership) all(ctx context.Context, ops []*fsmpb.Op) error {
	b, err := encode(ops)
	if err != nil {
		return err
	}
	for at := 0; at < len(ops); {
		k := b.chunk(at)
		r := l.admit(ctx, b.part(at, at+k), true, false)
		if errors.Is(r.err, errNotLeader) {
			return notLeader()
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
