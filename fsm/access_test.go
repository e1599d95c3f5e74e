package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/internal/access"
)

// tokenNamed returns the id of a token that a test identifies by a letter.
func tokenNamed(letter string) string { return strings.Repeat(letter, 12) }

// actorNamed returns its holder.
func actorNamed(letter string) rota.Principal { return rota.TokenPrincipal(tokenNamed(letter)) }

// by returns an operation with a caller.
func by(actor rota.Principal, op *fsmpb.Op) *fsmpb.Op {
	op.Actor, op.Via, op.Request = string(actor), "n1/grpc", "r"
	return op
}

func roleOp(name string, grants ...rota.Grant) *fsmpb.Op {
	op := &fsmpb.SetRole{Name: name}
	for _, g := range grants {
		op.Grants = append(op.Grants, &fsmpb.Grant{Right: uint32(g.Right), Tenant: g.Tenant, Queue: g.Queue})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetRole{SetRole: op}}
}

// limitedOp is roleOp with limits.
func limitedOp(name string, limits func(*fsmpb.SetRole), grants ...rota.Grant) *fsmpb.Op {
	op := roleOp(name, grants...)
	limits(op.GetSetRole())
	return op
}

func tokenWish(letter string, roles ...string) *fsmpb.CreateToken {
	return &fsmpb.CreateToken{Id: tokenNamed(letter), Hash: []byte(strings.Repeat(letter, 32)), Roles: roles,
		ExpiresMs: startClock + int64(24*time.Hour/time.Millisecond)}
}

func tokenOp(wish *fsmpb.CreateToken) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_CreateToken{CreateToken: wish}}
}

func revokeOp(letter string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: tokenNamed(letter)}}}
}

func blockOp(role, name string, blocked bool) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetBlock{SetBlock: &fsmpb.SetBlock{Role: role, Name: name, Blocked: blocked}}}
}

func anonymousOp(roles ...string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetAnonymous{SetAnonymous: &fsmpb.SetAnonymous{Roles: roles}}}
}

func initOp(wish *fsmpb.CreateToken, change ...func(*fsmpb.InitAuth)) *fsmpb.Op {
	op := &fsmpb.InitAuth{Token: wish}
	for _, f := range change {
		f(op)
	}
	return &fsmpb.Op{Op: &fsmpb.Op_InitAuth{InitAuth: op}}
}

// judged returns the refusal that applying an operation would give for its actor's rights, or nil if it is allowed.
func (b *bench) judged(op *fsmpb.Op) *fsmpb.Outcome {
	if denied := b.View.Denied([]*fsmpb.Op{op}); denied != nil {
		return denied[0]
	}
	return nil
}

func everyRight(names ...rota.Right) (grants []rota.Grant) {
	for _, r := range names {
		grants = append(grants, authz.Everywhere(r))
	}
	return grants
}

// date sets the voters' wall clocks to a date.
func (b *bench) date(date rota.Date) {
	b.walls = []int64{int64(date)}
	b.entry(sweepOp())
	b.walls = nil
}

