package fsm

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// flowIndex is what is derived of workflows (SPEC §11).
type flowIndex struct {
	// byID holds every workflow but those that are leaving.
	byID map[rota.WorkflowID]*flow
	// ready are the RUNNING workflows with vertices to release or to skip, passing
	// those with a pass under way, leaving those whose rows are being dropped; all in
	// the order in which they were opened.
	ready, passing btree.Map[uint64, *flow]
	leaving        btree.Map[uint64, rota.WorkflowID]
	// all counts what every row holds, kept what those hold that are not leaving, over
	// what those of kept that have ended: they give way to new ones.
	all, kept, over flowSize
	// attempts counts those that vertices keep.
	attempts int
	// steps and looks bound what one entry does for workflows: MaxFlowSteps and what
	// passes look at but in tests.
	steps, looks int
	// spent counts what the operations of the entry at hand looked at: see spend.
	spent int
}

// flowSize is what the caps on all workflows are on. A workflow counts for the nodes
// that it announced, so that what was taken in has room.
type flowSize struct{ workflows, vertices, bytes int64 }

func (s *flowSize) add(r *workflowRow, by int64) {
	s.workflows += by
	s.vertices += by * int64(r.nodes)
	s.bytes += by * (r.bytes + edgeBytes*int64(r.edges))
}

// edgeBytes is what an edge takes in memory: its two ends, with what lists have spare.
// One that was announced has room, as nodes have.
const edgeBytes = 10

// flow is what is derived of one workflow.
type flow struct {
	id  rota.WorkflowID
	seq uint64
	// rows are the vertices by number, as the table has them now.
	rows []*vertexRow
	// children are the numbers of those that wait for a vertex, ascending.
	children [][]uint32
	// sprouts are by the number of the vertex that grew them.
	sprouts map[uint32]*sprouts
	// waiting counts a vertex's parents that are not through, lost those that ended otherwise
	// or grew what did: the counters of SPEC §11.2. They are kept for all vertices, whatever
	// their own state.
	waiting, lost []uint32
	// open counts a vertex's parents that are not settled: those of a node that runs on failure, or always, are awaited
	// to their end. conditional says that there is such a node.
	open        []uint32
	conditional bool
	// byName numbers the nodes.
	byName map[string]uint32
	// work are the vertices that can be released, as none of their parents is waited
	// for, or, under continue, must be skipped: see due.
	work btree.Set[uint32]
	// redo marks what a retry from a node takes back; nil means all that did not
	// COMPLETE.
	redo []bool
	// queues are the queues of its nodes, in the order in which they came up, and
	// queueAt where they stand there; urgent is the least priority of a root.
	queues  []flowQueue
	queueAt map[rota.QueueName]int
	urgent  int32
	// kinds are the classes of its nodes, in the order in which they came up. holds are
	// those classes as the supply counts them, a user each, while the workflow is OPEN or
	// RUNNING, nil else: so there is room for them when its nodes are released.
	kinds []kind
	holds map[sched.ClassID]bool
	// outputs is the answer of data for the vertex that it was last asked of, and
	// outputsOf that one's parents.
	outputs   *sched.Data
	outputsOf []uint32
}

// flowQueue is how many nodes of a workflow a queue has, and how many COMPLETED.
type flowQueue struct {
	name             rota.QueueName
	nodes, completed int64
}

func (f *flowIndex) reset() {
	*f = flowIndex{byID: make(map[rota.WorkflowID]*flow), steps: limits.MaxFlowSteps, looks: looksPerStep * limits.MaxFlowSteps}
}

// flowLooks bounds the vertices, edges, queues and classes that the operations of one
// entry look at to commit workflows or to retry them. A single operation may look at
// more.
const flowLooks = 1 << 17

// spend takes what an operation is about to look at from what the entry may. An entry
// full of refused retries of a large workflow would hold up the cluster for seconds.
func (f *flowIndex) spend(looks int) error {
	if f.spent > 0 && f.spent+looks > flowLooks {
		e := exhausted(manyAtOnce, "many workflows are committed or retried in this moment: try again at once")
		e.(*rota.Error).RetryAfter = 50 * time.Millisecond
		return e
	}
	f.spent += looks
	return nil
}

