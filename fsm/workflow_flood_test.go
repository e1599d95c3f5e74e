package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// over sweeps until a workflow is over.
func (b *bench) over(d *dag) {
	b.t.Helper()
	for n := 0; !b.flows.workflows.Get(d.ID).State.Terminal(); n++ {
		if n > 1000 {
			b.t.Fatalf("workflow %s does not end", d.ID)
		}
		b.entry(sweepOp())
	}
}

// TestRetriesAtOnce checks that a retry from a node looks at every edge, whatever the result; of many such operations
// an entry accepts the first, and refuses the others with a request to try again.
func TestRetriesAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 1 << 20
	parents := make([][]uint32, 30_000)
	for n := range parents {
		for e := min(5, n); e > 0; e-- {
			parents[n] = append(parents[n], uint32(n-e))
		}
	}
	d, small := newDAG("wf", parents), diamond("small")
	b.run(d)
	b.run(small)
	b.entry(d.cancel(), small.cancel())
	b.over(d)
	b.over(small)
	b.ok(queueOp("default", "queue_cap", "1"))
	ops := []*fsmpb.Op{small.retry("n3", 1)}
	for range 100 {
		ops = append(ops, d.retry("n0", 1), d.retry("unknown", 1))
	}
	a := b.entry(ops...)
	looked := 0
	for i, o := range a.Outcomes {
		e := entry.OutcomeError(o)
		switch {
		case i > 0 && i%2 == 0:
			if e == nil || e.Kind != rota.KindNotFound {
				t.Fatal(e)
			}
		case e == nil || e.Kind != rota.KindExhausted:
			t.Fatal(e)
		case e.Subject == "queue":
			looked++
		case !ManyAtOnce(e) || e.RetryAfter != 50*time.Millisecond:
			t.Fatal(e)
		}
	}
	if looked != 1 { // the small one: together with it the large one is too much
		t.Fatalf("%d retries were looked at", looked)
	}
	b.refuses(rota.KindExhausted, "queue", d.retry("n0", 1)) // alone it is started
	b.ok(queueOp("default", "queue_cap", "1000000"))
	b.ok(d.retry("n0", 1))
	b.sound()
}

// TestWorkflowClasses checks that nodes with as many classes as a queue has room for leave none for others, before they
// are released and after; an ended workflow returns its classes, and takes them again when it is retried.
func TestWorkflowClasses(t *testing.T) {
	t.Parallel()
	const most = limits.MaxWorkflowClasses
	b := newBench(t)
	b.every = 50
	classes := func(id string, first, n int) *dag {
		return newDAG(id, make([][]uint32, n), func(d *dag) {
			for i := range d.Nodes {
				d.Nodes[i].CPUMilli = int64(first + i + 1)
			}
		})
	}
	wide := classes("wide", 0, most+1)
	b.ok(wide.open())
	last := wide.add()[most/limits.MaxChunkNodes]
	for _, op := range wide.add()[:most/limits.MaxChunkNodes] {
		b.ok(op)
	}
	b.refuses(rota.KindInvalid, "requires", last)
	if n := b.placement.registry.supply.Classes(rota.DefaultQueue); n != most {
		t.Fatalf("%d classes", n)
	}
	b.beatFleet(limits.UploadLapses)
	if n := b.placement.registry.supply.Classes(rota.DefaultQueue); n != 0 {
		t.Fatalf("%d classes are left of an upload that was abandoned", n)
	}
	var list []*dag
	for i := range limits.MaxClassesPerQueue / most {
		list = append(list, classes(fmt.Sprint("wf", i), i*most, most))
		b.run(list[i])
	}
	more := newDAG("more", [][]uint32{nil}, func(d *dag) { d.Nodes[0].Requires = []string{"x"} })
	b.ok(more.open())
	full := func() {
		t.Helper()
		b.refuses(rota.KindExhausted, "requires", more.add()[0])
		b.refuses(rota.KindExhausted, "requires", submitOp(jobSpec("job",
			func(s *rota.JobSpec) { s.Requires = []string{"x"} })))
	}
	full()
	for _, d := range list {
		for b.flows.workflows.Get(d.ID).Blocked > 0 {
			b.entry(sweepOp())
		}
	}
	if n := b.placement.registry.supply.Classes(rota.DefaultQueue); n != limits.MaxClassesPerQueue {
		t.Fatalf("%d classes", n) // released ones count once
	}
	full()
	b.sound()
	b.ok(list[3].cancel())
	b.over(list[3])
	b.ok(more.add()[0])
	b.refuses(rota.KindExhausted, "requires", list[3].retry("", 1))
	b.ok(more.commit())
	b.ok(more.cancel())
	b.over(more)
	b.ok(list[3].retry("", 1))
	b.ok(submitOp(jobSpec("known", func(s *rota.JobSpec) { s.CPUMilli = 3*most + 7 })))
	b.refuses(rota.KindExhausted, "requires", submitOp(jobSpec("new",
		func(s *rota.JobSpec) { s.Requires = []string{"x"} })))
	b.sound()
}