// TestTokens follows tokens from their creation to the date on which they expire.
func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wish := tokenWish("a", access.RoleSubmitter)
	wish.Tenants = []string{"acme*"}
	b.ok(by(rota.Local, tokenOp(wish)))
	if o := b.ok(by(rota.Local, tokenOp(wish))); !o.GetExisted() {
		t.Error("the same token has another row")
	}
	b.refuses(rota.KindConflict, "token", tokenOp(tokenWish("a", access.RoleRoot)))
	for name, f := range map[string]func(*fsmpb.CreateToken){
		"token":   func(w *fsmpb.CreateToken) { w.Id = "short" },
		"hash":    func(w *fsmpb.CreateToken) { w.Hash = w.Hash[:31] },
		"roles":   func(w *fsmpb.CreateToken) { w.Roles = nil },
		"tenant":  func(w *fsmpb.CreateToken) { w.Tenants = []string{""} },
		"queue":   func(w *fsmpb.CreateToken) { w.Queues = slices.Repeat([]string{"q"}, 9) },
		"expires": func(w *fsmpb.CreateToken) { w.ExpiresMs = startClock },
	} {
		w := tokenWish("b", access.RoleReader)
		f(w)
		b.refuses(rota.KindInvalid, name, tokenOp(w))
	}
	late := tokenWish("b", access.RoleReader)
	late.ExpiresMs += 366 * 24 * 3600 * 1000
	b.refuses(rota.KindInvalid, "expires", tokenOp(late))
	b.refuses(rota.KindNotFound, "role", tokenOp(tokenWish("b", "nobodys")))

	acme := func(id string) *fsmpb.Op {
		s := jobSpec(id)
		s.Tenant = "acme-1"
		return submitOp(s)
	}
	b.ok(by(actorNamed("a"), acme("j1")))
	b.refuses(rota.KindDenied, "submit", by(actorNamed("a"), submitOp(jobSpec("j2"))))
	b.ok(by(rota.Local, revokeOp("a")))
	if o := b.ok(by(rota.Local, revokeOp("a"))); !o.GetExisted() {
		t.Error("revoked twice")
	}
	b.refuses(rota.KindUnauthenticated, "credential", by(actorNamed("a"), acme("j3")))
	b.refuses(rota.KindUnauthenticated, "credential", by(actorNamed("a"), acme("j1"))) // even for a known id
	b.refuses(rota.KindConflict, "token",
		tokenOp(wish)) // no repeated creation revives it

	b.ok(tokenOp(tokenWish("c", access.RoleSubmitter)))
	b.ok(by(actorNamed("c"), submitOp(jobSpec("j4"))))
	b.date(rota.Date(wish.ExpiresMs))
	if tokens := b.access.Tokens.Len(); tokens != 0 {
		t.Errorf("%d tokens are left after their date", tokens)
	}
	b.refuses(rota.KindUnauthenticated, "credential", by(actorNamed("c"), submitOp(jobSpec("j5"))))
	b.refuses(rota.KindInvalid, "expires", tokenOp(wish))
	b.sound()
}

// TestTokens_expireBeforeTheirSweep checks that the date alone ends a token; the sweep only forgets it.
func TestTokens_expireBeforeTheirSweep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wish := tokenWish("a", access.RoleSubmitter)
	b.ok(tokenOp(wish))
	b.ok(by(actorNamed("a"), submitOp(jobSpec("j1"))))
	b.walls = []int64{wish.ExpiresMs}
	b.refuses(rota.KindUnauthenticated, "credential", by(actorNamed("a"), submitOp(jobSpec("j2"))))
	if b.access.Tokens.Len() != 1 {
		t.Error("it is gone before a sweep removed it")
	}
}

