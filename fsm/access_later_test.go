package fsm

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// TestRevocation_stopsNothingThatWasTaken checks that a submission uses its caller's rights when it is made, and
// continues by itself later: a job runs again after a failure, a workflow's nodes follow their parents, a delayed job
// comes due, whatever happens to the credential. With a revoked credential nothing more can be submitted, nor an
// earlier upload be finished.
func TestRevocation_stopsNothingThatWasTaken(t *testing.T) {
	t.Parallel()
	wish := tokenWish("a", access.RoleSubmitter)
	ann := rota.CertPrincipal(access.RoleSubmitter, "ann")
	for name, c := range map[string]struct {
		actor rota.Principal
		end   func(b *bench)
		kind  rota.Kind
		about string
	}{
		"revoked": {actorNamed("a"), func(b *bench) { b.ok(revokeOp("a")) }, rota.KindUnauthenticated, "credential"},
		"blocked": {ann, func(b *bench) { b.ok(blockOp(access.RoleSubmitter, "ann", true)) },
			rota.KindUnauthenticated, "credential"},
		"role deleted": {actorNamed("r"), func(b *bench) {
			b.ok(&fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: "mine"}}})
		}, rota.KindDenied, "submit"},
		"expired": {actorNamed("a"), func(b *bench) { b.date(rota.Date(wish.ExpiresMs)) },
			rota.KindUnauthenticated, "credential"},
		"right changed": {actorNamed("r"), func(b *bench) { b.ok(roleOp("mine", everyRight(rota.RightRead)...)) },
			rota.KindDenied, "submit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(roleOp("mine", everyRight(rota.RightSubmit)...))
			b.ok(tokenOp(wish))
			b.ok(tokenOp(tokenWish("r", "mine")))
			flow, half := diamond("wf"), diamond("half")
			for _, op := range append([]*fsmpb.Op{flow.open()}, append(flow.add(), flow.commit(), half.open())...) {
				b.ok(by(c.actor, op))
			}
			b.ok(by(c.actor, submitOp(jobSpec("fails"))))
			b.ok(by(c.actor, submitOp(jobSpec("later", func(s *rota.JobSpec) { s.Delay = 5 * time.Second }))))
			b.worker("w", 100)
			b.match()

			c.end(b)
			b.refuses(c.kind, c.about, by(c.actor, submitOp(jobSpec("new"))))
			b.refuses(c.kind, c.about, by(c.actor, submitOp(jobSpec("fails")))) // a known id too
			b.refuses(c.kind, c.about, by(c.actor, diamond("new").open()))
			if name == "role deleted" { // a caller without the right to read does not learn that it exists
				c.kind, c.about = rota.KindNotFound, "workflow"
			}
			b.refuses(c.kind, c.about, by(c.actor, half.add()[0]))
			b.refuses(c.kind, c.about, by(c.actor, half.commit()))

			j, _ := b.View.Job("fails")
			b.ok(verb(rota.VerbFail, *j.Lease))
			b.ends(rota.VerbComplete, flow, "n0")
			b.stands(flow, "RUNNING: CQQB")
			b.pass(60_000)
			b.match()
			if j := b.state("fails", rota.JobAssigned); j.Attempt != 1 {
				t.Errorf("%d attempts failed", j.Attempt)
			}
			b.state("later", rota.JobAssigned)
			b.completeAll("fails", "later")
			b.ends(rota.VerbComplete, flow, "n1", "n2")
			b.match()
			b.ends(rota.VerbComplete, flow, "n3")
			b.stands(flow, "COMPLETED: CCCC")
			b.sound()
		})
	}
}
