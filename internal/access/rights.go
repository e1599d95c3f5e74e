package access

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// Right is what a grant lets its holder do.
type Right uint8

// The rights, in the order of the table in docs/security.md.
const (
	RightNone Right = iota
	// RightSubmit admits jobs and workflows.
	RightSubmit
	// RightRead reads jobs, workflows, queues, tenants and events.
	RightRead
	// RightData reads what users put into them: payloads, outputs, errors, notes.
	RightData
	// RightControl cancels, retries, changes and deletes jobs and workflows.
	RightControl
	// RightVerdict reports invalid proofs.
	RightVerdict
	// RightWork registers workers and works on leases.
	RightWork
	// RightWorkers drains, suspends, resumes and retires others' workers.
	RightWorkers
	// RightQueue sets queues.
	RightQueue
	// RightTenant sets tenants.
	RightTenant
	// RightStatus reads how the cluster and its workers do.
	RightStatus
	// RightOperate changes the mode, the members and the leader.
	RightOperate
	// RightBackup saves snapshots.
	RightBackup
	// RightAudit reads events that belong to no tenant.
	RightAudit
	// RightAuth changes roles, tokens and blocks.
	RightAuth
	// RightDebug reads the profiles of a node.
	RightDebug
	rightsEnd
)

var rightNames = []string{"none", "submit", "read", "data", "control", "verdict", "work", "workers", "queue", "tenant",
	"status", "operate", "backup", "audit", "auth", "debug"}

// String names the right in small letters.
func (r Right) String() string {
	if r >= rightsEnd {
		return "UNKNOWN_" + strconv.Itoa(int(r))
	}
	return rightNames[r]
}

// MarshalText implements encoding.TextMarshaler.
func (r Right) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Right) UnmarshalText(text []byte) error {
	i := slices.Index(rightNames, string(text))
	if i < 0 {
		return rota.Refusef(rota.KindInvalid, "right", "right %q is unknown: one of %s is wanted", cutText(string(text)), strings.Join(RightNames(), ", "))
	}
	*r = Right(i)
	return nil
}

// RightNames returns the names of all rights.
func RightNames() []string { return slices.Clone(rightNames[1:]) }

// ByTenant reports whether a tenant scopes the right: a grant of it may name one.
func (r Right) ByTenant() bool { return r >= RightSubmit && r <= RightWork || r == RightTenant }

// ByQueue reports whether a queue scopes the right.
func (r Right) ByQueue() bool { return r >= RightSubmit && r <= RightQueue }

// Everything is the pattern that every id matches. What a right is not scoped by is asked for
// by this name too, which no narrower pattern matches.
const Everything = "*"

// Grant is one right over the tenants and queues that match two patterns: an id, or the
// beginning of one and "*".
type Grant struct {
	Right  Right  `json:"right"`
	Tenant string `json:"tenant"`
	Queue  string `json:"queue"`
}

// String writes the grant as right:tenant:queue, without what does not scope the right.
func (g Grant) String() string {
	s := g.Right.String()
	if g.Right.ByTenant() {
		s += " tenant=" + g.Tenant
	}
	if g.Right.ByQueue() {
		s += " queue=" + g.Queue
	}
	return s
}