// TestEscalations checks that only the account of the node gives, takes or changes rights beyond its own.
func TestEscalations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(roleOp("clerk", everyRight(rota.RightAuth, rota.RightRead)...))
	b.ok(roleOp("acmes", rota.Grant{Right: rota.RightRead, Tenant: "acme", Queue: "*"}))
	b.ok(roleOp("writer", everyRight(rota.RightSubmit)...))
	b.ok(tokenOp(tokenWish("c", "clerk")))
	b.ok(tokenOp(tokenWish("r", access.RoleRoot)))
	clerk := actorNamed("c")

	b.refuses(rota.KindDenied, "role", by(clerk, roleOp("mine", everyRight(rota.RightSubmit)...)))
	b.refuses(rota.KindDenied, "role", by(clerk, roleOp("clerk",
		everyRight(rota.RightAuth, rota.RightRead, rota.RightData)...)))
	b.refuses(rota.KindDenied, "role", by(clerk, roleOp("writer", everyRight(rota.RightRead)...)))
	b.refuses(rota.KindDenied, "role", by(clerk,
		&fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: "writer"}}}))
	b.refuses(rota.KindDenied, "token", by(clerk, tokenOp(tokenWish("d", access.RoleRoot))))
	b.refuses(rota.KindDenied, "token", by(clerk, tokenOp(tokenWish("d", "acmes", "writer"))))
	b.refuses(rota.KindDenied, "token", by(clerk, revokeOp("r")))
	b.refuses(rota.KindDenied, "block", by(clerk, blockOp(access.RoleRoot, "ops", true)))
	b.refuses(rota.KindDenied, "role", by(clerk, anonymousOp(access.RoleRoot)))
	b.refuses(rota.KindDenied, "auth", by(clerk, initOp(tokenWish("d", "acmes"))))
	b.refuses(rota.KindDenied, "auth", by(actorNamed("r"), initOp(tokenWish("d", access.RoleRoot))))
	b.ok(by(rota.Local, anonymousOp("writer")))
	b.refuses(rota.KindDenied, "role", by(clerk, anonymousOp("acmes"))) // it would take a right that it does not have

	b.ok(by(clerk, roleOp("mine", rota.Grant{Right: rota.RightRead, Tenant: "a*", Queue: "q"})))
	b.ok(by(clerk, tokenOp(tokenWish("d", "acmes", "mine"))))
	b.ok(by(clerk, revokeOp("d")))
	b.ok(by(clerk, blockOp("acmes", "bob", true)))
	b.ok(by(actorNamed("r"), tokenOp(tokenWish("e", access.RoleRoot))))
	b.ok(by(rota.Local, revokeOp("e")))

	// A role allows its principals to own at most what the setter may own itself.
	b.ok(limitedOp("clerk", func(l *fsmpb.SetRole) { l.MaxTokens = 5 }, everyRight(rota.RightAuth, rota.RightRead)...))
	for _, most := range []int64{0, 6} {
		b.refuses(rota.KindDenied, "role", by(clerk, limitedOp("deputy", func(l *fsmpb.SetRole) { l.MaxTokens = most },
			everyRight(rota.RightAuth)...)))
	}
	b.ok(by(clerk, limitedOp("deputy", func(l *fsmpb.SetRole) { l.MaxTokens = 5 }, everyRight(rota.RightAuth)...)))
	b.ok(limitedOp("deputy", func(l *fsmpb.SetRole) { l.MaxTokens = 6 }, everyRight(rota.RightAuth)...))
	b.refuses(rota.KindDenied, "token", by(clerk, tokenOp(tokenWish("h", "deputy"))))
	b.refuses(rota.KindDenied, "role", by(clerk, limitedOp("deputy", func(l *fsmpb.SetRole) { l.MaxTokens = 4 },
		everyRight(rota.RightAuth)...)))

	// A token with a prefix for its workers' ids cannot create one for other ids.
	fleet := tokenWish("p", access.RoleWorker, "clerk")
	fleet.WorkerPrefix = "gpu-"
	b.ok(tokenOp(fleet))
	for _, prefix := range []string{"", "gpu", "cpu-1"} {
		wish := tokenWish("q", access.RoleWorker)
		wish.WorkerPrefix = prefix
		b.refuses(rota.KindDenied, "token", by(actorNamed("p"), tokenOp(wish)))
	}
	b.refuses(rota.KindDenied, "role", by(actorNamed("p"), roleOp("acmes", everyRight(rota.RightWork)...)))
	b.refuses(rota.KindDenied, "role", by(actorNamed("p"), anonymousOp(access.RoleWorker)))
	fleet = tokenWish("q", access.RoleWorker)
	fleet.WorkerPrefix = "gpu-1"
	b.ok(by(actorNamed("p"), tokenOp(fleet)))
	b.ok(by(actorNamed("p"), tokenOp(tokenWish("s", "acmes"))))

	// A token narrowed to a tenant can only give rights over that tenant.
	wish := tokenWish("f", access.RoleRoot)
	wish.Tenants = []string{"acme"}
	b.ok(tokenOp(wish))
	b.refuses(rota.KindDenied, "auth", by(actorNamed("f"), tokenOp(tokenWish("g", access.RoleRoot))))
}

