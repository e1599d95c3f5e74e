package fsm

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// status checks a worker's status.
func (b *bench) status(worker string, want rota.WorkerStatus) {
	b.t.Helper()
	if _, got := b.View.Session(rota.WorkerID(worker)); got != want {
		b.t.Fatalf("worker %s is %s, want %s", worker, got, want)
	}
}

// spoil makes a worker send this many invalid proofs; it returns the events of the last.
func (b *bench) spoil(worker string, times int) (events []rota.Event) {
	b.t.Helper()
	right := sha256.Sum256([]byte("right"))
	for range times {
		id := fmt.Sprint("spoilt-", worker, b.Header.Index)
		l := b.acked(id, func(s *rota.JobSpec) { s.ExpectedDigest, s.Worker = right[:], rota.WorkerID(worker) })
		events = b.entry(verb(rota.VerbComplete, l, func(c *peer.LeaseCommand) { c.Output = []byte("wrong") })).Events
		b.ok(cancelOp(id))
	}
	return events
}

// tells returns the texts of an entry's events: kind, status or reason, payload.
func tells(events []rota.Event) string {
	var list []string
	for _, e := range events {
		text := e.Kind.String()
		if e.Status != rota.WorkerNone {
			text += " " + e.Status.String()
		}
		if e.Reason != rota.ReasonNone {
			text += " " + e.Reason.String()
		}
		if e.Kind == rota.EventProviderSlashed {
			text += " " + e.Payload
		}
		list = append(list, text)
	}
	return strings.Join(list, "\n")
}

