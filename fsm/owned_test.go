package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// almost is a principal with all rights except debug, and other one with the same role.
const (
	almost = rota.Principal("cert:almost/ann")
	other  = rota.Principal("cert:almost/bob")
)

// newOwners returns a bench where almost and other have the rights of owners.
func newOwners(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	var grants []rota.Grant
	for r := rota.RightSubmit; r < rota.RightDebug; r++ {
		grants = append(grants, everyRight(r)...)
	}
	b.ok(roleOp("almost", grants...))
	return b
}

// many applies operations, some of which may be refused, and returns how many were accepted and the last refusal.
func (b *bench) many(actor rota.Principal, n int, op func(i int) *fsmpb.Op) (taken int, refusal *rota.Error) {
	b.t.Helper()
	all := make([]*fsmpb.Op, n)
	for i := range all {
		if all[i] = op(i); actor != "" {
			by(actor, all[i])
		}
	}
	for part := range slices.Chunk(all, 100) {
		for _, o := range b.entry(part...).Outcomes {
			if err := entry.OutcomeError(o); err != nil {
				refusal = rota.ErrorOf(err)
				continue
			}
			taken++
		}
	}
	return taken, refusal
}

// TestOwned checks the limit of a principal's rows of each kind, with the remedy in the refusal: a removed row makes
// room, and others are not affected.
func TestOwned(t *testing.T) {
	t.Parallel()
	flow := func(i int) *fsmpb.Op { return newDAG(fmt.Sprint("f", i), [][]uint32{nil}).open() }
	for what, c := range map[access.Owned]struct {
		most int
		make func(i int) *fsmpb.Op
		// free removes one of them.
		free func(b *bench)
	}{
		access.OwnsQueue: {limits.MaxOwnedQueues, func(i int) *fsmpb.Op { return queueOp(fmt.Sprint("q", i)) },
			func(b *bench) { b.ok(by(almost, deleteQueueOp("q3"))) }},
		access.OwnsTenant: {limits.MaxOwnedTenants, func(i int) *fsmpb.Op {
			return tenantOp(fmt.Sprint("t", i), "weight", "2")
		},
			func(b *bench) { b.ok(by(almost, deleteTenantOp("t3"))) }},
		access.OwnsWorker: {limits.MaxOwnedWorkers, func(i int) *fsmpb.Op {
			return registerOp(fmt.Sprint("w", i), 1, "s", false)
		},
			func(b *bench) {
				b.ok(by(almost, statusOp("w3", rota.WorkerRetired, 0)))
				b.ok(by(almost, deleteWorkerOp("w3")))
			}},
		access.OwnsWorkflow: {limits.MaxOwnedWorkflows, flow, func(b *bench) {
			d := newDAG("f3", [][]uint32{nil})
			b.entry(by(almost, d.add()[0]), by(almost, d.commit()), by(almost, d.cancel()))
			b.pass(1_000)
		}},
		access.OwnsToken: {limits.MaxOwnedTokens, func(i int) *fsmpb.Op {
			return ownToken(i)
		}, func(b *bench) {
			revoke := &fsmpb.RevokeToken{Id: ownToken(3).GetCreateToken().GetId()}
			b.ok(by(almost, &fsmpb.Op{Op: &fsmpb.Op_RevokeToken{RevokeToken: revoke}})) // its row stays until its date
			b.refuses(rota.KindExhausted, "max_tokens", by(almost, ownToken(limits.MaxOwnedTokens+60)))
			b.date(rota.Date(ownToken(3).GetCreateToken().GetExpiresMs() + 1))
			b.pass(1_000)
		}},
	} {
		t.Run(what.Field(), func(t *testing.T) {
			t.Parallel()
			b := newOwners(t)
			taken, refusal := b.many(almost, c.most+20, c.make)
			if taken != c.most || refusal == nil || refusal.Subject != what.Field() ||
				refusal.Kind != rota.KindExhausted ||
				!strings.Contains(refusal.Text, fmt.Sprint(c.most)) ||
				!strings.Contains(refusal.Text, authz.OwnedKinds[what].Remedy) {
				t.Fatalf("accepted %d, then got %+v", taken, refusal)
			}
			if taken, refusal := b.many(other, 1, func(int) *fsmpb.Op { return c.make(c.most + 30) }); taken != 1 {
				t.Errorf("another principal is refused: %v", refusal)
			}
			if taken, refusal := b.many("cert:root/eve", 1,
				func(int) *fsmpb.Op { return c.make(c.most + 31) }); taken != 1 {
				t.Errorf("root is refused: %v", refusal)
			}
			b.sound()
			c.free(b)
			b.sound()
			if _, refusal := b.many(almost, 1, func(int) *fsmpb.Op { return c.make(c.most + 40) }); refusal != nil {
				t.Errorf("a deleted object makes no room: %v", refusal)
			}
			if b.access.Held[authz.Holding{By: almost, What: what}] == 0 {
				t.Error("nothing is counted")
			}
			b.sound()
		})
	}
}

