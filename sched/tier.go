package sched

import "github.com/rotasched/rota"

// tier is one tier of an adaptive queue: the group that rounds draw from, and all its jobs, including blocked ones, in
// the order of entering it.
type tier struct {
	group group
	fifo  ordered[entry]
}

// NewTiered returns an empty Pending for an adaptive queue with this many tiers, each in the order of (TierAt, TierSeq)
// (SPEC §10.2). A job that changes its tier is removed and added as another Item. Fair share does not apply: a sample
// has no order of tenants.
func NewTiered(tiers int) *Pending {
	p := NewPending(false)
	p.tiered, p.tiers = true, make([]tier, tiers)
	for i := range p.tiers {
		p.tiers[i].group.weight = 1
	}
	return p
}

// Tiers returns the number of jobs of each tier, including blocked ones; nil except in an adaptive queue.
func (p *Pending) Tiers() (depths []int64) {
	for i := range p.tiers {
		depths = append(depths, int64(p.tiers[i].fifo.len()))
	}
	return depths
}

// TierFront returns the job that entered a tier first, blocked or not; nil if there is none.
func (p *Pending) TierFront(tier int) *Item {
	if tier < 0 || tier >= len(p.tiers) {
		return nil
	}
	e, _ := p.tiers[tier].fifo.min()
	return e.item
}

// tierAt returns a job's tier.
func (p *Pending) tierAt(it *Item) uint8 { return uint8(min(max(int(it.Tier), 0), len(p.tiers)-1)) }

// keyOf returns the key of the lane that a job is filed in.
func (p *Pending) keyOf(it *Item) laneKey {
	k := p.plainKeyOf(it)
	if p.keys != nil && (len(it.Keys) > 0 || p.keys.All) {
		k.counts = p.countsOf(it)
		if p.grouped && len(it.Keys) > 0 {
			k.party = p.keys.ring.Party(it)
		}
	}
	return k
}

// plainKeyOf is keyOf for a job whose keys are in no count.
func (p *Pending) plainKeyOf(it *Item) laneKey {
	k := laneKey{tenant: it.Tenant, domain: it.Domain, class: it.Class, band: bandOf(it.Priority)}
	if p.tiered {
		k.tier = p.tierAt(it)
	}
	return k
}

// laneOf returns a job's lane, nil if there is none. The counts under which a job was filed do not follow from the job
// alone.
func (p *Pending) laneOf(it *Item) *lane {
	if l := p.laneAt[it]; l != nil {
		return l
	}
	return p.lanes[p.plainKeyOf(it)]
}

// entryOf returns a job's entry in the order of its lane.
func (p *Pending) entryOf(it *Item) entry {
	if p.tiered {
		return entry{int64(it.TierAt), rota.Clock(it.TierSeq), it}
	}
	return entryOf(it)
}
