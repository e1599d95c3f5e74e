package access

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"pgregory.net/rapid"
)

// rightsIDs returns all ids of up to three letters out of two, enough for patterns to differ.
func rightsIDs() (ids []string) {
	for _, one := range []string{"a", "b"} {
		ids = append(ids, one)
		for _, two := range []string{"a", "b"} {
			ids = append(ids, one+two, one+two+"a", one+two+"b")
		}
	}
	return ids
}

var rightsPatterns = []string{"*", "a", "b", "a*", "b*", "ab", "ab*", "ba*", "aba"}

func drawGrants(rt *rapid.T, name string, most int) []rota.Grant {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) rota.Grant {
		g := rota.Grant{Right: rota.Right(rapid.IntRange(1, int(rightsEnd)-1).Draw(rt, "right")), Tenant: Everything,
			Queue: Everything}
		if g.Right.ByTenant() {
			g.Tenant = rapid.SampledFrom(rightsPatterns).Draw(rt, "tenant")
		}
		if g.Right.ByQueue() {
			g.Queue = rapid.SampledFrom(rightsPatterns).Draw(rt, "queue")
		}
		return g
	}), 0, most).Draw(rt, name)
}

func drawNarrowing(rt *rapid.T, name string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(rightsPatterns), 0, 2).Draw(rt, name)
}

// matchesNaively implements a pattern's meaning as simply as possible.
func matchesNaively(pattern, id string) bool {
	if pattern == id {
		return true
	}
	return pattern[len(pattern)-1] == '*' && strings.HasPrefix(id, pattern[:len(pattern)-1])
}

// allowedNaively checks without optimizations: some grant and, with a narrowing, some pattern of each must match.
func allowedNaively(grants []rota.Grant, tenants, queues []string, right rota.Right, tenant, queue string) bool {
	in := func(patterns []string, id string) bool {
		for _, p := range patterns {
			if matchesNaively(p, id) {
				return true
			}
		}
		return len(patterns) == 0
	}
	for _, g := range grants {
		if g.Right == right && matchesNaively(g.Tenant, tenant) && matchesNaively(g.Queue, queue) &&
			in(tenants, tenant) && in(queues, queue) {
			return true
		}
	}
	return false
}

// TestRights_naive compares the rights with a naive matcher, for every right, tenant and queue of a small world: which
// are allowed; that rights within other rights allow no more than those; that Some is true where anything is allowed.
func TestRights_naive(t *testing.T) {
	t.Parallel()
	ids := append(rightsIDs(), Everything)
	rapid.Check(t, func(rt *rapid.T) {
		grants, tenants, queues := drawGrants(rt, "grants", 6), drawNarrowing(rt, "tenants"), drawNarrowing(rt,
			"queues")
		r := rightsOf(grants, tenants, queues)
		other := rightsOf(drawGrants(rt, "other", 6), drawNarrowing(rt, "other tenants"),
			drawNarrowing(rt, "other queues"))
		within := r.Within(&other)
		if !r.Within(&r) {
			rt.Fatalf("%+v is not within itself", r)
		}
		for right := rota.RightNone + 1; right < rightsEnd; right++ {
			some := false
			for _, tenant := range ids {
				for _, queue := range ids {
					if !right.ByTenant() && tenant != Everything || !right.ByQueue() && queue != Everything {
						continue
					}
					got := r.Allow(right, rota.TenantID(tenant), rota.QueueName(queue))
					if want := allowedNaively(grants, tenants, queues, right, tenant, queue); got != want {
						rt.Fatalf("%s of tenant %s in queue %s: %v, naively %v", right, tenant, queue, got, want)
					}
					if got && within && !other.Allow(right, rota.TenantID(tenant), rota.QueueName(queue)) {
						rt.Fatalf("within, but %s of tenant %s in queue %s is allowed by the inner rights alone", right,
							tenant, queue)
					}
					some = some || got
				}
			}
			if some && !r.Some(right) {
				rt.Fatalf("%s is allowed somewhere and Some returns false", right)
			}
		}
	})
}

