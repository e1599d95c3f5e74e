package sched

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Ask is what a job requires of its worker: room for its class, and a grant for its tenant.
type Ask struct {
	Class  ClassID
	Tenant rota.TenantID
}

// ask returns the item's Ask.
func (it *Item) ask() Ask { return Ask{it.Class, it.Tenant} }

// Grants lists, by queue, the tenants that a worker may work for; in a queue that is not listed it may work for none.
// nil Grants allow all tenants of every queue. Grants never change.
type Grants struct{ Queues []QueueTenants }

// QueueTenants lists the tenants of one queue: ids, and prefixes of ids followed by "*".
type QueueTenants struct {
	Queue   rota.QueueName
	Tenants []string
}

// Equal reports whether two grants are the same.
func (g *Grants) Equal(o *Grants) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g == o || slices.EqualFunc(g.Queues, o.Queues, func(a, b QueueTenants) bool {
		return a.Queue == b.Queue && slices.Equal(a.Tenants, b.Tenants)
	})
}

// Tenants returns the tenants of a queue.
func (g *Grants) Tenants(q rota.QueueName) []string {
	if tenants, narrow := g.of(q); narrow {
		return tenants
	}
	return []string{anyTenant}
}

// of returns the tenants of a queue, and whether they are fewer than all.
func (g *Grants) of(q rota.QueueName) (tenants []string, narrow bool) {
	if g == nil {
		return nil, false
	}
	for i := range g.Queues {
		if g.Queues[i].Queue == q {
			tenants = g.Queues[i].Tenants
		}
	}
	return tenants, !slices.Contains(tenants, anyTenant)
}

const anyTenant = "*"

// idRange returns the least id that a pattern matches, and the least id greater than all matches.
func idRange(pattern string) (from, to string) {
	if prefix, open := strings.CutSuffix(pattern, anyTenant); open {
		return prefix, prefix + "\xff" // which no id contains
	}
	return pattern, pattern + "\x00"
}

// narrowings are the workers of a queue that may work for only some of its tenants. The tenants' ids are cut into
// spans, so that the workers allowed for a tenant are found at once, however many principals there are.
type narrowings struct {
	workers bitset
	// spans cover all ids in order; neighbours differ. Without workers there are none.
	spans []tenantSpan
}

// tenantSpan is a range of ids that ends where the next one begins.
type tenantSpan struct {
	from string
	// allowed are the slots, sorted, of the narrowed workers that may work for these tenants. A stored list never
	// changes.
	allowed []int32
}

// put files a narrowed worker by its tenants; drop removes it.
func (n *narrowings) put(slot int32, tenants []string) {
	n.workers.set(int(slot))
	if len(n.spans) == 0 {
		n.spans = []tenantSpan{{}}
	}
	for _, pattern := range tenants {
		n.mark(pattern, func(allowed []int32) []int32 {
			at, found := slices.BinarySearch(allowed, slot)
			if found {
				return allowed
			}
			return slices.Insert(slices.Clone(allowed), at, slot)
		})
	}
}

func (n *narrowings) drop(slot int32, tenants []string) {
	n.workers.clear(int(slot))
	if n.workers.first() < 0 {
		*n = narrowings{}
		return
	}
	for _, pattern := range tenants {
		n.mark(pattern, func(allowed []int32) []int32 {
			at, found := slices.BinarySearch(allowed, slot)
			if !found {
				return allowed
			}
			return slices.Delete(slices.Clone(allowed), at, at+1)
		})
	}
}

// mark changes the allowed workers in the spans of a pattern.
func (n *narrowings) mark(pattern string, change func([]int32) []int32) {
	from, to := idRange(pattern)
	first, last := n.cut(from), n.cut(to)
	for i := first; i < last; i++ {
		n.spans[i].allowed = change(n.spans[i].allowed)
	}
	keep := max(first, 1)
	for i := keep; i < len(n.spans); i++ {
		if i > last || !slices.Equal(n.spans[i].allowed, n.spans[keep-1].allowed) {
			n.spans[keep] = n.spans[i]
			keep++
		}
	}
	clear(n.spans[keep:])
	n.spans = n.spans[:keep]
}

