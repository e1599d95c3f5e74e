package fsm

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// TestModel compares random lives, including hostile commands, with the model.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// rapid's own numbers favour small ones: it draws the seed, and how far to go, so that a failure shrinks to the
		// shortest prefix.
		seed := rapid.Uint64().Draw(rt, "seed")
		r := &race{T: rt, b: newBench(rt), chance: rand.New(rand.NewPCG(seed, seed))}
		r.b.every = 5
		r.b.watchMoves()
		r.b.ok(switchOp(entry.RulesVersion))
		r.b.ok(queueOp("default", "lease_ms", "50000", "ack_timeout_ms", "20000", "attempt_max", "3", "backoff_base_ms",
			"500", "renewals_max", "3", "ttl_rel_max_ms", "120000", "audit_window", "0",
			"gc_horizon", rapid.SampledFrom([]string{"1m", "90s", "7d"}).Draw(rt, "gc_horizon"),
			"oldest_every", rapid.SampledFrom([]string{"0", "1", "3"}).Draw(rt, "oldest_every"),
			"ranking", rapid.SampledFrom([]string{"aging", "adaptive", "fifo", "shortest", "smallest"}).Draw(rt,
				"ranking"),
			"worker_losses_max", rapid.SampledFrom([]string{"0", "1", "2", "3", "5"}).Draw(rt, "worker_losses_max"),
			"renew_adds", rapid.SampledFrom([]string{"off", "on"}).Draw(rt, "renew_adds"),
			"tiers", rapid.SampledFrom([]string{"2", "5", "8"}).Draw(rt, "tiers"),
			"estimate", rapid.SampledFrom([]string{"type", "user", "last2", "quantile"}).Draw(rt, "estimate"),
			"min_health", rapid.SampledFrom([]string{"0", "300", "900"}).Draw(rt, "min_health"),
			"cool_after", rapid.SampledFrom([]string{"0", "1", "3"}).Draw(rt, "cool_after"),
			"cool_ms", rapid.SampledFrom([]string{"1", "5000", "30000"}).Draw(rt, "cool_ms"),
			"decline_cools", rapid.SampledFrom([]string{"off", "on"}).Draw(rt, "decline_cools"),
			"deny_ms", rapid.SampledFrom([]string{"0", "30000"}).Draw(rt, "deny_ms"),
			"health_steps", rapid.SampledFrom([]string{"off", "on"}).Draw(rt, "health_steps"),
			"preempt", rapid.SampledFrom([]string{"off", "on"}).Draw(rt, "preempt"),
			"starvation_interleave", rapid.SampledFrom([]string{"0", "2"}).Draw(rt, "interleave"),
			"lease_grace_on_disconnect", rapid.SampledFrom([]string{"0", "10s", "20s"}).Draw(rt, "grace"),
			"hold_after", rapid.SampledFrom([]string{"0", "1000", "30000"}).Draw(rt, "hold_after"),
			"hold_max", rapid.SampledFrom([]string{"1", "2000", "600000"}).Draw(rt, "hold_max")))
		r.fraud = rapid.Bool().Draw(rt, "fraud")
		r.model = newModel(r.b.QueueTable.Get("default").Policy)
		for range rapid.IntRange(1, 300).Draw(rt, "steps") + 20 {
			r.step()
			r.compare()
		}
		r.b.sound()
	})
}

// race is a machine and the model with the same inputs.
type race struct {
	*rapid.T
	b      *bench
	model  *model
	chance *rand.Rand
	// fraud makes most completions carry an invalid proof.
	fraud bool
	// seen are all leases ever given, the newest last.
	seen []rota.Lease
}

func (r *race) pick(_ string, n int) int { return r.chance.IntN(n) }

// expect applies an operation; taken is whether the model accepts it.
func (r *race) expect(taken bool, op *fsmpb.Op) {
	if got := entry.OutcomeError(r.b.entry(op).Outcomes[0]); (got == nil) != taken {
		r.Fatalf("%v: accepted is %v, want %v as in the model (%v)", op, got == nil, taken, got)
	}
	r.keys(false)
}

