package fsm

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/batches"
	"github.com/rotasched/rota/fsm/internal/budgets"
	"github.com/rotasched/rota/fsm/internal/hooks"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/schedules"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/internal/unique"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// placement assigns jobs to workers: it files pending jobs, checks the decisions of rounds, and holds workers for jobs
// without room.
type placement struct {
	s         *state.State
	access    *authz.Authority
	admission *admission
	budgets   *budgets.Budgets
	batches   *batches.Batches
	fleet     *fleet
	hooks     *hooks.Hooks
	keyring   *keys.Keyring
	leasing   *leasing
	life      *lifecycle
	schedules *schedules.Schedules
	typeStats *learn.Stats
	uniques   *unique.Keys
	holds     state.Table[rota.JobID, state.HoldRow, *state.HoldRow]
	registry  registry
	// rounds are those of the entry being applied; items and lives are free memory for jobs.
	rounds []roundDone
	items  []*sched.Item
	lives  []*state.JobLife
	// arriving is the working memory of DecideWith.
	arriving arriving
}

// roundDone is what settleTurns needs of a round applied in this entry.
type roundDone struct {
	queue  rota.QueueName
	placed int
}

// registry indexes live jobs: in their lane while QUEUED, under their class while alive, and in their queue's counters
// always. All of it is derived.
type registry struct {
	supply *sched.Supply
	// newest is the job classified last.
	newest classified
	queues map[rota.QueueName]*queueIndex
	// busy orders the queues that have QUEUED jobs by their turn (SPEC §7.2).
	busy *btree.BTreeG[turn]
	// heldFor maps a held worker to the job that it is held for.
	heldFor map[rota.WorkerID]rota.JobID
	// going are the open leases that may be preempted or are revoked; preempting counts the holds that leases were
	// revoked for (SPEC §7.9).
	going      *btree.BTreeG[going]
	preempting int
	// accused are the live jobs by the sessions that were lost while running them.
	accused *btree.BTreeG[accusation]
	// nodes counts the live jobs of workflow nodes; entries at 0 are removed.
	nodes btree.Map[rota.WorkflowID, liveNodes]
}

// queueIndex is the derived data of one queue.
type queueIndex struct {
	pending *sched.Pending
	// open counts open leases per tenant.
	open state.CountsBy[rota.TenantID]
	// laneStates is what the lanes know about tenants besides their open leases.
	laneStates map[rota.TenantID]laneState
	// turn is the queue's place in busy; zero if it is not in it.
	turn turn
	// round is its index among the rounds of the entry, if it has one there.
	round int
	// promoteDue is its due time in the timers of promotion.
	promoteDue rota.Clock
	// tiers counts the QUEUED jobs by the tier of their priority.
	tiers [rota.MaxTiers]int64
}

// countTier adds by to the number of QUEUED jobs in the tier of a job's priority.
func (i *queueIndex) countTier(j *state.JobRow, p *rota.QueuePolicy, by int64) {
	i.tiers[tierOf(j, p)] += by
}

// tierDepths returns the number of QUEUED jobs by tier: of an adaptive queue by their present tiers, of others by
// priority.
func (i *queueIndex) tierDepths(p *rota.QueuePolicy) []int64 {
	if p.Ranking != rota.RankAdaptive {
		return slices.Clone(i.tiers[:p.Tiers])
	}
	return i.pending.Tiers()
}

// turn is a queue's place in the order of queues: assignments ÷ weight, then the name.
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
	q := &state.QueueRow{Name: name, Policy: policy, By: pl.s.Journal.Owner()}
	pl.access.Hold(q.By, access.OwnsQueue, 1)
	pl.s.QueueTable.Insert(name, q)
	pl.admission.initLanes(q, pl.addIndex(q))
	pl.fleet.reviewWorkers(name) // some workers may serve it already
	pl.s.Journal.Emit(rota.Event{Kind: rota.EventQueueChanged, Queue: name, Text: policy.Preset})
}

func (pl *placement) addIndex(q *state.QueueRow) *queueIndex {
	r := &pl.registry
	i := &queueIndex{pending: pl.newPending(q)}
	r.queues[q.Name] = i
	r.supply.SetRules(q.Name, sched.RulesOf(&q.Policy))
	return i
}

// move changes a job's state. It is the only function that does, so that counters and lanes cannot be forgotten. An
// illegal move is a broken invariant, not a refusal: verbs check first.
func (pl *placement) move(j *state.JobRow, to rota.JobState) {
	if !j.State.MayBecome(to) {
		panic(fmt.Sprintf("fsm: job %s cannot go from %s to %s", j.Spec.ID, j.State, to))
	}
	q := pl.s.QueueTable.Edit(j.Spec.Queue)
	if j.State == rota.JobQueued {
		pl.unfile(j, q)
		if h := pl.holds.Get(j.Spec.ID); h != nil {
			pl.endHold(h, holdEnd(to))
		}
	}
	q.Count(j.State, -1)
	pl.registry.moveNode(j, j.State, to)
	from := j.State
	j.State = to
	q.Count(to, 1)
	if j.Past != nil && j.Past.Unique != (state.UniqueKey{}) {
		pl.uniques.Follow(j, from)
	}
	if to == rota.JobQueued {
		j.QueuedAt = pl.s.Header.Clock
		pl.file(j, q)
	}
}

