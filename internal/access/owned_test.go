package access

import (
	"testing"

	"github.com/rotasched/rota"
	"pgregory.net/rapid"
)

// TestRights_most compares the limits on owned objects with a naive count over the roles, and rights within other
// rights with the limits of those.
func TestRights_most(t *testing.T) {
	t.Parallel()
	draw := func(rt *rapid.T, label string) []rota.Role {
		roles := make([]rota.Role, rapid.IntRange(0, 3).Draw(rt, label))
		for i := range roles {
			roles[i].Grants = drawGrants(rt, label, 6)
			for what := range OwnsEnd {
				*what.Of(&roles[i].RoleLimits) = rapid.SampledFrom([]int64{0, 0, 1, 150, 2_000}).Draw(rt, what.Field())
			}
		}
		return roles
	}
	makes := map[Owned]rota.Right{OwnsQueue: rota.RightQueue, OwnsTenant: rota.RightTenant, OwnsWorker: rota.RightWork,
		OwnsWorkflow: rota.RightSubmit, OwnsToken: rota.RightAuth}
	usual := map[Owned]int64{OwnsQueue: 100, OwnsTenant: 1_000, OwnsWorker: 1_000, OwnsWorkflow: 1_000, OwnsToken: 100}
	rapid.Check(t, func(rt *rapid.T) {
		roles := draw(rt, "roles")
		r, other := NewRights(roles, nil, nil), NewRights(draw(rt, "other"), nil, nil)
		for what, right := range makes {
			want := int64(0)
			for _, role := range roles {
				for _, g := range role.Grants {
					if n := *what.Of(&role.RoleLimits); g.Right == right && n > 0 {
						want = max(want, n)
					} else if g.Right == right {
						want = max(want, usual[what])
					}
				}
			}
			if got := r.Most(what); got != want {
				rt.Fatalf("%s is %d, naively %d: %+v", what.Field(), got, want, roles)
			}
			if r.Within(&other) && r.Most(what) > other.Most(what) {
				rt.Fatalf("within, but %s is %d, not %d", what.Field(), r.Most(what), other.Most(what))
			}
		}
		if !r.Within(&r) {
			rt.Fatalf("%+v is not within itself", r)
		}
	})
}
