package fsm

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// flowModel is the naive second implementation of one workflow: states by node, and every rule of SPEC §11 as a walk
// over all nodes, repeated until nothing changes. Its workflows are small, so that each entry settles everything.
type flowModel struct {
	policy   rota.FailurePolicy
	attempts int32
	nodes    []modelNode
	state    rota.WorkflowState
	ending   rota.WorkflowState
	was      rota.WorkflowState
	failed   bool
	runs     int32
	began    rota.Clock
}

// modelNode is Blocked, Queued, Running (leased) or how it ended.
type modelNode struct {
	parents []uint32
	state   rota.NodeState
	ttl     rota.Clock
	attempt int32
	lease   rota.Lease
	// losses are the sessions that were lost while running it since it became QUEUED.
	losses []rota.Session
	// gate is nil unless it is a gate; waits reports that it waits for its signal, and since when; signal is the one
	// that counts.
	gate   *rota.Gate
	waits  bool
	since  rota.Clock
	signal string
	// by is one more than the node that grew it; joins reports that nodes that wait for that one wait for this one too.
	by    int
	joins bool
	// ran is set once it COMPLETED in this run or before.
	ran int
	// run is when it runs; unneeded reports that it was skipped because the nodes for which it waited did not fail.
	run      rota.NodeRun
	unneeded bool
}

const (
	mBlocked = rota.NodeState(rota.JobBlocked)
	mQueued  = rota.NodeState(rota.JobQueued)
	mLeased  = rota.NodeState(rota.JobRunning)
	mDone    = rota.NodeState(rota.JobCompleted)
	mDead    = rota.NodeState(rota.JobDead)
	mExpired = rota.NodeState(rota.JobExpired)
	mGone    = rota.NodeState(rota.JobCancelled)
)

// settle applies all rules until nothing changes.
func (m *flowModel) settle(now rota.Clock) {
	for changed := true; changed && m.state == rota.WorkflowRunning; {
		changed = false
		left := 0
		for i := range m.nodes {
			n := &m.nodes[i]
			was := n.state
			switch {
			case n.state > mDone || n.state == mDone:
				continue
			case m.ends(n) && (n.state != mLeased || m.ending == rota.WorkflowCancelled):
				n.state = mGone
			case !m.ends(n) && n.state == mBlocked && !n.waits:
				if n.state = m.unblocked(n); n.state == mQueued && n.gate != nil {
					m.pass(n, now)
					break
				}
				if n.state == mQueued && n.ttl > 0 && m.began+n.ttl <= now {
					m.fails(n, mExpired) // it waited longer than its time to live
				}
			}
			changed = changed || n.state != was
			if n.state < mDone {
				left++
			}
		}
		if left == 0 {
			m.finish()
		}
	}
}

// pass starts the wait of a gate whose parents have completed, or ends it by its signal: an even one refuses.
func (m *flowModel) pass(n *modelNode, now rota.Clock) {
	switch n.signal {
	case "":
		n.state, n.waits, n.since = mBlocked, true, now
	case "s0":
		m.fails(n, mDead)
	default:
		n.state = mDone
	}
}

// signal reports whether a signal must be accepted.
func (m *flowModel) signal(n *modelNode, id string) bool {
	switch {
	case n.gate == nil || n.signal != "" && n.signal != id:
		return false
	case n.signal == id:
		return true
	case n.state >= mDone || m.state != rota.WorkflowRunning || m.ending != rota.WorkflowNone:
		return false
	}
	n.signal, n.waits = id, false
	return true
}

// ends reports whether a node ends when its workflow does.
func (m *flowModel) ends(n *modelNode) bool {
	return m.ending != rota.WorkflowNone && n.run != rota.RunAlways &&
		(n.run != rota.RunOnFailure || m.ending != rota.WorkflowFailed)
}

func (m *flowModel) unblocked(n *modelNode) rota.NodeState {
	ready, over, lost, failed := true, true, false, false
	for p := range m.nodes {
		if !m.waits(n, p) {
			continue
		}
		x := &m.nodes[p]
		ready, over = ready && x.state == mDone, over && x.state >= mDone
		lost = lost || x.state > mDone && (m.policy == rota.FailureContinue || x.unneeded)
		failed = failed || x.state > mDone && !x.unneeded
	}
	switch {
	case n.run == rota.RunOnSuccess && lost, n.run == rota.RunOnFailure && over && !failed:
		n.unneeded = !failed
		return rota.NodeSkipped
	case n.run != rota.RunOnSuccess:
		ready = over
	}
	if ready {
		n.attempt, n.losses = 0, nil
		return mQueued
	}
	return mBlocked
}