func (r *race) step() {
	job := fmt.Sprint("j", r.pick("job", 6))
	if r.pick("unique", 4) == 0 {
		job = fmt.Sprint("m", r.pick("job", 30))
	}
	worker := rota.WorkerID(fmt.Sprint("w", r.pick("worker", 3)))
	switch kind := r.pick("kind", 20); kind {
	case 0, 1, 2:
		spec := jobSpec(job, func(s *rota.JobSpec) {
			s.Priority = []int32{0, 5, 9}[r.pick("priority", 3)]
			s.Delay = millis.Duration(int64(r.pick("delayed", 3)) / 2 * 700)
			s.TTL = millis.Duration(int64(r.pick("mortal", 4)) / 3 * 30_000)
			s.MaxRuntime = millis.Duration([]int64{0, 0, 9_000, 70_000}[r.pick("runtime", 4)])
			s.Type = []rota.JobType{"work", "else"}[r.pick("type", 2)]
			if r.pick("proof", 3) == 0 || r.fraud {
				sum := sha256.Sum256([]byte("right"))
				s.ExpectedDigest = sum[:]
			}
			s.Payload = rota.Blob(fmt.Sprint(r.pick("payload", 2)))
			if r.pick("unique", 2) == 0 {
				s.Unique, s.Delay = r.unique(), millis.Duration([]int64{0, 700, 4_000}[r.pick("delay", 3)])
				if s.Unique.Merges() { // merged submissions stay known
					s.ID = rota.JobID(fmt.Sprint("m", r.pick("merged", 30)))
				}
			}
		})
		r.expect(r.model.submit(spec), submitOp(spec))
	case 3, 4:
		secret, takeover := fmt.Sprint("s", r.pick("secret", 2)), r.pick("takeover", 3) == 0
		slots := int(worker[1]-'0') + 1
		op := staking(registerOp(string(worker), int32(slots), secret, takeover), maxAttested, modelStake)
		connection := uint64(r.pick("connection", 6))
		if connection > 0 {
			linked(op, connection)
		}
		op.GetRegister().Polls = r.pick("polls", 3) == 0
		r.expect(r.model.registerPolling(worker, secret, takeover, slots, connection, op.GetRegister().GetPolls()), op)
	case 5, 6, 7:
		if r.pick("offer", 2) == 0 {
			r.offer(worker)
		}
		r.match()
	case 8, 9, 10, 11:
		if r.command(); r.pick("late", 4) == 0 {
			r.keepLog()
		}
	case 12:
		r.expect(r.model.cancel(rota.JobID(job)), cancelOp(job))
	case 13:
		if r.pick("change", 2) == 0 {
			ttl := time.Duration(r.pick("ttl", 3)) * 20 * time.Second
			c := rota.JobChange{ID: rota.JobID(job), TTL: &ttl, Priority: to(int32(r.pick("priority", 11)))}
			r.expect(r.model.alter(&c), r.b.changeOf(c))
			return
		}
		if r.pick("delete", 3) == 0 {
			r.expect(r.model.remove(rota.JobID(job)), r.b.deleteOf(job))
			return
		}
		r.expect(r.model.retry(rota.JobID(job)), retryOp(job))
	case 14:
		s := []rota.WorkerStatus{rota.WorkerDraining, rota.WorkerRetired, rota.WorkerSuspended, rota.WorkerActive,
			rota.WorkerActive}[r.pick("status", 5)]
		session, _ := r.b.View.Session(worker)
		if r.pick("gone", 4) == 0 {
			secret := fmt.Sprint("s", r.pick("secret", 2))
			session += rota.Session(r.pick("other", 4) / 3)
			r.expect(r.model.gone(worker, session, secret), goneOp(string(worker), session, secret))
			return
		}
		session = []rota.Session{0, 0, session, session + 1}[r.pick("session", 4)]
		r.expect(r.model.status(worker, s, session), statusOp(string(worker), s, session))
	case 15, 16:
		sign := r.b.now - rota.Clock(r.pick("sign", 15_000))
		session, _ := r.b.View.Session(worker)
		reachable := kind == 15
		if r.pick("stream", 3) == 0 {
			connection := uint64(1 + r.pick("connection", 6))
			r.expect(r.model.disconnect(worker, session, connection), disconnectOp(string(worker), session, connection))
			return
		}
		r.expect(r.model.reach(worker, session, reachable, sign), reachOp(string(worker), session, reachable, sign))
	case 17, 18:
		if r.pick("horizon", 8) == 0 { // of jobs that end from now on
			r.model.policy.GCHorizonMs = []int64{60_000, 75_000, 100_000}[r.pick("longer", 3)]
			r.b.ok(queueOp("default", "gc_horizon_ms", fmt.Sprint(r.model.policy.GCHorizonMs)))
		}
		for range 1 + r.pick("often", 16) {
			r.b.now += rota.Clock(r.pick("passes", 1001))
			r.model.now = r.b.now
			r.model.sweep()
			r.b.entry(sweepOp())
			r.keys(true)
		}
	default: // an entry of a replaced leader, then perhaps a new one
		r.b.stamped(&fsmpb.Entry{Term: r.b.term + 1, NowMs: int64(r.b.now + 400), Ops: []*fsmpb.Op{sweepOp()}},
			r.b.term)
		if r.pick("lead", 2) == 0 {
			r.b.lead()
		}
	}
}

func (r *race) match() {
	for _, l := range inOrder(r.b.match()) {
		if err := r.model.assigned(l); err != nil {
			r.Fatalf("%v", err)
		}
		r.seen = append(r.seen, l)
	}
	for id, l := range r.model.leases { // the machine may choose which was preempted
		if a, open := r.b.View.Assignment(id); open && a.Lease.Revoked == rota.ReasonPreempted {
			l.revoked = true
		}
	}
	r.keys(false)
}

