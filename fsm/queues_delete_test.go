package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

func deleteQueueOp(name string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: name}}}
}

func deleteTenantOp(id string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteTenant{DeleteTenant: &fsmpb.DeleteTenant{Id: id}}}
}

func deleteWorkerOp(id string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteWorker{DeleteWorker: &fsmpb.DeleteWorker{Id: id}}}
}

func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	t.Run("ten_thousand_made_deleted_made", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 100_000
		all := func(op func(string) *fsmpb.Op) {
			for at := 0; at < limits.MaxQueues-1; { // default is one
				var ops []*fsmpb.Op
				for ; len(ops) < 500 && at < limits.MaxQueues-1; at++ {
					ops = append(ops, op(fmt.Sprint("q", at)))
				}
				for _, o := range b.entry(ops...).Outcomes {
					if o.GetKind() != 0 || o.GetExisted() {
						t.Fatal(o)
					}
				}
			}
		}
		set := func(name string) *fsmpb.Op { return queueOp(name) }
		all(set)
		b.refuses(rota.KindExhausted, "queue", queueOp("another"))
		all(deleteQueueOp)
		if n := len(b.View.Queues()); n != 1 {
			t.Fatalf("%d queues are left", n)
		}
		b.sound()
		all(set)
		b.sound()
	})
	t.Run("refuses_what_is_in_use", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.refuses(rota.KindConflict, "queue", deleteQueueOp("default"))
		b.refuses(rota.KindInvalid, "queue", deleteQueueOp("no such id"))
		if o := b.ok(deleteQueueOp("never")); !o.GetExisted() {
			t.Errorf("one that never was: %v", o)
		}
		b.ok(queueOp("q"))
		a := b.entry(submitOp(jobSpec("j", queue("q"))), deleteQueueOp("q"))
		if o := a.Outcomes[1]; o.GetKind() != uint32(rota.KindConflict) {
			t.Fatalf("with a job of the same entry: %v", o)
		}
		b.ok(cancelOp("j"))
		b.ok(deleteQueueOp("q"))
		b.refuses(rota.KindNotFound, "queue", retryOp("j"))
		b.refuses(rota.KindNotFound, "queue", submitOp(jobSpec("j2", queue("q"))))
		b.ok(queueOp("q"))
		b.ok(retryOp("j"))
		b.state("j", rota.JobQueued)
	})
	t.Run("leaves_nothing_of_limiters_and_domains", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q", "rate_limit_rps", "10", "tenant_window_max", "5", "domain_failure_threshold", "0.5"))
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"q"} })
		b.submit("j", queue("q"), tenant("ann"), func(s *rota.JobSpec) { s.Domain = "disk" })
		for _, l := range b.match() {
			b.refuses(rota.KindConflict, "queue", deleteQueueOp("q"))
			b.ok(verb(rota.VerbComplete, l))
		}
		b.ok(deleteQueueOp("q"))
		if n := b.admission.limiters.Len() + b.admission.domains.Len(); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		b.pass(1000)
		b.sound()
		b.ok(queueOp("q")) // its worker serves it again
		b.submit("k", queue("q"))
		if len(b.match()) != 1 {
			t.Error("the worker gets no job of the queue that was created again")
		}
	})
	t.Run("a_schedule_is_named_to_who_may_read_it", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q"))
		b.ok(scheduleOp("secret", func(s *rota.ScheduleSpec) { s.Job.Queue, s.Job.Tenant = "q", "acme" }))
		b.ok(roleOp("blind", everyRight(rota.RightQueue)...))
		b.ok(roleOp("reads", everyRight(rota.RightQueue, rota.RightRead)...))
		for role, told := range map[string]bool{"blind": false, "reads": true} {
			o := b.refuses(rota.KindConflict, "queue", by(rota.CertPrincipal(role, "n"), deleteQueueOp("q")))
			if strings.Contains(o.GetText(), "secret") != told {
				t.Errorf("%s gets the text %s", role, o.GetText())
			}
		}
	})
	t.Run("a_rule_of_keys_keeps_its_queue", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q"))
		b.ok(queueOp("q2"))
		b.ok(SetKeyRuleOp(&rota.KeyRule{Name: "account", Concurrency: 1})) // of all queues: it names none
		b.ok(SetKeyRuleOp(&rota.KeyRule{Queue: "q", Name: "account", Value: "7", Concurrency: 1}))
		b.submit("j", queue("q"), func(s *rota.JobSpec) { s.Keys = []string{"account:7"} })
		b.refuses(rota.KindConflict, "queue", drainOp("q", "default")) // before anything moves
		if q := b.QueueTable.Get("q"); q.DrainTo != "" || q.Live() != 1 {
			t.Errorf("it is being drained to %q, with %d jobs left", q.DrainTo, q.Live())
		}
		b.ok(cancelOp("j"))
		b.ok(roleOp("blind", everyRight(rota.RightQueue)...))
		b.ok(roleOp("reads", everyRight(rota.RightQueue, rota.RightRead)...))
		for role, told := range map[string]bool{"blind": false, "reads": true} {
			o := b.refuses(rota.KindConflict, "queue", by(rota.CertPrincipal(role, "n"), deleteQueueOp("q")))
			if strings.Contains(o.GetText(), "account:7") != told {
				t.Errorf("%s gets the text %s", role, o.GetText())
			}
		}
		b.ok(deleteQueueOp("q2"))
		b.sound()
		b.ok(DeleteKeyRuleOp("q", "account", "7"))
		b.ok(deleteQueueOp("q"))
		b.sound()
	})
	t.Run("a_queue_that_leaves_takes_no_rule_of_keys", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q"))
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"q"} })
		b.submit("j", queue("q"))
		l := b.match()["j"]
		if o := b.ok(drainOp("q", "default")); o.GetLeft() != 1 {
			t.Fatal(o)
		}
		b.refuses(rota.KindConflict, "queue", SetKeyRuleOp(&rota.KeyRule{Queue: "q", Name: "account", Concurrency: 1}))
		b.ok(verb(rota.VerbComplete, l))
		b.ok(drainOp("q", "default"))
		b.refuses(rota.KindNotFound, "queue", SetKeyRuleOp(&rota.KeyRule{Queue: "q", Name: "account", Concurrency: 1}))
	})
	t.Run("jobs_are_counted_to_who_may_read_them", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q"))
		b.submit("j", queue("q"))
		b.ok(roleOp("blind", everyRight(rota.RightQueue)...))
		for who, told := range map[rota.Principal]bool{rota.CertPrincipal("blind", "n"): false,
			rota.CertPrincipal(access.RoleRoot, "n"): true} {
			if o := b.refuses(rota.KindConflict, "queue", by(who, deleteQueueOp("q"))); strings.Contains(o.GetText(),
				"1 live") != told {
				t.Errorf("%s gets the text %s", who, o.GetText())
			}
		}
	})
	t.Run("a_workflow_keeps_its_queues", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q"))
		flow := newDAG("f", [][]uint32{nil})
		open := flow.open()
		open.GetOpenWorkflow().Queue = "q"
		if o := b.entry(open, deleteQueueOp("q")).Outcomes; o[0].GetKind() != 0 ||
			o[1].GetKind() != uint32(rota.KindConflict) {
			t.Fatal(o)
		}
		b.refuses(rota.KindConflict, "queue", deleteQueueOp("q"))
	})
}

func TestDeleteTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(tenantOp("ann", "weight", "7"))
	b.submit("j", tenant("ann"))
	b.refuses(rota.KindConflict, "tenant", deleteTenantOp("ann"))
	b.refuses(rota.KindInvalid, "tenant", deleteTenantOp(""))
	b.ok(cancelOp("j"))
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Job.Tenant = "ann" }))
	b.refuses(rota.KindConflict, "tenant", deleteTenantOp("ann"))
	b.ok(unscheduleOp("s"))
	if a := b.entry(deleteTenantOp("ann")); len(kinds(a.Events, rota.EventTenantDeleted)) != 1 {
		t.Errorf("%v, events %+v", a.Outcomes, a.Events)
	}
	if o := b.ok(deleteTenantOp("ann")); !o.GetExisted() {
		t.Errorf("again: %v", o)
	}
	if all := b.View.Tenants(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestDeleteWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.worker("w", 1)
	b.refuses(rota.KindConflict, "worker", deleteWorkerOp("w"))
	l := b.leased("j", "w")
	b.ok(reachOp("w", s, false, b.now))
	b.refuses(rota.KindConflict, "worker", deleteWorkerOp("w"))
	b.ok(reachOp("w", s, true, b.now))
	b.ok(verb(rota.VerbComplete, l))
	b.ok(statusOp("w", rota.WorkerRetired, 0))
	b.ok(deleteWorkerOp("w"))
	if len(b.View.Workers()) != 0 {
		t.Error("it is still known")
	}
	if o := b.ok(deleteWorkerOp("w")); !o.GetExisted() {
		t.Errorf("again: %v", o)
	}
	b.worker("w", 1)
}
