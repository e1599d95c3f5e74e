package transport

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// webLive makes the states that HTTP viewers watch, from this node's replica.
type webLive struct{ server *Server }

const (
	// liveQueues and liveWorkers bound the queues of an overview and the workers shown, by name.
	liveQueues  = 1_000
	liveWorkers = 1_000
	// liveNodes is the largest number of nodes that a workflow is shown with.
	liveNodes = 20_000
	// liveWaits bounds the queues for which an overview shows the longest-waiting job, and why it waits.
	liveWaits = 5
)

// overview is the state of the whole cluster. It omits whatever the viewer may not see.
type overview struct {
	// Leader is the leader as this node knows it; empty if there is none.
	Leader rota.NodeID `json:"leader"`
	// APIs are the addresses at which a page can continue when this node does not answer; none if --ui-origin names one
	// for all.
	APIs    []string            `json:"apis,omitempty"`
	Cluster *rota.ClusterStatus `json:"cluster,omitempty"`
	Queues  []overviewQueue     `json:"queues"`
	// Attention is the list of concerns for an operator, worst first.
	Attention rota.Attention `json:"attention"`
	// Waits holds the longest-waiting job of each of the queues with the longest waits.
	Waits []overviewWait `json:"waits"`
	// Last holds this node's counts of the last second.
	Last *rest.Stats `json:"last,omitempty"`
}

// overviewQueue is a queue without its policy.
type overviewQueue struct {
	Name         rota.QueueName `json:"name"`
	Paused       bool           `json:"paused,omitempty"`
	Pending      int64          `json:"pending"`
	Queued       int64          `json:"queued"`
	Running      int64          `json:"running"`
	Completed    uint64         `json:"completed_total"`
	Dead         uint64         `json:"dead_total"`
	Workers      int64          `json:"workers"`
	OldestWaitMs int64          `json:"oldest_wait_ms"`
	Backpressure string         `json:"backpressure,omitempty"`
	// CompletedMinutes and FailedMinutes are the ends of the last 15 minutes, by minute; UsualWaitMs is how long the
	// oldest job usually waits. All are left out for a caller that may not read the whole queue.
	CompletedMinutes []int64 `json:"completed_minutes,omitempty"`
	FailedMinutes    []int64 `json:"failed_minutes,omitempty"`
	UsualWaitMs      int64   `json:"usual_wait_ms,omitempty"`
}

// overviewWait is the longest-waiting job of a queue: its lane, and why none of the lane is placed.
type overviewWait struct {
	Queue rota.QueueName `json:"queue"`
	rest.Lane
}

// State implements web.Live.
func (l webLive) State(ctx context.Context, kind,
	id string) (state any, parts map[string]any, at rota.Index, err error) {
	core, stale := l.server.options.Core, peer.ReadOptions{Stale: true}
	var seen rota.ReadAt
	switch kind {
	case "overview":
		state, seen, err = l.overview(ctx, stale)
	case "queue":
		state, seen, err = asAny(core.Queue(ctx, rota.QueueName(id), stale))
	case "workers":
		if !l.may(ctx, rota.RightStatus) {
			return nil, nil, 0, rota.Refusef(rota.KindDenied, rota.RightStatus.String(),
				"workers are only shown with the right to %s: ask for a role that grants it", rota.RightStatus)
		}
		var all []rota.Worker
		all, seen, err = core.Workers(ctx, stale)
		// The bound cuts off those that ended first.
		slices.SortFunc(all, func(a, b rota.Worker) int {
			return cmp.Or(order(a.Status == rota.WorkerRetired)-order(b.Status == rota.WorkerRetired),
				strings.Compare(string(a.ID), string(b.ID)))
		})
		state = map[string]any{"workers": all[:min(len(all), liveWorkers)], "count": len(all)}
	case "workflow":
		return l.workflow(ctx, rota.WorkflowID(id), stale)
	default:
		var job rota.Job
		job, seen, err = core.Job(ctx, rota.JobID(id), stale)
		job.Payload, job.Output = nil, nil
		state = job
	}
	return state, nil, seen.Index, err
}

func asAny[T any](v T, at rota.ReadAt, err error) (any, rota.ReadAt, error) { return v, at, err }

// may reports whether the caller has a right over everything, under the current rights.
func (l webLive) may(ctx context.Context, right rota.Right) bool {
	caller, _ := ctx.Value(access.CallerKey{}).(access.Caller)
	table := l.server.options.Core.Access()
	if table == nil {
		return false
	}
	rights, err := l.server.desk.rights(table, caller.Actor, l.server.today())
	return err == nil && rights.AllowEverywhere(right)
}

