package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/peer"
)

// TestConformance_AssignmentAndLease is lease timers, renewals and cancellations of
// AICF §14 on three processes, with leases of seconds.
func TestConformance_AssignmentAndLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	cl := c.dial(t)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes, *client.Client, rota.QueueName)
		set  []string
	}{
		{"an_unacknowledged_lease_is_cancelled_with_backoff", leaseUnacked, []string{"ack_timeout=4000ms"}},
		{"renewals_extend_by_half_a_lease_as_often_as_allowed", leaseRenewed,
			[]string{"lease_ms=8000", "ack_timeout=8000ms"}},
		{"cancelled_when_the_provider_leaves", leaseCancelled, nil},
		{"revoked_when_quotas_are_reduced", leaseCut, nil},
		{"a_decline_cools_the_provider_down_for_the_class", leaseDeclined, nil},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			set := append([]string{"lease_ms=60000", "ack_timeout=20000ms", "renewals_max=2", "backoff_base=100ms",
				"backoff_unit=1ms"}, one.set...)
			one.run(t, c, cl, c.policyQueue(t, one.name[:12], "aicf-ai", set...))
		})
	}
}

// leased assigns one job to a hand and checks the lease's times and its id.
func leased(t *testing.T, c *nodes, cl *client.Client, h *hand, job rota.JobSpec) rota.Lease {
	t.Helper()
	submitAll(t, cl, job)
	l := h.serves(job.ID)
	seed := seedOf(t, jobOf(t, cl, job.ID), l)
	p := decode[rota.Queue](t, c.rota(t, "queue", "show", string(job.Queue), "-o", "json")).Policy
	if l.AckBy.Clock != l.Started.Clock+rota.Clock(p.AckTimeoutMs) ||
		l.Deadline.Clock != l.Started.Clock+rota.Clock(p.LeaseMs) ||
		l.RenewBy.Clock != l.Started.Clock+rota.Clock(p.LeaseMs*p.RenewAlphaPermille/1000) {
		t.Errorf("lease %+v does not match %+v", l, p)
	}
	want := hashOf([]byte("AICF|lease"), []byte(job.ID), []byte(h.id), number(uint64(l.Attempt)), seed)
	if l.ID != rota.LeaseID(want) {
		t.Errorf("lease %s is not the hash of its job, worker, attempt and seed", l.ID)
	}
	return l
}

// seedOf returns the seed of the decision that granted a lease, which may be over already.
func seedOf(t testing.TB, job rota.Job, l rota.Lease) []byte {
	t.Helper()
	if job.Lease != nil && job.Lease.ID == l.ID {
		return job.Lease.Decision.Seed
	}
	for _, a := range job.Attempts {
		if a.Lease == l.ID {
			return a.Decision.Seed
		}
	}
	t.Fatalf("job %s does not have lease %s: %+v", job.ID, l.ID, job)
	return nil
}

func (c *nodes) health(t testing.TB, w rota.WorkerID) int32 {
	t.Helper()
	return decode[rota.Worker](t, c.rota(t, "worker", "show", string(w), "-o", "json")).Health
}

func leaseUnacked(t *testing.T, c *nodes, cl *client.Client, q rota.QueueName) {
	h := c.hand(t, c.all[0], "silent", q, 1)
	l := leased(t, c, cl, h, policyJob("unacked", q))
	// The second lease, which this test completes, must not lapse while the test runs.
	c.rota(t, "queue", "set", string(q), "--set", "ack_timeout=60000ms").want(t, 0)
	h.hears(l, false, rota.ReasonAckTimeout)
	if got := c.health(t, h.id); got < 950 || got > 980 {
		t.Errorf("health is %d, it lost 50", got)
	}
	h.refused(rota.KindStale, rota.VerbComplete, l)
	again := h.serves("unacked")
	job := jobOf(t, cl, "unacked")
	first := job.Attempts[0]
	if again.Attempt != 1 || first.End != rota.ReasonAckTimeout || first.Ended.Clock < l.AckBy.Clock ||
		first.Ended.Clock > l.Deadline.Clock {
		t.Errorf("attempt %+v; the lease was to be acknowledged by %d", first, l.AckBy)
	}
	p := decode[rota.Queue](t, c.rota(t, "queue", "show", string(q), "-o", "json")).Policy
	if wait := int64(again.Started.Clock - first.Ended.Clock); wait < backoffOf("unacked", 0, &p) {
		t.Errorf("it was placed again after %d ms, its backoff is %d", wait, backoffOf("unacked", 0, &p))
	}
	h.does(rota.VerbComplete, again)
}