// ownToken creates a token; those from the hundredth on last a day longer.
func ownToken(i int) *fsmpb.Op {
	wish := tokenWish("a", access.RoleReader)
	wish.Id = "aaaaaaaaaa" + string(rune('a'+i/26)) + string(rune('a'+i%26))
	if i >= limits.MaxOwnedTokens {
		wish.ExpiresMs += wish.ExpiresMs - startClock
	}
	return tokenOp(wish)
}

// TestOwned_signIns checks that tokens that identity tokens were exchanged for count for the subject of these, not for
// the caller, so that one subject leaves room for others.
func TestOwned_signIns(t *testing.T) {
	t.Parallel()
	b := newOwners(t)
	b.ok(issuerOp(idp, mapTo("sub", "ann", access.RoleReader), mapTo("sub", "bob", access.RoleReader)))
	signIn := func(subject string) func(i int) *fsmpb.Op {
		return func(i int) *fsmpb.Op {
			return b.exchangeOp(byte(i), "a", func(x *fsmpb.Exchange) {
				x.Id, x.Subject, x.Value = ownToken(i).GetCreateToken().GetId(), subject, subject
			})
		}
	}
	ann := rota.OIDCPrincipal(idp, "ann")
	taken, refusal := b.many("", limits.MaxOwnedTokens+20, signIn("ann"))
	if taken != limits.MaxOwnedTokens || refusal == nil || refusal.Kind != rota.KindExhausted ||
		refusal.Subject != "max_tokens" ||
		!strings.Contains(refusal.Text, string(ann)) {
		t.Fatalf("accepted %d, then got %+v", taken, refusal)
	}
	b.sound()
	if taken, refusal := b.many("", 1,
		func(int) *fsmpb.Op { return signIn("bob")(limits.MaxOwnedTokens + 30) }); taken != 1 {
		t.Errorf("another subject is refused: %v", refusal)
	}
	if o := b.ok(signIn("ann")(0)); !o.GetExisted() {
		t.Errorf("again: %v", o)
	}
	b.tomorrow(600_001) // the identity tokens end, and the access tokens with them
	if taken, refusal := b.many("", 1,
		func(int) *fsmpb.Op { return signIn("ann")(limits.MaxOwnedTokens + 40) }); taken != 1 {
		t.Errorf("a deleted object makes no room: %v", refusal)
	}
	b.sound()
}

