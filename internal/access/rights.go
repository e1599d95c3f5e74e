package access

import (
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// rightsEnd is one past the last right.
const rightsEnd = rota.RightLast + 1

// RightNames returns the names of all rights.
func RightNames() (names []string) {
	for r := rota.RightNone + 1; r < rightsEnd; r++ {
		names = append(names, r.String())
	}
	return names
}

// Everything is the pattern that every id matches. It is also passed for a scope that a right does not have; no
// narrower pattern matches it.
const Everything = "*"

// grantCovers reports whether g allows everything that h allows.
func grantCovers(g, h rota.Grant) bool {
	return g.Right == h.Right && covers(g.Tenant, h.Tenant) && covers(g.Queue, h.Queue)
}

// covers reports whether every id that matches the pattern inner matches outer. An id is a pattern that matches only
// itself.
func covers(outer, inner string) bool {
	prefix, open := strings.CutSuffix(outer, Everything)
	if !open {
		return outer == inner
	}
	return strings.HasPrefix(strings.TrimSuffix(inner, Everything), prefix)
}

// CheckGrant rejects an invalid grant: an unknown right, an empty pattern, or a pattern for a scope that the right does
// not have, which would look like a limit without being one.
func CheckGrant(g rota.Grant) error {
	if g.Right == rota.RightNone || g.Right >= rightsEnd {
		return rota.Refusef(rota.KindInvalid, "right", "unknown right %d: use one of %s", g.Right,
			strings.Join(RightNames(), ", "))
	}
	if err := CheckPattern("tenant", g.Tenant); err != nil {
		return err
	}
	if err := CheckPattern("queue", g.Queue); err != nil {
		return err
	}
	switch {
	case !g.Right.ByTenant() && g.Tenant != Everything:
		return rota.Refusef(rota.KindInvalid, "tenant",
			"tenant of %s must be *, as the right covers the whole cluster, got %q", g.Right, g.Tenant)
	case !g.Right.ByQueue() && g.Queue != Everything:
		return rota.Refusef(rota.KindInvalid, "queue", "queue of %s must be *, as the right covers all queues, got %q",
			g.Right, g.Queue)
	}
	return nil
}

// CheckPattern rejects a text that is neither an id nor the beginning of one followed by "*".
func CheckPattern(field, pattern string) error {
	prefix, open := strings.CutSuffix(pattern, Everything)
	if open && prefix == "" {
		return nil
	}
	if err := rota.CheckID(field, prefix); err != nil {
		return rota.Refusef(rota.KindInvalid, field, "%s pattern %q is not an id, nor the beginning of one and *",
			field, cutText(pattern))
	}
	return nil
}

// cutText shortens a text that an error quotes.
func cutText(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// These are the names of the built-in roles.
const (
	RoleRoot      = "root"
	RoleOperator  = "operator"
	RoleSubmitter = "submitter"
	RoleReader    = "reader"
	RoleWorker    = "worker"
)

var builtInRoles = []rota.Role{
	builtIn(RoleOperator, func(r rota.Right) bool {
		return !slices.Contains([]rota.Right{rota.RightAuth, rota.RightBackup, rota.RightData, rota.RightDebug,
			rota.RightWork, rota.RightBudget, rota.RightGrant}, r)
	}),
	builtIn(RoleReader, func(r rota.Right) bool { return r == rota.RightRead || r == rota.RightStatus }),
	builtIn(RoleRoot, func(rota.Right) bool { return true }),
	builtIn(RoleSubmitter, func(r rota.Right) bool {
		return r == rota.RightSubmit || r == rota.RightRead || r == rota.RightData || r == rota.RightControl
	}),
	builtIn(RoleWorker, func(r rota.Right) bool { return r == rota.RightWork }),
}

func builtIn(name string, has func(rota.Right) bool) rota.Role {
	r := rota.Role{Name: name, BuiltIn: true}
	for right := rota.RightNone + 1; right < rightsEnd; right++ {
		if has(right) {
			r.Grants = append(r.Grants, rota.Grant{Right: right, Tenant: Everything, Queue: Everything})
		}
	}
	return r
}

// BuiltInRoles returns the built-in roles, by name.
func BuiltInRoles() []rota.Role { return slices.Clone(builtInRoles) }

// BuiltInRole returns the built-in role of a name; ok is false for any other name.
func BuiltInRole(name string) (role rota.Role, ok bool) {
	for _, r := range builtInRoles {
		if r.Name == name {
			return r, true
		}
	}
	return rota.Role{}, false
}

// CheckRole rejects a role that cannot be set.
func CheckRole(r *rota.Role) error {
	if err := rota.CheckID("role", r.Name); err != nil {
		return err
	}
	if _, ok := BuiltInRole(r.Name); ok {
		return rota.Refusef(rota.KindInvalid, "role", "role %s is built in: it never changes, choose another name",
			r.Name)
	}
	if n := len(r.Grants); n < 1 || n > limits.MaxGrants {
		return rota.Refusef(rota.KindInvalid, "grants", "grants: got role %s with %d, want 1 to %d", r.Name, n,
			limits.MaxGrants)
	}
	for _, g := range r.Grants {
		if err := CheckGrant(g); err != nil {
			return err
		}
	}
	return checkLimits(r)
}

// Rights are a principal's permissions: its grants, each within the narrowing. The zero value permits nothing. Rights
// are immutable.
type Rights struct {
	grants []rota.Grant
	// tenants and queues narrow all grants; an empty list does not narrow them.
	tenants, queues []string
	// prefix is the prefix of worker ids that the holder may register; empty does not narrow them.
	prefix string
	// all reports that everything is granted and not narrowed.
	all bool
	// most is how many objects of each kind the holder may own.
	most [OwnsEnd]int64
}

// NewRights returns the rights of roles within a narrowing.
func NewRights(roles []rota.Role, tenants, queues []string) Rights {
	r := Rights{tenants: tenants, queues: queues, all: len(tenants) == 0 && len(queues) == 0}
	for i := range roles {
		r.grants = append(r.grants, roles[i].Grants...)
		for what := range OwnsEnd {
			r.most[what] = max(r.most[what], allowed(&roles[i], what))
		}
	}
	// The rights that came later are not asked for: binaries of both ages agree on who has all.
	for right := rota.RightNone + 1; right <= rota.RightDebug && r.all; right++ {
		r.all = slices.Contains(r.grants, rota.Grant{Right: right, Tenant: Everything, Queue: Everything})
	}
	return r
}

// Registering returns rights to register only workers whose ids begin with a prefix.
func (r Rights) Registering(prefix string) Rights {
	r.prefix = prefix
	return r
}

// AllRights returns the rights to everything.
func AllRights() Rights { return Rights{all: true} }

// Key returns a key for the rights: rights with the same key permit the same.
func (r *Rights) Key() string {
	if r.all {
		return "all"
	}
	grants := make([]string, len(r.grants))
	for i, g := range r.grants {
		grants[i] = g.Right.String() + " " + g.Tenant + " " + g.Queue // no id contains a space
	}
	slices.Sort(grants)
	return strings.Join([]string{strings.Join(slices.Compact(grants), ","), strings.Join(r.tenants, ","),
		strings.Join(r.queues, ",")}, ";")
}

// All reports whether the holder may do everything.
func (r *Rights) All() bool { return r.all }

// Of returns a principal's rights as reported to a caller.
func (r *Rights) Of(p rota.Principal) rota.Identity {
	grants := r.grants
	if r.all {
		root, _ := BuiltInRole(RoleRoot)
		grants = root.Grants
	}
	return rota.Identity{Principal: p, Grants: slices.Clone(grants), Tenants: r.tenants, Queues: r.queues}
}

// Allow reports whether the right is granted over a tenant and a queue. Pass [Everything] for all of them.
func (r *Rights) Allow(right rota.Right, tenant rota.TenantID, queue rota.QueueName) bool {
	return r.all || r.covers(rota.Grant{Right: right, Tenant: string(tenant), Queue: string(queue)})
}

// AllowEverywhere reports whether the right is granted over all tenants and queues.
func (r *Rights) AllowEverywhere(right rota.Right) bool {
	return r.Allow(right, Everything, Everything)
}

// Some reports whether the right is granted over anything: whether a call that needs it can succeed at all.
func (r *Rights) Some(right rota.Right) bool {
	if r.all {
		return true
	}
	for _, g := range r.grants {
		if g.Right == right && (right.ByTenant() || narrowed(r.tenants, Everything)) &&
			(right.ByQueue() || narrowed(r.queues, Everything)) {
			return true
		}
	}
	return false
}

// Tenants returns the patterns of the tenants for which the right is granted in a queue.
func (r *Rights) Tenants(right rota.Right, queue rota.QueueName) (patterns []string) {
	if r.all {
		return []string{Everything}
	}
	for _, g := range r.grants {
		if g.Right != right || !covers(g.Queue, string(queue)) || !narrowed(r.queues, string(queue)) {
			continue
		}
		for _, pattern := range meet(g.Tenant, r.tenants) {
			if !slices.Contains(patterns, pattern) {
				patterns = append(patterns, pattern)
			}
		}
	}
	return patterns
}

// covers reports whether the rights include everything in a grant.
func (r *Rights) covers(want rota.Grant) bool {
	if !narrowed(r.tenants, want.Tenant) || !narrowed(r.queues, want.Queue) {
		return false
	}
	for _, g := range r.grants {
		if grantCovers(g, want) {
			return true
		}
	}
	return false
}

// narrowed reports whether a narrowing leaves a pattern unchanged.
func narrowed(patterns []string, pattern string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		if covers(p, pattern) {
			return true
		}
	}
	return false
}

// Within reports whether outer permits everything that r does, and owning as much. It compares grant by grant:
// permissions that two grants of outer provide only together do not count.
func (r *Rights) Within(outer *Rights) bool {
	if !strings.HasPrefix(r.prefix, outer.prefix) && r.Some(rota.RightWork) {
		return false
	}
	if outer.all {
		return true
	}
	if r.all {
		return false
	}
	for what, n := range r.most {
		if n > outer.most[what] {
			return false
		}
	}
	for _, g := range r.grants {
		for _, tenant := range meet(g.Tenant, r.tenants) {
			for _, queue := range meet(g.Queue, r.queues) {
				if !outer.covers(rota.Grant{Right: g.Right, Tenant: tenant, Queue: queue}) {
					return false
				}
			}
		}
	}
	return true
}

// meet returns the parts of a pattern that lie within a narrowing.
func meet(pattern string, narrowing []string) (both []string) {
	if len(narrowing) == 0 {
		return []string{pattern}
	}
	for _, p := range narrowing {
		switch {
		case covers(p, pattern):
			both = append(both, pattern)
		case covers(pattern, p):
			both = append(both, p)
		}
	}
	return both
}

// Events returns the events that may be read: for which tenants and queues, and whether events without a tenant are
// included. It returns one more than most if there are more.
func (r *Rights) Events(most int) (sees []rota.Grant) {
	add := func(g rota.Grant) {
		if len(sees) <= most && !slices.ContainsFunc(sees, func(h rota.Grant) bool { return grantCovers(h, g) }) {
			sees = append(sees, g)
		}
	}
	if r.AllowEverywhere(rota.RightRead) {
		add(rota.Grant{Right: rota.RightRead, Tenant: Everything, Queue: Everything})
	}
	for _, g := range r.grants {
		if g.Right != rota.RightRead {
			continue
		}
		for _, tenant := range meet(g.Tenant, r.tenants) {
			for _, queue := range meet(g.Queue, r.queues) {
				add(rota.Grant{Right: rota.RightRead, Tenant: tenant, Queue: queue})
			}
		}
	}
	if r.AllowEverywhere(rota.RightAudit) {
		add(rota.Grant{Right: rota.RightAudit, Tenant: Everything, Queue: Everything})
	}
	return sees
}

// CoverAll reports whether the rights include everything in the grants.
func (r *Rights) CoverAll(grants []rota.Grant) bool {
	return r.all || !slices.ContainsFunc(grants, func(g rota.Grant) bool { return !r.covers(g) })
}
