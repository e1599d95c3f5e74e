package sched

import (
	"strings"

	"github.com/rotasched/rota"
)

// entry is an item with its rank beside it, so that comparing rarely follows
// the pointer.
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

// before orders items that nothing else tells apart: (number, id).
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
	// counts are those of its jobs' keys, "" for most; party takes turns where parties do.
	counts, party string
}

// lane holds the jobs of one tenant, class, domain, band, and tier and counts of keys if
// there are any: the unit that is throttled.
type lane struct {
	key    laneKey
	tenant *tenantRow
	domain *domainRow
	cell   *cell
	keys   laneKeys
	// tenantAt, domainAt and bandAt are its places in the lists.
	tenantAt, domainAt, bandAt int
	items                      ordered[entry]
	// head is the first item, none while not filed. Invariant: filed exactly
	// when it has items and nothing throttles or holds it.
	head entry
	// byAge holds the items in order of age once that is not their ranking order:
	// from the first item whose key minus Enqueued is not lead, until empty.
	byAge  ordered[entry]
	skewed bool
	lead   int64
	// oldest is the oldest item, none while not filed by age; aging is where it is.
	oldest entry
	aging  *ageIndex
	// counted is what it adds to its class's demand: its items while filed.
	counted int
}

// cell holds the filed lanes of one class in one group.
type cell struct {
	group  *group
	demand *demand
	lanes  ordered[*lane]
	head   entry
	// users counts its lanes, throttled ones too. at is its place in demand.cells.
	users, at int
}

// group holds the cells that are drawn from by one share: those of a tenant
// under fair share, those of a party where parties take turns, those of a tier of an adaptive queue,
// else all.
type group struct {
	tenant *tenantRow // nil but under fair share
	party  string
	// open and weight are the share it is filed under.
	open, weight int64
	cells        ordered[*cell]
	head         entry
	users        int
}

// demand is what is filed of one class.
type demand struct {
	class ClassID
	items int
	cells []*cell // the filed ones; their order shows nowhere
	// ageIndex holds its lanes by age as Pending.ageIndex does.
	ageIndex [2]ageIndex
	// users counts its cells; at is its place in Pending.demands.
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
