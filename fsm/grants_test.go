package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// workFor returns a grant of work over a tenant and a queue.
func workFor(tenant, queue string) rota.Grant {
	return rota.Grant{Right: rota.RightWork, Tenant: tenant, Queue: queue}
}

// ofTenant sets a job's tenant.
func ofTenant(id rota.TenantID) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Tenant = id } }

// twoTenants has workers only for ann and for bob, with narrowed tokens.
func twoTenants(t *testing.T) (b *bench, ann, bob rota.Principal) {
	b = newBench(t)
	b.ok(queueOp("default", "hold_after", "1s"))
	b.ok(queueOp("other"))
	for letter, tenant := range map[string]string{"a": "ann", "b": "bob*"} {
		wish := tokenWish(letter, access.RoleWorker)
		wish.Tenants = []string{tenant}
		b.ok(tokenOp(wish))
	}
	return b, actorNamed("a"), actorNamed("b")
}

// TestGrants_ofWorkers checks that a worker only gets the jobs of the tenants that its registrar may work for, whatever
// a leader proposes; that why reports it; and that another entitled principal with the worker's secret moves it, and
// changes the jobs that it gets.
func TestGrants_ofWorkers(t *testing.T) {
	t.Parallel()
	b, ann, bob := twoTenants(t)
	b.ok(ownedWorker(ann, "w-ann", "s", "default", "other"))
	b.submit("of-bob", ofTenant("bob.1"), priority(0))
	b.submit("of-ann", ofTenant("ann"))
	l := b.match()
	if len(l) != 1 || l["of-ann"].Worker != "w-ann" {
		t.Fatalf("placed %v", l)
	}
	b.mismatch("of-bob", "w-ann", "TENANT_NOT_GRANTED")
	b.whyNames("of-bob", "TENANT_NOT_GRANTED", "no work for tenant bob.1")
	x, _ := b.View.Why("of-bob", 100)
	if len(x.Reasons) != 1 || x.Reasons[0].Workers != 1 || len(x.WouldRun) != 1 {
		t.Errorf("explained as %+v", x)
	}
	b.ok(ownedWorker(bob, "w-ann", "s", "default", "other"))
	b.refuses(rota.KindDenied, "worker", by(ann, verb(rota.VerbComplete, l["of-ann"])))
	b.refuses(rota.KindDenied, "work", by(bob, verb(rota.VerbComplete, l["of-ann"])))
	b.submit("of-ann-2", ofTenant("ann"))
	if l := b.match(); len(l) != 1 || l["of-bob"].Worker != "w-ann" {
		t.Errorf("placed %v", l)
	}
	b.mismatch("of-ann-2", "w-ann", "TENANT_NOT_GRANTED")
	b.pass(31_000)
	b.match()
	if b.placement.holds.Len() != 0 {
		t.Error("a worker is kept for a job that it cannot have")
	}
	b.sound()
}

// TestGrants_toRegister checks that a worker registers for the queues where its registrar may work for some tenant, and
// that its id is closed to principals with fewer rights.
func TestGrants_toRegister(t *testing.T) {
	t.Parallel()
	b, ann, bob := twoTenants(t)
	b.ok(roleOp("other-only", workFor("ann", "other")))
	b.ok(tokenOp(tokenWish("o", "other-only")))
	b.refuses(rota.KindDenied, "work", ownedWorker(actorNamed("o"), "w", "s", "default", "other"))
	b.ok(ownedWorker(actorNamed("o"), "w", "s", "other"))
	b.refuses(rota.KindConflict, "worker", ownedWorker(bob, "w", "another"))
	b.ok(by(actorNamed("o"), statusOp("w", rota.WorkerRetired, b.fleet.workers.Get("w").Session)))
	b.refuses(rota.KindConflict, "worker", ownedWorker(bob, "w", "another", "other")) // does not reveal that it retired
	b.ok(ownedWorker(ann, "w", "another", "other"))
	b.sound()
}

// TestGrants_present checks that the registrar's present grants count, for holds and preemption as for rounds.
func TestGrants_present(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "hold_after", "1s", "preempt", "on", "oldest_every", "0"))
	b.ok(roleOp("pool", workFor("ann", "*"), workFor("bob", "default")))
	pool := rota.CertPrincipal("pool", "w")
	b.ok(by(pool, registerOp("w", 1, "s", false, func(w *rota.WorkerSpec) { w.CPUMilli = 1000 })))
	b.submit("first", ofTenant("ann"), priority(10))
	first := b.match()["first"]
	b.submit("cyd", ofTenant("cyd"), priority(0))
	b.submit("bob", ofTenant("bob"))
	b.pass(2_000)
	b.wantsRevoked()
	if held := b.placement.registry.heldFor["w"]; held != "bob" {
		t.Fatalf("held for %q", held)
	}
	b.sound()
	b.ok(roleOp("pool", workFor("ann", "*"), workFor("cyd", "default")))
	if held := b.placement.registry.heldFor["w"]; held != "" {
		t.Fatalf("held for %q", held)
	}
	b.wantsRevoked("first")
	if held := b.placement.registry.heldFor["w"]; held != "cyd" {
		t.Fatalf("held for %q", held)
	}
	b.sound()
	b.ok(&fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: "pool"}}})
	b.refuses(rota.KindDenied, "work", by(pool, verb(rota.VerbComplete, first)))
	b.pass(60_000)
	b.submit("second", ofTenant("ann"))
	if l := b.match(); len(l) != 0 {
		t.Errorf("placed %v", l)
	}
	b.sound()
}

