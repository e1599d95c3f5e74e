package fsm

import (
	"crypto/sha256"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// A gate is a vertex without a job (SPEC §23.1): it waits for its parents, then for a signal or its date. When it ends
// it gets a job for a moment, like a skipped vertex, so its events, its tombstone, its record and its output are those
// of any other node.

// weighSignal adds to the bytes of signals that a workflow keeps; r is editable.
func (fs *flows) weighSignal(r *state.WorkflowRow, bytes int64) {
	r.Bytes += bytes
	fs.flowIndex.all.bytes += bytes
	fs.flowIndex.kept.bytes += bytes
}

// releaseGate starts the wait of a gate whose parents have completed.
func (fs *flows) releaseGate(f *flow, r *state.WorkflowRow, number uint32) {
	fs.dropWork(f, number)
	v, now := fs.editVertex(f, number), fs.s.Header.Now()
	g := *v.Gate
	if g.Since = now; g.Terms.Timeout > 0 {
		g.Due = now.Date + rota.Date(g.Terms.Timeout.Milliseconds())
	}
	v.Gate = &g
	r.Waiting++
	fs.s.Timers.Gate.Refile(v.Key, 0, v.GateDue())
	e := rota.Event{Kind: rota.EventGateWaiting, Job: v.Spec.ID, Node: state.VertexName(v)}
	if g.Due != 0 {
		e.Deadline = now.On(g.Due)
	}
	fs.emitFlow(r, e)
}

// stopWaiting removes a gate from those that wait, if v is one; r and v are editable.
func (fs *flows) stopWaiting(r *state.WorkflowRow, v *state.VertexRow) {
	if v.Waits() {
		fs.s.Timers.Gate.Refile(v.Key, v.GateDue(), 0)
		r.Waiting--
	}
}

// leaveGate releases what a gate holds before it ends; r and v are editable.
func (fs *flows) leaveGate(r *state.WorkflowRow, v *state.VertexRow) {
	if v.Gate == nil {
		return
	}
	fs.stopWaiting(r, v)
	fs.weighSignal(r, -v.Gate.Held())
	g := *v.Gate
	g.Payload, g.Due = nil, 0
	v.Gate = &g
}

// passGate ends a gate according to its signal; j is the job made for it, g its data.
func (fs *flows) passGate(j *state.JobRow, g *state.Gate) {
	if !g.Refuse {
		fs.completeGate(j, rota.ReasonDone, g.Payload)
		return
	}
	fs.life.own(j)
	j.LastReason, j.LastError = rota.ReasonGateRefused, state.Tail(string(g.Payload), limits.MaxErrorBytes)
	fs.life.die(j, rota.ReasonGateRefused, nil)
}

// completeGate ends a gate successfully.
func (fs *flows) completeGate(j *state.JobRow, why rota.Reason, output []byte) {
	digest := sha256.Sum256(output)
	fs.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobCompleted, Job: j.Spec.ID, Queue: j.Spec.Queue,
		Tenant: j.Spec.Tenant, Reason: why,
		Payload: fs.s.Journal.Done(digest[:], nil)})
	fs.life.finish(j, rota.JobCompleted, why, result{output: output, digest: digest[:]})
}

// fireGate ends a gate without a signal in time.
func (fs *flows) fireGate(key string) {
	v := fs.vertices.Get(key)
	f, r := fs.flowIndex.byID[v.Workflow], fs.workflows.Edit(v.Workflow)
	j := fs.makeJob(f, r, v.Number)
	if v.Gate.Terms.OnTimeout == rota.GateCompletes {
		fs.completeGate(j, rota.ReasonGateTimeout, nil)
		return
	}
	fs.life.expel(j, rota.JobExpired, rota.ReasonGateTimeout)
}

// gates checks the gates of a workflow that is not leaving.
func (c *checker) gates(f *flow, r *state.WorkflowRow) {
	for _, v := range f.rows {
		g := v.Gate
		if g == nil {
			continue
		}
		if v.Waits() && (f.waiting[v.Number] > 0 || r.State != rota.WorkflowRunning) ||
			g.Since.Clock > c.m.Header.Clock {
			c.fault("I5: gate %s waits for its signal since %d, and for %d parents", v.Spec.ID, g.Since.Clock,
				f.waiting[v.Number])
		}
		if v.State != state.VertexBlocked && (g.Held() > 0 || g.Due != 0) || g.Signal == "" &&
			(g.Held() > 0 || g.Refuse) {
			c.fault("I4: gate %s is %s and keeps %d bytes of signal %q", v.Spec.ID, v.State, g.Held(), g.Signal)
		}
	}
}
