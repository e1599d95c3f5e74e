package loadgen

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/millis"
)

// FlowPlan configures the measurement of workflows: with each strategy, by workers with a number of slots and as many
// cores. Runtimes are scaled so that the greater bound is Bound, or by TimeScale if that is not 0.
type FlowPlan struct {
	TimeScale      float64
	Bound          time.Duration
	Workers, Slots int
	Strategies     []string
}

// Flow is a workflow as measured: scaled, and without requirements that the bench's workers do not meet.
type Flow struct {
	name  string
	spec  rota.WorkflowSpec
	scale float64
	graph *rota.Graph
	// criticalMs and areaMs are the bounds, listMs the makespan of a list schedule without costs.
	criticalMs, areaMs, listMs int64
}

// Flow keeps the parts of a workflow that the bench measures, and scales it.
func (f *FlowPlan) Flow(name string, spec *rota.WorkflowSpec) (*Flow, error) {
	b := &Flow{name: name, scale: f.TimeScale,
		spec: rota.WorkflowSpec{ID: "bench", Edges: spec.Edges}}
	for i := range spec.Nodes {
		from := &spec.Nodes[i]
		n := rota.NodeSpec{ID: from.ID, Parents: from.Parents, JobSpec: rota.NewJobSpec(from.Type, nil)}
		n.Simulate, n.CPUMilli, n.DataKeys = from.Simulate, from.CPUMilli, from.DataKeys
		if has := int64(f.Slots) * 1000; n.CPUMilli > has {
			return nil, fmt.Errorf("node %q asks for %d millicores and a worker has %d: --slots raises that", n.ID,
				n.CPUMilli, has)
		}
		b.spec.Nodes = append(b.spec.Nodes, n)
	}
	var err error
	if b.graph, err = b.spec.Arrange(); err != nil {
		return nil, err
	}
	f.bounds(b)
	if b.scale == 0 {
		b.scale = float64(f.Bound.Milliseconds()) / float64(max(b.criticalMs, b.areaMs, 1))
	}
	for i := range b.spec.Nodes {
		ms := math.Round(float64(b.spec.Nodes[i].Simulate.Milliseconds()) * b.scale)
		if ms > float64(rota.MaxDuration.Milliseconds()) {
			return nil, fmt.Errorf("node %q would take %.0f ms: --time-scale lowers that", b.spec.Nodes[i].ID, ms)
		}
		b.spec.Nodes[i].Simulate = millis.Duration(int64(ms))
	}
	f.bounds(b)
	return b, nil
}

// bounds calculates the lower bounds of every schedule, and the makespan of a simple one.
func (f *FlowPlan) bounds(b *Flow) {
	slots := int64(f.Workers) * int64(f.Slots)
	ends := make([]int64, len(b.graph.Order))
	b.criticalMs = 0
	var sum, cpu float64
	for k, place := range b.graph.Order {
		n := &b.spec.Nodes[place]
		for _, p := range b.graph.Parents[k] {
			ends[k] = max(ends[k], ends[p])
		}
		ends[k] += n.Simulate.Milliseconds()
		b.criticalMs = max(b.criticalMs, ends[k])
		sum += float64(n.Simulate.Milliseconds())
		cpu += float64(n.Simulate.Milliseconds()) * float64(n.CPUMilli) / 1000
	}
	b.areaMs = int64(math.Ceil(max(sum, cpu) / float64(slots)))
	b.listMs = b.list(int(slots))
}

// list returns the makespan of a list schedule without any cost: a node starts in the order of readiness, ties by
// number, as soon as a slot is free. It ignores processors: there is one for each slot.
func (b *Flow) list(slots int) int64 {
	waiting, children := make([]int, len(b.graph.Order)), make([][]int, len(b.graph.Order))
	var ready, running []int
	for k, parents := range b.graph.Parents {
		waiting[k] = len(parents)
		for _, p := range parents {
			children[p] = append(children[p], k)
		}
		if waiting[k] == 0 {
			ready = append(ready, k)
		}
	}
	ends, now := make([]int64, len(b.graph.Order)), int64(0)
	for len(ready)+len(running) > 0 {
		for len(ready) > 0 && len(running) < slots {
			k := ready[0]
			ready = ready[1:]
			ends[k] = now + b.spec.Nodes[b.graph.Order[k]].Simulate.Milliseconds()
			at, _ := slices.BinarySearchFunc(running, k, func(other, k int) int {
				return cmp.Or(cmp.Compare(ends[other], ends[k]), cmp.Compare(other, k))
			})
			running = slices.Insert(running, at, k)
		}
		first := running[0]
		running, now = running[1:], ends[first]
		for _, child := range children[first] {
			if waiting[child]--; waiting[child] == 0 {
				ready = append(ready, child)
			}
		}
	}
	return now
}

// FlowResult is one run of a workflow with one strategy.
type FlowResult struct {
	Workflow       string  `json:"workflow"`
	Strategy       string  `json:"strategy"`
	Nodes          int     `json:"nodes"`
	Edges          int     `json:"edges"`
	TimeScale      float64 `json:"time_scale"`
	Workers        int     `json:"workers"`
	Slots          int     `json:"slots"`
	MakespanMs     int64   `json:"makespan_ms"`
	CriticalPathMs int64   `json:"critical_path_ms"`
	AreaMs         int64   `json:"area_ms"`
	ListMs         int64   `json:"list_ms"`
	// Ratio is the makespan over the greater bound.
	Ratio float64 `json:"ratio"`
	// LeaseMs is the average time of a lease beyond its node's runtime.
	LeaseMs float64 `json:"lease_overhead_ms"`
	// Assignments by the rule that chose the worker.
	Assignments int            `json:"assignments"`
	Reasoning   map[string]int `json:"reasoning"`
}

