package fsm

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/budgets"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// flowIndex is the derived data of workflows (SPEC §11).
type flowIndex struct {
	// byID holds every workflow that is not leaving.
	byID map[rota.WorkflowID]*flow
	// ready are the RUNNING workflows with vertices to release or to skip, passing those with a pass in progress,
	// leaving those whose rows are being dropped; all in the order in which they were opened.
	ready, passing btree.Map[uint64, *flow]
	leaving        btree.Map[uint64, rota.WorkflowID]
	// all counts the content of every row, kept that of the rows that are not leaving, over the part of kept that has
	// ended: these are dropped for new ones.
	all, kept, over flowSize
	// attempts counts the attempts that vertices keep.
	attempts int
	// steps and looks bound the work of one entry on workflows: MaxFlowSteps and the looks of passes, except in tests.
	steps, looks int
	// spent counts what the operations of the current entry looked at: see spend.
	spent int
}

// flowSize is the quantity that the caps on all workflows bound. A workflow counts with the nodes that it announced, so
// that there is room for everything admitted.
type flowSize struct{ workflows, vertices, bytes int64 }

func (s *flowSize) add(r *state.WorkflowRow, by int64) {
	s.workflows += by
	s.vertices += by * int64(r.Nodes)
	s.bytes += by * (r.Bytes + edgeBytes*int64(r.Edges))
}

// edgeBytes is the memory of an edge: its two ends, with the spare capacity of lists. An announced edge has reserved
// room, as nodes have.
const edgeBytes = 10

// flow is the derived data of one workflow.
type flow struct {
	id  rota.WorkflowID
	seq uint64
	// rows are the vertices by number, as they are in the table now.
	rows []*state.VertexRow
	// children are the numbers of the vertices that wait for a vertex, ascending.
	children [][]uint32
	// sprouts are indexed by the number of the vertex that grew them.
	sprouts map[uint32]*sprouts
	// waiting counts a vertex's parents that are not through; lost counts those that ended otherwise or grew one that
	// did: the counters of SPEC §11.2. They are kept for all vertices, whatever their state.
	waiting, lost []uint32
	// open counts a vertex's parents that are not settled: a node that runs on failure, or always, waits for their end.
	// conditional reports whether there is such a node.
	open        []uint32
	conditional bool
	// byName maps node names to numbers.
	byName map[string]uint32
	// work are the vertices that can be released, as they wait for no parent, or that, under continue, must be skipped:
	// see due.
	work btree.Set[uint32]
	// redo marks what a retry from a node takes back; nil means everything that did not COMPLETE.
	redo []bool
	// queues are the queues of its nodes in order of first use, and queueAt their indexes; urgent is the least priority
	// of a root.
	queues  []flowQueue
	queueAt map[rota.QueueName]int
	urgent  int32
	// kinds are the classes of its nodes in order of first use. holds are those classes as counted by the supply, one
	// user each, while the workflow is OPEN or RUNNING, else nil: this ensures room for them when its nodes are
	// released.
	kinds []kind
	holds map[sched.ClassID]bool
	// outputs is the result of data for the vertex of its last call; outputsOf are that vertex's parents.
	outputs   *sched.Data
	outputsOf []uint32
}

// flowQueue counts a workflow's nodes in a queue, and how many of them COMPLETED.
type flowQueue struct {
	name             rota.QueueName
	nodes, completed int64
}

func (f *flowIndex) reset() {
	*f = flowIndex{byID: make(map[rota.WorkflowID]*flow), steps: limits.MaxFlowSteps,
		looks: looksPerStep * limits.MaxFlowSteps}
}

// flowLooks bounds the vertices, edges, queues and classes that the operations of one entry look at to commit or retry
// workflows. A single operation may look at more.
const flowLooks = 1 << 17

// spend charges an operation's planned looks against the entry's limit. Otherwise an entry full of refused retries of a
// large workflow would delay the cluster for seconds.
func (f *flowIndex) spend(looks int) error {
	if f.spent > 0 && f.spent+looks > flowLooks {
		e := refuse.Exhausted(manyAtOnce, "many workflows are committed or retried in this moment: try again at once")
		e.(*rota.Error).RetryAfter = 50 * time.Millisecond
		return e
	}
	f.spent += looks
	return nil
}

// manyAtOnce is the subject of a refusal after which a node may try again by itself.
const manyAtOnce = "workflows_at_once"

// pending reports whether workflows have work for the next entries.
func (f *flowIndex) pending() bool { return f.ready.Len()+f.passing.Len()+f.leaving.Len() > 0 }

