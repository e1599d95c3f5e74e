package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// producers submit to one node each until they are stopped, and keep every acknowledged id. Rejected submissions and
// those not answered in time are ignored.
type producers struct {
	mu     sync.Mutex
	acked  []rota.JobID
	count  atomic.Int64
	ending chan struct{}
	ended  sync.WaitGroup
}

func produce(nodes ...*Node) *producers {
	p := &producers{ending: make(chan struct{})}
	for _, n := range nodes {
		p.ended.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-p.ending:
					return
				default:
					p.submit(n, specs(fmt.Sprintf("%s-%d", n.cfg.Node, i), 3))
				}
			}
		})
	}
	return p
}

func (p *producers) submit(n *Node, jobs []rota.JobSpec) {
	ctx, cancel := context.WithTimeout(context.Background(), leaderPatience)
	defer cancel()
	outcomes, err := n.Submit(ctx, jobs)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range outcomes {
		if o.Err == nil {
			p.acked = append(p.acked, o.ID)
			p.count.Add(1)
		}
	}
}

// stop returns the acknowledged ids.
func (p *producers) stop() []rota.JobID {
	close(p.ending)
	p.ended.Wait()
	return p.acked
}

// TestLoss_whatWasAcknowledgedOutlivesItsLeader cuts one leader after another off while producers submit everywhere,
// including to the one that is cut off. At the end every node must know every acknowledged job.
func TestLoss_whatWasAcknowledgedOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	ids := b.ids()
	slices.Sort(ids)
	var nodes []*Node
	for _, id := range ids {
		nodes = append(nodes, b.node(id))
	}
	p := produce(nodes...)
	more := func(what string) {
		b.t.Helper()
		until := p.count.Load() + 60
		b.eventually(what, func() bool { return p.count.Load() >= until })
	}
	for range 3 {
		more("jobs are accepted")
		old := b.leader()
		b.isolate(old.cfg.Node)
		b.eventually("another node leads", func() bool {
			return slices.ContainsFunc(nodes, func(n *Node) bool { return n != old && n.terms.leading() != nil })
		})
		more("the others accept jobs")
		b.heal(old.cfg.Node)
		b.eventually("it is back", func() bool { return old.terms.leading() == nil && old.Ready() == nil })
	}
	acked := p.stop()
	for _, n := range nodes {
		if _, _, err := n.Jobs(within(t, ample), rota.JobFilter{Limit: 1}, peer.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		var lost []rota.JobID
		for _, id := range acked {
			if jobOf(n, id).State == rota.JobNone {
				lost = append(lost, id)
			}
		}
		if len(lost) > 0 {
			t.Errorf("node %s has lost %d of %d acknowledged jobs, the first is %s", n.cfg.Node, len(lost), len(acked),
				lost[0])
		}
	}
	if v, err := nodes[0].Verify(within(t, ample)); err != nil || !v.Equal {
		t.Errorf("%+v, %v", v, err)
	}
}
