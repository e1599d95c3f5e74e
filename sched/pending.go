package sched

import (
	"github.com/rotasched/rota"
)

// Item is a QUEUED job as rounds see it. It never changes once added.
type Item struct {
	ID rota.JobID
	// Key is the job's RankKey.
	Key      int64
	Enqueued rota.Clock
	// Queued is when the job began to wait for placement: Enqueued or later.
	Queued rota.Clock
	// JobSpec holds the rest of the job's data. Many items may share one, to keep a pending job small. Its ID and
	// SizeBytes are never read: those here and in TierPlace apply.
	*rota.JobSpec
	Class   ClassID
	Attempt int32
	// Number is the job's submission number in a `fifo` queue (SPEC §16.4), where it orders jobs of equal age; 0
	// elsewhere.
	Number uint64
	// TierPlace is nil in a queue without tiers and learned estimates, as most are: stored in every item, it took 160
	// MB more for ten million of them.
	*TierPlace
	// Data lists the workers that hold the outputs of its parents; nil for a job outside workflows.
	Data *Data
}

// TierPlace is a job's place in an adaptive queue: the tier, when and in what order of the log it entered it (SPEC
// §10.2), and the size in bytes that its score counts. It never changes.
type TierPlace struct {
	Tier    int32
	TierAt  rota.Clock
	TierSeq uint64
	Size    int64
	// Estimate is the learned duration in ms, 0 for none. In a queue without tiers it is the only field in use.
	Estimate int64
}

// Data lists where a job's inputs are, in addition to its data keys: the workers of its completed parents, by id, with
// the number of parents each. It never changes.
type Data []HeldBy

// HeldBy is the number of parents' outputs that a worker holds.
type HeldBy struct {
	Worker rota.WorkerID
	N      int64
}

// Pending holds one queue's QUEUED jobs (SPEC §4.10, §4.11) in four ordered levels: groups by share, a group's cells, a
// cell's lanes and a lane's items by head. In an adaptive queue each tier is a group, ordered by when jobs entered it.
// Adding or removing a job therefore touches one lane, and the levels above only when the job was or becomes a head. A
// throttled lane is not in its cell. The structure depends only on the items, shares and throttles, not on the order in
// which they came.
type Pending struct {
	fairShare bool
	// grouped reports whether the groups are parties, which take turns, by the keys of jobs: their open leases are the
	// turns that they had (SPEC §19.4).
	grouped bool
	parties map[string]*group
	// least is fixed while several lanes come back at once.
	least leastTurn
	// tiered reports whether the groups are the tiers of an adaptive queue.
	tiered   bool
	low      LowHold
	n        int
	lanes    map[laneKey]*lane
	tenants  map[rota.TenantID]*tenantRow
	byID     ordered[*tenantRow] // the same rows by id
	domains  map[string]*domainRow
	cells    map[cellKey]*cell
	demandOf map[ClassID]*demand
	// demands lists the classes that occur; their order has no effect.
	demands []*demand
	groups  ordered[*group]
	// Without fair share and tiers there is only the group sole, and seats holds every item.
	sole  *group
	seats ordered[seat]
	tiers []tier
	// bands lists the lanes of each range of priorities, unordered. critical orders the filed lanes of priority 0.
	// filed counts the filed lanes of all bands.
	bands    [bandCount][]*lane
	critical ordered[*lane]
	filed    int
	// ageIndex orders the classes by their oldest items: in lanes that rounds draw from, and in those that only turns
	// of the oldest do.
	ageIndex [2]ordered[*ageIndex]
	// keys is nil if no keys are counted; laneAt maps a job in counts to its lane.
	keys   *Keys
	laneAt map[*Item]*lane
	// ages counts the items by Enqueued, throttled ones too.
	ages ordered[ageCount]
	// gone keeps the values dropped last, for reuse: where hardly any job waits, each job would allocate all of it.
	gone struct {
		lane   *lane
		cell   *cell
		demand *demand
		tenant *tenantRow
		domain *domainRow
	}
}

// reuse returns the dropped value for reuse, or allocates a new one.
func reuse[T any](gone **T) *T {
	x := *gone
	if *gone = nil; x == nil {
		x = new(T)
	}
	return x
}

type cellKey struct {
	group *group
	class ClassID
}

// NewPending returns an empty Pending. With fair share each tenant is a group of its own.
func NewPending(fairShare bool) *Pending {
	return &Pending{
		fairShare: fairShare,
		lanes:     map[laneKey]*lane{},
		tenants:   map[rota.TenantID]*tenantRow{},
		domains:   map[string]*domainRow{},
		cells:     map[cellKey]*cell{},
		demandOf:  map[ClassID]*demand{},
		sole:      &group{weight: 1},
	}
}

// FairShare reports whether each tenant is a group of its own.
func (p *Pending) FairShare() bool { return p.fairShare && !p.grouped }

// NewGrouped returns an empty Pending in which each party of jobs is a group of its own. SetKeys must name the parties.
func NewGrouped() *Pending {
	p := NewPending(true)
	p.grouped, p.parties = true, map[string]*group{}
	return p
}

