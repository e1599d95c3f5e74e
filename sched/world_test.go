package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// dice draws the choices of a random test, using rapid (which shrinks failures) or evenly from a seed.
type dice struct {
	fatal interface {
		Helper()
		Fatalf(format string, args ...any)
	}
	intn func(n int) int
}

func (t *dice) Fatalf(format string, args ...any) {
	t.fatal.Helper()
	t.fatal.Fatalf(format, args...)
}

func (t *dice) between(low, high int) int { return low + t.intn(high-low+1) }

func pick[T any](t *dice, of []T) T { return of[t.intn(len(of))] }

func permuted[T any](t *dice, of []T) []T {
	out := slices.Clone(of)
	for i := len(out) - 1; i > 0; i-- {
		j := t.intn(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// world is a random cluster: the product's tables and the plain facts from which naive decides.
type world struct {
	supply    *Supply
	pending   *Pending
	queue     rota.QueueName // of new jobs
	fair      bool
	tiered    bool
	low       LowHold
	caps      *naiveCaps // of the next round; nil bounds nothing
	policy    rota.QueuePolicy
	workers   []*naiveWorker
	items     []*Item
	classes   map[ClassID]*Requirements
	shares    map[rota.TenantID]*naiveShare
	holds     map[*Item]Hold
	throttled map[string]bool // "t:" tenant or "d:" domain
	specs     []rota.JobSpec
	ids       int // of workers
	owned     bool
	variety   int // how many specs there are
	next      int
	now       rota.Clock // past 1,000
	// ring is nil if no job has keys; grouped reports that parties take turns.
	ring    *worldRing
	keys    *Keys
	grouped bool
	turns   turnModel
}

var (
	someTenants      = []rota.TenantID{"ann", "bob", "cyd", "dan"}
	someDomains      = []string{"", "eu", "us"}
	someCapabilities = []string{"gpu", "arm64", "sdxl"}
	someRegions      = []string{"eu", "us", "ap"}
	servedQueues     = [][]rota.QueueName{{"q"}, {"r", "q", "r"}, {"r"}}
	someQueues       = []rota.QueueName{"q", "r"}
)

func subset[T any](t *dice, of []T) []T {
	var out []T
	mask := t.between(0, 1<<len(of)-1)
	for i := range of {
		if mask>>i&1 == 1 {
			out = append(out, of[i])
		}
	}
	return out
}

func newWorld(t *dice) *world {
	w := &world{
		supply: NewSupply(), queue: "q", fair: t.between(0, 1) == 0, policy: rota.StandardPolicy(),
		classes: map[ClassID]*Requirements{}, shares: map[rota.TenantID]*naiveShare{}, throttled: map[string]bool{},
		holds: map[*Item]Hold{},
	}
	if w.tiered = t.between(0, 2) == 0; w.tiered {
		w.fair = false
	}
	w.scoring(t)
	w.drawKeys(t)
	w.keys = NewKeys(w.ring)
	w.pending = w.newPending()
	w.policy.BatchSize = pick(t, []int64{256, 256, 2, 7, 30})
	w.owned = t.between(0, 1) == 0
	w.variety = pick(t, []int{2, 3, 4, 8, 200})
	w.policy.FairShare = w.fair
	w.policy.OldestEvery = pick(t, []int64{0, 0, 1, 2, 3, 7})
	w.policy.HoldAfterMs = pick(t, []int64{999, 998, 997, 2000})
	w.policy.HoldMaxMs = int64(t.between(1, 5))
	w.policy.Ranking = pick(t, []rota.Ranking{rota.RankAging, rota.RankFIFO, rota.RankMarket})
	w.policy.Strategy = rota.Strategy(t.between(0, int(rota.StrategyAffinity)))
	w.policy.Unseeded = t.between(0, 3) == 0
	w.policy.PreferLocality = t.between(0, 1) == 0
	w.policy.LeasesMaxPerWorker = pick(t, []int64{0, 0, 0, 3, 6})
	w.setRules(t)
	w.ids = 9
	if t.between(0, 30) == 30 {
		w.ids = 150 // More than one word of a bitset holds.
	}
	for range t.between(1, w.ids) {
		w.putWorker(t)
	}
	most := pick(t, []int{8, 60, 60, 250})
	for range t.between(most/2, most) {
		w.add(t)
		w.follow(t)
	}
	for range t.between(0, 2) {
		w.share(t)
		w.throttle(t)
		w.follow(t)
	}
	return w
}

// scoring draws the keys of the adaptive score: mostly unchanged.
func (w *world) scoring(t *dice) {
	if t.between(0, 1) == 0 {
		return
	}
	for _, s := range []rota.Setting{{Key: "tiers", Value: fmt.Sprint(t.between(2, rota.MaxTiers))},
		{Key: "epsilon", Value: pick(t, []string{"0.001", "2", "7.5"})},
		{Key: "n_min", Value: pick(t, []string{"1", "3", "50"})},
		{Key: "w_min", Value: pick(t, []string{"0.1", "0.9"})},
		{Key: "w_max", Value: pick(t, []string{"1", "1.5", "100"})},
		{Key: "max_aging", Value: pick(t, []string{"1", "1.001", "3"})},
		{Key: "t_aging", Value: pick(t, []string{"1s", "600s"})},
		{Key: "base_1", Value: pick(t, []string{"0.3", "10", "1000"})},
		{Key: "quota_0", Value: pick(t, []string{"0", "20"})},
		{Key: "quota_1", Value: pick(t, []string{"1", "15", "100"})}} {
		if err := w.policy.Set(s); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if err := w.policy.Check(); err != nil {
		t.Fatalf("%v", err)
	}
}

func (w *world) putWorker(t *dice) {
	spec := &rota.WorkerSpec{
		ID:           rota.WorkerID(fmt.Sprintf("w-%d", t.between(0, w.ids))),
		Queues:       servedQueues[t.between(0, 7)/5+t.between(0, 7)/7],
		Slots:        int32(t.between(1, 9)),
		Prefetch:     int32(t.between(0, 1)),
		Region:       pick(t, someRegions),
		Zone:         pick(t, someRegions),
		Limits:       someLimits(t),
		Types:        pick(t, [][]rota.JobType{nil, nil, {"echo"}, {"", "render"}, {"echo", "render"}}),
		Capabilities: append(subset(t, someCapabilities), subset(t, someCapabilities)...),
		CPUMilli:     int64(t.between(2, 16)),
		MemoryBytes:  int64(t.between(2, 16)),
		IOBytesPerS:  int64(t.between(2, 16)),
	}
	n := &naiveWorker{spec: spec, active: t.between(0, 5) > 0, naiveReputation: someReputation(t),
		received: uint64(t.between(0, 6)), open: int64(t.between(0, 2)), cpu: spec.CPUMilli, mem: spec.MemoryBytes,
		io: spec.IOBytesPerS}
	taken := int64(t.between(0, 2))
	n.cpu, n.mem, n.io = n.cpu-taken, n.mem-taken, n.io-taken
	w.dropWorker(spec.ID, false)
	w.workers = append(w.workers, n)
	w.supply.Put(n.entry())
	w.supply.Isolate(spec.ID, false)
	w.supply.SetData(spec.ID, n.data)
	w.supply.Endless(spec.ID, int32(t.between(0, 1)))
	n.endless = w.supply.State(spec.ID).Endless
	w.reviewHolds()
}

func (w *world) dropWorker(id rota.WorkerID, product bool) {
	w.workers = slices.DeleteFunc(w.workers, func(n *naiveWorker) bool { return n.spec.ID == id })
	if product {
		w.supply.Remove(id)
		w.reviewHolds()
	}
}

// spec returns one of the world's few sets of requirements, or a new one.
func (w *world) spec(t *dice) rota.JobSpec {
	if len(w.specs) >= w.variety {
		return pick(t, w.specs)
	}
	few := func() []string {
		if t.between(0, 1) > 0 {
			return nil
		}
		return []string{pick(t, someCapabilities)}
	}
	spec := rota.JobSpec{
		Queue: w.queue, Requires: few(),
		CPUMilli: int64(t.between(0, 2)), MemoryBytes: int64(t.between(0, 2)), IOBytesPerS: int64(t.between(0, 2)),
		Type: pick(t, someTypes), Limits: someLimits(t), Units: pick(t, []int64{0, 0, 0, 1, 2, 3}),
		Zone: pick(t, someRegions), DataKeys: subset(t, someData),
	}
	if t.between(0, 3) == 0 {
		spec.RegionsAllow = subset(t, someRegions)
		spec.RegionsDeny = subset(t, someRegions)
	}
	if t.between(0, 9) == 0 {
		spec.Worker = rota.WorkerID(fmt.Sprintf("w-%d", t.between(0, w.ids)))
	}
	w.specs = append(w.specs, spec)
	return spec
}

func (w *world) add(t *dice) {
	spec := w.spec(t)
	r := RequirementsOf(&spec)
	r.Isolated = t.between(0, 7) == 0
	class := w.supply.Intern(r)
	w.classes[class] = &r
	w.next++
	it := &Item{
		// Ids in another order than that of their creation.
		ID:       rota.JobID(fmt.Sprintf("j-%02d-%d", t.between(0, 99), w.next)),
		Enqueued: rota.Clock(t.between(0, 2)), Class: class, JobSpec: &spec,
	}
	it.Tenant, it.Domain = pick(t, someTenants), pick(t, someDomains)
	it.Keys = w.keysOfJob(t, it.ID)
	it.Priority = pick(t, somePriorities)
	size := pick(t, someSizes)
	it.Data = w.someOutputs(t)
	if w.tiered {
		it.TierPlace = &TierPlace{int32(TierOf(it.Priority, int(w.policy.Tiers))), rota.Clock(t.between(0, 2)),
			uint64(w.next), size, 0}
	} else if w.policy.Ranking == rota.RankFIFO {
		it.Number = uint64(t.between(0, 3) * t.between(0, w.next)) // mostly its own number
	}
	if w.owned {
		// Each class has its own tenant, so that a throttle silences classes.
		it.Tenant = someTenants[int(class)%len(someTenants)]
	}
	it.Queued = it.Enqueued + rota.Clock(t.between(0, 3)/3)
	it.Key = RankKey(&w.policy, it.Priority, int64(it.Priority), 1, rota.TierFree, it.Enqueued, 0)
	w.items = append(w.items, it)
	w.pending.Add(it)
}

// someOutputs are of parents that some workers completed, some of which are gone.
func (w *world) someOutputs(t *dice) *Data {
	switch t.between(0, 5) {
	case 0:
	case 1:
		if len(w.items) > 0 {
			return pick(t, w.items).Data // nodes may share it
		}
	default:
		return nil
	}
	var held Data
	for i := range w.ids + 1 {
		if id := rota.WorkerID(fmt.Sprintf("w-%d", i)); t.between(0, 2) == 0 {
			held = append(held, HeldBy{id, int64(pick(t, []int{1, 1, 1, 2, 3, 5, 300}))})
		}
	}
	slices.SortFunc(held, func(a, b HeldBy) int { return strings.Compare(string(a.Worker), string(b.Worker)) })
	return &held
}

func (w *world) remove(t *dice, it *Item) {
	w.items = slices.DeleteFunc(w.items, func(x *Item) bool { return x == it })
	if !w.pending.Remove(it) || w.pending.Remove(it) {
		t.Fatalf("job %s is not removed once", it.ID)
	}
	w.endHold(it)
	w.supply.Release(it.Class)
}

func (w *world) share(t *dice) {
	tenant := pick(t, someTenants)
	s := &naiveShare{int64(t.between(0, 5)), int64(t.between(1, 3))}
	w.shares[tenant] = s
	w.pending.SetShare(tenant, s.open, s.weight)
}

func (w *world) throttle(t *dice) {
	throttled := t.between(0, 1) == 0
	if t.between(0, 1) == 0 {
		tenant := pick(t, someTenants)
		w.throttled["t:"+string(tenant)] = throttled
		w.pending.Throttle(tenant, throttled)
		return
	}
	domain := pick(t, someDomains)
	w.throttled["d:"+domain] = throttled
	w.pending.ThrottleDomain(domain, throttled)
}

// unblocked returns the jobs that rounds look at, in ranking order.
func (w *world) unblocked() []*Item {
	var out []*Item
	for _, it := range w.items {
		if !w.isThrottled(it) && (it.Priority <= 5 || w.low == LowFree) {
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b *Item) int { return cmp.Or(cmp.Compare(a.Key, b.Key), byAge(a, b)) })
	return out
}

func (w *world) step(t *dice) {
	switch t.between(0, 20) {
	case 13:
		w.restand(t)
	case 14:
		w.setRules(t)
	case 0:
		w.putWorker(t)
	case 1:
		w.dropWorker(rota.WorkerID(fmt.Sprintf("w-%d", t.between(0, w.ids))), true)
	case 2, 3:
		w.add(t)
	case 4:
		if len(w.items) > 0 {
			w.remove(t, pick(t, w.items))
		}
	case 5:
		w.share(t)
	case 6, 7:
		w.throttle(t)
	case 8:
		if len(w.workers) > 0 {
			x := pick(t, w.workers)
			cpu, mem, io := min(1, x.spec.CPUMilli-x.cpu), min(1, x.spec.MemoryBytes-x.mem), min(1,
				x.spec.IOBytesPerS-x.io)
			if x.open > 0 {
				x.open, x.cpu, x.mem, x.io = x.open-1, x.cpu+cpu, x.mem+mem, x.io+io
				w.supply.Give(x.spec.ID, Load{cpu, mem, io})
				x.isolated = false
				w.supply.Isolate(x.spec.ID, false)
			}
		}
	case 15:
		w.low = pick(t, []LowHold{LowFree, LowHeld, LowOldestOnly, LowOldestOnly})
		w.pending.HoldLow(w.low)
	case 16:
		w.promote(t)
	case 17:
		w.regrant(t)
	case 19, 20:
		w.keyOp(t)
	default:
		w.round(t)
	}
}

// rebuilt returns the same world, built in another order.
func (w *world) rebuilt(t *dice) *world {
	o := &world{supply: NewSupply(), ring: w.ring.restored(), grouped: w.grouped, fair: w.fair, tiered: w.tiered,
		policy: w.policy}
	o.keys = NewKeys(o.ring)
	o.pending = o.newPending()
	for _, tenant := range someTenants {
		o.pending.Throttle(tenant, w.throttled["t:"+string(tenant)])
	}
	for _, it := range permuted(t, w.items) {
		c := *it
		c.Class = o.supply.Intern(*w.classes[it.Class])
		o.pending.Add(&c)
	}
	for _, x := range permuted(t, w.workers) {
		o.supply.Put(x.entry())
		o.supply.SetData(x.spec.ID, x.data)
		o.supply.Isolate(x.spec.ID, x.isolated)
	}
	o.supply.SetRules("q", RulesOf(&w.policy))
	o.pending.HoldLow(w.low)
	for _, domain := range someDomains {
		o.pending.ThrottleDomain(domain, w.throttled["d:"+domain])
	}
	for _, tenant := range someTenants {
		if s := w.shares[tenant]; s != nil {
			o.pending.SetShare(tenant, s.open, s.weight)
		}
	}
	return o
}