// TestInitAuth checks that of two first tokens the first in log order wins, and that callers without a credential have
// no rights from then on; a reset creates another at any time.
func TestInitAuth(t *testing.T) {
	t.Parallel()
	b := emptyBench(t)
	b.term++
	b.entry(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n1", Random: make([]byte, 32),
		ClusterId: "test", StartMs: startClock, Anonymous: []string{access.RoleRoot}}}})
	b.ok(by(rota.Anonymous, submitOp(jobSpec("j1"))))
	a := b.entry(by(rota.Local, initOp(tokenWish("a", access.RoleRoot))),
		by(rota.Local, initOp(tokenWish("b", access.RoleRoot))))
	if err := entry.OutcomeError(a.Outcomes[0]); err != nil {
		t.Fatal(err)
	}
	if err := entry.OutcomeError(a.Outcomes[1]); err == nil || err.Kind != rota.KindConflict {
		t.Fatalf("the second first token: %v", err)
	}
	if o := b.ok(by(rota.Local, initOp(tokenWish("a", access.RoleRoot)))); !o.GetExisted() {
		t.Error("on repetition the first token is another one")
	}
	b.refuses(rota.KindDenied, "submit", by(rota.Anonymous, submitOp(jobSpec("j2"))))
	b.ok(by(actorNamed("a"), submitOp(jobSpec("j2"))))
	reset := b.entry(by(rota.Local, initOp(tokenWish("c", access.RoleRoot),
		func(op *fsmpb.InitAuth) { op.Reset_ = true })))
	if err := entry.OutcomeError(reset.Outcomes[0]); err != nil || len(reset.Events) != 1 ||
		reset.Events[0].Kind != rota.EventAuthReset {
		t.Fatalf("%v %+v", err, reset.Events)
	}
	b.ok(by(actorNamed("c"), submitOp(jobSpec("j3"))))
}

// TestCertificates checks that a certificate has its role's rights until it is blocked.
func TestCertificates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	bob := rota.CertPrincipal(access.RoleSubmitter, "bob")
	b.ok(by(bob, submitOp(jobSpec("j1"))))
	b.refuses(rota.KindDenied, "queue", by(bob, queueOp("default", "paused", "true")))
	b.ok(blockOp(access.RoleSubmitter, "bob", true))
	b.refuses(rota.KindUnauthenticated, "credential", by(bob, submitOp(jobSpec("j2"))))
	b.ok(by(rota.CertPrincipal(access.RoleSubmitter, "eve"), submitOp(jobSpec("j2"))))
	b.ok(blockOp(access.RoleSubmitter, "bob", false))
	b.ok(by(bob, submitOp(jobSpec("j3"))))
	b.refuses(rota.KindDenied, "submit", by(rota.CertPrincipal("unset", "bob"), submitOp(jobSpec("j4"))))
}

// TestForgedActors checks that impossible callers, and operations closed to callers, are refused.
func TestForgedActors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for actor, kind := range map[rota.Principal]rota.Kind{"node:n1": rota.KindInvalid, "root": rota.KindInvalid,
		"token:":    rota.KindInvalid,
		"cert:root": rota.KindInvalid, actorNamed("z"): rota.KindUnauthenticated, rota.Anonymous: rota.KindDenied,
		rota.Local: rota.KindDenied} {
		if err := entry.OutcomeError(b.entry(by(actor, submitOp(jobSpec("j")))).Outcomes[0]); err == nil ||
			err.Kind != kind {
			t.Errorf("%s: got %v, want a refusal %s", actor, err, kind)
		}
	}
	long := by(rota.Local, submitOp(jobSpec("j")))
	long.Via = strings.Repeat("v", 1000)
	b.refuses(rota.KindInvalid, "via", long)
	nobody := submitOp(jobSpec("j"))
	nobody.Request = "r"
	b.refuses(rota.KindInvalid, "actor", nobody)
}

// operationOf returns an operation of a kind with an empty message.
func operationOf(f protoreflect.FieldDescriptor) *fsmpb.Op {
	op := &fsmpb.Op{}
	m := op.ProtoReflect()
	m.Set(f, m.NewField(f))
	return op
}

// leadersOwn are the operations that no caller may use; harmless ones need no right.
var (
	leadersOwn = []string{"begin_term", "reach", "round", "sweep", "set_node", "switch_rules", "node_differs",
		"want_voters", "disconnect", "drop_deleted", "backup_stored", "fire", "turn_budget", "plan_step", "keep_log", "advance_hook"}
	harmless = []string{"barrier", "exchange", "open_session"}
)

