package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/peer"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// TestSchedulingDeterministic gives two schedulers the same random DAG, workers and configuration. Both must make the
// same decisions in the same order until no decision is left. For each decision it also checks:
//   - all parents of the node have completed;
//   - the worker has enough free capacity;
//   - nodes become pending in topological order.
func TestSchedulingDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t)
		b.every, b.keepLog = 20, true
		s := &schedulers{bench: b, draw: func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) },
			other: New()}
		s.lead() // the other scheduler's inputs begin with this term
		s.configure()
		s.dag = s.randomDAG()
		for i := range 1 + s.draw("workers", 6) {
			s.addWorker(i)
		}
		s.run(s.dag)
		s.follow()
		s.work()
		s.finished()
	})
}

// schedulers holds two schedulers: the bench's machine, and another one with the same inputs that was never restored.
type schedulers struct {
	*bench
	draw  func(name string, n int) int
	other *Machine
	heard int
	dag   *dag
	// decided and decidedToo list the decisions of the two, in order. open are leases that have not ended.
	decided, decidedToo []string
	open                []rota.Lease
	failures            bool
}

// follow applies to the other scheduler the entries that it has not applied yet.
func (s *schedulers) follow() {
	s.t.Helper()
	for _, data := range s.log[s.heard:] {
		a, err := s.other.Apply(s.other.Header.Index+1, s.term, data)
		if err != nil {
			s.t.Fatalf("the other scheduler: %v", err)
		}
		for _, e := range a.Events {
			if e.Kind == rota.EventJobAssigned {
				s.decidedToo = append(s.decidedToo, e.Node+" to "+string(e.Worker))
			}
		}
	}
	s.heard = len(s.log)
	if s.other.View.Digest() != s.View.Digest() {
		s.t.Fatalf("digest %s, of the other scheduler %s", s.View.Digest(), s.other.View.Digest())
	}
}

// lead starts both with the same entry, as the log misses the bench's first entries.
func (s *schedulers) lead() {
	s.Machine, s.twin, s.term = New(), New(), 0
	s.log = nil
	s.bench.lead()
	s.follow()
}

func (s *schedulers) one(name string, of ...string) string { return of[s.draw(name, len(of))] }

func (s *schedulers) configure() {
	s.ok(queueOp("default",
		"strategy", s.one("strategy", "round_robin", "least_loaded", "random", "affinity", "shuffle"),
		"ranking", s.one("ranking", "fifo", "aging", "market", "adaptive"), "fair_share",
		s.one("fair share", "on", "off"),
		"batch_size", s.one("batch", "1", "3", "256"), "prefetch_max", s.one("prefetch", "0", "10"),
		"oldest_every", s.one("oldest", "0", "2", "20"), "ack_timeout", "1h", "lease_ms", "3600000"))
}

// randomDAG returns a random graph in the form of a submission.
func (s *schedulers) randomDAG() *dag {
	d := &dag{WorkflowSpec: rota.WorkflowSpec{ID: "wf", OnFailure: rota.FailurePolicy(s.draw("policy", 2))}}
	n := 1 + s.draw("nodes", 20)
	dense := 1 + s.draw("sparse", 6)
	for i := range n {
		node := rota.NodeSpec{ID: fmt.Sprint("n", i), JobSpec: rota.NewJobSpec(rota.JobType(s.one("type", "a", "b",
			"c")), nil)}
		node.CPUMilli, node.MemoryBytes = int64(s.draw("cpu", 3))*1000, int64(s.draw("memory", 3))
		node.IOBytesPerS = int64(s.draw("io", 3))
		node.Zone = s.one("zone", "", "east", "west")
		if s.draw("capable", 4) == 0 {
			node.Requires = []string{"gpu"}
		}
		if s.draw("data", 3) == 0 {
			node.DataKeys = []string{s.one("key", "x", "y", "z")}
		}
		for parent := range n { // shuffle the nodes: odd numbers come last
			if rank := func(i int) int { return i%2*n + i }; rank(parent) < rank(i) && s.draw("edge", dense) == 0 {
				node.Parents = append(node.Parents, fmt.Sprint("n", parent))
			}
		}
		d.Nodes = append(d.Nodes, node)
	}
	var err error
	if d.g, err = d.Arrange(); err != nil {
		s.t.Fatal(err)
	}
	d.content = state.WorkflowContent(&d.WorkflowSpec, d.g)
	return d
}

// addWorker adds a worker. The first one can run every node.
func (s *schedulers) addWorker(i int) {
	s.worker(fmt.Sprint("w", i), int32(1+s.draw("slots", 3)), func(w *rota.WorkerSpec) {
		w.CPUMilli, w.MemoryBytes = 2000+int64(s.draw("worker cpu", 3))*1000, 2+int64(s.draw("worker memory", 3))
		w.IOBytesPerS = 2 + int64(s.draw("worker io", 3))
		w.Zone, w.Prefetch = s.one("worker zone", "", "east", "west"), int32(s.draw("worker prefetch", 2))
		if i == 0 || s.draw("worker gpu", 2) == 0 {
			w.Capabilities = []string{"gpu"}
		}
	})
}