// waits reports whether a node waits for another: a parent, or one that joins a node for which it waits.
func (m *flowModel) waits(n *modelNode, on int) bool {
	if slices.Contains(n.parents, uint32(on)) && n.by != on+1 {
		return true
	}
	x := &m.nodes[on]
	return x.joins && m.waits(n, x.by-1)
}

func (m *flowModel) finish() {
	all := true
	for _, n := range m.nodes {
		all = all && (n.state == mDone || n.unneeded)
	}
	switch {
	case all:
		m.state = rota.WorkflowCompleted
	case m.ending != rota.WorkflowNone:
		m.state = m.ending
	case m.failed:
		m.state = rota.WorkflowFailed
	default:
		m.state = m.was
	}
	m.ending = rota.WorkflowNone
	m.failed = m.failed || m.state == rota.WorkflowFailed // it names a node, of an earlier run too
}

// fails ends a node without success.
func (m *flowModel) fails(n *modelNode, as rota.NodeState) {
	n.state, m.failed = as, true
	if m.policy == rota.FailureFailFast && m.ending == rota.WorkflowNone {
		m.ending = rota.WorkflowFailed
	}
}

// lost ends an attempt that did not complete.
func (m *flowModel) lost(n *modelNode, counted bool) {
	switch {
	case counted && n.attempt+1 >= m.attempts:
		m.fails(n, mDead)
		return
	case m.ends(n):
		n.state = mGone
		return
	case counted:
		n.attempt++
	}
	n.state = mQueued
}

// sweepLeases ends the leases that are due, by their deadline. One that a takeover revoked is a lost worker (SPEC
// §9.7).
func (r *flowRace) sweepLeases() {
	type dueNode struct {
		m *flowModel
		*modelNode
	}
	var due []dueNode
	for _, m := range r.models {
		for i := range m.nodes {
			if n := &m.nodes[i]; n.state == mLeased && n.lease.Deadline.Clock <= r.b.now {
				due = append(due, dueNode{m, n})
			}
		}
	}
	slices.SortFunc(due, func(a, b dueNode) int {
		return cmp.Or(cmp.Compare(a.lease.Deadline.Clock, b.lease.Deadline.Clock),
			bytes.Compare(a.lease.ID[:], b.lease.ID[:]))
	})
	for _, d := range due {
		a, _ := r.b.View.Assignment(d.lease.ID)
		if a.Lease.Revoked != rota.ReasonTakenOver {
			d.m.lost(d.modelNode, a.Lease.Revoked == rota.ReasonNone)
			continue
		}
		if d.losses = append(d.losses, d.lease.Session); len(d.losses) < 3 {
			d.m.lost(d.modelNode, false)
			continue
		}
		d.m.fails(d.modelNode, mDead)
		for _, m := range r.models {
			for i := range m.nodes {
				if n := &m.nodes[i]; n != d.modelNode {
					n.losses = slices.DeleteFunc(n.losses, func(s rota.Session) bool {
						return slices.Contains(d.losses, s)
					})
				}
			}
		}
	}
}

// sweep ends everything else that is due: times to live, then waiting gates.
func (m *flowModel) sweep(now rota.Clock) {
	for i := range m.nodes {
		if n := &m.nodes[i]; (n.state == mQueued || n.state == mLeased) && n.ttl > 0 && m.began+n.ttl <= now {
			m.fails(n, mExpired)
		}
	}
	for i := range m.nodes {
		n := &m.nodes[i]
		if n.state != mBlocked || !n.waits || n.gate.Timeout == 0 ||
			n.since+rota.Clock(n.gate.Timeout.Milliseconds()) > now {
			continue
		}
		if n.gate.OnTimeout == rota.GateCompletes {
			n.state = mDone
		} else {
			m.fails(n, mExpired)
		}
	}
}

// retry reports whether it must be accepted.
func (m *flowModel) retry(from int, runs int32, now rota.Clock) bool {
	if runs != m.runs {
		return runs < m.runs
	}
	if m.state != rota.WorkflowFailed && m.state != rota.WorkflowCancelled {
		return false
	}
	again := make(map[int]bool)
	if from < 0 {
		for i := range m.nodes {
			again[i] = true
		}
	} else {
		m.descend(from, again)
	}
	for changed := true; changed; { // and the nodes for which those wait
		changed = false
		for i := range m.nodes {
			for p := range m.nodes {
				if again[i] && m.nodes[i].state != mDone && !again[p] && m.waits(&m.nodes[i], p) {
					again[p], changed = true, true
				}
			}
		}
	}
	left := false
	for i := range again {
		left = left || m.nodes[i].state != mDone
	}
	if !left {
		return false
	}
	for i := range again {
		if m.nodes[i].state != mDone {
			m.nodes[i].state, m.nodes[i].waits, m.nodes[i].signal, m.nodes[i].unneeded = mBlocked, false, "", false
		}
	}
	m.was, m.state, m.ending, m.failed, m.began = m.state, rota.WorkflowRunning, rota.WorkflowNone, false, now
	m.runs++
	return true
}