// rightOf is the right that each operation needs, as in docs/security.md.
var rightOf = map[string]rota.Right{"submit": rota.RightSubmit, "register": rota.RightWork,
	"set_status": rota.RightWorkers, "lease": rota.RightWork,
	"cancel": rota.RightControl, "retry": rota.RightControl, "set_queue": rota.RightQueue,
	"set_mode": rota.RightOperate, "set_cluster": rota.RightOperate,
	"delete_queue": rota.RightQueue, "delete_tenant": rota.RightTenant, "delete_worker": rota.RightWorkers,
	"set_tenant": rota.RightTenant, "report_proof": rota.RightVerdict, "open_workflow": rota.RightSubmit,
	"add_nodes":       rota.RightSubmit,
	"commit_workflow": rota.RightSubmit, "cancel_workflow": rota.RightControl, "retry_workflow": rota.RightControl,
	"gone": rota.RightWork, "offer": rota.RightWork,
	"interrupt_job": rota.RightControl, "run_job_now": rota.RightControl, "change_job": rota.RightControl,
	"delete_job": rota.RightControl, "set_role": rota.RightAuth, "delete_role": rota.RightAuth,
	"create_token": rota.RightAuth, "revoke_token": rota.RightAuth, "set_block": rota.RightAuth,
	"set_anonymous": rota.RightAuth, "set_issuer": rota.RightAuth, "delete_issuer": rota.RightAuth,
	"set_key_rule": rota.RightQueue, "signal_workflow": rota.RightControl, "delete_key_rule": rota.RightQueue,
	"skip_key": rota.RightQueue, "pause_key": rota.RightQueue,
	"set_budget": rota.RightBudget, "delete_budget": rota.RightBudget, "reset_budget": rota.RightBudget,
	"grant_budget": rota.RightGrant, "set_schedule": rota.RightSubmit, "pause_schedule": rota.RightControl,
	"open_batch": rota.RightSubmit, "seal_batch": rota.RightSubmit,
	"trigger_schedule": rota.RightSubmit, "backfill_schedule": rota.RightSubmit, "delete_schedule": rota.RightControl,
	"set_webhook": rota.RightControl, "pause_webhook": rota.RightControl, "skip_webhook": rota.RightControl,
	"delete_webhook": rota.RightControl,
	"start_plan":     rota.RightControl, "cancel_plan": rota.RightControl, "read_snapshot": rota.RightBackup,
	"set_tzdata": rota.RightOperate}

