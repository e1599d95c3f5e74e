package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// corrupt changes a node's state outside the log, as a memory fault or a bug would: it applies an entry that no other
// node has.
func (b *bench) corrupt(n *Node, job rota.JobID) {
	b.t.Helper()
	n.replica.Mu.Lock()
	defer n.replica.Mu.Unlock()
	b.corruptHeld(n, job)
}

// corruptHeld is corrupt for a caller that holds the node's lock.
func (b *bench) corruptHeld(n *Node, job rota.JobID) {
	b.t.Helper()
	spec := rota.NewJobSpec("work", nil)
	spec.ID, spec.Tenant = job, rota.DefaultTenant
	data := mustSeal(b.t, &fsmpb.Entry{Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(
		&spec)}}}}})
	head := n.replica.Machine.Head()
	before := n.replica.Machine.Head().Events
	if _, err := n.replica.Machine.Apply(head.Index, head.Term, data); err != nil {
		b.t.Fatal(err)
	}
	if n.replica.Machine.Head().Events == before {
		b.t.Fatalf("job %s was refused: the state of %s is correct", job, n.cfg.Node)
	}
}

// busy writes to the log until the test ends, like a cluster in use.
func (b *bench) busy() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	b.t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			for _, id := range b.ids() {
				if n := b.node(id); n != nil && n.terms.leading() != nil {
					c, cancel := context.WithTimeout(ctx, time.Second)
					_, _ = n.Submit(c, specs(fmt.Sprintf("busy%d", i), 1))
					cancel()
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

// keep blocks or unblocks answers from a node.
func (b *bench) keep(from map[rota.NodeID]bool, n *Node, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	from[n.cfg.Node] = on
}

// rebuilt returns how many rebuilds a node has done.
func rebuilt(n *Node) uint64 {
	return uint64(seriesOf(n.rebuild.Collectors(), "rota_state_rebuilds_total")[""])
}

// agreed reports whether a node knows that a majority held its state.
func agreed(n *Node) bool {
	return seriesOf(n.rebuild.Collectors(), "rota_state_agreed_index")[""] > 0
}

func (b *bench) verifyEqual(n *Node) {
	b.t.Helper()
	b.eventually("all nodes are equal", func() bool {
		v, err := n.Verify(within(b.t, 10*time.Second))
		if err == nil && !v.Equal {
			b.t.Logf("%+v", v)
		}
		return err == nil && v.Equal
	})
}

// neverLeads fails the test if a node holds a leadership while its state is wrong.
func (b *bench) neverLeads(n *Node) (check func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	var led atomic.Bool
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if n.replica.Dropped.Load() && n.terms.leading() != nil {
				led.Store(true)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return func() {
		close(stop)
		<-done
		if led.Load() {
			b.t.Error("a node with a wrong state held a leadership")
		}
	}
}

// toldOnce requires every node to have exactly one event that a node's state differed.
func (b *bench) toldOnce(id rota.NodeID) {
	b.t.Helper()
	b.eventually("all nodes tell of it", func() bool {
		for _, reader := range b.ids() {
			n := b.node(reader)
			if n == nil || n.Ready() != nil || len(tail(b.t, n,
				rota.EventFilter{Kinds: []rota.EventKind{rota.EventStateDiffers}})) == 0 {
				return false
			}
		}
		return true
	})
	for _, reader := range b.ids() {
		told := tail(b.t, b.node(reader), rota.EventFilter{Kinds: []rota.EventKind{rota.EventStateDiffers}})
		if len(told) != 1 || told[0].Text != string(id) || !strings.Contains(told[0].Payload, `"index":`) {
			b.t.Errorf("node %s reports about node %s: %+v", reader, id, told)
		}
	}
}

// TestRebuild_aFollower: a follower whose state differs notices it, stops serving, and serves again with the cluster's
// state, keeping its log and identity.
func TestRebuild_aFollower(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("before", 200))
	f := b.follower()
	check := b.neverLeads(f)
	hand := newHand(t, f, "w1", 4)
	b.busy()
	b.eventually("the follower agrees with the others", func() bool { return agreed(f) })
	first, _ := f.stores.Log.FirstIndex()
	identity := f.data.Identity()

	b.keep(b.starved, f, true)
	b.corrupt(f, "ghost")
	b.eventually("the follower notices", func() bool { return f.data.Rebuild().Open })
	if err := f.Ready(); rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("it reports that it serves: %v", err)
	}
	if _, _, err := f.Job(within(t, ample), "ghost",
		peer.ReadOptions{Stale: true}); rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("a stale read was answered with %v", err)
	}
	var told error
	for told == nil {
		_, told = noticesOf(within(t, ample), hand.s)
	}
	if rota.KindOf(told) != rota.KindUnavailable || !strings.Contains(told.Error(), "rebuilt") {
		t.Errorf("the worker received %v", told)
	}
	if s := f.clusterVerbs.ownStatus(); s.State != stateRebuilding || s.Healthy ||
		!strings.Contains(strings.Join(s.Problems, " "), "differed") {
		t.Errorf("its own status is %+v", s)
	}
	before := f.raft.LastIndex()
	b.eventually("its log continues meanwhile", func() bool { return f.raft.LastIndex() > before+5 })
	if rebuilt(f) != 0 {
		t.Fatal("it rebuilt from nothing")
	}
	b.keep(b.starved, f, false)
	b.eventually("the follower has rebuilt", func() bool { return rebuilt(f) == 1 && f.Ready() == nil })
	check()
	if _, _, err := f.Job(within(t, ample), "ghost", peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
		t.Errorf("a job that was never submitted: %v", err)
	}
	b.verifyEqual(f)
	if now, _ := f.stores.Log.FirstIndex(); now != first || f.data.Identity() != identity || f.data.Rebuild().Open {
		t.Errorf("its log begins at %d, before at %d; identity %s, before %s; %+v", now, first, f.data.Identity(),
			identity, f.data.Rebuild())
	}
	// The events of the time in between come from the others.
	b.eventually("its events are whole", func() bool {
		f.events.Flush()
		from, to := f.historyFile.Events.Missing(0, f.replica.Head().Events)
		return from == to
	})
	b.toldOnce(f.cfg.Node)
}