func (m *flowModel) descend(from int, into map[int]bool) {
	into[from] = true
	for i := range m.nodes {
		if !into[i] && (m.waits(&m.nodes[i], from) || m.nodes[i].by == from+1) {
			m.descend(i, into)
		}
	}
}

// TestWorkflowModel runs random graphs through random lives, compared with the model and with the invariants of events:
// no node starts before all its parents have completed, none completes twice, and each run begins and ends once. A
// restored machine runs in parallel (see bench), so that derived data is derived alike.
func TestWorkflowModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		r := &flowRace{T: rt, b: newBench(rt), chance: rand.New(rand.NewPCG(seed, 5))}
		r.b.every = 4
		r.b.ok(switchOp(2))
		r.b.watchMoves()
		r.b.ok(queueOp("default", "lease_ms", "20000", "ack_timeout_ms", "20000", "attempt_max", "2", "backoff_base_ms",
			"0", "starvation_interleave", "0", "oldest_every", "0", "hold_after", "0",
			"ranking", []string{"aging", "fifo", "adaptive"}[r.chance.IntN(3)],
			"strategy", []string{"affinity", "shuffle"}[r.chance.IntN(2)]))
		for i := range 1 + r.chance.IntN(3) {
			r.begin(i)
		}
		for range rapid.IntRange(1, 150).Draw(rt, "steps") + 30 {
			r.step()
			r.compare()
		}
		r.b.sound()
	})
}

type flowRace struct {
	*rapid.T
	b      *bench
	chance *rand.Rand
	flows  []*dag
	models []*flowModel
	// done counts the reported completions of nodes; running holds whether each run is in progress.
	done    map[rota.JobID]int
	running map[string]bool
}

func (r *flowRace) begin(i int) {
	nodes := 1 + r.chance.IntN(12)
	parents := make([][]uint32, nodes)
	for n := range parents {
		for p := range n {
			if r.chance.IntN(3) == 0 {
				parents[n] = append(parents[n], uint32(p))
			}
		}
	}
	d := newDAG(fmt.Sprint("wf", i), parents, func(d *dag) {
		d.OnFailure = rota.FailurePolicy(r.chance.IntN(2))
		for n := range d.Nodes {
			d.Nodes[n].Priority = int32(r.chance.IntN(11))
			if r.chance.IntN(6) == 0 {
				d.Nodes[n].TTL = millis.Duration(int64(1 + r.chance.IntN(30_000)))
			}
			if r.chance.IntN(4) == 0 {
				terms := rota.Gate{OnTimeout: rota.GateTimeout(r.chance.IntN(2))}
				if r.chance.IntN(2) == 0 {
					terms.Timeout = millis.Duration(int64(1 + r.chance.IntN(20_000)))
				}
				gateAt(n, terms)(d)
			} else if r.chance.IntN(4) == 0 {
				d.Nodes[n].Run = rota.NodeRun(1 + r.chance.IntN(2))
			}
		}
	})
	m := &flowModel{policy: d.OnFailure, attempts: 2, state: rota.WorkflowRunning, runs: 1, began: r.b.now}
	for n, list := range parents {
		m.nodes = append(m.nodes, modelNode{parents: list, state: mBlocked,
			ttl: rota.Clock(d.Nodes[n].TTL.Milliseconds()), gate: d.Nodes[n].Gate, run: d.Nodes[n].Run})
	}
	if r.done == nil {
		r.done, r.running = make(map[rota.JobID]int), make(map[string]bool)
	}
	r.flows, r.models = append(r.flows, d), append(r.models, m)
	r.b.upload(d)
	r.apply(true, d.commit())
}

// apply applies an operation; taken is whether the model accepts it.
func (r *flowRace) apply(taken bool, ops ...*fsmpb.Op) Applied {
	r.Helper()
	a := r.b.entry(ops...)
	if got := entry.OutcomeError(a.Outcomes[0]); (got == nil) != taken {
		r.Fatalf("%v: accepted is %v, want %v as in the model (%v)", ops[0], got == nil, taken, got)
	}
	r.watch(a.Events)
	for _, m := range r.models {
		m.settle(r.b.Header.Clock)
	}
	return a
}

