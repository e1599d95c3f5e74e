package e2e

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// eligibility is a rule of SPEC §6.1: a queue, a job and a worker that fails the rule, and a worker that does not.
type eligibility struct {
	name, set  string
	job        func(*rota.JobSpec)
	bad, good  func(*rota.WorkerSpec)
	goodOption func(t *testing.T) client.WorkerOption
}

// TestConformance_QueueMatcher is eligibility, quotas and priority ties of AICF
// §14, on three processes.
func TestConformance_QueueMatcher(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	public := command(t, nil, "", "worker", "attest", "--generate-key", key).want(t, 0).stdout
	c := newCluster(t, 3, "--attestation-key", writeFile(t, key+".pub", public))
	cl := c.dial(t)
	attested := func(worker, stake string) func(t *testing.T) client.WorkerOption {
		return func(t *testing.T) client.WorkerOption {
			r := c.rota(t, "worker", "attest", "--key", key, "--worker", worker, "--expires", "1h", "--stake", stake)
			return client.WithAttestation(decode[rota.Attestation](t, r))
		}
	}
	for _, one := range []eligibility{
		{name: "CAPABILITY_MISSING", job: func(s *rota.JobSpec) { s.Requires = []string{"model=x", "fp16"} },
			bad:  func(w *rota.WorkerSpec) { w.Capabilities = []string{"model=x"} },
			good: func(w *rota.WorkerSpec) { w.Capabilities = []string{"fp16", "more", "model=x"} }},
		{name: "REGION_DENIED", job: func(s *rota.JobSpec) { s.RegionsAllow = []string{"eu"} },
			bad: func(w *rota.WorkerSpec) { w.Region = "us" }, good: func(w *rota.WorkerSpec) { w.Region = "eu" }},
		{name: "LIMIT_EXCEEDED", job: func(s *rota.JobSpec) { s.Limits = map[string]int64{"depth": 9} },
			bad:  func(w *rota.WorkerSpec) { w.Limits = map[string]int64{"depth": 8, "width": 9} },
			good: func(w *rota.WorkerSpec) { w.Limits = map[string]int64{"depth": 9} }},
		{name: "STAKE_TOO_LOW", set: "min_stake=5", bad: func(w *rota.WorkerSpec) { w.Stake = 1 << 60 },
			goodOption: attested("STAKE_TOO_LOW-good", "5")},
		{name: "ATTESTATION_MISSING", set: "require_attestation=on",
			goodOption: attested("ATTESTATION_MISSING-good", "0")},
		{name: "CPU_FULL", job: func(s *rota.JobSpec) { s.CPUMilli = 2000 },
			bad:  func(w *rota.WorkerSpec) { w.CPUMilli = 1999 },
			good: func(w *rota.WorkerSpec) { w.CPUMilli = 2000 }},
		{name: "MEMORY_FULL", job: func(s *rota.JobSpec) { s.MemoryBytes = 1 << 20 },
			good: func(w *rota.WorkerSpec) { w.MemoryBytes = 1 << 20 }},
		{name: "IO_FULL", job: func(s *rota.JobSpec) { s.IOBytesPerS = 1 << 20 },
			bad:  func(w *rota.WorkerSpec) { w.IOBytesPerS = 1<<20 - 1 },
			good: func(w *rota.WorkerSpec) { w.IOBytesPerS = 1 << 20 }},
		{name: "NOT_THE_PINNED_WORKER", job: func(s *rota.JobSpec) { s.Worker = "NOT_THE_PINNED_WORKER-good" }},
	} {
		t.Run("eligibility_"+one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, c, cl)
		})
	}
	t.Run("eligibility_HEALTH_TOO_LOW", func(t *testing.T) { t.Parallel(); matcherHealth(t, c, cl) })
	t.Run("eligibility_NOT_ACTIVE", func(t *testing.T) { t.Parallel(); matcherStanding(t, c, cl) })
	t.Run("quotas", func(t *testing.T) { t.Parallel(); matcherQuotas(t, c, cl) })
	t.Run("priority_ties", func(t *testing.T) { t.Parallel(); matcherTies(t, c, cl) })
}

// run checks that a job waits for the rule with the one worker, and goes to the other.
func (e *eligibility) run(t *testing.T, c *nodes, cl *client.Client) {
	var set []string
	if e.set != "" {
		set = append(set, e.set)
	}
	q := c.policyQueue(t, "q-"+e.name, "aicf-ai", set...)
	var bad, good []any
	if e.bad != nil {
		bad = append(bad, e.bad)
	}
	if e.good != nil {
		good = append(good, e.good)
	}
	if e.goodOption != nil {
		good = append(good, e.goodOption(t))
	}
	c.puppet(t, e.name+"-bad", q, 4, bad...)
	job := policyJob("j-"+e.name, q)
	if e.job != nil {
		e.job(&job)
	}
	submitAll(t, cl, job)
	x := eventuallyWhy(t, cl, job.ID, e.name, 1)
	others := slices.DeleteFunc(x.Reasons, func(w rota.Why) bool { return w.Reason == e.name })
	if len(others) != 0 || x.State != rota.JobQueued || len(x.WouldRun) == 0 {
		t.Errorf("job %s is explained as %+v", job.ID, x)
	}
	w := c.puppet(t, e.name+"-good", q, 4, good...)
	w.serves(job.ID)
	w.ends(job.ID, nil)
	last := jobOf(t, cl, job.ID)
	if a := last.Attempts[0]; a.Worker != w.id || a.Decision.Reasoning.Rule != rota.ReasoningOnlyWorkerAvailable {
		t.Errorf("job %s was placed by %+v", job.ID, a)
	}
}

