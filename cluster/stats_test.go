package cluster

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/internal/peer"
)

// TestStats: each second has the counts of its events and the gauges at its end, a minute the sums, and the rings never
// grow.
func TestStats(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("j", 5))
	h := newHand(t, n, "w1", 8)
	leases := h.take(5)
	h.do(rota.VerbAck, leases...)
	h.do(rota.VerbComplete, leases[:3]...)
	n.stats.Sample()
	of := func(coarse bool) (sum peer.Sample, last peer.Sample, kept int) {
		s, err := n.Stats(within(t, ample), coarse)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Samples {
			sum.Add(&s.Samples[i])
			last = s.Samples[i]
		}
		return sum, last, len(s.Samples)
	}
	sum, last, _ := of(false)
	if sum.Submitted != 5 || sum.Started != 5 || sum.Completed != 3 || last.Running != 2 || last.Pending != 0 ||
		last.Workers != 1 || last.Index == 0 || last.Date == 0 {
		t.Errorf("in all %+v, at last %+v", sum, last)
	}
	for range 2 * meter.FineKept {
		n.stats.Sample()
	}
	if _, _, kept := of(false); kept != meter.FineKept {
		t.Errorf("%d seconds are kept", kept)
	}
	if sum, _, kept := of(true); sum.Submitted != 5 || sum.Completed != 3 || kept < 2*meter.FineKept/60 ||
		kept > 2*meter.FineKept/60+1 {
		t.Errorf("%d minutes with %+v in all", kept, sum)
	}
}

// TestStats_replayIsNoWork: entries that a starting node applies from its log do not count towards rates, in figures
// and in metrics.
func TestStats_replayIsNoWork(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	endAll(t, n, specs("j", 50))
	id := n.cfg.Node
	b.stop(id)
	n = b.start(id)
	b.awaitReady(id)
	submitAll(t, n, specs("new", 3))
	n.stats.Sample()
	s, err := n.Stats(within(t, ample), false)
	if err != nil {
		t.Fatal(err)
	}
	var sum peer.Sample
	for i := range s.Samples {
		sum.Add(&s.Samples[i])
	}
	if sum.Submitted != 3 || sum.Cancelled != 0 {
		t.Errorf("a node that was restarted on 50 cancelled jobs, and accepted 3, reports %+v", sum)
	}
}