func (l webLive) overview(ctx context.Context, stale peer.ReadOptions) (any, rota.ReadAt, error) {
	core := l.server.options.Core
	queues, seen, err := core.Queues(ctx, stale)
	if err != nil {
		return nil, seen, err
	}
	x := surveyed{now: l.server.today(), queues: queues}
	if l.may(ctx, rota.RightRead) {
		x.recent, x.errors = core.Recent(ctx), l.may(ctx, rota.RightData)
	}
	o := overview{Queues: make([]overviewQueue, 0, len(queues))}
	for i := range queues[:min(len(queues), liveQueues)] {
		q := &queues[i]
		o.Queues = append(o.Queues, overviewQueue{Name: q.Name, Paused: q.Policy.Paused, Pending: q.Pending,
			Queued: q.Queued, Running: q.Assigned + q.Running,
			Completed: q.CompletedTotal, Dead: q.DeadTotal, Workers: q.Workers,
			OldestWaitMs: q.OldestWait.Milliseconds(), Backpressure: q.Backpressure})
		if x.recent != nil {
			r := x.recent[q.Name]
			its := &o.Queues[len(o.Queues)-1]
			its.CompletedMinutes, its.FailedMinutes, its.UsualWaitMs = r.Completed[:], r.Failed[:], r.UsualWaitMs
		}
	}
	if o.Waits, err = l.waits(ctx, o.Queues, stale); err != nil {
		return nil, seen, err
	}
	status, err := core.Status(ctx)
	if err != nil {
		return nil, seen, err
	}
	o.Leader, x.led = status.Leader, status.Leader != ""
	if l.server.options.Hosts.UI == "" {
		o.APIs = core.APIs()
	}
	if l.may(ctx, rota.RightStatus) {
		x.status, o.Cluster = &status, &status
	}
	o.Attention = x.attention()
	o.Attention.Node = l.server.options.Self
	if o.Cluster == nil {
		return o, seen, nil
	}
	figures, err := core.Stats(ctx, false)
	if err != nil {
		return nil, seen, err
	}
	figures.Samples = figures.Samples[max(0, len(figures.Samples)-1):]
	last := l.server.columns(figures)
	o.Last = &last
	return o, seen, nil
}

// waits returns the longest-waiting jobs, queues with the longest waits first.
func (l webLive) waits(ctx context.Context, queues []overviewQueue, stale peer.ReadOptions) ([]overviewWait, error) {
	longest := slices.Clone(queues)
	slices.SortStableFunc(longest, func(a, b overviewQueue) int { return cmp.Compare(b.OldestWaitMs, a.OldestWaitMs) })
	all := []overviewWait{}
	for i := range longest[:min(len(longest), liveWaits)] {
		if longest[i].Queued == 0 {
			continue
		}
		lanes, _, err := l.server.options.Core.Lanes(ctx, peer.LanesQuery{Queue: longest[i].Name, Most: 1,
			Oldest: true}, stale)
		if rota.KindOf(err) == rota.KindNotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		for j := range lanes.First {
			all = append(all, overviewWait{Queue: longest[i].Name, Lane: laneOf(&lanes.First[j])})
		}
	}
	slices.SortStableFunc(all, func(a, b overviewWait) int { return cmp.Compare(b.OldestWaitMs, a.OldestWaitMs) })
	return all, nil
}

// workflow returns a workflow, with its nodes as parts; a large one is returned without them.
func (l webLive) workflow(ctx context.Context, id rota.WorkflowID,
	stale peer.ReadOptions) (any, map[string]any, rota.Index, error) {
	core := l.server.options.Core
	w, seen, err := core.Workflow(ctx, id, false, stale)
	if err == nil && w.NodeCount <= liveNodes {
		w, seen, err = core.Workflow(ctx, id, true, stale)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	parts := make(map[string]any, len(w.Nodes))
	for i := range w.Nodes {
		parts[w.Nodes[i].ID] = w.Nodes[i]
	}
	w.Nodes = nil
	return w, parts, seen.Index, nil
}

// webStats returns the core's Stats for HTTP.
func (s *Server) webStats(ctx context.Context, coarse bool) (rest.Stats, error) {
	figures, err := s.options.Core.Stats(ctx, coarse)
	return s.columns(figures), err
}

// columns converts samples to one column per figure.
func (s *Server) columns(figures peer.Stats) rest.Stats {
	column := func(of func(*peer.Sample) int64) []int64 {
		list := make([]int64, len(figures.Samples))
		for i := range figures.Samples {
			list[i] = of(&figures.Samples[i])
		}
		return list
	}
	return rest.Stats{Node: string(s.options.Self), StepMs: figures.Step.Milliseconds(),
		DateMs:     column(func(x *peer.Sample) int64 { return int64(x.Date) }),
		Submitted:  column(func(x *peer.Sample) int64 { return x.Submitted }),
		Started:    column(func(x *peer.Sample) int64 { return x.Started }),
		Completed:  column(func(x *peer.Sample) int64 { return x.Completed }),
		Dead:       column(func(x *peer.Sample) int64 { return x.Dead }),
		Expired:    column(func(x *peer.Sample) int64 { return x.Expired }),
		Cancelled:  column(func(x *peer.Sample) int64 { return x.Cancelled }),
		Retried:    column(func(x *peer.Sample) int64 { return x.Retried }),
		LeasesLost: column(func(x *peer.Sample) int64 { return x.LeasesLost }),
		Pending:    column(func(x *peer.Sample) int64 { return x.Pending }),
		Running:    column(func(x *peer.Sample) int64 { return x.Running }),
		Workers:    column(func(x *peer.Sample) int64 { return x.Workers }),
		StateBytes: column(func(x *peer.Sample) int64 { return x.StateBytes }),
		Index:      column(func(x *peer.Sample) int64 { return int64(x.Index) }),
		CommitUs:   column(func(x *peer.Sample) int64 { return x.Commit.Microseconds() }),
	}
}

// Class implements web.Visit: it names what the caller may read under the current rights.
func (v *stay) Class() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	table := v.server.options.Core.Access()
	if table == v.table && v.class != "" {
		return v.class
	}
	v.table, v.class = table, "nothing"
	if table == nil {
		return v.class
	}
	if rights, err := v.server.desk.rights(table, v.pass.caller.Actor, v.server.today()); err == nil {
		v.class = rights.Key()
	}
	return v.class
}
