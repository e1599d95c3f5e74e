package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// ownedWorker registers a worker for a principal, in the given queues.
func ownedWorker(by_ rota.Principal, id, secret string, queues ...rota.QueueName) *fsmpb.Op {
	return by(by_, registerOp(id, 4, secret, false, func(w *rota.WorkerSpec) {
		if len(queues) > 0 {
			w.Queues = queues
		}
	}))
}

// TestWorkersAreTheirRegistrars checks that a worker's operations are only accepted from the principal that registered
// it; the same secret, under another credential with the right, moves it.
func TestWorkersAreTheirRegistrars(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("other"))
	b.ok(roleOp("default-only", rota.Grant{Right: rota.RightWork, Tenant: "*", Queue: "default"}))
	for letter, role := range map[string]string{"a": access.RoleWorker, "b": access.RoleWorker, "d": "default-only"} {
		b.ok(tokenOp(tokenWish(letter, role)))
	}
	prefixed := tokenWish("p", access.RoleWorker)
	prefixed.WorkerPrefix = "pool-"
	b.ok(tokenOp(prefixed))
	ann, bob := actorNamed("a"), actorNamed("b")
	b.refuses(rota.KindDenied, "work", ownedWorker(actorNamed("d"), "w", "s", "default", "other"))
	b.refuses(rota.KindDenied, "worker", ownedWorker(actorNamed("p"), "w", "s"))
	b.ok(ownedWorker(actorNamed("p"), "pool-1", "s"))
	b.ok(by(actorNamed("p"), statusOp("pool-1", rota.WorkerDraining, b.fleet.workers.Get("pool-1").Session)))

	b.ok(ownedWorker(ann, "w", "s", "default", "other"))
	b.submit("j")
	l := b.match()["j"]
	b.refuses(rota.KindDenied, "worker", by(bob, verb(rota.VerbAck, l)))
	b.refuses(rota.KindDenied, "worker", by(bob, verb(rota.VerbComplete, l)))
	b.refuses(rota.KindDenied, "worker", by(bob, statusOp("w", rota.WorkerRetired, l.Session)))
	b.refuses(rota.KindDenied, "worker", by(bob, goneOp("w", l.Session, "s")))
	b.refuses(rota.KindConflict, "worker", ownedWorker(bob, "w", "another"))
	b.refuses(rota.KindConflict, "worker", ownedWorker(actorNamed("d"), "w", "another")) // in use
	b.ok(by(ann, verb(rota.VerbAck, l)))

	b.ok(ownedWorker(bob, "w", "s", "default", "other"))
	b.refuses(rota.KindDenied, "worker", by(ann, verb(rota.VerbComplete, l)))
	b.ok(by(bob, verb(rota.VerbComplete, l)))
	b.state("j", rota.JobCompleted)
	b.sound()
}

// TestTakeover_needsTheSecretOrTheRight checks that a live worker's id can only be taken over with its secret or the
// right to stop it.
func TestTakeover_needsTheSecretOrTheRight(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(roleOp("foreman", everyRight(rota.RightWork, rota.RightWorkers)...))
	for letter, role := range map[string]string{"a": access.RoleWorker, "b": access.RoleWorker, "f": "foreman"} {
		b.ok(tokenOp(tokenWish(letter, role)))
	}
	takeover := func(of rota.Principal, secret, old string) *fsmpb.Op {
		op := by(of, registerOp("w", 4, secret, true))
		if old != "" {
			op.GetRegister().OldSecretHash = registerOp("w", 1, old, false).GetRegister().GetSecretHash()
		}
		return op
	}
	b.ok(ownedWorker(actorNamed("a"), "w", "first"))
	b.submit("j")
	l := b.match()["j"]
	b.refuses(rota.KindDenied, "takeover", takeover(actorNamed("b"), "second", ""))
	b.refuses(rota.KindDenied, "takeover", takeover(actorNamed("b"), "second", "guessed"))
	b.ok(takeover(actorNamed("b"), "second", "first"))
	if l, _ := b.View.Assignment(l.ID); l.Lease.Revoked != rota.ReasonTakenOver {
		t.Errorf("the lease is revoked as %s", l.Lease.Revoked)
	}
	b.ok(takeover(actorNamed("f"), "third", ""))
	b.ok(by(actorNamed("f"), statusOp("w", rota.WorkerRetired, 0)))
	b.ok(takeover(actorNamed("b"), "fourth", "")) // it is no longer in use

	// The same holds if the worker may work for tenants that the other principal has no work for; it only learns that
	// the id is in use.
	b.ok(roleOp("narrow", rota.Grant{Right: rota.RightWork, Tenant: "umbrella", Queue: "*"}))
	b.ok(roleOp("stops", append(everyRight(rota.RightWorkers),
		rota.Grant{Right: rota.RightWork, Tenant: "umbrella", Queue: "*"})...))
	b.ok(tokenOp(tokenWish("n", "narrow")))
	b.ok(tokenOp(tokenWish("s", "stops")))
	b.refuses(rota.KindConflict, "worker", takeover(actorNamed("n"), "fifth", ""))
	b.refuses(rota.KindConflict, "worker", takeover(actorNamed("n"), "fifth", "guessed"))
	b.ok(takeover(actorNamed("n"), "fifth", "fourth"))
	b.ok(takeover(actorNamed("b"), "sixth", "fifth"))
	b.ok(takeover(actorNamed("s"), "seventh", ""))
	b.sound()
}

