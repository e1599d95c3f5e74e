package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func TestDigestRing_marks(t *testing.T) {
	t.Parallel()
	var r digestRing
	due := r.marks()
	told := func() (n int) {
		for {
			select {
			case <-due:
				n++
			default:
				return n
			}
		}
	}
	put := func(from, to rota.Index) {
		for i := from; i <= to; i++ {
			r.put(i, rota.Digest{}, 0)
		}
	}
	put(1, compareEvery-1)
	if told() != 0 || r.marked() != 0 {
		t.Error("told before so many entries")
	}
	put(compareEvery, compareEvery)
	if told() != 1 || r.marked() != 0 {
		t.Error("not told of the first mark, or it is to be compared before others have passed it")
	}
	put(compareEvery+1, 2*compareEvery-1)
	r.put(2*compareEvery+1, rota.Digest{}, 0) // the entry between was raft's own
	if told() != 1 || r.marked() != compareEvery {
		t.Errorf("the mark before the latest is %d", r.marked())
	}
	put(2*compareEvery+2, 4*compareEvery+1)
	if told() != 1 || r.marked() != 3*compareEvery+1 {
		t.Errorf("the mark before the latest is %d, and was told once for two", r.marked())
	}
	r.clear()
	if r.marked() != 0 {
		t.Error("a mark outlives its digests")
	}
}

// TestWatch_comparesAtEveryThousandEntries gives a follower a wrong state where no second
// ever passes: the entries that follow let it find out.
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
	// The default queue, which the job goes to, comes with the leader's first entries.
	submitAll(t, b.leader(), specs("first", 1))
	f, placed := b.follower(), b.leader().replica.applied.Load()
	b.eventually("the follower has it", func() bool { return f.replica.applied.Load() >= placed })
	b.corrupt(f, "ghost")
	began := f.replica.applied.Load()
	b.eventually("the follower notices", func() bool {
		b.entries(200)
		return f.data.Rebuild().Open || rebuilt(f) > 0 // it may be done before it is looked at
	})
	// Two marks, what is applied while they are compared, and the rest between two.
	if took := f.replica.applied.Load() - began; took < compareEvery {
		t.Errorf("it noticed after %d entries, before any comparison was due", took)
	}
}

// TestCompare_betweenTheSeconds has two of three voters differ, of which one answers each
// second and not in between: what was heard of nobody ends no doubt, nor counts one.
func TestCompare_betweenTheSeconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.plan("n1", 3)
	cfg := b.addrs["n1"]
	stopped := make(chan error, 1)
	cfg.Fatal = func(err error) { stopped <- err }
	n, err := newNode(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	servers := []raft.Server{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}}
	other := rota.Digest{Hi: 2}
	differs := map[rota.NodeID]peerView{"n2": {digest: &other}, "n3": {err: errDeaf}}
	n.rebuilder.digests.put(7, rota.Digest{Hi: 1}, 0)
	for range doubtsMost - 1 {
		n.rebuilder.compareDigests(7, servers, differs, false)
		n.rebuilder.compareDigests(7, servers, differs, true)
		n.rebuilder.compareDigests(7, servers, nil, true)
		n.rebuilder.compareDigests(6, servers, nil, true) // of which this node knows nothing any more
	}
	if len(stopped) > 0 {
		t.Fatalf("it stopped before %d doubts: %v", doubtsMost, <-stopped)
	}
	n.rebuilder.compareDigests(7, servers, differs, false)
	if len(stopped) == 0 {
		t.Errorf("it goes on after %d seconds of doubt", doubtsMost)
	}
}

// entries puts so many entries into the log, many at a time, and waits for them.
func (b *bench) entries(count int) {
	b.t.Helper()
	n := b.leader()
	l := n.terms.leading()
	if l == nil {
		return
	}
	entry := mustSeal(b.t, &fsmpb.Entry{Term: l.term, NowMs: int64(clockOf(n)), Ops: []*fsmpb.Op{barrierOp()}})
	var flying []raft.ApplyFuture
	for range count {
		flying = append(flying, n.raft.Apply(entry, 10*time.Second))
	}
	slices.Reverse(flying) // the last one is the last to be there
	for _, f := range flying {
		_ = n.settled(f)
	}
}