// cut makes a span begin at an id and returns its index.
func (n *narrowings) cut(from string) int {
	at := n.at(from)
	if n.spans[at].from == from {
		return at
	}
	n.spans = slices.Insert(n.spans, at+1, tenantSpan{from, n.spans[at].allowed})
	return at + 1
}

// at returns the index of the span that contains an id.
func (n *narrowings) at(id string) int {
	lo, hi := 1, len(n.spans)
	for lo < hi {
		if mid := (lo + hi) / 2; id < n.spans[mid].from {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo - 1
}

// allowed returns the narrowed workers that may work for a tenant.
func (n *narrowings) allowed(t rota.TenantID) []int32 {
	if len(n.spans) == 0 {
		return nil
	}
	return n.spans[n.at(string(t))].allowed
}

// grants reports whether a worker may work for a tenant.
func (n *narrowings) grants(slot int32, t rota.TenantID) bool {
	if !n.workers.has(int(slot)) {
		return true
	}
	_, found := slices.BinarySearch(n.allowed(t), slot)
	return found
}

// Scope identifies the workers that may not take a tenant's jobs in a queue: two tenants with the same scope have the
// same workers. It is valid until grants change.
func (s *Supply) Scope(q rota.QueueName, t rota.TenantID) string {
	queue := s.queues[q]
	if queue == nil || len(queue.narrow.spans) == 0 {
		return ""
	}
	allowed := queue.narrow.allowed(t)
	key := make([]byte, 0, 4*len(allowed))
	for _, slot := range allowed {
		key = binary.LittleEndian.AppendUint32(key, uint32(slot))
	}
	return string(key)
}

// ScopedClass identifies jobs that the same workers could ever take.
type ScopedClass struct {
	Class ClassID
	Scope string
}

// narrowed reports whether any worker of a queue may work for only some of its tenants.
func (s *Supply) narrowed(q rota.QueueName) bool {
	queue := s.queues[q]
	return queue != nil && len(queue.narrow.spans) > 0
}

// eligible returns the workers that could ever take a job with this Ask.
func (s *Supply) eligible(a Ask) bitset {
	k := &s.classes[a.Class]
	n := &k.queue.narrow
	if len(n.spans) == 0 {
		return k.fits
	}
	able := slices.Clone(k.fits)
	for i := range min(len(able), len(n.workers)) {
		able[i] &^= n.workers[i]
	}
	for _, slot := range n.allowed(a.Tenant) {
		if k.fits.has(int(slot)) {
			able.set(int(slot))
		}
	}
	return able
}

// could reports whether a worker could ever take a job with this Ask.
func (s *Supply) could(a Ask, slot int32) bool {
	k := &s.classes[a.Class]
	return k.fits.has(int(slot)) && k.queue.narrow.grants(slot, a.Tenant)
}

// regrant files a worker by its grants under each of its queues.
func (s *Supply) regrant(slot int32, old *Grants) {
	for _, q := range s.specs[slot].Queues {
		s.ungrant(q, slot, old)
		s.grant(q, slot)
	}
}

func (s *Supply) grant(q rota.QueueName, slot int32) {
	if tenants, narrow := s.grants[slot].of(q); narrow {
		s.queue(q).narrow.put(slot, tenants)
	}
}

// ungrant removes a worker that had these grants from a queue's narrowings.
func (s *Supply) ungrant(q rota.QueueName, slot int32, old *Grants) {
	if queue := s.queues[q]; queue != nil && queue.narrow.workers.has(int(slot)) {
		tenants, _ := old.of(q)
		queue.narrow.drop(slot, tenants)
	}
}

// checkNarrow compares a queue's narrowings with its workers' grants.
func (s *Supply) checkNarrow(q rota.QueueName, queue *queueSupply) error {
	var want narrowings
	for _, slot := range s.order {
		if tenants, narrow := s.grants[slot].of(q); narrow && slices.Contains(s.specs[slot].Queues, q) {
			want.put(slot, tenants)
		}
	}
	if !want.workers.equal(queue.narrow.workers) || !slices.EqualFunc(want.spans, queue.narrow.spans,
		func(a, b tenantSpan) bool {
			return a.from == b.from && slices.Equal(a.allowed, b.allowed)
		}) {
		return fmt.Errorf("queue %s has other narrowed workers than a recount", q)
	}
	return nil
}
