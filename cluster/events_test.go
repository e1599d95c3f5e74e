package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// tail collects a node's events, without following.
func tail(t *testing.T, n *Node, filter rota.EventFilter) []rota.ServedEvent {
	t.Helper()
	var got []rota.ServedEvent
	err := n.Events(within(t, ample), filter, func(batch peer.EventBatch) error {
		got = append(got, batch.Events...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// hasEvents reports whether a node has all its events on its disk, and at least least of them.
func hasEvents(n *Node, least uint64) bool {
	n.events.Flush()
	total := n.replica.Head().Events
	from, to := n.historyFile.Events.Missing(0, total)
	return from == to && total >= least
}

// inLine checks that ids follow each other without a repeat, and that no entry is split.
func inLine(t *testing.T, events []rota.ServedEvent) {
	t.Helper()
	for i := 1; i < len(events); i++ {
		a, b := events[i-1].ID, events[i].ID
		if b.Compare(a) <= 0 || b.Index == a.Index && b.Seq != a.Seq+1 || b.Index != a.Index && b.Seq != 0 {
			t.Fatalf("event %s follows %s", b, a)
		}
		if b.Index == a.Index+1 && events[i].Prior != events[i-1].Post {
			t.Fatalf("event %s begins at another state than %s left", b, a)
		}
	}
}

func ids(events []rota.ServedEvent) string {
	var b strings.Builder
	for i := range events {
		fmt.Fprintf(&b, "%+v\n", events[i])
	}
	return b.String()
}

func TestEvents_areTheSameOnEveryNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	h := newHand(t, b.follower(), "w1", 8)
	submitAll(t, b.leader(), specs("j", 8))
	leases := h.take(8)
	h.do(rota.VerbAck, leases...)
	h.do(rota.VerbComplete, leases[:6]...)
	var first []rota.ServedEvent
	for _, id := range b.ids() {
		got := tail(t, b.node(id), rota.EventFilter{})
		inLine(t, got)
		if first == nil {
			first = got
		} else if ids(got[:len(first)]) != ids(first) {
			t.Fatalf("node %s returns other events", id)
		}
	}
	parent := rota.EventID{}
	var kinds []rota.EventKind
	for _, e := range tail(t, b.leader(), rota.EventFilter{Job: leases[0].Lease.Job}) {
		if e.Parent != parent {
			t.Errorf("%s %s has parent %s, the event before is %s", e.ID, e.Kind, e.Parent, parent)
		}
		parent, kinds = e.ID, append(kinds, e.Kind)
	}
	want := []rota.EventKind{rota.EventJobEnqueued, rota.EventJobAssigned, rota.EventLeaseAcked, rota.EventJobRunning,
		rota.EventJobCompleted}
	if !slices.Equal(kinds, want) {
		t.Errorf("a job's life was %v", kinds)
	}
	if n := len(tail(t, b.leader(), rota.EventFilter{Kinds: []rota.EventKind{rota.EventJobCompleted,
		rota.EventJobRunning}})); n != 14 {
		t.Errorf("%d events are of two kinds", n)
	}
	if v, err := b.leader().Verify(within(t, ample)); err != nil || !v.Equal {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestEvents_refuses(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("j", 3))
	b.eventually("the node is known: the cluster produces no further events by itself", func() bool {
		return len(tail(t, n, rota.EventFilter{Kinds: []rota.EventKind{rota.EventNodeChanged}})) > 0
	})
	events := tail(t, n, rota.EventFilter{})
	last := events[len(events)-1].ID
	before := n.replica.Head().Events
	for name, c := range map[string]struct {
		after rota.EventID
		kind  rota.Kind
		text  string
	}{
		"of the future": {rota.EventID{Incarnation: 1, Index: last.Index + 1000}, rota.KindOutOfRange,
			"want at most entry"},
		"of a later incarnation": {rota.EventID{Incarnation: 2, Index: 1}, rota.KindOutOfRange, "want at most entry"},
		"that never was": {rota.EventID{Incarnation: 1, Index: last.Index, Seq: last.Seq + 1},
			rota.KindInvalid, last.String()[:3]},
		"of an entry without any": {rota.EventID{Incarnation: 1, Index: last.Index + 1}, rota.KindInvalid,
			"no event"},
		"of an earlier incarnation": {rota.EventID{Index: 0, Seq: 7}, rota.KindOutOfRange, "the oldest is 1."},
	} {
		for _, follow := range []bool{false, true} {
			err := n.Events(within(t, ample), rota.EventFilter{After: c.after, Follow: follow},
				func(peer.EventBatch) error { return errors.New("it returns an event") })
			if rota.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if after := n.replica.Head().Events; after != before {
		t.Error("a refusal produced events")
	}
	if got := tail(t, n, rota.EventFilter{After: last}); len(got) != 0 {
		t.Errorf("%d events follow the last: %+v", len(got), got[0].Event)
	}
}

func TestEvents_beyondRetention(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.plan("n1", 1)
	c := b.addrs["n1"]
	c.EventsRetained = 100
	b.addrs["n1"] = c
	b.startPlanned()
	n := b.leader()
	all := tail(t, n, rota.EventFilter{})
	for i := range 5 {
		submitAll(t, n, specs(fmt.Sprint("j", i), 100))
		n.events.Flush()
	}
	got := tail(t, n, rota.EventFilter{})
	inLine(t, got)
	if len(got) != 100 {
		t.Errorf("got %d events, 100 are retained", len(got))
	}
	err := n.Events(within(t, ample), rota.EventFilter{After: all[0].ID}, func(peer.EventBatch) error { return nil })
	if rota.KindOf(err) != rota.KindOutOfRange || !strings.Contains(err.Error(), got[0].ID.String()) {
		t.Errorf("an event older than all: %v", err)
	}
}

// follower follows events on whichever node it is given, from the last event that it received.
type follower struct {
	mu   sync.Mutex
	got  []rota.ServedEvent
	stop context.CancelFunc
	done chan error
}

func (f *follower) follow(n *Node) {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop, f.done = cancel, make(chan error, 1)
	filter := rota.EventFilter{Follow: true, After: f.last()}
	go func() {
		f.done <- n.Events(ctx, filter, func(batch peer.EventBatch) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.got = append(f.got, batch.Events...)
			return nil
		})
	}()
}

func (f *follower) last() (id rota.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.got) > 0 {
		id = f.got[len(f.got)-1].ID
	}
	return id
}

// TestEvents_resume: a consumer follows one node after another. Its node dies, and the next one was away, was sent a
// snapshot, and lacks the events in between.
func TestEvents_resume(t *testing.T) {
	t.Parallel()
	b := startSmallLogs(t)
	leader := b.leader()
	away := b.follower()
	f := &follower{}
	f.follow(leader)
	submitAll(t, leader, specs("before", 50))
	b.isolate(away.cfg.Node)
	b.eventually("the log that the other node needs is gone", func() bool {
		submitAll(t, leader, specs(fmt.Sprintf("more-%d", leader.replica.Applied.Load()), 20))
		first, err := leader.stores.Log.FirstIndex()
		return err == nil && first > away.raft.LastIndex()+8 // it may not have applied yet the entries that it received
	})
	b.mu.Lock()
	delete(b.isolated, away.cfg.Node) // raft continues, its calls do not: it fetches nothing yet
	b.mu.Unlock()
	b.eventually("it was sent a snapshot",
		func() bool { return away.replica.Applied.Load() >= leader.replica.Applied.Load() })
	if chunk, err := away.EventRange(within(t, ample), peer.EventRange{From: 60}); len(chunk.Data) != 0 || err != nil {
		t.Fatalf("the node that was away lacks events from meanwhile: %d bytes, %v", len(chunk.Data), err)
	}
	b.heal(away.cfg.Node)
	b.eventually("the consumer saw something", func() bool { return !f.last().IsZero() })
	f.stop()
	<-f.done
	resumed := f.last()
	for _, id := range b.ids() { // it may have been so slow that it was sent a snapshot too
		if id != away.cfg.Node && id != leader.cfg.Node {
			b.eventually("the third node has all events", func() bool {
				return hasEvents(b.node(id), leader.replica.Head().Events)
			})
		}
	}
	b.stop(leader.cfg.Node)
	f.follow(away)
	submitAll(t, b.leader(), specs("after", 50))
	all := tail(t, b.leader(), rota.EventFilter{})
	b.eventually("the consumer saw all", func() bool { return f.last().Compare(all[len(all)-1].ID) >= 0 })
	f.stop()
	if err := <-f.done; rota.KindOf(err) == rota.KindExhausted {
		t.Error(err)
	}
	inLine(t, f.got)
	if ids(f.got[:len(all)]) != ids(all) {
		t.Errorf("resumed after %s: %d events seen, different from the existing %d", resumed, len(f.got), len(all))
	}
	b.eventually("the node fetches what it lacks", func() bool { return hasEvents(away, 0) })
	if v, err := away.Verify(within(t, ample)); err == nil && slices.ContainsFunc(v.Nodes,
		func(x rota.NodeVerdict) bool { return len(x.Violations) > 0 }) {
		t.Errorf("%+v", v)
	}
}

// TestEvents_restart: a node restarts and replays its log; its events are neither doubled nor lost.
func TestEvents_restart(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	submitAll(t, b.leader(), specs("j", 30))
	before := tail(t, b.leader(), rota.EventFilter{})
	b.stop("n1")
	b.start("n1")
	b.awaitReady("n1")
	submitAll(t, b.leader(), specs("k", 30))
	after := tail(t, b.leader(), rota.EventFilter{})
	inLine(t, after)
	if ids(after[:len(before)]) != ids(before) {
		t.Error("events changed over a restart")
	}
	b.leader().events.Flush()
	if _, next := b.leader().historyFile.Events.Range(); next != b.leader().replica.Head().Events {
		t.Errorf("%d events are on disk", next)
	}
}
