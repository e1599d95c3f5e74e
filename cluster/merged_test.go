package cluster

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestAwaitJobs_merged waits by the id of a merged submission for the job that it was merged into, and reads that job.
func TestAwaitJobs_merged(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).leader()
	only := func(id string) rota.JobSpec {
		s := rota.NewJobSpec("t", nil)
		s.ID, s.Queue, s.Tenant = rota.JobID(id), rota.DefaultQueue, rota.DefaultTenant
		s.Unique = &rota.Unique{Key: "k", OnConflict: rota.UniqueExisting}
		return s
	}
	for _, id := range []string{"a", "b", "c"} {
		if out, err := n.Submit(within(t, ample), []rota.JobSpec{only(id)}); err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
	}
	job, _, err := n.Job(within(t, ample), "b", peer.ReadOptions{})
	if err != nil || job.ID != "b" || job.MergedInto != "a" || job.State != rota.JobQueued {
		t.Errorf("job b is %+v, %v", job, err)
	}
	if _, _, err := n.Job(within(t, ample), "d", peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
		t.Errorf("a job that was never submitted: %v", err)
	}
	ended := make(chan error, 1)
	seen := make(map[rota.JobID]rota.Job)
	waits := make(chan struct{})
	go func() {
		close(waits)
		ended <- n.AwaitJobs(within(t, ample), []rota.JobID{"b", "a", "c"}, func(j rota.Job) error {
			seen[j.ID] = j
			return nil
		})
	}()
	<-waits
	if _, err := n.Cancel(within(t, ample), []rota.JobID{"a"}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for id, holder := range map[rota.JobID]rota.JobID{"a": "", "b": "a", "c": "a"} {
		if j := seen[id]; j.State != rota.JobCancelled || j.MergedInto != holder || j.ID != id {
			t.Errorf("%s ended as %+v", id, j)
		}
	}
	if err := n.AwaitJobs(within(t, ample), []rota.JobID{"c"}, func(j rota.Job) error { // it has already ended
		seen["again"] = j
		return nil
	}); err != nil || seen["again"].MergedInto != "a" {
		t.Errorf("%+v, %v", seen["again"], err)
	}
	if len(n.replica.Hub.Jobs) != 0 {
		t.Errorf("waiters are left: %v", n.replica.Hub.Jobs)
	}
}