// file puts a QUEUED job into its lane; j is editable.
func (pl *placement) file(j *state.JobRow, q *state.QueueRow) {
	i := pl.registry.queues[q.Name]
	pl.typeStats.Foresee(j, q)
	if n := len(pl.items); n > 0 {
		j.Item, pl.items = pl.items[n-1], pl.items[:n-1]
	} else {
		j.Item = &sched.Item{}
	}
	*j.Item = pl.itemOf(j, q)
	pl.admission.syncLanes(i, q, j.Spec.Tenant)
	pl.keyring.SetQueued(j, true, true)
	pl.budgets.SetQueued(j, true, true)
	i.pending.Add(j.Item)
	i.countTier(j, &q.Policy, 1)
	pl.timePromotion(q, i)
	if q.Queued == 1 {
		pl.joinTurns(q, i)
	}
}

// itemOf returns a job as rounds see it: a pure function of its row, its tenant's tier and its queue.
func (pl *placement) itemOf(j *state.JobRow, q *state.QueueRow) sched.Item {
	p, size := &q.Policy, effectiveSize(j.Spec)
	item := sched.Item{ID: j.Spec.ID, JobSpec: &j.Spec.JobSpec, Class: j.Class,
		Key: sched.RankKey(p, j.Spec.Priority, j.Spec.Fee, size, pl.admission.limitsOf(j.Spec.Tenant).Tier,
			j.Enqueued, q.RankEstimate(j)), Enqueued: j.Enqueued, Queued: j.QueuedAt, Attempt: j.Attempt, Data: j.Data}
	switch p.Ranking {
	case rota.RankAdaptive:
		item.TierPlace = &sched.TierPlace{Tier: j.Tier, TierAt: j.TierAt, TierSeq: j.TierSeq, Size: size}
	case rota.RankFIFO, rota.RankShortest, rota.RankSmallest:
		item.Number = j.Seq
	}
	if learned := j.History().Estimate; learned > 0 {
		if item.TierPlace == nil {
			item.TierPlace = new(sched.TierPlace)
		}
		item.Estimate = learned
	}
	return item
}

func effectiveSize(s *state.KeptSpec) int64 {
	if s.SizeBytes > 0 {
		return s.SizeBytes
	}
	return int64(len(s.Payload()))
}

func (pl *placement) unfile(j *state.JobRow, q *state.QueueRow) {
	i := pl.registry.queues[q.Name]
	if !i.pending.Remove(j.Item) {
		panic(fmt.Sprintf("fsm: job %s is QUEUED but in no lane", j.Spec.ID))
	}
	pl.keyring.SetQueued(j, false, true)
	pl.budgets.SetQueued(j, false, true)
	i.countTier(j, &q.Policy, -1)
	pl.timePromotion(q, i)
	if len(pl.items) < state.MaxSpare { // rounds keep none beyond their decision
		*j.Item = sched.Item{}
		pl.items = append(pl.items, j.Item)
	}
	j.Item = nil
	if q.Queued == 1 { // this was the last
		pl.registry.busy.Delete(i.turn)
		i.turn = turn{}
	}
}

// joinTurns adds a queue that becomes busy to the order of queues, with at least the value of the least busy one (SPEC
// §7.2): time without work accumulates no claim.
func (pl *placement) joinTurns(q *state.QueueRow, i *queueIndex) {
	weight := uint64(q.Policy.Weight)
	if least, ok := pl.registry.busy.Min(); ok {
		q.Turn = max(q.Turn, rescale(least.count, weight, least.weight))
	}
	i.turn = turn{q.Turn, weight, q.Name}
	pl.registry.busy.Set(i.turn)
}

// rescale converts a count at one weight to that of the same value at another, rounded up: ⌈count · to / from⌉, limited
// to a value that no cluster reaches.
func rescale(count, to, from uint64) uint64 {
	hi, lo := bits.Mul64(count, to)
	if hi >= from {
		return maxTurn
	}
	quotient, rest := bits.Div64(hi, lo, from)
	if rest > 0 {
		quotient++
	}
	return min(quotient, maxTurn)
}

const maxTurn = 1 << 62

