package cluster

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/stream"
)

// TestRecorded: an id that the state does not record, or records with another data directory, is not a member: not for
// calls, and for raft only while no leader is known.
func TestRecorded(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	l, f := b.leader(), b.follower()
	elsewhere := strings.Repeat("ab", 16)
	for _, n := range []*Node{l, f} {
		for _, other := range b.ids() {
			b.eventually("the founders are recorded", func() bool { return n.replica.Member(other).Known })
			if err := n.Recorded(other, b.node(other).data.Identity()); err != nil {
				t.Errorf("%s at %s: %v", other, n.cfg.Node, err)
			}
			if err := n.Recorded(other, elsewhere); rota.KindOf(err) != rota.KindDenied {
				t.Errorf("%s of another data directory at %s: %v", other, n.cfg.Node, err)
			}
		}
		if err := n.membership.admit(stream.Hello{Node: "n9", Identity: elsewhere}); !unrecorded(err) {
			t.Errorf("raft of an unrecorded node at %s, which has a leader: %v", n.cfg.Node, err)
		}
		if err := n.membership.mayCall("n9"); rota.KindOf(err) != rota.KindUnavailable {
			t.Errorf("%s calls an unrecorded node: %v", n.cfg.Node, err)
		}
	}
	b.eventually("the leader refuses for good", func() bool {
		return rota.KindOf(b.leader().Recorded("n9", elsewhere)) == rota.KindDenied
	})
	for _, id := range b.ids() {
		if id != f.cfg.Node {
			b.stop(id)
		}
	}
	b.eventually("the follower hears of no leader", func() bool { return f.membership.heard() == "" })
	if err := f.membership.admit(stream.Hello{Node: "n9", Identity: elsewhere}); err != nil {
		t.Errorf("a node without a leader refuses one that may be it: %v", err)
	}
}

// TestRecorded_sleeper: a follower is paused while every other member is replaced: it finds its leader again, although
// its state records none of them.
func TestRecorded_sleeper(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("before", 20))
	sleeper := b.follower().cfg.Node
	old := b.ids()
	b.stop(sleeper)
	for _, id := range []rota.NodeID{"n4", "n5", "n6"} {
		b.plan(id, 0)
		b.start(id)
		b.awaitReady(id)
		b.eventually(string(id)+" has a vote", func() bool {
			for _, s := range b.leader().membership.servers() {
				if rota.NodeID(s.ID) == id {
					return s.Suffrage == 0
				}
			}
			return false
		})
	}
	for _, id := range old {
		if id == sleeper {
			continue
		}
		n := b.node(id)
		if err := n.Leave(within(t, ample)); err != nil {
			t.Fatal(err)
		}
		<-n.Left()
		b.stop(id)
	}
	submitAll(t, b.leader(), specs("meanwhile", 20))
	b.mu.Lock()
	c := b.addrs[sleeper]
	c.Join = []string{b.addrs["n4"].Gossip}
	b.addrs[sleeper] = c
	b.mu.Unlock()
	n := b.start(sleeper)
	b.awaitReady(sleeper)
	b.verifyEqual(n)
}

// TestForgedFounders: gossip names founders that do not exist, and one with another data directory: no cluster is
// founded with them.
func TestForgedFounders(t *testing.T) {
	t.Parallel()
	for name, listens := range map[string]bool{"nobody_there": false, "another_directory": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.plan("n1", 2)
			c := b.addrs["n1"]
			raft := freeAddr(t)
			if listens {
				layer, err := stream.NewLayer(raft, "", func() stream.Hello {
					return stream.Hello{ClusterName: c.Cluster, Node: "n2", Identity: strings.Repeat("cd", 16)}
				}, stream.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer layer.Close()
			}
			forged, err := gossip.Start(gossip.Options{ID: "n2", Cluster: c.Cluster, Bind: freeAddr(t),
				Logger: slog.New(slog.DiscardHandler),
				Meta: gossip.Meta{API: "127.0.0.1:1", Raft: raft, BootstrapExpect: 2,
					Identity: strings.Repeat("ab", 16)}})
			if err != nil {
				t.Fatal(err)
			}
			defer forged.Close()
			c.Join = []string{forged.Addr()}
			ctx, cancel := context.WithCancel(within(t, ample))
			defer cancel()
			log := &untilSaid{what: "does not prove", said: cancel}
			c.Log = slog.New(slog.NewTextHandler(log, nil))
			n, err := Start(ctx, c, &directPeers{b: b, self: "n1"})
			if err == nil {
				_ = n.Stop(within(t, time.Minute))
				t.Fatal("a cluster is founded")
			}
			if !strings.Contains(log.String(), log.what) {
				t.Errorf("%v; the log has %s", err, log)
			}
			d, err := raftstore.OpenDataDir(c.Data, c.Node, c.Cluster, false)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if len(d.Founders()) > 0 || !d.Fresh() {
				t.Errorf("founders are %v", d.Founders())
			}
		})
	}
}

// untilSaid is a log output that calls its function at the first line containing what.
type untilSaid struct {
	what string
	said func()
	mu   sync.Mutex
	text bytes.Buffer
}

func (u *untilSaid) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(u.what)) {
		u.said()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.text.Write(p)
}

// String returns the logged lines; memberlist continues briefly after a node has ended.
func (u *untilSaid) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.text.String()
}