// TestRights_eachOperation checks by reflection that each operation is internal to the leader, or passes with exactly
// one right, or needs none; init_auth is for the node's account. The objects exist.
func TestRights_eachOperation(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	l := b.leased("j", "w")
	b.run(diamond("wf"))
	b.ok(scheduleOp("s"))
	b.ok(usd("x", 1))
	b.ok(batchOp("b", 0))
	name := func(op *fsmpb.Op) *fsmpb.Op { // names existing objects
		switch x := op.GetOp().(type) {
		case *fsmpb.Op_SealBatch:
			x.SealBatch.Id = "b"
		case *fsmpb.Op_SetBudget:
			x.SetBudget.Name = "x"
		case *fsmpb.Op_DeleteBudget:
			x.DeleteBudget.Name = "x"
		case *fsmpb.Op_GrantBudget:
			x.GrantBudget.Name = "x"
		case *fsmpb.Op_ResetBudget:
			x.ResetBudget.Name = "x"
		case *fsmpb.Op_PauseSchedule:
			x.PauseSchedule.Name = "s"
		case *fsmpb.Op_TriggerSchedule:
			x.TriggerSchedule.Name = "s"
		case *fsmpb.Op_BackfillSchedule:
			x.BackfillSchedule.Name = "s"
		case *fsmpb.Op_DeleteSchedule:
			x.DeleteSchedule.Name = "s"
		case *fsmpb.Op_Register:
			x.Register.Spec = &fsmpb.WorkerSpec{Id: "w", Queues: []string{"default"}}
		case *fsmpb.Op_SetStatus:
			x.SetStatus.Worker = "w"
		case *fsmpb.Op_Gone:
			x.Gone.Worker = "w"
		case *fsmpb.Op_Offer:
			x.Offer.Worker = "w"
		case *fsmpb.Op_Lease:
			x.Lease.Lease = l.ID[:]
		case *fsmpb.Op_Cancel:
			x.Cancel.Job = "j"
		case *fsmpb.Op_Retry:
			x.Retry.Job = "j"
		case *fsmpb.Op_ChangeJob:
			x.ChangeJob.Job = "j"
		case *fsmpb.Op_InterruptJob:
			x.InterruptJob.Job = "j"
		case *fsmpb.Op_RunJobNow:
			x.RunJobNow.Job = "j"
		case *fsmpb.Op_DeleteJob:
			x.DeleteJob.Job = "j"
		case *fsmpb.Op_ReportProof:
			x.ReportProof.Job = "j"
		case *fsmpb.Op_AddNodes:
			x.AddNodes.Workflow = "wf"
		case *fsmpb.Op_CommitWorkflow:
			x.CommitWorkflow.Id = "wf"
		case *fsmpb.Op_CancelWorkflow:
			x.CancelWorkflow.Id = "wf"
		case *fsmpb.Op_SignalWorkflow:
			x.SignalWorkflow.Workflow, x.SignalWorkflow.Node = "wf", "n0"
		case *fsmpb.Op_RetryWorkflow:
			x.RetryWorkflow.Id = "wf"
		case *fsmpb.Op_SetQueue:
			x.SetQueue.Name = "default"
		case *fsmpb.Op_DeleteQueue:
			x.DeleteQueue.Name = "default"
		case *fsmpb.Op_DeleteTenant:
			x.DeleteTenant.Id = "default"
		case *fsmpb.Op_DeleteWorker:
			x.DeleteWorker.Id = "w"
		case *fsmpb.Op_SetTenant:
			x.SetTenant.Id = "default"
		case *fsmpb.Op_CreateToken:
			x.CreateToken = tokenWish("x", "auth")
		case *fsmpb.Op_SetBlock:
			x.SetBlock.Role, x.SetBlock.Name = "auth", "n"
		}
		return op
	}
	for i, right := range access.RightNames() {
		b.ok(roleOp(right, everyRight(rota.Right(i+1))...))
	}
	b.ok(roleOp("nothing", rota.Grant{Right: rota.RightDebug, Tenant: "*", Queue: "*"}))
	fields := (&fsmpb.Op{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		what := string(f.Name())
		allowed := []string{}
		for _, right := range access.RightNames() {
			b.fleet.workers.Get("w").By = rota.CertPrincipal(right, "n")
			if o := b.judged(by(rota.CertPrincipal(right, "n"), name(operationOf(f)))); o == nil {
				allowed = append(allowed, right)
			}
		}
		want := []string{}
		switch right, ok := rightOf[what]; {
		case ok:
			want = append(want, right.String())
		case slices.Contains(harmless, what):
			want = access.RightNames()
		case slices.Contains(leadersOwn, what), what == "init_auth", what == "claim_session", what == "end_session":
			if o := b.judged(by(rota.CertPrincipal(access.RoleRoot, "n"), name(operationOf(f)))); o == nil {
				t.Errorf("%s: root passes, want only the leader or the node's account", what)
			}
		default:
			t.Errorf("operation %s is new: specify which right it needs (judge.go, docs/security.md)", what)
		}
		if !slices.Equal(allowed, want) {
			t.Errorf("%s passes with %v, want %v", what, allowed, want)
		}
	}
	if o := b.judged(by(rota.Local, initOp(tokenWish("y", access.RoleRoot)))); o != nil {
		t.Errorf("the node's account cannot create the first token: %v", o)
	}
}

// TestRights_ofTheObject checks that the tenant and queue are the object's, not those that a request names.
func TestRights_ofTheObject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("other"))
	b.submit("theirs", func(s *rota.JobSpec) { s.Tenant = "umbrella" })
	b.submit("mine", func(s *rota.JobSpec) { s.Tenant = "acme" })
	b.submit("ended", func(s *rota.JobSpec) { s.Tenant = "umbrella" })
	b.ok(cancelOp("ended"))
	b.ok(roleOp("acme", rota.Grant{Right: rota.RightSubmit, Tenant: "acme", Queue: "default"},
		rota.Grant{Right: rota.RightControl, Tenant: "acme", Queue: "default"}))
	b.ok(tokenOp(tokenWish("a", "acme")))
	acme := actorNamed("a")
	deleteNone := b.deleteOf("ended")
	deleteNone.GetDeleteJob().Job = "none"
	for foreign, none := range map[*fsmpb.Op]*fsmpb.Op{cancelOp("theirs"): cancelOp("none "),
		retryOp("ended"): retryOp("none "), b.deleteOf("ended"): deleteNone} {
		// An unreadable object and a missing one give the same error, word for word.
		is, isNot := b.refuses(rota.KindNotFound, "job", by(acme, foreign)), b.refuses(rota.KindNotFound, "job",
			by(acme, none))
		if is, isNot := is.GetText(), isNot.GetText(); strings.NewReplacer("theirs", "ID", "ended", "ID").Replace(is) !=
			strings.NewReplacer("none ", "ID", "none", "ID").Replace(isNot) {
			t.Errorf("the refusal for a foreign job is %q, for a missing one %q", is, isNot)
		}
	}
	b.ok(roleOp("reads", rota.Grant{Right: rota.RightRead, Tenant: "*", Queue: "*"},
		rota.Grant{Right: rota.RightControl, Tenant: "acme", Queue: "default"}))
	b.ok(tokenOp(tokenWish("r", "reads")))
	b.refuses(rota.KindDenied, "control", by(actorNamed("r"), cancelOp("theirs")))
	spec := func(id string, queue rota.QueueName) *fsmpb.Op {
		s := jobSpec(id)
		s.Tenant, s.Queue = "acme", queue
		return submitOp(s)
	}
	b.refuses(rota.KindConflict, "id", by(acme, spec("theirs", "default")))
	b.refuses(rota.KindConflict, "id", by(acme, spec("ended", "default")))
	b.refuses(rota.KindDenied, "submit", by(acme, spec("new", "other")))
	b.ok(by(acme, spec("new", "default")))
	b.ok(by(acme, cancelOp("mine")))
	b.refuses(rota.KindNotFound, "job", by(acme, cancelOp("nobodys")))
}