func TestInvalidProofs(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(minds("default", "min_health", "0", "backoff_base", "1s"))
			f(b)
		})
	}
	const stake = 1_005
	run("cost_half_the_health_and_a_tenth_of_the_stake_left", func(b *bench) {
		b.staked("w", 3, stake)
		got := tells(b.spoil("w", 1))
		want := `providerSlashed PROOF_INVALID {"penalty":100,"stake":905,"reason":"PROOF_INVALID"}
leaseCancelled PROOF_INVALID
jobRetryScheduled PROOF_INVALID`
		if got != want {
			b.t.Fatalf("got events\n%s\nwant\n%s", got, want)
		}
		if w := b.health("w", 500); w.Slashed != 100 || w.InvalidProofs != 1 {
			b.t.Fatalf("worker %+v", w)
		}
		if got := tells(b.spoil("w", 1)); !strings.HasPrefix(got,
			`providerSlashed PROOF_INVALID {"penalty":90,"stake":815,`) {
			b.t.Fatalf("events\n%s", got)
		}
		b.health("w", 0)
	})
	run("jail_on_the_third_and_end_the_other_leases", func(b *bench) {
		b.staked("w", 3, stake)
		b.spoil("w", 2)
		other := b.acked("other")
		got := tells(b.spoil("w", 1))
		want := `providerSlashed PROOF_INVALID {"penalty":81,"stake":734,"reason":"PROOF_INVALID"}
providerStatusChanged JAILED
leaseCancelled WORKER_JAILED
jobEnqueued
leaseCancelled PROOF_INVALID
jobRetryScheduled PROOF_INVALID`
		if got != want {
			b.t.Fatalf("got events\n%s\nwant\n%s", got, want)
		}
		if w, _ := b.View.Worker("w"); w.JailedUntil.Clock != b.now+600_000 || w.Open != 0 {
			b.t.Fatalf("worker %+v", w)
		}
		if j := b.state("other", rota.JobQueued); j.Attempt != 0 {
			b.t.Fatalf("job %+v", j)
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, other))
		b.mismatch("other", "w", "NOT_ACTIVE")
		o := b.refuses(rota.KindConflict, "worker", statusOp("w", rota.WorkerActive, 0))
		if !strings.Contains(o.GetText(), fmt.Sprint("JAILED until ", b.Header.Now().At(b.now+600_000).Date)) {
			b.t.Fatalf("outcome %v", o)
		}
		b.every = 1000
		b.pass(599_999)
		b.status("w", rota.WorkerJailed)
		if got := tells(b.pass(1)); got != "providerStatusChanged ACTIVE" {
			b.t.Fatalf("events %s", got)
		}
		if len(b.match()) != 1 {
			b.t.Fatal("a worker that was released gets no job")
		}
		b.spoil("w", 2)
		b.status("w", rota.WorkerActive)
		b.spoil("w", 1) // the sixth
		b.status("w", rota.WorkerJailed)
	})
	run("jail_a_draining_worker_back_to_draining", func(b *bench) {
		b.worker("w", 3)
		b.spoil("w", 2)
		right := sha256.Sum256([]byte("right"))
		l := b.acked("j", func(s *rota.JobSpec) { s.ExpectedDigest = right[:] })
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		b.entry(verb(rota.VerbComplete, l))
		b.status("w", rota.WorkerJailed)
		b.every = 1000
		b.pass(600_000)
		b.status("w", rota.WorkerDraining)
	})
	run("of_a_drained_process_let_the_one_that_took_over_work", func(b *bench) {
		b.worker("w", 3)
		b.spoil("w", 3)
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		b.ok(registerOp("w", 3, "other", true))
		b.every = 1000
		b.pass(600_000)
		b.status("w", rota.WorkerActive)
	})
	run("are_not_washed_off_by_another_secret_or_retiring", func(b *bench) {
		b.staked("w", 3, stake)
		b.spoil("w", 3)
		b.refuses(rota.KindConflict, "worker", registerOp("w", 1, "other", false))
		s := rota.Session(b.ok(staking(registerOp("w", 1, "other", true), maxAttested, stake)).GetSession())
		b.status("w", rota.WorkerJailed)
		if w := b.health("w", 0); w.Slashed != 271 || w.InvalidProofs != 3 || w.JailedUntil.IsZero() {
			b.t.Fatalf("worker %+v", w)
		}
		b.ok(statusOp("w", rota.WorkerRetired, s))
		b.ok(staking(registerOp("w", 1, "third", false), maxAttested, stake))
		b.status("w", rota.WorkerJailed)
		b.ok(statusOp("w", rota.WorkerRetired, b.fleet.workers.Get("w").Session))
		b.every = 1000
		b.pass(600_000)
		b.status("w", rota.WorkerRetired)
		b.ok(staking(registerOp("w", 1, "third", false), maxAttested, stake))
		b.status("w", rota.WorkerActive)
		b.ok(queueOp("default", "min_stake", "735"))
		b.submit("j")
		b.mismatch("j", "w", "STAKE_TOO_LOW") // 1005 − 271 = 734
	})
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(minded(t))
		})
	}
	run("suspending_cancels_the_leases_at_once", func(b *bench) {
		l := b.leased("j", "w")
		got := tells(b.entry(statusOp("w", rota.WorkerSuspended, 0)).Events)
		want := "providerStatusChanged SUSPENDED\nleaseCancelled WORKER_SUSPENDED\njobEnqueued"
		if got != want {
			b.t.Fatalf("got events\n%s\nwant\n%s", got, want)
		}
		if j := b.state("j", rota.JobQueued); j.Attempt != 0 || j.Reason != rota.ReasonWorkerSuspended {
			b.t.Fatalf("job %+v", j)
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))
		b.mismatch("j", "w", "NOT_ACTIVE")
		b.ok(statusOp("w", rota.WorkerSuspended, 0)) // again: nothing more
		b.ok(statusOp("w", rota.WorkerActive, 0))
		b.ok(statusOp("w", rota.WorkerActive, 0))
		if len(b.match()) != 1 {
			b.t.Fatal("a worker that was resumed gets no job")
		}
	})
	run("a_drain_is_taken_back", func(b *bench) {
		b.worker("w", 1)
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		b.ok(statusOp("w", rota.WorkerActive, 0))
		b.submit("j")
		if len(b.match()) != 1 {
			b.t.Fatal("a worker that was resumed gets no job")
		}
	})
	run("a_worker_may_only_drain_and_retire_itself", func(b *bench) {
		s := b.worker("w", 1)
		b.refuses(rota.KindDenied, "status", statusOp("w", rota.WorkerSuspended, s))
		b.ok(statusOp("w", rota.WorkerSuspended, 0))
		b.refuses(rota.KindDenied, "status", statusOp("w", rota.WorkerActive, s))
		b.ok(statusOp("w", rota.WorkerDraining, s)) // it ends as usual, and nothing that the worker does frees it
		b.status("w", rota.WorkerSuspended)
		b.refuses(rota.KindConflict, "worker", statusOp("w", rota.WorkerDraining, 0))
		b.ok(statusOp("w", rota.WorkerRetired, s))
		b.refuses(rota.KindConflict, "worker", statusOp("w", rota.WorkerActive, 0))
		b.refuses(rota.KindConflict, "worker", statusOp("w", rota.WorkerSuspended, 0))
	})
	run("a_suspension_outlasts_sessions_takeovers_and_retiring", func(b *bench) {
		s := b.worker("w", 1)
		b.ok(statusOp("w", rota.WorkerSuspended, 0))
		if again := b.worker("w", 1); again != s {
			b.t.Fatalf("session %d, then %d", s, again)
		}
		b.status("w", rota.WorkerSuspended)
		b.refuses(rota.KindConflict, "worker", registerOp("w", 1, "other", false))
		s = rota.Session(b.ok(registerOp("w", 1, "other", true)).GetSession())
		b.status("w", rota.WorkerSuspended)
		b.ok(statusOp("w", rota.WorkerRetired, s))
		a := b.entry(registerOp("w", 1, "third", false))
		b.status("w", rota.WorkerSuspended)
		if got := tells(a.Events); got != "providerRegistered SUSPENDED" {
			b.t.Fatalf("events %s", got)
		}
		b.ok(statusOp("w", rota.WorkerActive, 0))
		b.status("w", rota.WorkerActive)
	})
	run("a_process_that_an_operator_retired_does_not_come_back", func(b *bench) {
		s := b.leased("j", "w").Session
		b.ok(statusOp("w", rota.WorkerRetired, 0))
		b.refuses(rota.KindStale, "session", registerOp("w", 1, "w", false))
		b.refuses(rota.KindStale, "session", registerOp("w", 1, "w", true))
		b.refuses(rota.KindStale, "session", polling(registerOp("w", 1, "w", false)))
		if again := rota.Session(b.ok(registerOp("w", 1, "other",
			false)).GetSession()); again == s { // another process has the id
			b.t.Fatalf("session %d continues", s)
		} else {
			b.ok(statusOp("w", rota.WorkerRetired, again)) // its own goodbye
		}
		b.ok(registerOp("w", 1, "other", false))
		b.ok(goneOp("w", b.fleet.workers.Get("w").Session, "other")) // and its guard's
		b.ok(registerOp("w", 1, "other", false))
		b.ok(statusOp("w", rota.WorkerRetired, b.fleet.workers.Get("w").Session))
		b.ok(statusOp("w", rota.WorkerRetired, 0)) // about one that has left
		b.refuses(rota.KindStale, "session", registerOp("w", 1, "other", false))
		b.ok(deleteWorkerOp("w"))
		b.ok(registerOp("w", 1, "other", false))
		b.status("w", rota.WorkerActive)
	})
	run("a_silent_worker_that_is_suspended_stays_so_when_heard", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(reachOp("w", l.Session, false, b.now))
		b.ok(statusOp("w", rota.WorkerSuspended, 0))
		b.state("j", rota.JobQueued)
		b.ok(reachOp("w", l.Session, true, 0))
		b.worker("w", 1)
		b.status("w", rota.WorkerSuspended)
		b.ok(reachOp("w", l.Session, false, b.now)) // it has nothing to lose
		b.status("w", rota.WorkerSuspended)
	})
	run("a_silent_worker_that_is_resumed_is_so_when_heard", func(b *bench) {
		s := b.worker("w", 1)
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		b.ok(reachOp("w", s, false, b.now))
		b.ok(statusOp("w", rota.WorkerActive, 0))
		b.status("w", rota.WorkerUnreachable)
		b.ok(reachOp("w", s, true, 0))
		b.status("w", rota.WorkerActive)
	})
	run("a_jail_outlasts_a_suspension", func(b *bench) {
		b.ok(queueOp("default", "min_health", "0"))
		b.worker("w", 3)
		b.spoil("w", 3)
		b.ok(statusOp("w", rota.WorkerSuspended, 0))
		b.ok(statusOp("w", rota.WorkerActive, 0))
		b.status("w", rota.WorkerJailed)
		b.ok(statusOp("w", rota.WorkerDraining, 0)) // once it is over
		b.ok(statusOp("w", rota.WorkerSuspended, 0))
		b.every = 1000
		b.pass(600_000)
		b.status("w", rota.WorkerSuspended)
		b.ok(statusOp("w", rota.WorkerActive, 0))
		b.status("w", rota.WorkerActive)
	})
	run("a_restore_keeps_the_reputation", func(b *bench) {
		b.ok(queueOp("default", "min_health", "0"))
		b.staked("w", 3, 100)
		b.worker("v", 3)
		b.spoil("w", 3)
		b.ok(statusOp("v", rota.WorkerSuspended, 0))
		if err := b.Reincarnate(Rebirth{Cluster: "fresh"}); err != nil {
			b.t.Fatal(err)
		}
		b.status("w", rota.WorkerRetired)
		if w := b.health("w", 0); w.Slashed != 27 || w.InvalidProofs != 3 || w.JailedUntil.IsZero() {
			b.t.Fatalf("worker %+v", w)
		}
		b.twin = b.restored()
		b.term = 0
		b.lead()
		b.worker("w", 3)
		b.status("w", rota.WorkerJailed)
		b.worker("v", 3)
		b.status("v", rota.WorkerSuspended)
	})
}

