package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// leadLoop follows raft's word on leadership. raft says `true` before anything
// of the term is applied; a leadership begins only with its own BeginTerm.
func (n *Node) leadLoop() {
	end := func() {}
	for {
		select {
		case leads := <-n.notify:
			for len(n.notify) > 0 { // only the latest word counts
				leads = <-n.notify
			}
			end()
			end = func() {}
			if leads {
				end = n.beginning()
			} else {
				n.log.Info("leadership lost")
			}
		case <-n.stopped:
			end()
			return
		}
	}
}

// beginning begins a term beside the loop, and gives the function that ends it.
func (n *Node) beginning() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.beginTerm(ctx)
	}()
	return func() {
		cancel()
		<-done
		n.lower()
	}
}

// beginTerm proposes BeginTerm until it has applied or the term is over, and
// opens the leadership (SPEC §3.4).
func (n *Node) beginTerm(ctx context.Context) {
	for ctx.Err() == nil {
		l, err := n.tryBegin(ctx)
		if err == nil {
			err = n.lift(l)
		}
		if err == nil {
			n.measures.leaderships.Inc()
			n.startChores(l)
			n.log.Info("leadership began", "term", l.term, "clock_ms", int64(l.began))
			n.hub.matchSoon()
			return
		}
		if n.lines.Allow("begin") {
			n.log.Info("leadership has not begun yet", "err", err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// lift opens a leadership, unless the state was dropped since its BeginTerm applied.
func (n *Node) lift(l *leadership) error {
	if err := n.reading(); err != nil {
		l.end()
		return err
	}
	defer n.mu.RUnlock()
	n.lead.Store(l)
	return nil
}

func (n *Node) tryBegin(ctx context.Context) (*leadership, error) {
	term := n.raft.CurrentTerm()
	entry, err := n.beginEntry(ctx, term)
	if err != nil {
		return nil, err
	}
	data, err := fsm.Seal(entry, n.rulesInForce())
	if err != nil {
		return nil, err
	}
	f := n.raft.Apply(data, raftTimeout)
	if err := n.settled(f); err != nil {
		return nil, err
	}
	a, ok := f.Response().(*fsm.Applied)
	if !ok || len(a.Outcomes) != 1 {
		return nil, errors.New("BeginTerm was not applied")
	}
	if e := fsm.OutcomeError(a.Outcomes[0]); e != nil {
		return nil, e
	}
	l := newLeadership(n, term, a.Clock)
	if len(entry.GetWallMs()) > 0 {
		l.wallsSent = l.lastAt
	}
	return l, nil
}

func (n *Node) beginEntry(ctx context.Context, term uint64) (*fsmpb.Entry, error) {
	random, id := make([]byte, 32), make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	begin := &fsmpb.BeginTerm{Term: term, Node: string(n.cfg.Node), Random: random}
	if err := n.reading(); err != nil {
		return nil, err
	}
	founded := n.machine.Head().ClusterID != ""
	n.mu.RUnlock()
	if !founded {
		begin.ClusterId = "c-" + rota.Hex(id).String()
		begin.StartMs = n.wall().UnixMilli()
	}
	return &fsmpb.Entry{Term: term, Ops: []*fsmpb.Op{{Op: &fsmpb.Op_BeginTerm{BeginTerm: begin}}},
		WallMs: n.readWalls(ctx)}, nil
}

// startChores starts the leader's loops; each ends with the leadership.
func (n *Node) startChores(l *leadership) {
	for _, chore := range []func(){l.collect, l.land,
		func() { n.matchLoop(l) }, func() { n.sweepLoop(l) }, func() { n.silenceLoop(l) }, func() { n.reconcileLoop(l) },
		func() { n.degradeLoop(l) }} {
		n.run(chore)
	}
}

// otherVoters counts the voters beside this node.
func (n *Node) otherVoters() int {
	count := 0
	for _, s := range n.servers() {
		if s.Suffrage == raft.Voter && rota.NodeID(s.ID) != n.cfg.Node {
			count++
		}
	}
	return count
}

// onlyVoter says whether no other node has a vote. One that is still on its way into a
// cluster knows of no voter at all.
func (n *Node) onlyVoter() bool {
	servers := n.servers()
	return n.otherVoters() == 0 && slices.ContainsFunc(servers, func(s raft.Server) bool {
		return rota.NodeID(s.ID) == n.cfg.Node && s.Suffrage == raft.Voter
	})
}

// servers tells raft's latest configuration.
func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}