func leaseRenewed(t *testing.T, c *nodes, cl *client.Client, q rota.QueueName) {
	h := c.hand(t, c.all[1], "renewing", q, 1)
	l := leased(t, c, cl, h, policyJob("renewed", q))
	const lease, half = 8000, 4000
	h.does(rota.VerbAck, l)
	deadline := l.Deadline
	for n := int32(1); n <= 2; n++ {
		ordinal := func(c *peer.LeaseCommand) { c.Ordinal = n }
		a := h.does(rota.VerbRenew, l, ordinal)
		// Never beyond a whole lease from now: nothing is banked (SPEC §8.2).
		now := clockAt(t, cl, "renewed", a.Index).Clock
		if want := min(deadline.Clock+half, now+lease); a.Deadline != want || a.Renewals != n {
			t.Errorf("renewal %d at clock %d: until %d, want %d", n, now, a.Deadline, want)
		}
		deadline = rota.Moment{Clock: a.Deadline}
		if again := h.does(rota.VerbRenew, l, ordinal); again.Deadline != deadline.Clock {
			t.Errorf("the same renewal again goes to %d", again.Deadline)
		}
	}
	h.refused(rota.KindConflict, rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = 3 })
	if job := jobOf(t, cl, "renewed"); job.State != rota.JobRunning || job.Lease.State != rota.LeaseRenewed ||
		job.Lease.Deadline.Clock != deadline.Clock {
		t.Errorf("job %+v", job)
	}
	h.hears(l, false, rota.ReasonLeaseExpired)
	job := jobOf(t, cl, "renewed")
	first := job.Attempts[0]
	if first.End != rota.ReasonLeaseExpired || first.Ended.Clock < deadline.Clock || first.Renewals != 2 ||
		job.Attempt != 1 {
		t.Errorf("attempt %+v; its lease ran until %d", first, deadline.Clock)
	}
	h.refused(rota.KindStale, rota.VerbComplete, l) // a replay is rejected
	// Medium decay, and the type is denied there for a while.
	if got := c.health(t, h.id); got < 850 || got > 880 {
		t.Errorf("health is %d, it lost 150", got)
	}
	eventuallyWhy(t, cl, "renewed", "TYPE_DENYLISTED", 1)
	// Elsewhere it runs.
	other := c.hand(t, c.all[2], "other", q, 1)
	other.does(rota.VerbComplete, other.serves("renewed"))
	c.awaitState(t, cl, "renewed", 20*time.Second, rota.JobCompleted)
}

