package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

// root is the caller in deeds.
var root = actorNamed("r")

// deeds are, for each operation open to callers, ways to build one that changes something, after creating the objects
// that it needs.
var deeds = map[string][]func(*bench) *fsmpb.Op{
	"submit":     {func(*bench) *fsmpb.Op { return submitOp(jobSpec("j")) }},
	"register":   {func(*bench) *fsmpb.Op { return registerOp("w", 1, "s", false) }},
	"set_status": {func(b *bench) *fsmpb.Op { b.worker("w", 1); return statusOp("w", rota.WorkerSuspended, 0) }},
	"gone":       {func(b *bench) *fsmpb.Op { b.deedLease(); return goneOp("w", 1, "w") }},
	"lease": {
		func(b *bench) *fsmpb.Op { return verb(rota.VerbAck, b.deedLease()) },
		func(b *bench) *fsmpb.Op { return verb(rota.VerbDecline, b.deedLease()) },
		func(b *bench) *fsmpb.Op { return verb(rota.VerbRenew, b.deedAcked()) },
		func(b *bench) *fsmpb.Op { return verb(rota.VerbComplete, b.deedAcked()) },
		func(b *bench) *fsmpb.Op { return verb(rota.VerbFail, b.deedAcked()) },
		func(b *bench) *fsmpb.Op { return verb(rota.VerbProgress, b.deedAcked()) },
	},
	"cancel": {func(b *bench) *fsmpb.Op { b.submit("k"); return cancelOp("k") }},
	"retry":  {func(b *bench) *fsmpb.Op { b.submit("k"); b.ok(cancelOp("k")); return retryOp("k") }},
	"change_job": {func(b *bench) *fsmpb.Op {
		b.submit("k")
		p := int32(2)
		return b.changeOf(rota.JobChange{ID: "k", Priority: &p})
	}},
	"interrupt_job": {func(b *bench) *fsmpb.Op {
		b.ok(switchOp(2))
		return InterruptOp(&b.View, b.deedLease().Job, false)
	}},
	"run_job_now": {func(b *bench) *fsmpb.Op {
		b.ok(switchOp(2))
		b.submit("k", func(s *rota.JobSpec) { s.Delay = time.Hour })
		return RunNowOp(&b.View, "k")
	}},
	"delete_job":   {func(b *bench) *fsmpb.Op { b.submit("k"); b.ok(cancelOp("k")); return b.deleteOf("k") }},
	"report_proof": {func(b *bench) *fsmpb.Op { return reportOp(b.completed("k", "v")) }},
	"set_queue": {func(*bench) *fsmpb.Op { return queueOp("default", "weight", "3") },
		func(*bench) *fsmpb.Op { return queueOp("new") }},
	"set_tenant":   {func(*bench) *fsmpb.Op { return tenantOp("acme", "weight", "3") }},
	"delete_queue": {func(b *bench) *fsmpb.Op { b.ok(queueOp("q")); return deleteQueueOp("q") }},
	"delete_tenant": {func(b *bench) *fsmpb.Op {
		b.ok(tenantOp("acme", "weight", "3"))
		return deleteTenantOp("acme")
	}},
	"delete_worker": {func(b *bench) *fsmpb.Op {
		b.worker("w", 1)
		b.ok(statusOp("w", rota.WorkerRetired, 0))
		return deleteWorkerOp("w")
	}},
	"set_mode":    {func(*bench) *fsmpb.Op { return modeOp(rota.ModeReadOnly, "why") }},
	"set_cluster": {func(*bench) *fsmpb.Op { return clusterOp("state_bytes_max", "2GiB") }},
	"set_tzdata":  {func(b *bench) *fsmpb.Op { b.ok(switchOp(entry.RulesVersion)); return tzdataOp("2026f") }},
	"set_node": {func(b *bench) *fsmpb.Op {
		b.ok(&fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: "n9", Identity: "of-n9"}}})
		return &fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: "n9", Identity: "of-n9", Removed: true}}}
	}},
	"commit_workflow": {func(b *bench) *fsmpb.Op { d := diamond("wf"); b.upload(d); return d.commit() }},
	"signal_workflow": {func(b *bench) *fsmpb.Op {
		d := diamond("wf", gateAt(0, rota.Gate{}))
		b.run(d)
		return d.signal("n0", "s", "")
	}},
	"cancel_workflow": {func(b *bench) *fsmpb.Op { b.run(diamond("wf")); return entry.CancelWorkflowOp("wf") }},
	"retry_workflow": {func(b *bench) *fsmpb.Op {
		d := diamond("wf")
		b.run(d)
		b.ok(d.cancel())
		return entry.RetryWorkflowOp("wf", "", 1)
	}},
	"set_role": {func(*bench) *fsmpb.Op { return roleOp("new", everyRight(rota.RightRead)...) }},
	"delete_role": {func(b *bench) *fsmpb.Op {
		b.ok(roleOp("gone", everyRight(rota.RightRead)...))
		return &fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: "gone"}}}
	}},
	"create_token": {func(*bench) *fsmpb.Op { return tokenOp(tokenWish("n", access.RoleReader)) }},
	"revoke_token": {func(b *bench) *fsmpb.Op {
		b.ok(tokenOp(tokenWish("n", access.RoleReader)))
		return revokeOp("n")
	}},
	"set_block":     {func(*bench) *fsmpb.Op { return blockOp("new", "n", true) }},
	"set_anonymous": {func(*bench) *fsmpb.Op { return anonymousOp(access.RoleReader) }},
	"set_issuer":    {func(*bench) *fsmpb.Op { return issuerOp(idp, mapTo("sub", "ann", access.RoleReader)) }},
	"delete_issuer": {func(b *bench) *fsmpb.Op {
		b.ok(issuerOp(idp, mapTo("sub", "ann", access.RoleReader)))
		return noIssuerOp(idp)
	}},
	"exchange": {func(b *bench) *fsmpb.Op {
		b.ok(issuerOp(idp, mapTo("sub", "ann", access.RoleReader)))
		return b.exchangeOp(1, "e")
	}},
	"open_session": {func(*bench) *fsmpb.Op { return sessionOp("s") }},
	"claim_session": {func(b *bench) *fsmpb.Op {
		b.ok(by(root, sessionOp("s", asLink)))
		return claimOp("s", "x")
	}},
	"end_session":  {func(b *bench) *fsmpb.Op { b.ok(by(root, sessionOp("s"))); return endSessionOp("s") }},
	"set_key_rule": {func(*bench) *fsmpb.Op { return SetKeyRuleOp(&rota.KeyRule{Name: "k", Concurrency: 1}) }},
	"delete_key_rule": {func(b *bench) *fsmpb.Op {
		b.ok(SetKeyRuleOp(&rota.KeyRule{Name: "k", Concurrency: 1}))
		return DeleteKeyRuleOp("", "k", "")
	}},
	"skip_key": {func(b *bench) *fsmpb.Op {
		b.blockedKey("k:1", "j")
		return SkipKeyOp("", "default", "k:1", "j")
	}},
	"pause_key": {func(b *bench) *fsmpb.Op {
		b.ok(switchOp(2))
		b.ok(SetKeyRuleOp(&rota.KeyRule{Name: "k", Concurrency: 1}))
		return PauseKeyOp("", "default", "k:1", 0, "x")
	}},
	"set_budget": {func(b *bench) *fsmpb.Op { b.ok(switchOp(2)); return usd("x", 1) }},
	"delete_budget": {func(b *bench) *fsmpb.Op {
		b.ok(switchOp(2))
		b.ok(usd("x", 1))
		return DeleteBudgetOp("x")
	}},
	"grant_budget": {func(b *bench) *fsmpb.Op {
		b.ok(switchOp(2))
		b.ok(usd("x", 1))
		return GrantBudgetOp("x", "", change("g", 1))
	}},
	"reset_budget": {func(b *bench) *fsmpb.Op {
		b.ok(switchOp(2))
		b.ok(usd("x", 1))
		b.ok(GrantBudgetOp("x", "", change("g", 1)))
		return ResetBudgetOp("x", "", false, change("r", 0))
	}},
	"set_schedule":     {func(*bench) *fsmpb.Op { return scheduleOp("s") }},
	"pause_schedule":   {func(b *bench) *fsmpb.Op { b.ok(scheduleOp("s")); return pauseOp("s", true, false) }},
	"trigger_schedule": {func(b *bench) *fsmpb.Op { b.ok(scheduleOp("s")); return triggerOp("s", "x") }},
	"backfill_schedule": {func(b *bench) *fsmpb.Op {
		b.ok(scheduleOp("s"))
		return backfillOp("s", 1, rota.OverlapQueueAll, b.Header.Date()-60_000)
	}},
	"start_plan":      {func(*bench) *fsmpb.Op { return planOp("p", rota.PlanCancel, "id=*") }},
	"cancel_plan":     {func(b *bench) *fsmpb.Op { b.ok(planOp("p", rota.PlanCancel, "id=*")); return endPlanOp("p") }},
	"delete_schedule": {func(b *bench) *fsmpb.Op { b.ok(scheduleOp("s")); return unscheduleOp("s") }},
	"open_batch":      {func(*bench) *fsmpb.Op { return batchOp("b", 0) }},
	"seal_batch":      {func(b *bench) *fsmpb.Op { b.ok(batchOp("b", 0)); return entry.SealOp("b") }},
	"set_webhook":     {func(*bench) *fsmpb.Op { return hookOp("h") }},
	"pause_webhook":   {func(b *bench) *fsmpb.Op { b.ok(hookOp("h")); return pauseHookOp("h", true) }},
	"skip_webhook":    {func(b *bench) *fsmpb.Op { b.ok(hookOp("h")); return skipHookOp("h") }},
	"delete_webhook":  {func(b *bench) *fsmpb.Op { b.ok(hookOp("h")); return unhookOp("h") }},
	"read_snapshot":   {func(b *bench) *fsmpb.Op { return readSnapshotOp("n1", b.At) }},
	"init_auth":       {func(*bench) *fsmpb.Op { return initOp(tokenWish("y", access.RoleRoot)) }},
}

