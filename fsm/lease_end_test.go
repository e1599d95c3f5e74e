package fsm

import (
	"testing"

	"github.com/rotasched/rota"
)

func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(newBench(t))
		})
	}
	ends := func(b *bench, why rota.Reason, counted bool, job string) {
		b.t.Helper()
		j, _ := b.View.Job(rota.JobID(job))
		want := int32(0)
		if counted {
			want = 1
		}
		if j.Lease != nil || j.Reason != why || j.Attempt != want {
			b.t.Fatalf("job %+v: ended by %s, want %s", j, j.Reason, why)
		}
	}
	run("by_ack_timeout", func(b *bench) {
		b.leased("j", "w")
		b.pass(4_999)
		b.state("j", rota.JobAssigned)
		b.pass(1)
		ends(b, rota.ReasonAckTimeout, true, "j")
	})
	run("at_its_deadline", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		b.pass(59_999)
		b.state("j", rota.JobRunning)
		b.pass(1)
		ends(b, rota.ReasonLeaseExpired, true, "j")
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))
		b.refuses(rota.KindStale, "lease", verb(rota.VerbRenew, l))
	})
	run("forty_seconds_after_silence", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		sign := b.now
		b.pass(12_000)
		b.ok(reachOp("w", l.Session, false, sign))
		b.pass(27_999)
		b.state("j", rota.JobRunning)
		b.pass(1)
		ends(b, rota.ReasonLeaseExpired, true, "j")
	})
	run("not_when_the_worker_is_heard_again", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		b.ok(reachOp("w", l.Session, false, b.now))
		b.pass(39_000)
		b.ok(reachOp("w", l.Session, true, 0))
		b.pass(2_000)
		b.state("j", rota.JobRunning)
		if w, _ := b.View.Worker("w"); w.Status != rota.WorkerActive || !w.SilentSince.IsZero() {
			b.t.Fatalf("worker %+v", w)
		}
	})
	run("at_once_when_the_job_is_cancelled", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(cancelOp("j"))
		if o := b.ok(cancelOp("j")); !o.GetExisted() {
			b.t.Fatalf("outcome %v", o)
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))
	})
	run("at_once_when_the_worker_retires", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(statusOp("w", rota.WorkerRetired, l.Session))
		b.ok(statusOp("w", rota.WorkerRetired, l.Session))
		ends(b, rota.ReasonWorkerRetired, false, "j")
		b.state("j", rota.JobQueued)
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))
	})
	run("uncounted_when_a_revoked_one_is_confirmed", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		b.ok(registerOp("w", 1, "other", true))
		b.state("j", rota.JobRunning) // not requeued before confirmation (H27)
		b.refuses(rota.KindStale, "session", verb(rota.VerbComplete, l))
		b.ok(verb(rota.VerbDecline, l)) // the old process has stopped
		ends(b, rota.ReasonTakenOver, false, "j")
	})
	run("by_silence_of_a_session_taken_over", func(b *bench) {
		b.ok(queueOp("default", "t_lease", "10m"))
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		b.pass(1000)
		b.ok(registerOp("w", 1, "other", true))
		b.pass(39_999)
		b.state("j", rota.JobRunning)
		b.pass(1)
		ends(b, rota.ReasonTakenOver, false, "j")
	})
	run("counting_silence_on_through_a_takeover", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		sign := b.now
		b.pass(20_000)
		b.ok(reachOp("w", l.Session, false, sign))
		b.ok(registerOp("w", 1, "other", true))
		b.pass(19_999)
		b.state("j", rota.JobRunning)
		b.pass(1)
		ends(b, rota.ReasonTakenOver, false, "j")
	})
	run("revoked_newest_first_by_a_quota_cut", func(b *bench) {
		s := b.worker("w", 3)
		var leases []rota.Lease
		for _, id := range []string{"a", "b", "c"} {
			b.submit(id)
			l := b.match()[rota.JobID(id)]
			b.ok(verb(rota.VerbAck, l))
			leases = append(leases, l)
		}
		b.ok(registerOp("w", 1, "w", false))
		for i, l := range leases {
			a, _ := b.View.Assignment(l.ID)
			if revoked := a.Lease.Revoked == rota.ReasonQuotaCut; revoked != (i > 0) {
				b.t.Fatalf("lease %d revoked: %v", i, revoked)
			}
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbRenew, leases[2]))
		b.ok(verb(rota.VerbDecline, leases[2]))
		ends(b, rota.ReasonQuotaCut, false, "c")
		b.ok(verb(rota.VerbComplete, leases[1])) // open until it ends
		if got, _ := b.View.Session("w"); got != s {
			b.t.Fatalf("session %d, then %d", s, got)
		}
	})
	run("revoked_by_a_lower_cap_of_the_queue", func(b *bench) {
		b.worker("w", 3)
		b.submit("a")
		b.submit("b")
		b.match()
		b.ok(queueOp("default", "leases_max_per_worker", "1"))
		if n := len(b.View.Assignments("w", 1)); n != 2 {
			b.t.Fatalf("%d leases are open", n)
		}
		revoked := 0
		for _, a := range b.View.Assignments("w", 1) {
			if a.Lease.Revoked == rota.ReasonQuotaCut {
				revoked++
			}
		}
		if revoked != 1 {
			b.t.Fatalf("%d leases are revoked", revoked)
		}
	})
}

func TestToken(t *testing.T) {
	t.Parallel()
	t.Run("grows_with_every_lease", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		b.submit("j")
		b.every = 100
		last := rota.Token{}
		for range 10 {
			l := b.match()["j"]
			if last.Compare(l.Token) >= 0 {
				t.Fatalf("token %s after %s", l.Token, last)
			}
			last = l.Token
			b.ok(verb(rota.VerbDecline, l))
			b.pass(30_000) // the worker cools down for the type
		}
	})
}
