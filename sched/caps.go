package sched

import (
	"math"

	"github.com/rotasched/rota"
)

// Caps bounds the assignments of one entry of rounds in addition to the workers' room (SPEC §7.2). Each method returns
// how many more assignments are allowed now; math.MaxInt64 means no bound. A Draft asks each question at most once,
// when it first meets a tenant, domain or count of keys.
type Caps interface {
	// Tenant returns what max_concurrent leaves a tenant over all queues.
	Tenant(t rota.TenantID) int64
	// Window returns what tenant_window_max leaves a tenant in a queue.
	Window(q rota.QueueName, t rota.TenantID) int64
	// Domain returns how many tokens an isolated domain's bucket holds.
	Domain(q rota.QueueName, domain string) int64
	// Key returns what the rules of keys leave the jobs of a count over all queues (SPEC §19).
	Key(count string) int64
	// Amount returns what a weighted rate or a budget leaves the jobs of a count (SPEC §30), and Weight how much of that
	// an assignment of a job takes.
	Amount(count string) Amount
	Weight(count string, it *Item) int64
}

// Amount is what a weighted rate or a budget leaves its jobs: one may be assigned while Left is at least Least. Counts
// with the same Pool share the rest; the empty Pool is the count's own. math.MaxInt64 left means no bound.
type Amount struct {
	Pool        string
	Left, Least int64
}

// allowance is what an entry may still assign: the first answers of Caps minus the entry's assignments. An unbounded
// value stays unbounded.
type allowance struct {
	caps Caps
	// tenants spans queues; ofTenant and ofDomain map a queue's rows to its tenants and domains.
	tenants  map[rota.TenantID]*int64
	ofTenant map[*tenantRow]*tenantLeft
	ofDomain map[*domainRow]*int64
	ofKey    map[*keyRow]*keyLeft
	// pools holds the rest of the amounts that several counts share.
	pools map[string]*int64
	// first caches the answer to the first question of each kind: most entries ask about one tenant and one domain.
	first struct {
		tenant   *tenantRow
		id       rota.TenantID
		left     tenantLeft
		all      int64
		domain   *domainRow
		inDomain int64
	}
	// lastTenant and lastDomain are the latest ones asked for, with their remaining amounts.
	lastTenant *tenantRow
	tenantLeft *tenantLeft
	lastDomain *domainRow
	domainLeft *int64
}

// keyLeft is the rest of a count of keys: assignments, and the amount of its weighted rate or its budget, which must be
// least for the next one.
type keyLeft struct {
	jobs   int64
	amount *int64
	least  int64
	// pooled reports that other counts take from the same amount, and may need more of it.
	pooled bool
}

func (k *keyLeft) none() bool { return k.jobs <= 0 || *k.amount < k.least }

// tenantLeft is the remaining allowance of a tenant in one queue.
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

// allOf returns the remaining allowance of a tenant over all queues.
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

// shut reports whether a lane allows no further assignment. This is final: the rest only shrinks within an entry.
func (a *allowance) shut(q rota.QueueName, l *lane) bool {
	return a.caps != nil && (a.shutTenant(q, l) || *a.domain(q, l) <= 0 || a.shutKeys(l))
}

func (a *allowance) shutKeys(l *lane) bool {
	for _, c := range l.keys {
		if a.key(c.row).none() {
			return true
		}
	}
	return false
}

// shutTenant reports the same for all lanes of a lane's tenant in the queue.
func (a *allowance) shutTenant(q rota.QueueName, l *lane) bool {
	if a.caps == nil {
		return false
	}
	t := a.tenant(q, l)
	return *t.all <= 0 || t.window <= 0
}

// spend counts an assignment of a lane's job. It reports whether that may have shut lanes.
func (a *allowance) spend(q rota.QueueName, l *lane, it *Item) (shut bool) {
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
		left := a.key(c.row)
		if left.jobs != math.MaxInt64 {
			left.jobs--
		}
		if *left.amount != math.MaxInt64 {
			*left.amount -= a.caps.Weight(c.row.name, it)
		}
		shut = shut || left.none() || left.pooled
	}
	return shut
}
