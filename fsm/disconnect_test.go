package fsm

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// gracedLease opens a lease with a grace of 10 s for worker w on its connection 5.
func gracedLease(b *bench) rota.Lease {
	b.t.Helper()
	b.ok(queueOp("default", "lease_grace_on_disconnect", "10s", "t_lease", "10m"))
	b.ok(linked(registerOp("w", 2, "w", false), 5))
	b.submit("j")
	l := b.match()["j"]
	b.ok(verb(rota.VerbAck, l))
	if a, _ := b.View.Assignment(l.ID); a.Grace != 10*time.Second {
		b.t.Fatalf("assignment %+v: want a grace of 10 s", a)
	}
	return l
}

func TestDisconnect(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench, l rota.Lease)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			f(b, gracedLease(b))
		})
	}
	run("counts_the_grace", func(b *bench, l rota.Lease) {
		events := b.entry(disconnectOp("w", l.Session, 5)).Events
		if len(events) != 1 || events[0].Kind != rota.EventWorkerDisconnected || events[0].Worker != "w" ||
			events[0].Session != l.Session {
			b.t.Fatalf("events %+v", events)
		}
		since := b.Header.Clock
		if w, _ := b.View.Worker("w"); w.DisconnectedSince.Clock != since || w.Status != rota.WorkerActive {
			b.t.Fatalf("worker %+v", w)
		}
		b.pass(5_000)
		b.ok(disconnectOp("w", l.Session, 5)) // repeated: the grace runs on
		b.pass(4_999)
		b.state("j", rota.JobRunning)
		b.pass(1)
		if j, _ := b.View.Job("j"); j.Attempt != 1 || j.Attempts[0].End != rota.ReasonLeaseExpired {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("is_over_with_another_connection", func(b *bench, l rota.Lease) {
		b.ok(disconnectOp("w", l.Session, 5))
		b.pass(9_000)
		b.ok(linked(registerOp("w", 2, "w", false), 6))
		b.refuses(rota.KindStale, "connection", disconnectOp("w", l.Session, 5))
		b.pass(60_000)
		b.state("j", rota.JobRunning)
		b.ok(disconnectOp("w", l.Session, 6))
		b.pass(10_000)
		if j, _ := b.View.Job("j"); j.Attempt != 1 {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("of_another_worker_session_or_connection_tells_nothing", func(b *bench, l rota.Lease) {
		b.refuses(rota.KindStale, "session", disconnectOp("nobody", l.Session, 5))
		b.refuses(rota.KindStale, "session", disconnectOp("w", l.Session+1, 5))
		b.refuses(rota.KindStale, "connection", disconnectOp("w", l.Session, 4))
		b.refuses(rota.KindStale, "connection", disconnectOp("w", l.Session, 0))
		b.ok(registerOp("plain", 1, "plain", false))
		s, _ := b.View.Session("plain")
		b.refuses(rota.KindStale, "connection", disconnectOp("plain", s, 0)) // it sends no numbers
	})
	run("an_older_connection_is_stale_the_same_one_is_a_repeat", func(b *bench, l rota.Lease) {
		b.refuses(rota.KindStale, "connection", linked(registerOp("w", 2, "w", false), 4))
		b.ok(disconnectOp("w", l.Session, 5))
		b.ok(linked(registerOp("w", 2, "w", false), 5)) // proposed twice: no other connection
		b.pass(10_000)
		if j, _ := b.View.Job("j"); j.Attempt != 1 {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("is_nothing_of_a_deposed_leader", func(b *bench, l rota.Lease) {
		b.lead()
		e := &fsmpb.Entry{Term: b.term - 1, NowMs: int64(b.now), Ops: []*fsmpb.Op{disconnectOp("w", l.Session, 5)}}
		if o := b.stamped(e, b.term).Outcomes[0]; rota.Kind(o.GetKind()) != rota.KindStale {
			b.t.Fatalf("outcome %v", o)
		}
		b.pass(30_000)
		b.state("j", rota.JobRunning)
	})
	run("gives_the_worker_nothing_until_it_registers", func(b *bench, l rota.Lease) {
		b.ok(disconnectOp("w", l.Session, 5))
		b.submit("k")
		if got := b.match(); len(got) > 0 {
			b.t.Fatalf("leases %v", got)
		}
		if x, ok := b.View.Why("k", 10); !ok || len(x.Reasons) == 0 || x.Reasons[0].Reason != "DISCONNECTED" {
			b.t.Fatalf("why %+v", x)
		}
		b.ok(linked(registerOp("w", 2, "w", false), 6))
		if got := b.match(); len(got) != 1 {
			b.t.Fatalf("leases %v", got)
		}
	})
}

// TestDisconnect_withoutGrace checks that a worker that does not declare support for the grace has its leases for as
// long as its silence, and so have leases from before the queue's key was set.
func TestDisconnect_withoutGrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "t_lease", "10m"))
	b.ok(linked(registerOp("w", 2, "w", false), 5))
	b.ok(registerOp("other", 0, "other", false,
		func(w *rota.WorkerSpec) { w.Slots = 1; w.Queues = []rota.QueueName{"q2"} }))
	b.submit("early")
	early := b.match()["early"]
	b.ok(verb(rota.VerbAck, early))
	b.ok(queueOp("default", "lease_grace_on_disconnect", "10s"))
	undeclared := linked(registerOp("w", 2, "w", false), 6)
	undeclared.GetRegister().Grace = false
	b.ok(undeclared)
	b.submit("late")
	late := b.match()["late"]
	b.ok(verb(rota.VerbAck, late))
	b.ok(disconnectOp("w", early.Session, 6))
	b.pass(60_000)
	b.state("early", rota.JobRunning)
	b.state("late", rota.JobRunning)
}

// TestDisconnect_range checks that the key accepts 0 and 10 to 40 s.
func TestDisconnect_range(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, ms := range []string{"1", "9999", "40001", "-1"} {
		b.refuses(rota.KindInvalid, "lease_grace_on_disconnect_ms",
			queueOp("default", "lease_grace_on_disconnect_ms", ms))
	}
	for _, ms := range []string{"0", "10000", "40000"} {
		b.ok(queueOp("default", "lease_grace_on_disconnect_ms", ms))
	}
}