func newFlow(r *state.WorkflowRow) *flow {
	return &flow{id: r.ID, seq: r.Seq, byName: make(map[string]uint32, min(r.Nodes, limits.MaxChunkNodes)),
		queueAt: make(map[rota.QueueName]int), holds: make(map[sched.ClassID]bool), urgent: rota.MaxPriority}
}

// append adds the next vertex, with counters for which no parent has ended.
func (f *flow) append(v *state.VertexRow) {
	f.rows = append(f.rows, v)
	f.children = append(f.children, nil)
	f.waiting = append(f.waiting, 0)
	f.lost = append(f.lost, 0)
	f.byName[state.VertexName(v)] = v.Number
	for _, p := range v.Parents {
		if v.Awaits(p) {
			f.children[p] = append(f.children[p], v.Number)
			f.waiting[v.Number]++
		}
	}
	f.open = append(f.open, f.waiting[v.Number])
	f.conditional = f.conditional || v.Run != rota.RunOnSuccess
	f.note(v)
	if len(v.Parents) == 0 {
		f.urgent = min(f.urgent, v.Spec.Priority)
	}
	at, known := f.queueAt[v.Spec.Queue]
	if !known {
		at = len(f.queues)
		f.queueAt[v.Spec.Queue] = at
		f.queues = append(f.queues, flowQueue{name: v.Spec.Queue})
	}
	f.queues[at].nodes++
}

// due reports whether a vertex of a workflow that is not ending belongs in work.
func (f *flow) due(r *state.WorkflowRow, v *state.VertexRow) bool {
	if v.Run != rota.RunOnSuccess {
		return v.State == state.VertexBlocked && f.open[v.Number] == 0
	}
	free := (f.waiting[v.Number] == 0 || planted.childEarly(f, v.Number)) && !v.Waits()
	return v.State == state.VertexBlocked && (free || (r.Policy == rota.FailureContinue || f.conditional) &&
		f.lost[v.Number] > 0)
}

// vertex returns a node's vertex by the id of its job; nil if there is none, or if its workflow is not committed.
func (fs *flows) vertex(job rota.JobID) (*flow, *state.VertexRow) {
	id, name, ok := rota.SplitNodeJobID(job)
	f := fs.flowIndex.byID[id]
	if !ok || f == nil || fs.workflows.Get(id).State == rota.WorkflowOpen {
		return nil, nil
	}
	number, ok := f.byName[name]
	if !ok {
		return nil, nil
	}
	return f, f.rows[number]
}

// editVertex returns a vertex to edit.
func (fs *flows) editVertex(f *flow, number uint32) *state.VertexRow {
	v := f.rows[number]
	if v.Gen() != fs.s.Ledger.Gen {
		v = fs.vertices.Edit(state.VertexKey(f.id, number))
		f.rows[number] = v
	}
	return v
}

// addWork adds a vertex to the work set if it belongs there.
func (fs *flows) addWork(f *flow, r *state.WorkflowRow, number uint32) {
	v := f.rows[number]
	if r.State != rota.WorkflowRunning || r.Ending != rota.WorkflowNone && !v.Outlives(r.Ending) || !f.due(r, v) {
		return
	}
	f.work.Insert(number)
	if !f.held(r) {
		fs.flowIndex.ready.Set(f.seq, f)
	}
}

// held reports whether a workflow releases nothing: among grown vertices, what a retry takes back may be awaited by
// vertices before it.
func (f *flow) held(r *state.WorkflowRow) bool { return r.Redo && len(f.sprouts) > 0 }

// dropWork removes a vertex from the work set.
func (fs *flows) dropWork(f *flow, number uint32) {
	f.work.Delete(number)
	if f.work.Len() == 0 {
		fs.flowIndex.ready.Delete(f.seq)
	}
}

// settleFlows does, at the end of an entry, a bounded part of the work of workflows: passes over those that end, are
// retried or leave; then releases and skips, oldest workflow first, by number. If both have work each gets half of the
// room, so that neither delays the other for long. Ended workflows leave records for the archive, which is behind by at
// least one entry, so their bytes are bounded too.
func (fs *flows) settleFlows() {
	if !fs.flowIndex.pending() {
		return
	}
	left, looks, bytes, most := fs.flowIndex.steps, fs.flowIndex.looks, int64(
		limits.MaxFlowBytes), fs.ended.staged.added+limits.MaxFlowBytes
	if fs.flowIndex.ready.Len() > 0 {
		left, bytes = (left+1)/2, bytes/2
	}
	rest := fs.flowIndex.steps - left
	left, looks = fs.settlePasses(left, looks, fs.ended.staged.added+bytes)
	left = fs.settleReady(left+rest, most)
	left, _ = fs.settlePasses(left, looks, most) // a node that expires as it is released may end its workflow
	if fs.s.Header.Rules >= runRules {
		fs.settleReady(left, most) // nodes that outlive that end
	}
	fs.s.Sweep.More = fs.s.Sweep.More || fs.flowIndex.pending()
}

