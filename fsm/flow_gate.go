package fsm

import (
	"crypto/sha256"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// A gate is a vertex without a job (SPEC §23.1): blocked for its parents, then for a signal or
// its date. What ends it makes a job for a moment, as of a vertex that is skipped: so its
// events, its tombstone, its record and its output are those of any other node's.

// weighSignal counts what a signal keeps in a workflow; r is editable.
func (fs *flows) weighSignal(r *workflowRow, bytes int64) {
	r.bytes += bytes
	fs.flowIndex.all.bytes += bytes
	fs.flowIndex.kept.bytes += bytes
}

// releaseGate lets a gate wait whose parents have completed.
func (fs *flows) releaseGate(f *flow, r *workflowRow, number uint32) {
	fs.dropWork(f, number)
	v, now := fs.editVertex(f, number), fs.s.head.now()
	g := *v.gate
	if g.since = now; g.terms.Timeout > 0 {
		g.due = now.Date + rota.Date(g.terms.Timeout.Milliseconds())
	}
	v.gate = &g
	r.waiting++
	fs.s.timers.gate.set(v.key, 0, v.gateDue())
	e := rota.Event{Kind: rota.EventGateWaiting, Job: v.spec.ID, Node: vertexName(v)}
	if g.due != 0 {
		e.Deadline = now.On(g.due)
	}
	fs.emitFlow(r, e)
}

// stopWaiting takes a gate from those that wait, where it is one; r and v are editable.
func (fs *flows) stopWaiting(r *workflowRow, v *vertexRow) {
	if v.waits() {
		fs.s.timers.gate.set(v.key, v.gateDue(), 0)
		r.waiting--
	}
}

// leaveGate releases what a gate holds that is about to end; r and v are editable.
func (fs *flows) leaveGate(r *workflowRow, v *vertexRow) {
	if v.gate == nil {
		return
	}
	fs.stopWaiting(r, v)
	fs.weighSignal(r, -v.gate.held())
	g := *v.gate
	g.payload, g.due = nil, 0
	v.gate = &g
}

// passGate ends a gate as its signal says; j is the job that was made of it, g what it had.
func (fs *flows) passGate(j *jobRow, g *gate) {
	if !g.refuse {
		fs.completeGate(j, rota.ReasonDone, g.payload)
		return
	}
	fs.life.own(j)
	j.lastReason, j.lastError = rota.ReasonGateRefused, tail(string(g.payload), limits.MaxErrorBytes)
	fs.life.die(j, rota.ReasonGateRefused)
}

// completeGate ends a gate well.
func (fs *flows) completeGate(j *jobRow, why rota.Reason, output []byte) {
	digest := sha256.Sum256(output)
	fs.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobCompleted, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Reason: why,
		Payload: fs.s.journal.done(digest[:])})
	fs.life.finish(j, rota.JobCompleted, why, result{output: output, digest: digest[:]})
}

// fireGate ends a gate that nobody signalled in time.
func (fs *flows) fireGate(key string) {
	v := fs.vertices.get(key)
	f, r := fs.flowIndex.byID[v.workflow], fs.workflows.edit(v.workflow)
	j := fs.makeJob(f, r, v.number)
	if v.gate.terms.OnTimeout == rota.GateCompletes {
		fs.completeGate(j, rota.ReasonGateTimeout, nil)
		return
	}
	fs.life.expel(j, rota.JobExpired, rota.ReasonGateTimeout)
}

// gates checks the gates of a workflow that is kept.
func (c *checker) gates(f *flow, r *workflowRow) {
	for _, v := range f.rows {
		g := v.gate
		if g == nil {
			continue
		}
		if v.waits() && (f.waiting[v.number] > 0 || r.state != rota.WorkflowRunning) || g.since.Clock > c.m.head.clock {
			c.fault("I5: gate %s waits for its signal since %d, and for %d parents", v.spec.ID, g.since.Clock, f.waiting[v.number])
		}
		if v.state != vertexBlocked && (g.held() > 0 || g.due != 0) || g.signal == "" && (g.held() > 0 || g.refuse) {
			c.fault("I4: gate %s is %s and keeps %d bytes of signal %q", v.spec.ID, v.state, g.held(), g.signal)
		}
	}
}
