package fsm

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// placement brings jobs to workers: it files what waits, checks what rounds decided,
// and holds workers for jobs that nobody has room for.
type placement struct {
	s         *state
	access    *authority
	admission *admission
	batches   *batches
	fleet     *fleet
	hooks     *hooks
	keyring   *keyring
	leasing   *leasing
	life      *lifecycle
	schedules *schedules
	typeStats *typeStats
	uniques   *uniques
	holds     table[rota.JobID, holdRow, *holdRow]
	registry  registry
	// rounds are those of the entry that is being applied; items and lives are room for jobs.
	rounds []roundDone
	items  []*sched.Item
	lives  []*jobLife
	// arriving is room for DecideWith.
	arriving arriving
}

// roundDone is what settleTurns must know of a round applied in this entry.
type roundDone struct {
	queue  rota.QueueName
	placed int
}

// registry files live jobs: in their lane while QUEUED, under their class while
// alive, and in their queue's counters always. All of it is derived.
type registry struct {
	supply *sched.Supply
	// newest is the job that was classified last.
	newest classified
	queues map[rota.QueueName]*queueIndex
	// busy orders the queues that have QUEUED jobs by their turn (SPEC §7.2).
	busy *btree.BTreeG[turn]
	// heldFor gives the job that a held worker is held for.
	heldFor map[rota.WorkerID]rota.JobID
	// going are the open leases that give way to critical jobs or are revoked;
	// preempting counts the holds that leases gave way for (SPEC §7.9).
	going      *btree.BTreeG[going]
	preempting int
	// accused are the live jobs by the sessions that were lost under them.
	accused *btree.BTreeG[accusation]
	// nodes counts the live jobs of workflows' nodes; entries at 0 are removed.
	nodes btree.Map[rota.WorkflowID, liveNodes]
}

// queueIndex is what is derived of one queue.
type queueIndex struct {
	pending *sched.Pending
	// open counts open leases a tenant.
	open countsBy[rota.TenantID]
	// laneStates is what the lanes know of tenants beside their open leases.
	laneStates map[rota.TenantID]laneState
	// turn is where the queue stands in busy; zero if it does not.
	turn turn
	// round is its place among the rounds of the entry, if it has one there.
	round int
	// promoteDue is where it stands in the timers of promotion.
	promoteDue rota.Clock
	// tiers counts the QUEUED jobs by the tier of their priority.
	tiers [rota.MaxTiers]int64
}

// countTier counts a QUEUED job more or less in the tier of its priority.
func (i *queueIndex) countTier(j *jobRow, p *rota.QueuePolicy, by int64) { i.tiers[tierOf(j, p)] += by }

// tierDepths counts QUEUED jobs by tier: those of an adaptive queue as they stand
// now, others by their priority.
func (i *queueIndex) tierDepths(p *rota.QueuePolicy) []int64 {
	if p.Ranking != rota.RankAdaptive {
		return slices.Clone(i.tiers[:p.Tiers])
	}
	return i.pending.Tiers()
}

// turn is a queue's place among queues: assignments ÷ weight, then the name.
type turn struct {
	count  uint64
	weight uint64
	name   rota.QueueName
}

func turnLess(a, b turn) bool {
	return sched.CompareTurn(a.count, a.weight, a.name, b.count, b.weight, b.name) < 0
}

func (r *registry) reset() {
	r.supply, r.newest = sched.NewSupply(), classified{}
	r.queues = make(map[rota.QueueName]*queueIndex)
	r.heldFor = make(map[rota.WorkerID]rota.JobID)
	r.going, r.accused = newGoing(), newAccused()
	r.nodes = btree.Map[rota.WorkflowID, liveNodes]{}
	r.busy = btree.NewBTreeGOptions(turnLess, btree.Options{NoLocks: true})
}

func (pl *placement) addQueue(name rota.QueueName, policy rota.QueuePolicy) {
	q := &queueRow{name: name, policy: policy, by: pl.s.journal.owner()}
	pl.access.hold(q.by, access.OwnsQueue, 1)
	pl.s.queues.insert(name, q)
	pl.admission.initLanes(q, pl.addIndex(q))
	pl.fleet.reviewWorkers(name) // some may serve it already
	pl.s.journal.emit(rota.Event{Kind: rota.EventQueueChanged, Queue: name, Text: policy.Preset})
}

func (pl *placement) addIndex(q *queueRow) *queueIndex {
	r := &pl.registry
	i := &queueIndex{pending: pl.newPending(q)}
	r.queues[q.name] = i
	r.supply.SetRules(q.name, sched.RulesOf(&q.policy))
	return i
}