// offer makes a worker's poll offer slots, or withdraw them.
func (r *race) offer(worker rota.WorkerID) {
	session, _ := r.b.View.Session(worker)
	session += rota.Session(r.pick("session", 8) / 7)
	poll, free := uint64(r.pick("poll", 5)), []int32{0, 0, 1, 1, 2, 3, -1}[r.pick("free", 7)]
	until := r.b.now + rota.Clock([]int{-1, 0, 500, 3_000, 9_000, 9_001}[r.pick("until", 6)])
	r.expect(r.model.offer(worker, session, poll, free, until), offerOp(string(worker), session, poll, free, until))
}

// command sends a verb on a lease given at some time, by its worker or by another one.
func (r *race) command() {
	if len(r.seen) == 0 {
		return
	}
	l := r.seen[len(r.seen)-1-r.pick("lease", min(len(r.seen), 6))]
	v := rota.LeaseVerb(1 + r.pick("verb", 5))
	if r.fraud && r.pick("claim", 2) == 0 {
		v = rota.VerbComplete
	}
	c := peer.LeaseCommand{Verb: v, Lease: l.ID, Job: l.Job, Worker: l.Worker,
		Session: l.Session, Ordinal: int32(r.pick("ordinal", 5)), Fail: peer.FailKind(r.pick("fail", 7)),
		After: []time.Duration{0, time.Millisecond, 90 * time.Second, 31 * 24 * time.Hour}[r.pick("after", 4)]}
	if right := r.pick("right", 6); right == 0 || right < 4 && !r.fraud {
		c.Output = []byte("right")
	}
	if r.pick("logs", 3) == 0 {
		c.Log = []byte(fmt.Sprint("log ", r.pick("log", 9)))
	}
	switch r.pick("hostile", 8) {
	case 0:
		c.Worker = rota.WorkerID(fmt.Sprint("w", r.pick("thief", 3)))
	case 1:
		c.Session, _ = r.b.View.Session(c.Worker)
	case 2:
		c.Session++
	case 3:
		c.Lease[r.pick("byte", 32)]++
	}
	if taken, known := r.model.lease(&c); known {
		r.expect(taken, entry.LeaseCommandOp(&c))
	} else {
		r.b.entry(entry.LeaseCommandOp(&c)) // whatever the outcome, it changes nothing
	}
}

// keepLog makes a node provide its log.
func (r *race) keepLog() {
	if len(r.seen) == 0 {
		return
	}
	l := r.seen[len(r.seen)-1-r.pick("lease", min(len(r.seen), 6))]
	if r.pick("hostile", 8) == 0 {
		l.Worker = "thief"
	}
	o := r.b.entry(KeepLogOp(l.Job, l.ID, l.Worker, []byte("late"))).Outcomes[0]
	kept, known := r.model.logs[l.ID]
	switch taken := o.GetKind() == 0; {
	case taken && (r.model.leases[l.ID] != nil || l.Worker == "thief"):
		r.Fatalf("the log of an open lease, or by another worker, is accepted")
	case taken && o.GetExisted() != known:
		r.Fatalf("a log exists: %v; the model has %q, %v", o.GetExisted(), kept, known)
	case taken && !known:
		r.model.logs[l.ID] = "late"
	}
}

func (r *race) compare() {
	for lease, want := range r.model.logs {
		if got, ok := keptLog(r.b.Machine, lease); !ok || got != want {
			r.Fatalf("the log of %s is %q, %v; the model has %q", lease, got, ok, want)
		}
	}
	if known := r.b.JobTable.Len() + r.b.ended.tombs.Len(); known != len(r.model.jobs) {
		r.Fatalf("%d jobs are known, want %d as in the model", known, len(r.model.jobs))
	}
	for id, want := range r.model.jobs {
		got, ok := r.b.View.Job(id)
		if !ok || got.State != want.state || !want.state.Terminal() && got.Attempt != want.attempt ||
			!want.state.Terminal() && (int(got.WorkerLosses) != len(want.losses) ||
				got.Isolated != (len(want.losses) >= 2)) ||
			(got.Lease != nil) != (want.lease != rota.LeaseID{}) || got.Lease != nil && got.Lease.ID != want.lease {
			r.Fatalf("job %s is %s in attempt %d, want %s in %d as in the model", id, got.State, got.Attempt,
				want.state, want.attempt)
		}
		if !want.state.Terminal() && string(got.Payload) != want.payload {
			r.Fatalf("job %s has payload %q, want %q as in the model", id, got.Payload, want.payload)
		}
		if l := r.model.leases[want.lease]; l != nil && (got.Lease.Deadline.Clock != l.deadline ||
			got.Lease.Renewals != l.renewals) {
			r.Fatalf("lease of %s runs to %d, want %d as in the model", id, got.Lease.Deadline, l.deadline)
		}
	}
	if got := r.b.leasing.leases.Len(); got != len(r.model.leases) {
		r.Fatalf("%d leases are open, want %d as in the model", got, len(r.model.leases))
	}
	for id, w := range r.model.workers {
		if got, _ := r.b.View.Worker(id); got.Polls != w.polls || got.Offered != w.free {
			r.Fatalf("worker %s polls: %v, offers %d; want %v, %d as in the model", id, got.Polls, got.Offered, w.polls,
				w.free)
		}
	}
	r.reputations()
}