// TestGrants_ofNobody checks that a worker whose credential is gone gets nothing, though an operator resumes it.
func TestGrants_ofNobody(t *testing.T) {
	t.Parallel()
	b, ann, _ := twoTenants(t)
	b.ok(ownedWorker(ann, "w", "s"))
	b.ok(statusOp("w", rota.WorkerSuspended, 0))
	b.ok(revokeOp("a"))
	b.pass(1_000)
	b.ok(statusOp("w", rota.WorkerActive, 0))
	b.submit("j", ofTenant("ann"))
	if l := b.match(); len(l) != 0 {
		t.Errorf("placed %v", l)
	}
	b.mismatch("j", "w", "TENANT_NOT_GRANTED")
	b.sound()
}

// TestGrants_ofAnonymous checks that once callers without a credential may not work, their workers get no further jobs.
func TestGrants_ofAnonymous(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(anonymousOp(access.RoleRoot))
	b.ok(ownedWorker(rota.Anonymous, "w", "s"))
	b.submit("j")
	if l := b.match(); len(l) != 1 {
		t.Errorf("placed %v", l)
	}
	b.ok(initOp(tokenWish("i", access.RoleRoot)))
	b.submit("k")
	b.mismatch("k", "w", "TENANT_NOT_GRANTED")
	b.sound()
}

// TestGrants_deliverable checks that the job of a lease that its worker's principal may no longer work is not
// delivered: after a registration under another credential, after a change of a role, and after the worker has left the
// lease's queue.
func TestGrants_deliverable(t *testing.T) {
	t.Parallel()
	revoked := func(t *testing.T, b *bench, l rota.Lease, why rota.Reason) {
		t.Helper()
		if a, _ := b.View.Assignment(l.ID); a.Lease.Revoked != why {
			t.Errorf("lease of job %s is revoked for %s, want %s", l.Job, a.Lease.Revoked, why)
		}
	}
	for name, lose := range map[string]func(b *bench, ann, bob rota.Principal) rota.Principal{
		"register": func(b *bench, _, bob rota.Principal) rota.Principal {
			b.ok(ownedWorker(bob, "w", "s", "default", "other"))
			return bob
		},
		"role": func(b *bench, ann, _ rota.Principal) rota.Principal {
			b.ok(roleOp("pool", workFor("bob*", "*")))
			return ann
		},
		"queue left": func(b *bench, ann, _ rota.Principal) rota.Principal {
			b.ok(ownedWorker(ann, "w", "s", "default"))
			b.state("of-ann", rota.JobAssigned)
			b.ok(roleOp("pool", workFor("ann", "default"), workFor("bob*", "*")))
			return ann
		},
	} {
		for rules := uint32(1); rules <= 2; rules++ {
			t.Run(fmt.Sprintf("%s in version %d", name, rules), func(t *testing.T) {
				t.Parallel()
				b, _, bob := twoTenants(t)
				b.ok(switchOp(rules))
				pool := rota.CertPrincipal("pool", "w")
				b.ok(roleOp("pool", workFor("ann", "*"), workFor("bob*", "*")))
				b.ok(ownedWorker(pool, "w", "s", "default", "other"))
				b.submit("of-ann", ofTenant("ann"), func(s *rota.JobSpec) { s.Queue = "other" })
				b.submit("of-bob", ofTenant("bob.1"))
				leases := b.match()
				if len(leases) != 2 {
					t.Fatalf("placed %v", leases)
				}
				holder := lose(b, pool, bob)
				session := leases["of-ann"].Session
				delivered, ours := Deliverable(&b.View, "w", session, holder)
				if !ours || len(delivered) != 2 {
					t.Fatalf("delivered %v, %+v", ours, delivered)
				}
				for i := range delivered {
					switch a := &delivered[i]; a.Lease.Job {
					case "of-bob":
						if a.Spec.ID != "of-bob" || a.Lease.Revoked != rota.ReasonNone {
							t.Errorf("%+v", a)
						}
					default:
						if a.Spec.ID != "" || a.Spec.Payload != nil || a.Lease.Revoked != rota.ReasonAccessEnded {
							t.Errorf("%+v", a)
						}
					}
				}
				if holder != pool {
					if left, ours := Deliverable(&b.View, "w", session, pool); ours || left != nil {
						t.Errorf("the earlier principal receives %+v", left)
					}
				}
				b.refuses(rota.KindDenied, "work", by(holder, verb(rota.VerbComplete, leases["of-ann"])))
				b.ok(by(holder, verb(rota.VerbAck, leases["of-bob"])))
				why := rota.ReasonNone
				if name == "register" && rules >= moveRules {
					why = rota.ReasonAccessEnded
				}
				revoked(t, b, leases["of-ann"], why)
				b.refuses(rota.KindDenied, "work", by(holder, verb(rota.VerbDecline, leases["of-ann"])))
				if why != rota.ReasonNone { // it ends uncounted, at its deadline
					b.pass(70_000)
					if j, _ := b.View.Job("of-ann"); j.Attempt != 0 || j.Attempts[0].End != why {
						t.Errorf("job %+v", j)
					}
				}
				b.sound()
			})
		}
	}
}