// move takes a job to another state: the one place where a state changes, so
// that counters and lanes cannot be forgotten. An illegal move is a broken
// invariant, not a refusal: verbs check first.
func (pl *placement) move(j *jobRow, to rota.JobState) {
	if !j.state.MayBecome(to) {
		panic(fmt.Sprintf("fsm: job %s cannot go from %s to %s", j.spec.ID, j.state, to))
	}
	q := pl.s.queues.edit(j.spec.Queue)
	if j.state == rota.JobQueued {
		pl.unfile(j, q)
		if h := pl.holds.get(j.spec.ID); h != nil {
			pl.endHold(h, holdEnd(to))
		}
	}
	q.count(j.state, -1)
	pl.registry.moveNode(j, j.state, to)
	from := j.state
	j.state = to
	q.count(to, 1)
	if j.past != nil && j.past.unique != (uniqueKey{}) {
		pl.uniques.follow(j, from)
	}
	if to == rota.JobQueued {
		j.queuedAt = pl.s.head.clock
		pl.file(j, q)
	}
}

// file puts a QUEUED job into its lane; j is editable.
func (pl *placement) file(j *jobRow, q *queueRow) {
	i := pl.registry.queues[q.name]
	pl.typeStats.foresee(j, q)
	if n := len(pl.items); n > 0 {
		j.item, pl.items = pl.items[n-1], pl.items[:n-1]
	} else {
		j.item = &sched.Item{}
	}
	*j.item = pl.itemOf(j, q)
	pl.admission.syncLanes(i, q, j.spec.Tenant)
	i.pending.Add(j.item)
	i.countTier(j, &q.policy, 1)
	pl.timePromotion(q, i)
	if q.queued == 1 {
		pl.joinTurns(q, i)
	}
}

// itemOf is a job as rounds see it: a pure function of its row, its tenant's tier
// and its queue.
func (pl *placement) itemOf(j *jobRow, q *queueRow) sched.Item {
	p, size := &q.policy, effectiveSize(j.spec)
	item := sched.Item{ID: j.spec.ID, JobSpec: &j.spec.JobSpec, Class: j.class,
		Key:      sched.RankKey(p, j.spec.Priority, j.spec.Fee, size, pl.admission.limitsOf(j.spec.Tenant).Tier, j.enqueued, q.rankEstimate(j)),
		Enqueued: j.enqueued, Queued: j.queuedAt, Attempt: j.attempt, Data: j.data}
	switch p.Ranking {
	case rota.RankAdaptive:
		item.TierPlace = &sched.TierPlace{Tier: j.tier, TierAt: j.tierAt, TierSeq: j.tierSeq, Size: size}
	case rota.RankFIFO, rota.RankShortest, rota.RankSmallest:
		item.Number = j.seq
	}
	if learned := j.history().estimate; learned > 0 {
		if item.TierPlace == nil {
			item.TierPlace = new(sched.TierPlace)
		}
		item.Estimate = learned
	}
	return item
}

func effectiveSize(s *keptSpec) int64 {
	if s.SizeBytes > 0 {
		return s.SizeBytes
	}
	return int64(len(s.Payload()))
}

func (pl *placement) unfile(j *jobRow, q *queueRow) {
	i := pl.registry.queues[q.name]
	if !i.pending.Remove(j.item) {
		panic(fmt.Sprintf("fsm: job %s is QUEUED but in no lane", j.spec.ID))
	}
	i.countTier(j, &q.policy, -1)
	pl.timePromotion(q, i)
	if len(pl.items) < spareMost { // rounds keep none beyond their decision
		*j.item = sched.Item{}
		pl.items = append(pl.items, j.item)
	}
	j.item = nil
	if q.queued == 1 { // this was the last
		pl.registry.busy.Delete(i.turn)
		i.turn = turn{}
	}
}

// joinTurns takes a queue that becomes busy into the order of queues, at the
// least busy one's value at least (SPEC §7.2): time without work saves nothing up.
func (pl *placement) joinTurns(q *queueRow, i *queueIndex) {
	weight := uint64(q.policy.Weight)
	if least, ok := pl.registry.busy.Min(); ok {
		q.turn = max(q.turn, rescale(least.count, weight, least.weight))
	}
	i.turn = turn{q.turn, weight, q.name}
	pl.registry.busy.Set(i.turn)
}

// rescale turns a count at one weight into that of the same value at another,
// rounded up: ⌈count · to / from⌉, cut where no cluster ever gets.
func rescale(count, to, from uint64) uint64 {
	hi, lo := bits.Mul64(count, to)
	if hi >= from {
		return turnMost
	}
	quotient, rest := bits.Div64(hi, lo, from)
	if rest > 0 {
		quotient++
	}
	return min(quotient, turnMost)
}

const turnMost = 1 << 62