// SetTurn sets how many turns a party had.
func (p *Pending) SetTurn(party string, turn int64) {
	g := p.parties[party]
	if g == nil {
		return
	}
	if g.head.item != nil {
		p.groups.remove(g, groupLess)
	}
	g.open = turn
	if g.head.item != nil {
		p.groups.insert(g, groupLess)
	}
}

// Add files a job. It replaces a job with the same rank and id in the same lane.
func (p *Pending) Add(it *Item) {
	key := p.keyOf(it)
	l := p.lanes[key]
	if l == nil {
		l = p.newLane(key)
	}
	if key.counts != "" {
		p.laneAt[it] = l
	}
	e := p.entryOf(it)
	if !l.items.insert(e, entryLess) {
		p.n++
		p.countAge(it.Enqueued)
		if l.head.item != nil {
			l.counted++
			l.cell.demand.items++
		}
	}
	switch {
	case p.tiered:
		p.tiers[key.tier].fifo.insert(e, entryLess)
	case !p.fairShare:
		p.seats.insert(seat{e, l}, seatLess)
	}
	if l.head.item == nil || !entryLess(l.head, e) {
		p.settle(l)
	}
	age := entryOf(it)
	l.addAge(age, p.tiered)
	if l.oldest.item == nil || !ageLess(l.oldest, age) {
		p.settleAge(l)
	}
}

// Remove removes a job and reports whether it was filed.
func (p *Pending) Remove(it *Item) bool {
	l := p.laneOf(it)
	e := p.entryOf(it)
	if l == nil || !l.items.remove(e, entryLess) {
		return false
	}
	p.n--
	if l.keys != nil {
		delete(p.laneAt, it)
	}
	switch {
	case p.tiered:
		p.tiers[l.key.tier].fifo.remove(e, entryLess)
	case !p.fairShare:
		p.seats.remove(seat{e, l}, seatLess)
	}
	p.uncountAge(it.Enqueued)
	if l.head.item != nil {
		l.counted--
		l.cell.demand.items--
		if !entryLess(l.head, e) {
			p.settle(l)
		}
	}
	age := entryOf(it)
	if l.skewed {
		l.byAge.remove(age, ageLess)
	}
	if l.oldest.item != nil && !ageLess(l.oldest, age) {
		p.settleAge(l)
	}
	if l.items.len() == 0 {
		p.dropLane(l)
	}
	return true
}

// ageCount is the number of items of one age.
type ageCount struct {
	age rota.Clock
	n   int
}

func ageCountLess(a, b ageCount) bool { return a.age < b.age }

func (p *Pending) countAge(age rota.Clock) {
	if c := p.ages.at(ageCount{age: age}, ageCountLess); c != nil {
		c.n++
	} else {
		p.ages.insert(ageCount{age, 1}, ageCountLess)
	}
}

func (p *Pending) uncountAge(age rota.Clock) {
	x := ageCount{age: age}
	if c := p.ages.at(x, ageCountLess); c.n > 1 {
		c.n--
	} else {
		p.ages.remove(x, ageCountLess)
	}
}

// Len returns the number of jobs, including throttled ones.
func (p *Pending) Len() int { return p.n }

// Lanes returns the number of lanes, including throttled ones. Jobs of one tenant, domain and class are in up to three:
// of priority 0, 1 to 5, and above. In an adaptive queue this applies per tier.
func (p *Pending) Lanes() int { return len(p.lanes) }

// ThrottledLanes returns the number of lanes that rounds skip.
func (p *Pending) ThrottledLanes() int { return len(p.lanes) - p.filed }

// Oldest returns the least Enqueued of all jobs, including throttled ones, in O(log n).
func (p *Pending) Oldest() (rota.Clock, bool) {
	first, ok := p.ages.min()
	return first.age, ok
}

// SetShare sets a tenant's open leases in this queue and its weight (SPEC §4.11). The default is 0 open leases and
// weight 1.
func (p *Pending) SetShare(tenant rota.TenantID, open, weight int64) {
	t := p.tenant(tenant)
	t.open, t.weight = max(open, 0), max(weight, 1)
	if g := t.group; g != nil && g.tenant == t {
		if g.head.item != nil {
			p.groups.remove(g, groupLess)
		}
		g.open, g.weight = t.open, t.weight
		if g.head.item != nil {
			p.groups.insert(g, groupLess)
		}
	}
	p.dropTenant(tenant, t)
}

// Throttle removes a tenant's lanes from the index, or puts them back (SPEC §4.9).
func (p *Pending) Throttle(tenant rota.TenantID, throttled bool) {
	t := p.tenant(tenant)
	p.throttle(&t.throttled, throttled, t.lanes)
	p.dropTenant(tenant, t)
}

// ThrottleDomain removes a failure domain's lanes from the index, or puts them back (SPEC §4.8).
func (p *Pending) ThrottleDomain(domain string, throttled bool) {
	d := p.domain(domain)
	p.throttle(&d.throttled, throttled, d.lanes)
	p.dropDomain(domain, d)
}

// throttle sets whether the lanes are throttled, and files them again if that changed.
func (p *Pending) throttle(was *bool, throttled bool, lanes []*lane) {
	if *was == throttled {
		return
	}
	*was = throttled
	p.minHold()
	for _, l := range lanes {
		p.settle(l)
		p.settleAge(l)
	}
	p.minFree()
}
