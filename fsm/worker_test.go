package fsm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func TestRegister(t *testing.T) {
	t.Parallel()
	t.Run("resumes_the_session_by_the_secret", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		l := b.leased("j", "w")
		if s := b.worker("w", 100); s != l.Session {
			t.Fatalf("session %d, then %d", l.Session, s)
		}
		if n := len(b.View.Assignments("w", l.Session)); n != 1 {
			t.Fatalf("%d leases are given back", n)
		}
		b.ok(verb(rota.VerbComplete, l))
	})
	t.Run("gives_back_in_the_order_of_the_assignments", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		session := b.worker("w", 30)
		var want, got []rota.JobID
		for i := range 30 {
			id := fmt.Sprintf("j%02d", 30-i)
			b.submit(id)
			b.match()
			want = append(want, rota.JobID(id))
		}
		for _, a := range b.View.Assignments("w", session) {
			got = append(got, a.Lease.Job)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("given back %v, assigned %v", got, want)
		}
	})
	t.Run("refuses_another_secret_under_a_live_id", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		l := b.leased("j", "w")
		b.refuses(rota.KindConflict, "worker", registerOp("w", 1, "other", false))
		b.ok(reachOp("w", l.Session, false, b.now))
		b.refuses(rota.KindConflict, "worker", registerOp("w", 1, "other", false)) // it holds a lease
		b.ok(verb(rota.VerbDecline, l))
		if s := rota.Session(b.ok(registerOp("w", 1, "other", false)).GetSession()); s <= l.Session {
			t.Fatalf("session %d after %d", s, l.Session)
		}
		b.refuses(rota.KindStale, "session", verb(rota.VerbComplete, l))
	})
	t.Run("repeats_a_takeover_without_a_second_one", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.leased("j", "w")
		s1 := b.ok(registerOp("w", 5, "other", true)).GetSession()
		s2 := b.ok(registerOp("w", 5, "other", true)).GetSession()
		if s1 != s2 || len(b.View.Assignments("w", rota.Session(s2))) != 0 {
			t.Fatalf("sessions %d and %d", s1, s2)
		}
	})
	t.Run("brings_a_silent_worker_back_as_it_was", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		s := b.worker("w", 1)
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		b.ok(reachOp("w", s, false, b.now))
		b.ok(reachOp("w", s, false, b.now))
		b.ok(registerOp("w", 1, "w", false))
		if _, status := b.View.Session("w"); status != rota.WorkerDraining {
			t.Fatalf("status %s", status)
		}
	})
	t.Run("drains_a_silent_worker_for_when_it_is_back", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		s := b.worker("w", 1)
		b.ok(reachOp("w", s, false, b.now))
		b.ok(statusOp("w", rota.WorkerDraining, s))
		b.ok(reachOp("w", s, true, 0))
		if _, status := b.View.Session("w"); status != rota.WorkerDraining {
			t.Fatalf("status %s", status)
		}
	})
	t.Run("refuses_what_is_out_of_shape", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for _, c := range []struct {
			subject string
			change  func(*rota.WorkerSpec)
		}{
			{"id", func(w *rota.WorkerSpec) { w.ID = "a b" }},
			{"queues", func(w *rota.WorkerSpec) { w.Queues = nil }},
			{"queues", func(w *rota.WorkerSpec) { w.Queues = make([]rota.QueueName, 1000) }},
			{"queues[0]", func(w *rota.WorkerSpec) { w.Queues[0] = "" }},
			{"slots", func(w *rota.WorkerSpec) { w.Slots = 0 }},
			{"slots", func(w *rota.WorkerSpec) { w.Slots = math.MaxInt32 }},
			{"prefetch", func(w *rota.WorkerSpec) { w.Prefetch = -1 }},
			{"cpu_milli", func(w *rota.WorkerSpec) { w.CPUMilli = math.MaxInt64 }},
			{"capabilities", func(w *rota.WorkerSpec) { w.Capabilities = make([]string, 99) }},
		} {
			b.refuses(rota.KindInvalid, c.subject, registerOp("w", 1, "s", false, c.change))
		}
		b.refuses(rota.KindInvalid, "secret", &fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{
			Spec: entry.WorkerOp(&rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q"},
				Slots: 1}), SecretHash: []byte("short")}}})
	})
	t.Run("keeps_leases_when_it_offers_less", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(registerOp("w", 2, "w", false, func(w *rota.WorkerSpec) { w.CPUMilli = 1000 }))
		b.submit("j", func(s *rota.JobSpec) { s.CPUMilli = 800 })
		l := b.match()["j"]
		b.ok(registerOp("w", 2, "w", false, func(w *rota.WorkerSpec) { w.CPUMilli = 100 }))
		b.submit("k", func(s *rota.JobSpec) { s.CPUMilli = 50 })
		if len(b.match()) != 0 {
			t.Fatal("placed beyond the worker's cpu")
		}
		b.ok(verb(rota.VerbComplete, l))
		if len(b.match()) != 1 {
			t.Fatal("not placed when there was room")
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.refuses(rota.KindNotFound, "worker", statusOp("nobody", rota.WorkerDraining, 0))
	s := b.worker("w", 1)
	b.refuses(rota.KindStale, "session", statusOp("w", rota.WorkerRetired, s+1))
	b.refuses(rota.KindDenied, "status", statusOp("w", rota.WorkerActive, s))
	b.refuses(rota.KindInvalid, "status", statusOp("w", rota.WorkerUnreachable, 0))
	b.refuses(rota.KindInvalid, "status", statusOp("w", rota.WorkerJailed, 0))
	b.refuses(rota.KindInvalid, "status", statusOp("w", 200, 0))
	b.ok(statusOp("w", rota.WorkerDraining, 0))
	b.submit("j")
	if len(b.match()) != 0 {
		t.Fatal("a DRAINING worker got a lease")
	}
	b.ok(statusOp("w", rota.WorkerRetired, s))
	b.refuses(rota.KindConflict, "worker", statusOp("w", rota.WorkerDraining, 0))
	b.refuses(rota.KindStale, "session", reachOp("w", s+1, false, 0))
	b.ok(reachOp("w", s, false, 0)) // a RETIRED worker cannot be silent
	if _, status := b.View.Session("w"); status != rota.WorkerRetired {
		t.Fatalf("status %s", status)
	}
	if again := b.worker("w", 1); again <= s {
		t.Fatalf("session %d after %d", again, s)
	}
	if len(b.match()) != 1 {
		t.Fatal("a worker that came back gets no job")
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.leased("j", "w")
	b.refuses(rota.KindStale, "session", reachOp("nobody", 1, false, 0))
	// A sign in the far past or future is limited by the clock.
	b.ok(reachOp("w", l.Session, false, math.MaxInt64))
	if w, _ := b.View.Worker("w"); w.SilentSince.Clock != b.now {
		t.Fatalf("silent since %d", w.SilentSince)
	}
	b.ok(reachOp("w", l.Session, true, 0))
	b.ok(reachOp("w", l.Session, false, math.MinInt64))
	b.entry(sweepOp())
	if j := b.state("j", rota.JobDelayed); j.Reason != rota.ReasonLeaseExpired {
		t.Fatalf("job %+v", j)
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	node := func(id, identity string, starts uint64, removed bool) *fsmpb.Op {
		return &fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: id, Api: "a:1", Raft: "a:2",
			Identity: identity, Starts: starts, Removed: removed}}}
	}
	b.refuses(rota.KindInvalid, "node", node("a b", "x", 1, false))
	b.refuses(rota.KindInvalid, "node", node("n1", string(make([]byte, 1000)), 1, false))
	b.ok(node("n1", "x", 2, false))
	b.ok(node("n1", "x", 3, false))
	b.refuses(rota.KindConflict, "node", node("n1", "x", 2, false)) // an old copy of the directory
	b.refuses(rota.KindConflict, "node", node("n1", "y", 9, false)) // another directory
	b.ok(node("n1", "", 0, true))
	b.refuses(rota.KindConflict, "node", node("n1", "x", 9, false)) // a removed node stays removed
	if m, known := b.View.Node("n1"); m != (Member{"x", "a:1", 3, true}) || !known {
		t.Fatalf("node %+v %v", m, known)
	}
}