// TestAccess_naive changes roles, tokens and blocks at random, by actors some of which lack the right, and compares
// each outcome with a second implementation without tables.
func TestAccess_naive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(rt)
		b.every = 10
		b.ok(queueOp("q1"))
		b.ok(queueOp("q2"))
		type token struct {
			roles, tenants []string
			revoked        bool
		}
		roles, tokens, blocked := map[string][]rota.Grant{}, map[string]*token{}, map[string]bool{}
		patterns := []string{"*", "t*", "t1", "t2"}
		names, letters := []string{"r1", "r2", "r3"}, []string{"a", "b", "c"}
		grants := func() (list []rota.Grant) {
			for range rapid.IntRange(1, 3).Draw(rt, "grants") {
				right := rapid.SampledFrom([]rota.Right{rota.RightSubmit, rota.RightControl}).Draw(rt, "right")
				list = append(list, rota.Grant{Right: right, Tenant: rapid.SampledFrom(patterns).Draw(rt, "tenant"),
					Queue: rapid.SampledFrom([]string{"*", "q1", "q2"}).Draw(rt, "queue")})
			}
			return list
		}
		match := func(p, id string) bool {
			return p == "*" || p == id || p == "t*" && id[0] == 't'
		}
		may := func(p rota.Principal, tenant, queue string) rota.Kind {
			var of, tenants []string
			if id, ok := p.Token(); ok {
				k := tokens[id[:1]]
				if k == nil || k.revoked {
					return rota.KindUnauthenticated
				}
				of, tenants = k.roles, k.tenants
			} else if role, name, _ := p.Cert(); blocked[role+"/"+name] {
				return rota.KindUnauthenticated
			} else {
				of = []string{role}
			}
			if len(tenants) > 0 && !slices.ContainsFunc(tenants, func(p string) bool { return match(p, tenant) }) {
				return rota.KindDenied
			}
			for _, role := range of {
				for _, g := range roles[role] {
					if g.Right == rota.RightSubmit && match(g.Tenant, tenant) && match(g.Queue, queue) {
						return rota.KindNone
					}
				}
			}
			return rota.KindDenied
		}
		for n := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			name, letter := rapid.SampledFrom(names).Draw(rt, "role"), rapid.SampledFrom(letters).Draw(rt, "letter")
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0, 1:
				g := grants()
				b.ok(roleOp(name, g...))
				roles[name] = g
			case 2:
				o := b.entry(&fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: name}}}).Outcomes[0]
				if known := roles[name] != nil; (o.GetKind() == 0) != known {
					rt.Fatalf("delete role: %v, known %v", o, known)
				}
				delete(roles, name)
			case 3, 4:
				wish := tokenWish(letter, name)
				wish.Tenants = rapid.SliceOfN(rapid.SampledFrom(patterns), 0, 2).Draw(rt, "tenants")
				o := b.entry(tokenOp(wish)).Outcomes[0]
				old := tokens[letter]
				switch {
				case old == nil && roles[name] != nil:
					if o.GetKind() != 0 || o.GetExisted() {
						rt.Fatalf("create token: %v", o)
					}
					tokens[letter] = &token{roles: wish.Roles, tenants: wish.Tenants}
				case old != nil && !old.revoked && slices.Equal(old.roles, wish.Roles) &&
					slices.Equal(old.tenants, wish.Tenants):
					if !o.GetExisted() {
						rt.Fatalf("create token again: %v", o)
					}
				case o.GetKind() == 0:
					rt.Fatalf("create token: %v", o)
				}
			case 5:
				o := b.entry(revokeOp(letter)).Outcomes[0]
				if known := tokens[letter] != nil; (o.GetKind() == 0) != known {
					rt.Fatalf("revoke: %v, known %v", o, known)
				} else if known {
					tokens[letter].revoked = true
				}
			case 6:
				on := rapid.Bool().Draw(rt, "on")
				b.ok(blockOp(name, "n", on))
				blocked[name+"/n"] = on
			default:
				actor := actorNamed(letter)
				if rapid.Bool().Draw(rt, "certificate") {
					actor = rota.CertPrincipal(name, "n")
				}
				s := jobSpec(fmt.Sprintf("j%d", n))
				s.Tenant = rota.TenantID(rapid.SampledFrom([]string{"t1", "t2", "x"}).Draw(rt, "of"))
				s.Queue = rota.QueueName(rapid.SampledFrom([]string{"q1", "q2"}).Draw(rt, "in"))
				o := b.entry(by(actor, submitOp(s))).Outcomes[0]
				if want := may(actor, string(s.Tenant), string(s.Queue)); rota.Kind(o.GetKind()) != want {
					rt.Fatalf("%s submits for %s to %s: got %v, want %s", actor, s.Tenant, s.Queue, o, want)
				}
			}
		}
		b.sound()
	})
}

