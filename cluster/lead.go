package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// terms follows raft's word on who leads, and opens and ends this node's leaderships.
type terms struct {
	n      *Node
	notify chan bool
	// lead is the present leadership, nil while this node does not lead.
	lead atomic.Pointer[leadership]
}

// run follows raft's word on leadership. raft says `true` before anything
// of the term is applied; a leadership begins only with its own BeginTerm.
func (tm *terms) run() {
	end := func() {}
	for {
		select {
		case leads := <-tm.notify:
			for len(tm.notify) > 0 { // only the latest word counts
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

// beginning begins a term beside the loop, and gives the function that ends it.
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

// beginTerm proposes BeginTerm until it has applied or the term is over, and
// opens the leadership (SPEC §3.4).
func (tm *terms) beginTerm(ctx context.Context) {
	for ctx.Err() == nil {
		l, err := tm.tryBegin(ctx)
		if err == nil {
			err = tm.lift(l)
		}
		if err == nil {
			tm.n.measures.leaderships.Inc()
			tm.startChores(l)
			tm.n.log.Info("leadership began", "term", l.term, "clock_ms", int64(l.began))
			tm.n.replica.hub.matchSoon()
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

// lift opens a leadership, unless the state was dropped since its BeginTerm applied.
func (tm *terms) lift(l *leadership) error {
	err := tm.n.replica.view(func(*fsm.View) { tm.lead.Store(l) })
	if err != nil {
		l.end()
	}
	return err
}

func (tm *terms) tryBegin(ctx context.Context) (*leadership, error) {
	term := tm.n.raft.CurrentTerm()
	entry, err := tm.beginEntry(ctx, term)
	if err != nil {
		return nil, err
	}
	data, err := fsm.Seal(entry, tm.n.replica.rulesInForce())
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
	if e := fsm.OutcomeError(a.Outcomes[0]); e != nil {
		return nil, e
	}
	l := newLeadership(tm.n, term, a.Clock)
	if len(entry.GetWallMs()) > 0 {
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
	if err := tm.n.replica.view(func(s *fsm.View) { founded = s.Head().ClusterID != "" }); err != nil {
		return nil, err
	}
	if !founded {
		begin.ClusterId = "c-" + rota.Hex(id).String()
		begin.StartMs = tm.n.wall().UnixMilli()
	}
	return &fsmpb.Entry{Term: term, Ops: []*fsmpb.Op{{Op: &fsmpb.Op_BeginTerm{BeginTerm: begin}}},
		WallMs: tm.n.watch.readWalls(ctx)}, nil
}

// startChores starts the leader's loops; each ends with the leadership.
func (tm *terms) startChores(l *leadership) {
	for _, chore := range []func(){l.collect, l.land,
		func() { tm.n.chores.matchLoop(l) }, func() { tm.n.chores.sweepLoop(l) }, func() { tm.n.chores.silenceLoop(l) }, func() { tm.n.membership.reconcileLoop(l) },
		func() { tm.n.chores.degradeLoop(l) }} {
		tm.n.run(chore)
	}
}

// otherVoters counts the voters beside this node.
func (mb *membership) otherVoters() int {
	count := 0
	for _, s := range mb.servers() {
		if s.Suffrage == raft.Voter && rota.NodeID(s.ID) != mb.n.cfg.Node {
			count++
		}
	}
	return count
}

// onlyVoter says whether no other node has a vote. One that is still on its way into a
// cluster knows of no voter at all.
func (mb *membership) onlyVoter() bool {
	servers := mb.servers()
	return mb.otherVoters() == 0 && slices.ContainsFunc(servers, func(s raft.Server) bool {
		return rota.NodeID(s.ID) == mb.n.cfg.Node && s.Suffrage == raft.Voter
	})
}

// servers tells raft's latest configuration.
func (mb *membership) servers() []raft.Server {
	f := mb.n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}