// TestReconnectCutsNothing has a worker hold more leases over two queues than the cap of one of them, and come back
// unchanged.
func TestReconnectCutsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("capped", "leases_max_per_worker", "2"))
	both := func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"default", "capped"} }
	b.worker("w", 6, both)
	for _, id := range []string{"c1", "c2"} {
		b.submit(id, func(s *rota.JobSpec) { s.Queue = "capped" })
	}
	b.match()
	for _, id := range []string{"d1", "d2", "d3"} {
		b.submit(id)
	}
	b.match()
	for _, e := range b.entry(registerOp("w", 6, "w", false, both)).Events {
		if e.Kind == rota.EventLeaseRevoked {
			t.Fatalf("the reconnect revoked the lease of %s: %s", e.Job, e.Reason)
		}
	}
	if w, _ := b.View.Worker("w"); w.Open != 5 {
		t.Fatalf("%d leases are open, want 5", w.Open)
	}
	// Fewer slots do revoke leases: the newest.
	revoked := 0
	for _, e := range b.entry(registerOp("w", 4, "w", false, both)).Events {
		if e.Kind == rota.EventLeaseRevoked {
			revoked++
		}
	}
	if revoked != 1 {
		t.Fatalf("%d leases are revoked at 4 slots, want 1", revoked)
	}
}
