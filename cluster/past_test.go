package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/explain"
	"github.com/rotasched/rota/internal/peer"
)

// TestPast_isReplayedOnce: reading on, forward in time, costs one replay; going back costs another. A decision is
// explained without any, except for the candidates that were not chosen.
func TestPast_isReplayedOnce(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	if _, err := n.SetQueue(within(t, ample), rota.DefaultQueue, "",
		[]rota.Setting{{Key: "oldest_every", Value: "0"}}); err != nil {
		t.Fatal(err)
	}
	var indexes []rota.Index
	for range 12 {
		submitAll(t, n, specs("j"+string(rune('a'+len(indexes))), 5))
		indexes = append(indexes, n.replica.Head().Index)
	}
	past := n.explainer.Reader
	why := func(id rota.JobID, q rota.WhyQuery) rota.Explanation {
		t.Helper()
		x, _, err := n.Why(within(t, ample), id, q, peer.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	replays := func(at, from rota.Index) {
		t.Helper()
		if got, err := n.Past(within(t, ample), rota.WhyQuery{At: at}); err != nil ||
			got != (rota.Past{Index: at, From: from, Entries: int64(at - from)}) {
			t.Errorf("a look at %d replays %+v, %v, want from %d", at, got, err, from)
		}
	}
	replays(indexes[1], 0)
	for i, at := range indexes[1:11] {
		if i > 0 {
			replays(at, indexes[i])
		}
		if x := why("ja-00000", rota.WhyQuery{At: at}); x.Index != at || x.State != rota.JobQueued {
			t.Fatalf("at %d: %+v", at, x)
		}
	}
	replays(indexes[10], indexes[10])
	replays(indexes[3], 0) // back
	if _, err := n.Past(within(t, ample),
		rota.WhyQuery{At: n.replica.Head().Index + 1000}); rota.KindOf(err) != rota.KindOutOfRange {
		t.Errorf("an index in the future: %v", err)
	}
	if past.Replays != 1 {
		t.Errorf("ten steps forward cost %d replays", past.Replays)
	}
	if _, _, err := n.Why(within(t, ample), "jl-00000", rota.WhyQuery{At: indexes[0]},
		peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
		t.Errorf("a job before its submission: %v", err)
	}
	if past.Replays != 2 {
		t.Errorf("a step back made it %d replays, want 2", past.Replays)
	}
	h := newHand(t, n, "w1", 60)
	h.take(60)
	if x := why("ja-00000", rota.WhyQuery{}); x.Decision == nil || x.Decision.Others != nil || x.Decision.Note != "" ||
		past.Replays != 2 {
		t.Errorf("without the others: %+v, %d replays", x.Decision, past.Replays)
	}
	if x := why("ja-00000", rota.WhyQuery{Others: true}); x.Decision == nil ||
		past.Replays != 2 { // later than the state that was read
		t.Errorf("with the others: %+v, %d replays", x.Decision, past.Replays)
	}
	past.Turn <- struct{}{}
	kept := past.Kept
	past.Drop()
	<-past.Turn
	if kept == nil {
		t.Error("nothing was kept")
	}
}

// TestPast_oneLooksAndOneWaits: further callers are rejected immediately, and learn why even if they asked for the
// other candidates of a decision.
func TestPast_oneLooksAndOneWaits(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("j", 1))
	h := newHand(t, n, "w1", 1)
	h.take(1)
	at := n.replica.Head().Index
	n.explainer.Reader.Turn <- struct{}{} // another reader
	n.explainer.Reader.Asking.Add(1)
	ctx, cancel := context.WithCancel(within(t, ample))
	waits := make(chan error, 1)
	go func() {
		_, _, err := n.Why(ctx, "j-00000", rota.WhyQuery{At: at}, peer.ReadOptions{})
		waits <- err
	}()
	b.eventually("one waits", func() bool { return n.explainer.Reader.Asking.Load() == explain.PastAsking })
	for _, q := range []rota.WhyQuery{{At: at}, {Others: true}} {
		if _, _, err := n.Why(within(t, ample), "j-00000", q,
			peer.ReadOptions{}); rota.KindOf(err) != rota.KindExhausted {
			t.Errorf("one more: %v", err)
		}
	}
	if x, _, err := n.Why(within(t, ample), "j-00000", rota.WhyQuery{}, peer.ReadOptions{}); err != nil ||
		x.Decision == nil {
		t.Errorf("the present: %+v, %v", x, err)
	}
	cancel()
	if err := <-waits; err == nil || rota.KindOf(err) == rota.KindExhausted {
		t.Errorf("a caller that gave up waiting: %v", err)
	}
	<-n.explainer.Reader.Turn
	n.explainer.Reader.Asking.Add(-1)
	if _, _, err := n.Why(within(t, ample), "j-00000", rota.WhyQuery{At: at}, peer.ReadOptions{}); err != nil {
		t.Error(err)
	}
}

// TestPast_atAMoment: a moment selects the newest entry at or before it.
func TestPast_atAMoment(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("a", 3))
	between := n.replica.Head()
	b.eventually("a moment passes", func() bool { // entries of a later moment
		submitAll(t, n, specs("later", 1))
		return n.replica.Head().Date > between.Date+1
	})
	submitAll(t, n, specs("b", 3))
	why := func(id rota.JobID, at rota.Date) (rota.Explanation, error) {
		x, _, err := n.Why(within(t, ample), id, rota.WhyQuery{AtDate: at}, peer.ReadOptions{})
		return x, err
	}
	if x, err := why("a-00000", between.Date); err != nil || x.Index < between.Index || x.Date > between.Date+1_000 {
		t.Errorf("%+v, %v: entry %d is of %s", x, err, between.Index, between.Date)
	}
	if x, err := why("b-00000", between.Date); rota.KindOf(err) != rota.KindNotFound {
		t.Errorf("before its submission: %+v, %v", x, err)
	}
	if x, err := why("b-00000", n.replica.Head().Date); err != nil || x.State != rota.JobQueued {
		t.Errorf("now: %+v, %v", x, err)
	}
	if _, err := why("a-00000", 1); rota.KindOf(err) != rota.KindNotFound { // it has the whole log
		t.Errorf("before the cluster: %v", err)
	}
	if _, err := why("a-00000", rota.DateOf(time.Now().Add(time.Hour))); rota.KindOf(err) != rota.KindOutOfRange {
		t.Errorf("in an hour: %v", err)
	}
	if _, _, err := n.Why(within(t, ample), "a-00000", rota.WhyQuery{At: 3, AtDate: between.Date},
		peer.ReadOptions{}); rota.KindOf(err) != rota.KindInvalid {
		t.Errorf("an index and a moment: %v", err)
	}
}