// Covers reports whether all that h lets its holder do g does too.
func (g Grant) Covers(h Grant) bool {
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

// Check refuses a grant that nobody should be given: an unknown right, an empty pattern, and
// one that narrows what it does not scope, which would look like a limit and be none.
func (g Grant) Check() error {
	if g.Right == RightNone || g.Right >= rightsEnd {
		return rota.Refusef(rota.KindInvalid, "right", "right %d is unknown: one of %s is wanted", g.Right, strings.Join(RightNames(), ", "))
	}
	if err := CheckPattern("tenant", g.Tenant); err != nil {
		return err
	}
	if err := CheckPattern("queue", g.Queue); err != nil {
		return err
	}
	switch {
	case !g.Right.ByTenant() && g.Tenant != Everything:
		return rota.Refusef(rota.KindInvalid, "tenant", "no tenant scopes %s, which is for the whole cluster: * is wanted, not %q", g.Right, g.Tenant)
	case !g.Right.ByQueue() && g.Queue != Everything:
		return rota.Refusef(rota.KindInvalid, "queue", "no queue scopes %s, which is for all of them: * is wanted, not %q", g.Right, g.Queue)
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

// Role is a named list of grants.
type Role struct {
	Name   string  `json:"name"`
	Grants []Grant `json:"grants"`
	// BuiltIn says that the binary brings it: it never changes.
	BuiltIn bool `json:"built_in,omitempty"`
	// By is who set it last, At when.
	By rota.Principal `json:"by,omitempty"`
	At rota.Moment    `json:"at,omitzero"`
}

// Names of the roles that the binary brings.
const (
	RoleRoot      = "root"
	RoleOperator  = "operator"
	RoleSubmitter = "submitter"
	RoleReader    = "reader"
	RoleWorker    = "worker"
)

var builtInRoles = []Role{
	builtIn(RoleOperator, func(r Right) bool {
		return !slices.Contains([]Right{RightAuth, RightBackup, RightData, RightDebug, RightWork}, r)
	}),
	builtIn(RoleReader, func(r Right) bool { return r == RightRead || r == RightStatus }),
	builtIn(RoleRoot, func(Right) bool { return true }),
	builtIn(RoleSubmitter, func(r Right) bool {
		return r == RightSubmit || r == RightRead || r == RightData || r == RightControl
	}),
	builtIn(RoleWorker, func(r Right) bool { return r == RightWork }),
}

func builtIn(name string, has func(Right) bool) Role {
	r := Role{Name: name, BuiltIn: true}
	for right := RightNone + 1; right < rightsEnd; right++ {
		if has(right) {
			r.Grants = append(r.Grants, Grant{right, Everything, Everything})
		}
	}
	return r
}

// BuiltInRoles returns the roles that the binary brings, by name.
func BuiltInRoles() []Role { return slices.Clone(builtInRoles) }

// BuiltInRole returns the role of a name that the binary brings; ok is false for any other.
func BuiltInRole(name string) (role Role, ok bool) {
	for _, r := range builtInRoles {
		if r.Name == name {
			return r, true
		}
	}
	return Role{}, false
}

// Check refuses a role that cannot be set.
func (r *Role) Check() error {
	if err := rota.CheckID("role", r.Name); err != nil {
		return err
	}
	if _, ok := BuiltInRole(r.Name); ok {
		return rota.Refusef(rota.KindInvalid, "role", "role %s is built in: it never changes, choose another name", r.Name)
	}
	if n := len(r.Grants); n < 1 || n > limits.MaxGrants {
		return rota.Refusef(rota.KindInvalid, "grants", "grants of role %s are %d: 1 to %d are wanted", r.Name, n, limits.MaxGrants)
	}
	for _, g := range r.Grants {
		if err := g.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Rights are what a principal may do: its grants, each within the narrowing. The zero value
// may do nothing. Rights never change once they are made.
type Rights struct {
	grants []Grant
	// tenants and queues narrow all grants; none narrow nothing.
	tenants, queues []string
	// all says that everything is granted and nothing narrowed.
	all bool
}

// NewRights returns the rights of grants within a narrowing.
func NewRights(grants []Grant, tenants, queues []string) Rights {
	r := Rights{grants: grants, tenants: tenants, queues: queues, all: len(tenants) == 0 && len(queues) == 0}
	for right := RightNone + 1; right < rightsEnd && r.all; right++ {
		r.all = slices.Contains(grants, Grant{right, Everything, Everything})
	}
	return r
}

// AllRights returns the rights to everything.
func AllRights() Rights { return Rights{all: true} }

// All reports whether nothing is kept from the holder.
func (r *Rights) All() bool { return r.all }

// Allow reports whether the right is granted over a tenant and a queue. [Everything] asks for
// it over all of them.
func (r *Rights) Allow(right Right, tenant rota.TenantID, queue rota.QueueName) bool {
	return r.all || r.covers(Grant{right, string(tenant), string(queue)})
}

// AllowEverywhere reports whether the right is granted over all tenants and queues.
func (r *Rights) AllowEverywhere(right Right) bool { return r.Allow(right, Everything, Everything) }

// Some reports whether the right is granted over anything: whether a call that needs it may
// succeed at all.
func (r *Rights) Some(right Right) bool {
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

// covers reports whether the rights hold all that a grant does.
func (r *Rights) covers(want Grant) bool {
	if !narrowed(r.tenants, want.Tenant) || !narrowed(r.queues, want.Queue) {
		return false
	}
	for _, g := range r.grants {
		if g.Covers(want) {
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

// Within reports whether outer lets its holder do all that r does. It judges grant by grant:
// what two grants of outer hold only together is not within.
func (r *Rights) Within(outer *Rights) bool {
	if outer.all {
		return true
	}
	if r.all {
		return false
	}
	for _, g := range r.grants {
		for _, tenant := range meet(g.Tenant, r.tenants) {
			for _, queue := range meet(g.Queue, r.queues) {
				if !outer.covers(Grant{g.Right, tenant, queue}) {
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
