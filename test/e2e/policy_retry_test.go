package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/peer"
)

// TestConformance_RetryTTL is backoff, expirations and requeueing of AICF §14 on
// three processes.
func TestConformance_RetryTTL(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	cl := c.dial(t)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes, *client.Client)
	}{
		{"backoff_by_attempt_until_dead", retryBackoff}, {"absolute_time_to_live", retryAbsolute},
		{"relative_time_to_live", retryRelative}, {"requeued_at_its_place", retryPlace},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, c, cl)
		})
	}
}

func retryBackoff(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "backoff", "aicf-quantum", "backoff_base=150ms", "backoff_cap=500ms", "backoff_unit=10ms",
		"attempt_max=5")
	p := decode[rota.Queue](t, c.rota(t, "queue", "show", string(q), "-o", "json")).Policy
	submitAll(t, cl, policyJob("retried", q))
	due := rota.Clock(0)
	for n := range int32(5) {
		h := c.hand(t, c.all[n%3], fmt.Sprint("failing-", n), q, 1) // a worker with three failures in a row cools down
		l := h.serves("retried")
		if l.Attempt != n || l.Started.Clock < due {
			t.Errorf("attempt %d begins at %d, %d is due at %d", l.Attempt, l.Started, n, due)
		}
		a := h.does(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Text = "no luck" })
		if n == 4 {
			if a.JobState != rota.JobDead {
				t.Errorf("after the last attempt it is %s", a.JobState)
			}
			h.refused(rota.KindStale, rota.VerbComplete, l) // late, and ignored
			break
		}
		c.rota(t, "worker", "retire", string(h.id)).want(t, 0)
		x := clockAt(t, cl, "retried", a.Index)
		var failed int32
		var why, date string
		var left int64
		if x.State != rota.JobDelayed || len(x.Reasons) != 1 || x.Reasons[0].Reason != "BACKING_OFF" {
			t.Fatalf("after attempt %d it is explained as %+v", n, x)
		}
		if _, err := fmt.Sscanf(x.Reasons[0].Detail, "try %d ended with %s due at %s in %d ms", &failed, &why, &date,
			&left); err != nil || failed != n+1 || why != "PROVIDER_FAIL;" {
			t.Fatalf("attempt %d: %q, %v", n, x.Reasons[0].Detail, err)
		}
		want, plain := backoffOf("retried", n, &p), min(500, int64(150)<<n)
		due = x.Clock + rota.Clock(left)
		if left != want || want%10 != 0 || want < plain*9/10-5 || want > plain*11/10+5 {
			t.Errorf("attempt %d waits for %d ms, want %d", n, left, want)
		}
	}
	job := jobOf(t, cl, "retried")
	if job.State != rota.JobDead || job.Reason != rota.ReasonProviderFail || len(job.Attempts) != 5 ||
		job.Error != "no luck" {
		t.Errorf("job %+v", job)
	}
	// The tombstone keeps it out, and reports its final state.
	if again := submitAll(t, cl, policyJob("retried", q)); !again[0].Existed || again[0].State != rota.JobDead {
		t.Errorf("submitted again it is %+v", again[0])
	}
	c.rota(t, "job", "wait", "retried", "--timeout", "20s").want(t, 6)
}

func retryAbsolute(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "absolute", "aicf-ai", "ttl_abs=5000ms", "lease_ms=60000", "ack_timeout=20000ms")
	h := c.hand(t, c.all[0], "absolute", q, 1)
	submitAll(t, cl, policyJob("leased", q))
	l := h.serves("leased")
	// It waits for another worker: this one is free a moment before it expires, too.
	waiting := policyJob("waiting", q, func(s *rota.JobSpec) { s.Worker = "absent" })
	submitAll(t, cl, waiting, policyJob("longer", q, func(s *rota.JobSpec) { s.TTL = time.Hour }))
	for _, id := range []string{"leased", "waiting"} {
		job := c.awaitState(t, cl, id, 20*time.Second, rota.JobExpired)
		if job.Reason != rota.ReasonTTLAbsolute || job.Finished.Clock < job.Submitted.Clock+5000 {
			t.Errorf("job %s ended %d ms after its submission: %+v", id, job.Finished.Clock-job.Submitted.Clock, job)
		}
	}
	h.hears(l, false, rota.ReasonTTLAbsolute)
	h.refused(rota.KindStale, rota.VerbComplete, l)
	h.does(rota.VerbComplete, h.serves("longer"))
}

func retryRelative(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "relative", "aicf-ai", "ttl_rel_max=5000ms", "lease_ms=60000", "ack_timeout=20000ms",
		"backoff_base=50ms", "backoff_unit=1ms", "paused=true")
	submitAll(t, cl, policyJob("attempted", q))
	h := c.hand(t, c.all[1], "relative", q, 1)
	eventually(t, 20*time.Second, "it is older than ttl_rel_max", func() error {
		if x, err := cl.Why(within(t), "attempted"); err != nil ||
			x.Clock < jobOf(t, cl, "attempted").Submitted.Clock+5100 {
			return fmt.Errorf("clock %d, %v", x.Clock, err)
		}
		return nil
	})
	c.rota(t, "queue", "resume", string(q)).want(t, 0) // it counts from the first lease
	h.does(rota.VerbFail, h.serves("attempted"))
	second := h.serves("attempted")
	job := c.awaitState(t, cl, "attempted", 20*time.Second, rota.JobExpired)
	if job.Reason != rota.ReasonTTLRelative || job.Finished.Clock < job.FirstLease.Clock+5000 ||
		len(job.Attempts) != 2 ||
		job.Attempts[1].End != rota.ReasonTTLRelative {
		t.Errorf("job %+v", job)
	}
	h.hears(second, false, rota.ReasonTTLRelative)
}

// A job that is queued again keeps its age, and with it its place.
func retryPlace(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "place", "standard", "ranking=fifo", "fair_share=off", "oldest_every=0", "backoff_base=0",
		"lease_ms=60000", "ack_timeout=20000ms")
	h := c.hand(t, c.all[2], "placing", q, 1)
	submitAll(t, cl, policyJob("older", q))
	l := h.serves("older")
	submitAll(t, cl, policyJob("newer", q))
	h.does(rota.VerbFail, l)
	l = h.serves("older")
	if l.Attempt != 1 {
		t.Errorf("its attempt is %d", l.Attempt)
	}
	h.does(rota.VerbComplete, l)
	h.does(rota.VerbComplete, h.serves("newer"))
}