// manyAtOnce is the subject of a refusal by which a node may try again on its own.
const manyAtOnce = "workflows_at_once"

// pending reports whether workflows have work for the next entries.
func (f *flowIndex) pending() bool { return f.ready.Len()+f.passing.Len()+f.leaving.Len() > 0 }

func newFlow(r *workflowRow) *flow {
	return &flow{id: r.id, seq: r.seq, byName: make(map[string]uint32, min(r.nodes, limits.MaxChunkNodes)),
		queueAt: make(map[rota.QueueName]int), holds: make(map[sched.ClassID]bool), urgent: rota.MaxPriority}
}

// append adds the next vertex; its counters say that no parent has ended.
func (f *flow) append(v *vertexRow) {
	f.rows = append(f.rows, v)
	f.children = append(f.children, nil)
	f.waiting = append(f.waiting, 0)
	f.lost = append(f.lost, 0)
	f.byName[vertexName(v)] = v.number
	for _, p := range v.parents {
		if v.awaits(p) {
			f.children[p] = append(f.children[p], v.number)
			f.waiting[v.number]++
		}
	}
	f.open = append(f.open, f.waiting[v.number])
	f.conditional = f.conditional || v.run != rota.RunOnSuccess
	f.note(v)
	if len(v.parents) == 0 {
		f.urgent = min(f.urgent, v.spec.Priority)
	}
	at, known := f.queueAt[v.spec.Queue]
	if !known {
		at = len(f.queues)
		f.queueAt[v.spec.Queue] = at
		f.queues = append(f.queues, flowQueue{name: v.spec.Queue})
	}
	f.queues[at].nodes++
}

// due reports whether a vertex of a workflow that is not ending stands in work.
func (f *flow) due(r *workflowRow, v *vertexRow) bool {
	if v.run != rota.RunOnSuccess {
		return v.state == vertexBlocked && f.open[v.number] == 0
	}
	free := (f.waiting[v.number] == 0 || planted.childEarly(f, v.number)) && !v.waits()
	return v.state == vertexBlocked && (free || (r.policy == rota.FailureContinue || f.conditional) && f.lost[v.number] > 0)
}

// vertex returns a node's vertex by the id of its job; nil where there is none, or
// where its workflow is not committed.
func (fs *flows) vertex(job rota.JobID) (*flow, *vertexRow) {
	id, name, ok := rota.SplitNodeJobID(job)
	f := fs.flowIndex.byID[id]
	if !ok || f == nil || fs.workflows.get(id).state == rota.WorkflowOpen {
		return nil, nil
	}
	number, ok := f.byName[name]
	if !ok {
		return nil, nil
	}
	return f, f.rows[number]
}

// editVertex returns a vertex to change.
func (fs *flows) editVertex(f *flow, number uint32) *vertexRow {
	v := f.rows[number]
	if v.gen() != fs.s.ledger.gen {
		v = fs.vertices.edit(vertexKey(f.id, number))
		f.rows[number] = v
	}
	return v
}

// addWork puts a vertex among those to be processed where it belongs there.
func (fs *flows) addWork(f *flow, r *workflowRow, number uint32) {
	v := f.rows[number]
	if r.state != rota.WorkflowRunning || r.ending != rota.WorkflowNone && !v.outlives(r.ending) || !f.due(r, v) {
		return
	}
	f.work.Insert(number)
	if !f.held(r) {
		fs.flowIndex.ready.Set(f.seq, f)
	}
}

// held reports whether nothing of a workflow is released: what a retry takes back may be waited for by
// vertices before it, of those that have grown.
func (f *flow) held(r *workflowRow) bool { return r.redo && len(f.sprouts) > 0 }

// dropWork takes a vertex out again.
func (fs *flows) dropWork(f *flow, number uint32) {
	f.work.Delete(number)
	if f.work.Len() == 0 {
		fs.flowIndex.ready.Delete(f.seq)
	}
}

