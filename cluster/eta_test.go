package cluster

import (
	"context"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/explain"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// TestETA: a follower forecasts as well as the leader, each state has its answer, and an unknown job or one that the
// caller may not read is rejected.
func TestETA(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n, other := b.leader(), b.follower()
	submitAll(t, n, specs("j", 4))
	h := newHand(t, n, "w1", 1)
	first := h.take(1)
	h.do(rota.VerbAck, first...)
	opt, last := peer.ReadOptions{}, rota.JobID("j-00003")
	if first[0].Lease.Job == last {
		last = "j-00002"
	}
	for _, at := range []*Node{n, other} {
		x, seen, err := at.ETA(within(t, ample), last, opt)
		if err != nil || x.State != rota.JobQueued || x.Expected <= x.Date || x.Earliest > x.Expected ||
			x.Latest < x.Expected || seen.Index == 0 {
			t.Errorf("the last of four: %+v, %v", x, err)
		}
		if len(x.HangsOn) == 0 || len(x.Basis) == 0 || len(x.Reasons) > 0 {
			t.Errorf("it depends on %+v, by %q, blocked by %+v", x.HangsOn, x.Basis, x.Reasons)
		}
		running, _, err := at.ETA(within(t, ample), first[0].Lease.Job, opt)
		if err != nil || running.Started == 0 || running.Expected != 0 {
			t.Errorf("one that runs: %+v, %v", running, err)
		}
		if _, _, err := at.ETA(within(t, ample), "nobody", opt); rota.KindOf(err) != rota.KindNotFound {
			t.Errorf("an unknown job: %v", err)
		}
	}
	if _, err := n.SetQueue(within(t, ample), rota.DefaultQueue, "",
		[]rota.Setting{{Key: "paused", Value: "on"}}); err != nil {
		t.Fatal(err)
	}
	h.do(rota.VerbComplete, first...)
	ended, _, err := n.ETA(within(t, ample), first[0].Lease.Job, opt)
	if err != nil || ended.State != rota.JobCompleted || ended.Started == 0 || ended.Expected != 0 {
		t.Errorf("one that has ended: %+v, %v", ended, err)
	}

	x, _, err := other.ETA(within(t, ample), last, opt)
	if err != nil || x.Expected != 0 || len(x.Reasons) == 0 || x.Reasons[0].Reason != "QUEUE_PAUSED" ||
		len(x.WouldRun) == 0 {
		t.Errorf("of a paused queue: %+v, %v", x, err)
	}
}

// TestETA_knowsTheFirstToComplete: an earlier result that nothing had completed is not reused.
func TestETA_knowsTheFirstToComplete(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	jobs := specs("j", 4)
	submitAll(t, n, jobs)
	h := newHand(t, n, "w1", 1)
	leases := h.take(1)
	h.do(rota.VerbAck, leases...)
	basis := func() string { // of any waiting job
		for i := range jobs {
			if x, _, err := n.ETA(within(t, ample), jobs[i].ID, peer.ReadOptions{}); err != nil {
				t.Error(err)
			} else if x.State == rota.JobQueued {
				return strings.Join(x.Basis, "\n")
			}
		}
		return "none waits"
	}
	if said := basis(); !strings.Contains(said, "no job of queue default has completed") {
		t.Errorf("before one has: %q", said)
	}
	h.do(rota.VerbComplete, leases...)
	if said := basis(); !strings.Contains(said, "run times are those of the newest 1 jobs") {
		t.Errorf("after one has: %q", said)
	}
}

// TestETA_bounded: the number of concurrent callers is bounded, and no caller can use all the room.
func TestETA_bounded(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("j", 1))
	fc := n.explainer.Ahead
	fc.Turn <- struct{}{} // another forecast is running
	as := func(who rota.Principal) context.Context {
		return context.WithValue(within(t, ample), access.CallerKey{}, access.Caller{Actor: who})
	}
	ctx, cancel := context.WithCancel(as("a"))
	done := make(chan error, explain.MaxPerCaller)
	for range explain.MaxPerCaller {
		go func() {
			_, err := fc.Enter(ctx)
			done <- err
		}()
	}
	waiting := func(all int) func() bool {
		return func() bool {
			fc.Mu.Lock()
			defer fc.Mu.Unlock()
			return fc.All == all
		}
	}
	b.eventually("both wait", waiting(explain.MaxPerCaller))
	if _, err := fc.Enter(as("a")); rota.KindOf(err) != rota.KindExhausted {
		t.Errorf("a third question of one caller: %v", err)
	}
	other, give := context.WithCancel(as("b"))
	go func() { _, _ = fc.Enter(other) }()
	b.eventually("another waits too", waiting(explain.MaxPerCaller+1))
	give()
	cancel()
	for range explain.MaxPerCaller {
		if err := <-done; err == nil || rota.KindOf(err) == rota.KindExhausted {
			t.Errorf("a caller that gave up waiting: %v", err)
		}
	}
	<-fc.Turn
	b.eventually("all have left", waiting(0))
	leave, err := fc.Enter(as("a"))
	if err != nil {
		t.Fatal(err)
	}
	leave()
}

// TestETA_learns: forecasts are compared with their outcome, and run times of ended jobs are known.
func TestETA_learns(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("j", 3))
	h := newHand(t, n, "w1", 1)
	first := h.take(1)
	opt := peer.ReadOptions{}
	waits := rota.JobID("j-00002") // of jobs submitted together any may come first
	if first[0].Lease.Job == waits {
		waits = "j-00001"
	}
	if x, _, err := n.ETA(within(t, ample), waits, opt); err != nil ||
		!strings.Contains(strings.Join(x.Basis, "\n"), "nothing is known") {
		t.Errorf("before any job has ended: %+v, %v", x, err)
	}
	h.do(rota.VerbComplete, first...)
	h.do(rota.VerbComplete, h.take(1)...)
	h.take(1)
	submitAll(t, n, specs("k", 1))
	fc := n.explainer.Ahead
	fc.Turn <- struct{}{}
	clear(fc.Pasts) // as if time had passed
	<-fc.Turn
	b.eventually("run times are known", func() bool {
		x, _, err := n.ETA(within(t, ample), "k-00000", opt)
		if err != nil {
			t.Fatal(err)
		}
		fc.Turn <- struct{}{}
		clear(fc.Pasts)
		<-fc.Turn
		return strings.Contains(strings.Join(x.Basis, "\n"), "newest 2 jobs")
	})
	fc.Turn <- struct{}{}
	defer func() { <-fc.Turn }()
	if fc.Errors.Learned == 0 {
		t.Error("a forecast job has started, but its start did not count")
	}
}
