package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestBadJobsHoldNobodyUp has jobs of one tenant fail on the only worker: the next one of another tenant in another
// queue starts on that worker all the same.
func TestBadJobsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	cl := c.dial(t)
	qa := c.policyQueue(t, "qa", "standard", "backoff_base=300ms", "attempt_max=2")
	qb := c.policyQueue(t, "qb", "standard")
	c.worker(t, "--queues", "qa,qb", "--slots", "16", "--id", "only", "--exec", `[ "$ROTA_JOB_TYPE" != bad ]`)
	var bad []rota.JobSpec
	for i := range 3 {
		bad = append(bad, policyJob(fmt.Sprint("bad", i), qa, ofType("bad"),
			func(s *rota.JobSpec) { s.Tenant = "evil" }))
	}
	submitAll(t, cl, bad...)
	for _, s := range bad {
		c.awaitState(t, cl, string(s.ID), 20*time.Second, rota.JobDead)
	}
	submitAll(t, cl, policyJob("good", qb, ofType("good"), func(s *rota.JobSpec) { s.Tenant = "nice" }))
	c.awaitState(t, cl, "good", 20*time.Second, rota.JobCompleted) // a cool-down would be of 30 s
	w := decode[rota.Worker](t, c.rota(t, "worker", "show", "only", "-o", "json"))
	if w.Health != 1000 || len(w.Cooling) != 0 || len(w.Denied) != 0 {
		t.Errorf("the worker has %+v", w)
	}
}

// TestMaxConcurrentKeepsUp runs jobs of a tenant at its limit: when one ends the next begins, without a penalty
// between.
func TestMaxConcurrentKeepsUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	cl := c.dial(t)
	q := c.policyQueue(t, "limited", "standard")
	c.rota(t, "tenant", "set", "ann", "--max-concurrent", "2").want(t, 0)
	c.worker(t, "--queues", "limited", "--slots", "8")
	var jobs []rota.JobSpec
	for i := range 40 {
		jobs = append(jobs, policyJob(fmt.Sprint("a", i), q,
			func(s *rota.JobSpec) { s.Tenant, s.Simulate = "ann", 100*time.Millisecond }))
	}
	submitAll(t, cl, jobs...)
	type moment struct {
		at    rota.Clock
		opens int
	}
	var moments []moment
	var began, ended []rota.Clock
	for _, s := range jobs {
		a := c.awaitState(t, cl, string(s.ID), 60*time.Second, rota.JobCompleted).Attempts[0]
		moments = append(moments, moment{a.Started.Clock, 1}, moment{a.Ended.Clock, -1})
		began, ended = append(began, a.Started.Clock), append(ended, a.Ended.Clock)
	}
	slices.SortFunc(moments, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.opens, b.opens))
	})
	open := 0
	for _, m := range moments {
		if open += m.opens; open > 2 {
			t.Fatalf("%d leases of the tenant are open at %d", open, m.at)
		}
	}
	// The n-th lease to end makes room for lease n+2. By the cluster's clock most of these followed sooner than any
	// earlier penalty was over.
	slices.Sort(began)
	slices.Sort(ended)
	var gaps []rota.Clock
	for i := range began[2:] {
		gaps = append(gaps, began[i+2]-ended[i])
	}
	slices.Sort(gaps)
	if median := gaps[len(gaps)/2]; median >= 500 {
		t.Errorf("half of the leases began %d ms or more after there was room: %v", median, gaps)
	}
}
