package e2e

import (
	"encoding/json"
	"testing"
	"time"
)

// floodCount holds a measurement's counts of jobs and refusals.
type floodCount struct {
	Jobs            int   `json:"jobs"`
	Accepted        int64 `json:"accepted"`
	Completed       int64 `json:"completed"`
	Refused         int64 `json:"refused"`
	RefusedHintless int64 `json:"refused_hintless"`
	Reruns          int64 `json:"reruns"`
	Lost            int64 `json:"lost"`
	Duplicated      int64 `json:"duplicated"`
}

func floodCountOf(t *testing.T, p *process) (a floodCount) {
	t.Helper()
	if code := p.end(t, 120*time.Second); code != 0 {
		t.Fatalf("%s ended with exit code %d: %s", p.Name, code, p.Stderr.String())
	}
	if err := json.Unmarshal([]byte(p.Stdout.String()), &a); err != nil {
		t.Fatalf("%s printed no JSON: %v\n%s", p.Name, err, p.Stdout.String())
	}
	t.Logf("%s: %+v", p.Name, a)
	return a
}

// Far more than a cluster can handle: it refuses and reports when to retry, loses nothing that it accepted, and keeps
// every lease that lives on renewals meanwhile. Its speed under overload is measured by `make bench-overload`. The test
// runs alone: its load uses two processors completely.
func TestOverload(t *testing.T) {
	long(t)
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "flood", "--preset", "standard", "--set", "queue_cap=500").want(t, 0)
	c.rota(t, "queue", "set", "held", "--preset", "standard", "--set", "lease_ms=6000").want(t, 0)
	held := launch(t, "held", []string{c.env()}, "bench", "jobs", "--queue", "held", "--jobs", "32", "--workers", "2",
		"--slots", "16", "--hold", "15s")
	flood := launch(t, "flood", []string{c.env()}, "bench", "jobs", "--queue", "flood", "--jobs", "60000", "--rate",
		"20000", "--drop", "--heedless", "--producers", "64", "--workers", "2", "--slots", "8")
	f, h := floodCountOf(t, flood), floodCountOf(t, held)
	if f.Refused == 0 || f.RefusedHintless != 0 || f.Accepted == 0 || f.Accepted+f.Refused != int64(f.Jobs) {
		t.Errorf("%d jobs: %d accepted, %d refused, %d of these without a delay: want every job as one or the other, "+
			"want some of each, and a delay for each refusal", f.Jobs, f.Accepted, f.Refused, f.RefusedHintless)
	}
	if f.Completed != f.Accepted || f.Lost != 0 || f.Duplicated != 0 {
		t.Errorf("of %d accepted jobs %d are completed, %d lost, %d done twice", f.Accepted, f.Completed, f.Lost,
			f.Duplicated)
	}
	if h.Completed != 32 || h.Reruns != 0 || f.Reruns != 0 {
		t.Errorf("leases ended under load: %d of 32 held jobs completed, %d and %d handlers beyond a job's first",
			h.Completed, h.Reruns,
			f.Reruns)
	}
	c.verified(t, 3)
}
