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
	// Queued is since when it waits to be placed: at least since Enqueued.
	Queued rota.Clock
	// JobSpec tells all else that the job says; many may share it, so that a job that
	// waits takes little. Its ID and SizeBytes are never asked for: those here and in TierPlace are.
	*rota.JobSpec
	Class   ClassID
	Attempt int32
	// Number is the job's submission number where jobs equally old go by it, in a `fifo`
	// queue (SPEC §16.4); 0 elsewhere.
	Number uint64
	// TierPlace is nil in a queue without tiers and learned estimates, which most are: with its words in every
	// item, ten million of them took 160 MB more.
	*TierPlace
	// Data tells who holds the outputs of its parents; nil for a job of no workflow.
	Data *Data
}

// TierPlace is a job's place in an adaptive queue: the tier, when and in what order of the
// log it entered it (SPEC §10.2), and the size in bytes that its score counts. It never
// changes.
type TierPlace struct {
	Tier    int32
	TierAt  rota.Clock
	TierSeq uint64
	Size    int64
	// Estimate is what was learned of how long it should take, in ms, 0 for nothing; in a queue without
	// tiers that is all.
	Estimate int64
}

// Data is where a job's inputs lie, beside its data keys: the workers that completed
// parents of it, by id, and how many each. It never changes.
type Data []HeldBy

// HeldBy is how many parents' outputs a worker holds.
type HeldBy struct {
	Worker rota.WorkerID
	N      int64
}

// Pending is one queue's QUEUED jobs (SPEC §4.10, §4.11). Four ordered levels:
// groups by share, a group's cells, a cell's lanes and a lane's items by head. In
// an adaptive queue each tier is a group, and the order is that of entering it.
// So adding or removing a job touches one lane, and the levels above only when
// it was or becomes a head; a throttled lane is out of its cell. All of it follows
// from the items, shares and throttles, in whatever order they came.
type Pending struct {
	fairShare bool
	// grouped says that the groups are parties, by the keys of jobs, which take turns: their open
	// leases are the turns that they had (SPEC §19.4).
	grouped bool
	parties map[string]*group
	// least is held while several lanes come back at once.
	least leastTurn
	// tiered says that the groups are the tiers of an adaptive queue.
	tiered   bool
	low      LowHold
	n        int
	lanes    map[laneKey]*lane
	tenants  map[rota.TenantID]*tenantRow
	byID     ordered[*tenantRow] // the same by their ids
	domains  map[string]*domainRow
	cells    map[cellKey]*cell
	demandOf map[ClassID]*demand
	// demands lists the classes that occur; their order shows nowhere.
	demands []*demand
	groups  ordered[*group]
	// Without fair share and tiers there is the sole group, and seats holds every
	// item.
	sole  *group
	seats ordered[seat]
	tiers []tier
	// bands lists the lanes by the priorities in them, in no order; critical orders
	// the filed ones of priority 0, filed counts those of all bands.
	bands    [bandCount][]*lane
	critical ordered[*lane]
	filed    int
	// ageIndex orders the classes by their oldest items, of lanes that rounds look at
	// and of those that only turns of the oldest do.
	ageIndex [2]ordered[*ageIndex]
	// keys are nil where nobody asks for them; laneAt are the lanes of jobs in counts.
	keys   *Keys
	laneAt map[*Item]*lane
	// ages counts the items by Enqueued, throttled ones too.
	ages ordered[ageCount]
	// gone is what was dropped last, to be used anew: where hardly any job waits, each one makes all of it.
	gone struct {
		lane   *lane
		cell   *cell
		demand *demand
		tenant *tenantRow
		domain *domainRow
	}
}

// anew takes what is gone, or makes it.
func anew[T any](gone **T) *T {
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

// NewPending starts empty. With fair share each tenant is a group of its own.
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

// NewGrouped starts empty, each party of jobs a group of its own. SetKeys must name the parties.
func NewGrouped() *Pending {
	p := NewPending(true)
	p.grouped, p.parties = true, map[string]*group{}
	return p
}

// SetTurn tells how many turns a party had.
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

// Add files a job. One with the same rank and id in the same lane is replaced.
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

// Remove takes a job out and says whether it was there.
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

// ageCount is how many items are equally old.
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

// Len counts the jobs, throttled ones too.
func (p *Pending) Len() int { return p.n }

// Lanes counts the lanes, throttled ones too. Jobs of one tenant, domain and class
// stand in up to three: of priority 0, 1 to 5, and above. In an adaptive queue
// those of each tier do.
func (p *Pending) Lanes() int { return len(p.lanes) }

// ThrottledLanes counts the lanes that rounds do not draw from.
func (p *Pending) ThrottledLanes() int { return len(p.lanes) - p.filed }

// Oldest is the least Enqueued of all jobs, throttled ones too, in O(log n).
func (p *Pending) Oldest() (rota.Clock, bool) {
	first, ok := p.ages.min()
	return first.age, ok
}

// SetShare tells a tenant's open leases in this queue and its weight (SPEC
// §4.11). A tenant for which it was never called has none open and weight 1.
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

// Throttle takes a tenant's lanes out of the index, or puts them back (SPEC §4.9).
func (p *Pending) Throttle(tenant rota.TenantID, throttled bool) {
	t := p.tenant(tenant)
	p.throttle(&t.throttled, throttled, t.lanes)
	p.dropTenant(tenant, t)
}

// ThrottleDomain takes a failure domain's lanes out of the index, or puts them back
// (SPEC §4.8).
func (p *Pending) ThrottleDomain(domain string, throttled bool) {
	d := p.domain(domain)
	p.throttle(&d.throttled, throttled, d.lanes)
	p.dropDomain(domain, d)
}

// throttle sets whether those lanes are throttled, and files them anew where that changes.
func (p *Pending) throttle(was *bool, throttled bool, lanes []*lane) {
	if *was == throttled {
		return
	}
	*was = throttled
	p.holdLeast()
	for _, l := range lanes {
		p.settle(l)
		p.settleAge(l)
	}
	p.freeLeast()
}