// settleReady processes at most left due vertices and returns the rest of left. It stops when the staged records so far
// take most bytes.
func (fs *flows) settleReady(left int, most int64) int {
	for ; left > 0 && fs.ended.staged.added < most; left-- {
		_, f, ok := fs.flowIndex.ready.Min()
		if !ok {
			break
		}
		number, _ := f.work.Min()
		fs.settleDue(f, number)
	}
	return left
}

// settleDue releases a vertex whose parents have all COMPLETED, and skips one that has lost a parent. A gate has no job
// until its signal arrives.
func (fs *flows) settleDue(f *flow, number uint32) {
	r, g := fs.workflows.Edit(f.id), f.rows[number].Gate
	why := rota.ReasonNone
	if f.waiting[number] > 0 && !planted.childEarly(f, number) || f.rows[number].Run == rota.RunOnFailure {
		why = f.skips(f.rows[number])
	}
	lost := why != rota.ReasonNone
	if g != nil && !lost && g.Signal == "" {
		fs.releaseGate(f, r, number)
		return
	}
	j := fs.makeJob(f, r, number)
	switch {
	case lost:
		fs.life.expel(j, rota.JobCancelled, why)
	case g != nil:
		fs.passGate(j, g)
	case j.Expires() != 0 && j.Expires() <= fs.s.Header.Clock: // it has waited too long and is no longer leased
		fs.life.expel(j, rota.JobExpired, j.Expiry())
	default:
		fs.life.startAfter(j, f.rows[number].FreeAt)
	}
}

// makeJob releases a Blocked vertex: its job is BLOCKED until the caller starts or ends it. A vertex that never runs
// also has a job for a moment, so that its events, its tombstone and its record are those of any other cancelled job.
func (fs *flows) makeJob(f *flow, r *state.WorkflowRow, number uint32) *state.JobRow {
	fs.dropWork(f, number)
	v := fs.editVertex(f, number)
	fs.leaveGate(r, v)
	v.State = state.VertexLive
	r.Blocked--
	r.Live++
	id := v.Spec.ID
	j := fs.s.NewJob()
	fs.life.own(j)
	j.Spec, j.SpecHash, j.State = v.Spec, state.HashSpec(&fs.s.Ledger.Enc, v.Spec), rota.JobBlocked
	j.Submitted, j.SubmittedDate = r.Submitted.Clock, r.Submitted.Date
	j.Workflow, j.Vertex, j.Attempts, j.Data = f.id, number, v.Past.List(), f.data(v)
	if v.Runs > 0 {
		j.Past = &state.JobPast{Content: j.SpecHash, Life: v.Runs, Retried: r.Started,
			Spent: v.Past.Costs()}
	}
	if t := fs.ended.tombs.Get(id); t != nil { // of a forgotten workflow with the same id
		fs.ended.dropTomb(id, t.Seq)
	}
	fs.s.Header.JobSeq++
	j.Seq = fs.s.Header.JobSeq
	fs.s.JobTable.Insert(id, j)
	fs.placement.classify(j)
	fs.keyring.Enter(j)
	q := fs.s.QueueTable.Edit(v.Spec.Queue)
	if v.Runs++; v.Runs == 1 {
		q.Submitted++
	}
	if v.Gate != nil {
		return j
	}
	ttl := v.Spec.TTL.Milliseconds()
	if ttl == 0 {
		ttl = q.Policy.TTLAbsMs
	}
	if ttl > 0 {
		j.ExpireAbs = r.Started.Clock + rota.Clock(ttl)
	}
	fs.s.Timers.Expire.Refile(string(id), 0, int64(j.Expires()))
	fs.typeStats.DeclareType(v.Spec, q)
	return j
}

// ManyAtOnce reports whether a refusal means that the operation met too many others in its entry: it may be tried again
// at once.
func ManyAtOnce(err error) bool {
	var e *rota.Error
	return errors.As(err, &e) && e.Kind == rota.KindExhausted && e.Subject == manyAtOnce
}

