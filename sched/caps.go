package sched

import (
	"math"

	"github.com/rotasched/rota"
)

// Caps bound what one entry of rounds may assign beyond the workers' room (SPEC
// §7.2). Each answers how many more assignments may be made now; math.MaxInt64
// for no bound. A Draft asks each question at most once, as it meets a tenant,
// domain or count of keys.
type Caps interface {
	// Tenant is what max_concurrent leaves a tenant over all queues.
	Tenant(t rota.TenantID) int64
	// Window is what tenant_window_max leaves a tenant in a queue.
	Window(q rota.QueueName, t rota.TenantID) int64
	// Domain is how many tokens an isolated domain's bucket holds.
	Domain(q rota.QueueName, domain string) int64
	// Key is what the rules of keys leave the jobs of a count over all queues (SPEC §19).
	Key(count string) int64
}

// allowance is what an entry may still assign: what Caps answered at first, less
// what the entry assigned. Where nothing is bounded it stays unbounded.
type allowance struct {
	caps Caps
	// tenants spans queues; ofTenant and ofDomain know a queue's by its rows.
	tenants  map[rota.TenantID]*int64
	ofTenant map[*tenantRow]*tenantLeft
	ofDomain map[*domainRow]*int64
	ofKey    map[*keyRow]*int64
	// first is what the first question of each kind was answered: most entries ask about one tenant and one domain.
	first struct {
		tenant   *tenantRow
		id       rota.TenantID
		left     tenantLeft
		all      int64
		domain   *domainRow
		inDomain int64
	}
	// lastTenant and lastDomain are those asked for last, with what is left to them.
	lastTenant *tenantRow
	tenantLeft *tenantLeft
	lastDomain *domainRow
	domainLeft *int64
}

// tenantLeft is what is left to a tenant in one queue.
type tenantLeft struct {
	all    *int64
	window int64
}

func newAllowance(caps Caps) allowance {
	return allowance{caps: caps}
}

func (a *allowance) tenant(q rota.QueueName, l *lane) *tenantLeft {
	if a.lastTenant == l.tenant {
		return a.tenantLeft
	}
	left := a.ofTenant[l.tenant]
	switch f := &a.first; {
	case f.tenant == l.tenant:
		left = &f.left
	case f.tenant == nil:
		f.tenant, f.id, f.all = l.tenant, l.key.tenant, a.caps.Tenant(l.key.tenant)
		f.left = tenantLeft{&f.all, a.caps.Window(q, l.key.tenant)}
		left = &f.left
	case left == nil:
		left = &tenantLeft{a.allOf(l.key.tenant), a.caps.Window(q, l.key.tenant)}
		put(&a.ofTenant, l.tenant, left)
	}
	a.lastTenant, a.tenantLeft = l.tenant, left
	return left
}

// allOf is what is left to a tenant over all queues.
func (a *allowance) allOf(tenant rota.TenantID) *int64 {
	if a.first.id == tenant {
		return &a.first.all
	}
	all := a.tenants[tenant]
	if all == nil {
		all = new(int64)
		*all = a.caps.Tenant(tenant)
		put(&a.tenants, tenant, all)
	}
	return all
}

func (a *allowance) domain(q rota.QueueName, l *lane) *int64 {
	if a.lastDomain == l.domain {
		return a.domainLeft
	}
	left := a.ofDomain[l.domain]
	switch f := &a.first; {
	case f.domain == l.domain:
		left = &f.inDomain
	case f.domain == nil:
		f.domain, f.inDomain = l.domain, a.caps.Domain(q, l.key.domain)
		left = &f.inDomain
	case left == nil:
		left = new(int64)
		*left = a.caps.Domain(q, l.key.domain)
		put(&a.ofDomain, l.domain, left)
	}
	a.lastDomain, a.domainLeft = l.domain, left
	return left
}

// shut reports whether nothing may be assigned from a lane any more, which is for good:
// what is left only shrinks within an entry.
func (a *allowance) shut(q rota.QueueName, l *lane) bool {
	return a.caps != nil && (a.shutTenant(q, l) || *a.domain(q, l) <= 0 || a.shutKeys(l))
}

func (a *allowance) shutKeys(l *lane) bool {
	for _, c := range l.keys {
		if *a.key(c.row) <= 0 {
			return true
		}
	}
	return false
}

// shutTenant says it of all lanes of a lane's tenant in the queue.
func (a *allowance) shutTenant(q rota.QueueName, l *lane) bool {
	if a.caps == nil {
		return false
	}
	t := a.tenant(q, l)
	return *t.all <= 0 || t.window <= 0
}

// spend counts an assignment from a lane, and says whether that left nothing for
// it and perhaps for others.
func (a *allowance) spend(q rota.QueueName, l *lane) (shut bool) {
	if a.caps == nil {
		return false
	}
	t := a.tenant(q, l)
	for _, left := range [...]*int64{t.all, &t.window, a.domain(q, l)} {
		if *left != math.MaxInt64 {
			*left--
			shut = shut || *left <= 0
		}
	}
	for _, c := range l.keys {
		if left := a.key(c.row); *left != math.MaxInt64 {
			*left--
			shut = shut || *left <= 0
		}
	}
	return shut
}