// BenchmarkJudge applies entries of 100 submissions of a known job: without a caller, which is not judged, by a caller
// with all rights, and by one whose grants are searched.
func BenchmarkJudge(b *testing.B) {
	m := fill(b, 100)
	m.entry(roleOp("some", rota.Grant{Right: rota.RightRead, Tenant: "*", Queue: "*"},
		rota.Grant{Right: rota.RightSubmit, Tenant: "t*", Queue: "*"}),
		anonymousOp(access.RoleRoot), tokenOp(tokenWish("a", "some")))
	for _, c := range []struct {
		name  string
		actor rota.Principal
	}{{"nobody", ""}, {"anonymous-root", rota.Anonymous}, {"token", actorNamed("a")}} {
		b.Run(c.name, func(b *testing.B) {
			ops := make([]*fsmpb.Op, 100)
			for i := range ops {
				ops[i] = submitOp(benchJob(fmt.Sprintf("backlog-%08d", i), func(s *rota.JobSpec) {
					s.Queue, s.Tenant = "backlog", rota.TenantID(fmt.Sprint("t", i%8))
				}))
				if c.actor != "" {
					by(c.actor, ops[i])
				}
			}
			data := m.seal(ops...)
			b.ReportAllocs()
			for b.Loop() {
				m.Recycle(m.run(data).Events)
			}
		})
	}
}