// setTurn changes a queue's turn, and its place in the order if it is in it.
func (pl *placement) setTurn(q *state.QueueRow, count uint64) {
	q.Turn = min(count, maxTurn)
	i := pl.registry.queues[q.Name]
	if i.turn.name == "" {
		return
	}
	pl.registry.busy.Delete(i.turn)
	i.turn = turn{q.Turn, uint64(q.Policy.Weight), q.Name}
	pl.registry.busy.Set(i.turn)
}

// share adds by to the open leases of a tenant in a queue.
func (pl *placement) share(queue rota.QueueName, tenant rota.TenantID, by int64) {
	i := pl.registry.queues[queue]
	i.share(tenant, i.open.Add(tenant, by), pl.admission.limitsOf(tenant).Weight)
}

// classified is what jobs that share a spec have in common: their class, which is valid until the supply's number of
// forgotten classes changes.
type classified struct {
	spec      *rota.JobSpec
	isolated  bool
	class     sched.ClassID
	forgotten uint64
}

// classify counts a live job under its class.
func (pl *placement) classify(j *state.JobRow) {
	s, k, isolated := pl.registry.supply, &pl.registry.newest, j.Isolated()
	same := k.spec != nil && k.isolated == isolated &&
		(k.spec == &j.Spec.JobSpec || sched.SameRequirements(k.spec, &j.Spec.JobSpec))
	if !same || !s.Again(k.class, k.forgotten) {
		asks := sched.RequirementsOf(&j.Spec.JobSpec)
		asks.Isolated = isolated
		*k = classified{&j.Spec.JobSpec, isolated, s.Intern(asks), s.Forgotten()}
	}
	j.Class = k.class
}

// supplyOf updates the supply from a worker's row.
func (pl *placement) supplyOf(w *state.WorkerRow) {
	pl.registry.supply.Put(workerEntry(w))
	pl.registry.supply.SetData(w.Spec.ID, w.Held)
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

// liveNodes counts the jobs of a workflow's live vertices by state. It is derived.
type liveNodes struct{ delayed, queued, assigned, running int64 }

// moveNode updates liveNodes when a node's job changes its state. The tree is copy-on-write, as lists of workflows read
// it while the machine continues.
func (r *registry) moveNode(j *state.JobRow, from, to rota.JobState) {
	if j.Workflow == "" {
		return
	}
	n, _ := r.nodes.Get(j.Workflow)
	n.count(from, -1)
	n.count(to, 1)
	if n == (liveNodes{}) {
		r.nodes.Delete(j.Workflow)
	} else {
		r.nodes.Set(j.Workflow, n)
	}
}

// changeRules applies a change of a queue's requirements for its workers: leases beyond a lower cap are revoked (SPEC
// §8.5); everything else only affects the next assignments.
func (pl *placement) changeRules(q *state.QueueRow, before sched.Rules) {
	rules := sched.RulesOf(&q.Policy)
	if rules == before {
		return
	}
	pl.registry.supply.SetRules(q.Name, rules)
	pl.fleet.reviewWorkers(q.Name)
	for _, h := range pl.held() {
		if pl.s.JobTable.Get(h.Item.ID).Spec.Queue == q.Name {
			pl.reviewHold(h.Worker)
		}
	}
	if rules.PrefetchMax < before.PrefetchMax ||
		rules.LeasesMax > 0 && (before.LeasesMax == 0 || rules.LeasesMax < before.LeasesMax) {
		pl.fleet.workers.Scan(func(_ rota.WorkerID, w *state.WorkerRow) bool {
			pl.fleet.cutQuota(w, capOf(w.Spec, &rules), q.Name)
			return true
		})
	}
}

// reviewWorkers updates the reputation of a queue's workers for its min_health, which determines when their health
// counts again.
func (fl *fleet) reviewWorkers(queue rota.QueueName) {
	var weak []rota.WorkerID // those in full health have nothing to wait for
	fl.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		if w.Health < state.HealthFull && slices.Contains(w.Spec.Queues, queue) {
			weak = append(weak, id)
		}
		return true
	})
	for _, id := range weak {
		w := fl.workers.Edit(id)
		w.SettleHealth(fl.s.Header.Clock)
		fl.reviewWorker(w)
	}
}

// capOf returns how many leases, of any queue, a worker may have open when it gets one of a queue with these rules.
func capOf(s *rota.WorkerSpec, rules *sched.Rules) int64 {
	most := int64(s.Slots) + min(int64(s.Prefetch), rules.PrefetchMax)
	if rules.LeasesMax > 0 {
		most = min(most, rules.LeasesMax)
	}
	return most
}

// lanesOf returns the lanes of a queue.
func (pl *placement) lanesOf(queue rota.QueueName) *sched.Pending {
	return pl.registry.queues[queue].pending
}

// partOf returns the part of all workers that a load uses, in millionths.
func (pl *placement) partOf(load sched.Load) int64 { return pl.registry.supply.PartOf(load) }