// watch checks invariants of events alone.
func (r *flowRace) watch(events []rota.Event) {
	for _, e := range events {
		switch e.Kind {
		case rota.EventWorkflowStarted, rota.EventWorkflowFinished:
			if begins := e.Kind == rota.EventWorkflowStarted; r.running[e.Run] == begins {
				r.Fatalf("%s of %s, which already runs: %v", e.Kind, e.Run, r.running[e.Run])
			}
			r.running[e.Run] = !r.running[e.Run]
		case rota.EventJobEnqueued, rota.EventJobAssigned, rota.EventJobCompleted:
			var w, n int
			if _, err := fmt.Sscanf(string(e.Job), "wf%d/n%d", &w, &n); err != nil {
				r.Fatalf("%s of job %s", e.Kind, e.Job)
			}
			for p := range r.models[w].nodes {
				if x := &r.models[w].nodes[n]; x.run == rota.RunOnSuccess && r.models[w].waits(x, p) &&
					r.done[rota.NodeJobID(r.flows[w].ID, fmt.Sprint("n", p))] != 1 {
					r.Fatalf("%s of %s before n%d completed, for which it waits", e.Kind, e.Job, p)
				}
			}
			if e.Kind == rota.EventJobCompleted {
				if r.done[e.Job]++; r.done[e.Job] > 1 {
					r.Fatalf("%s completed twice", e.Job)
				}
			}
			if !r.running[e.Run] || e.Run != string(r.flows[w].ID) {
				r.Fatalf("%s of %s in run %q", e.Kind, e.Job, e.Run)
			}
		}
	}
}

func (r *flowRace) step() {
	w := r.chance.IntN(len(r.flows))
	d, m := r.flows[w], r.models[w]
	n := r.chance.IntN(len(m.nodes))
	node := &m.nodes[n]
	switch k := r.chance.IntN(28); {
	case k < 2:
		r.apply(true, registerOp("w", int32(1+r.chance.IntN(6)), fmt.Sprint(r.chance.IntN(2)), true))
		for _, m := range r.models {
			for i := range m.nodes {
				if x := &m.nodes[i]; x.state == mLeased && !r.open(x) {
					r.Fatal("a takeover revokes, and must not end")
				}
			}
		}
	case k < 9:
		if rounds := r.b.View.Decide(1000); len(rounds) > 0 {
			for _, e := range r.apply(true, opsOf(rounds)...).Events {
				if e.Kind == rota.EventJobAssigned {
					var w, n int
					_, _ = fmt.Sscanf(string(e.Job), "wf%d/n%d", &w, &n)
					a, _ := r.b.View.Assignment(e.Lease)
					x := &r.models[w].nodes[n]
					if x.state != mQueued {
						r.Fatalf("job %s is assigned, want %s as in the model", e.Job, x.state)
					}
					x.state, x.lease = mLeased, a.Lease
				}
			}
		}
	case k < 18:
		r.verb(m, node)
	case k < 19:
		taken := node.state < mDone || node.state == mGone || node.state == rota.NodeSkipped
		if node.state < mDone {
			m.fails(node, mGone)
		}
		r.apply(taken, cancelOp(string(rota.NodeJobID(d.ID, fmt.Sprint("n", n)))))
	case k < 20:
		taken := m.state == rota.WorkflowRunning || m.state == rota.WorkflowCancelled
		if r.chance.IntN(2) == 0 {
			if m.state == rota.WorkflowRunning {
				m.ending = rota.WorkflowCancelled
			}
			r.apply(taken, d.cancel())
		}
	case k < 22:
		from, name := -1, ""
		if r.chance.IntN(2) == 0 {
			from, name = n, fmt.Sprint("n", n)
		}
		runs := m.runs + int32(r.chance.IntN(8)/6) - int32(r.chance.IntN(8)/6)
		r.apply(m.retry(from, runs, r.b.now), d.retry(name, runs))
	case k < 26:
		id := fmt.Sprint("s", r.chance.IntN(3))
		op := d.signal(fmt.Sprint("n", n), id, id)
		if id == "s0" {
			op = d.refuse(fmt.Sprint("n", n), id, id)
		}
		r.apply(m.signal(node, id), op)
	default:
		for range 1 + r.chance.IntN(25) {
			r.b.now += 1000
			r.sweepLeases()
			for _, m := range r.models {
				m.sweep(r.b.now)
			}
			r.apply(true, sweepOp())
		}
	}
}

func (r *flowRace) open(n *modelNode) bool {
	_, ok := r.b.View.Assignment(n.lease.ID)
	return ok
}

