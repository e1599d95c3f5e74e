package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// terms follows raft's leadership notifications, and opens and ends this node's leaderships.
type terms struct {
	n          *base
	leader     *leaderWatch
	membership *membership
	disk       *diskGate
	watch      *watcher
	notify     chan bool
	// lead is the current leadership, nil while this node is not the leader.
	lead atomic.Pointer[leadership]
	// begun starts the chores of a new leadership.
	begun func(*leadership)
	// muting counts the callers that suppress this node's heartbeats to end its leadership.
	muting atomic.Int32
}

// run follows raft's notifications of leadership. raft sends `true` before anything of the term is applied; a
// leadership begins only with its own BeginTerm.
func (tm *terms) run() {
	end := func() {}
	for {
		select {
		case leads := <-tm.notify:
			for len(tm.notify) > 0 { // only the latest counts
				leads = <-tm.notify
			}
			end()
			end = func() {}
			if leads {
				end = tm.beginning()
			} else {
				tm.n.log.Info("leadership lost")
			}
		case <-tm.n.stopped:
			end()
			return
		}
	}
}

// beginning begins a term in another goroutine, and returns the function that ends it.
func (tm *terms) beginning() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tm.beginTerm(ctx)
	}()
	return func() {
		cancel()
		<-done
		tm.lower()
	}
}

// beginTerm proposes BeginTerm until it was applied or the term is over, and opens the leadership (SPEC §3.4).
func (tm *terms) beginTerm(ctx context.Context) {
	for ctx.Err() == nil {
		l, err := tm.tryBegin(ctx)
		if err == nil {
			err = tm.lift(l)
		}
		if err == nil {
			tm.n.measures.Leaderships.Inc()
			tm.begun(l)
			tm.n.log.Info("leadership began", "term", l.term, "clock_ms", int64(l.began))
			tm.n.replica.Hub.MatchSoon()
			return
		}
		if tm.n.lines.Allow("begin") {
			tm.n.log.Info("leadership has not begun yet", "err", err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// lift opens a leadership, unless the state was dropped since its BeginTerm was applied.
func (tm *terms) lift(l *leadership) error {
	err := tm.n.replica.View(func(*fsm.View) { tm.lead.Store(l) })
	if err != nil {
		l.end()
	}
	return err
}

func (tm *terms) tryBegin(ctx context.Context) (*leadership, error) {
	term := tm.n.raft.CurrentTerm()
	first, err := tm.beginEntry(ctx, term)
	if err != nil {
		return nil, err
	}
	data, err := entry.Seal(first, tm.n.replica.RulesInForce())
	if err != nil {
		return nil, err
	}
	f := tm.n.raft.Apply(data, raftTimeout)
	if err := tm.n.settled(f); err != nil {
		return nil, err
	}
	a, ok := f.Response().(*fsm.Applied)
	if !ok || len(a.Outcomes) != 1 {
		return nil, errors.New("BeginTerm was not applied")
	}
	if e := entry.OutcomeError(a.Outcomes[0]); e != nil {
		return nil, e
	}
	l := tm.newLeadership(term, a.Clock)
	if len(first.GetWallMs()) > 0 {
		l.wallsSent = l.lastAt
	}
	return l, nil
}

func (tm *terms) beginEntry(ctx context.Context, term uint64) (*fsmpb.Entry, error) {
	random, id := make([]byte, 32), make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	begin := &fsmpb.BeginTerm{Term: term, Node: string(tm.n.cfg.Node), Random: random}
	founded := false
	if err := tm.n.replica.View(func(s *fsm.View) { founded = s.Head().ClusterID != "" }); err != nil {
		return nil, err
	}
	if !founded {
		begin.ClusterId = "c-" + rota.Hex(id).String()
		begin.StartMs = tm.n.wall().UnixMilli()
		begin.LeapMs = tm.n.cfg.Environment.Leap.Milliseconds()
		if tm.n.cfg.Open {
			begin.Anonymous = []string{access.RoleRoot}
		}
	}
	return &fsmpb.Entry{Term: term, Ops: []*fsmpb.Op{{Op: &fsmpb.Op_BeginTerm{BeginTerm: begin}}},
		WallMs: tm.watch.readWalls(ctx)}, nil
}

func (tm *terms) leading() *leadership { return tm.lead.Load() }

// commitLatency returns the median latency of the current leadership's latest commits; 0 without one.
func (tm *terms) commitLatency() time.Duration {
	l := tm.leading()
	if l == nil {
		return 0
	}
	return l.CommitLatency()
}

// leads reports whether this node is the leader, and whether it is about to send an entry.
func (tm *terms) leads() (leads, entrySoon bool) {
	l := tm.leading()
	return l != nil, l != nil && l.entrySoon()
}

// handOver transfers leadership; if that fails, the others elect a leader by themselves.
func (tm *terms) handOver(ctx context.Context) {
	successor, err := tm.membership.successor("")
	if err != nil {
		tm.n.log.Warn("leadership could not be handed over", "err", err)
		return
	}
	// hashicorp/raft 1.7.3 forgets a transfer requested at the moment when leadership is lost, and never answers its
	// future: so this checks the state instead. A transfer ends within an election timeout, successful or not.
	_ = tm.n.raft.LeadershipTransferToServer(successor.ID, successor.Address)
	for asked := time.Now(); tm.n.raft.State() == raft.Leader; time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil || time.Since(asked) > 2*tm.n.cfg.Timing.Election {
			tm.n.log.Warn("leadership was not handed over in time", "to", string(successor.ID))
			return
		}
	}
}

// standDown makes raft give up leadership while needed returns true: by a transfer if a voter accepts it, otherwise by
// silence.
func (tm *terms) standDown(needed func() bool) {
	if tm.n.raft.State() != raft.Leader {
		return
	}
	ctx, cancel := context.WithTimeout(tm.n.life, tm.n.cfg.Timing.Election+2*time.Second)
	tm.handOver(ctx)
	cancel()
	tm.muting.Add(1)
	defer tm.muting.Add(-1)
	for needed() && tm.n.raft.State() == raft.Leader && tm.leader.pause(tm.n.life, 10*time.Millisecond) == nil {
	}
}

// muted reports that this node must not act as a leader.
func (tm *terms) muted() bool { return tm.muting.Load() > 0 }

// record puts operations into the log if this node is the leader.
func (tm *terms) record(ops []*fsmpb.Op) error {
	l := tm.leading()
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, peerTimeout)
	defer cancel()
	return l.All(ctx, ops)
}

// lower ends the current leadership.
func (tm *terms) lower() *leadership {
	l := tm.lead.Swap(nil)
	if l != nil {
		l.end()
	}
	return l
}

// land ends the current leadership and waits until its entries are answered, while raft can still answer them.
func (tm *terms) land(ctx context.Context) {
	l := tm.lower()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxLand)
	defer cancel()
	select {
	case <-l.landed:
	case <-ctx.Done():
		tm.n.log.Warn("entries in flight were not answered before the node stopped")
	}
}

// maxLand bounds how long a stopping node waits for its own entries.
const maxLand = 2 * time.Second

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
