package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// Operators' settings of tenants, modes, workers and proofs, on a real cluster of three processes, each call through
// another node than the one before.
func TestLimits(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	public := command(t, nil, "", "worker", "attest", "--generate-key", key).want(t, 0).stdout
	c := newCluster(t, 3, "--attestation-key", writeFile(t, key+".pub", public))
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes)
	}{
		{"tenant_is_set_key_by_key", limitsTenant},
		{"tenant_at_its_limit_waits_and_others_do_not", limitsConcurrency},
		{"worker_is_suspended_resumed_retired", limitsWorker},
		{"proof_is_rejected", func(t *testing.T, c *nodes) { limitsProof(t, c, key) }},
		{"worker_offers_limits", limitsOffers},
		{"submitter_is_asked_to_slow_down", limitsThrottle},
		{"queue_tells_tiers_types_and_domains", limitsQueue},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, c)
		})
	}
}

// at runs a command against only one node.
func (n *node) at(t testing.TB, args ...string) *result {
	t.Helper()
	return command(t, nil, "", append(args, "--addr", n.API)...)
}

func limitsTenant(t *testing.T, c *nodes) {
	unset := decode[rota.Tenant](t, c.all[0].at(t, "tenant", "show", "acme", "-o", "json"))
	if unset.Known || unset.TenantLimits != rota.DefaultTenantLimits() {
		t.Errorf("a tenant without a setting is %+v", unset)
	}
	set := object(t, c.all[1].at(t, "tenant", "set", "acme", "--tier", "premium", "--weight", "3", "--max-concurrent",
		"50", "--rate-limit-rps", "100", "--penalty", "2s", "-o", "json"))
	fields(t, "the tenant", set, "id", "etag", "tier", "weight", "max_concurrent", "rate_limit_rps", "penalty_ms",
		"bytes_max", "open_leases", "throttled", "known", "bytes", "rate_left")
	want := rota.TenantLimits{Tier: rota.TierPremium, Weight: 3, MaxConcurrent: 50, RateLimitRPS: 100, PenaltyMs: 2000}
	if got := decode[rota.Tenant](t, c.all[2].at(t, "tenant", "show", "acme", "-o", "json")); !got.Known ||
		got.TenantLimits != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// One key changes; the others stay.
	want.MaxConcurrent = 0
	if got := decode[rota.Tenant](t, c.rota(t, "tenant", "set", "acme", "--max-concurrent", "0", "-o",
		"json")); got.TenantLimits != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	listed := list(t, object(t, c.rota(t, "tenant", "list", "-o", "json")), "tenants")
	found := false
	for _, one := range listed {
		found = found || one["id"] == "acme"
	}
	if !found {
		t.Errorf("the tenants are %v", listed)
	}
}