// A proof that is invalid costs half of the health.
func matcherHealth(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "health", "aicf-ai", "min_health=900", "attempt_max=1")
	w := c.puppet(t, "unhealthy", q, 1)
	wrong := policyJob("wrong", q)
	wrong.ExpectedDigest = make([]byte, 32)
	submitAll(t, cl, wrong)
	w.serves("wrong")
	contains(t, "the answer", fmt.Sprint(w.answered("wrong", nil)), "PROOF_INVALID")
	if job := c.awaitState(t, cl, "wrong", 20*time.Second,
		rota.JobDead); job.Attempts[0].End != rota.ReasonProofInvalid {
		t.Errorf("job %+v", job)
	}
	submitAll(t, cl, policyJob("next", q))
	eventuallyWhy(t, cl, "next", "HEALTH_TOO_LOW", 1)
	c.rota(t, "queue", "set", string(q), "--set", "min_health=300").want(t, 0)
	w.serves("next")
	w.ends("next", nil)
}

func matcherStanding(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "standing-of", "aicf-ai")
	w := c.puppet(t, "suspended", q, 1)
	c.rota(t, "worker", "suspend", "suspended").want(t, 0)
	submitAll(t, cl, policyJob("waits", q))
	eventuallyWhy(t, cl, "waits", "NOT_ACTIVE", 1)
	c.rota(t, "worker", "resume", "suspended").want(t, 0)
	w.serves("waits")
	w.ends("waits", nil)
}

func matcherQuotas(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "quotas", "aicf-ai", "leases_max_per_worker=2", "units_per_period=10", "tenant_window_max=5")
	w := c.puppet(t, "quoted", q, 8)
	units := func(id string, n int64, tenant rota.TenantID) {
		submitAll(t, cl, policyJob(id, q, func(s *rota.JobSpec) { s.Units, s.Tenant = n, tenant }))
	}
	units("a", 3, "first")
	units("b", 3, "first")
	units("c", 3, "first")
	first := []rota.JobID{w.takes().ID(), w.takes().ID()}
	slices.Sort(first)
	if !slices.Equal(first, []rota.JobID{"a", "b"}) {
		t.Errorf("%v are placed first", first)
	}
	eventuallyWhy(t, cl, "c", "NO_FREE_SLOT", 1)
	w.ends("a", nil)
	w.serves("c")
	w.ends("b", nil)
	w.ends("c", nil)
	units("d", 2, "first") // 9 of 10 units are used
	eventuallyWhy(t, cl, "d", "UNITS_EXHAUSTED", 1)
	units("e", 1, "first")
	w.serves("e")
	w.ends("e", nil)
	if got := decode[rota.Worker](t, c.rota(t, "worker", "show", "quoted", "-o", "json")).Units; len(got) != 1 ||
		got[0].Used != 10 {
		t.Errorf("the worker's units are %+v", got)
	}
	// The requester's rolling window: four starts so far, the fifth fills it.
	other := c.puppet(t, "unquoted", q, 8)
	other.serves("d")
	other.ends("d", nil)
	units("f", 1, "first")
	eventuallyWhy(t, cl, "f", "TENANT_WINDOW_FULL", 0)
	units("g", 1, "second")
	other.serves("g")
	other.ends("g", nil)
}

// Score descending, then age, then the id; jobs that tie in score and age and compete for one worker are ordered by
// H("AICF|tie", job, worker, seed) (SPEC §7.5).
func matcherTies(t *testing.T, c *nodes, cl *client.Client) {
	q := c.policyQueue(t, "ties", "aicf-ai", "paused=true")
	paying := func(id string, fee, size int64) rota.JobSpec {
		return policyJob(id, q, func(s *rota.JobSpec) { s.Fee, s.SizeBytes = fee, size })
	}
	submitAll(t, cl, paying("poor", 0, 1))
	submitAll(t, cl, paying("z-rich", 1_000_000, 1), paying("a-rich", 1_000_000, 1), paying("m-rich", 1_000_000, 1))
	submitAll(t, cl, paying("large", 1_000_000, 1<<30))
	eventually(t, 20*time.Second, "a moment passes on the cluster clock", func() error {
		s, err := cl.Status(within(t))
		if err == nil && s.Clock <= jobOf(t, cl, "large").Enqueued.Clock {
			err = errNotYet
		}
		return err
	})
	submitAll(t, cl, paying("late-rich", 1_000_000, 1))
	w := c.puppet(t, "tied", q, 1)
	c.rota(t, "queue", "resume", string(q)).want(t, 0)
	var order []rota.JobID
	open := map[rota.JobID]bool{"a-rich": true, "m-rich": true, "z-rich": true}
	tie := func(id rota.JobID, seed []byte) []byte {
		sum := hashOf([]byte("AICF|tie"), []byte(id), []byte(w.id), seed)
		return sum[:]
	}
	for range 6 {
		id := w.takes().ID()
		order = append(order, id)
		if open[id] {
			seed := jobOf(t, cl, id).Lease.Decision.Seed
			delete(open, id)
			for other := range open {
				if bytes.Compare(tie(other, seed), tie(id, seed)) < 0 {
					t.Errorf("job %s was placed before %s, whose hash is smaller", id, other)
				}
			}
		}
		w.ends(id, nil)
	}
	slices.Sort(order[:3])
	if want := []rota.JobID{"a-rich", "m-rich", "z-rich", "late-rich", "large", "poor"}; !slices.Equal(order, want) {
		t.Errorf("placed in the order %v, want %v", order, want)
	}
}