// rightsOf returns the rights of one role, within tenants and queues.
func rightsOf(grants []rota.Grant, within ...[]string) Rights {
	within = append(within, nil, nil)
	return NewRights([]rota.Role{{Grants: grants}}, within[0], within[1])
}

// TestRights_all checks that rights to everything are recognized, however they were made.
func TestRights_all(t *testing.T) {
	root, _ := BuiltInRole(RoleRoot)
	all, built := AllRights(), rightsOf(root.Grants)
	narrow, some := rightsOf(root.Grants, []string{"a*"}), rightsOf(root.Grants[1:])
	if !all.All() || !built.All() || narrow.All() || some.All() {
		t.Fatalf("all: %v %v %v %v", all.All(), built.All(), narrow.All(), some.All())
	}
	if !narrow.Within(&all) || all.Within(&narrow) || all.Within(&some) || !narrow.Allow(rota.RightSubmit, "ab", "q") ||
		narrow.Allow(rota.RightSubmit, "b", "q") {
		t.Error("a narrowed root is judged wrongly")
	}
	// A right that has no tenant scope is not within a tenant.
	for _, r := range []rota.Right{rota.RightOperate, rota.RightQueue, rota.RightStatus, rota.RightAuth,
		rota.RightBackup} {
		if narrow.Some(r) || narrow.AllowEverywhere(r) {
			t.Errorf("a token of tenant a* may %s", r)
		}
	}
}

// TestGrant_checks: patterns that are empty, or that narrow a right without that scope, are refused.
func TestGrant_checks(t *testing.T) {
	for text, subject := range map[string]string{
		`{"right":"read","tenant":"","queue":"*"}`:       "tenant",
		`{"right":"read","tenant":"*","queue":""}`:       "queue",
		`{"right":"read","tenant":"a*b","queue":"*"}`:    "tenant",
		`{"right":"read","tenant":"**","queue":"*"}`:     "tenant",
		`{"right":"status","tenant":"acme","queue":"*"}`: "tenant",
		`{"right":"queue","tenant":"acme","queue":"*"}`:  "tenant",
		`{"right":"tenant","tenant":"*","queue":"q"}`:    "queue",
		`{"tenant":"*","queue":"*"}`:                     "right",
	} {
		var g rota.Grant
		if err := json.Unmarshal([]byte(text), &g); err != nil {
			t.Fatal(err)
		}
		if err := rota.ErrorOf(CheckGrant(g)); err == nil || err.Kind != rota.KindInvalid || err.Subject != subject {
			t.Errorf("%s: got %v, want a refusal of %s", text, err, subject)
		}
	}
	for _, role := range BuiltInRoles() {
		for _, g := range role.Grants {
			if err := CheckGrant(g); err != nil {
				t.Errorf("role %s: %v", role.Name, err)
			}
		}
	}
}

// TestCredential checks that a token is read back as written, proves itself, and is never shown.
func TestCredential(t *testing.T) {
	c := CredentialOf([40]byte{1, 2, 30: 3})
	read, err := ParseCredential(c.Secret())
	if err != nil || read != c || !read.Proves(c.Hash()) || CheckTokenID(c.ID) != nil {
		t.Fatalf("%v %v", read, err)
	}
	if other := CredentialOf([40]byte{1, 2, 30: 4}); other.Proves(c.Hash()) {
		t.Error("another token is accepted for this one's hash")
	}
	for _, shown := range []string{c.String(), c.GoString()} {
		if strings.Contains(shown, c.secret) || !strings.Contains(shown, c.ID) {
			t.Errorf("shown as %s", shown)
		}
	}
	for _, text := range []string{"", "rota_", c.Secret() + "a", strings.ToUpper(c.Secret()), c.Secret()[1:],
		"rota_" + c.ID + c.secret} {
		err := rota.ErrorOf(func() error { _, err := ParseCredential(text); return err }())
		if err == nil || err.Kind != rota.KindUnauthenticated || strings.Contains(err.Error(), c.secret) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
