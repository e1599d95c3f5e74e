package access

import (
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// rightsEnd is behind the last right.
const rightsEnd = rota.RightDebug + 1

// RightNames returns the names of all rights.
func RightNames() (names []string) {
	for r := rota.RightNone + 1; r < rightsEnd; r++ {
		names = append(names, r.String())
	}
	return names
}

// Everything is the pattern that every id matches. What a right is not scoped by is asked for
// by this name too, which no narrower pattern matches.
const Everything = "*"

// grantCovers reports whether all that h lets its holder do g does too.
func grantCovers(g, h rota.Grant) bool {
	return g.Right == h.Right && covers(g.Tenant, h.Tenant) && covers(g.Queue, h.Queue)
}

// covers reports whether every id that matches the pattern inner matches outer. An id is a
// pattern that it alone matches.
func covers(outer, inner string) bool {
	prefix, open := strings.CutSuffix(outer, Everything)
	if !open {
		return outer == inner
	}
	return strings.HasPrefix(strings.TrimSuffix(inner, Everything), prefix)
}

// CheckGrant refuses a grant that nobody should be given: an unknown right, an empty pattern, and
// one that narrows what it does not scope, which would look like a limit and be none.
func CheckGrant(g rota.Grant) error {
	if g.Right == rota.RightNone || g.Right >= rightsEnd {
		return rota.Refusef(rota.KindInvalid, "right", "unknown right %d: use one of %s", g.Right, strings.Join(RightNames(), ", "))
	}
	if err := CheckPattern("tenant", g.Tenant); err != nil {
		return err
	}
	if err := CheckPattern("queue", g.Queue); err != nil {
		return err
	}
	switch {
	case !g.Right.ByTenant() && g.Tenant != Everything:
		return rota.Refusef(rota.KindInvalid, "tenant", "tenant of %s must be *, as the right covers the whole cluster, got %q", g.Right, g.Tenant)
	case !g.Right.ByQueue() && g.Queue != Everything:
		return rota.Refusef(rota.KindInvalid, "queue", "queue of %s must be *, as the right covers all queues, got %q", g.Right, g.Queue)
	}
	return nil
}

// CheckPattern refuses what is neither an id nor the beginning of one with "*" behind it.
func CheckPattern(field, pattern string) error {
	prefix, open := strings.CutSuffix(pattern, Everything)
	if open && prefix == "" {
		return nil
	}
	if err := rota.CheckID(field, prefix); err != nil {
		return rota.Refusef(rota.KindInvalid, field, "%s pattern %q is not an id, nor the beginning of one and *", field, cutText(pattern))
	}
	return nil
}

// cutText shortens what is quoted in a refusal.
func cutText(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// Names of the roles that the binary brings.
const (
	RoleRoot      = "root"
	RoleOperator  = "operator"
	RoleSubmitter = "submitter"
	RoleReader    = "reader"
	RoleWorker    = "worker"
)

var builtInRoles = []rota.Role{
	builtIn(RoleOperator, func(r rota.Right) bool {
		return !slices.Contains([]rota.Right{rota.RightAuth, rota.RightBackup, rota.RightData, rota.RightDebug, rota.RightWork}, r)
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

// BuiltInRoles returns the roles that the binary brings, by name.
func BuiltInRoles() []rota.Role { return slices.Clone(builtInRoles) }

// BuiltInRole returns the role of a name that the binary brings; ok is false for any other.
func BuiltInRole(name string) (role rota.Role, ok bool) {
	for _, r := range builtInRoles {
		if r.Name == name {
			return r, true
		}
	}
	return rota.Role{}, false
}

// CheckRole refuses a role that cannot be set.
func CheckRole(r *rota.Role) error {
	if err := rota.CheckID("role", r.Name); err != nil {
		return err
	}
	if _, ok := BuiltInRole(r.Name); ok {
		return rota.Refusef(rota.KindInvalid, "role", "role %s is built in: it never changes, choose another name", r.Name)
	}
	if n := len(r.Grants); n < 1 || n > limits.MaxGrants {
		return rota.Refusef(rota.KindInvalid, "grants", "grants: got role %s with %d, want 1 to %d", r.Name, n, limits.MaxGrants)
	}
	for _, g := range r.Grants {
		if err := CheckGrant(g); err != nil {
			return err
		}
	}
	return checkLimits(r)
}

// Rights are what a principal may do: its grants, each within the narrowing. The zero value
// may do nothing. Rights never change once they are made.
type Rights struct {
	grants []rota.Grant
	// tenants and queues narrow all grants; none narrow nothing.
	tenants, queues []string
	// prefix begins the ids of workers that the holder may register; empty narrows nothing.
	prefix string
	// all says that everything is granted and nothing narrowed.
	all bool
	// most is how much the holder may own.
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
	for right := rota.RightNone + 1; right < rightsEnd && r.all; right++ {
		r.all = slices.Contains(r.grants, rota.Grant{Right: right, Tenant: Everything, Queue: Everything})
	}
	return r
}

// Registering returns the rights of who registers only workers whose ids begin so.
func (r Rights) Registering(prefix string) Rights {
	r.prefix = prefix
	return r
}

// AllRights returns the rights to everything.
func AllRights() Rights { return Rights{all: true} }

// Key names the rights: those with one key allow the same.
func (r *Rights) Key() string {
	if r.all {
		return "all"
	}
	grants := make([]string, len(r.grants))
	for i, g := range r.grants {
		grants[i] = g.Right.String() + " " + g.Tenant + " " + g.Queue // no id has a blank
	}
	slices.Sort(grants)
	return strings.Join([]string{strings.Join(slices.Compact(grants), ","), strings.Join(r.tenants, ","), strings.Join(r.queues, ",")}, ";")
}

// All reports whether nothing is kept from the holder.
func (r *Rights) All() bool { return r.all }

// Of returns a principal's rights as a caller is told of them.
func (r *Rights) Of(p rota.Principal) rota.Identity {
	grants := r.grants
	if r.all {
		root, _ := BuiltInRole(RoleRoot)
		grants = root.Grants
	}
	return rota.Identity{Principal: p, Grants: slices.Clone(grants), Tenants: r.tenants, Queues: r.queues}
}

// Allow reports whether the right is granted over a tenant and a queue. [Everything] asks for
// it over all of them.
func (r *Rights) Allow(right rota.Right, tenant rota.TenantID, queue rota.QueueName) bool {
	return r.all || r.covers(rota.Grant{Right: right, Tenant: string(tenant), Queue: string(queue)})
}

// AllowEverywhere reports whether the right is granted over all tenants and queues.
func (r *Rights) AllowEverywhere(right rota.Right) bool {
	return r.Allow(right, Everything, Everything)
}

// Some reports whether the right is granted over anything: whether a call that needs it may
// succeed at all.
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

// Tenants returns the patterns of the tenants that the right is granted over in a queue.
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

// covers reports whether the rights hold all that a grant does.
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

// narrowed reports whether a narrowing leaves a pattern as it is.
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

// Within reports whether outer lets its holder do all that r does, and own as much. It judges grant by grant:
// what two grants of outer hold only together is not within.
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

// meet returns what of a pattern lies within a narrowing.
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

// Events returns which events may be read: those of which tenants and queues, and whether those of no
// tenant are among them. It returns one more than most where there are more.
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

// CoverAll reports whether the rights hold all that some grants do.
func (r *Rights) CoverAll(grants []rota.Grant) bool {
	return r.all || !slices.ContainsFunc(grants, func(g rota.Grant) bool { return !r.covers(g) })
}