// TestRevocation_endsSessions checks that after a token is revoked or expires, or a certificate is blocked, its workers
// get and end no further jobs; their leases end by silence, uncounted. The worker's secret can use the id again.
func TestRevocation_endsSessions(t *testing.T) {
	t.Parallel()
	wish := tokenWish("a", access.RoleWorker)
	for name, c := range map[string]struct {
		actor rota.Principal
		end   func(b *bench)
	}{
		"revoked": {actorNamed("a"), func(b *bench) { b.ok(revokeOp("a")) }},
		"expired": {actorNamed("a"), func(b *bench) { b.date(rota.Date(wish.ExpiresMs)) }},
		"blocked": {rota.CertPrincipal(access.RoleWorker, "ann"),
			func(b *bench) { b.ok(blockOp(access.RoleWorker, "ann", true)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(tokenOp(wish))
			bob := rota.CertPrincipal(access.RoleWorker, "bob")
			b.ok(ownedWorker(c.actor, "w", "s"))
			b.ok(ownedWorker(c.actor, "suspended", "s"))
			b.ok(statusOp("suspended", rota.WorkerSuspended, 0))
			b.submit("j")
			l := b.match()["j"]
			b.ok(by(c.actor, verb(rota.VerbAck, l)))
			c.end(b)
			b.refuses(rota.KindUnauthenticated, "credential", by(c.actor, verb(rota.VerbComplete, l)))
			b.pass(1_000)
			if a, _ := b.View.Assignment(l.ID); a.Lease.Revoked != rota.ReasonAccessEnded {
				t.Fatalf("the lease is revoked as %s", a.Lease.Revoked)
			}
			b.status("w", rota.WorkerUnreachable)
			b.status("suspended", rota.WorkerSuspended)
			b.submit("k")
			if got := b.match(); len(got) != 0 {
				t.Errorf("placed: %v", got)
			}
			b.refuses(rota.KindStale, "session", verb(rota.VerbComplete, l))
			b.pass(rota.SilenceEnds + 1_000)
			if j := b.state("j", rota.JobQueued); j.Attempt != l.Attempt ||
				j.Attempts[0].End != rota.ReasonAccessEnded {
				t.Errorf("%+v", j)
			}
			b.ok(ownedWorker(bob, "w", "s"))
			b.status("w", rota.WorkerActive)
			if got := b.match(); len(got) != 2 {
				t.Errorf("placed: %v", got)
			}
			if b.Timers.Disowned.Len() != 0 {
				t.Error("sessions are left to end")
			}
			b.sound()
		})
	}
}

// TestRevocation_andBack checks that a block lifted before a sweep ends no session, and that a worker that registers
// under another credential before the sweep keeps its session.
func TestRevocation_andBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ann, bob := rota.CertPrincipal(access.RoleWorker, "ann"), rota.CertPrincipal(access.RoleWorker, "bob")
	for i := range 3 {
		b.ok(ownedWorker(ann, fmt.Sprint("w", i), "s"))
	}
	b.ok(blockOp(access.RoleWorker, "ann", true))
	b.ok(ownedWorker(bob, "w0", "s"))
	b.sound()
	b.ok(blockOp(access.RoleWorker, "ann", false))
	b.sound()
	b.pass(1_000)
	for i := range 3 {
		b.status(fmt.Sprint("w", i), rota.WorkerActive)
	}
	b.ok(by(bob, statusOp("w0", rota.WorkerDraining, b.fleet.workers.Get("w0").Session)))
}

// TestRights_ofWorkflows checks that each node's queue counts, when a workflow is submitted and for later operations,
// and that the node's own queue counts for its job.
func TestRights_ofWorkflows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("other"))
	b.ok(roleOp("default-only", rota.Grant{Right: rota.RightSubmit, Tenant: "*", Queue: "default"},
		rota.Grant{Right: rota.RightControl, Tenant: "*", Queue: "default"}))
	b.ok(tokenOp(tokenWish("d", "default-only")))
	ann := actorNamed("d")
	wide := func(id string) *dag {
		return diamond(id, func(d *dag) { d.Nodes[2].Queue = "other" })
	}
	w := wide("theirs")
	b.refuses(rota.KindDenied, "submit", by(ann, wide("wf").open()))
	b.upload(w)
	b.refuses(rota.KindDenied, "submit", by(ann, w.commit()))
	b.ok(w.commit())
	b.refuses(rota.KindDenied, "control", by(ann, w.cancel()))
	b.refuses(rota.KindNotFound, "job", by(ann, cancelOp("theirs/n2")))
	b.ok(roleOp("reads", rota.Grant{Right: rota.RightRead, Tenant: "*", Queue: "default"}))
	reader, err := b.View.Reader(rota.CertPrincipal("reads", "bob"))
	if err != nil {
		t.Fatal(err)
	}
	if x, _ := b.View.WhyFor("theirs/n3", 1_000, reader); len(x.Reasons) != 1 ||
		x.Reasons[0].Detail != "2 of its 2 parents have not completed: n1 (BLOCKED) and 1 more" {
		t.Errorf("why of a node with a parent in another queue: %+v", x.Reasons)
	}
	b.ok(w.cancel())
	b.pass(1_000)
	b.refuses(rota.KindDenied, "control", by(ann, w.retry("", 1)))

	// Nodes added to a queue that was not announced are refused too.
	hidden := wide("hidden")
	open := hidden.open()
	open.GetOpenWorkflow().Shares = nil
	b.ok(by(ann, open))
	b.refuses(rota.KindDenied, "submit", by(ann, hidden.add()[0]))

	mine := diamond("mine")
	for _, op := range append([]*fsmpb.Op{mine.open()}, append(mine.add(), mine.commit(), mine.cancel())...) {
		b.ok(by(ann, op))
	}
	b.sound()
}
