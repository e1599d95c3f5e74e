package access

import (
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// Owned is a kind of object of which a principal may own a limited number.
type Owned uint8

// These are the kinds that principals own.
const (
	OwnsQueue Owned = iota
	OwnsTenant
	OwnsWorker
	OwnsWorkflow
	OwnsToken
	OwnsSchedule
	OwnsBatch
	OwnsWebhook
	OwnsEnd
)

// ownedKinds holds for each kind the field of a role that bounds it and the right to create one. It also holds the
// number that a role allows by default, and the most that it may allow: as many as a cluster accepts.
var ownedKinds = [OwnsEnd]struct {
	field       string
	of          func(*rota.RoleLimits) *int64
	right       rota.Right
	usual, most int64
}{
	OwnsQueue: {"max_queues", func(l *rota.RoleLimits) *int64 { return &l.MaxQueues }, rota.RightQueue,
		limits.MaxOwnedQueues, limits.MaxQueues},
	OwnsTenant: {"max_tenants", func(l *rota.RoleLimits) *int64 { return &l.MaxTenants }, rota.RightTenant,
		limits.MaxOwnedTenants, limits.MaxTenants},
	OwnsWorker: {"max_workers", func(l *rota.RoleLimits) *int64 { return &l.MaxWorkers }, rota.RightWork,
		limits.MaxOwnedWorkers, limits.MaxWorkers},
	OwnsWorkflow: {"max_workflows", func(l *rota.RoleLimits) *int64 { return &l.MaxWorkflows }, rota.RightSubmit,
		limits.MaxOwnedWorkflows, limits.MaxWorkflows},
	OwnsToken: {"max_tokens", func(l *rota.RoleLimits) *int64 { return &l.MaxTokens }, rota.RightAuth,
		limits.MaxOwnedTokens, limits.MaxTokens},
	OwnsSchedule: {"max_schedules", func(l *rota.RoleLimits) *int64 { return &l.MaxSchedules }, rota.RightSubmit,
		limits.MaxOwnedSchedules, limits.MaxSchedules},
	OwnsBatch: {"max_batches", func(l *rota.RoleLimits) *int64 { return &l.MaxBatches }, rota.RightSubmit,
		limits.MaxOwnedBatches, limits.MaxBatches},
	OwnsWebhook: {"max_webhooks", func(l *rota.RoleLimits) *int64 { return &l.MaxWebhooks }, rota.RightControl,
		limits.MaxOwnedWebhooks, limits.MaxWebhooks},
}

// Field returns the name of the role's field that bounds the kind.
func (o Owned) Field() string { return ownedKinds[o].field }

// Of returns the field of a role that bounds the kind.
func (o Owned) Of(l *rota.RoleLimits) *int64 { return ownedKinds[o].of(l) }

// Usual returns how many of the kind a role allows by default.
func (o Owned) Usual() int64 { return ownedKinds[o].usual }

// Limit returns how many of the kind a role may allow: as many as a cluster accepts.
func (o Owned) Limit() int64 { return ownedKinds[o].most }

// allowed returns how many of a kind a role allows: 0 if it grants no right to create one.
func allowed(r *rota.Role, what Owned) int64 {
	k := &ownedKinds[what]
	for _, g := range r.Grants {
		if g.Right != k.right {
			continue
		}
		if n := *k.of(&r.RoleLimits); n != 0 {
			return n
		}
		return k.usual
	}
	return 0
}

// checkLimits rejects limits of a role above the cluster's own, and those that would look like a limit without being
// one.
func checkLimits(r *rota.Role) error {
	for what := range OwnsEnd {
		k := &ownedKinds[what]
		switch n := *k.of(&r.RoleLimits); {
		case n < 0 || n > k.most:
			return rota.Refusef(rota.KindInvalid, k.field,
				"%s of role %s must be between 1 and %d, or 0 for the default %d, got %d", k.field, r.Name,
				k.most, k.usual, n)
		case n > 0 && allowed(r, what) == 0:
			return rota.Refusef(rota.KindInvalid, k.field,
				"%s of role %s has no effect, as the role does not grant %s: grant it, or omit %s",
				k.field, r.Name, k.right, k.field)
		}
	}
	return nil
}

// Most returns how many of a kind the holder may own: the largest number that one of its roles allows, and unlimited if
// it may do everything.
func (r *Rights) Most(what Owned) int64 {
	if r.all {
		return math.MaxInt64
	}
	return r.most[what]
}