// settleFlows does, at the end of an entry, a bounded part of what workflows have
// to do: passes over those that end, are retried or leave; then releases and skips,
// oldest workflow first, by number. Where both are due each has half of the room,
// so that neither holds up the other for long. What ends leaves records for the
// archive, which is behind by one entry at least: so their bytes are bounded too.
func (fs *flows) settleFlows() {
	if !fs.flowIndex.pending() {
		return
	}
	left, looks, bytes, most := fs.flowIndex.steps, fs.flowIndex.looks, int64(limits.MaxFlowBytes), fs.ended.staged.added+limits.MaxFlowBytes
	if fs.flowIndex.ready.Len() > 0 {
		left, bytes = (left+1)/2, bytes/2
	}
	rest := fs.flowIndex.steps - left
	left, looks = fs.settlePasses(left, looks, fs.ended.staged.added+bytes)
	left = fs.settleReady(left+rest, most)
	left, _ = fs.settlePasses(left, looks, most) // a node that expires as it is released may end its workflow
	if fs.s.head.rules >= runRules {
		fs.settleReady(left, most) // what outlives that end
	}
	fs.s.sweep.More = fs.s.sweep.More || fs.flowIndex.pending()
}

// settleReady processes at most so many vertices that are due, and gives what is left of that. It stops when the records
// staged so far take most bytes.
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

// settleDue releases a vertex whose parents have all COMPLETED; one that has lost a
// parent is skipped. A gate has no job until its signal is there.
func (fs *flows) settleDue(f *flow, number uint32) {
	r, g := fs.workflows.edit(f.id), f.rows[number].gate
	why := rota.ReasonNone
	if f.waiting[number] > 0 && !planted.childEarly(f, number) || f.rows[number].run == rota.RunOnFailure {
		why = f.skips(f.rows[number])
	}
	lost := why != rota.ReasonNone
	if g != nil && !lost && g.signal == "" {
		fs.releaseGate(f, r, number)
		return
	}
	j := fs.makeJob(f, r, number)
	switch {
	case lost:
		fs.life.expel(j, rota.JobCancelled, why)
	case g != nil:
		fs.passGate(j, g)
	case j.expires() != 0 && j.expires() <= fs.s.head.clock: // it waited for too long, and is not leased any more
		fs.life.expel(j, rota.JobExpired, j.expiry())
	default:
		fs.life.startAfter(j, f.rows[number].freeAt)
	}
}

// makeJob releases a Blocked vertex: its job is BLOCKED for as long as the caller
// takes to start or to end it. What never runs has a job too, for a moment: so its
// events, its tombstone and its record are those of any other cancelled job.
func (fs *flows) makeJob(f *flow, r *workflowRow, number uint32) *jobRow {
	fs.dropWork(f, number)
	v := fs.editVertex(f, number)
	fs.leaveGate(r, v)
	v.state = vertexLive
	r.blocked--
	r.live++
	id := v.spec.ID
	j := fs.s.newJob()
	fs.life.own(j)
	j.spec, j.specHash, j.state = v.spec, hashSpec(&fs.s.ledger.enc, v.spec), rota.JobBlocked
	j.submitted, j.submittedDate = r.submitted.Clock, r.submitted.Date
	j.workflow, j.vertex, j.attempts, j.data = f.id, number, v.past.list(), f.data(v)
	if v.runs > 0 {
		j.past = &jobPast{content: j.specHash, life: v.runs, retried: r.started}
	}
	if t := fs.ended.tombs.get(id); t != nil { // of a workflow of that id that is forgotten
		fs.ended.dropTomb(id, t.seq)
	}
	fs.s.head.jobSeq++
	j.seq = fs.s.head.jobSeq
	fs.s.jobs.insert(id, j)
	fs.placement.classify(j)
	fs.keyring.enter(j)
	q := fs.s.queues.edit(v.spec.Queue)
	if v.runs++; v.runs == 1 {
		q.submitted++
	}
	if v.gate != nil {
		return j
	}
	ttl := v.spec.TTL.Milliseconds()
	if ttl == 0 {
		ttl = q.policy.TTLAbsMs
	}
	if ttl > 0 {
		j.expireAbs = r.started.Clock + rota.Clock(ttl)
	}
	fs.s.timers.expire.set(string(id), 0, int64(j.expires()))
	fs.typeStats.declareType(v.spec, q)
	return j
}

