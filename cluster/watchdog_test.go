package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/stream"
)

// lockedBuffer collects a log while other goroutines read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestWatchdog blocks a leader's applying: it logs this once, with its goroutines, and gives leadership up; when the
// stall passes, all problems are gone.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	logs := make(map[rota.NodeID]*lockedBuffer)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		c.watchdogEvery = 50 * time.Millisecond
		logs[id] = &lockedBuffer{}
		c.Log = slog.New(slog.NewTextHandler(logs[id], nil))
		b.addrs[id] = c
	}
	b.startPlanned()
	n := b.leader()
	b.busy()
	// In its own log: on a busy machine another node may stall by itself, and this one earlier.
	stalls := func() int { return strings.Count(logs[n.cfg.Node].String(), "this node stalls") }
	before := stalls()
	n.replica.Mu.RLock() // a reader that holds the lock
	b.eventually("another one leads", func() bool {
		for _, id := range b.ids() {
			if other := b.node(id); other != n && other.terms.leading() != nil {
				return true
			}
		}
		return false
	})
	if p := n.watchdog.Problems(); len(p) != 1 {
		t.Errorf("its health problems are %v", p)
	}
	b.eventually("its log reports it", func() bool {
		return stalls() > before && strings.Contains(logs[n.cfg.Node].String(), "goroutine profile")
	})
	if told := stalls() - before; told != 1 {
		t.Errorf("one stall was logged %d times: %s", told, logs[n.cfg.Node])
	}
	n.replica.Mu.RUnlock()
	b.eventually("the stall is over", func() bool {
		return len(n.watchdog.Problems()) == 0 && strings.Contains(logs[n.cfg.Node].String(), "the stall is over")
	})
	b.awaitReady(n.cfg.Node)
	submitAll(t, n, specs("after", 5))
	b.verifyEqual(n)
}

// startWatched starts three nodes whose watchdogs check often.
func startWatched(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		c.watchdogEvery = 50 * time.Millisecond
		b.addrs[id] = c
	}
	b.startPlanned()
	b.eventually("all have a vote", func() bool { return b.leader().membership.otherVoters() == 2 })
	return b
}

// stall blocks a node's applying until pass is called.
func (b *bench) stall(n *Node) (pass func()) {
	n.replica.Mu.Lock()
	pass = sync.OnceFunc(n.replica.Mu.Unlock)
	b.t.Cleanup(pass)
	return pass
}

// TestWatchdog_healthIsTold asks a stalled node for its health: it answers, and reports that it must not be used.
func TestWatchdog_healthIsTold(t *testing.T) {
	t.Parallel()
	b := startWatched(t)
	f := b.follower()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(f.Collectors()...)
	pass := b.stall(f)
	told := make(chan struct{})
	go func() { // begun before the stall is known
		defer close(told)
		ctx := within(t, ample)
		status, err := f.Status(ctx)
		if s := f.clusterVerbs.ownStatus(); err != nil || len(status.Nodes) != 3 || s.Healthy ||
			s.State != stateStalled || s.AppliedIndex == 0 {
			t.Errorf("it reports %+v, of the cluster %+v, %v", s, status, err)
		}
		if err := f.Ready(); rota.KindOf(err) != rota.KindUnavailable {
			t.Errorf("it is ready: %v", err)
		}
		if _, err := metrics.Gather(); err != nil {
			t.Error(err)
		}
		if _, err := b.leader().membership.successor(f.cfg.Node); rota.KindOf(err) != rota.KindConflict {
			t.Errorf("it can become the successor: %v", err)
		}
		vote := f.transport.RequestPreVote("n9", "127.0.0.1:1", &raft.RequestPreVoteRequest{},
			&raft.RequestPreVoteResponse{})
		if !errors.Is(vote, stream.ErrMute) {
			t.Errorf("it starts an election: %v", vote)
		}
	}()
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Error("it does not answer")
	}
	pass()
	<-told
	b.awaitReady(f.cfg.Node)
}

// TestWatchdog_ceasesToLead: no node takes over leadership from a node that stalls: its heartbeats stop, so that
// another one is elected.
func TestWatchdog_ceasesToLead(t *testing.T) {
	t.Parallel()
	b := startWatched(t)
	n := b.leader()
	b.keep(b.deaf, n, true) // no successor answers, so nothing is handed over
	b.busy()
	pass := b.stall(n)
	b.eventually("another one leads", func() bool {
		for _, id := range b.ids() {
			if other := b.node(id); other != n && other.terms.leading() != nil {
				return true
			}
		}
		return false
	})
	pass()
	b.keep(b.deaf, n, false)
	b.awaitReady(n.cfg.Node)
	if n.terms.muted() && n.raft.State() == raft.Leader {
		t.Error("it stays silent")
	}
	b.verifyEqual(n)
}
