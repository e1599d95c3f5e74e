package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestWatch_comparesAtEveryThousandEntries gives a follower a wrong state while the comparison of every second never
// runs: the following entries reveal it.
func TestWatch_comparesAtEveryThousandEntries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		c.watchEvery = time.Hour
		b.addrs[id] = c
	}
	b.startPlanned()
	b.eventually("all have a vote", func() bool { return b.leader().membership.otherVoters() == 2 })
	// The job's default queue is created by the leader's first entries.
	submitAll(t, b.leader(), specs("first", 1))
	f, placed := b.follower(), b.leader().replica.Applied.Load()
	b.eventually("the follower has it", func() bool { return f.replica.Applied.Load() >= placed })
	b.corrupt(f, "ghost")
	began := f.replica.Applied.Load()
	b.eventually("the follower notices", func() bool {
		b.entries(200)
		return f.data.Rebuild().Open || rebuilt(f) > 0 // it may be done before the check
	})
	// Two marks, the entries applied while they are compared, and the rest between two.
	if took := f.replica.Applied.Load() - began; took < 1_000 {
		t.Errorf("it noticed after %d entries, before any comparison was due", took)
	}
}

// entries puts count entries into the log, many at a time, and waits for them.
func (b *bench) entries(count int) {
	b.t.Helper()
	n := b.leader()
	l := n.terms.leading()
	if l == nil {
		return
	}
	entry := mustSeal(b.t, &fsmpb.Entry{Term: l.term, NowMs: int64(clockOf(n)), Ops: []*fsmpb.Op{replica.BarrierOp()}})
	var flying []raft.ApplyFuture
	for range count {
		flying = append(flying, n.raft.Apply(entry, 10*time.Second))
	}
	slices.Reverse(flying) // the last one arrives last
	for _, f := range flying {
		_ = n.settled(f)
	}
}

// TestWatch_clocks: this node's wall clock is judged by the bounds that readings of others' prove. A reading is as old
// as its answer, and as inexact as the time that the answer took.
func TestWatch_clocks(t *testing.T) {
	t.Parallel()
	const now, wall = time.Hour, 1_700_000_000_000
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	servers := []raft.Server{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}}
	for name, c := range map[string]struct {
		ahead    int64 // of the two others, as they were read
		age, off time.Duration
		want     int64
	}{
		"none is off":                    {0, 0, ms(1), 0},
		"the answers waited for a third": {0, ms(2_000), ms(1), 0},
		"they are ahead":                 {900, 0, ms(1), -899},
		"they are behind, and waited":    {-900, ms(2_000), ms(1), 899},
		"so far off as the answers took": {600, 0, ms(200), -400},
		"less off than the answers took": {150, 0, ms(200), 0},
	} {
		n := (&Node{}).wire()
		n.cfg.Node = "n1"
		n.cfg.Environment.SinceBoot = func() time.Duration { return now }
		n.cfg.Environment.Wall = func() time.Time { return time.UnixMilli(wall) }
		v := peerView{wallMs: wall + c.ahead - c.age.Milliseconds(), wallAt: now - c.age, wallOff: c.off}
		n.watch.compareWalls(servers, map[rota.NodeID]peerView{"n2": v, "n3": v})
		if got := n.watch.skew(); got != ms(c.want) {
			t.Errorf("%s: %v, want %v", name, got, ms(c.want))
		}
	}
}

// TestWatch_aHungNodeIsNoSkew: the others' clocks, which answered long before a node that leaves a request unanswered,
// are not treated as current.
func TestWatch_aHungNodeIsNoSkew(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.mu.Lock()
	b.hung["n3"] = true
	b.mu.Unlock()
	n := b.node("n1")
	b.eventually("it waited for n3 in vain, and heard of n2", func() bool {
		silent, _ := n.watch.view("n3")
		other, _ := n.watch.view("n2")
		return silent.err != nil && other.err == nil
	})
	n.watch.once()
	if skew := n.watch.skew(); skew.Abs() >= peerTimeout/2 {
		t.Errorf("clocks of one machine are %v apart, as long as a hung node was waited for", skew)
	}
}
