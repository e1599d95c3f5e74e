package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

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
	if took := f.replica.applied.Load() - began; took < 1_000 {
		t.Errorf("it noticed after %d entries, before any comparison was due", took)
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