// verb sends a verb on an open lease, mostly a completion.
func (r *flowRace) verb(m *flowModel, n *modelNode) {
	if n.state != mLeased {
		return
	}
	a, _ := r.b.View.Assignment(n.lease.ID)
	c := peer.LeaseCommand{Lease: a.Lease.ID, Job: a.Lease.Job, Worker: a.Lease.Worker, Session: a.Lease.Session}
	if s, _ := r.b.View.Session("w"); s != c.Session || a.Lease.Revoked != rota.ReasonNone {
		c.Verb = rota.VerbDecline // confirms that the old process has stopped
		m.lost(n, false)
		r.apply(true, entry.LeaseCommandOp(&c))
		return
	}
	switch r.chance.IntN(8) {
	case 0:
		c.Verb = rota.VerbFail
		m.lost(n, true)
	case 1:
		c.Verb, c.Fail = rota.VerbFail, peer.FailNoRetry
		m.fails(n, mDead)
	case 2:
		c.Verb = rota.VerbDecline
		m.lost(n, false)
	default:
		c.Verb = rota.VerbComplete
		n.state = mDone
		if r.chance.IntN(3) == 0 && len(m.nodes) < 30 {
			c.Growth = r.grow(m, slices.IndexFunc(m.nodes, func(x modelNode) bool {
				return x.state == mDone && x.lease.ID == c.Lease
			}))
		}
	}
	r.apply(true, entry.LeaseCommandOp(&c))
}

// grow draws children for a node that completes, and adds them to its model.
func (r *flowRace) grow(m *flowModel, by int) *rota.Growth {
	g := &rota.Growth{Detached: r.chance.IntN(4) == 0}
	first, name := len(m.nodes), func(n int) string { return fmt.Sprint("n", n) }
	inner := make(map[uint32]bool)
	var more []modelNode
	for i := range 1 + r.chance.IntN(4) {
		node := rota.NewNodeSpec(name(first+i), "work", nil)
		x := modelNode{state: mBlocked, by: by + 1}
		for p := first - 1; p < first+i; p++ {
			if at := uint32(p); r.chance.IntN(2) == 0 {
				if p == first-1 {
					at = uint32(by)
				}
				node.Parents, x.parents = append(node.Parents, name(int(at))), append(x.parents, at)
				inner[at] = true
			}
		}
		if r.chance.IntN(5) == 0 {
			x.run = rota.NodeRun(r.chance.IntN(3))
			node.Run = x.run
		} else if r.chance.IntN(5) == 0 {
			node.Gate, x.gate, node.JobSpec = &rota.Gate{}, &rota.Gate{}, rota.JobSpec{Priority: rota.DefaultPriority}
		}
		if x.parents == nil {
			x.parents = []uint32{uint32(by)}
		}
		g.Children, more = append(g.Children, node), append(more, x)
	}
	if m.ending != rota.WorkflowNone {
		return g // they are dropped
	}
	for i := range more {
		more[i].joins = !g.Detached && !inner[uint32(first+i)]
	}
	m.nodes = append(m.nodes, more...)
	return g
}

func (r *flowRace) compare() {
	for w, m := range r.models {
		row := r.b.flows.workflows.Get(r.flows[w].ID)
		if row.State != m.state || row.Runs != m.runs || row.Ending != m.ending ||
			(row.Reason != rota.ReasonNone) != m.failed {
			r.Fatalf("workflow %s is %s, ending %s, in run %d; want %s, %s, %d as in the model", row.ID, row.State,
				row.Ending, row.Runs, m.state, m.ending, m.runs)
		}
		for i := range m.nodes {
			v := r.b.flows.vertices.Get(state.VertexKey(row.ID, uint32(i)))
			got := v.State
			if j := r.b.JobTable.Get(v.Spec.ID); j != nil {
				if !slices.Equal(j.History().Losses, m.nodes[i].losses) {
					r.Fatalf("node %d of workflow %s lost the sessions %v, want %v as in the model", i, row.ID,
						j.History().Losses, m.nodes[i].losses)
				}
				if got = mQueued; j.State.Leased() {
					got = mLeased
				}
			}
			if got != m.nodes[i].state || v.Waits() != (m.nodes[i].waits && got == mBlocked) {
				r.Fatalf("node %d of workflow %s is %s, want %s as in the model (%s)", i, row.ID, got, m.nodes[i].state,
					r.b.progress(row.ID))
			}
		}
		if r.running[string(row.ID)] != (row.State == rota.WorkflowRunning) {
			r.Fatalf("workflow %s is %s, its events report that it runs: %v", row.ID, row.State,
				r.running[string(row.ID)])
		}
	}
}