// after marks the vertices that a retry from a vertex runs again: that vertex, its descendants, and everything that any
// of those wait for, except COMPLETED ones; any reports whether there is such a vertex. While the retry continues it
// returns the same for all vertices that were not taken back yet: those have not COMPLETED since, nor has anything
// between them.
//
// Both walks pass over every vertex twice: n represents its job, n+len(rows) the vertex being through.
func (f *flow) after(number uint32) (marked []bool, any bool) {
	size := uint32(len(f.rows))
	down := walk{seen: make([]bool, 2*size)}
	down.to(number)
	for n, ok := down.next(); ok; n, ok = down.next() {
		if n < size {
			down.to(n + size)
			for _, s := range f.grown(n) {
				down.to(s.Number)
			}
			continue
		}
		v := f.rows[n-size]
		for _, c := range f.children[v.Number] {
			down.to(c)
		}
		if by, _ := v.GrownBy(); v.Joins() {
			down.to(by + size)
		}
	}
	completed := func(n uint32) bool { return f.rows[n].State == rota.NodeState(rota.JobCompleted) }
	up := walk{seen: make([]bool, 2*size)}
	for n := range size {
		if down.seen[n] && !completed(n) {
			up.to(n)
		}
	}
	for n, ok := up.next(); ok; n, ok = up.next() {
		if n < size {
			v := f.rows[n]
			for _, p := range v.Parents {
				if v.Awaits(p) {
					up.to(p + size)
				}
			}
			continue
		}
		if !completed(n - size) {
			up.to(n - size)
		}
		for _, s := range f.grown(n - size) {
			if s.Joins() {
				up.to(s.Number + size)
			}
		}
	}
	marked = up.seen[:size]
	return marked, slices.Contains(marked, true)
}

// walk visits places, each once.
type walk struct {
	seen  []bool
	stack []uint32
}

func (w *walk) to(n uint32) {
	if !w.seen[n] {
		w.seen[n] = true
		w.stack = append(w.stack, n)
	}
}

func (w *walk) next() (n uint32, ok bool) {
	last := len(w.stack) - 1
	if last < 0 {
		return 0, false
	}
	n, w.stack = w.stack[last], w.stack[:last]
	return n, true
}

// flows holds the workflows and releases their nodes.
type flows struct {
	s         *state.State
	access    *authz.Authority
	admission *admission
	budgets   *budgets.Budgets
	ended     *ended
	keyring   *keys.Keyring
	leasing   *leasing
	life      *lifecycle
	placement *placement
	typeStats *learn.Stats
	view      *View
	workflows state.Table[rota.WorkflowID, state.WorkflowRow, *state.WorkflowRow]
	// vertices are the workflows' nodes, by vertexKey.
	vertices  state.Table[string, state.VertexRow, *state.VertexRow]
	flowIndex flowIndex
}

// data returns the workers that hold the outputs of a vertex's parents, once all have COMPLETED; nil for a root. It
// looks at each parent, once per job. The last result is cached: if a thousand nodes that each wait for the same
// thousand are released in one entry, only the first pays. A completed vertex never changes, so the result is valid as
// long as the workflow exists.
func (f *flow) data(v *state.VertexRow) *sched.Data {
	if len(v.Parents) == 0 || f.waiting[v.Number] > 0 {
		return nil
	}
	if f.outputs != nil && slices.Equal(f.outputsOf, v.Parents) {
		return f.outputs
	}
	held := make(map[rota.WorkerID]int, min(16, len(v.Parents)))
	data := make(sched.Data, 0, min(16, len(v.Parents)))
	for _, p := range v.Parents {
		w := f.rows[p].Worker
		if w == "" { // no worker holds a gate's output
			continue
		}
		at, known := held[w]
		if !known {
			at = len(data)
			held[w] = at
			data = append(data, sched.HeldBy{Worker: w})
		}
		data[at].N++
	}
	slices.SortFunc(data, func(a, b sched.HeldBy) int { return cmp.Compare(a.Worker, b.Worker) })
	f.outputs, f.outputsOf = &data, v.Parents
	return &data
}

// waitingNode returns the vertex of a node that has no job yet, as it waits for its parents; nil if the id is not that
// of such a node.
func (fs *flows) waitingNode(job rota.JobID) (*flow, *state.VertexRow) {
	f, v := fs.vertex(job)
	if v == nil || v.State != state.VertexBlocked {
		return nil, nil
	}
	return f, v
}

// lives reports whether a workflow exists and has not ended.
func (fs *flows) lives(id rota.WorkflowID) bool {
	r := fs.workflows.Get(id)
	return r != nil && !r.State.Terminal()
}

// node returns a node of a workflow, nil if it has none of the name; known is false if there is no such workflow.
func (fs *flows) node(id rota.WorkflowID, name string) (v *state.VertexRow, known bool) {
	f := fs.flowIndex.byID[id]
	if f == nil {
		return nil, false
	}
	if n, ok := f.byName[name]; ok {
		return f.rows[n], true
	}
	return nil, true
}

// queuesOf returns the queues of a workflow's nodes, in order of first use.
func (fs *flows) queuesOf(id rota.WorkflowID) (queues []rota.QueueName) {
	if f := fs.flowIndex.byID[id]; f != nil {
		for _, q := range f.queues {
			queues = append(queues, q.name)
		}
	}
	return queues
}