// TestOwned_byRole checks that a role sets how much its principals own, above and below the usual number: of a
// principal's roles the most generous counts, one without the setting has the usual number, and one without the right
// does not count.
func TestOwned_byRole(t *testing.T) {
	t.Parallel()
	long(t)
	b := newBench(t)
	fleet := everyRight(rota.RightWork)
	b.ok(limitedOp("fleet", func(r *fsmpb.SetRole) { r.MaxWorkers = 2_000 }, fleet...))
	b.ok(limitedOp("few", func(r *fsmpb.SetRole) { r.MaxWorkers = 3 }, fleet...))
	b.ok(roleOp("reads", everyRight(rota.RightRead)...))
	next := 0
	register := func(int) *fsmpb.Op { next++; return registerOp(fmt.Sprint("w", next), 1, "s", false) }
	for _, c := range []struct {
		letter string
		roles  []string
		most   int
	}{
		{"a", []string{"few"}, 3}, {"b", []string{"few", "reads"}, 3},
		{"c", []string{"few", access.RoleWorker}, limits.MaxOwnedWorkers},
		{"d", []string{"few", "fleet"}, 2_000}, {"e", []string{access.RoleWorker}, limits.MaxOwnedWorkers},
	} {
		b.ok(tokenOp(tokenWish(c.letter, c.roles...)))
		taken, refusal := b.many(actorNamed(c.letter), c.most+1, register)
		if taken != c.most || refusal == nil || refusal.Subject != "max_workers" ||
			!strings.Contains(refusal.Text, fmt.Sprintf("%d are allowed", c.most)) {
			t.Errorf("%v: accepted %d, then got %+v", c.roles, taken, refusal)
		}
	}
	b.sound()
	// A role's limit applies from its change on; existing rows stay.
	b.ok(limitedOp("fleet", func(r *fsmpb.SetRole) { r.MaxWorkers = 2_001 }, fleet...))
	if taken, refusal := b.many(actorNamed("d"), 2, register); taken != 1 || refusal == nil {
		t.Errorf("accepted %d, then got %+v", taken, refusal)
	}
	b.ok(limitedOp("fleet", func(r *fsmpb.SetRole) { r.MaxWorkers = 1 }, fleet...))
	b.refuses(rota.KindExhausted, "max_workers", by(actorNamed("d"), register(0)))
	if o := b.entry(limitedOp("fleet", func(r *fsmpb.SetRole) { r.MaxWorkers = 1 },
		fleet...)).Outcomes[0]; !o.GetExisted() {
		t.Errorf("the same role again: %v", o)
	}
	b.sound()

	for _, n := range []int64{-1, limits.MaxWorkers + 1} {
		b.refuses(rota.KindInvalid, "max_workers", limitedOp("fleet", func(r *fsmpb.SetRole) { r.MaxWorkers = n },
			fleet...))
	}
	b.refuses(rota.KindInvalid, "max_queues", limitedOp("fleet", func(r *fsmpb.SetRole) { r.MaxQueues = 5 },
		fleet...)) // it makes no queues
}

// TestOwned_moves checks that a worker counts for its latest registrar, until the credential ends, and that a workflow
// that is run again counts again.
func TestOwned_moves(t *testing.T) {
	t.Parallel()
	b := newOwners(t)
	want := func(step string, what access.Owned, ann, bob int64) {
		t.Helper()
		b.sound()
		if h := b.access.Held; h[authz.Holding{By: almost, What: what}] != ann || h[authz.Holding{By: other,
			What: what}] != bob {
			t.Errorf("%s: %v", step, h)
		}
	}
	b.ok(by(almost, registerOp("w", 1, "s", false)))
	want("registered", access.OwnsWorker, 1, 0)
	b.ok(by(other, registerOp("w", 1, "s", false)))
	want("moved", access.OwnsWorker, 0, 1)
	b.ok(blockOp("almost", "bob", true))
	b.pass(60_000)
	want("blocked", access.OwnsWorker, 0, 0)

	d := diamond("wf")
	b.entry(by(almost, d.open()))
	for _, op := range d.add() {
		b.ok(by(almost, op))
	}
	b.ok(by(almost, d.commit()))
	want("committed", access.OwnsWorkflow, 1, 0)
	b.ok(d.cancel())
	b.pass(1_000)
	want("over", access.OwnsWorkflow, 0, 0)
	b.ok(entry.RetryWorkflowOp("wf", "", 1))
	want("run again", access.OwnsWorkflow, 1, 0)
	b.entry(by(almost, newDAG("lapses", [][]uint32{nil}).open()))
	want("opened", access.OwnsWorkflow, 2, 0)
	b.pass(limits.UploadLapses + 1_000)
	want("given up", access.OwnsWorkflow, 1, 0)
}