// setTurn changes a queue's turn, in the order too where it stands there.
func (pl *placement) setTurn(q *queueRow, count uint64) {
	q.turn = min(count, turnMost)
	i := pl.registry.queues[q.name]
	if i.turn.name == "" {
		return
	}
	pl.registry.busy.Delete(i.turn)
	i.turn = turn{q.turn, uint64(q.policy.Weight), q.name}
	pl.registry.busy.Set(i.turn)
}

// share counts an open lease more or less of a tenant in a queue.
func (pl *placement) share(queue rota.QueueName, tenant rota.TenantID, by int64) {
	i := pl.registry.queues[queue]
	i.share(tenant, i.open.add(tenant, by), pl.admission.limitsOf(tenant).Weight)
}

// classified is what jobs that share their spec have in common: their class, which holds until
// the supply has forgotten another number of classes.
type classified struct {
	spec      *rota.JobSpec
	isolated  bool
	class     sched.ClassID
	forgotten uint64
}

// classify counts a live job under its class.
func (pl *placement) classify(j *jobRow) {
	s, k, isolated := pl.registry.supply, &pl.registry.newest, j.isolated()
	if k.spec != &j.spec.JobSpec || k.isolated != isolated || !s.Again(k.class, k.forgotten) {
		asks := sched.RequirementsOf(&j.spec.JobSpec)
		asks.Isolated = isolated
		*k = classified{&j.spec.JobSpec, isolated, s.Intern(asks), s.Forgotten()}
	}
	j.class = k.class
}

// supplyOf brings the supply up to date with a worker's row.
func (pl *placement) supplyOf(w *workerRow) {
	pl.registry.supply.Put(workerEntry(w))
	pl.registry.supply.SetData(w.spec.ID, w.held)
}

func (n *liveNodes) count(s rota.JobState, by int64) {
	switch s {
	case rota.JobDelayed:
		n.delayed += by
	case rota.JobQueued:
		n.queued += by
	case rota.JobAssigned:
		n.assigned += by
	case rota.JobRunning:
		n.running += by
	}
}

// liveNodes counts the jobs of a workflow's nodes by state, of those whose vertices
// are live. It is derived.
type liveNodes struct{ delayed, queued, assigned, running int64 }

// moveNode keeps liveNodes where a node's job changes its state. A tree that is
// copied on write was taken, as lists of workflows read it while the machine goes on.
func (r *registry) moveNode(j *jobRow, from, to rota.JobState) {
	if j.workflow == "" {
		return
	}
	n, _ := r.nodes.Get(j.workflow)
	n.count(from, -1)
	n.count(to, 1)
	if n == (liveNodes{}) {
		r.nodes.Delete(j.workflow)
	} else {
		r.nodes.Set(j.workflow, n)
	}
}

// changeRules follows a change of what a queue asks of its workers: leases beyond
// a lower cap are revoked (SPEC §8.5), all else decides only who gets the next.
func (pl *placement) changeRules(q *queueRow, before sched.Rules) {
	rules := sched.RulesOf(&q.policy)
	if rules == before {
		return
	}
	pl.registry.supply.SetRules(q.name, rules)
	pl.fleet.reviewWorkers(q.name)
	for _, h := range pl.held() {
		if pl.s.jobs.get(h.Item.ID).spec.Queue == q.name {
			pl.reviewHold(h.Worker)
		}
	}
	if rules.PrefetchMax < before.PrefetchMax ||
		rules.LeasesMax > 0 && (before.LeasesMax == 0 || rules.LeasesMax < before.LeasesMax) {
		pl.fleet.workers.scan(func(_ rota.WorkerID, w *workerRow) bool {
			pl.fleet.cutQuota(w, capOf(w.spec, &rules), q.name)
			return true
		})
	}
}

// reviewWorkers brings the reputation of a queue's workers up to date with its
// min_health, which times when their health counts again.
func (fl *fleet) reviewWorkers(queue rota.QueueName) {
	var weak []rota.WorkerID // those in full health have nothing to wait for
	fl.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		if w.health < healthFull && slices.Contains(w.spec.Queues, queue) {
			weak = append(weak, id)
		}
		return true
	})
	for _, id := range weak {
		w := fl.workers.edit(id)
		w.settleHealth(fl.s.head.clock)
		fl.reviewWorker(w)
	}
}

// capOf is how many leases, of whatever queue, a worker may have open when it gets
// one of a queue with such rules.
func capOf(s *rota.WorkerSpec, rules *sched.Rules) int64 {
	most := int64(s.Slots) + min(int64(s.Prefetch), rules.PrefetchMax)
	if rules.LeasesMax > 0 {
		most = min(most, rules.LeasesMax)
	}
	return most
}