// Share returns the part of assignments that a rule decided, in percent.
func (r *FlowResult) Share(rule rota.ReasoningRule) float64 {
	return RoundTo(100*float64(r.Reasoning[rule.String()])/float64(max(r.Assignments, 1)), 1)
}

// EndedError reports a workflow that ended in a state other than COMPLETED.
type EndedError struct {
	Name, Strategy string
	Workflow       rota.Workflow
}

// Error implements error.
func (e *EndedError) Error() string {
	return fmt.Sprintf("workflow %s ended %s", e.Workflow.ID, e.Workflow.State)
}

// Flows runs workflows one after another, each with each strategy.
func (l *Lab) Flows(ctx context.Context, plan *FlowPlan, flows []*Flow) ([]FlowResult, error) {
	for _, s := range plan.Strategies {
		if _, err := l.Client.SetQueue(ctx, flowQueue(s), "dag",
			[]rota.Setting{{Key: "strategy", Value: s}}); err != nil {
			return nil, err
		}
	}
	reader := &reasons{c: l.Client}
	var results []FlowResult
	for _, flow := range flows {
		for _, s := range plan.Strategies {
			r, err := l.flow(ctx, reader, plan, flow, s)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", flow.name, s, err)
			}
			l.Talk("%s, %s: %d nodes in %d ms, %.2f times the bound", r.Workflow, s, r.Nodes, r.MakespanMs, r.Ratio)
			results = append(results, *r)
		}
	}
	return results, nil
}

func flowQueue(strategy string) rota.QueueName { return rota.QueueName("bench-" + strategy) }

// flow runs one workflow with new workers.
func (l *Lab) flow(ctx context.Context, reader *reasons, plan *FlowPlan, flow *Flow,
	strategy string) (*FlowResult, error) {
	run := newRun("flow")
	pool, err := l.start(ctx, run, Workers{Queues: []rota.QueueName{flowQueue(strategy)}, Count: plan.Workers,
		Slots: plan.Slots, CPUMilli: int64(plan.Slots) * 1000, Handle: Simulate}, newLedger(run, 0))
	if err != nil {
		return nil, err
	}
	defer pool.stop()
	spec := flow.spec
	spec.ID, spec.Queue, spec.Nodes = rota.WorkflowID(run), flowQueue(strategy), slices.Clone(flow.spec.Nodes)
	for i := range spec.Nodes {
		spec.Nodes[i].Queue = spec.Queue
	}
	if _, err := l.Client.SubmitWorkflow(ctx, spec); err != nil {
		return nil, err
	}
	if _, err := l.Client.WaitWorkflow(ctx, spec.ID); err != nil {
		return nil, err
	}
	w, err := l.Client.WorkflowGraph(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	if w.State != rota.WorkflowCompleted {
		return nil, &EndedError{flow.name, strategy, w}
	}
	r := &FlowResult{Workflow: flow.name, Strategy: strategy, Nodes: len(spec.Nodes), Edges: flow.graph.Edges,
		TimeScale: flow.scale, Workers: plan.Workers, Slots: plan.Slots,
		MakespanMs:     int64(w.Finished.Clock - w.Submitted.Clock),
		CriticalPathMs: flow.criticalMs, AreaMs: flow.areaMs, ListMs: flow.listMs}
	r.Ratio = RoundTo(float64(r.MakespanMs)/float64(max(r.CriticalPathMs, r.AreaMs, 1)), 1000)
	over := int64(0)
	for i := range w.Nodes {
		over += int64(w.Nodes[i].Finished.Clock - w.Nodes[i].Assigned.Clock)
	}
	for i := range spec.Nodes {
		over -= spec.Nodes[i].Simulate.Milliseconds()
	}
	r.LeaseMs = RoundTo(float64(over)/float64(len(spec.Nodes)), 10)
	r.Reasoning, r.Assignments, err = reader.of(ctx, string(spec.ID))
	return r, err
}

// reasons reads from the events which rules chose workers. Each run continues where the previous one ended.
type reasons struct {
	c     *client.Client
	after rota.EventID
}

func (r *reasons) of(ctx context.Context, run string) (rules map[string]int, assignments int, err error) {
	rules = map[string]int{}
	filter := rota.EventFilter{After: r.after, Kinds: []rota.EventKind{rota.EventJobAssigned,
		rota.EventWorkflowFinished}, Follow: true}
	for e, err := range r.c.Events(ctx, filter) {
		if err != nil {
			return rules, assignments, err
		}
		r.after = e.ID
		if e.Run != run {
			continue
		}
		if e.Kind == rota.EventWorkflowFinished {
			break
		}
		var decision struct {
			Reasoning rota.Reasoning `json:"reasoning"`
		}
		if err := json.Unmarshal([]byte(e.Payload), &decision); err != nil {
			return rules, assignments, fmt.Errorf("payload of event %s: %w", e.ID, err)
		}
		rules[decision.Reasoning.Rule.String()]++
		assignments++
	}
	return rules, assignments, nil
}
