package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/verbs"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// loseAnswers makes a node's next forwarded calls reach the leader and lose their answers.
func (b *bench) loseAnswers(n *Node, calls int) (left *int) {
	left = &calls
	b.onForward(func(from rota.NodeID, c *fsmpb.Commands) error {
		if from != n.cfg.Node || c.GetOps()[0].GetBarrier() != nil || *left == 0 {
			return nil
		}
		*left--
		return &rota.Error{Kind: rota.KindUnavailable, Text: "the answer is lost"}
	})
	return left
}

// onForward lets a test see each forwarded call that was accepted, before its answer is sent; an error replaces the
// answer.
func (b *bench) onForward(see func(from rota.NodeID, c *fsmpb.Commands) error) {
	var one sync.Mutex
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forwarded = func(from rota.NodeID, commands []byte) error {
		one.Lock()
		defer one.Unlock()
		var c fsmpb.Commands
		if err := proto.Unmarshal(commands, &c); err != nil {
			return err
		}
		return see(from, &c)
	}
}

// started counts the workflowStarted events of a node.
func started(t *testing.T, n *Node) (count int) {
	t.Helper()
	err := n.Events(within(t, ample), rota.EventFilter{Kinds: []rota.EventKind{rota.EventWorkflowStarted}},
		func(batch peer.EventBatch) error {
			count += len(batch.Events)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// TestSubmitWorkflow_goesOnWithTheNextLeader cuts the leader off once a few chunks are in: the rest goes to the next
// leader, and the workflow starts once.
func TestSubmitWorkflow_goesOnWithTheNextLeader(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	old := b.loyal() // until it is cut off, or the submitter's node forwards nothing
	n := b.follower()
	lost := uint32(0) // the chunk whose answer is lost
	b.onForward(func(from rota.NodeID, c *fsmpb.Commands) error {
		a := c.GetOps()[0].GetAddNodes()
		if a.GetFirst() == 0 || lost > 0 {
			return nil
		}
		lost = a.GetFirst()
		b.isolate(old.cfg.Node)
		b.disloyal()
		return &rota.Error{Kind: rota.KindUnavailable, Text: "the leader is gone"}
	})
	w := fat(layers("f", 20_000, 1000, 3))
	s, err := n.SubmitWorkflow(within(t, ample), w)
	if err != nil || s.State != rota.WorkflowRunning || s.Existed || s.Nodes != 20_000 || s.Edges != 57_000 {
		t.Fatalf("%+v, %v", s, err)
	}
	// Read from the log, since the submitter's node may be the leader now, and no longer forwards.
	b.eventually("it is in the submitter's log", func() bool { return n.replica.Applied.Load() >= uint64(s.Index) })
	firsts := addedBy(t, n)
	if at := slices.Index(firsts, lost); lost == 0 || at < 1 || slices.Contains(firsts[at:], 0) {
		t.Fatalf("the answer to piece %d was lost, pieces began at %v: the upload did not continue", lost, firsts)
	}
	b.heal(old.cfg.Node)
	b.awaitReady(old.cfg.Node)
	for _, id := range b.ids() {
		if w := b.flow(b.node(id), "f"); len(w.Nodes) != 20_000 || w.EdgeCount != 57_000 || w.Counts.Blocked < 19_000 {
			t.Fatalf("node %s: %d nodes, %+v", id, len(w.Nodes), w.Counts)
		}
		if got := started(t, b.node(id)); got != 1 {
			t.Fatalf("node %s has %d starts", id, got)
		}
	}
	b.sound()
}

// TestSubmitWorkflow_resumes continues an earlier submission whose submitter died, or whose call ended.
func TestSubmitWorkflow_resumes(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // chunks are repeated if a leader is lost
	n := b.follower()
	w := layers("f", 3000, 100, 2)
	g, err := w.Arrange()
	if err != nil {
		t.Fatal(err)
	}
	content := fsm.WorkflowContent(&w, g)
	ops := append([]*fsmpb.Op{entry.OpenWorkflowOp(&w, g, content)}, entry.AddNodesOps(&w, g, content, 0)[:3]...)
	if _, _, err := n.proposer.propose(within(t, ample), ops); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Workflow(within(t, ample), "f", false,
		peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
		t.Fatalf("an unfinished submission is visible: %v", err)
	}
	other := layers("f", 3000, 100, 3)
	if s, err := n.SubmitWorkflow(within(t, ample), other); err == nil || rota.KindOf(err) == rota.KindInternal {
		t.Fatalf("another workflow takes the place of an unfinished submission: %+v, %v", s, err)
	}
	b.disloyal()
	b.stop(b.leader().cfg.Node)
	if s := b.submitFlow(b.follower(), w); s.Existed || s.State != rota.WorkflowRunning {
		t.Fatalf("%+v", s)
	}
	// By the log, which has everything, whichever node leads meanwhile.
	if first := addedBy(t, b.leader()); len(first) < 6 || !slices.Equal(first[:4], []uint32{0, 500, 1000, 1500}) {
		t.Fatalf("it continued with: %v", first)
	}
	if got := started(t, b.leader()); got != 1 {
		t.Fatalf("it started %d times", got)
	}
}

// TestSubmitWorkflow_repeats loses the answer of each kind of operation in turn.
func TestSubmitWorkflow_repeats(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // the test observes calls that followers forward
	n := b.follower()
	for i, is := range []func(*fsmpb.Op) bool{
		func(op *fsmpb.Op) bool { return op.GetOpenWorkflow() != nil },
		func(op *fsmpb.Op) bool { return op.GetAddNodes() != nil },
		func(op *fsmpb.Op) bool { return op.GetCommitWorkflow() != nil },
	} {
		lost := 0
		b.onForward(func(_ rota.NodeID, c *fsmpb.Commands) error {
			if is(c.GetOps()[0]) && lost < 2 {
				lost++
				return &rota.Error{Kind: rota.KindUnavailable, Text: "the answer is lost"}
			}
			return nil
		})
		id := rota.WorkflowID("f" + string(rune('0'+i)))
		if s := b.submitFlow(n, diamond(id)); s.Existed || s.State != rota.WorkflowRunning || lost != 2 {
			t.Fatalf("%s: %+v after %d lost answers", id, s, lost)
		}
	}
	b.onForward(func(rota.NodeID, *fsmpb.Commands) error { return nil })
	if got := started(t, n); got != 3 {
		t.Fatalf("%d workflows started", got)
	}
	// Submitting the same workflow several times concurrently counts once.
	w := layers("many", 5000, 100, 2)
	var all sync.WaitGroup
	for _, id := range b.ids() {
		for range 2 {
			all.Go(func() {
				mine := w
				mine.Nodes = append([]rota.NodeSpec(nil), w.Nodes...)
				if s, err := b.node(id).SubmitWorkflow(within(t, ample), mine); err != nil || s.Nodes != 5000 {
					t.Errorf("node %s: %+v, %v", id, s, err)
				}
			})
		}
	}
	all.Wait()
	if got := started(t, n); got != 4 {
		t.Fatalf("%d workflows started", got)
	}
	b.sound()
}

// TestSubmitWorkflow_refusalsStayOutOfTheLog: no entry is written for errors that do not depend on the state.
func TestSubmitWorkflow_refusalsStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.loyal()
	before := b.atRest(n)
	for _, c := range []struct {
		what string
		w    rota.WorkflowSpec
		kind rota.Kind
		text string
	}{
		{"no id", diamond(""), rota.KindInvalid, "workflow"},
		{"an id with a slash", diamond("a/b"), rota.KindInvalid, "a/b"},
		{"no nodes", flowOf("f"), rota.KindInvalid, "nodes"},
		{"an edge to nowhere", flowOf("f", []string{"a", "ghost"}), rota.KindInvalid, "ghost"},
		{"an edge to itself", flowOf("f", []string{"a", "a"}), rota.KindInvalid, "a"},
		{"a cycle", flowOf("f", []string{"a", "b"}, []string{"b", "a"}), rota.KindInvalid, "cycle"},
		{"a node twice", flowOf("f", []string{"a"}, []string{"a"}), rota.KindInvalid, "a"},
	} {
		_, err := n.SubmitWorkflow(within(t, ample), c.w)
		if rota.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if after := n.raft.LastIndex(); after != before {
		t.Fatalf("refusals made %d entries", after-before)
	}
	b.submitFlow(n, diamond("known"))
	none := diamond("f")
	none.Queue = "none"
	if _, err := n.SubmitWorkflow(within(t, ample), none); rota.KindOf(err) != rota.KindNotFound {
		t.Fatalf("an unknown queue: %v", err)
	}
	for range cap(n.workflowVerbs.Uploads) {
		n.workflowVerbs.Uploads <- struct{}{}
	}
	_, err := n.SubmitWorkflow(within(t, ample), diamond("f"))
	if rota.KindOf(err) != rota.KindUnavailable ||
		rota.RetryAfterOf(err) != time.Second { // a client tries another node
		t.Fatalf("one upload more than the limit: %v", err)
	}
	if s := b.submitFlow(n, diamond("known")); !s.Existed {
		t.Fatalf("a known workflow needs no room: %+v", s)
	}
	for range cap(n.workflowVerbs.Uploads) {
		<-n.workflowVerbs.Uploads
	}
	if s := b.submitFlow(n, diamond("f")); s.Existed {
		t.Fatalf("%+v", s)
	}
}

// TestSubmitWorkflow_endsWithItsCall leaves an upload unfinished, which lapses: its id is free again for another
// workflow.
func TestSubmitWorkflow_endsWithItsCall(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // the test observes calls that followers forward
	n := b.follower()
	ctx, cancel := context.WithCancel(context.Background())
	b.onForward(func(_ rota.NodeID, c *fsmpb.Commands) error {
		if c.GetOps()[0].GetAddNodes() != nil {
			cancel()
		}
		return nil
	})
	if s, err := n.SubmitWorkflow(ctx, fat(layers("f", 8000, 100, 2))); err == nil {
		t.Fatalf("%+v", s)
	}
	if len(n.workflowVerbs.Uploads) != 0 {
		t.Fatal("its place is still taken")
	}
	b.pass(limits.UploadLapses + 1000)
	b.eventually("the upload is given up", func() bool {
		s, err := n.SubmitWorkflow(within(t, 5*time.Second), diamond("f"))
		return err == nil && s.Nodes == 4
	})
	if got := started(t, n); got != 1 {
		t.Fatalf("%d workflows started", got)
	}
	b.sound()
}

// TestSubmitWorkflow_large reports how long large workflows take, and bounds their cost in processor time, as others
// may keep the machine busy. No test runs in parallel with this one.
func TestSubmitWorkflow_large(t *testing.T) {
	b := startBench(t, 3)
	w := layers("f", 20_000, 1000, 10)
	start, spent := time.Now(), processorTime(t)
	s := b.submitFlow(b.follower(), w)
	took := time.Since(start)
	spent = processorTime(t) - spent
	t.Logf("%d nodes and %d edges over 3 nodes: %s, of the processor %s", s.Nodes, s.Edges,
		took.Round(time.Millisecond),
		spent.Round(time.Millisecond))
	if spent > 20*time.Second {
		t.Errorf("it cost %s of the processor", spent)
	}
}

// TestSubmitWorkflow_beginsAnewWhatLapsed pauses a submission for longer than uploads are kept.
func TestSubmitWorkflow_beginsAnewWhatLapsed(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // the test observes calls that followers forward
	n := b.follower()
	var firsts []uint32
	b.onForward(func(_ rota.NodeID, c *fsmpb.Commands) error {
		a := c.GetOps()[0].GetAddNodes()
		if a == nil {
			return nil
		}
		if firsts = append(firsts, a.GetFirst()); len(firsts) == 2 {
			b.pass(limits.UploadLapses + 1000)
			b.eventually("the upload is given up and forgotten", func() bool {
				got := totals(b.leader())
				return got.ByState[rota.WorkflowOpen] == 0 && got.Pending == 0
			})
		}
		return nil
	})
	if s := b.submitFlow(n, fat(layers("f", 8000, 1000, 3))); s.Existed || s.State != rota.WorkflowRunning {
		t.Fatalf("%+v", s)
	}
	if len(firsts) < 4 || firsts[2] == 0 || firsts[3] != 0 {
		t.Fatalf("pieces began at %v", firsts)
	}
	if got := started(t, n); got != 1 {
		t.Fatalf("it started %d times", got)
	}
	b.sound()
}

// TestSubmitWorkflow_overtaken pauses a submission until it is discarded, and another one has taken the id: it is
// rejected, as under any known id.
func TestSubmitWorkflow_overtaken(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // the test observes calls that followers forward
	n := b.follower()
	late := true
	b.onForward(func(_ rota.NodeID, c *fsmpb.Commands) error {
		if late && c.GetOps()[0].GetAddNodes() != nil {
			late = false
			b.pass(limits.UploadLapses + 1000)
			b.eventually("the upload is given up and forgotten", func() bool {
				got := totals(b.leader())
				return got.ByState[rota.WorkflowOpen] == 0 && got.Pending == 0
			})
			b.submitFlow(b.leader(), layers("f", 7, 7, 0))
		}
		return nil
	})
	s, err := n.SubmitWorkflow(within(t, ample), diamond("f"))
	if e, ok := errors.AsType[*rota.Error](err); !ok || e.Kind != rota.KindConflict || e.Subject != "id" || late {
		t.Fatalf("%+v, %v", s, err)
	}
	if got := started(t, n); got != 1 {
		t.Fatalf("it started %d times", got)
	}
	b.sound()
}

// TestSubmitWorkflow_bringsFewNodesAnEntry: small nodes would fit into an entry by the ten thousand, and block all
// nodes while they are applied.
func TestSubmitWorkflow_bringsFewNodesAnEntry(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // the test observes calls that followers forward
	most, all := 0, 0
	b.onForward(func(_ rota.NodeID, c *fsmpb.Commands) error {
		nodes := 0
		for _, op := range c.GetOps() {
			nodes += len(op.GetAddNodes().GetNodes())
		}
		most, all = max(most, nodes), all+nodes
		return nil
	})
	b.submitFlow(b.follower(), layers("f", 9_000, 9_000, 0))
	if most != verbs.MaxChunks*limits.MaxChunkNodes || all != 9_000 {
		t.Fatalf("%d nodes in one piece, %d in all", most, all)
	}
	b.sound()
}

// TestSubmitWorkflow_refusedAtItsEnd fills the queue while the nodes are uploaded: the error states when to retry, and
// then nothing has to be uploaded twice.
func TestSubmitWorkflow_refusedAtItsEnd(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // the test observes calls that followers forward
	n := b.follower()
	limit := func(most string) {
		set := []rota.Setting{{Key: "queue_cap", Value: most}}
		if _, err := b.leader().SetQueue(within(t, ample), "default", "", set); err != nil {
			t.Fatal(err)
		}
	}
	pieces := 0
	b.onForward(func(_ rota.NodeID, c *fsmpb.Commands) error {
		if c.GetOps()[0].GetAddNodes() != nil {
			if pieces++; pieces == 1 {
				limit("100")
			}
		}
		return nil
	})
	w := layers("f", 2000, 100, 2)
	_, err := n.SubmitWorkflow(within(t, ample), w)
	if rota.KindOf(err) != rota.KindExhausted || rota.RetryAfterOf(err) == 0 ||
		!strings.Contains(err.Error(), "queue_cap is 100") {
		t.Fatal(err)
	}
	if got := gauges(t, n, "rota_admission_rejected_total"); got["queue"] != 1 {
		t.Errorf("refusals are counted as %v", got)
	}
	limit("100000")
	came := pieces
	if s := b.submitFlow(n, w); s.Existed || s.State != rota.WorkflowRunning || pieces != came {
		t.Fatalf("%+v after %d pieces more", s, pieces-came)
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// addedBy returns the first number of each chunk of a workflow in a node's log.
func addedBy(t *testing.T, n *Node) (firsts []uint32) {
	t.Helper()
	first, err := n.stores.Log.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	for index := first; index <= n.replica.Applied.Load(); index++ {
		var stored raft.Log
		if err := n.stores.Log.GetLog(index, &stored); err != nil {
			t.Fatal(err)
		}
		if stored.Type != raft.LogCommand {
			continue
		}
		const envelope = 12
		var entry fsmpb.Entry
		if err := proto.Unmarshal(stored.Data[envelope:], &entry); err != nil {
			t.Fatal(err)
		}
		for _, op := range entry.GetOps() {
			if a := op.GetAddNodes(); a != nil {
				firsts = append(firsts, a.GetFirst())
			}
		}
	}
	return firsts
}

// fat gives nodes payloads, so that a workflow is uploaded in many chunks.
func fat(w rota.WorkflowSpec) rota.WorkflowSpec {
	for i := range w.Nodes {
		w.Nodes[i].Payload = make([]byte, 200)
	}
	return w
}

func totals(n *Node) fsm.WorkflowTotals {
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	return n.replica.Machine.WorkflowTotals()
}