// attested registers with an attestation that was verified before the log.
func attested(op *fsmpb.Op, until rota.Date) *fsmpb.Op { return staking(op, until, 0) }

// staking registers with an attestation that signs a stake.
func staking(op *fsmpb.Op, until rota.Date, stake int64) *fsmpb.Op {
	op.GetRegister().AttestedUntilMs, op.GetRegister().AttestedStake = int64(until), stake
	return op
}

// staked is worker with a stake that an attestation without expiry signs.
func (b *bench) staked(id string, slots int32, stake int64, change ...func(*rota.WorkerSpec)) {
	b.t.Helper()
	b.ok(staking(registerOp(id, slots, id, false, change...), maxAttested, stake))
}

func TestAttestation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "require_attestation", "on"))
	b.refuses(rota.KindInvalid, "attested_until_ms", attested(registerOp("w", 1, "w", false), -1))
	b.refuses(rota.KindInvalid, "attested_until_ms", attested(registerOp("w", 1, "w", false), 1<<62))
	b.worker("w", 1)
	ends := b.View.Head().Date + 10_000
	b.ok(attested(registerOp("w", 1, "w", false), ends))
	if at, ok := b.View.NextDate(); !ok || at != ends || !b.View.AtRest() {
		t.Fatalf("the next date is %d (%v), at rest %v: the cluster must rest until %d", at, ok, b.View.AtRest(), ends)
	}
	b.worker("w", 1)
	b.submit("j")
	b.mismatch("j", "w", "ATTESTATION_MISSING")
	if len(b.match()) != 0 {
		t.Fatal("placed at a worker without an attestation")
	}
	b.ok(attested(registerOp("w", 1, "w", false), ends))
	l := b.match()["j"]
	b.ok(verb(rota.VerbAck, l))
	b.submit("k")
	b.pass(9_999)
	b.ok(verb(rota.VerbDecline, l))
	b.ok(cancelOp("j"))
	b.submit("other", typed("other"))
	b.now++
	if len(b.View.Decide(10)) == 0 {
		t.Fatal("until the sweep the attestation holds")
	}
	b.entry(sweepOp())
	b.mismatch("other", "w", "ATTESTATION_EXPIRED")
	if _, ok := b.View.NextDate(); ok {
		t.Fatal("a past date wakes the cluster")
	}
	b.ok(attested(registerOp("w", 1, "w", false), ends)) // expired before it arrived
	b.mismatch("other", "w", "ATTESTATION_EXPIRED")
	b.ok(attested(registerOp("w", 1, "w", false), ends+1_000_000))
	if len(b.match()) != 1 {
		t.Fatal("a new attestation has no effect")
	}
	b.worker("w", 1) // without one
	if w, _ := b.View.Worker("w"); w.AttestedUntil != 0 {
		t.Fatalf("worker %+v", w)
	}
}