func leaseCancelled(t *testing.T, c *nodes, cl *client.Client, q rota.QueueName) {
	for verb, why := range map[string]rota.Reason{"suspend": rota.ReasonWorkerSuspended,
		"retire": rota.ReasonWorkerRetired} {
		id := rota.JobID("left-" + verb)
		h := c.hand(t, c.all[0], verb, q, 1)
		l := leased(t, c, cl, h, policyJob(string(id), q))
		h.does(rota.VerbAck, l)
		c.rota(t, "worker", verb, verb).want(t, 0)
		if job := jobOf(t, cl, id); job.State != rota.JobQueued || job.Attempt != 0 || job.Reason != why ||
			job.Attempts[0].End != why {
			t.Errorf("after worker %s job %s is %+v", verb, id, job)
		}
		if verb == "suspend" {
			h.hears(l, false, why)
			h.refused(rota.KindStale, rota.VerbComplete, l)
		}
		c.rota(t, "job", "cancel", string(id)).want(t, 0)
	}
	h := c.hand(t, c.all[1], "staying", q, 1)
	l := leased(t, c, cl, h, policyJob("given-up", q))
	h.does(rota.VerbAck, l)
	c.rota(t, "job", "cancel", "given-up").want(t, 0)
	h.hears(l, true, rota.ReasonCancelledByUser)
	h.does(rota.VerbDecline, l)
	c.awaitState(t, cl, "given-up", 20*time.Second, rota.JobCancelled)
}

func leaseCut(t *testing.T, c *nodes, cl *client.Client, q rota.QueueName) {
	h := c.hand(t, c.all[2], "cut", q, 3)
	var leases []rota.Lease
	for i := range 3 {
		l := leased(t, c, cl, h, policyJob(fmt.Sprint("cut", i), q))
		h.does(rota.VerbAck, l)
		leases = append(leases, l)
	}
	c.rota(t, "queue", "set", string(q), "--set", "leases_max_per_worker=1").want(t, 0)
	for _, l := range leases[1:] { // the newest go; a live worker confirms
		h.hears(l, true, rota.ReasonQuotaCut)
		h.refused(rota.KindStale, rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = 1 })
		h.does(rota.VerbDecline, l)
		if job := jobOf(t, cl, l.Job); job.State != rota.JobQueued || job.Attempt != 0 ||
			job.Attempts[0].End != rota.ReasonQuotaCut {
			t.Errorf("job %s is %+v", l.Job, job)
		}
	}
	if job := jobOf(t, cl, "cut0"); job.State != rota.JobRunning || job.Lease.Revoked != rota.ReasonNone {
		t.Errorf("the oldest lease's job is %+v", job)
	}
	eventuallyWhy(t, cl, "cut1", "NO_FREE_SLOT", 1)
	h.does(rota.VerbComplete, leases[0])
	next := <-h.taken
	if next.Job != "cut1" && next.Job != "cut2" {
		t.Errorf("then comes %s", next.Job)
	}
	h.does(rota.VerbComplete, next)
	h.does(rota.VerbComplete, h.serves(map[rota.JobID]rota.JobID{"cut1": "cut2", "cut2": "cut1"}[next.Job]))
}

func leaseDeclined(t *testing.T, c *nodes, cl *client.Client, q rota.QueueName) {
	h := c.hand(t, c.all[0], "declining", q, 1)
	h.does(rota.VerbDecline, leased(t, c, cl, h, policyJob("declined", q)))
	if job := jobOf(t, cl, "declined"); job.State != rota.JobQueued || job.Attempt != 0 ||
		job.Attempts[0].End != rota.ReasonDeclined {
		t.Errorf("job %+v", job)
	}
	eventuallyWhy(t, cl, "declined", "COOLING_DOWN", 1)
	submitAll(t, cl, policyJob("another", q, ofType("other"))) // it continues with jobs of another class
	h.does(rota.VerbComplete, h.serves("another"))
}

// eventuallyWhy waits until a QUEUED job has a reason that the given number of workers have.
func eventuallyWhy(t testing.TB, cl *client.Client, id rota.JobID, reason string, workers int64) rota.Explanation {
	t.Helper()
	var x rota.Explanation
	eventually(t, 20*time.Second, fmt.Sprintf("job %s waits for %s", id, reason), func() error {
		var err error
		if x, err = cl.Why(within(t), id); err != nil {
			return err
		}
		for _, w := range x.Reasons {
			if w.Reason == reason && w.Workers == workers {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %+v", x.State, x.Reasons)
	})
	return x
}