// TestEndingWorkflowTakesNoPlaces checks that while a pass cancels the QUEUED jobs of a workflow, others get the
// workers, including those behind them in the same queue.
func TestEndingWorkflowTakesNoPlaces(t *testing.T) {
	t.Parallel()
	for _, ranking := range []string{"fifo", "adaptive"} {
		b := newBench(t)
		b.every = 1 << 20
		b.ok(queueOp("default", "ranking", ranking, "interleave", "2"))
		b.ok(queueOp("other"))
		d := newDAG("wf", make([][]uint32, 4*limits.MaxFlowSteps))
		b.run(d)
		for b.flows.workflows.Get("wf").Blocked > 0 {
			b.entry(sweepOp())
		}
		b.now += 1000
		b.ok(submitOp(jobSpec("plain")))
		b.ok(submitOp(jobSpec("elsewhere", func(s *rota.JobSpec) { s.Queue = "other" })))
		b.ok(d.cancel())
		b.ok(registerOp("w", 2, "s", false, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "other") }))
		b.entry(roundOps(b)...)
		b.state("plain", rota.JobAssigned)
		b.state("elsewhere", rota.JobAssigned)
		if r := b.flows.workflows.Get("wf"); r.State != rota.WorkflowRunning || r.Live == 0 {
			t.Fatalf("the pass is over: %+v", r)
		}
		b.sound()
	}
}

// TestNodeExpiresAtRelease checks that a node that waited for its parents longer than its time to live is not leased.
func TestNodeExpiresAtRelease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 1)
	d := newDAG("wf", [][]uint32{nil, {0}, {1}}, func(d *dag) { d.Nodes[1].TTL = 10 * time.Second })
	b.run(d)
	lease := b.match()["wf/n0"]
	b.ok(verb(rota.VerbAck, lease))
	b.pass(11_000)
	b.stands(d, "RUNNING: LBB")
	events := b.ends(rota.VerbComplete, d, "n0")
	b.stands(d, "FAILED: CEX")
	if e := eventOf(t, events, rota.EventJobExpired); e.Node != "n1" || e.Reason != rota.ReasonTTLAbsolute {
		t.Fatalf("%+v", e)
	}
	b.sound()
}

// TestEndingWorkflowStagesBounded checks that the records of large nodes that end at once go to the archive over
// several entries, so that none is dropped before it could be flushed.
func TestEndingWorkflowStagesBounded(t *testing.T) {
	t.Parallel()
	const nodes, payload = 250, 255 << 10 // about 62 MiB
	b := newBench(t)
	b.every = 1 << 20
	d := newDAG("wf", make([][]uint32, nodes), func(d *dag) {
		for i := range d.Nodes {
			d.Nodes[i].Payload = make([]byte, payload)
		}
	})
	b.run(d)
	entries := 0
	for op := d.cancel(); !b.flows.workflows.Get("wf").State.Terminal(); op = sweepOp() {
		before := b.ended.staged.added
		b.entry(op)
		if n := b.ended.staged.added - before; n > limits.MaxFlowBytes+2*payload {
			t.Fatalf("an entry stages %d bytes", n)
		}
		entries++
	}
	if entries < 4 || b.ended.staged.dropped != 0 {
		t.Fatalf("%d entries, %d records were abandoned", entries, b.ended.staged.dropped)
	}
}