// ManyAtOnce says of a refusal that the operation met too many others in its entry: the
// same may be tried again at once.
func ManyAtOnce(err error) bool {
	var e *rota.Error
	return errors.As(err, &e) && e.Kind == rota.KindExhausted && e.Subject == manyAtOnce
}

// after marks what a retry from a vertex runs again: the vertex, what follows from
// it, and what any of those wait for, as far as it did not COMPLETE; any says that
// there is such a one. While the retry goes on it returns the same for all vertices that were
// not taken back yet: those have not COMPLETED since, and neither has what lies between them.
//
// Both walks go over every vertex twice: n stands for its job, n+len(rows) for its being
// through.
func (f *flow) after(number uint32) (marked []bool, any bool) {
	size := uint32(len(f.rows))
	down := walk{seen: make([]bool, 2*size)}
	down.to(number)
	for n, ok := down.next(); ok; n, ok = down.next() {
		if n < size {
			down.to(n + size)
			for _, s := range f.grown(n) {
				down.to(s.number)
			}
			continue
		}
		v := f.rows[n-size]
		for _, c := range f.children[v.number] {
			down.to(c)
		}
		if by, _ := v.grownBy(); v.joins() {
			down.to(by + size)
		}
	}
	completed := func(n uint32) bool { return f.rows[n].state == rota.NodeState(rota.JobCompleted) }
	up := walk{seen: make([]bool, 2*size)}
	for n := range size {
		if down.seen[n] && !completed(n) {
			up.to(n)
		}
	}
	for n, ok := up.next(); ok; n, ok = up.next() {
		if n < size {
			v := f.rows[n]
			for _, p := range v.parents {
				if v.awaits(p) {
					up.to(p + size)
				}
			}
			continue
		}
		if !completed(n - size) {
			up.to(n - size)
		}
		for _, s := range f.grown(n - size) {
			if s.joins() {
				up.to(s.number + size)
			}
		}
	}
	marked = up.seen[:size]
	return marked, slices.Contains(marked, true)
}

// walk goes to places, each once.
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

// flows holds the workflows, and releases their nodes.
type flows struct {
	s         *state
	access    *authority
	admission *admission
	ended     *ended
	keyring   *keyring
	leasing   *leasing
	life      *lifecycle
	placement *placement
	typeStats *typeStats
	view      *View
	workflows table[rota.WorkflowID, workflowRow, *workflowRow]
	// vertices are the workflows' nodes, by vertexKey.
	vertices  table[string, vertexRow, *vertexRow]
	flowIndex flowIndex
}

// data returns where the outputs of a vertex's parents lie, once all have COMPLETED;
// nil for a root. It costs a look at each parent, once a job. What was found last is
// kept: of a thousand nodes that each wait for the same thousand, which are released
// in one entry, only the first pays. A completed vertex never changes, so what was
// found holds for as long as the workflow is there.
func (f *flow) data(v *vertexRow) *sched.Data {
	if len(v.parents) == 0 || f.waiting[v.number] > 0 {
		return nil
	}
	if f.outputs != nil && slices.Equal(f.outputsOf, v.parents) {
		return f.outputs
	}
	held := make(map[rota.WorkerID]int, min(16, len(v.parents)))
	data := make(sched.Data, 0, min(16, len(v.parents)))
	for _, p := range v.parents {
		w := f.rows[p].worker
		if w == "" { // a gate's output is no worker's
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
	f.outputs, f.outputsOf = &data, v.parents
	return &data
}

// waitingNode returns the vertex of a node that has no job yet, as it waits for its
// parents; nil where the id is of no such node.
func (fs *flows) waitingNode(job rota.JobID) (*flow, *vertexRow) {
	f, v := fs.vertex(job)
	if v == nil || v.state != vertexBlocked {
		return nil, nil
	}
	return f, v
}