// silent are the operations of callers that leave no event, and why.
var silent = map[string]string{
	"barrier":       "it changes nothing",
	"open_workflow": "nothing is accepted before the commit, which tells of it all",
	"add_nodes":     "likewise",
	"offer":         "the leases that are made tell of it",
}

// deedLease returns the lease of a job at a worker of root's.
func (b *bench) deedLease() rota.Lease {
	b.t.Helper()
	b.ok(by(root, registerOp("w", 1, "w", false)))
	b.submit("j")
	return b.match()["j"]
}

func (b *bench) deedAcked() rota.Lease {
	b.t.Helper()
	l := b.deedLease()
	b.ok(by(root, verb(rota.VerbAck, l)))
	return l
}

// TestEventsHaveTheirCaller checks by reflection that each operation open to callers leaves an event, in the chain,
// with the caller, the door and the call; later consequences have no caller.
func TestEventsHaveTheirCaller(t *testing.T) {
	t.Parallel()
	fields := (&fsmpb.Op{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		what := string(fields.Get(i).Name())
		op := operationOf(fields.Get(i))
		if n := op.GetSetNode(); n != nil {
			n.Removed = true // otherwise it is internal to the leader
		}
		_, asked := authz.RuleOf(op)
		if asked != (len(deeds[what]) > 0 || silent[what] != "") {
			t.Errorf("operation %s may be requested: %v, and %d of it are tried: add to deeds how it changes something",
				what, asked, len(deeds[what]))
		}
		for n, deed := range deeds[what] {
			t.Run(fmt.Sprint(what, "_", n), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.ok(tokenOp(tokenWish("r", access.RoleRoot)))
				actor := root
				if what == "init_auth" {
					actor = rota.Local
				}
				if what == "claim_session" {
					actor = sessionOf("s", "r")
				}
				op := by(actor, deed(b))
				if got := op.ProtoReflect().WhichOneof(fields.Get(i).ContainingOneof()).Name(); string(got) != what {
					t.Fatalf("it tries %s", got)
				}
				before := b.Header.Chain
				b.told(op, actor, before)
			})
		}
	}
}

// told applies an operation, and fails if no event carries its actor or the chain leaves it out.
func (b *bench) told(op *fsmpb.Op, actor rota.Principal, before [32]byte) {
	b.t.Helper()
	a := b.entry(op)
	if err := entry.OutcomeError(a.Outcomes[0]); err != nil {
		b.t.Fatal(err)
	}
	if len(a.Events) == 0 || a.Events[0].Actor != actor || a.Events[0].Via != "n1/grpc" || a.Events[0].Request != "r" {
		b.t.Fatalf("the events are %+v", a.Events)
	}
	back, err := state.DecodeEvents(a.Index, a.EventBytes)
	if err != nil || fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", a.Events) {
		b.t.Fatalf("%v, read back as %+v", err, back)
	}
	if after := b.Header.Chain; after == before || after != state.NextChain(before, a.Index, a.EventBytes) {
		b.t.Fatal("the events are not in the chain")
	}
	for _, e := range b.pass(60_000) {
		if e.Actor != "" || e.Via != "" || e.Request != "" {
			b.t.Fatalf("a sweep's: %+v", e)
		}
	}
}
