package cluster

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestJobs_changeAndRetry changes and retries a job through one node after another, with its records flushed in
// between: each returns everything about it.
func TestJobs_changeAndRetry(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	first := specs("j", 1)
	id := first[0].ID
	s, err := b.follower().Submit(within(t, ample), first)
	if err != nil || s[0].Err != nil {
		t.Fatal(s, err)
	}
	submitted, _, err := b.leader().Job(within(t, ample), id, peer.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	urgent := int32(0)
	change := rota.JobChange{ID: id, Priority: &urgent, Labels: map[string]string{"a": "b"}}
	o, err := b.follower().ChangeJob(within(t, ample), change)
	if err != nil || o.State != rota.JobQueued {
		t.Fatalf("%+v, %v", o, err)
	}
	if _, err := b.leader().ChangeJob(within(t, ample), change); err != nil {
		t.Fatalf("a change to the current values: %v", err)
	}
	for i, node := range b.ids() {
		n := b.node(node)
		if out, err := n.Cancel(within(t, ample), []rota.JobID{id}); err != nil || out[0].Err != nil {
			t.Fatalf("%+v, %v", out, err)
		}
		for _, other := range b.ids() {
			b.complete(other)
		}
		if _, err := n.ChangeJob(within(t, ample), change); rota.KindOf(err) != rota.KindConflict {
			t.Fatalf("a job that has ended: %v", err)
		}
		for range 2 { // twice counts once
			if out, err := n.Retry(within(t, ample), retriesOf(id)); err != nil || out[0].Err != nil {
				t.Fatalf("%+v, %v", out, err)
			}
		}
		for _, other := range b.ids() {
			job, _, err := b.node(other).Job(within(t, ample), id, peer.ReadOptions{})
			if err != nil || int(job.Life) != i+1 || job.Submitted != submitted.Submitted ||
				job.Retried.IsZero() || job.Priority != 0 || job.Labels["a"] != "b" {
				t.Fatalf("%s: %+v, %v", other, job, err)
			}
		}
		again, err := n.Submit(within(t, ample), first)
		if err != nil || !again[0].Existed {
			t.Fatalf("%+v, %v", again, err)
		}
	}
	if _, err := b.follower().ChangeJob(within(t, ample), rota.JobChange{ID: "nobody",
		Priority: &urgent}); rota.KindOf(err) != rota.KindNotFound {
		t.Fatal(err)
	}
	b.sound()
}

// TestJobs_aRepetitionNamesItsLife: a retry and a change whose answers were lost are repeated after the job has
// progressed: neither takes effect twice, and both return the current state.
func TestJobs_aRepetitionNamesItsLife(t *testing.T) {
	t.Parallel()
	n := startBench(t, 1).leader()
	submitAll(t, n, specs("j", 1))
	id, fee, zero := rota.JobID("j-00000"), int64(7), int32(0)
	change := rota.JobChange{ID: id, Fee: &fee, Life: &zero, Changes: &zero}
	other := rota.JobChange{ID: id, Labels: map[string]string{"a": "b"}}
	for range 2 { // the second is already known
		if _, err := n.ChangeJob(within(t, ample), change); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.ChangeJob(within(t, ample), other); err != nil {
		t.Fatal(err)
	}
	if _, err := n.ChangeJob(within(t, ample), change); rota.KindOf(err) != rota.KindStale {
		t.Fatalf("a change repeated over another one: %v", err)
	}
	for range 2 {
		if out, err := n.Cancel(within(t, ample), []rota.JobID{id}); err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
		if out, err := n.Retry(within(t, ample), retriesOf(id)); err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
	}
	first := []rota.JobRetry{{ID: id, Life: 0}}
	if out, err := n.Retry(within(t, ample), first); err != nil || rota.KindOf(out[0].Err) != rota.KindStale {
		t.Fatalf("a retry repeated two lives later: %+v, %v", out, err)
	}
	if out, err := n.Cancel(within(t, ample), []rota.JobID{id}); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	if out, err := n.Retry(within(t, ample), first); err != nil || rota.KindOf(out[0].Err) != rota.KindStale {
		t.Fatalf("a retry repeated after another death: %+v, %v", out, err)
	}
	if job, _, err := n.Job(within(t, ample), id, peer.ReadOptions{}); err != nil || job.State != rota.JobCancelled ||
		job.Life != 2 {
		t.Fatalf("%+v, %v", job, err)
	}
}

// retriesOf returns retries of the jobs in whichever life they are found.
func retriesOf(ids ...rota.JobID) []rota.JobRetry {
	retries := make([]rota.JobRetry, len(ids))
	for i, id := range ids {
		retries[i] = rota.JobRetry{ID: id, Life: rota.AnyLife}
	}
	return retries
}
