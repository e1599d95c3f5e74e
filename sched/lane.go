package sched

import (
	"strings"

	"github.com/rotasched/rota"
)

// entry is an item together with its rank, so that a comparison rarely follows the pointer.
type entry struct {
	key  int64
	age  rota.Clock
	item *Item
}

func entryOf(it *Item) entry { return entry{it.Key, it.Enqueued, it} }

// entryLess is the order of every integer ranking: (key, enqueued, number, id).
func entryLess(a, b entry) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	if a.age != b.age {
		return a.age < b.age
	}
	return a.item.before(b.item)
}

// before orders otherwise equal items by (number, id).
func (it *Item) before(o *Item) bool {
	if it == o {
		return false
	}
	if it.Number != o.Number {
		return it.Number < o.Number
	}
	return strings.Compare(string(it.ID), string(o.ID)) < 0
}

// seat is an item's place in the ranking order of a queue without fair share.
type seat struct {
	entry
	lane *lane
}

func seatLess(a, b seat) bool { return entryLess(a.entry, b.entry) }

type laneKey struct {
	tenant rota.TenantID
	domain string
	class  ClassID
	band   band
	tier   uint8
	// counts are those of its jobs' keys, "" for most lanes; party is set where parties take turns.
	counts, party string
}

// lane holds the jobs of one tenant, class, domain and band, and of one tier and set of counts where there are any. It
// is the unit of throttling.
type lane struct {
	key    laneKey
	tenant *tenantRow
	domain *domainRow
	cell   *cell
	keys   laneKeys
	// tenantAt, domainAt and bandAt are its indexes in the lists.
	tenantAt, domainAt, bandAt int
	items                      ordered[entry]
	// head is the first item, zero while not filed. Invariant: a lane is filed exactly when it has items and is neither
	// throttled nor held.
	head entry
	// byAge holds the items in order of age once that differs from their ranking order: from the first item whose key
	// minus Enqueued is not lead, until the lane is empty.
	byAge  ordered[entry]
	skewed bool
	lead   int64
	// oldest is the oldest item, zero while not filed by age; aging is the side where it is filed.
	oldest entry
	aging  *ageIndex
	// counted is its contribution to its class's demand: the number of its items while filed.
	counted int
}

// cell holds the filed lanes of one class in one group.
type cell struct {
	group  *group
	demand *demand
	lanes  ordered[*lane]
	head   entry
	// users counts its lanes, throttled ones too. at is its index in demand.cells.
	users, at int
}

// group holds the cells that draw from one share: those of a tenant under fair share, of a party where parties take
// turns, of a tier in an adaptive queue, otherwise all cells.
type group struct {
	tenant *tenantRow // nil except under fair share
	party  string
	// open and weight are the share that it is filed under.
	open, weight int64
	cells        ordered[*cell]
	head         entry
	users        int
}

// demand is the filed part of one class.
type demand struct {
	class ClassID
	items int
	cells []*cell // the filed cells; their order has no effect
	// ageIndex holds its lanes by age, as Pending.ageIndex holds classes.
	ageIndex [2]ageIndex
	// users counts its cells; at is its index in Pending.demands.
	users, at int
}

type tenantRow struct {
	id           rota.TenantID
	open, weight int64
	throttled    bool
	lanes        []*lane
	group        *group
}

type domainRow struct {
	throttled bool
	lanes     []*lane
}

func tenantLess(a, b *tenantRow) bool { return a.id < b.id }

func laneLess(a, b *lane) bool { return entryLess(a.head, b.head) }

func cellLess(a, b *cell) bool { return entryLess(a.head, b.head) }

// groupLess is the order of SPEC §4.11: open leases ÷ weight, then the heads.
func groupLess(a, b *group) bool {
	if c := compareShares(a.open, a.weight, b.open, b.weight); c != 0 {
		return c < 0
	}
	return entryLess(a.head, b.head)
}

// compareShares compares open ÷ weight exactly.
func compareShares(aOpen, aWeight, bOpen, bWeight int64) int {
	if aWeight == bWeight {
		switch {
		case aOpen < bOpen:
			return -1
		case aOpen > bOpen:
			return 1
		}
		return 0
	}
	return compareFractions(uint64(aOpen), uint64(aWeight), uint64(bOpen), uint64(bWeight))
}