// TestRebuild_theLeader: a leader with a wrong state hands over first.
func TestRebuild_theLeader(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("before", 50))
	l := b.leader()
	check := b.neverLeads(l)
	b.busy()
	b.corrupt(l, "ghost")
	b.eventually("the leader notices", func() bool { return l.replica.Dropped.Load() })
	b.eventually("the leader has rebuilt", func() bool { return rebuilt(l) == 1 && l.Ready() == nil })
	check()
	b.verifyEqual(l)
	submitAll(t, l, specs("after", 50))
	b.toldOnce(l.cfg.Node)
}

// TestRebuild_staysQuietWhereNobodyTakesOver: the leader's handover fails, and it must stop leading nevertheless.
func TestRebuild_staysQuietWhereNobodyTakesOver(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	l := b.leader()
	b.busy()
	b.keep(b.deaf, l, true) // no successor answers, so nothing is handed over
	l.replica.Drop()
	if err := l.data.SetRebuild(raftstore.RebuildRecord{Open: true}); err != nil {
		t.Fatal(err)
	}
	l.rebuild.Resume()
	b.eventually("it no longer leads", func() bool { return l.raft.State() != raft.Leader })
	b.eventually("another one leads", func() bool {
		for _, id := range b.ids() {
			if n := b.node(id); n != l && n.terms.leading() != nil {
				return true
			}
		}
		return false
	})
	b.keep(b.deaf, l, false)
	b.awaitReady(l.cfg.Node)
	b.verifyEqual(l)
}

// TestRebuild_aCrashInTheMiddle stops a node while it rebuilds, with a snapshot of the wrong state on its disk: when
// started again it continues rebuilding.
func TestRebuild_aCrashInTheMiddle(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("before", 50))
	f := b.follower()
	id := f.cfg.Node
	b.busy()
	b.eventually("the follower agrees with the others", func() bool { return agreed(f) })
	b.keep(b.starved, f, true)
	b.keep(b.deaf, f, true) // it must not notice before its wrong state is a snapshot
	b.corrupt(f, "ghost")
	if err := f.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	wrong, err := f.snapshots.List()
	if err != nil || len(wrong) != 1 {
		t.Fatal(wrong, err)
	}
	b.keep(b.deaf, f, false)
	b.eventually("the follower notices", func() bool { return f.data.Rebuild().Open })
	b.stop(id)
	f = b.start(id)
	if !f.replica.Dropped.Load() {
		t.Error("it forgot that its state was wrong")
	}
	b.keep(b.starved, f, false)
	b.eventually("the follower has rebuilt", func() bool { return rebuilt(f) == 1 && f.Ready() == nil })
	b.verifyEqual(f)
	if _, err := os.Stat(filepath.Join(f.cfg.Data, "snapshots-damaged", wrong[0].ID)); err != nil {
		t.Errorf("the wrong snapshot was not set aside: %v", err)
	}
	b.stop(id)
	f = b.start(id)
	b.awaitReady(id)
	b.verifyEqual(f)
	b.toldOnce(id)
}

// TestRebuild_withoutMajorityAllStop: two of three nodes differ from the third, and from each other: no one can tell
// which is right.
func TestRebuild_withoutMajorityAllStop(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.fatal = true
	n := b.leader()
	submitAll(t, n, specs("before", 20))
	var bad []*Node
	for _, id := range b.ids() {
		if id != n.cfg.Node {
			bad = append(bad, b.node(id))
		}
	}
	// After the same entry: at one between the two only the first would differ, and be rebuilt.
	b.eventually("both are at the same entry", func() bool {
		for _, f := range bad {
			f.replica.Mu.Lock()
			defer f.replica.Mu.Unlock() //nolint:gocritic // all are held to the end
		}
		if bad[0].replica.Machine.Head().Index != bad[1].replica.Machine.Head().Index {
			return false
		}
		for i, f := range bad {
			b.corruptHeld(f, rota.JobID(fmt.Sprintf("ghost%d", i)))
		}
		return true
	})
	b.busy()
	b.eventually("all stop", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.fatals) == 3
	})
}

// TestRebuild_againAndAgainEndsTheNode: a node differs within an hour of its third rebuild: its log or its memory is
// the cause.
func TestRebuild_againAndAgainEndsTheNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.fatal = true
	f := b.follower()
	submitAll(t, b.leader(), specs("before", 20))
	if err := f.data.SetRebuild(raftstore.RebuildRecord{Again: 2, DoneMs: time.Now().UnixMilli()}); err != nil {
		t.Fatal(err)
	}
	b.corrupt(f, "ghost")
	b.busy()
	b.eventually("the node gives itself up", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.fatals[f.cfg.Node]) == 1
	})
}