func limitsConcurrency(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "crowd").want(t, 0)
	c.rota(t, "tenant", "set", "noisy", "--max-concurrent", "2", "--penalty", "0s").want(t, 0)
	c.worker(t, "--queues", "crowd", "--slots", "4", "--id", "crowd-w")
	for i := range 6 {
		c.rota(t, "job", "submit", "--queue", "crowd", "--type", "x", "--tenant", "noisy", "--id",
			fmt.Sprint("noisy-", i), "--simulate-ms", "60000").want(t, 0)
	}
	eventually(t, 20*time.Second, "the noisy tenant is throttled", func() error {
		got := decode[rota.Tenant](t, c.rota(t, "tenant", "show", "noisy", "-o", "json"))
		if got.Open != 2 || !got.Throttled {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
	c.rota(t, "job", "submit", "--queue", "crowd", "--type", "x", "--tenant", "quiet", "--wait", "--timeout",
		"10s").want(t, 0)
	if q := decode[rota.Queue](t, c.rota(t, "queue", "show", "crowd", "-o", "json")); q.Throttled != 1 ||
		q.Queued != 4 {
		t.Errorf("%d lanes are throttled, %d jobs are QUEUED: want 1 and 4", q.Throttled, q.Queued)
	}
	contains(t, "the metrics", metricsOf(t, c.all[0]), "rota_tenants_throttled 1")
	c.rota(t, "tenant", "set", "noisy", "--max-concurrent", "0").want(t, 0)
	eventually(t, 20*time.Second, "the limit is gone", func() error {
		if got := decode[rota.Tenant](t, c.rota(t, "tenant", "show", "noisy", "-o", "json")); got.Open != 4 ||
			got.Throttled {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
}

// metricsOf reads a node's admin port.
func metricsOf(t testing.TB, n *node) string {
	t.Helper()
	asking := http.Client{Timeout: 5 * time.Second}
	answer, err := asking.Get("http://" + n.Admin + "/metrics")
	check(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	check(t, err)
	return string(body)
}

func limitsWorker(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "standing").want(t, 0)
	c.worker(t, "--queues", "standing", "--id", "standing-w", "--slots", "2")
	c.rota(t, "job", "submit", "--queue", "standing", "--type", "x", "--id", "standing-1", "--simulate-ms",
		"60000").want(t, 0)
	cl := c.dial(t)
	c.awaitState(t, cl, "standing-1", 20*time.Second, rota.JobRunning)
	w := decode[rota.Worker](t, c.all[0].at(t, "worker", "suspend", "standing-w", "-o", "json"))
	if w.Status != rota.WorkerSuspended || w.Open != 0 {
		t.Errorf("a suspended worker is %+v", w)
	}
	if job := c.awaitState(t, cl, "standing-1", 20*time.Second, rota.JobQueued); job.Attempt != 0 ||
		job.Reason != rota.ReasonWorkerSuspended {
		t.Errorf("its job is %+v", job)
	}
	w = decode[rota.Worker](t, c.all[1].at(t, "worker", "resume", "standing-w", "-o", "json"))
	if w.Status != rota.WorkerActive {
		t.Errorf("a resumed worker is %+v", w)
	}
	c.awaitState(t, cl, "standing-1", 20*time.Second, rota.JobRunning)
	w = decode[rota.Worker](t, c.all[2].at(t, "worker", "retire", "standing-w", "-o", "json"))
	if w.Status != rota.WorkerRetired || w.Open != 0 {
		t.Errorf("a retired worker is %+v", w)
	}
	c.awaitState(t, cl, "standing-1", 20*time.Second, rota.JobQueued)
	c.rota(t, "worker", "resume", "standing-w").want(t, 1)
	for _, verb := range []string{"suspend", "resume", "retire"} {
		c.rota(t, "worker", verb, "no-such-worker").want(t, 3)
	}
	c.rota(t, "job", "cancel", "standing-1").want(t, 0)
}

func limitsProof(t *testing.T, c *nodes, key string) {
	c.rota(t, "queue", "set", "proof", "--set", "health_steps=on").want(t, 0)
	signed := c.rota(t, "worker", "attest", "--key", key, "--worker", "proof-w", "--expires", "1h", "--stake",
		"1000").want(t, 0)
	c.worker(t, "--queues", "proof", "--slots", "2", "--attestation", writeFile(t, key+".attested", signed.stdout))
	for _, again := range []bool{false, true} {
		id := fmt.Sprint("proof-", again)
		args := []string{"job", "submit", "--queue", "proof", "--type", "x", "--id", id, "--wait", "-o", "json",
			"--timeout", "20s"}
		if again {
			args = append(args, "--retry-on-invalid-proof")
		}
		c.rota(t, "job", "reject", id, "--reason", "too early").want(t, 3)
		lease := decode[rota.Job](t, c.rota(t, args...)).Attempts[0].Lease
		c.rota(t, "job", "reject", id, "--reason", "other lease", "--lease", strings.Repeat("ab", 32)).want(t, 1)
		rejected := object(t, c.rota(t, "job", "reject", id, "--reason", "wrong sum", "--lease", lease.String(), "-o",
			"json"))
		fields(t, "the outcome", rejected, "id", "state")
		want := []rota.JobState{rota.JobCompleted}
		if again {
			want = []rota.JobState{rota.JobCompleted, rota.JobQueued, rota.JobDelayed, rota.JobAssigned,
				rota.JobRunning}
		}
		job := c.awaitState(t, c.dial(t), id, 20*time.Second, want...)
		if !again && job.Reason != rota.ReasonProofRejected {
			t.Errorf("a rejected job is %+v", job)
		}
	}
	proofOfTheArchived(t, c)
	w := decode[rota.Worker](t, c.rota(t, "worker", "show", "proof-w", "-o", "json"))
	if w.InvalidProofs != 2 || w.Slashed == 0 || w.AttestedStake != 1000 || w.Health >= 1000 {
		t.Errorf("its worker is %+v", w)
	}
	c.rota(t, "job", "reject", "no-such-job", "--reason", "x").want(t, 3)
}

// A job whose record is only in the archive runs again with its payload.
func proofOfTheArchived(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "proof-late").want(t, 0)
	c.worker(t, "--queues", "proof-late", "--exec", "cat")
	c.rota(t, "job", "submit", "--queue", "proof-late", "--type", "x", "--id", "proof-late", "--payload", "kept",
		"--retry-on-invalid-proof", "--wait", "--timeout", "20s").want(t, 0)
	eventually(t, 30*time.Second, "the job is archived", func() error {
		if job := c.job(t, "proof-late"); !job.Archived {
			return errNotYet
		}
		return nil
	})
	c.rota(t, "job", "reject", "proof-late", "--reason", "wrong sum").want(t, 0)
	eventually(t, 20*time.Second, "the job ran again", func() error {
		job := c.job(t, "proof-late")
		if job.State != rota.JobCompleted || len(job.Attempts) < 2 || string(job.Output) != "kept" {
			return fmt.Errorf("it is %+v", job)
		}
		return nil
	})
}

func limitsOffers(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "depths").want(t, 0)
	c.worker(t, "--queues", "depths", "--id", "depths-w", "--limit", "depth=20", "--limit", "width=4")
	w := decode[rota.Worker](t, c.rota(t, "worker", "show", "depths-w", "-o", "json"))
	if w.Limits["depth"] != 20 || w.Limits["width"] != 4 {
		t.Errorf("the worker offers %v", w.Limits)
	}
	c.rota(t, "job", "submit", "--queue", "depths", "--type", "x", "--limit", "depth=20", "--wait", "--timeout",
		"20s").want(t, 0)
	c.rota(t, "job", "submit", "--queue", "depths", "--type", "x", "--limit", "depth=21", "--id", "too-deep").want(t, 0)
	c.rota(t, "job", "wait", "too-deep", "--timeout", "1500ms").want(t, 5)
}

func limitsThrottle(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "small", "--set", "queue_cap=10", "--set", "reject_threshold=0.9", "--set",
		"paused=true").want(t, 0)
	for i := range 9 {
		r := c.rota(t, "job", "submit", "--queue", "small", "--type", "x").want(t, 0)
		if hinted := strings.Contains(r.stderr, "slow down"); hinted != (i >= 5) {
			t.Errorf("job %d of 10: stderr %q", i+1, r.stderr)
		}
	}
	// At reject_threshold priority 0 is accepted to the end.
	contains(t, "the refusal", c.rota(t, "job", "submit", "--queue", "small", "--type", "x").want(t, 4).stderr,
		"reject_threshold")
	c.rota(t, "job", "submit", "--queue", "small", "--type", "x", "--priority", "0").want(t, 0)
	contains(t, "the refusal", c.rota(t, "job", "submit", "--queue", "small", "--type", "x", "--priority", "0").want(t,
		4).stderr,
		"queue_cap")
	if q := decode[rota.Queue](t, c.rota(t, "queue", "show", "small", "-o", "json")); q.UsagePermille != 1000 {
		t.Errorf("a full queue is %d permille full", q.UsagePermille)
	}
}

func limitsQueue(t *testing.T, c *nodes) {
	for _, preset := range rota.Presets {
		q := decode[rota.Queue](t, c.rota(t, "queue", "set", "as-"+preset, "--preset", preset, "-o", "json"))
		want, err := rota.PresetPolicy(preset)
		check(t, err)
		if q.Policy != want {
			t.Errorf("preset %s became %+v", preset, q.Policy)
		}
	}
	c.worker(t, "--queues", "as-dfps", "--slots", "4")
	c.rota(t, "queue", "set", "as-dfps", "--set", "expected.typed=50ms").want(t, 0)
	for i := range 3 {
		c.rota(t, "job", "submit", "--queue", "as-dfps", "--type", "typed", "--domain", "zone-1", "--expected-ms", "70",
			"--wait", "--timeout", "20s", "--id", fmt.Sprint("typed-", i)).want(t, 0)
	}
	q := decode[rota.Queue](t, c.rota(t, "queue", "show", "as-dfps", "-o", "json"))
	if len(q.Types) != 1 || q.Types[0].Type != "typed" || q.Types[0].Success != 3 ||
		q.Types[0].Expected != 50*time.Millisecond || q.Types[0].Weight < 0.1 {
		t.Errorf("the types are %+v", q.Types)
	}
	if len(q.Domains) != 1 || q.Domains[0].Name != "zone-1" || q.Domains[0].Outcomes != 3 || q.Domains[0].Isolated {
		t.Errorf("the domains are %+v", q.Domains)
	}
	c.rota(t, "queue", "pause", "as-dfps").want(t, 0)
	c.rota(t, "job", "submit", "--queue", "as-dfps", "--type", "typed", "--priority", "0").want(t, 0)
	c.rota(t, "job", "submit", "--queue", "as-dfps", "--type", "typed", "--priority", "9").want(t, 0)
	table := c.rota(t, "queue", "show", "as-dfps").want(t, 0).stdout
	contains(t, "the table", table, "critical 1, background 1", "zone-1", "typed")
}

// The modes stop and start what they are documented to, and a node's death changes none.
func TestModes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.worker(t, "--queues", "default", "--slots", "4", "--id", "modes-w")
	mode := func() rota.ModeStatus {
		t.Helper()
		return decode[rota.ModeStatus](t, c.rota(t, "mode", "get", "-o", "json"))
	}
	shown := object(t, c.rota(t, "mode", "get", "-o", "json"))
	fields(t, "the mode", shown, "mode", "reason", "since*?", "auto", "holds", "drained", "index")
	set := func(name, reason string) {
		t.Helper()
		got := decode[rota.ModeStatus](t, c.rota(t, "mode", "set", name, "--reason", reason, "-o", "json"))
		if got.Mode.String() != name || got.Reason != reason || got.Auto {
			t.Errorf("mode set %s gave %+v", name, got)
		}
	}
	submit := func(code int, id string, more ...string) *result {
		t.Helper()
		return c.rota(t, append([]string{"job", "submit", "--type", "x", "--id", id}, more...)...).want(t, code)
	}
	cl := c.dial(t)

	submit(0, "before", "--simulate-ms", "3000")
	c.awaitState(t, cl, "before", 20*time.Second, rota.JobRunning)
	set("READ_ONLY", "move")
	contains(t, "the refusal", submit(4, "refused").stderr, "READ_ONLY", "move")
	c.rota(t, "job", "show", "refused").want(t, 3)
	c.awaitState(t, cl, "before", 20*time.Second, rota.JobCompleted) // running jobs may finish
	submit(0, "before", "--simulate-ms", "3000")                     // known: no new work
	contains(t, "another job's refusal", submit(4, "before").stderr, "simulate_ms", "submitted before")

	set("DEGRADED", "hot")
	contains(t, "the refusal", submit(4, "low", "--priority", "6").stderr, "DEGRADED")
	submit(0, "high", "--priority", "5", "--wait", "--timeout", "20s")
	contains(t, "the status", c.rota(t, "cluster", "status").want(t, 0).stdout, "DEGRADED", "hot")
	leader := c.leader(t)
	leader.Kill()
	if got := mode(); got.Mode != rota.ModeDegraded || got.Reason != "hot" {
		t.Errorf("after the leader's death the mode is %+v", got)
	}
	leader.start(t)
	leader.awaitReady(t)

	set("DRAINING", "upgrade")
	contains(t, "the refusal", submit(4, "late").stderr, "DRAINING")
	eventually(t, 20*time.Second, "it is drained", func() error {
		if got := mode(); !got.Drained {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
	set("NORMAL", "done")
	submit(0, "after", "--wait", "--timeout", "20s")
	eventually(t, 20*time.Second, "the metrics know", func() error { // of its own state, which may lag
		if text := metricsOf(t, leader); !strings.Contains(text, `rota_admission_mode{mode="NORMAL"} 1`) {
			return errors.New(text)
		}
		return nil
	})
	c.verified(t, 3)
}