// TestAttestedStake checks that a stake counts if an attestation signs it, while that is valid (SPEC §6.5): a worker's
// own declaration counts for nothing.
func TestAttestedStake(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(minds("default", "min_health", "0", "min_stake", "1000", "backoff_base", "1s"))
			f(b)
		})
	}
	stands := func(b *bench, declared, attested, left int64) {
		b.t.Helper()
		if w, _ := b.View.Worker("w"); w.Stake != declared || w.AttestedStake != attested || w.StakeLeft() != left {
			b.t.Fatalf("worker %+v", w)
		}
	}
	run("a_declared_one_counts_for_nothing", func(b *bench) {
		b.worker("w", 1)
		b.submit("j")
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Stake = 1 << 60 })
		b.mismatch("j", "w", "STAKE_TOO_LOW")
		b.ok(attested(registerOp("w", 1, "w", false, func(w *rota.WorkerSpec) { w.Stake = 1 << 60 }), maxAttested))
		b.mismatch("j", "w", "STAKE_TOO_LOW")
		if len(b.match()) != 0 {
			b.t.Fatal("a worker gained an advantage from its own declarations")
		}
		stands(b, 1<<60, 0, 0)
		b.staked("w", 1, 1000)
		stands(b, 0, 1000, 1000)
		if len(b.match()) != 1 {
			b.t.Fatal("the attested stake must be enough")
		}
	})
	run("ends_with_the_attestation", func(b *bench) {
		ends := b.View.Head().Date + 10_000
		b.ok(staking(registerOp("w", 1, "w", false), ends, 1000))
		b.submit("j")
		if len(b.View.Decide(10)) == 0 {
			b.t.Fatal("the attestation holds")
		}
		b.pass(10_001)
		b.mismatch("j", "w", "STAKE_TOO_LOW")
		stands(b, 0, 0, 0)
		b.ok(staking(registerOp("w", 1, "w", false), ends, 1000)) // expired before it arrived
		b.mismatch("j", "w", "STAKE_TOO_LOW")
		b.staked("w", 1, 1000)
		b.worker("w", 1) // without one
		b.mismatch("j", "w", "STAKE_TOO_LOW")
		stands(b, 0, 0, 0)
	})
	run("is_slashed_of_a_worker_that_shows_none_now", func(b *bench) {
		b.staked("w", 3, 1000)
		l := b.acked("j")
		b.ok(verb(rota.VerbComplete, l))
		b.worker("w", 3)
		want := `providerSlashed PROOF_REJECTED {"penalty":100,"stake":900,"reason":"PROOF_REJECTED"}`
		if got := tells(b.entry(reportOp(l)).Events); got != want {
			b.t.Fatalf("events %s", got)
		}
		b.staked("w", 3, 1000)
		stands(b, 0, 1000, 900)
		b.submit("k")
		b.mismatch("k", "w", "STAKE_TOO_LOW")
	})
	run("is_in_bounds_and_of_an_attestation", func(b *bench) {
		for _, c := range []struct {
			until rota.Date
			stake int64
		}{{maxAttested, -1}, {maxAttested, rota.MaxFee + 1}, {0, 1}} {
			b.refuses(rota.KindInvalid, "attested_stake", staking(registerOp("w", 1, "w", false), c.until, c.stake))
		}
	})
}