// work lets both schedulers decide, and workers end jobs, until the workflow has ended.
func (s *schedulers) work() {
	s.t.Helper()
	for turn := 0; ; turn++ {
		if turn > 2000 {
			s.t.Fatalf("no progress: %s", s.progress("wf"))
		}
		s.now += rota.Clock(s.draw("time", 3))
		mine, its := s.View.Decide(1000), s.other.View.Decide(1000)
		if !slices.EqualFunc(mine, its, func(a, b *fsmpb.Round) bool { return proto.Equal(a, b) }) {
			s.t.Fatalf("got decisions\n%v\nby the other scheduler\n%v", mine, its)
		}
		if len(mine) > 0 {
			s.checkAssignments(s.entry(opsOf(mine)...).Events)
		}
		w, _ := s.View.Workflow("wf")
		switch {
		case w.State.Terminal() && len(s.open) == 0:
			s.follow()
			return
		case len(s.open) == 0 && len(mine) == 0:
			s.pass(1000) // a worker cools down, or a job backs off
		case len(s.open) > 0 && (len(mine) == 0 || s.draw("end one", 2) == 0):
			s.end(s.draw("which", len(s.open)))
		}
		s.follow()
	}
}

// checkAssignments checks each assignment on the state in which it was made.
func (s *schedulers) checkAssignments(events []rota.Event) {
	s.t.Helper()
	for _, e := range events {
		switch e.Kind {
		case rota.EventAssignmentDropped:
			s.t.Fatalf("assignment dropped: %+v", e)
		case rota.EventJobAssigned:
			s.decided = append(s.decided, e.Node+" to "+string(e.Worker))
			a, _ := s.View.Assignment(e.Lease)
			s.open = append(s.open, a.Lease)
			parents, err := s.View.NodeParents(e.Job)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, p := range parents {
				if state := s.View.JobState(p); state != rota.JobCompleted {
					s.t.Fatalf("%s was assigned, and its parent %s is %s", e.Job, p, state)
				}
			}
			w := s.fleet.workers.Get(e.Worker)
			if w.Open > w.Spec.Slots+w.Spec.Prefetch || a.Spec.CPUMilli > 0 && w.CPU > w.Spec.CPUMilli ||
				a.Spec.MemoryBytes > 0 && w.Memory > w.Spec.MemoryBytes || a.Spec.IOBytesPerS > 0 &&
				w.IO > w.Spec.IOBytesPerS ||
				len(a.Spec.Requires) > 0 && len(w.Spec.Capabilities) == 0 {
				s.t.Fatalf("%s was assigned to worker %s beyond its capacity", e.Job, e.Worker)
			}
		}
	}
}

// end ends an open lease, in most cases with success, and checks that newly ready nodes are added in order of number.
func (s *schedulers) end(at int) {
	s.t.Helper()
	l := s.open[at]
	s.open = slices.Delete(s.open, at, at+1)
	v, kind := rota.VerbComplete, s.draw("how it ends", 25)
	switch kind {
	case 0:
		v, s.failures = rota.VerbFail, true
	case 1:
		v = rota.VerbDecline
	}
	if s.draw("ack", 3) == 0 && v == rota.VerbComplete {
		s.ok(verb(rota.VerbAck, l))
	}
	a := s.entry(verb(v, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
	if err := entry.OutcomeError(a.Outcomes[0]); err != nil {
		s.t.Fatalf("%s of %s: %v", v, l.Job, err)
	}
	last := uint32(0)
	for _, e := range a.Events {
		if e.Kind == rota.EventJobEnqueued && v == rota.VerbComplete {
			number := s.JobTable.Get(e.Job).Vertex
			if number < last {
				s.t.Fatalf("node %s entered after node number %d", e.Node, last)
			}
			last = number
		}
	}
}

// finished checks the final state.
func (s *schedulers) finished() {
	s.t.Helper()
	s.sound()
	if mine, its := strings.Join(s.decided, ", "), strings.Join(s.decidedToo, ", "); mine != its {
		s.t.Fatalf("assigned were %s, by the other scheduler %s", mine, its)
	}
	if mine, its := s.View.Decide(1000), s.other.View.Decide(1000); len(mine) > 0 || len(its) > 0 {
		s.t.Fatalf("more decisions are left: %v, %v", mine, its)
	}
	w := s.words("wf")
	if !s.failures && (w.State != rota.WorkflowCompleted || w.Counts.Completed != w.NodeCount || w.Progress != 100) {
		s.t.Fatalf("no job failed: %s", s.progress("wf"))
	}
	for _, n := range w.Nodes {
		for _, p := range n.Parents {
			parent := w.Nodes[slices.IndexFunc(w.Nodes, func(x rota.WorkflowNode) bool { return x.ID == p })]
			if n.AssignedIndex > 0 && parent.FinishedIndex >= n.AssignedIndex {
				s.t.Fatalf("node %s was assigned at index %d, its parent %s ended at %d", n.ID, n.AssignedIndex, p,
					parent.FinishedIndex)
			}
		}
	}
}
