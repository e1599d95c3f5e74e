package cluster

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/clock"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// The following functions are a caller's reads, by the required freshness.
func readStale(ctx context.Context, n *Node) error {
	_, _, err := n.Jobs(ctx, rota.JobFilter{Limit: 1}, peer.ReadOptions{Stale: true})
	return err
}

func minReadAt(ctx context.Context, n *Node) error {
	_, _, err := n.Queues(ctx, peer.ReadOptions{MinIndex: 1})
	return err
}

// withReader creates a token in a cluster, and returns the context of its holder's calls.
func withReader(t *testing.T, n *Node) (id string, holder context.Context) {
	t.Helper()
	id = strings.Repeat("r", 12)
	token := &fsmpb.CreateToken{Id: id, Hash: make([]byte, 32), Roles: []string{access.RoleReader},
		ExpiresMs: time.Now().Add(time.Hour).UnixMilli()}
	if _, _, err := n.proposer.proposeOne(called(within(t, ample), rota.Local),
		&fsmpb.Op{Op: &fsmpb.Op_CreateToken{CreateToken: token}}); err != nil {
		t.Fatal(err)
	}
	return id, called(within(t, ample), rota.TokenPrincipal(id))
}

func revoke(t *testing.T, n *Node, id string) {
	t.Helper()
	op := &fsmpb.Op{Op: &fsmpb.Op_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: id}}}
	if _, _, err := n.proposer.proposeOne(called(within(t, ample), rota.Local), op); err != nil {
		t.Fatal(err)
	}
}

// refusedBecause requires an error with a reason and a remedy.
func refusedBecause(t *testing.T, what string, err error, why string) {
	t.Helper()
	if rota.KindOf(err) != rota.KindUnavailable || !strings.Contains(err.Error(), why) ||
		!strings.Contains(err.Error(), "sk another node") {
		t.Errorf("%s: got %v, want a refusal with the text %q", what, err, why)
	}
}

// followsNothing requires that a node shows no event to a caller that follows them.
func followsNothing(t *testing.T, holder context.Context, n *Node) {
	t.Helper()
	short, cancel := context.WithTimeout(holder, 100*time.Millisecond)
	defer cancel()
	if err := n.Events(short, rota.EventFilter{Follow: true},
		func(peer.EventBatch) error { t.Error("events are shown"); return nil }); err == nil {
		t.Error("events are followed")
	}
}

// TestVouched_partition: a node that is cut off serves its state for a while, not forever: the token that it still
// considers valid is revoked on the other side. Its status and a stale backup remain available all the time. After
// healing, it rejects the token and serves others.
func TestVouched_partition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ahead := map[rota.NodeID]*atomic.Int64{"n1": {}, "n2": {}, "n3": {}} // by how much time since boot is ahead
	for id, by := range ahead {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Environment.SinceBoot = func() time.Duration { return clock.SinceBoot() + time.Duration(by.Load()) }
		b.addrs[id] = c
	}
	b.startPlanned()
	id, holder := withReader(t, b.loyal())
	cut := b.follower()
	b.eventually("the follower knows the token", func() bool {
		return minReadAt(holder, cut) == nil && readStale(holder, cut) == nil
	})

	b.isolate(cut.cfg.Node)
	revoke(t, b.leader(), id)
	b.waits(cut, leaderPatience)
	b.eventually("the node that is cut off notices", func() bool {
		cut.leader.mu.Lock()
		defer cut.leader.mu.Unlock()
		return cut.leader.lost != 0
	})
	if err := readStale(holder, cut); err != nil {
		t.Errorf("at once: %v", err)
	}
	ahead[cut.cfg.Node].Add(int64(limits.VouchedFor))
	refusedBecause(t, "a stale read", readStale(holder, cut), "heard of no leader for")
	refusedBecause(t, "streamed data", cut.Vouched(), "heard of no leader for")
	short, cancel := context.WithTimeout(holder, 100*time.Millisecond)
	defer cancel()
	if err := minReadAt(short, cut); rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("a read of an index that the node has: %v", err)
	}
	followsNothing(t, holder, cut)
	refusedBecause(t, "parents' outputs", cut.MayTakeOutputs(holder, "flow/node"), "heard of no leader for")
	if _, err := cut.Status(holder); err != nil {
		t.Errorf("its status: %v", err)
	}
	var saved countingWriter
	if err := cut.SaveSnapshot(holder, peer.ReadOptions{Stale: true}, &saved); err != nil || saved == 0 {
		t.Errorf("a backup of %d bytes, %v", saved, err)
	}
	if err := readStale(within(t, ample), cut); err != nil {
		t.Errorf("the node reads for itself: %v", err)
	}

	b.heal(cut.cfg.Node)
	b.eventually("the revocation arrives", func() bool {
		return rota.KindOf(readStale(holder, cut)) == rota.KindUnauthenticated
	})
	if err := readStale(called(within(t, ample), rota.Anonymous), cut); err != nil {
		t.Errorf("a stale read, healed: %v", err)
	}
}

type countingWriter int

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}

// TestVouched_restart: a node that was down while a token was revoked shows its holder nothing before it has caught up,
// although it has the snapshot in which the token is valid, and has contact with the leader of the same term in which
// it stopped.
func TestVouched_restart(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	leader := b.loyal()
	id, holder := withReader(t, leader)
	down := b.follower().cfg.Node
	b.eventually("the follower knows the token", func() bool { return readStale(holder, b.node(down)) == nil })
	if _, err := b.node(down).writeSnapshot(); err != nil {
		t.Fatal(err)
	}
	b.stop(down)
	revoke(t, leader, id)

	b.mu.Lock()
	b.cut[down], b.isolated[down] = true, true
	b.mu.Unlock()
	n := b.start(down)
	b.eventually("the snapshot is restored", func() bool { return n.replica.Applied.Load() > 0 })
	refusedBecause(t, "a stale read, cut off", readStale(holder, n), "not caught up")
	followsNothing(t, holder, n)
	if _, err := n.Status(holder); err != nil {
		t.Errorf("its status: %v", err)
	}
	if n.CaughtUp() || n.Ready() == nil {
		t.Error("cut off since its start, it reports that it has caught up")
	}
	b.heal(down)
	b.eventually("the node catches up", func() bool {
		err := readStale(holder, n)
		if err == nil {
			t.Fatal("a revoked token reads")
		}
		return rota.KindOf(err) == rota.KindUnauthenticated
	})
	if !n.CaughtUp() {
		t.Error("it has caught up, but does not report so")
	}
}
